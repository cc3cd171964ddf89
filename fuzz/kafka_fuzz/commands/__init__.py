"""`kafkaproof fuzz`: the commands of fuzzing, each in a module of its own, imported when it is used."""

from __future__ import annotations

from typing import ClassVar

import click

from kafka_conformance.cli import Late


class LateFuzz(Late):
    """The group's commands, none of them imported."""

    # Name, where it is defined, and what `--help` says without importing it.
    table: ClassVar[dict[str, tuple[str, str]]] = {
        "run": ("kafka_fuzz.commands.run:run", "Fuzz targets for a while, and say what is new."),
        "merge": ("kafka_fuzz.commands.merge:merge", "Of inputs that do the same, keep the smallest."),
        "export": ("kafka_fuzz.commands.export:export", "Write entry points for OSS-Fuzz, with seeds and dictionary."),
        "reach": ("kafka_fuzz.commands.reach:reach", "Say who can bring a find about: producers, or a broker."),
        "side": ("kafka_fuzz.commands.side:side", "Fuzz with Jazzer or Go's engine on the same corpus."),
        "bench": ("kafka_fuzz.commands.bench:bench", "Compare the profiles: buckets, lines, executions."),
        "triage": ("kafka_fuzz.commands.triage:triage", "Fold, reduce and draft what campaigns found."),
        "corpus": ("kafka_fuzz.commands.corpus:corpus", "Ask testees the corpus: what cases show is no news."),
        "recall": ("kafka_fuzz.commands.recall:recall", "Say how much of what the corpus shows was found."),
        "known": ("kafka_fuzz.commands.known:known", "Accept finds as known, with the reason."),
        "report": ("kafka_fuzz.commands.report:report", "Write a campaign as pages and files."),
        "promote": ("kafka_fuzz.commands.promote:promote_command", "Make finds cases of the corpus."),
        "minimise": (
            "kafka_fuzz.commands.minimise:minimise",
            "Cut an input down to the smallest that shows the same.",
        ),
    }


@click.group(cls=LateFuzz)
def fuzz() -> None:
    """Find what nobody wrote a case for: campaigns over targets, and what becomes of their finds.

    Exit codes of `run`: 0 nothing new, 1 new finds, 2 usage, 3 could not be run, 130 interrupted.
    """
