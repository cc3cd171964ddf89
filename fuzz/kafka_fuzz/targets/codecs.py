"""Python codecs in process, and the expected answer to a mutant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

import kafka_records
from kafka_conformance.judge.observation import Decoded, Observation
from kafka_conformance.judge.verdict import judge
from kafka_conformance.testees.interface import CodecError, load_testee
from kafka_conformance.testees.protocol import Refusal
from kafka_corpus.case import Case, Expectation
from kafka_corpus.wire import BATCH_FIELDS, WireBatch, WireRecord
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.targets.base import Target, TargetResult, leak
from kafka_fuzz.targets.outcome import OutcomeClass
from kafka_records import Batch, Limits, Record, RecordFormatError

if TYPE_CHECKING:
    from kafka_conformance.testees.interface import Testee
    from kafka_fuzz.mutate import Mutant


# Mutants are small; more than this out of one is a bomb, about which nobody has to agree.
LIMITS: Final = Limits(max_output_bytes=16 * 1024 * 1024)
# A judge's word for what a fuzzer does not stop for: adapters translate errors, and APIs show what they show.
TOLERATED: Final[dict[str, OutcomeClass]] = {"agree": "ok", "skipped": "ok", "lossy": "ok", "wrong_error": "refused"}
OK: Final = TargetResult("ok")
_fields: Final = attrgetter(*(name for name in BATCH_FIELDS if name != "records"))


def right_answer(mutant: Mutant) -> Expectation:
    """The right answer to *mutant*: that of its known fault, otherwise the reference's."""
    if mutant.expected is not None:
        return mutant.expected
    try:
        return Expectation(verdict="valid", batches=kafka_records.decode(mutant.data, limits=LIMITS))
    except RecordFormatError as error:
        if error.kind == "limit":
            return Expectation(verdict="acceptable", batches=error.batches)
        return Expectation(verdict="invalid", batches=error.batches, why=error.rule or "")


def reference_agrees(mutant: Mutant) -> bool:
    """Whether the reference answers as the lie in *mutant* says; true where no lie is known."""
    expected = mutant.expected
    if expected is None:
        return True
    try:
        read = kafka_records.decode(mutant.data)
    except RecordFormatError as error:
        refused = expected.verdict != "valid" and error.kind in expected.kinds
        return refused and error.batches == expected.batches[: len(error.batches)]
    return expected.verdict != "invalid" and read == expected.batches


def judged_result(mutant: Mutant, expected: Expectation, observation: Observation) -> TargetResult:
    """The judge's verdict, as an outcome."""
    if is_right(expected, observation):
        return OK
    case = Case(id="fuzz", title="", rules=(), area="fuzz", op="decode", input=mutant.data, expect=expected)
    verdict = judge(case, observation)
    if verdict.outcome in TOLERATED:
        return TargetResult(TOLERATED[verdict.outcome])
    kind: OutcomeClass = verdict.outcome  # type: ignore[assignment]  # the judge's words are classes of ours
    return TargetResult(
        kind, verdict.field and _without_indexes(verdict.field), verdict.why, difference=verdict.difference
    )


def is_right(expected: Expectation, observation: Observation) -> bool:
    """Whether the judge is sure to agree: every field that is shown is as it should be.

    A third of the time that an input takes would else go into making the right answer
    look like the testee's.  It may say no to what the judge agrees with, not the other way.
    """
    if not isinstance(observation, Decoded) or observation.error is not None or expected.verdict == "invalid":
        return False
    given = observation.batches
    return len(given) == len(expected.batches) and all(map(_is_same, expected.batches, given))


def is_right_so_far(expected: Expectation, given: Sequence[WireBatch]) -> bool:
    """Whether there may be an error, and what was *given* before it is sure to be the first of what is expected."""
    if expected.verdict == "valid" or len(given) > len(expected.batches):
        return False
    return all(map(_is_same, expected.batches, given))


def _is_same(batch: Batch, given: WireBatch) -> bool:
    for want, have in zip(_fields(batch), _fields(given), strict=True):
        if want != have and have is not UNSET:
            return False
    if given.records is UNSET:
        return True
    return len(given.records) == len(batch.records) and all(map(_is_same_record, batch.records, given.records))


def _is_same_record(record: Record, given: WireRecord) -> bool:
    offset, timestamp, key, value, headers = record
    return (
        (given.key == key or given.key is UNSET)
        and (given.value == value or given.value is UNSET)
        and (given.offset == offset or given.offset is UNSET)
        and (given.timestamp == timestamp or given.timestamp is UNSET)
        and (given.headers is UNSET or (given.headers == list(headers) if headers else not given.headers))
    )


def _without_indexes(path: str) -> str:
    return "".join(part.partition("]")[2] if "]" in part else part for part in path.split("["))


@dataclass(frozen=True, slots=True)
class CodecTarget:
    """A testee in process.

    Attributes:
        testee: what decodes.
        packages: of the codec itself, not of the adapter.
        documented: the names of the exceptions that its users are told of.
    """

    testee: Testee
    packages: tuple[str, ...]
    documented: frozenset[str]

    def check(self, mutant: Mutant) -> TargetResult:
        """Decode, and say what that is worth."""
        expected = right_answer(mutant)
        try:
            observed = Decoded(tuple(self.testee.decode(mutant.data)))
        except CodecError as error:
            cause = error.__cause__ or error
            documented = self.is_documented(cause)
            if not documented and is_right_so_far(expected, error.batches):
                return leak(cause, self.packages)
            result = judged_result(mutant, expected, Decoded(tuple(error.batches), Refusal(error.kind, str(error))))
            if documented:
                return result
            kind = result.kind if result.kind in ("rejects_valid", "wrong_data") else "leaked_exception"
            return leak(cause, self.packages, kind)
        return judged_result(mutant, expected, observed)

    def is_documented(self, error: BaseException) -> bool:
        """Whether its users are told of *error*."""
        return any(cls.__name__ in self.documented for cls in type(error).__mro__)


def codec_target(name: str, module: str, packages: tuple[str, ...], documented: tuple[str, ...]) -> Target:
    """The testee *module* as a target; ImportError where what it needs is not installed."""
    testee = load_testee(module)
    return Target(name, testee.VERSION, packages, CodecTarget(testee, packages, frozenset(documented)).check)
