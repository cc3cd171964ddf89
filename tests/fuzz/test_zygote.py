"""A worker that blocks is killed as a hang; a pause of the whole process group is no hang, nor is one that passes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# A zygote with a short time limit, whose worker creates a file and sleeps; it prints the worker's exit code.
SCRIPT = """
import os, sys, time
from pathlib import Path
from kafka_fuzz.campaign import fork_worker
from kafka_fuzz.campaign.plan import RoundPlan

def work():
    there.touch()
    time.sleep(seconds)

fork_worker.STUCK_SECONDS, there, seconds = 3.0, Path(sys.argv[1], "there"), float(sys.argv[2])
plan = RoundPlan(target="kafka-python", directory=there.parent, seed=1, number=0, cpu_seconds=1.0)
print(os.waitstatus_to_exitcode(fork_worker.open_fork_server(plan, lambda _: None).forked(work)))
"""


def zygote(directory: Path, seconds: float) -> "subprocess.Popen[str]":
    """One in a session of its own, when its worker has begun to sleep *seconds*."""
    command = [sys.executable, "-c", SCRIPT, str(directory), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    while process.poll() is None and not directory.joinpath("there").exists():
        time.sleep(0.01)
    return process


@pytest.mark.slow
def test_who_waits_for_ever_is_ended(tmp_path: Path) -> None:
    """One that sleeps longer than it may is killed."""
    with zygote(tmp_path, 60.0) as process:
        assert int(process.communicate()[0]) == -signal.SIGKILL


@pytest.mark.slow
def test_a_pause_of_everybody_is_no_hang(tmp_path: Path) -> None:
    """A worker that is stopped together with its watcher keeps its remaining time when both continue."""
    with zygote(tmp_path, 5.6) as process:
        time.sleep(0.7)  # the watch has begun
        os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(4.2)
        os.killpg(process.pid, signal.SIGCONT)

        assert int(process.communicate()[0]) == 0


# A target whose first input takes all the time that it may, in C: always, or this once.
HANGING = """
import json, sys
from dataclasses import replace
from pathlib import Path
from kafka_fuzz.campaign import fork_worker
from kafka_fuzz.campaign.plan import RoundPlan
from kafka_fuzz.targets.base import TargetResult

def check(mutant):
    if always or not there.exists():
        there.touch()
        sum(range(10**12))
    return TargetResult("ok")

folder, always = Path(sys.argv[1]), sys.argv[2] == "always"
there = folder / "there"
plan = RoundPlan(target="kafka-python", directory=folder, seed=1, number=0, cpu_seconds=8.0)
made = fork_worker.open_fork_server(plan, lambda _: None)
made.target = replace(made.target, check=check)
made.run()
print(json.dumps([made.restarts, made.failure, sorted(made.findings.findings), made.box.progress().executions]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["once", "always"])
def test_a_hang_that_passes_is_none(tmp_path: Path, how: str) -> None:
    """An input that uses up its CPU time runs once more alone, since the machine itself may have paused."""
    command = [sys.executable, "-c", HANGING, str(tmp_path), how]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    restarts, failure, found, executions = json.loads(said)

    assert failure == ""
    if how == "once":
        assert (restarts, found) == (1, [])
        assert executions > 1000
    else:
        assert restarts >= 1
        assert {key.split("|")[1] for key in found} == {"hang"}


# A target whose harness falls, and what is said of its input.
FALLING = """
import sys
from dataclasses import replace
from pathlib import Path
from kafka_fuzz.campaign import fork_worker
from kafka_fuzz.campaign.known_findings import ReplayInput
from kafka_fuzz.campaign.plan import RoundPlan

def check(mutant):
    raise SystemExit("no disk")

made = fork_worker.open_fork_server(RoundPlan(target="explain", directory=Path(sys.argv[1])), lambda _: None)
made.target = replace(made.target, check=check)
try:
    print(made.outcome_of(ReplayInput(hex="00").mutant()))
except fork_worker.HarnessFault as fault:
    print("our fault:", str(fault).splitlines()[-1])
"""


@pytest.mark.slow
def test_a_fault_of_ours_is_no_crash(tmp_path: Path) -> None:
    """Where the code around the target falls, nothing is known of the target."""
    command = [sys.executable, "-c", FALLING, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "our fault: SystemExit: no disk\n"
