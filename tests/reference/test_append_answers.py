"""Answers of live brokers to produced payloads (3.9.0, 4.1.0), each with its rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_records import Batch, Record, encode
from kafka_records.broker import AppendResult, LogState, ProducerState, TopicConfig, append
from kafka_records.checksum import checksum_v2

NOW = 1_724_709_879_130
RECORDS = tuple(Record(at, NOW - 5 + at, b"key", b"value") for at in range(3))
BATCH = Batch(magic=2, base_offset=0, last_offset=2, max_timestamp=NOW - 3, records=RECORDS)
DATA = encode(BATCH)
PRODUCED = replace(BATCH, producer_id=77, producer_epoch=3, base_sequence=0)
LOG = LogState(log_end_offset=100, leader_epoch=4)


def answer(
    payload: bytes, *, log: LogState = LOG, version: int = 9, release: str = "4.4.0", **config: str
) -> AppendResult:
    """The answer of a topic with these settings, dots written as underscores."""
    settings = TopicConfig.of({name.replace("_", "."): value for name, value in config.items()})
    return append(log, payload, settings, release=release, api_version=version, now_ms=NOW)


def put(data: bytes, at: int, value: int, width: int) -> bytes:
    """*data* with another value at *at*, and the right CRC for it."""
    data = data[:at] + value.to_bytes(width, "big", signed=True) + data[at + width :]
    return data[:17] + checksum_v2(data).to_bytes(4, "big") + data[21:]


def test_a_batch_is_kept_as_it_is() -> None:
    """Base offset and leader epoch are assigned, and every byte from the CRC on is the producer's (RWR-01, CRC-11)."""
    result = answer(DATA)

    assert (result.error_code, result.base_offset, result.log_append_time) == (0, 100, -1)
    assert result.stored == (100).to_bytes(8, "big") + DATA[8:12] + (4).to_bytes(4, "big") + DATA[16:]
    assert result.log.log_end_offset == 103


REFUSED = {
    "HDR-06 base offset": (put(DATA, 0, 1, 8), 87),
    "CRC-06 checksum": (DATA[:17] + bytes(4) + DATA[21:], 2),
    "ATT-02 codec 5": (put(DATA, 21, 5, 2), -1),
    "ATT-05 control": (put(DATA, 21, 0x20, 2), 87),
    "HDR-11 count of 0": (put(DATA, 57, 0, 4), 87),
    "HDR-12 count and delta": (put(DATA, 57, 2, 4), 87),
    "PRD-04 two batches": (DATA + DATA, 87),
    "PRD-04 none": (DATA[:-1], 87),
    "PRD-05 magic 1": (encode(replace(BATCH, magic=1, last_offset=0, records=RECORDS[:1])), 87),
    "FRM-05 size": (bytes(12), 2),
    "FRM-08 magic 3": (DATA[:16] + b"\x03" + DATA[17:], 2),
    "HDR-05 51 bytes": (DATA[:8] + (39).to_bytes(4, "big") + DATA[12:51], 2),
    "PID-03 sequence": (put(encode(PRODUCED), 53, -1, 4), 87),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """A payload that breaks a rule gets the code that brokers were seen to give, and nothing is stored."""
    payload, code = REFUSED[name]
    result = answer(payload)

    assert (result.error_code, result.base_offset, result.stored) == (code, -1, b"")
    assert result.log == LOG


@pytest.mark.parametrize(("version", "code"), [(6, 76), (7, 0)])
def test_zstd_needs_version_7(version: int, code: int) -> None:
    """zstd is refused in Produce 3 to 6 (PRD-06)."""
    assert answer(encode(replace(BATCH, compression="zstd")), version=version).error_code == code


@pytest.mark.parametrize(("most", "code"), [(len(DATA), 0), (len(DATA) - 1, 10)])
def test_size_limit(most: int, code: int) -> None:
    """A batch may be just as large as max.message.bytes (SIZ-01)."""
    assert answer(DATA, max_message_bytes=str(most)).error_code == code


def test_log_append_time() -> None:
    """A LogAppendTime topic sets the bit and the max timestamp, and leaves the rest as sent (TIM-12)."""
    result = answer(DATA, message_timestamp_type="LogAppendTime")

    assert (result.error_code, result.log_append_time) == (0, NOW)
    assert result.stored[21:23] == b"\x00\x08"
    assert int.from_bytes(result.stored[35:43], "big") == NOW
    assert result.stored[61:] == DATA[61:]


def test_append_time_is_not_the_producers_to_set() -> None:
    """Bit 3 from a producer is an invalid timestamp on a LogAppendTime topic only (TIM-13, TIM-15)."""
    sent = put(DATA, 21, 0x08, 2)

    assert answer(sent, message_timestamp_type="LogAppendTime").error_code == 32
    assert answer(sent).error_code == 0


@pytest.mark.parametrize(("release", "code"), [("3.9.0", 0), ("4.4.0", 32)])
def test_timestamps_ahead_of_time(release: str, code: int) -> None:
    """Two hours ahead were fine up to 3.9, and are beyond the default of later releases (TIM-11)."""
    ahead = tuple(record._replace(timestamp=NOW + 7_200_000) for record in RECORDS)
    payload = encode(replace(BATCH, records=ahead, max_timestamp=NOW + 7_200_000))

    assert answer(payload, release=release).error_code == code


def test_compacted_topics_need_keys() -> None:
    """A null key is refused on a compacted topic, an empty one is not (PRD-17)."""
    for key, code in ((None, 87), (b"", 0)):
        payload = encode(replace(BATCH, records=(RECORDS[0]._replace(key=key), *RECORDS[1:])))
        assert answer(payload, cleanup_policy="compact").error_code == code


def test_producer_state() -> None:
    """A duplicate gets the old base offset, a gap 45, an old epoch 47, a new epoch starts at 0 (PID-06 to PID-14)."""
    first = answer(encode(PRODUCED))
    again = answer(encode(PRODUCED), log=first.log)
    gap = answer(encode(replace(PRODUCED, base_sequence=4)), log=first.log)
    fenced = answer(encode(replace(PRODUCED, producer_epoch=2)), log=first.log)
    late = answer(encode(replace(PRODUCED, producer_epoch=4, base_sequence=3)), log=first.log)
    follows = answer(encode(replace(PRODUCED, base_sequence=3)), log=first.log)

    assert (again.error_code, again.base_offset, again.log) == (0, 100, first.log)
    assert [each.error_code for each in (gap, fenced, late, follows)] == [45, 47, 45, 0]
    assert follows.base_offset == 103
    assert isinstance(follows.log.producers[77], ProducerState)


def test_another_codec_rebuilds_the_batch() -> None:
    """A topic of another codec stores a rebuilt batch with the same records (RWR-05, RWR-11)."""
    result = answer(DATA, compression_type="gzip")
    back = answer(put(result.stored, 0, 0, 8), compression_type="uncompressed")

    assert (result.path, result.stored[22] & 7) == ("rebuilt", 1)
    assert back.stored[61:] == DATA[61:]
