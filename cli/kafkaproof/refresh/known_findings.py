"""The step on known findings: the findings that the corpus shows of each testee, which campaigns do not report as new.

The kept results have the keys, case by case; the list that campaigns read is made from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import UNSET

from kafka_conformance.runner.kept_results import KeptResult, write_kept
from kafka_conformance.testees.connect import BadConnect, CannotRun
from kafka_conformance.testees.known import KnownTestee, known_testees
from kafka_corpus.case import Case
from kafka_fuzz.campaign.known_findings import CorpusResult, write_corpus_results
from kafka_fuzz.campaign.recall import first_cases, run_cases
from kafka_fuzz.mutate.entries import DECODE, LONGEST
from kafkaproof.refresh.plan import CannotDo, RefreshState, RefreshTask

KNOWN_FINDINGS: Final = "known"
# Inputs between two writes: a refresh that is stopped loses the keys of no more.
AT_ONCE: Final = 500


def known_finding_tasks(state: RefreshState) -> Iterator[RefreshTask]:
    """A task for each testee that campaigns' judge has not seen on all inputs of decode cases."""
    inputs = list(filter(_is_input, state.corpus.cases))
    for known in known_testees():
        # The reference is what campaigns compare with.
        if known.name == "reference" or not state.wants(known.name):
            continue
        release = known.version() or "none"
        kept = state.kept(known.name, release)
        todo = [case for case in inputs if not _has_keys(kept, case, state)]
        if todo:
            missing = ", ".join(known.missing())
            why_not = f"needs {missing}" if missing else ""
            run = partial(_run_inputs, state, known, release)
            yield RefreshTask(
                KNOWN_FINDINGS, f"known findings of {known.name} {release}", len(todo), "inputs", why_not, run
            )


def _is_input(case: Case) -> bool:
    return case.op in DECODE and isinstance(case.input, bytes) and 0 < len(case.input) <= LONGEST


def _has_keys(kept: KeptResult | None, case: Case, state: RefreshState) -> bool:
    return kept is not None and kept.has(case.id, state.corpus) and kept.lines[case.id].keys is not UNSET


def _run_inputs(state: RefreshState, known: KnownTestee, release: str) -> str:
    """Run some inputs after another; the keys of each part are written before the next begins."""
    kept, version = state.kept(known.name, release), ""
    if kept is None:
        raise CannotDo("it has no kept result")
    lines = [case for case in state.corpus.cases if _is_input(case) and kept.has(case.id, state.corpus)]
    todo = [case for case in lines if not _has_keys(kept, case, state)]
    for start in range(0, len(todo), AT_ONCE):
        keys, version = _keys(known.name, todo[start : start + AT_ONCE])
        kept = kept.with_keys(keys)
        write_kept(kept, state.kept_path(known.name, release))
    by_case = {id_: line.keys for id_, line in kept.lines.items() if line.keys is not UNSET}
    if version:
        corpus_result = CorpusResult(version, state.corpus.sha256, first_cases(by_case))
        write_corpus_results(state.places.known, {known.name: corpus_result})
    return f"{len(todo):,} inputs run, {len(first_cases(by_case)):,} keys in all"


def _keys(name: str, cases: Sequence[Case]) -> tuple[Mapping[str, set[str]], str]:
    inputs = {case.input: case.id for case in cases if isinstance(case.input, bytes)}
    reasons: list[str] = []
    try:
        shown = run_cases([name], inputs, reasons.append)
    except (BadConnect, CannotRun) as error:
        raise CannotDo(str(error)) from error
    if name not in shown:
        raise CannotDo("; ".join(reasons))
    return {case.id: shown[name].keys.get(case.id, set()) for case in cases}, shown[name].version
