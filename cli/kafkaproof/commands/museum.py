"""`kafkaproof museum`: historical defects, the cases that show them, and runs on real releases."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NoReturn

import click
import msgspec

from kafka_conformance import museum
from kafka_conformance.museum import Exhibit, UnknownExhibit, exhibits, find_exhibit
from kafka_conformance.museum.running import DESCRIBED, FILE, ExhibitResult, MuseumPlan, run_exhibits
from kafka_conformance.runner.keeping import reserved
from kafka_conformance.runner.run import Interrupted
from kafka_corpus.vectors import load_vectors
from kafka_records.rules import groups
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, INTERRUPTED, OK, say_json

DEFAULT_FOLDER: Final = "kafkaproof-museum"
MOST_CASES: Final = 12

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("museum")
def museum_group() -> None:
    """Historical defects of clients and brokers, and the cases of the corpus that show them."""


@museum_group.command("list")
@click.option("--product", metavar="TEXT", help="Only exhibits of this product.")
@click.option("--rule", metavar="ID", help="Only exhibits that break this rule.")
@json_option
def list_exhibits(product: str | None, rule: str | None, as_json: bool) -> NoReturn:
    """List the exhibits: product, affected releases, fix, and the defect."""
    chosen = [
        each
        for each in exhibits()
        if (product is None or each.product == product) and (rule is None or rule in each.rules)
    ]
    if product is not None and product not in (products := sorted({each.product for each in exhibits()})):
        raise click.UsageError(f"--product: there is no {product!r}; products are {', '.join(products)}")
    if rule is not None and rule not in (rules := [each.id for group in groups() for each in group.rules]):
        near = get_close_matches(rule.upper(), rules)
        hint = f"near it are {', '.join(near)}" if near else "`museum show` has those of an exhibit, as CLN-03"
        raise click.UsageError(f"--rule: there is no rule {rule!r}; {hint}")
    if as_json:
        say_json({"exhibits": [museum.exhibit_document(each) for each in chosen]})
    else:
        _show_table(chosen)
    sys.exit(OK)


def _show_table(chosen: Sequence[Exhibit]) -> None:
    width = max((len(each.id) for each in chosen), default=0)
    for each in chosen:
        fix = f"fixed in {each.fixed}" if each.fixed else each.state
        mark = "run" if each.run else "   "
        click.echo(f"{each.id:<{width}}  {mark}  {each.title}\n{'':<{width}}       {each.affected}; {fix}")
    runs = sum(each.run is not None for each in chosen)
    click.echo(f"{len(chosen)} exhibits, {runs} with a run; kafkaproof museum show ID")


@museum_group.command("show")
@click.argument("id_", metavar="ID")
@json_option
def show_exhibit(id_: str, as_json: bool) -> NoReturn:
    """Show the exhibit ID: symptom, links, releases, rules, cases, and how to run it."""
    exhibit = _found(id_)
    cases = museum.exhibit_cases(exhibit.cases, load_vectors())
    if as_json:
        say_json(museum.exhibit_document(exhibit) | {"case_ids": [case.id for case in cases]})
        sys.exit(OK)
    statements = {rule.id: rule.statement for group in groups() for rule in group.rules}
    click.echo(f"{exhibit.title}\n")
    click.echo(f"product   {exhibit.product} ({exhibit.language})")
    click.echo(f"affected  {exhibit.affected}")
    click.echo(f"fixed     {exhibit.fixed or exhibit.state}")
    click.echo(f"symptom   {' '.join(exhibit.symptom.split())}")
    for link in exhibit.links:
        click.echo(f"link      {link}")
    for rule in exhibit.rules:
        click.echo(f"rule      {rule}  {statements.get(rule, '')}")
    for case in cases[:MOST_CASES]:
        click.echo(f"case      {case.id}")
    if len(cases) > MOST_CASES:
        click.echo(f"          and {len(cases) - MOST_CASES} more")
    if run := exhibit.run:
        right = f"has {' or '.join(run.after)} in its place" if run.after else "is right"
        good = f", {run.good} {right}" if run.good else ", and no release fixes it"
        click.echo(f"run       {run.testee}: {run.bad} has {' or '.join(run.outcome)}{good}")
        click.echo(f"          kafkaproof museum run {exhibit.id}")
    sys.exit(OK)


def _found(id_: str) -> Exhibit:
    try:
        return find_exhibit(id_)
    except UnknownExhibit as error:
        raise click.UsageError(str(error)) from error


@museum_group.command("run")
@click.argument("ids", nargs=-1, metavar="[ID]…")
@click.option("--product", metavar="TEXT", help="All exhibits of this product that have a run.")
@click.option("--report", "folder", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_FOLDER,
              show_default=True, metavar="DIR", help="Where results go, one line an exhibit.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes of a testee.  [default: processors]")
@click.option("--again", is_flag=True, help="Run also exhibits that have a result.")
@json_option
def run_command(
    ids: tuple[str, ...], product: str | None, folder: Path, jobs: int | None, again: bool, as_json: bool
) -> NoReturn:
    """Run the cases of each exhibit on a release with the defect and on one without it.

    Without ID all exhibits that have a run. Each result is on disk before the next exhibit starts; the same command
    goes on where it was stopped. An exhibit whose releases cannot run here is skipped, with the reason.

    Exit codes: 0 as described, 1 an exhibit differs, 2 usage, 3 nothing could be run, 130 interrupted.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chosen, cases = _chosen(ids, product), load_vectors()
    rules = {rule.id for group in groups() for rule in group.rules}
    if problems := [problem for each in chosen for problem in museum.corpus_defects(each, cases, rules)]:
        raise click.UsageError("; ".join(problems))
    plan = MuseumPlan(exhibits=chosen, cases=cases, folder=folder, jobs=jobs or os.cpu_count() or 1, again=again)
    click.get_current_context().with_resource(reserved(folder, hint="--report DIR writes into another directory"))
    done: list[ExhibitResult] = []
    try:
        for result in run_exhibits(plan, lambda each: click.echo(f"{each.id} …", err=True)):
            done.append(result)
            if not as_json:
                _show_result(result)
    except (KeyboardInterrupt, Interrupted):
        click.echo(f"stopped; finished exhibits are in {folder / FILE}, the same command goes on after them", err=True)
        sys.exit(INTERRUPTED)
    counts = {
        name: sum(each.status == name for each in done) for name in (*DESCRIBED, "not red", "not green", "skipped")
    }
    if as_json:
        say_json({"results": [_result_document(each) for each in done], "counts": counts})
    else:
        click.echo(", ".join(f"{number} {name}" for name, number in counts.items() if number))
    sys.exit(_exit_code(done))


def _chosen(ids: Sequence[str], product: str | None) -> list[Exhibit]:
    if ids and product:
        raise click.UsageError("--product and an ID contradict each other")
    chosen = [_found(id_) for id_ in dict.fromkeys(ids)] if ids else [each for each in exhibits() if each.run]
    if product is not None:
        chosen = [each for each in chosen if each.product == product]
    if still := [each.id for each in chosen if not each.run]:
        hint = "kafkaproof certify TESTEE@VERSION --only CASE runs its cases on any release"
        raise click.UsageError(f"no run is described for {', '.join(still)}; {hint}")
    if not chosen:
        raise click.UsageError(f"no exhibit of {product} has a run")
    return chosen


def _show_result(result: ExhibitResult) -> None:
    click.echo(f"{result.status:<13}  {result.exhibit}")
    for release, colour in ((result.bad, "bad "), (result.good, "good")):
        if release is not None:
            click.echo(f"{'':<15}{colour} {result.testee} {release.release}: {release.words()}")
    if result.reason:
        click.echo(f"{'':<15}{result.reason}")


def _result_document(result: ExhibitResult) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(result)
    return document | {"described": result.is_described}


def _exit_code(done: Sequence[ExhibitResult]) -> int:
    ran = [each for each in done if each.status != "skipped"]
    if not ran:
        return CANNOT_RUN
    return OK if all(each.is_described for each in ran) else DISAGREEMENTS
