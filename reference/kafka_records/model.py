"""Values that decoding gives and encoding takes: batches, records, headers, limits.

A ``Batch`` is one entry of a log, whatever its magic: a v2 record batch, one
plain v0/v1 message, or one v0/v1 wrapper with its inner messages as records.
Byte strings stay bytes, header keys too (REC-21).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kafka_records.constants import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Compression,
    TimestampType,
)


class Header(NamedTuple):
    """A record header (KIP-82): key bytes that ought to be UTF-8, value or None.

    A key of None is what no writer may write and no reader reads (REC-18): it can only be given to `encode`, which
    refuses it.
    """

    key: bytes | None
    value: bytes | None


class Record(NamedTuple):
    """One record, with absolute offset and timestamp (milliseconds since 1970)."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One entry of a log: what its header says, and its records.

    Fields that a format lacks hold Kafka's sentinels (LEG-23), and so do the producer's fields of a
    batch without a producer (HDR-22, PID-01); the leader epoch -1 stands for an unknown one (CON-06).
    """

    magic: int
    base_offset: int
    last_offset: int
    compression: Compression = "none"
    timestamp_type: TimestampType = "create"
    max_timestamp: int = NO_TIMESTAMP
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    transactional: bool = False
    control: bool = False
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    delete_horizon: int | None = None
    records: tuple[Record, ...] = ()
    # What the header really holds; None lets `encode` write what Kafka's builder
    # would (TIM-06, TIM-18, TIM-21).  It changes no record, so it is not compared.
    base_timestamp: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much memory a decoder may take.

    Attributes:
        max_output_bytes: what decompression and decoded objects may take, over
            and above eight times the input.
    """

    max_output_bytes: int = 256 * 1024 * 1024


DEFAULT = Limits()
