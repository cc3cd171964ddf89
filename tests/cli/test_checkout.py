"""Commands that need a checkout."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("reference", "corpus", "conformance", "fuzz", "pipeline", "cli")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder that holds the packages as the wheel does: beside each other, without `benchmarks`."""
    site = tmp_path / "site"
    site.mkdir()
    for folder in PACKAGES:
        for package in (ROOT / folder).glob("kafka*"):
            (site / package.name).symlink_to(package, target_is_directory=True)
    # `kafkaproof` is no link: a link would lead back to the checkout.
    (site / "kafkaproof").unlink()
    subprocess.run(["cp", "-r", str(ROOT / "cli" / "kafkaproof"), str(site)], check=True)
    return site


def bench(site: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `kafkaproof fuzz bench` in *folder*, from the packages in *site*."""
    program = (
        f"import sys; sys.path[:0] = [{str(site)!r}]; from kafkaproof.cli import main;"
        f" sys.argv = ['kafkaproof', 'fuzz', 'bench', *{arguments!r}]; main()"
    )
    libraries = sysconfig.get_paths()["purelib"]
    # -I and -S: neither the working directory nor the editable install's path file is read.
    program = f"import sys; sys.path.append({libraries!r}); {program}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-I", "-S", "-c", program]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_fuzz_bench_outside_of_a_checkout_is_one_line(installed: Path, tmp_path: Path) -> None:
    """Outside of a checkout `fuzz bench` ends with exit code 3 and one line that says where to run it."""
    done = bench(installed, tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "run it in a checkout" in done.stderr


@pytest.mark.slow
def test_fuzz_bench_in_a_checkout_has_the_benchmarks(installed: Path) -> None:
    """In a checkout the installed command imports the benchmarks, also from a folder below the root."""
    for folder in (ROOT, ROOT / "docs"):
        done = bench(installed, folder, "--help")
        assert (done.returncode, done.stderr) == (0, "")
        assert "--repeats" in done.stdout
