"""The project's dossiers hold for the versions that they name: their cases are run again, and their programs run."""

import shutil
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest
from click.testing import CliRunner
from tests.conformance import reproducer_runs

from kafka_conformance.causes import reviewed_causes
from kafka_conformance.dossiers import folder
from kafka_conformance.dossiers.grouping import PUBLISHED, LibraryDossier
from kafka_conformance.dossiers.reproduce import Reproducer, case_program, programs, reproducer
from kafka_conformance.judge.verdict import SEVERITIES
from kafka_conformance.reports.collection import cases_by_id, corpus_contents
from kafka_conformance.reports.profiles import certify_profiles
from kafka_conformance.runner.kept_results import read_any_results
from kafka_conformance.runner.results import FILE, ResultLine, Results
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
# All findings take an hour: one of each reviewed cause is run again, and one in so many of the others; the same ones
# each time.
SHARE = 64
# Runs of a case before a different outcome is accepted.
TIMES = 3
TOOLS = {"Go": ("go",), "Rust": ("cargo",), "JavaScript": ("node", "npm"), "Java": ("mvn", "java"), "Python": ()}


@cache
def kept(name: str) -> Results:
    """A kept result."""
    return read_any_results(RESULTS[name], corpus_contents)


def row_name(name: str) -> str:
    """The row of a kept result."""
    return str(kept(name).header.testee["connect"]).partition("@")[0]


def results_of(name: str, where: Path, ids: list[str]) -> Results:
    """The result of a row for these cases only, in the release of its kept result."""
    row = row_name(name)
    known = find_testee(row)
    assert known is not None
    if missing := known.missing():
        pytest.skip(f"{row} takes {', '.join(missing)}")
    version = str(kept(name).header.testee["version"]).split()[0]  # a testee may add the versions of its parts
    only = [word for id_ in ids for word in ("--only", id_)]
    connect = row if known.version() == version else f"{row}@{version}"
    done = CliRunner().invoke(certify_testees, [connect, *only, "--report", str(where)])
    assert done.exit_code in (0, 1), done.output  # 0 where all of them agree by now
    (result,) = where.glob(f"**/{FILE}")
    return read_any_results(result, corpus_contents)


def alike(outcome: str, *, heavy: bool) -> str:
    """Which limit is met first depends on the machine; of heavy inputs, whether one is met at all."""
    if heavy:
        return "agree" if outcome == "agree" else "a disagreement"
    return "hang or memory" if outcome in ("hang", "memory") else outcome


def changed_among(name: str, where: Path, written: dict[str, str]) -> dict[str, str]:
    """The *written* cases whose outcome differs from the recorded one."""
    now = {line.case: line for line in results_of(name, where, sorted(written)).lines}
    return {
        case: now[case].outcome
        for case, outcome in written.items()
        if alike(outcome, heavy=now[case].heavy) != alike(now[case].outcome, heavy=now[case].heavy)
    }


def sample(name: str) -> dict[str, str]:
    """The outcomes of some findings of a kept result: of each reviewed cause, and of the others."""
    testee, area = POOLED
    whole = kept(name)
    wrong = replace(whole, lines=tuple(line for line in whole.lines if line.outcome in SEVERITIES))
    by_cause: dict[str, list[ResultLine]] = defaultdict(list)
    for found in certify_profiles(wrong, cases_by_id()).findings:
        line = found.line
        if not (row_name(name).startswith(testee) and line.case.startswith(area)):
            by_cause[found.cause.reviewed.id if found.cause.reviewed else ""].append(line)
    others = by_cause.pop("", [])
    others = [line for line in others if lot(line) % SHARE == 0]
    chosen = [min(lines, key=lot) for lines in by_cause.values()]
    # A hang takes as long as a testee may take, more than once.
    chosen += [line for line in others if line.outcome != "hang"]
    return {line.case: str(line.outcome) for line in chosen}


def lot(line: ResultLine) -> int:
    """A number of a case, by which it is chosen."""
    return crc32(line.case.encode())


@pytest.mark.parametrize("name", FOUND)
def test_findings_are_as_written(name: str, tmp_path: Path) -> None:
    """A finding of each cause, and a share of the others, have the outcome that is written, in that version.

    A case with another outcome is run again: a case that is near a limit has the written outcome
    in one of three runs, and a case that has changed has it in none.
    """
    written = sample(name)
    assert written
    changed = dict.fromkeys(written, "")
    for time in range(TIMES):
        changed = changed_among(name, tmp_path / str(time), {case: written[case] for case in changed})
        if not changed:
            break

    assert {case: (written[case], outcome) for case, outcome in changed.items()} == {}


@cache
def libraries() -> dict[str, LibraryDossier]:
    """The dossiers of the kept results, by library."""
    return {each.name: each for each in folder.read_dossiers([ROOT / "results"])}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where programs are built; those of one row in one folder."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(autouse=True)
def build_settings(cargo_settings: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs in Rust share what cargo compiles, and npm sends no audit."""
    for name, value in cargo_settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("npm_config_audit", "false")


def skip_without_tools(made: Reproducer) -> None:
    """Skip the test if the toolchain of a program is not there."""
    if missing := [tool for tool in TOOLS[made.language] if shutil.which(tool) is None]:
        pytest.skip(f"it takes {', '.join(missing)}")


PUBLISHING = [name for name, causes in reviewed_causes().items() if any(each.grade in PUBLISHED for each in causes)]


@pytest.mark.parametrize("library", sorted(PUBLISHING))
def test_programs_show_what_pages_say(library: str, place: Path) -> None:
    """The reproducer of every cause builds from its own text, in an empty folder, and prints the observation."""
    if library not in libraries():
        pytest.skip(f"there is no kept result of {library}")
    groups = libraries()[library].groups
    made = [program for group in groups if (program := reproducer(group)) is not None]
    if not {row.name for row in libraries()[library].rows} & {row for row, _ in programs()}:
        assert made == []
        pytest.skip("its rows are clients alone, for which there is no program without a broker")
    assert made
    skip_without_tools(made[0])
    failed = list(filter(None, reproducer_runs.differences(groups, place, alone=True, limit=600)))
    assert failed == []


# A case that writers write correctly.
RIGHT = "writers.timestamps_with_more_digits[none-"


@pytest.mark.parametrize("row", sorted(row for row, op in programs() if op == "encode"))
def test_programs_of_writers_build(row: str, tmp_path: Path) -> None:
    """The program of each writer prints the bytes, of which those that it is expected to write are a part."""
    case = next(case for id_, case in cases_by_id().items() if id_.startswith(RIGHT) and case.op == "encode")
    known = find_testee(row)
    assert known is not None
    release = next((str(kept(name).header.testee["version"]).split()[0] for name in FOUND if row_name(name) == row), "")
    if not release:
        pytest.skip(f"there is no kept result of {row}")
    made = case_program(row, release, "timestamps", case)
    assert made is not None
    skip_without_tools(made)
    reproducer_runs.prepare(made, tmp_path, alone=True)
    ran = reproducer_runs.run(made, tmp_path, limit=600)
    assert isinstance(case.input, Batch)
    assert f"expected: written: {encode(case.input).hex()}" in ran.output
    assert "actual: written: " in ran.output, ran
