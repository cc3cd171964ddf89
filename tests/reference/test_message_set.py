"""v0 and v1 wrappers: a compressed message set inside a message."""

import gzip
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from kafka_corpus.authoring.build import TIMESTAMP, flip, raw_message
from kafka_records import Batch, Limits, Record, RecordFormatError, decode, encode
from kafka_records.compression import decompress

ThreeWays = Callable[[bytes], tuple[Batch, ...]]

# kafka-clients 3.9.0: (0, ts, "key", "value") and (1, ts + 5, null, null) in one wrapper.
GOLDEN = {
    (
        0,
        "lz4",
    ): "0000000000000001000000506fe0c26d0003ffffffff0000004204224d1860401a330000001600010051162356c1370f00d1036b"
    "65790000000576616c75651200f0060000010000000ea7ec68030000ffffffffffffffff00000000",
    (1, "lz4"): "000000000000000100000062572c9ed201030000018bcfe56805ffffffff0000004c04224d186040823d00000016000100e01e"
    "6ad05db801000000018bcfe5681800d0036b65790000000576616c75651100001d008500000016ea764b542a009005ffffffffffffffff"
    "00000000",
    (
        1,
        "snappy",
    ): "00000000000000010000006d2d38433d01020000018bcfe56805ffffffff0000005782534e41505059000000000100000001"
    "000000434c00001901341e6ad05db801000000018bcfe568011830036b65790000000576616c756501110800000001211016ea764b5401"
    "0934018bcfe56805ffffffffffffffff",
}
GZIP = 1


def wrapper(magic: int, inner: bytes, *, offset: int = 0, attributes: int = GZIP, timestamp: int = TIMESTAMP) -> bytes:
    """A gzip wrapper around *inner*."""
    return raw_message(
        magic, None, gzip.compress(inner, mtime=0), offset=offset, attributes=attributes, timestamp=timestamp
    )


def messages(magic: int, offsets: Sequence[int], *, attributes: int = 0) -> bytes:
    """Inner messages with these offsets, each with its own time and value."""
    return b"".join(
        raw_message(magic, None, b"%d" % at, offset=offset, timestamp=at, attributes=attributes)
        for at, offset in enumerate(offsets)
    )


def offsets_of(data: bytes) -> list[int]:
    """The offsets of all records of the only batch."""
    (batch,) = decode(data)
    return [record.offset for record in batch.records]


def failure(data: bytes, limits: Limits | None = None) -> tuple[str, str, str, int, int | None]:
    """Kind, rule, path, offset and inner offset of what `decode` raises."""
    with pytest.raises(RecordFormatError) as caught:
        decode(data, limits=limits or Limits())
    error = caught.value
    return error.kind, error.rule, error.path, error.offset, error.inner_offset


@pytest.mark.parametrize(("magic", "codec"), GOLDEN)
def test_the_golden_wrappers(magic: int, codec: str, three_ways: ThreeWays) -> None:
    """The Java client's wrappers are read as what they stand for (NST-01)."""
    data = bytes.fromhex(GOLDEN[magic, codec])
    times = (TIMESTAMP, TIMESTAMP + 5) if magic else (-1, -1)
    (batch,) = three_ways(data)
    assert batch == Batch(
        magic=magic,
        base_offset=0,
        last_offset=1,
        compression=codec,  # type: ignore[arg-type]  # a str from the table
        timestamp_type="create" if magic else "none",
        max_timestamp=times[1],
        records=(Record(0, times[0], b"key", b"value"), Record(1, times[1], None, None)),
    )


@pytest.mark.parametrize(("magic", "codec"), GOLDEN)
def test_the_golden_wrappers_are_written_again(magic: int, codec: str) -> None:
    """Below the compression every byte is the Java client's."""
    data = bytes.fromhex(GOLDEN[magic, codec])
    start = 34 if magic else 26
    written = encode(decode(data)[0])
    inner = [
        decompress(codec, value[start:], magic=magic, most=1000)  # type: ignore[arg-type]  # a str from the table
        for value in (data, written)
    ]
    assert inner[0] == inner[1]
    # Offset, then magic to key; size, CRC and value length depend on the library.
    assert (written[:8], written[16 : start - 4]) == (data[:8], data[16 : start - 4])


@pytest.mark.parametrize(
    ("last", "inner", "expected"),
    [
        (12, [0, 1, 2], [10, 11, 12]),
        (12, [0, 2], [10, 12]),
        (12, [5, 6, 7], [10, 11, 12]),
        (12, [12], [12]),
        (2, [2, 1, 0], [4, 3, 2]),
        (9, [0, 0, 0], [9, 9, 9]),
        (0, [0, 1, 2], [0, 1, 2]),
        (0, [7, 8], [7, 8]),
        (-3, [-5, -4], [-4, -3]),
        (2**63 - 1, [-2, -1], [2**63 - 2, 2**63 - 1]),
    ],
)
def test_v1_inner_offsets_count_from_the_last(last: int, inner: list[int], expected: list[int]) -> None:
    """The wrapper carries the last offset, except that 0 means no shift (NST-08, NST-09, NST-12)."""
    assert offsets_of(wrapper(1, messages(1, inner), offset=last)) == expected


@pytest.mark.parametrize(("last", "inner"), [(12, [10, 12]), (0, [10, 12]), (3, [10, 12])])
def test_v0_inner_offsets_are_absolute(last: int, inner: list[int]) -> None:
    """In v0 they are used as they are, whatever the wrapper says (NST-14)."""
    assert offsets_of(wrapper(0, messages(0, inner), offset=last)) == inner


@pytest.mark.parametrize("last", [1, -1])
def test_a_v1_wrapper_offset_below_the_last(last: int) -> None:
    """A wrapper offset that is neither 0 nor at least the last inner one is refused (NST-10)."""
    data = wrapper(1, messages(1, [0, 2]), offset=last)
    assert failure(data)[:4] == ("malformed", "NST-10", "batch.last_offset", 0)


@pytest.mark.parametrize(("outer", "inner"), [(0, 1), (1, 0)])
def test_inner_messages_of_another_magic(outer: int, inner: int) -> None:
    """The wrapper's magic rules the offsets, a message's own its layout (NST-15)."""
    (batch,) = decode(wrapper(outer, messages(inner, [0, 1]), offset=9))
    assert [record.offset for record in batch.records] == ([8, 9] if outer else [0, 1])
    assert [record.timestamp for record in batch.records] == ([0, 1] if inner else [-1, -1])


def test_a_wrappers_log_append_time_overrides() -> None:
    """With bit 3 in a v1 wrapper each v1 message has the wrapper's time, a v0 message none (NST-20)."""
    mixed = messages(1, [0]) + messages(0, [1])
    (batch,) = decode(wrapper(1, mixed, offset=1, attributes=GZIP | 8))
    assert batch.timestamp_type == "append"
    assert [record.timestamp for record in batch.records] == [TIMESTAMP, -1]


def test_an_inner_timestamp_type_is_ignored() -> None:
    """The wrapper's type wins over the messages' own (NST-21)."""
    (batch,) = decode(wrapper(1, messages(1, [0, 1], attributes=8), offset=1))
    assert batch.timestamp_type == "create"
    assert [record.timestamp for record in batch.records] == [0, 1]


def test_a_wrappers_key_is_ignored(three_ways: ThreeWays) -> None:
    """A wrapper may have a key, which is ignored (NST-02)."""
    value = gzip.compress(messages(1, [0]))
    (batch,) = three_ways(raw_message(1, b"ignored", value, attributes=GZIP))
    assert batch.records == (Record(0, 0, None, b"0"),)


@pytest.mark.parametrize("key", [None, b"", b"key"])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_without_a_value(magic: int, key: bytes | None) -> None:
    """A compressed message with a null value is refused at its length (NST-03)."""
    at = (26 if magic else 18) + 4 + len(key or b"")
    data = raw_message(magic, key, None, attributes=GZIP)
    assert failure(data) == ("malformed", "NST-03", "batch.value_length", at, None)


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_a_wrapper_with_an_empty_value(codec: int) -> None:
    """An empty value fails in the codec (NST-04)."""
    kind, _, path, offset, _ = failure(raw_message(1, None, b"", attributes=codec))
    assert (kind, path, offset) == ("decompression", "batch.value", 34)


@pytest.mark.parametrize("magic", [0, 1])
def test_no_zstd_below_v2(magic: int) -> None:
    """Codec 4 is known, but not to v0 and v1 (LEG-15)."""
    data = raw_message(magic, None, b"", attributes=4)
    assert failure(data) == ("unsupported_compression", "LEG-15", "batch.attributes", 17, None)


@pytest.mark.parametrize("cut", [0, 11, 12, 13, 36, 50])
def test_a_set_without_a_whole_message(cut: int) -> None:
    """A set that ends before its first message does is refused (NST-05, NST-27)."""
    inner = raw_message(1, b"key", b"a longer value", offset=0)
    assert failure(wrapper(1, inner[:cut])) == ("malformed", "NST-05", "batch.records", 34, 0)


def test_a_tail_that_is_cut_short_is_dropped() -> None:
    """After the first whole message a set may end anywhere (NST-06)."""
    first, second = messages(1, [0]), messages(1, [1])
    for cut in range(len(second)):
        assert offsets_of(wrapper(1, first + second[:cut])) == [0]
    assert offsets_of(wrapper(1, first + second)) == [0, 1]


def test_a_tail_that_claims_too_much_is_dropped() -> None:
    """A claimed size of 2 GiB is a tail that is not there, and allocates nothing (NST-06)."""
    first = messages(1, [0])
    assert offsets_of(wrapper(1, first + bytes(8) + b"\x7f\xff\xff\xff" + bytes(30))) == [0]


@pytest.mark.parametrize("size", [13, 0, -1])
def test_an_inner_size_too_small_for_anything(size: int) -> None:
    """An inner size below 14 is refused as soon as it is seen (NST-07)."""
    first = messages(1, [0])
    inner = first + bytes(8) + size.to_bytes(4, "big", signed=True)
    expected = ("malformed", "NST-07", "batch.records[1].message_size", 34, len(first) + 8)
    assert failure(wrapper(1, inner)) == expected


def test_an_inner_crc_is_verified() -> None:
    """Inner messages have checksums of their own (NST-17, NST-19)."""
    first = messages(1, [0])
    inner = first + flip(messages(1, [1]), -1 % len(first))
    assert failure(wrapper(1, inner)) == ("corrupt", "LEG-04", "batch.records[1].crc", 34, len(first) + 12)


def test_an_inner_field_is_broken() -> None:
    """A broken length inside is found where it is (LEG-11)."""
    inner = messages(1, [0]) + raw_message(1, body=b"\0\0\0\x09" + bytes(5), offset=1)
    expected = ("truncated", "LEG-11", "batch.records[1].key_length", 34, len(messages(1, [0])) + 30)
    assert failure(wrapper(1, inner)) == expected


@pytest.mark.parametrize("codec", range(1, 8))
def test_an_inner_message_is_not_compressed(codec: int) -> None:
    """A wrapper cannot hold a wrapper, whatever codec the inner message names (NST-16)."""
    first = messages(1, [0])
    inner = first + messages(1, [1], attributes=codec)
    expected = ("malformed", "NST-16", "batch.records[1].attributes", 34, len(first) + 17)
    assert failure(wrapper(1, inner)) == expected


def test_the_codec_refuses() -> None:
    """Bytes that are not compressed are refused by the codec, at the value (CMP-06)."""
    data = raw_message(1, b"k", messages(1, [0]), attributes=GZIP)
    assert failure(data) == ("decompression", "GZP-01", "batch.value", 35, None)


def test_errors_count_from_the_start_of_the_input() -> None:
    """A second entry's error has the first in `batches`, and its offset in the whole input."""
    good, bad = wrapper(1, messages(1, [0])), raw_message(1, None, None, attributes=GZIP)
    with pytest.raises(RecordFormatError) as caught:
        decode(good + bad)
    assert caught.value.batches == decode(good)
    assert caught.value.offset == len(good) + 30


@pytest.mark.parametrize("kind", ["create", "append"])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_v1_writers_count_from_the_base(codec: str, kind: str) -> None:
    """Inner offsets are written from 0 with gaps, the wrapper carries the last (NST-11, NST-22)."""
    records = tuple(Record(offset, TIMESTAMP, b"k", b"v") for offset in (10, 11, 14))
    batch = Batch(
        magic=1,
        base_offset=10,
        last_offset=14,
        compression=codec,  # type: ignore[arg-type]  # a str parameter
        timestamp_type=kind,  # type: ignore[arg-type]  # a str parameter
        max_timestamp=TIMESTAMP,
        records=records,
    )
    data = encode(batch)
    assert decode(data) == (batch,)
    inner = decompress(batch.compression, data[34:], magic=1, most=1000)
    bit = 8 if kind == "append" else 0
    expected = [raw_message(1, b"k", b"v", offset=offset, attributes=bit) for offset in (0, 1, 4)]
    assert inner == b"".join(expected)
    assert (data[:8], data[17]) == ((14).to_bytes(8, "big"), bit | ["none", "gzip", "snappy", "lz4"].index(codec))


def test_v0_writers_count_from_nothing() -> None:
    """Inner offsets of v0 are written as they are (NST-14)."""
    records = (Record(10, -1, None, b"a"), Record(14, -1, None, b"b"))
    batch = Batch(magic=0, base_offset=10, last_offset=14, compression="gzip", timestamp_type="none", records=records)
    assert decode(encode(batch)) == (batch,)
    assert decode(encode(replace(batch, timestamp_type="append"))) == (batch,)


@pytest.mark.parametrize(
    ("base_offset", "last_offset"),
    [(-1, 1), (5, 0), (0, 2), (549_755_813_888, 0)],
)
def test_bases_that_readers_would_not_find(base_offset: int, last_offset: int) -> None:
    """A wrapper of v1 is not written if its offset would lead a reader to another base (NST-09, NST-10)."""
    records = (Record(base_offset, TIMESTAMP, b"k", b"v"), Record(base_offset + 1, TIMESTAMP, b"k", b"v"))
    batch = Batch(magic=1, base_offset=base_offset, last_offset=last_offset, compression="gzip", records=records)
    with pytest.raises(RecordFormatError) as caught:
        encode(batch)
    assert (caught.value.path, caught.value.rule) == ("batch.last_offset", "NST-10")
