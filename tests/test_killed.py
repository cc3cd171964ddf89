"""kill -9 at fifty random moments: the resumed result equals the undisturbed one, and no process is left.

Each command runs once undisturbed, which gives the result and the time that it takes.  For each pair of moments it is
started in a folder of its own, killed with its whole group when a random part of that time is over, started again,
killed when about the rest of the time is over, and run to its end.  The moments of a command are drawn from equal parts
of its time, so that early and late ones are among them, and the second kill of a pair hits a run that resumes.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from tests.cli.test_refresh import TESTEE, Checkout
from tests.unpacking import unpack

from kafka_brokers.releases import NEWEST
from kafka_conformance.runner.kept_results import read_kept
from kafka_conformance.runner.results import FILE, read_results
from kafka_corpus.answer_diff import difference
from kafka_corpus.evidence import load_evidence
from kafka_corpus.vectors import package_root
from kafka_fuzz.campaign.plan import read_log
from kafka_fuzz.campaign.store import Corpus
from kafka_fuzz.findings import finding_input, read_findings
from kafka_fuzz.triage.deduplicate import read_triage

ROOT = Path(__file__).parent
MARK = "KAFKAPROOF_TEST_OF_KILLS"
SEED = 20
LONG = 400.0
GRACE = 120.0


@dataclass(frozen=True)
class Job:
    """A command that writes into a folder.

    Attributes:
        command: the arguments of `kafkaproof` for a folder.
        result: what has to be the same, read from the folder.
        moments: how often it is killed; an even number.
        codes: the exit codes of a run that ends.
        prepare: makes what the command needs in the folder.
    """

    command: Callable[["Shared", Path], Sequence[object]]
    result: Callable[[Path], Any]
    moments: int
    codes: tuple[int, ...]
    prepare: Callable[["Shared", Path], object] = lambda _, folder: folder


def start(job: Job, shared: "Shared", folder: Path) -> "subprocess.Popen[bytes]":
    """The command in a process group of its own; it and all that it starts bear a mark."""
    argv = [sys.executable, "-m", "kafkaproof", *map(str, job.command(shared, folder))]
    environment = os.environ | {MARK: str(folder)}
    with (folder.parent / "output").open("wb") as output:
        return subprocess.Popen(argv, stdout=output, stderr=output, start_new_session=True, env=environment)


def finish(job: Job, shared: "Shared", folder: Path) -> float:
    """Run the command to its end; the seconds that it took."""
    began = time.monotonic()
    with start(job, shared, folder) as process:
        code = process.wait(LONG)
    assert code in job.codes, (folder.parent / "output").read_text(errors="replace")[-3000:]
    return time.monotonic() - began


def left(folder: Path) -> list[psutil.Process]:
    """Processes that bear the mark of *folder*."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_until_none_is_left(folder: Path) -> None:
    """Fail if a process with the mark of *folder* is there after two minutes."""
    end = time.monotonic() + GRACE
    while there := left(folder):
        assert time.monotonic() < end, there
        time.sleep(0.05)


def kill(job: Job, shared: "Shared", folder: Path, seconds: float) -> bool:
    """Start the command, kill its group after *seconds*; whether it was still running."""
    with start(job, shared, folder) as process:
        time.sleep(seconds)
        running = process.poll() is None
        if running:
            os.killpg(process.pid, signal.SIGKILL)
    wait_until_none_is_left(folder)
    return running


def certified(folder: Path) -> Any:
    """Header, counts and lines of a result, without times, and without the order, which depends on the processes."""
    done = read_results(folder / TESTEE / FILE)
    assert done.complete
    return done.counts(), sorted((without(line, "ms", "deaths") for line in done.lines), key=lambda line: line["case"])


def without(struct: msgspec.Struct, *names: str) -> dict[str, Any]:
    """The fields of *struct* but *names*."""
    return {name: value for name, value in msgspec.structs.asdict(struct).items() if name not in names}


def triaged(folder: Path) -> Any:
    """Each input with its outcome.  Time bounds shrinking, and shrunk inputs decide which findings fold into one."""
    found = read_triage(folder)
    assert found
    return sorted((name, each.outcome.kind) for each in found for name in each.inputs)


def refreshed(folder: Path) -> Any:
    """The kept result, without times."""
    (path,) = (folder / "results").glob(f"{TESTEE}-*.ndjson")
    return {id_: without(line, "ms", "deaths") for id_, line in read_kept(path).lines.items()}


def recorded(folder: Path) -> Any:
    """The cases with an answer, and those whose answer differs from the recorded one; clocks and ids apart."""
    answers = {id_: line.by_release()[NEWEST] for id_, line in load_evidence(folder).items()}
    right = load_evidence(package_root())
    differing = [id_ for id_, answer in answers.items()
                 if difference(right[id_].by_release()[NEWEST], answer, "masked")]  # fmt: skip
    return sorted(answers), differing


def audited(folder: Path) -> Any:
    """All files of the output, without the sums that Hadoop keeps beside them."""
    files = (path for path in sorted((folder / "out").rglob("*")) if path.is_file() and path.suffix != ".crc")
    found = {path.relative_to(folder / "out").as_posix(): path.read_bytes() for path in files}
    assert "manifest.json" in found
    return found


JOBS: Mapping[str, Job] = {
    "certify": Job(
        lambda _, folder: (
            "certify", TESTEE, "--only", "v2_headers.*", "--only", "v1_*", "--resume", "--report", folder,
        ),
        certified, moments=14, codes=(1,),
    ),
    "triage": Job(
        lambda _, folder: ("fuzz", "triage", "--dir", folder, "--seconds", 0.2),
        triaged, moments=8, codes=(0, 1),  # a short campaign may find nothing that the corpus does not know
        prepare=lambda shared, folder: shutil.copytree(shared.campaign, folder, dirs_exist_ok=True),
    ),
    "refresh": Job(
        lambda _, folder: ("refresh", "--step", "results", "--testee", TESTEE, "--root", folder),
        refreshed, moments=8, codes=(0,), prepare=lambda _, folder: Checkout(folder, "v2_headers", "v2_offsets"),
    ),
    "record": Job(
        lambda _, folder: (
            "broker", "record", NEWEST, "--only", "produce_crc.*", "--root", folder, "--dir", folder / "answers",
        ),
        recorded, moments=6, codes=(0,), prepare=lambda _, folder: (folder / "evidence").mkdir(),
    ),
    "audit": Job(
        lambda shared, folder: ("pipeline", "audit", shared.log, "--out", folder / "out", "--now", 0, "--split", 1),
        audited, moments=4, codes=(0, 1),
    ),
    "audit-here": Job(
        lambda shared, folder: ("audit", shared.large_log, "--out", folder / "out", "--now", 0, "--jobs", 2),
        audited, moments=8, codes=(0, 1),
    ),
}  # fmt: skip
MARKS = {"record": [pytest.mark.broker], "audit": [pytest.mark.spark], "audit-here": [pytest.mark.columnar]}
MOMENTS = [
    pytest.param(name, moment, marks=[pytest.mark.slow, *MARKS.get(name, [])], id=f"{name}-{moment}")
    for name, job in JOBS.items()
    for moment in range(job.moments // 2)
]


class Shared:
    """The campaign, the log and the undisturbed results, each made when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._undisturbed: dict[str, tuple[Any, float]] = {}

    @cached_property
    def campaign(self) -> Path:
        """A campaign with findings, not triaged."""
        folder = self._folder / "campaign"
        command = ["fuzz", "run", "--targets", "kafka-python", "--seconds", "1", "--seed", "1", "--dir", str(folder)]
        done = subprocess.run([sys.executable, "-m", "kafkaproof", *command], capture_output=True, check=False)
        assert done.returncode == 1, done.stderr
        return folder

    @cached_property
    def log(self) -> Path:
        """The recorded partition, in one place, since reports name it."""
        unpack(next(ROOT.rglob("recorded_log.tar.gz")), self._folder / "log")
        return self._folder / "log"

    @cached_property
    def large_log(self) -> Path:
        """Logs of more than one task: segments of the recorded partition, repeated."""
        segments = [path.read_bytes() for path in sorted(self.log.rglob("*.log"))]
        for number in range(3):
            folder = self._folder / "large" / f"large-{number}"
            folder.mkdir(parents=True)
            (folder / f"{0:020}.log").write_bytes(b"".join(segments) * 170)
        return self._folder / "large"

    def undisturbed(self, name: str) -> tuple[Any, float]:
        """The result of a command that is not disturbed, and the seconds that it takes."""
        if name not in self._undisturbed:
            folder = self._folder / name / "run"
            folder.mkdir(parents=True)
            JOBS[name].prepare(self, folder)
            seconds = finish(JOBS[name], self, folder)
            self._undisturbed[name] = JOBS[name].result(folder), seconds
        return self._undisturbed[name]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """One for all moments that a process tests."""
    return Shared(tmp_path_factory.mktemp("shared"))


@pytest.mark.parametrize(("name", "moment"), MOMENTS)
def test_a_killed_command_goes_on(name: str, moment: int, shared: Shared, tmp_path: Path) -> None:
    """The result after two kills and another run is that of an undisturbed run."""
    job, (right, seconds) = JOBS[name], shared.undisturbed(name)
    folder = tmp_path / "run"
    folder.mkdir()
    job.prepare(shared, folder)

    # A run that was faster this time has ended before: then there is nothing to resume, and the result holds as well.
    for number in (moment, job.moments - 1 - moment):
        part = (number + random.Random(f"{SEED} {name} {number}").random()) / job.moments
        kill(job, shared, folder, part * seconds)
    finish(job, shared, folder)

    wait_until_none_is_left(folder)
    assert job.result(folder) == right


FUZZED = 8


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(FUZZED))
def test_a_killed_campaign_loses_nothing(moment: int, shared: Shared, tmp_path: Path) -> None:
    """Time ends a campaign, so no two are equal: what was there at the kill is there after the next one, and whole."""
    target, seconds = "kafka-python", 5.0
    folder = tmp_path / "run"
    folder.mkdir()
    job = Job(
        lambda _, folder: ("fuzz", "run", "--targets", target, "--seconds", 2, "--seed", 1, "--dir", folder),
        lambda folder: {find.key for find in read_findings(folder)}, moments=FUZZED, codes=(1,),
    )  # fmt: skip
    long = Job(lambda _, folder: [*job.command(shared, folder), "--seconds", seconds], job.result, FUZZED, job.codes)
    part = (moment + random.Random(f"{SEED} fuzz {moment}").random()) / FUZZED

    running = kill(long, shared, folder, part * seconds)
    findings, inputs = job.result(folder), set(Corpus(folder, target).entries)
    finish(job, shared, folder)

    assert running
    assert findings <= job.result(folder)
    assert inputs <= set(Corpus(folder, target).entries)
    assert [find.key for find in read_findings(folder) if len(finding_input(folder, find)) != find.size] == []
    numbers = [report.number for report in read_log(folder)]
    assert numbers == sorted(set(numbers))
    wait_until_none_is_left(folder)
