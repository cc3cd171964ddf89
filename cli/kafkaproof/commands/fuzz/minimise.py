"""`kafkaproof fuzz minimise`: shrink an input while it shows the same."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import click
import msgspec

from kafka_conformance.sanitize import printable
from kafka_fuzz.encode import finding_batch
from kafka_fuzz.executors import NoTarget, open_executor
from kafka_fuzz.findings import (
    FINDING_FILE,
    FINDINGS_FOLDER,
    INPUT_FILE,
    FuzzFinding,
    TargetMode,
    with_current_fields,
    write_atomically,
)
from kafka_fuzz.shrink import Budget, NotShown
from kafka_fuzz.shrink.worker import Done
from kafkaproof.cli import CANNOT_RUN, OK, say_json
from kafkaproof.commands.fuzz.run import campaign_option


@dataclass(frozen=True, slots=True)
class MinimiseInput:
    """An input: its bytes, the file that they are in, and the finding that it shows, if any."""

    data: bytes
    path: Path
    finding: FuzzFinding | None


def given_find(text: str, directory: Path) -> MinimiseInput:
    """The input that *text* names; a usage error where there is none, or more than one."""
    path = Path(text)
    if path.is_file():
        return MinimiseInput(path.read_bytes(), path, None)
    return of_folder(path if (path / FINDING_FILE).is_file() else _named(text, directory))


def of_folder(folder: Path) -> MinimiseInput:
    """The finding in *folder*; a usage error where it cannot be read."""
    try:
        finding = msgspec.json.decode(with_current_fields((folder / FINDING_FILE).read_bytes()), type=FuzzFinding)
        return MinimiseInput((folder / INPUT_FILE).read_bytes(), folder / INPUT_FILE, finding)
    except (OSError, msgspec.MsgspecError) as error:
        raise click.UsageError(f"{folder} holds no finding: {error}") from error


def _named(text: str, directory: Path) -> Path:
    folders = [path for path in sorted((directory / FINDINGS_FOLDER).glob("*")) if path.name.startswith(text) and text]
    if len(folders) != 1:
        many = f"{len(folders)} findings begin with" if folders else "there is no file, and no finding,"
        raise click.UsageError(f"{many} {text!r} in {directory}")
    return folders[0]


MINIMAL = "minimal.bin"


@click.command("minimise")
@click.argument("given", metavar="FILE|FINDING")
@click.option("--target", metavar="T", help="The target; a finding names its own.")
@click.option(
    "--with", "others", multiple=True, metavar="T", help="A testee whose verdict has to stay; may be repeated."
)
@campaign_option("The campaign that holds the findings.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Where it is written.")
@click.option("--seconds", default=60.0, type=click.FloatRange(min=0.1), help="Time limit; 60.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def minimise(
    given: str, target: str | None, others: tuple[str, ...], directory: Path, out: Path | None, seconds: float,
    as_json: bool,
) -> NoReturn:  # fmt: skip
    """Shrink FILE, or the input of FINDING, to the smallest one that shows the same.

    FINDING is the name of a finding below DIR, or its first characters.  T is a target of `fuzz run`, or a testee as
    `certify` takes it.  The reference's verdict stays the same, and so do the verdicts of the testees that --with
    names; for a finding also those of the testees that ran beside its target, if they can run here.  A batch to be
    encoded, as JSON, is shrunk, and testees encode it.

    Exit codes: 0 it is written, 2 usage, 3 the target cannot be run or shows nothing.
    """
    found = given_find(given, directory)
    target_name = target or (found.finding.outcome.target if found.finding else None)
    if target_name is None:
        raise click.UsageError("a file needs --target")
    try:
        with open_executor(target_name, others, mode=target_mode(found, named=bool(target))) as executor:
            done = executor.shrink(
                found.data, budget=Budget(seconds=seconds), co_testees=co_testees(found, target, others)
            )
    except (NoTarget, NotShown) as error:
        click.echo(f"{target_name}: {error}", err=True)
        sys.exit(CANNOT_RUN)
    path = out or _beside(found)
    write_atomically(path, done.data)
    _print_result(done, found.data, path, as_json)
    sys.exit(OK)


def target_mode(found: MinimiseInput, *, named: bool) -> TargetMode:
    """The mode of the target: a batch in JSON is encoded; a target that the user *named* may run in process."""
    try:
        finding_batch(found.data)
    except ValueError:
        return found.finding.mode if found.finding and not named else ""
    return "encode"


def co_testees(found: MinimiseInput, target: str | None, others: tuple[str, ...]) -> list[str]:
    """The testees that ran beside the finding's target; none if the user names another target."""
    if found.finding is None or target is not None:
        return []
    return [name for name in found.finding.names if name not in (found.finding.outcome.target, *others)]


def _beside(found: MinimiseInput) -> Path:
    return found.path.with_name(MINIMAL) if found.finding else found.path.with_name(f"{found.path.name}.min")


def _print_result(done: Done, data: bytes, path: Path, as_json: bool) -> None:
    key = done.outcome.key if done.outcome else ""
    if as_json:
        say_json(
            {"key": key, "from": len(data), "to": len(done.data), "runs": done.runs, "seconds": round(done.seconds, 3),
             "complete": done.complete, "verdicts": done.verdicts, "left_out": done.left_out, "hex": done.data.hex(),
             "file": str(path)}
        )  # fmt: skip
        return
    more = "" if done.complete else "; stopped before it was done (--seconds)"
    click.echo(f"{key}\n{len(data):,} bytes to {len(done.data):,}, {done.runs:,} runs in {done.seconds:.2f} s{more}")
    if done.verdicts:
        click.echo(f"the same verdict of {', '.join(done.verdicts)}")
    for name, why in done.left_out.items():
        click.echo(printable(f"whatever is made of it by {name}: {why}"))
    click.echo(str(path) if done.data.startswith(b"{") else f"{path}: see kafkaproof explain {path}")
