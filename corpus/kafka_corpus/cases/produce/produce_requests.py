"""Produce requests as a whole: versions, acks, and whose fault decides (group PRD)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import LEGACY, TRANSACTIONAL, batch_of, bytes_of, some_records
from kafka_corpus.authoring.build import flip, grid, packed, put, raw_batch, raw_message, raw_record
from kafka_corpus.authoring.steps import KEPT, OLD_VERSION, REBUILT, compression, fetched, kept_batch, takes
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import Fetch, InitProducerId, Produce, StepAnswer
from kafka_records import Record
from kafka_records.broker.errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_REQUIRED_ACKS,
    INVALID_TIMESTAMP,
    INVALID_TOPIC_EXCEPTION,
    MESSAGE_TOO_LARGE,
    NONE,
    RECORD_LIST_TOO_LARGE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from kafka_records.constants import Compression

BATCH = bytes_of(batch_of(*some_records()))
CODECS: dict[str, Compression] = {"plain": "none", "compressed": "gzip"}
COMPACTED = {"cleanup.policy": "compact"}
SEGMENT = {"segment.bytes": str(1024 * 1024)}
NO_KEY = raw_record()
# A length in six bytes.
LONG = b"\xff\xff\xff\xff\xff\x01"
NEWEST_RELEASE, FIRST_WITHOUT_OLD = "4.4.0", "4.0.0"
LAST_WITHOUT_ERRORS = 7


def keyed(*keys: bytes | None, codec: Compression = "none") -> bytes:
    """A batch of records with these keys."""
    records = [record._replace(key=key) for record, key in zip(some_records(len(keys)), keys, strict=True)]
    return bytes_of(batch_of(*records, compression=codec))


# Each payload has two faults; the first named is the one that is answered.
ORDER: dict[str, tuple[bytes, int, dict[str, str]]] = {
    "framing-transaction": (
        put(raw_batch(NO_KEY, attributes=TRANSACTIONAL), "batch_length", 13),
        CORRUPT_MESSAGE,
        {},
    ),
    "transaction-batch-count": (
        raw_batch(NO_KEY, attributes=TRANSACTIONAL) * 2,
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        {},
    ),
    "batch-count-size": (BATCH * 2, INVALID_RECORD, {"max.message.bytes": "10"}),
    "base-offset-size": (put(BATCH, "base_offset", 1), INVALID_RECORD, {"max.message.bytes": "10"}),
    "base-offset-crc": (flip(put(BATCH, "base_offset", 1), 70), INVALID_RECORD, {}),
    "size-crc": (flip(BATCH, 70), MESSAGE_TOO_LARGE, {"max.message.bytes": "10"}),
    "crc-codec": (flip(raw_batch(NO_KEY, attributes=7), 70), CORRUPT_MESSAGE, {}),
    "crc-records": (flip(raw_batch(LONG + NO_KEY), 70), CORRUPT_MESSAGE, {}),
    "codec-records": (raw_batch(LONG + NO_KEY, attributes=7, record_count=2), UNKNOWN_SERVER_ERROR, {}),
    "count-records": (raw_batch(LONG + NO_KEY, last_offset_delta=4), INVALID_RECORD, {}),
}


@case("PRD-01", each=ORDER)
def first_fault_decides(fault: tuple[bytes, int, dict[str, str]]) -> Draft:
    """Of two faults the one that is looked for first is answered."""
    payload, code, config = fault
    return produced(payload, error_answer(code), config=config)


@case("PRD-01", "PRD-06")
def batch_rules_before_base_offset() -> Draft:
    """The checks of the request's version on batches come before that of the base offset."""
    payload = packed("zstd", NO_KEY, base_offset=1)
    return produced(payload, error_answer(UNSUPPORTED_COMPRESSION_TYPE), api_version=6, since="2.1.0")


@case("PRD-01", "SIZ-04")
def records_before_size_again() -> Draft:
    """A record at fault is found before the size of the stored batch is checked."""
    data = packed("gzip", raw_record(value=b"-" * 2000))
    config = {**COMPACTED, **compression(REBUILT), "max.message.bytes": "1000"}
    return produced(data, error_answer(INVALID_RECORD, record_errors=(0,)), config=config)


BIG = packed("zstd", raw_record(value=b"-" * (1024 * 1024 + 100)))


@case("PRD-01", "SIZ-04", "SIZ-06")
def size_again_before_segment() -> Draft:
    """The size of the batch to store is compared with max.message.bytes first, then with the segment's."""
    config = {**SEGMENT, **compression(REBUILT), "max.message.bytes": "1000"}
    return produced(BIG, error_answer(MESSAGE_TOO_LARGE), config=config, since="2.1.0")


@case("PRD-01", "SIZ-06", "PID-14")
def segment_before_producer() -> Draft:
    """A batch too large for a segment is refused before its producer is looked at."""
    data = packed(
        "zstd", raw_record(value=b"-" * (1024 * 1024 + 100)), producer_id=5, producer_epoch=-2, base_sequence=0
    )
    config = {**SEGMENT, **compression(REBUILT), "max.message.bytes": "2000000"}
    return produced(data, error_answer(RECORD_LIST_TOO_LARGE), config=config, since="2.1.0")


@case("PRD-01", "CRC-09", each={"timestamp": {"message.timestamp.before.max.ms": "1000"}, "key": COMPACTED})
def structure_before_records(config: dict[str, str]) -> Draft:
    """A structure that cannot be read ends the append before faults of earlier records are answered."""
    since = "" if config == COMPACTED else "3.6.0"
    data = raw_batch(NO_KEY + LONG, record_count=2)
    return produced(data, error_answer(UNKNOWN_SERVER_ERROR), config=config, since=since)


FRAMING: dict[str, tuple[bytes, int]] = {
    "size": (put(BATCH, "batch_length", 13), CORRUPT_MESSAGE),
    "magic": (put(BATCH, "magic", 3), CORRUPT_MESSAGE),
    "header-overrun": (put(BATCH, "batch_length", 10 + 4)[:26], UNKNOWN_SERVER_ERROR),
}


@case("PRD-02", each=FRAMING)
def framing_fails_all(fault: tuple[bytes, int]) -> Draft:
    """A framing error in the first batch of a partition fails the other partition of the request too."""
    payload, code = fault
    return scene((Produce(data=payload, beside=BATCH), error_answer(code, beside=code)))


@case("PRD-02", each=FRAMING)
def framing_beside_fails_all(fault: tuple[bytes, int]) -> Draft:
    """A sound batch is not stored if there is a framing error in another partition of the request."""
    payload, code = fault
    return scene((Produce(data=BATCH, beside=payload), error_answer(code, beside=code)), (Fetch(), fetched(b"", 0)))


OWN: dict[str, tuple[bytes, int]] = {
    "crc": (flip(BATCH, 70), CORRUPT_MESSAGE),
    "codec": (raw_batch(NO_KEY, attributes=7), UNKNOWN_SERVER_ERROR),
    "record": (raw_batch(LONG + NO_KEY), UNKNOWN_SERVER_ERROR),
    "two-batches": (BATCH * 2, INVALID_RECORD),
    "base-offset": (put(BATCH, "base_offset", 1), INVALID_RECORD),
    "no-batch": (BATCH[:-1], INVALID_RECORD),
}


@case("PRD-03", each=OWN)
def own_fault(fault: tuple[bytes, int]) -> Draft:
    """Any other fault is that of its own partition; the one beside it takes its batch."""
    payload, code = fault
    return scene((Produce(data=payload, beside=BATCH), error_answer(code, beside=NONE)))


@case("PRD-03", each={"crc": OWN["crc"], "two-batches": OWN["two-batches"]})
def fault_beside(fault: tuple[bytes, int]) -> Draft:
    """A sound batch is stored although that beside it is refused."""
    payload, code = fault
    return scene((Produce(data=BATCH, beside=payload), stored(kept_batch(BATCH), beside=code)))


@case("PRD-04", each=grid(version={"3": 3, "newest": 99}, payload={"two": BATCH * 2, "none": b"", "half": BATCH[:50]}))
def not_one_batch(shape: dict[str, Any]) -> Draft:
    """From Produce version 3 on there has to be one complete batch: no two, none, or half of one."""
    return produced(shape["payload"], error_answer(INVALID_RECORD), api_version=shape["version"])


@case("PRD-04", each={"one-byte": 1, "half-a-batch": 50})
def one_batch_and_a_part(size: int) -> Draft:
    """Part of a second batch does not count, and is not stored."""
    return produced(BATCH + BATCH[:size], stored(kept_batch(BATCH)), api_version=3)


@case("PRD-05", each=grid(magic=LEGACY, version={"3": 3, "newest": 99}))
def older_magic(shape: dict[str, Any]) -> Draft:
    """From Produce version 3 on messages of magic 0 and 1 are refused."""
    return produced(raw_message(shape["magic"]), error_answer(INVALID_RECORD), api_version=shape["version"])


@case("PRD-07", each=CODECS)
def batch_in_an_old_request(codec: Compression) -> Draft:
    """Produce version 2 takes a v2 batch."""
    data = bytes_of(batch_of(*some_records(4), compression=codec))
    return produced(data, stored(kept_batch(data)), api_version=OLD_VERSION, since="0.11.0.3")


@case("PRD-07", each=LEGACY)
def nothing_in_an_old_request(version: int) -> Draft:
    """Produce versions 0 and 1 take a payload of no batch, and store nothing."""
    return produced(b"", StepAnswer(base_offset=-1), api_version=version, since="2.8.2")


@case("PRD-08", each=CODECS)
def batches_in_an_old_request(codec: Compression) -> Draft:
    """Produce version 2 does not take two v2 batches at once."""
    data = bytes_of(batch_of(*some_records(), compression=codec))
    return produced(data * 2, error_answer(INVALID_RECORD), api_version=OLD_VERSION, since="0.11.0.3")


@case("PRD-09", each={"0": 0, "2": 2})
def old_request(version: int) -> Draft:
    """Kafka 4 closes the connection on Produce versions 0 to 2, whatever the payload is."""
    step = Produce(data=raw_message(1), api_version=version)
    return scene((step, StepAnswer(closed=True)), since=FIRST_WITHOUT_OLD, until=NEWEST_RELEASE)


@case("PRD-09", each={"0": 0, "3": 3})
def old_fetch(version: int) -> Draft:
    """Kafka 4 closes the connection on Fetch versions 0 to 3."""
    return scene(takes(BATCH), (Fetch(api_version=version), StepAnswer(closed=True)), since=FIRST_WITHOUT_OLD)


@case("PRD-09")
def oldest_request_of_kafka_4() -> Draft:
    """Produce version 3 and Fetch version 4 are the oldest that Kafka 4 has."""
    return scene(
        takes(BATCH, api_version=3),
        (Fetch(api_version=4), fetched(kept_batch(BATCH), 2)),
        since=FIRST_WITHOUT_OLD,
    )


@case("PRD-10", "PRD-17", each=CODECS)
def one_bad_record(codec: Compression) -> Draft:
    """One bad record in a batch keeps all of it out; the next batch gets the offset."""
    bad, good = keyed(b"a", None, b"c", codec=codec), keyed(b"a", b"b", codec=codec)
    return scene(
        (Produce(data=bad), error_answer(INVALID_RECORD, record_errors=(1,))),
        (Fetch(), fetched(b"", 0)),
        takes(good),
        config=COMPACTED,
    )


@case("PRD-10", "TIM-10", each=CODECS)
def one_bad_timestamp(codec: Compression) -> Draft:
    """One timestamp out of range keeps the whole batch out."""
    records = [Record(0, -1, b"key", b""), Record(1, 5, b"key", b""), Record(2, -1, b"key", b"")]
    data = bytes_of(batch_of(*records, compression=codec))
    answer = error_answer(INVALID_TIMESTAMP, record_errors=(1,))
    return produced(data, answer, config={"message.timestamp.before.max.ms": "1000"}, since="3.6.0")


@case("PRD-11", each=grid(codec=CODECS, path={"kept": KEPT, "rebuilt": "lz4"}))
def bad_records_are_listed(shape: dict[str, Any]) -> Draft:
    """The answer lists all bad records by their place in the batch, however many there are."""
    data = keyed(None, b"a", None, None, b"b", None, None, codec=shape["codec"])
    answer = error_answer(INVALID_RECORD, record_errors=(0, 2, 3, 5, 6))
    return produced(data, answer, config={**COMPACTED, **compression(shape["path"])})


@case("PRD-11", each={"7": LAST_WITHOUT_ERRORS, "8": LAST_WITHOUT_ERRORS + 1})
def bad_records_by_version(version: int) -> Draft:
    """The list of bad records came with Produce version 8."""
    listed = (1,) if version > LAST_WITHOUT_ERRORS else ()
    answer = error_answer(INVALID_RECORD, record_errors=listed)
    return produced(keyed(b"a", None), answer, api_version=version, config=COMPACTED)


STRUCTURES = {
    "too-few-records": raw_batch(NO_KEY, record_count=3),
    "too-many-records": raw_batch(NO_KEY * 2),
    "too-few-compressed": packed("gzip", NO_KEY, record_count=3),
    "count-and-offsets": raw_batch(NO_KEY * 2, record_count=2, last_offset_delta=4),
    "control": raw_batch(NO_KEY, attributes=0x20),
}


@case("PRD-12", each=STRUCTURES)
def structure_has_no_index(data: bytes) -> Draft:
    """An error in the structure of a batch is answered without the indexes of records."""
    return produced(data, error_answer(INVALID_RECORD, record_errors=()))


ESCAPING = {
    "varint-of-six-bytes": raw_batch(LONG + NO_KEY),
    "codec-6": raw_batch(NO_KEY, attributes=6),
    "offsets-out-of-order": packed("gzip", raw_record(offset_delta=7)),
}


@case("PRD-14", each=ESCAPING)
def any_other_exception(data: bytes) -> Draft:
    """An exception that Kafka did not foresee is an unknown error, and the next batch finds the broker well."""
    return scene((Produce(data=data), error_answer(UNKNOWN_SERVER_ERROR)), takes(BATCH))


UNWELCOME = {
    "corrupt": flip(BATCH, 70),
    "two-batches": BATCH * 2,
    "record": raw_batch(LONG + NO_KEY),
    "framing": put(BATCH, "magic", 3),
}


@case("PRD-15", each=UNWELCOME)
def error_without_acks(data: bytes) -> Draft:
    """With acks=0 there is no answer, and an error closes the connection."""
    return scene((Produce(data=data, acks=0), StepAnswer(closed=True)), (Fetch(), fetched(b"", 0)))


@case("PRD-15", each=CODECS)
def success_without_acks(codec: Compression) -> Draft:
    """With acks=0 success is silent, and the batch is in the log."""
    data = bytes_of(batch_of(*some_records(5), compression=codec))
    return scene((Produce(data=data, acks=0), StepAnswer(data=kept_batch(data))))


@case("PRD-16", each={"2": 2, "minus-2": -2, "largest": 32767, "smallest": -32768})
def acks_of_no_kind(acks: int) -> Draft:
    """Acks other than -1, 0 and 1 are refused, and nothing is stored."""
    return scene((Produce(data=BATCH, acks=acks), error_answer(INVALID_REQUIRED_ACKS)), (Fetch(), fetched(b"", 0)))


@case("PRD-16")
def acks_of_the_leader() -> Draft:
    """With acks=1 a batch is stored like with acks=-1."""
    return scene((Produce(data=BATCH, acks=1), stored(kept_batch(BATCH))))


POLICIES = {"compact": COMPACTED, "compact-and-delete": {"cleanup.policy": "compact,delete"}}


@case("PRD-17", each=grid(codec=CODECS, policy=POLICIES))
def no_key(shape: dict[str, Any]) -> Draft:
    """Every record of a compacted topic needs a key."""
    answer = error_answer(INVALID_RECORD, record_errors=(0, 1))
    return produced(keyed(None, None, codec=shape["codec"]), answer, config=shape["policy"])


@case("PRD-17", each=CODECS)
def empty_key(codec: Compression) -> Draft:
    """An empty key is a key."""
    data = keyed(b"", b"", codec=codec)
    return produced(data, stored(kept_batch(data)), config=COMPACTED)


@case("PRD-17", each=CODECS)
def no_key_on_an_ordinary_topic(codec: Compression) -> Draft:
    """A topic that is not compacted takes records without keys."""
    data = keyed(None, None, codec=codec)
    return produced(data, stored(kept_batch(data)))


@case("PRD-18", each=CODECS)
def partition_named_twice(codec: Compression) -> Draft:
    """Of two payloads for one partition in a request the last one is stored, and the other is silently lost."""
    first, last = batch_of(*some_records(1), compression=codec), batch_of(*some_records(2), compression=codec)
    step = Produce(data=bytes_of(first), again=bytes_of(last))
    return scene((step, stored(kept_batch(bytes_of(last)))))


@case("PRD-19")
def internal_topic() -> Draft:
    """Only brokers may write to an internal topic of Kafka."""
    step = Produce(data=bytes_of(batch_of(*some_records(1))), topic="__transaction_state")
    return scene((InitProducerId("a"), StepAnswer()), (step, error_answer(INVALID_TOPIC_EXCEPTION)))
