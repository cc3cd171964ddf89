"""What is right about a mutant, and what a codec's answer is worth."""

from __future__ import annotations

from typing import Final

import kafka_records
from kafka_conformance.judge import judge
from kafka_conformance.observation import Observation
from kafka_corpus.case import Case, Expectation
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.outcome import OutcomeClass
from kafka_fuzz.targets.base import Told
from kafka_records import Limits, RecordFormatError

# Mutants are small; more than this out of one is a bomb, about which nobody has to agree.
LIMITS: Final = Limits(max_output_bytes=16 * 1024 * 1024)
# A judge's word for what a fuzzer does not stop for: adapters translate errors, and APIs show what they show.
NO_FINDS: Final[dict[str, OutcomeClass]] = {"agree": "ok", "skipped": "ok", "lossy": "ok", "wrong_error": "refused"}


def right_answer(mutant: Mutant) -> Expectation:
    """What the lie in *mutant* asks for; where there is none that is known, what the reference reads."""
    if mutant.expected is not None:
        return mutant.expected
    try:
        return Expectation(verdict="valid", batches=kafka_records.decode(mutant.data, limits=LIMITS))
    except RecordFormatError as error:
        if error.kind == "limit":
            return Expectation(verdict="acceptable", batches=error.batches)
        return Expectation(verdict="invalid", batches=error.batches, why=error.rule or "")


def told_of(mutant: Mutant, expected: Expectation, observation: Observation) -> Told:
    """The judge's verdict, as an outcome."""
    case = Case(id="fuzz", title="", rules=(), area="fuzz", op="decode", input=mutant.data, expect=expected)
    verdict = judge(case, observation)
    if verdict.outcome in NO_FINDS:
        return Told(NO_FINDS[verdict.outcome])
    kind: OutcomeClass = verdict.outcome  # type: ignore[assignment]  # the judge's words are classes of ours
    return Told(kind, verdict.field and _without_indexes(verdict.field), verdict.why)


def _without_indexes(path: str) -> str:
    return "".join(part.partition("]")[2] if "]" in part else part for part in path.split("["))
