"""Lanes: a partition each, with its transactional producers and the reference's log.

The partition is added to a transaction before payloads are sent that need that, or is not; between two turns it is
added, or the transaction ends (`ending.py`).  The marker that this leaves is compared like any payload.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, NamedTuple

from kafka_brokers.interface import Broker
from kafka_brokers.scenarios.normalize import now_of
from kafka_brokers.scenarios.runner import Fresh
from kafka_brokers.wire import BrokerError, Client, Produced, TopicPartition
from kafka_brokers.wire.client import PAUSE
from kafka_brokers.wire.transactions import Producer, add_partitions, init_producer_id, send_end_transaction
from kafka_fuzz.broker.comparing import ProduceAnswer, answer_difference, produce_answer, stored_difference
from kafka_fuzz.broker.payloads import PRODUCERS, as_client, is_batch, sequence, with_data, with_header
from kafka_fuzz.broker.settings import APPEND_TIME, ROOM, Settings
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.mutate.mutant import NO_FAULT, MutantCell, first_entry_spans
from kafka_records import AppendResult, LogState, Producing, TopicConfig, append
from kafka_records import end_transaction as ended
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
# The most that a broker allows: a transaction that the broker aborts by itself is not predicted.
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
        is_lost: whether the state of the coordinator is no longer known.
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
        """The transactional state of a request with *payload*, as the coordinator knows it."""
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
        return with_data(mutant, with_header(data, header), "in a transaction")

    def as_mine(self, payload: bytes, other: Producer) -> bytes:
        """*payload* of another sender, as this one would have sent it."""
        if not is_batch(payload) or BATCH_V2.values(payload)["producer_id"] != other.producer_id:
            return payload
        header = BATCH_V2.values(payload)
        header["producer_id"] = self.producer.producer_id
        header["producer_epoch"] += self.producer.producer_epoch - other.producer_epoch
        return with_header(payload, header)


def first_transactional(data: bytes) -> Producer | None:
    """The producer of the first transactional batch of *data*; None if there is none or it has no producer id."""
    for start, end in first_entry_spans(data):
        if end - start < WHO_ENDS or data[start + MAGIC_OFFSET] < MAGIC_VALUE_V2:
            continue
        # One that is shorter than its header says who sent it all the same.
        header = BATCH_V2.values(data[start:end].ljust(BATCH_V2.size, b"\0"))
        if header["attributes"] & TRANSACTIONAL_FLAG_MASK and header["producer_id"] >= 0:
            return Producer(header["producer_id"], header["producer_epoch"])
    return None


def transactional_settings(release: str) -> tuple[Settings, ...]:
    """The topics' settings of transactional lanes; none where *release* knows no transactions."""
    return SETTINGS if behaviour(release).newest_magic == MAGIC_VALUE_V2 else ()


def with_producing(log: LogState, sender: Sender | None, payload: bytes) -> LogState:
    """*log* with what the request of *sender* says, if there is one."""
    return log if sender is None else replace(log, producing=sender.producing(payload))


# More than the mutators make.
LARGEST: Final = "4000000"
# A log that has taken so many payloads, or knows so many producers, is left alone: what led to a difference has
# to be played again.
MOST_TAKEN: Final = 400
MOST_PRODUCERS: Final = 40


class LaneRequest(NamedTuple):
    """A payload on its way to a lane, and what is predicted."""

    lane: Lane
    mutant: Mutant
    version: int
    predicted: AppendResult


@dataclass(slots=True)
class Lane:
    """A partition, its topic's settings, the log in it, the payloads that it took, and who sends in transactions."""

    release: str
    where: TopicPartition
    settings: Settings
    config: TopicConfig
    log: LogState = field(default_factory=LogState)
    taken: list[Taken] = field(default_factory=list)
    sender: Sender | None = None

    @property
    def is_worn(self) -> bool:
        """Whether it is time for an empty partition."""
        is_lost = self.sender is not None and self.sender.is_lost
        return is_lost or len(self.taken) >= MOST_TAKEN or len(self.log.producers) > MOST_PRODUCERS

    def predict(self, payload: bytes, version: int, now_ms: int) -> AppendResult:
        """The reference's prediction for *payload*."""
        log = with_producing(self.log, self.sender, payload)
        return append(log, payload, self.config, release=self.release, api_version=version, now_ms=now_ms)

    def judge(self, request: LaneRequest, produced: Produced, stored: bytes) -> tuple[str, ProduceAnswer, AppendResult]:
        """Where the broker's answer differs from what is predicted; the log goes on as predicted."""
        given, wanted = produce_answer(produced, stored), request.predicted
        different = answer_difference(given, wanted, request.version)
        if different or self.config.timestamp_type == "LogAppendTime":
            # Predicted by our clock, and judged by the broker's.
            timed = stored if self.config.timestamp_type == "LogAppendTime" else b""
            wanted = self.predict(request.mutant.data, request.version, now_of(produced, timed))
            different = answer_difference(given, wanted, request.version)
        if not wanted.error_code:
            self.taken.append(Taken(request.mutant.data, request.version))
            if self.sender is not None:
                self.sender.since.append(self.taken[-1])
        self.log = wanted.log
        return different, given, wanted


class Lanes:
    """Lanes on partitions that nobody has used, by settings."""

    def __init__(self, broker: Broker, release: str, *, prefix: str, at_once: int) -> None:
        """Topics are called *prefix* and a number, and have *at_once* partitions; *release* is predicted."""
        self._release = release
        self._fresh = Fresh(broker, prefix=prefix, at_once=at_once)

    def take(self, settings: Settings) -> Lane:
        """An empty one.  Raises `BrokerError` where the broker does not take the settings."""
        return self._take(settings)

    def take_sender(self, settings: Settings, client: Client) -> Lane:
        """An empty one, and a transactional producer for it, which *client* asks for."""
        lane = self._take(settings)
        lane.sender = Sender.start(client, f"{lane.where.topic}-{lane.where.partition}")
        return lane

    def _take(self, settings: Settings) -> Lane:
        whole = {ROOM: LARGEST, **settings}
        (where,) = self._fresh.take(whole)
        return Lane(self._release, where, settings, TopicConfig.of(whole))


# Seconds for a marker to get from the coordinator to the partition.
MARKER_LIMIT: Final = 10.0
MARKER: Final = "marker"


def begin_lane_transaction(client: Client, lane: Lane, sender: Sender) -> None:
    """Add the partition to the transaction of *sender*."""
    try:
        code = add_partitions(client, sender.id, sender.producer, [lane.where])[lane.where]
    except BrokerError as error:
        code = error.code
    sender.is_open, sender.is_lost = not code, bool(code)


def end_lane_transaction(
    client: Client, lane: Lane, sender: Sender, *, commit: bool
) -> tuple[str, ProduceAnswer, AppendResult] | None:
    """End the transaction: how the marker differs from what is predicted; None where there is none to be had."""
    if predicted_marker(lane, sender.producer, commit=commit, now_ms=0).error_code:
        sender.is_lost = True  # a marker that is not taken is sent again, and again
        return None
    try:
        following = send_end_transaction(client, sender.id, sender.producer, commit=commit)
    except BrokerError:
        sender.is_lost = True
        return None
    marker = await_marker(client, lane)
    wanted = timed_marker(lane, sender.producer, marker, commit=commit)
    different = stored_difference(marker, wanted)
    sender.producer, sender.is_open, sender.since = following, False, []
    lane.log = wanted.log
    return different and f"{MARKER}: {different}", ProduceAnswer(0, wanted.base_offset, stored=marker), wanted


def predicted_marker(lane: Lane, producer: Producer, *, commit: bool, now_ms: int) -> AppendResult:
    """The marker that the reference says."""
    return ended(
        lane.log, *producer, commit=commit, coordinator_epoch=0, now_ms=now_ms, release=lane.release, config=lane.config
    )


def timed_marker(lane: Lane, producer: Producer, marker: bytes, *, commit: bool) -> AppendResult:
    """The same at the times that *marker* says: the coordinator's, when it made it, and the partition's, later."""
    if not is_batch(marker):
        return predicted_marker(lane, producer, commit=commit, now_ms=0)
    made, taken = (max(0, BATCH_V2.values(marker)[name]) for name in ("base_timestamp", "max_timestamp"))
    wanted = predicted_marker(lane, producer, commit=commit, now_ms=taken)
    header = BATCH_V2.values(wanted.stored)
    return replace(wanted, stored=with_header(wanted.stored, {**header, "base_timestamp": min(made, taken)}))


def await_marker(client: Client, lane: Lane) -> bytes:
    """The bytes after the log's end, once there are some; empty if none arrive in time."""
    limit = time.monotonic() + MARKER_LIMIT
    while time.monotonic() < limit:
        found = client.fetch({lane.where: lane.log.log_end_offset}, max_wait_ms=0)
        if isinstance(found, dict) and found[lane.where].records:
            return found[lane.where].records
        time.sleep(PAUSE)
    return b""


def marker_mutant(marker: bytes) -> Mutant:
    """A marker as something that was looked at."""
    return Mutant(
        marker, "bytes", (MARKER,), None, MutantCell(MAGIC_VALUE_V2, "none", "", MARKER, NO_FAULT, "entry", "only")
    )
