"""Conversion by brokers: stored bytes for an older fetch, or produced ones for a newer log (`convert`).

Each release makes old batches of new ones in its own way: all in one, batch by
batch, or as they are sent.  RecordsUtil#downConvert copies a batch that is old
enough; every other is read and rewritten (CNV-18).  Nothing checks a CRC on the way.

Since KIP-283 (LazyDownConversionRecords and its Send) a broker says how many bytes
follow before it converts them.  The size is that of the stored bytes, or of the
first batch converted, if that is larger; so what is converted later is cut off,
or the room that it leaves is filled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from kafka_records.broker import LogState, TopicConfig, append
from kafka_records.broker.batches import header_of, records_of
from kafka_records.broker.entries import Entry, file_entries
from kafka_records.broker.errors import JavaName, Thrown
from kafka_records.broker.message_sets import message_of, messages_of
from kafka_records.broker.releases import Behaviour, behaviour
from kafka_records.broker.views import View
from kafka_records.constants import (
    LOG_OVERHEAD,
    MAGIC_VALUE_V0,
    MAGIC_VALUE_V2,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    TimestampType,
)
from kafka_records.errors import Kind, RecordFormatError
from kafka_records.layout import ENTRY
from kafka_records.log import encode
from kafka_records.model import Batch, Record

# A batch, and the records that are left of it; None where the batch is copied.
Chosen = tuple[Entry, tuple[Record, ...] | None]


def down_convert(batches: Iterable[Entry], to_magic: int, first_offset: int, does: Behaviour) -> bytes:
    """RecordsUtil#downConvert: *batches* in the format *to_magic*, 0 or 1; empty if nothing is left of them.

    Raises:
        Thrown: a batch cannot be converted, or not be read.
    """
    return _write(_choose(batches, to_magic, first_offset, does), to_magic, does)


def _choose(batches: Iterable[Entry], to_magic: int, first_offset: int, does: Behaviour) -> tuple[Chosen, ...]:
    """The converted *batches*.  All are read before any is written, so an error in the last leaves nothing at all.

    Raises:
        Thrown: a batch cannot be converted, or not be read.
    """
    return tuple(_chosen(batches, to_magic, first_offset, does))


def _write(chosen: Iterable[Chosen], to_magic: int, does: Behaviour) -> bytes:
    """The bytes of the chosen records.  Raises `Thrown` if they cannot be written."""
    return b"".join(
        batch.data if records is None else _written(batch, records, to_magic, does) for batch, records in chosen
    )


def _chosen(batches: Iterable[Entry], to_magic: int, first_offset: int, does: Behaviour) -> Iterator[Chosen]:
    for batch in batches:
        if batch.is_control:
            continue  # CNV-08
        if batch.compression(does) == "zstd":
            raise Thrown("UnsupportedCompressionTypeException", "CNV-14")
        if batch.magic <= to_magic:
            yield batch, None  # CNV-18
        elif records := _records(batch, first_offset, does):
            yield batch, records


def _records(batch: Entry, first_offset: int, does: Behaviour) -> tuple[Record, ...]:
    """CNV-10: "some versions of librdkafka rely on" records below the fetch offset being gone."""
    whole = batch.compression(does) != "none"
    return tuple(view.contents() for view in views_of(batch, does) if whole or view.offset >= first_offset)


def views_of(batch: Entry, does: Behaviour) -> Iterable[View]:
    """The records of a stored batch, whatever its magic (DefaultRecordBatch#iterator)."""
    if not batch.is_v2:
        return messages_of(batch, does)
    count = batch.number("record_count")
    if count < 0:
        raise Thrown("InvalidRecordException", "HDR-15")
    if count == 0:
        return ()  # HDR-16
    return records_of(batch, does, None, outline=False)


def _written(batch: Entry, records: Sequence[Record], to_magic: int, does: Behaviour) -> bytes:
    """#convertRecordBatch: no headers, no producer, no transaction (CNV-08), and in v0 no times (CNV-09)."""
    if any(record.headers for record in records) and not does.drops_headers:
        raise Thrown("IllegalArgumentException", "LEG-22")
    appended = batch.has_append_time
    converted = Batch(
        magic=to_magic,
        base_offset=records[0].offset,  # CNV-11
        last_offset=records[-1].offset,
        compression=batch.compression(does),
        timestamp_type=_timestamp_type(to_magic, appended=appended),
        max_timestamp=_timestamp(batch) if appended else max(NO_TIMESTAMP, *(each.timestamp for each in records)),
        records=tuple(record._replace(headers=()) for record in records),
    )
    try:
        return encode(converted)
    except RecordFormatError as error:
        # OFF-07, TIM-04: MemoryRecordsBuilder refuses what an append has never looked at.
        raise Thrown("IllegalArgumentException", error.rule) from None


def _timestamp_type(to_magic: int, *, appended: bool) -> TimestampType:
    if to_magic == MAGIC_VALUE_V0:
        return "none"
    return "append" if appended else "create"


def _timestamp(batch: Entry) -> int:
    """The one timestamp of a batch with LogAppendTime (TIM-02, NST-20)."""
    return header_of(batch).max_timestamp if batch.magic >= MAGIC_VALUE_V2 else message_of(batch).timestamp


# LazyDownConversionRecordsSend#MAX_READ_SIZE: stored bytes that are converted at a time.
MAX_READ_SIZE = 128 * 1024
# #MIN_OVERFLOW_MESSAGE_LENGTH: the size of the response where nothing is left (CNV-13).
MIN_OVERFLOW = LOG_OVERHEAD
# An offset that no batch has.
NOWHERE = -1


class Closed(Exception):
    """The broker closes the connection: it has said how much would follow, and cannot go on.

    Attributes:
        thrown: what its network thread ran into.
    """

    def __init__(self, thrown: Thrown) -> None:
        super().__init__(str(thrown))
        self.thrown = thrown


def _sent(stored: bytes, batches: Sequence[Entry], to_magic: int, first_offset: int, does: Behaviour) -> bytes:
    """LazyDownConversionRecordsSend: the bytes that a broker sends for *stored*, whose whole entries are *batches*.

    Raises:
        Thrown: the first batch cannot be converted.
        Closed: a later one cannot.
    """
    first = next(_converted(batches, 0, to_magic, first_offset, does), None)
    if first is None:
        return _overflow(MIN_OVERFLOW)[:MIN_OVERFLOW] if batches else b""
    size = max(len(stored), len(first))
    # Kafka skips one batch for the one that it has converted.  Where control batches came
    # first that is another, and the one converted is converted and sent twice; we follow.
    rest = _converted(batches[1:], MAX_READ_SIZE, to_magic, first_offset, does)
    return _filled(first, rest, size)


def _converted(
    batches: Sequence[Entry], most: int, to_magic: int, first_offset: int, does: Behaviour
) -> Iterator[bytes]:
    """LazyDownConversionRecords#Iterator: chunk by chunk; those of which nothing is left are passed over."""
    for chunk in _chunks(batches, most):
        if data := down_convert(chunk, to_magic, first_offset, does):
            yield data


def _chunks(batches: Sequence[Entry], most: int) -> Iterator[list[Entry]]:
    """Runs of batches of *most* bytes together, or of one batch."""
    chunk: list[Entry] = []
    size = 0
    for batch in batches:
        if chunk and size + len(batch.data) > most:
            yield chunk
            chunk, size = [], 0
        chunk.append(batch)
        size += len(batch.data)
    if chunk:
        yield chunk


def _filled(first: bytes, rest: Iterator[bytes], size: int) -> bytes:
    """LazyDownConversionRecordsSend#writeTo: exactly *size* bytes."""
    gathered = first
    while len(gathered) < size:
        try:
            chunk = next(rest, None)
        except Thrown as thrown:
            return gathered + _end(thrown, size - len(gathered))
        gathered += _overflow(size - len(gathered)) if chunk is None else chunk
    return gathered[:size]


def _end(thrown: Thrown, remaining: int) -> bytes:
    """CNV-14: the client reads what has arrived, and gets the zstd error with its next fetch.

    The iterator cannot continue after an error, so one overflow batch has
    to be enough.
    """
    if thrown.name != "UnsupportedCompressionTypeException" or remaining > len(overflow := _overflow(remaining)):
        raise Closed(thrown)
    return overflow[:remaining]


def _overflow(remaining: int) -> bytes:
    """#buildOverflowBatch: an entry that ends beyond the response, so clients take it for a partial one (CNV-12)."""
    size = max(MIN_OVERFLOW, min(remaining + 1, MAX_READ_SIZE))
    return ENTRY.struct.pack(NOWHERE, max(remaining + 1, RECORD_BATCH_OVERHEAD)).ljust(size, b"\0")


def served(stored: bytes, to_magic: int, first_offset: int, does: Behaviour) -> bytes:
    """The record bytes of the response to a fetch that knows no more than *to_magic*.

    Raises:
        Thrown: a batch cannot be converted, and the fetch is answered with an error.
        Closed: part of the response has been sent already.
    """
    batches = tuple(file_entries(stored))
    if _is_served_as_stored(batches, to_magic, does):
        return stored
    match does.converts_by:
        case "set":
            return _as_one(batches, does)
        case "batch":
            return _by_batch(stored, batches, to_magic, first_offset, does)
    return _sent(stored, batches, to_magic, first_offset, does)


def _is_served_as_stored(batches: Sequence[Entry], to_magic: int, does: Behaviour) -> bool:
    """#hasCompatibleMagic; and where there is no whole batch, old clients shall see that one is too large for them."""
    return not does.converts_always and all(batch.magic <= to_magic for batch in batches)


def _by_batch(stored: bytes, batches: Sequence[Entry], to_magic: int, first_offset: int, does: Behaviour) -> bytes:
    """Before 2.0, FileRecords#downConvert.  1.1 took nothing to convert for a batch that is too large."""
    chosen = _choose(batches, to_magic, first_offset, does)
    if does.keeps_unconverted and all(records is None for _, records in chosen):
        return stored
    return _write(chosen, to_magic, does)


def _as_one(batches: Sequence[Entry], does: Behaviour) -> bytes:
    """0.10, AbstractRecords#toMessageFormat: all messages in the codec of the first, so perhaps in one wrapper."""
    records = tuple(view.contents()._replace(timestamp=-1) for batch in batches for view in messages_of(batch, does))
    converted = Batch(
        magic=MAGIC_VALUE_V0,
        base_offset=records[0].offset,
        last_offset=records[-1].offset,
        compression=batches[0].compression(does),
        timestamp_type="none",
        records=records,
    )
    try:
        return encode(converted)
    except RecordFormatError as error:
        raise Thrown("IllegalArgumentException", error.rule) from None


KINDS: Final[Mapping[JavaName, Kind]] = {
    "UnsupportedCompressionTypeException": "unsupported_compression",
    "CorruptRecordException": "corrupt",
    "KafkaException": "decompression",
}
# The last version of the produce request with messages in it.
PRODUCE_OF_MESSAGES: Final = 2


def convert(data: bytes, to_magic: int, *, first_offset: int = 0, release: str) -> bytes:
    """*data* as a broker of *release* sends it to clients that know formats up to *to_magic*.

    Downwards that is the answer to a fetch (CNV-06 to CNV-14), padding and all;
    upwards, what an append makes of messages (CNV-01 to CNV-05), for nothing is
    ever converted upwards later (CNV-06).

    Args:
        data: entries end to end, of any magic.
        to_magic: 0, 1 or 2.
        first_offset: downwards, where the fetch begins; upwards, what the first message gets.
        release: of Kafka, like "3.9.2".

    Raises:
        RecordFormatError: the broker refuses, or closes the connection.
    """
    does = behaviour(release)
    if to_magic >= MAGIC_VALUE_V2:
        return _up(bytes(data), first_offset, release)
    if does.converts_by == "nothing":
        raise _refused(f"{release} converts nothing", "unsupported_magic", "PRD-09")
    return _down(bytes(data), to_magic, first_offset, does)


def _down(data: bytes, to_magic: int, first_offset: int, does: Behaviour) -> bytes:
    try:
        return served(data, to_magic, first_offset, does)
    except Thrown as thrown:
        raise _refused(thrown.name, KINDS.get(thrown.name, "malformed"), thrown.rule) from None
    except Closed as closed:
        message = f"the connection is closed: {closed.thrown.name}"
        raise _refused(message, KINDS.get(closed.thrown.name, "malformed"), closed.thrown.rule) from None


def _up(data: bytes, first_offset: int, release: str) -> bytes:
    log = LogState(log_end_offset=first_offset)
    result = append(log, data, TopicConfig(), release=release, api_version=PRODUCE_OF_MESSAGES, now_ms=0)
    if result.error_code:
        raise _refused(f"error {result.error_code}", "malformed", result.rule)
    return result.stored


def _refused(message: str, kind: Kind, rule: str) -> RecordFormatError:
    return RecordFormatError(kind, message, rule=rule)
