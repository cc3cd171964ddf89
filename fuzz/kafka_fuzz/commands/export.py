"""`kafkaproof fuzz export`: what an upstream project needs to fuzz its codec with our mutators."""

from __future__ import annotations

from pathlib import Path

import click

from kafka_conformance.cli import DISAGREEMENTS
from kafka_conformance.commands.saying import say_json
from kafka_fuzz.campaign.export import differing, write


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Write nothing; say which files differ.")
@click.option("--without-seeds", is_flag=True, help="Programs and build script only.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.pass_context
def export(ctx: click.Context, directory: Path, *, check: bool, without_seeds: bool, as_json: bool) -> None:
    """Write OSS-Fuzz style entry points into DIRECTORY, with seeds and dictionaries."""
    seeds = not without_seeds
    if check:
        names = differing(directory, seeds=seeds)
        if as_json:
            say_json({"directory": str(directory), "differing": names})
        else:
            click.echo("\n".join(f"{name} differs" for name in names) or f"{directory} is up to date")
        ctx.exit(DISAGREEMENTS if names else 0)
    try:
        count = write(directory, seeds=seeds)
    except OSError as error:
        raise click.UsageError(f"{directory}: {error.strerror}") from None
    if as_json:
        say_json({"directory": str(directory), "files": count})
    else:
        click.echo(f"{count} files in {directory}")
