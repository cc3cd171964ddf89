"""Zig-zag varints in every field that has one: shortest, overlong, too long, with high bits, cut off.

`ByteUtils#readUnsignedVarint` and `#readUnsignedVarlong`; the errata A01, A03
and A12 say how often seeds and codecs get them wrong.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.build import (
    TIMESTAMP,
    expected,
    grid,
    overlong_varint,
    packed,
    raw_batch,
    raw_record,
    record,
    sealed,
)
from kafka_corpus.registry import Draft, acceptable, case, invalid, must_write, valid
from kafka_records import Batch, Kind, Record
from kafka_records.constants import COMPRESSIONS, Compression
from kafka_records.varint import encode_varint, encode_varlong

STRUCTURE: Final[tuple[Kind, ...]] = ("malformed", "truncated")
CODECS: Final = {"none": "none", "gzip": "gzip"}
FIELDS: Final = (
    "length", "timestamp_delta", "offset_delta", "key_length", "value_length", "header_count", "header_key_length",
    "header_value_length",
)  # fmt: skip
VARINTS: Final = tuple(field for field in FIELDS if field != "timestamp_delta")
# The values of the fields in the record that `spelled` makes.
VALUES: Final = dict(zip(FIELDS, (19, 3, 2, 3, 5, 1, 1, 2), strict=True))
KEY, VALUE, HEADER_KEY, HEADER_VALUE = b"key", b"value", b"h", b"12"


def spelled(field: str = "", form: bytes = b"", *, cut: bool = False) -> bytes:
    """One record in which *field* is spelled as *form*, and which ends there if it is *cut*.

    The record's length counts what is there, unless it is the field itself.
    """
    forms = {name: encode_varint(value) for name, value in VALUES.items()} | ({field: form} if field else {})
    parts = {
        "attributes": b"\x00",
        "timestamp_delta": forms["timestamp_delta"],
        "offset_delta": forms["offset_delta"],
        "key_length": forms["key_length"],
        "key": KEY,
        "value_length": forms["value_length"],
        "value": VALUE,
        "header_count": forms["header_count"],
        "header_key_length": forms["header_key_length"],
        "header_key": HEADER_KEY,
        "header_value_length": forms["header_value_length"],
        "header_value": HEADER_VALUE,
    }
    if field == "length":
        return form if cut else form + b"".join(parts.values())
    body = b"".join(list(parts.values())[: list(parts).index(field) + 1] if cut else parts.values())
    return encode_varint(len(body)) + body


def plain(**changes: Any) -> Batch:
    """The record of `spelled` in a batch of its own."""
    made = record(VALUE, key=KEY, offset=2, timestamp=TIMESTAMP + 3, headers=((HEADER_KEY, HEADER_VALUE),))
    return expected(made, **{"last_offset": 2, **changes})


def batch_of(payload: bytes, codec: Compression = "none") -> bytes:
    """*payload* as a batch of one record."""
    return packed(codec, payload, last_offset_delta=2)


def bands(most: int, bits: int) -> dict[str, int]:
    """The lowest and highest value of every size up to *most* bytes in a zig-zag number of *bits*."""
    low = -(2 ** (bits - 1))
    edges = [(-(1 << 7 * size - 1), (1 << 7 * size - 1) - 1) for size in range(1, most)]
    values = [0, *(value for edge in edges for value in (*edge, edge[0] - 1, edge[1] + 1)), low, -low - 1]
    return {str(value): value for value in sorted(set(values))}


def shifted(delta: int) -> Batch:
    """A batch whose second record has this timestamp delta, its base chosen so that nothing wraps."""
    base = 0 if delta >= 0 else -1 - delta
    later = base + delta
    first = record(timestamp=base)
    return expected(first, record(b"second", offset=1, timestamp=later), max_timestamp=max(base, later))


VARLONG_BANDS: Final = {name: value for name, value in bands(10, 64).items() if abs(value) < 2**63 - 1}
OFFSET_BANDS: Final = bands(5, 32)


@case("VAR-02", each=VARLONG_BANDS)
def timestamp_delta_at_the_edge_of_a_size(delta: int) -> Draft:
    """A timestamp delta is a varlong of 1 to 10 bytes."""
    return valid(sealed(shifted(delta)), shifted(delta))


def deltas(*offsets: int) -> Batch:
    """A batch with a record at each delta from base offset 2^40."""
    base = 2**40
    made: tuple[Record, ...] = tuple(record(offset=base + delta) for delta in offsets)
    return expected(*made, base_offset=base, last_offset=base + offsets[-1])


@case("VAR-01", each=OFFSET_BANDS)
def offset_delta_at_the_edge_of_a_size(delta: int) -> Draft:
    """An offset delta is a varint of 1 to 5 bytes."""
    return valid(sealed(deltas(delta)), deltas(delta))


LENGTHS: Final = {"63": 63, "64": 64, "8191": 8191, "8192": 8192}
PARTS: Final = ("key", "value", "header key", "header value")


def sized(part: str, size: int) -> Batch:
    """A batch with one record, one of its four byte strings this long."""
    content = {name: b"x" * size if name == part else b"x" for name in PARTS}
    header = (content["header key"], content["header value"])
    return expected(record(content["value"], key=content["key"], headers=(header,)))


@case("VAR-03", each=grid(part={part: part for part in PARTS}, size=LENGTHS))
def length_at_the_edge_of_a_size(row: dict[str, Any]) -> Draft:
    """A length is a zig-zag varint although it is not negative, so 64 takes two bytes and 8192 three."""
    return valid(sealed(sized(**row)), sized(**row))


@case("VAR-03", each=grid(part={part: part for part in PARTS}, size={"64": 64, "8192": 8192}))
def writer_of_a_length_at_the_edge(row: dict[str, Any]) -> Draft:
    """A writer uses the zig-zag form for lengths too."""
    batch = sized(**row)
    return must_write(batch, sealed(batch))


WRITTEN_DELTAS: Final = {name: value for name, value in OFFSET_BANDS.items() if value > 0}


@case("VAR-04", each=WRITTEN_DELTAS)
def writer_of_an_offset_delta(delta: int) -> Draft:
    """A writer uses the shortest form of an offset delta."""
    return must_write(deltas(0, delta), sealed(deltas(0, delta)))


@case("VAR-01", each={name: value for name, value in OFFSET_BANDS.items() if value < 0})
def writer_of_a_negative_offset_delta(delta: int) -> Draft:
    """A writer that starts below the base offset uses the shortest form of a negative delta."""
    return must_write(deltas(delta), sealed(deltas(delta)))


@case("VAR-02", each={name: value for name, value in VARLONG_BANDS.items() if value > 0})
def writer_of_a_timestamp_delta(delta: int) -> Draft:
    """A writer uses the shortest form of a timestamp delta, up to 10 bytes."""
    batch = shifted(delta)
    return must_write(batch, sealed(batch))


@case("VAR-12", each={"63": 63, "64": 64, "8191": 8191, "8192": 8192, "1048575": 1048575, "1048576": 1048576})
def writer_sizes_a_varint(delta: int) -> Draft:
    """A value takes one byte up to 63, two up to 8191, three up to 1048575, and then four."""
    batch = deltas(delta)
    return must_write(batch, sealed(batch))


OVERLONG: Final = {
    f"{field} in {size} bytes": (field, size)
    for field in FIELDS
    for size in range(2, 11 if field == "timestamp_delta" else 6)
}


@case("VAR-05", each=OVERLONG)
def overlong_form(row: tuple[str, int]) -> Draft:
    """A number in more bytes than it needs is read like the shortest form."""
    field, size = row
    return valid(batch_of(spelled(field, overlong_varint(VALUES[field], size))), plain())


@case("VAR-05", each=FIELDS)
def longest_form_in_a_compressed_record(field: str) -> Draft:
    """The longest form is read in compressed records too."""
    form = overlong_varint(VALUES[field], 10 if field == "timestamp_delta" else 5)
    return valid(batch_of(spelled(field, form), "gzip"), plain(compression="gzip"))


@case("VAR-05", each=grid(codec={codec: codec for codec in COMPRESSIONS[1:]}, size={"2": 2, "3": 3, "4": 4}))
def overlong_length_of_a_compressed_record(row: dict[str, Any]) -> Draft:
    """The length of a compressed record may take two, three or four bytes where one would do."""
    form = overlong_varint(VALUES["length"], row["size"])
    return valid(batch_of(spelled("length", form), row["codec"]), plain(compression=row["codec"]))


@case(
    "VAR-05",
    each={f"{field} in {size} bytes": (field, size) for field in ("key_length", "value_length") for size in (2, 5)},
)
def overlong_null(row: tuple[str, int]) -> Draft:
    """A length of -1 in more bytes than it needs still means null."""
    field, size = row
    null: dict[str, Any] = {field.removesuffix("_length"): None}
    data = raw_batch(raw_record(**{"key": KEY, "value": VALUE, **null, field: overlong_varint(-1, size)}))
    return valid(data, expected(record(**{"key": KEY, "value": VALUE, **null})))


@case("VAR-06", each=grid(codec=CODECS, field={field: field for field in VARINTS[1:]}))
def fifth_byte_continues(row: dict[str, Any]) -> Draft:
    """A varint whose fifth byte announces a sixth is too long, though the sixth is there."""
    form = overlong_varint(VALUES[row["field"]], 6)
    return invalid(batch_of(spelled(row["field"], form), row["codec"]), *STRUCTURE)


LENGTH_FIELDS: Final = tuple(field for field in VARINTS if field.endswith("length"))


@case(
    "VAR-06",
    each=grid(field={field: field for field in LENGTH_FIELDS}, number={"2**40": 2**40, "2**63 - 1": 2**63 - 1}),
)
def length_beyond_int32(row: dict[str, Any]) -> Draft:
    """A length that needs more than 32 bits is too long a varint, whatever it says."""
    return invalid(batch_of(spelled(row["field"], encode_varlong(row["number"]))), *STRUCTURE)


@case("VAR-06", each=grid(codec=CODECS, number={"2**40": 2**40, "2**62": 2**62, "-2**62": -(2**62)}))
def header_count_beyond_int32(row: dict[str, Any]) -> Draft:
    """A header count that needs more than 32 bits is too long a varint, and no array is made of its size."""
    return invalid(batch_of(spelled("header_count", encode_varlong(row["number"])), row["codec"]), *STRUCTURE)


@case("VAR-06")
def all_ones() -> Draft:
    """Five bytes of ones are too long for an offset delta, and not -1."""
    return invalid(batch_of(spelled("offset_delta", b"\xff" * 5)), *STRUCTURE)


@case("VAR-10", each=CODECS)
def too_long_record_length(codec: Compression) -> Draft:
    """A record's length takes six bytes.

    In an uncompressed batch an undeclared IllegalArgumentException escapes from Kafka.
    """
    return invalid(batch_of(spelled("length", overlong_varint(VALUES["length"], 6)), codec), *STRUCTURE)


@case("VAR-10", each=CODECS)
def too_long_length_of_the_second(codec: Compression) -> Draft:
    """The second record's length takes six bytes."""
    payload = spelled() + spelled("length", overlong_varint(VALUES["length"], 6))
    return invalid(packed(codec, payload, record_count=2), *STRUCTURE)


DROPPED_WHY: Final = "Kafka's shift lets the bits fall off; the number does not fit, so a codec may refuse it"


def high_bits(field: str, bits: int) -> bytes:
    """The longest form of a field's value, with *bits* added to its last byte."""
    form = overlong_varint(VALUES[field], 10 if field == "timestamp_delta" else 5)
    return form[:-1] + bytes((form[-1] | bits,))


@case("VAR-07", each={f"{field} 0x{bits:02x}": (field, bits) for field in VARINTS for bits in (0x10, 0x70)})
def high_bits_of_the_fifth_byte(row: tuple[str, int]) -> Draft:
    """Bits 4 to 6 of the fifth byte exceed 32 bits and are dropped."""
    return acceptable(batch_of(spelled(row[0], high_bits(*row))), plain(), kinds=STRUCTURE, why=DROPPED_WHY)


@case("VAR-08", each=grid(codec=CODECS, bits={"0x02": 0x02, "0x40": 0x40, "0x7e": 0x7E}))
def high_bits_of_the_tenth_byte(row: dict[str, Any]) -> Draft:
    """Bits 1 to 6 of the tenth byte exceed 64 bits and are dropped."""
    data = batch_of(spelled("timestamp_delta", high_bits("timestamp_delta", row["bits"])), row["codec"])
    return acceptable(data, plain(compression=row["codec"]), kinds=STRUCTURE, why=DROPPED_WHY)


@case("VAR-08", each=tuple(COMPRESSIONS))
def tenth_byte_continues(codec: Compression) -> Draft:
    """A varlong whose tenth byte announces an eleventh is too long, though the eleventh is there."""
    return invalid(batch_of(spelled("timestamp_delta", overlong_varint(3, 11)), codec), *STRUCTURE)


@case("VAR-02", each={"6 bytes": 6, "10 bytes": 10}, refs=["A01"])
def timestamp_delta_is_no_varint(size: int) -> Draft:
    """A timestamp delta may take more than five bytes: it is a varlong, not the varint of seeds 001 and 003."""
    base = expected(record(timestamp=0), record(b"later", offset=1, timestamp=2**36), max_timestamp=2**36)
    payload = raw_record() + raw_record(timestamp_delta=overlong_varint(2**36, size), offset_delta=1, value=b"later")
    return valid(raw_batch(payload, record_count=2, base_timestamp=0, max_timestamp=2**36), base)


CUT: Final = {
    f"{field} after {size}": (field, size)
    for field, sizes in {"timestamp_delta": (1, 5, 9), "offset_delta": (1, 2, 3, 4)}.items()
    for size in sizes
} | {f"{field} after 1": (field, 1) for field in FIELDS[3:]}


@case("VAR-09", each=CUT)
def record_ends_inside_a_varint(row: tuple[str, int]) -> Draft:
    """A record ends in a byte that announces another, in an uncompressed batch of two records."""
    field, size = row
    payload = spelled(field, b"\x80" * size, cut=True) + spelled()
    return invalid(packed("none", payload, record_count=2), *STRUCTURE)


@case("VAR-11", each=CUT)
def stream_ends_inside_a_varint(row: tuple[str, int]) -> Draft:
    """The last compressed record ends in a byte that announces another."""
    return invalid(batch_of(spelled(row[0], b"\x80" * row[1], cut=True), "gzip"), "truncated", "malformed")


@case("VAR-11", each=grid(codec=CODECS, size={f"after {size}": size for size in range(1, 5)}))
def payload_ends_inside_a_length(row: dict[str, Any]) -> Draft:
    """The payload ends inside the record's length."""
    data = batch_of(b"\x80" * row["size"], row["codec"])
    return invalid(data, "truncated", "malformed")


@case("VAR-03", each={"key": "key_length", "value": "value_length"}, refs=["A12"])
def length_without_zig_zag(field: str) -> Draft:
    """A length byte of 0x05, 5 without zig-zag, reads as -3, a null; the bytes after it then do not fit."""
    return invalid(batch_of(spelled(field, b"\x05")), *STRUCTURE)
