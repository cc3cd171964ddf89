"""Logs: entries of any magic, end to end."""

from collections.abc import Callable

import pytest

from kafka_corpus.authoring.build import put, raw_batch, raw_message, raw_record
from kafka_records import Batch, RecordFormatError, decode, encode

ThreeWays = Callable[[bytes], tuple[Batch, ...]]

V2 = raw_batch(raw_record())
V1 = raw_message(1)
V0 = raw_message(0)


def failure(data: bytes) -> RecordFormatError:
    """The error that `decode` raises."""
    with pytest.raises(RecordFormatError) as caught:
        decode(data)
    return caught.value


def facts(error: RecordFormatError) -> tuple[str, str, str, int]:
    """Kind, rule, path and offset."""
    return error.kind, error.rule, error.path, error.offset


def test_an_empty_log() -> None:
    """No bytes are no batches (FRM-04)."""
    assert decode(b"") == ()


def test_a_log_may_mix_magics(three_ways: ThreeWays) -> None:
    """Each entry is read by its own magic, without a count in front (FRM-02, FRM-03, FRM-11)."""
    batches = three_ways(V0 + V2 + V1 + V2 + V0)
    assert [batch.magic for batch in batches] == [0, 2, 1, 2, 0]


@pytest.mark.parametrize("entry", [V0, V1, V2], ids=["v0", "v1", "v2"])
def test_a_partial_entry_at_the_end_is_dropped(entry: bytes, three_ways: ThreeWays) -> None:
    """An entry that a fetch cut off is no error (FRM-06, FRM-07)."""
    whole = three_ways(entry)
    for cut in range(len(entry)):
        assert decode(entry + entry[:cut]) == whole


@pytest.mark.parametrize("size", [13, 0, -1, -(2**31)])
def test_a_size_below_every_format(size: int) -> None:
    """A size below 14 is refused as soon as 12 bytes are there (FRM-05, FRM-13)."""
    start = bytes(8) + size.to_bytes(4, "big", signed=True)
    for rest in (b"", b"\xff" * 100):
        assert facts(failure(start + rest)) == ("malformed", "FRM-05", "batch.size", 8)
    assert decode(start[:11]) == ()


@pytest.mark.parametrize("magic", [3, 127, -1, -128])
def test_a_magic_that_is_none(magic: int) -> None:
    """Magics but 0 to 2 are refused as soon as 17 bytes are there (FRM-08)."""
    data = put(V2, "magic", magic)
    for end in (17, len(data)):
        error = failure(data[:end])
        assert facts(error) == ("unsupported_magic", "FRM-08", "batch.magic", 16)
        assert error.message == f"magic is {magic}"
    assert decode(data[:16]) == ()


@pytest.mark.parametrize("size", [2**31 - 12, 2**31 - 1])
def test_a_size_that_overflows(size: int) -> None:
    """A size that makes Java's sum negative is refused, not waited for (FRM-09)."""
    data = put(V2, "batch_length", size)
    assert facts(failure(data)) == ("malformed", "FRM-09", "batch.size", 8)


def test_the_largest_size_is_waited_for() -> None:
    """A size of 2^31 - 13 is a partial entry like any other (FRM-07, FRM-09)."""
    assert decode(put(V2, "batch_length", 2**31 - 13)) == ()


def test_an_error_knows_what_came_before() -> None:
    """The batches before the broken entry come with the error, and its offset counts from the first byte."""
    error = failure(V0 + V2 + put(V1, "magic", 9) + V2)
    assert error.batches == decode(V0 + V2)
    assert error.offset == len(V0 + V2) + 16

    error = failure(V0 + V2 + V1[:-1] + b"?" + V2)
    assert error.batches == decode(V0 + V2)
    assert facts(error) == ("corrupt", "LEG-04", "batch.crc", len(V0 + V2) + 12)


def test_a_framing_error_after_a_whole_entry() -> None:
    """An entry is read before the next one's frame is looked at."""
    error = failure(V1 + bytes(12))
    assert (error.batches, error.offset) == (decode(V1), len(V1) + 8)
    error = failure(V1[:-1] + b"?" + bytes(12))
    assert (error.batches, error.offset) == ((), 12)


def test_a_batch_has_to_have_a_magic() -> None:
    """There is no writer for other magics (FRM-08)."""
    for magic in (-1, 3, 2**70):
        with pytest.raises(RecordFormatError, match=f"magic is {magic}") as caught:
            encode(Batch(magic=magic, base_offset=0, last_offset=0))
        assert facts(caught.value) == ("unsupported_magic", "FRM-08", "batch.magic", -1)
