"""Lanes: one partition each, with its settings, its transactional producer and the reference's log.

Topics have every setting that affects an append, as far as the release of the broker has it.

Between two turns a lane's partition is added to a transaction, or its transaction ends.  The marker that the
end of a transaction writes is compared like a payload.

Of an answer, the error code, the invalid records, the base offset, the broker's time, and the stored bytes are
compared with the reference's; the difference becomes part of a key.  Bytes that the broker compressed itself are
compared after decompression, because libraries compress differently.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from random import Random
from struct import error as StructError
from typing import Final, NamedTuple

from kafka_brokers.interface import Broker
from kafka_brokers.releases import NEWEST
from kafka_brokers.scenarios.normalize import now_of
from kafka_brokers.scenarios.runner import Fresh
from kafka_brokers.wire import BrokerError, Client, Produced, TopicPartition
from kafka_brokers.wire.client import PAUSE
from kafka_brokers.wire.errors import error_name
from kafka_brokers.wire.transactions import Producer, add_partitions, init_producer_id, send_end_transaction
from kafka_corpus.answer_diff import masked
from kafka_fuzz.broker.payloads import PRODUCERS, as_client, is_batch, sequence, with_data, with_header
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.mutate.entries import layout_of_magic
from kafka_fuzz.mutate.mutant import NO_FAULT, MutantCell, first_entry_spans
from kafka_records import AppendResult, LogState, Producing, RecordFormatError, TopicConfig, append, end_transaction
from kafka_records.attributes import TRANSACTIONAL_FLAG_MASK
from kafka_records.broker.releases import MINORS, behaviour, minor_version
from kafka_records.broker.state import UNKNOWN_PRODUCER
from kafka_records.constants import MAGIC_VALUE_V2
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET
from kafka_records.log import split_entries

Settings = dict[str, str]
# The settings with which the answers in the corpus were recorded.  The last two prevent that a broker that waits for
# a CPU loses its session, which would elect a new leader.
CONFIG: Final = {
    "producer.id.expiration.check.interval.ms": "86400000",
    "broker.session.timeout.ms": "300000",
    "zookeeper.session.timeout.ms": "300000",
}
# Without the stack trace of every refused payload, and without the optimizing compiler, which does not pay off in a
# short run, a broker answers twice as many requests.
FLAGS: Final = ("-Dorg.slf4j.simpleLogger.log.kafka.server.ReplicaManager=off", "-XX:TieredStopAtLevel=1")
# Larger than every payload, so that only the topics with a small limit reach it.
ROOM: Final = "max.message.bytes"
APPEND_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
HOUR: Final = "3600000"
PLAIN: Final[tuple[Settings, ...]] = (
    {},
    APPEND_TIME,
    {"compression.type": "uncompressed"},
    {"compression.type": "gzip"},
    {"compression.type": "snappy"},
    {"compression.type": "lz4", **APPEND_TIME},
    {"compression.type": "zstd"},
    {"cleanup.policy": "compact"},
    {"cleanup.policy": "delete, compact", "compression.type": "gzip"},
    {"max.message.bytes": "300"},
    {"max.message.bytes": "500", "compression.type": "uncompressed"},
)
# Settings with the first release that has them and the first that has them no longer.
SINCE: Final[tuple[tuple[Settings, tuple[int, ...], tuple[int, ...]], ...]] = (
    ({"message.timestamp.before.max.ms": HOUR}, (3, 6), (99,)),
    ({"message.timestamp.after.max.ms": HOUR, "compression.type": "lz4"}, (3, 6), (99,)),
    ({"message.timestamp.difference.max.ms": HOUR}, (0, 10, 1), (4, 0)),
    ({"max.decompressed.message.bytes": "200"}, (4, 4), (99,)),
    ({"message.format.version": "0.10.0"}, (0, 11), (3, 0)),
    ({"message.format.version": "0.10.0", "compression.type": "lz4", **APPEND_TIME}, (0, 11), (3, 0)),
    ({"message.format.version": "0.9.0"}, (0, 11), (3, 0)),
    ({"message.format.version": "0.9.0", "compression.type": "uncompressed"}, (0, 11), (3, 0)),
)


def topic_settings(release: str) -> tuple[Settings, ...]:
    """The topics' settings for *release*."""
    minor, codecs = minor_version(release), ("gzip", "snappy", "lz4", "uncompressed", "zstd")
    known = codecs[: behaviour(release).codecs]
    later = tuple(each for each, since, until in SINCE if since <= minor < until)
    return tuple(each for each in PLAIN + later if each.get("compression.type", "gzip") in known)


def release_of(target: str) -> str:
    """The release in `broker:RELEASE`, by default the newest; ValueError for an unknown release."""
    release = target.partition(":")[2] or NEWEST
    if minor_version(release) not in MINORS:
        raise ValueError(f"no release {release!r} is known")
    return release


SETTINGS: Final[tuple[Settings, ...]] = ({}, APPEND_TIME, {"compression.type": "gzip"})
TRANSACTIONAL_LANES: Final = 4
# The probability that a transaction begins or ends between two turns.
BEGINS: Final = 0.5
ENDS: Final = 0.1
# The probability that a payload in a transactional request is not transactional, or is of another producer.
NOT_TRANSACTIONAL: Final = 0.08
ANOTHERS: Final = 0.05
EPOCHS: Final = (0, 0, 0, 0, 0, 0, 0, 0, 1, -1)
# The most that a broker allows: a transaction that the broker aborts by itself is not predicted.
TIMEOUT_MS: Final = 900_000
_EPOCH: Final = BATCH_V2.field("producer_epoch")
WHO_ENDS: Final = _EPOCH.offset + _EPOCH.width


class Taken(NamedTuple):
    """A payload that a log has accepted, and the version of its request."""

    payload: bytes
    version: int


@dataclass(slots=True)
class Sender:
    """A transactional producer of one partition.

    Attributes:
        id: its transactional id.
        producer: the id and epoch from the coordinator.
        is_open: whether the coordinator has the partition in its transaction.
        is_lost: whether the state of the coordinator is unknown.
        since: the payloads that the log accepted since the last transaction ended.
    """

    id: str
    producer: Producer
    is_open: bool = False
    is_lost: bool = False
    since: list[Taken] = field(default_factory=list)

    @classmethod
    def start(cls, client: Client, id_: str) -> Sender:
        """Request a producer id.  Raises `BrokerError`."""
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
        """*version* of a produce request, or an older one that does not add the partition to the transaction."""
        adds = behaviour(release).adds_partitions
        return version if self.is_open or adds is None else min(version, adds - 1)

    def signed(self, mutant: Mutant, log: LogState, rng: Random) -> Mutant:
        """*mutant* as a payload of this producer, mostly in its transaction and with the next sequence."""
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
        """*payload* of the sender *other* as this one would have sent it."""
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
        # The producer of a batch that ends inside its header is known all the same.
        header = BATCH_V2.values(data[start:end].ljust(BATCH_V2.size, b"\0"))
        if header["attributes"] & TRANSACTIONAL_FLAG_MASK and header["producer_id"] >= 0:
            return Producer(header["producer_id"], header["producer_epoch"])
    return None


def transactional_settings(release: str) -> tuple[Settings, ...]:
    """The topics' settings of transactional lanes; none if *release* has no transactions."""
    return SETTINGS if behaviour(release).newest_magic == MAGIC_VALUE_V2 else ()


def with_producing(log: LogState, sender: Sender | None, payload: bytes) -> LogState:
    """*log* with the transactional state of the request of *sender*, if there is one."""
    return log if sender is None else replace(log, producing=sender.producing(payload))


# Larger than every mutant.
LARGEST: Final = "4000000"
# A lane is replaced after so many accepted payloads or producers, because a difference is confirmed by sending all
# earlier payloads again.
MOST_TAKEN: Final = 400
MOST_PRODUCERS: Final = 40


class LaneRequest(NamedTuple):
    """A payload for a lane, and the predicted result."""

    lane: Lane
    mutant: Mutant
    version: int
    predicted: AppendResult


@dataclass(slots=True)
class Lane:
    """A partition, its topic's settings, its log, the payloads that it accepted, and its transactional producer."""

    release: str
    where: TopicPartition
    settings: Settings
    config: TopicConfig
    log: LogState = field(default_factory=LogState)
    taken: list[Taken] = field(default_factory=list)
    sender: Sender | None = None

    @property
    def is_worn(self) -> bool:
        """Whether the lane needs an empty partition."""
        is_lost = self.sender is not None and self.sender.is_lost
        return is_lost or len(self.taken) >= MOST_TAKEN or len(self.log.producers) > MOST_PRODUCERS

    def predict(self, payload: bytes, version: int, now_ms: int) -> AppendResult:
        """The reference's prediction for *payload*."""
        log = with_producing(self.log, self.sender, payload)
        return append(log, payload, self.config, release=self.release, api_version=version, now_ms=now_ms)

    def judge(self, request: LaneRequest, produced: Produced, stored: bytes) -> tuple[str, ProduceAnswer, AppendResult]:
        """How the broker's answer differs from the predicted one; the log continues as predicted."""
        given, wanted = produce_answer(produced, stored), request.predicted
        different = answer_difference(given, wanted, request.version)
        if different or self.config.timestamp_type == "LogAppendTime":
            # The prediction used our clock; the broker's clock decides.
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
    """Lanes on unused partitions, by settings."""

    def __init__(self, broker: Broker, release: str, *, prefix: str, at_once: int) -> None:
        """The topics are named *prefix* and a number, and have *at_once* partitions; *release* is predicted."""
        self._release = release
        self._fresh = Fresh(broker, prefix=prefix, at_once=at_once)

    def take(self, settings: Settings) -> Lane:
        """A lane on an empty partition.  Raises `BrokerError` if the broker does not accept the settings."""
        whole = {ROOM: LARGEST, **settings}
        (where,) = self._fresh.take(whole)
        return Lane(self._release, where, settings, TopicConfig.of(whole))

    def take_sender(self, settings: Settings, client: Client) -> Lane:
        """A lane on an empty partition with a transactional producer, for which *client* requests the id."""
        lane = self.take(settings)
        lane.sender = Sender.start(client, f"{lane.where.topic}-{lane.where.partition}")
        return lane


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
    """End the transaction: how the marker differs from the predicted one, and both; None if there is no marker."""
    if predicted_marker(lane, sender.producer, commit=commit, now_ms=0).error_code:
        sender.is_lost = True  # the coordinator repeats a marker that is not accepted
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
    """The marker that the reference predicts."""
    return end_transaction(
        lane.log, *producer, commit=commit, coordinator_epoch=0, now_ms=now_ms, release=lane.release, config=lane.config
    )


def timed_marker(lane: Lane, producer: Producer, marker: bytes, *, commit: bool) -> AppendResult:
    """The same with the times in *marker*: the coordinator's when it was made, and the partition's later one."""
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
    """A marker as a mutant."""
    return Mutant(
        marker, "bytes", (MARKER,), None, MutantCell(MAGIC_VALUE_V2, "none", "", MARKER, NO_FAULT, "entry", "only")
    )


# The first versions of the request whose answers have these fields.
FIRST_WITH_TIME = 2
FIRST_WITH_RECORD_ERRORS = 8
# Fields that differ whenever another field does.
LAST = ("crc", "batch_length", "message_size", "size")


@dataclass(frozen=True, slots=True)
class ProduceAnswer:
    """A broker's answer and the bytes that it stored; *closed* if it closed the connection instead."""

    error_code: int = 0
    base_offset: int = -1
    log_append_time: int = -1
    record_errors: tuple[int, ...] = ()
    stored: bytes = b""
    closed: bool = False


def produce_answer(produced: Produced, stored: bytes) -> ProduceAnswer:
    """The compared parts of *produced*, with the bytes that a fetch returned."""
    failed = produced.error_code != 0
    return ProduceAnswer(
        produced.error_code,
        -1 if failed else produced.base_offset,
        produced.log_append_time,
        tuple(index for index, _ in produced.record_errors),
        stored,
    )


def answer_difference(given: ProduceAnswer, wanted: AppendResult, version: int) -> str:
    """The first field in which *given* differs from the prediction for a request of *version*; empty if none does."""
    if given.closed:
        return f"the connection is closed, predicted {error_name(wanted.error_code)}"
    if given.error_code != wanted.error_code:
        return f"error {error_name(given.error_code)}, predicted {error_name(wanted.error_code)}"
    if version >= FIRST_WITH_RECORD_ERRORS and given.record_errors != wanted.record_errors:
        return "record_errors"
    if given.base_offset != wanted.base_offset:
        return "base_offset"
    if version >= FIRST_WITH_TIME and given.log_append_time != wanted.log_append_time:
        return "log_append_time"
    return stored_difference(given.stored, wanted)


def stored_difference(given: bytes, wanted: AppendResult) -> str:
    """The first field in which the stored bytes differ from the predicted ones."""
    if given == wanted.stored or (wanted.path != "in place" and is_same_above_compression(given, wanted.stored)):
        return ""
    theirs, ours = cut(given), cut(wanted.stored)
    if len(theirs) != len(ours):
        return "stored entries"
    pairs = ((one, other) for one, other in zip(theirs, ours, strict=True) if one != other)
    one, other = next(pairs, (given, wanted.stored))
    return f"stored {entry_difference(one, other)}"


def is_same_above_compression(one: bytes, other: bytes) -> bool:
    """Whether two logs are equal after decompression."""
    try:
        return masked(one) == masked(other)
    except RecordFormatError:
        return False


def cut(data: bytes) -> list[bytes]:
    """The whole entries of *data* before the first error."""
    found: list[bytes] = []
    try:
        found.extend(data[start:end] for start, end in split_entries(data))
    except RecordFormatError:
        pass
    return found


def entry_difference(one: bytes, other: bytes) -> str:
    """The field in which two entries differ; `records` if it is none of the fixed ones."""
    if one[MAGIC_OFFSET] != other[MAGIC_OFFSET]:
        return "magic"
    layout = layout_of_magic(other[MAGIC_OFFSET])
    try:
        theirs, ours = layout.values(one), layout.values(other)
    except StructError:
        return "bytes"
    names = (name for name in ours if name not in LAST and theirs[name] != ours[name])
    return next(names, "records")
