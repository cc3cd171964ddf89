"""What can be said more simply in a tree: one change each, the boldest first."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from kafka_fuzz.mutate.apart import layout_of
from kafka_fuzz.mutate.sealing import NULL
from kafka_fuzz.reduce.shapes import Entry, Log, Record, opened, render_entry, shape_of
from kafka_fuzz.reduce.sites import CONTENT, HEADERS_FROM, put, walk, with_content, without_headers
from kafka_fuzz.reduce.streams import odd_entries
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2
from kafka_records.layout import WIDTHS, Field
from kafka_records.varint import encode_varint

# What the format says where there is nothing to say; other fields have 0.
NOTHING: Final = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
# These have ways of their own.
NOT_PLAIN: Final = frozenset({"magic", "crc", "size", "batch_length", "message_size", "record_count"})
# Bytes of which each is tried by itself.
MOST_BYTES: Final = 64


def moves(log: Log) -> Iterator[Log]:
    """Every tree that says one thing of *log* more simply."""
    for path, node in walk(log):
        if isinstance(node, Entry):
            for nodes in _entry_moves(node, len(path) - 1):
                yield put(log, path, *nodes)
        else:
            for record in _record_moves(node, path[-1]):
                yield put(log, path, record)
    yield from (log._replace(rest=rest) for rest in _simpler_bytes(log.rest))


def _entry_moves(entry: Entry, depth: int) -> Iterator[tuple[Entry, ...]]:
    yield from ((each,) for each in _mended(entry))
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


def _mended(entry: Entry) -> Iterator[Entry]:
    """With everything right, then with one thing."""
    right = entry._replace(size_off=0, crc_right=True, value_right=True)
    if entry.magic == MAGIC_VALUE_V2 and not entry.raw:
        right = right._replace(count_off=0, last_right=True)
    names = [name for name in Entry._fields[6:] if getattr(entry, name) != getattr(right, name)]
    if len(names) > 1:
        yield right
    yield from (entry._replace(**{name: getattr(right, name)}) for name in names)
    if not entry.crc_right and names:
        head = _with_field(entry.head, layout_of(entry.magic).field("crc"), 0)
        if head != entry.head:
            yield entry._replace(head=head)


def _odd(entry: Entry) -> Iterator[tuple[Entry, ...]]:
    """A small entry whose stream is odd in a way that is known."""
    size = len(render_entry(entry))
    for data in odd_entries(entry.magic, entry.codec) if entry.magic <= MAGIC_VALUE_V2 else ():
        if len(data) >= size:
            return
        yield shape_of(data).entries


def _unwrapped(entry: Entry) -> Iterator[tuple[Entry, ...]]:
    """Not compressed: a batch as it is, the messages of a wrapper in its place."""
    if entry.magic == MAGIC_VALUE_V2:
        yield (recoded(entry, "none"),)
    else:
        yield tuple(item for item in entry.items if isinstance(item, Entry))


def recoded(entry: Entry, codec: str) -> Entry:
    """*entry* compressed otherwise."""
    field = layout_of(entry.magic).field("attributes")
    value = _value(entry.head, field)
    number = COMPRESSIONS.index(codec)
    return entry._replace(head=_with_field(entry.head, field, value & ~7 | number), codec=COMPRESSIONS[number])


def _heads(entry: Entry) -> Iterator[bytes]:
    """The fixed fields, all of them plain; then one by one."""
    plain = {}
    for field in layout_of(entry.magic).fields:
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


def _struct(field: Field) -> Struct:
    return Struct(">" + WIDTHS[field.type][0])


def _value(head: bytes, field: Field) -> int:
    value: int = _struct(field).unpack_from(head, field.offset)[0]
    return value


def _with_field(head: bytes, field: Field, value: int) -> bytes:
    return head[: field.offset] + _struct(field).pack(value) + head[field.offset + field.width :]


def _record_moves(record: Record, index: int) -> Iterator[Record]:
    """Nothing in it; then every field by itself."""
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
    """Numbers that say nothing."""
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
    """Zeros in the place of *data*, of its halves, of each byte."""
    size = len(data)
    while size:
        for at in range(0, len(data), size):
            chunk = data[at : at + size]
            if chunk.strip(b"\0"):
                yield data[:at] + bytes(len(chunk)) + data[at + size :]
        size = 0 if size == 1 or len(data) > MOST_BYTES else (size + 1) // 2


def flat(log: Log) -> Log:
    """The same bytes, in which a payload that is not compressed is nothing but bytes."""
    return log._replace(entries=tuple(_flat(entry) if entry.codec == "none" else entry for entry in log.entries))


def _flat(entry: Entry) -> Entry:
    data = render_entry(entry)
    head = data[: len(entry.head)]
    kept = entry._replace(head=head, items=(), rest=data[len(head) :], key=b"", raw=True)
    return kept._replace(count_off=None, last_right=False)
