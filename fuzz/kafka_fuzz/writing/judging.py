"""What a testee's bytes for a batch are worth, under keys that are one for each cause."""

from __future__ import annotations

from typing import Final

import msgspec

from kafka_conformance.judge import judge
from kafka_conformance.observation import Crashed, Exceeded, Garbled, Hung, Observation, Refused
from kafka_corpus.wire import to_wire
from kafka_fuzz import signature
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.outcome import Outcome, OutcomeClass
from kafka_fuzz.relation import relation
from kafka_fuzz.targets.oracle import NO_FINDS
from kafka_fuzz.writing.values import Writing
from kafka_records.constants import MAGIC_VALUE_V2

# Before what tells finds apart, so that none is taken for one of reading.
WRITING: Final = "writing"
ENDINGS: Final[dict[type, OutcomeClass]] = {Crashed: "crash", Hung: "hang", Exceeded: "memory", Garbled: "crash"}


def outcome_of(testee: str, writing: Writing, seen: Observation) -> Outcome:
    """What *testee* did when it was asked to write a batch."""
    era = "v2" if writing.batch.magic == MAGIC_VALUE_V2 else "legacy"
    if isinstance(seen, Crashed | Hung | Exceeded | Garbled):
        detail, function = signature.of_ending(seen)
        why = getattr(seen, "stderr", "") or getattr(seen, "why", "")
        return Outcome(testee, ENDINGS[type(seen)], f"{WRITING} {detail}".strip(), function, writing.value, why)
    verdict = judge(writing.case, seen)
    if verdict.outcome in NO_FINDS:
        return Outcome(testee, "refused" if isinstance(seen, Refused) else "ok")
    kind: OutcomeClass = verdict.outcome  # type: ignore[assignment]  # the judge's words are classes of ours
    field = signature.normal(verdict.field).replace("[#]", "")
    detail, where = f"{field} {relation(verdict.why)}".strip(), era
    if isinstance(seen, Refused):
        detail = signature.normal(seen.error.message or seen.error.kind)
    elif kind == "accepts_invalid":
        detail, where = "", writing.rule
    return Outcome(testee, kind, f"{WRITING} {detail}".strip(), where, writing.value, verdict.why)


def mutant_of(writing: Writing) -> Mutant:
    """*writing* as finds keep it: the batch as the protocol has it, in JSON."""
    data = msgspec.json.encode(to_wire(writing.batch))
    return Mutant(data, "model", (writing.value, writing.variant), None, writing.cell)
