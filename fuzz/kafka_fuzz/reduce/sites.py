"""Where a tree can be cut: sequences of entries, records, headers and bytes, outermost first.

Cutting at one site leaves those before it in their places, so that a number
names a site while the tree gets smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from kafka_fuzz.mutate.sealing import INT32
from kafka_fuzz.reduce.shapes import Entry, Item, Log, Record
from kafka_records.layout import HEADER_V2, MESSAGE_BODY, RECORD_V2
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
        for length, cut in _entry_cuts(node) if isinstance(node, Entry) else _record_cuts(node):
            yield Site(length, partial(_cut_at, log, path, cut))


def walk(log: Log) -> Iterator[tuple[Path, Item]]:
    """Every entry and record with its path, an entry before what is in it."""
    yield from _walk(log.entries, ())


def _walk(items: tuple[Item, ...], path: Path) -> Iterator[tuple[Path, Item]]:
    for index, item in enumerate(items):
        yield (*path, index), item
        if isinstance(item, Entry):
            yield from _walk(item.items, (*path, index))


def put(log: Log, path: Path, *nodes: Item) -> Log:
    """*log* with *nodes* in the place of the one at *path*."""
    entries = _put(log.entries, path, nodes)
    return log._replace(entries=tuple(entry for entry in entries if isinstance(entry, Entry)))


def _put(items: tuple[Item, ...], path: Path, nodes: tuple[Item, ...]) -> tuple[Item, ...]:
    at, *deeper = path
    if deeper:
        entry = items[at]
        assert isinstance(entry, Entry)
        nodes = (entry._replace(items=_put(entry.items, tuple(deeper), nodes)),)
    return items[:at] + nodes + items[at + 1 :]


def _cut_at(log: Log, path: Path, cut: Callable[[int, int], Item], start: int, end: int) -> Log:
    return put(log, path, cut(start, end))


def _entry_cuts(entry: Entry) -> Iterator[tuple[int, Callable[[int, int], Item]]]:
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
    """*record* without some of its headers, its count as right or wrong as it was."""
    first, last = (HEADERS_FROM + HEADER_FIELDS * number for number in (start, end))
    count = decode_varint(record.raws[HEADERS_FROM - 1], 0, "header_count")[0] - (end - start)
    raws = (*record.raws[: HEADERS_FROM - 1], encode_varint(max(count, -(2**31))))
    return record._replace(
        names=record.names[:first] + record.names[last:],
        raws=raws + record.raws[HEADERS_FROM:first] + record.raws[last:],
    )
