"""Data after cleaning: keys, tombstones, formats, and logs that cannot be cleaned."""

from __future__ import annotations

import pytest

from kafka_records import (
    Batch,
    CleanerConfig,
    CompactResult,
    Header,
    Record,
    RecordFormatError,
    Round,
    Segment,
    compact,
    decode,
    encode,
)
from kafka_records.checksum import checksum_v2
from kafka_records.compression import compress
from kafka_records.constants import COMPRESSIONS, Compression
from kafka_records.layout import BATCH_V2
from kafka_records.message import decode_message, encode_message

NOW = 1_000_000_000
RETENTION = 1_000
RELEASES = ("0.11.0.3", "2.8.2", "3.9.2", "4.4.0")


def record(offset: int, key: bytes | None, value: bytes | None = b"v", timestamp: int | None = None) -> Record:
    """A record, by default one millisecond after the one before."""
    return Record(offset, 100 + offset if timestamp is None else timestamp, key, value)


def batch(*records: Record, **fields: object) -> Batch:
    """A batch of these records, from the first offset to the last."""
    given: dict[str, object] = {
        "magic": 2,
        "base_offset": records[0].offset,
        "last_offset": records[-1].offset,
        "max_timestamp": max(each.timestamp for each in records),
        "records": records,
    }
    return Batch(**given | fields)  # type: ignore[arg-type]  # fields of any type


def log(*batches: Batch) -> bytes:
    """A log of them."""
    return b"".join(map(encode, batches))


FIRST = Round()


def cleaned(data: bytes, given: Round = FIRST, *, release: str = "4.4.0", retention: int = RETENTION) -> CompactResult:
    """One round at `NOW`."""
    return compact(data, CleanerConfig(delete_retention_ms=retention), given, release=release, now_ms=NOW)


def put(data: bytes, field: str, value: int) -> bytes:
    """A batch with another value in a field, and the right CRC."""
    place = BATCH_V2.field(field)
    changed = (
        data[: place.offset] + value.to_bytes(place.width, "big", signed=True) + data[place.offset + place.width :]
    )
    return changed[:17] + checksum_v2(changed).to_bytes(4, "big") + changed[21:]


LAST = batch(record(90, b"last"))


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("codec", COMPRESSIONS[:4])
def test_the_last_record_of_a_key_stays(release: str, codec: Compression) -> None:
    """Within a batch and across batches; the header keeps its offsets, the max timestamp follows the records."""
    headers = (Header(b"\xff", None),)
    data = log(
        batch(
            record(10, b"a"),
            record(11, b"b")._replace(headers=headers),
            record(12, b"a"),
            record(13, b"c"),
            compression=codec,
        ),
        batch(record(14, b"c")),
    )
    result = cleaned(data, release=release)
    first, second = decode(result.data)
    assert (first.base_offset, first.last_offset, first.max_timestamp) == (10, 13, 112)
    assert [(each.offset, each.key) for each in first.records] == [(11, b"b"), (12, b"a")]
    assert first.records[0].headers == (Header("\ufffd".encode(), None),)
    assert first.compression == codec
    assert encode(second) == data[-len(encode(second)) :]
    assert [fate.outcome for fate in result.fates] == ["rewritten", "copied"]
    assert (result.kept, result.dropped, result.next_dirty_offset) == (3, 2, 15)
    assert result.rules == ("CLN-01", "CLN-02", "CLN-18")


def test_nothing_dropped_means_nothing_changed() -> None:
    """A batch of which all stays is copied byte for byte, unknown bits too."""
    data = put(encode(batch(record(0, b"a"))), "attributes", 0x7F00)
    assert cleaned(data).data == data


def test_batches_without_records_disappear() -> None:
    """A batch of which nothing stays goes, and leaves a gap, unless it is the last (3.9)."""
    data = log(batch(record(0, b"a")), batch(record(1, b"a")))
    (left,) = decode(cleaned(data).data)
    assert left.base_offset == 1
    backwards = log(batch(record(0, b"a")), batch(record(1, None)))
    kept, empty = decode(cleaned(backwards).data)
    assert (kept.last_offset, empty.last_offset, empty.records, empty.base_timestamp) == (0, 1, (), -1)
    assert len(decode(cleaned(backwards, release="2.8.2").data)) == 1


def test_the_last_batch_of_a_log() -> None:
    """From 4.4 on it is not the last batch of a round that stays, but that of the log, as far as it is committed."""
    closed, active = log(batch(record(0, b"a")), batch(record(1, None))), log(LAST)
    round_ = Round(first_uncleanable_offset=2)
    assert [fate.outcome for fate in cleaned(closed + active, round_, release="4.3.1").fates][1] == "emptied"
    assert [fate.outcome for fate in cleaned(closed + active, round_).fates][1] == "dropped"
    committed = Round(first_uncleanable_offset=2, high_watermark=2)
    assert [fate.outcome for fate in cleaned(closed + active, committed).fates][1] == "emptied"


def test_null_keys_go() -> None:
    """A record without a key is dropped."""
    result = cleaned(log(batch(record(0, None), record(1, b"a")), LAST))
    assert result.fates[0].rules == ("CLN-02", "CLN-19")
    assert [each.offset for each in decode(result.data)[0].records] == [1]


def test_what_is_not_cleaned_stays() -> None:
    """From the first uncleanable offset on, and in a tail that is cut off, no byte changes, and no key counts."""
    closed, active = log(batch(record(0, b"a"), record(1, b"a"))), log(batch(record(2, b"a"))) + b"\0\0\0"
    result = cleaned(closed + active, Round(first_uncleanable_offset=2))
    assert result.data.endswith(active)
    assert [each.offset for each in decode(result.data)[0].records] == [1]
    assert result.fates[1].outcome == "not cleaned"


def test_only_dirty_keys_count() -> None:
    """A record before the first dirty offset goes only for one after it."""
    data = log(batch(record(0, b"a"), record(1, b"a")), batch(record(2, b"b"), record(3, b"b")), LAST)
    result = cleaned(data, Round(first_dirty_offset=3))
    assert [[each.offset for each in one.records] for one in decode(result.data)] == [[0, 1], [3], [90]]


def test_an_empty_log() -> None:
    """Nothing comes of nothing."""
    assert cleaned(b"").data == b""


def test_tombstones_get_a_horizon() -> None:
    """The first round that meets a tombstone writes when it may go; the next ones leave that alone."""
    data = log(batch(record(0, b"a"), record(1, b"b", None)), LAST)
    first = cleaned(data)
    left = decode(first.data)[0]
    assert (left.delete_horizon, left.records) == (NOW + RETENTION, decode(data)[0].records)
    assert first.fates[0].rules == ("CLN-08",)
    assert cleaned(first.data).data == first.data
    rewritten = cleaned(first.data + log(batch(record(91, b"a"))))
    assert decode(rewritten.data)[0].delete_horizon == NOW + RETENTION


@pytest.mark.parametrize(("horizon", "stays"), [(NOW + 1, True), (NOW, False), (0, False)])
def test_tombstones_go_at_their_horizon(horizon: int, stays: bool) -> None:
    """A tombstone goes as soon as the time has reached the horizon; what else is in the batch keeps it."""
    data = log(batch(record(0, b"a"), record(1, b"b", None), delete_horizon=horizon), LAST)
    left = decode(cleaned(data).data)[0]
    assert (len(left.records), left.delete_horizon) == (1 + stays, horizon)


def test_a_horizon_below_zero_is_lost() -> None:
    """MemoryRecordsBuilder takes a negative horizon for none."""
    data = put(log(batch(record(0, b"a"), record(1, b"a"))), "attributes", 0x40)
    data = put(data, "base_timestamp", -1)
    (left,) = decode(cleaned(data).data)
    assert (left.delete_horizon, left.records[0].timestamp) == (None, 0)


@pytest.mark.parametrize(
    ("times", "stays"),
    [((), True), ((5_000, 4_000), True), ((5_000, 6_001), False), ((0, 0), True), ((9, 6_000), False)],
)
def test_before_horizons_segments_have_the_time(times: tuple[int, ...], stays: bool) -> None:
    """Before 3.1 tombstones go if their segment is as old as the last clean one was, less delete.retention.ms."""
    data = log(batch(record(0, b"a"), record(1, b"b", None)), batch(record(50, b"x")), LAST)
    segments = tuple(Segment(base, time) for base, time in zip((0, 50), times, strict=False))
    result = cleaned(data, Round(first_dirty_offset=60, segments=segments), release="2.8.2")
    assert len(decode(result.data)[0].records) == 1 + stays
    assert decode(result.data)[0].delete_horizon is None


def test_a_first_round_keeps_old_tombstones() -> None:
    """Nothing is clean yet, so nothing is old enough; a segment that begins later is the time of what is before it."""
    data = log(batch(record(0, b"b", None)), LAST)
    result = cleaned(data, Round(segments=(Segment(1, 7),)), release="2.8.2", retention=0)
    assert result.data == data


def test_append_time() -> None:
    """A rewritten batch with LogAppendTime loses the producer's times, and keeps its own."""
    data = log(
        batch(record(0, b"a"), record(1, b"b"), record(2, b"a"), timestamp_type="append", max_timestamp=777), LAST
    )
    left = decode(cleaned(data).data)[0]
    assert (left.base_timestamp, left.max_timestamp, left.timestamp_type) == (777, 777, "append")
    assert {each.timestamp for each in left.records} == {777}


def old(magic: int, *records: Record, **fields: object) -> Batch:
    """Messages, or a wrapper, of v0 or v1."""
    if magic == 0:
        records = tuple(each._replace(timestamp=-1) for each in records)
        fields = {"timestamp_type": "none", **fields}
    return batch(*records, magic=magic, **fields)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("release", RELEASES)
def test_old_formats(magic: int, release: str) -> None:
    """A wrapper is rewritten in its own format, and as v2 from 4.0 on; its offsets start at the first that is left."""
    wrapper = old(magic, record(5, b"a"), record(6, b"b"), record(7, b"a"), compression="gzip")
    result = cleaned(log(wrapper, LAST), release=release)
    left = decode(result.data)[0]
    assert left.magic == (2 if release == "4.4.0" else magic)
    assert (left.base_offset, left.last_offset, left.compression) == (6, 7, "gzip")
    assert [each.offset for each in left.records] == [6, 7]
    assert left.timestamp_type == ("none" if left.magic == 0 else "create")
    assert result.fates[0].rules == ("CLN-18", "CLN-21")


def test_old_formats_with_append_time() -> None:
    """The wrapper's time is that of all its messages."""
    wrapper = old(1, record(5, b"a"), record(6, b"a"), compression="gzip", timestamp_type="append", max_timestamp=777)
    left = decode(cleaned(log(wrapper, LAST), release="3.9.2").data)[0]
    assert (left.max_timestamp, left.records[0].timestamp) == (777, 777)


def test_old_messages() -> None:
    """A message stays as it is or goes; from 4.0 on it becomes a batch."""
    data = log(old(1, record(0, b"a")), old(1, record(1, b"a")), LAST)
    assert cleaned(data, release="3.9.2").data == log(old(1, record(1, b"a")), LAST)
    assert decode(cleaned(data).data)[0] == batch(record(1, b"a"))


def test_old_tombstones() -> None:
    """They go by the time of their segment; from 4.0 on those that stay get a horizon as they become v2."""
    data = log(old(1, record(0, b"a", None)), LAST)
    assert decode(cleaned(data).data)[0].delete_horizon == NOW + RETENTION
    assert cleaned(data, release="3.9.2").data == data
    result = cleaned(data, Round(first_dirty_offset=90), release="3.9.2", retention=0)
    assert (result.data, result.fates[0].rules) == (log(LAST), ("CLN-17", "CLN-21"))


def test_wrappers_of_another_magic() -> None:
    """KAFKA-4298: messages that are not of their wrapper's format are put right."""
    wrapper = encode(old(1, record(0, b"a", timestamp=-1), compression="gzip"))
    inner = encode(old(0, record(0, b"a")))
    mixed = replace_value(wrapper, inner)
    result = cleaned(mixed + log(LAST), release="3.9.2")
    left = decode(result.data)[0]
    assert (left.magic, result.fates[0].outcome, result.fates[0].rules) == (1, "rewritten", ("CLN-22",))
    assert result.data != mixed


def replace_value(wrapper: bytes, inner: bytes) -> bytes:
    """A v1 wrapper around other messages."""
    return encode_message(decode_message(wrapper)._replace(value=compress("gzip", inner, magic=1)))


UNCLEANABLE = {
    "a record that cannot be decoded": (
        put(encode(batch(record(0, b"a"))), "record_count", 3),
        "InvalidRecordException",
        "VAR-11",
    ),
    "a count below zero": (put(encode(batch(record(0, b"a"))), "record_count", -1), "InvalidRecordException", "HDR-15"),
    "an unknown codec": (put(encode(batch(record(0, b"a"))), "attributes", 7), "IllegalArgumentException", "ATT-02"),
    "no stream": (
        put(put(encode(batch(record(0, b"a"))), "attributes", 1), "record_count", 0),
        "KafkaException",
        "GZP-01",
    ),
    "a header that is cut off": (
        b"\0" * 8 + b"\0\0\0\x1e" + b"\0" * 4 + b"\x02" + b"\0" * 25,
        "IndexOutOfBoundsException",
        "HDR-05",
    ),
    "a size that cannot be": (bytes(20), "CorruptRecordException", "FRM-05"),
    "offsets that do not rise": (
        put(
            log(batch(record(0, b"a"), record(1, b"b"), record(2, None))).replace(b"\x02\x02\x02b", b"\x02\0\x02b"),
            "record_count",
            3,
        ),
        "IllegalArgumentException",
        "OFF-07",
    ),
}


@pytest.mark.parametrize("name", UNCLEANABLE)
def test_what_cannot_be_cleaned(name: str) -> None:
    """A batch that cannot be read, or not be rewritten, leaves the whole log as it is."""
    data, error, rule = UNCLEANABLE[name]
    data += log(LAST)
    result = cleaned(data)
    assert (result.error, result.rule) == (error, rule)
    assert (result.data, result.fates, result.next_dirty_offset) == (data, (), 0)


def test_a_wrong_crc_is_made_right() -> None:
    """The cleaner checks no CRC: a rewritten batch has the right one, though a bit of a value was wrong."""
    data = log(batch(record(0, b"a", b"value"), record(1, b"b")), batch(record(2, b"b")))
    broken = data.replace(b"value", b"valuf")
    with pytest.raises(RecordFormatError, match="crc"):
        decode(broken)
    assert decode(cleaned(broken).data)[0].records[0].value == b"valuf"


def test_empty_batches_of_a_codec() -> None:
    """A batch that counts no records, though it has a codec, is opened and then dropped."""
    data = put(encode(batch(record(0, b"a"), compression="gzip")), "record_count", 0)
    assert cleaned(data + log(LAST)).data == log(LAST)


def test_old_formats_have_no_empty_batches() -> None:
    """From 3.9 on a v1 message that is the last of a round, and goes, makes the log uncleanable."""
    data = log(old(1, record(0, None)))
    assert cleaned(data, release="2.8.2").data == b""
    assert cleaned(data, release="3.9.2").error == "IllegalStateException"


def test_bodies_are_bounded() -> None:
    """From 4.4 on a compressed record that is larger than max.decompressed.message.bytes cannot be cleaned."""
    data = log(batch(record(0, b"a", bytes(500)), compression="gzip"), LAST)
    config = CleanerConfig.of({"max.decompressed.message.bytes": "100", "delete.retention.ms": "5"})
    assert config.delete_retention_ms == 5
    assert compact(data, config, release="4.4.0", now_ms=NOW).error is not None
    assert compact(data, config, release="4.3.1", now_ms=NOW).error is None


def test_settings_that_are_none() -> None:
    """A setting that is no number is refused."""
    with pytest.raises(RecordFormatError, match=r"delete\.retention\.ms is 'soon'"):
        CleanerConfig.of({"delete.retention.ms": "soon"})


@pytest.mark.parametrize("release", ["0.10.2.2", "5.0.0"])
def test_releases_that_are_not_described(release: str) -> None:
    """Cleaners before 0.11, and those to come, are not described."""
    with pytest.raises(RecordFormatError) as caught:
        cleaned(b"", release=release)
    assert caught.value.path == "release"
