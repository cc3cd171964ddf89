"""Scenario steps, and the bytes that a broker stores and answers after each.

Which of the two depends on the topic's compression.type (RWR-03), so cases about
compressed bytes come in pairs: a broker that keeps them reads only as much as
its checks need, one that rebuilds them reads everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka_corpus.authoring.batches import APPEND, around, batch_of, bytes_of, compressed, some_records
from kafka_corpus.authoring.build import packed, put, raw_record, reseal
from kafka_corpus.authoring.messages import numbered
from kafka_corpus.registry import Draft, error_answer, produced, stored
from kafka_corpus.scenario import (
    NOW,
    Aborted,
    AddPartitions,
    EndTransaction,
    Fetch,
    InitProducerId,
    Produce,
    Step,
    StepAnswer,
    WriteMarker,
    producer_id,
)
from kafka_records import Record
from kafka_records.broker.errors import UNKNOWN_SERVER_ERROR
from kafka_records.constants import Compression
from kafka_records.layout import BATCH_V2

# The topic's compression.type; compressed batches are kept, or rebuilt without compression.
KEPT, REBUILT = "producer", "uncompressed"
PATHS: Final = {"kept": KEPT, "rebuilt": REBUILT}
# The last produce version that takes v0 and v1, and the release that zstd came with.
OLD_VERSION: Final = 2
FIRST_OF_ZSTD: Final = "2.1.0"


def compression(kind: str) -> dict[str, str]:
    """The settings of a topic with that compression.type; the default needs none."""
    return {} if kind == KEPT else {"compression.type": kind}


def ways(**values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Each of the named values on a topic that keeps it, and the first also where it is rebuilt.

    All values of the axis take the same path in a decoder, so one of them is
    enough for the second path.
    """
    ((axis, named),) = values.items()
    first = next(iter(named))
    return keeping(**values) | {f"rebuilt-{first}": {"path": REBUILT, axis: named[first]}}


def keeping(**values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Each of the named values on a topic that keeps it: for faults that are found before decompression."""
    ((axis, named),) = values.items()
    return {f"kept-{name}": {"path": KEPT, axis: value} for name, value in named.items()}


def kept_batch(data: bytes, **fields: int) -> bytes:
    """A v2 batch in place: leader epoch 0, and *fields* set and the CRC recomputed (RWR-01, RWR-02)."""
    data = put(data, "partition_leader_epoch", 0)
    for name, value in fields.items():
        data = put(data, name, value)
    return reseal(data) if fields else data


def rebuilt_batch(*records: Record, codec: Compression = "none", **fields: object) -> bytes:
    """*records* in a batch of the broker's own (RWR-05); *fields* are those of `Batch`."""
    return bytes_of(batch_of(*records, **{"compression": codec, "partition_leader_epoch": 0, **fields}))


def since_of(codec: Compression) -> str:
    """The oldest release in range for *codec* in v2; empty where that is the first with v2."""
    return FIRST_OF_ZSTD if codec == "zstd" else ""


def taken(codec: Compression, packed: bytes, path: str, *records: Record) -> Draft:
    """*packed* holds *records* (by default two): a broker keeps it, or rebuilds the batch."""
    data, batch = compressed(codec, packed, *records)
    answer = stored(kept_batch(data) if path == KEPT else rebuilt_batch(*batch.records))
    return produced(data, answer, config=compression(path), since=since_of(codec))


def not_taken(
    codec: Compression, packed: bytes, path: str, *records: Record, code: int = UNKNOWN_SERVER_ERROR
) -> Draft:
    """*packed* should hold *records* (two, unless given), and a broker refuses it."""
    data, _ = compressed(codec, packed, *records)
    return produced(data, error_answer(code), config=compression(path), since=since_of(codec))


def converted(codec: Compression, packed: bytes, magic: int) -> Draft:
    """A wrapper around *packed*, which holds `packed.plain_of`: its messages become one v2 batch (CNV-02)."""
    data, _ = around(packed, magic, codec)
    answer = stored(rebuilt_batch(*numbered(magic, 0, 1), codec=codec))
    return produced(data, answer, api_version=OLD_VERSION, compare="masked")


def not_converted(codec: Compression, packed: bytes, magic: int, *, code: int = UNKNOWN_SERVER_ERROR) -> Draft:
    """A wrapper around *packed*, which a broker refuses."""
    return produced(around(packed, magic, codec)[0], error_answer(code), api_version=OLD_VERSION)


# The second byte of the attributes, and the bits of it that brokers know.
LOW_BYTE = 22
KNOWN_BITS = 0x7F


def stamped(batch: bytes) -> bytes:
    """*batch* on a LogAppendTime topic: the type and the time in the header, the CRC recomputed (RWR-02)."""
    return kept_batch(batch, attributes=batch[LOW_BYTE] & KNOWN_BITS | APPEND, max_timestamp=NOW)


def written(*records: Record, codec: Compression = "none") -> bytes:
    """A batch that the broker writes itself: the records numbered from 0, with none of the old header."""
    placed = (record._replace(offset=at) for at, record in enumerate(records))
    return rebuilt_batch(*placed, codec=codec)


def enclosed(codec: Compression, payload: bytes, *, record_count: int = 1, attributes: int = 0, **fields: int) -> bytes:
    """A producer's batch around records: compressed, or as they are for "none"."""
    return packed(codec, payload, record_count=record_count, attributes=attributes, **fields)


def offered(codecs: Mapping[str, Compression], payloads: Mapping[str, bytes]) -> dict[str, bytes]:
    """Records enclosed in each of *codecs*, by codec and name."""
    return {
        f"{label}, {name}": enclosed(codec, each) for label, codec in codecs.items() for name, each in payloads.items()
    }


# A producer id that no broker assigned; brokers do not check where an id is from.
PRODUCER_ID = 77
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}

AnsweredStep = tuple[Step, StepAnswer]


def producer_batch(count: int = 1, codec: Compression = "none", **fields: Any) -> bytes:
    """A batch of *count* records from a producer; *fields* are those of `Batch`."""
    return bytes_of(batch_of(*some_records(count), compression=codec, **fields))


def numbered_from(
    sequence: int, count: int = 1, codec: Compression = "none", *, epoch: int = 0, **fields: Any
) -> bytes:
    """A batch of an idempotent producer, its first record at *sequence*."""
    known = {"producer_id": PRODUCER_ID, "producer_epoch": epoch, "base_sequence": sequence}
    return producer_batch(count, codec, **(known | fields))


def with_deltas(deltas: Sequence[int], codec: Compression = "none", **fields: int) -> bytes:
    """A batch whose records have these offset deltas; its header counts them as if they were in order."""
    plain = b"".join(raw_record(offset_delta=delta, value=b"%d" % at) for at, delta in enumerate(deltas))
    return packed(codec, plain, record_count=len(deltas), **fields)


def assigned(batch: bytes, base_offset: int = 0, *, appended: bool = False) -> bytes:
    """*batch* as a broker stores it unless it rebuilds it; *appended* on a LogAppendTime topic.

    Offset and leader epoch come before the bytes that the CRC covers (RWR-01).
    """
    if appended:
        batch = put(batch, "attributes", number_in(batch, "attributes") | APPEND)
        batch = reseal(put(batch, "max_timestamp", NOW))
    return put(put(batch, "base_offset", base_offset), "partition_leader_epoch", 0)


def number_in(batch: bytes, field: str) -> int:
    """A signed number in the header of a v2 batch."""
    where = BATCH_V2.field(field)
    return int.from_bytes(batch[where.offset : where.offset + where.width], "big", signed=True)


def takes(batch: bytes, base_offset: int = 0, **fields: Any) -> AnsweredStep:
    """*batch* is produced, and stored as it is; *fields* are those of `Produce`."""
    return Produce(data=batch, **fields), stored(assigned(batch, base_offset), base_offset=base_offset)


def times(batch: bytes, base_offset: int = 0) -> AnsweredStep:
    """*batch* is produced to a LogAppendTime topic, whose broker puts its time into the header (RWR-02)."""
    data = assigned(batch, base_offset, appended=True)
    return Produce(data=batch), stored(data, base_offset=base_offset, log_append_time=NOW)


def refuses(batch: bytes, error_code: int, **more: Any) -> AnsweredStep:
    """*batch* is produced, and refused."""
    return Produce(data=batch), error_answer(error_code, **more)


def repeats(batch: bytes, base_offset: int = 0, *, timestamp: int | None = None) -> AnsweredStep:
    """*batch* is a duplicate: the answer has its old offset, and nothing is stored.

    The time is the max timestamp of the first copy, whatever the topic's timestamp type (TIM-23).
    """
    first = number_in(batch, "max_timestamp") if timestamp is None else timestamp
    return Produce(data=batch), stored(b"", base_offset=base_offset, log_append_time=first)


def fetched(data: bytes, end: int, *, stable: int | None = None, **more: Any) -> StepAnswer:
    """The response to a fetch from a log that ends at offset *end*; the first open transaction begins at *stable*."""
    return StepAnswer(data=data, high_watermark=end, last_stable_offset=end if stable is None else stable, **more)


def fetches(data: bytes, end: int, offset: int = 0, **fields: Any) -> AnsweredStep:
    """A fetch from *offset* brings *data*; *fields* are those of `Fetch`."""
    return Fetch(offset=offset, **fields), fetched(data, end)


# The first produce version that adds partitions to the transaction itself is 12 (KIP-890).
VERIFIED, GENERIC, ADDING = 10, 11, 12
ABORT, COMMIT = 0, 1


def data(sequence: int, count: int = 1, codec: Compression = "none", *, who: int = 0, **fields: Any) -> bytes:
    """A transactional batch of the producer with the id number *who*; *fields* as for `numbered_from`."""
    return numbered_from(sequence, count, codec, **({"producer_id": producer_id(who), "transactional": True} | fields))


def marker_at(offset: int, type_: int, *, epoch: int = 1, who: int = 0, **fields: Any) -> bytes:
    """The marker that the coordinator writes (TXN-14); its epoch is the next one since Kafka 4.0 (KIP-890)."""
    key = bytes(2) + type_.to_bytes(2, "big")
    producer = {"producer_id": producer_id(who), "producer_epoch": epoch}
    known = {"transactional": True, "control": True, "partition_leader_epoch": 0, **producer}
    return bytes_of(batch_of(Record(offset, NOW, key, bytes(6)), **(known | fields)))


def named(alias: str = "a", *, transactional: bool = True) -> AnsweredStep:
    """A producer gets its id, or its next epoch."""
    return InitProducerId(alias, transactional), StepAnswer()


def begun(alias: str = "a") -> tuple[AnsweredStep, AnsweredStep]:
    """A producer gets its id and adds the partition to its transaction."""
    return named(alias), added(alias)


def added(alias: str = "a") -> AnsweredStep:
    """The partition is added to the producer's transaction."""
    return AddPartitions(alias), StepAnswer()


def writes(batch: bytes, base_offset: int = 0, *, alias: str = "a", **fields: Any) -> AnsweredStep:
    """A batch of the producer's transaction is stored as it is; *fields* are those of `Produce`."""
    return takes(batch, base_offset, **({"producer": alias, "transactional": True} | fields))


def fails(batch: bytes, error_code: int, *, alias: str = "a", answer: Any = None, **fields: Any) -> AnsweredStep:
    """A batch of the producer's transaction is refused; *fields* are those of `Produce`."""
    known: dict[str, Any] = {"producer": alias, "transactional": True}
    return Produce(data=batch, **(known | fields)), error_answer(error_code, **(answer or {}))


def ends(marker: bytes, *, alias: str = "a", commit: bool) -> AnsweredStep:
    """The transaction ends, and the partition gets its marker."""
    return EndTransaction(alias, commit), StepAnswer(data=marker)


def commits(offset: int, *, alias: str = "a", **fields: Any) -> AnsweredStep:
    """The transaction is committed; *fields* are those of `marker_at`."""
    return ends(marker_at(offset, COMMIT, **fields), alias=alias, commit=True)


def aborts(offset: int, *, alias: str = "a", **fields: Any) -> AnsweredStep:
    """The transaction is aborted; *fields* are those of `marker_at`."""
    return ends(marker_at(offset, ABORT, **fields), alias=alias, commit=False)


def marks(marker: bytes, *, alias: str = "a", commit: bool = True, **fields: Any) -> AnsweredStep:
    """A WriteTxnMarkers request has the leader append *marker*; *fields* are those of `WriteMarker`."""
    return WriteMarker(producer=alias, commit=commit, **fields), StepAnswer(data=marker)


def marks_not(error_code: int, *, alias: str = "a", commit: bool = True, **fields: Any) -> AnsweredStep:
    """A WriteTxnMarkers request is refused; *fields* are those of `WriteMarker`."""
    return WriteMarker(producer=alias, commit=commit, **fields), StepAnswer(error_code=error_code)


def listed(first_offset: int, who: int = 0) -> Aborted:
    """An aborted transaction as a fetch lists it."""
    return Aborted(producer_id(who), first_offset)
