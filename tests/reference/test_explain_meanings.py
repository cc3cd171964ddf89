"""Explanations of batches, records, messages and control records."""

from typing import Any

import pytest
from tests.reference.explained import field, meanings, titles

from kafka_corpus.authoring.build import put, raw_batch, raw_header, raw_message, raw_record, reseal_message
from kafka_records import (
    ControlRecord,
    encode_control,
    explain,
)
from kafka_records.layout import MESSAGE_V0

TIME = 1524709879130


def test_a_checksum_says_what_it_covers() -> None:
    """A CRC names its bytes, and says both numbers when they differ."""
    data = raw_batch(raw_record())
    crc = field(data, "batch.crc").value
    assert isinstance(crc, int)

    assert field(data, "batch.crc").meaning == f"CRC-32C of bytes 21…{len(data) - 1}: matches"
    broken = field(put(data, "crc", 1), "batch.crc").meaning
    assert broken == f"CRC-32C of bytes 21…{len(data) - 1}: stored 0x00000001, computed 0x{crc:08x}"


def test_attributes_bit_by_bit() -> None:
    """Each known bit has a note, the unknown ones only if any is set."""
    attributes = field(raw_batch(b"", attributes=0x0178, record_count=0), "batch.attributes")

    assert attributes.shown == "0x0178"
    assert [(note.shown, note.meaning) for note in attributes.notes] == [
        (".... .... .... .000", "uncompressed"),
        (".... .... .... 1...", "LogAppendTime"),
        (".... .... ...1 ....", "transactional"),
        (".... .... ..1. ....", "control batch"),
        (".... .... .1.. ....", "delete horizon in base_timestamp"),
        ("0000 0001 0... ....", "unused bits, ignored"),
    ]
    assert (
        field(raw_batch(b"", attributes=7), "batch.attributes").meaning == "unknown compression type id 7, CreateTime"
    )


def test_timestamps_and_deltas() -> None:
    """Timestamps are dates, and a delta says what it comes to."""
    record = raw_record(timestamp_delta=-1, offset_delta=2)
    plain = raw_batch(record, base_offset=5, base_timestamp=TIME, max_timestamp=TIME)
    append = raw_batch(record, base_timestamp=TIME, max_timestamp=TIME + 1, attributes=0x08)

    assert field(plain, "batch.base_timestamp").meaning == "2018-04-26 02:31:19.130 UTC"
    assert field(plain, "batch.records[0].timestamp_delta").meaning == "2018-04-26 02:31:19.129 UTC"
    assert field(plain, "batch.records[0].offset_delta").meaning == "offset 7"
    assert field(append, "batch.max_timestamp").meaning == "LogAppendTime of every record: 2018-04-26 02:31:19.131 UTC"
    assert field(append, "batch.records[0].timestamp_delta").meaning == (
        "2018-04-26 02:31:19.129 UTC, but LogAppendTime holds: 2018-04-26 02:31:19.131 UTC"
    )
    horizon = raw_batch(record, base_timestamp=-1, attributes=0x40)
    assert field(horizon, "batch.base_timestamp").meaning == "delete horizon: no timestamp"


def test_producer_fields() -> None:
    """-1 is shown as none, and a sequence as the range that it starts."""
    data = raw_batch(raw_record(), producer_id=7, producer_epoch=0, base_sequence=2**31 - 1, last_offset_delta=1)

    assert field(raw_batch(raw_record()), "batch.producer_id").meaning == "no producer id"
    assert field(data, "batch.producer_id").meaning == ""
    assert field(data, "batch.base_sequence").meaning == "sequences 2147483647…0"
    assert field(put(data, "partition_leader_epoch", 3), "batch.partition_leader_epoch").meaning.startswith("of the")


def test_record_counts() -> None:
    """A count says when it leaves gaps, hides its payload or cannot be."""
    gaps = raw_batch(raw_record(), last_offset_delta=4)

    assert field(gaps, "batch.record_count").meaning == "offsets for 5 records: a gap, as after compaction"
    assert "ignored: record_count is 0" in meanings(raw_batch(raw_record(), record_count=0))
    assert "not read: record_count is -1" in meanings(raw_batch(raw_record(), record_count=-1))
    assert "more than the 1 record that record_count says" in meanings(raw_batch(raw_record() * 2))


def test_varints_show_how_they_are_put_together() -> None:
    """A varint of several bytes shows its groups, an overlong one what would do."""
    length = field(raw_batch(raw_record(value=bytes(100))), "batch.records[0].value_length")
    overlong = field(raw_batch(raw_record(offset_delta=b"\x80\x80\x00")), "batch.records[0].offset_delta")

    assert [(note.shown, note.meaning) for note in length.notes] == [("zig-zag", "0000001 1001000 is 200")]
    assert overlong.meaning == "offset 0; overlong: 3 bytes where 1 would do"
    endless = field(raw_batch(raw_record(offset_delta=b"\xff" * 5)), "batch.records[0].offset_delta")
    assert (endless.size, endless.meaning) == (5, "offset_delta: the varint does not end within 5 bytes")


@pytest.mark.parametrize(
    ("record", "unread"),
    [
        (raw_record(length=b"\x50"), "not read: length claims 40 bytes, 23 are left"),
        (raw_record(length=b"\x01"), "not read: length claims -1 bytes, 23 are left"),
        (raw_record(value_length=b"\x7e"), "not read: value claims 63 bytes, 6 are left"),
        (raw_record(tail=b"xyz"), "more than the record's fields take"),
        (raw_record(header_count=b"\x01", tail=b"x"), "not read: header_count is -1, 1 are left"),
        (raw_record(header_count=b"\x08", tail=b"x"), "not read: header_count is 4, 1 are left"),
        (raw_record(header_count=b"\x02", headers=b"\x01\x01"), "not read: key claims -1 bytes, 1 are left"),
        (raw_record(header_count=b"\x04", headers=b"\x02a\x08bb"), "not read: value claims 4 bytes, 2 are left"),
    ],
)
def test_bytes_after_an_error_are_unread(record: bytes, unread: str) -> None:
    """Bytes that cannot be read any more say so, and the next record is read if framing allows."""
    explanation = explain(raw_batch(record + raw_record(), record_count=2))

    assert explanation.error is not None
    assert unread in [each.meaning for each in explanation.section.fields]


def test_hostile_text_is_escaped() -> None:
    """Keys, values and header keys come as quoted text, what is unprintable escaped."""
    data = raw_batch(
        raw_record(key=b"\x1b[31mred", value=b"\xff\x00\x01", header_count=b"\x02", headers=raw_header(b"\xfe\n", None))
    )

    assert field(data, "batch.records[0].key").shown == r'"\x1b[31mred"'
    assert (field(data, "batch.records[0].value").shown, field(data, "batch.records[0].value").meaning) == (
        "3 bytes",
        "binary",
    )
    assert field(data, "batch.records[0].headers[0].key").shown == r'"\xfe\n"'
    assert field(data, "batch.records[0].headers[0].key").meaning == "2 bytes, not UTF-8"


@pytest.mark.parametrize(
    "value", [b"x" * 400, "ü".encode() * 600, "ü".encode() * 512 + b"x", b"x" + "ü".encode() * 600]
)
def test_long_texts_are_shortened(value: bytes) -> None:
    """A long text is cut after 48 characters, wherever its bytes are split."""
    shown = field(raw_batch(raw_record(value=value)), "batch.records[0].value").shown

    assert shown == f'"{value.decode()[:48]}…'


def test_quotes_are_escaped() -> None:
    """A quote or backslash of the input cannot be taken for one of ours."""
    assert field(raw_batch(raw_record(value=b'a"\\')), "batch.records[0].value").shown == r'"a\"\\"'


def test_long_binary_is_binary() -> None:
    """Bytes that are not UTF-8 early on are no text, however many there are."""
    assert field(raw_batch(raw_record(value=b"\xff" * 2000)), "batch.records[0].value").meaning == "binary"


@pytest.mark.parametrize("magic", [0, 1])
def test_messages(magic: int) -> None:
    """Plain messages are explained field by field, null keys as null, slack as ignored."""
    data = raw_message(magic, tail=b"slack")

    explanation = explain(data)

    assert titles(explanation.section.root) == [f"message v{magic} · offset 0 · uncompressed · {len(data)} bytes"]
    assert field(data, "batch.key_length").meaning == "null: no key"
    assert field(data, "batch.slack").meaning == "ignored: the value has ended"
    assert field(put(data, "crc", 1, layout=MESSAGE_V0), "batch.crc").meaning.startswith("CRC-32 of bytes 16…")


def test_short_messages() -> None:
    """A message whose fields do not fit is read as far as they do."""
    short = raw_message(1, body=b"")
    for cut in (raw_message(1)[:30], raw_message(0, body=b"\0\0\0\0\0\0\0"), short):
        data = reseal_message(put(cut, "message_size", len(cut) - 12, layout=MESSAGE_V0))
        assert explain(data).error is not None
    assert explain(raw_message(0, body=b"\x00\x00\x00\x50\x00\x00\x00\x00")).error is not None


def test_broken_entries() -> None:
    """A size or magic that cannot be ends the walk, and both are named."""
    assert "a size of 13, the least is 14" in titles(explain(bytes(11) + b"\x0d").section.root)[0]
    magic = put(raw_message(0), "magic", 3, layout=MESSAGE_V0)
    assert field(magic, "batch.magic").meaning == "magic is 3"
    assert field(magic, "batch.bytes_12_to_15").meaning == "crc in v0 and v1, leader epoch in v2"
    huge = put(raw_message(0), "message_size", 2**31 - 1, layout=MESSAGE_V0)
    assert meanings(huge)[-1] == "not read: a size of 2147483647 overflows with its prefix"
    tiny = put(raw_batch(b"")[:40], "batch_length", 28)
    assert meanings(tiny)[-1] == "not read: a batch of 40 bytes, its header takes 61"


KRAFT: dict[str, dict[str, Any]] = {
    "snapshot_header": {"version": 0, "last_contained_log_timestamp": TIME},
    "kraft_voters": {
        "version": 0,
        "voters": (
            {
                "voter_id": 1,
                "voter_directory_id": bytes(16),
                "endpoints": ({"name": b"C", "host": b"h", "port": 9092},),
                "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
            },
        ),
    },
}


def control_batch(key: bytes | None, value: bytes | None) -> bytes:
    """A control batch of one record."""
    return raw_batch(raw_record(key=key, value=value), attributes=0x20)


def test_end_markers() -> None:
    """Key and value of an end marker are explained field by field."""
    data = control_batch(b"\0\0\0\1", b"\0\0\0\0\0\7")

    assert field(data, "batch.records[0].key.type").meaning == "commit"
    assert field(data, "batch.records[0].value.coordinator_epoch").value == 7
    assert "record 0 · offset 0 · 17 bytes · commit" in titles(explain(data).section.root)


@pytest.mark.parametrize("type_", KRAFT)
def test_kraft_records(type_: str) -> None:
    """Values of KRaft records are explained field by field."""
    record = encode_control(ControlRecord(type_, KRAFT[type_]), timestamp=TIME)

    explanation = explain(control_batch(record.key, record.value))

    fields = {each.name: each for each in explanation.section.fields}
    if type_ == "snapshot_header":
        assert fields["last_contained_log_timestamp"].meaning == "2018-04-26 02:31:19.130 UTC"
    else:
        assert (fields["host"].shown, fields["port"].value) == ('"h"', 9092)
        assert fields["voter_directory_id"].shown == "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    ("key", "value", "meaning"),
    [
        (None, b"x", "1 byte"),
        (b"\0", b"", "a control key of 1 bytes, the least is 4 (TXN-09)"),
        (b"\0\1\0\1", b"\0\0\0\0\0\7", "read like 0"),
        (b"\0\0\0\x09xx", b"?", "an unknown type, to be ignored"),
        (b"\0\0\0\1", b"\0\0", "not read: it takes 6 bytes"),
        (b"\0\0\0\3", b"\0\0?", "not read: last_contained_log_timestamp claims 8 bytes, 1 are left"),
        (b"\0\0\0\4", b"\0\0\1\5\1zrest", "ignored"),
        (b"\0\0\0\4", b"\0\0\7\5\1z", "1 byte"),
        (b"\0\0\0\1", None, "null: no value"),
    ],
)
def test_odd_control_records(key: bytes | None, value: bytes | None, meaning: str) -> None:
    """An improper control record is still no error of `decode`, and is explained."""
    explanation = explain(control_batch(key, value))

    assert explanation.error is None
    assert meaning in [each.meaning for each in explanation.section.fields]


def test_control_lengths_that_run_over() -> None:
    """A control record whose key or value is longer than the record is broken as any other."""
    for record in (raw_record(key=b"\0\0\0\1", key_length=b"\x7e"), raw_record(key=b"\0\0\0\1", value_length=b"\x7e")):
        assert explain(raw_batch(record, attributes=0x20)).error is not None
