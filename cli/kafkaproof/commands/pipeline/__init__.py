"""`kafkaproof pipeline`: the commands of the pipeline, each imported when it is used."""

from __future__ import annotations

from typing import ClassVar

import click

from kafkaproof.cli import LazyGroup


class LatePipeline(LazyGroup):
    """The group's commands, none of them imported."""

    # Name, where it is defined, and what `--help` says without importing it.
    table: ClassVar[dict[str, tuple[str, str]]] = {
        "generate": ("kafkaproof.commands.pipeline.generate:generate", "Make cases, millions of them, as Parquet."),
        "sweep": ("kafkaproof.commands.pipeline.generate:sweep", "Put generated cases to testees, and compare them."),
        "campaign": ("kafkaproof.commands.pipeline.campaign:campaign", "Fuzz on the executors, round by round."),
        "audit": (
            "kafkaproof.commands.audit:pipeline_audit",
            "Judge log directories: every rule that data at rest can break.",
        ),
        "case": ("kafkaproof.commands.pipeline.generate:case_command", "Make one generated case again, alone."),
        "pack": (
            "kafkaproof.commands.pipeline.generate:pack_command",
            "Pack the environment that a cluster's executors need.",
        ),
        "doctor": ("kafkaproof.commands.pipeline.generate:doctor", "Say what the executors of a cluster have."),
    }


@click.group(cls=LatePipeline)
def pipeline() -> None:
    """Wide work on Spark, on this machine or a cluster (needs `kafkaproof[spark]` and Java).

    Exit codes: 0 done, 1 disagreements, 2 usage, 3 could not be run, 130 interrupted.
    """
