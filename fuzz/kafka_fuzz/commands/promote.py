"""`kafkaproof fuzz promote`: finds made cases of the corpus."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from kafka_conformance.cli import OK
from kafka_conformance.commands.saying import say_json
from kafka_corpus import evidence
from kafka_corpus.cases.found import FOLDER
from kafka_corpus.evidence import clients
from kafka_corpus.vectors import load_vectors, package_root
from kafka_fuzz.commands.options import campaign_option
from kafka_fuzz.triage.folding import named, read
from kafka_fuzz.triage.promoting import cases_of, compile_corpus, question_of, written
from kafka_fuzz.triage.recording import java_answers

OPS: Final = ("decode", "encode", "append", "fetch")


@click.command("promote")
@click.argument("names", nargs=-1, required=True, metavar="FIND…")
@campaign_option("The campaign, after triage.")
@click.option("--cases", default=FOLDER, type=click.Path(path_type=Path), hidden=True)
@click.option("--no-compile", is_flag=True, help="Write the case's file, and nothing else.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def promote_command(names: tuple[str, ...], directory: Path, cases: Path, no_compile: bool, as_json: bool) -> NoReturn:
    """Make each FIND a case of the corpus, with what others answer to it, so that it cannot come back unnoticed.

    FIND is the name of a find that triage wrote, or its first characters.  Needs a checkout: the case is a file of
    the area `found`, to be committed with the vectors.  The answer that is right is the reference's; look at it.
    What a testee wrote wrongly becomes a case that asks to write the same batch; what a broker did with a payload,
    one that produces it with the same settings, and the broker's answer is right; where earlier payloads, a transaction
    or the clock are part of it, a broker of that release is started here and asked once more.  Of what accuses the
    reference the lie in the input says what is right, if there is one.

    Exit codes: 0 they are cases now, 2 usage, or one is a case already, or nobody says what is right about it.
    """
    try:
        found = read(directory)
        files = cases_of([named(name, found) for name in names], _asked(), cases, directory)
        ids = [f"found.{path.stem}" for path in files]
        with written(files):
            if not no_compile:
                compile_corpus()
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
    evidence.write(clients.with_recording(evidence.load(root), recording), root)
    return recording.version


def _asked() -> dict[bytes, str]:
    """Ids of the cases that there are, by what they ask."""
    stored = load_vectors()
    return {question_of(case.input): case.id for case in stored if case.op in OPS}
