"""Bytes and numbers that others published: the dumps in seed 004, and batches that kafka-clients 3.9.0 wrote.

Golden bytes of one codec, of control records and of single messages stand in
those modules.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.build import TIMESTAMP, expected, raw_batch, raw_message, raw_record, raw_records, record
from kafka_corpus.golden import GOLDEN_RECORDS
from kafka_corpus.registry import Draft, case, invalid, must_write, valid
from kafka_records import Batch
from kafka_records.constants import Compression

# CreateTime in the two dumps of seed 004, milliseconds.
ONE_TIME: Final = 1524709879130
TEN_TIME: Final = 1524712213771
# The dump shows the largest timestamp only.  These distances to the first record, with the
# values "value0" to "value9", are the ones under which the published CRC comes out.
TEN_DELTAS: Final = (0, 22, 22, 22, 22, 22, 23, 23, 23, 23)


def message(magic: int, key: bytes | None, offset: int = 0, timestamp: int = -1) -> Batch:
    """The blog's message with value 'value'."""
    kind = "create" if magic else "none"
    made = record(key=key, offset=offset, timestamp=timestamp)
    return expected(made, magic=magic, base_offset=offset, timestamp_type=kind, max_timestamp=timestamp)


V0_34: Final = raw_message(0, b"key", b"value", crc=592888119)
V0_31: Final = raw_message(0, None, b"value", offset=1)
V1_42: Final = raw_message(1, b"key", b"value", timestamp=ONE_TIME)
SEED_MESSAGES: Final = {
    "v0 of 34 B, crc 592888119": (34, V0_34, message(0, b"key")),
    "v0 with null key of 31 B": (31, V0_31, message(0, None, 1)),
    "v1 of 42 B": (42, V1_42, message(1, b"key", timestamp=ONE_TIME)),
}


@case("SIZ-13", "FRM-02", "LEG-01", refs=["seed 004:64-84"])
def v0_log_of_the_blog() -> Draft:
    """The blog's v0 log takes 65 B: a message of 34 B with the CRC printed there, and one of 31 B without a key."""
    assert (len(V0_34), len(V0_31)) == (34, 31)
    return valid(V0_34 + V0_31, message(0, b"key"), message(0, None, 1))


@case("SIZ-13", "LEG-02", refs=["seed 004:94"])
def v1_message_of_the_blog() -> Draft:
    """The blog's v1 message takes 42 B, eight more than in v0."""
    assert len(V1_42) == 42
    return valid(V1_42, message(1, b"key", timestamp=ONE_TIME))


@case("SIZ-13", "LEG-01", "LEG-02", each=SEED_MESSAGES, refs=["seed 004:62-94"])
def message_of_the_blog_is_written(row: tuple[int, bytes, Batch]) -> Draft:
    """A writer gives a message of seed 004 the size and CRC that are printed there."""
    return must_write(row[2], row[1])


def stored(*records: Any, **fields: Any) -> Batch:
    """A batch as the blog's broker stored it, with leader epoch 0."""
    return expected(*records, partition_leader_epoch=0, **fields)


V2_76: Final = raw_batch(
    raw_record(key=b"key", value=b"value"),
    partition_leader_epoch=0,
    base_timestamp=ONE_TIME,
    max_timestamp=ONE_TIME,
    crc=2857248333,
)
V2_73: Final = raw_batch(
    raw_record(value=b"value"),
    partition_leader_epoch=0,
    base_offset=1,
    base_timestamp=ONE_TIME,
    max_timestamp=ONE_TIME,
)
TEN: Final = tuple(
    record(b"value%d" % at, offset=2 + at, timestamp=TEN_TIME - 23 + delta) for at, delta in enumerate(TEN_DELTAS)
)
V2_191: Final = raw_batch(
    raw_records(TEN, base_offset=2, base_timestamp=TEN_TIME - 23),
    record_count=10,
    partition_leader_epoch=0,
    base_offset=2,
    base_timestamp=TEN_TIME - 23,
    max_timestamp=TEN_TIME,
    crc=820363253,
)
SEED_BATCHES: Final = {
    "76 B, crc 2857248333": (76, V2_76, stored(record(key=b"key", timestamp=ONE_TIME), max_timestamp=ONE_TIME)),
    "null key of 73 B": (
        73,
        V2_73,
        stored(record(offset=1, timestamp=ONE_TIME), base_offset=1, max_timestamp=ONE_TIME),
    ),
    "ten records of 191 B, crc 820363253": (191, V2_191, stored(*TEN, base_offset=2, max_timestamp=TEN_TIME)),
}


@case("SIZ-13", "CRC-01", each=SEED_BATCHES, refs=["seed 004:174-182"])
def batch_of_the_blog(row: tuple[int, bytes, Batch]) -> Draft:
    """A batch that seed 004 dumps has the size, and where it is given the CRC, that are printed there."""
    size, data, batch = row
    assert len(data) == size
    return valid(data, batch)


@case("SIZ-13", "CRC-01", each=SEED_BATCHES, refs=["seed 004:174-182"])
def batch_of_the_blog_is_written(row: tuple[int, bytes, Batch]) -> Draft:
    """A writer gives a batch of seed 004 the size and CRC that are printed there."""
    return must_write(row[2], row[1])


@case("FRM-02", "HDR-03", refs=["seed 004:172-182"])
def segment_of_the_blog() -> Draft:
    """The blog's segment holds its three batches one after the other, the last at position 149."""
    data = V2_76 + V2_73
    assert len(data) == 149
    return valid(data + V2_191, *(batch for _, _, batch in SEED_BATCHES.values()))


# 16 KiB is batch.size, so that one such record fills a batch.
SIXTEEN_KIB: Final = bytes(16384)


@case("SIZ-13", refs=["seed 004:184", "A36"])
def large_v2_batch_of_the_blog() -> Draft:
    """A record of 16384 B takes 16456 B in v2: 61 + 11 + 16384, which seed 004 adds up to 17086 (A36)."""
    data = raw_batch(raw_record(value=SIXTEEN_KIB))
    assert len(data) == 16456
    return must_write(expected(record(SIXTEEN_KIB)), data)


@case("SIZ-13", refs=["seed 004:184"])
def large_v1_message_of_the_blog() -> Draft:
    """A record of 16384 B takes 16418 B in v1: 12 + 22 + 16384."""
    data = raw_message(1, value=SIXTEEN_KIB)
    assert len(data) == 16418
    return must_write(expected(record(SIXTEEN_KIB), magic=1), data)


@case("SIZ-13", each={"v0 takes 320 B": (0, 320), "v1 takes 400 B": (1, 400)}, refs=["seed 004:180-182"])
def ten_messages_of_the_blog(row: tuple[int, int]) -> Draft:
    """Ten values of 6 B with null keys are ten entries in the older formats, and take more than v2's 191 B."""
    magic, size = row
    timestamp = TIMESTAMP if magic else -1
    data = b"".join(raw_message(magic, value=made.value, offset=made.offset) for made in TEN)
    assert len(data) == size
    fields = {"magic": magic, "max_timestamp": timestamp, "timestamp_type": "create" if magic else "none"}
    batches = (expected(made._replace(timestamp=timestamp), base_offset=made.offset, **fields) for made in TEN)
    return valid(data, *batches)


FIRST: Final = record(key=b"key")
SECOND: Final = record(None, offset=1, timestamp=TIMESTAMP + 5, headers=((b"h", None), (b"", b"")))
OWNED: Final = {"producer_id": 77, "producer_epoch": 3, "base_sequence": 10, "partition_leader_epoch": -1}
JAVA: Final[dict[str, tuple[str, Batch]]] = {
    "two records": (
        "00000000000000000000004cffffffff02a05fbcb60000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffff"
        "ffffffff000000021c000000066b65790a76616c75650016000a020101040268010000",
        expected(FIRST, SECOND, max_timestamp=TIMESTAMP + 5),
    ),
    "idempotent": (
        "000000000000000000000040ffffffff02269246840000000000000000018bcfe568000000018bcfe56800000000000000004d0003"
        "0000000a000000011c000000066b65790a76616c756500",
        expected(FIRST, **OWNED),
    ),
    "timestamp -1": (
        "000000000000000000000038ffffffff02a909c270000000000000ffffffffffffffffffffffffffffffffffffffffffffffffffff"
        "ffffffff000000010c000000010000",
        expected(record(b"", timestamp=-1), max_timestamp=-1),
    ),
    "timestamps -1 and 5": (
        "00000000000000000000003fffffffff02d56fcd15000000000001ffffffffffffffff0000000000000005ffffffffffffffffffff"
        "ffffffff000000020c0000000100000c000c02010000",
        expected(record(b"", timestamp=-1), record(b"", offset=1, timestamp=5), max_timestamp=5),
    ),
    "offset below the base": (
        "000000000000000500000038ffffffff0281eb77d00000fffffffd00000000000000010000000000000001ffffffffffffffffffff"
        "ffffffff000000010c000005010000",
        expected(record(b"", offset=2, timestamp=1), base_offset=5, last_offset=2, max_timestamp=1),
    ),
}
JAVA_RULES: Final = ("REC-01", "TIM-06", "OFF-09", "PID-16")


@case(*JAVA_RULES, each=JAVA)
def written_by_java(row: tuple[str, Batch]) -> Draft:
    """A batch that kafka-clients 3.9.0 wrote is read."""
    return valid(bytes.fromhex(row[0]), row[1])


@case(*JAVA_RULES, each=JAVA)
def written_as_by_java(row: tuple[str, Batch]) -> Draft:
    """A writer gives the very bytes that kafka-clients 3.9.0 gave."""
    return must_write(row[1], bytes.fromhex(row[0]))


JAVA_MESSAGES: Final = {
    "v0": (
        0,
        "0000000000000000000000162356c1370000000000036b65790000000576616c756500000000000000010000000ea7ec68030000"
        "ffffffffffffffff",
    ),
    "v1": (
        1,
        "00000000000000000000001e6ad05db801000000018bcfe56800000000036b65790000000576616c75650000000000000001"
        "00000016ea764b5401000000018bcfe56805ffffffffffffffff",
    ),
}


@case("FRM-02", "LEG-01", "LEG-02", each=JAVA_MESSAGES)
def messages_written_by_java(row: tuple[int, str]) -> Draft:
    """The messages that kafka-clients 3.9.0 wrote are two entries, the second with null key and null value."""
    magic, text = row
    times = (TIMESTAMP, TIMESTAMP + 5) if magic else (-1, -1)
    kind = "create" if magic else "none"
    made = (FIRST._replace(timestamp=times[0]), record(None, offset=1, timestamp=times[1]))
    batches = (
        expected(one, magic=magic, base_offset=one.offset, max_timestamp=one.timestamp, timestamp_type=kind)
        for one in made
    )
    return valid(bytes.fromhex(text), *batches)


@case("REC-24", "REC-03")
def broken_by_java_itself() -> Draft:
    """A lone surrogate in a header key makes Java's writer claim 12 bytes for a record of 9; Kafka refuses it.

    The length counts the surrogate as three bytes of UTF-8; what is written is '?'.
    """
    text = (
        "00000000000000000000003bffffffff021f9ace7400000000000000000000000000000000000000000000ffffffffffffffffffff"
        "ffffffff0000000118000000010102023f01"
    )
    return invalid(bytes.fromhex(text), "truncated", "malformed")


JAVA_COMPRESSED: Final = {
    "snappy": "000000000000000000000062ffffffff02d1fe77c20002000000010000018bcfe568000000018bcfe56805ffffffffffffffff"
    "ffffffffffff0000000282534e415050590000000001000000010000001d1b681c000000066b65790a76616c75650016000a02"
    "0101040268010000",
    "lz4": "00000000000000000000005bffffffff02fdb7c9af0003000000010000018bcfe568000000018bcfe56805ffffffffffffffff"
    "ffffffffffff0000000204224d186040821b0000801c000000066b65790a76616c75650016000a02010104026801000000000000",
}


@case("RWR-14", each={codec: (codec, text) for codec, text in JAVA_COMPRESSED.items()})
def batch_compressed_by_java(row: tuple[Compression, str]) -> Draft:
    """Bytes that Java writes with snappy and lz4 can be reproduced: header and payload byte for byte."""
    codec, text = row
    batch = expected(*GOLDEN_RECORDS, compression=codec, max_timestamp=TIMESTAMP + 5)
    return must_write(batch, bytes.fromhex(text), compare="masked")
