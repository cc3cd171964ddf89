"""An input as a tree that can be cut: log, entries, records or inner messages, fields.

Leaving out bytes of a compressed stream breaks it, and compressing again removes a
fault of the stream.  So every fault of streams that the mutators know is tried on
the smallest entry of the same magic and codec.

For all bytes, `render(shape_of(data))` gives the same bytes; bytes that cannot be
parsed are kept.  Right sizes, counts and checksums are corrected when a changed
tree is rendered; wrong ones stay wrong until a move corrects them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

from crc32c import crc32c

from kafka_fuzz.mutate.entries import (
    NUMBERS,
    BaseEntry,
    Span,
    axes_of,
    base_entry,
    body_spans,
    layout_of_magic,
    record_spans,
    records_ahead,
    value_start,
)
from kafka_fuzz.mutate.faults.table import FAULTS, FaultResult, FaultSite
from kafka_fuzz.mutate.fixup import INT32, SIZE_AT, UINT32
from kafka_fuzz.mutate.packing import codec_from_attributes, pack_fast, unpack_or_none
from kafka_records import RecordFormatError
from kafka_records.constants import LOG_OVERHEAD, MAGIC_VALUE_V2, Compression
from kafka_records.layout import (
    ATTRIBUTES_OFFSET_LEGACY,
    ATTRIBUTES_OFFSET_V2,
    BATCH_V2,
    CRC_OFFSET_LEGACY,
    CRC_OFFSET_V2,
    CRC_START_LEGACY,
    CRC_START_V2,
    MAGIC_OFFSET,
    RECORD_COUNT_OFFSET_V2,
)
from kafka_records.varint import decode_varint, encode_varint


@cache
def odd_entries(magic: int, codec: Compression) -> tuple[bytes, ...]:
    """One for each fault of streams and each of its variants, the smallest first; () where there is no such codec."""
    places = axes_of(magic, codec, filled=True)
    bases = [base_entry(magic, codec, axis, level, number) for axis, level in places for number in range(NUMBERS)]
    smallest = min(bases, key=lambda base: (len(base.data), base.data), default=None)
    return () if smallest is None else tuple(sorted(_fault_results(smallest), key=lambda data: (len(data), data)))


def _fault_results(base: BaseEntry) -> set[bytes]:
    found = set()
    for fault in FAULTS.values():
        if fault.nesting != "stream" or (base.magic, base.codec) not in fault.where:
            continue
        for field in fault.fields:
            for value in fault.variants.values():
                planted = fault.plant(FaultSite(base, Random(0), field, value, b""))
                found.add(planted.data if isinstance(planted, FaultResult) else planted)
    return found


LAST_DELTA_AT: Final = BATCH_V2.field("last_offset_delta").offset
# The largest distance from the right number that is preserved; a number further off is kept as it is.
NEAR: Final = 1024
# How deep wrappers are followed: Kafka reads one level.
MOST_DEPTH: Final = 2
# More of a kind are kept as bytes: a flood is cut in chunks.
MOST_ITEMS: Final = 4096


class Record(NamedTuple):
    """A v2 record, or key and value of a message: fields by name, and bytes that cannot be parsed.

    Attributes:
        names, raws: the fields and their bytes, lengths among them.
        rest: the bytes after them.
    """

    names: tuple[str, ...]
    raws: tuple[bytes, ...]
    rest: bytes = b""


class EntryNode(NamedTuple):
    """One entry, perhaps incomplete.

    Attributes:
        head: its fixed fields.
        codec: of its payload.
        key: of a wrapper: the bytes between the fixed fields and its value.
        items: records or inner messages.
        rest: the payload after them.
        raw: `rest` is the packed payload as it stands; there are no items then.
        size_off, count_off: what is added to the right size and record count; None for a number that is kept.
        crc_right, last_right, value_right: whether checksum, last_offset_delta and a wrapper's value length are right.
    """

    head: bytes
    codec: Compression
    key: bytes
    items: tuple[Item, ...]
    rest: bytes
    raw: bool
    size_off: int | None = 0
    count_off: int | None = 0
    crc_right: bool = True
    last_right: bool = True
    value_right: bool = True

    @property
    def magic(self) -> int:
        """The magic byte."""
        return self.head[MAGIC_OFFSET]


class Log(NamedTuple):
    """Entries, and the bytes after them."""

    entries: tuple[EntryNode, ...]
    rest: bytes = b""


Item: TypeAlias = Record | EntryNode


def shape_of(data: bytes) -> Log:
    """*data* as a tree, in which what is compressed stays packed: `render` gives *data* again.

    >>> render(shape_of(b"any bytes"))
    b'any bytes'
    """
    entries, rest = _entries(data, 0)
    return Log(entries, rest)


def _entries(data: bytes, depth: int) -> tuple[tuple[EntryNode, ...], bytes]:
    found: list[EntryNode] = []
    at = 0
    while len(found) < MOST_ITEMS and at + MAGIC_OFFSET < len(data):
        size: int = INT32.unpack_from(data, at + SIZE_AT)[0]
        end = at + LOG_OVERHEAD + size
        # One that claims too much, or nothing that could be, is the last.
        if end > len(data) or end <= at + MAGIC_OFFSET:
            end = len(data)
        entry = entry_of(data[at:end], depth)
        if entry is None:
            break
        found.append(entry)
        at = end
    return tuple(found), data[at:]


def entry_of(data: bytes, depth: int = 0) -> EntryNode | None:
    """One entry, or None if it is shorter than its fixed fields."""
    magic = data[MAGIC_OFFSET]
    fixed = layout_of_magic(magic).size
    if len(data) < fixed or depth > MOST_DEPTH:
        return None
    codec = codec_from_attributes(
        data[ATTRIBUTES_OFFSET_V2 + 1 if magic == MAGIC_VALUE_V2 else ATTRIBUTES_OFFSET_LEGACY]
    )
    if codec == "none":
        items, rest = _records(data[fixed:]) if magic == MAGIC_VALUE_V2 else ((_message_fields(data[fixed:]),), b"")
        return _with_wrongs(EntryNode(data[:fixed], codec, b"", items, rest, False), data)
    start = fixed if magic == MAGIC_VALUE_V2 or codec is None else value_start(data, fixed)
    start = fixed if start > len(data) else start  # the key of the wrapper cannot be followed
    return _with_wrongs(EntryNode(data[:fixed], codec or "none", data[fixed:start], (), data[start:], True), data)


def opened(entry: EntryNode, depth: int = 0) -> EntryNode | None:
    """A packed entry with its payload unpacked, or None where that cannot be done."""
    plain = unpack_or_none(entry.codec, entry.rest, entry.magic) if entry.raw and entry.codec != "none" else None
    if plain is None:
        return None
    items, rest = _records(plain) if entry.magic == MAGIC_VALUE_V2 else _entries(plain, depth + 1)
    return _with_counts(entry._replace(items=items, rest=rest, raw=False))


def _records(plain: bytes) -> tuple[tuple[Record, ...], bytes]:
    found: list[Record] = []
    at = 0
    try:
        for piece in records_ahead(plain, MOST_ITEMS)[0]:
            found.append(record_node(piece))
            at += len(piece)
    except RecordFormatError:
        pass  # the rest is kept as bytes
    return tuple(found), plain[at:]


def record_node(data: bytes) -> Record:
    """A v2 record by its fields."""
    return _fields_of(data, record_spans(data))


def _message_fields(data: bytes) -> Record:
    return _fields_of(data, body_spans(data))


def _fields_of(data: bytes, spans: Sequence[Span]) -> Record:
    end = spans[-1].end if spans else 0
    return Record(tuple(span.name for span in spans), tuple(data[span.start : span.end] for span in spans), data[end:])


def _with_wrongs(entry: EntryNode, data: bytes) -> EntryNode:
    size = len(data) - LOG_OVERHEAD
    changed = entry._replace(
        size_off=_off(INT32.unpack_from(data, SIZE_AT)[0], size), crc_right=_sum(data) == _stored_sum(data)
    )
    if entry.magic != MAGIC_VALUE_V2:
        value = len(data) - len(entry.head) - len(entry.key)
        return changed._replace(value_right=entry.key[-4:] == INT32.pack(value)) if entry.key else changed
    return _with_counts(changed)


def _with_counts(entry: EntryNode) -> EntryNode:
    if entry.magic != MAGIC_VALUE_V2:
        return entry
    # The count of compressed records is unknown.
    if entry.raw:
        return entry._replace(count_off=None, last_right=False)
    count = INT32.unpack_from(entry.head, RECORD_COUNT_OFFSET_V2)[0]
    last = INT32.unpack_from(entry.head, LAST_DELTA_AT)[0]
    return entry._replace(count_off=_off(count, len(entry.items)), last_right=last == _last_delta(entry.items))


def _off(value: int, right: int) -> int | None:
    return value - right if abs(value - right) <= NEAR else None


def _sum(data: bytes) -> int:
    v2 = data[MAGIC_OFFSET] == MAGIC_VALUE_V2
    return crc32c(data[CRC_START_V2:]) if v2 else crc32(data[CRC_START_LEGACY:])


def _stored_sum(data: bytes) -> int:
    at = CRC_OFFSET_V2 if data[MAGIC_OFFSET] == MAGIC_VALUE_V2 else CRC_OFFSET_LEGACY
    stored: int = UINT32.unpack_from(data, at)[0]
    return stored


def _last_delta(items: tuple[Item, ...]) -> int | None:
    last = items[-1] if items else None
    if not isinstance(last, Record) or "offset_delta" not in last.names:
        return None
    return decode_varint(last.raws[last.names.index("offset_delta")], 0, "offset_delta")[0]


def render(log: Log) -> bytes:
    """The bytes of a tree."""
    return b"".join(map(render_entry, log.entries)) + log.rest


def render_entry(entry: EntryNode) -> bytes:
    """The bytes of an entry, with its fields fixed up."""
    plain = b"".join(render_entry(item) if isinstance(item, EntryNode) else render_record(item) for item in entry.items)
    plain += entry.rest
    packed = plain if entry.raw else pack_fast(entry.codec, plain, entry.magic)
    key = entry.key
    if key and entry.value_right:
        key = key[:-4] + INT32.pack(len(packed))
    made = bytearray(entry.head + key + packed)
    _fix_up(made, entry)
    return bytes(made)


def _fix_up(made: bytearray, entry: EntryNode) -> None:
    if entry.size_off is not None:
        INT32.pack_into(made, SIZE_AT, len(made) - LOG_OVERHEAD + entry.size_off)
    if entry.magic == MAGIC_VALUE_V2:
        if entry.count_off is not None:
            INT32.pack_into(made, RECORD_COUNT_OFFSET_V2, len(entry.items) + entry.count_off)
        if entry.last_right and (last := _last_delta(entry.items)) is not None:
            INT32.pack_into(made, LAST_DELTA_AT, last)
    if entry.crc_right:
        v2 = entry.magic == MAGIC_VALUE_V2
        UINT32.pack_into(made, CRC_OFFSET_V2 if v2 else CRC_OFFSET_LEGACY, _sum(bytes(made)))


def render_record(record: Record) -> bytes:
    """The bytes of a record, its own length right: a record with a wrong length is part of the rest of its batch."""
    if record.names[:1] != ("length",):
        return b"".join(record.raws) + record.rest
    content = b"".join(record.raws[1:]) + record.rest
    # A length may be written longer than it has to be, and that may matter.
    first = record.raws[0]
    if decode_varint(first, 0, "length")[0] != len(content):
        first = encode_varint(len(content))
    return first + content
