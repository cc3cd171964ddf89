"""Transactions in a partition: the index of aborted ones, the last stable offset, and the markers that end them.

The index and the offset: TransactionIndex, ProducerStateManager (KIP-98).  The
marker is what the coordinator has the leader of the partition append:
TransactionMarkerChannelManager, KafkaApis#handleWriteTxnMarkersRequest,
MemoryRecords#withEndTransactionMarker, ProducerAppendInfo#appendEndTxnMarker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kafka_records.broker.config import TopicConfig
from kafka_records.broker.entries import Entry, file_entries
from kafka_records.broker.errors import (
    INVALID_PRODUCER_EPOCH,
    MESSAGE_TOO_LARGE,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
    Thrown,
)
from kafka_records.broker.releases import Behaviour, behaviour
from kafka_records.broker.rewrite import kept
from kafka_records.broker.state import UNKNOWN_PRODUCER, AppendResult, LogState, ProducerState
from kafka_records.broker.validation import Task
from kafka_records.constants import MAGIC_VALUE_V2, NO_TIMESTAMP
from kafka_records.control import TRANSACTION_MARKERS, ControlRecord, decode_control, decode_key, encode_control
from kafka_records.errors import RecordFormatError
from kafka_records.log import decode, encode
from kafka_records.model import Batch


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


TRANSACTION_COORDINATOR_FENCED: Final = 52
# KIP-890: from this version of the feature on, every end of a transaction takes the next epoch.
BUMPS_EPOCH: Final = 2
# After it a producer gets another id; its markers keep the epoch.
LAST_EPOCH: Final = 32_767
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
    return append_marker(
        log,
        producer_id,
        producer_epoch + 1 if version >= BUMPS_EPOCH else producer_epoch,
        commit=commit,
        coordinator_epoch=coordinator_epoch,
        now_ms=now_ms,
        release=release,
        config=config,
        transaction_version=version,
    )


def append_marker(
    log: LogState,
    producer_id: int,
    epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int,
    now_ms: int,
    release: str,
    config: TopicConfig = DEFAULT_CONFIG,
    transaction_version: int = 0,
) -> AppendResult:
    """Append a marker that carries *epoch*: what a WriteTxnMarkers request has a leader do.

    Arguments and errors are those of `end_transaction`; *transaction_version* is that of the request.
    """
    does = behaviour(release)
    task = Task(
        does=does, config=config, source="none", now=now_ms, offset=log.log_end_offset, leader_epoch=log.leader_epoch
    )
    marker = _marker(producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch, now_ms=now_ms)
    state = log.producers.get(producer_id, UNKNOWN_PRODUCER)
    is_strict = does.strict_markers and transaction_version >= BUMPS_EPOCH
    refused = _unfit(marker, config, does) or _fenced(state, epoch, coordinator_epoch, is_strict=is_strict)
    if refused:
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


def _unfit(marker: bytes, config: TopicConfig, does: Behaviour) -> tuple[int, str] | None:
    """Error code and rule, if the topic takes no such batch."""
    if config.magic(does) < MAGIC_VALUE_V2:
        return UNSUPPORTED_FOR_MESSAGE_FORMAT, "TXN-07"
    if len(marker) > config.largest_batch(does):
        return MESSAGE_TOO_LARGE, "SIZ-01"
    return None


def _fenced(state: ProducerState, epoch: int, coordinator_epoch: int, *, is_strict: bool) -> tuple[int, str] | None:
    """Error code and rule, if the marker is of the past: ProducerAppendInfo#checkProducerEpoch, #checkCoordinatorEpoch.

    With *is_strict* a marker ends the transaction of an older epoch only; a marker that comes again is taken again.
    """
    is_retry = epoch == state.epoch and (state.transaction_first_offset is None or epoch == LAST_EPOCH)
    if epoch < state.epoch or (is_strict and epoch == state.epoch and not is_retry):
        return INVALID_PRODUCER_EPOCH, "PID-14"
    if coordinator_epoch < state.coordinator_epoch:
        return TRANSACTION_COORDINATOR_FENCED, "TXN-21"
    return None


def _ended(state: ProducerState, epoch: int, coordinator_epoch: int) -> ProducerState:
    """ProducerStateEntry#update: a new epoch forgets the batches of the old one, and starts at sequence 0."""
    batches = state.batches if epoch == state.epoch else ()
    return ProducerState(epoch=epoch, batches=batches, coordinator_epoch=coordinator_epoch)
