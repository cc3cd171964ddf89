"""What is written of a right answer: its batches as JSON, and their outline, which is the same for batches alike.

Most cases hold valid entries that many others hold too, so what is worked out
for a batch is kept, first for a while and, when it is wanted again, for good.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
from xxhash import xxh3_64_digest

from kafka_corpus.wire import to_wire
from kafka_records import Batch, Record

# Batches that were met once are forgotten after so many others.
YOUNG: Final = 2048
# Records of a batch that are looked at.
LOOK: Final = 8


class Outlined(NamedTuple):
    """A batch, its JSON, and the hash of its outline."""

    batch: Batch
    json: bytes
    outline: bytes


class Outlines:
    """What is known of batches, by identity: equal ones are seldom the same, and comparing takes longer."""

    def __init__(self) -> None:
        self._young: dict[int, Outlined] = {}
        self._old: dict[int, Outlined] = {}

    def of(self, batches: Iterable[Batch]) -> tuple[bytes, bytes]:
        """The JSON of *batches*, and the hashes of their outlines one behind the other."""
        found = [self._one(batch) for batch in batches]
        return b"[" + b",".join([each.json for each in found]) + b"]", b"".join([each.outline for each in found])

    def _one(self, batch: Batch) -> Outlined:
        # An entry holds its batch, so no other can have the same identity.
        key = id(batch)
        found = self._old.get(key)
        if found is not None:
            return found
        found = self._young.pop(key, None)
        if found is not None:
            self._old[key] = found
            return found
        if len(self._young) >= YOUNG:
            self._young.clear()
        made = self._young[key] = Outlined(batch, msgspec.json.encode(to_wire(batch)), outline_of(batch))
        return made


def outline_of(batch: Batch) -> bytes:
    """Eight bytes, the same for batches that differ in nothing but values."""
    parts = (
        batch.magic,
        batch.compression,
        batch.timestamp_type,
        batch.producer_id >= 0,
        batch.transactional,
        batch.control,
        batch.delete_horizon is not None,
        (batch.last_offset - batch.base_offset).bit_length(),
        len(batch.records).bit_length(),
        *[_outline_of_record(record) for record in batch.records[:LOOK]],
    )
    return xxh3_64_digest(repr(parts).encode())


def _outline_of_record(record: Record) -> tuple[int, int, int]:
    return _size(record.key), _size(record.value), len(record.headers).bit_length()


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content).bit_length()
