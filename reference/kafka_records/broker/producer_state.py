"""Epochs, sequences, duplicates and open transactions: ProducerStateManager and ProducerAppendInfo."""

from __future__ import annotations

from dataclasses import replace

from kafka_records.batch import BatchHeader
from kafka_records.broker.batches import header_of
from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import Thrown
from kafka_records.broker.releases import Behaviour
from kafka_records.broker.state import UNKNOWN_PRODUCER, BatchMetadata, LogState, ProducerState, Verification
from kafka_records.constants import INT32_MAX, NO_PRODUCER_EPOCH
from kafka_records.primitives import increment_sequence, wrap_int64


def last_sequence_of(header: BatchHeader) -> int:
    """PID-11, PID-17: counted by offsets, not by records; there is a first one, or the batch was refused (PID-03)."""
    return increment_sequence(header.base_sequence, header.last_offset_delta)


def find_duplicate(batch: Entry, log: LogState) -> BatchMetadata | None:
    """The batch that this one repeats, if its producer is known to have written it (PID-08, PID-09)."""
    if not batch.has_producer_id:
        return None
    header = header_of(batch)
    state = log.producers.get(header.producer_id, UNKNOWN_PRODUCER)
    return state.find_duplicate(header.producer_epoch, header.base_sequence, last_sequence_of(header))


def is_verified(batch: Entry, log: LogState, does: Behaviour) -> bool:
    """Whether a transaction of this producer is known to be open here (#hasOngoingTransaction)."""
    state = log.producers.get(batch.producer_id, UNKNOWN_PRODUCER)
    same_epoch = does.adds_partitions is None or state.epoch == batch.number("producer_epoch")
    return state.transaction_first_offset is not None and same_epoch


def verified(batch: Entry, log: LogState, does: Behaviour, api_version: int) -> LogState:
    """The log with a pending verification of *batch* by the coordinator (#maybeCreateVerificationGuard)."""
    if is_verified(batch, log, does):
        return log
    epoch, sequence = batch.number("producer_epoch"), batch.number("base_sequence")
    first = Verification(epoch=epoch, lowest_sequence=sequence, bumps_epoch=_adds_partitions(does, api_version))
    return log.with_verification(batch.producer_id, log.verifying.get(batch.producer_id, first).seen(epoch, sequence))


def check_fencing(batch: Entry, log: LogState, does: Behaviour) -> None:
    """PID-14, before the coordinator verifies *batch* and before its records are read.

    Raises:
        Thrown: the log has a later epoch of its producer.
    """
    state = log.producers.get(batch.producer_id, UNKNOWN_PRODUCER)
    if does.fences_early and not is_verified(batch, log, does) and batch.number("producer_epoch") < state.epoch:
        raise Thrown("InvalidProducerEpochException", "PID-14")


def _adds_partitions(does: Behaviour, api_version: int) -> bool:
    return does.adds_partitions is not None and api_version >= does.adds_partitions


def check_transaction(batch: Entry, log: LogState, does: Behaviour, api_version: int) -> None:
    """Check the transaction coordinator's state before the append (TXN-05, KIP-890).

    Raises:
        Thrown: the partition is not part of the producer's open transaction.
    """
    if is_verified(batch, log, does):
        return
    if log.producing.producer == "unknown":
        raise Thrown("InvalidPidMappingException", "TXN-05")
    if log.producing.producer == "other epoch":
        raise Thrown("InvalidProducerEpochException", "TXN-05")
    if not log.producing.in_transaction and not _adds_partitions(does, api_version):
        generic = api_version > 10
        raise Thrown("TransactionAbortableException" if generic else "InvalidTxnStateException", "TXN-05")


def updated(batch: Entry, log: LogState, does: Behaviour) -> LogState:
    """The log once *batch*, with its offsets assigned, has been appended.

    Raises:
        Thrown: epoch or sequence do not fit.
    """
    if not batch.has_producer_id:
        return log  # PID-02: whatever its epoch and sequence
    header = header_of(batch)
    state = log.producers.get(header.producer_id, UNKNOWN_PRODUCER)
    _check_epoch(header, state)
    if header.producer_id in log.verifying:
        _check_first(header, state, log.verifying[header.producer_id])
    _check_sequence(header, state, does)
    appended = state.with_batch(header.producer_epoch, _metadata(header))
    if batch.is_transactional:
        log = log.with_verification(header.producer_id, None)
    return log.with_producer(header.producer_id, _in_transaction(batch, appended, header.base_offset))


def _metadata(header: BatchHeader) -> BatchMetadata:
    last_offset = wrap_int64(header.base_offset + header.last_offset_delta)
    return BatchMetadata(last_sequence_of(header), last_offset, header.last_offset_delta, header.max_timestamp)


def _check_epoch(header: BatchHeader, state: ProducerState) -> None:
    """PID-05, PID-14."""
    if header.producer_epoch < state.epoch:
        raise Thrown("InvalidProducerEpochException", "PID-14")


def _check_first(header: BatchHeader, state: ProducerState, pending: Verification) -> None:
    """Since 4.0 a transaction begun by produce 12 starts at sequence 0 where its producer is unknown.

    The pending verification is checked first, whether the batch is transactional or not.
    """
    sequence = header.base_sequence
    if sequence > pending.lowest_sequence or (pending.bumps_epoch and sequence != 0 and not state.batches):
        raise Thrown("OutOfOrderSequenceException", "PID-06")


def _check_sequence(header: BatchHeader, state: ProducerState, does: Behaviour) -> None:
    """PID-06, PID-07, PID-13, PID-16."""
    sequence = header.base_sequence
    if header.producer_epoch != state.epoch:
        if sequence == 0:
            return
        if state.epoch != NO_PRODUCER_EPOCH:
            raise Thrown("OutOfOrderSequenceException", "PID-13")
        if not does.accepts_unknown:
            raise Thrown("UnknownProducerIdException", "PID-06")
    elif not (state.epoch == NO_PRODUCER_EPOCH and does.accepts_unknown) and not _follows(
        state.last_sequence, sequence
    ):
        raise Thrown("OutOfOrderSequenceException", "PID-07")


def _follows(last: int, sequence: int) -> bool:
    """#inSequence (PID-10)."""
    return sequence == last + 1 or (sequence == 0 and last == INT32_MAX)


def _in_transaction(batch: Entry, state: ProducerState, first_offset: int) -> ProducerState:
    """TXN-06: an open transaction takes no other batches; a transactional one opens it."""
    if state.transaction_first_offset is not None:
        if not batch.is_transactional:
            raise Thrown("InvalidTxnStateException", "TXN-06")
        return state
    return replace(state, transaction_first_offset=first_offset) if batch.is_transactional else state
