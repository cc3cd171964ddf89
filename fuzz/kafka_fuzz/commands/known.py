"""`kafkaproof fuzz known`: finds accepted as no news, with the reason."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from kafka_conformance.cli import DISAGREEMENTS, OK
from kafka_conformance.commands.saying import say_json
from kafka_conformance.hostile import printable
from kafka_fuzz.campaign.corpus_known import shown_in
from kafka_fuzz.campaign.known import FILE, PACKAGED, Known, News, read_list
from kafka_fuzz.campaign.sung import gone_in
from kafka_fuzz.commands.options import campaign_option
from kafka_fuzz.finds import put
from kafka_fuzz.triage import accepting
from kafka_fuzz.triage.draft import title
from kafka_fuzz.triage.folding import Folded, named, read

MOST_SHOWN: Final = 20


@click.command("known")
@click.argument("names", nargs=-1, metavar="[FIND]…")
@campaign_option("The campaign, after triage.")
@click.option("--all", "every", is_flag=True, help="Every find that is open, and in no list.")
@click.option("--reason", metavar="TEXT", help="Why they are accepted: an issue's address, or a sentence.")
@click.option("--drop-gone", is_flag=True, help="Take out entries whose canary showed nothing at the last campaign.")
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="The list.  [default: DIR/known.toml]")
@click.option("--check", is_flag=True, help="Write nothing; fail if the list lacks a find, or is not as it is written.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def known(
    names: tuple[str, ...], directory: Path, every: bool, reason: str | None, drop_gone: bool, file: Path | None,
    check: bool, as_json: bool,
) -> NoReturn:  # fmt: skip
    """Accept FIND as known: the next campaign says only what is new, and steps over what is dear.

    FIND is the name of a find that triage wrote, or its first characters.  Each becomes an entry of the list with
    its keys, the reason, and its smallest input as a canary, which tells the day that the find is gone.  What cases
    of the corpus show is known without an entry.  The same finds give the same file.

    Exit codes: 0 it is written, or nothing lacks; 1 --check: finds lack, or the file would change; 2 usage.
    """
    path = file or directory / FILE
    try:
        old = accepting.listed(path)
        finds = read(directory)
        lacking = accepting.open_finds(finds, News((*read_list(PACKAGED), *old), shown_in(directory)))
        if check:
            _checked(path, old, lacking, as_json)
        chosen = lacking if every else [named(name, finds) for name in names]
        if chosen and not reason:
            raise click.UsageError("--reason says why they are accepted")
        if not chosen and not drop_gone and not every:
            raise click.UsageError("name finds, or say --all")
        kept = [each for each in old if not (drop_gone and each.id in gone_in(directory))]
        new = accepting.merged(kept, [accepting.accepted(find, reason or "", directory) for find in chosen])
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    put(path, accepting.text_of(new).encode())
    _said(path, old, new, as_json)
    sys.exit(OK)


def _checked(path: Path, old: list[Known], lacking: list[Folded], as_json: bool) -> NoReturn:
    same = not path.exists() or path.read_text(encoding="utf-8") == accepting.text_of(accepting.merged(old, ()))
    if as_json:
        say_json({"file": str(path), "as_written": same, "lacking": [find.name for find in lacking]})
    else:
        for find in lacking[:MOST_SHOWN]:
            click.echo(printable(f"  {find.name}  {find.severity:16} {title(find)}", 180))
        written = "" if same else "; the file is not as it is written"
        click.echo(f"{len(lacking)} finds lack in {path}{written}")
    sys.exit(OK if same and not lacking else DISAGREEMENTS)


def _said(path: Path, old: list[Known], new: list[Known], as_json: bool) -> None:
    before, now = {each.id for each in old}, {each.id for each in new}
    if as_json:
        say_json(
            {"file": str(path), "entries": len(new), "added": sorted(now - before), "dropped": sorted(before - now)}
        )
    else:
        click.echo(f"{len(now - before)} added, {len(before - now)} dropped, {len(new)} entries in {path}")
