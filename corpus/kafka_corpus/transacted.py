"""Transactions step by step: what is asked, and what is stored and answered."""

from __future__ import annotations

from typing import Any

from kafka_corpus.batches import batch_of, bytes_of
from kafka_corpus.plays import Played, numbered_from, takes
from kafka_corpus.registry import refused
from kafka_corpus.scenario import (
    NOW,
    Aborted,
    AddPartitions,
    EndTransaction,
    InitProducerId,
    Produce,
    StepAnswer,
    producer_id,
)
from kafka_records import Record
from kafka_records.constants import Compression

# The first produce version that adds partitions to the transaction itself is 12 (KIP-890).
VERIFIED, GENERIC, ADDING = 10, 11, 12
ABORT, COMMIT = 0, 1


def data(sequence: int, count: int = 1, codec: Compression = "none", *, who: int = 0, **fields: Any) -> bytes:
    """A transactional batch of the producer that got its id as number *who*; *fields* as for `numbered_from`."""
    return numbered_from(sequence, count, codec, **({"producer_id": producer_id(who), "transactional": True} | fields))


def marker_at(offset: int, type_: int, *, epoch: int = 1, who: int = 0, **fields: Any) -> bytes:
    """The marker that the coordinator writes (TXN-14); its epoch is the next one since Kafka 4.0 (KIP-890)."""
    key = bytes(2) + type_.to_bytes(2, "big")
    producer = {"producer_id": producer_id(who), "producer_epoch": epoch}
    known = {"transactional": True, "control": True, "partition_leader_epoch": 0, **producer}
    return bytes_of(batch_of(Record(offset, NOW, key, bytes(6)), **(known | fields)))


def named(alias: str = "a", *, transactional: bool = True) -> Played:
    """A producer gets its id, or its next epoch."""
    return InitProducerId(alias, transactional), StepAnswer()


def begun(alias: str = "a") -> tuple[Played, Played]:
    """A producer gets its id and adds the partition to its transaction."""
    return named(alias), added(alias)


def added(alias: str = "a") -> Played:
    """The partition is added to the producer's transaction."""
    return AddPartitions(alias), StepAnswer()


def writes(batch: bytes, base_offset: int = 0, *, alias: str = "a", **fields: Any) -> Played:
    """A batch of the producer's transaction is stored as it is; *fields* are those of `Produce`."""
    return takes(batch, base_offset, **({"producer": alias, "transactional": True} | fields))


def fails(batch: bytes, error_code: int, *, alias: str = "a", answer: Any = None, **fields: Any) -> Played:
    """A batch of the producer's transaction is refused; *fields* are those of `Produce`."""
    known: dict[str, Any] = {"producer": alias, "transactional": True}
    return Produce(data=batch, **(known | fields)), refused(error_code, **(answer or {}))


def ended(marker: bytes, *, alias: str = "a", commit: bool) -> Played:
    """The transaction ends, and the partition gets its marker."""
    return EndTransaction(alias, commit), StepAnswer(data=marker)


def committed(offset: int, *, alias: str = "a", **fields: Any) -> Played:
    """The transaction is committed; *fields* are those of `marker_at`."""
    return ended(marker_at(offset, COMMIT, **fields), alias=alias, commit=True)


def aborted(offset: int, *, alias: str = "a", **fields: Any) -> Played:
    """The transaction is aborted; *fields* are those of `marker_at`."""
    return ended(marker_at(offset, ABORT, **fields), alias=alias, commit=False)


def listed(first_offset: int, who: int = 0) -> Aborted:
    """An aborted transaction as a fetch lists it."""
    return Aborted(producer_id(who), first_offset)
