"""`pipeline sweep`: generated cases through testees on the executors, observations to Parquet, compared by SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_conformance.pipeline import asking, comparing
from kafka_corpus.pipeline import tables
from kafka_corpus.pipeline.manifest import (
    MANIFEST,
    Manifest,
    OtherRun,
    alone,
    complete,
    read_manifest,
    take_up,
    unsound,
)
from kafka_corpus.pipeline.running import Show, run
from kafka_corpus.pipeline.shards import Job, Receipt, put_table, read_batches

FORMAT: Final = "kafkaproof observations"
INPUT: Final = "kafkaproof cases"
OBSERVATIONS: Final = "observations"
VECTORS: Final = "vectors.parquet"
CLUSTERS: Final = "clusters.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What is asked for.

    Attributes:
        cases: an output of `pipeline generate`.
        out: the folder, which every executor reaches, as it does *cases*.
        testees: connect strings, sorted, each once.
    """

    cases: Path
    out: Path
    testees: tuple[str, ...]

    def plan(self, given: Manifest) -> dict[str, Any]:
        """What decides about the output, as far as we can say: testees themselves may change."""
        return {"job": "sweep", "testees": list(self.testees), "cases": given.sha256, "generated": given.plan}


def cases_in(folder: Path) -> Manifest:
    """The manifest of generated cases.  Raises `OtherRun` where there are none, or bad ones."""
    given = read_manifest(folder)
    if given is None or given.format != INPUT:
        raise OtherRun(f"there are no generated cases in {folder}; kafkaproof pipeline generate makes some")
    bad = unsound(folder, given)
    if bad:
        raise OtherRun(f"{folder / bad[0]} has gone bad; kafkaproof pipeline generate mends it")
    return given


def folder_of(testee: str) -> str:
    """The name of a testee in paths, where it is a column called `testee`.

    >>> folder_of("kafka-python"), folder_of("process:./mine --fast")
    ('kafka-python', 'process-mine-fast-7331faa4')
    """
    plain = re.sub(r"[^a-z0-9]+", "-", testee.lower()).strip("-")
    return testee if testee == plain else f"{plain[-40:].strip('-')}-{sha256(testee.encode()).hexdigest()[:8]}"


def sweep(open_session: Callable[[], Any], asked: Sweep, show: Show = lambda _: lambda *_: None) -> Manifest:
    """Ask what was not asked; a session is opened only if there is something to do.

    Raises:
        OtherRun: the folder holds something else, or there are no cases.
        NotDone, CannotRun: what was earned is kept, and the same call goes on.
    """
    given = cases_in(asked.cases)
    with alone(asked.out):
        manifest = take_up(asked.out, asked.plan(given))
        if manifest and not unsound(asked.out, manifest):
            return manifest
        shards = range(-(-given.plan["cases"] // given.plan["shard_rows"]))
        with open_session() as spark:
            (asked.out / MANIFEST).unlink(missing_ok=True)
            receipts = [
                receipt
                for testee in asked.testees
                for receipt in run(spark, job_of(asked, given, testee), shards, show(testee))
            ]
            return _compared(spark, asked, given, receipts)


def job_of(asked: Sweep, given: Manifest, testee: str) -> Job:
    """The observations of one testee."""
    paths = [asked.cases / file.path for file in given.files if file.path.startswith("cases/")]

    def read(shard: int) -> Iterator[pa.RecordBatch]:
        mine = [path for path in paths if path.name == f"part-{shard:06}.parquet"]
        yield from asking.observations(testee, read_batches(mine, asking.COLUMNS))

    folder = f"{OBSERVATIONS}/testee={folder_of(testee)}"
    return Job(
        name=folder,
        read=read,
        schema=asking.SCHEMA,
        out=asked.out,
        folder=folder,
        count=_count,
        alike=("outcome", "field", "kind", "why"),
    )


def _count(batch: pa.RecordBatch) -> dict[str, int]:
    outcomes = batch.column("outcome").value_counts().to_pylist()
    return {row["values"]: row["counts"] for row in outcomes}


def _compared(spark: Any, asked: Sweep, given: Manifest, receipts: Sequence[Receipt]) -> Manifest:
    tables.view(spark, "observations", asked.out / OBSERVATIONS)
    tables.view(spark, "cases", asked.cases / "cases")
    vectors, clusters = tables.ask(spark, comparing.VECTORS), tables.ask(spark, comparing.CLUSTERS)
    files = [file for receipt in receipts for file in receipt.files]
    files += [put_table(asked.out, VECTORS, vectors), put_table(asked.out, CLUSTERS, clusters)]
    rows, names = vectors.to_pylist(), sorted(map(folder_of, asked.testees))
    counts = {
        "outcomes": comparing.outcomes(rows, names),
        "agreement": comparing.agreement(rows, names),
        "clusters": clusters.num_rows,
    }
    return complete(asked.out, Manifest(format=FORMAT, plan=asked.plan(given), counts=counts, files=files))


def clusters_of(out: Path) -> list[dict[str, Any]]:
    """The clusters that were found."""
    rows: list[dict[str, Any]] = pq.read_table(out / CLUSTERS).to_pylist()
    return rows
