"""Generated cases to one testee, and what it did with each: the part of `pipeline sweep` that runs on executors.

A session is a sandbox, as in a certificate: what a testee does is an
observation, never a failure of the shard.  What differs from run to run (times,
addresses, process ids) is left out, so that a shard done again is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from kafka_conformance import connect
from kafka_conformance.judge import judge
from kafka_conformance.observation import Consumed, Decoded, Observation, Refused
from kafka_conformance.protocol import HelloReply
from kafka_conformance.questions import TOGETHER, beyond, groups, question
from kafka_conformance.runner import trivial_decodes
from kafka_conformance.sandbox import Sandbox
from kafka_corpus.case import Case, Expectation
from kafka_corpus.pipeline.needs import Refused as ShardRefused
from kafka_corpus.wire import WireBatch, from_wire

SCHEMA: Final = pa.schema([
    pa.field(name, kind, nullable=False)
    for name, kind in {
        "index": pa.int64(),
        "outcome": pa.string(),
        "field": pa.string(),
        "kind": pa.string(),
        "why": pa.string(),
        "batches": pa.int32(),
        "answer": pa.int64(),
    }.items()
])  # fmt: skip
# What of a case a sweep reads.
COLUMNS: Final = ["index", "lie", "data", "verdict", "kinds", "batches"]
# Of what is said about an outcome: characters that are kept.
LONGEST: Final = 160
# What is never the same twice.
_PASSING: Final = re.compile(r"0x[0-9a-fA-F]+|\d{3,}")
_ENDINGS: Final = ("crash", "hang", "memory")
_batches: Final = msgspec.json.Decoder(list[WireBatch])
_json: Final = msgspec.json.Encoder()


class Asking:
    """One testee's process and what is asked of it; a context manager, with which the process ends."""

    def __init__(self, testee: str) -> None:
        """Of the testee that this connect string names; it is built here if it has to be."""
        self._testee = testee
        self._sandbox: Sandbox | None = None
        self._hello: HelloReply | None = None

    def __enter__(self) -> Asking:
        """Start it.  Raises `Refused` of the pipeline if that cannot be done here."""
        try:
            self._sandbox = Sandbox(connect.connect(self._testee))
            self._hello = self._sandbox.hello()
            self._sandbox.calibrate(trivial_decodes())
        except connect.CannotRun as error:
            self.__exit__()
            raise ShardRefused(str(error)) from None
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        if self._sandbox is not None:
            self._sandbox.close()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """An observation for each case of *batch*, in its order."""
        cases = cases_of(batch)
        rows = dict(self._rows(cases))
        columns = zip(*(rows[case.id] for case in cases), strict=True) if cases else [()] * len(SCHEMA)
        arrays = [pa.array(column, each.type) for column, each in zip(columns, SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def _rows(self, cases: Sequence[Case]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        assert self._sandbox is not None
        assert self._hello is not None
        asked: list[Case] = []
        for case in cases:
            skipped = beyond(case, self._hello)
            if skipped is None:
                asked.append(case)
            else:
                yield case.id, row_of(case, skipped)
        for group in groups(asked, TOGETHER):
            try:
                answers = self._sandbox.ask([question(case) for case in group])
                for case, answered in zip(group, answers, strict=True):
                    yield case.id, row_of(case, answered.observation)
            except connect.CannotRun as error:  # it started once, and does no more
                raise ShardRefused(str(error)) from None


def cases_of(batch: pa.RecordBatch) -> list[Case]:
    """The rows of generated cases as the judge has them."""
    columns = (batch.column(name).to_pylist() for name in COLUMNS)
    return [_case(*row) for row in zip(*columns, strict=True)]


def _case(index: int, lie: str, data: bytes, verdict: Any, kinds: list[Any], batches: str) -> Case:
    expect = Expectation(verdict=verdict, kinds=tuple(kinds), batches=tuple(map(from_wire, _batches.decode(batches))))
    # Cases of one lie are variations of one another, as those of one case function are.
    return Case(id=f"{lie}[{index}]", title="", rules=(), area="generated", op="decode", input=data, expect=expect)


def row_of(case: Case, observation: Observation) -> tuple[Any, ...]:
    """What came of *case*, its columns as in `SCHEMA`."""
    verdict = judge(case, observation)
    index = int(case.id.rpartition("[")[2].removesuffix("]"))
    why = lasting(verdict.outcome, verdict.why)
    batches = len(observation.batches) if isinstance(observation, Decoded) else -1
    kind = "" if verdict.outcome == "agree" else kind_of(observation)
    return index, verdict.outcome, verdict.field, kind, why[:LONGEST], batches, answer_of(observation)


def lasting(outcome: str, why: str) -> str:
    """What is said of an outcome, without what is never the same twice.

    >>> lasting("crash", "signal 11 in thread 140213"), lasting("wrong_data", "expected 1000000")
    ('signal 11 in thread #', 'expected 1000000')
    """
    return _PASSING.sub("#", why) if outcome in _ENDINGS else why


def kind_of(observation: Observation) -> str:
    """What kind of error a testee said that it is; empty if it said none."""
    if isinstance(observation, Refused | Decoded | Consumed) and observation.error is not None:
        return observation.error.kind
    return ""


def answer_of(observation: Observation) -> int:
    """A hash that equal data share, so that those who are wrong in the same way are found; 0 for no data."""
    if not isinstance(observation, Decoded | Consumed):
        return 0
    data = observation.batches if isinstance(observation, Decoded) else observation.records
    number = xxh3_64_intdigest(_json.encode(data))
    return number - (1 << 64) if number >> 63 else number


def observations(testee: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What *testee* did with the cases of *batches*; its process lives as long as this runs."""
    with Asking(testee) as asking:
        yield from map(asking, batches)
