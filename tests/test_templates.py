"""The templates from which a testee is started: short, sound, and about a real codec, in every language."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "templates"
MOST_LINES = 80

# The one source file, how it is built, and how it is run; as docs/certify-your-codec.md says.
SOURCES = {
    "python": "testee.py",
    "go": "main.go",
    "rust": "main.rs",
    "java": "Testee.java",
    "node": "testee.js",
}
BUILD = {
    "python": "",
    "go": "go build -o testee .",
    "rust": "cargo build --release",
    "java": "javac -d build Testee.java",
    "node": "",
}
RUN = {
    "python": "python testee.py",
    "go": "./testee",
    "rust": "target/release/testee",
    "java": "java -cp build Testee",
    "node": "node testee.js",
}
needs_toolchain = pytest.mark.testees


def kafkaproof(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, run in *folder*."""
    command = [sys.executable, "-m", "kafkaproof", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def connect_string(language: str) -> str:
    """The connect string; *python* is the interpreter that the tests run on."""
    return "process:" + RUN[language].replace("python", sys.executable, 1)


def test_there_is_one_for_each_language() -> None:
    """Five languages, and beside them only the recipes for CI."""
    assert {path.name for path in TEMPLATES.iterdir()} - {"ci"} == set(SOURCES) == set(BUILD) == set(RUN)


@pytest.mark.parametrize("language", SOURCES)
def test_templates_are_short(language: str) -> None:
    """A template has fewer than 80 lines, and says in one place where the codec goes."""
    text = (TEMPLATES / language / SOURCES[language]).read_text(encoding="utf-8")
    assert len(text.splitlines()) < MOST_LINES
    assert text.count("======== Your codec goes here") == 1


@pytest.mark.slow
def test_python_template_is_sound(tmp_path: Path) -> None:
    """The Python template passes smoke as it is."""
    shutil.copytree(TEMPLATES / "python", tmp_path, dirs_exist_ok=True)
    done = kafkaproof(tmp_path, "smoke", connect_string("python"))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_toolchain
@pytest.mark.parametrize("language", SOURCES)
def test_template_is_built_and_judged(language: str, tmp_path: Path) -> None:
    """A template builds, passes smoke and gets verdicts: it reads what is right, and what is wrong with it is found."""
    program = (BUILD[language] or RUN[language]).split()[0]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    shutil.copytree(TEMPLATES / language, tmp_path, dirs_exist_ok=True)
    if BUILD[language]:
        built = subprocess.run(BUILD[language].split(), cwd=tmp_path, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stdout + built.stderr
    smoked = kafkaproof(tmp_path, "smoke", connect_string(language))
    assert smoked.returncode == 0, smoked.stdout + smoked.stderr
    # No profile of a consumer is hurt; what a stricter codec refuses counts where it is requested.
    chosen = ("--only", "v2_batch", "--profile", "hostile", "--strict", "--json")
    judged = kafkaproof(tmp_path, "certify", connect_string(language), *chosen)
    assert judged.returncode == 1, judged.stderr
    (document,) = json.loads(judged.stdout)["testees"]
    assert document["counts"]["agree"] > 40
    assert document["counts"]["rejects_valid"] == 0
    assert document["findings"]


@pytest.mark.slow
@pytest.mark.parametrize("language", SOURCES)
def test_new_writes_the_template(language: str, tmp_path: Path) -> None:
    """`testees new` copies the template, prints what builds and certifies it, and replaces nothing."""
    done = kafkaproof(tmp_path, "testees", "new", language, "mine")
    assert done.returncode == 0, done.stderr
    given = {path.name: path.read_bytes() for path in (TEMPLATES / language).iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()} == given
    assert f"process:{RUN[language]}" in done.stdout
    assert BUILD[language] in done.stdout
    again = kafkaproof(tmp_path, "testees", "new", language, "mine")
    assert again.returncode == 2
    assert "is not empty" in again.stderr
