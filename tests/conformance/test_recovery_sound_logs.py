"""Logs of the table of recovery without damage: their bytes, what a fetch brings, and the facts of consumers."""

from base64 import b64encode
from collections.abc import Mapping

import pytest

from kafka_conformance.edges import recovery
from kafka_conformance.edges.damaged_logs import DamagedLog, tape_of
from kafka_conformance.edges.recovery import LOGS, ApplicationRun, RecoveryEvent, RecoveryVerdict, judge_recovery
from kafka_conformance.edges.sound_logs import SOUND_LOGS
from kafka_records import RecordFormatError, decode


def verdict_of(log: DamagedLog, records: Mapping[int, bytes] | list[tuple[int, bytes]]) -> RecoveryVerdict:
    """The judgement of a consumer that delivers these *records*, without an error."""
    pairs = records.items() if isinstance(records, Mapping) else records
    lines = [{"offset": offset, "value": b64encode(value).decode()} for offset, value in pairs]
    run = ApplicationRun([RecoveryEvent(float(at), line) for at, line in enumerate(lines)], [], "end")
    return judge_recovery(recovery.facts_of(log, run, None), readable=log.readable, hostile=True)


@pytest.mark.slow
@pytest.mark.parametrize("row", SOUND_LOGS)
def test_what_is_expected_passes(row: str) -> None:
    """Each record of the log at or after the position, once and in order, is right, and no other answer is."""
    log = LOGS[row]()
    expected = dict(sorted({**log.good, **log.inside}.items()))
    assert log.readable
    assert verdict_of(log, expected) == ("PASS", "delivers it", "All records came.")
    last = max(log.inside)
    assert verdict_of(log, {at: value for at, value in expected.items() if at != last}).grade != "PASS"
    assert verdict_of(log, expected | {last: b"another"}).outcome == "delivers another value"


def test_no_record_has_a_negative_offset() -> None:
    """Those that a wrapper's offset gives are a finding of their own, as are offsets that no record has."""
    log = LOGS["wrapper-at-zero"]()
    shifted = [(offset - 2, value) for offset, value in log.inside.items()]
    assert verdict_of(log, [*shifted, *log.good.items()]).outcome == "delivers negative offsets"
    marker = LOGS["broken-marker"]()
    assert (marker.first_bad, dict(marker.inside)) == (9, {})
    assert verdict_of(marker, marker.good).outcome == "delivers it"
    assert verdict_of(marker, {**marker.good, 9: b""}).outcome == "delivers unknown offsets"


def test_records_that_come_again() -> None:
    """A repeated batch is delivered once; what is lost instead is worse."""
    log = LOGS["batch-repeated"]()
    pairs = sorted({**log.good, **log.inside}.items())
    twice = [*pairs[:6], *pairs[3:]]
    assert verdict_of(log, twice)[:2] == ("NON_STRICT", "delivers twice")
    lost = [pair for pair in pairs if pair[0] != 6]
    assert verdict_of(log, lost)[:2] == ("HOSTILE", "loses good records")


def test_the_bytes_are_what_the_row_says() -> None:
    """Offsets of headers and wrappers, and a damaged message that only a decoder without a position meets."""

    def first_batch(row: str) -> tuple[int, int]:
        log = LOGS[row]()
        data = tape_of(log).read(min(log.inside), 2)
        return int.from_bytes(data[:8], "big", signed=True), int.from_bytes(data[23:27], "big", signed=True)

    assert first_batch("base-offset-minus-one") == (-1, 1)
    assert first_batch("last-offset-before-base") == (9, -1)
    assert first_batch("wrapper-at-zero")[0] == 0
    assert first_batch("wrapper-at-its-first")[0] == 9
    log = LOGS["wrapper-at-its-first"]()
    assert [record.offset for record in decode(tape_of(log).read(9, 2))[0].records] == [9, 10, 11]
    with pytest.raises(RecordFormatError, match="stored crc"):
        decode(tape_of(LOGS["damage-before-position"]()).read(11, 2))


def test_a_fetch_brings_batches_before_the_position() -> None:
    """A fetch from 3 on begins with the batch 0 to 2, twice; a later one does not."""
    tape = tape_of(LOGS["batches-before-position"]())
    assert [batch.base_offset for batch in decode(tape.read(3, 2))] == [0, 0, 3, 6, 9, 12]
    assert decode(tape.read(6, 2))[0].base_offset == 6


def test_a_run_that_is_not_over_in_its_time_is_no_finding() -> None:
    """A slow machine loses no records: without an error or a silence nothing is known of those that did not come."""
    log = LOGS["middle-of-batch"]()
    lines = [{"offset": 10, "value": b64encode(log.inside[10]).decode()}]
    run = ApplicationRun([RecoveryEvent(float(at), line) for at, line in enumerate(lines)], [], "time")

    verdict = judge_recovery(recovery.facts_of(log, run, None), readable=True)

    assert (verdict.grade, verdict.outcome) == ("not run", "out of time")
