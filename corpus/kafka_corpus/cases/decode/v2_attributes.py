"""The attributes of a v2 batch: codec, four flags, and nine bits that mean nothing (seed 000:24-36)."""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.build import (
    TIMESTAMP,
    expected,
    grid,
    packed,
    put,
    raw_batch,
    raw_record,
    record,
    reseal,
    sealed,
)
from kafka_corpus.registry import Draft, case, invalid, must_refuse, must_write, valid
from kafka_records import Batch, Kind
from kafka_records.constants import COMPRESSIONS, Compression

CODECS: Final = {codec: codec for codec in COMPRESSIONS}
PLAIN_AND_GZIP: Final = {"none": "none", "gzip": "gzip"}
UNKNOWN_CODEC: Final[tuple[Kind, ...]] = ("unsupported_compression", "malformed", "decompression")
# A commit marker, which fits a batch with and without the control bit.
COMMIT: Final = record(bytes.fromhex("000000000007"), key=bytes.fromhex("00000001"))
APPEND_TIME: Final = TIMESTAMP + 9
DELETE_HORIZON: Final = TIMESTAMP + 86_400_000
FLAGS: Final[dict[str, dict[str, Any]]] = {
    "append time": {"timestamp_type": "append", "max_timestamp": APPEND_TIME},
    "transactional": {"transactional": True},
    "control": {"control": True},
    "delete horizon": {"delete_horizon": DELETE_HORIZON},
}


def flagged(*names: str, codec: Compression = "none") -> Batch:
    """A batch of a producer with these flags, and one record that fits them."""
    fields: dict[str, Any] = {"compression": codec, "producer_id": 9, "producer_epoch": 0, "base_sequence": 4}
    for name in names:
        fields |= FLAGS[name]
    return expected(COMMIT._replace(timestamp=fields.get("max_timestamp", TIMESTAMP)), **fields)


def with_attributes(attributes: int, codec: Compression = "none") -> bytes:
    """One record under these *attributes*, and compressed as they say."""
    return packed(codec, raw_record(), attributes=attributes)


@case("ATT-01", each=CODECS)
def codec_of_the_low_bits(codec: Compression) -> Draft:
    """Bits 0 to 2 name the codec of the records."""
    return valid(packed(codec, raw_record(value=b"codec")), expected(record(b"codec"), compression=codec))


@case(
    "ATT-01",
    each={"gzip bits over lz4": ("lz4", 1), "zstd bits over gzip": ("gzip", 4), "lz4 bits over snappy": ("snappy", 3)},
)
def codec_bits_of_another_codec(change: tuple[Compression, int]) -> Draft:
    """The bits decide which codec is opened; a payload of another codec is refused, and not sniffed."""
    data = put(with_attributes(0, change[0]), "attributes", change[1])
    return invalid(reseal(data), "decompression", "malformed", "truncated", "corrupt")


@case("ATT-01", "CMP-01", each=CODECS)
def writer_names_the_codec(codec: Compression) -> Draft:
    """A writer puts the codec into bits 0 to 2."""
    batch = expected(record(key=b"codec"), compression=codec)
    return must_write(batch, sealed(batch), compare="exact" if codec == "none" else "masked")


UNKNOWN: Final = grid(
    codec={"5": 5, "6": 6, "7": 7}, flags={"alone": 0, "append time": 0x08, "all flags": 0x78, "high byte": 0x100}
)


@case("ATT-02", each=UNKNOWN)
def unknown_codec(bits: dict[str, int]) -> Draft:
    """Codecs 5, 6 and 7 do not exist, whatever the other bits say."""
    return invalid(with_attributes(bits["codec"] | bits["flags"]), *UNKNOWN_CODEC)


@case("ATT-02", each={"5": 5, "6": 6, "7": 7})
def unknown_codec_behind_a_good_batch(codec: int) -> Draft:
    """A batch with an unknown codec is refused; Kafka's decoder gives the batch before it."""
    return invalid(with_attributes(0) + with_attributes(codec), *UNKNOWN_CODEC, before=(expected(record()),))


COMBINATIONS: Final = {
    f"{codec}: {' + '.join(names) or 'no flag'}": (codec, names)
    for codec in PLAIN_AND_GZIP
    for bits in range(16)
    for names in [tuple(name for at, name in enumerate(FLAGS) if bits & 1 << at)]
}


def combination(names: tuple[str, ...]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Those of `COMBINATIONS` whose first flag is the first of *names*."""
    return {label: row for label, row in COMBINATIONS.items() if row[1][:1] == names}


def decodes(row: tuple[Compression, tuple[str, ...]]) -> Draft:
    """The batch with these flags is read with each of them set, and no other."""
    batch = flagged(*row[1], codec=row[0])
    return valid(sealed(batch), batch)


@case("ATT-03", each=combination(("append time",)) | combination(()))
def append_time_with_other_flags(row: tuple[Compression, tuple[str, ...]]) -> Draft:
    """Bit 3 is the timestamp type: LogAppendTime if set, whatever the other flags say."""
    return decodes(row)


@case("ATT-04", each=combination(("transactional",)))
def transactional_with_other_flags(row: tuple[Compression, tuple[str, ...]]) -> Draft:
    """Bit 4 marks a transactional batch, whatever the other flags say."""
    return decodes(row)


@case("ATT-05", each=combination(("control",)))
def control_with_other_flags(row: tuple[Compression, tuple[str, ...]]) -> Draft:
    """Bit 5 marks a control batch, whatever the other flags say."""
    return decodes(row)


@case("ATT-06", each=combination(("delete horizon",)))
def delete_horizon_alone(row: tuple[Compression, tuple[str, ...]]) -> Draft:
    """Bit 6 says that the base timestamp is a delete horizon."""
    return decodes(row)


@case("ATT-04", "ATT-12")
def transactional_without_a_producer() -> Draft:
    """A broker stores a transactional batch with producer id -1, so a reader has to take it."""
    batch = expected(record(), transactional=True)
    return valid(sealed(batch), batch)


@case("ATT-06", "ATT-11", each={"0": 0, "2**62": 2**62})
def any_delete_horizon(horizon: int) -> Draft:
    """A delete horizon is any timestamp from 0 up; the records' times stay their own."""
    batch = expected(record(), delete_horizon=horizon)
    return valid(sealed(batch), batch)


@case("ATT-07", each={f"bit {bit}": bit for bit in range(7, 16)})
def unused_bit(bit: int) -> Draft:
    """Bits 7 to 15 are unused, and a reader must ignore each of them."""
    value = 1 << bit if bit < 15 else -(1 << 15)
    return valid(with_attributes(value), expected(record()))


@case("ATT-07", each=CODECS)
def all_unused_bits(codec: Compression) -> Draft:
    """With all unused bits set the codec is still that of bits 0 to 2."""
    return valid(with_attributes(-0x80, codec), expected(record(), compression=codec))


HIGH_BYTES: Final = {"lz4": 0x0300, "all flags": 0x7800, "codec 7": 0x0700}


@case("ATT-08", each=HIGH_BYTES)
def high_byte_that_resembles_bits(attributes: int) -> Draft:
    """The high byte never changes how a batch is decoded, even where it would mean something in the low byte."""
    return valid(with_attributes(attributes), expected(record()))


@case("ATT-08")
def high_byte_beside_flags() -> Draft:
    """Flags and codec of the low byte are read with every bit of the high byte set."""
    batch = flagged("append time", "transactional", codec="gzip")
    return valid(reseal(put(sealed(batch), "attributes", 0x19 - 0x100)), batch)


@case("ATT-13", each=CODECS)
def writer_leaves_the_high_byte_zero(codec: Compression) -> Draft:
    """A writer sets known bits only, whatever the codec and the flags; the high byte is 0."""
    batch = flagged("append time", "transactional", codec=codec)
    return must_write(batch, sealed(batch), compare="exact" if codec == "none" else "masked")


@case("ATT-03")
def writer_sets_the_timestamp_type() -> Draft:
    """A writer sets bit 3 for LogAppendTime, and the max timestamp is the append time."""
    batch = flagged("append time")
    return must_write(batch, sealed(batch))


@case("ATT-04")
def writer_sets_the_transactional_bit() -> Draft:
    """A writer sets bit 4 for a transactional batch."""
    batch = flagged("transactional")
    return must_write(batch, sealed(batch))


@case("ATT-05")
def writer_sets_the_control_bit() -> Draft:
    """A writer sets bit 5 for a control batch."""
    batch = flagged("control")
    return must_write(batch, sealed(batch))


@case("ATT-06")
def writer_sets_the_delete_horizon_bit() -> Draft:
    """A writer sets bit 6 for a delete horizon, and puts the horizon into the base timestamp."""
    batch = flagged("delete horizon")
    return must_write(batch, sealed(batch))


@case("ATT-14")
def writer_needs_a_timestamp_type() -> Draft:
    """A writer refuses a v2 batch without a timestamp type."""
    return must_refuse(expected(record(), timestamp_type="none"))


RECORD_ATTRIBUTES: Final = {f"bit {bit}": 1 << bit for bit in range(8)} | {"0x7f": 0x7F, "0xff": 0xFF}


@case("ATT-15", each=RECORD_ATTRIBUTES)
def record_attributes(attributes: int) -> Draft:
    """The attributes byte of a record means nothing, and a reader ignores every bit of it."""
    return valid(raw_batch(raw_record(attributes=attributes)), expected(record()))


@case("ATT-15", each=tuple(COMPRESSIONS[1:]))
def record_attributes_of_compressed(codec: Compression) -> Draft:
    """The attributes byte of a compressed record is ignored too; its low bits name no codec."""
    return valid(packed(codec, raw_record(attributes=0x7F)), expected(record(), compression=codec))


@case("ATT-15")
def writer_leaves_record_attributes_zero() -> Draft:
    """A writer puts 0 into the attributes byte of a record, also in a batch with flags."""
    batch = flagged("append time", "transactional", "delete horizon")
    return must_write(batch, sealed(batch))


@case("ATT-15", each={"bit-3": 0x08, "0xff": 0xFF}, since="1.1")
def record_attributes_of_an_earlier_record(attributes: int) -> Draft:
    """Bit 3 of a record's attributes does not give it the batch's largest timestamp; that is a bit of the batch."""
    first = raw_record(attributes=attributes)
    later = raw_record(offset_delta=1, timestamp_delta=5000)
    data = raw_batch(first + later, record_count=2, last_offset_delta=1, max_timestamp=TIMESTAMP + 5000)
    records = record(), record(offset=1, timestamp=TIMESTAMP + 5000)
    return valid(data, expected(*records, max_timestamp=TIMESTAMP + 5000))
