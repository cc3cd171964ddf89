"""Explanations of compressed bytes, and of their content."""

import zlib

import pytest
from tests.reference.explained import field, meanings, titles

from kafka_corpus.authoring.build import put, raw_batch, raw_message, raw_record, reseal_message
from kafka_records import (
    Batch,
    Record,
    compression,
    encode,
    explain,
)
from kafka_records.constants import COMPRESSIONS, Compression
from kafka_records.layout import MESSAGE_V0

TIME = 1524709879130


def packed(codec: int, payload: bytes) -> bytes:
    """A v2 batch of one record that names a codec."""
    return raw_batch(payload, attributes=codec)


def wrapper(
    magic: int,
    inner: bytes,
    codec: Compression = "gzip",
    *,
    offset: int = 0,
    attributes: int = 0,
    timestamp: int = TIME,
) -> bytes:
    """A wrapper around a message set."""
    value = compression.compress(codec, inner, magic=magic)
    attributes |= COMPRESSIONS.index(codec)
    return raw_message(magic, value=value, offset=offset, attributes=attributes, timestamp=timestamp)


def test_wrappers_are_opened() -> None:
    """Inner messages of v1 show their absolute offset, and the time that holds."""
    inner = raw_message(1, offset=0) + raw_message(1, offset=1, timestamp=5)
    data = wrapper(1, inner + b"tail", offset=11, attributes=0x08, timestamp=TIME)

    explanation = explain(data)

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
    zstd = explain(wrapper(1, inner, "zstd"))
    assert titles(zstd.section.root)[1].endswith("not opened: v0 and v1 know no zstd")
    null = explain(raw_message(1, value=None, attributes=1))
    assert null.error is not None
    assert null.error.rule == "NST-03"
    assert "not read: an inner message of 3 bytes" in meanings(wrapper(1, inner + bytes(11) + b"\x03"), 1)
    odd = wrapper(1, put(inner, "magic", 9, layout=MESSAGE_V0))
    assert field(odd, "batch.records[0].magic", 1).meaning == "no known format, read like v1"
    assert explain(wrapper(1, wrapper(1, inner))).error is not None
    assert explain(raw_message(1, value=b"x", attributes=7)).error is not None


@pytest.mark.parametrize("codec", COMPRESSIONS[1:])
def test_codecs_name_their_framing(codec: Compression) -> None:
    """The framing of every codec is named and described."""
    record = Record(0, TIME, None, b"value" * 20)
    data = encode(
        Batch(magic=2, base_offset=0, last_offset=0, compression=codec, max_timestamp=TIME, records=(record,))
    )

    names = {each.name for each in explain(data).section.fields}

    assert (
        names
        >= {
            "gzip": {"id", "method", "flags", "mtime", "deflate", "crc32", "isize"},
            "snappy": {"xerial_magic", "block_length", "uncompressed_length", "block"},
            "lz4": {"magic", "FLG", "BD", "HC", "block_size", "block", "EndMark"},
            "zstd": {"magic", "descriptor", "window", "block_header", "block"},
        }[codec]
    )


def test_xerial_headers() -> None:
    """A repeated xerial header is explained again, half of one is passed over, and stray bytes are ignored."""
    whole = compression.compress("snappy", raw_record(), magic=2)

    repeated = explain(packed(2, whole[:16] + whole))
    assert repeated.error is None
    assert [each.name for each in repeated.section.fields].count("xerial_magic") == 2
    half = whole[:7] + b"x" * 9
    assert "passed over: half a xerial header" in meanings(packed(2, whole + half))
    assert "ignored: half a xerial header, and no data before it" in meanings(packed(2, whole + half + half + b"no"))
    assert "ignored: too short to be a length" in meanings(packed(2, whole + b"x"))


def test_gzip_trailers_and_members() -> None:
    """Optional header fields, a second member, what follows it, and a wrong trailer are explained."""
    plain = raw_record()
    member = compression.compress("gzip", plain, magic=2)
    named = member[:3] + b"\x08" + member[4:10] + b"file\0" + member[10:]

    assert "file name" in meanings(packed(1, named))
    assert "ignored: not another gzip member" in meanings(packed(1, member + b"x" * 40))
    assert "ignored: not another gzip member" in meanings(packed(1, member + b"x"))
    two = compression.compress("gzip", plain[:5], magic=2) + compression.compress("gzip", plain[5:], magic=2)
    assert explain(packed(1, two)).error is None
    assert "corrupt gzip trailer" in meanings(packed(1, member[:-1] + b"\x01"))
    assert explain(packed(1, b"\x1f\x8b\x08" + bytes(7) + b"\xff" * 20)).error is not None
    assert zlib.crc32(plain) == field(packed(1, member), "batch.records.crc32").value


def test_lz4_headers() -> None:
    """Content size, checksums, stored blocks and both kinds of header checksum are explained."""
    inner = raw_message(0)
    v0 = wrapper(0, inner, "lz4")
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


def test_offsets_that_contradict_one_another() -> None:
    """A wrapper whose offset is below an inner one is opened, and the inner offset stays what it says."""
    data = wrapper(1, raw_message(1, offset=9), offset=3)

    assert explain(data).error is not None
    assert field(data, "batch.records[0].offset", 1).meaning == ""
