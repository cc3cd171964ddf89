"""An audit judges keys and values of internal topics, and the snapshots of KRaft."""

from pathlib import Path

import pytest
from tests.pipeline.topic_damage import CLEAN, DAMAGED, METADATA, OFFSETS, TOPIC, batch_of, log_file, snapshot

from kafka_pipeline.audit.findings import KINDS, AuditFinding
from kafka_pipeline.audit.joining import AuditReport
from kafka_pipeline.audit.local import audit_directory
from kafka_pipeline.audit.stretch import judge_stretch
from kafka_pipeline.segments.files import Stretch

NOW = 1_700_000_100_000
SNAPSHOT = f"{3:020}-{1:010}.checkpoint"


def findings(report: AuditReport) -> list[AuditFinding]:
    """All that are listed."""
    return [each for log in report.logs for each in log.listed]


def damaged_log(folder: Path, topic: str) -> Path:
    """A log with a batch for each damaged record of *topic*, after one that is right."""
    clean = [(key, value) for name, key, value in CLEAN if name == topic]
    contents = [*clean, *((each.key, each.value) for each in DAMAGED if each.topic == topic)]
    return log_file(folder, topic, b"".join(batch_of(at, each) for at, each in enumerate(contents)))


@pytest.mark.parametrize("topic", sorted({each.topic for each in DAMAGED}))
def test_damaged_records_are_found(topic: str, tmp_path: Path) -> None:
    """Each with its kind, its offset and what is wrong; those that are right are no findings."""
    path = damaged_log(tmp_path, topic)
    wanted = [each for each in DAMAGED if each.topic == topic]
    found = findings(audit_directory(tmp_path, now_ms=NOW))
    clean = sum(name == topic for name, _, _ in CLEAN)
    assert [(each.kind, each.offset) for each in found] == [(each.kind, clean + at) for at, each in enumerate(wanted)]
    for each, expected in zip(found, wanted, strict=True):
        assert expected.words in each.message
        assert (each.rule, each.severity) == KINDS[each.kind][:2]
        assert each.file == path.as_posix()


@pytest.mark.columnar
@pytest.mark.parametrize("topic", sorted({each.topic for each in DAMAGED}))
def test_both_readers_find_the_same(topic: str, tmp_path: Path) -> None:
    """Compiled kernels and the reference."""
    pytest.importorskip("numba")
    path = damaged_log(tmp_path, topic)
    stretch, size = Stretch(path.as_posix(), 0, path.stat().st_size), path.stat().st_size
    one, other = (judge_stretch(stretch, size, last=True, now_ms=NOW, kernels=which) for which in (False, True))
    assert one.listed == other.listed != []


def test_other_topics_are_not_read(tmp_path: Path) -> None:
    """The same bytes in a topic of users are theirs."""
    log_file(tmp_path, "orders", damaged_log(tmp_path, OFFSETS).read_bytes())
    found = findings(audit_directory(tmp_path / "orders-0", now_ms=NOW))
    assert found == []


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (snapshot(TOPIC), []),
        (snapshot(TOPIC, footer=False), [("metadata_snapshot", "its last record is no control record")]),
        (snapshot(TOPIC, header=False), [("metadata_snapshot", "its first record is no control record")]),
        (snapshot(TOPIC + b"?"), [("metadata_record", "1 bytes after the last field")]),
        (b"", [("metadata_snapshot", "it has no batch")]),
        (snapshot(TOPIC)[:-5], [("tail", "bytes, and the entry is larger"), ("metadata_snapshot", "its last record")]),
        (
            snapshot(TOPIC)[:70] + b"?" + snapshot(TOPIC)[71:],
            [("unreadable", "corrupt"), ("metadata_snapshot", "first")],
        ),
    ],
    ids=["right", "no footer", "no header", "broken record", "empty", "cut", "changed"],
)
def test_snapshots_are_judged(data: bytes, expected: list[tuple[str, str]], tmp_path: Path) -> None:
    """Beside the log of KRaft, as indexes are; each finding names the file of the snapshot."""
    log_file(tmp_path, METADATA, batch_of(3, (None, TOPIC)))
    path = log_file(tmp_path, METADATA, data, SNAPSHOT)
    report = audit_directory(tmp_path, now_ms=NOW)
    found = sorted((each for each in findings(report) if each.file == path.as_posix()), key=lambda each: each.kind)
    expected = sorted(expected)
    assert [each.kind for each in found] == [kind for kind, _ in expected]
    for each, (_, words) in zip(found, expected, strict=True):
        assert words in each.message
    assert SNAPSHOT[-11:] in report.logs[0].segments[0].beside


def test_one_snapshot_by_its_name(tmp_path: Path) -> None:
    """A snapshot can be audited by itself: its records, and its ends."""
    path = log_file(tmp_path, METADATA, snapshot(TOPIC + b"?", footer=False), SNAPSHOT)
    kinds = {each.kind for each in findings(audit_directory(path, now_ms=NOW))}
    assert kinds == {"metadata_record", "metadata_snapshot"}


def test_snapshots_that_cannot_be_read(tmp_path: Path) -> None:
    """A directory in place of a snapshot is a finding; one that is gone is none, since KRaft deletes old ones."""
    log = log_file(tmp_path, METADATA, batch_of(3, (None, TOPIC)))
    log.with_name(SNAPSHOT).mkdir()
    log.with_name(f"{4:020}-{1:010}.checkpoint").symlink_to("nowhere")
    assert [(each.kind, each.file) for each in findings(audit_directory(tmp_path, now_ms=NOW))] == [
        ("not_read", log.with_name(SNAPSHOT).as_posix())
    ]
