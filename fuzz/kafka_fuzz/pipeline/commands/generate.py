"""`kafkaproof pipeline generate`: cases by the million, each with its right answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka_conformance.cli import DISAGREEMENTS, OK
from kafka_conformance.commands.saying import say_json
from kafka_conformance.pipeline.options import exits, opener, spark_options, steps
from kafka_fuzz.mutate import Profile
from kafka_fuzz.pipeline.space import MOST, MOST_SEED, Space, parse_shares

if TYPE_CHECKING:
    from kafka_corpus.pipeline.manifest import Manifest


@click.command()
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR", help="The output."
)
@click.option("--cases", type=click.IntRange(1, MOST), default=1_000_000, show_default=True, metavar="N")
@click.option("--seed", type=click.IntRange(0, MOST_SEED - 1), default=1, show_default=True, metavar="N")
@click.option(
    "--mutators", default="model", show_default=True, metavar="NAME=SHARE,…",
    help="Who makes them: model, repair, bytes, each with its share.",
)  # fmt: skip
@click.option(
    "--shard", type=click.IntRange(min=1), default=100_000, show_default=True, metavar="N", help="Cases a shard."
)
@click.option(
    "--per-shape", type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
    help="Keep so many cases that differ in nothing but values; 0 keeps all.",
)  # fmt: skip
@click.option(
    "--verify", type=click.IntRange(min=0), default=64, show_default=True, metavar="N",
    help="Decode one of N with the reference as well; 0 for none.",
)  # fmt: skip
@click.option("--check", "checks", is_flag=True, help="Write nothing: fail if what is there is not what is made now.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@spark_options
@click.pass_context
def generate(
    ctx: click.Context,
    out: Path,
    cases: int,
    seed: int,
    mutators: str,
    shard: int,
    per_shape: int,
    verify: int,
    checks: bool,
    as_json: bool,
    master: str,
    conf: tuple[str, ...],
    environment: Path | None,
) -> None:
    """Make cases: every cell of the format in turn, as many rounds as it takes, drawn from the seed.

    DIR gets the cases as Parquet by magic and codec, the list of those that repeat others, a table of what the
    rest covers, and a manifest.  A run that was stopped goes on; files that have gone bad are made again.
    """
    shares = shares_of(mutators, seed)
    with exits():
        open_session = opener(master, conf, environment)
        from kafka_fuzz.pipeline import generate as job

        asked = job.Generate(
            out=out.resolve(),
            cases=cases,
            seed=seed,
            shares=shares,
            shard_rows=shard,
            per_shape=per_shape,
            verify=verify,
        )
        with steps(shard, cases) as show:
            made = job.check(open_session, asked, show) if checks else job.generate(open_session, asked, show)
    if isinstance(made, list):
        say_checked(made, as_json=as_json)
        ctx.exit(DISAGREEMENTS if made else OK)
    say(made, out, as_json=as_json)


def shares_of(text: str, seed: int) -> dict[Profile, int]:
    """The shares in *text*; a usage error where they are none."""
    try:
        shares = parse_shares(text)
        Space.of(seed, shares)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return shares


def say_checked(bad: list[str], *, as_json: bool) -> None:
    """The files that are wrong, or that none is."""
    if as_json:
        say_json({"wrong": bad})
    else:
        click.echo("\n".join(f"wrong: {path}" for path in bad) or "every file is what is made now")


def say(manifest: Manifest, out: Path, *, as_json: bool) -> None:
    """What there is now."""
    if as_json:
        say_json({"out": str(out), "counts": manifest.counts, "files": len(manifest.files), "sha256": manifest.sha256})
        return
    counts = manifest.counts
    dropped = counts["dropped"]
    click.echo(
        f"{counts['cases']:,} cases in {out}: {counts['valid']:,} valid, {counts['invalid']:,} invalid, "
        f"{counts['acceptable']:,} acceptable; {counts['shapes']:,} shapes"
    )
    click.echo(f"left out: {dropped['content']:,} that repeat others, {dropped['shape']:,} of a shape that has enough")
    click.echo(f"cells: {counts['cells_reached']:,} of {counts['cells']:,}  ·  sha256 {manifest.sha256}")
