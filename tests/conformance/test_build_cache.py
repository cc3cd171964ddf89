"""The cache of builds when several processes use it, and when a builder is killed."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_conformance.testees import recipe

# Its compiler leaves half of a build, and does not end before the file `go-on` is there.
RECIPE = """
name = "toy"
about = "a program that is copied"
language = "shell"
programs = ["sh"]
version = "1.0"
sources = ["toy.sh", "compile.sh"]
build = [["sh", "compile.sh", "{build}"]]
versioned = [["true"]]
run = ["sh", "{build}/toy.sh"]
"""
COMPILE = """
echo built >> {folder}/count
touch $1/half
while test ! -e {folder}/go-on; do sleep 0.02; done
cp toy.sh $1
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> recipe.BuildRecipe:
    """A recipe in a folder of its own, and an empty cache."""
    folder = tmp_path / "testees" / "toy"
    folder.mkdir(parents=True)
    (folder / "testee.toml").write_text(RECIPE)
    (folder / "compile.sh").write_text(COMPILE.format(folder=tmp_path))
    (folder / "toy.sh").write_text("exit 0\n")
    monkeypatch.setenv(recipe.SOURCES_VARIABLE, str(tmp_path / "testees"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return recipe.read_recipes(folder / "testee.toml")[0]


@contextmanager
def building() -> Iterator[subprocess.Popen[str]]:
    """`kafkaproof testees build toy` in a process of its own, ended with the block."""
    command = [sys.executable, "-m", "kafkaproof", "testees", "build", "toy"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> str:
    """The next line on its standard error."""
    assert process.stderr is not None
    return process.stderr.readline()


@pytest.mark.slow
@pytest.mark.usefixtures("toy")
def test_two_first_uses_make_one_build(tmp_path: Path) -> None:
    """A process that needs a build which another process makes says that it waits, and uses that build."""
    with building() as first:
        assert first_line(first).startswith("building toy 1.0 (shell) into ")
        with building() as second:
            assert first_line(second) == "waiting for another process that builds toy 1.0\n"
            (tmp_path / "go-on").touch()
            outputs = [process.communicate()[0] for process in (first, second)]

    assert [process.returncode for process in (first, second)] == [0, 0]
    assert all(output.startswith("toy 1.0: built in ") for output in outputs)
    assert (tmp_path / "count").read_text() == "built\n"


@pytest.mark.slow
def test_a_killed_build_is_never_used(toy: recipe.BuildRecipe, tmp_path: Path) -> None:
    """After the builder was killed, the next one waits until the compiler has ended, and then builds from the start."""
    half = recipe.build_directory(toy, recipe.default_directory()) / "half"
    with building() as first:
        assert first_line(first).startswith("building toy 1.0 (shell) into ")
        while not half.exists():  # the compiler has begun
            time.sleep(0.01)
        first.kill()
        first.wait()
        assert not recipe.is_built(toy)
        with building() as second:
            assert first_line(second) == "waiting for another process that builds toy 1.0\n"
            (tmp_path / "go-on").touch()
            second.communicate()

    assert second.returncode == 0
    assert recipe.is_built(toy)
    assert (tmp_path / "count").read_text() == "built\nbuilt\n"


def test_a_build_of_another_toolchain_is_not_used(
    toy: recipe.BuildRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a build changes with the version that its compiler reports."""
    path = tmp_path / "testees" / "toy" / "testee.toml"
    path.write_text(path.read_text().replace('["sh"]', '["go"]'))
    compiler = tmp_path / "bin" / "go"
    compiler.parent.mkdir()
    monkeypatch.setenv("PATH", str(compiler.parent), prepend=os.pathsep)
    names = []
    for version in ("go1.25.0", "go1.26.0", "go1.25.0"):
        compiler.write_text(f"#!/bin/sh\necho go version {version}\n")
        compiler.chmod(0o755)
        recipe._version_of.cache_clear()
        names.append(recipe.build_directory(recipe.read_recipes(path)[0], tmp_path).name)
    recipe._version_of.cache_clear()

    assert toy.programs == ("sh",)
    assert names[0] == names[2] != names[1]
