"""Inputs with what is right about them, worked out once however many testees are asked."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import kafka_records
from kafka_conformance.judging.consuming import unfollowable
from kafka_corpus.case import Case, Expectation
from kafka_corpus.wire import BATCH_FIELDS, RECORD_FIELDS, WireBatch, to_wire
from kafka_fuzz.cells import NO_LIE, framed
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.targets.oracle import LIMITS
from kafka_records import RecordFormatError
from kafka_records.constants import COMPRESSIONS
from kafka_records.layout import MAGIC_OFFSET

CODEC_AT: Final = {0: 17, 1: 17, 2: 22}
CODEC_BITS: Final = 0x07
LEGACY: Final = ("v0", "v1")

Mask = tuple[frozenset[str], frozenset[str]]
"""The fields that a testee leaves out: of batches, of records."""


class Prepared:
    """A mutant, the right answer, and why there is none where it is invalid.

    Attributes:
        mutant: as it was made.
        right: the answer that the lie asks for; where no lie is known, the reference's.
        cause: the lie, or the rule by which the reference refuses; empty for what is valid.
    """

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.right, self.cause = _answer(mutant)
        self._masked: dict[Mask, list[WireBatch]] = {}

    @cached_property
    def wire(self) -> list[WireBatch]:
        """The right batches as a testee that exposes everything gives them."""
        return list(map(to_wire, self.right.batches))

    @cached_property
    def case(self) -> Case:
        """The input as a case, for the judge."""
        return Case(id="fuzz", title="", rules=(), area="fuzz", op="decode", input=self.mutant.data, expect=self.right)

    def place(self, index: int) -> str:
        """Magic and codec of entry *index*, as `v1 gzip`, as far as there is one."""
        data, spans = self.mutant.data, framed(self.mutant.data)
        at = spans[index][0] if index < len(spans) else spans[-1][1] if spans else 0
        return first_place(data[at:])

    def era(self, index: int) -> str:
        """`v2` or `legacy`, the age of the format of entry *index*; empty where there is none."""
        magic = self.place(index).partition(" ")[0]
        return "legacy" if magic in LEGACY else magic

    @property
    def stream(self) -> str:
        """The codec whose own framing the lie is about; empty for any other lie."""
        return self.mutant.cell.codec if self.lie and self.mutant.cell.nesting == "stream" else ""

    @cached_property
    def rule(self) -> str:
        """The rule that the bytes break, as the reference says, whoever made them; empty for what is valid."""
        if self.mutant.expected is None:
            return self.cause
        try:
            kafka_records.decode(self.mutant.data, limits=LIMITS)
        except RecordFormatError as error:
            return error.rule or error.kind
        return ""

    @property
    def lie(self) -> str:
        """The label of the lie; empty where none is known."""
        known = self.mutant.expected is not None and self.mutant.labels
        return self.mutant.labels[0] if known else ""

    @cached_property
    def unfollowable(self) -> bool:
        """Whether it cannot be asked of a consumer."""
        return bool(unfollowable(self.case))

    def masked(self, mask: Mask) -> list[WireBatch]:
        """The right batches as a testee that leaves out the fields of *mask* gives them."""
        if mask not in self._masked:
            self._masked[mask] = [_without(batch, *mask) for batch in self.wire]
        return self._masked[mask]


def _answer(mutant: Mutant) -> tuple[Expectation, str]:
    if mutant.expected is not None:
        lie = mutant.labels[0]
        return mutant.expected, "" if lie == NO_LIE else lie
    try:
        return Expectation(verdict="valid", batches=kafka_records.decode(mutant.data, limits=LIMITS)), ""
    except RecordFormatError as error:
        rule = error.rule or error.kind
        if error.kind == "limit":
            return Expectation(verdict="acceptable", batches=error.batches), rule
        return Expectation(verdict="invalid", batches=error.batches, why=rule), rule


def first_place(data: bytes) -> str:
    """Magic and codec of the first entry, where there is one.

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
