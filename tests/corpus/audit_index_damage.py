"""Damage to the files beside a log's segments, each with what an audit has to find."""

import struct
from pathlib import Path

from tests.corpus.recorded import Log, Place, damage

from kafka_records import decode


def rewritten(path: Path, at: int, data: bytes) -> None:
    """Other bytes in a file."""
    old = path.read_bytes()
    path.write_bytes(old[:at] + data + old[at + len(data) :])


@damage
def an_index_between_batches(log: Log) -> list[Place]:
    """A fetch would begin in the middle of a batch."""
    rewritten(log.other(1, ".index"), 12, struct.pack(">i", 4478))
    return [("index_boundary", log.other(1, ".index").name, 4478)]


@damage
def an_index_that_begins_too_late(log: Log) -> list[Place]:
    """A fetch of that offset would not find it."""
    path = log.other(1, ".index")
    ((offset, position), *_) = struct.iter_unpack(">ii", path.read_bytes())
    rewritten(path, 0, struct.pack(">i", 1))
    assert offset > 1
    return [("index_offset", path.name, position)]


@damage
def an_index_in_disorder(log: Log) -> list[Place]:
    """A binary search would fail on it."""
    path = log.other(1, ".timeindex")
    data = path.read_bytes()
    path.write_bytes(data[12:24] + data[:12] + data[24:])
    return [("index_order", path.name, -1), ("index_order", path.name, -1)]


@damage
def an_index_cut_short(log: Log) -> list[Place]:
    """In the middle of an entry."""
    path = log.other(3, ".index")
    path.write_bytes(path.read_bytes()[:-3])
    return [("index_size", path.name, -1)]


@damage
def an_index_beyond_the_end(log: Log) -> list[Place]:
    """Of a segment that was truncated, and its index was not."""
    path = log.other(4, ".index")
    path.write_bytes(struct.pack(">ii", 41, 2389) + struct.pack(">ii", 99, 9000))
    return [("index_beyond", path.name, 9000)]


@damage
def a_time_index_that_lies(log: Log) -> list[Place]:
    """Its first entry is a millisecond early."""
    path = log.other(1, ".timeindex")
    time, offset = struct.unpack_from(">qi", path.read_bytes())
    rewritten(path, 0, struct.pack(">q", time - 1))
    place = next(start for file, start, end in log.places() if file == log.files[1]
                 and 255 + offset <= last_offset(file, start, end))  # fmt: skip
    return [("timeindex_time", path.name, place)]


def last_offset(path: Path, start: int, end: int) -> int:
    """The last offset of a batch."""
    (batch,) = decode(path.read_bytes()[start:end])
    return batch.last_offset


@damage
def an_aborted_transaction_that_is_not_listed(log: Log) -> list[Place]:
    """A consumer that reads what is committed would be given it."""
    path = log.other(3, ".txnindex")
    path.write_bytes(path.read_bytes()[34:])
    return [("aborted_missing", log.files[3].name, -1)]


@damage
def a_broken_snapshot(log: Log) -> list[Place]:
    """One byte of it."""
    path = log.other(2, ".snapshot")
    rewritten(path, 30, b"?")
    return [("snapshot_broken", path.name, -1)]


@damage
def a_checkpoint_that_is_none(log: Log) -> list[Place]:
    """Text that is no list of epochs."""
    path = log.folder / "leader-epoch-checkpoint"
    path.write_text("0\n2\n5 0\n3 10\n", encoding="utf-8")
    return [("checkpoint_broken", path.name, -1)]
