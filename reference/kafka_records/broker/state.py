"""State of a partition's leader before an append, and its answer.

All values: an append gives a result with the next state in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Literal

from kafka_records.broker.errors import NONE
from kafka_records.constants import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from kafka_records.primitives import decrement_sequence, wrap_int64

# Where nothing was appended.
NO_OFFSET: Final = -1
# PID-09, ProducerStateEntry#NUM_BATCHES_TO_RETAIN
BATCHES_TO_RETAIN: Final = 5

Path = Literal["in place", "rebuilt", "converted"]
RULES: Final[Mapping[Path, str]] = {"in place": "RWR-01", "rebuilt": "RWR-05", "converted": "CNV-01"}


@dataclass(frozen=True, slots=True)
class BatchMetadata:
    """One batch of a producer, as the broker remembers it."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Counted back from the last, so it wraps (PID-10)."""
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        """The offset that a duplicate is answered with."""
        return wrap_int64(self.last_offset - self.offset_delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """State of one producer id; *batches* oldest first, five at most."""

    epoch: int = NO_PRODUCER_EPOCH
    batches: tuple[BatchMetadata, ...] = ()
    transaction_first_offset: int | None = None
    coordinator_epoch: int = -1

    @property
    def last_sequence(self) -> int:
        """Of the last batch; -1 if there is none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find_duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """The remembered batch of exactly these sequences (PID-08, PID-09)."""
        if epoch != self.epoch:
            return None
        wanted = (first_sequence, last_sequence)
        return next((each for each in self.batches if (each.first_sequence, each.last_sequence) == wanted), None)

    def with_batch(self, epoch: int, batch: BatchMetadata) -> ProducerState:
        """*batch* added; a new epoch forgets those of the old one."""
        kept = self.batches if epoch == self.epoch else ()
        return replace(self, epoch=epoch, batches=(*kept, batch)[-BATCHES_TO_RETAIN:])


UNKNOWN_PRODUCER: Final = ProducerState()


@dataclass(frozen=True, slots=True, kw_only=True)
class Producing:
    """The request's fields beside its payload, and the transaction coordinator's state for it.

    Attributes:
        transactional_id: whether the request names a transactional id that it may write under (TXN-02).
        producer: what the coordinator knows of the batch's producer under that id.
        in_transaction: whether the partition has been added to the open transaction (TXN-05).
    """

    transactional_id: bool = False
    producer: Literal["known", "unknown", "other epoch"] = "known"
    in_transaction: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A leader's pending request to the coordinator: a producer whose transaction has not begun here (KIP-890).

    Attributes:
        epoch: the producer's newest.
        lowest_sequence: of the batches that came under that epoch; none above it is taken first.
        bumps_epoch: whether the first of them came by a version that adds partitions.
    """

    epoch: int
    lowest_sequence: int
    bumps_epoch: bool

    def seen(self, epoch: int, sequence: int) -> Verification:
        """VerificationStateEntry#maybeUpdateLowestSequenceAndEpoch."""
        if epoch > self.epoch:
            return replace(self, epoch=epoch, lowest_sequence=sequence)
        if epoch == self.epoch and sequence < self.lowest_sequence:
            return replace(self, lowest_sequence=sequence)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """A partition as its leader sees it."""

    log_end_offset: int = 0
    leader_epoch: int = 0
    producers: Mapping[int, ProducerState] = field(default_factory=lambda: MappingProxyType({}))
    producing: Producing = Producing()
    verifying: Mapping[int, Verification] = field(default_factory=lambda: MappingProxyType({}))

    def with_verification(self, producer_id: int, verification: Verification | None) -> LogState:
        """The same log, with the verification of that producer replaced or removed."""
        others = {key: each for key, each in self.verifying.items() if key != producer_id}
        pending = {} if verification is None else {producer_id: verification}
        return replace(self, verifying=MappingProxyType(others | pending))

    def with_producer(self, producer_id: int, state: ProducerState) -> LogState:
        """The same log, knowing *state* of that producer."""
        return replace(self, producers=MappingProxyType({**self.producers, producer_id: state}))


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """The broker's answer for the partition, and the bytes that it stored.

    Attributes:
        error_code: Kafka's number; 0 where the payload was taken, or known already.
        base_offset: of the first record; -1 with an error, or where there was nothing to append.
        log_append_time: milliseconds; -1 unless the topic says LogAppendTime (TIM-23).
        stored: the bytes in the log.
        path: how they came about; None if nothing was stored.
        record_errors: indexes of the records at fault, where the broker lists them.
        whole_request: whether the error is that of every partition in the request (PRD-02).
        rule: id of the rule that decided.
        log: the partition afterwards.
    """

    log: LogState
    error_code: int = NONE
    base_offset: int = NO_OFFSET
    log_append_time: int = NO_TIMESTAMP
    stored: bytes = b""
    path: Path | None = None
    record_errors: tuple[int, ...] = ()
    whole_request: bool = False
    rule: str = "PRD-01"
