"""Recipes of testees in other languages, read from `conformance/testees/*/testee.toml`.

A recipe names the codec and its pinned version, the sources of its adapter, the
programs that it takes, and the commands that build and run it.  The wheel holds
recipes and sources as `kafka_conformance/adapters`.  Builds are made by `built.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

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
class Recipe:
    """How one testee is built and run.  Commands may hold `{build}`, `{version}`, `{python}` and `{pip-install}`.

    Attributes:
        name: as given to `certify`.
        about: what is driven, in a few words.
        language: the codec's.
        version: the release of the codec that is pinned.
        folder: where the sources lie.
        sources: files copied before the build, relative to *folder* or absolute; those outside of *folder* are copied
            under their last name.
        programs: programs that have to be on the path; `pip` is this interpreter's pip, or uv.
        versioned: commands before those of *build*, for any other version.
        older: for versions below a bound, commands before those of *build*.
        build: commands, run in a copy of the sources; what they leave in `{build}` is kept.
        run: the command line that serves the protocol.
        environment: variables that make it this codec and not another of the same build.
        project: what the build is called; variants share the build of their project.
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
    older: tuple[tuple[str, tuple[Command, ...]], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    project: str = ""

    def at(self, version: str) -> Recipe:
        """The same with another release of the codec.  Raises `RecipeError` if that is no version."""
        if not _VERSION.fullmatch(version):
            raise RecipeError(f"{version!r} is no version")
        commands = self.versioned if version != self.version else ()
        for bound, more in self.older:
            commands += more if numbers(version) < numbers(bound) else ()
        return replace(self, version=version, build=commands + self.build, versioned=(), older=())

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


def recipes() -> tuple[Recipe, ...]:
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
def _read_all(folder: Path) -> tuple[Recipe, ...]:
    found: dict[str, Recipe] = {}
    for path in sorted(folder.glob(f"*/{FILE}")):
        for recipe in read(path):
            if recipe.name in found:
                raise RecipeError(f"{path}: there is another testee {recipe.name}")
            found[recipe.name] = recipe
    return tuple(found.values())


def read(path: Path) -> tuple[Recipe, ...]:
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


def _base(given: dict[str, Any], folder: Path) -> Recipe:
    return Recipe(
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
        older=tuple((str(each["than"]), _commands(each["commands"])) for each in given.get("older", ())),
        environment=_environment(given),
    )


def _variant(base: Recipe, given: dict[str, Any]) -> Recipe:
    return replace(
        base,
        name=str(given["name"]),
        about=str(given.get("about", base.about)),
        run=_words(given.get("run", base.run)),
        environment=tuple((dict(base.environment) | dict(_environment(given))).items()),
    )


def _words(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(word, str) for word in given):
        raise TypeError(f"{given!r} is no list of strings")
    return tuple(given)


def _commands(given: Any) -> tuple[Command, ...]:
    return tuple(map(_words, given))


def _environment(given: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), str(value)) for name, value in given.get("environment", {}).items())


def filled(command: Command, *, build: Path, version: str) -> list[str]:
    """*command* with its places filled in; other braces stay as they are."""
    places = {"{build}": str(build), "{version}": version, "{python}": sys.executable}
    words = [each for word in command for each in (pip_install() if word == "{pip-install}" else (word,))]
    return [re.sub(r"\{(?:build|version|python)\}", lambda found: places[found[0]], word) for word in words]
