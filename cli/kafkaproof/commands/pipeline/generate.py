"""`kafkaproof pipeline generate`, `sweep`, `case`, `pack` and `doctor`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from kafka_conformance.judge.verdict import OUTCOMES, SEVERITIES
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.connection import BadConnect
from kafka_conformance.testees.known import check_connect
from kafka_fuzz.mutate import Profile
from kafka_fuzz.mutate.mutant import OLD_FIXUP
from kafka_pipeline.jobs.space import COLUMNS, MOST, MOST_SEED, Rows, Space, grid_hash, parse_shares
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, OK, say_json
from kafkaproof.commands.pipeline import exits, opener, out_option, spark_options, steps

if TYPE_CHECKING:
    from kafka_pipeline.spark.manifest import OutputManifest


@click.command("case")
@click.argument("index", type=click.IntRange(0, MOST - 1))
@click.option("--dir", "directory", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
              help="What it is a case of; instead of --seed and --mutators.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, MOST_SEED - 1), default=1, show_default=True, metavar="N")
@click.option("--mutators", default="model", show_default=True, metavar="NAME=SHARE,…")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write its bytes there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, bytes as base64.")
def case_command(index: int, directory: Path | None, seed: int, mutators: str, out: Path | None, as_json: bool) -> None:
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
        print_generated_case(made)


def space_of(directory: Path) -> Space:
    """The space whose cases *directory* holds.

    Raises:
        ValueError: it holds none, or those of another version.
    """
    try:
        plan = msgspec.json.decode((directory / "manifest.json").read_bytes())["plan"]
        if plan["grid"] != grid_hash():
            raise ValueError(f"{directory} was made by another version: its numbers mean other cases there")
        shares: dict[Profile, int] = {
            "fixup" if name == OLD_FIXUP else name: share for name, share in plan["mutators"].items()
        }
        return Space.of(plan["seed"], shares)
    except (OSError, KeyError, TypeError, msgspec.MsgspecError):
        raise ValueError(f"{directory} has no manifest of generated cases") from None


def print_generated_case(made: dict[str, Any]) -> None:
    """The case in a few lines, and its bytes in hex."""
    where = (made["fault"], made["field"], made["boundary"], made["nesting"], made["position"])
    answer = made["verdict"] + (f": {' or '.join(made['kinds'])}" if made["kinds"] else "")
    click.echo(f"case {made['index']}, by {made['mutator']}: magic {made['magic']}, codec {made['codec'] or 'unknown'}")
    click.echo("  ".join(filter(None, (*where, made["labels"]))))
    click.echo(f"{answer}  {' '.join(made['rules'])}".rstrip())
    click.echo(made["data"].hex())


@click.command("generate")
@out_option
@click.option("--cases", type=click.IntRange(1, MOST), default=1_000_000, show_default=True, metavar="N")
@click.option("--seed", type=click.IntRange(0, MOST_SEED - 1), default=1, show_default=True, metavar="N")
@click.option(
    "--mutators", default="model", show_default=True, metavar="NAME=SHARE,…",
    help="Who makes them: model, fixup, bytes, each with its share.",
)  # fmt: skip
@click.option(
    "--shard",
    "shard_rows",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    metavar="N",
    help="Cases a shard.",
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
@spark_options()
@click.pass_context
def generate(
    ctx: click.Context,
    /,
    out: Path,
    seed: int,
    mutators: str,
    checks: bool,
    as_json: bool,
    master: str,
    conf: tuple[str, ...],
    environment: Path | None,
    **options: Any,
) -> None:
    """Make cases: every cell of the format in turn, as many rounds as it takes, drawn from the seed.

    DIR gets the cases as Parquet by magic and codec, the list of those that repeat others, a table of what the
    rest covers, and a manifest.  A run that was stopped goes on; files that have gone bad are made again.
    """
    shares = shares_of(mutators, seed)
    with exits():
        open_session = opener(master, conf, environment)
        from kafka_pipeline.jobs import generate as job

        settings = job.Generate(out=out.resolve(), seed=seed, shares=shares, **options)
        do = job.check_output if checks else job.generate_cases
        with steps(settings.shard_rows, settings.cases) as show:
            made = do(open_session, settings, show)
    if isinstance(made, list):
        say_checked(made, as_json=as_json)
        ctx.exit(DISAGREEMENTS if made else OK)
    report_generated(made, out, as_json=as_json)


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


def report_generated(manifest: OutputManifest, out: Path, *, as_json: bool) -> None:
    """Print the counts of a complete output, or its counts and hash as JSON."""
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


@click.command("pack")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def pack_command(file: Path) -> None:
    """Write FILE (.tar.gz): Kafkaproof and what it needs, for `--environment`.

    Driver and executors need the same Python at the same place; Spark brings PySpark.
    """
    with exits():
        from kafka_pipeline.spark import pack as packing

        if not file.name.endswith(packing.SUFFIXES):
            raise click.UsageError(f"the name of an environment ends with {' or '.join(packing.SUFFIXES)}")
        count = packing.write_archive(file)
    click.echo(f"{count:,} files, {file.stat().st_size / 2**20:,.0f} MiB in {file}", err=True)


@click.command("doctor")
@click.option("--tasks", type=click.IntRange(min=1), default=8, show_default=True, metavar="N", help="Tasks that look.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@spark_options()
@click.pass_context
def doctor(
    ctx: click.Context, tasks: int, as_json: bool, master: str, conf: tuple[str, ...], environment: Path | None
) -> None:
    """Say what executors have: their Python, and where Kafkaproof comes from there.

    Exit codes: 0 every task found Kafkaproof and the driver's Python, 1 one did not, 3 Spark does not run.
    """
    with exits():
        open_session = opener(master, conf, environment)
        from kafka_pipeline.spark.pack import this_environment, worker_environments

        with open_session() as spark:
            found = worker_environments(spark, tasks)
    wrong = [place for place in found if place.python != this_environment().python or not all(place.packages.values())]
    if as_json:
        say_json({"places": [msgspec.to_builtins(place) for place in found]})
    else:
        for line in sorted({f"{each.host}  {each.python}  {each.packages['kafka_records']}" for each in found}):
            click.echo(line)
    if not found:
        sys.exit(CANNOT_RUN)
    ctx.exit(DISAGREEMENTS if wrong else OK)


MOST_SHOWN: Final = 20


@click.command("sweep")
@click.argument("testees", nargs=-1, required=True, metavar="TESTEE...")
@click.option("--cases", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True, metavar="DIR",
              help="An output of `pipeline generate`.")  # fmt: skip
@out_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@spark_options()
@click.pass_context
def sweep(
    ctx: click.Context,
    testees: tuple[str, ...],
    cases: Path,
    out: Path,
    as_json: bool,
    master: str,
    conf: tuple[str, ...],
    environment: Path | None,
) -> None:
    """Put generated cases to testees on the executors, and compare what they did.

    A known testee is built where it runs, if it has to be.  The output has every observation as Parquet, the
    combinations of outcomes (vectors.parquet), and disagreements that probably have one cause (clusters.parquet).

    Exit codes: 0 all agree, 1 disagreements, 2 usage, 3 could not be run, 130 interrupted.
    """
    for text in testees:
        try:
            check_connect(text)
        except BadConnect as error:
            raise click.UsageError(str(error)) from None
    with exits():
        open_session = opener(master, conf, environment)
        from kafka_pipeline.jobs import sweep as job

        settings = job.Sweep(cases=cases.resolve(), out=out.resolve(), testees=tuple(sorted(set(testees))))
        given = job.cases_in(settings.cases)
        with steps(given.plan["shard_rows"], given.plan["cases"]) as show:
            manifest = job.sweep_testees(open_session, settings, show)
        clusters = job.clusters_of(settings.out)
    if as_json:
        say_json({"out": str(out), "sha256": manifest.sha256, **manifest.counts})
    else:
        print_sweep(manifest, clusters)
    found = any(set(counts) & set(SEVERITIES) for counts in manifest.counts["outcomes"].values())
    ctx.exit(DISAGREEMENTS if found else OK)


def print_sweep(manifest: OutputManifest, clusters: list[dict[str, Any]]) -> None:
    """Outcomes and agreement as tables, then the largest clusters."""
    outcomes, agreement = manifest.counts["outcomes"], manifest.counts["agreement"]
    names = [name for name in OUTCOMES if any(name in each for each in outcomes.values())]
    width = max(map(len, outcomes))
    click.echo(" " * width + "".join(f"{name:>17}" for name in names))
    for testee, counts in outcomes.items():
        click.echo(f"{testee:{width}}" + "".join(f"{counts.get(name, 0):17,}" for name in names))
    if len(agreement) > 1:
        click.echo("\nthe same outcome, of cases that both ran")
        for testee, row in agreement.items():
            click.echo(f"{testee:{width}}" + "".join(f"{share:8.3f}" for share in row.values()))
    if clusters:
        click.echo(f"\n{len(clusters):,} clusters of disagreement, largest first")
    for row in sorted(clusters, key=lambda row: (-row["cases"], row["testee"], row["first"]))[:MOST_SHOWN]:
        place = f"{row['testee']}  {row['outcome']}  v{row['magic']} {row['codec']}  {row['fault']}"
        click.echo(printable(f"{row['cases']:9,}  {place}  {row['at']} {row['kind']}  first: case {row['first']}", 160))
