"""The cases of `misread` parse with the misreading that they are about, and give other data."""

import pytest

from kafka_corpus.authoring.build import put, reseal_message
from kafka_corpus.vector_format import input_of
from kafka_corpus.vectors import load_vectors
from kafka_records import decode
from kafka_records.compression import decompress
from kafka_records.layout import MESSAGE_V0
from kafka_records.varint import decode_varint, decode_varlong

HEADER = 61
CASES = {case.id: case for case in load_vectors("misread")}
FIELDS = ("key_length", "value_length", "header_key_length", "header_value_length")


def unsigned(data: bytes, at: int, wrong: str) -> tuple[int, int]:
    """A varint without zig-zag."""
    value, at = decode_varint(data, at, wrong)
    return (value << 1) ^ (value >> 31), at


def read_record(data: bytes, wrong: str) -> list[bytes | None]:
    """Key, value and headers of the only record in *data*, whose field *wrong* is read without zig-zag."""
    length, at = decode_varint(data, 0, wrong)
    end = at + length
    _, at = decode_varlong(data, at + 1, wrong)
    _, at = decode_varint(data, at, wrong)
    found: list[bytes | None] = []

    def content(field: str) -> None:
        nonlocal at
        size, at = unsigned(data, at, wrong) if field == wrong else decode_varint(data, at, wrong)
        found.append(data[at : at + size] if size >= 0 else None)
        at += max(size, 0)

    content("key_length")
    content("value_length")
    count, at = decode_varint(data, at, wrong)
    for _ in range(count):
        content("header_key_length")
        content("header_value_length")
    assert at == end == len(data), "the misreading runs out of step, so the case shows nothing"
    return found


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("field", [*FIELDS, "null_key"])
def test_a_length_without_zigzag_still_parses(field: str, codec: str) -> None:
    """The record parses to its end both ways, with other content."""
    case = CASES[f"misread.{field}_without_zigzag[{codec}]"]
    data = input_of(case)
    assert isinstance(data, bytes)
    payload = data[HEADER:]
    if codec == "gzip":
        payload = decompress("gzip", payload, magic=2, most=1 << 20)
    wrong = "key_length" if field == "null_key" else field
    right = read_record(payload, "")
    record = case.expect.batches[0].records[0]
    assert right == [record.key, record.value, *(part for header in record.headers for part in header)]
    assert read_record(payload, wrong) != right


@pytest.mark.parametrize("name", ["v0_message_with_the_fields_of_v1", "v1_message_with_the_fields_of_v0"])
def test_a_message_of_the_other_magic_parses(name: str) -> None:
    """With the other magic, and the checksum made right, the same bytes are a message with other data."""
    case = CASES[f"misread.{name}"]
    data = input_of(case)
    assert isinstance(data, bytes)
    other = reseal_message(put(data, "magic", 1 - data[16], layout=MESSAGE_V0))
    assert decode(other)[0].records[0].key != case.expect.batches[0].records[0].key


def test_a_timestamp_of_four_bytes_leaves_a_key() -> None:
    """Without the last four bytes of the timestamp, the rest of the message is key and value to its end."""
    for name in ("no-more", "a-name"):
        data = input_of(CASES[f"misread.v1_timestamp_of_four_bytes[{name}]"])
        assert isinstance(data, bytes)
        at = 18 + 4
        for _ in ("key", "value"):
            at += 4 + int.from_bytes(data[at : at + 4], "big", signed=True)
        assert at == len(data)
