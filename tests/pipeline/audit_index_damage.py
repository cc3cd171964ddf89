"""Damage to the files beside a log's segments, each with what an audit has to find."""

import os
import struct
from pathlib import Path

import numpy as np
from crc32c import crc32c
from tests.pipeline.recorded import Log, Place, damage, last_offset

from kafka_pipeline.audit.indexes import ENTRY
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
def a_wrong_time_index(log: Log) -> list[Place]:
    """Its first entry is a millisecond early."""
    path = log.other(1, ".timeindex")
    time, offset = struct.unpack_from(">qi", path.read_bytes())
    rewritten(path, 0, struct.pack(">q", time - 1))
    place = next(start for file, start, end in log.places() if file == log.files[1]
                 and 255 + offset <= last_offset(file.read_bytes()[start:end]))  # fmt: skip
    return [("timeindex_time", path.name, place)]


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


def put_snapshot(path: Path, entries: bytes, count: int) -> None:
    """A snapshot of these entries, with the right CRC."""
    data = struct.pack(">i", count) + entries
    path.write_bytes(struct.pack(">hI", 1, crc32c(data)) + data)


def noted(log: Log, number: int, name: str, value: int) -> list[Place]:
    """Another number in the last entry of a snapshot."""
    path = log.other(number, ".snapshot")
    entries = np.frombuffer(path.read_bytes()[10:], ENTRY).copy()
    assert entries[-1][name] != value
    entries[-1][name] = value
    put_snapshot(path, entries.tobytes(), len(entries))
    return [("snapshot_state", path.name, -1)]


@damage
def a_snapshot_with_another_count(log: Log) -> list[Place]:
    """It has an entry less than it says."""
    path = log.other(2, ".snapshot")
    put_snapshot(path, path.read_bytes()[10 + ENTRY.itemsize :], 5)
    return [("snapshot_broken", path.name, -1)]


@damage
def a_snapshot_of_another_epoch(log: Log) -> list[Place]:
    """A broker that starts on it fences the producer."""
    return noted(log, 1, "epoch", 1)


@damage
def a_snapshot_of_another_sequence(log: Log) -> list[Place]:
    """A broker that starts on it refuses the next batch, and takes one twice."""
    return noted(log, 2, "last_sequence", 67)


@damage
def a_snapshot_of_another_offset(log: Log) -> list[Place]:
    """A batch that comes again is answered with it."""
    return noted(log, 3, "last_offset", 1702)


@damage
def a_snapshot_of_an_open_transaction(log: Log) -> list[Place]:
    """It never ends: nothing after its start can be read as committed."""
    return noted(log, 4, "first_offset", 1911)


@damage
def a_snapshot_without_the_open_transaction(log: Log) -> list[Place]:
    """Its records are read as committed. The log ends in one; this snapshot is that of a broker that was stopped."""
    (batch,) = decode(log.batch(49))
    entry = np.zeros(1, ENTRY)
    entry["producer"], entry["first_offset"] = batch.producer_id, -1
    entry["last_sequence"], entry["last_offset"] = batch.base_sequence + len(batch.records) - 1, batch.last_offset
    path = log.folder / f"{batch.last_offset + 1:020}.snapshot"
    put_snapshot(path, entry.tobytes(), 1)
    return [("snapshot_state", path.name, -1)]


@damage
def a_checkpoint_that_is_none(log: Log) -> list[Place]:
    """Text that is no list of epochs."""
    path = log.folder / "leader-epoch-checkpoint"
    path.write_text("0\n2\n5 0\n3 10\n", encoding="utf-8")
    return [("checkpoint_broken", path.name, -1)]


@damage
def an_index_that_is_a_pipe(log: Log) -> list[Place]:
    """Nothing ever comes from it."""
    path = log.other(1, ".timeindex")
    path.unlink()
    os.mkfifo(path)
    return [("not_read", path.name, -1)]


@damage
def a_snapshot_that_is_a_directory(log: Log) -> list[Place]:
    """It cannot be read."""
    path = log.other(2, ".snapshot")
    path.unlink()
    path.mkdir()
    return [("not_read", path.name, -1)]
