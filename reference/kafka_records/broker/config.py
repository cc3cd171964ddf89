"""The settings of a topic that concern an append, under Kafka's own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

from kafka_records.broker.releases import Behaviour, minor_version
from kafka_records.constants import (
    COMPRESSIONS,
    INT32_MAX,
    INT64_MAX,
    MAGIC_VALUE_V0,
    MAGIC_VALUE_V1,
    MAGIC_VALUE_V2,
    Compression,
)
from kafka_records.errors import RecordFormatError

MessageTimestampType = Literal["CreateTime", "LogAppendTime"]
TIMESTAMP_TYPES: Final[tuple[MessageTimestampType, ...]] = get_args(MessageTimestampType)
# BrokerCompressionType: the codecs, "uncompressed" for none (RWR-04), "producer" for the batch's own.
PRODUCER: Final = "producer"
UNCOMPRESSED: Final = "uncompressed"
COMPRESSION_TYPES: Final = (PRODUCER, UNCOMPRESSED, *COMPRESSIONS[1:])
DEFAULT_SEGMENT_BYTES: Final = 1024**3
# LogConfig#DEFAULT_MAX_DECOMPRESSED_MESSAGE_BYTES: the largest array that Java has.
LARGEST_ARRAY: Final = INT32_MAX - 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """A topic's settings; None stands for the release's own default.

    Attributes:
        timestamp_type: message.timestamp.type.
        before_max: message.timestamp.before.max.ms.
        after_max: message.timestamp.after.max.ms.
        difference_max: message.timestamp.difference.max.ms.
        compression: compression.type.
        max_message_bytes: max.message.bytes.
        max_decompressed_message_bytes: max.decompressed.message.bytes.
        segment_bytes: segment.bytes.
        compacts: whether cleanup.policy names `compact`.
        message_format: the magic of message.format.version.
    """

    timestamp_type: MessageTimestampType = "CreateTime"
    before_max: int | None = None
    after_max: int | None = None
    difference_max: int | None = None
    compression: str = PRODUCER
    max_message_bytes: int | None = None
    max_decompressed_message_bytes: int = LARGEST_ARRAY
    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    compacts: bool = False
    message_format: int | None = None

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> TopicConfig:
        """The configuration that *settings* describe; names that say nothing about an append are left alone.

        Raises:
            RecordFormatError: kind `malformed`, for a value that Kafka does not take.
        """
        # ConfigDef#parseType trims.
        settings = {name: value.strip() for name, value in settings.items()}
        version = settings.get("message.format.version")
        return cls(
            timestamp_type=cast(
                "MessageTimestampType", _choice(settings, "message.timestamp.type", TIMESTAMP_TYPES, "CreateTime")
            ),
            before_max=_number(settings, "message.timestamp.before.max.ms"),
            after_max=_number(settings, "message.timestamp.after.max.ms"),
            difference_max=_number(settings, "message.timestamp.difference.max.ms"),
            compression=_choice(settings, "compression.type", COMPRESSION_TYPES, PRODUCER),
            max_message_bytes=_number(settings, "max.message.bytes"),
            max_decompressed_message_bytes=_or(_number(settings, "max.decompressed.message.bytes"), LARGEST_ARRAY),
            segment_bytes=_or(_number(settings, "segment.bytes"), DEFAULT_SEGMENT_BYTES),
            compacts="compact" in map(str.strip, settings.get("cleanup.policy", "delete").split(",")),
            message_format=None if version is None else _format(version),
        )

    def limits(self, does: Behaviour) -> tuple[int, int]:
        """Milliseconds that record timestamps may be before and after the broker's time (TIM-10, TIM-11, TIM-24)."""
        difference = _or(self.difference_max if does.difference_max else None, INT64_MAX)
        if not does.time_limits:
            return difference, difference
        before, after = _or(self.before_max, INT64_MAX), _or(self.after_max, does.after_max)
        # LogConfig#getMessageTimestampBeforeMaxMs: the old setting holds where the new one is at its default.
        return difference if before == INT64_MAX else before, difference if after == INT64_MAX else after

    def largest_batch(self, does: Behaviour) -> int:
        """max.message.bytes (SIZ-02)."""
        return _or(self.max_message_bytes, does.max_message_bytes)

    def largest_body(self, does: Behaviour) -> int | None:
        """max.decompressed.message.bytes, in releases that have it."""
        return self.max_decompressed_message_bytes if does.bounds_bodies else None

    def magic(self, does: Behaviour) -> int:
        """The format that is stored (CNV-01)."""
        requested = self.message_format if does.honours_message_format else None
        return min(_or(requested, does.newest_magic), does.newest_magic)

    def target(self, source: Compression) -> Compression:
        """The codec of the stored batches, where the produced ones came in *source* (RWR-03, RWR-11).

        Levels play no part (RWR-10).
        """
        if self.compression == PRODUCER:
            return source
        return "none" if self.compression == UNCOMPRESSED else cast("Compression", self.compression)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _number(settings: Mapping[str, str], name: str) -> int | None:
    if name not in settings:
        return None
    try:
        return int(settings[name])
    except ValueError:
        raise _refused(name, settings[name]) from None


def _choice(settings: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    value = settings.get(name, default)
    if value not in choices:
        raise _refused(name, value)
    return value


def _format(version: str) -> int:
    """The magic that message.format.version stands for: 0.10.0 brought v1, 0.11.0 v2."""
    minor = minor_version(version.split("-", maxsplit=1)[0])
    if not minor:
        raise _refused("message.format.version", version)
    if minor < (0, 10):
        return MAGIC_VALUE_V0
    return MAGIC_VALUE_V1 if minor < (0, 11) else MAGIC_VALUE_V2


def _refused(name: str, value: str) -> RecordFormatError:
    return RecordFormatError("malformed", f"{name} is {value!r}", path=f"config.{name}", rule="RWR-04")
