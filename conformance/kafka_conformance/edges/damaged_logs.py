"""Logs with one damaged batch, or with none and a consumer that begins inside of a batch, for the table of recovery."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from kafka_brokers.fake_broker import Tape, end_record
from kafka_records import Batch, Record, encode
from kafka_records.checksum import checksum_legacy, checksum_v2
from kafka_records.constants import MAGIC_VALUE_V1, NO_TIMESTAMP
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
        """The first offset of the damaged batch."""
        return min(self.inside)


class LogTape(Tape):
    """A log in the fake broker, with the time and offset of each fetch."""

    def __init__(self, log: DamagedLog) -> None:
        super().__init__(b"")
        last = log.pieces[-1].last
        self._pieces = (*log.pieces, LogPiece(last + 1, end_record(last + 1, log.magic)))
        self.fetches: list[tuple[float, int]] = []

    @property
    def end_offset(self) -> int:
        """The offset after the end record."""
        return self._pieces[-1].last + 1

    def read(self, offset: int, magic: int, room: int = 0) -> bytes:
        """The bytes from the batch that holds *offset* on: that batch whole, others up to the size of a fetch."""
        del magic, room
        left = [piece.data for piece in self._pieces if piece.last >= offset]
        self.fetches.append((time.monotonic(), offset))
        return b"".join(left)[: max(FETCH_BYTES, len(left[0]))] if left else b""


def _value(offset: int) -> bytes:
    return f"record {offset}".encode()


def _batch(first: int, values: Sequence[bytes], magic: int = 2, compression: str = "none") -> Batch:
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


def _three(first: int, magic: int = 2, compression: str = "none") -> Batch:
    return _batch(first, [_value(offset) for offset in range(first, first + 3)], magic, compression)


def with_checksum(data: bytes) -> bytes:
    """A v2 batch with the checksum that its bytes have."""
    return data[:17] + checksum_v2(data).to_bytes(4, "big") + data[21:]


def _with_legacy_checksum(data: bytes) -> bytes:
    return data[:12] + checksum_legacy(data).to_bytes(4, "big") + data[16:]


def _with_size(data: bytes) -> bytes:
    return data[:8] + (len(data) - ENTRY.size).to_bytes(4, "big") + data[12:]


def _put(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def _flip(data: bytes, offset: int) -> bytes:
    """One bit flipped in the value of the record at *offset*."""
    at = data.index(_value(offset))
    return _put(data, at, bytes([data[at] ^ 1]))


# Positions in a v2 batch: magic, the attributes' low byte, the record count, the first record.
MAGIC_AT: Final = 16
ATTRIBUTES_AT: Final = 22
COUNT_AT: Final = 57
RECORDS_AT: Final = 61
# Where the value of a message without a key begins, by magic.
VALUE_AT: Final = {0: 26, 1: 34}


def _v2_log(bad: bytes, last_served: int = 11, **more: Any) -> DamagedLog:
    pieces = [LogPiece(first + 2, encode(_three(first))) for first in (0, 3, 6)]
    pieces.append(LogPiece(last_served, bad))
    pieces += [LogPiece(first + 2, encode(_three(first))) for first in (12, 15, 18)]
    good = {offset: _value(offset) for offset in (*range(9), *range(12, 21))}
    inside = {offset: _value(offset) for offset in (9, 10, 11)}
    return DamagedLog(tuple(pieces), good, inside, past=12, magic=2, **more)


def _old_messages(magic: int) -> list[LogPiece]:
    return [LogPiece(offset, encode(_batch(offset, [_value(offset)], magic))) for offset in range(21)]


def _wrong_crc() -> DamagedLog:
    return _v2_log(_flip(encode(_three(9)), 10))


def _wrong_crc_v1(magic: int = 1) -> DamagedLog:
    pieces = _old_messages(magic)
    pieces[10] = LogPiece(10, _flip(pieces[10].data, 10))
    good = {offset: _value(offset) for offset in range(21) if offset != 10}
    return DamagedLog(tuple(pieces), good, {10: _value(10)}, past=11, magic=magic)


def _wrapped(magic: int, damage: Callable[[bytes], bytes], **more: Any) -> DamagedLog:
    """Old messages, and offsets 9 to 11 compressed, whose content *damage* changes."""
    first = 0 if magic else 9  # a wrapper of v1 has relative offsets
    plain = b"".join(encode(_batch(first + at, [_value(9 + at)], magic)) for at in range(3))
    whole, value_at = encode(_three(9, magic, compression="gzip")), VALUE_AT[magic]
    packed = damage(gzip.compress(plain, mtime=0))
    data = whole[:value_at] + packed
    data = _put(data, value_at - 4, len(packed).to_bytes(4, "big"))
    pieces = _old_messages(magic)
    wrapper = LogPiece(11, _with_legacy_checksum(_with_size(data)))
    good = {offset: _value(offset) for offset in range(21) if offset not in (9, 10, 11)}
    inside = {offset: _value(offset) for offset in (9, 10, 11)}
    return DamagedLog((*pieces[:9], wrapper, *pieces[12:]), good, inside, past=12, magic=magic, **more)


def _wrong_inner_crc_v1(magic: int = 1) -> DamagedLog:
    return _wrapped(magic, lambda packed: gzip.compress(_flip(gzip.decompress(packed), 10), mtime=0))


def _broken_gzip_v1(magic: int = 1) -> DamagedLog:
    return _wrapped(magic, _garbage)


def _from(start: int, log: DamagedLog) -> DamagedLog:
    """The *log* for a consumer that begins at *start*, as after a restart."""
    good, inside = ({at: value for at, value in each.items() if at >= start} for each in (log.good, log.inside))
    return replace(log, good=good, inside=inside, start=start)


def _middle_of_batch() -> DamagedLog:
    return _from(10, _v2_log(encode(_three(9, compression="gzip")), readable=True))


def _middle_of_wrapper(magic: int = 1) -> DamagedLog:
    return _from(10, _wrapped(magic, bytes, readable=True))


def _garbage(data: bytes) -> bytes:
    """The same number of bytes that no compressor writes."""
    return bytes((at * 37 + 11) % 251 for at in range(len(data)))


def _broken_compression(name: str) -> DamagedLog:
    whole = encode(_three(9, compression=name))
    return _v2_log(with_checksum(whole[:RECORDS_AT] + _garbage(whole[RECORDS_AT:])))


def _unknown_magic() -> DamagedLog:
    return _v2_log(_put(encode(_three(9)), MAGIC_AT, b"\3"))


def _unknown_compression() -> DamagedLog:
    return _v2_log(with_checksum(_put(encode(_three(9)), ATTRIBUTES_AT, b"\6")))


def _record_length() -> DamagedLog:
    """The second record claims 1,000 bytes."""
    whole = encode(_three(9))
    at = RECORDS_AT + 1 + whole[RECORDS_AT] // 2
    data = whole[:at] + encode_varint(1000) + whole[at + 1 :]
    return _v2_log(with_checksum(_with_size(data)))


def _record_count() -> DamagedLog:
    """The header claims five records and has three."""
    return _v2_log(with_checksum(_put(encode(_three(9)), COUNT_AT, (5).to_bytes(4, "big"))))


def _short_length() -> DamagedLog:
    return _v2_log(_put(encode(_three(9)), 8, (10).to_bytes(4, "big")))


def _huge_length() -> DamagedLog:
    return _v2_log(_put(encode(_three(9)), 8, (1 << 30).to_bytes(4, "big")))


def _hole() -> DamagedLog:
    """Twenty bytes are missing in the middle."""
    whole = encode(_three(9))
    return _v2_log(whole[:70] + whole[90:])


class _CutTape(LogTape):
    """A log of two segments, the first of which ends in the middle of a batch: no fetch goes beyond it."""

    def read(self, offset: int, magic: int, room: int = 0) -> bytes:
        found = super().read(offset, magic, room)
        at = found.find(CUT_MARK)
        return found if at < 0 else found[:at]


CUT_MARK: Final = b"\0 end of a segment \0"


def _cut() -> DamagedLog:
    return _v2_log(encode(_three(9))[:-20] + CUT_MARK)


def _oversized() -> DamagedLog:
    values = [_value(9), b"x" * (3 << 20), _value(11)]
    log = _v2_log(encode(_batch(9, values)), readable=True)
    return replace(log, inside={9: values[0], 10: values[1], 11: values[2]})


# The log of each row; those of old messages take their magic.
LOGS: Final[Mapping[str, Callable[..., DamagedLog]]] = {
    "wrong-crc": _wrong_crc,
    "wrong-crc-v1": _wrong_crc_v1,
    "wrong-inner-crc-v1": _wrong_inner_crc_v1,
    "unknown-magic": _unknown_magic,
    "unknown-compression": _unknown_compression,
    "broken-gzip": lambda: _broken_compression("gzip"),
    "broken-gzip-v1": _broken_gzip_v1,
    "record-length": _record_length,
    "record-count": _record_count,
    "short-length": _short_length,
    "huge-length": _huge_length,
    "missing-bytes": _hole,
    "cut-segment": _cut,
    "oversized": _oversized,
    "middle-of-batch": _middle_of_batch,
    "middle-of-wrapper": _middle_of_wrapper,
}


def log_for(row: str, newest_magic: int = MAGIC_VALUE_V1) -> DamagedLog:
    """The log of *row*; old messages have *newest_magic* if a client reads nothing newer."""
    log = LOGS[row]()
    return LOGS[row](newest_magic) if log.magic == MAGIC_VALUE_V1 and newest_magic < MAGIC_VALUE_V1 else log


def tape_of(log: DamagedLog) -> LogTape:
    """The tape of *log* for the fake broker."""
    return (_CutTape if any(CUT_MARK in piece.data for piece in log.pieces) else LogTape)(log)
