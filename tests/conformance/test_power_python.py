"""Mutants of a small package in forks: what differs is seen, what is equal is not, and a hang is ended."""

import importlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="the extra `power` is not installed")

from kafka_conformance.power import python
from kafka_conformance.power.python import MutantRunner, MutatedSource, Placed, forget, placed_mutants, record_behaviour
from kafka_conformance.testees.connection import CannotRun

# Forks of a test process that has threads (xdist), from Python 3.12 on.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")

CODE = """\
STEP = 3

def clamp(number: int | None) -> int:
    if number > 10:
        return 10
    return number + 1

def count(number):
    while number > 0:
        number -= 1
    return number

def never(number):
    return number * 5

def least(number):
    return 4 if number == -5 else 1 + (lambda: number)()

UNITS = {number: "unit" for number in [7]}[8 - 1]
"""


class Toy:
    """Five units of the package `mutated_toy`; a verdict is the reply without what follows a colon."""

    most_seconds = 0.2
    units: Sequence[str] = ["clamp.10", "clamp.12", "clamp.4", "count.3", "least.4"]

    def load(self) -> Callable[[int], bytes]:
        """Import it again."""
        forget(["mutated_toy"])
        toy = importlib.import_module("mutated_toy.code")

        def answer(unit: int) -> bytes:
            name, _, number = self.units[unit].partition(".")
            return f"{getattr(toy, name)(int(number))}:{toy.STEP}".encode()

        return answer

    def grade(self, _unit: int, reply: bytes) -> str:
        """The part that is judged."""
        return reply.decode().partition(":")[0]


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[MutantRunner, list[Placed]]]:
    """Runs mutants of `CODE`, all of which it names."""
    package = tmp_path / "mutated_toy"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "code.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(python, "LEAST_LIMIT", 0.1)
    source = MutatedSource("mutated_toy.code", package / "code.py")
    behaviour = record_behaviour(Toy(), [str(source.path)])
    yield MutantRunner([source], Toy(), behaviour), placed_mutants(source)
    forget(["mutated_toy"])


def only(placed: list[Placed], line: int, mutator: str, index: int = 0) -> Placed:
    """The one mutant there."""
    (found,) = (
        each
        for each in placed
        if each.mutant.line == line and each.mutant.mutator == mutator and each.mutant.index == index
    )
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "mutator", "index", "status", "cases"),
    [
        (5, "NumberReplacer", 0, "seen", ("clamp.12",)),
        (4, "NumberReplacer", 1, "seen", ("clamp.10",)),
        (10, "NumberReplacer", 1, "hang", ("count.3",)),
        (1, "NumberReplacer", 0, "survived", ("clamp.10", "clamp.12", "clamp.4")),
        (14, "NumberReplacer", 0, "not-reached", ()),
        (17, "ReplaceUnaryOperator_USub_Not", 0, "no-program", ()),
        (19, "NumberReplacer", 0, "seen", ()),
    ],
)
def test_a_mutant_has_its_status(
    runner: tuple[MutantRunner, list[Placed]], line: int, mutator: str, index: int, status: str, cases: tuple[str, ...]
) -> None:
    """A planted change is seen by the units that run it; what no verdict shows survives, and a hang is ended."""
    runs, placed = runner
    result = runs.run(only(placed, line, mutator, index).mutant)
    assert (result.status, set(result.cases) <= set(Toy.units)) == (status, True)
    assert set(result.cases[:1]) <= set(cases)


@pytest.mark.slow
def test_an_error_of_the_tool_is_no_result(
    runner: tuple[MutantRunner, list[Placed]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a mutant cannot be made, the run ends with an error: nothing was seen."""
    runs, placed = runner
    monkeypatch.setattr(python, "mutated_text", None)
    with pytest.raises(CannotRun, match="could not be made"):
        runs.run(only(placed, 5, "NumberReplacer").mutant)


@pytest.mark.slow
def test_an_equal_mutant_is_not_seen(runner: tuple[MutantRunner, list[Placed]]) -> None:
    """`number != 0` counts down from 3 as `number > 0` does."""
    runs, placed = runner
    changes = [each.mutant for each in placed if each.mutant.line == 9 and "_Gt_" in each.mutant.mutator]
    found = {each.mutator: runs.run(each).status for each in changes}
    assert found
    for mutator, status in found.items():
        assert status == ("same-replies" if mutator.endswith(("NotEq", "IsNot")) else "seen"), mutator


def test_a_codec_that_does_not_load_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise no unit would run any line, and each mutant would be `not-reached`."""
    monkeypatch.setattr(Toy, "load", None)
    with pytest.raises(CannotRun, match="does not load"):
        record_behaviour(Toy(), ["code.py"])


def running(pid: int) -> bool:
    """Whether there is such a process, and not only its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """The processes that *pid* started, and so on."""
    try:
        found = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*found, *(later for each in found for later in children(each))]


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until *condition*, for a minute at most."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_sigterm_ends_the_run_and_its_forks(tmp_path: Path) -> None:
    """The process that runs mutants, and the fork in which one runs, end with the command."""
    pytest.importorskip("kafka", reason="kafka-python is not installed")
    command = [sys.executable, "-m", "kafkaproof", "power", "mutants", "kafka-python", "--sample", "1"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: len(children(process.pid)) >= 2)
        started = children(process.pid)
        process.terminate()
        assert process.wait(60) == 130
    wait_for(lambda: not any(map(running, started)))


@pytest.mark.slow
def test_annotations_are_no_mutants(runner: tuple[MutantRunner, list[Placed]]) -> None:
    """No code runs `int | None` of a parameter; every key is one mutant's."""
    _, placed = runner
    assert not [each for each in placed if each.mutant.line == 3]
    assert len({each.mutant.key for each in placed}) == len(placed) > 10
    assert {each.mutant.method for each in placed} == {"<module>", "clamp", "count", "never", "least"}
    assert "mutated_toy.code" not in sys.modules
