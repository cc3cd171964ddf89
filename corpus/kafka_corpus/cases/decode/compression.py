"""Properties that all codecs share (group CMP): the compressed part, and unsound compressed data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from kafka_corpus.authoring.batches import (
    APPEND,
    LEGACY,
    PLAIN,
    REFUSED,
    around,
    batch_of,
    bytes_of,
    compressed,
    payload_of,
    plain_of,
    some_records,
)
from kafka_corpus.authoring.build import TIMESTAMP, flip, grid, put, raw_batch, raw_record
from kafka_corpus.authoring.frames import codec_id, pack
from kafka_corpus.authoring.messages import message_bytes
from kafka_corpus.case import Recipe
from kafka_corpus.recipes import uniform_batch
from kafka_corpus.registry import Draft, acceptable, case, invalid, must_write, valid
from kafka_records import Header, Kind, Record
from kafka_records.constants import Compression

CODECS: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
OLD: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
TOO_FEW: Final[tuple[Kind, ...]] = ("truncated", "malformed")
RECORDS = {
    "one": some_records(1),
    "ten": some_records(10),
    "null-value": (Record(0, TIMESTAMP, b"key", None),),
    "null-key": (Record(0, TIMESTAMP, None, b"value"),),
    "nothing": (Record(0, TIMESTAMP, None, None),),
    "headers": (Record(0, TIMESTAMP, b"k", b"v", (Header(b"a", b"1"), Header(b"a", None), Header(b"", b""))),),
    "times": tuple(Record(n, TIMESTAMP - 1000 * n, None, b"v") for n in range(3)),
    "long": (Record(0, TIMESTAMP, b"-" * 300, b"The quick brown fox. " * 100),),
    "incompressible": (Record(0, TIMESTAMP, None, bytes((n * n * 7 + n // 3) % 256 for n in range(1000))),),
}


@case("CMP-03", "CMP-01", each=grid(codec=CODECS, records=RECORDS))
def read(shape: dict[str, Any]) -> Draft:
    """Compressed records are read like plain ones."""
    batch = batch_of(*shape["records"], compression=shape["codec"])
    return valid(bytes_of(batch), batch)


@case(
    "CMP-01",
    "ATT-01",
    each=grid(codec=CODECS, records={name: RECORDS[name] for name in ("ten", "nothing", "headers", "long")}),
)
def write(shape: dict[str, Any]) -> Draft:
    """Only the bytes after the record count are compressed; the header stays clear."""
    batch = batch_of(*shape["records"], compression=shape["codec"])
    return must_write(batch, bytes_of(batch), compare="masked")


@case("CMP-01", "TIM-02", each=CODECS)
def append_time_over_compressed_records(codec: Compression) -> Draft:
    """LogAppendTime is in the clear header and overrides the compressed timestamps."""
    records = some_records(3)
    read_as = [record._replace(timestamp=TIMESTAMP + 99) for record in records]
    batch = batch_of(*read_as, compression=codec, timestamp_type="append", max_timestamp=TIMESTAMP + 99)
    packed = pack(codec, payload_of(records))
    return valid(bytes_of(batch, packed=packed, base_timestamp=TIMESTAMP), batch)


@case("CMP-01", "OFF-01", "TIM-01", each=CODECS)
def base_offset_over_compressed_records(codec: Compression) -> Draft:
    """Base offset and base timestamp are in the clear header, so a broker moves both without recompressing."""
    records = [
        record._replace(offset=record.offset + 2**40, timestamp=record.timestamp - 5) for record in some_records()
    ]
    batch = batch_of(*records, compression=codec)
    return valid(bytes_of(batch, packed=pack(codec, PLAIN)), batch)


@case("CMP-01", "CRC-03", each=CODECS)
def crc_over_compressed_bytes(codec: Compression) -> Draft:
    """The CRC covers the compressed bytes: one that covers the plain ones is wrong."""
    packed = pack(codec, PLAIN)
    plain_crc = int.from_bytes(raw_batch(PLAIN, attributes=codec_id(codec), record_count=2)[17:21], "big")
    return invalid(put(raw_batch(packed, attributes=codec_id(codec), record_count=2), "crc", plain_crc), "corrupt")


@case("CMP-04", "CRC-03", each=CODECS)
def compressed_byte_changed(codec: Compression) -> Draft:
    """A compressed byte that changed on the way is noticed by the CRC, before the codec sees it."""
    data, _ = compressed(codec, pack(codec, PLAIN))
    return invalid(flip(data, 75), "corrupt", "decompression")


@case("CMP-04", each=CODECS)
def codec_refuses(codec: Compression) -> Draft:
    """Bytes that a codec refuses are an error although the CRC is right; earlier batches have been read."""
    good, batch = compressed(codec, pack(codec, PLAIN))
    bad, _ = compressed(codec, b"\xde\xad\xbe\xef" * 10)
    return invalid(good + bad + good, *REFUSED, before=(batch,))


@case("CMP-04", each=grid(magic=LEGACY, codec=OLD))
def codec_refuses_in_a_wrapper(shape: dict[str, Any]) -> Draft:
    """Bytes that a codec refuses are an error in a wrapper too."""
    return invalid(around(b"\xde\xad\xbe\xef" * 10, shape["magic"], shape["codec"])[0], *REFUSED)


@case("CMP-04", each=CODECS)
def half_of_the_frame(codec: Compression) -> Draft:
    """A frame that ends in the middle is an error although the CRC is right."""
    packed = pack(codec, PLAIN)
    return invalid(compressed(codec, packed[: len(packed) // 2])[0], *REFUSED)


@case("CMP-05", each=grid(codec=CODECS, missing={"one-byte": 1, "half-a-record": 10, "a-record": len(PLAIN) // 2}))
def too_few_bytes(shape: dict[str, Any]) -> Draft:
    """A sound frame that holds fewer bytes than the records need is an error."""
    return invalid(compressed(shape["codec"], pack(shape["codec"], PLAIN[: -shape["missing"]]))[0], *TOO_FEW)


@case("CMP-05", "HDR-14", each=grid(codec=CODECS, more={"one-byte": b"\x00", "a-record": payload_of(some_records(1))}))
def too_many_bytes(shape: dict[str, Any]) -> Draft:
    """A sound frame that holds more bytes than the records take is an error."""
    codec = shape["codec"]
    return invalid(compressed(codec, pack(codec, PLAIN + shape["more"]))[0], "malformed", "decompression")


@case("CMP-05", "HDR-14")
def too_many_bytes_after_a_large_record() -> Draft:
    """One byte that is left after a record of 40,000 bytes is an error as after a small one."""
    payload = raw_record(value=bytes(40_000)) + b"\x00"
    return invalid(raw_batch(pack("gzip", payload), attributes=codec_id("gzip")), "malformed", "decompression")


@case("CMP-05", each=CODECS)
def frame_of_no_bytes(codec: Compression) -> Draft:
    """A sound frame that holds no bytes holds no record."""
    return invalid(compressed(codec, pack(codec, b""))[0], *TOO_FEW, "decompression")


@case("CMP-06", each=CODECS)
def not_compressed(codec: Compression) -> Draft:
    """Codec bits over records that are not compressed are an error."""
    return invalid(compressed(codec, PLAIN)[0], *REFUSED)


@case("CMP-06", each=grid(magic=LEGACY, codec=OLD))
def not_compressed_in_a_wrapper(shape: dict[str, Any]) -> Draft:
    """Codec bits over a message set that is not compressed are an error."""
    return invalid(around(plain_of(shape["magic"]), shape["magic"], shape["codec"])[0], *REFUSED)


PAIRS = {
    f"{named}-bits-{real}-bytes": (named, real)
    for named in CODECS.values()
    for real in CODECS.values()
    if named != real
}


@case("CMP-06", each=PAIRS)
def another_codec(pair: tuple[Compression, Compression]) -> Draft:
    """The bits name the codec; readers do not guess it from the bytes."""
    named, real = pair
    return invalid(compressed(named, pack(real, PLAIN))[0], *REFUSED)


@case("CMP-07", each=CODECS)
def compressed_without_codec_bits(codec: Compression) -> Draft:
    """Without codec bits the payload is read as records, and compressed bytes are none."""
    return invalid(raw_batch(pack(codec, PLAIN), record_count=2), "malformed", "truncated")


@case("CMP-07", "NST-01", each=OLD)
def wrapper_without_codec_bits(codec: Compression) -> Draft:
    """A message without codec bits is a plain message, and its value stays compressed bytes."""
    packed = pack(codec, plain_of(1), magic=1)
    data, batch = around(packed, 1, codec)
    record = Record(1, TIMESTAMP + 1, None, packed)
    plain = replace(batch, compression="none", base_offset=1, records=(record,))
    assert len(data) == len(message_bytes(record, 1))
    return valid(message_bytes(record, 1), plain)


@case("CMP-08", each=CODECS)
def no_payload(codec: Compression) -> Draft:
    """A compressed batch of one record without any payload is an error."""
    data = raw_batch(b"", attributes=codec_id(codec), record_count=1)
    return invalid(data, "decompression", "truncated", "malformed", "corrupt")


@case("CMP-08", "HDR-17", refs=["A26"], each=CODECS)
def no_payload_and_no_records(codec: Compression) -> Draft:
    """A batch with codec bits, no records and no payload may be read as empty or refused."""
    why = "gzip, snappy and lz4 have no frame of no bytes, and Java opens the codec before it looks at the count"
    data = raw_batch(b"", attributes=codec_id(codec), record_count=0, last_offset_delta=0)
    batch = batch_of(base_offset=0, last_offset=0, compression=codec, max_timestamp=TIMESTAMP)
    return acceptable(data, batch, kinds=REFUSED, why=why)


@case("CMP-11", each=CODECS)
def value_that_is_compressed(codec: Compression) -> Draft:
    """There is no nested compression in v2: a value that is a compressed batch is just bytes."""
    inner = batch_of(*some_records(), compression=codec)
    record = some_records(1)[0]._replace(value=bytes_of(inner))
    batch = batch_of(record, compression=codec)
    return valid(bytes_of(batch), batch)


@case("VAR-01", "CMP-03")
def record_of_more_than_a_mebibyte() -> Draft:
    """A compressed record may have a length of four bytes, of which none is without a bit of the length."""
    batch = batch_of(some_records(1)[0]._replace(value=b"-" * 1_200_003), compression="gzip")
    length = payload_of(batch.records)[:4]
    assert length[3] < 0x80
    assert all(group & 0x7F for group in length)
    return valid(bytes_of(batch), batch)


@case("CMP-11", each=CODECS)
def codec_bits_in_record_attributes(codec: Compression) -> Draft:
    """Codec bits in the attributes of a record mean nothing: only batches are compressed."""
    data = raw_batch(pack(codec, raw_record(attributes=codec_id(codec))), attributes=codec_id(codec))
    return valid(data, batch_of(Record(0, TIMESTAMP, None, b"value"), compression=codec))


@case("CMP-11", each=CODECS)
def compressed_twice(codec: Compression) -> Draft:
    """A payload that was compressed twice is not decompressed twice."""
    return invalid(compressed(codec, pack(codec, pack(codec, PLAIN)))[0], "malformed", "truncated")


@case("CMP-10", "CMP-03", each=CODECS)
def compresses_a_hundredfold(codec: Compression) -> Draft:
    """Data may shrink a hundredfold: there is no limit on the ratio."""
    record = some_records(1)[0]._replace(value=b"-" * 30_000)
    batch = batch_of(record, compression=codec)
    return valid(bytes_of(batch), batch)


@case("HDR-18", "CMP-03", refs=("sarama 1.61.1",))
def more_records_than_compressed_bytes() -> Draft:
    """A count above the number of compressed bytes can be right: records that differ only in offset compress well.

    sarama takes such a batch for one that the fetch cut short, and skips it without an error.
    """
    count = 1500
    return valid(Recipe("uniform", {"count": count}), uniform_batch(count))


@case("CMP-03", "ATT-07", each=CODECS)
def codec_bits_among_others(codec: Compression) -> Draft:
    """The codec is read from three bits, whatever the others say."""
    batch = batch_of(
        *some_records(),
        compression=codec,
        transactional=True,
        producer_id=5,
        producer_epoch=0,
        base_sequence=0,
    )
    assert not bytes_of(batch)[22] & APPEND
    return valid(bytes_of(batch), batch)
