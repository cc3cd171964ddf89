"""The recipes for CI: valid for their services, as the docs show them, and their scripts do here what they do there."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
RECIPES = ROOT / "templates" / "ci"
PAGE = (ROOT / "docs" / "ci-recipes.md").read_text(encoding="utf-8")
GITLAB: dict[Any, Any] = yaml.safe_load((RECIPES / "gitlab-ci.yml").read_text(encoding="utf-8"))["kafkaproof"]
JENKINS = (RECIPES / "Jenkinsfile").read_text(encoding="utf-8")
RELEASE: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))

# Files, and the schema of their service, which check-jsonschema holds.
SCHEMAS = {
    "templates/ci/gitlab-ci.yml": "vendor.gitlab-ci",
    "templates/ci/github.yml": "vendor.github-workflows",
    ".github/workflows/release.yml": "vendor.github-workflows",
    ".github/workflows/fuzz.yml": "vendor.github-workflows",
    "action.yml": "vendor.github-actions",
}


def validate(path: Path, schema: str) -> subprocess.CompletedProcess[str]:
    """Run check-jsonschema, without a network."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMAS)
def test_schema(name: str, tmp_path: Path) -> None:
    """The file is valid by the schema of its service, and one with a key that does not exist is not."""
    done = validate(ROOT / name, SCHEMAS[name])
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "wrong.yml"
    text = (ROOT / name).read_text(encoding="utf-8")
    key = re.compile(r"^( *)(?:timeout-minutes|expire_in|using): .*$", re.MULTILINE)
    wrong.write_text(key.sub(r"\1no-such-key: x", text, count=1))
    assert validate(wrong, SCHEMAS[name]).returncode == 1


def test_the_page_shows_the_files() -> None:
    """Each file of templates/ci is in the page, as it is."""
    shown = dict(re.findall(r"^<!-- templates/ci/(\S+) -->\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    assert shown == {path.name: path.read_text(encoding="utf-8") for path in RECIPES.iterdir()}


def test_no_recipe_has_a_place_to_fill_in() -> None:
    """Recipes and the Action work as they are: no OWNER, no COMMIT, no TODO."""
    for path in (*RECIPES.iterdir(), ROOT / "action.yml", ROOT / ".github/workflows/release.yml"):
        assert re.findall(r"OWNER|COMMIT(?!_)|TODO|FIXME|<[A-Z]+>", path.read_text(encoding="utf-8")) == [], path


def test_the_github_recipe_uses_inputs_of_the_action() -> None:
    """Inputs and outputs that the recipe names are those of the Action, and all scripts get text by variables."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    text = (RECIPES / "github.yml").read_text(encoding="utf-8")
    (job,) = yaml.safe_load(text)["jobs"].values()
    (step,) = (each for each in job["steps"] if each.get("id") == "kafkaproof")
    required = {name for name, given in action["inputs"].items() if given.get("required")}

    assert required <= set(step["with"]) <= set(action["inputs"])
    assert set(re.findall(r"steps\.kafkaproof\.outputs\.([\w-]+)", text)) <= set(action["outputs"])
    assert "pull_request_target" not in yaml.safe_load(text)[True]
    assert all("${{" not in each.get("run", "") for each in job["steps"])


def test_release_permissions() -> None:
    """Only jobs that run no code of the project can sign; nothing has a secret; the last job needs all others."""
    jobs = RELEASE["jobs"]
    signing = {name for name, job in jobs.items() if job["permissions"].get("id-token") == "write"}

    assert RELEASE["permissions"] == {}
    assert RELEASE[True] == {"push": {"tags": ["v*"]}}
    assert signing == {"attest", "publish"}
    assert all("run" not in step for name in signing for step in jobs[name]["steps"])
    assert all("contents" not in jobs[name]["permissions"] for name in signing)
    assert jobs["publish"]["environment"] == "pypi"
    assert set(jobs["publish"]["needs"]) == {"test", "attest"}
    assert jobs["attest"]["needs"] == "test"
    assert jobs["test"]["needs"] == "build"
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    builds = [step for job in jobs.values() for step in job["steps"] if "uv build" in step.get("run", "")]
    assert len(builds) == 1


def release_step(name: str) -> str:
    """The script of a step of the release."""
    (found,) = (step["run"] for job in RELEASE["jobs"].values() for step in job["steps"] if step.get("name") == name)
    return str(found)


@pytest.mark.parametrize(("tag", "code"), [("v0.1.0", 0), ("v0.1.1", 1), ("v$(touch x)", 1)])
def test_a_tag_is_the_version(tag: str, code: int, tmp_path: Path) -> None:
    """A tag that is not the version in pyproject.toml ends the release."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    env = clean_environment(TAG=tag, PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin")
    command = ["bash", "-eo", "pipefail", "-c", release_step("The tag is the version")]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["pyproject.toml"]


def clean_environment(**given: str) -> dict[str, str]:
    """An environment with what package tools need to reach their index, and *given*."""
    kept = re.compile(r"HOME|PATH|LANG|TMPDIR|(PIP|UV|SSL)_.*|\w+_proxy", re.IGNORECASE)
    return {name: value for name, value in os.environ.items() if kept.fullmatch(name)} | given


class Service:
    """Runs the scripts of a recipe in order, as its service does; stops at the first that fails."""

    def __init__(self, kind: str, project: Path) -> None:
        self.kind, self.project = kind, project

    def scripts(self) -> tuple[str, str]:
        """The script that installs, and the one that certifies."""
        if self.kind == "gitlab":
            return "\n".join(GITLAB["before_script"]), "\n".join(GITLAB["script"])
        install, certify = re.findall(r"sh '''\n(.*?)'''", JENKINS, re.DOTALL)
        return install, certify

    def variables(self) -> dict[str, str]:
        """The variables of the recipe, with those of the service in them."""
        if self.kind == "gitlab":
            place = {"CI_PROJECT_DIR": str(self.project)}
            filled = {
                name: value.replace("$CI_PROJECT_DIR", str(self.project)) for name, value in GITLAB["variables"].items()
            }
            return place | filled
        return {"WORKSPACE": str(self.project)} | dict(re.findall(r"^ +([A-Z]+) = '(.*)'$", JENKINS, re.MULTILINE))

    def run(self, script: str, **given: str) -> subprocess.CompletedProcess[str]:
        """Run *script* with the shell and the options of the service."""
        options = ["bash", "-eo", "pipefail", "-c"] if self.kind == "gitlab" else ["sh", "-xe", "-c"]
        env = clean_environment() | self.variables() | given
        return subprocess.run(
            [*options, script], cwd=self.project, env=env, capture_output=True, text=True, check=False
        )


@pytest.fixture(params=["gitlab", "jenkins"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Service:
    """A project with the Python template as its testee."""
    shutil.copy(ROOT / "templates" / "python" / "testee.py", tmp_path)
    return Service(request.param, tmp_path)


def put_on_path(project: Path) -> None:
    """Put the commands of this environment where the recipe installs them."""
    programs = project / ".kafkaproof" / "bin"
    programs.mkdir(parents=True)
    for name, call in {"kafkaproof": "-m kafkaproof", "python": ""}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {call} "$@"\n')
        (programs / name).chmod(0o755)


@pytest.mark.slow
def test_certify(service: Service) -> None:
    """The script fails for findings, passes with a baseline or with declared deviations, and leaves what is kept."""
    put_on_path(service.project)
    _, script = service.scripts()
    path = f"{service.project / '.kafkaproof' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    own = {"OPTIONS": "--only v2_headers", "PATH": path}
    first = service.run(script, **own)
    assert first.returncode == 1, first.stdout + first.stderr
    assert "## Kafkaproof" in first.stdout
    kept = [path.relative_to(service.project).as_posix() for path in service.project.glob("kafkaproof-*/*")]
    assert {"kafkaproof-report/index.html", "kafkaproof-report/report.sarif"} <= set(kept)
    assert len(list(service.project.glob("kafkaproof-results/*/junit.xml"))) == 1
    (result,) = service.project.glob("kafkaproof-results/*/result.ndjson")
    (service.project / "baseline").mkdir()
    shutil.copy(result, service.project / "baseline")
    second = service.run(script, **own, BASELINE="baseline/result.ndjson")
    assert second.returncode == 0, second.stdout + second.stderr
    assert "No profile and no cause changed" in second.stdout
    shutil.copy(result.with_name("result.ndjson"), service.project / "old.ndjson")
    (service.project / "deviations.toml").write_text(
        '[[issue]]\ncases = ["v2_headers.*"]\nseverity = "rejects_valid"\nreason = "reported"\n'
    )
    assert service.run(script, **own).returncode == 0


@pytest.mark.slow
def test_a_testee_that_cannot_run(service: Service) -> None:
    """A command line that does not exist ends the job with its own code, and its text is no shell."""
    put_on_path(service.project)
    path = f"{service.project / '.kafkaproof' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = service.run(service.scripts()[1], TESTEE="process:no-such-$(touch injected)", PATH=path)
    assert done.returncode in {2, 3}, done.stdout + done.stderr
    assert not (service.project / "injected").exists()


def holds(requirement: Requirement) -> bool:
    """Whether *requirement* is for this Python and machine, without an extra."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def locked_requirements(wheel: Path) -> Iterator[str]:
    """The lines of kafkaproof.txt for *wheel*: it and all that it requires, with hashes."""
    yield f"{wheel} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"
    text = (ROOT / "constraints-hashed.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [(Requirement(line.partition(" --hash")[0]), line) for line in text.splitlines() if "==" in line]
    pins = {pin.name: line for pin, line in lines if holds(pin)}
    wanted, seen = ["kafkaproof"], set()
    while wanted:
        for line in metadata.requires(wanted.pop()) or []:
            requirement = Requirement(line)
            name = requirement.name.lower()
            if name not in seen and holds(requirement):
                seen.add(name)
                wanted.append(name)
                yield pins[name]


@pytest.mark.testees
def test_install_and_certify(service: Service, tmp_path_factory: pytest.TempPathFactory) -> None:
    """From an empty environment: the recipe installs the built wheel with hashes, and certifies."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    (service.project / "kafkaproof.txt").write_text("\n".join(locked_requirements(wheel)) + "\n", encoding="utf-8")
    install, certify = service.scripts()
    done = service.run(install)
    assert done.returncode == 0, done.stdout + done.stderr
    path = f"{service.project / '.kafkaproof' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = service.run(certify, OPTIONS="--only v2_headers", PATH=path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert (service.project / "kafkaproof-report" / "index.html").exists()
