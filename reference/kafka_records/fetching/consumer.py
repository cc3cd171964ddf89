"""Reading of fetched bytes by a consumer: CompletedFetch of the Java client."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from kafka_records.attributes import COMPRESSION_CODEC_MASK, CONTROL_FLAG_MASK, TRANSACTIONAL_FLAG_MASK
from kafka_records.batch import BatchHeader, decode_batch, decode_header
from kafka_records.budget import budget
from kafka_records.constants import MAGIC_VALUE_V2, NO_PRODUCER_ID
from kafka_records.control import decode_key
from kafka_records.errors import RecordFormatError
from kafka_records.layout import ATTRIBUTES_OFFSET_LEGACY, BATCH_V2, ENTRY, MAGIC_OFFSET
from kafka_records.log import split_entries
from kafka_records.message_set import decode_entry
from kafka_records.model import DEFAULT, Batch, Record
from kafka_records.primitives import wrap_int64

# Producer id and first offset of a transaction that was aborted, as a broker lists them.
Aborted = tuple[int, int]


class Consumed(NamedTuple):
    """The records that an application sees of a fetch, and the offset of the consumer's next fetch."""

    records: tuple[Record, ...]
    next_offset: int


def committed(fetched: bytes, aborted: Iterable[Aborted] = (), *, fetch_offset: int = 0) -> tuple[Record, ...]:
    """The records that a read_committed consumer sees.  Arguments and errors as of `consume`."""
    return consume(fetched, fetch_offset=fetch_offset, aborted=aborted).records


def consume(fetched: bytes, *, fetch_offset: int = 0, aborted: Iterable[Aborted] | None = None) -> Consumed:
    """The records that a consumer reads from the bytes of a fetch.

    Records below *fetch_offset* are dropped (CON-04, OFF-12), and control
    records are never seen (TXN-22, TXN-24).

    Args:
        fetched: entries end to end; the last may be cut off.
        fetch_offset: the offset in the fetch request.
        aborted: transactions to be left out, in any order; None is read_uncommitted.

    Raises:
        RecordFormatError: an entry that cannot be read, which the application hears of
            instead (CON-05); its `batches` are those before.
    """
    fetched = bytes(fetched)
    left_out = None if aborted is None else _LeftOut(aborted)
    records: list[Record] = []
    batches: list[Batch] = []
    position = next_offset = fetch_offset
    start = 0
    try:
        for start, end in split_entries(fetched):
            data = fetched[start:end]
            batch = _read(data, position, left_out)
            if batch is not None:
                batches.append(batch)
                seen, position = _seen(batch, position)
                records += seen
            next_offset = _next_offset(data)
    except RecordFormatError as error:
        error.batches = tuple(batches)
        raise error.inside("batch", moved=start) from None
    return Consumed(tuple(records), next_offset)


class _LeftOut:
    """The producers whose transaction has been aborted, at a place in the log (TXN-23)."""

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._coming = sorted(aborted, key=itemgetter(1))
        self._producers: set[int] = set()

    def holds(self, data: bytes) -> bool:
        """Whether the batch *data*, which is the next, is part of an aborted transaction."""
        header = decode_header(data)
        while self._coming and self._coming[0][1] <= wrap_int64(header.base_offset + header.last_offset_delta):
            self._producers.add(self._coming.pop(0)[0])
        if _has_abort_marker(header, data):
            self._producers.discard(header.producer_id)
            return False
        return bool(header.attributes & TRANSACTIONAL_FLAG_MASK) and header.producer_id in self._producers


def _has_abort_marker(header: BatchHeader, data: bytes) -> bool:
    """#containsAbortMarker: the type of the first record of a control batch, if there is one (TXN-17, TXN-18)."""
    if not header.attributes & CONTROL_FLAG_MASK or not header.record_count:
        return False
    return decode_key(_decoded(data).records[0].key)[1] == "abort"


def _read(data: bytes, position: int, left_out: _LeftOut | None) -> Batch | None:
    """The batch, unless none of it is looked at."""
    if _is_v2(data):
        if left_out is not None and decode_header(data).producer_id > NO_PRODUCER_ID and left_out.holds(data):
            return None
    elif not data[ATTRIBUTES_OFFSET_LEGACY] & COMPRESSION_CODEC_MASK and _offset(data) < position:
        return None  # CON-03
    return _decoded(data)


def _decoded(data: bytes) -> Batch:
    """One entry, with an error that begins there."""
    read = decode_batch if _is_v2(data) else decode_entry
    return read(data, budget(data, DEFAULT))[0]


def _seen(batch: Batch, position: int) -> tuple[list[Record], int]:
    """The records that an application sees of a batch, and the next position; unseen records advance it, too.

    Gaps between offsets are nothing special (OFF-13).
    """
    found = []
    for record in batch.records:
        if record.offset >= position:
            position = record.offset + 1
            if not batch.control:
                found.append(record)
    return found, position


def _next_offset(data: bytes) -> int:
    """The offset after an entry, even if it is empty (CON-02, OFF-11)."""
    delta = BatchHeader._make(BATCH_V2.struct.unpack_from(data)).last_offset_delta if _is_v2(data) else 0
    return wrap_int64(_offset(data) + delta + 1)


def _is_v2(data: bytes) -> bool:
    return data[MAGIC_OFFSET] == MAGIC_VALUE_V2


def _offset(data: bytes) -> int:
    return int(ENTRY.struct.unpack_from(data)[0])
