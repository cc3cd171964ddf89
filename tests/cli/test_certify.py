"""The command line: exit codes, pure JSON, and what is left on disk."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_conformance.runner import results
from kafka_conformance.runner.deviations import load_deviations
from kafka_conformance.runner.keeping import PART, WHOLE
from kafka_conformance.runner.requests import is_relevant
from kafka_conformance.testees.connection import ConnectionSpec
from kafka_corpus.vectors import load_vectors
from kafkaproof.cli import kafkaproof as group

Script = Callable[..., ConnectionSpec]

# Small areas that show what is needed here.
AREA = "v1_message"
RESULT = Path(PART)
KEY_IS_NOT_TEXT = "v2_headers.key_is_not_utf_8"
PROFILE_FIELDS = {
    "profile", "grade", "compressions", "fail_causes", "non_strict_causes", "info", "asked", "answered", "skipped",
    "missing",
}  # fmt: skip
CAUSE_FIELDS = {
    "id", "title", "grade", "profile", "effect", "reach", "cases", "smallest", "source", "upstream", "reviewed",
}  # fmt: skip


@pytest.fixture
def kafkaproof(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command in an empty directory."""

    def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kafkaproof", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, input=given, check=False
        )

    return run


def environment() -> dict[str, str]:
    """Ours, with the path that we import from, and no terminal."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "NO_COLOR": "1"}


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.slow
def test_a_part_agrees(kafkaproof: Command, tmp_path: Path) -> None:
    """The reference agrees with itself on a part of the corpus: exit code 0, and a result on disk."""
    done = kafkaproof("certify", "reference", "--only", AREA)
    read = results.read_results(tmp_path / RESULT / "reference" / results.FILE)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "no findings" in done.stdout
    assert "a part of the corpus, so no certificate" in done.stdout
    assert "CERTIFIED" not in done.stdout
    assert read.complete
    assert (tmp_path / RESULT / "reference" / "summary.txt").read_text(encoding="utf-8") == done.stdout


@pytest.mark.slow
def test_all_agree(kafkaproof: Command, tmp_path: Path) -> None:
    """The reference agrees with itself on every case for testees: exit code 0, certified, a result on disk."""
    done = kafkaproof("certify", "reference")
    read = results.read_results(tmp_path / WHOLE / "reference" / results.FILE)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "CERTIFIED" in done.stdout
    assert "NOT CERTIFIED" not in done.stdout
    relevant = [case.id for case in load_vectors() if is_relevant(case, append=True)]
    assert (read.complete, sorted(line.case for line in read.lines)) == (True, relevant)
    assert len(relevant) > 4000


def test_disagreements(kafkaproof: Command) -> None:
    """A released codec has a FAIL: exit code 1, the findings are printed, and JSON names profile and cause."""
    done = kafkaproof("certify", "kafka-python", "--only", KEY_IS_NOT_TEXT)

    assert done.returncode == 1
    assert "a part of the corpus, so no certificate" in done.stdout
    assert "consumer: 1 cause ·" in done.stdout
    assert f"  rejects_valid  {KEY_IS_NOT_TEXT}" in done.stdout
    assert f"kafkaproof explain --case '{KEY_IS_NOT_TEXT}" in done.stdout
    document = json.loads(kafkaproof("certify", "kafka-python", "--only", KEY_IS_NOT_TEXT, "--json").stdout)
    (testee,) = document["testees"]
    (cause,) = testee["causes"]
    assert (cause["grade"], cause["profile"], cause["effect"], cause["reach"]) == (
        "FAIL", "consumer", "rejects_valid", "any_producer",
    )  # fmt: skip
    assert {each["grade"] for each in testee["findings"]} == {"FAIL"}
    assert (testee["passes"], testee["supported"]) == (False, "3.9..4.4")
    assert testee["profiles"][0].keys() >= PROFILE_FIELDS
    assert cause.keys() == CAUSE_FIELDS


@pytest.mark.slow
def test_findings_without_a_fail_are_no_failure(kafkaproof: Command) -> None:
    """Bytes that no supported release serves are printed, and the exit code is 0."""
    done = kafkaproof("certify", "kafka-python", "--only", AREA)

    assert "  accepts_invalid  v1_message." in done.stdout
    assert done.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "code"),
    [
        pytest.param(["--profile", "producer"], 0, id="producer"),
        pytest.param(["--profile", "consumer", "--profile", "producer"], 1, id="consumer and producer"),
        pytest.param(["--supported", "4.4"], 1, id="4.4"),
    ],
)
def test_chosen_profiles_decide(options: list[str], code: int, kafkaproof: Command) -> None:
    """--profile names the profiles that decide the exit code."""
    assert kafkaproof("certify", "kafka-python", "--only", KEY_IS_NOT_TEXT, *options).returncode == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["certify"], "or --all"),
        (["certify", "absent"], "no testee 'absent'"),
        (["certify", "reference", "absent"], "no testee 'absent'"),
        (["certify", "reference", "--only", "no.such_case"], "no case matches"),
        (["report"], "RESULTS and --out"),
        (["report", "nowhere", "--out", "here"], "nowhere"),
        (["certify", "reference", "--format", "json,pdf"], "'pdf' is none of"),
        (["certify", "reference", "--deviations", "none.toml"], "none.toml"),
        (["certify", "reference", "--jobs", "0"], "--jobs"),
        (["certify", "reference", "--profile", "reader"], "--profile"),
        (["certify", "reference", "--supported", "4.4..3.9"], "newer than its end"),
        (["explain", "--grade", "--hex", "00"], "--grade takes no input"),
        (["smoke", "absent"], "no testee 'absent'"),
        (["testee", "absent"], "absent"),
        (["testee", "aiokafka-pure"], "environment of its own"),
        (["nothing"], "No such command"),
    ],
    ids=" ".join,
)
def test_usage(arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong command line is exit code 2, says what is wrong, prints nothing else and runs nothing."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(group, arguments)

    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["certify", "smoke"])
@pytest.mark.parametrize("testee", ["process:./absent", "container:absent"])
def test_cannot_run(command: str, testee: str, kafkaproof: Command) -> None:
    """A testee that cannot be run at all is exit code 3, with a reason and a hint."""
    done = kafkaproof(command, testee)

    assert done.returncode == 3
    assert "hint:" in done.stderr


@pytest.mark.slow
def test_the_others_are_run(kafkaproof: Command) -> None:
    """One testee that cannot be run does not keep the next from its result."""
    done = kafkaproof("certify", "process:/bin/false", "reference", "--only", AREA, "--json")
    document = json.loads(done.stdout)

    assert done.returncode == 3
    assert [each["agrees"] for each in document["testees"]] == [False, True]
    assert "exit code 1" in document["testees"][0]["error"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["certify", "reference", "--only", AREA],
        pytest.param(["certify", "planted:prints-stray-lines", "kafka-python", "--only", AREA], marks=pytest.mark.slow),
        ["certify", "process:/bin/false"],
        pytest.param(["smoke", "kafka-python"], marks=pytest.mark.slow),
        ["smoke", "planted:accept-all"],
        ["testees"],
    ],
    ids=" ".join,
)
def test_json_is_pure(arguments: list[str], kafkaproof: Command) -> None:
    """With --json there is one JSON document on standard output and nothing else."""
    done = kafkaproof(*arguments, "--json")

    assert isinstance(json.loads(done.stdout), dict)


@pytest.mark.slow
def test_files_are_what_was_printed(kafkaproof: Command, tmp_path: Path) -> None:
    """--report names the directory, --format the files in it; report.json is what --json prints."""
    relevant = ("--only", AREA, "--report", "out", "--format", "json,junit", "--json")
    done = kafkaproof("certify", "direct:kafka_conformance.testees.reference", *relevant)
    (folder,) = (tmp_path / "out").iterdir()

    assert sorted(path.name for path in folder.iterdir()) == ["junit.xml", "report.json", results.FILE, "summary.txt"]
    assert json.loads((folder / "report.json").read_text()) == json.loads(done.stdout)["testees"][0]


@pytest.mark.slow
def test_deviations_are_strict(kafkaproof: Command, tmp_path: Path) -> None:
    """Declared findings let a run pass; one that no longer happens fails it."""
    first = json.loads(kafkaproof("certify", "kafka-python", "--only", AREA, "--json").stdout)["testees"][0]
    entries = [
        f'[[deviation]]\ncase = "{each["case"]}"\nseverity = "{each["outcome"]}"\nreason = "seen"\n'
        for each in first["findings"]
    ]
    known = tmp_path / "known.toml"
    relevant = ("certify", "kafka-python", "--only", AREA, "--deviations", str(known))
    known.write_text("\n".join(entries))
    passing = kafkaproof(*relevant)
    known.write_text("\n".join([*entries, f'[[deviation]]\ncase = "{AREA}.*"\nseverity = "hang"\nreason = "old"\n']))
    stale = kafkaproof(*relevant)

    assert passing.returncode == 0, passing.stdout
    assert f"{len(entries)} known deviations" in passing.stdout
    assert stale.returncode == 1
    assert f"stale deviation  {AREA}.*: hang no longer happens" in stale.stdout


@pytest.mark.slow
def test_deviations_are_drafted(kafkaproof: Command, tmp_path: Path) -> None:
    """The file of --write-deviations lets the next run pass; it is written for one testee at a time."""
    relevant = ("certify", "kafka-python", "--only", KEY_IS_NOT_TEXT)
    first = kafkaproof(*relevant, "--write-deviations", "known.toml")
    second = kafkaproof(*relevant, "--deviations", "known.toml")
    assert (first.returncode, second.returncode) == (1, 0)
    assert "all causes are declared in known.toml" in first.stderr
    assert {entry.case for entry in load_deviations(tmp_path / "known.toml")} == {""}
    assert kafkaproof(*relevant, "reference", "--write-deviations", "known.toml").returncode == 2


def wait_for_lines(path: Path, count: int, child: subprocess.Popen[str]) -> None:
    """Wait until a result has so many lines."""
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(sent: signal.Signals, script: Script, kafkaproof: Command, tmp_path: Path) -> None:
    """Ctrl-C is exit code 130, keeps what was earned, says how to go on; --resume does, and --json stays pure."""
    connection = script("time.sleep(0.01)\nreply(id=id, skipped='no')")
    relevant = ("certify", connection.name, "--only", AREA, "--only", "v0_message", "--json", "--report", "out")
    command = [sys.executable, "-m", "kafkaproof", *relevant]
    child = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (found := list(tmp_path.glob(f"out/*/{results.FILE}"))):
        time.sleep(0.01)
    wait_for_lines(found[0], 20, child)
    child.send_signal(sent)
    stdout, stderr = child.communicate(timeout=20)
    earned = results.read_results(found[0])
    done = kafkaproof(*relevant, "--resume")

    assert child.returncode == 130
    assert json.loads(stdout)["testees"][0]["complete"] is False
    assert "--resume" in stderr
    assert 19 <= len(earned.lines) < earned.header.cases
    assert done.returncode == 1  # skipped everything: nothing agrees
    assert results.read_results(found[0]).complete
    assert results.read_results(found[0]).lines[: len(earned.lines)] == earned.lines


@pytest.mark.slow
def test_an_incomplete_result_is_not_overwritten(kafkaproof: Command, tmp_path: Path) -> None:
    """Without --resume an incomplete result is put aside, and that is said."""
    kafkaproof("certify", "reference", "--only", AREA)
    path = tmp_path / RESULT / "reference" / results.FILE
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]))
    done = kafkaproof("certify", "reference", "--only", AREA)

    assert "--resume would have gone on" in done.stderr
    assert len(results.read_results(path.with_name(f"incomplete-{results.FILE}")).lines) == 4


@pytest.mark.slow
def test_resuming_something_else_is_a_mistake(kafkaproof: Command, tmp_path: Path) -> None:
    """--resume on the result of another selection is exit code 2."""
    kafkaproof("certify", "reference", "--only", AREA)
    path = tmp_path / RESULT / "reference" / results.FILE
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:5]))
    done = kafkaproof("certify", "reference", "--only", "v0_message", "--resume")

    assert done.returncode == 2
    assert "selection" in done.stderr


@pytest.mark.slow
def test_known_testees_are_listed(kafkaproof: Command) -> None:
    """`testees` names each, its version and whether it can run here, and the planted bugs."""
    document = json.loads(kafkaproof("testees", "--json").stdout)
    listed = {each["name"]: each for each in document["testees"]}

    assert {"reference", "kafka-python", "aiokafka", "aiokafka-pure"} <= listed.keys()
    assert listed["kafka-python"]["runs_here"]
    assert listed["kafka-python"]["version"]
    assert len(document["planted_bugs"]) >= 40
    assert "kafka-python" in kafkaproof("testees").stdout


@pytest.mark.slow
def test_smoke_says_what_it_looked_at(kafkaproof: Command) -> None:
    """`smoke` prints a line for each check, and fails on an adapter that is not sound."""
    sound, broken = kafkaproof("smoke", "reference"), kafkaproof("smoke", "planted:refuse-all")

    assert (sound.returncode, broken.returncode) == (0, 1)
    assert "ok    hello" in sound.stdout
    assert "FAIL" not in sound.stdout
    assert "FAIL  decodes a batch of magic 2: rejects_valid" in broken.stdout


@pytest.mark.slow
def test_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    """`kafkaproof … | head -1` ends without a word on standard error."""
    command = f"{sys.executable} -m kafkaproof testees --json | head -c 1"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )

    assert "Traceback" not in done.stderr


def test_help_imports_nothing_heavy() -> None:
    """--help names every command and imports none of them, no codec and nothing of the corpus."""
    probe = "import sys; from kafkaproof.cli import main; sys.argv[1:] = ['--help']\n"
    probe += "try: main()\nexcept SystemExit: print(sorted(sys.modules))"
    said = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True).stdout

    assert all(name in said for name in ("certify", "smoke", "testees", "testee", "explain", "corpus"))
    heavy = ("kafka", "kafka_records", "kafka_corpus.vectors", "kafka_conformance.runner.run", "rich", "zstandard")
    assert [name for name in heavy if f"'{name}'" in said] == []


@pytest.mark.parametrize("command", ["certify", "smoke", "testees", "testee", "explain", "corpus"])
def test_every_command_has_help(command: str) -> None:
    """Each command that is listed exists, and says what it does."""
    done = CliRunner().invoke(group, [command, "--help"])

    assert done.exit_code == 0
    assert done.stdout.startswith("Usage:")
