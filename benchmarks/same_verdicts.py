"""Run testees several times on a busy machine and compare outcomes: `python -m benchmarks.same_verdicts [TESTEE…]`.

Other processes keep all CPUs busy meanwhile.  The exit code is 1 if the outcome of a case differs between two runs.
All testees run once before any runs again.  `--folder` keeps the result files, and a measurement that was stopped goes
on there: ten whole runs of all testees take many hours.

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
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from kafka_conformance.judge import varying
from kafka_conformance.judge.varying import Counts, VaryingTestee, variation_text, varying_testees
from kafka_conformance.judge.verdict import OUTCOMES, Outcome
from kafka_conformance.reports.collection import folder_name
from kafka_conformance.runner.requests import select, unmatched_pattern
from kafka_conformance.runner.results import Results, Unusable
from kafka_conformance.runner.run import ParallelRuns, RunPlan
from kafka_conformance.testees.connection import BadConnect, CannotRun
from kafka_conformance.testees.known import connect, find_testee, known_testees, plain_name
from kafka_corpus.case import Case
from kafka_corpus.vectors import corpus_hash, load_vectors

TIMES: Final = 10
SPIN: Final = "while True: pass"
TABLE: Final = Path(varying.__file__).with_name(varying.FILE)
HEADING: Final = """\
# Outcomes that vary, by testee; `python -m benchmarks.same_verdicts --write` measures them.
# Cases were counted in one or more series of runs, so that their sums differ.
"""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The cases, and how often and how they are run.

    Attributes:
        cases: the cases, in the order of the corpus.
        folder: where the result files are kept, one folder for each testee.
        only: the patterns that chose the cases, for the header.
        times: the number of runs of each testee.
        jobs: how many processes of testees work at once.
        others: how many other processes keep CPUs busy.
    """

    cases: Sequence[Case]
    folder: Path
    only: Sequence[str] = ()
    times: int = TIMES
    jobs: int = os.cpu_count() or 1
    others: int = 2 * (os.cpu_count() or 1)

    def result_file(self, name: str, number: int) -> Path:
        """The result file of run *number* of the testee *name*; its folder is there."""
        path = self.folder / folder_name(name) / f"{number}.ndjson"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def run_plan(self, name: str, number: int) -> RunPlan:
        """Run *number* of the testee *name*, which goes on with its file.  Raises `CannotRun`."""
        return RunPlan(
            connection=connect(name),
            cases=self.cases,
            corpus=corpus_hash(),
            path=self.result_file(name, number),
            only=self.only,
            jobs=self.jobs,
            resume=True,
            known_variation=False,
        )


def run_under_load(names: Sequence[str], plan: LoadPlan) -> dict[str, RunsUnderLoad]:
    """The outcomes of all runs of the testees *names*; a run that does not start is named on standard error.

    Raises:
        Unusable: a result file in the folder is of other cases, or of another version of a testee.
    """
    runs: dict[str, list[Results]] = {name: [] for name in names}
    with busy_machine(plan.others):
        for number in range(plan.times):
            for name, outcome in _round(list(runs), number, plan):
                if isinstance(outcome, Results):
                    runs[name].append(outcome)
                    click.echo(f"run {number + 1} of {plan.times}: {name}, {len(outcome.lines)} cases", err=True)
                elif isinstance(outcome, CannotRun):
                    click.echo(f"{name}: run {number + 1} of {plan.times}: not run: {outcome}", err=True)
                else:
                    raise outcome
    return {name: _compared(results) for name, results in runs.items() if results}


def _round(names: Sequence[str], number: int, plan: LoadPlan) -> Iterator[tuple[str, Results | Exception]]:
    """Run each of *names* once, at the same time."""
    plans: dict[str, RunPlan] = {}
    for name in names:
        try:
            plans[name] = plan.run_plan(name, number)
        except CannotRun as error:
            yield name, error
    planned, together = list(plans), ParallelRuns(list(plans.values()), plan.jobs)
    try:
        for at, outcome in together.outcomes():
            if isinstance(outcome, Unusable):
                raise Unusable(f"{plans[planned[at]].path}: {outcome}")
            yield planned[at], outcome
    except BaseException:
        together.stop()
        raise


def _compared(results: Sequence[Results]) -> RunsUnderLoad:
    version = str(results[-1].header.testee["version"])
    return RunsUnderLoad(version, [{line.case: line.outcome for line in each.lines} for each in results])


def with_known_variation(name: str, runs: RunsUnderLoad) -> RunsUnderLoad:
    """*runs* of the testee *name*, in which a case that has an outcome that is recorded to vary is `flaky`."""
    plain, version = plain_name(name), runs.version
    outcomes = [
        {id_: "flaky" if variation_text(plain, version, id_, outcome) else outcome for id_, outcome in each.items()}
        for each in runs.outcomes
    ]
    return replace(runs, outcomes=outcomes)


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
@click.option("--folder", type=click.Path(path_type=Path), help="Keep the result files, and go on with those there.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default=True, help="Processes of testees at work at once.")
@click.option(
    "--others", default=2 * (os.cpu_count() or 1), show_default=True, help="Other processes that keep CPUs busy."
)
@click.option("--write", is_flag=True, help="Record outcomes that differ, known ones too.")
def main(
    testees: Sequence[str], only: Sequence[str], times: int, folder: Path | None, jobs: int, others: int, write: bool
) -> None:
    """Run each known testee, or those named, several times, and list outcomes that differ.

    Known variation is no difference, but with --write it is measured again.

    The exit code is 1 if an outcome differs between two runs (not with --write), or if no testee ran.
    """
    names = list(dict.fromkeys(testees)) or [known.name for known in known_testees()]
    for name in names:
        _check_name(name)
    if write and (foreign := set(names) - {known.name for known in known_testees()}):
        raise click.UsageError(
            f"--write is for known testees in their own release, not for {', '.join(sorted(foreign))}"
        )
    cases = load_vectors()
    if problem := unmatched_pattern(cases, only):
        raise click.UsageError(problem)
    with TemporaryDirectory() as temporary:
        plan = LoadPlan(
            cases=select(cases, only),
            folder=folder or Path(temporary),
            only=only,
            times=times,
            jobs=jobs,
            others=others,
        )
        try:
            runs = run_under_load(names, plan)
        except Unusable as error:
            raise click.UsageError(str(error)) from error
        if write:
            record_runs(runs, plan)
    if not runs:
        raise click.ClickException("no testee ran")
    if not write:
        runs = {name: with_known_variation(name, each) for name, each in runs.items()}
    sys.exit(int(_show(runs) and not write))


def _check_name(name: str) -> None:
    try:
        find_testee(name)
    except BadConnect as error:
        raise click.UsageError(str(error)) from error


def record_runs(runs: Mapping[str, RunsUnderLoad], plan: LoadPlan) -> None:
    """Write outcomes that differ in *runs* to the table, and put their files aside: each run counts once."""
    today, testees = datetime.now(UTC).date().isoformat(), list(varying_testees().values())
    for name, each in runs.items():
        testees = recorded_with(testees, name, each, today)
    TABLE.write_text(table_text(testees), encoding="utf-8")
    varying_testees.cache_clear()
    for name in runs:
        for number in range(plan.times):
            path = plan.result_file(name, number)
            if path.exists():
                path.rename(_free(path.with_suffix(".recorded")))


def _free(path: Path) -> Path:
    """*path*, or with the first number that is not in use: what an earlier measurement recorded stays."""
    numbered = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in count(2))
    return path if not path.exists() else next(each for each in numbered if not each.exists())


def _show(runs: Mapping[str, RunsUnderLoad]) -> bool:
    """Print what differs for each testee, and say whether anything does."""
    differs = False
    for name, each in runs.items():
        found = varying_cases(each.outcomes)
        differs = differs or bool(found)
        click.echo(
            f"{name}: {len(each.outcomes)} runs, {f'{len(found)} outcomes differ' if found else 'no outcome differs'}"
        )
        for id_, outcomes in found.items():
            click.echo(f"  {id_}: {', '.join(outcomes)}")
    return differs


if __name__ == "__main__":
    main()
