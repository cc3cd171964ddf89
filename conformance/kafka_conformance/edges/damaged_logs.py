"""Logs with one damaged batch, for the table of recovery; `sound_logs` has those without damage."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from kafka_brokers.fake_broker import Tape, end_record
from kafka_corpus.authoring.build import reseal, reseal_message
from kafka_records import Batch, Record, encode
from kafka_records.constants import MAGIC_VALUE_V2, NO_TIMESTAMP
from kafka_records.layout import ENTRY
from kafka_records.varint import encode_varint

# Bytes of a fetch of one partition, the default of most clients.
FETCH_BYTES: Final = 1 << 20


class LogPiece(NamedTuple):
    """Bytes that a broker finds by their last offset."""

    last: int
    data: bytes


@dataclass(frozen=True, slots=True)
class DamagedLog:
    """A log with one damaged batch.

    Attributes:
        pieces: its batches, or old messages, in order; an end record follows them.
        good: the value of each record that is outside of the damaged batch.
        inside: the value of each record in the damaged batch, as its producer wrote it.
        past: the first offset after the damage.
        magic: of the end record.
        readable: whether the batch in question has no damage, and is to be delivered.
        start: the offset that the consumer begins at; no record before it is in `good` or `inside`.
    """

    pieces: tuple[LogPiece, ...]
    good: Mapping[int, bytes]
    inside: Mapping[int, bytes]
    past: int
    magic: int
    readable: bool = False
    start: int = 0

    @property
    def first_bad(self) -> int:
        """The first offset of the damaged batch; of one without records, its own."""
        return min(self.inside, default=self.past - 1)

    @property
    def last(self) -> int:
        """The last offset before the end record."""
        return self.pieces[-1].last


class LogTape(Tape):
    """A log in the fake broker, with the time and offset of each fetch."""

    def __init__(self, log: DamagedLog) -> None:
        super().__init__(b"")
        end = log.last + 1
        self._pieces = (*log.pieces, LogPiece(end, end_record(end, log.magic)))
        self.fetches: list[tuple[float, int]] = []

    @property
    def end_offset(self) -> int:
        """The offset after the end record."""
        return self._pieces[-1].last + 1

    def read(self, offset: int, magic: int, room: int = 0) -> bytes:
        """The bytes from the batch that holds *offset* on: that batch whole, others up to the size of a fetch.

        Fetches that know no batches, but old messages only, get no more than their *room*, also of the first message.
        """
        left = [piece.data for piece in self._pieces if piece.last >= offset]
        self.fetches.append((time.monotonic(), offset))
        size = max(FETCH_BYTES, len(left[0])) if left else 0
        return b"".join(left)[: size if magic == MAGIC_VALUE_V2 else min(size, room)]


def log_value(offset: int) -> bytes:
    """The value of the record at *offset*, in all logs."""
    return f"record {offset}".encode()


def log_batch(first: int, values: Sequence[bytes], magic: int = 2, compression: str = "none") -> Batch:
    """A batch, or old messages, with *values* from the offset *first* on."""
    records = [
        Record(first + at, 1_700_000_000_000 + at if magic else NO_TIMESTAMP, f"key {first + at}".encode(), value)
        for at, value in enumerate(values)
    ]
    return Batch(
        magic=magic,
        base_offset=first,
        last_offset=records[-1].offset,
        compression=compression,  # type: ignore[arg-type]
        timestamp_type="create" if magic else "none",
        max_timestamp=records[-1].timestamp,
        records=tuple(records),
    )


def three(first: int, magic: int = 2, compression: str = "none") -> Batch:
    """Three records from the offset *first* on."""
    return log_batch(first, [log_value(offset) for offset in range(first, first + 3)], magic, compression)


def with_own_size(data: bytes) -> bytes:
    """An entry with the size that it has."""
    return data[:8] + (len(data) - ENTRY.size).to_bytes(4, "big") + data[12:]


def overwritten(data: bytes, at: int, value: bytes) -> bytes:
    """The bytes *data* with *value* at the position *at*."""
    return data[:at] + value + data[at + len(value) :]


def flipped(data: bytes, offset: int) -> bytes:
    """One bit flipped in the value of the record at *offset*."""
    at = data.index(log_value(offset))
    return overwritten(data, at, bytes([data[at] ^ 1]))


# Positions in a v2 batch: magic, the attributes' low byte, the record count, the first record.
MAGIC_AT: Final = 16
ATTRIBUTES_AT: Final = 22
COUNT_AT: Final = 57
RECORDS_AT: Final = 61
# Where the value of a message without a key begins, by magic.
VALUE_AT: Final = {0: 26, 1: 34}


def sound_batches(*firsts: int) -> tuple[LogPiece, ...]:
    """Batches of three records without damage, from each of these offsets on."""
    return tuple(LogPiece(first + 2, encode(three(first))) for first in firsts)


def v2_log(bad: bytes, offsets: Sequence[int] = (9, 10, 11), **more: Any) -> DamagedLog:
    """Three good batches, the *bad* one with records at *offsets*, and three good ones."""
    past = offsets[-1] + 1
    pieces = (*sound_batches(0, 3, 6), LogPiece(past - 1, bad), *sound_batches(past, past + 3, past + 6))
    good = {offset: log_value(offset) for offset in (*range(9), *range(past, past + 9))}
    inside = {offset: log_value(offset) for offset in offsets}
    return DamagedLog(pieces, good, inside, past=past, magic=2, **more)


def old_messages(magic: int, offsets: Iterable[int]) -> tuple[LogPiece, ...]:
    """Old messages without damage at these *offsets*."""
    return tuple(LogPiece(offset, encode(log_batch(offset, [log_value(offset)], magic))) for offset in offsets)


def old_log(magic: int, bad: LogPiece, inside: Mapping[int, bytes], **more: Any) -> DamagedLog:
    """Old messages at the offsets 0 to 20, with *bad* in place of those that are *inside* of it."""
    first, past = min(inside), max(inside) + 1
    pieces = (*old_messages(magic, range(first)), bad, *old_messages(magic, range(past, 21)))
    good = {offset: log_value(offset) for offset in range(21) if offset not in inside}
    return DamagedLog(pieces, good, inside, past=past, magic=magic, **more)


def wrapper(magic: int, values: Mapping[int, bytes], damage: Callable[[bytes], bytes] = bytes) -> bytes:
    """A gzip wrapper of old messages, whose content *damage* changes; those of v1 have relative offsets."""
    first = min(values)
    inner = {offset - first if magic else offset: value for offset, value in values.items()}
    plain = b"".join(encode(log_batch(offset, [value], magic)) for offset, value in inner.items())
    whole, value_at = encode(log_batch(first, list(values.values()), magic, "gzip")), VALUE_AT[magic]
    packed = damage(gzip.compress(plain, mtime=0))
    data = whole[:value_at] + packed
    data = overwritten(data, value_at - 4, len(packed).to_bytes(4, "big"))
    return reseal_message(with_own_size(data))


def wrapped_log(magic: int, damage: Callable[[bytes], bytes] = bytes, **more: Any) -> DamagedLog:
    """Old messages, and offsets 9 to 11 in a wrapper, whose content *damage* changes."""
    inside = {offset: log_value(offset) for offset in (9, 10, 11)}
    return old_log(magic, LogPiece(11, wrapper(magic, inside, damage)), inside, **more)


def _wrong_crc() -> DamagedLog:
    return v2_log(flipped(encode(three(9)), 10))


def _wrong_crc_v1(magic: int = 1) -> DamagedLog:
    (message,) = old_messages(magic, (10,))
    return old_log(magic, LogPiece(10, flipped(message.data, 10)), {10: log_value(10)})


def _wrong_inner_crc_v1(magic: int = 1) -> DamagedLog:
    return wrapped_log(magic, lambda packed: gzip.compress(flipped(gzip.decompress(packed), 10), mtime=0))


def _broken_gzip_v1(magic: int = 1) -> DamagedLog:
    return wrapped_log(magic, _garbage)


def _garbage(data: bytes) -> bytes:
    """The same number of bytes that no compressor writes."""
    return bytes((at * 37 + 11) % 251 for at in range(len(data)))


def _broken_compression(name: str) -> DamagedLog:
    whole = encode(three(9, compression=name))
    return v2_log(reseal(whole[:RECORDS_AT] + _garbage(whole[RECORDS_AT:])))


def _unknown_magic() -> DamagedLog:
    return v2_log(overwritten(encode(three(9)), MAGIC_AT, b"\3"))


def _unknown_magic_of_one() -> DamagedLog:
    return v2_log(overwritten(encode(log_batch(9, [log_value(9)])), MAGIC_AT, b"\3"), (9,))


def _unknown_compression() -> DamagedLog:
    return v2_log(reseal(overwritten(encode(three(9)), ATTRIBUTES_AT, b"\6")))


def _record_length() -> DamagedLog:
    """The second record claims 1,000 bytes."""
    whole = encode(three(9))
    at = RECORDS_AT + 1 + whole[RECORDS_AT] // 2
    data = whole[:at] + encode_varint(1000) + whole[at + 1 :]
    return v2_log(reseal(with_own_size(data)))


def _record_count() -> DamagedLog:
    """The header claims five records and has three."""
    return v2_log(reseal(overwritten(encode(three(9)), COUNT_AT, (5).to_bytes(4, "big"))))


def _short_length() -> DamagedLog:
    return v2_log(overwritten(encode(three(9)), 8, (10).to_bytes(4, "big")))


def _huge_length() -> DamagedLog:
    return v2_log(overwritten(encode(three(9)), 8, (1 << 30).to_bytes(4, "big")))


def _hole() -> DamagedLog:
    """Twenty bytes are missing in the middle."""
    whole = encode(three(9))
    return v2_log(whole[:70] + whole[90:])


class _CutTape(LogTape):
    """A log of two segments, the first of which ends in the middle of a batch: no fetch goes beyond it."""

    def read(self, offset: int, magic: int, room: int = 0) -> bytes:
        found = super().read(offset, magic, room)
        at = found.find(CUT_MARK)
        return found if at < 0 else found[:at]


CUT_MARK: Final = b"\0 end of a segment \0"


def _cut() -> DamagedLog:
    return v2_log(encode(three(9))[:-20] + CUT_MARK)


def _short_size(magic: int = 1) -> DamagedLog:
    """Offset 10, a size of 4 and four bytes end a segment."""
    entry = (10).to_bytes(8, "big") + (4).to_bytes(4, "big") + bytes(4)
    return old_log(magic, LogPiece(10, entry + CUT_MARK), {10: log_value(10)})


def _broken_marker() -> DamagedLog:
    """The commit marker of a transaction, at offset 9, has no value."""
    marker = Record(9, 1_700_000_000_000, COMMIT_KEY, None)
    batch = replace(log_batch(9, [b""]), producer_id=7, producer_epoch=0, transactional=True, control=True)
    log = v2_log(encode(replace(batch, records=(marker,))), (9,), readable=True)
    return replace(log, inside={})


# Version 0, type 1.
COMMIT_KEY: Final = bytes((0, 0, 0, 1))

# The log of each row; those of old messages take their magic.
DAMAGES: Final[Mapping[str, Callable[..., DamagedLog]]] = {
    "wrong-crc": _wrong_crc,
    "wrong-crc-v1": _wrong_crc_v1,
    "wrong-inner-crc-v1": _wrong_inner_crc_v1,
    "unknown-magic": _unknown_magic,
    "unknown-magic-of-one": _unknown_magic_of_one,
    "unknown-compression": _unknown_compression,
    "broken-gzip": lambda: _broken_compression("gzip"),
    "broken-gzip-v1": _broken_gzip_v1,
    "record-length": _record_length,
    "record-count": _record_count,
    "short-length": _short_length,
    "short-size-v1": _short_size,
    "huge-length": _huge_length,
    "missing-bytes": _hole,
    "cut-segment": _cut,
    "broken-marker": _broken_marker,
}


def tape_of(log: DamagedLog) -> LogTape:
    """The tape of *log* for the fake broker."""
    return (_CutTape if any(CUT_MARK in piece.data for piece in log.pieces) else LogTape)(log)
