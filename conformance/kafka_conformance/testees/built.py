"""Build testees in other languages by their recipes, in a cache of the user.

All builds go into the cache, from a checkout as from a wheel, so source folders
stay clean.  The name of a build holds the version of the codec and a digest of
sources, commands, platform and compiler versions; a build is made once, and never
used after one of these has changed.

A build is made in its final folder, because some tools write absolute paths into
what they build.  A marker file is written last, and a folder without it is never
used.  A lock serializes builders.  The compilers inherit it, so that a compiler
which outlives a killed builder cannot write into the next builder's folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import click

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
# How the programs whose version shapes a build report it; mvn and npm only fetch and call.
_VERSION_OF: Final = {
    "go": ("go", "version"),
    "cargo": ("rustc", "--version"),
    "javac": ("javac", "-version"),
    "node": ("node", "--version"),
}
_VERSION_TIME_LIMIT: Final = 30  # seconds


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


def what_is_missing(programs: tuple[str, ...]) -> str:
    """One line that names *programs* that are not here."""
    return f"{', '.join(programs)} {'is' if len(programs) == 1 else 'are'} not installed or not on the path"


def build(recipe: Recipe, directory: Path | None = None) -> Path:
    """Build *recipe* below *directory* unless that has been done, and return the folder of the build.

    Standard error gets one line when a build starts, or waits for another process that makes the same build.

    Args:
        recipe: a testee; for a version that is not the pinned one, `recipe.at(version)`.
        directory: the cache to build in; made if missing, the user's cache if None.

    Raises:
        ToolchainMissing: programs that it takes are not here.
        BuildError: a command of the recipe failed, or the cache cannot be written.
    """
    directory = directory or default_directory()
    built = place(recipe, directory)
    if is_built(recipe, directory):
        return built
    if missing := recipe.missing():
        raise ToolchainMissing(what_is_missing(missing))
    what = f"{recipe.project} {recipe.version}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with (
            _locked(built, lambda: _report(f"waiting for another process that builds {what}")) as lock,
            tempfile.TemporaryDirectory(prefix=f"kafkaproof-{recipe.project}-") as scratch,
        ):
            if not is_built(recipe, directory):  # another process may have been faster
                _report(f"building {what} ({recipe.language}) into {built}")
                shutil.rmtree(built, ignore_errors=True)
                built.mkdir()
                _make(recipe, built, Path(scratch), lock)
                (built / _WHOLE).touch()
    except OSError as error:
        raise BuildError(f"{what} cannot be built in {directory}: {error}") from error
    return built


def _report(line: str) -> None:
    click.echo(line, err=True)


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
    """Sources, commands, platform, and versions of Python and compilers, hashed to twelve characters."""
    tools = tuple(_version_of(program) for program in recipe.programs if program in _VERSION_OF)
    facts = (recipe.build, tools, sysconfig.get_platform(), sys.implementation.cache_tag)
    digested = hashlib.sha256(repr(facts).encode())
    for name in (FILE, *recipe.sources):
        path = recipe.folder / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                place = file.name if Path(name).is_absolute() else os.path.relpath(file, recipe.folder)
                digested.update(f"{place}\0".encode() + file.read_bytes() + b"\0")
    return digested.hexdigest()[:12]


@cache
def _version_of(program: str) -> str:
    """What *program* reports as its version; empty if it cannot be run."""
    command, option = _VERSION_OF[program]
    try:
        # A go.mod or rust-toolchain.toml in the working directory would select another release.
        done = subprocess.run(
            [find_program(command) or command, option],
            cwd=tempfile.gettempdir(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_TIME_LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout or done.stderr).decode(errors="replace").strip()


@contextmanager
def _locked(built: Path, on_wait: Callable[[], None]) -> Iterator[int]:
    """Hold the lock of *built*, and give its file descriptor.

    The kernel releases the lock when this process and all processes that inherited the descriptor have ended.
    """
    with built.with_name(f".{built.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def copy_sources(recipe: Recipe, folder: Path) -> None:
    """Copy the sources of *recipe* to *folder*; those from outside of the recipe's folder lie beside the others."""
    for name in recipe.sources:
        outside = name.startswith("../") or Path(name).is_absolute()
        source, copy = recipe.folder / name, folder / (Path(name).name if outside else name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy)
        else:
            shutil.copyfile(source, copy)


def _make(recipe: Recipe, built: Path, scratch: Path, lock: int) -> None:
    copy_sources(recipe, scratch)
    for each in recipe.build:
        _run(recipe, filled(each, build=built, version=recipe.version), scratch, lock)


def _run(recipe: Recipe, argv: list[str], folder: Path, lock: int) -> None:
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
            pass_fds=(lock,),
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
