"""The end of a transaction in a partition: the marker that the coordinator has its leader append.

TransactionMarkerChannelManager, KafkaApis#handleWriteTxnMarkersRequest,
MemoryRecords#withEndTransactionMarker, ProducerAppendInfo#appendEndTxnMarker.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kafka_records.broker.config import TopicConfig
from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import INVALID_PRODUCER_EPOCH, MESSAGE_TOO_LARGE, UNSUPPORTED_FOR_MESSAGE_FORMAT
from kafka_records.broker.releases import Behaviour, behaviour
from kafka_records.broker.rewrite import kept
from kafka_records.broker.state import UNKNOWN_PRODUCER, AppendResult, LogState, ProducerState
from kafka_records.broker.validation import Task
from kafka_records.constants import MAGIC_VALUE_V2, NO_TIMESTAMP
from kafka_records.control import ControlRecord, encode_control
from kafka_records.log import encode
from kafka_records.model import Batch

TRANSACTION_COORDINATOR_FENCED: Final = 52
# KIP-890: from this version of the feature on, every end of a transaction takes the next epoch.
BUMPS_EPOCH: Final = 2
DEFAULT_CONFIG: Final = TopicConfig()


def end_transaction(
    log: LogState,
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int,
    now_ms: int,
    release: str,
    config: TopicConfig = DEFAULT_CONFIG,
    transaction_version: int | None = None,
) -> AppendResult:
    """Append the marker that ends *producer_id*'s transaction, and forget that it was open.

    Args:
        log: the partition so far.
        producer_id: whose transaction ends.
        producer_epoch: that the transaction was written with.
        commit: whether it is a COMMIT, or an ABORT.
        coordinator_epoch: leader epoch of the coordinator's own partition.
        now_ms: the time of the broker that writes the marker.
        release: of Kafka, like "4.4.0".
        config: the topic's settings.
        transaction_version: of the feature, where it is not the release's newest.

    Raises:
        RecordFormatError: kind `malformed`, for a release that is not known.
    """
    does = behaviour(release)
    version = does.transaction_version if transaction_version is None else transaction_version
    epoch = producer_epoch + 1 if version >= BUMPS_EPOCH else producer_epoch
    task = Task(
        does=does, config=config, source="none", now=now_ms, offset=log.log_end_offset, leader_epoch=log.leader_epoch
    )
    marker = _marker(producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch, now_ms=now_ms)
    state = log.producers.get(producer_id, UNKNOWN_PRODUCER)
    if refused := _refusal(marker, state, epoch, coordinator_epoch, config, does):
        return AppendResult(log=log, error_code=refused[0], rule=refused[1])
    # UnifiedLog#updateProducers: a marker also removes the pending verification.
    after = log.with_producer(producer_id, _ended(state, epoch, coordinator_epoch)).with_verification(producer_id, None)
    return AppendResult(
        log=replace(after, log_end_offset=log.log_end_offset + 1),  # OFF-15
        base_offset=log.log_end_offset,
        log_append_time=now_ms if task.appends_time else NO_TIMESTAMP,
        # TXN-15, RWR-13: whatever the topic's codec.
        stored=kept(Entry(marker), log.log_end_offset, now_ms, task),
        path="in place",
        rule="TXN-14",
    )


def _marker(producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int, now_ms: int) -> bytes:
    """TXN-14, TXN-16: 78 bytes, a sequence of -1."""
    fields = {"version": 0, "coordinator_epoch": coordinator_epoch}
    record = encode_control(ControlRecord("commit" if commit else "abort", fields), timestamp=now_ms)
    batch = Batch(
        magic=MAGIC_VALUE_V2,
        base_offset=0,
        last_offset=0,
        max_timestamp=now_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        transactional=True,
        control=True,
        records=(record,),
    )
    return encode(batch)


def _refusal(
    marker: bytes, state: ProducerState, epoch: int, coordinator_epoch: int, config: TopicConfig, does: Behaviour
) -> tuple[int, str] | None:
    """Error code and rule, if the marker is not taken."""
    if config.magic(does) < MAGIC_VALUE_V2:
        return UNSUPPORTED_FOR_MESSAGE_FORMAT, "TXN-07"
    if len(marker) > config.largest_batch(does):
        return MESSAGE_TOO_LARGE, "SIZ-01"
    if epoch < state.epoch:
        return INVALID_PRODUCER_EPOCH, "PID-14"
    if coordinator_epoch < state.coordinator_epoch:
        return TRANSACTION_COORDINATOR_FENCED, "TXN-21"
    return None


def _ended(state: ProducerState, epoch: int, coordinator_epoch: int) -> ProducerState:
    """ProducerStateEntry#update: a new epoch forgets the batches of the old one, and starts at sequence 0."""
    batches = state.batches if epoch == state.epoch else ()
    return ProducerState(epoch=epoch, batches=batches, coordinator_epoch=coordinator_epoch)
