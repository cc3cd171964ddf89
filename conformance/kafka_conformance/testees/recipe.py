"""Recipes of testees in other languages (`testee.toml`), and how they are built.

A recipe names the codec and its pinned version, the sources of its adapter, the
programs that it takes, and the commands that build and run it.  The wheel holds
recipes and sources as `kafka_conformance/adapters`.  Builds are made by `built.py`.

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
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from kafka_conformance.sanitize import printable
from kafka_conformance.testees.fetched_sums import (
    KEPT,
    OtherSum,
    check_sums,
    fetched_sums,
    lock_file_sums,
    locked_jars,
)

# Names a folder of recipes that is used in place of the project's own.
SOURCES_VARIABLE: Final = "KAFKAPROOF_TESTEES"
FILE: Final = "testee.toml"
# A version goes into command lines, so it must look like one and never like an option.
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]*")
_JAVA_TOOLS: Final = frozenset({"java", "javac"})
# As a program of a recipe: pip, or uv in a virtual environment without pip.
PIP: Final = "pip"

Command = tuple[str, ...]


class RecipeError(ValueError):
    """A `testee.toml` that cannot be used; the text names the file and what is wrong in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRecipe:
    """How one testee is built and run.  Commands may hold `{build}`, `{version}`, `{python}` and `{pip-install}`.

    Attributes:
        name: as given to `certify`.
        about: what is driven, in a few words.
        language: the codec's.
        version: the release of the codec that is pinned.
        folder: the folder of the sources.
        sources: files copied before the build, relative to *folder* or absolute; those outside of *folder* are copied
            under their last name.
        programs: programs that have to be on the path; `pip` is this interpreter's pip, or uv.
        versioned: commands before those of *build*, for any other version.
        older: for versions below a bound, commands before those of *build*, and commands in place of *versioned*.
        since: the first release that *run* can drive, and the testee that drives older ones; empty for all.
        build: commands, run in a copy of the sources; what they leave in `{build}` is kept.
        run: the command line that serves the protocol.
        environment: variables that make it this codec and not another of the same build.
        project: what the build is called; variants share the build of their project.
        pinned: whether it is the release that the project pins, whose sums are committed.
        client: whether *run* is a client of the fake broker (`process/client_testee.py`), which does not speak the
            testee protocol itself.
    """

    name: str
    about: str
    language: str
    version: str
    folder: Path
    sources: tuple[str, ...]
    programs: tuple[str, ...]
    build: tuple[Command, ...]
    run: Command
    versioned: tuple[Command, ...] = ()
    older: tuple[tuple[str, tuple[Command, ...], tuple[Command, ...]], ...] = ()
    since: tuple[str, str] = ("", "")
    environment: tuple[tuple[str, str], ...] = ()
    project: str = ""
    client: bool = False
    pinned: bool = True

    def at(self, version: str) -> BuildRecipe:
        """The same with another release of the codec.  Raises `RecipeError` if that is no version, or below *since*."""
        if not _VERSION.fullmatch(version):
            raise RecipeError(f"{version!r} is no version")
        first, instead_of_it = self.since
        if first and numbers(version) < numbers(first):
            raise RecipeError(f"{first} is the first release that it can drive; certify {instead_of_it}@{version}")
        chosen, commands = self.versioned if version != self.version else (), tuple[Command, ...]()
        for bound, more, instead in self.older:
            if numbers(version) < numbers(bound):
                chosen, commands = instead or chosen, commands + more
        commands = chosen + commands
        pinned = self.pinned and version == self.version
        return replace(self, version=version, build=commands + self.build, versioned=(), older=(), pinned=pinned)

    def missing(self) -> tuple[str, ...]:
        """The programs that are not here."""
        return tuple(program for program in self.programs if not _is_here(program))


def numbers(version: str) -> tuple[int, ...]:
    """The numbers in a version, to compare releases by."""
    return tuple(map(int, re.findall(r"\d+", version)))


def find_program(program: str) -> str | None:
    """The path of a program; Java's from `JAVA_HOME` first, as Maven does."""
    home = os.environ.get("JAVA_HOME") if program in _JAVA_TOOLS else None
    return (shutil.which(program, path=str(Path(home) / "bin")) if home else None) or shutil.which(program)


def _is_here(program: str) -> bool:
    return find_program(program) is not None if program != PIP else bool(find_spec("pip") or shutil.which("uv"))


def pip_install() -> Command:
    """The command line that installs packages for this interpreter, up to where the packages are named."""
    if find_spec("pip"):
        return (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    return ("uv", "pip", "install", "--quiet", "--python", sys.executable)


def shipped(package: str, *, installed: str, checkout: str) -> Path:
    """The folder of sources in other languages that belong to *package*.

    A wheel holds it as *installed* inside of the package; a checkout holds it as *checkout* beside the package.
    """
    home = Path(str(files(package)))
    inside = home / installed
    return inside if inside.is_dir() else home.parent / checkout


def folder_of_sources() -> Path:
    """The folder of recipes: the one that `KAFKAPROOF_TESTEES` names, else the project's own."""
    named = os.environ.get(SOURCES_VARIABLE)
    return Path(named) if named else shipped("kafka_conformance", installed="adapters", checkout="testees")


def recipes() -> tuple[BuildRecipe, ...]:
    """All testees that have a recipe, sorted by folder.

    Raises:
        RecipeError: there is no recipe, one of the files cannot be used, or two testees have one name.
    """
    folder = folder_of_sources()
    found = _read_all(folder)
    if not found:
        origin = (
            f"{SOURCES_VARIABLE}={folder}" if os.environ.get(SOURCES_VARIABLE) else f"the installed folder {folder}"
        )
        raise RecipeError(f"{origin} holds no */{FILE}")
    return found


@cache
def _read_all(folder: Path) -> tuple[BuildRecipe, ...]:
    found: dict[str, BuildRecipe] = {}
    for path in sorted(folder.glob(f"*/{FILE}")):
        for recipe in read_recipes(path):
            if recipe.name in found:
                raise RecipeError(f"{path}: there is another testee {recipe.name}")
            found[recipe.name] = recipe
    return tuple(found.values())


def read_recipes(path: Path) -> tuple[BuildRecipe, ...]:
    """The testee that the file *path* describes, and its variants.

    Raises:
        RecipeError: it is no TOML, or a field is missing or not of its type.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        base = _base(given, path.parent)
        variants = tuple(_variant(base, each) for each in given.get("variants", ()))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise RecipeError(f"{path}: {what}") from error
    # A project without a command line of its own is its variants only.
    plain = (base,) if base.run and base.name not in {each.name for each in variants} else ()
    if not plain + variants or not all(each.run for each in variants):
        raise RecipeError(f"{path}: 'run' is missing")
    return plain + variants


def _base(given: dict[str, Any], folder: Path) -> BuildRecipe:
    return BuildRecipe(
        name=str(given["name"]),
        project=str(given["name"]),
        about=str(given["about"]),
        language=str(given["language"]),
        version=str(given["version"]),
        folder=folder,
        sources=_words(given["sources"]),
        programs=_words(given["programs"]),
        build=_commands(given["build"]),
        run=_words(given.get("run", ())),
        versioned=_commands(given.get("versioned", ())),
        older=tuple(map(_older, given.get("older", ()))),
        since=_since(given),
        environment=_environment(given),
        client=_flag(given, "client"),
    )


def _older(given: dict[str, Any]) -> tuple[str, tuple[Command, ...], tuple[Command, ...]]:
    return str(given["than"]), _commands(given.get("commands", ())), _commands(given.get("versioned", ()))


def _since(given: dict[str, Any]) -> tuple[str, str]:
    return (str(given["since"]["release"]), str(given["since"]["before"])) if "since" in given else ("", "")


def _variant(base: BuildRecipe, given: dict[str, Any]) -> BuildRecipe:
    return replace(
        base,
        name=str(given["name"]),
        about=str(given.get("about", base.about)),
        run=_words(given.get("run", base.run)),
        since=_since(given),
        environment=tuple((dict(base.environment) | dict(_environment(given))).items()),
        client=_flag(given, "client"),
    )


def _flag(given: dict[str, Any], name: str) -> bool:
    if not isinstance(flag := given.get(name, False), bool):
        raise TypeError(f"{name} = {flag!r} is neither true nor false")
    return flag


def _words(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(word, str) for word in given):
        raise TypeError(f"{given!r} is no list of strings")
    return tuple(given)


def _commands(given: Any) -> tuple[Command, ...]:
    return tuple(map(_words, given))


def _environment(given: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), str(value)) for name, value in given.get("environment", {}).items())


def fill_recipe_command(command: Command, *, build: Path, version: str) -> list[str]:
    """*command* with its places filled in; other braces stay as they are."""
    places = {"{build}": str(build), "{version}": version, "{python}": sys.executable}
    words = [each for word in command for each in (pip_install() if word == "{pip-install}" else (word,))]
    return [re.sub(r"\{(?:build|version|python)\}", lambda found: places[found[0]], word) for word in words]


# Seconds that a command may take.  A first build in Rust fetches and compiles a hundred crates.
BUILD_TIME_LIMIT: Final = 1200
# Seconds after which a command that still runs is reported, and again after as many more.
PROGRESS_SECONDS: Final = 15
_LONGEST_ERROR: Final = 300  # characters; a resolution error names every repository
_LONGEST_PROGRESS: Final = 80
_WHOLE: Final = ".whole"
# What compilers and package tools put before the line that matters.
_ERROR_LINE: Final = re.compile(
    r"\[ERROR\] +\S|error(\[\w+\])?:|^npm ERR!|^cause: |: (undefined|cannot|unknown|no )", re.IGNORECASE
)
_TITLE: Final = re.compile(r"COMPILATION ERROR|^npm ERR! code|No solution found|Ignored the following yanked")
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


def build_directory(recipe: BuildRecipe, directory: Path) -> Path:
    """The folder of the build below *directory*, made or not."""
    return directory / f"{recipe.project}-{recipe.version}-{digest(recipe)}"


def is_built(recipe: BuildRecipe, directory: Path | None = None) -> bool:
    """Whether the build is there, and whole."""
    return (build_directory(recipe, directory or default_directory()) / _WHOLE).is_file()


def not_installed(names: tuple[str, ...]) -> str:
    """One line that names packages or programs that are not here."""
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not installed"


def what_is_missing(programs: tuple[str, ...]) -> str:
    """One line that names *programs* that are not here."""
    return f"{not_installed(programs)} or not on the path"


def build_testee(recipe: BuildRecipe, directory: Path | None = None) -> Path:
    """Build *recipe* below *directory* unless that has been done, and return the folder of the build.

    Standard error gets one line when a build starts, or waits for another process that makes the same build, and one
    every `PROGRESS_SECONDS`.  What the commands print goes to a file below `logs`; an error ends with its path.

    Args:
        recipe: a testee; for a version that is not the pinned one, `recipe.at(version)`.
        directory: the cache to build in; made if missing, the user's cache if None.

    Raises:
        ToolchainMissing: programs that it takes are not here.
        BuildError: a command of the recipe failed, or the cache cannot be written.
    """
    directory = directory or default_directory()
    built = build_directory(recipe, directory)
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
                _make(recipe, built, Path(scratch), lock, directory / KEPT)
                (built / _WHOLE).touch()
    except OSError as error:
        raise BuildError(f"{what} cannot be built in {directory}: {error}") from error
    return built


def _report(line: str) -> None:
    click.echo(line, err=True)


def built_command(recipe: BuildRecipe, built: Path) -> list[str]:
    """The command line that serves the protocol from the folder that `build` gave.

    Raises:
        BuildError: there is no such program to run.
    """
    program, *rest = fill_recipe_command(recipe.run, build=built, version=recipe.version)
    found = find_program(program)
    if found is None:
        raise BuildError(f"{program} is not on the path")
    return [found, *rest]


def digest(recipe: BuildRecipe) -> str:
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
    """The version that *program* reports; empty if it cannot be run."""
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


def copy_sources(recipe: BuildRecipe, folder: Path) -> None:
    """Copy the sources of *recipe* to *folder*; those from outside of the recipe's folder are next to the others.

    Raises:
        BuildError: the recipe names a source that is not there.
    """
    for name in recipe.sources:
        if not (recipe.folder / name).exists():
            raise BuildError(f"{recipe.folder / FILE}: 'sources' names {name}, which is not there")
        outside = name.startswith("../") or Path(name).is_absolute()
        source, copy = recipe.folder / name, folder / (Path(name).name if outside else name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy)
        else:
            shutil.copyfile(source, copy)


def build_log(built: Path) -> Path:
    """The file with what the commands of the build in the folder *built* printed."""
    return built.parent / "logs" / f"{built.name}.log"


def _make(recipe: BuildRecipe, built: Path, scratch: Path, lock: int, kept: Path) -> None:
    copy_sources(recipe, scratch)
    log = build_log(built)
    log.parent.mkdir(exist_ok=True)
    log.write_bytes(b"")
    for each in recipe.build:
        argv = fill_recipe_command(each, build=built, version=recipe.version)
        try:
            _run(recipe, argv, scratch, lock, log)
        except BuildError as error:
            raise BuildError(f"{error} (log: {log})") from None
        # After each command: what a changed lock file names is refused before it is compiled or run.
        _check_fetched(recipe, built, scratch, kept)


def _check_fetched(recipe: BuildRecipe, built: Path, scratch: Path, kept: Path) -> None:
    poms = [recipe.folder / name for name in recipe.sources if Path(name).name == "pom.xml"]
    committed = {**lock_file_sums(recipe.folder), **locked_jars(poms)}
    try:
        check_sums(fetched_sums(scratch, built), committed, kept, complete=recipe.pinned)
    except OtherSum as error:
        raise BuildError(f"{recipe.project} {recipe.version} is refused: {error}") from None


def _run(recipe: BuildRecipe, argv: list[str], folder: Path, lock: int, log: Path) -> None:
    what = f"{Path(argv[0]).name} did not build {recipe.project} {recipe.version}"
    start = log.stat().st_size
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(
                [find_program(argv[0]) or argv[0], *argv[1:]],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(lock,),
                # So that what it starts can be ended with it.
                start_new_session=True,
            )
        code = _wait(process, f"{recipe.project} {recipe.version}", log)
    except subprocess.TimeoutExpired:
        raise BuildError(f"{what} within {BUILD_TIME_LIMIT} s") from None
    except OSError as error:
        raise BuildError(f"{what}: {error}") from error
    if code:
        said = log.read_bytes()[start:].decode(errors="replace").replace(f"{folder}{os.sep}", "")
        raise BuildError(f"{what}: {first_error(said)}")


def _wait(process: subprocess.Popen[bytes], what: str, log: Path) -> int:
    """The exit code of *process*, which is ended with all that it started after `BUILD_TIME_LIMIT`."""
    started = time.monotonic()
    try:
        while (left := BUILD_TIME_LIMIT - (time.monotonic() - started)) > 0:
            try:
                return process.wait(min(PROGRESS_SECONDS, left))
            except subprocess.TimeoutExpired:
                _report(f"still building {what}: {time.monotonic() - started:.0f} s, {_last_line(log)}")
        raise subprocess.TimeoutExpired(what, BUILD_TIME_LIMIT)
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _last_line(log: Path) -> str:
    lines = _COLOUR.sub("", log.read_bytes()[-_LONGEST_ERROR * 8 :].decode(errors="replace")).split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "nothing printed yet")
    return printable(last.encode(), _LONGEST_PROGRESS)


def first_error(output: str) -> str:
    """The first line of a tool's *output* that says more than that there was an error, else the last line."""
    lines = [line.strip() for line in _COLOUR.sub("", output).splitlines() if line.strip()]
    reasons = [line for line in lines if _ERROR_LINE.search(line) and not _TITLE.search(line.replace("[ERROR] ", ""))]
    chosen = (reasons or lines[-1:] or ["no error was named"])[0]
    return printable(chosen.removeprefix("[ERROR] ").removeprefix("cause: ").encode(), _LONGEST_ERROR)
