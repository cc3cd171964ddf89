"""Which batches a fetch brings, and which offsets and times lead to them (group OFF)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import batch_of, bytes_of
from kafka_corpus.authoring.build import TIMESTAMP, grid
from kafka_corpus.authoring.steps import (
    assigned,
    fetched,
    fetches,
    numbered_from,
    producer_batch,
    since_of,
    takes,
    with_deltas,
)
from kafka_corpus.registry import Draft, case, scene
from kafka_corpus.scenario import Clean, Fetch, FindOffset, StepAnswer
from kafka_records import Record
from kafka_records.constants import Compression

CODECS: dict[str, Compression] = {"none": "none", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
TWO_CODECS: dict[str, Compression] = {"none": "none", "gzip": "gzip"}
OUT_OF_RANGE = 1
# ListOffsets: the offset of the newest record; KIP-734, Kafka 3.0.
NEWEST_TIME, EARLIEST, LATEST = -3, -2, -1
FIRST_WITH_NEWEST_TIME = "3.0.2"


@case("OFF-03", "OFF-14", each=CODECS)
def base_offsets(codec: Compression) -> Draft:
    """Batches are fetched with the base offsets that the broker gave to them, one after the other."""
    batches = producer_batch(3, codec), producer_batch(1), producer_batch(2, codec)
    log = b"".join(assigned(batch, at) for batch, at in zip(batches, (0, 3, 4), strict=True))
    return scene(
        *(takes(batch, at) for batch, at in zip(batches, (0, 3, 4), strict=True)),
        fetches(log, 6),
        since=since_of(codec),
    )


@case("OFF-12", each=grid(offset={"first": 3, "middle": 4, "last": 5}, codec=TWO_CODECS))
def from_inside_a_batch(shape: dict[str, Any]) -> Draft:
    """A fetch from inside a batch brings all of it, with records before the fetch offset."""
    batch = producer_batch(3, shape["codec"])
    log = assigned(batch, 3) + assigned(producer_batch(), 6)
    return scene(
        takes(producer_batch(3)), takes(batch, 3), takes(producer_batch(), 6), fetches(log, 7, shape["offset"])
    )


@case("OFF-12", "SIZ-08", each={"1 byte": 1, "less than a batch": 60, "a batch": len(producer_batch(3))}, refs=["A25"])
def small_limits(max_bytes: int) -> Draft:
    """However small the limit of a fetch is, the first batch is whole; only later ones may be cut."""
    step = Fetch(offset=4, max_bytes=max_bytes)
    answer = fetched(assigned(producer_batch(3), 3), 9)
    return scene(takes(producer_batch(3)), takes(producer_batch(3), 3), takes(producer_batch(3), 6), (step, answer))


@case("OFF-12", "SIZ-08", "FRM-07", refs=["A25"])
def batch_cut_by_the_limit() -> Draft:
    """The second batch of a fetch is cut where the limit is."""
    limit = len(producer_batch(3)) + 30
    log = assigned(producer_batch(3)) + assigned(producer_batch(3), 3)
    return scene(
        takes(producer_batch(3)), takes(producer_batch(3), 3), (Fetch(max_bytes=limit), fetched(log[:limit], 6))
    )


@case("OFF-12", each={"end": 3, "empty": 0})
def at_the_end(offset: int) -> Draft:
    """A fetch from the end of the log brings nothing, and no error."""
    steps = [takes(producer_batch(3))] if offset else []
    return scene(*steps, fetches(b"", offset, offset))


@case("OFF-12", each={"behind the end": 4, "far": 2**62, "negative": -1})
def out_of_range(offset: int) -> Draft:
    """There is nothing to fetch after the end of the log, nor before its start."""
    answer = StepAnswer(error_code=OUT_OF_RANGE)
    return scene(takes(producer_batch(3)), (Fetch(offset=offset), answer))


@case("OFF-14", "PID-07")
def order_of_producers() -> Draft:
    """Batches of several producers are fetched in the order in which they were appended."""
    batches = [numbered_from(0, 2), numbered_from(0, 2, producer_id=5), numbered_from(2, 2), producer_batch(2)]
    log = b"".join(assigned(batch, 2 * at) for at, batch in enumerate(batches))
    return scene(*(takes(batch, 2 * at) for at, batch in enumerate(batches)), fetches(log, 8))


@case("OFF-14", "OFF-04")
def order_inside_a_batch() -> Draft:
    """The broker keeps the order of the records in a batch, even if their deltas say another."""
    batch = with_deltas((2, 0, 1))
    return scene(takes(batch), fetches(assigned(batch), 3, 1))


@case("OFF-06", "RWR-05", each={"gzip": "gzip", "lz4": "lz4"})
def numbered_anew_and_fetched(codec: Compression) -> Draft:
    """Records that the broker renumbered are fetched with the new deltas."""
    batch = with_deltas((0, 5, 7))
    renumbered = assigned(with_deltas((0, 1, 2), codec))
    step, answer = takes(batch)
    answer = StepAnswer(base_offset=0, data=renumbered)
    return scene((step, answer), fetches(renumbered, 3), config={"compression.type": codec}, compare="masked")


def compacted(*records: Record, first: int, last: int) -> bytes:
    """The remains of a batch from offset *first* to *last* after the cleaner."""
    fields = {"base_offset": first, "last_offset": last, "partition_leader_epoch": 0}
    return bytes_of(batch_of(*records, **fields))


@case("OFF-10", "OFF-13", "CLN-02", each={"first": 0, "middle": 1, "last": 2}, refs=["A41"])
def batch_with_gaps(kept: int) -> Draft:
    """The cleaner leaves a batch its first and last offset, though the records there are gone."""
    records = [Record(at, TIMESTAMP + at, b"key %d" % at, b"old") for at in range(3)]
    newer = [Record(at, TIMESTAMP + 9, b"key %d" % at, b"new") for at in range(3) if at != kept]
    later = bytes_of(batch_of(*(record._replace(offset=at) for at, record in enumerate(newer))))
    left = compacted(records[kept], first=0, last=2) + assigned(later, 3)
    return scene(takes(bytes_of(batch_of(*records))), takes(later, 3), (Clean(), StepAnswer(data=left)))


TIMES = {"first": (2, 0, 1), "middle": (0, 2, 1), "last": (0, 1, 2), "equal": (3, 3, 3)}


def timed(times: tuple[int, ...], codec: Compression) -> bytes:
    """A batch with records at these times."""
    records = [Record(at, TIMESTAMP + time, b"k", b"v%d" % at) for at, time in enumerate(times)]
    return bytes_of(batch_of(*records, compression=codec))


@case("OFF-17", "TIM-07", each=grid(times=TIMES, codec=TWO_CODECS))
def offset_of_the_newest_record(shape: dict[str, Any]) -> Draft:
    """The offset of the newest time is that of the record, the first of those that have it."""
    times, codec = shape["times"], shape["codec"]
    found = 2 + times.index(max(times))
    search = FindOffset(NEWEST_TIME), StepAnswer(base_offset=found)
    return scene(takes(producer_batch(2)), takes(timed(times, codec), 2), search, since=FIRST_WITH_NEWEST_TIME)


@case("OFF-17", each={"last": 2, "first": 0, "before": -5, "behind": 9})
def first_record_so_late(time: int) -> Draft:
    """A search by time finds the first record that is not older, wherever in its batch; none, if all are older."""
    times = (0, 2, 1)
    found = next((at for at, each in enumerate(times) if each >= time), -1)
    search = FindOffset(TIMESTAMP + time), StepAnswer(base_offset=found)
    return scene(takes(timed(times, "gzip")), search)


@case("OFF-14", each={"start": (EARLIEST, 0), "end": (LATEST, 5)})
def start_and_end(given: tuple[int, int]) -> Draft:
    """A log that only grew starts at offset 0 and ends after its last record."""
    time, found = given
    return scene(
        takes(producer_batch(3)), takes(producer_batch(2), 3), (FindOffset(time), StepAnswer(base_offset=found))
    )
