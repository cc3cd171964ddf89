"""Producers and transactions as the cleaner passes them.

CleanedTransactionMetadata.  Whether data was aborted is known before its marker
comes, from the index of aborted transactions (CLN-12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafka_records.broker.batches import header_of
from kafka_records.broker.entries import Entry, last_offset_of
from kafka_records.broker.producer_state import last_sequence_of
from kafka_records.broker.state import UNKNOWN_PRODUCER, BatchMetadata, ProducerState
from kafka_records.compaction.entries import marker_of
from kafka_records.compaction.releases import Cleaning
from kafka_records.constants import NO_SEQUENCE
from kafka_records.transactions import AbortedTransaction


def producers_of(entries: Iterable[Entry]) -> Mapping[int, ProducerState]:
    """State of the producers that wrote a log, as a broker rebuilds it (SEG-14)."""
    found: dict[int, ProducerState] = {}
    for entry in entries:
        if entry.has_producer_id:
            state = found.get(entry.producer_id, UNKNOWN_PRODUCER)
            found[entry.producer_id] = _marked(entry, state) if entry.is_control else _appended(entry, state)
    return found


def _appended(entry: Entry, state: ProducerState) -> ProducerState:
    header = header_of(entry)
    batch = BatchMetadata(_last_sequence(entry), last_offset_of(entry), header.last_offset_delta, header.max_timestamp)
    return state.with_batch(header.producer_epoch, batch)


def _marked(entry: Entry, state: ProducerState) -> ProducerState:
    """ProducerAppendInfo#appendEndTxnMarker: a marker of another epoch forgets the batches (KIP-890).

    One without a record is there because a broker that was running still knew its epoch (TXN-18).
    """
    epoch = header_of(entry).producer_epoch
    return state if epoch == state.epoch else ProducerState(epoch=epoch)


def _last_sequence(entry: Entry) -> int:
    """DefaultRecordBatch#lastSequence."""
    header = header_of(entry)
    return NO_SEQUENCE if header.base_sequence == NO_SEQUENCE else last_sequence_of(header)


def is_last_of_producer(entry: Entry, producers: Mapping[int, ProducerState], rules: Cleaning) -> bool:
    """CLN-14: the batch with the last sequence; without one, a marker of the last epoch."""
    state = producers.get(entry.producer_id)
    if not entry.has_producer_id or state is None:
        return False
    if not rules.last_by_offset:
        # Sequences come around again (KAFKA-8335).
        return _last_sequence(entry) == state.last_sequence
    if state.batches:
        return last_offset_of(entry) == state.batches[-1].last_offset
    return entry.is_control and entry.number("producer_epoch") == state.epoch


class Transactions:
    """Those that are open where the cleaner has got to; it reads each entry once, in order."""

    def __init__(self, aborted: Sequence[AbortedTransaction], rules: Cleaning) -> None:
        self._rules = rules
        self._coming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._committed: set[int] = set()
        # By producer: whether a batch of the aborted transaction has been seen.
        self._aborted: dict[int, bool] = {}

    def can_discard(self, entry: Entry) -> bool:
        """Whether *entry* is aborted data (CLN-12), or a marker of which no data is left (CLN-11, CLN-13)."""
        offset = last_offset_of(entry)
        while self._coming and self._coming[-1].first_offset <= offset:
            self._aborted.setdefault(self._coming.pop().producer_id, False)
        return self._on_control(entry) if entry.is_control else self._on_batch(entry)

    def _on_control(self, entry: Entry) -> bool:
        match marker_of(entry, self._rules.does):
            case "abort":
                return not self._aborted.pop(entry.producer_id, False)
            case "commit":
                seen = entry.producer_id in self._committed
                self._committed.discard(entry.producer_id)
                return not seen
            case None:
                return True  # TXN-18: it was cleaned before
            case _:
                return False

    def _on_batch(self, entry: Entry) -> bool:
        if not entry.is_transactional:
            return False
        if entry.producer_id in self._aborted:
            self._aborted[entry.producer_id] = True
            return True
        self._committed.add(entry.producer_id)
        return False
