"""Transactional lanes: a producer with a transactional id writes to the partition, in transactions and beside them.

The partition is added to a transaction before payloads are sent that need that, or is not; between two turns it is
added, or the transaction ends (`ending.py`).  The marker that this leaves is compared like any payload.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, NamedTuple

from kafka_conformance.broker.wire import Client
from kafka_conformance.broker.wire.transactions import Producer, init_producer_id
from kafka_fuzz.broker.payloads import PRODUCERS, as_client, changed, is_batch, sequence, with_header
from kafka_fuzz.broker.settings import APPEND_TIME, Settings
from kafka_fuzz.cells import framed
from kafka_fuzz.mutate import Mutant
from kafka_records import LogState, Producing
from kafka_records.attributes import TRANSACTIONAL_FLAG_MASK
from kafka_records.broker.releases import behaviour
from kafka_records.broker.state import UNKNOWN_PRODUCER
from kafka_records.constants import MAGIC_VALUE_V2
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET

SETTINGS: Final[tuple[Settings, ...]] = ({}, APPEND_TIME, {"compression.type": "gzip"})
LANES_A_SETTING: Final = 4
# How often between two turns a transaction begins, or ends.
BEGINS: Final = 0.5
ENDS: Final = 0.1
# How often a payload is not transactional though its request is, or another producer's.
NOT_TRANSACTIONAL: Final = 0.08
ANOTHERS: Final = 0.05
EPOCHS: Final = (0, 0, 0, 0, 0, 0, 0, 0, 1, -1)
# The most that a broker allows: what it aborts by itself nobody predicts.
TIMEOUT_MS: Final = 900_000
_EPOCH: Final = BATCH_V2.field("producer_epoch")
WHO_ENDS: Final = _EPOCH.offset + _EPOCH.width


class Taken(NamedTuple):
    """A payload that a log has taken, and the version of the request."""

    payload: bytes
    version: int


@dataclass(slots=True)
class Sender:
    """A transactional producer of one partition.

    Attributes:
        id: its transactional id.
        producer: what the coordinator gave it.
        is_open: whether the partition is part of its transaction, as the coordinator knows.
        is_lost: whether nobody knows any more what the coordinator knows.
        since: what the log took since the last transaction ended.
    """

    id: str
    producer: Producer
    is_open: bool = False
    is_lost: bool = False
    since: list[Taken] = field(default_factory=list)

    @classmethod
    def start(cls, client: Client, id_: str) -> Sender:
        """Ask for a producer id.  Raises `BrokerError`."""
        return cls(id_, init_producer_id(client, id_, timeout_ms=TIMEOUT_MS))

    def producing(self, payload: bytes) -> Producing:
        """What its request says, and what the coordinator says to that."""
        who = first_transactional(payload)
        if who is None or who == self.producer:
            return Producing(transactional_id=True, in_transaction=self.is_open)
        other = who.producer_id != self.producer.producer_id
        return Producing(
            transactional_id=True, producer="unknown" if other else "other epoch", in_transaction=self.is_open
        )

    def newest(self, release: str, version: int) -> int:
        """*version* of a produce request, or an older one that does not add the partition by itself."""
        adds = behaviour(release).adds_partitions
        return version if self.is_open or adds is None else min(version, adds - 1)

    def signed(self, mutant: Mutant, log: LogState, rng: Random) -> Mutant:
        """*mutant* as this producer sends it: mostly in its transaction, where its sequence had come to."""
        if not is_batch(mutant.data):
            return mutant
        data = as_client(mutant.data, rng)
        header = BATCH_V2.values(data)
        header["attributes"] |= TRANSACTIONAL_FLAG_MASK
        if rng.random() < NOT_TRANSACTIONAL:
            header["attributes"] &= ~TRANSACTIONAL_FLAG_MASK
        id_, epoch = self.producer
        header["producer_id"] = rng.choice(PRODUCERS) if rng.random() < ANOTHERS else id_
        header["producer_epoch"] = max(-1, epoch + rng.choice(EPOCHS))
        header["base_sequence"] = sequence(rng, log.producers.get(header["producer_id"], UNKNOWN_PRODUCER))
        return changed(mutant, with_header(data, header), "in a transaction")

    def as_mine(self, payload: bytes, other: Producer) -> bytes:
        """*payload* of another sender, as this one would have sent it."""
        if not is_batch(payload) or BATCH_V2.values(payload)["producer_id"] != other.producer_id:
            return payload
        header = BATCH_V2.values(payload)
        header["producer_id"] = self.producer.producer_id
        header["producer_epoch"] += self.producer.producer_epoch - other.producer_epoch
        return with_header(payload, header)


def first_transactional(data: bytes) -> Producer | None:
    """Who sent the first transactional batch of *data*; None if there is none, or it is nobody's."""
    for start, end in framed(data):
        if end - start < WHO_ENDS or data[start + MAGIC_OFFSET] < MAGIC_VALUE_V2:
            continue
        # One that is shorter than its header says who sent it all the same.
        header = BATCH_V2.values(data[start:end].ljust(BATCH_V2.size, b"\0"))
        if header["attributes"] & TRANSACTIONAL_FLAG_MASK and header["producer_id"] >= 0:
            return Producer(header["producer_id"], header["producer_epoch"])
    return None


def settings_of(release: str) -> tuple[Settings, ...]:
    """The topics' settings of transactional lanes; none where *release* knows no transactions."""
    return SETTINGS if behaviour(release).newest_magic == MAGIC_VALUE_V2 else ()


def with_producing(log: LogState, sender: Sender | None, payload: bytes) -> LogState:
    """*log* with what the request of *sender* says, if there is one."""
    return log if sender is None else replace(log, producing=sender.producing(payload))
