"""Run testees several times on a busy machine and compare outcomes: `python -m benchmarks.same_verdicts [TESTEE…]`.

Other processes keep all CPUs busy meanwhile.  The exit code is 1 if the outcome of a case differs between two runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from kafka_conformance.runner.requests import select
from kafka_conformance.runner.run import RunPlan, run
from kafka_conformance.testees.connection import CannotRun
from kafka_conformance.testees.known import connect, known_testees
from kafka_corpus.case import Case
from kafka_corpus.vectors import corpus_hash, load_vectors

TIMES: Final = 10
SPIN: Final = "while True: pass"

Outcomes = Mapping[str, str]
"""The outcome of each case, by its id."""


@contextmanager
def busy_machine(others: int) -> Iterator[None]:
    """Have so many *others* compete for the CPUs."""
    spinning = [subprocess.Popen([sys.executable, "-S", "-c", SPIN]) for _ in range(others)]
    try:
        yield
    finally:
        for each in spinning:
            each.kill()
            each.wait()


def run_under_load(name: str, cases: Sequence[Case], folder: Path, *, times: int, others: int) -> list[Outcomes]:
    """The outcomes of *times* runs of the testee *name*.  Raises `CannotRun`."""
    connection = connect(name)
    runs: list[Outcomes] = []
    with busy_machine(others):
        for number in range(times):
            path = folder / f"{number}.ndjson"
            jobs = os.cpu_count() or 1
            done = run(RunPlan(connection=connection, cases=cases, corpus=corpus_hash(), path=path, jobs=jobs))
            runs.append({line.case: line.outcome for line in done.lines})
    return runs


def varying_cases(runs: Sequence[Outcomes]) -> dict[str, list[str]]:
    """The cases whose outcome is not the same in all *runs*, with their outcomes."""
    ids = sorted(set().union(*runs))
    found = {id_: [outcomes.get(id_, "none") for outcomes in runs] for id_ in ids}
    return {id_: outcomes for id_, outcomes in found.items() if len(set(outcomes)) > 1}


@click.command()
@click.argument("testees", nargs=-1)
@click.option("--only", multiple=True, metavar="GLOB", help="Cases by id, area or rule.")
@click.option("--times", default=TIMES, show_default=True, help="Runs of each testee.")
@click.option("--others", default=2 * (os.cpu_count() or 1), help="Other processes that keep CPUs busy.")
def main(testees: Sequence[str], only: Sequence[str], times: int, others: int) -> None:
    """Run each testee (all known ones without a name) several times, and list outcomes that differ."""
    cases, failed = select(load_vectors(), only), False
    for name in testees or [known.name for known in known_testees()]:
        try:
            with TemporaryDirectory() as folder:
                found = varying_cases(run_under_load(name, cases, Path(folder), times=times, others=others))
        except CannotRun as error:
            click.echo(f"{name}: not run: {error}", err=True)
            continue
        failed = failed or bool(found)
        click.echo(f"{name}: {times} runs, {f'{len(found)} outcomes differ' if found else 'no outcome differs'}")
        for id_, outcomes in found.items():
            click.echo(f"  {id_}: {', '.join(outcomes)}")
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
