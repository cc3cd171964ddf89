"""`pipeline sweep`: generated cases through testees, compared by SQL.

A session is a sandbox, as in a certificate: what a testee does is an
observation, never a failure of the shard.  What differs from run to run (times,
addresses, process ids) is left out, so that a shard done again is the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from xxhash import xxh3_64_intdigest

from kafka_conformance.judge.observation import ConsumedRecords, Decoded, Observation, Refused
from kafka_conformance.judge.verdict import judge
from kafka_conformance.runner.requests import TOGETHER, group_cases, request_for, unsupported
from kafka_conformance.runner.run import trivial_decodes
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.connection import CannotRun
from kafka_conformance.testees.known import connect
from kafka_conformance.testees.protocol import HelloReply
from kafka_corpus.case import Case, Expectation
from kafka_corpus.wire import WireBatch, from_wire
from kafka_pipeline.spark import BadShard
from kafka_pipeline.spark.manifest import (
    MANIFEST,
    OtherRun,
    OutputManifest,
    complete,
    exclusive_run,
    read_manifest,
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
    required_schema,
    run,
    view,
)

SCHEMA: Final = required_schema(
    {
        "index": pa.int64(),
        "outcome": pa.string(),
        "field": pa.string(),
        "kind": pa.string(),
        "why": pa.string(),
        "batches": pa.int32(),
        "answer": pa.int64(),
    }
)
# What of a case a sweep reads.
COLUMNS: Final = ["index", "fault", "data", "verdict", "kinds", "batches"]
# Of what is said about an outcome: characters that are kept.
LONGEST: Final = 160
# What is never the same twice.
_PASSING: Final = re.compile(r"0x[0-9a-fA-F]+|\d{3,}")
_ENDINGS: Final = ("crash", "hang", "memory")
_batches: Final = msgspec.json.Decoder(list[WireBatch])
_json: Final = msgspec.json.Encoder()


class SweepSession:
    """One testee's process and its requests; a context manager that ends the process."""

    def __init__(self, testee: str) -> None:
        """Of the testee that this connect string names; it is built here if it has to be."""
        self._testee = testee
        self._sandbox: Sandbox | None = None
        self._hello: HelloReply | None = None

    def __enter__(self) -> SweepSession:
        """Start it.  Raises `Refused` of the pipeline if that cannot be done here."""
        try:
            self._sandbox = Sandbox(connect(self._testee))
            self._hello = self._sandbox.hello()
            self._sandbox.calibrate(trivial_decodes())
        except CannotRun as error:
            self.__exit__()
            raise BadShard(str(error)) from None
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        if self._sandbox is not None:
            self._sandbox.close()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """An observation for each case of *batch*, in its order."""
        cases = batch_cases(batch)
        rows = dict(self._rows(cases))
        columns = zip(*(rows[case.id] for case in cases), strict=True) if cases else [()] * len(SCHEMA)
        arrays = [pa.array(column, each.type) for column, each in zip(columns, SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def _rows(self, cases: Sequence[Case]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        assert self._sandbox is not None
        assert self._hello is not None
        requested: list[Case] = []
        for case in cases:
            skipped = unsupported(case, self._hello)
            if skipped is None:
                requested.append(case)
            else:
                yield case.id, row_of(case, skipped)
        for group in group_cases(requested, TOGETHER):
            try:
                answers = self._sandbox.ask([request_for(case) for case in group])
                for case, answered in zip(group, answers, strict=True):
                    yield case.id, row_of(case, answered.observation)
            except CannotRun as error:  # it started once, and does no more
                raise BadShard(str(error)) from None


def batch_cases(batch: pa.RecordBatch) -> list[Case]:
    """The rows of generated cases as the judge has them."""
    columns = (batch.column(name).to_pylist() for name in COLUMNS)
    return [_case(*row) for row in zip(*columns, strict=True)]


def _case(index: int, fault: str, data: bytes, verdict: Any, kinds: list[Any], batches: str) -> Case:
    expect = Expectation(verdict=verdict, kinds=tuple(kinds), batches=tuple(map(from_wire, _batches.decode(batches))))
    # Cases of one fault are variations of one another, as those of one case function are.
    return Case(id=f"{fault}[{index}]", title="", rules=(), area="generated", op="decode", input=data, expect=expect)


def row_of(case: Case, observation: Observation) -> tuple[Any, ...]:
    """The result of *case*, with columns as in `SCHEMA`."""
    verdict = judge(case, observation)
    index = int(case.id.rpartition("[")[2].removesuffix("]"))
    why = lasting(verdict.outcome, verdict.why)
    batches = len(observation.batches) if isinstance(observation, Decoded) else -1
    kind = "" if verdict.outcome == "agree" else error_kind(observation)
    return index, verdict.outcome, verdict.field, kind, why[:LONGEST], batches, answer_hash(observation)


def lasting(outcome: str, why: str) -> str:
    """The text of an outcome without the parts that change from run to run.

    >>> lasting("crash", "signal 11 in thread 140213"), lasting("wrong_data", "expected 1000000")
    ('signal 11 in thread #', 'expected 1000000')
    """
    return _PASSING.sub("#", why) if outcome in _ENDINGS else why


def error_kind(observation: Observation) -> str:
    """The kind of error that a testee reported; empty if it reported none."""
    if isinstance(observation, Refused | Decoded | ConsumedRecords) and observation.error is not None:
        return observation.error.kind
    return ""


def answer_hash(observation: Observation) -> int:
    """A hash that equal data share, so that those who are wrong in the same way are found; 0 for no data."""
    if not isinstance(observation, Decoded | ConsumedRecords):
        return 0
    data = observation.batches if isinstance(observation, Decoded) else observation.records
    number = xxh3_64_intdigest(_json.encode(data))
    return number - (1 << 64) if number >> 63 else number


def observations(testee: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Observations of *testee* for the cases of *batches*; its process ends with this generator."""
    with SweepSession(testee) as session:
        yield from map(session, batches)


# The outcomes of all testees for a case, by name, as one text; how many cases have it, and the first that does.
VECTORS: Final = """
    WITH answered AS (
        SELECT index,
               concat_ws(',', transform(array_sort(collect_list(struct(testee, outcome))), x -> x.outcome)) AS vector
        FROM observations GROUP BY index
    )
    SELECT vector, count(*) AS cases, min(index) AS first FROM answered GROUP BY vector ORDER BY cases DESC, vector
"""
# Disagreements that probably have one cause.
CLUSTERS: Final = """
    SELECT testee, outcome, cases.fault, cases.magic, cases.codec,
           regexp_replace(observations.field, '[0-9]+', '') AS at, observations.kind,
           count(*) AS cases, count(DISTINCT answer) AS answers, min(observations.index) AS first
    FROM observations JOIN cases ON observations.index = cases.index
    WHERE outcome NOT IN ('agree', 'skipped')
    GROUP BY ALL
    ORDER BY testee, cases DESC, outcome, cases.fault, cases.magic, cases.codec, at, observations.kind
"""


def compare_outcomes(vectors: Iterable[Mapping[str, Any]], testees: Sequence[str]) -> dict[str, dict[str, int]]:
    """How often each testee, of *testees* in the order of their names, had each outcome."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in testees}
    for row in vectors:
        for name, outcome in zip(testees, row["vector"].split(","), strict=True):
            counts[name][outcome] += row["cases"]
    return {name: dict(sorted(counter.items())) for name, counter in counts.items()}


def agreement(vectors: Iterable[Mapping[str, Any]], testees: Sequence[str]) -> dict[str, dict[str, float]]:
    """For each pair the share of cases with the same outcome, of those that neither skipped; 0 where there are none."""
    both: Counter[tuple[str, str]] = Counter()
    same: Counter[tuple[str, str]] = Counter()
    for row in vectors:
        outcomes = dict(zip(testees, row["vector"].split(","), strict=True))
        compared = [name for name in testees if outcomes[name] != "skipped"]
        for one in compared:
            for other in compared:
                both[one, other] += row["cases"]
                same[one, other] += row["cases"] if outcomes[one] == outcomes[other] else 0
    return {
        one: {other: round(same[one, other] / both[one, other], 6) if both[one, other] else 0.0 for other in testees}
        for one in testees
    }


FORMAT: Final = "kafkaproof observations"
INPUT: Final = "kafkaproof cases"
OBSERVATIONS: Final = "observations"
VECTORS_FOLDER: Final = "vectors.parquet"
CLUSTERS_FOLDER: Final = "clusters.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Settings of a sweep.

    Attributes:
        cases: an output of `pipeline generate`.
        out: the folder, which every executor reaches, as it does *cases*.
        testees: connect strings, sorted, each once.
    """

    cases: Path
    out: Path
    testees: tuple[str, ...]

    def plan(self, given: OutputManifest) -> dict[str, Any]:
        """The settings that determine the output, as long as the testees do not change."""
        return {"job": "sweep", "testees": list(self.testees), "cases": given.sha256, "generated": given.plan}


def cases_in(folder: Path) -> OutputManifest:
    """The manifest of generated cases.  Raises `OtherRun` where there are none, or bad ones."""
    given = read_manifest(folder)
    if given is None or given.format != INPUT:
        raise OtherRun(f"there are no generated cases in {folder}; kafkaproof pipeline generate makes some")
    bad = unsound(folder, given)
    if bad:
        raise OtherRun(f"{folder / bad[0]} has gone bad; run kafkaproof pipeline generate to make it again")
    return given


def folder_of_testee(testee: str) -> str:
    """The name of a testee in paths, where it is a column called `testee`.

    >>> folder_of("kafka-python"), folder_of("process:./mine --fast")
    ('kafka-python', 'process-mine-fast-7331faa4')
    """
    plain = re.sub(r"[^a-z0-9]+", "-", testee.lower()).strip("-")
    return testee if testee == plain else f"{plain[-40:].strip('-')}-{sha256(testee.encode()).hexdigest()[:8]}"


def sweep_testees(
    open_session: Callable[[], Any], settings: Sweep, show: ProgressFactory = lambda _: lambda *_: None
) -> OutputManifest:
    """Run the missing cases; a session is opened only if there is something to do.

    Raises:
        OtherRun: the folder holds something else, or there are no cases.
        ShardsFailed, PipelineError: what was earned is kept, and the same call goes on.
    """
    given = cases_in(settings.cases)
    with exclusive_run(settings.out):
        manifest = take_up(settings.out, settings.plan(given))
        if manifest and not unsound(settings.out, manifest):
            return manifest
        shards = range(-(-given.plan["cases"] // given.plan["shard_rows"]))
        with open_session() as spark:
            (settings.out / MANIFEST).unlink(missing_ok=True)
            receipts = [
                receipt
                for testee in settings.testees
                for receipt in run(spark, sweep_job(settings, given, testee), shards, show(testee))
            ]
            return _compared(spark, settings, given, receipts)


def sweep_job(settings: Sweep, given: OutputManifest, testee: str) -> Job:
    """The observations of one testee."""
    paths = [settings.cases / file.path for file in given.files if file.path.startswith("cases/")]

    def read(shard: int) -> Iterator[pa.RecordBatch]:
        mine = [path for path in paths if path.name == f"part-{shard:06}.parquet"]
        yield from observations(testee, read_batches(mine, COLUMNS))

    folder = f"{OBSERVATIONS}/testee={folder_of_testee(testee)}"
    return Job(
        name=folder,
        read=read,
        schema=SCHEMA,
        out=settings.out,
        folder=folder,
        count=_count,
        alike=("outcome", "field", "kind", "why"),
    )


def _count(batch: pa.RecordBatch) -> dict[str, int]:
    outcomes = batch.column("outcome").value_counts().to_pylist()
    return {row["values"]: row["counts"] for row in outcomes}


def _compared(spark: Any, settings: Sweep, given: OutputManifest, receipts: Sequence[Receipt]) -> OutputManifest:
    view(spark, "observations", settings.out / OBSERVATIONS)
    view(spark, "cases", settings.cases / "cases")
    vectors, clusters = query_table(spark, VECTORS), query_table(spark, CLUSTERS)
    files = [file for receipt in receipts for file in receipt.files]
    files += [put_table(settings.out, VECTORS_FOLDER, vectors), put_table(settings.out, CLUSTERS_FOLDER, clusters)]
    rows, names = vectors.to_pylist(), sorted(map(folder_of_testee, settings.testees))
    counts = {
        "outcomes": compare_outcomes(rows, names),
        "agreement": agreement(rows, names),
        "clusters": clusters.num_rows,
    }
    return complete(settings.out, OutputManifest(format=FORMAT, plan=settings.plan(given), counts=counts, files=files))


def clusters_of(out: Path) -> list[dict[str, Any]]:
    """The clusters that were found."""
    rows: list[dict[str, Any]] = pq.read_table(out / CLUSTERS_FOLDER).to_pylist()
    return rows
