"""The entries of produced payloads and of segment files, framed as the broker frames them, and fields at fixed places.

Bytes may be fewer than a header: a field beyond them is then an
IndexOutOfBoundsException, as it is in Java (HDR-05, LEG-03).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafka_records.attributes import (
    COMPRESSION_CODEC_MASK,
    CONTROL_FLAG_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_FLAG_MASK,
)
from kafka_records.broker.errors import JavaName, Thrown
from kafka_records.broker.releases import Behaviour
from kafka_records.checksum import checksum_legacy, checksum_v2
from kafka_records.constants import (
    COMPRESSIONS,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_VALUE_V0,
    MAGIC_VALUE_V2,
    NO_PRODUCER_ID,
    RECORD_BATCH_OVERHEAD,
    RECORD_OVERHEAD_V0,
    Compression,
)
from kafka_records.errors import RecordFormatError
from kafka_records.layout import BATCH_V2, ENTRY, MAGIC_OFFSET, MESSAGE_V0, MESSAGE_V1
from kafka_records.log import next_entry
from kafka_records.message import is_too_small
from kafka_records.primitives import wrap_int64

# What nextBatchSize throws, by rule (FRM-05, FRM-08, FRM-09).
FRAMING: dict[str, JavaName] = {
    "FRM-05": "CorruptRecordException",
    "FRM-08": "CorruptRecordException",
    "FRM-09": "IllegalArgumentException",
}


class Entry(NamedTuple):
    """One whole entry, its 12-byte prefix included."""

    data: bytes

    @property
    def magic(self) -> int:
        """Byte 16, signed."""
        magic = self.data[MAGIC_OFFSET]
        return magic - 256 if magic > 127 else magic

    @property
    def is_v2(self) -> bool:
        """Whether it is a batch rather than a message."""
        return self.magic >= MAGIC_VALUE_V2

    def number(self, name: str) -> int:
        """A fixed field of a v2 batch, by its name in `layout.BATCH_V2`."""
        place = BATCH_V2.field(name)
        piece = self.data[place.offset : place.offset + place.width]
        if len(piece) < place.width:
            raise Thrown("IndexOutOfBoundsException", "HDR-05")
        return int.from_bytes(piece, "big", signed=not place.type.startswith("u"))

    @property
    def attributes(self) -> int:
        """The attribute bits; ATT-08: the low byte of two in v2."""
        if self.is_v2:
            return self.number("attributes") & 0xFF
        return self.data[(MESSAGE_V0 if self.magic == MAGIC_VALUE_V0 else MESSAGE_V1).field("attributes").offset]

    @property
    def is_transactional(self) -> bool:
        """TXN-01."""
        return self.is_v2 and bool(self.attributes & TRANSACTIONAL_FLAG_MASK)

    @property
    def is_control(self) -> bool:
        """ATT-05."""
        return self.is_v2 and bool(self.attributes & CONTROL_FLAG_MASK)

    @property
    def has_append_time(self) -> bool:
        """Bit 3, which v0 does not have (LEG-17)."""
        return self.magic != MAGIC_VALUE_V0 and bool(self.attributes & TIMESTAMP_TYPE_MASK)

    @property
    def producer_id(self) -> int:
        """-1 in messages (LEG-23)."""
        return self.number("producer_id") if self.is_v2 else NO_PRODUCER_ID

    @property
    def has_producer_id(self) -> bool:
        """HDR-23, PID-20: 0 is an id."""
        return self.producer_id > NO_PRODUCER_ID

    def compression(self, does: Behaviour) -> Compression:
        """The codec; CompressionType#forId knows those of the release, all five today (ATT-02, LEG-16, CMP-02)."""
        codec = self.attributes & COMPRESSION_CODEC_MASK
        if codec >= does.codecs:
            raise Thrown("IllegalArgumentException", "ATT-02" if self.is_v2 else "LEG-16")
        return COMPRESSIONS[codec]

    @property
    def is_valid(self) -> bool:
        """Whether it is long enough and its CRC is right (HDR-05, CRC-06, LEG-04).

        A batch length below the real one makes it wrong (HDR-21).
        """
        if self.is_v2:
            return len(self.data) >= RECORD_BATCH_OVERHEAD and self.number("crc") == checksum_v2(self.data)
        stored = int.from_bytes(self.data[LOG_OVERHEAD : LOG_OVERHEAD + 4], "big")
        return stored == checksum_legacy(self.data)


def entries(payload: bytes, does: Behaviour) -> Iterator[Entry]:
    """The complete entries, one after the other; what follows the last is left out (FRM-12)."""
    at = 0
    while (end := _next_end(payload, at, does)) is not None:
        yield Entry(payload[at:end])
        at = end


def _next_end(payload: bytes, at: int, does: Behaviour) -> int | None:
    if not does.checks_partial and _is_partial(payload, at):
        return None
    try:
        return next_entry(payload, at)
    except RecordFormatError as error:
        raise Thrown(FRAMING[error.rule], error.rule) from None


def _is_partial(payload: bytes, at: int) -> bool:
    """Whether an entry of a size that can be ends beyond the payload: before 2.0 its magic is not looked at."""
    if len(payload) - at < LOG_OVERHEAD:
        return True
    size: int = ENTRY.struct.unpack_from(payload, at)[1]
    return not is_too_small(size) and at + LOG_OVERHEAD + size > len(payload)


def message_entries(payload: bytes) -> Iterator[Entry]:
    """As `entries`, by the brokers before v2: no magic is refused."""
    at = 0
    while len(payload) - at >= LOG_OVERHEAD:
        size: int = ENTRY.struct.unpack_from(payload, at)[1]
        if size < RECORD_OVERHEAD_V0:
            raise Thrown("CorruptRecordException", "FRM-05")
        end = at + LOG_OVERHEAD + size
        if end > len(payload):
            return
        yield Entry(payload[at:end])
        at = end


def file_entries(data: bytes) -> Iterator[Entry]:
    """Whole entries of a segment file, of any magic (SEG-05): FileLogInputStream#nextBatch.

    They end where 17 bytes or fewer are left, or one is cut off (SEG-03).

    Raises:
        Thrown: a size that cannot be (SEG-04).
    """
    at = 0
    while at < len(data) - HEADER_SIZE_UP_TO_MAGIC:
        size: int = ENTRY.struct.unpack_from(data, at)[1]
        if is_too_small(size):
            raise Thrown("CorruptRecordException", "SEG-04")
        end = at + LOG_OVERHEAD + size
        if end > len(data):
            return
        yield Entry(data[at:end])
        at = end


def last_offset_of(entry: Entry) -> int:
    """OFF-11 without the 1; a message's offset is its last (NST-26)."""
    base: int = ENTRY.struct.unpack_from(entry.data)[0]
    return wrap_int64(base + entry.number("last_offset_delta")) if entry.is_v2 else base
