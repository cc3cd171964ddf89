"""A broker's answers to a scenario against those that are right; pure.

crash            the broker ended, or closed the connection where one answers
accepts_invalid  it took what is refused
rejects_valid    it refused what is taken
wrong_error      another error code
wrong_data       other bytes, offsets or times
lossy            the same records, with other bytes around them, or without the
                 list of records at fault
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafka_conformance.severity import Outcome
from kafka_corpus.case import Compare, Expectation
from kafka_corpus.played import difference
from kafka_corpus.scenario import StepAnswer
from kafka_records import RecordFormatError, decode

Finding = tuple[Outcome, str, str]
AGREES: Final[Finding] = ("agree", "", "")


def judge_played(expect: Expectation, given: Sequence[StepAnswer]) -> Finding:
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
