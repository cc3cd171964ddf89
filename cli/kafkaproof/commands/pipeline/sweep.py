"""`kafkaproof pipeline sweep`: generated cases through testees, wherever Spark runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafka_conformance.judge.verdict import OUTCOMES, SEVERITIES
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.connection import BadConnect
from kafka_conformance.testees.known import check_connect
from kafkaproof.cli import DISAGREEMENTS, OK, say_json
from kafkaproof.commands.pipeline.options import exits, opener, out_option, spark_options, steps

if TYPE_CHECKING:
    from kafka_pipeline.spark.manifest import OutputManifest

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
