"""Seeds taken apart: entries, their payload unpacked, and where each field of a record lies."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from kafka_fuzz.mutate.packing import codec_of, pack, unpack
from kafka_fuzz.mutate.sealing import INT32
from kafka_records import RecordFormatError
from kafka_records.constants import LOG_OVERHEAD, MAGIC_VALUE_V2, Compression
from kafka_records.layout import (
    ATTRIBUTES_OFFSET_LEGACY,
    ATTRIBUTES_OFFSET_V2,
    BATCH_V2,
    ENTRY,
    HEADER_V2,
    MAGIC_OFFSET,
    MESSAGE_V0,
    MESSAGE_V1,
    RECORD_V2,
    Layout,
)
from kafka_records.log import entries
from kafka_records.varint import decode_varint, decode_varlong

MOST_RECORDS: Final = 200
MOST_ENTRIES: Final = 64


class Span(NamedTuple):
    """Where a variable field lies in its record or message: name, start, end, type."""

    name: str
    start: int
    end: int
    type: str


class Part(NamedTuple):
    """One entry.

    Attributes:
        head: the fixed fields; of a wrapper all that is before its value's bytes.
        packed: what follows them, as it is.
        payload: the records or inner messages, unpacked; of a plain message its body.
        records: the payload cut into records or messages, as far as they can be followed.
        broken: it could not be unpacked, and *payload* is as it was.
    """

    magic: int
    codec: Compression
    head: bytes
    packed: bytes
    payload: bytes
    records: tuple[bytes, ...]
    broken: bool

    @property
    def layout(self) -> Layout:
        """Where the fixed fields lie."""
        return layout_of(self.magic)

    def whole(self, head: bytes | None = None, payload: bytes | None = None) -> bytes:
        """The entry again, neither size nor checksum mended; packed anew only if there is another *payload*."""
        head = self.head if head is None else head
        if payload is None:
            return head + self.packed
        packed = payload if self.broken else pack(self.codec, payload, self.magic)
        if self.magic < MAGIC_VALUE_V2 and self.codec != "none":
            head = head[:-4] + INT32.pack(len(packed))
        return head + packed


def layout_of(magic: int) -> Layout:
    """The layout of the fixed fields of an entry of *magic*."""
    return BATCH_V2 if magic == MAGIC_VALUE_V2 else MESSAGE_V0 if magic == 0 else MESSAGE_V1


@lru_cache(maxsize=4096)
def parts_of(seed: bytes) -> tuple[Part, ...]:
    """The entries of *seed*, those that are whole."""
    found: list[Part] = []
    try:
        for start, end in entries(seed):
            part = part_of(seed[start:end])
            if part is not None:
                found.append(part)
            if len(found) == MOST_ENTRIES:
                break
    except RecordFormatError:
        pass  # what lies before the break is good enough to mutate
    return tuple(found)


def part_of(entry: bytes) -> Part | None:
    """One entry, or None if it is shorter than its fixed fields."""
    if len(entry) <= MAGIC_OFFSET:
        return None
    magic = entry[MAGIC_OFFSET]
    layout = layout_of(magic)
    attributes_at = ATTRIBUTES_OFFSET_V2 + 1 if magic == MAGIC_VALUE_V2 else ATTRIBUTES_OFFSET_LEGACY
    if len(entry) < layout.size:
        return None
    codec = codec_of(entry[attributes_at])
    start = layout.size
    if magic < MAGIC_VALUE_V2 and codec not in (None, "none"):
        start = value_start(entry, layout.size)
    if codec is None or start > len(entry):
        return unread(magic, "none", entry, layout.size)
    payload = unpack(codec, entry[start:], magic)
    if payload is None:
        return unread(magic, codec, entry, start)
    cut = batch_records(payload) if magic == MAGIC_VALUE_V2 else messages(payload) if codec != "none" else (payload,)
    return Part(magic, codec, entry[:start], entry[start:], payload, cut, False)


def unread(magic: int, codec: Compression, entry: bytes, start: int) -> Part:
    """An entry whose payload cannot be unpacked."""
    return Part(magic, codec, entry[:start], entry[start:], entry[start:], (), True)


def value_start(entry: bytes, at: int) -> int:
    """Where the bytes of a wrapper's value begin, if its key lets us see it."""
    if at + 4 > len(entry):
        return len(entry) + 1
    key: int = max(0, INT32.unpack_from(entry, at)[0])
    return at + 4 + key + 4


def batch_records(payload: bytes) -> tuple[bytes, ...]:
    """v2 records end to end; none if their lengths do not lead to the end."""
    found, at = records_ahead(payload, MOST_RECORDS)
    return tuple(found) if at == len(payload) else ()


def records_ahead(payload: bytes, most: int) -> tuple[list[bytes], int]:
    """At most so many v2 records, as far as their lengths lead, and where that is."""
    found: list[bytes] = []
    at = 0
    try:
        while at < len(payload) and len(found) < most:
            length, start = decode_varint(payload, at, "length")
            end = start + length
            if length < 1 or end > len(payload):
                break
            found.append(payload[at:end])
            at = end
    except RecordFormatError:
        pass
    return found, at


def messages(payload: bytes) -> tuple[bytes, ...]:
    """Inner messages end to end, as far as their sizes lead."""
    found: list[bytes] = []
    at = 0
    while at + LOG_OVERHEAD <= len(payload) and len(found) < MOST_RECORDS:
        size = ENTRY.struct.unpack_from(payload, at)[1]
        end = at + LOG_OVERHEAD + size
        if size < MESSAGE_V0.size - LOG_OVERHEAD or end > len(payload):
            break
        found.append(payload[at:end])
        at = end
    return tuple(found) if at == len(payload) else ()


@lru_cache(maxsize=4096)
def record_spans(record: bytes) -> tuple[Span, ...]:
    """The fields of a v2 record that can be followed, by the tables."""
    spans: list[Span] = []
    try:
        at = follow(record, 0, RECORD_V2, spans, "")
        while at < len(record):
            at = follow(record, at, HEADER_V2, spans, "header.")
    except (RecordFormatError, IndexError):
        pass
    return tuple(spans)


def follow(record: bytes, at: int, table: tuple[tuple[str, str], ...], spans: list[Span], prefix: str) -> int:
    """Enter the fields of one table; a length says how many bytes the next field has."""
    length = 0
    for name, type_ in table:
        start = at
        if type_ == "bytes":
            at += max(0, length)
        elif type_ == "i8":
            at += 1
        else:
            length, at = (decode_varlong if type_ == "varlong" else decode_varint)(record, at, name)
        if at > len(record):
            raise IndexError(name)
        spans.append(Span(prefix + name, start, at, type_))
    return at
