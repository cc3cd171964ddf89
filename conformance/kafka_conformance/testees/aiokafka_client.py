"""aiokafka's own AIOKafkaConsumer and AIOKafkaProducer, through a fake broker of ours.

A consumer is assigned a partition that serves the bytes of the case, and is
iterated over, as its users do.  (Its iterator logs and swallows
`RecordTooLargeError`, and goes on one offset later.)  One consumer reads case
after case, each on a partition of its own, and is replaced after an error.

Only options that a case needs are set: the isolation level,
sizes for records that are to leave as one batch, and `enable_idempotence` for
a batch with a producer id.  With its Cython classes, or without them, as
`aiokafka_` describes.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from kafka_brokers.fake_broker import END
from kafka_conformance.testees.aiokafka_ import ENCODES as WRITTEN
from kafka_conformance.testees.aiokafka_ import PURE, aiokafka_error_kind
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
from kafka_records import Batch

NAME = "aiokafka-pure-client" if PURE else "aiokafka-client"
VERSION: str = aiokafka.__version__
DECODES = EVERY_FORMAT
ENCODES = WRITTEN

TOPIC: Final = "cases"
FLUSH_SECONDS: Final = 10.0

# Without a handler its warnings go to standard error.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())


def decode(_data: bytes) -> NoReturn:
    """Not supported: a consumer exposes no batches; see `consume`."""
    raise NotDone("a consumer exposes no batches")


class AiokafkaReader:
    """A consumer, moved from case to case."""

    def __init__(self, **options: Any) -> None:
        self._broker = ConsumerBroker(partitions=PARTITIONS)
        self._options = options
        self._consumer: Any = None
        self._partitions = partitions_in_turn()

    async def read(self, data: bytes, aborted: Sequence[Aborted] = ()) -> CodecAnswer:
        """The records that the consumer delivers of *data*; the broker names the *aborted* transactions."""
        partition = await self._next_partition()
        tape = self._broker.serve(TOPIC, data, partition, aborted)
        where = TopicPartition(TOPIC, partition)
        self._consumer.assign([where])
        self._consumer.seek(where, 0)
        records: list[Any] = []
        try:
            async for record in self._consumer:
                if record.key == END:
                    break
                records.append(record)
        except Exception as error:
            await self._drop()
            refusal = Refusal(aiokafka_error_kind(error), exception_text(error))
            return CodecAnswer(records=list(map(exposed_record, records)), error=refusal)
        finally:
            self._broker.withdraw(TOPIC, partition)
        return consumed(records, tape)

    async def _next_partition(self) -> int:
        partition = next(self._partitions)
        if partition == 0:
            await self._drop()
        if self._consumer is None:
            self._consumer = AIOKafkaConsumer(bootstrap_servers=self._broker.address, **self._options)
            await self._consumer.start()
        return partition

    async def close(self) -> None:
        """End the consumer, if there is one."""
        await self._drop()

    async def _drop(self) -> None:
        if self._consumer is not None:
            await self._consumer.stop()
            self._consumer = None


class AiokafkaWriter:
    """Producers by compression; one with a producer id writes one batch."""

    def __init__(self) -> None:
        self._broker = ProducerBroker()
        self._producers: dict[str, Any] = {}

    async def write(self, wanted: Batch) -> bytes:
        """The bytes of the one request that *wanted* becomes."""
        self._broker.caught()
        if wanted.producer_id != -1:
            self._broker.producer = (wanted.producer_id, wanted.producer_epoch)
            producer = await self._started(wanted, enable_idempotence=True)
            try:
                await self._send(producer, wanted)
            finally:
                await producer.stop()
            return one_request(self._broker.caught())
        key = wanted.compression
        if key not in self._producers:
            self._producers[key] = await self._started(wanted)
        try:
            await self._send(self._producers[key], wanted)
        except BaseException:
            # What it holds by now would go out with the next batch.
            await self._producers.pop(key).stop()
            raise
        return one_request(self._broker.caught())

    async def close(self) -> None:
        """End the producers."""
        for producer in self._producers.values():
            await producer.stop()

    async def _started(self, wanted: Batch, **options: Any) -> Any:
        sizes = {"max_batch_size": BATCH_SIZE, "max_request_size": BATCH_SIZE}
        codec = None if wanted.compression == "none" else wanted.compression
        options = options | sizes
        producer = AIOKafkaProducer(bootstrap_servers=self._broker.address, compression_type=codec, **options)
        await producer.start()
        # With the topic known, what is sent without a pause leaves as one batch.
        await producer.partitions_for(TOPIC)
        return producer

    async def _send(self, producer: Any, wanted: Batch) -> None:
        sent = [
            await producer.send(
                TOPIC,
                record.value,
                record.key,
                partition=0,
                timestamp_ms=record.timestamp,
                headers=[(header_text(header.key), header.value) for header in record.headers],
            )
            for record in wanted.records
        ]
        async with asyncio.timeout(FLUSH_SECONDS):
            await asyncio.gather(*sent)


# One of each for the process, started when it is first wanted.
_runner = asyncio.Runner()
_readers: dict[str, AiokafkaReader] = {}
_writers: list[AiokafkaWriter] = []


@atexit.register
def close() -> None:
    """End what was started; without that aiokafka warns at the end of the process."""
    for reader in _readers.values():
        _runner.run(reader.close())
    for writer in _writers:
        _runner.run(writer.close())
    _runner.close()


def consume(data: bytes) -> CodecAnswer:
    """The records that a consumer with default settings delivers of *data*."""
    if "" not in _readers:
        _readers[""] = AiokafkaReader()
    return _runner.run(_readers[""].read(data))


def committed(data: bytes, aborted: Sequence[Aborted]) -> CodecAnswer:
    """The records that a consumer with `isolation_level` delivers when some transactions were *aborted*."""
    level = "read_committed"
    if level not in _readers:
        _readers[level] = AiokafkaReader(isolation_level=level)
    return _runner.run(_readers[level].read(data, aborted))


def encode(batch: WireBatch) -> bytes:
    """The bytes that its producer sends for *batch*."""
    wanted = from_wire(batch)
    magic = wanted.magic != 2, "an old message: its producer writes v2"
    check_expressible(wanted, "producer", magic, without_content(wanted), *producer_limits(wanted))
    if not _writers:
        _writers.append(AiokafkaWriter())
    try:
        return _runner.run(_writers[0].write(wanted))
    except (KafkaError, AssertionError, ValueError, TypeError) as error:
        raise CodecError("malformed", exception_text(error)) from error


class AiokafkaApplication:
    """A consumer in an application that goes on after errors (`edges.recovery`), with default settings."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._partition = TopicPartition(topic, 0)
        self._consumer = _runner.run(self._started(bootstrap))

    async def _started(self, bootstrap: str) -> Any:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        consumer.assign([self._partition])
        consumer.seek(self._partition, 0)
        return consumer

    def poll(self, seconds: float) -> list[tuple[int, bytes | None, bytes | None]]:
        """Offset, key and value of the next record; as in `async for`, which swallows `RecordTooLargeError`, too."""
        return _runner.run(self._one(seconds))

    async def _one(self, seconds: float) -> list[tuple[int, bytes | None, bytes | None]]:
        try:
            async with asyncio.timeout(seconds):
                record = await anext(self._consumer)
        except TimeoutError:
            return []
        return [(record.offset, record.key, record.value)]

    def seek(self, offset: int) -> None:
        """Go on at *offset*."""
        self._consumer.seek(self._partition, offset)

    def position(self) -> int | None:
        """The offset of the next record."""
        return int(_runner.run(self._consumer.position(self._partition)))


class AiokafkaBatchApplication(AiokafkaApplication):
    """The same with `getmany`."""

    def poll(self, seconds: float) -> list[tuple[int, bytes | None, bytes | None]]:
        """Offset, key and value of the next records."""
        polled = _runner.run(self._consumer.getmany(timeout_ms=int(seconds * 1000)))
        return [(each.offset, each.key, each.value) for records in polled.values() for each in records]
