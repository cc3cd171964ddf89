"""Payloads are produced to a broker, and its answer is compared with the reference's prediction."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kafka_brokers.wire import Produced
from kafka_corpus.authoring.build import put, reseal
from kafka_fuzz.broker.confirming import entry_format
from kafka_fuzz.broker.lanes import ProduceAnswer, answer_difference, produce_answer, topic_settings
from kafka_fuzz.broker.payloads import Payloads, as_client, as_idempotent, large_seeds, with_header, without_neighbours
from kafka_fuzz.mutate import Mutant, MutantCell, corpus_seeds
from kafka_fuzz.mutate.mutant import first_entry_spans
from kafka_records import AppendResult, Batch, LogState, Record, TopicConfig, append, decode, encode
from kafka_records.layout import BATCH_V2

NOW = 1_795_000_000_000
RELEASE, VERSION = "4.4.0", 12
RECORDS = tuple(Record(offset, NOW, b"key", b"value" * 20) for offset in range(3))
BATCH = Batch(magic=2, base_offset=0, last_offset=2, max_timestamp=NOW, records=RECORDS)
PAYLOAD = encode(BATCH)


def appended(log: LogState, payload: bytes, config: TopicConfig | None = None) -> AppendResult:
    """The reference's prediction."""
    return append(log, payload, config or TopicConfig(), release=RELEASE, api_version=VERSION, now_ms=NOW)


def answered(wanted: AppendResult) -> ProduceAnswer:
    """A broker's answer that is as predicted."""
    return ProduceAnswer(
        wanted.error_code, wanted.base_offset, wanted.log_append_time, wanted.record_errors, wanted.stored
    )


def mutant(data: bytes, position: str = "only") -> Mutant:
    """Bytes with a change at *position*."""
    return Mutant(data, "fixup", ("crc flipped",), None, MutantCell(2, "none", "crc", "flipped", "", "entry", position))


@pytest.mark.parametrize(
    ("field", "change", "said"),
    [
        ("error_code", 87, "error INVALID_RECORD, predicted NONE"),
        ("base_offset", 5, "base_offset"),
        ("log_append_time", 5, "log_append_time"),
        ("record_errors", (0,), "record_errors"),
        ("stored", b"", "stored entries"),
        ("stored", PAYLOAD[:-1] + b"\1", "stored partition_leader_epoch"),
        ("closed", True, "the connection is closed, predicted NONE"),
    ],
)
def test_each_part_of_an_answer_is_compared(field: str, change: Any, said: str) -> None:
    """Whatever differs is named; an answer as predicted differs in nothing."""
    wanted = appended(LogState(), PAYLOAD)
    assert answer_difference(answered(wanted), wanted, VERSION) == ""
    assert answer_difference(replace(answered(wanted), **{field: change}), wanted, VERSION) == said


@pytest.mark.parametrize("field", ["attributes", "max_timestamp", "producer_id", "base_sequence", "record_count"])
def test_the_first_field_of_stored_bytes_that_differs_is_named(field: str) -> None:
    """It is not the checksum, which differs whatever else does."""
    wanted = appended(LogState(), PAYLOAD)
    stored = reseal(put(wanted.stored, field, 77))
    assert answer_difference(replace(answered(wanted), stored=stored), wanted, VERSION) == f"stored {field}"


def test_stored_records_that_differ_are_named() -> None:
    """Bytes after the header are records."""
    wanted = appended(LogState(), PAYLOAD)
    stored = wanted.stored[:-2] + b"\x77" + wanted.stored[-1:]
    assert answer_difference(replace(answered(wanted), stored=stored), wanted, VERSION) == "stored records"


def test_what_a_broker_compressed_is_compared_above_compression() -> None:
    """Another library packs the same records in other bytes; bytes that were kept have to be the same."""
    wanted = appended(LogState(), PAYLOAD, TopicConfig(compression="gzip"))
    (batch,) = decode(wanted.stored)
    header = BATCH_V2.values(wanted.stored)
    empty_block = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\x03\x00" + bytes(8)
    padded = wanted.stored + empty_block
    stored = reseal(put(padded, "batch_length", header["batch_length"] + len(empty_block)))
    assert decode(stored) == (batch,)
    assert answer_difference(replace(answered(wanted), stored=stored), wanted, VERSION) == ""
    kept = replace(wanted, path="in place")
    assert answer_difference(replace(answered(kept), stored=stored), kept, VERSION) == "stored records"


def test_what_old_answers_do_not_say_is_not_compared() -> None:
    """Times came with version 2 of the answer, indexes of records with version 8."""
    wanted = appended(LogState(), PAYLOAD)
    given = replace(answered(wanted), log_append_time=NOW, record_errors=(1,))
    assert answer_difference(given, wanted, 1) == ""
    assert answer_difference(given, wanted, 2) == "log_append_time"


def test_an_error_has_no_base_offset() -> None:
    """Brokers fill it in with one thing or another."""
    assert produce_answer(Produced(87, 7), b"").base_offset == -1
    assert produce_answer(Produced(0, 7), b"").base_offset == 7


def test_a_client_writes_a_base_offset_of_zero() -> None:
    """Values that no client writes are reset, and a checksum that was right stays right."""
    strange = reseal(put(put(PAYLOAD, "base_offset", 9), "attributes", 0x30))
    made = [as_client(strange, Random(seed)) for seed in range(50)]
    assert {BATCH_V2.values(each)["base_offset"] for each in made} == {0}
    assert sum(appended(LogState(), each).error_code == 0 for each in made) > 25
    broken = put(strange, "crc", 1)
    assert BATCH_V2.values(as_client(broken, Random(1)))["crc"] == 1


def test_a_header_is_changed_in_front_of_other_batches() -> None:
    """The checksum covers the first batch alone."""
    made = with_header(PAYLOAD + PAYLOAD, BATCH_V2.values(PAYLOAD) | {"producer_id": 5})
    assert [batch.producer_id for batch in decode(made)] == [5, -1]


def test_producers_go_on_where_they_had_come_to() -> None:
    """Most batches of a producer follow the one before; some repeat it, some come too late or too early."""
    rng, log, codes, duplicates = Random(3), LogState(), [], 0
    for _ in range(300):
        result = appended(log, as_idempotent(PAYLOAD, rng, log))
        codes.append(result.error_code)
        duplicates += result.rule == "PID-08"
        log = result.log
    assert codes.count(0) > 150
    assert {45, 47} <= set(codes)
    assert duplicates > 10


@pytest.mark.parametrize(("position", "left"), [("first", slice(0, 1)), ("middle", slice(1, 2)), ("last", slice(2, 3))])
def test_a_change_is_had_without_its_neighbours(position: str, left: slice) -> None:
    """Of three entries the one that was changed is left."""
    three = [
        encode(
            replace(
                BATCH,
                base_offset=at,
                last_offset=at + 2,
                records=tuple(record._replace(offset=record.offset + at) for record in RECORDS),
            )
        )
        for at in (0, 3, 6)
    ]
    assert without_neighbours(mutant(b"".join(three), position)).data == b"".join(three[left])


@pytest.mark.slow
def test_most_payloads_reach_the_records() -> None:
    """A fifth is taken, and many rules have their say."""
    payloads = Payloads(Random(5), corpus_seeds(), magics=(2,))
    answers = [appended(LogState(), payloads.draw(LogState()).data) for _ in range(3000)]
    assert sum(answer.error_code == 0 for answer in answers) > 400
    assert len({answer.rule for answer in answers}) > 50


def test_the_same_seed_gives_the_same_payloads() -> None:
    """Payloads depend on the seed and the logs alone."""
    one, other = (Payloads(Random("a"), corpus_seeds(), magics=(0, 1, 2)) for _ in range(2))
    assert [one.draw(LogState()) for _ in range(200)] == [other.draw(LogState()) for _ in range(200)]


@pytest.mark.parametrize(
    ("release", "name", "there"),
    [
        ("4.4.0", "message.format.version", False),
        ("2.8.2", "message.format.version", True),
        ("2.8.2", "message.timestamp.before.max.ms", False),
        ("3.9.2", "message.timestamp.before.max.ms", True),
        ("4.4.0", "max.decompressed.message.bytes", True),
        ("4.3.1", "max.decompressed.message.bytes", False),
        ("1.1.1", "compression.type", True),
    ],
)
def test_settings_are_those_of_the_release(release: str, name: str, there: bool) -> None:
    """No release is given a setting that it does not know."""
    assert any(name in settings for settings in topic_settings(release)) is there
    assert all(TopicConfig.of(settings) for settings in topic_settings(release))


def test_the_kind_of_a_payload_is_that_of_its_first_entry() -> None:
    """Magic and codec, whatever else it is."""
    assert entry_format(PAYLOAD) == "v2 none"
    assert entry_format(encode(replace(BATCH, compression="zstd"))) == "v2 zstd"
    assert entry_format(b"") == "no entry"
    assert len(first_entry_spans(PAYLOAD)) == 1


def test_large_seeds_are_taken_and_say_what_they_hold() -> None:
    """Each is valid, in a stream of its own; the reference predicts that brokers take nearly all."""
    seeds = large_seeds()
    assert len(set(seeds)) == len(seeds) > 80
    codes = [appended(LogState(), seed, TopicConfig(max_message_bytes=4_000_000)).error_code for seed in seeds]
    assert codes.count(0) > 70
