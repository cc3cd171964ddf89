"""Steps on the corpus: compile vectors, record answers of the Java client and of brokers.

Inputs that are too large for a vector are made when they are sent.  Where one of them shows a finding, the step
`measurements` records what brokers do with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from kafka_brokers import jvm
from kafka_brokers.interface import NoBroker
from kafka_brokers.progress import progress
from kafka_brokers.releases import RELEASES, Release
from kafka_brokers.scenarios import recorder
from kafka_conformance.judge import reach
from kafka_conformance.testees.connection import BadConnect, CannotRun
from kafka_conformance.testees.known import find_testee
from kafka_corpus import compiler, evidence, line_files, vectors
from kafka_corpus.case import Case
from kafka_corpus.cases import all_cases
from kafka_corpus.compiler import Compiled
from kafka_corpus.evidence import clients
from kafka_corpus.vectors import package_root
from kafka_fuzz.triage.promote import JAVA, recordings
from kafkaproof.refresh import CannotDo, RefreshState, RefreshTask, needs

VECTORS: Final = "vectors"
CLIENTS: Final = "clients"
BROKERS: Final = "brokers"
MEASUREMENTS: Final = "measurements"
LONGEST_REASON: Final = 200


def compile_in_memory(root: Path) -> Compiled:
    """All cases, compiled.

    Raises:
        ValueError: a case cannot be compiled, or breaks a promise about ids.
    """
    made = compiler.compile_corpus(all_cases(), root)
    if made.breaches:
        raise ValueError("\n".join(f"{id_} {why}" for id_, why in made.breaches))
    return made


def vector_tasks(made: Compiled, root: Path) -> Iterator[RefreshTask]:
    """A task if any file is not as compiled."""
    files = line_files.changed_files(made.files, root)
    if files:
        old = {line.id: line.sha256 for line in vectors.VECTORS.read(root)}
        new = sum(old.get(id_) != content for id_, content in made.contents.items())
        name = f"vectors ({', '.join(sorted(files))})"
        yield RefreshTask(VECTORS, name, new, "new or changed cases", run=partial(_write_vectors, made, root))


def _write_vectors(made: Compiled, root: Path) -> str:
    return f"wrote {', '.join(compiler.write_compiled(made, root))}"


def client_tasks(state: RefreshState) -> Iterator[RefreshTask]:
    """A task if the Java client lacks answers."""
    testee, name = JAVA
    known = find_testee(testee)
    if known is None or not state.wants(testee):
        return
    version = known.version() or ""
    cases = [case for case in state.corpus.cases if clients.is_request(case)]
    todo = [case for case in cases if not _has_answer(state, case, (name, version))]
    if todo:
        run = partial(_record_client, state, todo)
        yield RefreshTask(CLIENTS, f"answers of {name} {version}", len(todo), why_not=needs(known), run=run)


def _has_answer(state: RefreshState, case: Case, key: tuple[str, str]) -> bool:
    line = state.evidence.get(case.id)
    return line is not None and key in line.by_client()


def _record_client(state: RefreshState, todo: Sequence[Case]) -> str:
    """Record area by area: the answers to each are written before the next begins."""
    root, done = state.places.package, 0
    areas = [list(group) for _, group in groupby(sorted(todo, key=lambda case: case.id), key=lambda case: case.area)]
    try:
        with progress(JAVA[1]) as report:
            for recording in recordings(areas, JAVA):
                evidence.write_evidence(clients.with_recording(evidence.load_evidence(root), recording), root)
                done += len(recording.answers)
                report(done, len(todo), 0)
    except (BadConnect, CannotRun) as error:
        raise CannotDo(str(error)) from error
    return f"{done:,} answers recorded"


def broker_tasks(state: RefreshState) -> Iterator[RefreshTask]:
    """A task for each release that lacks answers."""
    for release in RELEASES:
        concerned = recorder.scenario_requests(state.corpus.cases, release.name)
        todo = recorder.unanswered(concerned, state.evidence, release.name)
        if todo:
            run = partial(_record_broker, state, release.name, todo)
            name = f"answers of broker {release.name}"
            yield RefreshTask(BROKERS, name, len(todo), why_not=_why_not(release), run=run)


def _why_not(release: Release) -> str:
    try:
        jvm.find_java(release)
    except NoBroker as error:
        return str(error)
    return ""


def _record_broker(state: RefreshState, release: str, todo: Sequence[recorder.ScenarioRequest]) -> str:
    """Record one release: each answer is on the disk before the next scenario begins."""
    root, folder = state.places.package, state.places.scratch / BROKERS
    try:
        lines = reach.replay_cases(release, todo, folder)
    except NoBroker as error:
        raise CannotDo(str(error)) from error
    evidence.write_evidence(recorder.merged(evidence.load_evidence(root), release, todo, lines), root)
    recorder.answer_file_of(folder, release).path.unlink(missing_ok=True)
    skipped = [line for line in lines.values() if line.skipped]
    reasons = "; ".join(sorted({_short(line.skipped) for line in skipped})[:3])
    impossible = f", {len(skipped):,} impossible ({reasons})" if skipped else ""
    return f"{sum(bool(line.steps) for line in lines.values()):,} answers recorded{impossible}"


def _short(reason: str) -> str:
    return recorder.unknown_setting(reason) or reason.partition("\n")[0][:LONGEST_REASON]


def measurement_tasks(state: RefreshState, found: Sequence[str]) -> Iterator[RefreshTask]:
    """A task for each release that lacks measurements; *found* has the ids of the cases with findings.

    Measurements are part of the package, so there are none for another checkout.
    """
    if state.places.package != package_root():
        return
    wanted = {*found, *reach.load_reach()}
    cases = [case for case in state.corpus.cases if case.id in wanted]
    for release in RELEASES:
        todo = list(reach.unmeasured(cases, release.name))
        if todo:
            run = partial(_measure, state.places.scratch / MEASUREMENTS, release.name, todo)
            name = f"measurements of broker {release.name}"
            yield RefreshTask(MEASUREMENTS, name, len(todo), "inputs", _why_not(release), run)


def _measure(folder: Path, release: str, todo: Sequence[Case]) -> str:
    try:
        answers = reach.measure(release, todo, folder)
    except NoBroker as error:
        raise CannotDo(str(error)) from error
    reach.write_reach(reach.merge_reach(release, answers))
    recorder.answer_file_of(folder, release).path.unlink(missing_ok=True)
    return f"{len(answers):,} measured"
