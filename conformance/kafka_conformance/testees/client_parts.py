"""Shared parts of the adapters of clients: names, records, and batches that a writer has no way to express.

As a program, `python -m kafka_conformance.testees.client_parts MODULE:CLASS`, it is the application of a consumer in
Python that goes on after errors (`edges.recovery`).
"""

from __future__ import annotations

import json
import os
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import cycle
from typing import Any, ClassVar, Final, Protocol

from msgspec import UNSET

from kafka_brokers.fake_broker import (
    SESSIONS,
    VERSIONS,
    VERSIONS_BY_MAGIC,
    FakeBroker,
    Tape,
    Versions,
    magic_of_fetch,
    magic_of_produce,
    wanted_fetch_version,
    wanted_produce_version,
    with_fetch_version,
)
from kafka_brokers.wire import tables
from kafka_brokers.wire.schema import Message
from kafka_conformance.testees.interface import CodecError, NotDone
from kafka_conformance.testees.protocol import Capability, CodecAnswer
from kafka_corpus.wire import WireRecord
from kafka_records import Batch, Record
from kafka_records.constants import (
    COMPRESSIONS,
    INT64_MAX,
    MAGIC_VALUE_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
)

EVERY_FORMAT: Final = Capability([0, 1, 2], list(COMPRESSIONS))
TIMESTAMP_TYPES: Final[dict[int | None, str]] = {None: "none", 0: "create", 1: "append"}
# Bytes; room for anything that a case holds, so that `append` never says that the batch is full.
BATCH_SIZE: Final = 1 << 30
LARGEST_EPOCH: Final = (1 << 15) - 1


# The first Fetch version in which brokers send zstd, and the first Produce version in which they take it (KIP-110).
ZSTD_FETCH: Final = 10
ZSTD_PRODUCE: Final = 7
# Of the topic of a consumer that is moved from case to case; when all were used, another consumer begins again.
PARTITIONS: Final = 500
# Milliseconds.
AFTER_END_MS: Final = 20
FIRST_TIME: Final = 1_700_000_000_000
# One record, by magic: what a client gets first.
FIRST: Final = {
    magic: Batch(
        magic=magic,
        base_offset=0,
        last_offset=0,
        timestamp_type="create" if magic else "none",
        records=(Record(0, 0 if magic else NO_TIMESTAMP, None, b"first"),),
    )
    for magic in (0, 1, 2)
}


# One record at a time that no client takes for "now": what a producer is given first, by magic.
FIRST_PRODUCED: Final = {
    magic: replace(
        FIRST[magic],
        max_timestamp=FIRST_TIME if magic else NO_TIMESTAMP,
        records=(Record(0, FIRST_TIME if magic else NO_TIMESTAMP, b"key", b"first"),),
    )
    for magic in FIRST
}


class ConsumerBroker(FakeBroker):
    """The fake broker for consumers: with the Fetch version that the environment wants, where it wants one.

    From version 7 on there are fetch sessions then, as releases that have it keep them.  The first fetch after the end
    record waits `AFTER_END_MS` at most: a consumer that is closed for each case often waits for the response to it.
    """

    _all: ClassVar[list[ConsumerBroker]] = []
    _ended: Tape | None = None

    def __init__(self, *, versions: Versions = VERSIONS, partitions: int = 1) -> None:
        wanted = wanted_fetch_version()
        offered = versions if wanted is None else with_fetch_version(versions, wanted)
        super().__init__(versions=offered, partitions=partitions, sessions=wanted is not None and wanted >= SESSIONS)
        self._all.append(self)

    def _fetch(self, version: int, body: Message) -> Message:
        tape = self._newest
        if tape is not None and tape.position is not None and tape is not self._ended:
            self._ended = tape
            body = {**body, "max_wait_ms": min(body["max_wait_ms"], AFTER_END_MS)}
        return super()._fetch(version, body)

    @classmethod
    def all_fetched(cls) -> set[int]:
        """The Fetch versions that came to any broker of this process."""
        return {version for each in cls._all for version in list(each.fetched)}


def partitions_in_turn() -> Iterator[int]:
    """The partitions, again and again, also where a new consumer begins.

    A fetch of the consumer before may still wait for bytes of its last partition, and would count for the next case.
    """
    return cycle(range(PARTITIONS))


class ProducerBroker(FakeBroker):
    """The fake broker for producers, of one magic or of any: with the Produce version that the environment wants."""

    _all: ClassVar[list[ProducerBroker]] = []

    def __init__(self, magic: int | None = None) -> None:
        wanted = wanted_produce_version()
        versions = VERSIONS if magic is None else VERSIONS_BY_MAGIC[magic]
        super().__init__(versions=versions if wanted is None else writer_versions(wanted))
        self._all.append(self)

    @classmethod
    def all_produced(cls) -> set[int]:
        """The Produce versions that came to any broker of this process."""
        return {version for each in cls._all for version in list(each.produced)}


def writer_versions(newest: int) -> Versions:
    """The offer of a broker that has Produce up to *newest*: producers write the magic of that version."""
    versions = VERSIONS_BY_MAGIC[magic_of_produce(newest)]
    return {**versions, tables.PRODUCE: (versions[tables.PRODUCE][0], newest)}


def sent_in(version: int) -> Capability:
    """The formats that brokers send in that Fetch version (KIP-32, KIP-98, KIP-110): others they convert, or refuse."""
    compressions: list[str] = [each for each in COMPRESSIONS if each != "zstd" or version >= ZSTD_FETCH]
    return Capability(list(range(magic_of_fetch(version) + 1)), compressions)


def narrowed(announced: Capability, version: int) -> Capability:
    """The formats of *announced* that a client can get in a Fetch version; empty lists announce all."""
    sent = sent_in(version)
    return Capability(
        [each for each in sent.magics if each in announced.magics or not announced.magics],
        [each for each in sent.compressions if each in announced.compressions or not announced.compressions],
    )


def compression_name(number: int) -> str:
    """The name of a codec; the number itself where there is no such codec."""
    return COMPRESSIONS[number] if number < len(COMPRESSIONS) else f"{number}"


def exception_text(error: Exception) -> str:
    """The class and the message of an exception."""
    return f"{type(error).__name__}: {error}"


def typed_records(batch: Any, exposed: Callable[[Any], WireRecord]) -> tuple[str, list[WireRecord]]:
    """The timestamp type and the records of a decoder's *batch*; the type is that of a record with another one.

    A record without a timestamp has no type.
    """
    types: set[Any] = set()
    records = []
    for record in batch:
        types.add(record.timestamp_type)
        records.append(exposed(record))
    others = types - {None, batch.timestamp_type}
    return TIMESTAMP_TYPES[next(iter(others), batch.timestamp_type)], records


def encoded_headers(headers: Iterable[tuple[str, bytes | None]]) -> list[Any]:
    """Headers whose keys the client gives as text: bytes that are not UTF-8 are lost."""
    return [(key.encode(), value) for key, value in headers]


def exposed_record(record: Any) -> WireRecord:
    """A record of a decoder or a consumer; its timestamp of None is Kafka's -1, no timestamp."""
    timestamp = NO_TIMESTAMP if record.timestamp is None else record.timestamp
    return WireRecord(record.offset, timestamp, record.key, record.value, encoded_headers(record.headers))


def consumed(records: Iterable[Any], tape: Tape) -> CodecAnswer:
    """The answer of a consumer that delivered *records*, and then read the end of *tape*."""
    position = UNSET if tape.position is None else tape.position
    return CodecAnswer(records=list(map(exposed_record, records)), next_offset=position, stalled=tape.stalled)


def header_text(key: bytes | None) -> str:
    """A header key as text.  Raises `NotDone` if it is not UTF-8, or null."""
    if key is None:
        raise NotDone("header keys are text in its API, and this one is null")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise NotDone("header keys are text in its API; these bytes are not UTF-8") from None


def check_expressible(wanted: Batch, writer: str, *own: tuple[object, str]) -> None:
    """Raise `NotDone` if one of *own*, or of the features that no client's *writer* has, is true for *wanted*."""
    produce = wanted_produce_version()
    for unusual, what in (
        (produce is not None and magic_of_produce(produce) != wanted.magic, f"this magic in Produce {produce}"),
        *own,
        (wanted.partition_leader_epoch != -1, "a partition leader epoch"),
        (wanted.timestamp_type == "append", "LogAppendTime"),
        (wanted.timestamp_type == "none" and wanted.magic > 0, "records without timestamps"),
        (wanted.control, "a control batch"),
        (wanted.delete_horizon is not None, "a delete horizon"),
        (not wanted.records, "a batch without records"),
    ):
        if unusual:
            raise NotDone(f"its {writer} does not offer {what}")


def counted_offsets(wanted: Batch) -> list[tuple[object, str]]:
    """The offsets that clients do not take but count from 0, for `check_expressible`."""
    offsets = [record.offset for record in wanted.records]
    return [
        (offsets != list(range(len(offsets))), "other offsets than 0, 1, 2"),
        (wanted.base_offset != 0, "a base offset other than 0"),
        (offsets and wanted.last_offset not in (0, offsets[-1]), "an offset after the last record"),
    ]


def producer_limits(wanted: Batch) -> list[tuple[object, str]]:
    """The features of a batch that an idempotent producer decides by itself, for `check_expressible`."""
    none = wanted.producer_id == NO_PRODUCER_ID
    return [
        (wanted.transactional, "a transaction without a transaction coordinator"),
        (wanted.magic < MAGIC_VALUE_V2 and not none, "a producer id in an old message"),
        (not NO_PRODUCER_ID <= wanted.producer_id <= INT64_MAX, "a producer id below 0 or above an int64"),
        (none and wanted.producer_epoch != NO_PRODUCER_EPOCH, "an epoch without a producer id"),
        (none and wanted.base_sequence != NO_SEQUENCE, "a sequence without a producer id"),
        (not none and not 0 <= wanted.producer_epoch <= LARGEST_EPOCH, "a producer epoch below 0 or above an int16"),
        (not none and wanted.base_sequence != 0, "a base sequence other than 0"),
        *counted_offsets(wanted),
    ]


def without_content(wanted: Batch) -> tuple[object, str]:
    """The limit of producers whose documentation requires a key or a value in each record, for `check_expressible`."""
    empty = any(record.key is None and record.value is None for record in wanted.records)
    return empty, "a record without key and value"


def one_request(caught: list[bytes]) -> bytes:
    """The payload that a batch became.  Raises `CodecError` if it was not sent, or sent in parts."""
    if len(caught) != 1:
        raise CodecError("malformed", f"{len(caught)} requests for one batch")
    return caught[0]


class RecoveryApplication(Protocol):
    """A consumer in the hands of an application."""

    def poll(self, seconds: float) -> Sequence[tuple[int, bytes | None, bytes | None]]:
        """Offset, key and value of the next records."""
        ...

    def seek(self, offset: int) -> None:
        """Go on at *offset*."""
        ...

    def position(self) -> int | None:
        """The offset of the next record; None if the consumer does not say."""
        ...


def consume_and_recover(
    application: RecoveryApplication, request: Mapping[str, Any], emit: Callable[[Any], None]
) -> str:
    """The application's loop; it ends with the end record, or when its time is over."""
    deadline = time.monotonic() + request["limit_ms"] / 1000
    silence, last, tried, jumped = request["silence_ms"] / 1000, request["offset"] - 1, -1, False
    quiet = time.monotonic()
    if request["offset"]:
        application.seek(request["offset"])
    while (now := time.monotonic()) < deadline:
        try:
            for offset, key, value in application.poll(0.5):
                emit({"offset": offset, "value": b64encode(value or b"").decode()})
                quiet, last = time.monotonic(), offset
                if key == request["end"].encode():
                    return "end"
        except Exception as error:
            place = _place_of(error)
            position = _position_of(application)
            emit({"error": {"type": type(error).__name__, "message": _chain(error), **place}, "position": position})
            quiet = time.monotonic()
            if not request["seek"]:
                deadline = min(deadline, quiet + request["after_error_ms"] / 1000)
                time.sleep(0.1)
                continue
            where = next(each for each in (place.get("offset"), position, last + 1) if each is not None)
            tried = max(where + request["step"], tried + 1)
            application.seek(tried)
            emit({"sought": tried, "why": "error"})
        if request["seek"] and not jumped and now - quiet > silence:
            jumped, quiet = True, now
            application.seek(request["past"])
            emit({"sought": request["past"], "why": "silence"})
    return "time"


def _place_of(error: BaseException) -> dict[str, Any]:
    found = {name: getattr(error, name, None) for name in ("topic", "partition", "offset")}
    return {name: each for name, each in found.items() if isinstance(each, int | str) and each not in ("", -1, -1001)}


def _position_of(application: RecoveryApplication) -> int | None:
    try:
        return application.position()
    except Exception:
        return None


def _chain(error: BaseException | None) -> str:
    texts: list[str] = []
    while error is not None and len(texts) < 5:
        texts.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or error.__context__
    return " < ".join(texts)[:2000]


def main(place: str) -> None:
    """Run the application MODULE:CLASS for the request on standard input."""
    request = json.loads(sys.stdin.readline())
    module, _, name = place.partition(":")
    application = getattr(import_module(module), name)(request["bootstrap"], request["topic"])

    def emit(event: Any) -> None:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()

    emit({"done": consume_and_recover(application, request, emit)})
    os._exit(0)  # closing may wait for what a stuck consumer does


if __name__ == "__main__":
    main(sys.argv[1])
