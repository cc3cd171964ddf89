"""Bytes of a response in place of the stored ones: LazyDownConversionRecords and its Send (KIP-283).

How many bytes follow is said before they are converted.  The size is that of the
stored bytes, or of the first batch converted, if that is larger; so what is
converted later is cut off, or the room that it leaves is filled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import Thrown
from kafka_records.broker.releases import Behaviour
from kafka_records.constants import LOG_OVERHEAD, RECORD_BATCH_OVERHEAD
from kafka_records.conversion.down import down_convert
from kafka_records.layout import ENTRY

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


def sent(stored: bytes, batches: Sequence[Entry], to_magic: int, first_offset: int, does: Behaviour) -> bytes:
    """The bytes that a broker sends for *stored*, whose whole entries are *batches*.

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
