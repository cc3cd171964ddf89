"""Log directories: which segments there are, where they can be cut, what may be passed over, and the tables."""

from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("numba")

import numpy as np
import pyarrow.fs as pafs
from tests.pipeline.recorded import ARCHIVE
from tests.unpacking import unpack

from kafka_corpus.authoring.logs import keyed, on_disk
from kafka_pipeline.columnar import chunk as tables
from kafka_pipeline.columnar import scan
from kafka_pipeline.columnar.scan import mapped, runs_in, scan_stretch
from kafka_pipeline.reading import ALL, Bounds
from kafka_pipeline.segments.files import (
    OFFSETS,
    RemoteFile,
    Stretch,
    among,
    indexed,
    pack_stretches,
    split_segment,
    whole_entries,
    without_zeros,
)
from kafka_pipeline.segments.listing import CannotRead, SegmentFile, find_segments, local_path
from kafka_records import Record, encode
from kafka_records.constants import TimestampType
from kafka_records.model import Batch

pytestmark = pytest.mark.columnar


def message(offset: int, magic: int, timestamp: int = -1) -> bytes:
    """A message of v0 or v1."""
    record = Record(offset, timestamp, b"key", b"value")
    kind: TimestampType = "none" if magic == 0 else "create"
    return encode(Batch(magic=magic, base_offset=offset, last_offset=offset, timestamp_type=kind,
                        max_timestamp=timestamp, records=(record,)))  # fmt: skip


def log_of(count: int) -> list[bytes]:
    """Entries of all formats, three offsets each of v2."""
    entries = [message(0, 0), message(1, 1, 5), message(2, 1, 9)]
    entries += [on_disk(*(keyed(3 * at + more, b"key") for more in range(3))) for at in range(1, count)]
    return entries


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A partition's directory with two segments and other files."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    entries = log_of(40)
    (folder / f"{0:020}.log").write_bytes(b"".join(entries[:22]))
    (folder / f"{60:020}.log").write_bytes(b"".join(entries[22:]))
    for name in (f"{0:020}.index", f"{0:020}.log.deleted", "leader-epoch-checkpoint", "notes.log"):
        (folder / name).write_bytes(b"x" * 100)
    return folder


def offsets(path: Path, bounds: Bounds = ALL, window: int = 1 << 20) -> list[int]:
    """The offsets that a read within *bounds* gives."""
    with mapped(path) as source:
        chunks = list(scan_stretch(source, bounds=bounds, window=window))
    return [offset for chunk in chunks for offset in chunk.records.column("offset").to_pylist()]


def test_segments_are_found_in_the_order_of_their_offsets(log: Path) -> None:
    """Only segment files are found below a directory; a file that is named itself is taken whatever its name."""
    found = find_segments([str(log.parent)])
    assert [(each.name, each.base_offset, each.log) for each in found] == [
        (f"{base:020}.log", base, log.as_posix()) for base in (0, 60)
    ]
    assert find_segments([log.as_uri(), str(log)]) == found
    assert [each.base_offset for each in find_segments([str(log / "notes.log")])] == [None]


@pytest.mark.parametrize("place", ["nowhere", "file:///nowhere", "empty", "no-such-system://host/logs"])
def test_what_cannot_be_read_is_said(place: str, tmp_path: Path) -> None:
    """A path that is not there, has no segments, or is on no file system that is known, is one error in one line."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(CannotRead, match=place) as caught:
        find_segments([str(tmp_path / place) if ":" not in place else place])
    assert "\n" not in str(caught.value)


def test_addresses_and_paths() -> None:
    """`file:` is this machine, another host is not, and a colon alone makes no address."""
    assert local_path("file:/var/log") == Path("/var/log")
    assert local_path("C:logs") == Path("C:logs")
    assert local_path("file://elsewhere/var") is None
    assert local_path("s3a://bucket/logs") is None


def test_cuts_are_between_entries(log: Path) -> None:
    """Stretches are adjacent, all but the last at least as large as requested, and each alone reads as its part."""
    (segment, _) = find_segments([str(log)])
    stretches = split_segment(segment, 300)
    assert len(stretches) > 4
    assert [each.start for each in stretches[1:]] == [each.end for each in stretches[:-1]]
    assert (stretches[0].start, stretches[-1].end) == (0, segment.size)
    assert all(each.end - each.start >= 300 for each in stretches[:-1])
    with mapped(Path(segment.path)) as source:
        parts = [chunk for each in stretches for chunk in scan_stretch(source, each.start, each.end)]
    read = [row for chunk in parts for row in chunk.records.to_pylist()]
    assert read == [row for chunk in scan(Path(segment.path)) for row in chunk.records.to_pylist()]
    assert split_segment(segment, segment.size) == [Stretch(segment.path, 0, segment.size)]


def test_no_cuts_after_an_entry_without_a_size(log: Path) -> None:
    """The last stretch reaches to the end of the file where a size is wrong, so the damage is seen once."""
    path = log / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    third = runs_in(bytes(data), most=1).places[6][0]
    data[third + 8 : third + 12] = bytes(4)
    path.write_bytes(data)
    stretches = split_segment(SegmentFile(path.as_posix(), len(data)), 100)
    assert stretches[-1].end == len(data)
    assert stretches[-1].start <= third
    with mapped(path) as source:
        broken = [row for each in stretches for chunk in scan_stretch(source, each.start, each.end)
                  for row in chunk.broken]  # fmt: skip
        assert whole_entries(source, 0, len(data)) == len(data)
    assert [(row.position, row.rule) for row in broken] == [(third, "FRM-05")]


@pytest.mark.parametrize("window", [150, 1 << 20])
@pytest.mark.parametrize(
    "bounds",
    [Bounds(first_offset=30), Bounds(last_offset=30), Bounds(31, 62), Bounds(first_offset=10**6), Bounds(2, 2)],
)
def test_what_is_passed_over_is_not_wanted(bounds: Bounds, window: int, log: Path) -> None:
    """Every record within the bounds is read, and only batches without such a record are not."""
    for base in (0, 60):
        path = log / f"{base:020}.log"
        everything, read = offsets(path), offsets(path, bounds, window)
        wanted = [offset for offset in everything if bounds.first_offset <= offset <= bounds.last_offset]
        assert set(wanted) <= set(read)
        assert len(read) <= len(wanted) + 4 + 3 * (bounds.last_offset < 10 and base == 0)


def test_old_times_are_passed_over(tmp_path: Path) -> None:
    """A batch whose newest record is too old is not read; v0, which has no times, always is."""
    path = tmp_path / "log"
    path.write_bytes(b"".join(log_of(10)))
    first = keyed(15, b"key").timestamp
    assert offsets(path, Bounds(first_timestamp=first)) == [0, *range(15, 30)]


def test_what_is_broken_is_never_passed_over(tmp_path: Path) -> None:
    """Bounds or none, an unknown magic is an error, and what follows it is read."""
    entries = log_of(6)
    entries[4] = entries[4][:16] + b"\x09" + entries[4][17:]
    path = tmp_path / "log"
    path.write_bytes(b"".join(entries))
    with mapped(path) as source:
        chunks = list(scan_stretch(source, bounds=Bounds(first_offset=12)))
    assert [row.rule for chunk in chunks for row in chunk.broken] == ["FRM-08"]
    assert [row for chunk in chunks for row in chunk.records.column("offset").to_pylist()][-3:] == [15, 16, 17]


def test_segments_that_hold_no_such_offset_are_left_out(log: Path) -> None:
    """By their names alone; the last one has no end."""
    first, second = find_segments([str(log)])
    assert among([first, second], Bounds(first_offset=60)) == [second]
    assert among([first, second], Bounds(last_offset=59)) == [first]
    assert among([first, second], Bounds(59, 60)) == [first, second]
    assert among([first, second], Bounds(first_offset=10**9)) == [second]


def test_tasks_have_about_the_same_size() -> None:
    """Small stretches share a task, none is divided, and the order stays."""
    stretches = [Stretch(str(at), 0, size) for at, size in enumerate((10, 80, 20, 500, 1, 1))]
    tasks = pack_stretches(stretches, 100)
    assert [[each.end for each in task] for task in tasks] == [[10, 80], [20], [500], [1, 1]]


def test_whole_entries_end_before_one_that_is_being_written(tmp_path: Path) -> None:
    """The end of what is whole, however large the entry that is not."""
    data = b"".join(log_of(5))
    path = tmp_path / "log"
    path.write_bytes(data[:-7])
    with mapped(path) as source:
        assert whole_entries(source, 0, len(data) - 7) == len(data) - len(log_of(5)[-1])


def test_a_file_elsewhere_reads_the_same(log: Path) -> None:
    """Windows that Arrow's file systems read give what mappings give; a file that has become shorter is an error."""
    path = log / f"{0:020}.log"
    with pafs.LocalFileSystem().open_input_file(str(path)) as file:
        reached = RemoteFile(file)
        chunks = list(scan_stretch(reached, window=200))
        with pytest.raises(OSError, match="was longer"):
            reached.window(0, reached.size + 1)
    rows = [row for chunk in chunks for row in chunk.records.to_pylist()]
    assert rows == [row for chunk in scan(path) for row in chunk.records.to_pylist()]


@pytest.fixture
def recorded(tmp_path: Path) -> SegmentFile:
    """A segment that a real broker wrote, with the index that it wrote beside it."""
    unpack(ARCHIVE, tmp_path)
    return find_segments([str(tmp_path)])[1]


def cuts_of(segment: SegmentFile, most: int) -> list[int]:
    """Where its index has a segment cut, which is read as files elsewhere are."""
    with pafs.LocalFileSystem().open_input_file(segment.path) as file:
        return list(indexed(RemoteFile(file), segment, most))


def test_an_index_says_where_to_cut(recorded: SegmentFile) -> None:
    """On another machine nothing but the index is read whole, and stretches read as the segment does."""
    cuts = cuts_of(recorded, 3000)
    path = Path(recorded.path)
    begins = [row for chunk in scan(path) for row in chunk.batches.column("position").to_pylist()]

    assert len(cuts) > 2
    assert set(cuts) < set(begins)
    assert all(later - cut >= 3000 for cut, later in pairwise([0, *cuts]))
    with mapped(path) as source:
        ends = pairwise([0, *cuts, recorded.size])
        read = [row for start, end in ends for chunk in scan_stretch(source, start, end)
                for row in chunk.records.to_pylist()]  # fmt: skip
    assert read == [row for chunk in scan(path) for row in chunk.records.to_pylist()]


@pytest.mark.parametrize("damage", ["gone", "empty", "zeros", "moved", "beyond", "offset", "torn"])
def test_an_index_is_not_believed(recorded: SegmentFile, damage: str) -> None:
    """An index that is missing, incomplete or wrong gives no cut, or no cut after the wrong entry."""
    path = Path(recorded.path).with_suffix(".index")
    index = without_zeros(path.read_bytes(), OFFSETS).copy()
    cuts = cuts_of(recorded, 3000)
    (second,) = np.flatnonzero(index["position"] == cuts[1])
    if damage == "moved":
        index["position"][second] += 1
    if damage == "beyond":
        index["position"][second:] = recorded.size
    if damage == "offset":
        index["offset"][second] = 0
    data = {"empty": b"", "zeros": bytes(80)}.get(damage, index.tobytes()[: -3 if damage == "torn" else None])
    path.write_bytes(data)
    if damage == "gone":
        path.unlink()

    kept = {"gone": 0, "empty": 0, "zeros": 0, "torn": len(cuts)}.get(damage, 1)
    assert cuts_of(recorded, 3000) == cuts[:kept]


@pytest.mark.parametrize("view", tables.VIEWS)
def test_tables_hold_what_chunks_hold(view: tables.View, tmp_path: Path) -> None:
    """All columns in plain types, with the file in front; unknown columns are named."""
    entries = log_of(6)
    entries[2] = entries[2][:-1] + b"?"
    path = tmp_path / "log"
    path.write_bytes(b"".join(entries))
    (chunk,) = scan(path)
    made = tables.chunk_table(chunk, view, tables.SCHEMAS[view], "here")
    made.validate(full=True)
    assert made.num_rows
    assert made.drop_columns("file").to_pylist() == getattr(chunk, view).to_pylist()
    assert tables.chunk_table(chunk, view, tables.select_columns(view, ["position"]), "").schema.names == ["position"]
    with pytest.raises(ValueError, match="no column 'other'"):
        tables.select_columns(view, ["other"])
