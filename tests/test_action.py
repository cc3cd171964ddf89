"""The GitHub Action: a valid one, and its steps do here what they do there."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}

# GitHub's rules for a composite action (its JSON Schema is in SchemaStore, as github-action.json).
TEXT = {"type": "string", "minLength": 1}
NAMED = {"type": "object", "propertyNames": {"pattern": "^[_a-zA-Z][a-zA-Z0-9_-]*$"}}
STEP = {
    "type": "object",
    "properties": {
        "name": TEXT, "id": TEXT, "if": TEXT, "run": TEXT, "shell": {"const": "bash"},
        "uses": {"type": "string", "pattern": r"^[\w.-]+/[\w./-]+@[0-9a-f]{40}$"},
        "with": {"type": "object"}, "env": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "additionalProperties": False,
    "oneOf": [{"required": ["run", "shell"]}, {"required": ["uses"]}],
}  # fmt: skip
SCHEMA = {
    "type": "object",
    "required": ["name", "description", "runs"],
    "properties": {
        "name": TEXT,
        "description": TEXT,
        "branding": {
            "type": "object",
            "properties": {"icon": TEXT, "color": {"enum": ["white", "green", "blue"]}},
            "additionalProperties": False,
        },
        "inputs": NAMED
        | {
            "additionalProperties": {
                "type": "object",
                "required": ["description"],
                "properties": {"description": TEXT, "required": {"type": "boolean"}, "default": {"type": "string"}},
                "additionalProperties": False,
            }
        },
        "outputs": NAMED
        | {
            "additionalProperties": {
                "type": "object",
                "required": ["description", "value"],
                "properties": {"description": TEXT, "value": TEXT},
                "additionalProperties": False,
            }
        },
        "runs": {
            "type": "object",
            "required": ["using", "steps"],
            "properties": {"using": {"const": "composite"}, "steps": {"type": "array", "minItems": 1, "items": STEP}},
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}


class Job:
    """Runs steps as GitHub's runner does: expressions filled in, bash with its flags, files for outputs and summary."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        self.work, self.temp = folder / "work", folder / "temp"
        self.work.mkdir()
        self.temp.mkdir()
        self.files = {name: folder / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        self.inputs: dict[str, str] = {
            name: given.get("default", "") for name, given in ACTION["inputs"].items()
        } | inputs
        self.outputs: dict[str, str] = {}

    def filled(self, text: str) -> str:
        """*text* with its expressions evaluated; one that is not known here is an error."""
        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: self.value(found[1]), text)

    def value(self, expression: str) -> str:
        """The value of an expression."""
        plain = {"github.action_path": str(ROOT), "runner.temp": str(self.temp)}
        if expression.startswith("inputs."):
            return self.inputs[expression.removeprefix("inputs.")]
        if expression.startswith("steps.certify.outputs."):
            return self.outputs.get(expression.removeprefix("steps.certify.outputs."), "")
        return plain[expression]

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run the script of the step *name*."""
        step = STEPS[name]
        for file in self.files.values():
            file.touch()
        files = {variable: str(file) for variable, file in self.files.items()}
        given = {variable: self.filled(text) for variable, text in step["env"].items()}
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        # GitHub fills expressions into scripts too: there must be none.
        assert "${{" not in step["run"]
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.work, env=os.environ | {"PATH": path} | files | given, capture_output=True, text=True, check=False,
        )  # fmt: skip
        lines = self.files["GITHUB_OUTPUT"].read_text(encoding="utf-8").splitlines()
        self.outputs = {name: value for name, _, value in (line.partition("=") for line in lines)}
        return done

    @property
    def summary(self) -> str:
        """The job's page."""
        return self.files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")


def with_kafkaproof(job: Job) -> Job:
    """Put this environment's command where the step before would have installed it."""
    command = job.temp / "kafkaproof-venv" / "bin" / "kafkaproof"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafkaproof "$@"\n')
    command.chmod(0o755)
    return job


def test_action_is_valid() -> None:
    """The file is what GitHub takes for a composite action."""
    Draft202012Validator.check_schema(SCHEMA)
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(ACTION)] == []


def test_expressions_name_what_there_is() -> None:
    """Every expression is about an input, an output of a step, or a place of the runner."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    ids = {step["id"] for step in STEPS.values() if "id" in step}
    names = re.findall(r"inputs\.([\w-]+)", text)
    assert names
    assert set(names) == set(ACTION["inputs"])
    assert set(re.findall(r"steps\.([\w-]+)\.", text)) <= ids
    written = set(re.findall(r'echo "([\w-]+)=|print\(f"([\w-]+)=', text))
    assert set(re.findall(r"steps\.certify\.outputs\.([\w-]+)", text)) == {one or other for one, other in written}


@pytest.mark.slow
def test_certify_step(tmp_path: Path) -> None:
    """The step judges a codec, sets the outputs, and writes summary, badge and SARIF; the verdict is the exit code."""
    job = with_kafkaproof(
        Job(tmp_path, testee="kafka-python", only="v2_headers\ntimestamp", profiles="consumer\nproducer")
    )
    done = job.run("Certify")
    assert done.returncode == 0, done.stdout + done.stderr
    assert job.outputs["exit-code"] == "1"
    assert job.outputs["certified"] == "false"
    assert job.outputs["certified-for"] == ""
    assert job.summary.startswith("## Kafkaproof\n")
    written = {path.name for path in Path(job.outputs["results"]).rglob("*.*")}
    assert written >= {"result.ndjson", "badge.svg", "badge.json", "report.sarif", "index.html", "summary.md"}
    assert job.run("Verdict").returncode == 1


@pytest.mark.slow
def test_baseline(tmp_path: Path) -> None:
    """With a baseline, only what is worse than that fails the job."""
    job = with_kafkaproof(Job(tmp_path, testee="kafka-python", only="v2_batch"))
    job.run("Certify")
    shutil.copytree(job.outputs["results"], job.work / "before")
    job.inputs["baseline"] = "before"
    job.run("Certify")
    assert job.outputs["exit-code"] == "0"
    assert "since the baseline" in job.summary
    assert job.run("Verdict").returncode == 0


@pytest.mark.slow
def test_known_deviations(tmp_path: Path) -> None:
    """Known deviations go to both commands, and where nothing else is wrong the job passes."""
    job = with_kafkaproof(Job(tmp_path, testee="kafka-python", only="v2_crc", deviations="known.toml"))
    entry = '[[deviation]]\ncase = "v2_crc.*"\nseverity = "lossy"\nreason = "its writer has no leader epoch"\n'
    (job.work / "known.toml").write_text(entry)
    done = job.run("Certify")
    assert job.outputs["exit-code"] == "0", done.stdout + done.stderr


def test_a_testee_that_cannot_run(tmp_path: Path) -> None:
    """A wrong name ends the job with its code and its one error, and nothing in it is taken for shell."""
    job = with_kafkaproof(Job(tmp_path, testee="no-such; touch $(echo injected)"))
    done = job.run("Certify")
    assert done.returncode == 0
    assert "no testee 'no-such; touch $(echo injected)'" in done.stderr
    assert job.outputs["exit-code"] == "2"
    assert not (job.work / "injected").exists()
    assert job.run("Verdict").returncode == 2


@pytest.mark.testees
def test_install_step(tmp_path: Path) -> None:
    """The steps install the command from the action's directory into a fresh environment, certify, and set outputs."""
    if sysconfig.get_platform().startswith("win"):
        pytest.skip("paths are those of Linux")
    job = Job(tmp_path, testee="kafka-python", only="v2_headers.key_is_not_utf_8*")
    done = job.run("Install")
    assert done.returncode == 0, done.stdout + done.stderr
    assert job.run("Certify").returncode == 0
    assert job.outputs["exit-code"] == "1"
    assert job.outputs["certified"] == "false"
    assert job.run("Verdict").returncode == 1
