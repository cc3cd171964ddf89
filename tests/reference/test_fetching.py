"""Which bytes a fetch gives, and which transactions are named beside them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.reference.conversion_cases import LOGS, marker, message, v2, written
from tests.reference.fetching_cases import TRANSACTIONS

from kafka_records import (
    AbortedTransaction,
    AbortIndex,
    FetchResult,
    IndexEntry,
    Record,
    RecordFormatError,
    TopicConfig,
    abort_index,
    fetch_view,
    last_stable_offset,
    offset_index,
)

A, B, C = (v2(at) for at in (0, 3, 6))
LOG = A + B + C


def view(
    log: bytes = LOG, offset: int = 0, end: int = 9, version: int = 11, release: str = "2.8.2", **more: Any
) -> FetchResult:
    """A fetch."""
    return fetch_view(log, fetch_offset=offset, high_watermark=end, api_version=version, release=release, **more)


@pytest.mark.parametrize(("offset", "first"), [(0, 0), (2, 0), (3, 1), (5, 1), (8, 2)])
def test_a_fetch_begins_with_the_batch_that_holds_the_offset(offset: int, first: int) -> None:
    """Whole, though it may begin before (OFF-12)."""
    assert view(offset=offset).records == b"".join((A, B, C)[first:])


def test_gaps_are_skipped() -> None:
    """An offset that no batch holds is answered with what comes next (OFF-13)."""
    assert view(A + C, 4).records == C


def test_offsets_out_of_range() -> None:
    """Below the start and beyond the end is an error, the end itself an empty answer."""
    for result in (view(offset=10), view(offset=-1), view(offset=2, log_start_offset=3)):
        assert (result.error_code, result.records, result.high_watermark, result.last_stable_offset) == (1, b"", -1, -1)
    at_end = view(offset=9)
    assert (at_end.error_code, at_end.records, at_end.high_watermark) == (0, b"", 9)


def test_the_high_watermark_ends_a_fetch() -> None:
    """Records that are not replicated are not sent, though their offsets are in range."""
    assert view(end=6, log_end_offset=9).records == A + B
    assert view(offset=7, end=6, log_end_offset=9) == view(b"", offset=7, end=6, log_end_offset=9)


def test_a_limit_cuts_anywhere() -> None:
    """A partition's bytes end in the middle of a batch (FRM-07)."""
    assert view(partition_max_bytes=len(A) + 7).records == (A + B)[: len(A) + 7]
    assert view(max_bytes=len(A) + 7).records == (A + B)[: len(A) + 7]


def test_the_first_batch_comes_whole() -> None:
    """From version 3 on, whatever the limits (KIP-74); before, it is cut off, too."""
    for version in (4, 11):
        assert view(partition_max_bytes=1, version=version).records == A
        assert view(max_bytes=0, version=version).records == A
    old = TopicConfig(message_format=1)
    log = message(1, 0)
    assert view(log, end=1, version=2, partition_max_bytes=20, config=old).records == log[:20]
    assert view(log, end=1, version=2, max_bytes=20, config=old).records == log


def test_only_one_first_batch_comes_whole() -> None:
    """Where another partition had data before, a batch that does not fit is left out."""
    assert view(partition_max_bytes=10, is_first=False).records == b""
    assert view(partition_max_bytes=len(A) + 1, is_first=False).records == (A + B)[: len(A) + 1]


def test_a_negative_limit_is_an_error() -> None:
    """LogSegment#read throws IllegalArgumentException."""
    assert view(partition_max_bytes=-1).error_code == -1


def test_isolation_levels() -> None:
    """read_committed ends at the last stable offset, and lists aborted transactions; other fetches do not (TXN-23)."""
    log = written(7, 0) + marker(3, commit=False) + written(8, 4) + v2(7)
    fields: dict[str, Any] = {"last_stable_offset": last_stable_offset(log, 10), "aborted": abort_index(log)}

    committed = view(log, end=10, isolation_level=1, **fields)
    assert committed.records == written(7, 0) + marker(3, commit=False)
    assert (committed.aborted, committed.last_stable_offset) == (((7, 0),), 4)
    uncommitted = view(log, end=10, **fields)
    assert (uncommitted.records, uncommitted.aborted, uncommitted.last_stable_offset) == (log, None, 4)
    beyond = view(log, 5, end=10, isolation_level=1, **fields)
    assert (beyond.records, beyond.aborted) == (b"", ())


def test_the_last_stable_offset_by_version_and_release() -> None:
    """From version 4 on; by old brokers only with read_committed."""
    assert view(version=3).last_stable_offset == -1
    assert view(version=4).last_stable_offset == 9
    assert view(version=4, release="2.0.1").last_stable_offset == -1
    assert view(version=4, release="2.0.1", isolation_level=1).last_stable_offset == 9


def test_nothing_after_the_offset() -> None:
    """Where everything up to the end has been compacted away, the answer is empty and names no transactions."""
    result = view(A, 5, end=9, isolation_level=1)

    assert (result.error_code, result.records, result.aborted) == (0, b"", None)


def test_how_far_aborted_transactions_are_listed() -> None:
    """Up to the next entry of the offset index after the bytes read, so perhaps beyond them."""
    log = TRANSACTIONS["mostly aborted"]
    aborted = abort_index(log)
    fields: dict[str, Any] = {"isolation_level": 1, "aborted": aborted, "partition_max_bytes": 1}

    few = view(log, end=240, **fields).aborted
    assert few is not None
    assert 1 < len(few) < 10
    assert view(log, end=240, index=(), **fields).aborted == aborted.overlapping(0, 240)
    assert len(aborted.overlapping(0, 240)) == 60


def test_old_fetches_are_converted() -> None:
    """Fetch 0 and 1 get v0, 2 and 3 v1, later ones what is stored (CNV-07)."""
    magics = [view(version=version).records[16] for version in (0, 1, 2, 3, 4)]

    assert magics == [0, 0, 1, 1, 2]
    assert view(LOGS["zstd"], end=3, version=3).error_code == 76
    assert view(LOGS["codec 5"], end=6, version=3).error_code == -1
    assert view(LOGS["a negative count"], end=6, version=3).error_code == 87
    assert view(LOGS["too many counted last"], end=9, version=3).closed


def test_topics_that_refuse_old_fetches() -> None:
    """One of compression.type=zstd until 4.0 (CNV-15), and one without down-conversion (CNV-16)."""
    zstd = TopicConfig(compression="zstd")

    assert view(version=9, config=zstd).error_code == 76
    assert view(version=10, config=zstd).error_code == 0
    assert view(version=9, config=zstd, release="4.0.2").error_code == 0
    assert view(version=3, down_conversion=False).error_code == 35
    assert view(version=4, down_conversion=False).error_code == 0


def test_versions_that_a_release_does_not_have() -> None:
    """The connection is closed (PRD-09)."""
    assert view(version=3, release="4.4.0").closed
    assert view(version=13, release="2.8.2").closed
    assert not view(version=4, release="4.4.0").closed


def test_an_unknown_release() -> None:
    """Is an error of the caller's."""
    with pytest.raises(RecordFormatError, match="no release"):
        view(release="9.9")


def test_a_size_that_cannot_be() -> None:
    """The broker answers CORRUPT_MESSAGE where it comes across it (SEG-04)."""
    assert view(A + bytes(30), 5).error_code == 2


def test_magic_is_no_matter() -> None:
    """Messages, wrappers and magics that do not exist are found by their offsets all the same (SEG-05, SEG-06)."""
    log = message(1, 0) + message(1, 1, 3, compression="gzip") + LOGS["magic 3"]

    assert view(log, 2, end=6).records == log[len(message(1, 0)) :]


def test_the_offset_index() -> None:
    """Every 4096 bytes or more an append is entered, by its last offset (SEG-16)."""
    appends = [v2(at, size=1000) for at in range(0, 30, 3)]
    found = offset_index(appends)

    sizes = [len(each) for each in appends]
    assert found[0] == IndexEntry(8, sizes[0] + sizes[1])
    assert all(later.position - earlier.position > 4096 for earlier, later in pairwise(found))
    log = b"".join(appends)
    for offset in range(30):
        assert view(log, offset, end=30, index=found).records == view(log, offset, end=30, index=()).records


def test_the_index_of_aborted_transactions() -> None:
    """In the order of the markers, each with the first offset that was still open then."""
    assert abort_index(TRANSACTIONS["interleaved"]).entries == (
        AbortedTransaction(7, 0, 9, 3),
        AbortedTransaction(8, 3, 13, 10),
        AbortedTransaction(9, 14, 21, 18),
        AbortedTransaction(8, 18, 22, 23),
    )
    assert abort_index(TRANSACTIONS["a marker without data"]) == AbortIndex()
    assert abort_index(TRANSACTIONS["committed"]) == AbortIndex()
    assert abort_index(TRANSACTIONS["aborted and compacted"]) == AbortIndex()


def test_the_last_stable_offset() -> None:
    """The first offset of the first open transaction, or the high watermark."""
    assert last_stable_offset(TRANSACTIONS["open"], 9) == 3
    assert last_stable_offset(TRANSACTIONS["open, then aborted, then open"], 10) == 4
    assert last_stable_offset(TRANSACTIONS["aborted"], 4) == 4
    assert last_stable_offset(TRANSACTIONS["open"], 2) == 2
    assert last_stable_offset(TRANSACTIONS["not in transactions"], 6) == 6


def test_overlaps() -> None:
    """A transaction that ends below the offset, or begins after the bound, is not listed."""
    index = abort_index(TRANSACTIONS["interleaved"])

    assert index.overlapping(10, 14) == ((8, 3),)
    assert index.overlapping(0, 3) == ((7, 0),)
    assert index.overlapping(0, 99) == ((7, 0), (8, 3), (9, 14), (8, 18))


def test_logs_that_have_no_index() -> None:
    """A size that cannot be (SEG-04), a marker that ends nothing (TXN-20)."""
    with pytest.raises(RecordFormatError) as caught:
        abort_index(A + bytes(30))
    assert caught.value.rule == "SEG-04"
    with pytest.raises(RecordFormatError) as caught:
        abort_index(written(7, 0) + marker(3, records=(Record(3, 0, b"\0\0\0\2", b""),)))
    assert caught.value.rule == "TXN-20"
