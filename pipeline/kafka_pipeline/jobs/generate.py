"""`pipeline generate`: numbers to cases in Parquet, in four steps, each of which goes on where it was stopped.

    made        each shard's cases, staged
    dropped     which of them repeat others, by SQL over all shards
    kept        the rest, by magic and codec
    coverage    what they cover

A shard that has gone bad is made again from its numbers and its dropped rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kafka_fuzz.mutate import Profile
from kafka_pipeline.jobs import cases
from kafka_pipeline.jobs.cases import ALIKE, SCHEMA, Cases, index_batches
from kafka_pipeline.jobs.space import Space, grid_hash, model_grid
from kafka_pipeline.spark.manifest import (
    MANIFEST,
    FileReceipt,
    OtherRun,
    OutputManifest,
    complete,
    exclusive_run,
    take_up,
    unsound,
)
from kafka_pipeline.spark.shards import (
    Job,
    ProgressFactory,
    Receipt,
    put_table,
    query_table,
    read_batches,
    run,
    spark_failures,
    view,
)

FORMAT: Final = "kafkaproof cases"
STAGED: Final = "staged"
LISTED: Final = "listed"
DROPPED: Final = "dropped"
CASES: Final = "cases"
COVERAGE: Final = "coverage.parquet"
CHECKED: Final = "checked"
# Shards that are made again at a time: so much more of the disk is taken while checking.
AT_ONCE: Final = 16
STEPS: Final = {STAGED: "made", DROPPED: "listed what repeats", CASES: "kept"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """Settings of a generation job.

    Attributes:
        out: the folder, which every executor reaches.
        cases: how many numbers are made, from 0.
        seed: of them all.
        shares: how often each mutator takes its turn.
        shard_rows: numbers to a shard.
        per_shape: how many cases of one shape stay; 0 for all.
        verify: one of so many is decoded by the reference as well.
    """

    out: Path
    cases: int
    seed: int = 1
    shares: Mapping[Profile, int] = field(default_factory=lambda: {"model": 1})
    shard_rows: int = 100_000
    per_shape: int = 0
    verify: int = 64

    def plan(self) -> dict[str, Any]:
        """The settings that determine every byte of the output."""
        return {
            "job": "generate",
            "cases": self.cases,
            "seed": self.seed,
            "mutators": dict(self.shares),
            "shard_rows": self.shard_rows,
            "per_shape": self.per_shape,
            "grid": grid_hash(),
        }

    @property
    def shards(self) -> range:
        """The numbers of the shards."""
        return range(-(-self.cases // self.shard_rows))

    @property
    def maker(self) -> Cases:
        """The pure function."""
        return Cases(Space.of(self.seed, self.shares), self.verify)

    def numbers(self, shard: int) -> Iterator[pa.RecordBatch]:
        """The numbers of a shard."""
        start = shard * self.shard_rows
        return index_batches(start, min(start + self.shard_rows, self.cases))


def generate_cases(
    open_session: Callable[[], Any], settings: Generate, show: ProgressFactory = lambda _: lambda *_: None
) -> OutputManifest:
    """Make missing shards, and make damaged ones again; a session is opened only if there is something to do.

    Raises:
        OtherRun: the folder holds something else.
        ShardsFailed, PipelineError: what was earned is kept, and the same call goes on.
    """
    with exclusive_run(settings.out):
        manifest = take_up(settings.out, settings.plan())
        bad = unsound(settings.out, manifest) if manifest else []
        if manifest and not bad:
            return manifest
        with open_session() as spark:
            if manifest and (repaired := _remade(spark, settings, manifest, bad, show)):
                return repaired
            (settings.out / MANIFEST).unlink(missing_ok=True)
            return _made(spark, settings, show)


def _made(spark: Any, settings: Generate, show: ProgressFactory) -> OutputManifest:
    run(spark, staging_job(settings), settings.shards, show(STAGED))
    _list(spark, settings)
    dropped = run(spark, _dropping(settings), settings.shards, show(DROPPED))
    kept = run(spark, keeping_job(settings), settings.shards, show(CASES))
    covered, counts = _cover(spark, settings)
    counts = {"made": settings.cases, "dropped": _summed(dropped), **counts}
    files = [covered, *_files(dropped), *_files(kept)]
    manifest = OutputManifest(format=FORMAT, plan=settings.plan(), counts=counts, files=files)
    return complete(settings.out, manifest, (STAGED, LISTED))


def staging_job(settings: Generate) -> Job:
    """The first step: numbers to cases."""
    return Job(
        name=STAGED,
        read=settings.numbers,
        function=settings.maker,
        schema=SCHEMA,
        out=settings.out,
        folder=STAGED,
        alike=ALIKE,
        codec="lz4",
    )


def _list(spark: Any, settings: Generate) -> None:
    """Have Spark list the rows that go; they are taken from there shard by shard."""
    view(spark, "staged", settings.out / STAGED)
    with spark_failures():
        rows = spark.sql(cases.query(settings.shard_rows, settings.per_shape))
        rows.repartition("shard").write.mode("overwrite").partitionBy("shard").parquet(str(settings.out / LISTED))


def _dropping(settings: Generate) -> Job:
    def read(shard: int) -> Iterator[pa.RecordBatch]:
        yield cases.dropped_rows(sorted((settings.out / LISTED / f"shard={shard}").glob("*.parquet")))

    def count(batch: pa.RecordBatch) -> dict[str, int]:
        reasons = batch.column("reason").to_pylist()
        return {reason: reasons.count(reason) for reason in ("content", "shape")}

    return Job(name=DROPPED, read=read, schema=cases.DROPPED, out=settings.out, folder=DROPPED, count=count)


def keeping_job(settings: Generate, out: Path | None = None, *, from_numbers: bool = False) -> Job:
    """The last step; *from_numbers* makes cases again if the staged ones are gone."""

    def read(shard: int) -> Iterator[pa.RecordBatch]:
        path = settings.out / DROPPED / f"part-{shard:06}.parquet"
        gone = [batch.column("index") for batch in read_batches([path] if path.exists() else [], ["index"])]
        dropped = pa.concat_arrays(gone) if gone else pa.array([], pa.int64())
        staged = settings.out / STAGED / f"part-{shard:06}.parquet"
        maker = settings.maker
        batches = map(maker, settings.numbers(shard)) if from_numbers else read_batches([staged])
        for batch in batches:
            yield cases.without(batch, dropped)

    return Job(
        name=CASES,
        read=read,
        schema=cases.KEPT,
        out=out or settings.out,
        folder=CASES,
        place=cases.by_place,
        alike=tuple(name for name in ALIKE if name in cases.KEPT.names),
    )


def _cover(spark: Any, settings: Generate) -> tuple[FileReceipt, dict[str, Any]]:
    """Write the coverage table; its receipt, and the counts of the manifest."""
    view(spark, "cases", settings.out / CASES)
    covered = cases.coverage_table(query_table(spark, cases.COVERAGE_QUERY), model_grid())
    shapes = query_table(spark, cases.SHAPES).to_pylist()[0]["shapes"]
    return put_table(settings.out, COVERAGE, covered), {**cases.coverage_summary(covered), "shapes": shapes}


def _remade(
    spark: Any, settings: Generate, manifest: OutputManifest, bad: Sequence[str], show: ProgressFactory
) -> OutputManifest | None:
    """Make bad shards again, from their numbers; None where that does not do."""
    shards = shards_of(bad)
    if shards is None:
        return None
    run(spark, keeping_job(settings, from_numbers=True), sorted(shards), show(CASES))
    if unsound(settings.out, manifest):
        return None
    return complete(settings.out, manifest)


def shards_of(paths: Sequence[str]) -> set[int] | None:
    """The shards that *paths* belong to; None if they are not all of kept cases."""
    if not all(path.startswith(f"{CASES}/") for path in paths):
        return None
    return {int(Path(path).stem.removeprefix("part-")) for path in paths}


def check_output(
    open_session: Callable[[], Any], settings: Generate, show: ProgressFactory = lambda _: lambda *_: None
) -> list[str]:
    """Damaged files of a complete output: they differ from the manifest, or from cases generated again.

    Raises:
        OtherRun: there is no whole output, or it is another one.
    """
    with exclusive_run(settings.out):
        manifest = take_up(settings.out, settings.plan()) if (settings.out / MANIFEST).exists() else None
        if manifest is None:
            raise OtherRun(f"there is no {MANIFEST} in {settings.out}")
        bad = set(unsound(settings.out, manifest))
        said = {file.path: file.sha256 for file in manifest.files if file.path.startswith(f"{CASES}/")}
        on_progress, shards, again = show(CHECKED), settings.shards, settings.out / CHECKED
        with open_session() as spark:
            for at in range(0, len(shards), AT_ONCE):
                on_progress(at, len(shards))
                made = _files(run(spark, keeping_job(settings, again, from_numbers=True), shards[at : at + AT_ONCE]))
                bad |= {file.path for file in made if said.pop(file.path, "") != file.sha256}
                shutil.rmtree(again, ignore_errors=True)
        return sorted(bad | set(said))


def _files(receipts: Sequence[Receipt]) -> list[FileReceipt]:
    return [file for receipt in receipts for file in receipt.files]


def _summed(receipts: Sequence[Receipt]) -> dict[str, int]:
    names = sorted({name for receipt in receipts for name in receipt.counts})
    return {name: sum(receipt.counts.get(name, 0) for receipt in receipts) for name in names}
