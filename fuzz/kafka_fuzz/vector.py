"""What each testee's answer to an input is worth, and whether the testees ever answered in this combination.

The classes of all answers to one input are its verdict vector (after Nezha's
tuples of verdicts): an input that brings a vector which nobody has seen is kept
as a seed, though nothing tells what it covers inside the testees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import UNSET

from kafka_conformance.judging.compare import HEADER_FIELDS
from kafka_conformance.observation import Crashed, Decoded, Exceeded, Garbled, Hung, Observation, Skipped, observe
from kafka_conformance.protocol import LEAKED, Answer
from kafka_corpus.wire import RECORD_FIELDS, WireBatch
from kafka_fuzz import signature
from kafka_fuzz.outcome import Outcome, OutcomeClass
from kafka_fuzz.prepared import Mask, Prepared
from kafka_fuzz.relation import relation
from kafka_fuzz.targets.oracle import told_of

# A testee that was not asked, or said that it does not do this.
NOT_ASKED: Final = "-"
# The entry in which two answers begin to differ, as the judge says it.
ENTRY: Final = re.compile(r"batches\[(\d+)\]")

# A consumer that waits for ever has refused, and tells nobody: which check it was matters less than that.
STALLS: Final = frozenset({"next_offset", "deadlock"})
# What unpacking otherwise may change: how many there are, and what they hold.
UNPACKED_OTHERWISE: Final = re.compile(r"length \w|(key|value) other")
# Messages that say which decompressor they come from.
SAYS_CODEC: Final = re.compile(r"(?i)gzip|flate|zlib|snappy|\bs2\b|xerial|lz4|zstd")


class Worth(NamedTuple):
    """What an answer is worth, as `targets.base.Told`, and which entry that is about."""

    kind: OutcomeClass
    detail: str = ""
    why: str = ""
    function: str = ""
    entry: int = 0


OK: Final = Worth("ok")
REFUSED: Final = Worth("refused")
SKIPPED: Final = Worth("ok", NOT_ASKED)

Vector = tuple[str, ...]
"""A class, or `NOT_ASKED`, for each testee in their order."""


class Judge:
    """What the answers of one testee are worth; remembers which fields it leaves out."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._masks: dict[object, Mask] = {}

    def told(self, prepared: Prepared, answer: Answer | Observation) -> Worth:
        """The class of *answer*, at once where it is what most answers are, else by the judge of certification."""
        if isinstance(answer, Answer):
            return self._at_once(prepared, answer) or self._with_care(prepared, observe(answer))
        return _ending(answer) or self._with_care(prepared, answer)

    def outcome(self, prepared: Prepared, told: Worth) -> Outcome:
        """*told* as a find keeps it, under a key that is one for each cause, whatever the input was."""
        where = _where(prepared, told)
        # What was said, or the function, tells it already; whatever the lie was.
        lie = "" if told.detail and told.kind in ("crash", "leaked_exception") else prepared.lie
        return Outcome(self.name, told.kind, told.detail, where, lie, told.why)

    def _at_once(self, prepared: Prepared, answer: Answer) -> Worth | None:
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
        # A field may be left out of one format and not of another; logs of mixed ones go the long way.
        magic = given[0].magic
        if magic not in self._masks:
            if not given[0].records:
                return prepared.wire
            self._masks[magic] = _left_out(given[0])
        mask = self._masks[magic]
        return prepared.masked(mask) if any(mask) else prepared.wire

    def _with_care(self, prepared: Prepared, seen: Observation) -> Worth:
        if isinstance(seen, Skipped):
            return SKIPPED
        if isinstance(seen, Garbled):
            return Worth("crash", *_sign(seen))
        told = Worth(*told_of(prepared.mutant, prepared.right, seen))
        error = getattr(seen, "error", None)
        if told.kind == "wrong_data":
            return _of_data(told, prepared)
        if error is None:
            return told
        if told.kind == "ok":
            return REFUSED
        if told.kind == "rejects_valid":
            entry = len(seen.batches) if isinstance(seen, Decoded) else 0
            said = error.message or error.kind
            codec = ""
            if error.kind == "decompression":
                codec = "packed" if SAYS_CODEC.search(said) else prepared.place(entry).partition(" ")[2]
            return told._replace(detail=signature.normal(said), function=codec, entry=entry)
        if error.kind == LEAKED:
            return Worth("leaked_exception", signature.of_leak(error.message), error.message)
        return told


def _where(prepared: Prepared, told: Worth) -> str:
    """What tells causes apart beside class and detail; empty where nothing but the lie does.

    A crash or a leaked exception says enough of itself.  For what a testee does with
    invalid bytes, and for what it does not survive, the rule counts that they break.
    Other data and needless errors are told by what they say, and by the format's age:
    codecs change nothing, unless it was their framing that was changed.
    """
    match told.kind:
        case "crash" | "leaked_exception" if told.detail:
            return told.function
        case "rejects_valid":
            return told.function or prepared.era(told.entry)
        case "wrong_data":
            codec = prepared.stream if UNPACKED_OTHERWISE.search(told.detail) else ""
            return f"{prepared.era(told.entry)} {codec}".strip()
        case "hang" if told.detail in STALLS and prepared.rule:
            return prepared.rule.partition("-")[0]
        case "accepts_invalid":
            return prepared.rule
    place = "" if prepared.lie else f"valid {prepared.era(0)}".strip()
    return told.function or prepared.rule or place


def _of_data(told: Worth, prepared: Prepared) -> Worth:
    """Other data, told apart by how they differ from the right ones."""
    if told.detail == "batches.length" and prepared.right.verdict == "invalid":
        # It took what is invalid, and stumbled over something else behind it.
        return Worth("accepts_invalid", "error", told.why)
    at = ENTRY.match(told.why)
    detail = f"{told.detail} {relation(told.why)}".strip()
    return told._replace(detail=detail, entry=int(at[1]) if at else 0)


def _left_out(batch: WireBatch) -> Mask:
    names = frozenset(name for name in (*HEADER_FIELDS, "records") if getattr(batch, name) is UNSET)
    record = batch.records[0] if batch.records else None
    return names, frozenset(name for name in RECORD_FIELDS if record is not None and getattr(record, name) is UNSET)


def _ending(seen: Observation) -> Worth | None:
    """What the sandbox had to say for the testee."""
    kinds: dict[type, OutcomeClass] = {Crashed: "crash", Hung: "hang", Exceeded: "memory", Garbled: "crash"}
    kind = kinds.get(type(seen))
    if kind is None:
        return None
    detail, why, function = _sign(seen)
    return Worth(kind, detail, why, function)


def _sign(seen: Observation) -> tuple[str, str, str]:
    assert isinstance(seen, Crashed | Hung | Exceeded | Garbled)
    detail, function = signature.of_ending(seen)
    return detail, getattr(seen, "stderr", ""), function


@dataclass(slots=True)
class Vectors:
    """The verdict vectors seen, of testees that are always in the same order."""

    names: tuple[str, ...]
    seen: set[Vector] = field(default_factory=set)

    def vector(self, classes: Mapping[str, str]) -> Vector:
        """The vector of *classes*; who is not named was not asked."""
        return tuple(classes.get(name, NOT_ASKED) for name in self.names)

    def written(self, vector: Vector) -> str:
        """*vector* with the names that it is about, as a later session reads it, whoever takes part by then.

        >>> Vectors(("a", "b")).written(("ok", "crash"))
        'a=ok,b=crash'
        """
        return ",".join(f"{name}={told}" for name, told in zip(self.names, vector, strict=True))

    def recall(self, written: Iterable[str]) -> None:
        """Take note of vectors of earlier sessions, by name: who was not there has a gap."""
        for each in written:
            vector = self._recalled(each)
            if any(told != NOT_ASKED for told in vector):
                self.seen.add(vector)

    def _recalled(self, written: str) -> Vector:
        """Without names, it is about ours if there are as many of them; what is about nobody here is empty."""
        if "=" not in written:
            plain = tuple(written.split(" "))
            return plain if len(plain) == len(self.names) else ()
        pairs = (pair.rpartition("=") for pair in written.split(","))
        return self.vector({name: told for name, _, told in pairs})

    def is_new(self, vector: Vector) -> bool:
        """Take note of *vector*; whether none was like it.

        One with gaps, where somebody was not asked, is new only if no other agrees
        with it in all the rest.
        """
        if vector in self.seen:
            return False
        asked = [index for index, told in enumerate(vector) if told != NOT_ASKED]
        told = [vector[index] for index in asked]
        new = bool(asked) and not (
            len(asked) < len(vector) and any([other[index] for index in asked] == told for other in self.seen)
        )
        self.seen.add(vector)
        return new
