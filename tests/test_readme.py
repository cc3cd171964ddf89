"""The README: its commands are run by CI, its Python session gives what it shows, its output is a real one."""

import doctest
import io
import re
from pathlib import Path

import pytest
from tests import readme_output

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_command_is_run() -> None:
    """Each command in a console block of the README is in .ci/run, word for word."""
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    printed = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    assert len(printed) == 2
    assert [command for command in printed if command not in ci] == []


def test_python_session() -> None:
    """The Python session in the README gives what it shows."""
    failed, tried = doctest.testfile(str(ROOT / "README.md"), module_relative=False, encoding="utf-8")
    assert (failed, tried) == (0, 4)


def test_no_output_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without output to show, the page stays as it is, and the command says why."""
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    with pytest.raises(SystemExit, match="standard input is empty"):
        readme_output.main()
    assert (ROOT / "README.md").read_text(encoding="utf-8") == README


def test_output_is_shown() -> None:
    """The README shows a result of the main job, for a corpus that need not be today's (`tests/readme_output.py`)."""
    found = re.search(rf"{re.escape(readme_output.START)}(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert found
    first, profiles, certificate, *causes = found[1].splitlines()
    assert re.fullmatch(r"kafka-python .*  ·  corpus [0-9a-f]{12}, [\d,]+ cases", first)
    assert profiles.startswith("consumer: ")
    assert certificate.startswith("CERTIFIED for producer")
    assert re.match("FAIL +consumer ", causes[0])
    assert [line for line in causes[:8] if line.startswith("next  ")]


def test_long_lines_are_cut() -> None:
    """A line of the output has as many columns as a page shows, and a sign that something is left out."""
    assert readme_output.shown("short\n" + "x" * 200 + "\n") == "short\n" + "x" * readme_output.WIDEST + "…\n"
