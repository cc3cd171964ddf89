"""`kafkaproof fuzz promote`: finds made cases of the corpus."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import click

from kafka_conformance.cli import OK
from kafka_conformance.commands.saying import say_json
from kafka_corpus import compiler
from kafka_corpus.cases.found import FOLDER
from kafka_fuzz.commands.options import campaign_option
from kafka_fuzz.triage.folding import named, read
from kafka_fuzz.triage.promoting import compile_corpus, promote, question_of, record_java


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
    What a testee wrote wrongly becomes a case that asks to write the same batch.

    Exit codes: 0 they are cases now, 2 usage, or one is a case already.
    """
    try:
        found = read(directory)
        ids = promote([named(name, found) for name in names], _asked(), cases)
        java = ""
        if not no_compile:
            compile_corpus()
            java = record_java(ids, compiler.package_root())
            if java:
                compile_corpus()
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        say_json({"cases": ids, "java": java})
    else:
        for id_ in ids:
            click.echo(f"{id_}: see kafkaproof corpus show '{id_}'")
        click.echo(f"answers of the Java client {java} recorded" if java else "no answers of others recorded")
    sys.exit(OK)


def _asked() -> dict[bytes, str]:
    """Ids of the cases that there are for codecs, by what they ask."""
    stored = compiler.stored_cases(compiler.package_root())
    return {question_of(case.input): case.id for case in stored if case.op in ("decode", "encode")}
