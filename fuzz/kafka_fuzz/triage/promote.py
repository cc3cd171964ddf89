"""Turn a finding into a case of the corpus.

The finding keeps a broker's answer to a single payload.  If earlier payloads, a
transaction or the broker's clock are part of it, a broker of that release runs the
whole scenario again, and its answers are the right ones.

The right answer never comes from the accused program: for codecs it comes from the
reference, for payloads from the broker, for findings of the reference from the fault
in the input.  A person decides the rest.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

import kafka_records
from kafka_brokers.interface import NoBroker
from kafka_brokers.scenarios.recorder import ScenarioRequest
from kafka_brokers.wire.errors import error_name
from kafka_conformance.judge.observation import (
    Crashed,
    Decoded,
    Encoded,
    Exceeded,
    Garbled,
    Hung,
    Observation,
    Refused,
    Skipped,
    how_it_ended,
)
from kafka_conformance.judge.reach import replay_cases
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.run import trivial_decodes
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.connection import BadConnect, CannotRun
from kafka_conformance.testees.known import connect
from kafka_conformance.testees.protocol import Refusal
from kafka_corpus.authoring.build import signed
from kafka_corpus.case import Case, Expectation
from kafka_corpus.cases.found import FOLDER, BrokerRun, Found, stored, text_of
from kafka_corpus.evidence import clients
from kafka_corpus.scenario import AddPartitions, InitProducerId, Produce, Scenario, Step, StepAnswer
from kafka_corpus.vector_format import input_of
from kafka_corpus.vectors import load_vectors
from kafka_corpus.wire import to_wire
from kafka_fuzz.broker.confirming import CONTEXT, Context, entry_format
from kafka_fuzz.broker.lanes import LARGEST, ROOM
from kafka_fuzz.broker.payloads import is_batch
from kafka_fuzz.encode import data_of, finding_batch
from kafka_fuzz.findings import REFERENCE, finding_folder, write_atomically
from kafka_fuzz.targets.codecs import PROMISES
from kafka_fuzz.triage.deduplicate import TriagedFinding
from kafka_fuzz.triage.draft import VALID_RULE, NoCase, expectation, found_by_text, rule_of, slug
from kafka_records import Batch, Kind, LogState, RecordFormatError, TopicConfig, append
from kafka_records.layout import BATCH_V2
from kafka_records.rules import all_rules

# The testee, and the name of its recorded answers.
JAVA: Final = ("java-kafka-clients", "java")
ENDINGS: Final[dict[type, str]] = {Crashed: "crashed", Hung: "hung", Exceeded: "exceeded"}


def java_answers(ids: Sequence[str], root: Path, who: tuple[str, str] = JAVA) -> clients.Recording | None:
    """The answers of the Java client to the cases *ids* below *root*.

    None if it cannot run here, or none of them is for a codec.
    """
    cases = [case for case in load_vectors(root=root) if case.id in ids and not isinstance(case.input, Scenario)]
    if not cases:
        return None
    try:
        (new,) = recordings([cases], who)
    except (CannotRun, BadConnect):
        return None
    return new if new.answers else None


def recordings(groups: Iterable[Sequence[Case]], who: tuple[str, str] = JAVA) -> Iterator[clients.Recording]:
    """The answers of the Java client to each group of cases, as soon as they are complete.

    Raises:
        BadConnect, CannotRun: it cannot run here.
    """
    sandbox = Sandbox(connect(who[0]))
    try:
        version = sandbox.hello().version
        sandbox.calibrate(trivial_decodes())
        for cases in groups:
            replies = [reply for case in cases for reply in _replies(sandbox, case)]
            yield clients.record_replies(replies, cases, name=who[1], version=version)
    finally:
        sandbox.close()


def _replies(sandbox: Sandbox, case: Case) -> Iterator[bytes]:
    given = input_of(case)
    question = CaseRequest(to_wire(given) if isinstance(given, Batch) else given)
    for answered in sandbox.ask([question]):
        yield msgspec.json.encode({"id": case.id} | case_text(answered.observation))


def case_text(seen: Observation) -> dict[str, Any]:
    """*seen* as a line of replies has it."""
    match seen:
        case Decoded(batches, error):
            return {"batches": batches} | ({"error": _error(error)} if error else {})
        case Encoded(data):
            return {"data": data}
        case Refused(error):
            return {"error": _error(error)}
        case Skipped(reason):
            return {"skipped": reason}
        case Crashed() | Hung() | Exceeded():
            return {ENDINGS[type(seen)]: how_it_ended(seen)}
    return {"garbled": seen.why if isinstance(seen, Garbled) else f"{type(seen).__name__} is no answer to this"}


def _error(error: Refusal) -> dict[str, str]:
    return {"kind": error.kind, "message": error.message}


# Settings that make a broker store a time, and settings that compare with the time of day.
TIMED: Final = "message.timestamp."
DECIDING: Final = ".max.ms"
SOME_YEARS: Final = 10 * 365 * 86_400_000
# The name of a transactional producer in the case.
ALIAS: Final = "producer"
# The folder of recorded broker answers, so that no request is sent twice.
STATE: Final = "state/promote"


def as_produced(finding: TriagedFinding, root: Path) -> Found:
    """A produce case; *root* is the campaign with the recorded request.

    Raises:
        NoCase: the request was not kept, it cannot be repeated, or there is no broker to ask.
    """
    context = context_of(finding, root)
    run = _broker_scenario(finding, context)
    answers = _answered_again(finding, run, root) if _is_more(context) else (_answer(context),)
    is_kept = all(map(is_as_sent, _payloads(run, finding.data), answers))
    run = msgspec.structs.replace(run, answers=answers, compare="exact" if is_kept else "masked")
    did = f"refused with {error_name(code)}" if (code := answers[-1].error_code) else "stored"
    title = f"A payload of {len(finding.data)} bytes, found by fuzzing {finding.outcome.target}, is {did}"
    rule = context.rule if context.rule in {rule.id for rule in all_rules()} else "PRD-01"
    return Found(
        title=title, rules=(rule,), hex=finding.data.hex(), refused=(), batches=(), found=found_by_text(finding),
        op="append", run=run,
    )  # fmt: skip


def _broker_scenario(finding: TriagedFinding, context: Context) -> BrokerRun:
    """The scenario for a broker, without its answers."""
    return BrokerRun(
        context.release,
        {ROOM: LARGEST, **context.settings},
        Produce(api_version=context.api_version, **_of_sender(finding, context, finding.data)),
        answers=(),
        before=tuple(_before(finding, context)),
    )


def context_of(finding: TriagedFinding, root: Path) -> Context:
    """The recorded request to the broker; NoCase if it was not kept, or the broker crashed."""
    try:
        return msgspec.json.decode((finding_folder(root, finding.key) / CONTEXT).read_bytes(), type=Context)
    except (OSError, msgspec.MsgspecError):
        raise NoCase(
            f"{finding.name}: there is no {CONTEXT} with the recorded request to the broker and its answer: run the"
            " campaign again; report a broker that crashed to its maintainers (SECURITY.md)"
        ) from None


def _is_more(context: Context) -> bool:
    """Whether the scenario has more than one payload and its recorded answer."""
    is_timed = any(name.startswith(TIMED) for name in context.settings)
    return bool(context.before or context.transactional or is_timed) or context.record_errors is None


def _answer(context: Context) -> StepAnswer:
    code, base_offset, stored = context.answered
    return StepAnswer(error_code=code, base_offset=base_offset, data=stored, record_errors=context.record_errors or ())


def _before(finding: TriagedFinding, context: Context) -> Iterator[Step]:
    """The steps before the payload is produced."""
    if context.transactional:
        yield InitProducerId(ALIAS)
    if context.transactional == "open":
        yield AddPartitions(ALIAS)
    for payload, version in context.before:
        yield Produce(data=payload, api_version=version, **_of_sender(finding, context, payload))


def _of_sender(finding: TriagedFinding, context: Context, payload: bytes) -> dict[str, Any]:
    """The producer fields of the step for *payload*; NoCase if a scenario cannot express them."""
    if not context.transactional:
        return {}
    id_, epoch = context.producer
    theirs = BATCH_V2.values(payload)["producer_epoch"] if is_batch(payload) else epoch
    try:
        is_own = signed(payload, id_, theirs) == payload
    except RecordFormatError:
        is_own = False
    if not is_own:
        raise NoCase(f"{finding.name}: its batch is damaged or of another transactional producer: write a scenario")
    return {"producer": ALIAS, "epochs_back": epoch - theirs, "transactional": True}


def _answered_again(finding: TriagedFinding, run: BrokerRun, root: Path) -> tuple[StepAnswer, ...]:
    """A broker's answers to the whole scenario."""
    if _clock_decides(finding, run):
        raise NoCase(f"{finding.name}: the answer depends on the time of day: write a case with its own times")
    scenario = run.scenario(finding.data)
    request = ScenarioRequest(finding.name, sha256(repr(scenario).encode()).hexdigest(), scenario)
    try:
        line = replay_cases(run.release, [request], root / STATE)[finding.name]
    except NoBroker as error:
        raise NoCase(
            f"{finding.name}: the scenario has to run on a broker again, which cannot be started: {error}"
        ) from None
    if not line.steps:
        raise NoCase(f"{finding.name}: the scenario cannot be run on a broker again: {line.skipped}")
    return line.steps


def _clock_decides(finding: TriagedFinding, run: BrokerRun) -> bool:
    """Whether the answer to the payload depends on the time of day."""
    if not any(name.endswith(DECIDING) for name in run.settings):
        return False
    now, config = time.time_ns() // 1_000_000, TopicConfig.of(run.settings)
    codes = {
        append(
            LogState(), finding.data, config, release=run.release, api_version=run.produce.api_version, now_ms=when
        ).error_code
        for when in (now, now + SOME_YEARS)
    }
    return len(codes) > 1


def _payloads(run: BrokerRun, payload: bytes) -> list[bytes]:
    """The payload of each step; empty for a step that produces nothing."""
    return [getattr(step, "data", b"") for step in run.before] + [payload]


def is_as_sent(payload: bytes, answer: StepAnswer) -> bool:
    """Whether a broker stored *payload* without compressing it again."""
    stored = answer.data
    return not stored or stored[BATCH_V2.size :] == payload[BATCH_V2.size :] or entry_format(stored).endswith(" none")


MALFORMED: Final[Kind] = "malformed"
# Outcomes of a target, and verdicts of the reference that contradict them.
BOTH: Final = {("rejects_valid", "invalid"), ("accepts_invalid", "valid")}


def as_found(finding: TriagedFinding, root: Path | None = None) -> Found:
    """The content of the case file of *finding*; *root* is the campaign with the recorded request.

    Raises:
        NoCase: only the accused target knows the right answer.
    """
    target = finding.outcome.target
    if target.partition(":")[0] == "broker":
        return as_produced(finding, root or Path())
    if target in PROMISES:
        raise NoCase(
            f"{finding.name}: it accuses the reference's {target}, and there is no second opinion: fix the reference,"
            " with a test in tests/reference"
        )
    is_encode = finding.mode == "encode"
    fields = _written(finding) if is_encode else _read(finding)
    is_refused = bool(fields["refused"])
    if (finding.outcome.kind, "invalid" if is_refused else "valid") in BOTH:
        raise NoCase(f"{finding.name}: the reference gives the same answer as the target: decide which one to fix")
    right = "refused" if is_refused else "written" if is_encode else "read"
    rule = f", as {finding.right.partition(' ')[2]} says" if is_refused and target != REFERENCE else ""
    what = "A batch" if is_encode else f"An input of {len(finding.data)} bytes"
    title = f"{what}, found by fuzzing {target}, is {right}{rule}"
    return Found(title=title, found=found_by_text(finding), **fields)


def _read(finding: TriagedFinding) -> dict[str, Any]:
    """The fields of a decode case."""
    expect = _expected_of_fault(finding) if finding.outcome.target == REFERENCE else expectation(finding.data)
    if expect.verdict == "acceptable" or "limit" in expect.kinds[:1]:
        raise NoCase(f"{finding.name}: the right answer depends on the limits of the codec")
    batches, rule = tuple(map(to_wire, expect.batches)), _rule_of(finding, expect)
    return {"rules": (rule,), "hex": finding.data.hex(), "refused": expect.kinds, "batches": batches}


def _expected_of_fault(finding: TriagedFinding) -> Expectation:
    """The right answer to an input on which the reference is wrong: the answer that its fault requires."""
    if finding.expected is None or sha256(finding.data).hexdigest() not in finding.inputs.values():
        raise NoCase(
            f"{finding.name}: it accuses the reference, and no fault is known in these bytes: fix the reference, with a"
            " test in tests/reference"
        )
    return finding.expected


def _rule_of(finding: TriagedFinding, expect: Expectation) -> str:
    if finding.outcome.target != REFERENCE:
        return rule_of(finding.data)
    return VALID_RULE[expect.batches[0].magic] if expect.verdict == "valid" and expect.batches else "FRM-01"


def _written(finding: TriagedFinding) -> dict[str, Any]:
    """The fields of an encode case."""
    if finding.outcome.target == REFERENCE:
        raise NoCase(f"{finding.name}: it accuses the reference: fix the reference first")
    batch = finding_batch(finding.data)
    write_case, rule = b"", VALID_RULE[batch.magic]
    kinds: tuple[Kind, ...] = ()
    try:
        write_case = kafka_records.encode(batch)
    except RecordFormatError as error:
        rule, kinds = error.rule or rule, tuple(dict.fromkeys((error.kind, MALFORMED)))
    return {"op": "encode", "rules": (rule,), "hex": write_case.hex(), "refused": kinds, "batches": (to_wire(batch),)}


def cases_of(
    findings: Sequence[TriagedFinding], existing: dict[bytes, str], folder: Path = FOLDER, root: Path | None = None
) -> dict[Path, bytes]:
    """The files that make *findings* cases, by path.

    Raises:
        NoCase: a finding cannot be a case, or is one already; *existing* has the ids of cases by their input
            (`case_input`).
    """
    there = {case_input(found.draft().input): f"found.{name}" for name, found in stored(folder).items()}
    files = {}
    for finding in findings:
        found = as_found(finding, root)
        key = case_input(found.draft().input)
        if id_ := existing.get(key) or there.get(key):
            raise NoCase(f"{finding.name}: {id_} has the same input already")
        there[key] = f"found.{slug(finding)}"
        files[folder / f"{slug(finding)}.json"] = text_of(found)
    return files


@contextmanager
def write_case(files: Mapping[Path, bytes]) -> Iterator[None]:
    """Write *files*; if the block raises, the former contents are restored."""
    before = {path: path.read_bytes() if path.exists() else None for path in files}
    try:
        for path, content in files.items():
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, content)
        yield
    except BaseException:
        for path, old in before.items():
            path.unlink(missing_ok=True) if old is None else write_atomically(path, old)
        raise


def case_input(given: object) -> bytes:
    """The input of a case as a finding keeps it; a scenario as its Python text."""
    if isinstance(given, Scenario):
        return repr(given).encode()
    return data_of(given) if isinstance(given, Batch) else given if isinstance(given, bytes) else b""


def recompile() -> None:
    """`kafkaproof corpus compile found`, in a process that has not loaded the cases yet; NoCase if it fails."""
    command = [sys.executable, "-m", "kafkaproof", "corpus", "compile", "found"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCase(f"the corpus does not compile: {done.stderr.strip()[-1000:]}")
