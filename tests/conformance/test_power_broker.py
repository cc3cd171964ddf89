"""The target `java-broker`: which scenarios a mutant gets, and what a real broker with a mutant answers."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from kafka_brokers.interface import NoBroker
from kafka_brokers.scenarios.recorder import RecordedScenario, ScenarioRequest
from kafka_conformance.power import CoverageTarget, broker, open_target, side_by_side
from kafka_conformance.power.broker import (
    AFTER,
    ALONE,
    CLASSES,
    MOST_CLEANED,
    MOST_SCENARIOS,
    SILENCE,
    START,
    JavaBroker,
    MutantPlayer,
    PlayOutcome,
    expected_scenarios,
    measure_scenarios,
)
from kafka_conformance.power.java import BROKER_RECIPE, FIRST_LIMIT, JavaTools, ReachedLines, covered_lines
from kafka_conformance.power.results import CodeMutant
from kafka_corpus.scenario import Clean, Fetch, Restart, Scenario, Step, StepAnswer

VALIDATOR, STATE, CLEANER = (
    next(name for name in CLASSES if name.endswith(end)) for end in ("LogValidator", "ProducerStateManager", "Cleaner")
)
NOWHERE = JavaTools(Path("agent.jar"), "classes", Path("jacoco.jar"))


def expected(id_: str, step: Step) -> RecordedScenario:
    """A scenario of one step, with an empty answer."""
    return RecordedScenario(ScenarioRequest(id_, "0", Scenario(steps=(step,))), (StepAnswer(),))


def mutant(name: str, line: int, description: str = "a change") -> CodeMutant:
    """A mutant of the class *name*."""
    return CodeMutant(class_name=name, method="m()V", line=line, mutator="M", index=0, description=description)


def player(scenarios: list[RecordedScenario], *reached: ReachedLines) -> MutantPlayer:
    """A player whose broker never starts."""
    return MutantPlayer(NOWHERE, scenarios, reached, Path("code"))


def reaches(scenario: RecordedScenario, name: str, *lines: int) -> ReachedLines:
    """*scenario* reaches *lines* of the class *name*, after its restart if it has one."""
    return ReachedLines((AFTER if scenario.request.scenario.restarts() else "") + scenario.digest, name, lines)


def test_a_mutant_gets_the_scenarios_that_reach_its_line() -> None:
    """Other lines and other classes do not count, and a line that nothing reaches has no scenario."""
    scenarios = [expected("a.one", Fetch()), expected("a.two", Fetch())]
    playing = player(scenarios, reaches(scenarios[1], VALIDATOR, 10, 12), reaches(scenarios[0], STATE, 10))

    assert [each.id for each in playing.in_order(mutant(VALIDATOR, 10))] == ["a.two"]
    assert playing.is_reached(mutant(VALIDATOR, 12))
    assert not playing.is_reached(mutant(VALIDATOR, 11))


def test_each_case_function_comes_before_its_second_case() -> None:
    """Scenarios of the cleaner come last; what is left out are second cases of a function."""
    many = [expected(f"a.many[{number}]", Fetch()) for number in range(MOST_SCENARIOS)]
    scenarios = [*many, expected("a.other", Fetch()), *(expected(f"b.clean[{at}]", Clean()) for at in range(100))]
    reached = [reaches(each, VALIDATOR, 1) for each in scenarios]

    order = [each.id for each in player(scenarios, *reached).in_order(mutant(VALIDATOR, 1))]
    assert len(order) == MOST_SCENARIOS + MOST_CLEANED
    assert "a.other" in order[:2]
    assert all(each.startswith("b.clean") for each in order[MOST_SCENARIOS:])


def test_restarts_are_for_classes_with_state() -> None:
    """Validation does not depend on what a broker found when it started, unless nothing else reaches the line."""
    one, restarts = expected("a.one", Fetch()), expected("a.restarts", Restart())
    lines = [reaches(restarts, name, 1, 2) for name in (VALIDATOR, STATE, CLEANER)]
    start = [ReachedLines(f"{START}0", name, (2, 3)) for name in (VALIDATOR, STATE, CLEANER)]
    plain = [reaches(one, name, 1, 3) for name in (VALIDATOR, STATE, CLEANER)]
    playing = player([one, restarts], *lines, *start, *plain)

    def needs(name: str) -> list[tuple[bool, bool]]:
        mutants = [mutant(name, line) for line in (1, 2, 3)]
        return [(playing.needs_start(each), playing.needs_restarts(each)) for each in mutants]

    assert needs(VALIDATOR) == [(False, False), (False, True), (False, False)]
    assert needs(CLEANER) == [(False, True), (False, True), (False, False)]
    assert [start for start, _ in needs(STATE)] == [True, True, True]


class StandIn:
    """In place of a `MutableBroker`: with a mutant it answers *answers*, one a call, and then its agent has ended."""

    def __init__(self, answers: list[str], *, slow: bool = False) -> None:
        self.broker = SimpleNamespace(limit=0, starts_left=0)
        self.recorder = SimpleNamespace(close=lambda: None, renew=lambda: None)
        self._answers = answers
        self._slow = slow
        self.replaced: dict[str, Path] = {}
        self._ended = False

    @property
    def mutants(self) -> list[Path]:
        """The mutants in it."""
        return [code for code in self.replaced.values() if code.name.startswith("mutant")]

    def is_worn(self) -> bool:
        """It never is."""
        return False

    def close(self) -> None:
        """Nothing runs."""

    def replace(self, codes: Mapping[str, Path], **_options: bool) -> None:
        """Note what is replaced."""
        if self._ended:
            raise ConnectionRefusedError
        self.replaced.update(codes)

    def play(self, _scenario: RecordedScenario, limit: float = FIRST_LIMIT) -> PlayOutcome:
        """The next answer of a mutant; without one, no difference."""
        if not self.mutants:
            return PlayOutcome("", 0.1, limit)
        self._ended = not self._slow
        return PlayOutcome(self._answers.pop(0), limit if self._slow else 0.1, limit)

    def differing(self, left: deque[RecordedScenario]) -> list[RecordedScenario]:
        """Nothing differs."""
        left.clear()
        return []


@pytest.mark.parametrize(
    ("answers", "slow", "status"),
    [
        (["error 56"], False, "seen"),
        ([SILENCE, SILENCE], False, "hang"),
        (["error 56", "error 56"], True, "seen"),
        (["error 56", "", "error 56", ""], True, None),
        (["", "error 56", "error 56"], True, "seen"),
    ],
)
def test_a_difference_is_repeated_where_time_is_its_cause(
    answers: list[str], slow: bool, status: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that a mutant ended is replaced; what waited as long as it could gets more time before it counts."""
    monkeypatch.setattr(broker, "MutableBroker", lambda _tools: StandIn(answers, slow=slow))
    scenarios = [expected("a.one", Fetch()), expected("a.two", Fetch())]
    playing = player(scenarios, *(reaches(each, VALIDATOR, 10) for each in scenarios))

    result = playing.alone(mutant(VALIDATOR, 10), Path("mutant"))
    assert (result.status if result else None) == status
    assert not answers


def test_a_broker_that_ends_after_the_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """No scenario sees the mutant, and the next mutant gets a new broker."""
    started: list[StandIn] = []

    def start(_tools: JavaTools) -> StandIn:
        started.append(StandIn(["", ""]))
        return started[-1]

    monkeypatch.setattr(broker, "MutableBroker", start)
    scenario = expected("a.one", Fetch())
    playing = player([scenario], reaches(scenario, VALIDATOR, 10))

    assert [playing.alone(mutant(VALIDATOR, 10), Path("mutant")) for _ in range(2)] == [None, None]
    assert len(started) == 2


def test_mutants_of_different_classes_play_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scenario that differs with several mutants is played to each alone; those that are not seen go on."""
    rounds: list[list[str]] = []
    bad = expected("a.many[9]", Fetch())

    class Together(StandIn):
        def differing(self, left: deque[RecordedScenario]) -> list[RecordedScenario]:
            rounds.append(sorted(code.name for code in self.mutants))
            found = [left.popleft() for each in list(left) if Path("mutant-state") in self.mutants]
            return [each for each in found if each.id == bad.id] or super().differing(left)

        def play(self, scenario: RecordedScenario, limit: float = FIRST_LIMIT) -> PlayOutcome:
            differs = scenario.id == bad.id and Path("mutant-state") in self.mutants
            return PlayOutcome("error 56" if differs else "", 0.1, limit)

    monkeypatch.setattr(broker, "MutableBroker", lambda _tools: Together([]))
    scenarios = [*(expected(f"a.many[{at}]", Fetch()) for at in range(20) if at != 9), bad]
    monkeypatch.setattr(MutantPlayer, "in_order", lambda *_: scenarios)
    playing = player(scenarios, *(reaches(each, name, 1) for each in scenarios for name in (STATE, CLEANER)))
    group = [(mutant(STATE, 1), Path("mutant-state")), (mutant(CLEANER, 1), Path("mutant-cleaner"))]

    assert [playing.alone(*each) for each in group] == [None, None]
    found = {each.class_name: result and (result.status, result.cases) for each, _, result in playing.together(group)}
    assert found == {STATE: ("seen", (bad.id,)), CLEANER: None}
    assert rounds[0] == ["mutant-cleaner", "mutant-state"]


def test_a_mutant_gets_each_scenario_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants of the method that are seen while one waits change none of its scenarios."""
    scenario_ids: list[str] = []

    class Noting(StandIn):
        def play(self, scenario: RecordedScenario, limit: float = FIRST_LIMIT) -> PlayOutcome:
            scenario_ids.append(scenario.id)
            return PlayOutcome("", 0.1, limit)

        def differing(self, left: deque[RecordedScenario]) -> list[RecordedScenario]:
            scenario_ids.extend(each.id for each in left)
            return super().differing(left)

    monkeypatch.setattr(broker, "MutableBroker", lambda _tools: Noting([]))
    scenarios = [expected(f"a.many[{at}]", Fetch()) for at in range(2 * ALONE)]
    playing = player(scenarios, *(reaches(each, VALIDATOR, 1) for each in scenarios))
    waiting = mutant(VALIDATOR, 1), Path("mutant")

    assert playing.alone(*waiting) is None
    last = playing.in_order(waiting[0])[-1]
    playing._saw[waiting[0].method, last.id] += 1
    assert [result for *_, result in playing.together([waiting])] == [None]
    assert sorted(scenario_ids) == sorted(each.id for each in scenarios)


@pytest.mark.parametrize("place", ["start", "play"])
def test_no_broker_outlives_a_run(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends while a broker starts, or is started again by a scenario: neither is left."""
    is_there = Event()

    def wait(is_done: Callable[[], bool]) -> None:
        is_there.set()
        end = time.monotonic() + 5
        while not is_done() and time.monotonic() < end:
            time.sleep(0.001)

    class Process(StandIn):
        runs = True

        def close(self) -> None:
            self.runs = False

        def play(self, _scenario: RecordedScenario, limit: float = FIRST_LIMIT) -> PlayOutcome:
            if place == "play":
                wait(lambda: not self.runs)
                self.runs = True
            return PlayOutcome("", 0.1, limit)

    started: list[Process] = []

    def start(_tools: JavaTools) -> StandIn:
        if place == "start":
            wait(lambda: playing._is_ended)
        started.append(Process([]))
        return started[-1]

    monkeypatch.setattr(broker, "MutableBroker", start)
    scenario = expected("a.one", Fetch())
    playing = player([scenario], reaches(scenario, VALIDATOR, 10))
    found = side_by_side([playing], deque((mutant(VALIDATOR, line), Path("mutant")) for line in (1, 10)))

    assert next(found).status == "not-reached"
    assert is_there.wait(5)
    found.close()
    assert [each.runs for each in started] == [False]


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

    def play(running: StandIn, scenarios: list[RecordedScenario]) -> Iterator[tuple[RecordedScenario, str]]:
        if bool(running.mutants) and next(failures, False):
            raise NoBroker("it does not start")
        for each in scenarios:
            is_flaky = int(each.id[-2]) < flaky
            yield each, "error 56" if is_flaky or (running.mutants and 0 < flaky < 6) else ""

    monkeypatch.setattr(broker, "MutableBroker", lambda _tools: StandIn([]))
    monkeypatch.setattr(broker, "play_restarts", play)
    playing = player([expected(f"a.restarts[{at}]", Restart()) for at in range(6)])

    result = playing.restarted(mutant(STATE, 10), Path("mutant"))
    assert (result.status, result.cases) == (status, cases)


def test_mutants_of_different_classes_restart_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a scenario sees one of a group, the others play together again; two of one class are never together."""
    rounds: list[list[str]] = []

    def play(running: StandIn, scenarios: list[RecordedScenario]) -> Iterator[tuple[RecordedScenario, str]]:
        names = sorted(code.name for code in running.mutants)
        if scenarios:
            rounds.append(names)
        yield from ((each, "error 56" if "mutant-2" in names else "") for each in scenarios)

    monkeypatch.setattr(broker, "MutableBroker", lambda _tools: StandIn([]))
    monkeypatch.setattr(broker, "play_restarts", play)
    playing = player([expected("a.restarts", Restart())])
    later = [(mutant(name, line), Path(f"mutant-{line}")) for name, line in ((STATE, 1), (CLEANER, 2), (STATE, 3))]

    found = {each.line: each.status for each in playing.restarted_together(later)}
    assert found == {1: "same-replies", 2: "seen", 3: "same-replies"}
    assert rounds[0] == ["mutant-1", "mutant-2"]
    assert not any({"mutant-1", "mutant-3"} <= set(names) for names in rounds)


@pytest.mark.parametrize(("without", "status"), [("", "seen"), ("error 56", "same-replies")])
def test_what_follows_a_restart_is_prepared(without: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each mutant gets partitions of its own after one restart; what differs counts if it does not without a mutant."""
    one, two = expected("a.one", Restart()), expected("a.two", Restart())
    started = start_prepared(
        monkeypatch, lambda running, each: each is two and (bool(running.mutants) or bool(without))
    )
    playing = player([one, two], reaches(one, CLEANER, 1, 2), reaches(two, CLEANER, 2))

    found = playing.after_restarts([(mutant(CLEANER, line), Path(f"mutant-{line}")) for line in (1, 2)])
    assert {each.line: (each.status, each.cases) for each in found} == {
        1: ("same-replies", ()),
        2: (status, ("a.two",) if status == "seen" else ()),
    }
    assert len(started) == 2


@pytest.mark.parametrize("damaging", ["mutant-1", "mutant-2", "mutant-3"])
def test_a_mutant_that_damages_a_broker_shows_in_no_other(damaging: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the damage all scenarios differ, with other mutants and without one; those count that do so by themselves.

    The first mutant is seen before, the fourth after the damage; the others differ in nothing that is played.
    """
    scenarios = [expected("a.one", Restart()), expected("a.two", Restart())]
    damaged: set[int] = set()

    def differs(running: StandIn, scenario: RecordedScenario) -> bool:
        names = [each.name for each in running.mutants]
        is_right = id(running) not in damaged
        if damaging in names:
            damaged.add(id(running))
        return not is_right or (scenario is scenarios[1] and names in (["mutant-1"], ["mutant-4"]))

    started = start_prepared(monkeypatch, differs)
    lines = range(1, 6)
    playing = player(scenarios, *(reaches(each, CLEANER, *lines) for each in scenarios))

    found = playing.after_restarts([(mutant(CLEANER, line), Path(f"mutant-{line}")) for line in lines])
    assert {each.line for each in found if each.status == "seen"} == {1, 4}
    assert len(started) > 2


def start_prepared(
    monkeypatch: pytest.MonkeyPatch, differs: Callable[[StandIn, RecordedScenario], bool]
) -> list[StandIn]:
    """Have brokers start that prepare scenarios, in which what follows a restart *differs*; those that were started."""
    started: list[StandIn] = []

    class Prepared(StandIn):
        def prepared(self, scenarios: list[RecordedScenario], copies: int) -> list[dict[str, SimpleNamespace]]:
            return [{each.id: SimpleNamespace(client=None) for each in scenarios} for _ in range(copies)]

    def start(_tools: JavaTools) -> StandIn:
        started.append(Prepared([]))
        started[-1].broker.client = nullcontext
        return started[-1]

    monkeypatch.setattr(broker, "MutableBroker", start)
    monkeypatch.setattr(broker, "_rest_differs", lambda _, each: "error 56" if differs(started[-1], each) else "")
    return started


def test_differing_scenarios_run_several_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first difference ends the round, and scenarios that did not run are left for the next."""
    running = object.__new__(broker.MutableBroker)
    one = SimpleNamespace(
        play=lambda scenario, stop: (StepAnswer(error_code=scenario.steps[0].offset),), wait_limits=None
    )
    monkeypatch.setattr(broker.MutableBroker, "_connected_players", lambda _self: [one])
    left = deque(expected(f"a.case[{at}]", Fetch(offset=at % 3)) for at in range(6))

    found = [[each.id for each in running.differing(left)] for _ in range(3)]
    assert found == [["a.case[1]"], ["a.case[2]"], ["a.case[4]"]]
    assert len(left) == 1


def test_measurements_are_whole_and_of_todays_scenarios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was being written when a run ended does not count, and those that no scenario has are removed."""
    running = object.__new__(broker.MutableBroker)

    def command(_self: object, _word: str, path: str) -> None:
        Path(path).write_bytes(b"half of it")
        raise NoBroker("it ended")

    monkeypatch.setattr(broker.MutableBroker, "_command", command)
    monkeypatch.setattr(broker, "KEPT", tmp_path)
    monkeypatch.setattr(broker, "measure_scenarios", lambda *_: None)
    monkeypatch.setattr(JavaTools, "lines", lambda *_: [])
    scenario = expected("a.one", Fetch())
    broker.covered_by(NOWHERE, [scenario])
    (folder,) = tmp_path.iterdir()
    whole, other, half = (folder / f"{name}.exec" for name in (scenario.digest, "ab" * 32, "half"))
    with pytest.raises(NoBroker):
        running.measure(half)
    assert not half.exists()
    whole.write_bytes(b"all")
    other.write_bytes(b"of another corpus")
    assert broker.covered_by(NOWHERE, [scenario]) == ([], [])
    assert len(list(folder.glob("*.ndjson"))) == 1
    assert [each.name for each in folder.iterdir() if each.suffix not in (".ndjson", "")] == [whole.name]


def test_scenarios_are_those_of_brokers() -> None:
    """Each has an answer for each step, and its own answers do not differ from themselves."""
    found = expected_scenarios()

    assert len(found) > 1000
    assert all(len(each.answers) == len(each.request.scenario.steps) for each in found)
    assert not any(each.difference(each.answers) for each in found[:50])
    long = next(each for each in found if len(each.answers) > 2)
    wrong = (*long.answers[:1], StepAnswer(error_code=99))
    assert (long.is_wrong(long.answers[:1]), long.is_wrong(wrong)) == (False, True)
    assert long.difference(wrong).startswith("[1]")
    assert found[0].difference(()) == f"0 answers, expected {len(found[0].answers)}"


def test_sources_are_there() -> None:
    """Every source of the recipe is in its folder, and each jar of the build has a committed sum."""
    assert all((BROKER_RECIPE.folder / name).is_file() for name in (*BROKER_RECIPE.sources, "jars.sha256"))
    assert isinstance(open_target("java-broker"), CoverageTarget)


@pytest.mark.broker
@pytest.mark.slow
def test_mutants_of_a_running_broker(tmp_path: Path) -> None:
    """Timestamps at the limits show that a running broker no longer checks them; what they do not reach is not seen."""
    target = JavaBroker()
    scenarios = [each for each in expected_scenarios() if each.id.startswith("produce_timestamps.")][:12]
    measure_scenarios(target.tools, scenarios, tmp_path)
    lines = target.tools.lines("BrokerCoverage", str(tmp_path), *CLASSES)
    reached, methods = covered_lines(map(str.encode, lines))
    assert any(each.class_name == VALIDATOR and 0 < each.covered < each.branches for each in methods)

    mutants = [
        each
        for each in target.mutants()
        if each.class_name == VALIDATOR and each.method.startswith("validateTimestamp")
    ]
    code = target.class_files(mutants, tmp_path)
    with closing(MutantPlayer(target.tools, scenarios, reached, tmp_path)) as playing:
        found = list(playing.results((each, code[each.key]) for each in mutants[:4]))
    status = {(each.mutator, each.index): each.status for each in found}
    assert status.pop(("RemoveConditionalMutator_EQUAL_ELSE", 5)) == "seen"
    # The first twelve scenarios do not show these.
    assert list(status.values()) == ["same-replies"] * 3
