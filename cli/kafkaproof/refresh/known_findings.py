"""The step on known findings: the findings that the corpus shows of each testee, which campaigns do not report as new.

The kept results have the keys, case by case; the list that campaigns read is made from them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import UNSET

from kafka_conformance.runner.kept_results import KeptResult, write_kept
from kafka_conformance.testees.connection import BadConnect, CannotRun
from kafka_conformance.testees.known import KnownTestee, known_testees
from kafka_corpus.case import Case
from kafka_fuzz.campaign.known_findings import CorpusResult, read_corpus_results, write_corpus_results
from kafka_fuzz.campaign.recall import first_cases, run_cases
from kafka_fuzz.mutate.entries import DECODE, LONGEST
from kafkaproof.refresh.plan import CannotDo, RefreshState, RefreshTask, needs

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
