"""The verdict on an observation: agreement, or a disagreement with its severity. Pure.

crash            the broker ended, or closed the connection where one answers
accepts_invalid  it took what is refused
rejects_valid    it refused what is taken
wrong_error      another error code
wrong_data       other bytes, offsets or times
lossy            the same records, with other bytes around them, or without the
                 list of records at fault

wrong_data       other data than is right, without a word: the worst
    crash            the process ended, or answered with something that is no reply
    hang             no answer within the time limit
    memory           more memory, or more output, than it may take
    accepts_invalid  data for bytes that Kafka refuses
    rejects_valid    an error for bytes that Kafka takes
    wrong_error      a refusal, rightly, but of another kind, after a record that
                     Kafka holds back or before one that it delivers, or an exception
                     that slipped out of the codec (`other`)
    lossy            the right data, of which a codec's API shows less (a header
                     key that is not UTF-8 made text), or a wish that a writer
                     did not follow without harm to the records

flaky      a hang, exhausted memory or a crash by a limit that does not happen each time, or an outcome
           that was seen to vary between runs
not_asked  the testee had answered none of the requests before

A case that is `acceptable` may be refused or answered; other data than the
expected is wrong there too.  Batches delivered before an error must be the
first of those expected.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import msgspec

from kafka_conformance.judge import consuming, written
from kafka_conformance.judge.api_limits import limits_beyond
from kafka_conformance.judge.compare import Difference, compare
from kafka_conformance.judge.memory import memory_text
from kafka_conformance.judge.observation import (
    Appended,
    ConsumedRecords,
    Crashed,
    Decoded,
    Encoded,
    Exceeded,
    Garbled,
    Hung,
    NotSent,
    Observation,
    Refused,
    ScenarioAnswers,
    Skipped,
    how_it_ended,
    observation_kind,
)
from kafka_conformance.testees.protocol import LEAKED, Refusal
from kafka_corpus.answer_diff import difference
from kafka_corpus.case import Case, Compare, Expectation
from kafka_corpus.scenario import StepAnswer
from kafka_corpus.vector_format import CODEC_OPS
from kafka_corpus.wire import to_wire
from kafka_records import RecordFormatError, decode

Severity = Literal["wrong_data", "crash", "hang", "memory", "accepts_invalid", "rejects_valid", "wrong_error", "lossy"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
# No verdict: the answer varies, the testee does not do this, or it was given up before.
Open = Literal["flaky", "skipped", "not_asked"]
OPEN: Final[tuple[Open, ...]] = get_args(Open)
Outcome = Severity | Literal["agree"] | Open
OUTCOMES: Final[tuple[Outcome, ...]] = (*SEVERITIES, "flaky", "agree", "skipped", "not_asked")
# Two letters for a cell of a matrix.
SHORT: Final[dict[Outcome, str]] = {
    "wrong_data": "WD", "crash": "CR", "hang": "HG", "memory": "ME", "accepts_invalid": "AI", "rejects_valid": "RV",
    "wrong_error": "WE", "lossy": "LO", "flaky": "FL", "agree": "✓", "skipped": "–", "not_asked": "?",
}  # fmt: skip


Finding = tuple[Outcome, str, str]
AGREES: Final[Finding] = ("agree", "", "")


def judge_scenario(expect: Expectation, given: Sequence[StepAnswer]) -> Finding:
    """Outcome, the first field that differs, and how; the first step that differs decides."""
    if len(given) != len(expect.answers):
        if given and given[-1].ended:
            return "crash", "ended", f"the broker ended at step {len(given)}"
        return "crash", "answers", f"{len(given)} answers to {len(expect.answers)} steps"
    for index, (want, have) in enumerate(zip(expect.answers, given, strict=True)):
        if reason := difference([want], [have], expect.compare):
            field = reason.partition(" is ")[0].removeprefix("[0].")
            return _outcome(want, have, field, expect.compare), f"answers[{index}].{field}", reason.removeprefix("[0].")
    return AGREES


def _outcome(want: StepAnswer, have: StepAnswer, field: str, compare: Compare) -> Outcome:
    if have.ended or (have.closed and not want.closed):
        return "crash"
    refuses, refused = bool(want.error_code or want.closed), bool(have.error_code)
    if refuses != refused:
        return "rejects_valid" if refused else "accepts_invalid"
    if want.error_code != have.error_code:
        return "wrong_error"
    if field == "record_errors" or (field == "data" and _same_records(want.data, have.data)):
        return "lossy"
    return "wrong_data"


def _same_records(want: bytes, have: bytes) -> bool:
    try:
        return [batch.records for batch in decode(want)] == [batch.records for batch in decode(have)]
    except RecordFormatError:
        return False


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an observation compares with what is right.

    Attributes:
        outcome: a severity, `agree`, or one of `OPEN`.
        field: the first field that differs, as `batches[0].records[3].timestamp`.
        why: what differed, on one line.
        also: further fields that differ, without indexes.
        left_out: fields of the right answer that the testee does not expose.
        difference: the two values of `field` and `why`, where batches or records differ.
    """

    outcome: Outcome
    field: str = ""
    why: str = ""
    also: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    difference: Difference | None = dataclasses.field(default=None, compare=False, repr=False)


AGREE: Final = Verdict("agree")
# Of bytes that may be refused with any error of the library's own.
ANY_ERROR: Final = Expectation(verdict="invalid")
# A skip that `api_limits` knows no reason for: a codec that announces the format has no answer.
UNREASONED: Final = "skipped, although no API that announces the format is limited so"


def judge(case: Case, observation: Observation) -> Verdict:
    """The verdict on *observation*, made on *case*."""
    match observation:
        case Skipped(reason, by_runner):
            if by_runner or case.op not in CODEC_OPS or limits_beyond(case):
                return Verdict("skipped", why=reason)
            return Verdict("crash", why=f"{UNREASONED}: {reason}")
        case NotSent(reason):
            return Verdict("not_asked", why=reason)
        case Crashed():
            return Verdict("crash", why=how_it_ended(observation))
        case Garbled(why):
            return Verdict("crash", why=why)
        case Hung():
            return Verdict("hang", why=how_it_ended(observation))
        case Exceeded():
            return Verdict("memory", why=memory_text(case.id, observation))
    return _of_broker(case, observation) if case.expect.answers else _of_codec(case, observation)


def _of_codec(case: Case, observation: Observation) -> Verdict:
    match observation:
        case Refused(error):
            return _judge_error(case.expect, error)
        case Decoded(_, None) if case.op == "decode":
            return _judge_batches(case, observation)
        case Decoded(_, error) if case.op == "decode" and error is not None:
            return _worse(_compared(case, observation, prefix=True), _judge_error(case.expect, error))
        case ConsumedRecords() if case.op == "decode":
            return _judge_consumed(consuming.for_reader(case), observation)
        case Encoded(data) if case.op == "encode":
            return _judge_bytes(case, data)
    return _no_answer(case, observation)


def _of_broker(case: Case, observation: Observation) -> Verdict:
    match observation:
        case ScenarioAnswers(answers):
            return Verdict(*judge_scenario(case.expect, answers))
        case Appended(error_code, base_offset, stored):
            # A testee says less than a broker: what it does not say is taken as right.
            changes = {"error_code": error_code, "base_offset": base_offset, "data": stored}
            answer = msgspec.structs.replace(case.expect.answers[0], **changes)
            return Verdict(*judge_scenario(case.expect, (answer,)))
    return _no_answer(case, observation)


def _no_answer(case: Case, observation: Observation) -> Verdict:
    return Verdict("crash", why=f"{observation_kind(observation)} is no answer to {case.op}")


def _judge_error(expect: Expectation, error: Refusal) -> Verdict:
    text = ": ".join(filter(None, (error.kind, error.message))) or "an error"
    if expect.verdict == "valid":
        return Verdict("rejects_valid", field="error", why=text)
    if not error.kind:
        return Verdict("agree", left_out=("error.kind",))
    if error.kind == LEAKED or (expect.kinds and error.kind not in expect.kinds):
        kinds = " or ".join(expect.kinds) or "an error of its own"
        return Verdict("wrong_error", field="error.kind", why=f"expected {kinds}, got {text}")
    return AGREE


def _judge_batches(case: Case, decoded: Decoded) -> Verdict:
    if case.expect.verdict == "invalid":
        return _accepts_invalid(case, len(decoded.batches), "batch", "batches")
    return _compared(case, decoded, prefix=False)


def _judge_consumed(case: Case, consumed: ConsumedRecords) -> Verdict:
    comparison = consuming.compare_consumed(case, consumed)
    verdict = verdict_on(comparison.differences, tuple(sorted(comparison.left_out)))
    if consuming.is_right_for_a_part(case, consumed):
        return AGREE if consumed.error is None else _judge_error(ANY_ERROR, consumed.error)
    if consumed.error is not None:
        verdict = _worse(verdict, _judge_error(case.expect, consumed.error))
        verdict = _at_another_record(case, consumed, verdict)
    if consumed.stalled:
        return _worse(verdict, Verdict("hang", field="next_offset", why=consuming.stalled(consumed)))
    if consumed.error is not None:
        return verdict
    if case.expect.verdict == "invalid":
        return _accepts_invalid(case, len(consumed.records), "record", "records")
    return verdict


def _at_another_record(case: Case, consumed: ConsumedRecords, verdict: Verdict) -> Verdict:
    """*verdict* on an error, or the worse one on its place: after other records than Kafka's consumer delivers."""
    why = consuming.too_many_before_an_error(case, consumed) or consuming.too_few_before_an_error(case, consumed)
    if not why:
        return verdict
    if verdict.outcome == "wrong_error":
        return dataclasses.replace(verdict, why=f"{why}; {verdict.why}")
    return _worse(verdict, Verdict("wrong_error", field="records.length", why=why))


def _compared(case: Case, decoded: Decoded, *, prefix: bool) -> Verdict:
    expected = list(map(to_wire, case.expect.batches))
    records_only = case.expect.compare == "records"
    comparison = compare(expected, decoded.batches, prefix=prefix, records_only=records_only)
    return verdict_on(comparison.differences, tuple(sorted(comparison.left_out)))


def verdict_on(differences: Sequence[Difference], left_out: tuple[str, ...] = ()) -> Verdict:
    """The verdict on what a comparison found: the first difference that is not lossy counts most."""
    if not differences:
        return Verdict("agree", left_out=left_out)
    wrong = [difference for difference in differences if not difference.lossy]
    first = (wrong or list(differences))[0]
    also = {_without_indexes(other.path) for other in differences} - {_without_indexes(first.path)}
    outcome: Outcome = "wrong_data" if wrong else "lossy"
    return Verdict(outcome, first.path, str(first), tuple(sorted(also)), left_out, first)


def _without_indexes(path: str) -> str:
    return "".join(part.partition("]")[2] if "]" in part else part for part in path.split("["))


def _judge_bytes(case: Case, data: bytes) -> Verdict:
    if case.expect.verdict == "invalid":
        return _accepts_invalid(case, len(data), "byte", "bytes")
    return verdict_on(written.written_differences(case, data))


def _accepts_invalid(case: Case, count: int, one: str, many: str) -> Verdict:
    kinds = " or ".join(case.expect.kinds) or "an error"
    got = f"{count:,} {one if count == 1 else many}"
    return Verdict("accepts_invalid", field="error", why=f"expected {kinds}, got {got}")


def _worse(one: Verdict, other: Verdict) -> Verdict:
    worst = min(one, other, key=lambda verdict: OUTCOMES.index(verdict.outcome))
    return dataclasses.replace(worst, left_out=tuple(sorted({*one.left_out, *other.left_out})))


def outcome_rank(outcome: Outcome) -> int:
    """0 for the worst; `agree`, `skipped` and `not_asked` come last."""
    return OUTCOMES.index(outcome)
