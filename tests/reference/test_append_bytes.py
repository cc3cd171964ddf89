"""The bytes that `append` stores, and those that it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import zstandard
from tests.reference.append_cases import BATCH, MESSAGE_V1, NOW, RECORD, packed, records, wrapped

from kafka_corpus.authoring.build import TIMESTAMP, put, raw_batch, raw_header, raw_message, raw_record, reseal
from kafka_records import AppendResult, Header, LogState, RecordFormatError, TopicConfig, append, decode, encode
from kafka_records.broker.errors import Thrown
from kafka_records.broker.limits import HEAP, LARGEST_ARRAY, Room
from kafka_records.broker.message_sets import read_fully
from kafka_records.broker.releases import behaviour
from kafka_records.broker.rewrite import java_utf8
from kafka_records.broker.streams import open_stream
from kafka_records.compression import compress
from kafka_records.varint import encode_varint

LOG = LogState(log_end_offset=100, leader_epoch=7)


def produce(payload: bytes, release: str = "4.4.0", version: int = 9, **config: str) -> AppendResult:
    """Append to LOG; *config* has underscores for dots."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    return append(LOG, payload, TopicConfig.of(settings), release=release, api_version=version, now_ms=NOW)


def test_only_offset_and_epoch_change() -> None:
    """In place, the bytes from the magic on are the producer's (RWR-01, CRC-10, CRC-11, HDR-07)."""
    result = produce(BATCH + b"tail")
    assert result.path == "in place"
    assert result.stored == put(put(BATCH, "base_offset", 100), "partition_leader_epoch", 7)
    assert result.log == replace(LOG, log_end_offset=101)


def test_strange_bits_stay_or_go() -> None:
    """Unknown bits stay with the header and vanish with it (ATT-09); bit 6 is known since 3.1 (ATT-11)."""
    kept = produce(raw_batch(RECORD, attributes=0x7FC0)).stored
    assert kept[21:23] == b"\x7f\xc0"
    changed = {
        release: produce(raw_batch(RECORD, attributes=0x7FC0, max_timestamp=5), release).stored
        for release in ("4.4.0", "2.8.2")
    }
    assert [stored[21:23] for stored in changed.values()] == [b"\x00\x40", b"\x00\x00"]
    assert decode(changed["4.4.0"])[0].max_timestamp == TIMESTAMP


def test_the_maximum_is_the_brokers() -> None:
    """A producer's maximum is overwritten, -1 being the least there is (TIM-08, TIM-09)."""
    assert decode(produce(raw_batch(RECORD, max_timestamp=9)).stored)[0].max_timestamp == TIMESTAMP
    assert decode(produce(raw_batch(RECORD, base_timestamp=-5)).stored)[0].max_timestamp == -1


def test_append_time_leaves_base_and_deltas() -> None:
    """On a LogAppendTime topic bit 3, maximum and CRC change, nothing else (TIM-12, TIM-23)."""
    result = produce(BATCH, message_timestamp_type="LogAppendTime")
    wanted = reseal(put(put(BATCH, "attributes", 8), "max_timestamp", NOW))
    assert result.stored == put(put(wanted, "base_offset", 100), "partition_leader_epoch", 7)
    assert result.log_append_time == NOW
    assert produce(BATCH).log_append_time == -1


def test_bit_3_is_cleared_and_the_maximum_believed() -> None:
    """Bit 3 on a CreateTime topic: the client's maximum stays, the real times are not looked at (TIM-15, TIM-16)."""
    late = raw_batch(RECORD, attributes=8, max_timestamp=NOW)
    (batch,) = decode(produce(late, message_timestamp_before_max_ms="1000").stored)
    assert (batch.timestamp_type, batch.max_timestamp, batch.records[0].timestamp) == ("create", NOW, TIMESTAMP)


def test_bit_3_in_a_rebuilt_batch() -> None:
    """Where the batch is rebuilt, all records get the client's maximum (TIM-26)."""
    (batch,) = decode(produce(raw_batch(RECORD, attributes=8, max_timestamp=5), compression_type="gzip").stored)
    assert [record.timestamp for record in batch.records] == [5]


def test_out_of_order_before_there_were_outlines() -> None:
    """Until 2.4 a compressed batch that is out of order was rebuilt rather than failing (OFF-05)."""
    strange = packed("gzip", raw_record(offset_delta=5))
    assert (produce(strange, "1.1.1", 2).path, produce(strange, "2.4.1", 2).error_code) == ("rebuilt", 87)
    assert produce(strange, "2.5.1", 2).rule == "OFF-05"


def test_rebuilding_writes_a_fresh_batch() -> None:
    """Other codec: deltas from 0 on, base of the first, no strange bits, producer kept (RWR-05 to RWR-07, OFF-06)."""
    odd = raw_record(attributes=0x7F, offset_delta=5, timestamp_delta=3, key_length=b"\x03")
    source = raw_batch(odd, attributes=0x40, producer_id=3, producer_epoch=2, base_sequence=1)
    result = produce(source, compression_type="lz4")
    (batch,) = decode(result.stored)
    assert result.path == "rebuilt"
    assert result.stored[21:23] == b"\x00\x03"
    assert (batch.base_timestamp, batch.max_timestamp) == (TIMESTAMP + 3, TIMESTAMP + 3)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (3, 2, 1)
    assert result.stored == encode(replace(batch, base_timestamp=None))


def test_offsets_of_a_plain_batch_stay() -> None:
    """A batch that stays plain keeps whatever deltas it has (OFF-03, OFF-04)."""
    (batch,) = decode(produce(raw_batch(raw_record(offset_delta=-1))).stored)
    assert (batch.base_offset, batch.records[0].offset) == (100, 99)


def test_append_time_in_a_rebuilt_batch() -> None:
    """Rebuilt under LogAppendTime: records keep their own times below the batch's (RWR-12)."""
    stored = produce(BATCH, compression_type="uncompressed", message_timestamp_type="LogAppendTime").stored
    rebuilt = produce(packed("gzip", RECORD), compression_type="uncompressed", message_timestamp_type="LogAppendTime")
    assert rebuilt.stored == stored
    assert rebuilt.path == "rebuilt"


def test_header_keys_go_through_a_string() -> None:
    """Rebuilding replaces what is not UTF-8, as Java's strings do (REC-22)."""
    key = b"k\xed\xa0\x80\xed\xa0\xff"
    (batch,) = decode(
        produce(
            raw_batch(raw_record(header_count=b"\x02", headers=raw_header(key, b"v"))), compression_type="zstd"
        ).stored
    )
    mark = "\ufffd".encode()
    assert batch.records[0].headers == (Header(b"k" + mark + mark + mark, b"v"),)


@pytest.mark.parametrize(
    ("key", "written"),
    [
        (b"plain", "plain"),
        (b"\xed\xa0\x80", "?"),
        (b"\xed\xa0", "?"),
        (b"\xed\xa0\x00", "?\0"),
        (b"\xe2\x82", "?"),
        (b"\xc0\x80", "??"),
        (b"\xf5\x80", "??"),
        (b"\xf0\x9f\x98", "?"),
        (b"\xe0\x80", "??"),
    ],
)
def test_java_strings(key: bytes, written: str) -> None:
    """Java puts one replacement for a cut character and for a surrogate, one for each other byte (REC-21)."""
    assert java_utf8(key).decode() == written.replace("?", "\ufffd")


@pytest.mark.parametrize("release", ["2.8.2", "1.1.1"])
def test_messages_become_one_batch(release: str) -> None:
    """v0 and v1 messages are stored as one v2 batch, slack and keys of wrappers lost (CNV-01 to CNV-04, LEG-12)."""
    result = produce(raw_message(1, b"k", tail=b"slack") + raw_message(1, timestamp=-1), release, 2)
    (batch,) = decode(result.stored)
    assert (result.path, batch.magic, batch.compression, len(batch.records)) == ("converted", 2, "none", 2)
    (packed_batch,) = decode(produce(wrapped(1, "gzip", MESSAGE_V1), release, 2).stored)
    assert (packed_batch.magic, packed_batch.compression) == (2, "gzip")
    (bare,) = decode(produce(raw_message(0), release, 1, message_timestamp_type="LogAppendTime").stored)
    assert (bare.base_timestamp, bare.max_timestamp) == (-1, NOW)


def test_old_formats_on_disk() -> None:
    """A topic of an older message format gets messages of that format (CRC-12, NST-11, NST-13)."""
    kept = produce(MESSAGE_V1, "2.8.2", 2, message_format_version="0.10.0-IV1").stored
    assert kept == (100).to_bytes(8, "big") + MESSAGE_V1[8:]
    timed = produce(
        MESSAGE_V1, "2.8.2", 2, message_format_version="0.10.0", message_timestamp_type="LogAppendTime"
    ).stored
    assert (decode(timed)[0].timestamp_type, decode(timed)[0].max_timestamp) == ("append", NOW)
    down = produce(
        wrapped(1, "lz4", *(raw_message(1, offset=at) for at in (5, 3))), "2.8.2", 2, message_format_version="0.9.0"
    ).stored
    (batch,) = decode(down)
    assert (batch.magic, batch.base_offset, batch.last_offset) == (0, 100, 101)


def test_before_v2_bytes_stay() -> None:
    """0.10.2 copies messages that have the right magic, even into a rebuilt wrapper."""
    strange = raw_message(1, attributes=0x70, tail=b"slack")
    assert produce(strange, "0.10.2.2", 2).stored == (100).to_bytes(8, "big") + strange[8:]
    timed = produce(strange, "0.10.2.2", 2, message_timestamp_type="LogAppendTime").stored
    assert timed[17] == 0x78
    flat = produce(wrapped(1, "gzip", strange), "0.10.2.2", 2, compression_type="uncompressed")
    assert (flat.path, flat.stored) == ("rebuilt", (100).to_bytes(8, "big") + strange[8:])
    (mixed, other) = decode(produce(raw_message(0) + MESSAGE_V1, "0.10.2.2", 2).stored)
    assert (mixed.magic, mixed.max_timestamp, other.magic) == (1, -1, 1)


def test_nothing_to_append() -> None:
    """An old request with no complete message is taken, and nothing is stored (FRM-12)."""
    for release in ("2.8.2", "0.10.2.2"):
        result = produce(b"", release, 2)
        assert (result.error_code, result.base_offset, result.stored, result.log) == (0, -1, b"", LOG)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"message.timestamp.type": "Never"}, "config.message.timestamp.type"),
        ({"compression.type": "none"}, "config.compression.type"),
        ({"max.message.bytes": "many"}, "config.max.message.bytes"),
        ({"message.format.version": "old"}, "config.message.format.version"),
    ],
)
def test_settings_that_kafka_refuses(settings: dict[str, str], path: str) -> None:
    """A value that is none is refused with its name (RWR-04)."""
    with pytest.raises(RecordFormatError) as caught:
        TopicConfig.of(settings)
    assert (caught.value.kind, caught.value.path) == ("malformed", path)


def test_settings_are_read_as_kafka_reads_them() -> None:
    """Blanks around values and between policies say nothing, nor do settings that are not about an append."""
    said = {"cleanup.policy": " delete , compact ", "max.message.bytes": " 500 ", "compression.type": "gzip "}
    plain = {"cleanup.policy": "compact", "max.message.bytes": "500", "compression.type": "gzip"}
    unknown = {"compression.gzip.level": "9", "compression.zstd.level": "x", "no.such.setting": ""}
    assert TopicConfig.of(said | unknown) == TopicConfig.of(plain)


def test_settings_have_kafkas_defaults() -> None:
    """Nothing said means the release's defaults (SIZ-02, TIM-11)."""
    assert TopicConfig.of({"retention.ms": "5"}) == TopicConfig()
    large = raw_batch(raw_record(value=bytes(1_048_517)))
    assert len(large) == 1_048_588 + 1
    assert [produce(large, release).error_code for release in ("4.4.0", "2.8.2")] == [10, 10]
    assert produce(raw_batch(raw_record(value=bytes(1_048_516)))).error_code == 0
    ahead = raw_batch(RECORD, base_timestamp=NOW + 3_600_001)
    assert [produce(ahead, release).error_code for release in ("4.4.0", "4.0.2", "3.9.2")] == [32, 32, 0]
    assert produce(ahead, "3.9.2", message_timestamp_difference_max_ms="3600000").error_code == 32


def test_room_is_counted() -> None:
    """A payload that fits is no error, one byte more is (HDR-18)."""
    room = Room()
    room.take(LARGEST_ARRAY, "REC-08")
    room.take(HEAP - LARGEST_ARRAY, "REC-08")
    with pytest.raises(Thrown, match="OutOfMemoryError") as caught:
        room.take(1, "HDR-18")
    assert caught.value.rule == "HDR-18"


def test_one_array_is_smaller_than_the_heap() -> None:
    """A length that no array can have is refused though nothing has been taken yet (REC-08)."""
    with pytest.raises(Thrown, match="OutOfMemoryError"):
        Room().take(LARGEST_ARRAY + 1, "REC-08")
    for size, code in ((LARGEST_ARRAY + 1, -1), (LARGEST_ARRAY, 87)):
        payload = packed("gzip", encode_varint(size) + RECORD[1:])
        assert produce(payload, compression_type="lz4").error_code == code


def test_what_is_read_adds_up() -> None:
    """Two lengths that fit alone and not together are too many, in records and in wrappers (REC-08)."""
    room = Room()
    stream = open_stream("zstd", compress("zstd", bytes(1000), magic=2), 2, behaviour("4.4.0"))
    assert len(read_fully(stream, LARGEST_ARRAY, room)) == 1000
    with pytest.raises(Thrown, match="OutOfMemoryError"):
        read_fully(stream, LARGEST_ARRAY, room)


# A frame that does not say its size: the magic, a descriptor of zeros, a window of 1 KiB.
FRAME_OF_ANY_SIZE = bytes.fromhex("28b52ffd 00 00")


def block_header(size: int, kind: int) -> bytes:
    """The header of the last block of a zstd frame; kind 0 is raw, 2 compressed."""
    return (size << 3 | kind << 1 | 1).to_bytes(3, "little")


def test_a_raw_block_is_given_as_far_as_it_is_there() -> None:
    """Of a raw block that the data end in, what is there is given, and the next call fails (ZST-07)."""
    stream = open_stream("zstd", FRAME_OF_ANY_SIZE + block_header(100, 0) + b"some", 2, behaviour("4.4.0"))
    assert stream.read(4) == b"some"
    with pytest.raises(Thrown, match="IOException") as thrown:
        stream.read(1)
    assert thrown.value.rule == "ZST-07"


def test_a_checksum_follows_the_last_block() -> None:
    """A frame without a content size and with a checksum ends after that, and the next one is read (ZST-05)."""
    packer = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    frame = packer.compress(b"some") + packer.flush()
    stream = open_stream("zstd", frame + frame, 2, behaviour("4.4.0"))
    assert [stream.read(4), stream.read(4), stream.read(1)] == [b"some", b"some", None]


def test_a_block_that_is_no_block() -> None:
    """A frame that cannot be decompressed is an error of that frame (ZST-05)."""
    stream = open_stream("zstd", FRAME_OF_ANY_SIZE + block_header(4, 2) + b"\xff" * 4, 2, behaviour("4.4.0"))
    with pytest.raises(Thrown, match="IOException") as thrown:
        stream.read(1)
    assert thrown.value.rule == "ZST-05"


@pytest.mark.parametrize("release", ["4.4.0", "2.8.2"])
def test_headers_of_nothing(release: str) -> None:
    """Millions of empty headers are skipped while a batch is kept, and too many for the heap if not (REC-15)."""
    count = 2_000_000
    record = raw_record(header_count=encode_varint(count), headers=bytes(2 * count))
    assert produce(packed("zstd", record), release).path == "in place"
    rebuilt = produce(packed("zstd", record), release, compression_type="gzip")
    assert (rebuilt.error_code, rebuilt.rule) == (-1, "CMP-10")
    one_too_few = raw_record(header_count=encode_varint(count + 1), headers=bytes(2 * count))
    assert produce(packed("zstd", one_too_few), release).error_code == 87


@pytest.mark.parametrize("release", ["4.4.0", "2.8.2"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 1000, 1020, 1021, 1022, 1023, 1024, 9000])
def test_runs_of_small_headers(release: str, count: int) -> None:
    """Headers of two bytes, with a null value or an empty one, and others between them are distinct (REC-18)."""
    small, null = raw_header(b"", b""), raw_header(b"", None)
    headers = (small + null) * count + raw_header(b"k", b"v") + null * count
    record = raw_record(header_count=encode_varint(3 * count + 1), headers=headers)
    assert produce(packed("gzip", record + raw_record(offset_delta=1), count=2), release).path == "in place"
    headless = (small + null) * count + raw_header(None, b"v") + null * count
    wrong = raw_record(header_count=encode_varint(3 * count + 1), headers=headless)
    assert produce(packed("gzip", wrong), release).rule == "REC-18"


def test_errors_of_records_are_listed() -> None:
    """All records at fault are listed, until 2.4 only the first (PRD-11)."""
    both = raw_batch(records(2), record_count=2)
    assert produce(both, cleanup_policy="compact").record_errors == (0, 1)
    assert produce(both, "2.4.1", 7, cleanup_policy="compact").record_errors == (0,)
