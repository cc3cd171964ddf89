"""Explanations: every byte once, the error of `decode`, and meanings in plain words."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_corpus.build import put, raw_batch, raw_header, raw_message, raw_record, reseal, reseal_message
from kafka_corpus.strategies import encoded, nearly_valid
from kafka_corpus.vectors import input_of, load_vectors
from kafka_records import (
    DEFAULT,
    Batch,
    ControlRecord,
    Explanation,
    Limits,
    Record,
    RecordFormatError,
    compression,
    decode,
    encode,
    encode_control,
    explain,
)
from kafka_records.explain import Field, Part
from kafka_records.layout import MESSAGE_V0
from kafka_records.message_set import decode_inner
from kafka_records.rules import rule
from kafka_records.varint import encode_varint

TIME = 1524709879130
SMALL = Limits(max_output_bytes=0)
WHOLE = raw_batch(raw_record(headers=raw_header(b"a", b"b"), header_count=b"\x02"))


def check(data: bytes, limits: Limits = DEFAULT) -> Explanation:
    """Explain *data*, and check what holds for every explanation."""
    explanation = explain(data, limits=limits)
    for section in explanation.sections:
        check_cover(section.data, section.fields)
        check_parts(section.root, 0, len(section.data))
    assert outcome(data, limits) == told(explanation.error)
    return explanation


def check_cover(data: bytes, fields: tuple[Field, ...]) -> None:
    """The fields are the data, end to end, and nothing in them can steer a terminal."""
    at = 0
    for field in fields:
        assert (field.offset, field.raw) == (at, data[at : at + field.size])
        assert field.size > 0
        assert (field.shown + field.meaning).isprintable()
        assert field.path.endswith(field.name)
        at += field.size
    assert at == len(data)


def check_parts(part: Part, start: int, end: int) -> None:
    """A part's children fill it, end to end."""
    assert (part.offset, part.offset + part.size) == (start, end)
    assert part.title.isprintable()
    at = start
    for child in part.children:
        if isinstance(child, Part):
            check_parts(child, at, at + child.size)
        at += child.size
    assert at == end


def outcome(data: bytes, limits: Limits) -> object:
    """What `decode` raises, as values, or None."""
    try:
        decode(data, limits=limits)
    except RecordFormatError as error:
        return told(error)
    return None


def told(error: RecordFormatError | None) -> object:
    """An error as values."""
    return error and (error.kind, error.path, error.offset, error.inner_offset, error.rule, error.message)


def field(data: bytes, path: str, section: int = 0) -> Field:
    """The first field at *path*."""
    return next(each for each in explain(data).sections[section].fields if each.path == path)


def meanings(data: bytes, section: int = 0) -> list[str]:
    """What every field means."""
    return [each.meaning for each in explain(data).sections[section].fields]


def titles(part: Part) -> list[str]:
    """The titles of a part's parts, outermost first."""
    parts = [child for child in part.children if isinstance(child, Part)]
    return [title for child in parts for title in (child.title, *titles(child))]


def packed(codec: int, payload: bytes) -> bytes:
    """A v2 batch of one record that names a codec."""
    return raw_batch(payload, attributes=codec)


@given(encoded())
def test_valid_logs_are_covered_and_read_whole(data: bytes) -> None:
    """Every byte of a valid log belongs to one field, and none of them is unread."""
    explanation = check(data)

    assert explanation.error is None
    assert [each for one in explanation.sections for each in one.fields if each.meaning.startswith("not read")] == []


@given(nearly_valid())
def test_lies_are_covered(nearly: tuple[bytes, str]) -> None:
    """Every byte of a log with one lie in it belongs to one field, and the error is that of `decode`."""
    assert check(nearly[0]).error is not None


@given(st.binary(max_size=200))
def test_any_bytes_are_covered(data: bytes) -> None:
    """Whatever the bytes, each belongs to one field."""
    check(data)


@given(st.data(), encoded().filter(bool))
def test_mutated_logs_are_covered(data: st.DataObject, log: bytes) -> None:
    """A log with any bytes replaced, and its checksum right again, is covered."""
    mutated = bytearray(log)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        mutated[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    check(bytes(mutated))
    if len(mutated) > 61:
        check((reseal if mutated[16] == 2 else reseal_message)(bytes(mutated)))


def test_every_case_of_the_corpus_is_covered() -> None:
    """All cases are explained with the error of `decode`, and all rules named are in the catalogue."""
    cases = load_vectors()
    assert cases
    rules = set()
    for case in cases:
        data = input_of(case)
        if isinstance(data, bytes):
            rules |= {each.rule for section in check(data).sections for each in section.fields}
    assert {rule(id_).id for id_ in rules if id_} == rules - {None}


@pytest.mark.parametrize("size", range(len(WHOLE) + 1))
def test_every_beginning_of_a_batch_is_covered(size: int) -> None:
    """A batch that is cut anywhere is covered up to the cut, and is a partial entry."""
    explanation = check(WHOLE[:size])

    assert explanation.error is None
    assert explanation.batches == (size == len(WHOLE))


def test_a_checksum_says_what_it_covers() -> None:
    """A CRC names its bytes, and says both numbers when they differ."""
    data = raw_batch(raw_record())
    crc = field(data, "batch.crc").value
    assert isinstance(crc, int)

    assert field(data, "batch.crc").meaning == f"CRC-32C of bytes 21…{len(data) - 1}: matches"
    broken = field(put(data, "crc", 1), "batch.crc").meaning
    assert broken == f"CRC-32C of bytes 21…{len(data) - 1}: stored 0x00000001, computed 0x{crc:08x}"


def test_behind_a_wrong_checksum_the_walk_goes_on() -> None:
    """A batch with a wrong CRC is annotated whole, and so is the batch behind it."""
    explanation = check(put(raw_batch(raw_record()), "crc", 1) + raw_batch(raw_record()))

    assert explanation.error is not None
    assert len(explanation.section.root.children) == 2
    assert all(each.group != "unread" for each in explanation.section.fields)


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
    """-1 is told as none, and a sequence as the range that it starts."""
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
def test_what_is_behind_an_error_is_unread(record: bytes, unread: str) -> None:
    """Bytes that cannot be read any more say so, and the next record is read if framing allows."""
    explanation = check(raw_batch(record + raw_record(), record_count=2))

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


def test_long_binary_is_binary() -> None:
    """Bytes that are not UTF-8 early on are no text, however many there are."""
    assert field(raw_batch(raw_record(value=b"\xff" * 2000)), "batch.records[0].value").meaning == "binary"


@pytest.mark.parametrize("magic", [0, 1])
def test_messages(magic: int) -> None:
    """Plain messages are told field by field, null keys as null, slack as ignored."""
    data = raw_message(magic, tail=b"slack")

    explanation = check(data)

    assert (
        explanation.section.root.children[0].title == f"message v{magic} · offset 0 · uncompressed · {len(data)} bytes"
    )  # type: ignore[union-attr]
    assert field(data, "batch.key_length").meaning == "null: no key"
    assert field(data, "batch.slack").meaning == "ignored: the value has ended"
    assert field(put(data, "crc", 1, layout=MESSAGE_V0), "batch.crc").meaning.startswith("CRC-32 of bytes 16…")


def test_short_messages() -> None:
    """A message whose fields do not fit is read as far as they do."""
    short = raw_message(1, body=b"")
    for cut in (raw_message(1)[:30], raw_message(0, body=b"\0\0\0\0\0\0\0"), short):
        data = reseal_message(put(cut, "message_size", len(cut) - 12, layout=MESSAGE_V0))
        assert check(data).error is not None
    assert check(raw_message(0, body=b"\x00\x00\x00\x50\x00\x00\x00\x00")).error is not None


def wrapper(magic: int, inner: bytes, codec: int = 1, **more: int) -> bytes:
    """A wrapper around a message set."""
    name = ("none", "gzip", "snappy", "lz4", "zstd")[codec]
    value = compression.compress(name, inner, magic=magic)  # type: ignore[arg-type]
    return raw_message(magic, value=value, attributes=codec | more.pop("attributes", 0), **more)


def test_wrappers_are_opened() -> None:
    """Inner messages of v1 tell their absolute offset, and the time that holds."""
    inner = raw_message(1, offset=0) + raw_message(1, offset=1, timestamp=5)
    data = wrapper(1, inner + b"tail", offset=11, attributes=0x08, timestamp=TIME)

    explanation = check(data)

    assert [section.title for section in explanation.sections][1].startswith("gzip opened: ")
    assert field(data, "batch.offset").meaning == "offset of its last message"
    assert field(data, "batch.records[1].offset", 1).meaning == "relative: offset 11"
    assert field(data, "batch.records[1].timestamp", 1).meaning == (
        "1970-01-01 00:00:00.005 UTC, but the wrapper's LogAppendTime holds: 2018-04-26 02:31:19.130 UTC"
    )
    assert meanings(data, 1)[-1] == "a partial message, dropped"
    absolute = wrapper(0, raw_message(0, offset=3), offset=3)
    assert field(absolute, "batch.records[0].offset", 1).meaning == "absolute"


def test_broken_wrappers() -> None:
    """A wrapper that cannot be opened says why, and its inner messages go as far as they can."""
    inner = raw_message(1)
    zstd = check(wrapper(1, inner, codec=4))
    assert "zstd · 22 bytes"[:4] in titles(zstd.section.root)[1]
    assert titles(zstd.section.root)[1].endswith("not opened: v0 and v1 know no zstd")
    null = check(raw_message(1, value=None, attributes=1))
    assert null.error is not None
    assert null.error.rule == "NST-03"
    assert "not read: an inner message of 3 bytes" in meanings(wrapper(1, inner + bytes(11) + b"\x03"), 1)
    odd = wrapper(1, put(inner, "magic", 9, layout=MESSAGE_V0))
    assert field(odd, "batch.records[0].magic", 1).meaning == "no known format, read like v1"
    assert check(wrapper(1, wrapper(1, inner))).error is not None
    assert check(raw_message(1, value=b"x", attributes=7)).error is not None


def test_broken_entries() -> None:
    """A size or magic that cannot be ends the walk, and both are named."""
    assert "a size of 13, the least is 14" in titles(check(bytes(11) + b"\x0d").section.root)[0]
    magic = put(raw_message(0), "magic", 3, layout=MESSAGE_V0)
    assert field(magic, "batch.magic").meaning == "magic is 3"
    assert field(magic, "batch.bytes_12_to_15").meaning == "crc in v0 and v1, leader epoch in v2"
    huge = put(raw_message(0), "message_size", 2**31 - 1, layout=MESSAGE_V0)
    assert meanings(huge)[-1] == "not read: a size of 2147483647 overflows with its prefix"
    tiny = put(raw_batch(b"")[:40], "batch_length", 28)
    assert meanings(tiny)[-1] == "not read: a batch of 40 bytes, its header takes 61"


KRAFT = {
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
    """Key and value of an end marker are told field by field."""
    data = control_batch(b"\0\0\0\1", b"\0\0\0\0\0\7")

    assert field(data, "batch.records[0].key.type").meaning == "commit"
    assert field(data, "batch.records[0].value.coordinator_epoch").value == 7
    assert "record 0 · offset 0 · 17 bytes · commit" in titles(check(data).section.root)


@pytest.mark.parametrize("type_", KRAFT)
def test_kraft_records(type_: str) -> None:
    """Values of KRaft records are told field by field."""
    record = encode_control(ControlRecord(type_, KRAFT[type_]), timestamp=TIME)

    explanation = check(control_batch(record.key, record.value))

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
    """What is not a proper control record is still no error of `decode`, and is told."""
    explanation = check(control_batch(key, value))

    assert explanation.error is None
    assert meaning in [each.meaning for each in explanation.section.fields]


def test_control_lengths_that_run_over() -> None:
    """A control record whose key or value is longer than the record is broken as any other."""
    for record in (raw_record(key=b"\0\0\0\1", key_length=b"\x7e"), raw_record(key=b"\0\0\0\1", value_length=b"\x7e")):
        assert check(raw_batch(record, attributes=0x20)).error is not None


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_codecs_name_their_framing(codec: str) -> None:
    """The framing of every codec is named and described."""
    record = Record(0, TIME, None, b"value" * 20)
    data = encode(
        Batch(magic=2, base_offset=0, last_offset=0, compression=codec, max_timestamp=TIME, records=(record,))
    )  # type: ignore[arg-type]

    names = {each.name for each in check(data).section.fields}

    assert (
        names
        >= {
            "gzip": {"id", "method", "flags", "mtime", "deflate", "crc32", "isize"},
            "snappy": {"xerial_magic", "block_length", "uncompressed_length", "block"},
            "lz4": {"magic", "FLG", "BD", "HC", "block_size", "block", "EndMark"},
            "zstd": {"magic", "descriptor", "window", "block_header", "block"},
        }[codec]
    )


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("size", range(0, 40, 3))
def test_codecs_cut_short(codec: int, size: int) -> None:
    """A compressed payload that is cut anywhere is covered, and its part says that it is not opened."""
    name = ("none", "gzip", "snappy", "lz4", "zstd")[codec]
    whole = compression.compress(name, raw_record(value=bytes(range(200))), magic=2)  # type: ignore[arg-type]

    explanation = check(packed(codec, whole[:size]))

    assert explanation.error is not None
    assert "not opened" in titles(explanation.section.root)[1]


def test_gzip_trailers_and_members() -> None:
    """Optional header fields, a second member, what follows it, and a wrong trailer are told."""
    plain = raw_record()
    member = compression.compress("gzip", plain, magic=2)
    named = member[:3] + b"\x08" + member[4:10] + b"file\0" + member[10:]

    assert "file name" in meanings(packed(1, named))
    assert "ignored: not another gzip member" in meanings(packed(1, member + b"x" * 40))
    assert "ignored: not another gzip member" in meanings(packed(1, member + b"x"))
    two = compression.compress("gzip", plain[:5], magic=2) + compression.compress("gzip", plain[5:], magic=2)
    assert check(packed(1, two)).error is None
    assert "corrupt gzip trailer" in meanings(packed(1, member[:-1] + b"\x01"))
    assert check(packed(1, b"\x1f\x8b\x08" + bytes(7) + b"\xff" * 20)).error is not None
    assert zlib.crc32(plain) == field(packed(1, member), "batch.records.crc32").value


def test_lz4_headers() -> None:
    """Content size, checksums, stored blocks and both kinds of header checksum are told."""
    inner = raw_message(0)
    v0 = wrapper(0, inner, codec=3)
    v2 = compression.compress("lz4", raw_record(), magic=2)

    assert "header checksum, not looked at in v0: with the magic in it, as v0 has it" in meanings(v0)
    wrong = v0.replace(b"\x60\x40\x1a", b"\x60\x40\x00")
    assert any("not looked at in v0: wrong" in each for each in meanings(reseal_message(wrong)))
    assert any(
        "header checksum: stored 00, computed 82" in each for each in meanings(packed(3, v2[:6] + b"\0" + v2[7:]))
    )
    assert "version 0" in meanings(packed(3, v2[:4] + b"\0\0" + v2[6:]))
    assert "blocks of at most no known size" in meanings(packed(3, v2[:4] + b"\0\0" + v2[6:]))
    assert {each.name for each in explain(packed(3, v2[:4])).section.fields} >= {"magic"}
    with_size = v2[:4] + b"\x68\x40" + bytes(9) + v2[7:]
    assert "not looked at" in meanings(packed(3, with_size))


def test_decode_inner_is_not_needed_for_offsets() -> None:
    """A wrapper whose offsets contradict one another is opened, and its offsets stay as they are."""
    inner = raw_message(1, offset=9)
    data = wrapper(1, inner, offset=3)

    assert decode_inner(inner, 10_000)[0][0].offset == 9
    assert check(data).error is not None
    assert field(data, "batch.records[0].offset", 1).meaning == ""


def test_bounded() -> None:
    """Bytes for which the memory limit does not do are left in one field."""
    many = raw_batch(raw_record(value=None) * 30_000, record_count=30_000)

    explanation = check(many, SMALL)

    assert len(explanation.section.fields) < 30_000
    assert explanation.section.fields[-1].meaning.startswith("not read: ")
    bomb = packed(1, compression.compress("gzip", bytes(40 * 2**20), magic=2))
    assert "not opened" in titles(check(bomb, SMALL).section.root)[1]


def test_an_empty_input() -> None:
    """No bytes are no sections' fields, and no error."""
    explanation = check(b"")

    assert explanation.section.fields == ()
    assert (explanation.batches, explanation.error) == (0, None)
    assert encode_varint(0) == b"\0"
