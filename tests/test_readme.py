"""The README: its commands are run by CI, its Python session gives what it shows, its output is a real one."""

import doctest
import re
from pathlib import Path

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
    assert (failed, tried) == (0, 3)


def test_output_is_shown() -> None:
    """The README shows a result of the main job, for a corpus that need not be today's (`tests/readme_output.py`)."""
    found = re.search(rf"{re.escape(readme_output.START)}(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert found
    first, columns, *rows = found[1].splitlines()
    assert re.fullmatch(r"kafka-python .*  ·  corpus [0-9a-f]{12}, [\d,]+ cases", first)
    assert columns.startswith("area ")
    areas = [row.split()[0] for row in rows[: rows.index(readme_output.OMITTED)]]
    assert areas == sorted(areas)
    assert len(areas) == readme_output.AREAS


def test_excerpt_keeps_what_matters() -> None:
    """The excerpt has the worst areas, the totals, the first findings, and the end of the output."""
    areas = [f"area{number}  {'·' if number % 2 else number}  5" for number in range(2, 12)]
    findings = [f"  wrong_data  case{number}" for number in range(20)]
    head = ["codec", "area  wrong data  agree", *areas, "all  30  50", "NOT CERTIFIED", "score 0.5", "", "669 findings"]
    output = "\n".join([*head, *findings, "  and 649 more in the full result", "", "full result  here"])
    assert readme_output.excerpt(output) == [
        *("codec", "area  wrong data  agree", "area2  2  5", "area4  4  5", "area6  6  5", "area8  8  5"),
        *(readme_output.OMITTED, "all  30  50", "NOT CERTIFIED", "", "669 findings", *findings[:4]),
        *(readme_output.OMITTED, "  and 649 more in the full result", "", "full result  here"),
    ]
