"""Records as LogValidator sees them: lazily, so that faults in fields that are not read are not found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kafka_records.attributes import COMPRESSION_CODEC_MASK, TIMESTAMP_TYPE_MASK
from kafka_records.broker.errors import Thrown
from kafka_records.broker.releases import Behaviour
from kafka_records.checksum import checksum_legacy
from kafka_records.constants import LOG_OVERHEAD, MAGIC_VALUE_V0, MAGIC_VALUE_V2, NO_TIMESTAMP
from kafka_records.model import Record

# LegacyRecord's own places, from the CRC on.
MAGIC_AT, ATTRIBUTES_AT, TIMESTAMP_AT = 4, 5, 6
KEY_SIZE_AT_V0, KEY_SIZE_AT_V1 = 6, 14


class View(Protocol):
    """The fields of a record that the validator reads."""

    @property
    def offset(self) -> int:
        """Absolute, or as the producer numbered it."""
        ...

    @property
    def timestamp(self) -> int:
        """Milliseconds."""
        ...

    @property
    def has_key(self) -> bool:
        """Whether the key is not null."""
        ...

    def has_magic(self, magic: int) -> bool:
        """Whether it is of the format *magic* (NST-15)."""
        ...

    def ensure_valid(self) -> None:
        """Raise `Thrown` if its own CRC is wrong (NST-17, REC-27)."""
        ...

    def contents(self) -> Record:
        """Key, value and headers as well."""
        ...

    def describe(self, does: Behaviour) -> None:
        """Be put into an error message, which may fail in its turn."""
        ...


@dataclass(frozen=True, slots=True)
class DefaultView:
    """A v2 record; *record* is None if only its outline was read."""

    offset: int
    timestamp: int
    has_key: bool
    record: Record | None

    def has_magic(self, magic: int) -> bool:
        """DefaultRecord#hasMagic."""
        return magic >= MAGIC_VALUE_V2

    def ensure_valid(self) -> None:
        """REC-27: there is no CRC of records."""

    def contents(self) -> Record:
        """All of it; the validator does not read this of an outline (OFF-05)."""
        assert self.record is not None
        return self.record

    def describe(self, does: Behaviour) -> None:
        """DefaultRecord#toString looks at nothing that may be broken."""


@dataclass(frozen=True, slots=True)
class LegacyView:
    """A v0 or v1 message, from its CRC on.

    Attributes:
        offset: as it is to be seen.
        data: from the CRC to the end of the sized message.
        append_time: the wrapper's timestamp, if the wrapper says LogAppendTime (NST-20).
    """

    offset: int
    data: bytes
    append_time: int | None = None

    @property
    def magic(self) -> int:
        """Signed."""
        magic = self.data[MAGIC_AT]
        return magic - 256 if magic > 127 else magic

    @property
    def attributes(self) -> int:
        """The attribute bits."""
        return self.data[ATTRIBUTES_AT]

    @property
    def timestamp(self) -> int:
        """-1 in v0; the wrapper's where that overrides (LEG-17, NST-20)."""
        if self.magic == MAGIC_VALUE_V0:
            return NO_TIMESTAMP
        return self._number(TIMESTAMP_AT, 8) if self.append_time is None else self.append_time

    @property
    def has_append_time(self) -> bool:
        """Bit 3 of its own attributes."""
        return self.magic != MAGIC_VALUE_V0 and bool(self.attributes & TIMESTAMP_TYPE_MASK)

    @property
    def has_key(self) -> bool:
        """LEG-08: every negative size is null."""
        return self._key_size >= 0

    @property
    def _key_size(self) -> int:
        return self._number(self._key_size_at, 4)

    @property
    def _key_size_at(self) -> int:
        return KEY_SIZE_AT_V0 if self.magic == MAGIC_VALUE_V0 else KEY_SIZE_AT_V1

    def has_magic(self, magic: int) -> bool:
        """Whether its own magic is that."""
        return self.magic == magic

    def is_compressed(self, does: Behaviour) -> bool:
        """Its codec bits; unknown ones are an error (LEG-16)."""
        codec = self.attributes & COMPRESSION_CODEC_MASK
        if codec >= does.codecs:
            raise Thrown("IllegalArgumentException", "LEG-16")
        return codec != 0

    def ensure_valid(self) -> None:
        """LEG-04."""
        if int.from_bytes(self.data[:4], "big") != checksum_legacy(bytes(LOG_OVERHEAD) + self.data):
            raise Thrown("CorruptRecordException", "NST-17")

    @property
    def value_size(self) -> int:
        """The value as stored, after the key."""
        return self._number(self._value_size_at, 4)

    @property
    def key_and_value_size(self) -> int:
        """Bytes of both (LegacyRecord#convertedSize)."""
        return max(0, self._key_size) + max(0, self.value_size)

    @property
    def _value_size_at(self) -> int:
        return self._key_size_at + 4 + max(0, self._key_size)

    @property
    def value(self) -> bytes | None:
        """LEG-09, LEG-11."""
        return self._sized(self._value_size_at)

    def contents(self) -> Record:
        """LEG-12: what follows the value is lost."""
        return Record(self.offset, self.timestamp, self._sized(self._key_size_at), self.value)

    def describe(self, does: Behaviour) -> None:
        """LegacyRecord#toString looks at everything (LEG-11, LEG-16)."""
        self.is_compressed(does)
        self.contents()

    def _sized(self, at: int) -> bytes | None:
        """Utils#sizeDelimited (LEG-11)."""
        size = self._number(at, 4)
        if size < 0:
            return None
        if at + 4 + size > len(self.data):
            raise Thrown("IllegalArgumentException", "LEG-11")
        return self.data[at + 4 : at + 4 + size]

    def _number(self, at: int, width: int) -> int:
        """LEG-03: 14 bytes are enough to get here."""
        if at + width > len(self.data):
            raise Thrown("IndexOutOfBoundsException", "LEG-03")
        return int.from_bytes(self.data[at : at + width], "big", signed=True)
