"""Run testees several times on a busy machine and compare outcomes: `python -m benchmarks.same_verdicts [TESTEE…]`.

Other processes keep all CPUs busy meanwhile.  The exit code is 1 if the outcome of a case differs between two runs.
With `--write`, outcomes that differ are recorded in `judge/varying.toml`; a later run that has one of them is `flaky`
in that case.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from kafka_conformance.judge import varying
from kafka_conformance.judge.varying import Counts, VaryingTestee, varying_testees
from kafka_conformance.judge.verdict import OUTCOMES, Outcome
from kafka_conformance.runner.requests import select
from kafka_conformance.runner.run import RunPlan, run
from kafka_conformance.testees.connection import CannotRun
from kafka_conformance.testees.known import connect, known_testees
from kafka_corpus.case import Case
from kafka_corpus.vectors import corpus_hash, load_vectors

TIMES: Final = 10
SPIN: Final = "while True: pass"
TABLE: Final = Path(varying.__file__).with_name(varying.FILE)
HEADING: Final = "# Outcomes that vary, by testee; `python -m benchmarks.same_verdicts --write` measures them.\n"

# A case that was not sent has no outcome to compare.
VARYING: Final = frozenset(OUTCOMES) - {"skipped", "not_asked"}

Outcomes = Mapping[str, Outcome]
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


@dataclass(frozen=True, slots=True)
class RunsUnderLoad:
    """The version of a testee, and the outcomes of each run."""

    version: str
    outcomes: Sequence[Outcomes]


def run_under_load(
    name: str, cases: Sequence[Case], folder: Path, *, times: int, others: int, known_variation: bool = True
) -> RunsUnderLoad:
    """The outcomes of *times* runs of the testee *name*.  Raises `CannotRun`.

    With *known_variation*, a case that is recorded to vary is `flaky`.
    """
    connection = connect(name)
    runs: list[Outcomes] = []
    version = ""
    with busy_machine(others):
        for number in range(times):
            path = folder / f"{number}.ndjson"
            jobs = os.cpu_count() or 1
            done = run(
                RunPlan(
                    connection=connection,
                    cases=cases,
                    corpus=corpus_hash(),
                    path=path,
                    jobs=jobs,
                    known_variation=known_variation,
                )
            )
            runs.append({line.case: line.outcome for line in done.lines})
            version = str(done.header.testee["version"])
    return RunsUnderLoad(version, runs)


def varying_cases(runs: Sequence[Outcomes]) -> dict[str, list[Outcome]]:
    """The cases whose outcome is not the same in all *runs*, with their outcomes."""
    ids = sorted(set().union(*runs))
    found = {id_: [outcomes.get(id_, "not_asked") for outcomes in runs] for id_ in ids}
    return {id_: outcomes for id_, outcomes in found.items() if len(set(outcomes)) > 1}


def recorded_with(testees: Iterable[VaryingTestee], name: str, runs: RunsUnderLoad, date: str) -> list[VaryingTestee]:
    """*testees* and the outcomes that vary in *runs* of the testee *name*, whose other versions are left out.

    Runs of cases that were recorded before are added to them: few runs may miss what varies.
    """
    others = [each for each in testees if each.name != name]
    same = [each for each in testees if (each.name, each.version) == (name, runs.version)]
    counted = {id_: Counter(counts) for each in same for id_, counts in each.cases.items()}
    seen = [{id_: each for id_, each in outcomes.items() if each in VARYING} for outcomes in runs.outcomes]
    for id_ in set().union(*seen):
        if id_ in counted or len({outcomes[id_] for outcomes in seen if id_ in outcomes}) > 1:
            counted.setdefault(id_, Counter()).update(outcomes[id_] for outcomes in seen if id_ in outcomes)
    cases: dict[str, Counts] = {id_: dict(sorted(counts.items())) for id_, counts in sorted(counted.items())}
    reasons = same[0].reasons if same else {}
    made = VaryingTestee(name=name, version=runs.version, date=date, cases=cases, reasons=reasons)
    return sorted([*others, *([made] if cases else ())], key=lambda each: each.name)


def table_text(testees: Sequence[VaryingTestee]) -> str:
    """The text of `varying.toml`."""
    parts = [HEADING]
    for each in testees:
        parts.append(f'\n[[testee]]\nname = "{each.name}"\nversion = "{each.version}"\ndate = "{each.date}"\n')
        parts.append("\n[testee.cases]\n")
        for id_, counts in each.cases.items():
            inner = ", ".join(f"{outcome} = {count}" for outcome, count in counts.items())
            parts.append(f"{json.dumps(id_)} = {{ {inner} }}\n")
        if each.reasons:
            parts.append("\n[testee.reasons]\n")
            parts += [f"{json.dumps(pattern)} = {json.dumps(reason)}\n" for pattern, reason in each.reasons.items()]
    return "".join(parts)


@click.command()
@click.argument("testees", nargs=-1)
@click.option("--only", multiple=True, metavar="GLOB", help="Cases by id, area or rule.")
@click.option("--times", default=TIMES, show_default=True, help="Runs of each testee.")
@click.option("--write", is_flag=True, help="Record outcomes that differ, known ones too.")
@click.option("--others", default=2 * (os.cpu_count() or 1), help="Other processes that keep CPUs busy.")
def main(testees: Sequence[str], only: Sequence[str], times: int, others: int, write: bool) -> None:
    """Run each known testee, or those named, several times, and list outcomes that differ.

    Known variation is no difference, but with --write it is measured again.
    """
    if unknown := set(testees) - {known.name for known in known_testees()}:
        raise click.UsageError(f"no known testee: {', '.join(sorted(unknown))}")
    cases, failed = select(load_vectors(), only), False
    for name in testees or [known.name for known in known_testees()]:
        try:
            with TemporaryDirectory() as folder:
                runs = run_under_load(name, cases, Path(folder), times=times, others=others, known_variation=not write)
        except CannotRun as error:
            click.echo(f"{name}: not run: {error}", err=True)
            continue
        found = varying_cases(runs.outcomes)
        failed = failed or (bool(found) and not write)
        if write:
            today = datetime.now(UTC).date().isoformat()
            recorded = table_text(recorded_with(varying_testees().values(), name, runs, today))
            TABLE.write_text(recorded, encoding="utf-8")
            varying_testees.cache_clear()
        click.echo(f"{name}: {times} runs, {f'{len(found)} outcomes differ' if found else 'no outcome differs'}")
        for id_, outcomes in found.items():
            click.echo(f"  {id_}: {', '.join(outcomes)}")
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
