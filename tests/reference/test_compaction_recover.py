"""Segments after recovery."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_records import Batch, Record, RecordFormatError, encode, recover
from kafka_records.checksum import checksum_v2
from kafka_records.layout import BATCH_V2

RELEASES = ("2.8.2", "4.4.0")


def stored(offset: int, **fields: object) -> bytes:
    """A batch of one record."""
    batch = Batch(
        magic=2, base_offset=offset, last_offset=offset, max_timestamp=9, records=(Record(offset, 9, b"k", b"v"),)
    )
    return encode(replace(batch, **fields))  # type: ignore[arg-type]  # fields of any type


def put(data: bytes, field: str, value: int, *, right: bool = False) -> bytes:
    """A batch with another value in a field, with the right CRC if *right* is set."""
    place = BATCH_V2.field(field)
    changed = (
        data[: place.offset] + value.to_bytes(place.width, "big", signed=True) + data[place.offset + place.width :]
    )
    return changed[:17] + checksum_v2(changed).to_bytes(4, "big") + changed[21:] if right else changed


def control(key: bytes | None, value: bytes | None = bytes(6), **fields: object) -> bytes:
    """A control batch."""
    given: dict[str, object] = {"control": True, "transactional": True, "producer_id": 1, "producer_epoch": 0}
    return stored(2, **{**given, "records": (Record(2, 9, key, value),), **fields})


FIRST, SECOND, THIRD = map(stored, range(3))
MESSAGE = stored(1, magic=1)
CUT: dict[str, tuple[bytes, int, str]] = {
    "whole": (FIRST + SECOND + THIRD, 3, ""),
    "empty": (b"", 0, ""),
    "flipped": (FIRST + SECOND[:-1] + b"\xff" + THIRD, 1, "SEG-07"),
    "cut": (FIRST + SECOND[:-1], 1, "SEG-08"),
    "17 bytes": (FIRST + SECOND[:17], 1, "SEG-08"),
    "zeros": (FIRST + bytes(64), 1, "SEG-04"),
    "a size of 13": (FIRST + put(SECOND, "batch_length", 13) + THIRD, 1, "SEG-04"),
    "a size of 30": (FIRST + put(SECOND, "batch_length", 30) + THIRD, 1, "SEG-07"),
    "another offset": (FIRST + put(SECOND, "base_offset", 77), 78, ""),
    "another epoch": (FIRST + put(SECOND, "partition_leader_epoch", 5), 2, ""),
    "magic 3": (FIRST + put(SECOND, "magic", 3), 2, ""),
    "magic -1": (FIRST + put(SECOND, "magic", -1), 1, "SEG-07"),
    "an unknown codec": (FIRST + put(SECOND, "attributes", 7, right=True), 2, ""),
    "records that are none": (FIRST + put(SECOND, "record_count", 9, right=True), 2, ""),
    "backwards": (SECOND + FIRST, 1, ""),
    "v1 after v2": (FIRST + MESSAGE, 2, ""),
    "v1 flipped": (FIRST + MESSAGE[:-1] + b"\xff", 1, "SEG-07"),
    "a marker": (FIRST + control(b"\0\0\0\1"), 3, ""),
    "an empty marker": (FIRST + control(b"\0\0\0\1", records=()), 3, ""),
    "a control batch of no producer": (FIRST + control(b"", producer_id=-1, transactional=False), 3, ""),
}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", CUT)
def test_recovery(name: str, release: str) -> None:
    """The log ends before the first batch that is not right by its header and CRC; the rest does not matter."""
    segment, next_offset, rule = CUT[name]
    result = recover(segment, release=release)
    assert (result.next_offset, result.rule, result.error, result.splits) == (next_offset, rule, None, False)
    assert result.data == (segment if not rule else FIRST)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (control(b"\0\0"), "InvalidRecordException"),
        (control(b"\0\0\0\1", b"\0"), "InvalidRecordException"),
        (put(control(b"\0\0\0\1"), "record_count", 2, right=True), "InvalidRecordException"),
        (control(None), "NullPointerException"),
        (control(b"\0\0\0\1", None), "NullPointerException"),
        (control(b"\0\0\0\2", bytes(10)), "IllegalArgumentException"),
        (control(b"\0\0\0\x63"), "IllegalArgumentException"),
    ],
)
def test_markers_that_stop_the_broker(data: bytes, error: str) -> None:
    """A marker that cannot be read counts as valid, ends the log if that is noticed, and stops the broker."""
    segment = FIRST + data + THIRD
    result = recover(segment, release="4.4.0")
    left = FIRST + data if error == "InvalidRecordException" else segment
    assert (result.data, result.error, result.rule) == (left, error, "SEG-13")


@pytest.mark.parametrize(("offset", "splits"), [(5, False), (2**31 + 9, False), (2**31 + 10, True)])
def test_an_end_out_of_range(offset: int, splits: bool) -> None:
    """A segment whose end is too far from its base offset is split; one that ends before it stops the broker."""
    segment = stored(10) + stored(offset)
    result = recover(segment, release="4.4.0", base_offset=10)
    if offset == 2**31 + 9:
        assert result.rule == ""
    else:
        error = None if splits else "IllegalArgumentException"
        assert (result.data, result.splits, result.rule, result.error) == (segment, splits, "SEG-12", error)


def test_an_offset_out_of_range() -> None:
    """A batch in the middle whose offset is out of range, which no CRC covers, stops the broker."""
    result = recover(stored(0) + stored(2**40) + stored(2), release="4.4.0")
    assert (result.splits, result.rule, result.error) == (False, "SEG-12", "IllegalArgumentException")


def test_an_empty_segment_goes_on_where_it_begins() -> None:
    """The next offset of a segment without batches is its own."""
    assert recover(b"", release="4.4.0", base_offset=42).next_offset == 42


def test_releases_that_are_not_known() -> None:
    """A release that is not in the table is refused."""
    with pytest.raises(RecordFormatError, match="no release"):
        recover(b"", release="9.9.9")
