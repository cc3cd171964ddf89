"""Produced batches on a broker's disk: recovery (CRC-14), and headers that the cleaner rewrites."""

from __future__ import annotations

from typing import Final

from kafka_corpus.authoring.batches import HORIZON, batch_of, bytes_of, some_records
from kafka_corpus.authoring.build import TIMESTAMP, flip, put, raw_batch, raw_record, record, reseal
from kafka_corpus.authoring.steps import enclosed, kept_batch
from kafka_corpus.registry import Draft, case, scene, stored
from kafka_corpus.scenario import Clean, Edit, Fetch, Produce, StepAnswer
from kafka_records.constants import Compression

CODECS: Final[dict[str, Compression]] = {"none": "none", "gzip": "gzip"}
UNKNOWN: Final = -0x7E80  # 0x8180: bits 7, 8 and 15
PAIR: Final = bytes_of(batch_of(*some_records(2)))
SIZE: Final = len(PAIR)
# Three batches of two records, as stored on disk.
LOG: Final = [kept_batch(PAIR, base_offset=offset) for offset in (0, 2, 4)]
WRITTEN: Final = [(Produce(data=PAIR), stored(data, base_offset=2 * at)) for at, data in enumerate(LOG)]


def left(data: bytes, end: int) -> tuple[Fetch, StepAnswer]:
    """A fetch of all that is left, up to the offset *end*."""
    return Fetch(), stored(data, base_offset=-1, high_watermark=end, last_stable_offset=end)


@case("CRC-14", each={"first": 0, "second": 1, "last": 2})
def recovery_ends_at_a_corrupt_batch(which: int) -> Draft:
    """After a crash the log is cut off at the first batch with a wrong checksum, and all after it is lost."""
    at = which * SIZE + SIZE - 1
    spoiled = flip(b"".join(LOG), at)[at : at + 1]
    remains = b"".join(LOG[:which])
    return scene(*WRITTEN, (Edit(at=at, data=spoiled), StepAnswer(data=remains)), left(remains, 2 * which))


@case("CRC-14", "CRC-05")
def recovery_ends_at_a_changed_checksum() -> Draft:
    """After a crash a batch whose records are whole is lost where its checksum is not theirs."""
    crc = SIZE + 17
    return scene(*WRITTEN, (Edit(at=crc, data=bytes(4)), StepAnswer(data=LOG[0])), left(LOG[0], 2))


@case("CRC-02", "CRC-14", each={"base offset": ("base_offset", 44), "leader epoch": ("partition_leader_epoch", -1)})
def recovery_takes_what_is_outside_the_checksum(given: tuple[str, int]) -> Draft:
    """A base offset or a leader epoch that is changed on the disk goes unnoticed."""
    field, value = given
    changed = put(LOG[2], field, value)
    remains = LOG[0] + LOG[1] + changed
    end = 46 if field == "base_offset" else 6
    return scene(*WRITTEN, (Edit(at=2 * SIZE, data=changed[:16]), StepAnswer(data=remains)), left(remains, end))


@case("HDR-19", each=CODECS)
def emptied_batch_takes_61_bytes(codec: Compression) -> Draft:
    """The cleaner keeps a producer's last batch without its record: 61 bytes, and no codec."""
    producer = {"producer_id": 77, "producer_epoch": 0, "base_sequence": 0}
    first = enclosed(codec, raw_record(key=b"key"), **producer)
    second = enclosed(codec, raw_record(key=b"key", value=b"newer"))
    empty = raw_batch(b"", record_count=0, last_offset_delta=0, base_timestamp=-1, partition_leader_epoch=0, **producer)
    remains = empty + kept_batch(second, base_offset=1)
    return scene(
        (Produce(data=first), stored(kept_batch(first))),
        (Produce(data=second), stored(kept_batch(second, base_offset=1), base_offset=1)),
        (Clean(), StepAnswer(data=remains)),
    )


def cleaned(first: bytes, second: bytes, remains: bytes, *, base_offset: int) -> Draft:
    """Two batches are produced, the second at *base_offset*, and the cleaner leaves *remains*."""
    return scene(
        (Produce(data=first), stored(kept_batch(first))),
        (Produce(data=second), stored(kept_batch(second, base_offset=base_offset), base_offset=base_offset)),
        (Clean(), StepAnswer(data=remains)),
    )


@case("ATT-10")
def unused_bits_are_lost_in_cleaning() -> Draft:
    """A batch of which the cleaner drops a record is rewritten, without the unknown bits."""
    first = reseal(put(PAIR, "attributes", UNKNOWN))
    newer = raw_batch(raw_record(key=b"key 0", value=b"newer"))
    dropped = bytes_of(batch_of(some_records(2)[1], base_offset=0, last_offset=1, partition_leader_epoch=0))
    return cleaned(first, newer, dropped + kept_batch(newer, base_offset=2), base_offset=2)


@case("ATT-10")
def unused_bits_stay_in_a_copied_batch() -> Draft:
    """A batch of which the cleaner drops nothing is copied whole, with all its bits."""
    first = reseal(put(PAIR, "attributes", UNKNOWN))
    other = raw_batch(raw_record(key=b"other"))
    return cleaned(first, other, kept_batch(first) + kept_batch(other, base_offset=2), base_offset=2)


@case("ATT-15", "ATT-10")
def attributes_of_a_record_become_zero_in_cleaning() -> Draft:
    """A record in a batch that the cleaner rewrites has no attributes."""
    records = raw_record(key=b"old") + raw_record(key=b"key", offset_delta=1, attributes=0x7F)
    first = raw_batch(records, record_count=2)
    newer = raw_batch(raw_record(key=b"old", value=b"newer"))
    kept_record = record(key=b"key", offset=1)
    dropped = bytes_of(batch_of(kept_record, base_offset=0, last_offset=1, partition_leader_epoch=0))
    return cleaned(first, newer, dropped + kept_batch(newer, base_offset=2), base_offset=2)


@case("ATT-11", "ATT-06")
def delete_horizon_of_a_client_is_trusted() -> Draft:
    """A tombstone in a batch that a client gave a delete horizon in the past is gone when the cleaner first sees it."""
    tombstone = raw_batch(raw_record(key=b"key", value=None), attributes=HORIZON, base_timestamp=TIMESTAMP)
    other = raw_batch(raw_record(key=b"other"))
    return cleaned(tombstone, other, kept_batch(other, base_offset=1), base_offset=1)
