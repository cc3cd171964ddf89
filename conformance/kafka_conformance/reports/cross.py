"""A cross run as a page, as Markdown, as JSON and as a table on a terminal.

The page is one file that loads nothing: the matrix with a link from each cell
to what failed in it, the faults of each testee, and a page for each batch that
failed, with every byte that was written explained.  What is about batches is
in it as compressed JSON (`cross_batches`); all else is there without a script.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec
from markupsafe import Markup
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafka_conformance.cross.results import (
    BROKER,
    FILE,
    WROTE,
    CrossHeader,
    CrossResults,
    Matrix,
    MatrixCell,
    MatrixFinding,
    Through,
    WrittenLine,
    cross_matrix,
    matrix_document,
    matrix_findings,
    read_cross_results,
)
from kafka_conformance.judge.verdict import OUTCOMES, SEVERITIES, SHORT, outcome_rank
from kafka_conformance.reports import asset, page_environment, policy_hash
from kafka_conformance.reports.byte_rows import explained
from kafka_conformance.reports.collection import cases_by_id
from kafka_conformance.reports.details import request_details
from kafka_conformance.reports.formats import code
from kafka_conformance.reports.html import packed_json, words
from kafka_conformance.reports.terminal import STYLES, trimmed
from kafka_conformance.runner.keeping import WouldReplace
from kafka_conformance.sanitize import indented_json, printable

CHUNK: Final = 20
MOST_WHY: Final = 300
MOST_REASONS: Final = 3
# There are hundreds of byte strings; what is wrong with one stands in its first records, or all of it is alike.
MOST_BYTES: Final = 4096

# A batch in a cell: where, and what came of it.
Passage = tuple[MatrixCell, Through]


def failing(made: Matrix) -> dict[str, list[Passage]]:
    """The batches that failed somewhere, in the order in which they were sent, each with where, worst first."""
    found: dict[str, list[Passage]] = defaultdict(list)
    for cell in made.cells.values():
        for each in cell.failures:
            found[each.batch].append((cell, each))
    order = {batch: at for at, batch in enumerate(made.header.batches)}
    for passages in found.values():
        passages.sort(key=lambda passage: outcome_rank(passage[1].judged.outcome))
    return dict(sorted(found.items(), key=lambda pair: order.get(pair[0], len(order))))


def case_index(made: Matrix, found: Mapping[str, Sequence[Passage]]) -> str:
    """The data of the list, packed; batches are in the order of the chunks."""
    listed = [_listed(made, batch, passages) for batch, passages in found.items()]
    columns = {column: printable(made.label(column)) for column in made.columns}
    return packed_json({"chunk": CHUNK, "outcomes": OUTCOMES, "labels": columns, "wrote": WROTE, "batches": listed})


def _listed(made: Matrix, batch: str, passages: Sequence[Passage]) -> dict[str, Any]:
    case = cases_by_id().get(batch)
    reasons = dict.fromkeys(printable(each.judged.why, MOST_WHY) for _, each in passages)
    return {
        "id": printable(batch),
        "title": "" if case is None else case.title,
        "rules": [] if case is None else list(case.rules),
        "why": list(reasons)[:MOST_REASONS],
        "passages": [
            [made.producers.index(cell.producer), cell.column, OUTCOMES.index(each.judged.outcome)]
            for cell, each in passages
        ],
    }


def chunks(made: Matrix, found: Mapping[str, Sequence[Passage]]) -> Iterator[str]:
    """The data of the batches' pages, packed in chunks of `CHUNK`."""
    ids = list(found)
    pieces = _pieces(made)
    for start in range(0, len(ids), CHUNK):
        yield packed_json([_detail(made, batch, found[batch], pieces[batch]) for batch in ids[start : start + CHUNK]])


def _pieces(made: Matrix) -> Mapping[str, list[WrittenLine]]:
    found: dict[str, list[WrittenLine]] = defaultdict(list)
    for line in made.written.values():
        if line.sha256:
            found[line.batch].append(line)
    return found


def _detail(made: Matrix, batch: str, passages: Sequence[Passage], written: Sequence[WrittenLine]) -> dict[str, Any]:
    case = cases_by_id().get(batch)
    failed = {each.sha256 for _, each in passages}
    return {
        "id": printable(batch),
        "question": [] if case is None else list(request_details(case)),
        "passages": [_passage(made, *passage) for passage in passages],
        "written": list(_bytes([line for line in written if line.sha256 in failed])),
    }


def _passage(made: Matrix, cell: MatrixCell, each: Through) -> dict[str, Any]:
    where = {WROTE: "wrote it", BROKER: f"to {made.label(BROKER)}"}.get(cell.column, f"to {made.label(cell.column)}")
    return {
        "where": printable(f"{cell.producer} {where}"),
        "outcome": each.judged.outcome,
        "whose": each.judged.blame,
        "why": printable(each.judged.why, MOST_WHY),
        "sha256": each.sha256,
    }


def _bytes(written: Sequence[WrittenLine]) -> Iterator[dict[str, Any]]:
    """Each byte string once, with all who wrote it; those without a failure are correct."""
    writers: dict[str, list[WrittenLine]] = defaultdict(list)
    for line in written:
        writers[line.sha256].append(line)
    for sha256, lines in writers.items():
        names = ", ".join(printable(line.producer, 60) for line in lines)
        yield explained(f"Written by {names}", lines[0].data, MOST_BYTES) | {"sha256": sha256}


FORMATS: Final = ("html", "markdown", "json")
STEM: Final = "cross"
MOST_FAULTS: Final = 200
MOST_IN_A_CELL: Final = 60
MOST_TEXT: Final = 4000


@dataclass(frozen=True, slots=True)
class Shown:
    """Failures of a cell that are alike: the first, and the batches of all."""

    first: Through
    batches: tuple[str, ...]


def write_cross(results: CrossResults, folder: Path, formats: Sequence[str] = FORMATS, stem: str = STEM) -> list[Path]:
    """Write *results* into *folder* in some of `FORMATS`, as *stem* and an ending."""
    made = cross_matrix(results)
    files: dict[str, bytes] = {}
    if "html" in formats:
        files[f"{stem}.html"] = cross_page(made).encode()
    if "markdown" in formats:
        files[f"{stem}.md"] = cross_summary(made).encode()
    if "json" in formats:
        files[f"{stem}.json"] = indented_json(matrix_document(made, results))
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in files]


def cross_page(made: Matrix) -> str:
    """The page."""
    script = asset("shared.js") + asset("cross.js")
    style = asset("page.css") + asset("cross.css")
    found, batches = matrix_findings(made), failing(made)
    return page_environment().overlay(finalize=_harmless).get_template("cross.html").render(
        made=made,
        header=made.header,
        rows=[(producer, made.row(producer)) for producer in made.producers],
        failing=[cell for cell in made.cells.values() if cell.failures or cell.undone],
        faults=found[:MOST_FAULTS],
        more_faults=max(0, len(found) - MOST_FAULTS),
        batches=batches,
        index=Markup(case_index(made, batches)),
        chunks=[Markup(chunk) for chunk in chunks(made, batches)],
        there=[outcome for outcome in OUTCOMES if any(outcome in cell.counts for cell in made.cells.values())],
        severities=SEVERITIES,
        short=SHORT,
        words=words,
        anchor=lambda cell: f"c-{made.producers.index(cell.producer)}-{made.columns.index(cell.column)}",
        text=_text,
        spoken=lambda cell: _spoken(made, cell),
        alike=alike_writers,
        heading=lambda cell: _heading(made, cell),
        tame=lambda text: printable(str(text), MOST_WHY),
        version=lambda name: printable(str(made.about(name).get("version", "")), 40),
        through=_failure_text,
        wrote=WROTE,
        broker=BROKER,
        script=Markup(script),
        style=Markup(style),
        script_hash=policy_hash(script),
        style_hash=policy_hash(style),
    )  # fmt: skip


def _harmless(value: Any) -> Any:
    """Text without control characters; the page's own script and style are unchanged."""
    return printable(value, MOST_TEXT) if isinstance(value, str) and not isinstance(value, Markup) else value


def _text(cell: MatrixCell) -> str:
    """The text of a cell: two letters and a number of batches, or a mark."""
    if cell.worst is None:
        return ""
    if cell.failures:
        return f"{SHORT[cell.worst]} {cell.counts[cell.worst]:,}"
    agreed = cell.counts.get("agree", 0)
    return SHORT["agree"] if agreed else SHORT["skipped"]


def _spoken(made: Matrix, cell: MatrixCell) -> str:
    text = ", ".join(f"{count:,} {words(outcome)}" for outcome, count in cell.counts.items()) or "nothing"
    blames = ", ".join(f"{count:,} by the {blame}" for blame, count in cell.blames.items() if blame != "both")
    return f"{_heading(made, cell)}: {text}" + (f"; {blames}" if blames else "")


def _heading(made: Matrix, cell: MatrixCell) -> str:
    if cell.column == WROTE:
        return f"{cell.producer} writes"
    return f"{cell.producer} to {made.label(cell.column)}"


def _failure_text(fault: MatrixFinding) -> str:
    return f"{fault.batches:,} batches" if fault.batches > 1 else "1 batch"


def alike_writers(cell: MatrixCell) -> list[Shown]:
    """The failures of a cell, those that look the same together, worst first."""
    groups: dict[tuple[str, str, str], list[Through]] = {}
    for each in cell.failures:
        judged = each.judged
        shape = "".join(sign for sign in judged.field or judged.why[:40] if not sign.isdigit())
        groups.setdefault((judged.outcome, judged.blame, shape), []).append(each)
    shown = [Shown(group[0], tuple(each.batch for each in group)) for group in groups.values()]
    return shown[:MOST_IN_A_CELL]


def cross_summary(made: Matrix) -> str:
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
    for each in matrix_findings(made)[:40]:
        judged = each.judged
        fields = (words(judged.outcome), code(each.testee), code(each.batch), str(each.batches), code(judged.why))
        lines.append(f"| {' | '.join(fields)} |")
    return "\n".join(lines) + "\n"


def write_cross_files(paths: Sequence[Path], folder: Path) -> list[Path]:
    """Write the cross runs in *paths* into *folder*, in all formats.

    Raises:
        Unusable: one of them is no such run.
        WouldReplace: *folder* has pages about more testees or batches.
    """
    runs = {f"{STEM}-{at}" if at > 1 else STEM: read_cross_results(path) for at, path in enumerate(paths, 1)}
    for stem, run in runs.items():
        _check_covers(folder / f"{stem}.json", run.header)
    return list(chain.from_iterable(write_cross(run, folder, stem=stem) for stem, run in runs.items()))


def _check_covers(path: Path, new: CrossHeader) -> None:
    """Raise `WouldReplace` if the document in *path* is about more testees or batches than *new*."""
    try:
        old = msgspec.json.decode(path.read_bytes(), type=_Shown)
    except (OSError, msgspec.DecodeError):
        return  # there is none
    if len(new.testees) < len(old.testees) or len(new.batches) < old.batches:
        raise WouldReplace(
            f"{printable(str(path), 500)} is about {len(old.testees)} testees and {old.batches:,} batches, and one "
            f"about {len(new.testees)} and {len(new.batches):,} would replace it; --out names another directory"
        )


class _Shown(msgspec.Struct):
    """The size of a run, as `matrix_document` has it."""

    testees: list[dict[str, Any]]
    batches: int


def cross_files(paths: Sequence[Path]) -> list[Path]:
    """The results of cross runs among *paths*: files, or in a directory and one level below."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += [each for each in (path / FILE, *sorted(path.glob(f"*/{FILE}"))) if each.is_file()]
        elif path.name == FILE:
            found.append(path)
    return list(dict.fromkeys(found))


MOST_FAULTS_IN_TABLE: Final = 25


def show_cross(made: Matrix, on: Console, path: Path) -> None:
    """Print *made*, whose result file is *path*."""
    with trimmed(on):
        _show(made, on, path)


def _show(made: Matrix, on: Console, path: Path) -> None:
    header = made.header
    way = f", through Kafka {header.broker}" if header.read == "stored" else ""
    about = f"{len(header.batches):,} batches, {len(made.producers)} producers{way}  ·  corpus {header.corpus[:12]}"
    on.print(Text("cross matrix", style="bold").append(f"  {about}", style="dim not bold"))
    on.print(_table(made, on))
    on.print(Text(_legend(made), style="dim"))
    for name, why in header.absent.items():
        on.print(Text(f"not here         {name}: {printable(why)}", style="yellow"), soft_wrap=True)
    _show_faults(made, on)
    on.print()
    if not made.complete:
        on.print(Text("incomplete       kafkaproof cross … --resume goes on with it", style="bold red"))
    on.print(Text(f"full result      {path}"), soft_wrap=True)


def _table(made: Matrix, on: Console) -> Table:
    table = Table(box=box.SIMPLE_HEAD if on.is_terminal else None, pad_edge=False)
    table.add_column("writes \\ reads", no_wrap=True)
    for column in made.columns:
        heading = made.label(column)
        # One word below the other keeps columns narrow, but plain lines plain.
        wrapped = heading.replace("-", "-\n").replace(" ", "\n") if on.is_terminal else heading
        table.add_column(wrapped, justify="right", vertical="bottom", no_wrap=True)
    for producer in made.producers:
        table.add_row(producer, *map(_cell, made.row(producer)))
    return table


def _cell(cell: MatrixCell) -> Text:
    worst = cell.worst
    if worst is None:
        return Text("·", style="dim")
    if cell.failures:
        return Text(f"{SHORT[worst]} {cell.counts[worst]:,}", style=STYLES[worst])
    agreed = cell.counts.get("agree", 0)
    if cell.column == WROTE or not agreed:
        return Text(f"{agreed:,}" if agreed else SHORT["skipped"], style=STYLES["agree" if agreed else "skipped"])
    return Text(SHORT["agree"], style=STYLES["agree"])


def _legend(made: Matrix) -> str:
    there = {outcome for cell in made.cells.values() for outcome in cell.counts if outcome in SEVERITIES}
    text = ", ".join(f"{SHORT[outcome]} {outcome}" for outcome in OUTCOMES if outcome in there)
    return f"a cell has the worst outcome, and in how many batches it was: {text}" if text else "nothing failed"


def _show_faults(made: Matrix, on: Console) -> None:
    found = matrix_findings(made)
    if not found:
        return
    on.print()
    on.print(Text(f"{len(found):,} faults by the reference's reading, worst first", style="bold"))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 2))
    for name in ("severity", "testee", "where"):
        table.add_column(name, no_wrap=True)
    table.add_column("what differed", overflow="fold")
    for each in found[:MOST_FAULTS_IN_TABLE]:
        more = f"  {each.batches:,} batches" if each.batches > 1 else ""
        why = Text(printable(each.judged.why)).append(more, style="dim")
        severity = Text(each.judged.outcome, style=STYLES[each.judged.outcome])
        table.add_row(severity, Text(each.testee), Text(printable(each.batch)), why)
    on.print(table)
    if len(found) > MOST_FAULTS_IN_TABLE:
        on.print(Text(f"  and {len(found) - MOST_FAULTS_IN_TABLE:,} more in the page", style="dim"))
