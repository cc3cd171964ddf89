"""Cost of the pipeline without Spark: cases per CPU-second, a sweep compared with the runner, a campaign.

    python -m benchmarks.pipeline [--only generate|sweep|campaign] [--cases N] [--repeats N]

CPU-seconds of this process and its children, with the allocator that workers have; medians of repeats, side by side.
Spark adds to it what a session and a task cost, however many cases they have.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow.parquet import ParquetFile, read_metadata

from kafka_conformance.runner.run import RunPlan
from kafka_conformance.runner.run import run as run_in_process
from kafka_conformance.testees import known
from kafka_fuzz.campaign.fork_worker import total_cpu_seconds
from kafka_fuzz.mutate import Profile
from kafka_pipeline.jobs import sweep
from kafka_pipeline.jobs.campaign import CampaignSettings, round_job, table_job
from kafka_pipeline.jobs.generate import CASES, STAGED, Generate, keeping_job, staging_job
from kafka_pipeline.jobs.rounds import SCHEMA
from kafka_pipeline.spark.session import PURGE
from kafka_pipeline.spark.shards import Job, read_batches, work

MIXES: Final[dict[str, dict[Profile, int]]] = {
    "model": {"model": 1},
    "model=8,fixup=1,bytes=1": {"model": 8, "fixup": 1, "bytes": 1},
}
TARGETS: Final = ("kafka-python", "reference", "differential:kafka-python,reference")


class Fuzzed(NamedTuple):
    """CPU-seconds of campaign shards.

    Attributes:
        start: CPU-seconds of one with a single input.
        cold, warm: inputs a CPU-second in the first round, and in the second.
        kept: inputs that the first one kept, of *size* bytes each as they are stored.
    """

    start: float
    cold: float
    warm: float
    kept: int
    size: float


def call_cost(do: Callable[[], Any]) -> float:
    """The CPU-seconds of *do*."""
    before = total_cpu_seconds()
    do()
    return total_cpu_seconds() - before


def done(job: Job, shard: int = 0) -> None:
    """Do a shard; it has no problem."""
    receipt = work(job, shard)
    assert not receipt.problem, receipt.problem


def exhaust(batches: Iterable[pa.RecordBatch]) -> None:
    """Make all of *batches*, and keep none."""
    for _ in batches:
        pass


def generating(folder: Path, shares: dict[Profile, int], cases: int, repeats: int) -> dict[str, float]:
    """Cases per CPU-second of each step; the first shard warms up, and is not counted."""
    settings = Generate(out=folder, cases=cases * (repeats + 1), shares=shares, shard_rows=cases)
    maker = settings.maker
    staging, keeping = replace(staging_job(settings), function=maker), keeping_job(settings)
    seconds: dict[str, list[float]] = {"made": [], "made and staged": [], "kept": []}
    for shard in range(repeats + 1):
        spents = (
            call_cost(partial(exhaust, map(maker, settings.numbers(shard)))),
            call_cost(partial(done, staging, shard)),
            call_cost(partial(done, keeping, shard)),
        )
        for name, value in zip(seconds, spents, strict=True) if shard else ():
            seconds[name].append(value)
    medians = {name: median(values) for name, values in seconds.items()}
    medians["all"] = medians["made and staged"] + medians["kept"]
    return {name: cases / value for name, value in medians.items()}


def parquet_bytes(folder: Path) -> int:
    """The bytes of the Parquet files below *folder*."""
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def sweeping(folder: Path, testee: str, cases: int, repeats: int) -> tuple[float, float]:
    """CPU-milliseconds a case: of the in-process runner, and of a shard of a sweep, each with one process at a time."""
    settings = Generate(out=folder, cases=cases, shard_rows=cases)
    done(staging_job(settings))
    (staged,) = (folder / STAGED).glob("*.parquet")

    def read(_shard: int) -> Iterator[pa.RecordBatch]:
        yield from sweep.observations(testee, read_batches([staged], sweep.COLUMNS))

    job = Job(name="swept", read=read, schema=sweep.SCHEMA, out=folder, folder="swept")
    loaded = [case for batch in read_batches([staged], sweep.COLUMNS) for case in sweep.batch_cases(batch)]
    inner, outer = [], []
    for number in range(repeats):
        plan = RunPlan(connection=known.connect(testee), cases=loaded, corpus="", path=folder / f"{number}.ndjson")
        inner.append(call_cost(partial(run_in_process, plan)))
        outer.append(call_cost(partial(done, job)))
    return median(inner) / cases * 1e3, median(outer) / cases * 1e3


def fuzzing(folder: Path, target: str, executions: int) -> Fuzzed:
    """Cost of a campaign shard: its start, a shard of the first round, and one that starts from a merged corpus."""
    settings = CampaignSettings(out=folder, targets=(target,), executions=executions)
    start, first = replace(settings, executions=1, out=folder / "start"), round_job(settings, 0)
    begun = call_cost(partial(done, round_job(start, 0)))
    cold = call_cost(partial(done, first))
    kept = [*folder.glob("rounds/*/what=inputs/*.parquet")]
    rows = sum(read_metadata(path).num_rows for path in kept)
    size = parquet_bytes(folder / "rounds")
    done(table_job(settings, "merged", SCHEMA, partial(_again, kept), "round=000000"))
    warm = call_cost(partial(done, round_job(settings, 1)))
    return Fuzzed(begun, executions / cold, executions / warm, rows, size / max(rows, 1))


def _again(paths: Sequence[Path]) -> pa.Table:
    """The inputs of a round as the next one has them, but without merging."""
    given = pa.concat_tables(ParquetFile(path).read() for path in paths)
    return given.add_column(0, SCHEMA.field("what"), pa.array(["inputs"] * given.num_rows)).cast(SCHEMA)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each."""
    parser = ArgumentParser(prog="python -m benchmarks.pipeline", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000, help="in a repeat")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--testee", action="append", help="for the sweep; kafka-python and reference by default")
    parser.add_argument("--target", action="append", help="for the campaign; the same and both side by side by default")
    parser.add_argument("--only", choices=["generate", "sweep", "campaign"])
    settings = parser.parse_args(arguments)
    if arguments is None and PURGE[0] not in os.environ:
        # It is read before anything is allocated.
        os.execve(sys.executable, sys.orig_argv, os.environ | dict([PURGE]))
    for name, shares in MIXES.items() if settings.only in (None, "generate") else ():
        with TemporaryDirectory() as folder:
            rates = generating(Path(folder), shares, settings.cases, settings.repeats)
            sizes = [parquet_bytes(Path(folder) / name) for name in (CASES, STAGED)]
        rates_text = "  ".join(f"{step} {rate:,.0f}" for step, rate in rates.items())
        kept, staged = (size / (settings.cases * (settings.repeats + 1)) for size in sizes)
        print(f"generate {name}: {rates_text} cases a CPU-second; {kept:,.0f} bytes a case, {staged:,.0f} staged")
    for testee in (settings.testee or ("kafka-python", "reference")) if settings.only in (None, "sweep") else ():
        with TemporaryDirectory() as folder:
            inner, outer = sweeping(Path(folder), testee, settings.cases // 4, settings.repeats)
        print(f"sweep {testee}: {outer:.3f} CPU-ms a case, the runner {inner:.3f}: {outer / inner:.2f} times")
    for target in (settings.target or TARGETS) if settings.only in (None, "campaign") else ():
        with TemporaryDirectory() as folder:
            cost = fuzzing(Path(folder), target, settings.cases)
        print(
            f"campaign {target}: {cost.cold:,.0f} inputs a CPU-second in a first shard, {cost.warm:,.0f} in a later "
            f"one; {cost.start:.1f} s to start; {cost.kept:,} kept, {cost.size:,.0f} bytes each"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
