"""`kafkaproof fuzz corpus`, `known` and `recall`: findings that are already known."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn

import click

from kafka_conformance.sanitize import printable
from kafka_conformance.testees.connection import BadConnect, CannotRun
from kafka_fuzz.campaign.known_findings import (
    CORPUS_FILE,
    KNOWN_FILE,
    PACKAGED_CORPUS,
    PACKAGED_KNOWN,
    AlreadyKnown,
    KnownFinding,
    corpus_results,
    gone_ids,
    own_known_list,
    read_corpus_results,
    read_known_list,
    write_corpus_results,
)
from kafka_fuzz.campaign.plan import ready_testees
from kafka_fuzz.campaign.recall import (
    Recall,
    campaign_testees,
    lenient,
    measure_recall,
    run_corpus,
)
from kafka_fuzz.findings import read_findings, write_atomically
from kafka_fuzz.triage import accept
from kafka_fuzz.triage.causes import CauseIndex, CauseRecall, kept_index, measure_cause_recall, rows_that_ran
from kafka_fuzz.triage.deduplicate import TriagedFinding, finding_named, gathered, read_triage
from kafka_fuzz.triage.draft import title
from kafka_fuzz.triage.run import finding_heading, with_stops
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, OK, need_own_sources, say_json
from kafkaproof.commands.fuzz.run import campaign_option, results_option


@click.command("corpus")
@click.argument("testees", nargs=-1, metavar="[TESTEE]…")
@click.option("--dir", "directory", type=click.Path(path_type=Path), metavar="DIR", help="Write for one campaign.")
@click.option("--check", is_flag=True, help="Write nothing; fail if the file says something else.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def corpus_command(testees: tuple[str, ...], directory: Path | None, check: bool, as_json: bool) -> NoReturn:
    """Run the decode cases of the corpus on each TESTEE, and record the findings.

    Without names, all known testees that can run here.  Writes the list that comes with the package, or with --dir
    that of a campaign, as for a codec of one's own.  Its findings are already known in a differential campaign of the
    same version.  Inputs whose cause crashed a testee several times are sampled, so that a list may vary with timing.

    Exit codes: 0 it is written, 1 --check: it differs, 2 usage, 3 no testee can run.
    """
    path = PACKAGED_CORPUS if directory is None else directory / CORPUS_FILE
    if directory is None and not check:
        need_own_sources("kafkaproof fuzz corpus", "--dir DIR writes the list of a campaign")
    try:
        shown = run_corpus(testees or list(ready_testees()), lambda line: click.echo(printable(line, 300), err=True))
    except (BadConnect, ValueError) as error:
        raise click.UsageError(str(error)) from error
    except CannotRun as error:
        click.echo(str(error), err=True)
        sys.exit(CANNOT_RUN)
    old = read_corpus_results(path)
    changed = sorted(name for name, each in shown.items() if old.get(name) != each)
    if not check:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_corpus_results(path, shown)
    if as_json:
        say_json(
            {"file": str(path), "changed": changed, "keys": {name: len(each.keys) for name, each in shown.items()}}
        )
    else:
        for name, each in shown.items():
            mark = "changed" if name in changed else "the same"
            click.echo(printable(f"  {name:22} {each.version:40} {len(each.keys):4} keys, {mark}", 160))
        click.echo(str(path))
    sys.exit(DISAGREEMENTS if check and changed else OK)


MOST_SHOWN: Final = 20


@click.command("known")
@click.argument("names", nargs=-1, metavar="[FINDING]…")
@campaign_option("The campaign, after triage.")
@click.option("--all", "every", is_flag=True, help="All open findings that are in no list.")
@click.option("--reason", metavar="TEXT", help="Why they are accepted: an issue's address, or a sentence.")
@click.option("--drop-gone", is_flag=True, help="Remove entries whose last replay no longer shows the finding.")
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="The list.  [default: DIR/known.toml]")
@click.option(
    "--check", is_flag=True, help="Write nothing; fail if the list lacks a finding, or is not in the written form."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def known(
    names: tuple[str, ...], directory: Path, every: bool, reason: str | None, drop_gone: bool, file: Path | None,
    check: bool, as_json: bool,
) -> NoReturn:  # fmt: skip
    """Accept FINDING as known: the next campaign reports only new findings, and skips expensive known ones.

    FINDING is the name of a finding that triage wrote, or its first characters.  Each becomes an entry of the list with
    its keys, the reason, and its smallest input, which each campaign replays to see when the finding is gone.
    Findings that cases of the corpus show are known without an entry.  The same findings give the same file.

    Exit codes: 0 it is written, or nothing is missing; 1 --check: findings are missing, or the file would change;
    2 usage.
    """
    path = file or directory / KNOWN_FILE
    try:
        old = own_known_list(path)
        findings = read_triage(directory)
        lacking = accept.open_findings(
            findings, AlreadyKnown((*read_known_list(PACKAGED_KNOWN), *old), corpus_results(directory))
        )
        if check:
            _checked(path, old, lacking, as_json)
        chosen = lacking if every else [finding_named(name, findings) for name in names]
        if chosen and not reason:
            raise click.UsageError("--reason says why they are accepted")
        if not chosen and not drop_gone and not every:
            raise click.UsageError("name findings, or use --all")
        kept = [each for each in old if not (drop_gone and each.id in gone_ids(directory))]
        new = accept.merged_entries(
            kept, [accept.accepted_entry(finding, reason or "", directory) for finding in chosen]
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    write_atomically(path, accept.known_list_file(new).encode())
    _said(path, old, new, as_json)
    sys.exit(OK)


def _checked(path: Path, old: list[KnownFinding], lacking: list[TriagedFinding], as_json: bool) -> NoReturn:
    same = not path.exists() or path.read_text(encoding="utf-8") == accept.known_list_file(
        accept.merged_entries(old, ())
    )
    if as_json:
        say_json({"file": str(path), "as_written": same, "lacking": [finding.name for finding in lacking]})
    else:
        for finding in lacking[:MOST_SHOWN]:
            click.echo(printable(f"  {finding.name}  {finding.severity:16} {title(finding)}", 180))
        written = "" if same else "; the file is not as it is written"
        click.echo(f"{len(lacking)} findings are missing in {path}{written}")
    sys.exit(OK if same and not lacking else DISAGREEMENTS)


def _said(path: Path, old: list[KnownFinding], new: list[KnownFinding], as_json: bool) -> None:
    before, now = {each.id for each in old}, {each.id for each in new}
    if as_json:
        say_json(
            {"file": str(path), "entries": len(new), "added": sorted(now - before), "dropped": sorted(before - now)}
        )
    else:
        click.echo(f"{len(now - before)} added, {len(before - now)} dropped, {len(new)} entries in {path}")


@click.command()
@campaign_option("The campaign, best one that was run with --blind.")
@click.option("--missed", is_flag=True, help="Name what it has not found, each with a case that shows it.")
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def recall(directory: Path, missed: bool, results: Path | None, as_json: bool) -> NoReturn:
    """Measure the share of reviewed causes, and of corpus findings, that a campaign rediscovers.

    A known cause is a reviewed one that a case shows in the kept results; causes are counted for each library. The
    share of findings, by key, is printed for each testee below; it is higher, since one cause has many keys.

    After `fuzz run --blind`, which leaves the cases out, that is what may be expected of a campaign's mutators where
    there is no case.  Of a campaign that ran the cases, too, it says little.

    Exit codes: 0 it is printed, 2 usage, 3 the campaign ran no testee that has corpus results.
    """
    try:
        shown = corpus_results(directory)
        findings = list(read_findings(directory))
        found = measure_recall(findings, shown, lenient(), campaign_testees(directory, shown))
        index = kept_index(results) if results is not None else CauseIndex()
        headings = [finding_heading(index, each, coarse=False) for each in with_stops(gathered([directory])).values()]
        causes = measure_cause_recall(headings, index, rows_that_ran(directory, findings))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        by_cause = {"libraries": causes, "known": sum(each.known for each in causes)}
        by_cause["found"] = sum(each.found for each in causes)
        shown_keys = {"shown": sum(each.shown for each in found), "found": sum(each.found for each in found)}
        say_json({"causes": by_cause, "testees": found} | shown_keys)
    else:
        lines = [*cause_lines(causes, missed=missed), *recall_lines(found, missed=missed)]
        click.echo("\n".join(printable(line, 300) for line in lines))
    sys.exit(OK if found or causes else CANNOT_RUN)


def cause_lines(found: Sequence[CauseRecall], *, missed: bool) -> Iterator[str]:
    """A line for each library, with *missed* the causes it lacks, and the sum; nothing without kept results."""
    for each in found:
        yield f"{each.library:22} {each.found:4} of {each.known:4} causes, and {each.beyond:4} that no review knows"
        if missed:
            yield from (f"    {id_}  {case}" for id_, case in each.missed.items())
    known, have = sum(each.known for each in found), sum(each.found for each in found)
    if known:
        yield f"{'by cause':22} {have:4} of {known:4}: {have / known:.0%}"


def recall_lines(found: Sequence[Recall], *, missed: bool) -> list[str]:
    """A line for each testee, with *missed* the findings it lacks, and the sum."""
    rows = []
    for each in found:
        rows.append(f"{each.testee:22} {each.found:4} of {each.shown:4}, and {each.beyond:4} that no case shows")
        rows += [f"    {key}  {case}" for key, case in each.missed.items() if missed]
    shown, have = sum(each.shown for each in found), sum(each.found for each in found)
    share = f"{have / shown:.0%}" if shown else "no testee ran"
    return [*rows, f"{'all':22} {have:4} of {shown:4}: {share}"]
