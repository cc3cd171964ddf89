"""Campaigns: real children, real folders; what is kept, what is never lost, and what is a failure."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest
from click.testing import CliRunner

from kafka_fuzz import findings
from kafka_fuzz.campaign.plan import RoundPlan, RoundReport, read_log, read_state
from kafka_fuzz.campaign.store import Corpus
from kafka_fuzz.campaign.supervisor import MAX_IDLE_ROUNDS, TargetState, round_command
from kafka_fuzz.findings import read_findings
from kafkaproof.commands.fuzz import fuzz as fuzz_group


def fuzz(*arguments: object) -> list[str]:
    """The command."""
    return [sys.executable, "-m", "kafkaproof", "fuzz", *map(str, arguments)]


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run it to its end."""
    return subprocess.run(fuzz("run", *arguments), capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.slow
def test_a_campaign(tmp_path: Path) -> None:
    """kafka-python has finds: on the disk, with their inputs; the log has a line for the round; exit code 1."""
    done = run("--targets", "kafka-python", "--seconds", 4, "--dir", tmp_path, "--json")
    assert done.returncode == 1, done.stderr
    document = msgspec.json.decode(done.stdout)
    found = list(read_findings(tmp_path))
    assert {each["finding"]["key"] for each in document["findings"]} == {find.key for find in found}
    assert all(len(findings.finding_input(tmp_path, find)) == find.size for find in found)
    report = next(read_log(tmp_path))
    assert report.executions <= document["targets"]["kafka-python"]["progress"]["executions"]
    assert {key for each in read_log(tmp_path) for key in each.new_findings} == {find.key for find in found}


@pytest.mark.slow
def test_a_round_that_is_too_short_for_its_preparations(tmp_path: Path) -> None:
    """On a slow machine, or with little time for many targets, every round runs some inputs all the same."""
    command = round_command(RoundPlan("append", tmp_path, cpu_seconds=0.001))
    done = subprocess.run(command, capture_output=True, check=True, timeout=100)
    report = msgspec.json.decode(done.stdout.splitlines()[-1])["report"]
    assert report["executions"] > 0
    assert not report.get("failure")


@pytest.mark.slow
def test_the_next_campaign_goes_on(tmp_path: Path) -> None:
    """A second campaign has other rounds, the same seed, and the corpus of the first; nothing is new twice."""
    starts: list[int] = []
    for seed in (("--seed", 7), ("--seed", 7), ()):
        starts.append(read_state(tmp_path).next_round if starts else 0)
        assert run("--targets", "explain", "--seconds", 2, *seed, "--dir", tmp_path).returncode == 0
    first, *others = read_log(tmp_path)
    assert [report.number for report in others] == list(range(1, len(others) + 1))
    assert {report.seed for report in read_log(tmp_path)} == {7}
    assert all(report.corpus >= first.corpus > 0 for report in others)
    assert read_state(tmp_path).next_round == len(others) + 1
    # A campaign of two seconds has any number of rounds, and is identified by the number of its first.
    assert sorted({report.campaign for report in read_log(tmp_path)}) == starts
    assert all(report.campaign <= report.number for report in others)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_disk_that_is_full(jobs: int, tmp_path: Path) -> None:
    """A failed write to the log ends the campaign: one line with the path, exit code 3, and no wait for a child."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "campaign.json").write_bytes(b"{}")
    (tmp_path / "log.ndjson").symlink_to("/dev/full")
    done = run("--targets", "explain", "--seconds", 2, "--jobs", jobs, "--dir", tmp_path)
    assert done.returncode == 3, done.stderr
    assert f"Error: {tmp_path}: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A campaign that may not write where it is to is one clear error."""
    (tmp_path / "file").write_bytes(b"in the way")
    done = CliRunner().invoke(fuzz_group, ["run", "--targets", "explain", "--dir", str(tmp_path / "file" / "there")])
    assert done.exit_code == 3, done.output
    assert f"Error: {tmp_path / 'file'}" in done.output


@pytest.mark.slow
def test_killed(tmp_path: Path) -> None:
    """kill -9 on the supervisor: what was found stays, the child stops by itself, the next campaign runs."""
    process = subprocess.Popen(
        fuzz("run", "--targets", "kafka-python", "--seconds", 60, "--dir", tmp_path), stderr=subprocess.DEVNULL
    )
    wait_for(lambda: any(read_findings(tmp_path)))
    kept = set(Corpus(tmp_path, "kafka-python").entries)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: is_quiet(tmp_path))
    assert kept <= set(Corpus(tmp_path, "kafka-python").entries)
    for find in read_findings(tmp_path):
        # A smaller input is written before the finding that says its size.
        assert 0 < len(findings.finding_input(tmp_path, find)) <= find.size
    assert run("--targets", "kafka-python", "--seconds", 2, "--dir", tmp_path).returncode == 1
    numbers = [report.number for report in read_log(tmp_path)]
    assert numbers == list(range(1, len(numbers) + 1))  # 0 was killed


@pytest.mark.slow
def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C: the round is logged as interrupted, with what it executed; exit code 130."""
    process = subprocess.Popen(
        fuzz("run", "--targets", "explain", "--seconds", 60, "--dir", tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for(lambda: len(Corpus(tmp_path, "explain").entries) > 20)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    (report,) = read_log(tmp_path)
    assert report.interrupted
    assert report.executions > 20


@pytest.mark.slow
def test_nothing_executed(tmp_path: Path) -> None:
    """A target that cannot run, as its folder takes no files, is a failure of the harness, never clean."""
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "explain").write_text("in the way")
    done = run("--targets", "explain", "--seconds", 3, "--dir", tmp_path)
    assert done.returncode == 3
    assert "could not be run" in done.stderr
    assert all(report.failure for report in read_log(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [["--targets", "no-such"], ["--targets", ","], ["--seconds", "0"]])
def test_usage(wrong: list[str], tmp_path: Path) -> None:
    """Wrong options are refused at once: exit code 2, and no folder."""
    assert run(*wrong, "--dir", tmp_path / "d").returncode == 2
    assert not (tmp_path / "d").exists()


@pytest.mark.slow
def test_atheris(tmp_path: Path) -> None:
    """libFuzzer as the engine: the same folder, the same log, finds of the same kinds."""
    pytest.importorskip("atheris")
    done = run("--targets", "kafka-python", "--seconds", 4, "--engine", "atheris", "--dir", tmp_path)
    assert done.returncode == 1, done.stderr
    assert all(report.engine == "atheris" and report.executions for report in read_log(tmp_path))
    assert len(Corpus(tmp_path, "kafka-python").lines) > 100
    assert any(read_findings(tmp_path))


def wait_for(truth: object, seconds: float = 60.0) -> None:
    """Until *truth* is true; it fails after a minute."""
    end = time.monotonic() + seconds
    while not truth():  # type: ignore[operator]  # a function
        assert time.monotonic() < end
        time.sleep(0.05)


def is_quiet(directory: Path) -> bool:
    """Whether no process has *directory* in its arguments any more."""
    commands = (each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"]))
    return not any(str(directory) in command for command in commands)


@pytest.mark.parametrize(
    ("before", "cpu_seconds", "over", "fails"),
    [
        *((0, 0.0, over, True) for over in (False, True)),
        *((0, 9.0, over, True) for over in (False, True)),
        (100, 0.1, False, False),
        (100, 9.0, False, True),
        (100, 9.0, True, False),
    ],
)
def test_a_round_that_executed_nothing(before: int, cpu_seconds: float, over: bool, fails: bool) -> None:
    """It is a failure, unless the campaign was over before it had begun and the target ran in earlier rounds."""
    standing = TargetState(executions=before)
    standing.take(RoundReport("x", 1, 1, cpu_seconds=cpu_seconds), over=over)
    assert bool(standing.failures) is fails


def test_a_target_of_which_one_testee_does_not_run() -> None:
    """Its rounds are failures, and go on for the other testees; a target that executes nothing is stopped."""
    standing = TargetState()
    for _ in range(MAX_IDLE_ROUNDS):
        standing.take(RoundReport("differential:a,b", 1, 1, executions=9, cpu_seconds=9.0, failure="b did not run"))
    assert standing.failures == ["b did not run"] * MAX_IDLE_ROUNDS
    assert standing.in_a_row < MAX_IDLE_ROUNDS
    for _ in range(MAX_IDLE_ROUNDS):
        standing.take(RoundReport("differential:a,b", 1, 1, failure="b did not run"))
    assert standing.in_a_row == MAX_IDLE_ROUNDS
