"""Where the Java client and the reference part, and whether that is known (`differences.toml`).

Two answers agree if they give the same batches and both end in an error or
both do not.  Otherwise the first entry that they read differently, or that only
one of them takes, is what they dispute.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import UNSET
from msgspec.structs import replace

from kafka_conformance.judge import written
from kafka_conformance.judge.observation import Decoded, Encoded, Refused
from kafka_corpus.case import Case, Compare, Expectation
from kafka_corpus.known_issues import KnownIssue, load_issues
from kafka_corpus.wire import WireBatch, WireRecord, to_wire
from kafka_records import Batch, RecordFormatError, decode, encode
from kafka_records.attributes import COMPRESSION_CODEC_MASK
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2, Compression
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET, MESSAGE_V0
from kafka_records.log import split_entries

LIST = Path(__file__).with_name("differences.toml")
HEADER_KEY = "header_key_is_text"
UNKNOWN = "unknown"
ACCEPTS = "accepts"
REPLACED = "\ufffd".encode()
# To Java an encoded surrogate is one malformed character, to Python three malformed bytes.
SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


class Difference(KnownIssue, frozen=True, kw_only=True):
    """A known difference.

    Attributes:
        op: whether it is about reading or writing.
        magics: of the disputed entry.
        compressions: of the disputed entry.
        reference: a pattern for the rule by which it refuses, or for "accepts".
        java: a pattern for the message of its error, or for "accepts".
        empty: whether the reference has to read a batch without records.
        hex: a pattern that the entry has to hold.
        shown_by: which sweeps show it.
    """

    op: Literal["decode", "encode"] = "decode"
    magics: tuple[int, ...] = ()
    compressions: tuple[Compression, ...] = ()
    reference: str = ACCEPTS
    java: str = ACCEPTS
    empty: bool = False
    hex: str = ""
    shown_by: tuple[Literal["mutants", "streams"], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """Batches, and the error after them: the reference's rule, or Java's message."""

    batches: Sequence[WireBatch]
    error: str | None


@cache
def known_differences() -> tuple[Difference, ...]:
    """The reviewed list of what is read differently."""
    return _listed("decode")


@cache
def known_encode_differences() -> tuple[Difference, ...]:
    """The reviewed list of what is written differently."""
    return _listed("encode")


def _listed(op: str) -> tuple[Difference, ...]:
    return tuple(known for known in load_issues(LIST, Difference) if known.op == op)


def ask_reference(data: bytes) -> Answer:
    """The reading of `kafka_records`."""
    try:
        return Answer(list(map(to_wire, decode(data))), None)
    except RecordFormatError as error:
        return Answer(list(map(to_wire, error.batches)), error.rule)


def answer_of(decoded: Decoded) -> Answer:
    """The reading of a testee."""
    return Answer(decoded.batches, None if decoded.error is None else decoded.error.message)


def differences(data: bytes, reference: Answer, java: Answer) -> set[str]:
    """Names of the known differences between two answers to *data*; `UNKNOWN` among them if one is not known."""
    as_java_can = list(map(as_text, reference.batches))
    pairs = enumerate(zip(as_java_can, java.batches, strict=False))
    shared = min(len(reference.batches), len(java.batches))
    at = next((index for index, (ours, theirs) in pairs if ours != theirs), shared)
    found = {HEADER_KEY} if as_java_can[:at] != list(reference.batches[:at]) else set()
    if at == len(reference.batches) == len(java.batches) and (reference.error is None) == (java.error is None):
        return found
    start, end = list(split_entries(data))[at]
    fits = (known.id for known in known_differences() if is_about(known, data[start:end], reference, java, at))
    return found | {next(fits, UNKNOWN)}


def is_about(known: Difference, entry: bytes, reference: Answer, java: Answer, at: int) -> bool:
    """Whether *known* explains what two decoders make of *entry*, the one *at* this index."""
    magic = entry[MAGIC_OFFSET]
    attributes = (BATCH_V2 if magic == MAGIC_VALUE_V2 else MESSAGE_V0).field("attributes")
    codec = entry[attributes.offset + attributes.width - 1] & COMPRESSION_CODEC_MASK
    empty = len(reference.batches) > at and not reference.batches[at].records
    return (
        magic in known.magics
        and codec in map(COMPRESSIONS.index, known.compressions)
        and _fits(known.reference, reference, at)
        and _fits(known.java, java, at)
        and (empty or not known.empty)
        and bool(re.search(known.hex, entry.hex()))
    )


def _fits(wanted: str, answer: Answer, at: int) -> bool:
    """Whether a decoder took the entry *at* this index, or refused it with the wanted words."""
    return bool(re.search(wanted, ACCEPTS if len(answer.batches) > at else answer.error or "ends"))


def encode_difference(batch: Batch, java: Encoded | Refused) -> str:
    """The name of the known difference over writing *batch*, `UNKNOWN`, or nothing if the two agree."""
    try:
        ours, rule = encode(batch), ACCEPTS
    except RecordFormatError as error:
        ours, rule = None, error.rule
    if ours is None and not isinstance(java, Encoded):
        return ""
    if ours is not None and isinstance(java, Encoded):
        return "" if is_same(batch, ours, java.data) else UNKNOWN
    java_text = ACCEPTS if isinstance(java, Encoded) else java.error.message
    fits = (
        known.id
        for known in known_encode_differences()
        if batch.magic in (known.magics or (batch.magic,))
        and re.search(known.reference, rule)
        and re.search(known.java, java_text)
    )
    return next(fits, UNKNOWN)


def is_same(batch: Batch, ours: bytes, theirs: bytes) -> bool:
    """Whether two encodings differ at most in their compressed bytes."""
    compare: Compare = "exact" if batch.compression == "none" else "masked"
    expect = Expectation(verdict="valid", data=ours, compare=compare)
    case = Case(id="java.any", title="", rules=(), area="java", op="encode", input=batch, expect=expect)
    return not written.written_differences(case, theirs)


def as_text(batch: WireBatch) -> WireBatch:
    """*batch* with header keys as Java's String gives them back (REC-21)."""
    assert batch.records is not UNSET
    return replace(batch, records=list(map(_record_as_text, batch.records)))


def _record_as_text(record: WireRecord) -> WireRecord:
    assert record.headers is not UNSET
    given = [(key or b"", value) for key, value in record.headers]
    headers = [(SURROGATE.sub(REPLACED, key).decode(errors="replace").encode(), value) for key, value in given]
    return replace(record, headers=headers)
