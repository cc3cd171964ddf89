"""`kafkaproof pipeline case`: one generated case again, from its number; needs no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from kafka_conformance.commands.saying import say_json
from kafka_fuzz.pipeline.rows import COLUMNS, Rows
from kafka_fuzz.pipeline.space import MOST, MOST_SEED, Space, grid_hash, parse_shares


@click.command()
@click.argument("index", type=click.IntRange(0, MOST - 1))
@click.option("--dir", "directory", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
              help="What it is a case of; instead of --seed and --mutators.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, MOST_SEED - 1), default=1, show_default=True, metavar="N")
@click.option("--mutators", default="model", show_default=True, metavar="NAME=SHARE,…")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write its bytes there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, bytes as base64.")
def case(index: int, directory: Path | None, seed: int, mutators: str, out: Path | None, as_json: bool) -> None:
    """Make case INDEX again: the same bytes and the same right answer as in the output of `pipeline generate`."""
    try:
        space = Space.of(seed, parse_shares(mutators)) if directory is None else space_of(directory)
        made = dict(zip(COLUMNS, Rows(space, verify=1).row(index), strict=True))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if out is not None:
        out.write_bytes(made["data"])
    if as_json:
        say_json(made | {"batches": msgspec.Raw(made["batches"])})
    else:
        say(made)


def space_of(directory: Path) -> Space:
    """The space whose cases *directory* holds.

    Raises:
        ValueError: it holds none, or those of another version.
    """
    try:
        plan = msgspec.json.decode((directory / "manifest.json").read_bytes())["plan"]
        if plan["grid"] != grid_hash():
            raise ValueError(f"{directory} was made by another version: its numbers mean other cases there")
        return Space.of(plan["seed"], plan["mutators"])
    except (OSError, KeyError, TypeError, msgspec.MsgspecError):
        raise ValueError(f"{directory} has no manifest of generated cases") from None


def say(made: dict[str, Any]) -> None:
    """The case in a few lines, and its bytes in hex."""
    where = (made["lie"], made["field"], made["boundary"], made["nesting"], made["position"])
    answer = made["verdict"] + (f": {' or '.join(made['kinds'])}" if made["kinds"] else "")
    click.echo(f"case {made['index']}, by {made['mutator']}: magic {made['magic']}, codec {made['codec'] or 'unknown'}")
    click.echo("  ".join(filter(None, (*where, made["labels"]))))
    click.echo(f"{answer}  {' '.join(made['rules'])}".rstrip())
    click.echo(made["data"].hex())
