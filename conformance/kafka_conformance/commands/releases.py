"""`kafkaproof certify NAME --history N`: the last releases of a codec, each built and run, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from kafka_conformance.cli import CANNOT_RUN
from kafka_conformance.commands.saying import say_json
from kafka_conformance.commands.several import Done, Settings, certify_several, exit_code
from kafka_conformance.connect import CannotRun
from kafka_conformance.connect.known import Known
from kafka_conformance.connect.published import newest
from kafka_conformance.history import History, document, history, told
from kafka_conformance.hostile import printable
from kafka_conformance.indented import indented
from kafka_corpus.case import Case

JSON: Final = "history.json"
PAGE: Final = "history.html"


def certify_history(known: Known, last: int, cases: Sequence[Case], settings: Settings) -> int:
    """Run the *last* releases of *known*, show and write since when each finding is there; give the exit code."""
    try:
        releases = newest(known, last)
    except CannotRun as error:
        click.echo(printable(str(error), 2000), err=True)
        return CANNOT_RUN
    done = certify_several([f"{known.name}@{release}" for release in releases], cases, settings)
    made = _history(known.name, releases, done)
    if made.releases:
        _write(made, settings)
    if settings.as_json:
        say_json({"history": document(made), "testees": [each.document for each in done]})
    else:
        click.echo()
        click.echo("\n".join(told(made)))
    return exit_code(done, lenient=True)


def _history(name: str, releases: Sequence[str], done: Sequence[Done]) -> History:
    pairs = list(zip(releases, done, strict=True))
    runs = [(release, each.made.results) for release, each in pairs if each.made]
    return history(name, runs, {release: each.why for release, each in pairs if not each.made})


def _write(made: History, settings: Settings) -> None:
    from kafka_conformance.reporting.releases import page

    (settings.folder / JSON).write_bytes(indented(document(made)))
    (settings.folder / PAGE).write_text(page(made), encoding="utf-8")
