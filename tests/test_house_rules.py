"""Rules of the house that no linter checks."""

import ast
import configparser
import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("reference", "corpus", "conformance", "fuzz", "pipeline", "cli", "benchmarks")
LONGEST_MODULE = 800


def modules(*folders: str) -> list[Path]:
    """All Python files below *folders*; there are some, or the layout has moved."""
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert found, folders
    return found


def name(path: Path) -> str:
    """A short name for test ids."""
    return path.relative_to(ROOT).as_posix()


def facts(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The test functions of a module, those in classes too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node


@pytest.mark.parametrize("path", modules("tests"), ids=name)
def test_every_test_states_its_fact(path: Path) -> None:
    """A test's docstring says what it shows."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [test.name for test in facts(tree) if not ast.get_docstring(test)] == []


@pytest.mark.parametrize("path", modules(*SOURCES, "tests"), ids=name)
def test_modules_are_short(path: Path) -> None:
    """A module has fewer than 800 lines."""
    assert len(path.read_text(encoding="utf-8").splitlines()) < LONGEST_MODULE


def test_tests_have_no_packages() -> None:
    """There is no __init__.py among the tests: importlib mode needs none, and basenames may repeat."""
    assert [name(path) for path in modules("tests") if path.name == "__init__.py"] == []


def words_in(text: str) -> list[str]:
    """The places and texts of findings of `house_check` in a module *text*."""
    spec = importlib.util.spec_from_file_location("house_check", ROOT / "tests" / "house_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [f"{finding.place} {finding.text}" for finding in module.of_module("module.py", text, set())]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""A codec asked for more."""', ['module.py:1 \'asked\' in: """A codec asked for more."""']),
        ("asked = 1", ["module.py:1 asked"]),
        ("class Profile:\n    asked: int", []),
        ('{"asked": profile.asked}', []),
        ("Profile(asked=1)", []),
        ("def count(asked): ...", ["module.py:1 asked"]),
        ("class Profile:\n    asked: int\n    def add(self, asked): ...", ["module.py:2 asked"]),
        ('OLD_NAMES: Final = {"lie": "fault"}', []),
        ('NAMES: Final = {"lie": "fault"}', ["module.py:1 'lie' in: \"lie\""]),
        ("tracker.getStageInfo(1)", []),
        ("stage = 1", ["module.py:1 stage"]),
    ],
)
def test_banned_words_are_found_and_foreign_and_old_names_are_not(text: str, found: list[str]) -> None:
    """The check reports words of this project; names of Spark and names in files of earlier releases stay."""
    assert words_in(text) == found


def test_nothing_ignored_is_tracked() -> None:
    """Git tracks no file that .gitignore names, such as a virtual environment."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    command = [
        "git",
        "-C",
        str(ROOT),
        "-c",
        "safe.directory=*",
        "ls-files",
        "--cached",
        "--ignored",
        "--exclude-standard",
    ]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""


def test_constraints_name_no_place() -> None:
    """The pins are versions only: no address, no path."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.+]+( ; [a-z_]+ .+)?", line)] == []


def test_uv_gets_hashes() -> None:
    """All environments of tox install with the hashed constraints, but for the one with the oldest versions."""
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    given = {name: tox.get(name, "constraints") for name in tox.sections() if tox.has_option(name, "constraints")}
    assert given == {"testenv": "{tox_root}/constraints-hashed.txt", "testenv:lowest": ""}
    assert tox.get("pkgenv", "set_env").strip() == "UV_CONSTRAINT = {tox_root}/constraints-hashed.txt"


def test_every_environment_is_described() -> None:
    """`tox list` says of each environment what it is for."""
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", encoding="utf-8")
    environments = [section for section in tox.sections() if section.startswith("testenv:")]
    assert environments
    assert [section for section in environments if not tox.get(section, "description", fallback="")] == []
