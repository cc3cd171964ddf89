"""v2 batches cut short: without repair they are partial and dropped, with length and CRC made right they are refused.

The repaired ones are what a faulty writer leaves: everything fits but the
field in which the record ends.  Cuts inside a varint are in `varint`.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.build import (
    expected,
    grid,
    packed,
    put,
    raw_header,
    raw_record,
    raw_records,
    record,
    reseal,
    sealed,
)
from kafka_corpus.registry import Draft, case, invalid, valid
from kafka_records import Kind
from kafka_records.constants import COMPRESSIONS, Compression
from kafka_records.layout import BATCH_V2
from kafka_records.varint import encode_varint

STRUCTURE: Final[tuple[Kind, ...]] = ("truncated", "malformed")
COMPRESSED: Final[tuple[Kind, ...]] = ("truncated", "malformed", "decompression")
CODECS: Final = {"none": "none", "gzip": "gzip"}
RECORD: Final = record(b"value", key=b"key", headers=((b"head", b"12"), (b"foot", None)))
WHOLE: Final = sealed(expected(RECORD))
BEFORE: Final = expected(record(b"before"))
# Where each field of the record's body starts, counted from the attributes.
STARTS: Final = {
    "timestamp_delta": 1, "offset_delta": 2, "key_length": 3, "key": 4, "value_length": 7, "value": 8,
    "header_count": 13, "headers[0].key_length": 14, "headers[0].key": 15, "headers[0].value_length": 19,
    "headers[0].value": 20, "headers[1].key_length": 22, "headers[1].key": 23, "headers[1].value_length": 27,
}  # fmt: skip
INSIDE: Final = {"key": 5, "value": 12, "headers[0].key": 16, "headers[0].value": 21, "headers[1].key": 26}
CUTS: Final = {f"before {name}": at for name, at in STARTS.items()} | {
    f"inside {name}": at for name, at in INSIDE.items()
}


def body() -> bytes:
    """The record without its length."""
    return raw_records([RECORD])[1:]


def cut_record(at: int) -> bytes:
    """The record up to byte *at* of its body, its length made right."""
    return encode_varint(at) + body()[:at]


@case("REC-13", "REC-16", each=CUTS)
def compressed_record_ends_early(cut: int) -> Draft:
    """The last record ends before or inside a field; its length, the batch's length and the CRC are right."""
    return invalid(packed("gzip", cut_record(cut)), *COMPRESSED)


@case("REC-13", "REC-16", each=CUTS)
def record_ends_early_before_another(cut: int) -> Draft:
    """A record ends before or inside a field, and the next record's bytes must not be taken for the rest."""
    payload = cut_record(cut) + raw_record(offset_delta=1, value=b"x" * 40)
    return invalid(packed("none", payload, record_count=2), *STRUCTURE)


PAYLOAD_CUTS: Final = {"the length only": 1, "half": 15, "all but one byte": -1}


@case("REC-03", each=PAYLOAD_CUTS)
def payload_ends_early(size: int) -> Draft:
    """The payload ends inside the only record, whose length is honest; batch length and CRC are right."""
    return invalid(packed("none", raw_records([RECORD])[:size]), *STRUCTURE)


@case("REC-05", each=grid(codec={codec: codec for codec in COMPRESSIONS[1:]}, size=PAYLOAD_CUTS))
def decompressed_payload_ends_early(row: dict[str, Any]) -> Draft:
    """The compressed data ends inside the only record; the codec has nothing to complain about."""
    return invalid(packed(row["codec"], raw_records([RECORD])[: row["size"]]), *COMPRESSED)


@case("HDR-13", "REC-03", each=grid(codec=CODECS, size={"inside its length": 1, "inside its body": 9}))
def second_record_ends_early(row: dict[str, Any]) -> Draft:
    """The second record of a batch ends early, which is an error, also where the first record has been given."""
    second = raw_record(offset_delta=1, value=b"v" * 100)
    return invalid(packed(row["codec"], raw_records([RECORD]) + second[: row["size"]], record_count=2), *COMPRESSED)


@case("CMP-04", "HDR-03", each=tuple(COMPRESSIONS[1:]))
def compressed_bytes_end_early(codec: Compression) -> Draft:
    """The compressed bytes lack their second half; batch length and CRC are right."""
    data = sealed(expected(record(bytes(range(200))), compression=codec))
    data = data[: (len(data) + 61) // 2]
    data = reseal(put(data, "batch_length", len(data) - 12))
    return invalid(data, "decompression", "truncated", "malformed", "corrupt")


HEADER_FIELDS: Final = {field.name: field for field in BATCH_V2.fields if field.offset > 16}


@case("FRM-07", each={name: field.offset for name, field in HEADER_FIELDS.items()})
def header_ends_before_a_field(at: int) -> Draft:
    """A batch that ends before a header field is partial and dropped; the one before it is given."""
    return valid(sealed(BEFORE) + WHOLE[:at], BEFORE)


INSIDE_HEADER: Final = {name: field.offset + field.width // 2 for name, field in HEADER_FIELDS.items()}


@case("FRM-07", each=INSIDE_HEADER)
def header_ends_inside_a_field(at: int) -> Draft:
    """A batch that ends inside a header field is partial and dropped."""
    return valid(WHOLE[:at])


@case("FRM-07", each={name: 62 + at for name, at in STARTS.items()})
def records_end_before_a_field(at: int) -> Draft:
    """A batch that ends inside its record is partial and dropped, wherever it ends."""
    return valid(sealed(BEFORE) + WHOLE[:at], BEFORE)


@case("FRM-07", each=tuple(COMPRESSIONS[1:]))
def compressed_batch_without_its_last_byte(codec: Compression) -> Draft:
    """A compressed batch without its last byte is partial, and its codec is never opened."""
    data = sealed(expected(RECORD, compression=codec))
    return valid(sealed(BEFORE) + data[:-1], BEFORE)


@case("HDR-05", each={name: field.offset for name, field in HEADER_FIELDS.items() if field.offset > 26})
def repaired_header_ends_before_a_field(at: int) -> Draft:
    """A header that ends before a field is too short, though the length matches and more batches follow."""
    short = reseal(put(WHOLE[:at], "batch_length", at - 12))
    return invalid(sealed(BEFORE) + short + WHOLE, "malformed", "truncated", "corrupt", before=(BEFORE,))


@case("REC-15", each={"in the first": 1, "behind the first": 9})
def headers_end_early(size: int) -> Draft:
    """The record's headers end inside the first or after it, though the count says two."""
    headers = (raw_header(b"head", b"12") + raw_header(b"foot", None))[:size]
    return invalid(packed("none", raw_record(header_count=b"\x04", headers=headers)), *STRUCTURE)


CUT_HEADER: Final = raw_header(b"head", b"four", value_length=encode_varint(10))
SAYS: Final = {"what is there": 0, "what the header says": 6}


@case("REC-15", "REC-25", each=grid(codec=CODECS, length=SAYS), since="1.1")
def last_header_value_ends_early(row: dict[str, Any]) -> Draft:
    """The value of a record's only header ends with the payload, before its length says."""
    body = raw_record(header_count=b"\x02", headers=CUT_HEADER)[1:]
    return invalid(packed(row["codec"], encode_varint(len(body) + row["length"]) + body), *COMPRESSED)


@case("VAR-11", "REC-15", each=grid(codec=CODECS, length={"what is there": 0, "one more": 1}), since="1.1")
def header_count_ends_early(row: dict[str, Any]) -> Draft:
    """The payload ends in a header count that announces another byte."""
    body = raw_record(header_count=b"\x80")[1:]
    return invalid(packed(row["codec"], encode_varint(len(body) + row["length"]) + body), *COMPRESSED)
