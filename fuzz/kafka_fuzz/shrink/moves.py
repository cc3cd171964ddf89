"""Simplifications of a tree, the boldest first.

Cutting at one site does not move the sites before it, so an index identifies a
site while the tree gets smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from kafka_fuzz.mutate.entries import layout_of_magic
from kafka_fuzz.mutate.fixup import INT32, NULL
from kafka_fuzz.shrink.tree import EntryNode, Item, Log, Record, odd_entries, opened, render_entry, shape_of
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2
from kafka_records.layout import HEADER_V2, MESSAGE_BODY, RECORD_V2, WIDTHS, FixedField
from kafka_records.varint import decode_varint, encode_varint

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
