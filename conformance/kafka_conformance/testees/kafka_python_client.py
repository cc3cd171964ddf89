"""kafka-python's own KafkaConsumer and KafkaProducer, through a fake broker of ours.

A consumer is assigned a partition that serves the bytes of the case, and is
iterated over, as its users do.  One consumer reads case after case, each on a
partition of its own, and is replaced after an error.

An error is not all that its user gets: after an exception in a batch, release
3.0.12 never returns from the next `poll`, whatever its timeout, as
`Fetcher.fetched_records` reads from the exhausted records again and again.  So it is
polled once more, and an answer says `stalled` beside the error if this poll
does not return.

Only options that a case needs are set: the isolation level, a
linger and a batch size for records that are to leave as one batch, and
`enable_idempotence=False` for a batch without a producer id.  The magic that a
producer writes follows from `api_version`.  An older release has fewer options:
without `isolation_level` it reads no committed records, without
`enable_idempotence` it writes no producer ids.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, NoReturn

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from kafka_brokers.fake_broker import END, wanted_produce_version
from kafka_conformance.testees import kafka_python
from kafka_conformance.testees.client_parts import (
    BATCH_SIZE,
    EVERY_FORMAT,
    PARTITIONS,
    ConsumerBroker,
    ProducerBroker,
    check_expressible,
    consumed,
    exception_text,
    exposed_record,
    header_text,
    one_request,
    partitions_in_turn,
    producer_limits,
    without_content,
)
from kafka_conformance.testees.interface import CodecError, NotDone
from kafka_conformance.testees.protocol import Aborted, CodecAnswer, Refusal
from kafka_corpus.wire import WireBatch, from_wire
from kafka_records import Batch, Kind
from kafka_records.constants import MAGIC_VALUE_V2

NAME = "kafka-python-client"
VERSION: str = kafka.__version__
DECODES = ENCODES = EVERY_FORMAT

TOPIC: Final = "cases"
FLUSH_SECONDS: Final = 10.0
LINGER_MS: Final = 60_000
# A poll with a timeout of 0 gives 500 records at most, and makes some 30 calls for each.
MOST_CALLS: Final = 100_000
IDEMPOTENT: Final = "enable_idempotence" in KafkaProducer.DEFAULT_CONFIG
# The release of a broker for which its producer writes a magic; it finds 2 out by itself.
API_VERSIONS: Final[dict[int, dict[str, Any]]] = {0: {"api_version": (0, 9)}, 1: {"api_version": (0, 10)}, 2: {}}


def decode(_data: bytes) -> NoReturn:
    """Not supported: a consumer exposes no batches; see `consume`."""
    raise NotDone("a consumer exposes no batches")


def consumer_error_kind(error: Exception) -> Kind | Literal["other"]:
    """The kind of an exception of the consumer: that of the codec, or that it found no whole batch."""
    if isinstance(error, KafkaError) and "no complete records were found" in str(error):
        return "truncated"
    return kafka_python.record_error_kind(error)


class _Endless(BaseException):
    """A call made too many calls of its own."""


def returns(call: Callable[[], object]) -> bool:
    """Whether *call* returns, or raises, within `MOST_CALLS` calls of functions; time plays no part."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"
        if calls > MOST_CALLS:
            raise _Endless

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        call()
    except _Endless:
        return False
    except Exception:
        return True
    finally:
        sys.setprofile(before)
    return True


class KafkaPythonReader:
    """A consumer, moved from case to case."""

    def __init__(self, **options: Any) -> None:
        self._broker = ConsumerBroker(partitions=PARTITIONS)
        self._options = options
        self._consumer: Any = None
        self._partitions = partitions_in_turn()

    def read(self, data: bytes, aborted: Sequence[Aborted] = ()) -> CodecAnswer:
        """The records that the consumer delivers of *data*; the broker names the *aborted* transactions."""
        partition = self._next_partition()
        tape = self._broker.serve(TOPIC, data, partition, aborted)
        where = TopicPartition(TOPIC, partition)
        self._consumer.assign([where])
        self._consumer.seek(where, 0)
        records: list[Any] = []
        try:
            for record in self._consumer:
                if record.key == END:
                    break
                records.append(record)
        except Exception as error:
            stuck = not returns(lambda: self._consumer.poll(timeout_ms=0))
            self._drop()
            refusal = Refusal(consumer_error_kind(error), exception_text(error))
            return CodecAnswer(records=list(map(exposed_record, records)), error=refusal, stalled=stuck)
        finally:
            self._broker.withdraw(TOPIC, partition)
        return consumed(records, tape)

    def _next_partition(self) -> int:
        partition = next(self._partitions)
        if partition == 0:
            self._drop()
        if self._consumer is None:
            self._consumer = KafkaConsumer(bootstrap_servers=self._broker.address, **self._options)
        return partition

    def _drop(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


_readers: dict[str, KafkaPythonReader] = {}


def consume(data: bytes) -> CodecAnswer:
    """The records that a consumer with default settings delivers of *data*."""
    if "" not in _readers:
        _readers[""] = KafkaPythonReader()
    return _readers[""].read(data)


def _committed(data: bytes, aborted: Sequence[Aborted]) -> CodecAnswer:
    """The records that a consumer with `isolation_level` delivers when some transactions were *aborted*."""
    level = "read_committed"
    if level not in _readers:
        _readers[level] = KafkaPythonReader(isolation_level=level)
    return _readers[level].read(data, aborted)


if "isolation_level" in KafkaConsumer.DEFAULT_CONFIG:
    committed = _committed


class KafkaPythonWriter:
    """Producers by magic and compression; one with a producer id writes one batch."""

    def __init__(self) -> None:
        self._broker = ProducerBroker()
        self._producers: dict[tuple[int, str], Any] = {}

    def write(self, wanted: Batch) -> bytes:
        """The bytes of the one request that *wanted* becomes."""
        self._broker.caught()
        if wanted.producer_id != -1:
            self._broker.producer = (wanted.producer_id, wanted.producer_epoch)
            producer = self._started(wanted, enable_idempotence=True)
            try:
                self._send(producer, wanted)
            finally:
                _abandon(producer)
            return one_request(self._broker.caught())
        key = wanted.magic, wanted.compression
        if key not in self._producers:
            plain = {"enable_idempotence": False} if IDEMPOTENT else {}
            self._producers[key] = self._started(wanted, **plain)
        try:
            self._send(self._producers[key], wanted)
        except BaseException:
            # What it holds by now would go out with the next batch.
            _abandon(self._producers.pop(key))
            raise
        return one_request(self._broker.caught())

    def _started(self, wanted: Batch, **options: Any) -> Any:
        # All records of a case go out together: it waits for more until it is flushed.
        one = {"linger_ms": LINGER_MS, "batch_size": BATCH_SIZE, "max_request_size": BATCH_SIZE}
        if "buffer_memory" in KafkaProducer.DEFAULT_CONFIG:
            # Before 2.2 it holds what waits, a batch of the largest size at least.
            one["buffer_memory"] = BATCH_SIZE
        codec = None if wanted.compression == "none" else wanted.compression
        # It chooses the magic by the release; of magic 2, a wanted version is one that it negotiates.
        guesses = wanted_produce_version() is not None and wanted.magic == MAGIC_VALUE_V2
        options = options | one | ({} if guesses else API_VERSIONS[wanted.magic])
        return KafkaProducer(bootstrap_servers=self._broker.address, compression_type=codec, **options)

    def _send(self, producer: Any, wanted: Batch) -> None:
        sent = [
            producer.send(
                TOPIC,
                record.value,
                record.key,
                headers=[(header_text(header.key), header.value) for header in record.headers],
                partition=0,
                # v0 has no timestamps.
                timestamp_ms=None if wanted.magic == 0 else record.timestamp,
            )
            for record in wanted.records
        ]
        producer.flush(FLUSH_SECONDS)
        for each in sent:
            each.get(FLUSH_SECONDS)


def _abandon(producer: Any) -> None:
    """Close *producer* without sending the records that it holds, of which it complains."""
    with suppress(KafkaError):
        producer.close(timeout=0)


_writer: KafkaPythonWriter | None = None


def encode(batch: WireBatch) -> bytes:
    """The bytes that its producer sends for *batch*."""
    global _writer  # noqa: PLW0603  # one for the process, started when it is first wanted
    wanted = from_wire(batch)
    magic = wanted.magic not in API_VERSIONS, "such a magic"
    producer = not IDEMPOTENT and wanted.producer_id != -1, "a producer id"
    nulls = any(header.value is None for record in wanted.records for header in record.headers)
    own = magic, without_content(wanted), (nulls, "a header without a value"), producer
    check_expressible(wanted, "producer", *own, *producer_limits(wanted))
    _writer = _writer or KafkaPythonWriter()
    try:
        return _writer.write(wanted)
    except (KafkaError, ValueError, TypeError) as error:
        raise CodecError("malformed", exception_text(error)) from error


class KafkaPythonApplication:
    """A consumer in an application that goes on after errors (`edges.recovery`), with default settings."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._partition = TopicPartition(topic, 0)
        self._consumer = KafkaConsumer(bootstrap_servers=bootstrap)
        self._consumer.assign([self._partition])
        self._consumer.seek(self._partition, 0)

    def poll(self, seconds: float) -> list[tuple[int, bytes | None, bytes | None]]:
        """Offset, key and value of the next records."""
        polled = self._consumer.poll(timeout_ms=int(seconds * 1000))
        return [(each.offset, each.key, each.value) for records in polled.values() for each in records]

    def seek(self, offset: int) -> None:
        """Go on at *offset*."""
        self._consumer.seek(self._partition, offset)

    def position(self) -> int | None:
        """The offset of the next record."""
        return int(self._consumer.position(self._partition))
