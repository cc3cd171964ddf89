"""Producers and transactions in a round of cleaning: last batches, markers, and aborted data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_records import (
    AbortedTransaction,
    Batch,
    BatchMetadata,
    CleanerConfig,
    CompactResult,
    ControlRecord,
    ProducerState,
    Record,
    Round,
    compact,
    decode,
    encode,
    encode_control,
)

NOW = 1_000_000_000
RETENTION = 1_000
PRODUCER = {"producer_id": 7, "producer_epoch": 3}


def data(offset: int, *keys: bytes, sequence: int = 0, **fields: object) -> Batch:
    """A batch of producer 7 with a record for each key."""
    records = tuple(Record(offset + index, 100, key, b"v") for index, key in enumerate(keys))
    given = {**PRODUCER, "base_sequence": sequence, "max_timestamp": 100, "records": records}
    return Batch(magic=2, base_offset=offset, last_offset=records[-1].offset, **{**given, **fields})  # type: ignore[arg-type]


def plain(offset: int, key: bytes) -> Batch:
    """A record without a producer."""
    return data(offset, key, sequence=-1, producer_id=-1, producer_epoch=-1)


def transactional(offset: int, *keys: bytes, sequence: int = 0) -> Batch:
    """The same in a transaction."""
    return data(offset, *keys, sequence=sequence, transactional=True)


def marker(offset: int, type_: str, epoch: int = 3, **fields: object) -> Batch:
    """A marker of producer 7."""
    control = encode_control(ControlRecord(type_, {"version": 0, "coordinator_epoch": 0}), offset=offset, timestamp=200)
    given = {**PRODUCER, "producer_epoch": epoch, "transactional": True, "control": True, "max_timestamp": 200}
    records = (control,)
    return Batch(magic=2, base_offset=offset, last_offset=offset, records=records, **{**given, **fields})  # type: ignore[arg-type]


def log(*batches: Batch) -> bytes:
    """A log of them."""
    return b"".join(map(encode, batches))


FIRST = Round()


def cleaned(stored: bytes, given: Round = FIRST, *, release: str = "4.4.0", now: int = NOW) -> CompactResult:
    """One round."""
    return compact(stored, CleanerConfig(delete_retention_ms=RETENTION), given, release=release, now_ms=now)


def outcomes(result: CompactResult) -> list[str]:
    """The outcome of each batch."""
    return [fate.outcome for fate in result.fates]


NO_PRODUCERS = Round(producers={})
COMMITTED = log(transactional(0, b"a", b"b"), marker(2, "commit"), plain(3, b"c"))


@pytest.mark.parametrize("release", ["0.11.0.3", "2.8.2", "3.9.2", "4.4.0"])
def test_the_last_batch_of_a_producer_stays(release: str) -> None:
    """Its last batch stays, empty if need be, with its sequence, epoch and offsets; earlier ones go."""
    stored = log(data(0, b"a"), data(1, b"a", b"b", sequence=1, compression="gzip"), plain(3, b"a"), plain(4, b"b"))
    result = cleaned(stored, release=release)
    assert outcomes(result) == ["dropped", "emptied", "copied", "copied"]
    empty = decode(result.data)[0]
    assert (empty.base_offset, empty.last_offset, empty.base_sequence, empty.compression) == (1, 2, 1, "none")
    assert "CLN-14" in result.rules
    assert cleaned(result.data, release=release).data == result.data


def test_producers_that_are_forgotten() -> None:
    """The last batch of a producer that has expired goes like any other."""
    stored = log(data(0, b"a"), plain(1, b"a"))
    assert outcomes(cleaned(stored, NO_PRODUCERS)) == ["dropped", "copied"]


def test_sequences_that_come_again() -> None:
    """KAFKA-8335: before 2.2 every batch with the last sequence stayed."""
    stored = log(data(0, b"a"), data(1, b"b", producer_epoch=4), plain(2, b"a"), plain(3, b"b"))
    assert outcomes(cleaned(stored, release="2.1.1"))[:2] == ["emptied", "emptied"]
    assert outcomes(cleaned(stored, release="2.2.2"))[:2] == ["dropped", "emptied"]


def test_a_state_that_is_given() -> None:
    """The given state of producers counts, not that of the bytes."""
    state = ProducerState(epoch=3, batches=(BatchMetadata(0, 0, 0, 100),))
    stored = log(data(0, b"a"), data(1, b"a", sequence=1), plain(2, b"a"))
    assert outcomes(cleaned(stored, Round(producers={7: state}))) == ["emptied", "dropped", "copied"]


def test_markers_stay_with_their_data() -> None:
    """As long as a batch of the transaction is there, its marker is copied."""
    assert cleaned(COMMITTED).data == COMMITTED


def test_markers_without_data() -> None:
    """Without data a marker gets a horizon, and goes when that has come."""
    stored = log(marker(2, "commit"), plain(3, b"c"))
    first = cleaned(stored, NO_PRODUCERS)
    left = decode(first.data)[0]
    assert (left.delete_horizon, left.transactional, left.control) == (NOW + RETENTION, True, True)
    assert first.fates[0].rules == ("CLN-11",)
    assert cleaned(first.data, NO_PRODUCERS, now=NOW + RETENTION - 1).data == first.data
    assert outcomes(cleaned(first.data, NO_PRODUCERS, now=NOW + RETENTION)) == ["dropped", "copied"]


def test_markers_before_horizons() -> None:
    """Before 3.1 a marker without data goes when the segment is old enough."""
    stored = log(marker(2, "commit"), plain(3, b"c"))
    assert cleaned(stored, NO_PRODUCERS, release="2.8.2").data == stored
    later = Round(producers={}, first_dirty_offset=3)
    assert compact(stored, CleanerConfig(delete_retention_ms=0), later, release="2.8.2", now_ms=NOW).data == log(
        plain(3, b"c")
    )


def test_aborted_data_goes() -> None:
    """Whatever its keys; it hides no other record, and its marker stays for this round."""
    stored = log(plain(0, b"a"), transactional(1, b"a", b"b"), marker(3, "abort"), plain(4, b"c"))
    result = cleaned(stored, NO_PRODUCERS)
    assert outcomes(result) == ["copied", "dropped", "copied", "copied"]
    assert "CLN-12" in result.rules
    again = cleaned(result.data, NO_PRODUCERS)
    assert decode(again.data)[1].delete_horizon == NOW + RETENTION


def test_aborted_data_of_the_last_batch() -> None:
    """The last batch of a producer stays without its records, and so does the marker."""
    stored = log(transactional(0, b"a"), transactional(1, b"b", sequence=1), marker(2, "abort"), plain(3, b"c"))
    result = cleaned(stored)
    assert outcomes(result) == ["dropped", "emptied", "copied", "copied"]
    assert cleaned(result.data).data == result.data


def test_an_index_that_is_given() -> None:
    """The index decides what was aborted; a marker may be in the part that is not cleaned yet."""
    stored = log(transactional(0, b"a"), marker(1, "commit"), plain(2, b"b"))
    index = (AbortedTransaction(7, 0, 9, 10),)
    assert outcomes(cleaned(stored, Round(producers={}, aborted=index)))[0] == "dropped"
    later = log(transactional(0, b"a"), plain(1, b"b"), marker(2, "abort"))
    result = cleaned(later, Round(producers={}, first_uncleanable_offset=2))
    assert outcomes(result) == ["dropped", "copied", "not cleaned"]


def test_markers_of_the_next_epoch() -> None:
    """KIP-890: a marker of a new epoch is the last of its producer; it stays, and in the end without its record."""
    stored = log(transactional(0, b"a"), marker(1, "commit", epoch=4), plain(2, b"a"))
    first = cleaned(stored)
    assert outcomes(first) == ["dropped", "copied", "copied"]
    second = cleaned(first.data)
    assert decode(second.data)[0].delete_horizon == NOW + RETENTION
    third = cleaned(second.data, now=NOW + RETENTION)
    assert decode(third.data)[0].records == ()
    assert third.fates[0].rules == ("CLN-11", "CLN-14", "CLN-15")
    assert cleaned(third.data).data == third.data
    assert outcomes(cleaned(third.data, NO_PRODUCERS))[0] == "dropped"


def test_keys_of_markers() -> None:
    """KAFKA-14055: before 3.0 a record with the key of a marker took the marker away."""
    stored = log(transactional(0, b"a"), marker(1, "commit"), plain(2, b"\0\0\0\1"))
    assert outcomes(cleaned(stored, release="2.8.2"))[1] == "dropped"
    assert outcomes(cleaned(stored, release="3.0.2"))[1] == "copied"


def test_other_control_records() -> None:
    """A control record that is no marker stays."""
    record = Record(0, 100, b"\0\0\0\x63", b"")
    stored = log(replace(marker(0, "commit"), producer_id=-1, transactional=False, records=(record,)), plain(1, b"a"))
    assert cleaned(stored).data == stored


@pytest.mark.parametrize(
    ("key", "error", "rule"),
    [(b"\0\0", "InvalidRecordException", "TXN-09"), (None, "NullPointerException", "TXN-19")],
)
def test_markers_that_cannot_be_read(key: bytes | None, error: str, rule: str) -> None:
    """A control record without a proper key makes the log uncleanable."""
    broken = replace(marker(0, "commit"), records=(Record(0, 100, key, b""),))
    result = cleaned(log(broken, plain(1, b"a")), Round(aborted=()))
    assert (result.error, result.rule) == (error, rule)


def test_an_unreadable_marker_without_an_index() -> None:
    """Without an index, a marker that cannot be read makes the log uncleanable as well."""
    broken = replace(marker(0, "commit"), records=(Record(0, 100, b"\0\0", b""),))
    assert cleaned(log(broken)).error == "InvalidRecordException"
