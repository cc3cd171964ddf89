"""`kafkaproof fuzz corpus`: what cases of the corpus show of testees, so that it is no news in campaigns."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import click

from kafka_conformance.cli import CANNOT_RUN, DISAGREEMENTS, OK
from kafka_conformance.commands.saying import say_json
from kafka_conformance.connect import BadConnect, CannotRun
from kafka_conformance.hostile import printable
from kafka_fuzz.campaign.corpus_asking import ask
from kafka_fuzz.campaign.corpus_known import FILE, PACKAGED, read_shown, write_shown
from kafka_fuzz.campaign.ready import ready


@click.command("corpus")
@click.argument("testees", nargs=-1, metavar="[TESTEE]…")
@click.option("--dir", "directory", type=click.Path(path_type=Path), metavar="DIR", help="Write for one campaign.")
@click.option("--check", is_flag=True, help="Write nothing; fail if the file says something else.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def corpus(testees: tuple[str, ...], directory: Path | None, check: bool, as_json: bool) -> NoReturn:
    """Ask each TESTEE the decode cases of the corpus, and write down what they show.

    Without names, all known testees that can run here.  Writes the list that comes with the package, or with --dir
    that of a campaign, as for a codec of one's own.  What it holds is no news in a differential campaign of the same
    version.  What a testee falls over again and again is asked less often, so that a list is the same but for luck
    with the clock.

    Exit codes: 0 it is written, 1 --check: it says something else, 2 usage, 3 nobody could be asked.
    """
    path = PACKAGED if directory is None else directory / FILE
    try:
        shown = ask(testees or list(ready()), lambda line: click.echo(printable(line, 300), err=True))
    except (BadConnect, ValueError) as error:
        raise click.UsageError(str(error)) from error
    except CannotRun as error:
        click.echo(str(error), err=True)
        sys.exit(CANNOT_RUN)
    old = read_shown(path)
    changed = sorted(name for name, each in shown.items() if old.get(name) != each)
    if not check:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_shown(path, shown)
    if as_json:
        say_json(
            {"file": str(path), "changed": changed, "keys": {name: len(each.keys) for name, each in shown.items()}}
        )
    else:
        for name, each in shown.items():
            mark = "changed" if name in changed else "the same"
            click.echo(printable(f"  {name:22} {each.version:40} {len(each.keys):4} keys, {mark}", 160))
        click.echo(str(path))
    sys.exit(DISAGREEMENTS if check and changed else OK)
