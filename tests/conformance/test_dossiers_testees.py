"""The project's dossiers hold for the versions that they name: their cases are run again, and their programs run."""

import shutil
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.conformance import reproducer_runs

from kafka_conformance.dossiers import causes, folder, reproduce
from kafka_conformance.dossiers.causes import SENSITIVE, cause_of
from kafka_conformance.dossiers.reproduce import reproducer
from kafka_conformance.judge.verdict import Verdict
from kafka_conformance.reports.collection import cases_by_id
from kafka_conformance.runner.results import FILE, result_line
from kafka_conformance.testees.known import find_testee
from kafka_records import Batch, encode
from kafkaproof.commands.certify import certify_testees

pytestmark = pytest.mark.testees

ROOT = Path(__file__).resolve().parents[2]
RESULTS = {path.stem: path for path in sorted((ROOT / "results").glob("*.ndjson"))}
# Testees of this project have no findings.
FOUND = [name for name in RESULTS if not name.startswith(("reference-", "columnar-"))]
# kafka-go keeps its lz4 readers in a pool, and the previous input of a reader affects its next output:
# among other cases, these may have another outcome.
POOLED = ("kafka-go", "lz4_blocks.")
# Runs of a case before a different outcome is accepted.
TIMES = 3
TOOLS = {"Go": ("go",), "Rust": ("cargo",), "JavaScript": ("node", "npm"), "Java": ("mvn", "java"), "Python": ()}


@cache
def kept(name: str) -> folder.Findings:
    """The findings of a kept result by cause."""
    ((done, groups),) = folder.read_groups([RESULTS[name]])
    return folder.findings_of(done, groups)


def results_of(one: folder.Findings, where: Path, ids: list[str]) -> Path:
    """The testee's result for these cases only, in the release that the dossiers name."""
    known = find_testee(one.testee)
    assert known is not None
    if missing := known.missing():
        pytest.skip(f"{one.testee} takes {', '.join(missing)}")
    version = one.version.split()[0]  # a testee may add the versions of its parts
    name = one.testee if known.version() == version else f"{one.testee}@{version}"
    only = [word for id_ in ids for word in ("--only", id_)]
    done = CliRunner().invoke(certify_testees, [name, *only, "--report", str(where)])
    assert done.exit_code in (0, 1), done.output  # 0 where all of them agree by now
    (result,) = where.glob(f"**/{FILE}")
    return result


def alike(outcome: str, *, heavy: bool) -> str:
    """Which limit is met first depends on the machine; of heavy inputs, whether one is met at all."""
    if heavy:
        return "agree" if outcome == "agree" else "a disagreement"
    return "hang or memory" if outcome in ("hang", "memory") else outcome


def changed_among(one: folder.Findings, where: Path, written: dict[str, str]) -> dict[str, str]:
    """The *written* cases whose outcome differs from the recorded one."""
    ((done, _),) = folder.read_groups([results_of(one, where, sorted(written))])
    now = {line.case: line for line in done.lines}
    return {
        case: now[case].outcome
        for case, outcome in written.items()
        if alike(outcome, heavy=now[case].heavy) != alike(now[case].outcome, heavy=now[case].heavy)
    }


@pytest.mark.parametrize("name", FOUND)
def test_findings_are_as_written(name: str, tmp_path: Path) -> None:
    """Each case of each dossier has the outcome that is written, in that version of its testee.

    A case with another outcome is run again: a case that is near a limit has the written outcome
    in one of three runs, and a case that has changed has it in none.
    """
    one = kept(name)
    testee, area = POOLED
    written = {
        case: outcome
        for each in one.dossiers
        for case, outcome in each.cases.items()
        if not (one.testee.startswith(testee) and case.startswith(area))
    }
    changed = dict.fromkeys(written, "")
    for time in range(TIMES):
        changed = changed_among(one, tmp_path / str(time), {case: written[case] for case in changed})
        if not changed:
            break

    assert {case: (written[case], outcome) for case, outcome in changed.items()} == {}


CASES = cases_by_id()
# A writer without findings has a program, too; the program requests a case that the writer writes correctly.
RIGHT = "writers.timestamps_with_more_digits[none-"
RIGHT_BYTES = "nothing is wrong"


def shown(testee: str, op: str, where: Path) -> causes.CauseGroup:
    """A dossier of *testee* about *op* whose program does no harm; if there is none, of a case that it gets right."""
    one = kept(next(name for name in FOUND if kept(name).testee == testee))
    harmless = [each for each in one.dossiers if each.outcome not in SENSITIVE and CASES[each.case].op == op]
    if not harmless:
        return agreeing(one, op)
    plain = next((each for each in harmless if each.outcome in ("accepts_invalid", "rejects_valid")), harmless[0])
    ((_, groups),) = folder.read_groups([results_of(one, where, [plain.case])])
    (group,) = groups
    return group


def agreeing(one: folder.Findings, op: str) -> causes.CauseGroup:
    """A dossier for a case that *one*'s testee answers correctly."""
    case = next(case for id_, case in CASES.items() if id_.startswith(RIGHT) and case.op == op)
    line = result_line(case, Verdict("lossy", "", RIGHT_BYTES), {}, 0.0, 0)
    who = causes.ReleasedTestee(one.testee, one.version, one.language)
    return causes.CauseGroup(who, cause_of(line), (line,), case)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where programs are built; those of one testee in one folder."""
    return tmp_path_factory.mktemp("programs")


@pytest.mark.parametrize(("testee", "op"), sorted(reproduce.programs()))
def test_a_program_shows_what_its_dossier_says(
    testee: str, op: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reproducer of each testee builds from its own text, in an empty folder, and shows the finding."""
    group = shown(testee, op, tmp_path / "result")
    made = reproducer(group)
    assert made is not None
    if missing := [tool for tool in TOOLS[made.language] if shutil.which(tool) is None]:
        pytest.skip(f"it takes {', '.join(missing)}")
    monkeypatch.setenv("CARGO_TARGET_DIR", str(place / "target"))
    monkeypatch.setenv("npm_config_audit", "false")
    reproducer_runs.prepare(made, tmp_path / "program", alone=True)
    ran = reproducer_runs.run(made, tmp_path / "program", limit=1800)  # what is in Rust is compiled first

    assert reproducer_runs.shows(group.lines[0], ran), (group.id, ran)
    if group.lines[0].why == RIGHT_BYTES:
        assert isinstance(group.case.input, Batch)
        assert f"written: {encode(group.case.input).hex()}" in ran.output
