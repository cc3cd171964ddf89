"""Segments after the recovery from a crash, and logs on which a broker does not start (group SEG)."""

from __future__ import annotations

from kafka_corpus.authoring.batches import batch_of, bytes_of
from kafka_corpus.authoring.build import put, raw_message, reseal
from kafka_corpus.authoring.logs import appends, ends_at, keyed, on_disk, planted, serves
from kafka_corpus.registry import Draft, case, scene
from kafka_corpus.scenario import FIRST_OF_V2, Edit, StepAnswer
from kafka_records import Record

FIRST, SECOND, THIRD = (on_disk(keyed(at, b"a"), keyed(at + 1, b"b")) for at in (0, 2, 4))
# A message of the least size there is: 14 bytes, which its size counts.
SMALLEST = raw_message(0, None, None, offset=4)


@case("SEG-04", "SEG-08", each={"13": (13, False), "14": (14, True)})
def least_size(given: tuple[int, bool]) -> Draft:
    """A message of 14 bytes is recovered, and a size below that ends the log."""
    size, stays = given
    last = SMALLEST if stays else put(SMALLEST, "batch_length", size)
    assert len(SMALLEST) == 12 + 14
    left = FIRST + SECOND + (last if stays else b"")
    return scene(
        planted(FIRST, SECOND, last, left=left),
        ends_at(5 if stays else 4),
        serves(left, 5 if stays else 4),
        since=FIRST_OF_V2,
    )


@case("SEG-07", "HDR-05", "CRC-14", each={"too small for a header": 48, "too large for its records": 0})
def wrong_size(size: int) -> Draft:
    """A batch whose size is wrong ends the log, and right batches after it are lost."""
    broken = put(SECOND, "batch_length", size or len(SECOND) - 12 + 8)
    return scene(planted(FIRST, broken, THIRD, left=FIRST), ends_at(2), serves(FIRST, 2), since=FIRST_OF_V2)


@case("SEG-07", "CRC-14")
def later_segments() -> Draft:
    """Segments after one that recovery cuts off are lost with all that is in them."""
    records = [keyed(at, b"k", b"%d" % at) for at in range(6)]
    batches = [on_disk(record) for record in records]
    at = len(batches[0]) + len(batches[1]) - 2
    left = batches[0]
    return scene(
        *(appends(record) for record in records),
        (Edit(at=at, data=b"?"), StepAnswer(data=left)),
        ends_at(1),
        serves(left, 1),
        config={"segment.index.bytes": "24", "index.interval.bytes": "0"},
    )


@case("SEG-05", "SEG-07", each={"127": (127, True), "-128": (-128, False)})
def magic_at_a_bound(given: tuple[int, bool]) -> Draft:
    """Recovery takes whatever has a magic above 2 for a batch of v2, and a negative magic for a message."""
    magic, stays = given
    changed = put(SECOND, "magic", magic)
    left = FIRST + changed if stays else FIRST
    return scene(planted(FIRST, changed, left=left), ends_at(4 if stays else 2), since=FIRST_OF_V2)


TAILS = {
    "a batch cut short": THIRD[:-1],
    "a header cut short": THIRD[:40],
    "17 bytes": THIRD[:17],
    "garbage": b"\xff" * 40,
    "zeros": bytes(4096),
}


@case("SEG-08", each=TAILS)
def tail(data: bytes) -> Draft:
    """Bytes after the last whole batch are cut off, be it a part of a batch or of a file that was preallocated."""
    left = FIRST + SECOND
    return scene(planted(left, data, left=left), ends_at(4), serves(left, 4), since=FIRST_OF_V2)


@case("SEG-09", "CRC-02", "CRC-11")
def offset_and_epoch_that_change() -> Draft:
    """An offset and a leader epoch that are changed together go unnoticed, and leave a gap."""
    changed = put(put(THIRD, "base_offset", 1000), "partition_leader_epoch", 9)
    log = FIRST + SECOND + changed
    return scene(planted(log), ends_at(1002), serves(changed, 1002, 4), since=FIRST_OF_V2)


def control(key: bytes | None, value: bytes = bytes(6)) -> bytes:
    """A control batch of a transaction with any key and value."""
    marker = batch_of(
        Record(2, keyed(2, b"").timestamp, key, value),
        producer_id=7,
        producer_epoch=0,
        control=True,
        transactional=True,
        partition_leader_epoch=0,
    )
    return bytes_of(marker)


def marker_of(offset: int, *, epoch: int = 0, coordinator_epoch: int = 0) -> bytes:
    """An ABORT marker of producer 7."""
    value = bytes(2) + coordinator_epoch.to_bytes(4, "big")
    record = Record(offset, keyed(offset, b"").timestamp, bytes(4), value)
    fields = {"producer_id": 7, "producer_epoch": epoch, "partition_leader_epoch": 0}
    return bytes_of(batch_of(record, control=True, transactional=True, **fields))


def of_producer(offset: int, epoch: int) -> bytes:
    """A batch of producer 7 at sequence 0."""
    return on_disk(keyed(offset, b"k"), producer_id=7, producer_epoch=epoch, base_sequence=0)


EPOCHS = {
    "data": (of_producer(0, 3), of_producer(1, 2)),
    "markers": (marker_of(0, epoch=3), marker_of(1, epoch=2)),
    "a marker after data": (of_producer(0, 3), marker_of(1, epoch=2)),
}


@case("SEG-09", "PID-14", each=EPOCHS)
def producer_epochs_that_go_back(batches: tuple[bytes, bytes]) -> Draft:
    """Recovery keeps batches and markers of an older epoch of a producer, which a leader would refuse."""
    log = b"".join(batches)
    return scene(planted(log), ends_at(2), serves(log, 2), since=FIRST_OF_V2)


@case("SEG-09", "TXN-21")
def coordinator_epochs_that_go_back() -> Draft:
    """Recovery keeps a marker of an older coordinator epoch, which a leader would refuse."""
    log = marker_of(0, coordinator_epoch=5) + marker_of(1, coordinator_epoch=4)
    left = marker_of(0) + marker_of(1)  # as answers are recorded: the epoch counts starts of the coordinator
    return scene(planted(log, left=left), ends_at(2), serves(left, 2), since=FIRST_OF_V2)


@case("SEG-09", "TXN-18")
def control_batch_without_a_record() -> Draft:
    """Recovery takes a control batch of which the cleaner left the header, and it ends no transaction."""
    empty = reseal(put(put(marker_of(2)[:61], "batch_length", 49), "record_count", 0))
    log = FIRST + empty + on_disk(keyed(3, b"c"))
    return scene(planted(log), ends_at(4), serves(log, 4), since=FIRST_OF_V2)


NEWER = {
    "key": (b"\0\1" + bytes(2), bytes(6)),
    "value": (bytes(4), b"\0\1" + bytes(4)),
}


@case("SEG-09", "TXN-10", "TXN-13", each=NEWER)
def marker_of_a_newer_version(content: tuple[bytes, bytes]) -> Draft:
    """Recovery takes a marker whose key or value is of a newer version, and reads it as version 0."""
    log = FIRST + control(*content) + on_disk(keyed(3, b"c"))
    return scene(planted(log), ends_at(4), serves(log, 4), since=FIRST_OF_V2)


FATAL = {
    "a negative version": FIRST + control(bytes(4), b"\xff\xff" + bytes(4)) + THIRD,
    "a short value": FIRST + control(bytes(4), bytes(5)) + THIRD,
    "a short key": FIRST + control(b"\0\0") + THIRD,
    "an unknown type": FIRST + control(b"\0\0\0\x63") + THIRD,
}


@case("SEG-13", "TXN-10", each=FATAL)
def marker_that_stops_a_broker(log: bytes) -> Draft:
    """A broker does not start on a log with a marker that it cannot read."""
    return scene((Edit(at=0, data=log, cut=True, fatal=True), StepAnswer(ended=True)), since=FIRST_OF_V2)


@case("SEG-09", "SEG-12")
def offset_that_stops_a_broker() -> Draft:
    """A broker does not start on a batch whose offset is before its segment."""
    log = put(FIRST, "base_offset", -5) + THIRD
    return scene((Edit(at=0, data=log, cut=True, fatal=True), StepAnswer(ended=True)), since=FIRST_OF_V2)
