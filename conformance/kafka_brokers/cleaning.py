"""Have the log cleaner go over a partition, read its segment files, and edit them while the broker is down.

The cleaner leaves the active segment alone.  So a record of ours is appended
that no longer fits into it, the filler, which then is the only one in a new
segment; and `cleaner-offset-checkpoint` shows when the cleaner has been over
everything before.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from hashlib import shake_128
from pathlib import Path
from typing import Final

from kafka_brokers.interface import Broker, NoBroker
from kafka_brokers.releases import find_release
from kafka_brokers.wire import BrokerError, Client, ConnectionClosed, TopicPartition, tables
from kafka_brokers.wire.client import PAUSE
from kafka_records import Batch, Record, encode
from kafka_records.constants import MAGIC_VALUE_V0, MAGIC_VALUE_V2, NO_TIMESTAMP, RECORD_BATCH_OVERHEAD
from kafka_records.log import split_entries

# Bytes: what segment.bytes cannot be less than since 4.0 (KIP-1030), and what leaves room for a filler below
# message.max.bytes of earlier releases, whose cleaners end at a larger message (KAFKA-6834).
SEGMENT_BYTES: Final = 1024 * 1024
SEGMENT_BYTES_BEFORE_4: Final = 900_000
# A broker that looks for something to clean ten times a second, rather than every 15 s.
EAGER: Final[Mapping[str, str]] = {"log.cleaner.backoff.ms": "100"}
FIRST_WITH_LARGE_SEGMENTS: Final = 4
FILLER_KEY: Final = b"kafkaproof filler"
# Bytes by which the two varints before a value grow with it.
LONGER_LENGTHS: Final = 8
# Seconds.
LIMIT: Final = 30.0
# Read by every release, and reset to what is on the disk when it starts.
CHECKPOINT: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LAST_PRODUCE_BEFORE_V2: Final = 2


class NotCleaned(NoBroker):
    """The cleaner has not been over a partition, however long it was waited for."""


def segment_bytes(release: str) -> int:
    """segment.bytes of a topic that is to be cleaned."""
    return (
        SEGMENT_BYTES if int(release.split(".", maxsplit=1)[0]) >= FIRST_WITH_LARGE_SEGMENTS else SEGMENT_BYTES_BEFORE_4
    )


def compacted(release: str) -> dict[str, str]:
    """Settings of a topic that can be cleaned at any moment; delete.retention.ms is the caller's to choose."""
    return {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0",
        "segment.bytes": str(segment_bytes(release)),
        "file.delete.delay.ms": "0",
    }


def segment_files(broker: Broker, partition: TopicPartition) -> list[Path]:
    """The segment files of *partition*, in the order of their base offsets, which are their names (SEG-01).

    Raises:
        NoBroker: its disk is not ours to see, or the partition is not there.
    """
    if broker.data_directory is None:
        raise NoBroker("the broker's disk cannot be seen", hint="start it here rather than by --bootstrap")
    folder = broker.data_directory / f"{partition.topic}-{partition.partition}"
    found = sorted(folder.glob("*.log"))
    if not found:
        raise NoBroker(f"{folder.name} has no segment files")
    return found


def read_segments(broker: Broker, partition: TopicPartition) -> bytes:
    """All segment files of *partition*, end to end.  Raises `NoBroker`."""
    return b"".join(each_segment(broker, partition))


def each_segment(broker: Broker, partition: TopicPartition) -> list[bytes]:
    """The segment files of *partition*, one by one.  Raises `NoBroker`."""
    while True:
        try:
            return [path.read_bytes() for path in segment_files(broker, partition)]
        except FileNotFoundError:
            continue  # the cleaner has just put another in its place


def active_base_offset(broker: Broker, partition: TopicPartition) -> int:
    """The base offset of the last segment: the first offset that is not cleaned.  Raises `NoBroker`."""
    return int(segment_files(broker, partition)[-1].stem)


def cleaned_up_to(broker: Broker, partition: TopicPartition) -> int:
    """The first offset that the cleaner has not been over; 0 before it began.  Raises `NoBroker`."""
    segment_files(broker, partition)
    assert broker.data_directory is not None
    path = broker.data_directory / CHECKPOINT
    # A version, a count, and a line for each partition: topic, index, offset.
    lines = path.read_text(encoding="utf-8").splitlines()[2:] if path.exists() else ()
    for line in lines:
        topic, index, offset = line.rsplit(" ", 2)
        if (topic, int(index)) == partition:
            return int(offset)
    return 0


def await_cleaned(broker: Broker, partition: TopicPartition, *, limit: float = LIMIT) -> None:
    """Wait until the cleaner has been over everything before the active segment.

    A transaction that is still open keeps the cleaner away; with one this fails.

    Raises:
        NotCleaned: it has not after *limit* seconds.
    """
    end = time.monotonic() + limit
    while cleaned_up_to(broker, partition) < active_base_offset(broker, partition):
        if time.monotonic() > end:
            raise NotCleaned(f"the cleaner has not been over {partition.topic}-{partition.partition} in {limit:g} s")
        time.sleep(PAUSE)


def force_clean(
    broker: Broker, client: Client, partition: TopicPartition, *, limit: float = LIMIT, largest: int | None = None
) -> None:
    """Have all of *partition*, of a topic that is `compacted`, cleaned in one round that begins now.

    A filler is appended, which begins a segment and fills it.  So what is
    produced later begins another, and the filler gets a round of its own at some
    time: that one is waited for first, if this is not the first call.

    On a topic that takes no batch above *largest* bytes, several smaller fillers
    end the segment, and the last one begins another.  It does not fill that: what
    is produced later follows it there, and both get a round when that segment ends.

    Raises:
        NotCleaned: the cleaner has not done it after *limit* seconds.
        NoBroker: the filler could not be sent, or began no segment.
        BrokerError: the filler was refused.
    """
    await_cleaned(broker, partition, limit=limit)
    room = segment_bytes(broker.release)
    size = room if largest is None else min(room, largest)
    for _ in range(-(-room // size)):
        last = _append_filler(broker, client, partition, size)
        if active_base_offset(broker, partition) == last:
            break
    else:
        raise NoBroker(f"the filler of {partition.topic} went into the same segment", hint="segment.bytes")
    await_cleaned(broker, partition, limit=limit)


def _append_filler(broker: Broker, client: Client, partition: TopicPartition, size: int) -> int:
    """The offset of a new filler of *size* bytes."""
    magic = max(find_release(broker.release).magics)
    newest = client.newest(tables.PRODUCE)
    version = newest if magic == MAGIC_VALUE_V2 else min(newest, LAST_PRODUCE_BEFORE_V2)
    payload = filler(magic, size, now_ms=time.time_ns() // 1_000_000)
    answer = client.produce({partition: payload}, version)
    if answer is None or isinstance(answer, ConnectionClosed):
        raise NoBroker(f"Kafka {broker.release} closed the connection on a filler")
    if answer[partition].error_code:
        raise BrokerError(answer[partition].error_code, f"a filler for {partition.topic}-{partition.partition}")
    return answer[partition].base_offset


def filler(magic: int, size: int, *, now_ms: int) -> bytes:
    """One record under `FILLER_KEY`, *size* bytes in all or a few less, which no codec makes smaller."""
    value = shake_128(FILLER_KEY).digest(size)
    envelope = len(_one_record(magic, b"", now_ms)) + LONGER_LENGTHS
    return _one_record(magic, value[envelope:], now_ms)


def _one_record(magic: int, value: bytes, now_ms: int) -> bytes:
    timestamp = NO_TIMESTAMP if magic == MAGIC_VALUE_V0 else now_ms
    return encode(
        Batch(
            magic=magic,
            base_offset=0,
            last_offset=0,
            timestamp_type="none" if magic == MAGIC_VALUE_V0 else "create",
            max_timestamp=timestamp,
            records=(Record(0, timestamp, FILLER_KEY, value),),
        )
    )


def without_fillers(data: bytes) -> bytes:
    """*data* without the fillers in it."""
    found = [data[start:end] for start, end in split_entries(data)]
    tail = data[sum(map(len, found)) :]
    return b"".join(entry for entry in found if not is_filler(entry)) + tail


def is_filler(entry: bytes) -> bool:
    """Whether an entry is a filler of ours, uncompressed as it came."""
    return FILLER_KEY in entry[: 2 * RECORD_BATCH_OVERHEAD]


def edit_segment(broker: Broker, partition: TopicPartition, at: int, data: bytes, *, cut: bool = False) -> None:
    """Kill *broker*, write *data* over the segments of *partition* from byte *at* on, and start it again.

    Args:
        broker: one whose disk can be seen.
        partition: whose segments are changed.
        at: counted from the start of the first file; data after the last byte goes into the last file.
        data: what stands there then.
        cut: whether the file ends after *data*.

    Raises:
        NoBroker: its disk cannot be seen, or it does not start with what it finds.
    """
    broker.kill()
    write_over(broker, partition, at, data, cut=cut)
    start_unclean(broker)


def write_over(broker: Broker, partition: TopicPartition, at: int, data: bytes, *, cut: bool = False) -> None:
    """Edit the segment files of a stopped broker, for `edit_segment`."""
    path, at = _place(segment_files(broker, partition), at)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)
        if cut:
            file.truncate()


def change_files(broker: Broker, partition: TopicPartition, files: Mapping[str, bytes | None]) -> None:
    """Give *files* of a stopped broker's *partition* new content by name; None removes one, if it is there."""
    if not files:
        return
    folder = segment_files(broker, partition)[0].parent
    for name, data in files.items():
        if data is None:
            (folder / name).unlink(missing_ok=True)
        else:
            (folder / name).write_bytes(data)


def plant(broker: Broker, logs: Mapping[TopicPartition, bytes]) -> None:
    """Kill *broker*, put other bytes into the last segment of each partition, and start it again.

    Raises:
        NoBroker: its disk cannot be seen, or it does not start with what it finds.
    """
    files = {partition: segment_files(broker, partition)[-1] for partition in logs}
    broker.kill()
    for partition, path in files.items():
        path.write_bytes(logs[partition])
    start_unclean(broker)


def _place(files: list[Path], at: int) -> tuple[Path, int]:
    """The file that holds byte *at* of them all, and where in it."""
    for path in files[:-1]:
        if at < (size := path.stat().st_size):
            return path, at
        at -= size
    return files[-1], at


def start_unclean(broker: Broker) -> None:
    """Start *broker* as after a crash: with recovery."""
    assert broker.data_directory is not None
    (broker.data_directory / CLEAN_SHUTDOWN).unlink(missing_ok=True)
    broker.restart()
