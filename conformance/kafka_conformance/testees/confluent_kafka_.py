"""confluent-kafka, which is librdkafka, through a fake broker of ours.

It has no API for records, so a consumer is assigned a partition that serves
the bytes of the case, and a producer's requests are caught.  One consumer
reads case after case, each on a partition of its own, and is replaced after an
error, so that nothing is carried over.  By default librdkafka compares no
checksums; with `KAFKAPROOF_CHECK_CRCS=1` in the environment `check.crcs` is on
(known name `confluent-kafka-crc`).  (The module is not called
`confluent_kafka`, so that the two are not confused.)

The magic that a producer writes follows from the versions of Produce and Fetch
that a broker offers, so there is a fake broker for each.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, Literal, NoReturn

import confluent_kafka
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from msgspec import UNSET

from kafka_brokers.fake_broker import END, VERSIONS_BY_MAGIC, FakeBroker, Tape
from kafka_conformance.testees.client_parts import (
    EVERY_FORMAT,
    PARTITIONS,
    ConsumerBroker,
    ProducerBroker,
    check_expressible,
    encoded_headers,
    exception_text,
    header_text,
    partitions_in_turn,
)
from kafka_conformance.testees.interface import CodecError, NotDone
from kafka_conformance.testees.protocol import LEAKED, Aborted, CodecAnswer, Refusal
from kafka_corpus.wire import WireBatch, WireRecord, from_wire
from kafka_records import Batch, Kind

CHECKS_CRCS: Final = os.environ.get("KAFKAPROOF_CHECK_CRCS") == "1"
NAME = "confluent-kafka-crc" if CHECKS_CRCS else "confluent-kafka"


def release(reported: str | tuple[str, int]) -> str:
    """The release that the package reports: before 2.6 with its number beside it, as librdkafka does to this day."""
    return reported if isinstance(reported, str) else reported[0]


VERSION = f"{release(confluent_kafka.version())} (librdkafka {release(confluent_kafka.libversion())})"
DECODES = ENCODES = EVERY_FORMAT

TOPIC: Final = "cases"
POLL_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 10.0
# Of a batch that leaves in parts.
TRIES: Final = 5
# A payload of any case fits, and is sent as one.
MOST_BYTES: Final = 1_000_000_000
QUIET: Final[dict[str, Any]] = {"log_level": 0}

# Its error codes for bytes, and a part of the message where one code is for several; any other is of kind `other`.
KINDS: Final[tuple[tuple[int, str, Kind], ...]] = (
    (KafkaError._BAD_COMPRESSION, "", "decompression"),
    (KafkaError._NOT_IMPLEMENTED, "MagicByte", "unsupported_magic"),
    (KafkaError._NOT_IMPLEMENTED, "", "unsupported_compression"),
    (KafkaError._BAD_MSG, "CRC", "corrupt"),
    (KafkaError._BAD_MSG, "", "malformed"),
    # It found no whole message, and would fetch more bytes.
    (KafkaError.MSG_SIZE_TOO_LARGE, "", "truncated"),
)


def decode(_data: bytes) -> NoReturn:
    """Not supported: a consumer exposes no batches; see `consume`."""
    raise NotDone("a consumer exposes no batches")


class ConsumerReader:
    """A consumer, moved from case to case."""

    def __init__(self) -> None:
        self._broker = ConsumerBroker(partitions=PARTITIONS)
        self._consumer: Any = None
        self._partitions = partitions_in_turn()

    def read(self, data: bytes, aborted: Sequence[Aborted] = ()) -> CodecAnswer:
        """Read *data* with the *aborted* transactions; the consumer reads committed records by default.

        librdkafka drops about one response in a hundred of a new consumer, and fetches the same offset again: it
        gets the same bytes then, as from a broker.
        """
        partition = self._next_partition()
        tape = self._broker.serve(TOPIC, data, partition, aborted)
        self._consumer.assign([TopicPartition(TOPIC, partition, 0)])
        records: list[WireRecord] = []
        error = self._poll(records)
        self._broker.withdraw(TOPIC, partition)
        if error is not None:
            self._drop()
            return CodecAnswer(records=records, error=error)
        return CodecAnswer(records=records, next_offset=_position(tape), stalled=tape.stalled)

    def _next_partition(self) -> int:
        partition = next(self._partitions)
        if partition == 0:
            self._drop()
        if self._consumer is None:
            self._consumer = self._started()
        return partition

    def _started(self) -> Any:
        own: dict[str, Any] = {"group.id": "kafkaproof", "enable.auto.commit": False}
        if CHECKS_CRCS:
            own["check.crcs"] = True
        # After a batch that it cannot read it waits half a second, and fetches the same again.
        own["fetch.error.backoff.ms"] = 1
        return Consumer({"bootstrap.servers": self._broker.address, **QUIET, **own})

    def _drop(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _poll(self, records: list[WireRecord]) -> Refusal | None:
        """Fill *records* until the end of the tape, or the first error."""
        while True:
            message = self._consumer.poll(POLL_SECONDS)
            if message is None:
                continue
            if message.error() is not None:
                return refusal_of(message.error())
            if message.key() == END:
                return None
            try:
                records.append(_record(message))
            except Exception as leak:
                # SystemError, for headers that it cannot make text of: no error of librdkafka's, and not documented.
                return Refusal(LEAKED, exception_text(leak))


def _position(tape: Tape) -> Any:
    return UNSET if tape.position is None else tape.position


def _record(message: Any) -> WireRecord:
    kind, timestamp = message.timestamp()
    headers = encoded_headers(message.headers() or ())
    timestamp = -1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp
    return WireRecord(message.offset(), timestamp, message.key(), message.value(), headers)


def refusal_of(error: Any) -> Refusal:
    """librdkafka's error as one of ours."""
    return Refusal(_kind(error.code(), error.str()), f"{error.name()}: {error.str()}")


def _kind(code: int, text: str) -> Kind | Literal["other"]:
    return next((kind for own, part, kind in KINDS if own == code and part in text), LEAKED)


_reader: ConsumerReader | None = None


def consume(data: bytes) -> CodecAnswer:
    """The records that a consumer delivers of *data*."""
    return committed(data, ())


def committed(data: bytes, aborted: Sequence[Aborted]) -> CodecAnswer:
    """The records delivered when some transactions were *aborted*."""
    global _reader  # noqa: PLW0603  # one for the process, started when it is first wanted
    _reader = _reader or ConsumerReader()
    return _reader.read(data, aborted)


class ProducerWriter:
    """Producers by magic and compression, each on a fake broker of its magic."""

    def __init__(self) -> None:
        self._brokers: dict[int, ProducerBroker] = {}
        self._producers: dict[tuple[int, str], Any] = {}

    def write(self, wanted: Batch) -> bytes:
        """The bytes of the one request that *wanted* becomes.

        On a crowded machine some records may leave before the others are handed over; that is no fault of the
        writer, and does not happen again and again.
        """
        caught = self._requests(wanted)
        for _ in range(TRIES - 1):
            if len(caught) == 1:
                break
            caught = self._requests(wanted)
        if len(caught) != 1:
            raise CodecError("malformed", f"{len(caught)} requests for one batch")
        return caught[0]

    def _requests(self, wanted: Batch) -> list[bytes]:
        producer, broker = self._producer(wanted.magic, wanted.compression), self._brokers[wanted.magic]
        broker.caught()
        try:
            self._send(producer, wanted)
        except BaseException:
            # What it holds by now would go out with the next batch.
            del self._producers[wanted.magic, wanted.compression]
            producer.purge()
            raise
        return broker.caught()

    def _send(self, producer: Any, wanted: Batch) -> None:
        errors: list[Any] = []
        for record in wanted.records:
            producer.produce(
                TOPIC,
                partition=0,
                key=record.key,
                value=record.value,
                timestamp=record.timestamp,
                headers=[(header_text(header.key), header.value) for header in record.headers] or None,
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )
        if left := producer.flush(FLUSH_SECONDS):
            raise CodecError("malformed", f"{left} records were not sent")
        if errors:
            raise CodecError("malformed", errors[0].str())

    def _producer(self, magic: int, compression: str) -> Any:
        if magic not in self._brokers:
            self._brokers[magic] = ProducerBroker(magic)
        if (magic, compression) not in self._producers:
            self._producers[magic, compression] = self._started(self._brokers[magic], compression)
        return self._producers[magic, compression]

    def _started(self, broker: FakeBroker, compression: str) -> Any:
        # All records of a case go out together: it waits for more until it is flushed.
        waiting = {"linger.ms": 60_000, "batch.num.messages": 1_000_000, "batch.size": MOST_BYTES}
        waiting["message.max.bytes"] = MOST_BYTES
        plain = {"bootstrap.servers": broker.address, "compression.type": compression}
        return Producer({**plain, **QUIET, **waiting})


_writer = ProducerWriter()


def encode(batch: WireBatch) -> bytes:
    """The bytes that its producer sends for *batch*."""
    wanted = from_wire(batch)
    offsets = [record.offset for record in wanted.records]
    check_expressible(
        wanted,
        "producer",
        (wanted.magic not in VERSIONS_BY_MAGIC, "such a magic"),
        (offsets != list(range(len(offsets))), "other offsets than 0, 1, 2"),
        (wanted.base_offset != 0, "a base offset other than 0"),
        (offsets and wanted.last_offset not in (0, offsets[-1]), "an offset after the last record"),
        (wanted.producer_id != -1, "a producer id"),
        (wanted.transactional, "a transaction"),
        (any(record.timestamp == 0 for record in wanted.records), "the time 0, which means now"),
    )
    try:
        return _writer.write(wanted)
    except (KafkaException, BufferError) as error:
        raise CodecError("malformed", str(error)) from error


class ConfluentApplication:
    """A consumer in an application that goes on after errors (`edges.recovery`), with default settings."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, **QUIET})
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def poll(self, seconds: float) -> list[tuple[int, bytes | None, bytes | None]]:
        """Offset, key and value of the next record.  Raises `ConsumerFailure`."""
        message: Any = self._consumer.poll(seconds)
        if message is None:
            return []
        if message.error() is not None:
            raise ConsumerFailure(message)
        return [(message.offset(), message.key(), message.value())]

    def seek(self, offset: int) -> None:
        """Go on at *offset*."""
        self._consumer.seek(TopicPartition(self._topic, 0, offset))

    def position(self) -> int | None:
        """The offset of the next record; None before the first one."""
        (found,) = self._consumer.position([TopicPartition(self._topic, 0)])
        return found.offset if found.offset >= 0 else None


class ConsumerFailure(Exception):
    """The error of a message, with what the message says of its place."""

    def __init__(self, message: Any) -> None:
        super().__init__(f"{message.error().name()}: {message.error().str()}")
        self.topic: str | None = message.topic()
        self.partition: int | None = message.partition()
        self.offset: int | None = message.offset()
