"""Build testees in other languages by their recipes, once for each version and text of the sources.

A build lies in a cache under a name that holds the version and a digest of the
sources, so that it is made once and never used after they have changed.  It is
made where it stays, because some tools write their place into what they build;
a file says that it is whole, and a lock keeps two processes from making one
build at the same time.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafka_conformance.hostile import printable
from kafka_conformance.testees.recipe import FILE, Recipe, filled, find_program

# Seconds.  A first build in Rust fetches and compiles a hundred crates.
BUILD_TIME_LIMIT: Final = 1200
_LONGEST_ERROR: Final = 300  # characters; a resolution error names every repository asked
_WHOLE: Final = ".whole"
# What compilers and package tools put before the line that matters.
_ERROR_LINE: Final = re.compile(
    r"\[ERROR\] +\S|error(\[\w+\])?:|^npm ERR!|: (undefined|cannot|unknown|no )", re.IGNORECASE
)
_TITLE: Final = re.compile(r"COMPILATION ERROR|^npm ERR! code")
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


class BuildError(RuntimeError):
    """A testee cannot be built or started here; the text is one line that says why."""


class ToolchainMissing(BuildError):
    """It takes programs that are not on this machine: to be skipped, not a failure."""


def default_directory() -> Path:
    """Where builds are kept when the caller does not say: the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "kafkaproof" / "testees"


def place(recipe: Recipe, directory: Path) -> Path:
    """The folder of the build below *directory*, made or not."""
    return directory / f"{recipe.project}-{recipe.version}-{digest(recipe)}"


def is_built(recipe: Recipe, directory: Path | None = None) -> bool:
    """Whether the build is there, and whole."""
    return (place(recipe, directory or default_directory()) / _WHOLE).is_file()


def build(recipe: Recipe, directory: Path | None = None) -> Path:
    """Build *recipe* below *directory*, unless that has been done, and give its folder.

    Args:
        recipe: a testee; for a version that is not the pinned one, `recipe.at(version)`.
        directory: the cache to build in; made if missing, the user's cache if None.

    Raises:
        ToolchainMissing: programs that it takes are not here.
        BuildError: a command of the recipe failed.
    """
    directory = directory or default_directory()
    built = place(recipe, directory)
    if is_built(recipe, directory):
        return built
    if missing := recipe.missing():
        raise ToolchainMissing(f"{', '.join(missing)} is not on the path")
    directory.mkdir(parents=True, exist_ok=True)
    with _alone(built), tempfile.TemporaryDirectory(prefix=f"kafkaproof-{recipe.project}-") as scratch:
        if not is_built(recipe, directory):  # another process may have been faster
            shutil.rmtree(built, ignore_errors=True)
            built.mkdir()
            _make(recipe, built, Path(scratch))
            (built / _WHOLE).touch()
    return built


def command(recipe: Recipe, built: Path) -> list[str]:
    """The command line that serves the protocol from the folder that `build` gave.

    Raises:
        BuildError: there is no such program to run.
    """
    program, *rest = filled(recipe.run, build=built, version=recipe.version)
    found = find_program(program)
    if found is None:
        raise BuildError(f"{program} is not on the path")
    return [found, *rest]


def digest(recipe: Recipe) -> str:
    """The sources and the commands in twelve characters; Python's version too, which builds of Python depend on."""
    digested = hashlib.sha256(repr((recipe.build, sys.version_info[:2])).encode())
    for name in (FILE, *recipe.sources):
        path = recipe.folder / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digested.update(f"{os.path.relpath(file, recipe.folder)}\0".encode() + file.read_bytes() + b"\0")
    return digested.hexdigest()[:12]


@contextmanager
def _alone(built: Path) -> Iterator[None]:
    """One process at a time; the lock ends with the process, however that ends."""
    with built.with_name(f".{built.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def copy_sources(recipe: Recipe, folder: Path) -> None:
    """Copy what *recipe* is built from to *folder*; what several testees share lies there with the rest."""
    for name in recipe.sources:
        source, copy = recipe.folder / name, folder / (Path(name).name if name.startswith("../") else name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy)
        else:
            shutil.copyfile(source, copy)


def _make(recipe: Recipe, built: Path, scratch: Path) -> None:
    copy_sources(recipe, scratch)
    for each in recipe.build:
        _run(recipe, filled(each, build=built, version=recipe.version), scratch)


def _run(recipe: Recipe, argv: list[str], folder: Path) -> None:
    what = f"{Path(argv[0]).name} did not build {recipe.project} {recipe.version}"
    try:
        done = subprocess.run(
            [find_program(argv[0]) or argv[0], *argv[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BUILD_TIME_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"{what} within {BUILD_TIME_LIMIT} s") from None
    except OSError as error:
        raise BuildError(f"{what}: {error}") from error
    if done.returncode:
        said = (done.stdout + done.stderr).replace(f"{folder}{os.sep}", "")
        raise BuildError(f"{what}: {first_error(said)}")


def first_error(output: str) -> str:
    """The first line of a tool's *output* that says more than that there was an error, else the last line."""
    lines = [line.strip() for line in _COLOUR.sub("", output).splitlines() if line.strip()]
    telling = [line for line in lines if _ERROR_LINE.search(line) and not _TITLE.search(line.replace("[ERROR] ", ""))]
    chosen = (telling or lines[-1:] or ["no error was named"])[0]
    return printable(chosen.removeprefix("[ERROR] ").encode(), _LONGEST_ERROR)
