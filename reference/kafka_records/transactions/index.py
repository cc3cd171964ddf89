"""The index of aborted transactions, and the last stable offset (TransactionIndex, ProducerStateManager; KIP-98)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import Thrown
from kafka_records.control import TRANSACTION_MARKERS, decode_control, decode_key
from kafka_records.conversion.files import file_entries
from kafka_records.errors import RecordFormatError
from kafka_records.log import decode


class AbortedTransaction(NamedTuple):
    """One entry of the index (AbortedTxn).

    Attributes:
        producer_id: whose transaction it was.
        first_offset: of its first batch.
        last_offset: of its ABORT marker.
        last_stable_offset: once it was over: everything below has been decided then.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True)
class AbortIndex:
    """The aborted transactions of a log, in the order of their markers."""

    entries: tuple[AbortedTransaction, ...] = ()

    def overlapping(self, fetch_offset: int, upper_bound: int) -> tuple[tuple[int, int], ...]:
        """Producer id and first offset of those that reach into *fetch_offset* to *upper_bound* (TXN-23).

        TransactionIndex#collectAbortedTxns, which stops where all that follow must be later.
        """
        found = []
        for each in self.entries:
            if each.last_offset >= fetch_offset and each.first_offset < upper_bound:
                found.append((each.producer_id, each.first_offset))
            if each.last_stable_offset >= upper_bound:
                break
        return tuple(found)


class _Change(NamedTuple):
    """The effect of a batch on a transaction: opens it, or ends it."""

    producer_id: int
    offset: int
    marker: str | None


def abort_index(stored: bytes) -> AbortIndex:
    """The index that a broker keeps, or rebuilds, for the log *stored*.

    Raises:
        RecordFormatError: a marker cannot be read (SEG-13).
    """
    return AbortIndex(tuple(_replayed(stored)[0]))


def last_stable_offset(stored: bytes, high_watermark: int) -> int:
    """The offset that read_committed ends at: the first of an open transaction, or *high_watermark*.

    Raises:
        RecordFormatError: a marker cannot be read.
    """
    return min((*_replayed(stored)[1].values(), high_watermark))


def _replayed(stored: bytes) -> tuple[list[AbortedTransaction], dict[int, int]]:
    """The aborted transactions, and the first offsets of the open ones by producer id."""
    aborted: list[AbortedTransaction] = []
    started: dict[int, int] = {}
    for producer_id, offset, marker in _changes(stored):
        if marker is None:
            started.setdefault(producer_id, offset)
        elif producer_id in started:
            # A marker without data is not in the index (ProducerAppendInfo#appendEndTxnMarker).
            first = started.pop(producer_id)
            if marker == "abort":
                aborted.append(
                    AbortedTransaction(producer_id, first, offset, min(started.values(), default=offset + 1))
                )
    return aborted, started


def _changes(stored: bytes) -> Iterator[_Change]:
    for batch in _entries(stored):
        if not batch.has_producer_id:
            continue
        if batch.is_control:
            if batch.number("record_count"):  # TXN-18
                yield _Change(batch.producer_id, batch.number("base_offset"), transaction_end(batch))
        elif batch.is_transactional:
            yield _Change(batch.producer_id, batch.number("base_offset"), None)


def _entries(stored: bytes) -> Iterator[Entry]:
    try:
        yield from file_entries(stored)
    except Thrown as thrown:
        raise RecordFormatError("malformed", "a size that cannot be", path="log", rule=thrown.rule) from None


def transaction_end(batch: Entry) -> str:
    """The type of the first record of a control batch: "commit" or "abort" (TXN-17, TXN-20)."""
    (decoded,) = decode(batch.data)
    first = decoded.records[0]
    _, type_ = decode_key(first.key)
    if type_ not in TRANSACTION_MARKERS:
        message = f"{type_} does not end a transaction"
        raise RecordFormatError("malformed", message, path="control.type", rule="TXN-20")
    decode_control(first)  # TXN-13: its value has to be there, though only the leader looks at it
    return str(type_)
