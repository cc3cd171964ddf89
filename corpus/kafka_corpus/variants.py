"""Variants: cases of the corpus with other numbers and other texts, drawn from a seed; pure.

A codec with a table of the right answers knows the corpus, and no variant.  A variant
keeps what its case is about: it has other offsets, leader epochs and times, and other
letters where keys, values and header keys have letters; lengths stay, and a checksum
that was right is right again.  Its right answer is the reference's.  Bytes for which
the reference has another answer than for the case, apart from these values, make no
variant, and neither do compressed texts.

Variants are named by their case, and by nothing that changes: `v2_batch.first~variant`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from string import ascii_lowercase
from typing import Final

from kafka_corpus.authoring.faults import with_right_checksum
from kafka_corpus.case import Case, Expectation
from kafka_records import Batch, Record, RecordFormatError, decode, encode
from kafka_records import attributes as bits
from kafka_records.constants import MAGIC_VALUE_V1, MAGIC_VALUE_V2
from kafka_records.layout import (
    ATTRIBUTES_OFFSET_LEGACY,
    ATTRIBUTES_OFFSET_V2,
    BATCH_V2,
    MAGIC_OFFSET,
    MESSAGE_V0,
    MESSAGE_V1,
    FixedField,
    Layout,
)
from kafka_records.log import split_entries

SUFFIX: Final = "~variant"
MAX_INPUT: Final = 64 * 1024
# Offsets and times that may be moved: those far from every limit that a case may be about.
OFFSETS: Final = range(1 << 40)
TIMES: Final = range(1_000_000_000_000, 3_000_000_000_000)
MOVED_OFFSET: Final = range(1, 1_000_000)
MOVED_TIME: Final = range(1, 1_000_000_000)
# The time of a wrapper repeats those of the messages inside, which stay.
_TIMES_OF_LAYOUTS: Final = ("base_timestamp", "max_timestamp", "timestamp")
_LETTERS: Final = re.compile(rb"[a-z]{3,}")


@dataclass(frozen=True, slots=True)
class Move:
    """The other values of one variant."""

    offset: int
    time: int
    epoch: int
    letters: bytes

    @classmethod
    def drawn(cls, rng: Random) -> Move:
        """A move, drawn from *rng*."""
        letters = "".join(rng.sample(ascii_lowercase, len(ascii_lowercase))).encode()
        return cls(rng.choice(MOVED_OFFSET), rng.choice(MOVED_TIME), rng.randrange(1 << 16), letters)

    def text(self, data: bytes) -> bytes:
        """*data* with other letters in each run of three or more small ones."""
        table = bytes.maketrans(ascii_lowercase.encode(), self.letters)
        return _LETTERS.sub(lambda found: found[0].translate(table), data)


def is_variant(id_: str) -> bool:
    """Whether *id_* names a variant."""
    return id_.endswith(SUFFIX)


def case_of(id_: str) -> str:
    """The id of the case that the variant *id_* is of."""
    return id_.removesuffix(SUFFIX)


def variants(cases: Sequence[Case], seed: str, count: int) -> list[Case]:
    """Variants of *count* of the *cases*, or of all that have one; the same for the same arguments."""
    rng = Random(seed)
    by_id = sorted(cases, key=lambda case: case.id)
    found: list[Case] = []
    for case in rng.sample(by_id, len(by_id)):
        if len(found) == count:
            break
        made = variant(case, Move.drawn(rng))
        if made is not None:
            found.append(made)
    return sorted(found, key=lambda case: case.id)


def variant(case: Case, move: Move) -> Case | None:
    """*case* with the values of *move*; None if it has no variant."""
    if case.aborted is not None or case.expect.committed:
        return None
    if isinstance(case.input, Batch):
        return _written(case, case.input, move)
    if case.op == "decode" and isinstance(case.input, bytes) and 0 < len(case.input) <= MAX_INPUT:
        return _read(case, case.input, move)
    return None


# To read


def _read(case: Case, data: bytes, move: Move) -> Case | None:
    try:
        spans = list(split_entries(data))
    except RecordFormatError:
        return None
    if case.expect.verdict == "acceptable" or (case.expect.verdict == "invalid" and len(spans) > 1):
        return None
    moved = b"".join(_moved_entry(data[start:end], move) for start, end in spans)
    if len(moved) != len(data) or moved == data:
        return None
    expect = _expected(case, data, moved)
    return None if expect is None else replace(case, id=case.id + SUFFIX, input=moved, expect=expect, evidence={})


def _moved_entry(entry: bytes, move: Move) -> bytes:
    """One entry with the values of *move*, and with a right checksum if it had one."""
    fields = _layout(entry).fields
    if len(entry) < fields[-1].offset + fields[-1].width:
        return entry
    sealed, plain = with_right_checksum(entry) == entry, not _is_compressed(entry)
    timed = sealed and (plain or entry[MAGIC_OFFSET] >= MAGIC_VALUE_V2)
    moved = bytearray(entry)
    for field in fields:
        _move_field(moved, field, move, timed=timed)
    if not sealed:
        return bytes(moved)
    end = fields[-1].offset + fields[-1].width
    if plain:
        moved[end:] = move.text(bytes(moved[end:]))
    return with_right_checksum(bytes(moved))


def _layout(entry: bytes) -> Layout:
    if entry[MAGIC_OFFSET] >= MAGIC_VALUE_V2:
        return BATCH_V2
    return MESSAGE_V1 if entry[MAGIC_OFFSET] == MAGIC_VALUE_V1 else MESSAGE_V0


def _move_field(entry: bytearray, field: FixedField, move: Move, *, timed: bool) -> None:
    """Change one field, if it is one that may change; times only if *timed*."""
    at = slice(field.offset, field.offset + field.width)
    value = int.from_bytes(entry[at], "big", signed=True)
    if field.name in ("base_offset", "offset") and value in OFFSETS:
        value += move.offset
    elif field.name == "partition_leader_epoch" and value >= -1:
        value = move.epoch
    elif field.name in _TIMES_OF_LAYOUTS and timed and value in TIMES:
        value += move.time
    else:
        return
    entry[at] = value.to_bytes(field.width, "big", signed=True)


def _is_compressed(entry: bytes) -> bool:
    at = ATTRIBUTES_OFFSET_V2 + 1 if entry[MAGIC_OFFSET] >= MAGIC_VALUE_V2 else ATTRIBUTES_OFFSET_LEGACY
    return bool(entry[at] & bits.COMPRESSION_CODEC_MASK)


def _expected(case: Case, data: bytes, moved: bytes) -> Expectation | None:
    """The right answer to *moved*; None if it is of another kind than that to *data*."""
    if case.expect.verdict == "invalid":
        same = not case.expect.batches and _kind(data) == _kind(moved) != ""
        return case.expect if same else None
    try:
        batches = decode(moved)
    except RecordFormatError:
        return None
    if len(batches) != len(case.expect.batches):
        return None
    alike = all(_shape(one) == _shape(other) for one, other in zip(batches, case.expect.batches, strict=True))
    return replace(case.expect, batches=batches) if alike else None


def _kind(data: bytes) -> str:
    """Kind, place and rule of the reference's error; empty if there is none."""
    try:
        decode(data)
    except RecordFormatError as error:
        return f"{error.kind} {error.path} {error.offset} {error.rule}"
    return ""


def _shape(batch: Batch) -> tuple[object, ...]:
    """The values of a batch that a variant does not change."""
    fields = (batch.magic, batch.compression, batch.timestamp_type, batch.last_offset - batch.base_offset)
    return (*fields, batch.control, batch.transactional, batch.producer_id, *map(_record_shape, batch.records))


def _record_shape(record: Record) -> tuple[object, ...]:
    headers = [(_size(header.key), _size(header.value)) for header in record.headers]
    return _size(record.key), _size(record.value), *headers


def _size(text: bytes | None) -> int:
    return -1 if text is None else len(text)


# To write


def _written(case: Case, batch: Batch, move: Move) -> Case | None:
    if case.expect.verdict != "valid":
        return None
    moved = _moved_batch(batch, move)
    if moved == batch:
        return None
    try:
        expect = replace(case.expect, data=encode(moved))
    except RecordFormatError:
        return None
    return replace(case, id=case.id + SUFFIX, input=moved, expect=expect, evidence={})


def _moved_batch(batch: Batch, move: Move) -> Batch:
    """*batch* at other times, if all of its times may be moved, and with other texts in its records."""
    times = [batch.max_timestamp, *(record.timestamp for record in batch.records)]
    by = move.time if batch.base_timestamp is None and all(time in TIMES for time in times) else 0
    records = tuple(
        record._replace(
            timestamp=record.timestamp + by,
            key=None if record.key is None else move.text(record.key),
            value=None if record.value is None else move.text(record.value),
        )
        for record in batch.records
    )
    return replace(batch, max_timestamp=batch.max_timestamp + by, records=records)
