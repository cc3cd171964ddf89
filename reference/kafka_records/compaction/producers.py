"""Which batch is the last of its producer, and has to stay for that (CLN-14)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_records.broker.batches import header_of
from kafka_records.broker.entries import Entry
from kafka_records.broker.producer_state import last_sequence_of
from kafka_records.broker.state import UNKNOWN_PRODUCER, BatchMetadata, ProducerState
from kafka_records.compaction.releases import Cleaning
from kafka_records.constants import NO_SEQUENCE
from kafka_records.conversion.files import last_offset_of


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
