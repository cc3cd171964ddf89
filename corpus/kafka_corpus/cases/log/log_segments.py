"""Segment files: their content, fetches from them, and a broker's state after a restart (group SEG)."""

from __future__ import annotations

from struct import pack
from typing import Any

from crc32c import crc32c

from kafka_corpus.authoring.build import TIMESTAMP, put, raw_message, reseal, reseal_message
from kafka_corpus.authoring.logs import appends, ends_at, holds, keyed, on_disk, planted, serves
from kafka_corpus.authoring.steps import (
    ABORT,
    APPEND_TIME,
    COMMIT,
    PRODUCER_ID,
    AnsweredStep,
    aborts,
    assigned,
    begun,
    data,
    ends,
    fetched,
    fetches,
    listed,
    marker_at,
    marks,
    marks_not,
    numbered_from,
    refuses,
    takes,
    times,
    writes,
)
from kafka_corpus.registry import Draft, case, scene, stored
from kafka_corpus.scenario import FIRST_OF_V2, NOW, Fetch, FindOffset, Produce, Restart, StepAnswer
from kafka_records import Record
from kafka_records.broker.errors import INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER
from kafka_records.constants import INT32_MAX, Compression
from kafka_records.layout import MESSAGE_V0
from kafka_records.transactions import TRANSACTION_COORDINATOR_FENCED

FIRST, SECOND, THIRD = (on_disk(keyed(at, b"a"), keyed(at + 1, b"b")) for at in (0, 2, 4))
# All that v2 began with.
OLD_CODECS: tuple[Compression, ...] = ("none", "gzip", "snappy", "lz4")
# Later than the clock of any broker: a producer is forgotten some days after its last batch.
FAR = 2_500_000_000_000


@case("SEG-01", "SEG-02")
def segment_file() -> Draft:
    """A segment file holds the batches end to end, as they were stored, and nothing else."""
    batches = [numbered_from(2 * at, 2, codec) for at, codec in enumerate(OLD_CODECS)]
    log = b"".join(assigned(batch, 2 * at) for at, batch in enumerate(batches))
    return scene(*(takes(batch, 2 * at) for at, batch in enumerate(batches)), holds(log), serves(log, 8))


@case("SEG-06", "SEG-01", "SEG-17", each={"v0": 0, "v1": 1})
def mixed_formats(magic: int) -> Draft:
    """Messages may stand between batches of v2 in one file, and all of it is served."""
    messages = raw_message(magic, b"k", offset=2) + raw_message(magic, b"k", offset=3)
    log = FIRST + messages + THIRD
    return scene(planted(log), serves(log, 6), since=FIRST_OF_V2)


@case("SEG-02", "SEG-10", "CRC-05")
def undecodable_records_are_served() -> Draft:
    """Batches of an unknown codec, or of more records than they hold, are served if the checksum is right."""
    unknown = reseal(put(SECOND, "attributes", 7))
    missing = reseal(put(THIRD, "record_count", 5))
    log = FIRST + unknown + missing
    return scene(planted(log), serves(log, 6), serves(unknown + missing, 6, 2), since=FIRST_OF_V2)


@case("SEG-05", "SEG-09", "FRM-08")
def unknown_magic_is_served() -> Draft:
    """A batch whose magic is changed to 3 is kept and served as v2, and a message of magic -1 as a message."""
    newer = put(SECOND, "magic", 3)
    older = reseal_message(put(raw_message(0, b"k", offset=4), "magic", -1, layout=MESSAGE_V0))
    log = FIRST + newer + older
    return scene(planted(log), ends_at(5), serves(log, 5), since=FIRST_OF_V2)


@case("SEG-11", "SEG-02")
def offsets_that_go_back() -> Draft:
    """A log whose offsets go back is kept whole, and ends after its last batch."""
    log = SECOND + THIRD + FIRST
    return scene(planted(log), ends_at(2), holds(log), since=FIRST_OF_V2)


@case("SEG-12", each={"fits": INT32_MAX - 1, "splits": INT32_MAX})
def distance_in_a_segment(base_offset: int) -> Draft:
    """A last offset may be 2147483647 above the base offset of its segment; one more begins a segment."""
    last = put(THIRD, "base_offset", base_offset)
    served = FIRST + last if base_offset == INT32_MAX - 1 else FIRST
    end = base_offset + 2
    return scene(
        planted(FIRST, last),
        ends_at(end),
        holds(FIRST, last),
        serves(served, end),
        serves(last, end, 2),
        since="2.4.1",
    )


@case("SEG-12", since="1.1")
def append_beyond_the_distance() -> Draft:
    """A batch whose offset is 2147483648 above the base offset of the last segment begins another when it comes."""
    last = put(THIRD, "base_offset", INT32_MAX - 1)
    offset = INT32_MAX + 1
    batch = put(assigned(numbered_from(0), offset), "partition_leader_epoch", 2)
    return scene(
        planted(FIRST, last),
        (Produce(data=numbered_from(0)), stored(batch, base_offset=offset)),
        serves(FIRST + last, offset + 1),
        serves(batch, offset + 1, offset),
        since="2.4.1",
    )


@case("SEG-14", "PRD-09")
def producers_after_a_crash() -> Draft:
    """After a crash a broker restores the state of producers from the headers of batches."""
    fields: dict[str, Any] = {"producer_id": PRODUCER_ID, "producer_epoch": 3, "base_sequence": 10}
    records = [Record(at, FAR + at, b"k", b"v") for at in range(2)]
    batch = reseal(put(on_disk(*records, **fields), "max_timestamp", FAR + 700))
    again = Produce(data=numbered_from(10, 2, epoch=3))
    return scene(
        planted(batch),
        (again, stored(b"", log_append_time=FAR + 700)),
        refuses(numbered_from(13, epoch=3), OUT_OF_ORDER_SEQUENCE_NUMBER),
        refuses(numbered_from(0, epoch=2), INVALID_PRODUCER_EPOCH),
        holds(batch),
        since=FIRST_OF_V2,
    )


@case("SEG-15", "SEG-14", each={"in order": True, "after a crash": False})
def producers_after_a_restart(clean: bool) -> Draft:
    """After a restart a broker knows the last batch of each producer, from the snapshot that it wrote."""
    first, second = numbered_from(0, 2), numbered_from(2, 2)
    return scene(
        times(first),
        times(second, 2),
        (Restart(clean=clean), StepAnswer()),
        (Produce(data=second), stored(b"", base_offset=2, log_append_time=NOW)),
        refuses(first, OUT_OF_ORDER_SEQUENCE_NUMBER),
        refuses(numbered_from(5), OUT_OF_ORDER_SEQUENCE_NUMBER),
        config=APPEND_TIME,
    )


# The first leader epoch after a restart: the partition lost its leader and got it back.
LED_AGAIN = {"partition_leader_epoch": 2}


def snapshot_of(epoch: int = 0, *, version: int = 1, last_offset: int = 3, sequence: int = 3) -> bytes:
    """A snapshot in which the producer's last batch has that epoch, of two records that end at *last_offset*."""
    numbers = (PRODUCER_ID, epoch, sequence, last_offset, 1, FAR, -1, -1)
    entries = pack(">i", 1) + pack(">qhiqiqiq", *numbers)
    return pack(">hI", version, crc32c(entries)) + entries


def snapshot(offset: int) -> str:
    """The name of the snapshot at *offset*."""
    return f"{offset:020}.snapshot"


def restarted(files: dict[int, bytes | None], *, clean: bool = True) -> AnsweredStep:
    """A restart after which snapshots at these offsets have another content, or are gone."""
    return Restart(clean, {snapshot(offset): data for offset, data in files.items()}), StepAnswer()


LATEST_SNAPSHOT = snapshot_of()
TWO_BATCHES = numbered_from(0, 2), numbered_from(2, 2)
# Snapshots that a broker finds beside a log of two batches, or in place of the one at its end.
USELESS: dict[str, dict[int, bytes | None]] = {
    "a wrong checksum": {4: LATEST_SNAPSHOT[:-1] + b"?"},
    "version 0": {4: snapshot_of(version=0)},
    "version 2": {4: snapshot_of(version=2)},
    "a cut version": {4: LATEST_SNAPSHOT[:1]},
    "after the end": {9: snapshot_of(9)},
    "at the start": {0: snapshot_of(9), 4: LATEST_SNAPSHOT[:-1] + b"?"},
    "before a later one": {2: snapshot_of(9), 4: LATEST_SNAPSHOT[:-1] + b"?"},
}


@case("SEG-15", "SEG-14", "PRD-09", each=USELESS, since="1.1")
def useless_snapshots(files: dict[int, bytes | None]) -> Draft:
    """A broker that finds a snapshot which is damaged, or of an offset outside the log, reads the log instead."""
    first, second = TWO_BATCHES
    return scene(
        times(first),
        times(second, 2),
        restarted(files),
        (Produce(data=first), stored(b"", log_append_time=NOW)),
        (Produce(data=second), stored(b"", base_offset=2, log_append_time=NOW)),
        refuses(numbered_from(5), OUT_OF_ORDER_SEQUENCE_NUMBER),
        config=APPEND_TIME,
    )


@case("SEG-15", "PID-14", since="1.1")
def believed_snapshot() -> Draft:
    """A broker that shut down in order believes the snapshot at the end of the log, whatever the log says."""
    first, second = TWO_BATCHES
    return scene(
        times(first),
        times(second, 2),
        restarted({4: snapshot_of(9)}),
        refuses(numbered_from(4), INVALID_PRODUCER_EPOCH),
        (Produce(data=numbered_from(2, 2, epoch=9)), stored(b"", base_offset=2, log_append_time=FAR)),
        refuses(numbered_from(6, epoch=9), OUT_OF_ORDER_SEQUENCE_NUMBER),
        config=APPEND_TIME,
    )


# Four entries of 8 bytes, or three of 12, of which one stays free.  The first batch of a segment gets none.
SMALL_INDEX = {"segment.index.bytes": "36", "index.interval.bytes": "0"}
# Of six batches, five fill the first segment; a broker has snapshots at 5 and 6.
FORGETTING: dict[str, dict[int, bytes | None]] = {
    "no snapshot": {5: None, 6: None},
    "one within a segment": {2: snapshot_of(9), 5: None, 6: None},
}


@case("SEG-15", "PRD-09", each=FORGETTING, since="1.1")
def forgotten_producers(files: dict[int, bytes | None]) -> Draft:
    """A broker that shut down in order and has no snapshot of a segment's start, or of later, forgets producers."""
    batches = [numbered_from(at) for at in range(6)]
    again = put(assigned(batches[0], 6), "partition_leader_epoch", LED_AGAIN["partition_leader_epoch"])
    return scene(
        *(takes(batch, at) for at, batch in enumerate(batches)),
        restarted(files),
        (Produce(data=batches[0]), stored(again, base_offset=6)),
        config=SMALL_INDEX,
    )


@case("SEG-16", each={"offsets": 0, "times": 1})
def full_index(step: int) -> Draft:
    """A segment ends when an index of 36 bytes is full: by offsets after four entries, by times after two."""
    batches = [keyed(at, b"k", later=at * step) for at in range(6)]
    first = b"".join(map(on_disk, batches[: 3 if step else 5]))
    return scene(*map(appends, batches), fetches(first, 6), config=SMALL_INDEX)


@case("SEG-16", "SEG-14", each={"in order": True, "after a crash": False})
def aborted_transactions_after_a_restart(clean: bool) -> Draft:
    """After a restart a broker knows the aborted transactions, from their index or from the log."""
    log = assigned(data(0, 2)) + marker_at(2, ABORT)
    return scene(
        *begun(),
        writes(data(0, 2)),
        aborts(2),
        (Restart(clean=clean), StepAnswer()),
        (
            Fetch(isolation="read_committed"),
            StepAnswer(data=log, high_watermark=3, last_stable_offset=3, aborted=(listed(0),)),
        ),
    )


ENDINGS = {"in order": True, "after a crash": False}


@case("SEG-15", "TXN-21", each=ENDINGS)
def coordinators_after_a_restart(clean: bool) -> Draft:
    """After a restart a broker knows the epoch of the coordinator that wrote a producer's last marker."""
    return scene(
        *begun(),
        marks(marker_at(0, COMMIT), coordinator_epoch=5),
        (Restart(clean=clean), StepAnswer()),
        marks_not(TRANSACTION_COORDINATOR_FENCED, coordinator_epoch=4),
        marks(marker_at(1, COMMIT, **LED_AGAIN), coordinator_epoch=5),
    )


@case("SEG-15", "PID-14", each=ENDINGS)
def epochs_after_a_restart(clean: bool) -> Draft:
    """After a restart a broker knows the last epoch of each producer, and a new epoch begins at sequence 0."""
    late = refuses(numbered_from(1, epoch=4), OUT_OF_ORDER_SEQUENCE_NUMBER)
    return scene(
        times(numbered_from(7, epoch=3)),
        (Restart(clean=clean), StepAnswer()),
        refuses(numbered_from(8, epoch=2), INVALID_PRODUCER_EPOCH),
        late,
        config=APPEND_TIME,
    )


@case("SEG-15", "TXN-23", each=ENDINGS)
def open_transactions_after_a_restart(clean: bool) -> Draft:
    """After a restart a broker knows which transactions are open, and where each began, until their markers come."""
    log = assigned(data(0)) + assigned(data(0, who=1), 1) + assigned(data(1), 2)
    first, second = marker_at(3, ABORT, who=1, **LED_AGAIN), marker_at(4, ABORT, **LED_AGAIN)
    open_ = fetched(b"", 3, stable=0), fetched(b"", 4, stable=0)
    ended = fetched(log + first + second, 5, aborted=(listed(1, who=1), listed(0)))
    committed = Fetch(isolation="read_committed")
    return scene(
        *begun(),
        *begun("b"),
        writes(data(0)),
        writes(data(0, who=1), 1, alias="b"),
        writes(data(1), 2),
        (Restart(clean=clean), StepAnswer()),
        (committed, open_[0]),
        marks(first, alias="b", commit=False),
        (committed, open_[1]),
        marks(second, commit=False),
        (committed, ended),
    )


@case("SEG-15", "TXN-14", each=ENDINGS, since="1.1")
def transaction_goes_on_after_a_restart(clean: bool) -> Draft:
    """The coordinator reads from its own log after a restart that a transaction is open, and ends it."""
    marker = marker_at(1, COMMIT, **LED_AGAIN)
    return scene(
        *begun(),
        writes(data(0)),
        (Restart(clean=clean), StepAnswer()),
        ends(marker, commit=True),
        (Fetch(isolation="read_committed"), fetched(assigned(data(0)) + marker, 2)),
    )


# An entry in both indexes for each batch but the first.
INDEXED = {"index.interval.bytes": "0"}
NEWEST_TIME, FIRST_WITH_NEWEST_TIME = -3, "3.0.2"


def searches(*offsets: int, newest: int) -> list[AnsweredStep]:
    """Searches by time, from `TIMESTAMP` on in milliseconds, find *offsets*, and one for the newest time *newest*."""
    times = [(FindOffset(TIMESTAMP + at), StepAnswer(base_offset=found)) for at, found in enumerate(offsets)]
    return [*times, (FindOffset(NEWEST_TIME), StepAnswer(base_offset=newest))]


@case("OFF-17", "SEG-16", each=ENDINGS)
def times_after_a_restart(clean: bool) -> Draft:
    """After a restart a broker finds offsets by time as before, by its index or by the log."""
    records = [keyed(at, b"k", later=later) for at, later in enumerate((0, 2, 1, 3))]
    found = searches(0, 1, 1, 3, -1, newest=3)
    return scene(
        *map(appends, records),
        *found,
        (Restart(clean=clean), StepAnswer()),
        *found,
        config=INDEXED,
        since=FIRST_WITH_NEWEST_TIME,
    )


@case("OFF-17", "SEG-16")
def times_after_recovery() -> Draft:
    """Recovery builds the index of times from the log, and times that the log no longer has are not found."""
    before = [keyed(at, b"k", later=later) for at, later in enumerate((5, 7, 6))]
    after = [on_disk(keyed(at, b"k", later=later)) for at, later in enumerate((0, 2, 1))]
    return scene(
        *map(appends, before),
        *searches(0, 0, newest=1),
        planted(*after),
        *searches(0, 1, 1, -1, newest=1),
        config=INDEXED,
        since=FIRST_WITH_NEWEST_TIME,
    )


@case("OFF-17", "SEG-16", since="1.1")
def newest_time_comes_again() -> Draft:
    """Of two batches with the newest time the first is found, though an index leads to the second, too."""
    records = [keyed(at, b"k", later=later) for at, later in enumerate((0, 5, 5, 1))]
    return scene(
        *map(appends, records),
        *searches(0, 1, newest=1),
        config=INDEXED,
        since=FIRST_WITH_NEWEST_TIME,
    )


@case("SEG-17", "SEG-09")
def leader_epochs_on_the_disk() -> Draft:
    """Leader epochs that are missing, far ahead, or go back are taken as they are found."""
    log = b"".join(
        put(batch, "partition_leader_epoch", epoch)
        for batch, epoch in zip((FIRST, SECOND, THIRD), (7, -1, 3), strict=True)
    )
    return scene(planted(log), ends_at(6), fetches(log, 6), since=FIRST_OF_V2)
