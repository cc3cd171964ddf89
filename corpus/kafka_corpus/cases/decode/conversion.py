"""Batches that conversion between the formats leaves for readers and writers (group CNV)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_corpus.authoring.batches import batch_of, bytes_of, payload_of
from kafka_corpus.authoring.build import TIMESTAMP, grid
from kafka_corpus.authoring.frames import lz4_block, lz4_frame, pack
from kafka_corpus.authoring.messages import (
    message_bytes,
    numbered,
    record_of,
    seal,
    set_of,
    single_batch,
    wrapped,
    wrapper_batch,
)
from kafka_corpus.registry import Draft, acceptable, case, must_refuse, must_write, valid
from kafka_records import Batch, Record
from kafka_records.constants import Compression

CODECS: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
MAGICS = {"v0": 0, "v1": 1}


def padding(size: int, claim: int | None = None) -> bytes:
    """*size* bytes that a broker fills a converted response up with.

    LazyDownConversionRecordsSend#buildOverflowBatch: offset -1, a size beyond
    what is left and at least 61, then zeros.
    """
    claimed = max(size + 1, 61) if claim is None else claim
    return ((-1).to_bytes(8, "big", signed=True) + claimed.to_bytes(4, "big") + bytes(max(size - 12, 0)))[:size]


PADDINGS = {"12": 12, "13": 13, "17": 17, "18": 18, "60": 60, "61": 61, "73": 73, "500": 500}


@case("CNV-12", each=grid(magic=MAGICS, size=PADDINGS))
def padding_behind_messages(shape: dict[str, Any]) -> Draft:
    """Padding after converted messages is a partial message at offset -1, and no error."""
    record = record_of(shape["magic"], 5, b"key")
    return valid(message_bytes(record, shape["magic"]) + padding(shape["size"]), single_batch(record, shape["magic"]))


@case("CNV-12", "CNV-13", each=PADDINGS)
def nothing_but_padding(size: int) -> Draft:
    """A converted response of which nothing survived is padding alone: no messages, no error."""
    return valid(padding(size))


@case("CNV-12", each={"one": 1, "eleven": 11})
def padding_cut_short(size: int) -> Draft:
    """Padding may be cut short like anything else at the end of a fetch."""
    data, batch = wrapped(numbered(1, 3, 4), 1, "gzip")
    return valid(data + padding(100)[:size], batch)


@case("CNV-12", each=CODECS)
def padding_behind_a_wrapper(codec: Compression) -> Draft:
    """Padding after a converted wrapper is dropped, whatever the codec is."""
    data, batch = wrapped(numbered(0, 3, 4), 0, codec)
    return valid(data + padding(200), batch)


@case("CNV-12", "FRM-07")
def padding_behind_a_v2_batch() -> Draft:
    """Padding may follow a batch that needed no conversion; its zeros at the magic say v0."""
    batch = batch_of(Record(5, TIMESTAMP, b"key", b"value"))
    return valid(bytes_of(batch) + padding(90), batch)


@case("CNV-08", "CNV-11", each=CODECS)
def down_converted_wrapper(codec: Compression) -> Draft:
    """A v2 batch with gaps becomes a v1 wrapper whose inner offsets count from its first record."""
    records = [
        Record(40, TIMESTAMP, b"a", b"1"),
        Record(44, TIMESTAMP + 3, None, b""),
        Record(45, TIMESTAMP, b"", None),
    ]
    return valid(*wrapped(records, 1, codec))


@case("CNV-09", "CNV-11", each=CODECS)
def down_converted_to_v0(codec: Compression) -> Draft:
    """A v2 batch with gaps becomes a v0 wrapper with absolute offsets and no times."""
    records = [record_of(0, 40, b"a", b"1"), record_of(0, 44, None, b""), record_of(0, 45, b"", None)]
    return valid(*wrapped(records, 0, codec))


@case("CNV-10", "CNV-11")
def down_converted_from_the_middle() -> Draft:
    """Of an uncompressed v2 batch only the records from the fetch offset on are converted."""
    records = numbered(1, 47, 48)
    return valid(set_of(records, 1), *(single_batch(record, 1) for record in records))


@case("CNV-18", "SEG-06")
def converted_and_unconverted() -> Draft:
    """Batches that are old enough are copied, so a response mixes v0 and v1."""
    old, new = record_of(0, 1, b"copied"), record_of(1, 2, b"converted")
    return valid(message_bytes(old, 0) + message_bytes(new, 1), single_batch(old, 0), single_batch(new, 1))


@case("CNV-17", "LZ4-06", refs=("KAFKA-3160",), each={"one": 1, "twenty": 20})
def lz4_converted_to_v0(count: int) -> Draft:
    """lz4 is written for v0 with the header checksum over magic and descriptor."""
    data, batch = wrapped(numbered(0, *range(300, 300 + count)), 0, "lz4")
    return must_write(batch, data, compare="masked")


@case("CNV-17", "LZ4-07", refs=("KAFKA-3160",), each={"one": 1, "twenty": 20})
def lz4_converted_to_v1(count: int) -> Draft:
    """lz4 is written for v1 with the right header checksum."""
    data, batch = wrapped(numbered(1, *range(310, 310 + count)), 1, "lz4")
    return must_write(batch, data, compare="masked")


@case("CNV-17", "LZ4-06")
def lz4_converted_and_read() -> Draft:
    """Messages that a broker converted to v0 with lz4 are read by an old client's rules."""
    records = numbered(0, 320, 321)
    packed = lz4_frame(lz4_block(set_of(records, 0)), broken=True)
    assert packed[6] == 0x1A
    return valid(seal(packed, 0, "lz4", offset=321), wrapper_batch(records, 0, "lz4"))


V0_IN_V2 = [Record(n, -1, b"k%d" % n, b"from v0") for n in range(3)]


@case("CNV-04", "TIM-05", each={"none": "none", **CODECS})
def up_converted_from_v0(codec: Compression) -> Draft:
    """v0 messages become a v2 batch of CreateTime -1, with no producer and no headers."""
    batch = batch_of(*V0_IN_V2, compression=codec)
    return valid(bytes_of(batch), batch)


@case("CNV-04", "TIM-05", each={"none": "none", **CODECS})
def write_up_converted_from_v0(codec: Compression) -> Draft:
    """Records without a time are written with a base and newest timestamp of -1."""
    batch = batch_of(*(record._replace(offset=record.offset + 9) for record in V0_IN_V2), compression=codec)
    return must_write(batch, bytes_of(batch), compare="exact" if codec == "none" else "masked")


@case("CNV-05", "TIM-02", each={"none": "none", **CODECS})
def up_converted_from_v0_with_append_time(codec: Compression) -> Draft:
    """v0 messages on a LogAppendTime topic get its time, over a base timestamp of -1."""
    records = [record._replace(timestamp=TIMESTAMP + 9) for record in V0_IN_V2]
    batch = batch_of(*records, compression=codec, timestamp_type="append", max_timestamp=TIMESTAMP + 9)
    # All deltas are 0, as they were from -1 to -1.
    plain = payload_of(V0_IN_V2, base_timestamp=-1)
    return valid(bytes_of(batch, packed=pack(codec, plain), base_timestamp=-1), batch)


@case("CNV-02", "CNV-03", each={"none": "none", **CODECS})
def up_converted_from_v1(codec: Compression) -> Draft:
    """v1 messages of one request become one v2 batch of the same codec."""
    records = [record._replace(offset=n) for n, record in enumerate(numbered(1, 0, 1, 2))]
    batch = batch_of(*records, compression=codec, partition_leader_epoch=4)
    return valid(bytes_of(batch), batch)


@case("CNV-20", "CNV-08", each=grid(magic=MAGICS, codec={"none": "none", **CODECS}))
def write_for_an_old_broker(shape: dict[str, Any]) -> Draft:
    """A producer writes for an old broker only the fields of the old format: no headers, no producer, in v0 no time."""
    magic, codec = shape["magic"], shape["codec"]
    records = numbered(magic, 500, 501, 502)
    data, batch = wrapped(records, magic, codec)
    if codec == "none":
        batch = replace(batch, base_offset=500)
        return must_write(batch, set_of(records, magic))
    return must_write(batch, data, compare="masked")


@case("CNV-14", "LEG-15", each=MAGICS)
def zstd_cannot_be_down_converted(magic: int) -> Draft:
    """A zstd batch cannot be written below v2; its records have to be recompressed."""
    batch: Batch = wrapper_batch(numbered(magic, 510, 511, 512), magic, "zstd")
    return must_refuse(batch, "malformed", "unsupported_compression")


@case("CNV-19", "LEG-21")
def timestamp_that_cannot_be_converted() -> Draft:
    """A v1 timestamp below -1 can be read by some, but written by none."""
    record = record_of(1, 520, b"key", timestamp=-5)
    why = "Kafka's reader does not look, its writer refuses, so that converting such a message fails"
    return acceptable(message_bytes(record, 1), single_batch(record, 1), kinds=("malformed",), why=why)
