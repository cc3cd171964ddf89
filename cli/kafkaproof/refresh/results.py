"""Steps on testees: run them on the cases that their kept results lack, draw the matrix, and list known findings.

Known findings are those that the corpus shows of each testee: campaigns do not report them as new.  The kept results
have the keys, case by case; the list that campaigns read is made from them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import UNSET

from kafka_brokers.progress import progress
from kafka_conformance.judge.verdict import SEVERITIES
from kafka_conformance.reports import picture
from kafka_conformance.reports.collection import collect, folder_name, remade
from kafka_conformance.reports.picture import Counts
from kafka_conformance.runner import results
from kafka_conformance.runner.kept_results import KeptResult, cases_for, kept_files, kept_of, read_kept, write_kept
from kafka_conformance.runner.results import Results, Unusable
from kafka_conformance.runner.run import RunPlan, run
from kafka_conformance.testees.connection import BadConnect, CannotRun
from kafka_conformance.testees.known import KnownTestee, connect, known_testees
from kafka_corpus.case import Case
from kafka_corpus.vector_format import content_hash, corpus_hash_of
from kafka_fuzz.campaign.known_findings import CorpusResult, read_corpus_results, write_corpus_results
from kafka_fuzz.campaign.recall import first_cases, run_cases
from kafka_fuzz.mutate.entries import DECODE, LONGEST
from kafkaproof.refresh import CannotDo, RefreshState, RefreshTask, needs

RESULTS: Final = "results"
MATRIX: Final = "matrix"
COUNTS: Final = "matrix.json"
PICTURE: Final = "matrix.svg"
# In the header of a run over the new cases only: it is not a result of the whole corpus.
ONLY: Final = ("refresh",)
# The abilities that a testee is expected to have before its first run.
UNKNOWN_TESTEE: Final = {"append": False, "consumer": False}


def result_tasks(state: RefreshState, again: Iterable[str] = ()) -> Iterator[RefreshTask]:
    """A task for each testee whose kept result lacks cases; those of *again* are run on all cases."""
    for known in known_testees():
        if not state.wants(known.name):
            continue
        release = known.version() or "none"
        kept = None if known.name in again else state.kept(known.name, release)
        todo = cases_for(state.corpus.cases, UNKNOWN_TESTEE) if kept is None else kept.missing(state.corpus)
        if todo:
            yield RefreshTask(
                RESULTS,
                f"results of {known.name} {release}",
                len(todo),
                why_not=needs(known),
                run=partial(_run_testee, state, known, release, kept, todo),
                testee=known.name,
            )


def _run_testee(
    state: RefreshState, known: KnownTestee, release: str, kept: KeptResult | None, todo: Sequence[Case]
) -> str:
    folder = state.places.scratch / RESULTS / folder_name(f"{known.name}-{release}")
    cases = todo if kept is not None else state.corpus.cases
    done = _results(known, cases, folder / results.FILE)
    merged = kept_of(done, known.name, release, state.corpus) if kept is None else kept.merged(done, state.corpus)
    write_kept(merged.dated(_today()), state.kept_path(known.name, release))
    shutil.rmtree(folder)
    findings = sum(line.outcome in SEVERITIES for line in done.lines)
    return f"{len(done.lines):,} cases run, {findings:,} findings"


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _results(known: KnownTestee, cases: Sequence[Case], path: Path) -> Results:
    """The answers to *cases*; a run that was stopped goes on, one of other cases begins again."""
    selection = corpus_hash_of((case.id, content_hash(case)) for case in cases)
    if path.exists() and not _resumable(path, selection):
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        connection = connect(known.name)
        with progress(known.name) as report:
            plan_ = RunPlan(
                connection=connection, cases=cases, corpus=selection, path=path, only=ONLY, jobs=os.cpu_count() or 1,
                resume=True, progress=report,
            )  # fmt: skip
            return _run(plan_)
    except CannotRun as error:
        raise CannotDo(str(error)) from error


def _run(plan_: RunPlan) -> Results:
    try:
        return run(plan_)
    except Unusable:
        # The testee describes itself otherwise than when the run began.
        plan_.path.unlink()
        return run(plan_)


def _resumable(path: Path, selection: str) -> bool:
    try:
        return results.read_result_header(path).corpus == selection
    except Unusable:
        return False


def cases_with_findings(state: RefreshState) -> list[str]:
    """The ids of the cases with which any testee disagrees, by the kept results."""
    found: set[str] = set()
    for file in kept_files(state.places.results):
        kept = read_kept(file)
        found.update(id_ for id_, line in kept.lines.items() if line.outcome in SEVERITIES)
    return sorted(found)


def keep_results(paths: Iterable[Path], state: RefreshState) -> Iterator[str]:
    """Keep the full results in *paths*, as `kafkaproof certify` wrote them; a line for each.

    Raises:
        Unusable: one is no result, is not complete, or not of this corpus and a known testee.
    """
    versions = {known.name: known.version() for known in known_testees()}
    for path in paths:
        done = results.read_results(path)
        name = str(done.header.testee.get("connect"))
        if not done.complete or done.header.only or done.header.corpus != state.corpus.sha256:
            raise Unusable(f"{path}: not a complete result of all cases of this corpus")
        if versions.get(name) is None:
            raise Unusable(f"{path}: {name} is no known testee")
        release = str(versions[name])
        write_kept(kept_of(done, name, release, state.corpus).dated(_today()), state.kept_path(name, release))
        yield f"results of {name} {release}: {len(done.lines):,} cases kept"


def matrix_tasks(state: RefreshState, pending: Collection[str] = ()) -> Iterator[RefreshTask]:
    """A task if the picture is there and the kept results give another one.

    The results of *pending* testees count as complete: a dry run has planned them.
    """
    path = state.places.docs / COUNTS
    if not path.exists():
        return
    old, new = picture.decoded(path.read_bytes()), matrix_counts(state)
    if new == old:
        return
    there = {column.testee for column in new.testees} | set(pending)
    gone = sorted({column.testee for column in old.testees} - there)
    why_not = f"there is no complete kept result of {', '.join(gone)}" if gone else ""
    run_ = partial(_write_matrix, state, new)
    yield RefreshTask(MATRIX, f"{COUNTS} and {PICTURE}", len(there), "testees", why_not, run_)


def matrix_counts(state: RefreshState) -> Counts:
    """The counts of all kept results that are complete."""
    cases = {case.id: case for case in state.corpus.cases}
    made = []
    for file in kept_files(state.places.results):
        done = read_kept(file).results(state.corpus)
        if done.complete:
            made.append(remade(done, cases, (), file))
    return picture.counted(collect(made)) if made else Counts(state.corpus.sha256, [])


def _write_matrix(state: RefreshState, new: Counts) -> str:
    (state.places.docs / COUNTS).write_bytes(picture.encode_counts(new))
    (state.places.docs / PICTURE).write_text(picture.matrix_svg(new), encoding="utf-8")
    return f"drawn from {len(new.testees)} results"


KNOWN_FINDINGS: Final = "known"
# Inputs between two writes: a refresh that is stopped loses the keys of no more.
AT_ONCE: Final = 500


def known_finding_tasks(state: RefreshState) -> Iterator[RefreshTask]:
    """A task for each testee that campaigns' judge has not seen on all inputs of decode cases."""
    inputs = list(filter(_is_input, state.corpus.cases))
    listed = read_corpus_results(state.places.known)
    for known in known_testees():
        # The reference is what campaigns compare with.
        if known.name == "reference" or not state.wants(known.name):
            continue
        release = known.version() or "none"
        kept = state.kept(known.name, release)
        todo = [case for case in inputs if not _has_keys(kept, case, state)]
        name, run = f"known findings of {known.name} {release}", partial(_run_inputs, state, known, release)
        if todo:
            yield RefreshTask(KNOWN_FINDINGS, name, len(todo), "inputs", needs(known), run)
        elif kept is not None and (new := _new_keys(kept, listed.get(known.name))):
            yield RefreshTask(KNOWN_FINDINGS, name, new, "keys to list", run=run)


def _is_input(case: Case) -> bool:
    return case.op in DECODE and isinstance(case.input, bytes) and 0 < len(case.input) <= LONGEST


def _has_keys(kept: KeptResult | None, case: Case, state: RefreshState) -> bool:
    return kept is not None and kept.has(case.id, state.corpus) and kept.lines[case.id].keys is not UNSET


def _run_inputs(state: RefreshState, known: KnownTestee, release: str) -> str:
    """Run some inputs after another; the keys of each part are written before the next begins."""
    kept = state.kept(known.name, release)
    if kept is None:
        raise CannotDo("it has no kept result")
    lines = [case for case in state.corpus.cases if _is_input(case) and kept.has(case.id, state.corpus)]
    todo = [case for case in lines if not _has_keys(kept, case, state)]
    for start in range(0, len(todo), AT_ONCE):
        kept = kept.with_keys(_keys(known.name, todo[start : start + AT_ONCE]))
        write_kept(kept, state.kept_path(known.name, release))
    old = read_corpus_results(state.places.known).get(known.name)
    keys = _all_keys(kept, old, state.corpus.contents)
    result = CorpusResult(_version(kept), state.corpus.sha256, keys)
    write_corpus_results(state.places.known, {known.name: result})
    return f"{len(todo):,} inputs run, {len(keys):,} keys in all"


def _version(kept: KeptResult) -> str:
    return str(kept.header.testee["version"])


def _new_keys(kept: KeptResult, old: CorpusResult | None) -> int:
    """Keys of the kept result that the list does not have for this version of the testee."""
    there = old.keys.keys() if old is not None and old.version == _version(kept) else frozenset()
    return len({key for line in kept.lines.values() if line.keys is not UNSET for key in line.keys} - there)


def _all_keys(kept: KeptResult, old: CorpusResult | None, cases: Collection[str]) -> dict[str, str]:
    """Each key with its first case; those of *old* for the same version stay while their case is one of *cases*.

    Some findings do not show every time: a testee that reads uninitialized memory, or that hangs now and then.
    """
    by_case = {id_: set(line.keys) for id_, line in kept.lines.items() if line.keys is not UNSET}
    if old is not None and old.version == _version(kept):
        for key, case in old.keys.items():
            if case in cases:
                by_case.setdefault(case, set()).add(key)
    return first_cases(by_case)


def _keys(name: str, cases: Sequence[Case]) -> Mapping[str, set[str]]:
    inputs = {case.input: case.id for case in cases if isinstance(case.input, bytes)}
    reasons: list[str] = []
    try:
        shown = run_cases([name], inputs, reasons.append)
    except (BadConnect, CannotRun) as error:
        raise CannotDo(str(error)) from error
    if name not in shown:
        raise CannotDo("; ".join(reasons))
    return {case.id: shown[name].keys.get(case.id, set()) for case in cases}
