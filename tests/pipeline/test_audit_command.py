"""`kafkaproof audit`: exit codes, the summary, files that do not depend on processes, and what may go wrong."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.readable import broken_log, fresh_log

from kafka_pipeline.audit import local
from kafka_pipeline.audit.local import QUICK_BYTES, TRIES, AuditPool, WorkerDied
from kafka_pipeline.segments.listing import SegmentFile, find_segments
from kafka_records import Batch, Record, encode
from kafkaproof.commands.audit import audit_command

NOW = "1795276100000"
# Runs the command as it is where the packages of the extra `columnar` are not installed.
WITHOUT = """
import sys
from importlib.abc import MetaPathFinder
class Missing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {"numba", "llvmlite", "pyarrow", "isal", "zlib_ng", "pandas", "pyspark"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
import importlib.util
found = importlib.util.find_spec
def find_spec(name, package=None):
    try:
        return found(name, package)
    except ModuleNotFoundError:
        return None
importlib.util.find_spec = find_spec
from kafkaproof.cli import main
main()
"""


def audit(*arguments: object, code: str = "") -> subprocess.CompletedProcess[str]:
    """The command, in a process of its own."""
    start = ["-c", code] if code else ["-m", "kafkaproof"]
    command = [sys.executable, *start, "audit", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def files_of(folder: Path) -> dict[str, bytes]:
    """Each file of an output."""
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def large_log(folder: Path, size: int = 20 << 20) -> Path:
    """A log that is too large for one task, and has a broken batch; its segments are small."""
    values = tuple(Record(offset, 1_795_000_000_000, None, b"v" * 4000) for offset in range(50))
    data = bytearray(encode(Batch(magic=2, base_offset=0, last_offset=49, max_timestamp=1_795_000_000_000,
                                  partition_leader_epoch=0, records=values)))  # fmt: skip
    folder.mkdir(parents=True)
    offset, per_segment = 0, 5
    while offset * 4000 < size:
        with (folder / f"{offset:020}.log").open("wb") as file:
            for _ in range(per_segment):
                data[:8] = offset.to_bytes(8, "big")
                file.write(data)
                offset += 50
    path = sorted(folder.glob("*.log"))[1]
    whole = bytearray(path.read_bytes())
    whole[500] ^= 1
    path.write_bytes(whole)
    return folder


@pytest.mark.slow
def test_a_clean_log_ends_with_0(tmp_path: Path) -> None:
    """A note is no reason to worry; totals follow the findings."""
    log = fresh_log(tmp_path)
    done = audit(log, "--now", NOW)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("note     TXN-05 ")
    assert "00000000000000001951.log byte 2,389 offset 1992: " in lines[0]
    assert "0 errors, 0 warnings, 1 note" in lines
    assert "batches  50, 1,993 records; v2 gzip 5, v2 lz4 5, v2 none 30, v2 snappy 5, v2 zstd 5" in lines


@pytest.mark.slow
def test_findings_end_with_1_and_come_first(tmp_path: Path) -> None:
    """Worst first, each with file, byte and rule; at most thirty lines."""
    log = broken_log(tmp_path)
    done = audit(log, "--now", NOW)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "][:1] == ["error"]
    assert any(line.startswith("error    CRC-07 ") for line in lines)
    assert len(lines) <= 30
    document = json.loads(audit(log, "--now", NOW, "--json").stdout)
    assert document["severities"]["error"] > 0
    assert {"kind": "unreadable", "rule": "CRC-07"}.items() <= document["logs"][0]["listed"][0].items()


@pytest.mark.slow
def test_many_kinds_fit_thirty_lines(tmp_path: Path) -> None:
    """However many findings of however many kinds there are."""
    for number in range(40):
        folder = tmp_path / f"{number}-0"
        folder.mkdir()
        data = encode(Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=5, partition_leader_epoch=0,
                            records=(Record(0, 5, None, b"v"),)))  # fmt: skip
        broken = bytearray(data)
        broken[(8, 16, 17, 21, 57, 61, 62, 63)[number % 8]] ^= (1 + number) & 0xFF
        (folder / f"{number:020}.log").write_bytes(data + data + bytes(broken) + data)
    done = audit(tmp_path, "--now", NOW)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert 15 <= len(lines) <= 30
    assert len([line for line in lines if line.startswith("error")]) >= 4


@pytest.mark.columnar
def test_files_do_not_depend_on_processes(tmp_path: Path) -> None:
    """One process or three, and another division of the work: every file is the same to the byte."""
    pytest.importorskip("numba")
    log = large_log(tmp_path / "logs" / "large-0")
    broken_log(tmp_path / "logs")
    outs = []
    for jobs in (1, 3):
        out = tmp_path / f"out-{jobs}"
        assert audit(log.parent, "--now", NOW, "--jobs", jobs, "--out", out).returncode == 1
        outs.append(files_of(out))
    assert set(outs[0]) == {"index.html", "report.json", "findings.parquet", "segments.parquet", "manifest.json"}
    assert outs[0] == outs[1]
    again = audit(log.parent, "--now", NOW, "--jobs", 2, "--out", tmp_path / "out-1")
    assert (again.returncode, files_of(tmp_path / "out-1")) == (1, outs[0])


@pytest.mark.slow
def test_without_the_extra_the_report_is_the_same(tmp_path: Path) -> None:
    """Without Numba and Arrow only the tables are left out, and a line says so."""
    log, out = broken_log(tmp_path), tmp_path / "out"
    done = audit(log, "--now", NOW, "--out", out, code=WITHOUT)
    assert done.returncode == 1
    assert done.stderr == (
        "findings.parquet and segments.parquet are left out, which need Arrow: pip install 'kafkaproof[columnar]'\n"
    )
    other = tmp_path / "other"
    audit(log, "--now", NOW, "--out", other)
    left, whole = files_of(out), files_of(other)
    assert set(left) == {"index.html", "report.json", "manifest.json"}
    assert (left["index.html"], left["report.json"]) == (whole["index.html"], whole["report.json"])
    # With Arrow the same folder gets its tables.
    audit(log, "--now", NOW, "--out", out)
    assert files_of(out) == whole


@pytest.mark.slow
def test_without_the_extra_a_larger_log_is_read_by_the_reference(tmp_path: Path) -> None:
    """It is slower, and finds the same."""
    log = large_log(tmp_path / "large-0", 3 << 20)
    assert sum(path.stat().st_size for path in log.iterdir()) > QUICK_BYTES
    done = audit(log, "--now", NOW, "--jobs", 4, code=WITHOUT)
    assert done.returncode == 1
    assert "CRC-07" in done.stdout


@pytest.mark.slow
def test_a_small_log_imports_no_kernels(tmp_path: Path) -> None:
    """Compiled kernels and Arrow take longer to import than the reference takes to read a small log."""
    code = "import sys; from kafkaproof.cli import kafkaproof\n"
    code += f"try: kafkaproof.main(['audit', {str(fresh_log(tmp_path))!r}], standalone_mode=False)\n"
    code += "finally: print(sorted({'numba', 'pyarrow', 'jinja2', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("missing", 3, "missing: no such file or directory"),
        ("empty", 3, "empty: no segment files (*.log)"),
        ("others", 3, "others: no segment files (*.log)"),
        ("s3://bucket/logs", 3, "s3://bucket/logs: only paths of this machine can be audited"),
    ],
)
def test_nothing_to_audit_is_one_line(name: str, code: int, said: str, tmp_path: Path) -> None:
    """A path without segments ends with 3, and a line that says what is missing."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "server.log").write_text("started\n")
    (tmp_path / "others" / "meta.properties").write_text("version=1\n")
    done = audit(name if "://" in name else tmp_path / name)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.endswith(f"{said}\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_file_of_any_name_is_a_segment(tmp_path: Path) -> None:
    """A copied segment has no base offset; one that is no segment at all is an error."""
    log = fresh_log(tmp_path)
    copy = tmp_path / "copied.bin"
    copy.write_bytes(next(iter(sorted(log.glob("*.log")))).read_bytes())
    assert audit(copy, "--now", NOW).returncode == 0
    copy.write_bytes(b"this is no segment, and no batch begins in it\n")
    done = audit(copy, "--now", NOW)
    assert done.returncode == 1
    assert "copied.bin byte 0" in done.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_segment_is_a_finding(tmp_path: Path) -> None:
    """The others are judged."""
    log = fresh_log(tmp_path)
    segment = sorted(log.glob("*.log"))[1]
    segment.chmod(0)
    done = audit(log, "--now", NOW)
    assert done.returncode == 1
    assert f"{segment.name}: Permission denied" in done.stdout


def test_what_a_file_system_keeps_at_its_top_is_left_out(tmp_path: Path) -> None:
    """Where a log directory is a mount point, only root can read `lost+found`."""
    log = fresh_log(tmp_path)
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "lost+found" / f"{0:020}.log").write_bytes(b"\xff" * 100)
    assert {segment.log for segment in find_segments([str(tmp_path)])} == {str(log)}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_directory_is_named(tmp_path: Path) -> None:
    """The others are judged, and it ends with 1; where there are no others, with 3."""
    log = fresh_log(tmp_path)
    (tmp_path / "locked-0").mkdir(mode=0)
    done = audit(tmp_path, "--now", NOW)
    locked = f"{tmp_path / 'locked-0'}: Permission denied"
    assert (done.returncode, done.stderr) == (1, f"{locked}; it is not judged\n")
    assert "0 errors, 0 warnings, 1 note" in done.stdout
    shutil.rmtree(log)
    done = audit(tmp_path, "--now", NOW)
    assert (done.returncode, done.stderr) == (3, f"{locked}\n")


@pytest.mark.slow
def test_names_that_are_no_text_are_escaped(tmp_path: Path) -> None:
    """A directory's name may hold terminal escapes; one that is not UTF-8 could be in no report."""
    out, tmp_path = tmp_path / "out", tmp_path / "logs"
    tmp_path.mkdir()
    folder = tmp_path / "bad\x1b[31m-0"
    folder.mkdir()
    log = fresh_log(tmp_path)
    for path in log.glob("*.log"):
        (folder / path.name).write_bytes(path.read_bytes()[:-1])
    done = audit(tmp_path, "--now", NOW, "--out", out)
    assert done.returncode == 1
    assert "bad\\x1b[31m" in done.stdout
    assert "\x1b" not in done.stdout
    assert json.loads((out / "report.json").read_bytes())["severities"]["error"] > 0

    folder.rename(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff-0"))
    # Other logs are judged.
    for more in ((), ("--out", out.with_name("other"))):
        done = audit(tmp_path, "--now", NOW, *more)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert done.stderr.endswith("bad\\udcff-0: its name is not UTF-8; it is not judged\n")
        assert "0 errors, 0 warnings, 1 note" in done.stdout
    shutil.rmtree(log)
    done = audit(tmp_path, "--now", NOW)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith("bad\\udcff-0: its name is not UTF-8\n")


@pytest.mark.slow
def test_a_reader_that_is_gone_is_no_error(tmp_path: Path) -> None:
    """As `| head -1` ends: nothing is printed about it."""
    command = [sys.executable, "-m", "kafkaproof", "audit", str(fresh_log(tmp_path))]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    assert running.stderr.read() == ""
    assert running.wait(60) == 1
    running.stderr.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--spark",), "--spark needs --out"),
        (("--master", "local[1]"), "--spark needs --out"),
        (("--conf", "a=b"), "are for --spark"),
        (("--spark", "--follow", "--out", "x"), "--follow is for this machine"),
        (("--follow", "--json"), "it takes no --json"),
        (("--jobs", "0"), "--jobs"),
        (("--follow", "--interval", "nan"), "'--interval': nan is no time"),
        (("--follow", "--interval", "inf"), "'--interval': inf is no time"),
        (("--follow", "--interval", "1e300"), "'--interval': 1e+300 is no time"),
        (("--follow", "--interval", "-1"), "'--interval': -1.0 is not"),
    ],
)
def test_options_that_contradict_are_a_usage_error(options: Sequence[str], said: str, tmp_path: Path) -> None:
    """They end with 2, and a line that names them."""
    done = audit(fresh_log(tmp_path), *options)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["--out", "--metrics"])
def test_an_output_inside_of_the_logs_is_a_usage_error(name: str, tmp_path: Path) -> None:
    """An audit writes nothing there, also through a link above."""
    log = fresh_log(tmp_path)
    (tmp_path / "link").symlink_to(log)
    before = files_of(log)
    for place in (log / "new", tmp_path / "link" / "new", next(log.glob("*.log"))):
        if name == "--out" and place.exists():
            continue
        done = audit(log, name, place)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"Error: {name} is inside of the audited path: {place}\n" in done.stderr
    assert files_of(log) == before


@pytest.mark.slow
def test_an_output_of_another_audit_is_a_usage_error(tmp_path: Path) -> None:
    """One folder is one audit."""
    log, out = fresh_log(tmp_path), tmp_path / "out"
    assert audit(log, "--out", out, "--now", NOW).returncode == 0
    done = audit(log, "--out", out, "--now", NOW, "--contiguous")
    assert done.returncode == 2
    assert "differs in contiguous; choose another folder" in done.stderr
    # Without --now it is the same audit, whatever the clock says.
    before = files_of(out)
    assert audit(log, "--out", out).returncode == 0
    assert files_of(out) == before


@pytest.mark.columnar
def test_an_interrupt_ends_all_processes(tmp_path: Path) -> None:
    """SIGINT to the whole group: one line, 130, and the same command goes on."""
    psutil = pytest.importorskip("psutil")
    pytest.importorskip("numba")
    log, out = large_log(tmp_path / "large-0", 100 << 20), tmp_path / "out"
    command = [sys.executable, "-m", "kafkaproof", "audit", str(log), "--now", NOW, "--jobs", "2", "--out", str(out)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)
    receipts = out / "receipts"
    while running.poll() is None and not list(receipts.rglob("*.json")):
        time.sleep(0.01)
    below = psutil.Process(running.pid).children(recursive=True) if running.poll() is None else []
    os.killpg(running.pid, signal.SIGINT)
    stdout, stderr = running.communicate(timeout=60)
    assert (running.returncode, stdout) in ((130, ""), (1, stdout))
    assert "Traceback" not in stderr, stderr
    if running.returncode == 130:
        assert "interrupted; the same command goes on" in stderr
    _, alive = psutil.wait_procs(below, timeout=20)
    assert alive == []
    assert audit(log, "--now", NOW, "--jobs", 1, "--out", out).returncode == 1
    other = tmp_path / "other"
    audit(log, "--now", NOW, "--jobs", 1, "--out", other)
    assert files_of(out) == files_of(other)


def die_once(item: tuple[int, str]) -> int:
    """Kill this process at the first call with an item that has a file."""
    number, mark = item
    if mark and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_always(item: tuple[int, Any]) -> int:
    """Kill this process for one item."""
    if item[0] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return item[0]


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> AuditPool:
    """A pool of two processes, which import this module again."""
    monkeypatch.setattr(local, "LEAST_TASK", 1)
    return AuditPool(2, 1 << 30)


@pytest.mark.slow
def test_a_process_that_is_killed_is_replaced(pool: AuditPool, tmp_path: Path) -> None:
    """No result is lost or repeated, and their order stays."""
    items = [(number, str(tmp_path / "mark") if number == 3 else "") for number in range(12)]
    with pool:
        assert list(pool.map(die_once, items)) == list(range(12))
    assert (tmp_path / "mark").exists()


@pytest.mark.slow
def test_a_task_that_kills_each_process_ends_the_audit(pool: AuditPool) -> None:
    """After `TRIES` processes it is an error that names the segment; what came before is kept."""
    items = [(number, [SegmentFile(f"/logs/{number}.log", 1)]) for number in range(6)]
    with pool:
        results = pool.map(die_always, items)
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(WorkerDied, match=rf"killed {TRIES} times while it judged /logs/2\.log"):
            next(results)


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")


def printed(name: str) -> str:
    """A file that the page on audits prints."""
    found = re.search(rf"^<!-- {re.escape(name)} -->\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found, name
    return found[1]


@pytest.mark.parametrize("oneshot", [False, True])
def test_printed_units_are_units_of_systemd(oneshot: bool, tmp_path: Path) -> None:
    """systemd takes them, also as the page describes the service of a timer; the command in them exists."""
    service = printed("kafkaproof-audit.service")
    if oneshot:
        lines = [line for line in service.splitlines() if not line.startswith("Restart=")]
        service = "\n".join(lines).replace("[Service]", "[Service]\nType=oneshot").replace(" --follow", "")
    command = next(line for line in service.splitlines() if line.startswith("ExecStart=")).split()
    assert command[1:3] == ["audit", "/var/kafka-logs"]
    audit_command.make_context("audit", command[2:]).close()
    for name, text in (("service", service), ("timer", printed("kafkaproof-audit.timer"))):
        unit = ConfigParser(interpolation=None, strict=True)
        unit.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
        unit.read_string(text)
        assert set(unit) == {"DEFAULT", "Unit", "Install", name.capitalize()}
        # The verifier wants the program of the unit to be there.
        here = text.replace("/usr/local/bin/kafkaproof", sys.executable)
        (tmp_path / f"kafkaproof-audit.{name}").write_text(here)
    if shutil.which("systemd-analyze") is None:
        return
    verify = ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_the_printed_crontab_mails_findings(broken: bool, tmp_path: Path) -> None:
    """Its line is a schedule and a command that prints only what has to be mailed."""
    log = (broken_log if broken else fresh_log)(tmp_path)
    (setting, line) = printed("crontab").splitlines()
    assert setting.startswith("MAILTO=")
    fields, command = line.split(" ", 5)[:5], line.split(" ", 5)[5]
    assert all(re.fullmatch(r"\d+|\*", each) for each in fields)
    assert "%" not in command.replace("\\%", "")
    for name, place in (("\\%", "%"), ("/var/kafka-logs", str(log)), ("/var/lib/kafkaproof", str(tmp_path))):
        command = command.replace(name, place)
    shell = command.replace("kafkaproof audit", f"{sys.executable} -m kafkaproof audit --now {NOW}")
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    assert ("CRC-07" in done.stdout) == broken
    assert bool(done.stdout) == broken
    assert done.stderr == ""
    assert len(list(tmp_path.glob("20*-*-*/report.json"))) == 1
