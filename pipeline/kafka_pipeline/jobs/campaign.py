"""`pipeline campaign`: fuzzing in rounds of shards, corpora merged between rounds; at the end a campaign's folder.

    rounds      what each shard of each round saw
    merged      the corpora that the next round begins with
    cells       what all of them reached

A shard is a function of seed, round, number and the corpora of the round before;
a repeated shard gives the same.  From these files `merging` makes the folder that
`kafkaproof fuzz` works on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from kafka_fuzz.campaign.plan import RoundPlan
from kafka_pipeline.jobs import merging
from kafka_pipeline.jobs.rounds import ALIKE, SCHEMA, STORED, Shard
from kafka_pipeline.jobs.space import grid_hash
from kafka_pipeline.spark.manifest import (
    MANIFEST,
    RECEIPTS,
    OutputManifest,
    complete,
    exclusive_run,
    take_up,
    unsound,
    write_durably,
)
from kafka_pipeline.spark.shards import (
    Job,
    ProgressFactory,
    Receipt,
    ShardsFailed,
    earned,
    run,
    work,
)

FORMAT: Final = "kafkaproof campaign"
ROUNDS: Final = "rounds"
MERGED: Final = "merged"
CELLS_FILE: Final = "cells"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSettings:
    """Settings of a campaign.

    Attributes:
        out: the folder, which every executor reaches.
        targets: their names; testees of `differential:` are named.
        rounds: how many, one after the other.
        shards: of each target in each round.
        executions: inputs of a shard; 0 where time is counted instead.
        minutes: that all rounds take together if every shard has a processor; used where *executions* is 0.
        seed, profile: as in `Round`.
        known: the list of known findings, as text.
    """

    out: Path
    targets: tuple[str, ...]
    rounds: int = 4
    shards: int = 8
    executions: int = 100_000
    minutes: float = 0.0
    seed: int = 1
    profile: str = "mixed"
    known: str = ""

    def plan(self) -> dict[str, Any]:
        """The settings that determine every byte of the output, apart from the code under test."""
        return {
            "job": "campaign",
            "targets": list(self.targets),
            "rounds": self.rounds,
            "shards": self.shards,
            "executions": self.executions,
            "minutes": self.minutes,
            "seed": self.seed,
            "profile": self.profile,
            "known": sha256(self.known.encode()).hexdigest(),
            "grid": grid_hash(),
        }

    @property
    def tasks(self) -> range:
        """The numbers of the shards of a round, those of all targets in turn."""
        return range(self.shards * len(self.targets))

    def round_of(self, number: int, shard: int) -> RoundPlan:
        """The child process' plan for shard *shard* of round *number*."""
        share, at = divmod(shard, len(self.targets))
        return RoundPlan(
            target=self.targets[at],
            directory=Path(),
            seed=self.seed,
            number=number * self.shards + share,
            cpu_seconds=inf if self.executions else self.minutes * 60 / self.rounds,
            profile=self.profile,
            executions=self.executions,
        )

    def merged(self, number: int) -> Path:
        """The corpora after round *number*."""
        return self.out / MERGED / f"round={number:06}" / f"part-{number:06}.parquet"


def campaign_on_spark(
    open_session: Callable[[], Any], settings: CampaignSettings, show: ProgressFactory = lambda _: lambda *_: None
) -> OutputManifest:
    """Do what is not done; a session is opened only if there is something to do.

    Raises:
        OtherRun: the folder holds something else.
        ShardsFailed, PipelineError: what was earned is kept, and the same call goes on.
    """
    with exclusive_run(settings.out):
        manifest = take_up(settings.out, settings.plan())
        if manifest and not unsound(settings.out, manifest):
            return manifest
        if manifest:
            restore(settings, manifest)
        gone = merging.gone(settings.out, settings.known, settings.targets)
        with open_session() as spark:
            (settings.out / MANIFEST).unlink(missing_ok=True)
            return _done(spark, settings, gone, show)


def _done(spark: Any, settings: CampaignSettings, gone: tuple[str, ...], show: ProgressFactory) -> OutputManifest:
    receipts: dict[int, list[Receipt]] = {}
    listed: list[Receipt] = []
    for number in range(settings.rounds):
        on_progress = show(f"round {number + 1} of {settings.rounds}")
        receipts[number] = run(spark, round_job(settings, number, gone), settings.tasks, on_progress)
        new, before = settings.out / ROUNDS / f"round={number:06}", settings.merged(number - 1)
        merge = partial(merging.merge_corpora, spark, new, before)
        listed.append(_made(table_job(settings, MERGED, SCHEMA, merge, f"round={number:06}"), number))
    assembled = merging.Assembled(spark, settings.out / ROUNDS, settings.merged(settings.rounds - 1))
    listed.append(_made(table_job(settings, CELLS_FILE, merging.CELLS_SCHEMA, assembled.cells), 0))
    assembled.write(settings.out, settings.known, settings.seed, _reports(settings, receipts))
    made = [receipt for some in receipts.values() for receipt in some]
    files = [file for receipt in (*made, *listed) for file in receipt.files]
    counts = {
        "executions": sum(receipt.counts["executions"] for receipt in made),
        "inputs": assembled.inputs,
        "finds": len(assembled.findings),
        "cells": listed[-1].counts.get("rows", 0),
    }
    return complete(settings.out, OutputManifest(format=FORMAT, plan=settings.plan(), counts=counts, files=files))


def round_job(settings: CampaignSettings, number: int, gone: tuple[str, ...] = ()) -> Job:
    """The shards of one round."""
    before = settings.merged(number - 1)

    def read(shard: int) -> Iterator[pa.RecordBatch]:
        task = Shard(
            round_plan=settings.round_of(number, shard), number=shard, before=before, known=settings.known, gone=gone
        )
        yield task.seen()

    return Job(
        name=f"round-{number:06}",
        read=read,
        schema=STORED,
        out=settings.out,
        folder=f"{ROUNDS}/round={number:06}",
        place=_by_what,
        count=_counted,
        alike=ALIKE,
    )


def table_job(
    settings: CampaignSettings, name: str, schema: pa.Schema, table: Callable[[], pa.Table], place: str = ""
) -> Job:
    """Tables that the driver makes, kept as shards are."""
    return Job(
        name=name,
        read=lambda _: table().to_batches(),
        schema=schema,
        out=settings.out,
        folder=name,
        place=lambda batch: iter([(place, batch)]),
        alike=("what", *ALIKE),
    )


def _made(job: Job, number: int) -> Receipt:
    receipt = next(earned(job, [number]), None) or work(job, number)
    if receipt.problem:
        raise ShardsFailed({number: receipt.problem})
    return receipt


def _by_what(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each kind, and the folder that they go to."""
    table = pa.Table.from_batches([batch])
    for what in ("fallen", "finds", "inputs"):
        rows = table.filter(pc.equal(table["what"], what)).select(STORED.names)
        for part in rows.replace_schema_metadata(None).combine_chunks().to_batches():
            yield f"what={what}", part


def _counted(batch: pa.RecordBatch) -> dict[str, int]:
    counts: dict[str, int] = msgspec.json.decode((batch.schema.metadata or {}).get(b"counts", b"{}"))
    return counts


def _reports(settings: CampaignSettings, receipts: dict[int, list[Receipt]]) -> Iterator[merging.ShardReport]:
    for number, some in receipts.items():
        for receipt in some:
            yield merging.ShardReport(number, receipt.shard, settings.round_of(number, receipt.shard), receipt.counts)


def restore(settings: CampaignSettings, manifest: OutputManifest) -> None:
    """Write the receipts of a whole campaign again, so that only what has gone bad is done again."""
    counted = merging.counts_in(settings.out)
    files: dict[tuple[str, int], list[Any]] = {}
    for file in manifest.files:
        parts = Path(file.path).parts
        job = parts[1].replace("=", "-") if parts[0] == ROUNDS else parts[0]
        files.setdefault((job, int(Path(file.path).stem.removeprefix("part-"))), []).append(file)
    for (job, number), some in files.items():
        counts = {"rows": sum(file.rows for file in some)}
        if job.startswith("round-"):
            wanted = settings.round_of(int(job.removeprefix("round-")), number)
            counts = counted.get((wanted.target, wanted.number), {})
        if counts:
            receipt = Receipt(shard=number, files=sorted(some, key=lambda file: file.path), counts=counts)
            write_durably(settings.out / RECEIPTS / job / f"{number:06}.json", msgspec.json.encode(receipt))
