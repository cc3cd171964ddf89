"""The entries of a log as the cleaner reads them: it checks no CRC (CRC-06), and records only by decoding them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafka_records.attributes import DELETE_HORIZON_FLAG_MASK
from kafka_records.broker.batches import header_of, records_of
from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import Thrown
from kafka_records.broker.message_sets import messages_of
from kafka_records.broker.releases import Behaviour
from kafka_records.broker.streams import open_stream
from kafka_records.constants import MAGIC_VALUE_V2, RECORD_BATCH_OVERHEAD
from kafka_records.control import TRANSACTION_MARKERS, decode_key
from kafka_records.errors import RecordFormatError
from kafka_records.model import Record


class Read(NamedTuple):
    """A record, and whether it is of its batch's own format (CLN-22)."""

    record: Record
    fits: bool


def delete_horizon(entry: Entry) -> int | None:
    """TIM-18: the base timestamp, if bit 6 is set."""
    if not entry.is_v2 or not entry.attributes & DELETE_HORIZON_FLAG_MASK:
        return None
    return entry.number("base_timestamp")


def records_in(entry: Entry, does: Behaviour, largest: int | None) -> Iterator[Read]:
    """`streamingIterator`: the records of a batch, or the messages of an entry.

    Raises:
        Thrown: they cannot be decoded.
    """
    if not entry.is_v2:
        for message in messages_of(entry, does):
            yield Read(message.contents(), message.has_magic(entry.magic))
        return
    count = entry.number("record_count")
    if count < 0:
        raise Thrown("InvalidRecordException", "HDR-15")
    if count == 0:
        _open_nothing(entry, does)
        return
    for record in records_of(entry, does, largest, outline=False):
        yield Read(record.contents(), fits=True)


def _open_nothing(entry: Entry, does: Behaviour) -> None:
    """A stream is opened even where no record will be read from it, and its header has to be right (CMP-06, HDR-17)."""
    compression = entry.compression(does)
    if compression != "none":
        open_stream(compression, entry.data[RECORD_BATCH_OVERHEAD:], MAGIC_VALUE_V2, does)


def marker_of(entry: Entry, does: Behaviour) -> str | None:
    """The type of a control batch's first record (TXN-17): "abort", "commit", "other"; None without records (TXN-18).

    Raises:
        Thrown: its key is none (TXN-09, TXN-10, TXN-19).
    """
    if header_of(entry).record_count == 0:
        return None
    first, *_ = records_in(entry, does, None)
    try:
        _, type_ = decode_key(first.record.key)
    except RecordFormatError as error:
        missing = error.rule == "TXN-19"
        raise Thrown("NullPointerException" if missing else "InvalidRecordException", error.rule) from None
    return str(type_) if type_ in TRANSACTION_MARKERS else "other"
