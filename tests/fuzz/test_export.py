"""Entry points for OSS-Fuzz: what is exported, and that each of them runs."""

import os
import re
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
from benchmarks.shrink import benchmark_inputs, good_batches

from kafka_fuzz.campaign.libfuzzer import differing_exports, exported_files, program_name, write_export
from kafka_fuzz.targets import NAMES

ROOT = Path(__file__).resolve().parent.parent.parent
EXPORTED: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def exported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A directory with the exported programs, last in `EXPORTED`."""
    directory = tmp_path_factory.mktemp("exported")
    write_export(directory, seeds=False)
    EXPORTED.append(directory)


def test_export_writes_what_check_compares() -> None:
    """The directory holds exactly the exported files, byte for byte."""
    assert differing_exports(EXPORTED[-1], seeds=False) == []
    assert {path.name for path in EXPORTED[-1].iterdir()} == {name for name, _, _ in exported_files(seeds=False)}


def test_export(tmp_path: Path) -> None:
    """Programs are executable, seeds are named by their hashes, and `--check` reports any change."""
    write_export(tmp_path)
    assert differing_exports(tmp_path) == []
    for target in NAMES:
        assert os.access(tmp_path / f"{program_name(target)}.py", os.X_OK)
    with zipfile.ZipFile(tmp_path / "fuzz_reference_seed_corpus.zip") as file:
        assert len(file.namelist()) > 1000
        assert all(sha256(file.read(name)).hexdigest() == name for name in file.namelist()[:50])
    (tmp_path / "build.sh").chmod(0o644)
    (tmp_path / "fuzz_reference.dict").unlink()
    assert differing_exports(tmp_path) == ["build.sh", "fuzz_reference.dict"]


# What a program is like where atheris is not installed.
WITHOUT = """
import runpy, sys
sys.modules["atheris"] = None
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def replayed(target: str, *given: str, atheris: bool) -> subprocess.CompletedProcess[str]:
    """The program of *target*, given files."""
    program = str(EXPORTED[-1] / f"{program_name(target)}.py")
    command = [sys.executable, *(() if atheris else ("-c", WITHOUT)), program, *given]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=100, check=False)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with inputs that everybody reads."""
    folder = tmp_path_factory.mktemp("good")
    (folder / "batches").write_bytes(good_batches())
    return folder


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An input that shows a finding in kafka-python."""
    path = tmp_path_factory.mktemp("bad") / "find"
    path.write_bytes(benchmark_inputs()["key length"])
    return path


@pytest.mark.slow
def test_replay_without_atheris(good: Path, bad: Path) -> None:
    """Without atheris a program runs the files that it is given: clean ones end well, a find raises with its key."""
    done = replayed("kafka-python", str(good), atheris=False)
    assert done.returncode == 0, done.stderr
    assert "Replayed 1 inputs" in done.stderr
    done = replayed("kafka-python", "-runs=1", str(bad), atheris=False)
    assert done.returncode == 1
    assert "DEDUP_TOKEN: kafka-python|" in done.stderr
    done = replayed("kafka-python", "-runs=1", atheris=False)
    assert done.returncode == 1
    assert "atheris is not installed" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("target", NAMES)
def test_each_replays(target: str, good: Path, bad: Path) -> None:
    """Every program says the same of a file with atheris as without it."""
    pytest.importorskip("atheris")
    for given in (good / "batches", bad):
        one, other = (replayed(target, str(given), atheris=atheris) for atheris in (True, False))
        tokens = [[line for line in done.stderr.splitlines() if "DEDUP_TOKEN" in line] for done in (one, other)]
        assert tokens[0] == tokens[1], one.stderr
        assert bool(one.returncode) == bool(other.returncode) == bool(tokens[0])
        if given != bad:
            assert not tokens[0]


@pytest.mark.slow
@pytest.mark.parametrize("target", NAMES)
def test_the_seeds_do_not_end_it(target: str, tmp_path: Path) -> None:
    """libFuzzer runs all seeds first: what they show raises nothing, and so it comes to fuzz at all."""
    pytest.importorskip("atheris")
    write_export(tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "out" / f"{program_name(target)}_seed_corpus.zip") as file:
        file.extractall(tmp_path / "seeds")
    done = replayed(target, "-runs=0", f"-artifact_prefix={tmp_path}/", str(tmp_path / "seeds"), atheris=True)
    assert "INITED" in done.stderr
    assert "DEDUP_TOKEN" not in done.stderr
    assert done.returncode == 0


def test_programs_are_packed_with_what_they_need() -> None:
    """PyInstaller sees no module that is imported by its name, and no table beside a module."""
    build = (EXPORTED[-1] / "build.sh").read_text(encoding="utf-8")
    (packages,) = re.findall(r"for package in (.*); do", build)
    assert {*packages.split()} == {
        "kafka_records",
        "kafka_corpus",
        "kafka_brokers",
        "kafka_conformance",
        "kafka_fuzz",
        "kafka",
        "aiokafka",
    }
    assert '--collect-all "$package"' in build
    assert subprocess.run(["bash", "-n", EXPORTED[-1] / "build.sh"], check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("target", NAMES)
def test_each_runs(target: str, tmp_path: Path) -> None:
    """A run of one second ends clean, or with a finding and the token by which libFuzzer distinguishes findings."""
    pytest.importorskip("atheris")
    program = EXPORTED[-1] / f"{program_name(target)}.py"
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))  # noqa: PTH120  # no symlink is resolved
    done = subprocess.run(
        [program, "-max_total_time=1", f"-artifact_prefix={tmp_path}/"],
        env=os.environ | {"PATH": path},
        cwd=tmp_path,
        capture_output=True,
        timeout=100,
        check=False,
    )
    said = done.stderr.decode(errors="replace")
    assert "INITED" in said
    if done.returncode:
        assert "DEDUP_TOKEN: " in said or "libFuzzer: deadly signal" in said
        assert "kafka" in target  # the reference has no findings
    else:
        assert "Done " in said
