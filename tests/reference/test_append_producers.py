"""Producer state: epochs, sequences, duplicates and transactions, append after append."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.reference.append_cases import NOW, RECORD, records

from kafka_corpus.authoring.build import TIMESTAMP, raw_batch, raw_message
from kafka_records import AppendResult, BatchMetadata, LogState, Producing, TopicConfig, append
from kafka_records.broker.state import Verification
from kafka_records.compression import compress
from kafka_records.constants import INT32_MAX

TRANSACTIONAL, CONTROL = 16, 32
IN_TRANSACTION = LogState(producing=Producing(transactional_id=True))


def batch(sequence: int, *, epoch: int = 0, count: int = 1, attributes: int = 0, producer_id: int = 1) -> bytes:
    """An idempotent batch."""
    return raw_batch(
        records(count),
        record_count=count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=attributes,
    )


def produce(log: LogState, payload: bytes, release: str = "4.4.0", version: int = 9) -> AppendResult:
    """Append with the defaults."""
    return append(log, payload, TopicConfig(), release=release, api_version=version, now_ms=NOW)


def after(*payloads: bytes, log: LogState = LogState(), release: str = "4.4.0") -> LogState:  # noqa: B008 - it is frozen
    """The log once all of them have been taken."""
    for payload in payloads:
        result = produce(log, payload, release)
        assert result.error_code == 0, result
        log = result.log
    return log


def test_sequences_follow_one_another() -> None:
    """The next batch starts where the last ended, and wraps after the largest number (PID-06, PID-07, PID-10)."""
    log = after(batch(INT32_MAX - 1, count=3), batch(1), batch(2, count=5), batch(7))
    assert log.log_end_offset == 10
    assert [each.first_sequence for each in log.producers[1].batches] == [INT32_MAX - 1, 1, 2, 7]
    for sequence in (7, 9):
        assert produce(log, batch(sequence, count=2)).error_code == 45
    exact = after(batch(INT32_MAX), batch(0))
    assert exact.producers[1].last_sequence == 0


def test_duplicates_are_answered_as_the_first_time() -> None:
    """One of the last five batches again is taken with its old offset and time (PID-08, PID-09, TIM-23)."""
    log = after(*(batch(sequence) for sequence in range(6)))
    again = produce(log, batch(3))
    assert (again.error_code, again.base_offset, again.log_append_time, again.stored) == (0, 3, TIMESTAMP, b"")
    assert again.log == log
    assert produce(log, batch(0)).error_code == 45


def test_epochs_go_up_and_start_at_0() -> None:
    """A higher epoch starts over, a lower one is fenced (PID-13, PID-14)."""
    log = after(batch(5), batch(0, epoch=1))
    assert log.producers[1].batches == (BatchMetadata(0, 1, 0, TIMESTAMP),)
    assert (produce(log, batch(6)).error_code, produce(log, batch(3, epoch=2)).error_code) == (47, 45)
    assert produce(log, batch(3, epoch=2)).rule == "PID-13"


def test_unknown_producers_before_2_5() -> None:
    """An unknown producer had to start at 0 once (KIP-360)."""
    assert produce(LogState(), batch(5), "2.4.1", 7).error_code == 59
    assert produce(LogState(), batch(0), "2.4.1", 7).error_code == 0
    assert produce(LogState(), batch(5, epoch=-1), "2.4.1", 7).error_code == 45


def test_a_transaction_needs_its_id() -> None:
    """Without an id that the request may write under, all of it is refused (TXN-02, ATT-12)."""
    assert produce(LogState(), batch(0, attributes=TRANSACTIONAL)).error_code == 53
    nobodys = raw_batch(RECORD, attributes=TRANSACTIONAL)
    assert produce(IN_TRANSACTION, nobodys).error_code == 0


@pytest.mark.parametrize(
    ("producing", "version", "code"),
    [
        (Producing(transactional_id=True, in_transaction=False), 9, 48),
        (Producing(transactional_id=True, in_transaction=False), 11, 120),
        (Producing(transactional_id=True, in_transaction=False), 12, 0),
        (Producing(transactional_id=True, producer="unknown"), 12, 49),
        (Producing(transactional_id=True, producer="other epoch"), 9, 47),
        (Producing(transactional_id=True), 9, 0),
    ],
)
def test_the_coordinator_vouches_for_the_partition(producing: Producing, version: int, code: int) -> None:
    """The coordinator's state decides, from 3.6 on; produce 12 adds the partition (TXN-05)."""
    log = LogState(producing=producing)
    result = produce(log, batch(0, attributes=TRANSACTIONAL), version=version)
    assert (result.error_code, result.whole_request) == (code, False)
    assert produce(log, batch(0, attributes=TRANSACTIONAL), "2.8.2").error_code == 0


def test_old_requests_name_no_transactional_id() -> None:
    """Before version 3 the request has no field for one, so no transaction is verified (TXN-02)."""
    log = LogState(producing=Producing(transactional_id=True, producer="unknown"))
    transactional = batch(0, attributes=TRANSACTIONAL)
    after_another = raw_message(magic=1) + transactional
    codes = {
        version: [produce(log, payload, "3.9.2", version).error_code for payload in (transactional, after_another)]
        for version in (2, 3)
    }
    assert codes == {2: [53, 87], 3: [49, 87]}


def test_an_open_transaction() -> None:
    """It needs no new verification and takes nothing that is not part of it (TXN-06, TXN-08)."""
    log = after(batch(0, attributes=TRANSACTIONAL), log=IN_TRANSACTION)
    assert log.producers[1].transaction_first_offset == 0
    known = replace(log, producing=Producing(transactional_id=True, in_transaction=False))
    assert produce(known, batch(1, attributes=TRANSACTIONAL)).log.producers[1].transaction_first_offset == 0
    assert produce(log, batch(1)).error_code == 48
    assert produce(log, batch(1, attributes=TRANSACTIONAL | CONTROL)).error_code == 87


def test_a_transaction_begun_by_produce_12_starts_at_0() -> None:
    """Since 4.0, with the produce version that adds partitions (PID-06)."""
    first = batch(5, attributes=TRANSACTIONAL)
    assert [produce(IN_TRANSACTION, first, version=version).error_code for version in (9, 11, 12)] == [0, 0, 45]
    assert produce(IN_TRANSACTION, batch(0, attributes=TRANSACTIONAL), version=12).error_code == 0


def test_a_pending_verification_comes_first() -> None:
    """A batch whose partition was not verified keeps those of higher sequences out until it has come (KIP-890)."""
    outside = LogState(producing=Producing(transactional_id=True, in_transaction=False))
    refused = produce(outside, batch(2, attributes=TRANSACTIONAL))
    assert refused.error_code == 48
    assert refused.log.verifying[1] == Verification(epoch=0, lowest_sequence=2, bumps_epoch=False)
    inside = replace(refused.log, producing=Producing(transactional_id=True))
    assert produce(inside, batch(3, attributes=TRANSACTIONAL)).error_code == 45
    assert produce(inside, batch(3)).error_code == 45
    taken = produce(inside, batch(2, attributes=TRANSACTIONAL))
    assert (taken.error_code, dict(taken.log.verifying)) == (0, {})
    assert produce(taken.log, batch(3, attributes=TRANSACTIONAL)).error_code == 0


def test_the_lowest_sequence_of_the_newest_epoch() -> None:
    """A pending verification keeps the lowest sequence, and starts over with a higher epoch (KIP-890)."""
    pending = Verification(epoch=1, lowest_sequence=5, bumps_epoch=False)
    assert pending.seen(1, 6) == pending.seen(0, 3) == pending
    assert pending.seen(1, 4) == replace(pending, lowest_sequence=4)
    assert pending.seen(2, 9) == replace(pending, epoch=2, lowest_sequence=9)


def test_old_formats_take_no_transactions() -> None:
    """A topic of an older message format refuses them: by name if they are compressed, else not (TXN-07)."""
    config = TopicConfig.of({"message.format.version": "0.10.0"})
    codes = []
    for attributes, body in ((TRANSACTIONAL, RECORD), (TRANSACTIONAL | 1, compress("gzip", RECORD, magic=2))):
        payload = raw_batch(body, attributes=attributes, producer_id=1, producer_epoch=0, base_sequence=0)
        result = append(IN_TRANSACTION, payload, config, release="2.8.2", api_version=7, now_ms=NOW)
        assert result.rule == "TXN-07"
        codes.append(result.error_code)
    assert codes == [-1, 43]


def test_two_producers_in_one_request() -> None:
    """Transactional data of one producer only, where old requests may hold more batches (TXN-04)."""
    two = batch(0, attributes=TRANSACTIONAL) + batch(0, attributes=TRANSACTIONAL, producer_id=2)
    results = [produce(IN_TRANSACTION, payload, "3.9.2", 2) for payload in (two, batch(0, producer_id=3) + two)]
    assert [(result.error_code, result.whole_request) for result in results] == [(53, True), (49, True)]


def test_producers_are_apart() -> None:
    """Each id has its own sequence; a batch without one leaves no trace (HDR-23)."""
    log = after(batch(0), batch(9, producer_id=2), raw_batch(RECORD, producer_id=-2), batch(1))
    assert set(log.producers) == {1, 2}
