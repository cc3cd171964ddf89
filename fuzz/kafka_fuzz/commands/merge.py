"""`kafkaproof fuzz merge`: of inputs that do the same, the smallest stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import msgspec

from kafka_conformance.cli import CANNOT_RUN
from kafka_conformance.commands.saying import say_json
from kafka_conformance.hostile import printable
from kafka_fuzz.campaign.merge import Merged, merge_recorded, recover
from kafka_fuzz.campaign.plan import alone
from kafka_fuzz.campaign.rounds import KINDS, folder_name
from kafka_fuzz.campaign.store import FOLDER, INDEX
from kafka_fuzz.commands.options import campaign_option
from kafka_fuzz.targets.named import NAMES


@click.command()
@campaign_option("Of the campaign.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.pass_context
def merge(ctx: click.Context, directory: Path, *, as_json: bool) -> None:
    """Make corpora smaller, without losing a line, a cell or an outcome.

    Targets in process run their inputs again.  What testees and brokers were asked is kept or left out by what was
    noted when they answered.
    """
    try:
        with alone(directory):
            recover(directory)
            names = [name for name in NAMES if (directory / FOLDER / folder_name(name)).is_dir()]
            done = [merged(name, directory) for name in names]
            done += [merged_as_noted(name, directory) for name in recorded(directory)]
    except BlockingIOError:
        raise click.UsageError(f"a campaign runs in {directory}") from None
    if as_json:
        say_json(done)
    else:
        for each in done:
            damaged = f"; {each.damaged:,} were damaged" if each.damaged else ""
            click.echo(printable(f"{each.target}: {each.before:,} inputs, now {each.after:,}{damaged}", 300))
    for each in done:
        if each.refused:
            click.echo(printable(f"{each.target}: nothing was changed, {each.refused}", 1000), err=True)
    ctx.exit(CANNOT_RUN if any(each.refused for each in done) else 0)


def recorded(directory: Path) -> list[str]:
    """The corpora of testees and brokers, by their folders, which a campaign calls the same."""
    indices = (directory / FOLDER).glob(f"*/{INDEX}")
    folders = sorted(path.parent.name for path in indices)
    return [name for name in folders if name[0] != "." and name.partition("+")[0] in KINDS]


def merged_as_noted(target: str, directory: Path) -> Merged:
    """Merge one corpus without running anything; a disk that does not take it is a reason to change nothing."""
    try:
        return merge_recorded(directory, target)
    except OSError as error:
        return Merged(target, 0, 0, str(error))


def merged(target: str, directory: Path) -> Merged:
    """Merge one corpus, in a process of its own."""
    command = [sys.executable, "-m", "kafka_fuzz.campaign.merge", target, "--dir", str(directory)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        return msgspec.json.decode(done.stdout, type=Merged)
    except msgspec.MsgspecError:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return Merged(target, 0, 0, "".join(last) or f"it ended with {done.returncode}")
