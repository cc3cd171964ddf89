"""Where the Java client and the reference part, and whether that is known (`differences.toml`).

Two answers agree if they give the same batches and both end in an error or
both do not.  If they do not agree, the first entry that one takes and the
other does not, or that they read differently, is what they dispute.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import UNSET
from msgspec.structs import replace

from kafka_conformance.observation import Decoded
from kafka_corpus.wire import WireBatch, WireRecord, to_wire
from kafka_records import RecordFormatError, decode
from kafka_records.constants import COMPRESSIONS
from kafka_records.layout import BATCH_V2, MESSAGE_V0
from kafka_records.log import entries

LIST = Path(__file__).with_name("differences.toml")
HEADER_KEY = "header_key_is_text"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A reviewed way to differ.

    Attributes:
        id: its name.
        rule: the rule that it is about.
        reason: why it stays.
        magics: of the disputed entry.
        compressions: of the disputed entry.
        reference: "accepts", or a pattern for the rule by which it refuses.
        java: "accepts", or a pattern for the message of its error.
        empty: whether the reference has to read a batch without records.
        hex: a pattern that the entry has to hold.
        shown_by: which sweeps show it.
        cases: the corpus cases that show it.
    """

    id: str
    rule: str
    reason: str
    magics: Sequence[int] = ()
    compressions: Sequence[str] = ()
    reference: str = "accepts"
    java: str = "accepts"
    empty: bool = False
    hex: str = ""
    shown_by: Sequence[Literal["mutants", "streams"]] = ()
    cases: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """Batches, and the error behind them: the reference's rule, or Java's message."""

    batches: Sequence[WireBatch]
    error: str | None


@cache
def known_differences() -> tuple[Difference, ...]:
    """The reviewed list."""
    return tuple(Difference(**entry) for entry in tomllib.loads(LIST.read_text(encoding="utf-8"))["difference"])


def ask_reference(data: bytes) -> Answer:
    """What `kafka_records` reads."""
    try:
        return Answer(list(map(to_wire, decode(data))), None)
    except RecordFormatError as error:
        return Answer(list(map(to_wire, error.batches)), error.rule)


def answer_of(decoded: Decoded) -> Answer:
    """What a testee read."""
    return Answer(decoded.batches, None if decoded.error is None else decoded.error.message)


def differences(data: bytes, reference: Answer, java: Answer) -> set[str]:
    """Names of the known differences between two answers to *data*; `UNKNOWN` among them if one is not known."""
    shared = min(len(reference.batches), len(java.batches))
    ours, theirs = list(reference.batches[:shared]), list(java.batches[:shared])
    found = set() if ours == theirs else {HEADER_KEY if list(map(as_text, ours)) == theirs else UNKNOWN}
    if len(reference.batches) == len(java.batches) and (reference.error is None) == (java.error is None):
        return found
    start, end = list(entries(data))[shared]
    fits = (known.id for known in known_differences() if is_about(known, data[start:end], reference, java))
    return found | {next(fits, UNKNOWN)}


def is_about(known: Difference, entry: bytes, reference: Answer, java: Answer) -> bool:
    """Whether *known* explains what two decoders make of *entry*, which one of them did not get past."""
    magic = entry[MESSAGE_V0.field("magic").offset]
    codec_at = (BATCH_V2.field("attributes").offset + 1) if magic == 2 else MESSAGE_V0.field("attributes").offset
    at = min(len(reference.batches), len(java.batches))
    empty = len(reference.batches) > at and not reference.batches[at].records
    return (
        magic in known.magics
        and COMPRESSIONS[entry[codec_at] % 8 % 5] in known.compressions
        and _fits(known.reference, reference, at)
        and _fits(known.java, java, at)
        and known.empty == empty
        and bool(re.search(known.hex, entry.hex()))
    )


def _fits(wanted: str, answer: Answer, at: int) -> bool:
    """Whether a decoder took the entry *at* this index, or refused it with the wanted words."""
    if len(answer.batches) > at:
        return wanted == "accepts"
    return answer.error is not None and wanted != "accepts" and bool(re.search(wanted, answer.error))


def as_text(batch: WireBatch) -> WireBatch:
    """*batch* with header keys as Java's String gives them back (REC-21)."""
    assert batch.records is not UNSET
    return replace(batch, records=list(map(_record_as_text, batch.records)))


def _record_as_text(record: WireRecord) -> WireRecord:
    assert record.headers is not UNSET
    headers = [(key.decode(errors="replace").encode(), value) for key, value in record.headers]
    return replace(record, headers=headers)
