"""Two branches that each add a case to another area: real git merges them, and nothing else goes stale."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kafka_brokers.releases import RELEASES

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
SOURCES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["src"]
NEW_CASES = {
    "v2_crc": '''

@case("CRC-07")
def one_bit_of_the_value_is_changed_on_a_branch() -> Draft:
    """One bit of the value is changed, on a branch."""
    return invalid(flip(sealed(expected(record(b"a branch adds this"))), -3), *CORRUPT)
''',
    "varint": '''

@case("VAR-01")
def value_added_on_a_branch() -> Draft:
    """A value of a length that no other case has is read, on a branch."""
    value = b"another branch adds this"
    return valid(raw_batch(raw_record(value=value)), expected(record(value)))
''',
}


class Checkout:
    """A git checkout of this project's files, and its own code run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *arguments: str) -> str:
        """Run git; its output."""
        return self._run("git", "-c", "user.name=test", "-c", "user.email=test@localhost", *arguments)

    def corpus(self, *arguments: str) -> Any:
        """Run `kafkaproof corpus`; the document that it prints."""
        return json.loads(self._run(sys.executable, "-m", "kafkaproof", "corpus", *arguments, "--json"))

    def refresh(self, *arguments: str) -> list[dict[str, Any]]:
        """Run `kafkaproof refresh`; its tasks."""
        said = json.loads(self._run(sys.executable, "-m", "kafkaproof", "refresh", *arguments, "--json"))
        tasks: list[dict[str, Any]] = said["tasks"]
        return tasks

    def _run(self, *command: str) -> str:
        path = os.pathsep.join(str(self.folder / source) for source in SOURCES)
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        done = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def changed(self) -> set[str]:
        """The files that differ from the last commit, new ones included."""
        return {line[3:] for line in self.git("status", "--porcelain").splitlines()}


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout in which the branches of all `NEW_CASES` are merged."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git and a checkout")
    checkout = Checkout(tmp_path_factory.mktemp("branches"))
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (checkout.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout.folder / name)
    checkout.git("init", "--quiet", "--initial-branch", "main")
    checkout.git("add", "--all")
    checkout.git("commit", "--quiet", "--message", "base")
    for area, source in NEW_CASES.items():
        checkout.git("switch", "--quiet", "--create", area, "main")
        add_case(checkout, area, source)
        checkout.git("commit", "--quiet", "--all", "--message", area)
    checkout.git("switch", "--quiet", "main")
    for area in NEW_CASES:
        checkout.git("merge", "--quiet", "--no-edit", area)
    return checkout


def source_of(checkout: Checkout, area: str) -> Path:
    """The module of an area of decode cases."""
    return checkout.folder / "corpus" / "kafka_corpus" / "cases" / "decode" / f"{area}.py"


def add_case(checkout: Checkout, area: str, source: str) -> None:
    """Append a case function and compile its area: one source file and one line of one text file change."""
    module = source_of(checkout, area)
    module.write_text(module.read_text(encoding="utf-8") + source, encoding="utf-8")
    vectors = f"vectors/{area}.ndjson"
    assert checkout.corpus("compile", area)["written"] == [vectors]
    assert checkout.changed() == {f"corpus/kafka_corpus/cases/decode/{area}.py", f"corpus/kafka_corpus/{vectors}"}
    numbers = checkout.git("diff", "--numstat", "--", f"corpus/kafka_corpus/{vectors}").split()[:2]
    assert numbers == ["1", "0"]


def test_branches_merge(merged: Checkout) -> None:
    """The merge has both cases, compiling changes nothing, and both wait for recorded answers."""
    ids = {f"{area}.{source.split('def ')[1].split('(')[0]}" for area, source in NEW_CASES.items()}
    assert ids <= {case["id"] for case in merged.corpus("list")["cases"]}
    assert merged.corpus("compile", *NEW_CASES)["written"] == []
    for waiting in merged.corpus("status")["waiting"]:
        if waiting.get("client") == "java" or waiting.get("broker") == "4.4.0":
            assert ids <= set(waiting["ids"])
    assert merged.changed() == set()


def test_nothing_is_stale(merged: Checkout) -> None:
    """`corpus check` passes, and compiling everything changes no file."""
    said = merged.corpus("check")
    assert said["ok"]
    assert said["waiting"] >= len(NEW_CASES)
    assert merged.corpus("compile", "--all")["written"] == []
    assert merged.changed() == set()


def test_refresh_plans_a_new_case(merged: Checkout) -> None:
    """A case that is not compiled yet is one case more for each that can run it; the step `vectors` writes one file."""
    steps = ("--step", "vectors", "--step", "clients", "--step", "brokers")
    before = {task["name"]: task["number"] for task in merged.refresh("--dry-run", *steps)}
    source = NEW_CASES["varint"].replace("value_added", "value_refreshed").replace("another branch", "no branch")
    module = source_of(merged, "varint")
    module.write_text(module.read_text(encoding="utf-8") + source, encoding="utf-8")
    after = {task["name"]: task["number"] for task in merged.refresh("--dry-run", *steps)}
    assert after.pop("vectors (vectors/varint.ndjson)") == 1
    more = {name: number - before.get(name, 0) for name, number in after.items() if number != before.get(name)}
    # The case is of format v2, which came with 0.11.
    v2 = [release.name for release in RELEASES if 2 in release.magics]
    assert len(v2) > 10
    java = next(name for name in more if name.startswith("answers of java "))
    assert more == dict.fromkeys((java, *(f"answers of broker {name}" for name in v2)), 1)
    (task,) = merged.refresh("--step", "vectors")
    assert task["outcome"] == "wrote vectors/varint.ndjson"
    assert {Path(name).name for name in merged.changed()} == {"varint.py", "varint.ndjson"}
    merged.git("reset", "--quiet", "--hard")
