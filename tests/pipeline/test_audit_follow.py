"""`kafkaproof audit --follow`: each new finding once, whatever a broker does to its segments; and metrics."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.pipeline.readable import broken_log, fresh_log

from kafka_pipeline.audit.findings import KINDS
from kafka_pipeline.audit.follow import AuditTotals, Follower, metrics_text
from kafka_pipeline.audit.local import QUICK_BYTES
from kafka_pipeline.segments.listing import find_segments
from kafka_records import Batch, Record, encode

NOW = 1_795_276_100_000


class Broker:
    """Writes a log as a broker does: appends, rolls, deletes, truncates and replaces."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "orders-0"
        self.folder.mkdir()
        self.next = 0
        self.roll()

    def roll(self) -> Path:
        """Begin a segment."""
        self.segment = self.folder / f"{self.next:020}.log"
        self.segment.touch()
        return self.segment

    def batch(self, *, broken: bool = False, value: bytes = b"value") -> bytes:
        """The next batch."""
        record = Record(self.next, NOW, None, value)
        data = bytearray(encode(Batch(magic=2, base_offset=self.next, last_offset=self.next, max_timestamp=NOW,
                                      partition_leader_epoch=0, records=(record,))))  # fmt: skip
        if broken:
            data[-1] ^= 1
        self.next += 1
        return bytes(data)

    def append(self, *data: bytes) -> None:
        """Add bytes to the last segment."""
        with self.segment.open("ab") as file:
            file.write(b"".join(data))


class Following:
    """A follower that is driven by the test, round by round."""

    def __init__(self, folder: Path, metrics: Path | None = None) -> None:
        self.folder = folder
        self.lines: list[tuple[str, str, int]] = []
        self.notes: list[str] = []
        self.follower = Follower(
            str(folder), now_ms=NOW, metrics=metrics, on_note=self.notes.append,
            on_finding=lambda found: self.lines.append((found.kind, Path(found.file).name, found.position)),
        )  # fmt: skip

    def round(self) -> list[tuple[str, str, int]]:
        """The findings of one round."""
        self.lines.clear()
        self.follower.round(find_segments([str(self.folder)]))
        return list(self.lines)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    """A log that is empty."""
    return Broker(tmp_path)


@pytest.fixture
def following(broker: Broker) -> Following:
    """It has judged some batches."""
    broker.append(*(broker.batch() for _ in range(3)))
    following = Following(broker.folder.parent)
    assert following.round() == []
    assert following.follower.numbers["records"] == 3
    return following


def test_each_finding_is_printed_once(broker: Broker, following: Following) -> None:
    """New batches are judged once, a batch that is being written waits, and what was found is not found again."""
    at = broker.segment.stat().st_size
    whole = broker.batch(broken=True)
    broker.append(whole[:40])
    assert following.round() == []
    broker.append(whole[40:])
    assert following.round() == [("unreadable", broker.segment.name, at)]
    assert following.round() == []
    broker.append(broker.batch())
    assert [kind for kind, _, _ in following.round()] == ["gap"]
    assert following.round() == []
    assert following.follower.numbers["records"] == 4
    assert following.follower.severities == {"error": 1, "warning": 0, "note": 1}


def test_rolled_and_deleted_segments_go_on(broker: Broker, following: Following) -> None:
    """A log goes on in its next segment, and the oldest one is deleted; both are no findings."""
    first = broker.segment
    broker.append(broker.batch())
    broker.roll()
    broker.append(broker.batch())
    assert following.round() == []
    first.unlink()
    broker.append(broker.batch(broken=True))
    assert [kind for kind, _, _ in following.round()] == ["unreadable"]
    assert (following.notes, following.follower.numbers["records"]) == ([], 5)


def test_a_tail_is_a_finding_once_its_segment_is_rolled(broker: Broker, following: Following) -> None:
    """A broker never leaves half a batch in a segment that it has closed."""
    at, name = broker.segment.stat().st_size, broker.segment.name
    broker.append(broker.batch()[:-3])
    assert following.round() == []
    broker.next -= 1
    broker.roll()
    assert following.round() == [("tail", name, at)]
    assert following.round() == []


def test_a_truncated_log_is_read_again(broker: Broker, following: Following) -> None:
    """As after a change of the leader: what is new is found, and what was reported is not reported again."""
    broken = broker.segment.stat().st_size
    broker.append(broker.batch(broken=True), broker.batch())
    assert [kind for kind, _, _ in following.round()] == ["unreadable", "gap"]
    os.truncate(broker.segment, broker.segment.stat().st_size - 10)
    assert following.round() == []
    assert "was truncated from" in following.notes[0]
    os.truncate(broker.segment, broken)
    broker.next = 3
    broker.append(broker.batch(), broker.batch(broken=True))
    assert [kind for kind, _, _ in following.round()] == ["unreadable"]


def test_a_replaced_segment_is_read_again(broker: Broker, following: Following) -> None:
    """As by the cleaner of a compacted topic, with another file of the same name."""
    path = broker.segment
    broker.roll()
    broker.append(broker.batch())
    assert following.round() == []
    other = path.with_suffix(".cleaned")
    other.write_bytes(path.read_bytes()[:71] + b"x" + path.read_bytes()[72:])
    other.replace(path)
    found = following.round()
    assert [(kind, name) for kind, name, _ in found if kind == "unreadable"] == [("unreadable", path.name)]
    assert "was replaced; it is read again" in following.notes[0]


def test_logs_come_and_go(broker: Broker, following: Following, tmp_path: Path) -> None:
    """A new partition is judged from its start; one that is deleted is forgotten."""
    (tmp_path / "more").mkdir()
    more = Broker(tmp_path / "more")
    more.append(more.batch(broken=True))
    assert [kind for kind, _, _ in following.round()] == ["unreadable"]
    for path in more.folder.iterdir():
        path.unlink()
    assert following.round() == []
    assert set(following.follower.logs) == {str(broker.folder)}


class Steps(threading.Event):
    """Changes a directory between rounds, and stops after the last change has been judged."""

    def __init__(self, steps: Sequence[Callable[[], object]]) -> None:
        super().__init__()
        self.steps = list(steps)

    def wait(self, timeout: float | None = None) -> bool:
        """Take a step in place of the time."""
        assert timeout
        if self.steps:
            self.steps.pop(0)()
            return False
        return True


def test_what_cannot_be_listed_blinds_no_round(broker: Broker, tmp_path: Path) -> None:
    """Other logs are judged, each cause is one note, and the numbers are of what is there."""
    metrics, top = tmp_path / "audit.prom", tmp_path / "logs"
    top.mkdir()
    broker.append(broker.batch())
    log, away = broker.folder.rename(top / "orders-0"), tmp_path / "away"
    broker.folder, broker.segment = log, log / broker.segment.name
    following = Following(top, metrics)
    odd = top / os.fsdecode(b"bad\xff-0")
    seen: list[float] = []

    def unreadable_name() -> None:
        odd.mkdir()
        (odd / broker.segment.name).touch()
        broker.append(broker.batch(broken=True))

    def count() -> None:
        seen.append(samples(metrics.read_text())["kafkaproof_audit_logs", ()])

    steps = [unreadable_name, count, lambda: top.rename(away), count, count, lambda: away.rename(top), count]
    following.follower.follow(60, Steps(steps))
    assert [kind for kind, _, _ in following.lines] == ["unreadable"]
    assert seen == [1, 0, 0, 1]
    # The second note of the name: the directory was away in between.
    assert following.notes == [
        f"{odd}: its name is not UTF-8; it is not judged",
        f"{top}: no such file or directory; it is not judged",
        f"{odd}: its name is not UTF-8; it is not judged",
    ]


def test_zeros_and_broken_framing_at_the_end(broker: Broker, following: Following) -> None:
    """Zeros are a preallocated file, which is written later; other bytes that are no entry are reported once."""
    at = broker.segment.stat().st_size
    broker.append(bytes(100))
    assert following.round() == []
    os.truncate(broker.segment, at)
    broker.append(broker.batch(), b"\xff" * 100)
    assert [kind for kind, _, _ in following.round()] == ["unreadable"]
    broker.append(b"\xff" * 100)
    assert following.round() == []


@pytest.mark.columnar
def test_much_that_is_new_is_judged_by_kernels(broker: Broker, following: Following) -> None:
    """A round that is large takes the kernels, and finds the same."""
    pytest.importorskip("numba")
    at = [broker.segment.stat().st_size]
    assert QUICK_BYTES < 3000 * 1000
    for number in range(3000):
        data = broker.batch(broken=number == 2000, value=b"v" * 1000)
        broker.append(data)
        at.append(at[-1] + len(data))
    assert following.round() == [("unreadable", broker.segment.name, at[2000]), ("gap", broker.segment.name, at[2001])]
    assert following.follower.numbers["records"] == 3 + 2999


def test_findings_are_those_of_an_audit(tmp_path: Path) -> None:
    """A log that is complete: the findings of an audit, but for what is only open."""
    following = Following(broken_log(tmp_path))
    kinds = sorted(kind for kind, _, _ in following.round())
    assert "open" not in kinds
    assert "unreadable" in kinds
    assert sum(following.follower.severities.values()) == len(kinds)


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of a metrics file, as Prometheus's own parser reads it."""
    read = list(text_string_to_metric_families(text))
    assert all(family.documentation and family.type in ("counter", "gauge") for family in read)
    return {(each.name, tuple(sorted(each.labels.items()))): each.value for one in read for each in one.samples}


def findings(read: dict[tuple[str, tuple[tuple[str, str], ...]], float]) -> dict[str, float]:
    """Findings by kind, those that there are."""
    name = "kafkaproof_audit_findings_total"
    return {dict(labels)["kind"]: value for (each, labels), value in read.items() if each == name and value}


def test_metrics_are_what_prometheus_reads(broker: Broker, tmp_path: Path) -> None:
    """Each round replaces the file; counters grow, and every kind has a series from the start."""
    path = tmp_path / "metrics" / "audit.prom"
    following = Following(broker.folder, path)
    broker.append(broker.batch(), broker.batch())
    following.round()
    first = samples(path.read_text())
    assert len([name for name, _ in first if name == "kafkaproof_audit_findings_total"]) == len(KINDS) + 1
    assert findings(first) == {}
    broker.append(broker.batch(broken=True), broker.batch())
    following.round()
    read = samples(path.read_text())
    assert findings(read) == {"unreadable": 1, "gap": 1}
    numbers = {name: value for (name, labels), value in read.items() if not labels}
    assert numbers["kafkaproof_audit_read_bytes_total"] == broker.segment.stat().st_size
    assert numbers["kafkaproof_audit_batches_total"] == numbers["kafkaproof_audit_records_total"] == 3
    assert numbers["kafkaproof_audit_rounds_total"] == 2
    assert abs(numbers["kafkaproof_audit_last_run_timestamp_seconds"] - time.time()) < 60
    assert 0 < numbers["kafkaproof_audit_last_run_duration_seconds"] < 60
    assert [each.name for each in path.parent.iterdir()] == ["audit.prom"]


def test_labels_are_escaped() -> None:
    """A path may hold quotes, backslashes and line ends."""
    path = 'logs/"quoted"\\n{x="y"}\nTYPE'
    totals = AuditTotals(path=path, numbers={}, found={}, logs=0, segments=0, seconds=1.5)
    read = samples(metrics_text(totals, 12.25))
    ((_, labels),) = [key for key in read if key[0] == "kafkaproof_audit_info"]
    assert dict(labels)["path"] == path.replace("\n", "\\n")


@pytest.mark.slow
def test_an_audit_writes_metrics_without_follow(tmp_path: Path) -> None:
    """For a cron job: the numbers of one run."""
    log, path = broken_log(tmp_path), tmp_path / "audit.prom"
    command = [sys.executable, "-m", "kafkaproof", "audit", str(log), "--now", str(NOW), "--metrics", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 1, again.stderr
    read = samples(path.read_text())
    assert findings(read)["unreadable"] == 1
    assert read["kafkaproof_audit_segments", ()] == 5


@pytest.mark.slow
def test_metrics_that_cannot_be_written_are_one_line(tmp_path: Path) -> None:
    """The folder may be a file; the report is printed before."""
    log = fresh_log(tmp_path)
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "kafkaproof", "audit", str(log), "--metrics", str(tmp_path / "file" / "x.prom")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "0 errors, 0 warnings" in done.stdout


@pytest.mark.slow
def test_metrics_replace_only_metrics(tmp_path: Path) -> None:
    """A file of something else, a pipe and a link stay as they are."""
    log, other, pipe, link = fresh_log(tmp_path), tmp_path / "notes", tmp_path / "pipe", tmp_path / "link"
    other.write_text("notes\n")
    os.mkfifo(pipe)
    link.symlink_to(other)
    for path, why in ((other, "holds no metrics"), (pipe, "no regular file"), (link, "no regular file")):
        kind = path.lstat().st_mode
        command = [sys.executable, "-m", "kafkaproof", "audit", str(log), "--metrics", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"Error: --metrics does not replace {path}: " in done.stderr
        assert why in done.stderr
        assert path.lstat().st_mode == kind
    assert other.read_text() == "notes\n"


def lines_of(running: subprocess.Popen[str]) -> Iterator[str]:
    assert running.stdout is not None
    yield from running.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("number", "broken", "code"), [(signal.SIGTERM, True, 1), (signal.SIGINT, False, 0)])
def test_a_signal_ends_it_with_the_exit_code(
    number: signal.Signals, broken: bool, code: int, broker: Broker, tmp_path: Path
) -> None:
    """A service manager's signal and an interrupt end it, with the code of what was found."""
    path = tmp_path / "audit.prom"
    command = [sys.executable, "-m", "kafkaproof", "audit", str(broker.folder), "--follow", "--interval", "0.1"]
    broker.append(broker.batch())
    running = subprocess.Popen(
        [*command, "--metrics", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        while not path.exists() and running.poll() is None:
            time.sleep(0.02)
        if broken:
            broker.append(broker.batch(broken=True))
            line = next(lines_of(running))
            assert line.startswith(f"error    CRC-07  {broker.segment.name} byte ")
        running.send_signal(number)
        said = running.communicate(timeout=60)[1]
    finally:
        running.kill()
    assert running.returncode == code, said
    assert f"{code} error" in said
    assert "records in" in said


def test_nothing_to_follow_ends_with_3(tmp_path: Path) -> None:
    """A path without segments at the start is a mistake; one that is empty later is not."""
    command = [sys.executable, "-m", "kafkaproof", "audit", str(tmp_path), "--follow"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith("no segment files (*.log)\n")
