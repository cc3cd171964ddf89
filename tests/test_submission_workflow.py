"""The workflow for submissions: what it may do, and which files of a pull request it takes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).resolve().parent.parent
TEXT: Final = (ROOT / ".github" / "workflows" / "submission.yml").read_text(encoding="utf-8")
WORKFLOW: Final[dict[Any, Any]] = yaml.safe_load(TEXT)
STEPS: Final = WORKFLOW["jobs"]["rerun"]["steps"]
FOLDER: Final = "programme/submissions"


def test_the_job_has_nothing_to_steal() -> None:
    """It runs for pull requests only, with a token that reads, without secrets, caches or kept credentials."""
    assert WORKFLOW[True] == {"pull_request": {"paths": [f"{FOLDER}/**"]}}  # YAML reads `on` as true
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert "permissions" not in WORKFLOW["jobs"]["rerun"]
    assert "secrets." not in TEXT
    assert "actions/cache" not in TEXT
    (checkout,) = (step for step in STEPS if "checkout" in step.get("uses", ""))
    assert checkout["with"]["persist-credentials"] is False


def git(folder: Path, *words: str) -> str:
    """Run git in *folder*."""
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def merged(tmp_path: Path) -> Path:
    """A repository with one submission, whose branch `pull` is to be changed and merged."""
    folder = tmp_path / "repository"
    (folder / FOLDER).mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / FOLDER / "old.toml").write_text("old")
    (folder / "tool").write_text("of the base branch")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "base")
    git(folder, "checkout", "--quiet", "-b", "pull")
    return folder


def taken(folder: Path, temporary: Path) -> subprocess.CompletedProcess[str]:
    """Commit the changes in *folder*, merge them, and run the step that takes submissions."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "pull")
    git(folder, "checkout", "--quiet", "main")
    git(folder, "merge", "--quiet", "--no-ff", "--message", "merge", "pull")
    (script,) = (step["run"] for step in STEPS if step.get("name") == "Submissions of the pull request")
    temporary.mkdir()
    environment = os.environ | {"RUNNER_TEMP": str(temporary)}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_submissions_are_taken_and_the_base_is_run(merged: Path, tmp_path: Path) -> None:
    """New and changed submissions are taken, removed ones are not, and what runs is the base branch."""
    (merged / FOLDER / "new.toml").write_text("new")
    (merged / FOLDER / "old.toml").unlink()
    done = taken(merged, tmp_path / "temporary")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in (tmp_path / "temporary" / "submissions").iterdir()] == ["new.toml"]
    assert sorted(path.name for path in (merged / FOLDER).iterdir()) == ["old.toml"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tool", "changes nothing else"),
        (".github/workflows/submission.yml", "changes nothing else"),
        (f"{FOLDER}/sub/new.toml", "changes nothing else"),
        (f"{FOLDER}/new.py", "changes nothing else"),
        (f"{FOLDER}/-x.toml", "changes nothing else"),
        (f"{FOLDER}/a b.toml", "changes nothing else"),
    ],
)
def test_other_files_end_the_job(name: str, said: str, merged: Path, tmp_path: Path) -> None:
    """A pull request with a submission and any other file is refused before anything is installed."""
    (merged / FOLDER / "new.toml").write_text("new")
    (merged / name).parent.mkdir(parents=True, exist_ok=True)
    (merged / name).write_text("changed")
    done = taken(merged, tmp_path / "temporary")
    assert done.returncode == 1
    assert said in done.stdout


def test_a_link_is_no_submission(merged: Path, tmp_path: Path) -> None:
    """A symbolic link in place of a file is refused."""
    (merged / FOLDER / "new.toml").symlink_to("/etc/passwd")
    done = taken(merged, tmp_path / "temporary")
    assert (done.returncode, "is no regular file" in done.stdout) == (1, True)
    assert not list((tmp_path / "temporary" / "submissions").iterdir())
