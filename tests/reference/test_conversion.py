"""Conversion by brokers of stored batches for old fetches, and of old messages when they are appended."""

from __future__ import annotations

import pytest
from tests.reference.conversion_cases import LATER, LOGS, WHEN, empty, marker, message, v2

from kafka_records import RecordFormatError, convert, decode
from kafka_records.constants import Compression
from kafka_records.layout import ENTRY

NEWEST_THAT_CONVERTS = "3.9.2"
RELEASES = ("0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.8.2", "3.9.2")


def offsets(data: bytes) -> list[list[int]]:
    """The offsets of the records, entry by entry."""
    return [[record.offset for record in batch.records] for batch in decode(data)]


def refused(
    log: bytes, to_magic: int = 1, release: str = NEWEST_THAT_CONVERTS, first_offset: int = 0
) -> RecordFormatError:
    """The error."""
    with pytest.raises(RecordFormatError) as caught:
        convert(log, to_magic, first_offset=first_offset, release=release)
    return caught.value


@pytest.mark.parametrize("magic", [0, 1])
def test_uncompressed_records_become_messages(magic: int) -> None:
    """Each record is a message of its own; headers and, in v0, timestamps are lost (CNV-08, CNV-09)."""
    found = decode(convert(v2(5), magic, release=NEWEST_THAT_CONVERTS))

    assert [batch.records[0].offset for batch in found] == [5, 6, 7]
    assert {batch.magic for batch in found} == {magic}
    assert found[0].records[0].value == b"value 5 v"
    assert found[0].records[0].timestamp == (WHEN + 50 if magic else -1)
    (with_headers,) = decode(convert(LOGS["headers"], magic, release=NEWEST_THAT_CONVERTS))
    assert with_headers.records[0].headers == ()


def test_records_below_the_fetch_offset_are_dropped() -> None:
    """From uncompressed batches, not from compressed ones (CNV-10)."""
    log = v2(0) + v2(3, compression="gzip")

    assert offsets(convert(log, 1, first_offset=2, release="2.8.2")) == [[2], [3, 4, 5]]
    assert offsets(convert(v2(0, compression="gzip"), 1, first_offset=2, release="2.8.2")) == [[0, 1, 2]]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_wrappers(codec: Compression) -> None:
    """A compressed batch is one wrapper; inner offsets are relative in v1 and absolute in v0 (CNV-11)."""
    log = v2(5, size=60, compression=codec)

    for magic in (0, 1):
        (batch,) = decode(convert(log, magic, release=NEWEST_THAT_CONVERTS))
        assert (batch.base_offset, batch.last_offset, batch.compression) == (5, 7, codec)
        assert [record.offset for record in batch.records] == [5, 6, 7]


def test_log_append_time() -> None:
    """The batch's one time goes into every message, and into the wrapper (TIM-02)."""
    for codec in ("none", "gzip"):
        log = v2(0, size=60, compression=codec, timestamp_type="append", max_timestamp=LATER)
        for batch in decode(convert(log, 1, release=NEWEST_THAT_CONVERTS)):
            assert (batch.timestamp_type, batch.max_timestamp) == ("append", LATER)
            assert {record.timestamp for record in batch.records} == {LATER}
    (old,) = decode(convert(message(1, 0, timestamp_type="append", max_timestamp=LATER), 0, release="2.8.2"))
    assert (old.timestamp_type, old.max_timestamp) == ("none", -1)


def test_old_batches_are_copied() -> None:
    """Batches that are old enough stay as they are, among others that are not (CNV-18)."""
    old = message(0, 0) + message(1, 1, 3, compression="lz4")
    log = old + v2(4)

    assert convert(log, 1, release="2.8.2").startswith(old)
    assert convert(log, 0, release="2.8.2").startswith(message(0, 0))
    assert offsets(convert(log, 0, release="2.8.2")) == [[0], [1, 2, 3], [4], [5], [6]]


def test_room_that_is_left_is_filled() -> None:
    """By an entry of offset -1 that ends one byte after the response (CNV-12)."""
    log = LOGS["headers"]
    found = convert(log, 0, release="2.8.2")

    assert len(found) == len(log)
    (batch,) = decode(found)
    rest = found[40:]
    assert batch.records[0].offset == 0
    assert ENTRY.struct.unpack_from(rest) == (-1, max(len(rest) + 1, 61))
    assert set(rest[12:]) == {0}


def test_much_room_is_filled_in_pieces() -> None:
    """128 KiB of padding at a time, each piece saying how much was left when it was made."""
    found = convert(LOGS["much padding"], 1, release="2.8.2")
    begun = len(convert(LOGS["much padding"], 1, release="1.1.1"))

    assert len(found) == len(LOGS["much padding"])
    left = len(found) - begun
    assert ENTRY.struct.unpack_from(found, begun) == (-1, left + 1)
    assert ENTRY.struct.unpack_from(found, begun + 128 * 1024) == (-1, left - 128 * 1024 + 1)


def test_what_does_not_fit_is_cut_off() -> None:
    """The size is that of the stored bytes, or of the first batch, and no more is sent."""
    log = LOGS["more than fits"]
    found = convert(log, 1, release="2.8.2")

    assert len(found) == len(log)
    assert 300 < len(decode(found)) < 6000
    alone = v2(0, 300, size=1)
    assert len(convert(alone, 1, release="2.8.2")) > len(alone)


def test_nothing_left() -> None:
    """Where no record is left, twelve bytes say that there was something (CNV-13); where there was nothing, none do."""
    for log in (marker(0), marker(0) + marker(1), empty(0)):
        found = convert(log, 1, release="2.8.2")
        assert ENTRY.struct.unpack(found) == (-1, 61)
    assert convert(b"", 1, release="3.9.2") == b""
    assert convert(v2(0)[:50], 1, release="3.9.2") == b""


def test_what_follows_control_batches_is_sent_twice() -> None:
    """Kafka skips one batch for the one that it has converted, and that is another: seen on 2.0.1 to 3.9.2."""
    assert offsets(convert(marker(0) + v2(1), 1, release="2.8.2")) == [[1], [2], [3], [1], [2], [3]][:4]
    log = marker(0) + v2(1, size=300) + v2(4, size=300)
    assert offsets(convert(log, 1, release="3.9.2"))[:6] == [[1], [2], [3], [1], [2], [3]]
    assert offsets(convert(log, 1, release="1.1.1")) == [[at] for at in range(1, 7)]


def test_zstd_cannot_be_converted() -> None:
    """As the first batch it is an error, after others it becomes padding (CNV-14)."""
    error = refused(v2(0, compression="zstd"))
    assert (error.kind, error.rule) == ("unsupported_compression", "CNV-14")
    assert offsets(convert(LOGS["zstd last"], 1, release="2.8.2")) == [[0], [1], [2]]


def test_a_broker_that_cannot_go_on_closes_the_connection() -> None:
    """Zstd with more than 128 KiB of room after it, and a batch that cannot be read."""
    error = refused(LOGS["zstd before many bytes"])
    assert (error.kind, error.rule) == ("unsupported_compression", "CNV-14")
    assert "closed" in str(error)
    error = refused(LOGS["too many counted last"])
    assert (error.kind, error.rule) == ("malformed", "VAR-11")
    assert "closed" in str(error)


REFUSED = {
    "repeated offsets": ("malformed", "OFF-07"),
    "a timestamp below -1": ("malformed", "TIM-04"),
    "too many counted": ("malformed", "VAR-11"),
    "too few counted": ("malformed", "HDR-14"),
    "a negative count": ("malformed", "HDR-15"),
    "codec 5": ("malformed", "ATT-02"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_batches_that_cannot_be_converted(name: str) -> None:
    """An error of the broker's, by rule."""
    error = refused(LOGS[name])

    assert (error.kind, error.rule) == REFUSED[name]


def test_a_size_that_cannot_be() -> None:
    """The reader of files throws CorruptRecordException (SEG-04)."""
    error = refused(v2(0) + bytes(20))

    assert (error.kind, error.rule) == ("corrupt", "SEG-04")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("magic", [0, 1])
def test_every_log_is_converted_or_refused(release: str, magic: int) -> None:
    """There is no other error, and nothing that is sent begins with what its reader does not know."""
    for log in (each for each in LOGS.values() if len(each) < 20_000):
        try:
            found = convert(log, magic, first_offset=1, release=release)
        except RecordFormatError:
            continue
        assert found == log or found[:8] == b"\xff" * 8 or found[16:17] <= bytes([magic])


def test_before_3_0_old_enough_logs_stay_as_they_are() -> None:
    """A partial entry at the end, too; 3.0 fills its room."""
    log = message(1, 0) + message(1, 1)[:-3]

    assert convert(log, 1, release="2.8.2") == log
    assert convert(log, 1, release="3.0.2") != log


def test_before_2_0_batch_by_batch() -> None:
    """Without padding; 0.11 could not convert headers, 1.1 left as it is what had nothing in it to convert."""
    log = v2(0) + v2(3, compression="gzip")

    for release in ("0.11.0.3", "1.1.1"):
        assert offsets(convert(log, 1, first_offset=1, release=release)) == [[1], [2], [3, 4, 5]]
    assert refused(LOGS["headers"], release="0.11.0.3").rule == "LEG-22"
    assert convert(marker(0), 1, release="0.11.0.3") == b""
    assert convert(marker(0), 1, release="1.1.1") == marker(0)
    assert refused(v2(0, compression="zstd"), release="1.1.1").rule == "ATT-02"


def test_0_10_makes_one_set_of_all() -> None:
    """In the codec of the first entry."""
    plain, packed = message(1, 0), message(1, 1, 3, compression="gzip")

    (batch,) = decode(convert(packed + message(1, 4), 0, release="0.10.2.2"))
    assert (batch.magic, batch.compression, batch.last_offset) == (0, "gzip", 4)
    assert offsets(convert(plain + packed, 0, release="0.10.2.2")) == [[0], [1], [2], [3]]
    assert convert(message(0, 0), 0, release="0.10.2.2") == message(0, 0)
    backwards = message(1, 4) + message(1, 2)
    assert refused(backwards, 0, "0.10.2.2").rule == "OFF-07"


def test_since_4_0_nothing_is_converted_downwards() -> None:
    """Fetch 0 to 3 are gone (PRD-09)."""
    error = refused(v2(0), 1, "4.0.2")

    assert (error.kind, error.rule) == ("unsupported_magic", "PRD-09")


def test_upwards_as_an_append() -> None:
    """All plain messages become one batch, a compressed set one of the same codec (CNV-02, CNV-03)."""
    (batch,) = decode(convert(message(1, 0) + message(1, 1), 2, first_offset=40, release="3.9.2"))
    assert (batch.magic, batch.base_offset, batch.last_offset, batch.producer_id) == (2, 40, 41, -1)
    (batch,) = decode(convert(message(0, 0, 3, compression="gzip"), 2, release="2.8.2"))
    assert (batch.magic, batch.compression, batch.max_timestamp) == (2, "gzip", -1)
    error = refused(message(1, 0)[:-1] + b"!", 2, "2.8.2")
    assert (error.kind, error.rule) == ("malformed", "LEG-04")
