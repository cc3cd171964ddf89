"""`kafkaproof fuzz promote` and `reach`: findings into cases, and their reach."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from kafka_brokers.interface import NoBroker
from kafka_brokers.releases import RELEASES, find_release
from kafka_conformance.sanitize import printable
from kafka_corpus import evidence
from kafka_corpus.cases.found import FOLDER
from kafka_corpus.evidence import clients
from kafka_corpus.vectors import load_vectors, package_root
from kafka_fuzz.findings import FuzzFinding, finding_name, read_findings
from kafka_fuzz.triage import reach as reaching
from kafka_fuzz.triage.deduplicate import finding_named, read_triage
from kafka_fuzz.triage.promote import case_input, cases_of, java_answers, recompile, write_case
from kafkaproof.cli import CANNOT_RUN, OK, need_own_sources, say_json
from kafkaproof.commands.fuzz.run import campaign_option


@click.command()
@click.argument("names", nargs=-1, metavar="[FINDING]...")
@campaign_option("The campaign that holds the findings.")
@click.option("--releases", default=",".join(reaching.RELEASES), show_default=True, help="Of brokers; `all` for all.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def reach(names: tuple[str, ...], directory: Path, releases: str, as_json: bool) -> NoReturn:
    """Measure for each finding whether any producer can store it, or only a hostile broker can send it.

    FINDING is the name of a finding below DIR, or its first characters; all of them without one.  Their inputs are
    produced to a local broker of each release, and fetched back; answers are kept with the finding, in reach.json.
    For findings about encoding the result is that reach does not apply.

    Exit codes: 0 all were measured, 2 usage, 3 a broker could not be started.
    """
    findings = [
        finding for finding in read_findings(directory) if not names or finding_name(finding.key).startswith(names)
    ]
    if names and not findings:
        raise click.UsageError(f"there are no such findings in {directory}")
    found: dict[str, reaching.FindingReach] = {}
    try:
        for release in chosen_releases(releases):
            found = reaching.measure_reach(directory, findings, release)
    except NoBroker as error:
        click.echo(str(error), err=True)
        sys.exit(CANNOT_RUN)
    print_reach(findings, found, as_json=as_json)
    sys.exit(OK)


def chosen_releases(text: str) -> list[str]:
    """The releases in *text*; a usage error for one that is not known."""
    if text == "all":
        return [each.name for each in RELEASES]
    try:
        return [find_release(name.strip()).name for name in text.split(",")]
    except NoBroker as error:
        raise click.UsageError(str(error)) from None


def print_reach(findings: list[FuzzFinding], found: dict[str, reaching.FindingReach], *, as_json: bool) -> None:
    """For people or for programs."""
    if as_json:
        say_json(
            {
                "findings": [
                    {
                        "name": finding_name(finding.key),
                        "key": finding.key,
                        "who": found[finding.key].who,
                        "reach": found[finding.key],
                    }
                    for finding in findings
                ]
            }
        )
        return
    for finding in findings:
        measured = found[finding.key]
        click.echo(printable(f"{finding_name(finding.key)}  {finding.key}", 160))
        click.echo(f"    {measured}")
        for release, tried in measured.releases.items():
            click.echo(printable(f"      {release:9} {tried}", 160))


OPS: Final = ("decode", "encode", "append", "fetch")


@click.command("promote")
@click.argument("names", nargs=-1, required=True, metavar="FINDING…")
@campaign_option("The campaign, after triage.")
@click.option("--cases", default=FOLDER, type=click.Path(path_type=Path), hidden=True)
@click.option("--no-compile", is_flag=True, help="Write the case's file, and nothing else.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def promote_command(names: tuple[str, ...], directory: Path, cases: Path, no_compile: bool, as_json: bool) -> NoReturn:
    """Make each FINDING a case of the corpus, with the answers of others, so that it cannot come back unnoticed.

    FINDING is the name of a finding that triage wrote, or its first characters.  Needs a checkout: the case is a file
    of the area `found`, to be committed with the vectors.  The right answer is the reference's; review it.
    A finding about encoding becomes a case that encodes the same batch.  A finding of a broker becomes a case that
    produces the payload with the same settings, and the broker's answer is right; if earlier payloads, a transaction
    or the clock are part of it, a broker of that release is started here and repeats them.  For a finding of the
    reference, the fault in the input gives the right answer; without a known fault it is refused.

    Exit codes: 0 they are cases now, 2 usage, or one is a case already, or its right answer is unknown.
    """
    if cases == FOLDER:
        need_own_sources("kafkaproof fuzz promote", "the case of each finding is below DIR/triage")
    try:
        found = read_triage(directory)
        files = cases_of([finding_named(name, found) for name in names], _stored_questions(), cases, directory)
        ids = [f"found.{path.stem}" for path in files]
        with write_case(files):
            if not no_compile:
                recompile()
        java = "" if no_compile else _recorded(ids, package_root())
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        say_json({"cases": ids, "java": java})
    else:
        for id_ in ids:
            click.echo(f"{id_}: see kafkaproof corpus show '{id_}'")
        click.echo(f"answers of the Java client {java} recorded" if java else "no answers of others recorded")
    sys.exit(OK)


def _recorded(ids: list[str], root: Path) -> str:
    """Keep what the Java client answers to the new cases; its release, or empty where it answered nothing."""
    recording = java_answers(ids, root)
    if recording is None:
        return ""
    evidence.write_evidence(clients.with_recording(evidence.load_evidence(root), recording), root)
    return recording.version


def _stored_questions() -> dict[bytes, str]:
    """Ids of the cases that there are, by what they ask."""
    stored = load_vectors()
    return {case_input(case.input): case.id for case in stored if case.op in OPS}
