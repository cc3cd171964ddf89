"""`kafkaproof pipeline`: the commands of the pipeline, each imported when it is used."""

from __future__ import annotations

from typing import ClassVar

import click

from kafka_conformance.cli import Late


class LatePipeline(Late):
    """The group's commands, none of them imported."""

    # Name, where it is defined, and what `--help` says without importing it.
    table: ClassVar[dict[str, tuple[str, str]]] = {
        "generate": ("kafka_fuzz.pipeline.commands.generate:generate", "Make cases, millions of them, as Parquet."),
        "sweep": ("kafka_conformance.pipeline.command:sweep", "Put generated cases to testees, and compare them."),
        "campaign": ("kafka_fuzz.pipeline.commands.campaign:campaign", "Fuzz on the executors, round by round."),
        "audit": (
            "kafka_conformance.audit.command:audit",
            "Judge log directories: every rule that data at rest can break.",
        ),
        "case": ("kafka_fuzz.pipeline.commands.case:case", "Make one generated case again, alone."),
        "pack": ("kafka_fuzz.pipeline.commands.pack:pack", "Pack the environment that a cluster's executors need."),
        "doctor": ("kafka_fuzz.pipeline.commands.pack:doctor", "Say what the executors of a cluster have."),
    }


@click.group(cls=LatePipeline)
def pipeline() -> None:
    """Wide work on Spark, on this machine or a cluster (needs `kafkaproof[spark]` and Java).

    Exit codes: 0 done, 1 disagreements, 2 usage, 3 could not be run, 130 interrupted.
    """
