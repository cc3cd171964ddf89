"""`kafkaproof smoke`: is an adapter sound?"""

from __future__ import annotations

import sys
from typing import NoReturn

import click
import msgspec
from rich.text import Text

from kafka_conformance.cli import CANNOT_RUN, DISAGREEMENTS, OK
from kafka_conformance.commands.saying import say_json
from kafka_conformance.connect import BadConnect, CannotRun, connect
from kafka_conformance.reporting import terminal
from kafka_conformance.smoke import Check, passed
from kafka_conformance.smoke import smoke as run_checks


@click.command()
@click.argument("testee")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
def smoke(testee: str, as_json: bool) -> NoReturn:
    """Ask whether the adapter of TESTEE is sound, before its codec is judged."""
    checks: list[Check] = []
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


def line(check: Check) -> Text:
    """A check as one line."""
    mark = Text("ok    ", style="green") if check.passed else Text("FAIL  ", style="bold red")
    about = f": {check.problem}" if check.problem else f"  ({check.note})" if check.note else ""
    return mark.append(check.name, style="default not bold").append(about, style="dim not bold" if check.passed else "")
