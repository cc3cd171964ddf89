"""Turn a finding into a case of the corpus.

Of a payload by itself the find keeps the answer.  Where earlier payloads, a
transaction or the broker's clock are part of it, a broker of that release is
runs all of it again, and its answers are the right ones.

What is right is never taken from the one that the find accuses: about what codecs
read and write the reference says it, about what a broker does with a payload the
broker, about how the reference reads the fault.  The rest is for people.
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
from kafka_brokers.scenarios.recorder import ScenarioRequest as BrokerQuestion
from kafka_brokers.wire.errors import error_name
from kafka_conformance.dossiers.reach import replay_cases
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
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.run import trivial_decodes
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.connection import BadConnect, CannotRun, connect
from kafka_conformance.testees.protocol import Refusal
from kafka_corpus.authoring.build import signed
from kafka_corpus.case import Case, Expectation
from kafka_corpus.cases.found import FOLDER, BrokerRun, Found, stored, text_of
from kafka_corpus.evidence import clients
from kafka_corpus.scenario import AddPartitions, InitProducerId, Produce, Scenario, Step, StepAnswer
from kafka_corpus.vectors import input_of, load_vectors
from kafka_corpus.wire import to_wire
from kafka_fuzz.broker.confirming import CONTEXT, Context, entry_format
from kafka_fuzz.broker.lanes import LARGEST
from kafka_fuzz.broker.payloads import is_batch
from kafka_fuzz.broker.settings import ROOM
from kafka_fuzz.encode.testees import data_of, finding_batch
from kafka_fuzz.findings import REFERENCE, finding_folder, write_atomically
from kafka_fuzz.targets.reference import PROMISES
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

    None where it cannot run here, or none of them is a question to a codec.
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


# Settings with which a time is stored, and those with which the time of day decides.
TIMED: Final = "message.timestamp."
DECIDING: Final = ".max.ms"
SOME_YEARS: Final = 10 * 365 * 86_400_000
# Whom a transactional producer is called in the case.
ALIAS: Final = "producer"
# The folder of recorded broker answers, so that no request is sent twice.
STATE: Final = "state/promote"


def as_produced(find: TriagedFinding, root: Path) -> Found:
    """A produce case; *root* is the campaign with the recorded request.

    Raises:
        NoCase: the request was not kept, it cannot be repeated, or there is no broker to ask.
    """
    context = context_of(find, root)
    asked = _broker_scenario(find, context)
    answers = _answered_again(find, asked, root) if _is_more(context) else (_answer(context),)
    is_kept = all(map(is_as_sent, _payloads(asked, find.data), answers))
    asked = msgspec.structs.replace(asked, answers=answers, compare="exact" if is_kept else "masked")
    did = f"refused with {error_name(code)}" if (code := answers[-1].error_code) else "stored"
    title = f"A payload of {len(find.data)} bytes, found by fuzzing {find.outcome.target}, is {did}"
    rule = context.rule if context.rule in {rule.id for rule in all_rules()} else "PRD-01"
    return Found(
        title=title, rules=(rule,), hex=find.data.hex(), refused=(), batches=(), found=found_by_text(find), op="append",
        run=asked,
    )  # fmt: skip


def _broker_scenario(find: TriagedFinding, context: Context) -> BrokerRun:
    """The scenario for a broker, without its answers."""
    return BrokerRun(
        context.release,
        {ROOM: LARGEST, **context.settings},
        Produce(api_version=context.api_version, **_of_sender(find, context, find.data)),
        answers=(),
        before=tuple(_before(find, context)),
    )


def context_of(find: TriagedFinding, root: Path) -> Context:
    """The recorded request to the broker; NoCase if it was not kept, or the broker crashed."""
    try:
        return msgspec.json.decode((finding_folder(root, find.key) / CONTEXT).read_bytes(), type=Context)
    except (OSError, msgspec.MsgspecError):
        raise NoCase(
            f"{find.name}: there is no {CONTEXT} with the recorded request to the broker and its answer: fuzz it"
            " again, or report a broker that ends to its maintainers (SECURITY.md)"
        ) from None


def _is_more(context: Context) -> bool:
    """Whether one payload and its answer, as the finding has them, are not the whole of it."""
    is_timed = any(name.startswith(TIMED) for name in context.settings)
    return bool(context.before or context.transactional or is_timed) or context.record_errors is None


def _answer(context: Context) -> StepAnswer:
    code, base_offset, stored = context.answered
    return StepAnswer(error_code=code, base_offset=base_offset, data=stored, record_errors=context.record_errors or ())


def _before(find: TriagedFinding, context: Context) -> Iterator[Step]:
    """The steps before the payload is produced."""
    if context.transactional:
        yield InitProducerId(ALIAS)
    if context.transactional == "open":
        yield AddPartitions(ALIAS)
    for payload, version in context.before:
        yield Produce(data=payload, api_version=version, **_of_sender(find, context, payload))


def _of_sender(find: TriagedFinding, context: Context, payload: bytes) -> dict[str, Any]:
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
        raise NoCase(f"{find.name}: a transactional producer sends what is not its own, or damaged: write a scenario")
    return {"producer": ALIAS, "epochs_back": epoch - theirs, "transactional": True}


def _answered_again(find: TriagedFinding, asked: BrokerRun, root: Path) -> tuple[StepAnswer, ...]:
    """A broker's answers to the whole scenario."""
    if _clock_decides(find, asked):
        raise NoCase(f"{find.name}: in some years a broker answers something else: write it with times of its own")
    scenario = asked.scenario(find.data)
    question = BrokerQuestion(find.name, sha256(repr(scenario).encode()).hexdigest(), scenario)
    try:
        line = replay_cases(asked.release, [question], root / STATE)[find.name]
    except NoBroker as error:
        raise NoCase(f"{find.name}: the scenario has to be run on a broker again, and there is none: {error}") from None
    if not line.steps:
        raise NoCase(f"{find.name}: the scenario cannot be run on a broker again: {line.skipped}")
    return line.steps


def _clock_decides(find: TriagedFinding, asked: BrokerRun) -> bool:
    """Whether the payload is answered otherwise in some years."""
    if not any(name.endswith(DECIDING) for name in asked.settings):
        return False
    now, config = time.time_ns() // 1_000_000, TopicConfig.of(asked.settings)
    codes = {
        append(
            LogState(), find.data, config, release=asked.release, api_version=asked.produce.api_version, now_ms=when
        ).error_code
        for when in (now, now + SOME_YEARS)
    }
    return len(codes) > 1


def _payloads(asked: BrokerRun, payload: bytes) -> list[bytes]:
    """The payload of each step; empty for a step that produces nothing."""
    return [getattr(step, "data", b"") for step in asked.before] + [payload]


def is_as_sent(payload: bytes, answer: StepAnswer) -> bool:
    """Whether a broker stored *payload* without compressing it again."""
    stored = answer.data
    return not stored or stored[BATCH_V2.size :] == payload[BATCH_V2.size :] or entry_format(stored).endswith(" none")


MALFORMED: Final[Kind] = "malformed"
# What a find says of its target, and what the reference then cannot say as well.
BOTH: Final = {("rejects_valid", "invalid"), ("accepts_invalid", "valid")}


def as_found(find: TriagedFinding, root: Path | None = None) -> Found:
    """The content of the case file of *find*; *root* is the campaign with the recorded request.

    Raises:
        NoCase: only the accused target knows the right answer.
    """
    target = find.outcome.target
    if target.partition(":")[0] == "broker":
        return as_produced(find, root or Path())
    if target in PROMISES:
        raise NoCase(
            f"{find.name}: it accuses the reference's own {target}, and nothing else knows what is right: fix that,"
            " with a test of its own in tests/reference"
        )
    asked = _written(find) if find.asked == "encode" else _read(find)
    if (find.outcome.kind, "invalid" if asked["refused"] else "valid") in BOTH:
        raise NoCase(f"{find.name}: the reference does the same with it; look which of the two is to be fixed")
    right = "refused" if asked["refused"] else "written" if find.asked == "encode" else "read"
    rule = f", as {find.right.partition(' ')[2]} says" if asked["refused"] and target != REFERENCE else ""
    what = "A batch" if find.asked == "encode" else f"An input of {len(find.data)} bytes"
    title = f"{what}, found by fuzzing {target}, is {right}{rule}"
    return Found(title=title, found=found_by_text(find), **asked)


def _read(find: TriagedFinding) -> dict[str, Any]:
    """The fields of a decode case."""
    expect = _expected_of_fault(find) if find.outcome.target == REFERENCE else expectation(find.data)
    if expect.verdict == "acceptable" or "limit" in expect.kinds[:1]:
        raise NoCase(f"{find.name}: what is right about it depends on the limits that one sets")
    batches, rule = tuple(map(to_wire, expect.batches)), _rule_of(find, expect)
    return {"rules": (rule,), "hex": find.data.hex(), "refused": expect.kinds, "batches": batches}


def _expected_of_fault(find: TriagedFinding) -> Expectation:
    """The right answer to an input on which the reference is wrong: the answer that its fault requires."""
    if find.expected is None or sha256(find.data).hexdigest() not in find.inputs.values():
        raise NoCase(
            f"{find.name}: it accuses the reference, which cannot say what is right, and no fault is known in these"
            " bytes: fix the reference, with a test of its own in tests/reference"
        )
    return find.expected


def _rule_of(find: TriagedFinding, expect: Expectation) -> str:
    if find.outcome.target != REFERENCE:
        return rule_of(find.data)
    return VALID_RULE[expect.batches[0].magic] if expect.verdict == "valid" and expect.batches else "FRM-01"


def _written(find: TriagedFinding) -> dict[str, Any]:
    """The fields of an encode case."""
    if find.outcome.target == REFERENCE:
        raise NoCase(f"{find.name}: it accuses the reference, which cannot say what is right: fix that first")
    batch = finding_batch(find.data)
    write_case, rule = b"", VALID_RULE[batch.magic]
    kinds: tuple[Kind, ...] = ()
    try:
        write_case = kafka_records.encode(batch)
    except RecordFormatError as error:
        rule, kinds = error.rule or rule, tuple(dict.fromkeys((error.kind, MALFORMED)))
    return {"op": "encode", "rules": (rule,), "hex": write_case.hex(), "refused": kinds, "batches": (to_wire(batch),)}


def cases_of(
    finds: Sequence[TriagedFinding], asked: dict[bytes, str], folder: Path = FOLDER, root: Path | None = None
) -> dict[Path, bytes]:
    """The files that make *finds* cases, by path.

    Raises:
        NoCase: a finding cannot be one, or is one already; *asked* has the ids of existing cases by their input
            (`case_input`).
    """
    there = {case_input(found.draft().input): f"found.{name}" for name, found in stored(folder).items()}
    files = {}
    for find in finds:
        found = as_found(find, root)
        question = case_input(found.draft().input)
        if id_ := asked.get(question) or there.get(question):
            raise NoCase(f"{find.name}: {id_} has the same input already")
        there[question] = f"found.{slug(find)}"
        files[folder / f"{slug(find)}.json"] = text_of(found)
    return files


@contextmanager
def write_case(files: Mapping[Path, bytes]) -> Iterator[None]:
    """Write *files*; where the block does not come to its end, what was there before is there again."""
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


def case_input(asked: object) -> bytes:
    """The input of a case as a finding keeps it; a scenario as its Python text."""
    if isinstance(asked, Scenario):
        return repr(asked).encode()
    return data_of(asked) if isinstance(asked, Batch) else asked if isinstance(asked, bytes) else b""


def recompile() -> None:
    """`kafkaproof corpus compile found`, in a process that has not loaded the cases yet; NoCase if it fails."""
    command = [sys.executable, "-m", "kafkaproof", "corpus", "compile", "found"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCase(f"the corpus does not compile: {done.stderr.strip()[-1000:]}")
