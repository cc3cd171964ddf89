"""Run a scenario on one partition of a broker, step by step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from threading import Lock
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET

from kafka_brokers.interface import Broker
from kafka_brokers.scenarios.normalize import Normal, now_ms
from kafka_brokers.wire import (
    BrokerError,
    Client,
    ConnectionClosed,
    GarbledResponse,
    Produced,
    Silent,
    TopicPartition,
    tables,
)
from kafka_brokers.wire.client import PAUSE
from kafka_brokers.wire.partitions import Fetched
from kafka_brokers.wire.transactions import (
    Exchanged,
    Producer,
    add_partitions,
    init_producer_id,
    once_verified,
    send_end_transaction,
    send_marker,
)
from kafka_corpus.authoring.build import signed
from kafka_corpus.prediction import step_payload
from kafka_corpus.scenario import (
    ISOLATION,
    Aborted,
    AddPartitions,
    EndTransaction,
    Fetch,
    FindOffset,
    InitProducerId,
    Produce,
    Scenario,
    Step,
    StepAnswer,
    WriteMarker,
    producer_id,
)
from kafka_records import RecordFormatError
from kafka_records.constants import MAGIC_VALUE_V2
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET, MESSAGE_V0
from kafka_records.log import split_entries

Answered = TypeVar("Answered")

# At a time; one more topic is a request of some ten milliseconds, or a Java process on old releases.
AT_ONCE: Final = 64
# Enough for small records, and a broker has thousands of partitions here.
SMALL: Final = {"segment.index.bytes": "16384"}


def producers_beside(scenario: Scenario) -> set[int]:
    """The producer ids of batches that a scenario sends as they are, beside those that get an id of the broker."""
    steps = [step for step in scenario.steps if isinstance(step, Produce)]
    payloads = [step.beside for step in steps] + [step.data for step in steps if not step.producer]
    return {id_ for payload in payloads if payload is not UNSET for id_ in _producers_of(payload)}


def _producers_of(data: bytes) -> set[int]:
    """The producer ids in the batches of *data*; none after bytes that are no entry."""
    field, found = BATCH_V2.field("producer_id"), set()
    try:
        for start, end in split_entries(data):
            if data[start + MAGIC_OFFSET] == MAGIC_VALUE_V2:
                entry = data[start:end]
                found.add(int.from_bytes(entry[field.offset : field.offset + field.width], "big", signed=True))
    except RecordFormatError:
        pass
    return found


class Fresh:
    """Hands out partitions to any thread, and takes back those that stayed empty.

    `taken` counts how often one was handed out; one that came back in between counts again.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        prefix: str,
        at_once: int = AT_ONCE,
        settings: Mapping[str, str] = SMALL,
        names: list[str] | None = None,
    ) -> None:
        """Topics are called *prefix* and a number, which *names* gets, and have *at_once* partitions and *settings*."""
        self._topics = [] if names is None else names
        self._broker = broker
        self._prefix = prefix
        self._at_once = at_once
        self._settings = settings
        self._names = count()
        self._left: dict[tuple[tuple[str, str], ...], list[TopicPartition]] = {}
        self._lock = Lock()
        self.taken = 0

    def take(self, config: Mapping[str, str], number: int = 1) -> list[TopicPartition]:
        """Partitions of topics with that *config*.

        Raises:
            BrokerError: the broker does not take the settings.
        """
        with self._lock:
            left = self._left.setdefault(tuple(sorted(config.items())), [])
            while len(left) < number:
                topic = f"{self._prefix}-{next(self._names)}"
                self._topics.append(topic)
                self._broker.create_topics({topic: self._at_once}, {**self._settings, **config})
                left[:0] = [TopicPartition(topic, index) for index in reversed(range(self._at_once))]
            self.taken += number
            return [left.pop() for _ in range(number)]

    def give_back(self, config: Mapping[str, str], partition: TopicPartition) -> None:
        """*partition* is still empty."""
        with self._lock:
            self._left[tuple(sorted(config.items()))].append(partition)


# Seconds for a marker to get from the coordinator to the partition.
MARKER_LIMIT: Final = 10.0
CLEANER_LIMIT: Final = 5.0
IMPATIENT: Final = 0.2
# Seconds until a request without records is taken for one that is never answered.
NULL_LIMIT: Final = 3.0
RETENTION: Final = "delete.retention.ms"
LARGEST_BATCH: Final = "max.message.bytes"


class CannotPlay(Exception):
    """A step that this broker cannot be brought to: its disk is not ours, it has no such request."""


@dataclass(slots=True)
class WaitLimits:
    """How long a marker and the cleaner (in seconds), and a fetch (in milliseconds) may take; shared by all played.

    A fetch that may wait demands no bytes, so Kafka answers it at once, too.  A cleaner that has not begun by then
    keeps away from the partition (CLN-24, CLN-25).
    """

    seconds: float = MARKER_LIMIT
    cleaner: float = CLEANER_LIMIT
    fetch_ms: int = 0

    def fetch_fields(self) -> dict[str, int]:
        """The fields of fetch requests that say so."""
        return {"max_wait_ms": self.fetch_ms} | ({"min_bytes": 0} if self.fetch_ms else {})


class ScenarioRunner:
    """A broker, a connection to it and a partition of its own for one scenario."""

    def __init__(
        self,
        broker: Broker,
        client: Client,
        scenario: Scenario,
        partitions: list[TopicPartition],
        wait_limits: WaitLimits | None = None,
    ) -> None:
        """*partitions* are empty; the second is for payloads that go beside others."""
        self.wait_limits = wait_limits or WaitLimits()
        self.broker = broker
        self.client = client
        self.partition, *self._beside = partitions
        self.end = 0
        self.answers: list[StepAnswer] = []
        self._scenario = scenario
        self._producers: dict[str, Producer] = {}
        # Appended to the transactional id of a producer that had to be another one.
        self._suffixes: dict[str, str] = {}
        retention = scenario.config.get(RETENTION)
        normal = Normal(now_ms(), {})
        self.normal = normal if retention is None else replace(normal, retention=int(retention))

    @property
    def largest_batch(self) -> int | None:
        """The largest batch that the scenario's topic takes, where it says so."""
        largest = self._scenario.config.get(LARGEST_BATCH)
        return None if largest is None else int(largest)

    def play(self, more: Ways | None = None, *, stop: Stop | None = None) -> tuple[StepAnswer, ...]:
        """The answers to all steps, or to those before *stop* is true of the last one.

        *more* are ways to carry out further kinds of steps.

        Raises:
            CannotPlay: a step that is not for this broker.
            WireError: the broker is gone, or does not answer.
        """
        self.play_until((), more, stop=stop)
        return tuple(self.answers)

    def play_until(self, kinds: tuple[type, ...], more: Ways | None = None, *, stop: Stop | None = None) -> Step | None:
        """Play up to the next step of *kinds*, which is given and left to the caller; None at the end, or at *stop*.

        Raises:
            CannotPlay: a step that is not for this broker.
            WireError: the broker is gone, or does not answer.
        """
        ways = {**_WAYS, **(more or {})}
        for step in self._scenario.steps[len(self.answers) :]:
            if isinstance(step, kinds):
                return step
            self.answers.append(self._answer(ways, step))
            if stop is not None and stop(self.answers):
                return None
        return None

    def _answer(self, ways: Ways, step: Step) -> StepAnswer:
        way = ways.get(type(step))
        if way is None:
            raise CannotPlay(type(step).__name__)
        try:
            return way(self, step)
        except BrokerError as error:
            return StepAnswer(error_code=error.code)

    def produce(self, step: Produce) -> StepAnswer:
        """Produce, and fetch back what it added to the log."""
        if step.is_null():
            return self._produce_null(step)
        where = TopicPartition(step.topic, 0) if step.topic else self.partition
        given = self._exchanged(step, where)
        if isinstance(given, ConnectionClosed):
            return StepAnswer(closed=True)
        if given is None:
            return StepAnswer(data=self.added())
        answer = self._produced(_of(where, given, "Produce"))
        if step.beside is not UNSET:
            beside = _of(self._beside[0], given, "Produce")
            answer = msgspec.structs.replace(answer, beside=beside.error_code)
        return answer

    def _exchanged(self, step: Produce, where: TopicPartition) -> Exchanged:
        """The answers to the request of a step; None where there is none to it."""
        payloads = {where: self._signed(step, step_payload(step))}
        if step.beside is not UNSET:
            payloads[self._beside[0]] = step.beside
        version = min(step.api_version, self.client.newest(tables.PRODUCE))
        fields: dict[str, Any] = {"acks": step.acks}
        if step.transactional:
            fields["transactional_id"] = self._transactional_id(step.producer)
        if step.again is UNSET and step.transactional:
            return once_verified(where, payloads, lambda sent: self.client.produce(sent, version, **fields))
        if step.again is UNSET:
            return self.client.produce(payloads, version, **fields)
        request = self.client.produce_request(payloads, version, **fields)
        twice = {"index": where.partition, "records": step.again}
        request.body["topic_data"][0]["partition_data"].append(twice)
        answer = next(self.client.exchange((request,)))
        return self.client.read_produced(answer) if isinstance(answer, dict) else answer

    def _produce_null(self, step: Produce) -> StepAnswer:
        """On a connection of its own, which has no further use if nothing comes (HDR-25)."""
        version = min(step.api_version, self.client.newest(tables.PRODUCE))
        with Client(self.broker.bootstrap, time_limit=NULL_LIMIT, ranges=self.client.ranges()) as client:
            try:
                given = client.produce({self.partition: None}, version)
            except Silent:
                return StepAnswer(silent=True)
        if not isinstance(given, dict):
            return StepAnswer(closed=True)
        return self._produced(_of(self.partition, given, "Produce"))

    def _produced(self, given: Produced) -> StepAnswer:
        return StepAnswer(
            error_code=given.error_code,
            base_offset=-1 if given.error_code else given.base_offset,
            log_append_time=self.normal.time(given.log_append_time),
            record_errors=tuple(index for index, _ in given.record_errors),
            data=b"" if given.error_code else self.added(),
        )

    def added(self) -> bytes:
        """Bytes of the log after the known end; moves the known end."""
        found = self._fetch(self.end, tables.FETCH.newest)
        if isinstance(found, ConnectionClosed):
            raise GarbledResponse(f"Fetch of what was stored: the connection is closed: {found.how}")
        self.end = _end_of(found.records, self.end)
        return self.normal.log(found.records)

    def _fetch(self, offset: int, version: int, isolation: int = 0, **fields: Any) -> Fetched | ConnectionClosed:
        version = min(version, self.client.newest(tables.FETCH))
        fields |= self.wait_limits.fetch_fields()
        given = self.client.fetch({self.partition: offset}, version, isolation_level=isolation, **fields)
        return given if isinstance(given, ConnectionClosed) else _of(self.partition, given, "Fetch")

    def _signed(self, step: Produce, payload: bytes) -> bytes:
        """*payload* with the id and epoch of the step's producer in each batch."""
        if not step.producer:
            return payload
        id_, epoch = self._producers[step.producer]
        return signed(payload, id_, epoch - step.epochs_back)

    def _transactional_id(self, alias: str) -> str:
        return f"{self.partition.topic}-{self.partition.partition}-{alias}{self._suffixes.get(alias, '')}"

    def init_producer_id(self, step: InitProducerId) -> StepAnswer:
        """Ask for an id, or the next epoch.

        Brokers count ids up, so that one can be that of data which the scenario sends beside this producer's: then
        a further producer takes its place.
        """
        name = self._transactional_id(step.producer) if step.transactional else None
        known = step.producer in self._producers
        producer = init_producer_id(self.client, name)
        if not known and producer.producer_id in producers_beside(self._scenario):
            self._suffixes[step.producer] = "-further"
            return self.init_producer_id(step)
        self._producers[step.producer] = producer
        if not known:
            index = producer_id(len(self.normal.producers))
            self.normal = replace(self.normal, producers={**self.normal.producers, producer.producer_id: index})
        return StepAnswer()

    def add_partitions(self, step: AddPartitions) -> StepAnswer:
        """Add our partition."""
        producer = self._producers[step.producer]
        codes = add_partitions(self.client, self._transactional_id(step.producer), producer, [self.partition])
        return StepAnswer(error_code=codes[self.partition])

    def end_transaction(self, step: EndTransaction) -> StepAnswer:
        """Commit or abort, and wait for the marker."""
        producer = self._producers[step.producer]
        name = self._transactional_id(step.producer)
        self._producers[step.producer] = send_end_transaction(self.client, name, producer, commit=step.commit)
        limit = time.monotonic() + self.wait_limits.seconds
        while not (marker := self.added()) and time.monotonic() < limit:
            time.sleep(PAUSE)
        if not marker:
            # A broker that writes none will write none the next time.
            self.wait_limits.seconds = IMPATIENT
        return StepAnswer(data=marker)

    def write_marker(self, step: WriteMarker) -> StepAnswer:
        """Write a marker as the coordinator would."""
        producer = self._producers[step.producer]
        code = send_marker(
            self.client,
            self.partition,
            producer._replace(producer_epoch=producer.producer_epoch + step.epochs_ahead),
            commit=step.commit,
            coordinator_epoch=step.coordinator_epoch,
            transaction_version=step.transaction_version,
        )
        return StepAnswer(error_code=code, data=b"" if code else self.added())

    def fetch(self, step: Fetch) -> StepAnswer:
        """Fetch what the step says."""
        limits = {} if step.max_bytes is UNSET else {"partition_max_bytes": step.max_bytes}
        given = self._fetch(step.offset, step.api_version, ISOLATION[step.isolation], **limits)
        if isinstance(given, ConnectionClosed):
            return StepAnswer(closed=True)
        return StepAnswer(
            error_code=given.error_code,
            data=self.normal.log(given.records),
            high_watermark=given.high_watermark,
            last_stable_offset=given.last_stable_offset,
            aborted=tuple(Aborted(self.normal.producer(who), first) for who, first in given.aborted or ()),
        )

    def find_offset(self, step: FindOffset) -> StepAnswer:
        """Ask for the offset of a time."""
        return StepAnswer(base_offset=self.client.offset(self.partition, step.timestamp, ISOLATION[step.isolation]))


Stop = Callable[[Sequence[StepAnswer]], bool]
Ways = Mapping[type, Callable[[ScenarioRunner, Any], StepAnswer]]
_WAYS: Final[Ways] = {
    Produce: ScenarioRunner.produce,
    InitProducerId: ScenarioRunner.init_producer_id,
    AddPartitions: ScenarioRunner.add_partitions,
    EndTransaction: ScenarioRunner.end_transaction,
    WriteMarker: ScenarioRunner.write_marker,
    Fetch: ScenarioRunner.fetch,
    FindOffset: ScenarioRunner.find_offset,
}


def _of(where: TopicPartition, given: Mapping[TopicPartition, Answered], about: str) -> Answered:
    """The answer for *where*; a broker may answer for other partitions, or for none."""
    if where not in given:
        raise GarbledResponse(f"{about}: no answer for the partition that the request names")
    return given[where]


def _end_of(records: bytes, end: int) -> int:
    """The offset after the last entry of *records*; *end* if there is none."""
    for start, _ in _whole(records):
        layout = BATCH_V2 if records[start + MAGIC_OFFSET] == 2 else MESSAGE_V0
        header = layout.values(records, start)
        end = header["base_offset"] + header["last_offset_delta"] + 1 if layout is BATCH_V2 else header["offset"] + 1
    return end


def _whole(records: bytes) -> Iterator[tuple[int, int]]:
    """The entries of *records*, up to the first that is none: a broker may store anything."""
    try:
        yield from split_entries(records)
    except RecordFormatError:
        return
