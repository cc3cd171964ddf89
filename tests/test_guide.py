"""The commands of docs/certify-your-codec.md are run in their order, on the unchanged Python template."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import msgspec
import pytest
import yaml

from kafka_conformance.judge.verdict import SEVERITIES
from kafka_conformance.runner import deviations
from kafka_conformance.testees.protocol import CodecAnswer

ROOT = Path(__file__).resolve().parent.parent
GUIDE = (ROOT / "docs" / "certify-your-codec.md").read_text(encoding="utf-8")
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INSTALLED = any(entry.value == "kafka_conformance.pytest_plugin" for entry in entry_points(group="pytest11"))

# Exit codes that are right: kafka-python, which the template holds, has findings.
CODES = {
    "kafkaproof testees new python my-testee": 0,
    'kafkaproof smoke "process:python testee.py"': 0,
    'kafkaproof certify "process:python testee.py" --only v2_headers': 1,
    'kafkaproof certify "process:python testee.py"': 1,
    "kafkaproof explain --case 'v2_headers.key_is_not_utf_8[0xff]'": 0,
    "kafkaproof corpus show 'v2_headers.key_is_not_utf_8[0xff]'": 0,
    "kafkaproof certify \"process:python testee.py\" --only 'v2_headers.key_is_not_utf_8[0xff]' --report one-case": 1,
    "kafkaproof report kafkaproof-results --out kafkaproof-report": 0,
    'kafkaproof certify "process:python testee.py" --write-deviations deviations.toml': 1,
    'kafkaproof certify "process:python testee.py" --deviations deviations.toml': 0,
    'pytest --kafkaproof "process:python testee.py" --kafkaproof-only v2_headers '
    "--kafkaproof-deviations deviations.toml": 0,
    "kafkaproof report kafkaproof-results --out kafkaproof-report --deviations deviations.toml": 0,
}
# Where the guide runs the whole corpus, one area is enough here.
WHOLE = re.compile(r"^kafkaproof certify (?!.*--only).*$")


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """The commands printed in console blocks."""
    return [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines() if line[:2] == "$ "]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The Python template's directory, with commands as they are called in an environment."""
    shutil.copytree(ROOT / "templates" / "python", tmp_path, dirs_exist_ok=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    plugin = "" if INSTALLED else "-p kafka_conformance.pytest_plugin "
    for name, call in {"kafkaproof": "-m kafkaproof", "pytest": f"-m pytest {plugin}", "python": ""}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {call} "$@"\n')
        (programs / name).chmod(0o755)
    return tmp_path


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run *command* in a shell, as a reader would."""
    env = os.environ | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, cwd=folder, env=env, shell=True, capture_output=True, text=True, check=False)


def test_every_command_is_known() -> None:
    """Each command of the guide is run below; installing is what tox does first."""
    assert [command for command in commands() if command != "pip install ."] == list(CODES)


@pytest.mark.slow
def test_commands_do_what_the_guide_says(folder: Path) -> None:
    """One after the other, the commands end with the right codes, and the last writes what is published."""
    for command, code in CODES.items():
        done = run(WHOLE.sub(r"\g<0> --only timestamp --only v2_headers --report kafkaproof-results", command), folder)
        assert (command, done.returncode) == (command, code), done.stdout + done.stderr
        assert "Traceback" not in done.stderr
    assert {path.name for path in (folder / "kafkaproof-report").rglob("badge.*")} == {"badge.svg", "badge.json"}
    assert len(deviations.load_deviations(folder / "deviations.toml")) > 1


@pytest.mark.slow
def test_example_in_process(folder: Path) -> None:
    """The example of tests in process finds what is wrong with the codec that it holds."""
    found = re.search(r"^<!-- test_conformance.py -->\n```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    assert found
    (folder / "test_conformance.py").write_text(found[1])
    (folder / "deviations.toml").write_text("")
    done = run("pytest -q -k 'our_codec or v2_batch' test_conformance.py", folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "disagrees in " in done.stdout
    assert "look at one with: kafkaproof explain --case" in done.stdout
    assert re.search(r"FAILED test_conformance.py::test_each_case\[v2_batch.offsets_wrap\[none\]\]", done.stdout)
    assert re.search(r"\d+ failed, \d\d+ passed", done.stdout)


def test_table_of_templates_is_that_of_the_tests() -> None:
    """How each template is built and run is what tests/test_templates.py does."""
    module = runpy.run_path(str(ROOT / "tests" / "test_templates.py"))
    rows = re.findall(r"^\| `(\w+)`(?: \(\d+\))? \| (?:`(.+)`)? ?\| `(.+)` \|$", GUIDE, re.MULTILINE)
    assert {name: (build, command) for name, build, command in rows} == {
        name: (module["BUILD"][name], module["RUN"][name]) for name in module["SOURCES"]
    }


def test_shapes_are_those_of_the_protocol(tmp_path: Path) -> None:
    """The batch in the guide is a batch, and the deviations are a file of deviations."""
    (batch,) = blocks("json")
    (answer,) = msgspec.convert([{"batches": [msgspec.json.decode(batch)]}], list[CodecAnswer])
    assert answer.batches
    path = tmp_path / "deviations.toml"
    path.write_text(blocks("toml")[0])
    by_cause, by_case = deviations.load_deviations(path)
    assert by_cause.cause
    assert by_case.severity in SEVERITIES


def test_example_of_the_action_names_its_inputs() -> None:
    """The workflow that is shown uses inputs that the action has, and all that it requires."""
    *_, step = yaml.safe_load(blocks("yaml")[0])
    required = {name for name, given in ACTION["inputs"].items() if given.get("required")}
    assert required <= set(step["with"]) <= set(ACTION["inputs"])


def test_every_severity_is_listed() -> None:
    """The table of severities has every one."""
    listed = re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`\w+`.*) \|.*\|$", GUIDE, re.MULTILINE)))
    assert [name for name in listed if name in SEVERITIES] == list(SEVERITIES)


def test_links_lead_somewhere() -> None:
    """Links within the guide lead to its headings."""
    headings = re.findall(r"^#+ (.*)$", GUIDE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    links = re.findall(r"\]\(#([^)]+)\)", GUIDE)
    assert len(links) >= 8
    assert set(links) <= anchors
