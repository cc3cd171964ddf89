"""`kafkaproof fuzz export`, `engine` and `merge`: corpora for and from other engines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import msgspec

from kafka_conformance.sanitize import printable
from kafka_conformance.testees.connection import CannotRun
from kafka_fuzz.campaign.external_engines import ENGINES, run_engine
from kafka_fuzz.campaign.libfuzzer import differing_exports, write_export
from kafka_fuzz.campaign.merge import Merged, merge_recorded, recover_corpora
from kafka_fuzz.campaign.plan import KINDS, campaign_lock, target_folder
from kafka_fuzz.campaign.store import CORPUS_FOLDER, INDEX
from kafka_fuzz.targets import NAMES
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, OK, say_json
from kafkaproof.commands.fuzz.run import campaign_option


@click.command("export")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Write nothing; say which files differ.")
@click.option("--without-seeds", is_flag=True, help="Programs and build script only.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.pass_context
def export_oss_fuzz(ctx: click.Context, directory: Path, *, check: bool, without_seeds: bool, as_json: bool) -> None:
    """Write OSS-Fuzz style entry points into DIRECTORY, with seeds and dictionaries."""
    seeds = not without_seeds
    if check:
        names = differing_exports(directory, seeds=seeds)
        if as_json:
            say_json({"directory": str(directory), "differing": names})
        else:
            click.echo("\n".join(f"{name} differs" for name in names) or f"{directory} is up to date")
        ctx.exit(DISAGREEMENTS if names else 0)
    try:
        count = write_export(directory, seeds=seeds)
    except OSError as error:
        raise click.UsageError(f"{directory}: {error.strerror}") from None
    if as_json:
        say_json({"directory": str(directory), "files": count})
    else:
        click.echo(f"{count} files in {directory}")


@click.command("engine")
@click.argument("engine", type=click.Choice(sorted(ENGINES)))
@click.option("--testee", help="Of the engine's language.  [default: the first]")
@click.option("--seconds", type=click.FloatRange(min=1), default=60.0, show_default=True, help="By the clock.")
@campaign_option("Of a campaign: its corpus goes in, new inputs and findings come out.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.pass_context
def engine_command(
    ctx: click.Context, engine: str, testee: str | None, seconds: float, directory: Path, as_json: bool
) -> None:
    """Fuzz a codec with an external engine of its own language: go (go test -fuzz) or jazzer.

    Both see coverage inside the codec and know nothing of the format.  They start from the campaign's corpus, and
    inputs that they keep are added to it.
    """
    try:
        report = run_engine(engine, testee or ENGINES[engine][0], seconds, directory.resolve())
    except CannotRun as error:
        click.echo(f"{error}{f'; {error.hint}' if error.hint else ''}", err=True)
        ctx.exit(CANNOT_RUN)
    if as_json:
        say_json(msgspec.to_builtins(report))
    else:
        click.echo(
            f"{report.testee}: {report.starts} starts, {report.executions:,} executions, {report.fed:,} inputs in, "
            f"{report.kept:,} new ones out, {report.suspects} that crashed the harness; "
            f"{len(report.findings)} new findings"
        )
        for key in report.findings:
            click.echo(f"  {key}")
    if report.failure:
        click.echo(printable(report.failure, 1000), err=True)
    ctx.exit(CANNOT_RUN if report.failure else DISAGREEMENTS if report.findings else OK)


@click.command("merge")
@campaign_option("Of the campaign.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.pass_context
def merge_command(ctx: click.Context, directory: Path, *, as_json: bool) -> None:
    """Make corpora smaller, without losing a line, a cell or an outcome.

    Targets in process run their inputs again.  Inputs of testees and brokers are kept or left out by the
    recorded coverage.
    """
    try:
        with campaign_lock(directory):
            recover_corpora(directory)
            names = [name for name in NAMES if (directory / CORPUS_FOLDER / target_folder(name)).is_dir()]
            done = [merge_target(name, directory) for name in names]
            done += [merged_as_noted(name, directory) for name in recorded_corpora(directory)]
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


def recorded_corpora(directory: Path) -> list[str]:
    """The corpora of testees and brokers, by their folders, which a campaign calls the same."""
    indices = (directory / CORPUS_FOLDER).glob(f"*/{INDEX}")
    folders = sorted(path.parent.name for path in indices)
    return [name for name in folders if name[0] != "." and name.partition("+")[0] in KINDS]


def merged_as_noted(target: str, directory: Path) -> Merged:
    """Merge one corpus without running anything; a disk that does not take it is a reason to change nothing."""
    try:
        return merge_recorded(directory, target)
    except OSError as error:
        return Merged(target, 0, 0, str(error))


def merge_target(target: str, directory: Path) -> Merged:
    """Merge one corpus, in a process of its own."""
    command = [sys.executable, "-m", "kafka_fuzz.campaign.merge", target, "--dir", str(directory)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        return msgspec.json.decode(done.stdout, type=Merged)
    except msgspec.MsgspecError:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return Merged(target, 0, 0, "".join(last) or f"it ended with {done.returncode}")
