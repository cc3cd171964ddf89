"""`kafkaproof power`: mutants of real implementations are run on the corpus, and what survives is listed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NoReturn, TypeVar

import click

from kafka_brokers.progress import progress
from kafka_conformance import power
from kafka_conformance.power import results
from kafka_conformance.power.results import MutantResult, MutantRunHeader
from kafka_conformance.runner.results import Unusable
from kafka_conformance.sanitize import printable
from kafka_corpus.vectors import corpus_hash, package_root
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, OK, CannotRunHere, need_own_sources, say_json

PAGE: Final = "docs/power.md"
KEPT: Final = "results/power"
DEFAULT_OUT: Final = "kafkaproof-power"
_Read = TypeVar("_Read")


def _target(_ctx: click.Context, _parameter: click.Parameter, name: str) -> str:
    try:
        power.known_target(name)
    except ValueError as error:
        raise click.BadParameter(printable(str(error))) from error
    return name


target_argument = click.argument("target", callback=_target, metavar="TARGET")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
keep_option = click.option(
    "--keep",
    is_flag=True,
    help=f"Store the result in {KEPT}, from which the page is written; that of another seed beside it.",
)
file_option = click.option(
    "--file", "file", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE",
    help=f"The file of a run.  [default: the result kept in {KEPT}]",
)  # fmt: skip


@click.group("power")
def power_group() -> None:
    """Mutants of real implementations: which of them the corpus sees, and why others survive."""


@power_group.command("mutants")
@target_argument
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="So many of them; a larger one resumes it.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, metavar="S", help="Of their order.")
@click.option("--only", default="", metavar="GLOB", help="The classes whose name matches, with or without package.")
@click.option(
    "--out", "path", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help=f"Results, one line a mutant; a run that was stopped resumes.  [default: {DEFAULT_OUT}/TARGET.ndjson]",
)  # fmt: skip
@click.option(
    "--again", is_flag=True, help="FILE may be of an older corpus or source: what is seen stays, others run again."
)
@keep_option
@json_option
def run_mutants(
    target: str, sample: int | None, seed: int, only: str, path: Path | None, again: bool, keep: bool, as_json: bool
) -> NoReturn:
    """Run the corpus against mutants of TARGET.

    Exit codes: 0 they were run, 2 FILE is of another run, 3 the target cannot be run here, 130 interrupted.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if keep:
        need_own_sources("power mutants --keep", "leave --keep out")
    opened = power.open_target(target)
    candidates = results.matching_classes(opened.mutants(), only)
    if not candidates:
        raise click.UsageError(f"--only: no class of {target} matches {printable(only, 80)!r}")
    chosen = results.sample_mutants(candidates, sample or 0, seed)
    header = MutantRunHeader(
        format=results.FORMAT, target=target, version=opened.version(), corpus=corpus_hash(),
        population=len(candidates), sample=len(chosen) if len(chosen) < len(candidates) else 0, seed=seed, only=only,
        sources=results.source_digests(candidates),
    )  # fmt: skip
    path = path or Path(DEFAULT_OUT) / f"{target}{results.SUFFIX}"
    found = _run(opened, path, header, chosen, again=again)
    if keep:
        results.write_kept_mutants(results.kept_mutants(header, found), _place_of(target, seed))
    _print_sum(results.kept_mutants(header, found), path, as_json)
    sys.exit(OK)


def _run(
    opened: power.MutationTarget,
    path: Path,
    header: MutantRunHeader,
    chosen: Sequence[results.CodeMutant],
    *,
    again: bool,
) -> list[MutantResult]:
    """Every result, those of an earlier run included."""
    with (
        _usage(lambda: results.MutantFile(path, header, again=again, chosen=chosen)) as file,
        progress(header.target, "not seen", "mutants") as report,
    ):
        done = {each.key for each in file.known}
        unseen = sum(each.status in results.SURVIVING for each in file.known)
        with closing(opened.run([each for each in chosen if each.key not in done])) as found:
            for result in found:
                file.append(result)
                unseen += result.status in results.SURVIVING
                report(len(file.known), len(chosen), unseen)
        return file.known


def _usage(read: Callable[[], _Read]) -> _Read:
    """The value of *read*; a file that is unusable ends the command with exit code 2."""
    try:
        return read()
    except Unusable as error:
        raise click.UsageError(printable(str(error), 600)) from error


def _print_sum(kept: results.KeptMutants, path: Path, as_json: bool) -> None:
    found = _usage(lambda: results.summarise_mutants(kept, results.load_reviews(kept.header.target)))
    total = found.total
    numbers = {name: getattr(total, name) for name in results.MutantSum.__slots__} | {"share": total.share}
    if as_json:
        say_json({"target": kept.header.target, "version": kept.header.version, "file": str(path), **numbers})
        return
    click.echo(
        f"{kept.header.target} {kept.header.version}: {_number(total.mutants, 'mutant')}, "
        f"{total.reached:,} reached, {total.seen:,} seen, {total.equivalent:,} equivalent, "
        f"{_number(total.holes, 'hole')}, {total.unreviewed:,} not reviewed"
    )
    click.echo(f"seen of those that are not equivalent: {total.share * 100:.2f} %")
    click.echo(f"results          {path}")


def _number(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


@power_group.command("survivors")
@target_argument
@file_option
@click.option("--seed", type=click.IntRange(min=0), metavar="S", help="Of the kept result, where one is kept beside.")
@json_option
def list_survivors(target: str, file: Path | None, seed: int | None, as_json: bool) -> NoReturn:
    """List the mutants of TARGET that no case sees, each with its line, its change, and the reviewed reason.

    Reasons that no survivor has come last: they are of mutants that the result does not hold, or that are seen now.

    Exit codes: 0 each has a reason, 1 one has none, 2 FILE is no result, 3 no result is kept here.
    """
    if file is None:
        kept = _usage(lambda: results.read_kept_mutants(_kept_file(target, seed)))
    else:
        given = file
        kept = results.kept_mutants(*_usage(lambda: results.read_mutant_run(given)))
    if kept.header.target != target:
        raise click.UsageError(f"{file}: is a result of {printable(kept.header.target, 60)}, not of {target}")
    found = _usage(lambda: results.summarise_mutants(kept, results.load_reviews(target)))
    if as_json:
        survivors = [results.survivor_document(*each) for each in found.survivors]
        say_json({"target": target, "survivors": survivors, "unused_reasons": found.unused})
    else:
        for result, review in found.survivors:
            reason = f"{review.kind}: {review.reason}" if review else "unreviewed"
            click.echo(printable(f"{result.class_name}.{result.method}:{result.line}", 400))
            click.echo(
                f"  {printable(result.mutator)} {result.index}: {printable(result.description, 300)}\n  {reason}"
            )
        for unused in found.unused:
            click.echo(f"no survivor here: {unused.kind}: {unused.reason}")
        total, number = found.total, len(found.survivors)
        click.echo(
            f"{_number(number, 'survivor')} of {_number(total.reached, 'reached mutant')}: "
            f"{total.equivalent:,} equivalent, {_number(total.holes, 'hole')}, {total.unreviewed:,} not reviewed; "
            f"{total.share * 100:.2f} % seen of those that are not equivalent"
        )
    sys.exit(DISAGREEMENTS if found.total.unreviewed else OK)


@power_group.command("coverage")
@target_argument
@keep_option
@json_option
def measure_coverage(target: str, keep: bool, as_json: bool) -> NoReturn:
    """Measure the branches of TARGET that the corpus takes, by method.

    Exit codes: 0 it was measured, 3 the target cannot be run here, or its coverage cannot be measured.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if keep:
        need_own_sources("power coverage --keep", "leave --keep out")
    opened = power.open_target(target)
    if not isinstance(opened, power.CoverageTarget):
        raise CannotRunHere(f"branches of {target} are not measured")
    methods = list(opened.coverage())
    if keep:
        header = results.CoverageHeader(
            format=results.COVERAGE_FORMAT, target=target, version=opened.version(), corpus=corpus_hash()
        )
        results.write_coverage(header, methods, _kept_path(target, results.COVERAGE_SUFFIX))
    branches, covered = sum(each.branches for each in methods), sum(each.covered for each in methods)
    if as_json:
        say_json({"target": target, "branches": branches, "covered": covered, "methods": methods})
    else:
        for each in methods:
            if each.missed:
                missed = ", ".join(f"{line} ({count})" for line, count in sorted(each.missed.items()))
                name = printable(f"{each.class_name}.{each.method}", 400)
                click.echo(f"{name}: {each.covered} of {each.branches}; not taken: {missed}")
        click.echo(f"{covered:,} of {branches:,} branches in methods that the corpus enters")
    sys.exit(OK)


@power_group.command("page")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; exit code 1 if the page differs.")
def write_power_page(only_check: bool) -> NoReturn:
    """Write docs/power.md from the kept results and the reviewed reasons.

    Exit codes: 0 it is up to date, 1 it differs (with --check), 2 a kept result or a reason is unusable.
    """
    need_own_sources("power page", "read docs/power.md in a checkout")
    page = _root() / PAGE
    text = _usage(lambda: results.page_of(_root() / KEPT, lambda name: power.known_target(name).about))
    if page.is_file() and page.read_text(encoding="utf-8") == text:
        sys.exit(OK)
    if only_check:
        click.echo(f"{PAGE} differs from the kept results; `kafkaproof power page` writes it")
        sys.exit(DISAGREEMENTS)
    page.write_text(text, encoding="utf-8")
    click.echo(PAGE)
    sys.exit(OK)


def _root() -> Path:
    return package_root().parents[1]


def _kept_path(target: str, suffix: str = results.SUFFIX) -> Path:
    return _root() / KEPT / f"{target}{suffix}"


def _place_of(target: str, seed: int) -> Path:
    """The file of *target*; one beside it, if that holds a result of another seed."""
    path = _kept_path(target)
    if not path.is_file() or _usage(lambda: results.read_kept_mutants(path)).header.seed == seed:
        return path
    return path.with_name(results.other_seed_name(target, seed))


def _kept_file(target: str, seed: int | None) -> Path:
    path = _kept_path(target) if seed is None else _place_of(target, seed)
    if not path.is_file():
        click.echo(f"no result of {target} is kept here; --file names one", err=True)
        sys.exit(CANNOT_RUN)
    return path
