"""An audit finds each kind of damage, by its place and rule, in a log that a real broker wrote; and nothing else."""

import os
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("numba")

from tests.pipeline import audit_damage, audit_index_damage, topic_damage
from tests.pipeline.recorded import DAMAGE, Log, audited, found, fresh, last_offset, seal

from kafka_pipeline.audit.findings import KINDS
from kafka_pipeline.audit.local import tasks_of
from kafka_pipeline.audit.stretch import judge_stretch
from kafka_pipeline.segments.listing import find_segments
from kafka_records import Batch, Record, encode

pytestmark = pytest.mark.columnar
MODULES = (audit_damage, audit_index_damage)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A fresh copy."""
    return fresh(tmp_path)


def test_a_log_that_a_broker_wrote_is_clean(log: Log) -> None:
    """Nothing is wrong with it, and what is in it is counted."""
    report = audited(log)
    assert [(each.kind, each.offset) for each in report.listed] == [("open", 1992)]
    assert (report.first_offset, report.last_offset, report.missing, report.producers) == (0, 1992, 0, 8)
    numbers = report.counts.numbers
    assert (numbers["entries"], numbers["records"], numbers["control"], numbers["transactional"]) == (50, 1993, 12, 25)
    assert set(report.counts.formats) == {f"v2 {codec}" for codec in ("none", "gzip", "snappy", "lz4", "zstd")}
    assert sum(report.counts.sizes.values()) == sum(report.counts.records.values()) == 50
    assert sum(report.counts.hours.values()) == 1993
    assert [segment.last_offset for segment in report.segments] == [254, 1268, 1704, 1950, 1992]
    assert report.segments[1].beside == [".index", ".timeindex", ".snapshot"]
    assert all(segment.read == segment.bytes for segment in report.segments)


@pytest.mark.parametrize("split", [1 << 28, 3000], ids=["whole", "split"])
@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found(name: str, split: int, log: Log) -> None:
    """Exactly what was done to the log is found, at its byte, however the log is cut."""
    expected = DAMAGE[name](log)
    report = audited(log, split=split)
    assert found(report) == sorted(expected)
    for each in report.listed:
        if each.kind in KINDS:
            assert (each.rule, each.severity) == KINDS[each.kind][:2]


def test_any_damage_is_found_however_the_log_is_cut(tmp_path: Path) -> None:
    """Headers and files with bytes drawn at random: the audit goes through, and cuts make no difference."""
    draw = Random(7)
    kinds: set[str] = set()
    for number in range(12):
        log = fresh(tmp_path / str(number))
        for place in draw.sample(range(50), 3):
            data = bytearray(log.batch(place))
            data[draw.randrange(21, 61)] = draw.choice((0, 1, 127, 128, 255))
            log.put(place, seal(bytes(data)))
        path = draw.choice([each for each in sorted(log.folder.iterdir()) if each.suffix != ".log"])
        data = bytearray(path.read_bytes())
        data[draw.randrange(min(len(data), 100))] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        whole, cut = audited(log), audited(log, split=3000)
        assert (whole.found, whole.counts, found(whole)) == (cut.found, cut.counts, found(cut))
        kinds |= {each.kind for each in whole.listed}
    assert len(kinds) > 8


def test_there_is_damage_of_every_kind(tmp_path: Path) -> None:
    """Each kind that an audit knows is shown by one of the tests above, or below."""
    shown = {"open", "gap_in_contiguous", "gone"} | topic_damage.KINDS_SHOWN
    for number, name in enumerate(DAMAGE):
        shown |= {kind for kind, _, _ in DAMAGE[name](fresh(tmp_path / str(number)))}
    assert shown >= set(KINDS)


@pytest.mark.parametrize("what", ["dangling link", "pipe", "device", "link to itself"])
@pytest.mark.timeout(60)
def test_the_rest_is_audited_where_a_segment_cannot_be_read(log: Log, what: str) -> None:
    """A segment that is no regular file is a finding, and nothing waits for it or reads it without end."""
    path = log.folder / f"{5000:020}.log"
    if what == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"dangling link": "nowhere", "device": "/dev/zero", "link to itself": path.name}[what])
    report = audited(log)

    assert [(each.kind, each.severity) for each in report.listed if each.file == path.as_posix()] == [
        ("not_read", "error")
    ]
    assert report.counts.numbers["records"] == 1993


@pytest.mark.parametrize("size", [1 << 28, 300])
def test_a_segment_that_vanishes_is_a_note(log: Log, size: int) -> None:
    """A broker deletes segments while it runs; so does a directory."""
    tasks = tasks_of(find_segments([log.folder.as_posix()]), size)
    log.files[1].unlink()
    summaries = [judge_stretch(task.stretch, task.size, last=task.last, now_ms=0) for shard in tasks for task in shard]

    kinds = {summary.path: {each.kind for each in summary.listed} for summary in summaries}
    assert [name for name, found in kinds.items() if "gone" in found] == [sorted(kinds)[1]]
    assert sum(summary.counts.numbers.get("records", 0) for summary in summaries) == 1993 - 1014


def test_a_segment_that_vanishes_before_it_is_cut_is_a_note(log: Log) -> None:
    """Before its stretches are known."""
    segments = find_segments([log.folder.as_posix()])
    log.files[1].unlink()
    tasks = [task for shard in tasks_of(segments, 300) for task in shard]
    stretches = [task.stretch for task in tasks if task.stretch.path == segments[1].path]

    assert [(each.start, each.end) for each in stretches] == [(0, segments[1].size)]


def test_in_a_contiguous_log_gaps_are_errors(log: Log) -> None:
    """Where the topic is not compacted, what is gone was lost."""
    log.without_indexes()
    log.put(12, b"")
    report = audited(log, contiguous=True)
    assert [each.severity for each in report.listed if each.kind == "gap_in_contiguous"] == ["error"]
    assert (report.missing, report.gaps, report.worst()) == (61, 1, "error")


@pytest.mark.parametrize("what", ["gone", "unreadable"])
def test_snapshots_are_not_held_against_what_is_not_there(log: Log, what: str) -> None:
    """Snapshots are not checked where batches were cleaned or cannot be read: the broker's state is unknown there."""
    snapshot = log.other(2, ".snapshot")
    twice = snapshot.read_bytes()
    number = next(each for each in range(50) if last_offset(log.batch(each)) == 599)
    log.put(number, b"" if what == "gone" else log.batch(number)[:-1] + b"?")
    log.without_indexes()
    snapshot.write_bytes(twice)
    kinds = {each.kind for each in audited(log).listed}
    assert kinds >= {"gap" if what == "gone" else "unreadable"}
    assert "snapshot_state" not in kinds


def test_many_findings_are_counted_and_few_listed(tmp_path: Path) -> None:
    """A log that is wrong everywhere does not take all memory."""
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(one_batch() * 3000)
    report = audited(Log(tmp_path))
    assert report.found["overlap OFF-14 error"] == 2999
    assert sum(each.kind == "overlap" for each in report.listed) == 1000


def one_batch() -> bytes:
    """A small batch."""
    return encode(Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=5, partition_leader_epoch=0,
                        records=(Record(0, 5, None, b"v"),)))  # fmt: skip


def test_an_empty_segment_is_clean(tmp_path: Path) -> None:
    """As a broker leaves one that has just begun."""
    (tmp_path / f"{0:020}.log").write_bytes(b"")
    report = audited(Log(tmp_path))
    assert (report.listed, report.first_offset, report.counts.numbers) == ([], -1, {})
