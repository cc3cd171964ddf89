"""Rounds whose inputs are counted: done again, anywhere, they give the same, on which campaigns of clusters rest."""

import os
import subprocess
from pathlib import Path
from types import FrameType

import msgspec
import pytest

from kafka_fuzz.campaign.plan import RoundPlan, RoundReport
from kafka_fuzz.campaign.supervisor import round_command
from kafka_fuzz.campaign.worker import LoopFinder
from kafka_fuzz.findings import read_findings
from kafka_fuzz.targets.base import TooLong, guard
from kafka_fuzz.targets.outcome import Outcome

LOOK = 0.01


def rounds(directory: Path, target: str, executions: int) -> list[RoundReport]:
    """The same round twice, side by side."""
    running = []
    for name in ("one", "other"):
        (directory / name).mkdir()
        plan = RoundPlan(target, directory / name, seed=3, cpu_seconds=float("inf"), executions=executions)
        command = round_command(plan)
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, env=environment))
    lines = [process.communicate(timeout=300)[0].splitlines()[-1] for process in running]
    return [msgspec.convert(msgspec.json.decode(line)["report"], RoundReport) for line in lines]


def left(directory: Path) -> tuple[dict[str, bytes], list[object]]:
    """A round's files: its corpus, and its findings without their times."""
    files = {path.name: path.read_bytes() for path in sorted((directory / "corpus").rglob("*")) if path.is_file()}
    return files, [msgspec.structs.replace(find, seconds=0.0) for find in read_findings(directory)]


@pytest.mark.slow
def test_a_target_in_process(tmp_path: Path) -> None:
    """kafka-python, which leaks and runs out of memory, leaves the same corpus and the same findings."""
    one, other = rounds(tmp_path, "kafka-python", 600)
    assert not one.failure
    assert 600 <= one.executions == other.executions < 616
    files, findings = left(tmp_path / "one")
    assert (files, findings) == left(tmp_path / "other")
    assert len(files) > 100
    assert len(findings) > 5


@pytest.mark.slow
def test_testees_that_crash(tmp_path: Path) -> None:
    """After a crash a testee gets all other inputs, and two rounds have the same outcome tuples."""
    one, other = rounds(tmp_path, "differential:planted:crashes-on-a-tenth,reference", 256)
    assert not one.failure
    assert one.executions == other.executions > 256
    files, findings = left(tmp_path / "one")
    assert (files, findings) == left(tmp_path / "other")
    assert any("tenth=crash,reference=ok" in line.decode() for line in files["index.ndjson"].splitlines())
    assert sum(find.count for find in read_findings(tmp_path / "one")) > 4
    for find in read_findings(tmp_path / "one"):
        assert find.names == ("planted:crashes-on-a-tenth", "reference")
        assert find.outcomes[find.names.index(find.outcome.target)] == find.outcome.kind


@pytest.mark.slow
def test_testees_that_write(tmp_path: Path) -> None:
    """A testee that writes wrong batches writes them again for the same values."""
    one, other = rounds(tmp_path, "encode:planted:writes-seconds,reference", 128)
    assert not one.failure
    assert one.executions == other.executions > 0
    findings = list(read_findings(tmp_path / "one"))
    assert [msgspec.structs.replace(find, seconds=0.0) for find in findings] == left(tmp_path / "other")[1]
    assert {find.outcome.target for find in findings} == {"planted:writes-seconds"}


@pytest.mark.slow
def test_a_testee_that_does_not_start(tmp_path: Path) -> None:
    """A vector with a gap would be another one, so the round fails."""
    for report in rounds(tmp_path, "differential:process:true,reference", 256):
        assert "did not say hello" in report.failure


@pytest.mark.slow
def test_the_loop_is_what_stays_on_the_stack() -> None:
    """A hang is identified by the function that loops, not by the function that was running when it was stopped."""
    loop = LoopFinder((__name__,))
    for _ in range(2):
        loop.forget()
        try:
            guard(LOOK * 20, loop.look).call(before_looping)
        except TooLong:
            pass
    assert loop.with_loop(Outcome("x", "hang", function="f")).function == f"{__name__}.looping"
    assert loop.with_loop(Outcome("x", "crash", function="f")).function == "f"
    assert loop.look(no_frame()) is False


def no_frame() -> FrameType | None:
    """Nothing on the stack."""
    return None


def before_looping() -> None:
    """The loop, and something that takes no time before it."""
    before()
    looping()


def before() -> int:
    """A call before the loop."""
    return sum(range(1000))


def looping() -> None:
    """It never ends."""
    while True:
        called(300)
        called(5000)


def called(number: int) -> int:
    """Whatever the loop does."""
    return sum(each * each for each in range(number))
