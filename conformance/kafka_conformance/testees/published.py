"""List the releases of a codec, through the tool that installs them and its registry.

Only releases count: what has letters in its version (a candidate, a beta) is left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from kafka_conformance.sanitize import printable
from kafka_conformance.testees.connection import CannotRun
from kafka_conformance.testees.known import JAVA, KnownTestee
from kafka_conformance.testees.recipe import Command, find_program, numbers

ASK_SECONDS: Final = 120
_RELEASE: Final = re.compile(r"v?(\d+(?:\.\d+)*)")
# `package@v{version}`, as in the commands of go and npm.
_REQUESTED: Final = re.compile(r"(.+)@v?\{version\}")


def newest(known: KnownTestee, count: int) -> list[str]:
    """The last *count* releases of *known*'s codec, oldest first.

    Raises:
        CannotRun: it has no releases, or the tool that lists them cannot be run.
    """
    return releases(known, count)[-count:]


# Cargo lists one release at a time; no codec has as many.
MOST: Final = 200


def releases(known: KnownTestee, count: int = MOST) -> list[str]:
    """The releases that *known* can ask, oldest first; where listing takes long, the last *count* of them.

    Raises:
        CannotRun: it has no releases, or the tool that lists them cannot be run.
    """
    first = numbers(known.recipe.since[0]) if known.recipe else ()
    found = sorted({version for text in _published(known, count) if (version := _plain(text))}, key=numbers)
    found = [version for version in found if numbers(version) >= first]
    if not found:
        raise CannotRun(f"{known.name}: no release of it is known here")
    return found


def _plain(text: str) -> str:
    match = _RELEASE.fullmatch(text)
    return match[1] if match else ""


def _published(known: KnownTestee, count: int) -> list[str]:
    if known.name == JAVA:
        from kafka_brokers.releases import RELEASES

        return [release.name for release in RELEASES]
    if known.module:
        return _of_pypi(known.distribution, count)
    commands = [known.recipe.versioned, *(instead for _, _, instead in known.recipe.older)] if known.recipe else []
    sources = [source for each in commands if (source := _source(each))[0] in _WAYS]
    if not sources:
        raise CannotRun(f"{known.name}: nothing says where its releases are published")
    return [version for tool, package in sources for version in _WAYS[tool](package, count)]


def _source(commands: Sequence[Command]) -> tuple[str, str]:
    """The tool that fetches another version of the codec, and what it calls the codec."""
    for tool, *words in commands:
        if tool == "cargo" and "--package" in words:
            return tool, words[words.index("--package") + 1]
        for word in words:
            if match := _REQUESTED.fullmatch(word):
                return tool, match[1]
    return "", ""


def _of_pypi(package: str, _count: int) -> list[str]:
    # uv does not list releases; it runs a pip where this interpreter has none.
    pip = (sys.executable, "-m", "pip") if find_spec("pip") else ("uv", "tool", "run", "--quiet", "pip")
    said = _ask([*pip, "--disable-pip-version-check", "index", "versions", package])
    (line,) = [line for line in said.splitlines() if line.startswith("Available versions:")] or [""]
    return line.partition(":")[2].replace(",", " ").split()


def _of_go(module: str, _count: int) -> list[str]:
    return _ask(["go", "list", "-m", "-versions", module]).split()[1:]


def _of_npm(package: str, _count: int) -> list[str]:
    found = msgspec.json.decode(_ask(["npm", "view", package, "versions", "--json"]).encode())
    return [str(version) for version in (found if isinstance(found, list) else [found])]


def _of_cargo(package: str, count: int) -> list[str]:
    return list(_walked(package, count))


# How cargo's error begins if a package has no release in a range.
_NO_VERSION: Final = "failed to select a version for the requirement"


def _walked(package: str, count: int) -> Iterator[str]:
    # Cargo has no command that lists releases, but it finds the newest below a bound.
    below = ""
    for _ in range(count):
        with tempfile.TemporaryDirectory(prefix="kafkaproof-cargo-") as folder:
            wanted = f"<{below}" if below else "*"
            Path(folder, "lib.rs").touch()
            Path(folder, "Cargo.toml").write_text(
                f'[package]\nname = "releases"\nversion = "0.0.0"\n[lib]\npath = "lib.rs"\n'
                f'[dependencies]\n{package} = "{wanted}"\n'
            )
            try:
                _ask(["cargo", "generate-lockfile", "--quiet", "--manifest-path", f"{folder}/Cargo.toml"])
            except CannotRun as error:
                if below and f"{_NO_VERSION} `{package} = " in str(error):
                    return  # there is none before the last one
                raise
            locked = msgspec.toml.decode(Path(folder, "Cargo.lock").read_bytes())
        below = next(each["version"] for each in locked["package"] if each["name"] == package)
        yield below


_WAYS: Final[Mapping[str, Callable[[str, int], list[str]]]] = {"go": _of_go, "npm": _of_npm, "cargo": _of_cargo}


def _ask(argv: list[str]) -> str:
    program = find_program(argv[0])
    if program is None:
        raise CannotRun(f"{argv[0]} is not on the path, and knows which releases there are")
    try:
        # Not in a project: what that pins or vendors is not what is published.
        with tempfile.TemporaryDirectory(prefix="kafkaproof-ask-") as folder:
            done = subprocess.run(
                [program, *argv[1:]], capture_output=True, text=True, errors="replace", timeout=ASK_SECONDS,
                cwd=folder, check=False,
            )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"{Path(program).name} does not say which releases there are: {error}") from error
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no error was named"]
        # Cargo begins with what is wrong and ends with the cause, the others only end with it.
        first = [each for each in said[:-1] if each.startswith("error: ")][:1]
        line = "; ".join(each.strip() for each in (*first, said[-1]))
        raise CannotRun(f"{Path(program).name} does not say which releases there are: {printable(line)}")
    return done.stdout
