"""The outcome tuple of an input: expected answers, each testee's outcome, and how a wrong answer differs.

The path of a field says where data differ, and one field may be wrong for several
reasons.  A wrapped counter, a rounded timestamp and a null that became empty are
different defects, whatever the input was.

The classes of all answers to one input are its outcome tuple, as in Nezha.  An
input with a new outcome tuple is kept as a seed, although its coverage inside the
testees is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from msgspec import UNSET

import kafka_records
from kafka_conformance.judge.compare import HEADER_FIELDS, Difference
from kafka_conformance.judge.consuming import unfollowable
from kafka_conformance.judge.observation import Crashed, Decoded, Exceeded, Garbled, Hung, Observation, Skipped, observe
from kafka_conformance.testees.protocol import LEAKED, CodecAnswer
from kafka_corpus.case import Case
from kafka_corpus.wire import BATCH_FIELDS, RECORD_FIELDS, WireBatch, to_wire
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.mutate.mutant import first_entry_spans, known_fault
from kafka_fuzz.targets.codecs import LIMITS, judged_result, right_answer
from kafka_fuzz.targets.outcome import (
    ENDINGS,
    Outcome,
    OutcomeClass,
    ending_cause,
    fault_class,
    normalized_message,
    value_relation,
)
from kafka_records import RecordFormatError
from kafka_records.constants import COMPRESSIONS
from kafka_records.layout import MAGIC_OFFSET

CODEC_AT: Final = {0: 17, 1: 17, 2: 22}
CODEC_BITS: Final = 0x07
LEGACY: Final = ("v0", "v1")

Mask = tuple[frozenset[str], frozenset[str]]
"""The fields that a testee leaves out: of batches, of records."""


class Prepared:
    """A mutant with its right answer and the cause of a refusal.

    Attributes:
        mutant: the input.
        right: the answer that the fault requires; without a known fault, the reference's.
        cause: the fault, or the rule by which the reference refuses; empty for a valid input.
    """

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.right, self.cause = right_answer(mutant)
        self._masked: dict[Mask, list[WireBatch]] = {}

    @cached_property
    def wire(self) -> list[WireBatch]:
        """The right batches as a testee with all fields returns them."""
        return list(map(to_wire, self.right.batches))

    @cached_property
    def case(self) -> Case:
        """The input as a case, for the judge."""
        return Case(id="fuzz", title="", rules=(), area="fuzz", op="decode", input=self.mutant.data, expect=self.right)

    def place(self, index: int) -> str:
        """Magic and codec of entry *index*, as `v1 gzip`; of what follows the last entry if there are fewer."""
        data, spans = self.mutant.data, first_entry_spans(self.mutant.data)
        at = spans[index][0] if index < len(spans) else spans[-1][1] if spans else 0
        return first_place(data[at:])

    def era(self, index: int) -> str:
        """`v2` or `legacy`, the age of the format of entry *index*; empty if there is none."""
        magic = self.place(index).partition(" ")[0]
        return "legacy" if magic in LEGACY else magic

    @property
    def stream(self) -> str:
        """The codec whose framing has the fault; empty for every other fault."""
        return self.mutant.cell.codec if self.fault and self.mutant.cell.nesting == "stream" else ""

    @cached_property
    def rule(self) -> str:
        """The rule by which the reference refuses the bytes, whatever the fault; empty for valid bytes."""
        if self.mutant.expected is None:
            return self.cause
        try:
            kafka_records.decode(self.mutant.data, limits=LIMITS)
        except RecordFormatError as error:
            return error.rule or error.kind
        return ""

    @property
    def fault(self) -> str:
        """The label of the fault; empty if none is known."""
        return known_fault(self.mutant)

    @cached_property
    def unfollowable(self) -> bool:
        """Whether a consumer cannot be given the input."""
        return bool(unfollowable(self.case))

    def masked(self, mask: Mask) -> list[WireBatch]:
        """The right batches without the fields of *mask*."""
        if mask not in self._masked:
            self._masked[mask] = [_without(batch, *mask) for batch in self.wire]
        return self._masked[mask]


def first_place(data: bytes) -> str:
    """Magic and codec of the first entry; empty if there is none.

    >>> first_place(bytes(16) + b"\\x01\\x02" + bytes(20))
    'v1 snappy'
    """
    magic = data[MAGIC_OFFSET] if len(data) > MAGIC_OFFSET else -1
    at = CODEC_AT.get(magic, len(data))
    if at >= len(data):
        return f"v{magic}" if magic in CODEC_AT else ""
    codec = data[at] & CODEC_BITS
    return f"v{magic} {COMPRESSIONS[codec] if codec < len(COMPRESSIONS) else 'unknown'}"


def _without(batch: WireBatch, batch_fields: frozenset[str], record_fields: frozenset[str]) -> WireBatch:
    kept = {name: getattr(batch, name) for name in BATCH_FIELDS if name not in batch_fields}
    if record_fields and isinstance(kept.get("records"), list):
        names = [name for name in RECORD_FIELDS if name not in record_fields]
        kept["records"] = [
            type(record)(**{name: getattr(record, name) for name in names}) for record in kept["records"]
        ]
    return WireBatch(**kept)


# The class of a testee that got no request, or skipped it.
NOT_RUN: Final = "-"
# The entry in the path of a field.
ENTRY: Final = re.compile(r"batches\[(\d+)\]")

# Hangs of consumers that refuse an input without an error; which check it was matters less.
STALLS: Final = frozenset({"next_offset", "deadlock"})
# Details that a different decompression may cause: other counts or contents.
UNPACKED_OTHERWISE: Final = re.compile(r"length \w|(key|value) other")
# Messages that name the decompressor.
SAYS_CODEC: Final = re.compile(r"(?i)gzip|flate|zlib|snappy|\bs2\b|xerial|lz4|zstd")


class Grade(NamedTuple):
    """The grade of an answer: as `targets.base.TargetResult`, and the index of the entry."""

    kind: OutcomeClass
    detail: str = ""
    why: str = ""
    function: str = ""
    difference: Difference | None = None
    entry: int = 0


OK: Final = Grade("ok")
REFUSED: Final = Grade("refused")
SKIPPED: Final = Grade("ok", NOT_RUN)

OutcomeTuple = tuple[str, ...]
"""A class or `NOT_RUN` for each testee, in a fixed order."""


class Grader:
    """Grades answers of one testee, and remembers the fields that it leaves out."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._masks: dict[object, Mask] = {}

    def grade(self, prepared: Prepared, answer: CodecAnswer | Observation) -> Grade:
        """The grade of *answer*: common answers at once, others by the judge of certification."""
        if isinstance(answer, CodecAnswer):
            return self._at_once(prepared, answer) or self._with_care(prepared, observe(answer))
        return self._with_care(prepared, answer)

    def outcome(self, prepared: Prepared, grade: Grade) -> Outcome:
        """The outcome of *grade*; its key depends on the cause, not on the input."""
        where = _where(prepared, grade)
        # The message or the function identifies these, whatever the fault was.
        fault = "" if grade.detail and grade.kind in ("crash", "leaked_exception") else prepared.fault
        return Outcome(self.name, grade.kind, grade.detail, where, fault, grade.why)

    def _at_once(self, prepared: Prepared, answer: CodecAnswer) -> Grade | None:
        batches, verdict = answer.batches, prepared.right.verdict
        if answer.error is UNSET:
            if batches is UNSET or verdict == "invalid":
                return SKIPPED if batches is UNSET and answer.skipped is not UNSET else None
            return OK if batches == self._expected(prepared, batches) else None
        if verdict == "valid" or answer.error.kind == LEAKED:
            return None
        if not batches or batches == self._expected(prepared, batches):
            return REFUSED
        return None

    def _expected(self, prepared: Prepared, given: Sequence[WireBatch]) -> list[WireBatch]:
        if not given:
            return prepared.wire
        # The fields that are left out may depend on the format; logs of several formats go to the judge.
        magic = given[0].magic
        if magic not in self._masks:
            if not given[0].records:
                return prepared.wire
            self._masks[magic] = _left_out(given[0])
        mask = self._masks[magic]
        return prepared.masked(mask) if any(mask) else prepared.wire

    def _with_care(self, prepared: Prepared, seen: Observation) -> Grade:
        if isinstance(seen, Skipped):
            return SKIPPED
        if ending := _ending(seen):
            return ending
        grade = Grade(*judged_result(prepared.mutant, prepared.right, seen))
        error = getattr(seen, "error", None)
        if grade.kind == "wrong_data":
            return _of_data(grade, prepared)
        if error is None:
            return grade
        if grade.kind == "ok":
            return REFUSED
        if grade.kind == "rejects_valid":
            entry = len(seen.batches) if isinstance(seen, Decoded) else 0
            said = error.message or error.kind
            codec = ""
            if error.kind == "decompression":
                codec = "packed" if SAYS_CODEC.search(said) else prepared.place(entry).partition(" ")[2]
            return grade._replace(detail=normalized_message(said), function=codec, entry=entry)
        if error.kind == LEAKED:
            return Grade("leaked_exception", normalized_message(error.message), error.message)
        return grade


def _where(prepared: Prepared, grade: Grade) -> str:
    """The part of a key that separates causes of one class and detail; empty if only the fault does.

    A crash or a leaked exception is identified by its detail.  Accepted invalid bytes
    are identified by the broken rule and the fault, if one is known.  Bytes that end a
    testee are identified by the function in which it ended, or the class of the fault.
    Wrong data and refused valid bytes are identified by their detail and the age of the
    format; the codec counts only if its own framing has the fault.
    """
    match grade.kind:
        case "crash" | "leaked_exception" if grade.detail:
            return grade.function
        case "rejects_valid":
            return grade.function or prepared.era(grade.entry)
        case "wrong_data":
            codec = prepared.stream if UNPACKED_OTHERWISE.search(grade.detail) else ""
            return f"{prepared.era(grade.entry)} {codec}".strip()
        case "hang" if grade.detail in STALLS and prepared.rule:
            return prepared.rule.partition("-")[0]
        case "accepts_invalid":
            return f"{prepared.rule} {prepared.fault}".strip()
    place = "" if prepared.fault else f"valid {prepared.era(0)}".strip()
    return grade.function or fault_class(prepared.rule) or place


def _of_data(grade: Grade, prepared: Prepared) -> Grade:
    """The grade of wrong data, with the relation between the values as part of the detail."""
    if grade.detail == "batches.length" and prepared.right.verdict == "invalid":
        # The invalid entry was accepted, and the error is about a later one.
        return Grade("accepts_invalid", "error", grade.why)
    if grade.difference is None:
        return grade
    at = ENTRY.match(grade.difference.path)
    detail = f"{grade.detail} {value_relation(grade.difference)}".strip()
    return grade._replace(detail=detail, entry=int(at[1]) if at else 0)


def _left_out(batch: WireBatch) -> Mask:
    names = frozenset(name for name in (*HEADER_FIELDS, "records") if getattr(batch, name) is UNSET)
    record = batch.records[0] if batch.records else None
    return names, frozenset(name for name in RECORD_FIELDS if record is not None and getattr(record, name) is UNSET)


def _ending(seen: Observation) -> Grade | None:
    """The grade of a crash, a hang, an exceeded limit or an unreadable answer; None for any other observation."""
    if not isinstance(seen, Crashed | Hung | Exceeded | Garbled):
        return None
    detail, function = ending_cause(seen)
    return Grade(ENDINGS[type(seen)], detail, getattr(seen, "stderr", ""), function)


@dataclass(slots=True)
class OutcomeTuples:
    """The outcome tuples seen so far, of testees in a fixed order."""

    names: tuple[str, ...]
    seen: set[OutcomeTuple] = field(default_factory=set)

    def of(self, classes: Mapping[str, str]) -> OutcomeTuple:
        """The outcome tuple of *classes*; testees without a class were not run."""
        return tuple(classes.get(name, NOT_RUN) for name in self.names)

    def text(self, outcome_tuple: OutcomeTuple) -> str:
        """*outcome_tuple* with the names of its testees, for later sessions with other testees.

        >>> OutcomeTuples(("a", "b")).text(("ok", "crash"))
        'a=ok,b=crash'
        """
        return ",".join(f"{name}={grade}" for name, grade in zip(self.names, outcome_tuple, strict=True))

    def load(self, written: Iterable[str]) -> None:
        """Add outcome tuples of earlier sessions; a testee that took no part has a gap."""
        for each in written:
            outcome_tuple = self._parse(each)
            if any(grade != NOT_RUN for grade in outcome_tuple):
                self.seen.add(outcome_tuple)

    def _parse(self, written: str) -> OutcomeTuple:
        """Parse a tuple; one without names has to have as many classes as there are testees."""
        if "=" not in written:
            plain = tuple(written.split(" "))
            return plain if len(plain) == len(self.names) else ()
        pairs = (pair.rpartition("=") for pair in written.split(","))
        return self.of({name: grade for name, _, grade in pairs})

    def is_new(self, outcome_tuple: OutcomeTuple) -> bool:
        """Add *outcome_tuple*, and return whether it is new.

        A tuple with gaps is new only if no other agrees with it in all other places.
        """
        if outcome_tuple in self.seen:
            return False
        run = [index for index, grade in enumerate(outcome_tuple) if grade != NOT_RUN]
        grade = [outcome_tuple[index] for index in run]
        new = bool(run) and not (
            len(run) < len(outcome_tuple) and any([other[index] for index in run] == grade for other in self.seen)
        )
        self.seen.add(outcome_tuple)
        return new
