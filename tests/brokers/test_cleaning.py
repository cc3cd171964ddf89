"""Fillers, and what is read from the disk of a broker that is only a folder here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest

from kafka_brokers.cleaning import (
    CHECKPOINT,
    CLEAN_SHUTDOWN,
    FILLER_KEY,
    active_base_offset,
    await_cleaned,
    change_files,
    cleaned_up_to,
    compacted,
    edit_segment,
    filler,
    plant,
    read_segments,
    without_fillers,
)
from kafka_brokers.interface import NoBroker
from kafka_brokers.wire import Client, TopicPartition
from kafka_records import Batch, Record, decode, encode

PARTITION = TopicPartition("topic", 3)
NOW = 1_700_000_000_000


class Folder:
    """A broker's disk, and how often the broker was killed and started."""

    def __init__(self, data_directory: Path | None) -> None:
        self.data_directory = data_directory
        self.bootstrap = "nowhere:1"
        self.release = "4.4.0"
        self.did: list[str] = []

    def client(self) -> Client:
        """This broker has no client."""
        raise NotImplementedError

    def create_topics(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """Nothing is created."""
        raise NotImplementedError

    def kill(self) -> None:
        """Remember it."""
        self.did.append("kill")

    def shut_down(self) -> None:
        """Remember it."""
        self.did.append("shut down")

    def restart(self, *, clean: bool = False) -> None:
        """Remember it."""
        self.did.append("clean restart" if clean else "restart")

    def dump_log_segments(self, *_: str) -> str:
        """There is no tool."""
        raise NotImplementedError

    def stop(self) -> None:
        """There is nothing to stop."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


@pytest.fixture
def broker(tmp_path: Path) -> Folder:
    """Two segments of a partition, and a checkpoint that names it among others."""
    folder = tmp_path / "topic-3"
    folder.mkdir()
    (folder / f"{7:020}.log").write_bytes(b"active")
    (folder / f"{0:020}.log").write_bytes(b"closed")
    (folder / f"{0:020}.index").write_bytes(b"index")
    (tmp_path / CHECKPOINT).write_text("0\n2\ntopic 13 9\ntopic 3 5\n", encoding="utf-8")
    (tmp_path / CLEAN_SHUTDOWN).touch()
    return Folder(tmp_path)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_fillers_fill(magic: int) -> None:
    """A filler has the requested size, or a few bytes less, and can be read."""
    for size in (900_000, 1024 * 1024):
        data = filler(magic, size, now_ms=NOW)
        assert size - 8 <= len(data) <= size
        (batch,) = decode(data)
        assert (batch.magic, batch.records[0].key) == (magic, FILLER_KEY)


def test_fillers_are_taken_away() -> None:
    """Everything but the fillers stays, including an incomplete tail."""
    other = encode(Batch(magic=2, base_offset=1, last_offset=1, max_timestamp=1, records=(Record(1, 1, b"k", b"v"),)))
    assert without_fillers(filler(1, 5000, now_ms=NOW) + other + filler(2, 5000, now_ms=NOW) + b"\0") == other + b"\0"


def test_settings_by_release() -> None:
    """Before 4.0 segments are small enough for the largest message, since then as small as they may be."""
    assert (compacted("0.8.2.2")["segment.bytes"], compacted("4.4.0")["segment.bytes"]) == ("900000", "1048576")


def test_segment_files_and_checkpoint(broker: Folder) -> None:
    """Segments are read in order; the checkpoint of this partition counts, not that of its neighbours."""
    assert read_segments(broker, PARTITION) == b"closedactive"
    assert active_base_offset(broker, PARTITION) == 7
    assert cleaned_up_to(broker, PARTITION) == 5


def test_files_of_a_partition(broker: Folder, tmp_path: Path) -> None:
    """Files of a partition get another content, or are gone, which they may have been before."""
    change_files(broker, PARTITION, {f"{0:020}.index": b"other", f"{7:020}.log": None, "9.snapshot": None})
    assert {path.name: path.read_bytes() for path in (tmp_path / "topic-3").iterdir()} == {
        f"{0:020}.index": b"other",
        f"{0:020}.log": b"closed",
    }


def test_a_partition_that_was_never_cleaned(broker: Folder, tmp_path: Path) -> None:
    """Without a line in the checkpoint, or without a checkpoint, nothing has been cleaned."""
    (tmp_path / CHECKPOINT).write_text("0\n1\ntopic 13 9\n", encoding="utf-8")
    assert cleaned_up_to(broker, PARTITION) == 0
    (tmp_path / CHECKPOINT).unlink()
    assert cleaned_up_to(broker, PARTITION) == 0


def test_waiting_for_the_cleaner(broker: Folder, tmp_path: Path) -> None:
    """It ends when the checkpoint is at the active segment, or at the limit."""
    with pytest.raises(NoBroker, match=r"has not been over topic-3 in 0\.1 s"):
        await_cleaned(broker, PARTITION, limit=0.1)
    (tmp_path / CHECKPOINT).write_text("0\n1\ntopic 3 7\n", encoding="utf-8")
    await_cleaned(broker, PARTITION, limit=0)


@pytest.mark.parametrize(
    ("at", "cut", "left"),
    [
        (1, False, b"cXXsedactive"),
        (7, False, b"closedaXXive"),
        (7, True, b"closedaXX"),
        (14, False, b"closedactive\0\0XX"),
    ],
)
def test_edits(broker: Folder, tmp_path: Path, at: int, cut: bool, left: bytes) -> None:
    """Bytes are written over those of the right file while the broker is dead, and it does not start cleanly."""
    edit_segment(broker, PARTITION, at, b"XX", cut=cut)
    assert read_segments(broker, PARTITION) == left
    assert broker.did == ["kill", "restart"]
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


def test_planting(broker: Folder) -> None:
    """The active segment is replaced."""
    plant(broker, {PARTITION: b"new"})
    assert read_segments(broker, PARTITION) == b"closednew"


def test_disks_that_cannot_be_seen(tmp_path: Path) -> None:
    """Without a disk, or without the partition on it, nothing can be read."""
    with pytest.raises(NoBroker, match="cannot be seen"):
        read_segments(Folder(None), PARTITION)
    with pytest.raises(NoBroker, match="no segment files"):
        read_segments(Folder(tmp_path), PARTITION)
