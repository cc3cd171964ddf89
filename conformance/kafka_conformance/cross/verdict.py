"""Assign blame from the wanted batch, the reference's reading of the bytes, and the consumer's result; pure.

A producer is judged by the wanted batch alone, as `certify` does it.  A cell
compares the wanted batch with the consumer's result.  If they differ, the
producer is at fault where the bytes hold something else than the wanted batch,
the consumer where its result differs from the bytes, or both.  A consumer that
undoes its producer's mistake agrees, and both are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import kafka_records
from kafka_brokers.wire.errors import error_name
from kafka_conformance.judge.observation import Decoded, Observation, Skipped
from kafka_conformance.judge.verdict import SEVERITIES, Outcome, judge, verdict_on
from kafka_conformance.judge.written import compare_written
from kafka_corpus.case import Case, Expectation
from kafka_corpus.scenario import StepAnswer
from kafka_records import Batch, RecordFormatError

Blame = Literal["", "producer", "consumer", "both"]
UNDONE: Final = "the consumer undoes what the producer did: the bytes hold"


@dataclass(frozen=True, slots=True)
class Judged:
    """How one batch came through.

    Attributes:
        outcome: a severity, `agree` or `skipped`.
        blame: the side at fault; empty if there is none.
        field: the first field that differs.
        why: what differed, on one line.
    """

    outcome: Outcome
    blame: Blame = ""
    field: str = ""
    why: str = ""


def of_writer(case: Case, observation: Observation) -> Judged:
    """A producer's answer to an encode case."""
    verdict = judge(case, observation)
    blame: Blame = "producer" if verdict.outcome in SEVERITIES else ""
    return Judged(verdict.outcome, blame, verdict.field, verdict.why)


def reading(data: bytes) -> tuple[Batch, ...] | RecordFormatError:
    """The batches in *data*, or the error that reading it raises."""
    try:
        return kafka_records.decode(data)
    except RecordFormatError as error:
        return error


def of_reader(expected: Sequence[Batch], data: bytes, observation: Observation) -> Judged:
    """A consumer's reading of *data*, which was to hold *expected*."""
    if isinstance(observation, Skipped):
        return Judged("skipped", why=observation.reason)
    held = reading(data)
    if isinstance(held, RecordFormatError):
        return _of_broken(expected, held, observation)
    wanted = accepted(expected, held)
    through = judge(_decode(data, wanted), observation)
    own = through if wanted == tuple(held) else judge(_decode(data, held), observation)
    consumer, producer = own.outcome in SEVERITIES, wanted != tuple(held)
    if through.outcome not in SEVERITIES:
        return _undone(own.why) if consumer else Judged(through.outcome, why=through.why)
    blame: Blame = "both" if consumer and producer else "consumer" if consumer else "producer"
    return Judged(through.outcome, blame, through.field, through.why)


def accepted(expected: Sequence[Batch], held: Sequence[Batch]) -> tuple[Batch, ...]:
    """*expected*, with what *held* has in place of fields that may be otherwise (`equivalence`)."""
    differences = compare_written(expected, held)
    if all(found.equivalence for found in differences):
        return tuple(held)
    wanted = list(expected)
    for found in differences:
        if found.equivalence and ".records" not in found.path:
            where, _, field = found.path.rpartition(".")
            at = int(where[len("batches[") : -1])
            wanted[at] = replace(wanted[at], **{field: getattr(held[at], field)})
    return tuple(wanted)


def _undone(why: str) -> Judged:
    # Why a consumer is wrong by the bytes reads "expected (what they hold), got (what was wanted)".
    return Judged("agree", "both", why=f"{UNDONE} {why}")


def _of_broken(expected: Sequence[Batch], error: RecordFormatError, observation: Observation) -> Judged:
    """A consumer's answer to unreadable bytes."""
    if isinstance(observation, Decoded) and observation.error is None:
        given = judge(_decode(b"", expected), observation)
        if given.outcome not in SEVERITIES:
            return _undone(f"no batch ({error})")
        return Judged("accepts_invalid", "both", given.field, f"no batch ({error}), and yet it gives one; {given.why}")
    given = judge(_decode(b"", expected), observation)
    return Judged(given.outcome, "producer", "data", f"the bytes cannot be read ({error}); {given.why}")


def _decode(data: bytes, batches: Sequence[Batch]) -> Case:
    """The question *data*, with *batches* as its right answer."""
    expect = Expectation(verdict="valid", batches=tuple(batches))
    return Case(id="cross", title="", rules=(), area="cross", op="decode", input=data, expect=expect)


def of_broker(right: StepAnswer, given: StepAnswer, name: str) -> Judged:
    """A broker's answer to a producer's bytes, beside its answer to the bytes that are right."""
    if _refused(right):
        if _refused(given):
            return Judged("skipped", why=f"refused from every writer: {_describe(right, name)}")
        return Judged("accepts_invalid", "producer", "error_code", f"taken, though not from Kafka's writer: {name}")
    if _refused(given):
        return Judged("rejects_valid", "producer", "error_code", _describe(given, name))
    stored = reading(given.data)
    if isinstance(stored, RecordFormatError):
        return Judged("wrong_data", "producer", "stored", f"what it stored cannot be read: {stored}")
    differences = compare_written(kafka_records.decode(right.data), stored)
    # A broker's own leader epoch is in both, so equivalences after it are already known.
    verdict = verdict_on([each for each in differences if not each.equivalence])
    return Judged(verdict.outcome, "producer" if verdict.outcome in SEVERITIES else "", verdict.field, verdict.why)


def _refused(answer: StepAnswer) -> bool:
    return bool(answer.error_code) or answer.closed or answer.silent or answer.ended


def _describe(answer: StepAnswer, name: str) -> str:
    if answer.closed:
        return f"{name} closed the connection"
    if answer.silent or answer.ended:
        return f"{name} did not answer"
    return f"{name} answers {answer.error_code} {error_name(answer.error_code)}"
