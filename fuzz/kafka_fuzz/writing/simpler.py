"""Batches made small and plain: what may be taken from one that a writer stumbles over, the boldest first.

Each step leaves less, or what is plainer, so that a search over them ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from kafka_records import Batch, Header, Record
from kafka_records.constants import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from kafka_records.primitives import wrap_int64

NOBODY: Final[dict[str, Any]] = {
    "producer_id": NO_PRODUCER_ID,
    "producer_epoch": NO_PRODUCER_EPOCH,
    "base_sequence": NO_SEQUENCE,
    "transactional": False,
}
PLAIN: Final[dict[str, Any]] = {
    "compression": "none",
    "control": False,
    "partition_leader_epoch": -1,
    "delete_horizon": None,
    **NOBODY,
}


def simpler(batch: Batch) -> Iterator[Batch]:
    """What is like *batch*, with less in it or plainer."""
    yield from _fewer(batch)
    for changes in (NOBODY, *({name: value} for name, value in PLAIN.items())):
        if any(getattr(batch, name) != value for name, value in changes.items()):
            yield replace(batch, **changes)
    if batch.base_offset:
        yield moved(batch, -batch.base_offset)
    for index, record in enumerate(batch.records):
        for plainer in _plainer(record):
            yield with_records(batch, (*batch.records[:index], plainer, *batch.records[index + 1 :]))


def _fewer(batch: Batch) -> Iterator[Batch]:
    """Without some of its records."""
    size = len(batch.records)
    while size:
        for at in range(0, len(batch.records), size):
            yield with_records(batch, batch.records[:at] + batch.records[at + size :])
        size //= 2


def with_records(batch: Batch, records: tuple[Record, ...]) -> Batch:
    """Other records; the header's offsets and times go with them where they did before."""
    old, changes = batch.records, {"records": records}
    if batch.max_timestamp == latest(old):
        changes["max_timestamp"] = latest(records)  # type: ignore[assignment]  # fields have types of their own
    if old and records and batch.base_offset == old[0].offset:
        changes["base_offset"] = records[0].offset  # type: ignore[assignment]
    if old and records and batch.last_offset == old[-1].offset:
        changes["last_offset"] = records[-1].offset  # type: ignore[assignment]
    return replace(batch, **changes)  # type: ignore[arg-type]


def latest(records: tuple[Record, ...]) -> int:
    """The latest time of *records*."""
    return max((record.timestamp for record in records), default=NO_TIMESTAMP)


def moved(batch: Batch, offsets: int) -> Batch:
    """The batch with all its offsets moved."""
    records = tuple(record._replace(offset=wrap_int64(record.offset + offsets)) for record in batch.records)
    first, last = (wrap_int64(offset + offsets) for offset in (batch.base_offset, batch.last_offset))
    return replace(batch, base_offset=first, last_offset=last, records=records)


def _plainer(record: Record) -> Iterator[Record]:
    for key in _shorter(record.key):
        yield record._replace(key=key)
    for value in _shorter(record.value):
        yield record._replace(value=value)
    for index, header in enumerate(record.headers):
        before, after = record.headers[:index], record.headers[index + 1 :]
        yield record._replace(headers=before + after)
        for content in _shorter(header.value):
            yield record._replace(headers=(*before, Header(header.key, content), *after))
        for name in _shorter(header.key, null=False):
            yield record._replace(headers=(*before, Header(name or b"", header.value), *after))
    if record.timestamp:
        yield record._replace(timestamp=0)


def _shorter(content: bytes | None, *, null: bool = True) -> Iterator[bytes | None]:
    """Nothing, no bytes, one half or the other, one byte less."""
    if content is None:
        return
    shorter = [content[:0], content[: len(content) // 2], content[len(content) // 2 :], content[:-1]]
    yield from dict.fromkeys([None] * null + [each for each in shorter if len(each) < len(content)])
