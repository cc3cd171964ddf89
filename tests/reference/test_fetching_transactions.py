"""The marker that ends a transaction, byte for byte, and what the leader knows afterwards."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from tests.reference.conversion_cases import WHEN, v2

from kafka_corpus.authoring.build import put, reseal
from kafka_records import (
    AppendResult,
    BatchMetadata,
    LogState,
    ProducerState,
    Producing,
    RecordFormatError,
    TopicConfig,
    append,
    decode,
    decode_control,
    end_transaction,
)
from kafka_records.broker.state import Verification
from kafka_records.transactions import append_marker

WRITTEN = ProducerState(epoch=3, batches=(BatchMetadata(4, 99, 4, WHEN),), transaction_first_offset=95)
LOG = LogState(log_end_offset=100, leader_epoch=6, producers=MappingProxyType({7: WRITTEN}))


def end(
    log: LogState = LOG, epoch: int = 3, *, commit: bool = True, release: str = "2.8.2", **more: object
) -> AppendResult:
    """The end of producer 7's transaction."""
    given = {"coordinator_epoch": 9} | more
    return end_transaction(log, 7, epoch, commit=commit, now_ms=WHEN, release=release, **given)  # type: ignore[arg-type]  # fields of any type


def mark(log: LogState, epoch: int, release: str = "4.4.0") -> AppendResult:
    """A marker of transaction.version 2 with that *epoch*."""
    return append_marker(
        log, 7, epoch, commit=True, coordinator_epoch=9, now_ms=WHEN, release=release, transaction_version=2
    )


@pytest.mark.parametrize("commit", [False, True])
def test_the_marker(commit: bool) -> None:
    """78 bytes, whose record says the type and the coordinator's epoch (TXN-14)."""
    result = end(commit=commit)

    assert (result.error_code, result.base_offset, result.log_append_time, len(result.stored)) == (0, 100, -1, 78)
    assert result.stored[61:].hex() == f"20000000080000000{commit:d}0c00000000000900"
    (batch,) = decode(result.stored)
    assert (batch.base_offset, batch.partition_leader_epoch, batch.producer_id, batch.producer_epoch) == (100, 6, 7, 3)
    assert (batch.transactional, batch.control, batch.base_sequence, batch.compression) == (True, True, -1, "none")
    assert (batch.max_timestamp, batch.base_timestamp) == (WHEN, WHEN)
    assert decode_control(batch.records[0]).type == ("commit" if commit else "abort")


def test_the_producer_afterwards() -> None:
    """Nothing is open, the batches are remembered, the marker took an offset (OFF-15)."""
    log = end().log

    assert log.log_end_offset == 101
    assert log.producers[7] == replace(WRITTEN, transaction_first_offset=None, coordinator_epoch=9)


def test_a_marker_removes_the_pending_verification() -> None:
    """With the marker goes the lowest sequence that came while nothing was open; other producers' stay."""
    pending = Verification(epoch=3, lowest_sequence=0, bumps_epoch=False)
    log = end(LOG.with_verification(7, pending).with_verification(8, pending)).log

    assert log.verifying == {8: pending}


def test_since_4_0_the_epoch_rises() -> None:
    """KIP-890: the marker has the next epoch, which forgets the batches of the old one."""
    result = end(release="4.4.0")

    assert decode(result.stored)[0].producer_epoch == 4
    assert result.log.producers[7] == ProducerState(epoch=4, coordinator_epoch=9)
    older = end(release="4.4.0", transaction_version=0)
    assert decode(older.stored)[0].producer_epoch == 3


def test_log_append_time() -> None:
    """Bit 3 and the broker's time (TXN-15)."""
    result = end(config=TopicConfig(timestamp_type="LogAppendTime"))

    assert result.stored[21:23] == b"\0\x38"
    assert result.log_append_time == WHEN


def test_a_codec_is_no_matter() -> None:
    """Markers stay uncompressed (RWR-13)."""
    assert end(config=TopicConfig(compression="zstd")).stored == end().stored


def test_a_producer_that_is_not_known() -> None:
    """Becomes known by the marker."""
    log = end(LogState(), epoch=0).log

    assert log.producers[7] == ProducerState(epoch=0, coordinator_epoch=9)


def test_fenced_markers() -> None:
    """An older epoch of the producer (PID-14), or of the coordinator (TXN-21)."""
    refused = end(epoch=2)
    assert (refused.error_code, refused.rule, refused.log) == (47, "PID-14", LOG)
    later = end().log
    refused = end(later, coordinator_epoch=8)
    assert (refused.error_code, refused.rule, refused.stored) == (52, "TXN-21", b"")
    assert end(later, coordinator_epoch=9).error_code == 0


def test_markers_of_the_same_epoch_in_version_2() -> None:
    """Since 4.3 a marker of the open transaction's own epoch is refused; one that comes again is written again."""
    refused = mark(LOG, 3)
    assert (refused.error_code, refused.rule) == (47, "PID-14")
    later = mark(LOG, 4)
    again = mark(later.log, 4)
    assert (later.error_code, again.error_code, again.base_offset) == (0, 0, later.base_offset + 1)
    assert mark(LOG, 3, release="4.1.2").error_code == 0


def test_topics_that_take_no_marker() -> None:
    """Of an older message format (TXN-07), or for smaller batches (SIZ-01)."""
    assert end(config=TopicConfig(message_format=1)).error_code == 43
    assert end(config=TopicConfig(max_message_bytes=77)).error_code == 10
    assert end(config=TopicConfig(max_message_bytes=78)).error_code == 0


def test_the_next_transaction() -> None:
    """Data that follow the marker open one, at the next sequence, or at 0 where the epoch has risen."""
    for release, epoch, sequence in (("2.8.2", 3, 5), ("4.4.0", 4, 0)):
        log = replace(end(release=release).log, producing=Producing(transactional_id=True))
        data = v2(0, transactional=True, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
        result = append(log, data, TopicConfig(), release=release, api_version=9, now_ms=WHEN)
        assert (result.error_code, result.base_offset) == (0, 101)
        assert result.log.producers[7].transaction_first_offset == 101


def test_an_unknown_release() -> None:
    """Is an error of the caller's."""
    with pytest.raises(RecordFormatError, match="no release"):
        end(release="9.9")


@pytest.mark.parametrize(("release", "error_code", "rule"), [("4.4.0", 47, "PID-14"), ("4.0.2", 87, "HDR-12")])
def test_an_older_epoch_is_fenced_before_its_records_are_looked_at(release: str, error_code: int, rule: str) -> None:
    """Newer releases refuse a transactional batch of an older epoch at once; seen with a count that is wrong."""
    wrong = put(v2(0, producer_id=7, producer_epoch=2, base_sequence=0, transactional=True), "record_count", 9)
    log = replace(LOG, producing=Producing(transactional_id=True, in_transaction=True)).with_producer(
        7, replace(WRITTEN, transaction_first_offset=None)
    )
    result = append(log, reseal(wrong), TopicConfig(), release=release, api_version=10, now_ms=WHEN)

    assert (result.error_code, result.rule, result.whole_request) == (error_code, rule, False)
    right = put(wrong, "producer_epoch", 3)
    assert append(log, reseal(right), TopicConfig(), release=release, api_version=10, now_ms=WHEN).error_code == 87
