"""`kafkaproof testees`, `testee` and `smoke`: list, build, serve and check testees."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final, NoReturn

import click
import msgspec
from rich.text import Text

from kafka_conformance.reports import terminal
from kafka_conformance.runner.smoke import SmokeCheck, passed
from kafka_conformance.runner.smoke import smoke as run_checks
from kafka_conformance.testees import recipe
from kafka_conformance.testees.connection import ENGINE, BadConnect, CannotRun
from kafka_conformance.testees.known import KNOWN, KnownTestee, connect, find_testee, known_testees
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, OK, say_json


@click.command("smoke")
@click.argument("testee")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
def smoke_command(testee: str, as_json: bool) -> NoReturn:
    """Ask whether the adapter of TESTEE is sound, before its codec is judged."""
    checks: list[SmokeCheck] = []
    on = terminal.console()
    try:
        connection = connect(testee)
        if not as_json:
            on.print(Text(testee, style="bold"))
        for check in run_checks(connection):
            checks.append(check)
            if not as_json:
                on.print(line(check))
    except BadConnect as error:
        raise click.UsageError(str(error)) from error
    except (CannotRun, OSError) as error:
        click.echo(f"{error}\n  hint: {getattr(error, 'hint', '') or 'is it built?'}", err=True)
        sys.exit(CANNOT_RUN)
    if as_json:
        document = {"testee": testee, "sound": passed(checks), "checks": [msgspec.to_builtins(each) for each in checks]}
        say_json(document)
    sys.exit(OK if passed(checks) else DISAGREEMENTS)


def line(check: SmokeCheck) -> Text:
    """A check as one line."""
    mark = Text("ok    ", style="green") if check.passed else Text("FAIL  ", style="bold red")
    about = f": {check.problem}" if check.problem else f"  ({check.note})" if check.note else ""
    return mark.append(check.name, style="default not bold").append(about, style="dim not bold" if check.passed else "")


# States of a build in JSON, and as text.
STATES: Final = {"built": "built", "ready": "already built", "skipped": "left out", "failed": "failed"}
NOT_BUILT: Final = "to build"


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
@click.pass_context
def testees(ctx: click.Context, as_json: bool) -> None:
    """List known testees, their versions and languages, and whether they can run here."""
    if ctx.invoked_subcommand:
        return
    listed = [_described(known) for known in known_testees()]
    if as_json:
        say_json({"testees": listed, "planted_bugs": _planted_bugs()})
    else:
        _show(listed)


def _described(known: KnownTestee) -> dict[str, Any]:
    missing = known.missing()
    return {
        "name": known.name,
        "version": known.version(),
        "language": known.language,
        "runs_here": not missing,
        "missing": list(missing),
        "about": known.about,
    }


def _planted_bugs() -> list[dict[str, Any]]:
    from kafka_fuzz.planted_bugs import PLANTED_BUGS

    return [
        {"name": f"planted:{name}", "wrong": bug.wrong, "caught_as": bug.caught_as}
        for name, bug in PLANTED_BUGS.items()
    ]


def _show(listed: list[dict[str, Any]]) -> None:
    from rich.table import Table

    on = terminal.console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("name", "version", "language", "runs here", "about"):
        table.add_column(heading, no_wrap=heading != "about")
    for each in listed:
        missing = ", ".join(each["missing"])
        runs = Text("yes", style="green") if each["runs_here"] else Text(f"no: needs {missing}", style="yellow")
        table.add_row(each["name"], each["version"] or "-", each["language"], runs, each["about"])
    on.print(table)
    engine = "an engine client is here" if shutil.which(ENGINE) else f"needs {ENGINE}, which is not here"
    on.print()
    others = "direct:MODULE, process:COMMAND LINE, fetch:COMMAND LINE, container:IMAGE"
    on.print(Text(f"any other: {others} ({engine})", style="dim"))
    on.print(Text("wrong on purpose: planted:NAME (kafkaproof testees --json lists them)", style="dim"))


# For each language, the command that builds the template, and the testee that it makes.
TEMPLATES: Final = {
    "python": ("", "python testee.py"),
    "go": ("go build -o testee .", "./testee"),
    "rust": ("cargo build --release", "target/release/testee"),
    "java": ("javac -d build Testee.java", "java -cp build Testee"),
    "node": ("", "node testee.js"),
}


@testees.command("new")
@click.argument("language", type=click.Choice(list(TEMPLATES)))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def new_testee(language: str, folder: Path) -> None:
    """Write a testee in LANGUAGE to start from into FOLDER, which must be empty or new.

    It has fewer than 80 lines and works as it is; one place in it says where your codec goes. The next commands are
    printed.
    """
    if folder.exists() and any(folder.iterdir()):
        raise click.UsageError(f"{folder} is not empty")
    source = recipe.shipped("kafka_conformance", installed="templates", checkout="../templates") / language
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.iterdir()):
        if file.is_file():
            shutil.copyfile(file, folder / file.name)
            click.echo(folder / file.name)
    build, run = TEMPLATES[language]
    click.echo(f"next, in {folder}:")
    for line_ in filter(None, (build, f'kafkaproof certify "process:{run}"')):
        click.echo(f"  {line_}")


@testees.command("build")
@click.argument("names", metavar="NAME[@VERSION]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Build all that have something to build.")
@click.option("--dry-run", is_flag=True, help="Build nothing; print the state and the folder of each build.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
def build_testees_command(names: tuple[str, ...], everything: bool, dry_run: bool, as_json: bool) -> None:
    """Build testees in other languages, with pinned versions, unless that has been done.

    Builds go into the user's cache. One line for each testee says whether it was built, was built before, or is left
    out because its toolchain is missing. A folder's name has a digest of sources, commands, platform and compilers: a
    cache of CI can be kept under this name. Exit code 3 if a build failed, if none of the testees can be built, or if a
    testee that was named is left out.
    """
    if everything == bool(names):
        raise click.UsageError("say which testees to build, or --all")
    done = []
    for known in _to_build(names):
        done.append(_planned(known) if dry_run else _build(known))
        if not as_json:
            click.echo(_line(known, done[-1]))
    if as_json:
        say_json({"testees": done})
    elif everything and not dry_run:
        click.echo(_summary(done))
    sys.exit(_exit_code(done, lenient=everything))


def _exit_code(done: list[dict[str, Any]], *, lenient: bool) -> int:
    """`CANNOT_RUN` if a build failed or is missing; if *lenient*, missing toolchains count only if all are missing."""
    states = [each["state"] for each in done]
    missing = all(state == "skipped" for state in states) if lenient else "skipped" in states
    return CANNOT_RUN if missing or "failed" in states else 0


def _summary(done: list[dict[str, Any]]) -> str:
    """How many testees are in each state, on one line."""
    counts = Counter(each["state"] for each in done)
    return f"{len(done)} testees: " + ", ".join(f"{counts[state]} {text}" for state, text in STATES.items())


def _to_build(names: tuple[str, ...]) -> list[KnownTestee]:
    """The named testees, or all that have a recipe."""
    try:
        found = [find_testee(name) for name in names] if names else [known for known in known_testees() if known.recipe]
    except BadConnect as error:
        raise click.UsageError(str(error)) from error
    return [known for known in found if known]


def _build(known: KnownTestee) -> dict[str, Any]:
    before = time.monotonic()
    state, why = "ready", ""
    try:
        if known.recipe is None and (missing := known.missing()):
            state, why = "skipped", f"{known.reason(missing)} ({known.installation()})"
        elif known.recipe and not recipe.is_built(known.recipe):
            recipe.build_testee(known.recipe)
            state = "built"
    except recipe.ToolchainMissing as error:
        state, why = "skipped", str(error)
    except recipe.BuildError as error:
        state, why = "failed", str(error)
    seconds = round(time.monotonic() - before, 1)
    return _state(known, state, why) | {"seconds": seconds}


def _planned(known: KnownTestee) -> dict[str, Any]:
    """The same without a build."""
    missing = known.missing()
    if missing and not (known.recipe and recipe.is_built(known.recipe)):
        return _state(known, "skipped", known.reason(missing))
    return _state(known, "ready" if known.recipe is None or recipe.is_built(known.recipe) else NOT_BUILT, "")


def _state(known: KnownTestee, state: str, why: str) -> dict[str, Any]:
    folder = recipe.build_directory(known.recipe, recipe.default_directory()) if known.recipe else ""
    return {"name": known.name, "version": known.version(), "state": state, "why": why, "folder": str(folder)}


def _line(known: KnownTestee, done: dict[str, Any]) -> str:
    took = f" in {done['seconds']} s" if done["state"] == "built" else ""
    why = f": {done['why']}" if done["why"] else ""
    name = done["name"] if "@" in done["name"] else f"{done['name']} {done['version']}"
    nothing = known.recipe is None and done["state"] == "ready"
    state = "nothing to build" if nothing else STATES.get(done["state"], NOT_BUILT)
    if done["folder"] and "seconds" not in done and not why:
        return f"{name}: {state}, {done['folder']}"
    return f"{name}: {state}{took}{why}"


@click.command("testee")
@click.argument("name", type=click.Choice([known.name for known in KNOWN]))
def testee(name: str) -> None:
    """Serve the testee NAME over standard input and output, with the testee protocol."""
    from kafka_conformance.testees import serve
    from kafka_conformance.testees.interface import load_testee

    known = next(known for known in KNOWN if known.name == name)
    if known.environment:
        raise click.UsageError(f"{name} needs an environment of its own: kafkaproof certify {name} makes it")
    try:
        found = load_testee(known.module)
    except ImportError as error:
        click.echo(f"{name} cannot run: {error}", err=True)
        sys.exit(3)
    serve.serve(found, sys.stdin.buffer, sys.stdout.buffer)
