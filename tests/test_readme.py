"""What the README prints is run: commands, the example testee, the Python session."""

import doctest
import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from kafka_conformance.judge.verdict import SEVERITIES
from kafkaproof import cli

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

# Commands that are run here, in this order: the exit codes that are right, and a word
# of the output, since Python's own failures end with 1 too.  The example drives
# kafka-python, whose defects are no defect of the example.
RUN_HERE = {
    'kafkaproof smoke "process:python example.py"': ({0}, "example.py"),
    'kafkaproof certify "process:python example.py"': ({0, 1}, "example.py"),
    'kafkaproof smoke "fetch:python consumer.py"': ({0}, "consumer.py"),
    "kafkaproof cross kafka-python aiokafka reference --broker none": ({1}, "cross matrix"),
    "kafkaproof corpus export vendored": ({0}, "vendored"),
    "kafkaproof fuzz run --targets reference,explain --seconds 5": ({0}, "executions"),
    "kafkaproof broker compare 3.9.2 4.4.0": ({1}, "cases changed from 3.9.2 to 4.4.0"),
}
# Those that need a broker are run where one is started.
WITH_A_BROKER = ROOT / "tests" / "broker" / "test_certify.py"


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def after(mark: str, language: str) -> str:
    """The one fenced block that follows the comment *mark*."""
    found = re.search(rf"^<!-- {re.escape(mark)} -->\n```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert found, mark
    return found[1]


def commands() -> list[str]:
    """The commands printed in console blocks."""
    return [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines() if line[:2] == "$ "]


def first_column(heading: str) -> list[str]:
    """The first cells of the table whose first column has this heading, without the backticks."""
    found = re.search(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", README, re.MULTILINE)
    assert found, heading
    return [row.split(" | ")[0].removeprefix("| ").strip("`") for row in found[1].splitlines()]


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run *command* as a reader would: in a shell, with this environment's programs first."""
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    env = os.environ | {"PATH": path}
    return subprocess.run(command, cwd=folder, env=env, shell=True, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the README's two programs in it, and nothing else."""
    directory = tmp_path_factory.mktemp("readme")
    for name in ("example.py", "consumer.py"):
        (directory / name).write_text(after(name, "python"), encoding="utf-8")
    return directory


def test_every_command_is_run() -> None:
    """Each command in the README is run here, or stands word for word in .ci/run or in a test with a broker."""
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8") + WITH_A_BROKER.read_text(encoding="utf-8")
    printed = commands()
    assert len(printed) >= 5
    assert [command for command in printed if command not in RUN_HERE and command not in ci] == []


def test_no_command_is_run_that_is_not_printed() -> None:
    """The list above holds what the README prints, no more."""
    assert set(RUN_HERE) <= set(commands())


@pytest.mark.slow
@pytest.mark.parametrize("command", RUN_HERE)
def test_command(command: str, folder: Path) -> None:
    """A command of the README ends as it should, and says what it was about."""
    codes, word = RUN_HERE[command]
    done = run(command, folder)
    assert done.returncode in codes, done.stdout + done.stderr
    assert word in done.stdout
    assert "Traceback" not in done.stderr


def test_example_is_short(folder: Path) -> None:
    """The example testee is about fifty lines, as the README promises."""
    lines = (folder / "example.py").read_text(encoding="utf-8").splitlines()
    assert 30 < sum(1 for line in lines if line.strip()) <= 55


def test_python_session() -> None:
    """The Python session in the README gives what it shows."""
    failed, tried = doctest.testfile(str(ROOT / "README.md"), module_relative=False, encoding="utf-8")
    assert tried >= 3
    assert failed == 0


def test_output_is_shown() -> None:
    """The README shows a result of the main job, for a corpus that need not be today's (`tests/readme_output.py`)."""
    first, columns, *rows = after("output:certify", "text").splitlines()
    assert re.fullmatch(r"kafka-python .*  ·  corpus [0-9a-f]{12}, [\d,]+ cases", first)
    assert columns.startswith("area ")
    areas = [row.split()[0] for row in rows[: rows.index(next(row for row in rows if row.startswith("all ")))]]
    assert areas == sorted(areas)
    assert len(areas) > 1


def test_links_lead_somewhere() -> None:
    """Every relative link leads to a file."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_commands_are_those_that_there_are() -> None:
    """The table of commands names every command of `kafkaproof`, and no other."""
    named = [cell.split()[1] for cell in first_column("command")]
    assert list(dict.fromkeys(named)) == list(cli.COMMANDS)


def test_exit_codes_are_those_of_the_command() -> None:
    """The table of exit codes holds those that the command line has."""
    codes = [cli.OK, cli.DISAGREEMENTS, cli.USAGE, cli.CANNOT_RUN, cli.INTERRUPTED]
    assert first_column("exit code") == [str(code) for code in codes]


def test_severities_are_those_of_the_judge() -> None:
    """The table of severities is the judge's list, worst first."""
    assert first_column("severity") == list(SEVERITIES)
