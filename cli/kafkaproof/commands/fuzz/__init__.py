"""`kafkaproof fuzz`: the commands of fuzzing, each in a module of its own, imported when it is used."""

from __future__ import annotations

from typing import ClassVar

import click

from kafkaproof.checkout import provide_benchmarks
from kafkaproof.cli import LazyGroup


class LateFuzz(LazyGroup):
    """The group's commands, none of them imported."""

    # Name, where it is defined, and what `--help` says without importing it.
    table: ClassVar[dict[str, tuple[str, str]]] = {
        "run": ("kafkaproof.commands.fuzz.run:run", "Fuzz targets for a while, and say what is new."),
        "merge": ("kafkaproof.commands.fuzz.engines:merge_command", "Of inputs that do the same, keep the smallest."),
        "export": (
            "kafkaproof.commands.fuzz.engines:export_oss_fuzz",
            "Write entry points for OSS-Fuzz, with seeds and dictionary.",
        ),
        "reach": ("kafkaproof.commands.fuzz.promote:reach", "Say who can bring a find about: producers, or a broker."),
        "side": (
            "kafkaproof.commands.fuzz.engines:engine_command",
            "Fuzz with Jazzer or Go's engine on the same corpus.",
        ),
        "bench": ("kafkaproof.commands.fuzz.bench:bench", "Compare the profiles: buckets, lines, executions."),
        "triage": ("kafkaproof.commands.fuzz.triage:triage", "Fold, reduce and draft what campaigns found."),
        "corpus": (
            "kafkaproof.commands.fuzz.known:corpus_command",
            "Ask testees the corpus: what cases show is no news.",
        ),
        "recall": ("kafkaproof.commands.fuzz.known:recall", "Say how much of what the corpus shows was found."),
        "known": ("kafkaproof.commands.fuzz.known:known", "Accept finds as known, with the reason."),
        "report": ("kafkaproof.commands.fuzz.triage:report_command", "Write a campaign as pages and files."),
        "promote": ("kafkaproof.commands.fuzz.promote:promote_command", "Make finds cases of the corpus."),
        "minimise": (
            "kafkaproof.commands.fuzz.minimise:minimise",
            "Cut an input down to the smallest that shows the same.",
        ),
    }

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command called *cmd_name*; raises `NoCheckout` for `bench` outside of a checkout."""
        if cmd_name == "bench":
            provide_benchmarks("kafkaproof fuzz bench")
        return super().get_command(ctx, cmd_name)


@click.group(cls=LateFuzz)
def fuzz() -> None:
    """Find what nobody wrote a case for: campaigns over targets, and what becomes of their finds.

    Exit codes of `run`: 0 nothing new, 1 new finds, 2 usage, 3 could not be run, 130 interrupted.
    """
