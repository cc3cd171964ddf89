"""The nightly campaign: what it finds stays out of the log and of artifacts that everybody can read."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
QUIET = ROOT / ".github" / "quiet"
STEPS: list[dict[str, Any]] = [
    step
    for job in yaml.safe_load((ROOT / ".github" / "workflows" / "fuzz.yml").read_text(encoding="utf-8"))[
        "jobs"
    ].values()
    for step in job["steps"]
]


@pytest.mark.parametrize("code", [0, 1, 3])
def test_what_a_quiet_command_prints_goes_to_a_file(code: int, tmp_path: Path) -> None:
    """The log has the exit code only; the output of several commands is in the folder, in order."""
    for text in ("first finding", "second finding"):
        command = [str(QUIET), "sh", "-c", f"echo {text}; echo {text} >&2; exit {code}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (code, f"exit code {code}\n", "")
    printed = (tmp_path / "kafkaproof-fuzz" / "printed.log").read_text(encoding="utf-8")

    assert printed.splitlines() == ["first finding"] * 2 + ["second finding"] * 2


def test_campaigns_are_quiet() -> None:
    """Each step that runs a campaign, or reads its folder, does so quietly."""
    loud = ("tox run -e fuzz ", "tox run -e fuzz-reach", "tox run -e fuzz-report")
    runs = [step["run"] for step in STEPS if any(word in step.get("run", "") for word in loud)]

    assert len(runs) == 4
    assert all(run.startswith(".github/quiet ") for run in runs)


def test_only_the_encrypted_folder_is_uploaded() -> None:
    """Caches and artifacts hold the encrypted folder and nothing else."""
    paths = [step["with"]["path"] for step in STEPS if "path" in step.get("with", {})]

    assert paths
    assert set(paths) == {"kafkaproof-fuzz.tar.enc"}


def test_no_input_is_part_of_a_command() -> None:
    """An expression in a command could end it and begin another; inputs come as variables."""
    assert [step["run"] for step in STEPS if "${{" in step.get("run", "")] == []
