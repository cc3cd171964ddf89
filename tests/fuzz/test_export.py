"""Entry points for OSS-Fuzz: what is exported, and that each of them runs."""

import os
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from kafka_fuzz.campaign.export import differing, files, program_name, write
from kafka_fuzz.campaign.in_process import NAMES

ROOT = Path(__file__).resolve().parent.parent.parent
COMMITTED = ROOT / "fuzz" / "oss_fuzz"


def test_what_is_committed_is_what_is_exported() -> None:
    """fuzz/oss_fuzz holds what the command writes, byte for byte, and nothing else."""
    assert differing(COMMITTED, seeds=False) == []
    assert {path.name for path in COMMITTED.iterdir()} == {name for name, _, _ in files(seeds=False)}


def test_export(tmp_path: Path) -> None:
    """Programs are executable, seeds lie under their hashes, and `--check` sees any change."""
    write(tmp_path)
    assert differing(tmp_path) == []
    for target in NAMES:
        assert os.access(tmp_path / f"{program_name(target)}.py", os.X_OK)
    with zipfile.ZipFile(tmp_path / "fuzz_reference_seed_corpus.zip") as file:
        assert len(file.namelist()) > 1000
        assert all(sha256(file.read(name)).hexdigest() == name for name in file.namelist()[:50])
    (tmp_path / "build.sh").chmod(0o644)
    (tmp_path / "fuzz_reference.dict").unlink()
    assert differing(tmp_path) == ["build.sh", "fuzz_reference.dict"]


def test_the_workflow() -> None:
    """The nightly workflow can be read, and runs what tox.ini defines."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "fuzz.yml").read_text(encoding="utf-8"))
    commands = [step["run"] for step in workflow["jobs"]["fuzz"]["steps"] if "run" in step]
    assert any(command.startswith("tox run -e fuzz -- --minutes") for command in commands)
    assert "[testenv:fuzz]" in (ROOT / "tox.ini").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("target", NAMES)
def test_each_runs(target: str, tmp_path: Path) -> None:
    """For a second: it ends clean, or with a find and the token by which libFuzzer tells finds apart."""
    pytest.importorskip("atheris")
    program = COMMITTED / f"{program_name(target)}.py"
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
        assert "kafka" in target  # the reference has no finds
    else:
        assert "Done " in said
