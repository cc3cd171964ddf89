"""An input as a tree that can be cut (log, entries, records or inner messages, fields), and its simplifications.

Leaving out bytes of a compressed stream breaks it, and compressing again removes a
fault of the stream.  So every fault of streams that the mutators know is tried on
the smallest entry of the same magic and codec.

For all bytes, `render(shape_of(data))` gives the same bytes; bytes that cannot be
parsed are kept.  Right sizes, counts and checksums are corrected when a changed
tree is rendered; wrong ones stay wrong until a move corrects them.

Moves come with the boldest first.  Cutting at one site does not move the sites
before it, so an index identifies a site while the tree gets smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from random import Random
from struct import Struct
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
from kafka_fuzz.mutate.fixup import INT32, NULL, SIZE_AT, UINT32, codec_from_attributes, pack_fast, unpack_or_none
from kafka_records import RecordFormatError
from kafka_records.constants import COMPRESSIONS, LOG_OVERHEAD, MAGIC_VALUE_V2, Compression
from kafka_records.layout import (
    ATTRIBUTES_OFFSET_LEGACY,
    ATTRIBUTES_OFFSET_V2,
    BATCH_V2,
    CRC_OFFSET_LEGACY,
    CRC_OFFSET_V2,
    CRC_START_LEGACY,
    CRC_START_V2,
    HEADER_V2,
    MAGIC_OFFSET,
    MESSAGE_BODY,
    RECORD_COUNT_OFFSET_V2,
    RECORD_V2,
    WIDTHS,
    FixedField,
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


# Indexes that lead from the log through entries to an item.
Path: TypeAlias = tuple[int, ...]
HEADERS_FROM: Final = len(RECORD_V2)
HEADER_FIELDS: Final = len(HEADER_V2)
CONTENT: Final = ("key", "value", "header.key", "header.value")


class Site(NamedTuple):
    """A sequence in a tree: its length, and the tree without a part of it."""

    length: int
    cut: Callable[[int, int], Log]


def sites(log: Log) -> Iterator[Site]:
    """All of them, in order."""
    yield Site(len(log.entries), lambda start, end: log._replace(entries=log.entries[:start] + log.entries[end:]))
    yield Site(len(log.rest), lambda start, end: log._replace(rest=log.rest[:start] + log.rest[end:]))
    for path, node in walk(log):
        for length, cut in _entry_cuts(node) if isinstance(node, EntryNode) else _record_cuts(node):
            yield Site(length, partial(_cut_at, log, path, cut))


def walk(log: Log) -> Iterator[tuple[Path, Item]]:
    """Every entry and record with its path, an entry before what is in it."""
    yield from _walk(log.entries, ())


def _walk(items: tuple[Item, ...], path: Path) -> Iterator[tuple[Path, Item]]:
    for index, item in enumerate(items):
        yield (*path, index), item
        if isinstance(item, EntryNode):
            yield from _walk(item.items, (*path, index))


def spliced(log: Log, path: Path, *nodes: Item) -> Log:
    """*log* with *nodes* in the place of the one at *path*."""
    entries = _put(log.entries, path, nodes)
    return log._replace(entries=tuple(entry for entry in entries if isinstance(entry, EntryNode)))


def _put(items: tuple[Item, ...], path: Path, nodes: tuple[Item, ...]) -> tuple[Item, ...]:
    at, *deeper = path
    if deeper:
        entry = items[at]
        assert isinstance(entry, EntryNode)
        nodes = (entry._replace(items=_put(entry.items, tuple(deeper), nodes)),)
    return items[:at] + nodes + items[at + 1 :]


def _cut_at(log: Log, path: Path, cut: Callable[[int, int], Item], start: int, end: int) -> Log:
    return spliced(log, path, cut(start, end))


def _entry_cuts(entry: EntryNode) -> Iterator[tuple[int, Callable[[int, int], Item]]]:
    yield len(entry.items), lambda start, end: entry._replace(items=entry.items[:start] + entry.items[end:])
    yield len(entry.rest), lambda start, end: entry._replace(rest=entry.rest[:start] + entry.rest[end:])


def _record_cuts(record: Record) -> Iterator[tuple[int, Callable[[int, int], Item]]]:
    headers = max(0, len(record.names) - HEADERS_FROM) // HEADER_FIELDS
    yield headers, partial(without_headers, record)
    for index, name in enumerate(record.names):
        if name in CONTENT:
            raw = record.raws[index]
            yield len(raw), partial(_cut_field, record, index)
    yield len(record.rest), lambda start, end: record._replace(rest=record.rest[:start] + record.rest[end:])


def _cut_field(record: Record, index: int, start: int, end: int) -> Record:
    raw = record.raws[index]
    return with_content(record, index, raw[:start] + raw[end:])


def with_content(record: Record, index: int, content: bytes | None) -> Record:
    """*record* with another key or value, None for null, its length right."""
    size = -1 if content is None else len(content)
    legacy = record.names[0] == MESSAGE_BODY[0][0]
    length = INT32.pack(size) if legacy else encode_varint(size)
    raws = record.raws
    return record._replace(raws=(*raws[: index - 1], length, content or b"", *raws[index + 1 :]))


def without_headers(record: Record, start: int, end: int) -> Record:
    """*record* without some of its headers; a wrong count stays wrong by the same number."""
    first, last = (HEADERS_FROM + HEADER_FIELDS * number for number in (start, end))
    count = decode_varint(record.raws[HEADERS_FROM - 1], 0, "header_count")[0] - (end - start)
    raws = (*record.raws[: HEADERS_FROM - 1], encode_varint(max(count, -(2**31))))
    return record._replace(
        names=record.names[:first] + record.names[last:],
        raws=raws + record.raws[HEADERS_FROM:first] + record.raws[last:],
    )


# The values of unset fields; those of all other fields are 0.
NOTHING: Final = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
# Fields with moves of their own.
NOT_PLAIN: Final = frozenset({"magic", "crc", "size", "batch_length", "message_size", "record_count"})
# The most bytes that are tried one by one.
MOST_BYTES: Final = 64


def moves(log: Log) -> Iterator[Log]:
    """Every tree with one simplification of *log*."""
    for path, node in walk(log):
        if isinstance(node, EntryNode):
            for nodes in _entry_moves(node, len(path) - 1):
                yield spliced(log, path, *nodes)
        else:
            for record in _record_moves(node, path[-1]):
                yield spliced(log, path, record)
    yield from (log._replace(rest=rest) for rest in _simpler_bytes(log.rest))


def _entry_moves(entry: EntryNode, depth: int) -> Iterator[tuple[EntryNode, ...]]:
    yield from ((each,) for each in _fixed_up(entry))
    whole = opened(entry, depth)
    if whole is not None:
        yield from _unwrapped(whole)
        yield (whole,)
        yield from ((recoded(whole, codec),) for codec in COMPRESSIONS[1:])
    if entry.raw and entry.codec != "none":
        if not entry.rest:
            yield (recoded(entry, "none"),)
        yield from _odd(entry)
    elif not entry.raw and entry.codec != "none":
        yield from _unwrapped(entry)
    if len(entry.key) > 2 * len(NULL):
        yield (entry._replace(key=NULL + entry.key[-len(NULL) :]),)
    yield from ((entry._replace(head=head),) for head in _heads(entry))
    yield from ((entry._replace(rest=rest),) for rest in _simpler_bytes(entry.rest))


def _fixed_up(entry: EntryNode) -> Iterator[EntryNode]:
    """The entry with all dependent fields right, then with one of them."""
    right = entry._replace(size_off=0, crc_right=True, value_right=True)
    if entry.magic == MAGIC_VALUE_V2 and not entry.raw:
        right = right._replace(count_off=0, last_right=True)
    names = [name for name in EntryNode._fields[6:] if getattr(entry, name) != getattr(right, name)]
    if len(names) > 1:
        yield right
    yield from (entry._replace(**{name: getattr(right, name)}) for name in names)
    if not entry.crc_right and names:
        head = _with_field(entry.head, layout_of_magic(entry.magic).field("crc"), 0)
        if head != entry.head:
            yield entry._replace(head=head)


def _odd(entry: EntryNode) -> Iterator[tuple[EntryNode, ...]]:
    """Smaller entries with a fault in their stream that the mutators know."""
    size = len(render_entry(entry))
    for data in odd_entries(entry.magic, entry.codec) if entry.magic <= MAGIC_VALUE_V2 else ():
        if len(data) >= size:
            return
        yield shape_of(data).entries


def _unwrapped(entry: EntryNode) -> Iterator[tuple[EntryNode, ...]]:
    """The batch without compression, or the messages of a wrapper in its place."""
    if entry.magic == MAGIC_VALUE_V2:
        yield (recoded(entry, "none"),)
    else:
        yield tuple(item for item in entry.items if isinstance(item, EntryNode))


def recoded(entry: EntryNode, codec: str) -> EntryNode:
    """*entry* with another codec."""
    field = layout_of_magic(entry.magic).field("attributes")
    value = _value(entry.head, field)
    number = COMPRESSIONS.index(codec)
    return entry._replace(head=_with_field(entry.head, field, value & ~7 | number), codec=COMPRESSIONS[number])


def _heads(entry: EntryNode) -> Iterator[bytes]:
    """Heads with all fixed fields plain, then with one of them."""
    plain = {}
    for field in layout_of_magic(entry.magic).fields:
        value = _value(entry.head, field)
        simple = value & 7 if field.name == "attributes" else NOTHING.get(field.name, 0)
        if (
            field.name not in NOT_PLAIN
            and value != simple
            and not (field.name == "last_offset_delta" and entry.last_right)
        ):
            plain[field] = simple
    every = entry.head
    for field, value in plain.items():
        every = _with_field(every, field, value)
    if len(plain) > 1:
        yield every
    yield from (_with_field(entry.head, field, value) for field, value in plain.items())


def _struct(field: FixedField) -> Struct:
    return Struct(">" + WIDTHS[field.type][0])


def _value(head: bytes, field: FixedField) -> int:
    value: int = _struct(field).unpack_from(head, field.offset)[0]
    return value


def _with_field(head: bytes, field: FixedField, value: int) -> bytes:
    return head[: field.offset] + _struct(field).pack(value) + head[field.offset + field.width :]


def _record_moves(record: Record, index: int) -> Iterator[Record]:
    """The record without content, then with one simpler field."""
    bare = record
    if len(record.names) > HEADERS_FROM and (len(record.names) - HEADERS_FROM) % 4 == 0:
        bare = without_headers(bare, 0, (len(record.names) - HEADERS_FROM) // 4)
    for number, name in enumerate(bare.names):
        if name in ("key", "value"):
            bare = with_content(bare, number, None if name == "key" else b"")
    bare = _plain(bare, index)
    if bare != record:
        yield bare
    yield _plain(record, index)
    for number, name in enumerate(record.names):
        if name in CONTENT:
            yield from _contents(record, number)
    yield from (record._replace(rest=rest) for rest in _simpler_bytes(record.rest))


def _plain(record: Record, index: int) -> Record:
    """The record with plain attributes and deltas."""
    if record.names[:1] != ("length",):
        return record
    zero = {"attributes": b"\0", "timestamp_delta": b"\0", "offset_delta": encode_varint(index)}
    return record._replace(raws=tuple(zero.get(name, raw) for name, raw in zip(record.names, record.raws, strict=True)))


def _contents(record: Record, number: int) -> Iterator[Record]:
    raw = record.raws[number]
    if record.names[number] == "key" and not (raw == b"" and record.raws[number - 1] != b"\0"):
        yield with_content(record, number, None)
    elif raw:
        yield with_content(record, number, b"")
    if raw.strip(b"a"):
        yield with_content(record, number, b"a" * len(raw))


def _simpler_bytes(data: bytes) -> Iterator[bytes]:
    """*data* with zeros in place of all bytes, of each half, of each byte."""
    size = len(data)
    while size:
        for at in range(0, len(data), size):
            chunk = data[at : at + size]
            if chunk.strip(b"\0"):
                yield data[:at] + bytes(len(chunk)) + data[at + size :]
        size = 0 if size == 1 or len(data) > MOST_BYTES else (size + 1) // 2


def flat(log: Log) -> Log:
    """The same bytes, with each uncompressed payload as plain bytes."""
    return log._replace(entries=tuple(_flat(entry) if entry.codec == "none" else entry for entry in log.entries))


def _flat(entry: EntryNode) -> EntryNode:
    data = render_entry(entry)
    head = data[: len(entry.head)]
    kept = entry._replace(head=head, items=(), rest=data[len(head) :], key=b"", raw=True)
    return kept._replace(count_off=None, last_right=False)
