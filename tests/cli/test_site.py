"""`kafkaproof site build`: one command from results to a site, its check, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkaproof.cli import kafkaproof

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "results" / "columnar-0.1.0.ndjson"


def run(*arguments: str | Path) -> Result:
    """The outcome of `kafkaproof site build ARGUMENTS`."""
    return CliRunner().invoke(kafkaproof, ["site", "build", *map(str, arguments)])


@pytest.mark.slow
def test_a_site_is_built_and_checked(tmp_path: Path) -> None:
    """A build of one result has its pages; --check agrees with it, and names a page that was changed."""
    out = tmp_path / "site"
    built = run(RESULT, "--out", out, "--no-pyodide", "--json")
    assert built.exit_code == 0, built.output
    document = json.loads(built.stdout)
    assert document["files"] == sum(path.is_file() for path in out.rglob("*")) > 3000
    assert (out / "library" / "columnar" / "index.html").is_file()
    assert run(RESULT, "--out", out, "--no-pyodide", "--check").exit_code == 0
    (out / "index.html").write_text("changed")
    changed = run(RESULT, "--out", out, "--no-pyodide", "--check")
    assert (changed.exit_code, changed.stdout) == (1, "index.html: differs\n")


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    """A folder that is no site is refused in one line before anything is read, with exit code 2."""
    (tmp_path / "file.txt").write_text("mine")
    done = run(RESULT, "--out", tmp_path, "--no-pyodide")
    assert done.exit_code == 2
    assert "holds something else than a site" in done.stderr


def test_a_file_that_is_no_result_is_refused(tmp_path: Path) -> None:
    """A broken result is named, with exit code 2, and nothing is written."""
    (tmp_path / "result.ndjson").write_text("{}\n")
    done = run(tmp_path / "result.ndjson", "--out", tmp_path / "site", "--no-pyodide")
    assert done.exit_code == 2
    assert "result.ndjson" in done.stderr
    assert not (tmp_path / "site").exists()


def test_a_wrong_pyodide_is_refused(tmp_path: Path) -> None:
    """A given folder that is not the pinned package is an error, not a fallback."""
    (tmp_path / "package").mkdir()
    done = run(RESULT, "--out", tmp_path / "site", "--pyodide", tmp_path / "package")
    assert done.exit_code == 2
    assert "pyodide.asm.mjs" in done.stderr


def test_no_stored_results(tmp_path: Path) -> None:
    """Where no results are stored the command says so."""
    done = run("--root", tmp_path, "--out", tmp_path / "site", "--no-pyodide")
    assert done.exit_code == 2
    assert "there are no stored results" in done.stderr


def test_options_that_contradict(tmp_path: Path) -> None:
    """--pyodide and --no-pyodide contradict each other."""
    assert run(RESULT, "--pyodide", tmp_path, "--no-pyodide").exit_code == 2
