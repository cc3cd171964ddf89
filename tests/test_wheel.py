"""The wheel in a virtual environment of its own, as a user has it: adapters in other languages come with it."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ADAPTERS = "kafka_conformance/adapters/"
TESTEES = ROOT / "conformance" / "testees"
# What compilers and package tools would leave beside sources.
BUILD_OUTPUTS = {"target", "node_modules", "dist", "build", "testee", "classes", "packages"}

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel and nothing from this checkout, an empty folder to work in, and an empty cache."""

    folder: Path
    work: Path

    def kafkaproof(
        self, *arguments: str, path: str = "", more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the installed command; without *path* there is no compiler and no package tool."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KAFKAPROOF"))
        }
        environment.pop("JAVA_HOME", None)
        environment |= {"PATH": path or str(self.folder / "bin"), "XDG_CACHE_HOME": str(self.work.parent / "cache")}
        return subprocess.run(
            [self.folder / "bin" / "kafkaproof", *arguments],
            cwd=self.work,
            env={**environment, **(more or {})},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment with the wheel and without pip; dependencies are those of this interpreter."""
    folder = tmp_path_factory.mktemp("environment")
    python = folder / "bin" / "python"
    pip = (str(python), "-m", "pip", "--disable-pip-version-check", "--quiet")
    for command in (
        (sys.executable, "-m", "venv", str(folder)),
        (*pip, "install", "--no-index", "--no-deps", str(wheel)),
        (*pip, "uninstall", "--yes", "pip"),
    ):
        subprocess.run(command, check=True, capture_output=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    # Folders in a .pth file are searched last, and their own .pth files, such as an editable install's, have no effect.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def installed(environment: Path, tmp_path: Path) -> Installed:
    """The environment with an empty folder and an empty cache."""
    (tmp_path / "work").mkdir()
    return Installed(environment, tmp_path / "work")


def recipes() -> Iterator[tuple[str, list[str]]]:
    """The folder and the testees of each recipe in the checkout."""
    for path in sorted(TESTEES.glob("*/testee.toml")):
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        yield path.parent.name, [given["name"], *(each["name"] for each in given.get("variants", ()))]


def test_the_wheel_holds_recipes_and_sources(wheel: Path) -> None:
    """Every file that a recipe names is in the wheel with its recipe, the harnesses of external engines too."""
    names = set(zipfile.ZipFile(wheel).namelist())
    folders = [folder for folder, _ in recipes()]
    assert len(folders) >= 9
    for folder in folders:
        given = tomllib.loads((TESTEES / folder / "testee.toml").read_text(encoding="utf-8"))
        wanted = {os.path.normpath(f"{ADAPTERS}{folder}/{source}") for source in ("testee.toml", *given["sources"])}
        assert wanted <= names, folder
    assert {f"kafka_fuzz/harnesses/{name}" for name in ("go/fuzz_test.go", "jazzer/FuzzDecode.java")} <= names


def test_the_wheel_holds_no_build_outputs(tmp_path: Path) -> None:
    """Outputs of builds in the source folders stay out of the wheel."""
    copy = tmp_path / "checkout"
    copied = ("pyproject.toml", "README.md", "LICENSE", ".gitignore", "conformance/testees", "fuzz/harnesses")
    for name in copied:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
    for output in ("kafkajs/node_modules/kafkajs/index.js", "rskafka/target/release/testee"):
        (copy / "conformance" / "testees" / output).parent.mkdir(parents=True)
        (copy / "conformance" / "testees" / output).write_text("built")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    (made,) = tmp_path.glob("*.whl")
    adapters = [Path(name) for name in zipfile.ZipFile(made).namelist() if name.startswith(ADAPTERS)]

    assert len(adapters) >= 50
    assert [path for path in adapters if BUILD_OUTPUTS & {*path.parts}] == []


def test_a_missing_toolchain_is_one_line(installed: Installed) -> None:
    """Without Go, franz-go cannot run, and the line that says so names Go."""
    done = installed.kafkaproof("certify", "franz-go")

    assert done.returncode == 3
    assert done.stderr.splitlines() == ["franz-go cannot run: go is not installed or not on the path"]
    assert list(installed.work.iterdir()) == []


def test_a_near_name_is_suggested(installed: Installed) -> None:
    """A misspelled testee is the user's mistake, and the message has the name that was meant."""
    done = installed.kafkaproof("certify", "franz_goo")

    assert done.returncode == 2
    assert "no testee 'franz_goo'; did you mean franz-go?" in done.stderr


def test_build_all_names_what_is_left_out(installed: Installed) -> None:
    """Each testee that cannot be built has a line with the programs that it takes; none built is no success."""
    done = installed.kafkaproof("testees", "build", "--all")
    lines = done.stdout.splitlines()
    names = [name for _, names in recipes() for name in names]

    assert done.returncode == 3
    assert len(names) >= 13
    assert sorted(line.split()[0] for line in lines[:-1]) == sorted(names)
    assert all(": left out: " in line and "not installed or not on the path" in line for line in lines[:-1])
    assert lines[-1] == f"{len(names)} testees: 0 built, 0 already built, {len(names)} left out, 0 failed"


def test_certify_all_ends_with_what_was_left_out(installed: Installed) -> None:
    """All known testees are tried; the table is followed by a line for each that did not run, with the reason."""
    done = installed.kafkaproof("certify", "--all", "--only", "v2_batch.offsets_wrap*", "--report", "results")
    names = {name for _, names in recipes() for name in names}
    table, _, rest = done.stdout.partition("not run")
    left_out = {line.split()[2].rstrip(":"): line for line in f"not run{rest}".splitlines() if line[:7] == "not run"}

    assert done.returncode == 1, done.stderr
    assert "reference" in table
    assert "kafka-python" in table
    assert names <= set(left_out)
    assert left_out["franz-go"] == "not run  franz-go: go is not installed or not on the path"
    written = json.loads((installed.work / "results" / "not-run.json").read_text(encoding="utf-8"))
    assert set(written) == set(left_out)


@pytest.mark.testees
def test_a_go_testee_out_of_the_wheel(installed: Installed) -> None:
    """The first use builds the adapter into the cache and says so on one line; the next use finds it there."""
    if shutil.which("go") is None:
        pytest.skip("needs go")
    # Its own build cache is in the user's cache folder, where the standard library is compiled already.
    go_cache = subprocess.run(["go", "env", "GOCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    arguments = ("certify", "franz-go", "--only", "v2_batch", "--report", "results")
    path = os.environ["PATH"]
    first, second = (installed.kafkaproof(*arguments, path=path, more={"GOCACHE": go_cache}) for _ in range(2))
    building = [line for line in first.stderr.splitlines() if line.startswith("building ")]

    assert first.returncode in {0, 1}, first.stderr
    assert len(building) == 1
    assert building[0].startswith("building franz-go 1.22.2 (go) into ")
    assert str(installed.work.parent / "cache") in building[0]
    assert (second.returncode, "building" in second.stderr) == (first.returncode, False)
    assert second.stdout.splitlines()[:5] == first.stdout.splitlines()[:5]
    assert [path.name for path in installed.work.iterdir()] == ["results"]
