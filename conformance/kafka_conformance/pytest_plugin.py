"""A plugin of pytest's: every case a test of its own.

Two ways, one for each kind of codec:

- a codec of this process: a test that takes the fixture `kafkaproof_case` runs
  once for each case, and hands `check_decode` or `check_encode` a function;
- any testee: `pytest --kafkaproof TESTEE` collects a test for each case,
  without a line of code.

Known deviations are expected failures, and strict: one that no longer happens
fails the session.  What this module needs beyond pytest is imported when a
session enables it, since pytest loads every plugin that is installed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr

    from kafka_conformance.in_process import Decode, Encode, Errors
    from kafka_conformance.judge.verdict import Verdict
    from kafka_conformance.runner.deviations import Deviation
    from kafka_conformance.runner.sandbox import Sandbox
    from kafka_corpus.case import Case

MARK: Final = (
    "kafkaproof(op='decode', only=(), magics=(0, 1, 2), compressions=(...), heavy=False, deviations=''): "
    "which cases the fixture kafkaproof_case gives."
)
# Under this name a test's report carries what became of its case.
PROPERTY: Final = "kafkaproof"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Our options, and the same for the configuration file."""
    group = parser.getgroup("kafkaproof", "conformance of codecs of Kafka's record formats")
    group.addoption("--kafkaproof", metavar="TESTEE", help="Send every case to this testee, each as a test of its own.")
    group.addoption("--kafkaproof-only", action="append", metavar="GLOB", help="Cases by id, area or rule.")
    group.addoption("--kafkaproof-deviations", metavar="FILE", help="Known deviations (TOML), strict.")
    parser.addini("kafkaproof", "The testee that every case is sent to.", default="")
    parser.addini("kafkaproof_only", "Cases by id, area or rule.", type="args", default=[])
    parser.addini("kafkaproof_deviations", "Known deviations (TOML), strict.", default="")


def pytest_configure(config: pytest.Config) -> None:
    """The marker, and what the session remembers."""
    config.addinivalue_line("markers", MARK)
    config.stash[STATE] = _State()


def _setting(config: pytest.Config, name: str) -> Any:
    """The option *name*, else what the configuration file says; an option that is not ours is None."""
    return config.getoption(name) or config.getini(name)


@dataclass
class _State:
    """State of one pytest session.

    Attributes:
        declared: the deviations of each file that was named.
        outcomes: of each such file, the outcome of each case that was run.
        causes: of each such file, the causes of the findings.
        sandbox: the testee, once it was started.
    """

    declared: dict[str, tuple[Deviation, ...]] = field(default_factory=dict)
    outcomes: dict[str, dict[str, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    causes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    sandbox: Sandbox | None = None

    def deviations(self, file: str) -> tuple[Deviation, ...]:
        """The entries of *file*, read once."""
        if file and file not in self.declared:
            from kafka_conformance.runner.deviations import load_deviations
            from kafka_corpus.known_issues import BadIssueList

            try:
                self.declared[file] = load_deviations(Path(file))
            except BadIssueList as error:
                raise pytest.UsageError(f"kafkaproof: {error}") from error
        return self.declared.get(file, ())


STATE: Final = pytest.StashKey[_State]()


# The fixture


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each case that the marker and the configuration select."""
    if "kafkaproof_case" not in metafunc.fixturenames:
        return
    marked = _marked(metafunc.definition)
    cases = _cases(metafunc.config, marked)
    metafunc.parametrize("kafkaproof_case", cases, ids=[case.id for case in cases], indirect=True)


def _marked(node: pytest.Item | pytest.Function) -> dict[str, Any]:
    """The arguments of a test's markers, the nearest marker first."""
    known = {"op", "only", "magics", "compressions", "heavy", "deviations"}
    said: dict[str, Any] = {}
    for mark in node.iter_markers("kafkaproof"):
        if mark.args or not known.issuperset(mark.kwargs):
            raise pytest.UsageError(f"{node.nodeid}: the marker kafkaproof takes {', '.join(sorted(known))}, by name")
        said = dict(mark.kwargs) | said
    return said


def _cases(config: pytest.Config, marked: dict[str, Any]) -> list[Case]:
    from kafka_conformance.in_process import CodecFunctions, select_cases
    from kafka_conformance.runner.requests import unsupported

    only = _words(config.getoption("kafkaproof_only") or marked.get("only") or config.getini("kafkaproof_only"))
    given: dict[str, Any] = {name: tuple(marked[name]) for name in ("magics", "compressions") if name in marked}
    hello = CodecFunctions(decode=lambda _: (), encode=lambda _: b"", **given).hello()
    op = marked.get("op", "decode")
    cases = select_cases(only, ops={op}, heavy=bool(marked.get("heavy")))
    return [case for case in cases if unsupported(case, hello) is None]


def _words(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


@pytest.fixture
def kafkaproof_case(request: pytest.FixtureRequest) -> CaseUnderTest:
    """One case of the corpus; the test runs once for each."""
    file = _marked(request.node).get("deviations") or _setting(request.config, "kafkaproof_deviations")
    return CaseUnderTest(request.param, request.node, str(request.config.rootpath / file) if file else "")


@dataclass(frozen=True)
class CaseUnderTest:
    """A case, and the test that it is put to."""

    case: Case
    item: pytest.Item
    file: str

    def __repr__(self) -> str:
        return self.case.id

    def check_decode(self, decode: Decode, errors: Errors | None = None) -> None:
        """Fail the test unless `decode` answers the case as is right; `check_codec` says what it gives and raises."""
        __tracebackhide__ = True
        self._check("decode", decode=decode, errors=errors)

    def check_encode(self, encode: Encode, errors: Errors | None = None) -> None:
        """The same for a function that writes a `kafka_records.Batch`."""
        __tracebackhide__ = True
        self._check("encode", encode=encode, errors=errors)

    def _check(self, op: str, **functions: Any) -> None:
        __tracebackhide__ = True
        from kafka_conformance.in_process import CodecFunctions, judge_case

        if self.case.op != op:
            pytest.fail(f"this is a case to {self.case.op}: mark the test with kafkaproof(op={op!r})", pytrace=False)
        _, verdict = judge_case(CodecFunctions(**functions), self.case)
        _settle(self.item, self.case, verdict, self.file)


def _settle(item: pytest.Item, case: Case, verdict: Verdict, file: str, row: str = "") -> None:
    """Pass, fail, skip or expectedly fail, as the verdict and the known deviations of *row* say."""
    __tracebackhide__ = True
    from kafka_conformance.in_process import case_failure_text
    from kafka_conformance.reports.profiles import line_cause
    from kafka_conformance.runner.results import result_line

    item.user_properties.append((PROPERTY, f"{verdict.outcome} {file}"))
    item.user_properties.append((f"{PROPERTY}_case", case.id))
    if verdict.outcome in ("skipped", "not_asked"):
        pytest.skip(verdict.why)
    if verdict.outcome == "agree":
        return
    line = result_line(case, verdict, {}, 0.0, 0)
    declared = item.config.stash[STATE].deviations(file)
    cause = line_cause(case, line, row) if any(entry.cause for entry in declared) else ""
    item.user_properties.append((f"{PROPERTY}_cause", cause))
    for entry in declared:
        if entry.covers(line, (cause,)):
            pytest.xfail(f"{verdict.outcome}: {entry.reason}")
    pytest.fail(case_failure_text(case, verdict), pytrace=False)


# The testee


class TesteeCollector(pytest.Collector):
    """Collects the cases of `--kafkaproof` as test items."""

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each case that the testee supports."""
        from kafka_conformance.in_process import select_cases
        from kafka_conformance.runner.requests import unsupported

        only = _words(_setting(self.config, "kafkaproof_only"))
        hello = _sandbox(self.config).hello()
        for case in select_cases(only, heavy=True):
            if unsupported(case, hello) is None:
                yield TesteeCase.from_parent(self, name=case.id, case=case)


class TesteeCase(pytest.Item):
    """One case, put to the testee."""

    def __init__(self, *, case: Case, **options: Any) -> None:
        super().__init__(**options)
        self.case = case

    def runtest(self) -> None:
        """Ask, and judge the answer."""
        from kafka_conformance.judge.verdict import judge
        from kafka_conformance.reports.profiles import row_name
        from kafka_conformance.runner.requests import request_for

        sandbox = _sandbox(self.config)
        (answered,) = sandbox.ask([request_for(self.case)])
        file = _setting(self.config, "kafkaproof_deviations")
        path = str(self.config.rootpath / file) if file else ""
        row = row_name({"name": sandbox.hello().name, "connect": _setting(self.config, "kafkaproof")})
        _settle(self, self.case, judge(self.case, answered.observation), path, row)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str | TerminalRepr:
        """The finding, without the code that found it."""
        if isinstance(excinfo.value, pytest.fail.Exception):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it stands: in no file."""
        return self.path, None, f"kafkaproof: {self.name}"


def _sandbox(config: pytest.Config) -> Sandbox:
    """The testee, started when it is first needed."""
    state = config.stash[STATE]
    if state.sandbox is None:
        from kafka_conformance.runner.run import trivial_decodes
        from kafka_conformance.runner.sandbox import Sandbox
        from kafka_conformance.testees.connection import BadConnect, CannotRun
        from kafka_conformance.testees.known import connect

        try:
            sandbox = Sandbox(connect(_setting(config, "kafkaproof")))
            sandbox.hello()
        except (BadConnect, CannotRun) as error:
            hint = getattr(error, "hint", "")
            raise pytest.UsageError(f"--kafkaproof: {error}" + (f"\n  hint: {hint}" if hint else "")) from error
        sandbox.calibrate(trivial_decodes())
        state.sandbox = sandbox
    return state.sandbox


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the cases of the testee; before others deselect, so that -k is about them too."""
    if _setting(config, "kafkaproof"):
        items.extend(TesteeCollector.from_parent(session, name="kafkaproof", nodeid="kafkaproof").collect())


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the testee."""
    state = config.stash.get(STATE, None)
    if state is not None and state.sandbox is not None:
        state.sandbox.close()


# Known deviations that are none any more


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A known deviation that no longer happens fails the session."""
    if session.exitstatus == pytest.ExitCode.OK and list(_stale(session.config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Name those that no longer happen."""
    stale = list(_stale(config))
    if stale:
        terminalreporter.section("kafkaproof")
        for file, entry in stale:
            terminalreporter.line(f"stale deviation  {entry.staleness} ({file})")


class _Collecting:
    """Notes what became of each case, wherever it was run (pytest-xdist sends reports to its controller)."""

    def __init__(self, state: _State) -> None:
        self.state = state

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        said = dict(report.user_properties)
        if report.when == "call" and PROPERTY in said:
            outcome, _, file = str(said[PROPERTY]).partition(" ")
            self.state.outcomes[file][str(said[f"{PROPERTY}_case"])].add(outcome)
            self.state.causes[file].add(str(said.get(f"{PROPERTY}_cause", "")))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Listen to reports."""
    session.config.pluginmanager.register(_Collecting(session.config.stash[STATE]))


def _stale(config: pytest.Config) -> Iterator[tuple[str, Deviation]]:
    """Entries about cases that were run, none of which deviates so."""
    from kafka_corpus.vector_format import matches

    state = config.stash[STATE]
    for file, outcomes in state.outcomes.items():
        for entry in state.deviations(file):
            if entry.cause:
                if _whole(config) and entry.cause not in state.causes[file]:
                    yield file, entry
                continue
            about = {case: found for case, found in outcomes.items() if matches(entry.case, case)}
            happens = any(entry.severity in found for found in about.values())
            # Where a part of the tests was run, the rest of a pattern may still deviate.
            if about and not happens and not (_partial(config) and entry.case not in about):
                yield file, entry


def _whole(config: pytest.Config) -> bool:
    """Whether the testee of `--kafkaproof` was sent all cases, so that a cause without a finding is gone."""
    return bool(_setting(config, "kafkaproof")) and not _setting(config, "kafkaproof_only") and not _partial(config)


def _partial(config: pytest.Config) -> bool:
    """Whether only a part of the tests was selected."""
    names = ("keyword", "markexpr", "lf", "maxfail", "stepwise", "deselect")
    return any(config.getoption(name, None) for name in names) or any("::" in argument for argument in config.args)
