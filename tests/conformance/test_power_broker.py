"""The target `java-broker`: which scenarios a mutant gets, and what a real broker with a mutant answers."""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from kafka_brokers.interface import NoBroker
from kafka_brokers.scenarios.recorder import ScenarioRequest
from kafka_conformance.power import CoverageTarget, broker, open_target
from kafka_conformance.power.broker import (
    CLASSES,
    MOST_CLEANED,
    MOST_SCENARIOS,
    RECIPE,
    RESTARTS,
    Expected,
    JavaBroker,
    JavaTools,
    MutantPlayer,
    ReachedLines,
    expected_scenarios,
    measure_scenarios,
)
from kafka_conformance.power.results import CodeMutant, MethodCoverage
from kafka_corpus.scenario import Clean, Fetch, Restart, Scenario, Step, StepAnswer

VALIDATOR, STATE, CLEANER = (
    next(name for name in CLASSES if name.endswith(end)) for end in ("LogValidator", "ProducerStateManager", "Cleaner")
)
NOWHERE = JavaTools(Path("agent.jar"), "classes", Path("jacoco.jar"))


def expected(id_: str, step: Step) -> Expected:
    """A scenario of one step, with an empty answer."""
    return Expected(ScenarioRequest(id_, "0", Scenario(steps=(step,))), (StepAnswer(),))


def mutant(name: str, line: int, description: str = "a change") -> CodeMutant:
    """A mutant of the class *name*."""
    return CodeMutant(class_name=name, method="m()V", line=line, mutator="M", index=0, description=description)


def player(scenarios: list[Expected], *reached: ReachedLines) -> MutantPlayer:
    """A player whose broker never starts."""
    return MutantPlayer(NOWHERE, scenarios, reached, Path("code"))


def test_a_mutant_gets_the_scenarios_that_reach_its_line() -> None:
    """Other lines and other classes do not count, and a line that nothing reaches has no scenario."""
    scenarios = [expected("a.one", Fetch()), expected("a.two", Fetch())]
    playing = player(scenarios, ReachedLines("1", VALIDATOR, (10, 12)), ReachedLines("0", STATE, (10,)))

    assert [each.id for each in playing.in_order(mutant(VALIDATOR, 10))] == ["a.two"]
    assert playing.is_reached(mutant(VALIDATOR, 12))
    assert not playing.is_reached(mutant(VALIDATOR, 11))


def test_each_case_function_comes_before_its_second_case() -> None:
    """Scenarios of the cleaner come last; what is left out are second cases of a function."""
    many = [expected(f"a.many[{number}]", Fetch()) for number in range(MOST_SCENARIOS)]
    scenarios = [*many, expected("a.other", Fetch()), *(expected(f"b.clean[{at}]", Clean()) for at in range(100))]
    reached = [ReachedLines(str(at), VALIDATOR, (1,)) for at in range(len(scenarios))]

    order = [each.id for each in player(scenarios, *reached).in_order(mutant(VALIDATOR, 1))]
    assert len(order) == MOST_SCENARIOS + MOST_CLEANED
    assert "a.other" in order[:2]
    assert all(each.startswith("b.clean") for each in order[MOST_SCENARIOS:])


def test_restarts_are_for_classes_with_state() -> None:
    """Validation does not depend on what a broker found when it started, unless nothing else reaches the line."""
    scenarios = [expected("a.one", Fetch()), expected("a.restarts", Restart())]
    lines = (ReachedLines(RESTARTS + "0", name, (1, 2)) for name in (VALIDATOR, STATE))
    playing = player(scenarios, *lines, ReachedLines("0", VALIDATOR, (1,)), ReachedLines("0", STATE, (1,)))

    assert [playing.needs_restarts(mutant(VALIDATOR, line)) for line in (1, 2, 3)] == [False, True, False]
    assert [playing.needs_restarts(mutant(STATE, line)) for line in (1, 2, 3)] == [True, True, False]


class StandIn:
    """In place of a `MutableBroker`: with a mutant it answers *answers*, one a call, and then its agent has ended."""

    def __init__(self, answers: list[str]) -> None:
        self.broker = SimpleNamespace(limit=0, starts_left=0)
        self._answers = answers
        self._ended = self.is_changed = False
        self.classes = 0

    def is_worn(self) -> bool:
        """It never is."""
        return False

    def close(self) -> None:
        """Nothing runs."""

    def replace(self, codes: Mapping[str, Path], **_options: bool) -> None:
        """Note whether a mutant is among them."""
        if self._ended:
            raise ConnectionRefusedError
        self.is_changed = any(code.name.startswith("mutant") for code in codes.values())
        self.classes = len(codes)

    def difference(self, _scenario: Expected) -> str:
        """The next answer of a mutant; without one, no difference."""
        if not self.is_changed:
            return ""
        self._ended = True
        return self._answers.pop(0)


@pytest.mark.parametrize(
    ("answers", "status"), [(["error 56", "error 56"], "seen"), (["", "error 56", "error 56"], "seen")]
)
def test_a_mutant_may_end_the_broker(answers: list[str], status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that a mutant ended after its answer is replaced by a new one, and the run goes on."""
    monkeypatch.setattr(broker, "MutableBroker", lambda _tools: StandIn(answers))
    scenarios = [expected("a.one", Fetch()), expected("a.two", Fetch())]
    playing = player(scenarios, *(ReachedLines(name, VALIDATOR, (10,)) for name in "01"))

    result = playing.result(mutant(VALIDATOR, 10), Path("mutant"))
    assert result is not None
    assert result.status == status


def test_a_broker_that_ends_after_the_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scenario sees the mutant, and the next mutant gets a new broker."""
    started: list[StandIn] = []

    def start(_tools: JavaTools) -> StandIn:
        started.append(StandIn(["", ""]))
        return started[-1]

    monkeypatch.setattr(broker, "MutableBroker", start)
    playing = player([expected("a.one", Fetch())], ReachedLines("0", VALIDATOR, (10,)))

    assert [playing.result(mutant(VALIDATOR, 10), Path("mutant")) for _ in range(2)] == [None, None]
    assert len(started) == 2


@pytest.mark.parametrize(
    ("failing", "flaky", "status", "cases"),
    [
        (1, 0, "same-replies", ()),
        (2, 0, "hang", ("a.restarts[0]",)),
        (1, 5, "seen", ("a.restarts[5]",)),
        (0, 6, "same-replies", ()),
    ],
)
def test_what_restarts_see_is_repeated(
    failing: int, flaky: int, status: str, cases: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that fails once is no hang, and a scenario that differs counts after any number of flaky ones."""
    failures = iter([True] * failing)

    def play(running: StandIn, scenarios: list[Expected]) -> Iterator[tuple[Expected, str]]:
        if running.is_changed and next(failures, False):
            raise NoBroker("it does not start")
        for each in scenarios:
            is_flaky = int(each.id[-2]) < flaky
            yield each, "error 56" if is_flaky or (running.is_changed and 0 < flaky < 6) else ""

    monkeypatch.setattr(broker, "MutableBroker", lambda _tools: StandIn([]))
    monkeypatch.setattr(broker, "play_restarts", play)
    playing = player([expected(f"a.restarts[{at}]", Restart()) for at in range(6)])

    result = playing.restarted(mutant(STATE, 10), Path("mutant"))
    assert (result.status, result.cases) == (status, cases)


def test_mutants_of_different_classes_restart_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a scenario sees one of a group, each of the group plays alone; two of one class are never together."""
    rounds: list[tuple[int, str]] = []

    def play(running: StandIn, scenarios: list[Expected]) -> Iterator[tuple[Expected, str]]:
        differs = "error 56" if running.is_changed and (running.classes > 1 or len(rounds) < 2) else ""
        rounds.append((running.classes, differs))
        yield from ((each, differs) for each in scenarios)

    monkeypatch.setattr(broker, "MutableBroker", lambda _tools: StandIn([]))
    monkeypatch.setattr(broker, "play_restarts", play)
    playing = player([expected("a.restarts", Restart())])
    later = [(mutant(name, line), Path("mutant")) for name, line in ((STATE, 1), (CLEANER, 2), (STATE, 3))]

    found = {each.line: each.status for each in playing.restarted_together(later)}
    assert found == {1: "seen", 2: "same-replies", 3: "same-replies"}
    assert rounds[0] == (2, "error 56")


def test_differing_scenarios_run_several_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first difference ends the round, and scenarios that did not run are left for the next."""
    running = object.__new__(broker.MutableBroker)
    players = [SimpleNamespace(play=lambda scenario: (StepAnswer(error_code=scenario.steps[0].offset),))]
    monkeypatch.setattr(broker.MutableBroker, "_connected_players", lambda _self: players)
    left = deque(expected(f"a.case[{at}]", Fetch(offset=at % 3)) for at in range(6))

    found = [[each.id for each in running.differing(left)] for _ in range(3)]
    assert found == [["a.case[1]"], ["a.case[2]"], ["a.case[4]"]]
    assert len(left) == 1


def test_scenarios_are_those_of_brokers() -> None:
    """Each has an answer for each step, and its own answers do not differ from themselves."""
    found = expected_scenarios()

    assert len(found) > 1000
    assert all(len(each.answers) == len(each.request.scenario.steps) for each in found)
    assert not any(each.difference(each.answers) for each in found[:50])
    assert found[0].difference(()) == f"0 answers, expected {len(found[0].answers)}"


def test_sources_are_there() -> None:
    """Every source of the recipe is in its folder, and each jar of the build has a committed sum."""
    assert all((RECIPE.folder / name).is_file() for name in (*RECIPE.sources, "jars.sha256"))
    assert isinstance(open_target("java-broker"), CoverageTarget)


@pytest.mark.broker
@pytest.mark.slow
def test_mutants_of_a_running_broker(tmp_path: Path) -> None:
    """Timestamps at the limits show every mutant of the method that checks them, while the broker runs."""
    target = JavaBroker()
    scenarios = [each for each in expected_scenarios() if each.id.startswith("produce_timestamps.")][:12]
    measure_scenarios(target.tools, scenarios, tmp_path)
    lines = target.tools.lines("BrokerCoverage", str(tmp_path), *CLASSES)
    reached = [msgspec.json.decode(line, type=ReachedLines) for line in lines if line.startswith('{"name"')]
    methods = [msgspec.json.decode(line, type=MethodCoverage) for line in lines if not line.startswith('{"name"')]
    assert any(each.class_name == VALIDATOR and 0 < each.covered < each.branches for each in methods)

    mutants = [
        each
        for each in target.mutants()
        if each.class_name == VALIDATOR and each.method.startswith("validateTimestamp")
    ]
    code = target.class_files(mutants, tmp_path)
    with closing(MutantPlayer(target.tools, scenarios, reached, tmp_path)) as playing:
        found = [playing.result(each, code[each.key]) for each in mutants[:4]]
    assert {each.status for each in found if each} == {"seen"}
