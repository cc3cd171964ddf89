"""A cross run as a page, as Markdown and as JSON.

The page is one file that loads nothing: the matrix with a link from each cell
to what failed in it, the faults of each testee, and a page for each batch that
failed, with every byte that was written explained.  What is about batches is
in it as compressed JSON (`cross_batches`); all else is there without a script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from kafka_conformance.cross.matrix import BROKER, WROTE, Cell, Fault, Matrix, Through, document, faults, matrix
from kafka_conformance.cross.results import FILE, Results, read
from kafka_conformance.hostile import printable
from kafka_conformance.indented import indented
from kafka_conformance.judge import OUTCOMES, SEVERITIES
from kafka_conformance.reporting.cross_batches import chunks, failing, index
from kafka_conformance.reporting.html import asset, environment, policy_hash, words
from kafka_conformance.reporting.markdown import code
from kafka_conformance.severity import SHORT

FORMATS: Final = ("html", "markdown", "json")
STEM: Final = "cross"
MOST_FAULTS: Final = 200
MOST_IN_A_CELL: Final = 60
MOST_WHY: Final = 300
MOST_TEXT: Final = 4000


@dataclass(frozen=True, slots=True)
class Shown:
    """Failures of a cell that are alike: the first, and the batches of all."""

    first: Through
    batches: tuple[str, ...]


def write(results: Results, folder: Path, formats: Sequence[str] = FORMATS, stem: str = STEM) -> list[Path]:
    """Write *results* into *folder* in some of `FORMATS`, as *stem* and an ending."""
    made = matrix(results)
    files: dict[str, bytes] = {}
    if "html" in formats:
        files[f"{stem}.html"] = page(made).encode()
    if "markdown" in formats:
        files[f"{stem}.md"] = summary(made).encode()
    if "json" in formats:
        files[f"{stem}.json"] = indented(document(made, results))
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in files]


def page(made: Matrix) -> str:
    """The page."""
    script = asset("shared.js") + asset("cross.js")
    style = asset("page.css") + asset("cross.css")
    found, batches = faults(made), failing(made)
    return environment().overlay(finalize=_harmless).get_template("cross.html").render(
        made=made,
        header=made.header,
        rows=[(producer, made.row(producer)) for producer in made.producers],
        failing=[cell for cell in made.cells.values() if cell.failures or cell.undone],
        faults=found[:MOST_FAULTS],
        more_faults=max(0, len(found) - MOST_FAULTS),
        batches=batches,
        index=Markup(index(made, batches)),
        chunks=[Markup(chunk) for chunk in chunks(made, batches)],
        there=[outcome for outcome in OUTCOMES if any(outcome in cell.counts for cell in made.cells.values())],
        severities=SEVERITIES,
        short=SHORT,
        words=words,
        anchor=lambda cell: f"c-{made.producers.index(cell.producer)}-{made.columns.index(cell.column)}",
        text=_text,
        spoken=lambda cell: _spoken(made, cell),
        alike=alike,
        heading=lambda cell: _heading(made, cell),
        tame=lambda text: printable(str(text), MOST_WHY),
        version=lambda name: printable(str(made.about(name).get("version", "")), 40),
        told=_told,
        wrote=WROTE,
        broker=BROKER,
        script=Markup(script),
        style=Markup(style),
        script_hash=policy_hash(script),
        style_hash=policy_hash(style),
    )  # fmt: skip


def _harmless(value: Any) -> Any:
    """Text without control characters, whoever it is from; our own script and style as they are."""
    return printable(value, MOST_TEXT) if isinstance(value, str) and not isinstance(value, Markup) else value


def _text(cell: Cell) -> str:
    """What stands in a cell: two letters and how many batches that happened to, or a mark."""
    if cell.worst is None:
        return ""
    if cell.failures:
        return f"{SHORT[cell.worst]} {cell.counts[cell.worst]:,}"
    agreed = cell.counts.get("agree", 0)
    return SHORT["agree"] if agreed else SHORT["skipped"]


def _spoken(made: Matrix, cell: Cell) -> str:
    told = ", ".join(f"{count:,} {words(outcome)}" for outcome, count in cell.counts.items()) or "nothing"
    blames = ", ".join(f"{count:,} by the {blame}" for blame, count in cell.blames.items() if blame != "both")
    return f"{_heading(made, cell)}: {told}" + (f"; {blames}" if blames else "")


def _heading(made: Matrix, cell: Cell) -> str:
    if cell.column == WROTE:
        return f"{cell.producer} writes"
    return f"{cell.producer} to {made.label(cell.column)}"


def _told(fault: Fault) -> str:
    return f"{fault.batches:,} batches" if fault.batches > 1 else "1 batch"


def alike(cell: Cell) -> list[Shown]:
    """The failures of a cell, those that look the same together, worst first."""
    groups: dict[tuple[str, str, str], list[Through]] = {}
    for each in cell.failures:
        judged = each.judged
        shape = "".join(sign for sign in judged.field or judged.why[:40] if not sign.isdigit())
        groups.setdefault((judged.outcome, judged.blame, shape), []).append(each)
    shown = [Shown(group[0], tuple(each.batch for each in group)) for group in groups.values()]
    return shown[:MOST_IN_A_CELL]


def summary(made: Matrix) -> str:
    """The matrix in Markdown."""
    header = made.header
    way = f", read back from Kafka {header.broker}" if header.read == "stored" else ""
    lines = ["## Producer by consumer", "", f"{len(header.batches):,} batches{way}; corpus {code(header.corpus[:12])}."]
    lines += ["", "| writes \\ reads | " + " | ".join(code(made.label(column)) for column in made.columns) + " |"]
    lines.append("|---|" + "--:|" * len(made.columns))
    for producer in made.producers:
        cells = " | ".join(_text(cell) or "·" for cell in made.row(producer))
        lines.append(f"| {code(producer)} | {cells} |")
    letters = ", ".join(f"{SHORT[outcome]} {words(outcome)}" for outcome in SEVERITIES)
    lines += ["", f"A cell has the worst outcome, and in how many batches it was: {letters}.", ""]
    lines += ["| severity | testee | case | batches | what differed |", "|---|---|---|--:|---|"]
    for each in faults(made)[:40]:
        judged = each.judged
        fields = (words(judged.outcome), code(each.testee), code(each.batch), str(each.batches), code(judged.why))
        lines.append(f"| {' | '.join(fields)} |")
    return "\n".join(lines) + "\n"


def write_all(paths: Sequence[Path], folder: Path) -> list[Path]:
    """Write the cross runs in *paths* into *folder*, in all formats.

    Raises:
        Unusable: one of them is no such run.
    """
    runs = [read(path) for path in paths]
    written = (write(each, folder, stem=f"{STEM}-{at}" if at > 1 else STEM) for at, each in enumerate(runs, 1))
    return list(chain.from_iterable(written))


def cross_files(paths: Sequence[Path]) -> list[Path]:
    """The results of cross runs among *paths*: files, or in a directory and one level below."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += [each for each in (path / FILE, *sorted(path.glob(f"*/{FILE}"))) if each.is_file()]
        elif path.name == FILE:
            found.append(path)
    return list(dict.fromkeys(found))
