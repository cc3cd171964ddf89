"""Reading of fetched bytes by a consumer."""

from __future__ import annotations

import pytest
from tests.reference.conversion_cases import compacted, empty, marker, message, repeated, v2, written
from tests.reference.fetching_cases import TRANSACTIONS

from kafka_corpus.authoring.build import flip, put
from kafka_records import RecordFormatError, abort_index, committed, consume

INTERLEAVED = TRANSACTIONS["interleaved"]


def seen(data: bytes, offset: int = 0, aborted: tuple[tuple[int, int], ...] | None = None) -> list[int]:
    """The offsets of the records that an application sees."""
    return [record.offset for record in consume(data, fetch_offset=offset, aborted=aborted).records]


def test_records_below_the_offset_are_dropped() -> None:
    """A fetch gives whole batches (CON-04, OFF-12)."""
    for codec in ("none", "gzip"):
        assert seen(v2(0, compression=codec) + v2(3), 2) == [2, 3, 4, 5]
    assert seen(message(1, 0) + message(1, 1, 3, compression="gzip"), 2) == [2, 3]


def test_control_records_are_not_seen() -> None:
    """At either isolation level (TXN-22, TXN-24)."""
    log = written(7, 0) + marker(3) + v2(4)

    assert seen(log) == seen(log, aborted=()) == [0, 1, 2, 4, 5, 6]


def test_aborted_transactions_are_left_out() -> None:
    """Batches of a producer from the first offset on to its marker, and no others (TXN-23)."""
    aborted = abort_index(INTERLEAVED).overlapping(0, 23)

    assert [record.offset for record in committed(INTERLEAVED, aborted)] == [6, 7, 8, 10, 11, 12]
    assert [record.offset for record in committed(INTERLEAVED, reversed(aborted), fetch_offset=8)] == [8, 10, 11, 12]
    assert seen(INTERLEAVED)[:6] == [0, 1, 2, 3, 4, 5]
    assert len(seen(INTERLEAVED)) == 18


def test_what_is_not_transactional_is_seen() -> None:
    """Also of a producer whose transaction has been aborted."""
    log = v2(0, producer_id=7, producer_epoch=0, base_sequence=0) + written(7, 3)

    assert [record.offset for record in committed(log, [(7, 0)])] == [0, 1, 2]


def test_a_commit_marker_ends_nothing() -> None:
    """Only ABORT takes a producer from the list of those that are left out; an empty control batch does not."""
    for between in (marker(3, commit=True), marker(3, commit=False, records=())):
        log = written(7, 0) + between + written(7, 4)
        assert committed(log, [(7, 0)]) == ()
    log = written(7, 0) + marker(3, commit=False) + written(7, 4)
    assert len(committed(log, [(7, 0)])) == 3


def test_where_the_consumer_goes_on() -> None:
    """After the last batch, empty or not (CON-02, OFF-11)."""
    assert consume(v2(0) + compacted(3, 0, last=5)).next_offset == 9
    assert consume(v2(0) + empty(3)).next_offset == 6
    assert consume(message(1, 0) + message(1, 1, 3, compression="gzip")).next_offset == 4
    assert consume(v2(0) + v2(3)[:-1]).next_offset == 3
    assert consume(b"", fetch_offset=5).next_offset == 5
    assert consume(written(7, 0), aborted=[(7, 0)]).next_offset == 3


def test_offsets_that_do_not_rise() -> None:
    """Are below the position that the record before has set."""
    assert len(consume(repeated(0)).records) == 2


def test_a_batch_that_cannot_be_read() -> None:
    """Ends what is consumed, with an error that says where and what came before (CON-05)."""
    good, bad = v2(0), flip(v2(3), 70)
    for aborted in (None, ()):
        with pytest.raises(RecordFormatError) as caught:
            consume(good + bad, aborted=aborted)
        assert (caught.value.kind, caught.value.path, caught.value.offset) == ("corrupt", "batch.crc", len(good) + 17)
        assert len(caught.value.batches) == 1


def test_batches_left_out_are_not_read() -> None:
    """Only their checksum counts; so it is with messages below the offset, whose checksum does not count either."""
    unreadable = put(written(7, 0), "record_count", 9)
    with pytest.raises(RecordFormatError, match="crc"):
        committed(unreadable, [(7, 0)])
    assert seen(flip(message(1, 0), 30) + message(1, 1), 1) == [1]
    with pytest.raises(RecordFormatError, match="crc"):
        seen(flip(message(1, 0), 30) + message(1, 1), 0)
