"""Promoting: a find becomes a case only with an answer that does not come from the one that it accuses."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import kafkaproof.commands.fuzz.promote as command
from kafka_corpus import compiler
from kafka_corpus.answer_diff import difference
from kafka_corpus.authoring.build import raw_batch, raw_record, signed
from kafka_corpus.case import Case, Expectation, Op, Question
from kafka_corpus.cases import found as found_cases
from kafka_corpus.prediction import predict
from kafka_corpus.scenario import NOW, Produce, Scenario, StepAnswer
from kafka_fuzz.broker.confirming import CONTEXT, Context
from kafka_fuzz.findings import FindingStore, finding_folder, finding_name, read_findings
from kafka_fuzz.mutate import Mutant, mutate, own_seeds
from kafka_fuzz.shrink.search import as_mutant
from kafka_fuzz.targets.outcome import Outcome
from kafka_fuzz.triage.deduplicate import TriagedFinding, read_triage, write_triage
from kafka_fuzz.triage.draft import NoCase
from kafka_fuzz.triage.promote import cases_of, java_answers, write_case
from kafka_records import Batch, Record, encode
from kafkaproof.commands.fuzz import fuzz

BATCH = Batch(magic=2, base_offset=0, last_offset=0, records=(Record(0, 1, b"key", b"value"),), max_timestamp=1)
DATA = encode(BATCH)
TODAY = time.time_ns() // 1_000_000
RECENT = encode(replace(BATCH, max_timestamp=TODAY, records=(Record(0, TODAY, b"key", b"value"),)))
BROKER = Outcome("broker:4.4.0", "difference", "base_offset by PRD-01, v2 none")
CONTEXT_OF = Context("4.4.0", {"cleanup.policy": "compact"}, 9, (), (0, 7, DATA), (0, 0, DATA), "PRD-01", "", ())


def find_of(root: Path, outcome: Outcome, mutant: Mutant, mode: Any = "") -> TriagedFinding:
    """The finding with that outcome, as triage leaves it."""
    FindingStore(root, mode=mode).add(outcome, mutant, version="1")
    (find,) = read_findings(root)
    made = TriagedFinding(
        finding_name(find.key), find.key, {find.key: find.sha256}, "new", outcome, mutant.data, find.size, "ok", 1,
        mode=find.mode, expected=find.expected,
    )  # fmt: skip
    write_triage(root, [made])
    return made


def keep(root: Path, find: TriagedFinding, **context: Any) -> None:
    """Write the recorded request to the broker."""
    context_json = msgspec.json.encode(msgspec.structs.replace(CONTEXT_OF, **context))
    (finding_folder(root, find.key) / CONTEXT).write_bytes(context_json)


def promoted(root: Path) -> found_cases.Found:
    """The content of the case file for the only finding of the campaign."""
    with write_case(cases_of(read_triage(root), {}, root / "cases", root)):
        (entry,) = found_cases.stored(root / "cases").values()
    return entry


def refused(root: Path) -> str:
    """Why the only find of the campaign is no case; nothing is written."""
    with pytest.raises(NoCase) as caught:
        cases_of(read_triage(root), {}, root / "cases", root)
    return str(caught.value)


def test_broker_finding_is_run_on_a_broker_again(tmp_path: Path) -> None:
    """The case produces the payload with the settings that it was found with, and the broker's answer is right."""
    find = find_of(tmp_path, BROKER, as_mutant(DATA))
    keep(tmp_path, find)
    draft = promoted(tmp_path).draft()
    assert draft.op == "append"
    assert isinstance(draft.input, Scenario)
    assert draft.input.steps == (Produce(data=DATA, api_version=9),)
    assert draft.input.config["cleanup.policy"] == "compact"
    assert (draft.input.since, draft.input.until) == ("4.4.0", "4.4.0")
    assert draft.expect.answers == (StepAnswer(base_offset=7, data=DATA),)
    assert "has the same input already" in refused(tmp_path)


@pytest.mark.parametrize(
    ("context", "data", "why"),
    [
        (None, DATA, "no broker.json"),
        ({"transactional": "open", "producer": (7, 0)}, DATA, "of another transactional producer"),
        ({"transactional": "open", "producer": (7, 0)}, DATA[:-1], "is damaged or"),
        ({"settings": {"message.timestamp.before.max.ms": "3600000"}}, RECENT, "depends on the time of day"),
    ],
    ids=["no request", "not its own", "damaged", "of today"],
)
def test_a_brokers_find_that_cannot_be_had_again_is_no_case(
    tmp_path: Path, context: dict[str, Any] | None, data: bytes, why: str
) -> None:
    """No context, another producer's payload, or today's time: one sentence gives the reason; nothing is written."""
    find = find_of(tmp_path, BROKER, as_mutant(data))
    if context is not None:
        keep(tmp_path, find, **context)
    assert why in refused(tmp_path)


RECORD = raw_record(key=b"key", value=b"value")
OF_PRODUCER = [signed(raw_batch(RECORD, record_count=1, base_sequence=at), 7, 3) for at in range(3)]
OURS = replace(BATCH, transactional=True, producer_id=7, producer_epoch=3)
SENT = [encode(replace(OURS, base_sequence=at)) for at in range(2)]


@pytest.mark.broker
@pytest.mark.parametrize(
    ("data", "context", "expected"),
    [
        (OF_PRODUCER[1], {"before": ((OF_PRODUCER[0], 9),)}, [(0, 0), (0, 1)]),
        (OF_PRODUCER[2], {"before": ((OF_PRODUCER[0], 9),)}, [(0, 0), (45, -1)]),
        (DATA, {"settings": {"message.timestamp.type": "LogAppendTime"}}, [(0, 0)]),
        (SENT[0], {"transactional": "open", "producer": (7, 3)}, [(0, -1), (0, -1), (0, 0)]),
        (
            SENT[1],
            {"transactional": "open", "producer": (7, 4), "before": ((SENT[0], 9),)},
            [(0, -1), (0, -1), (47, -1), (47, -1)],
        ),
        (SENT[0], {"transactional": "not open", "producer": (7, 3)}, [(0, -1), (48, -1)]),
    ],
    ids=["after another", "out of order", "append time", "in a transaction", "an epoch back", "beside one"],
)
def test_scenario_of_several_payloads_is_run_again(
    tmp_path: Path, data: bytes, context: dict[str, Any], expected: list[tuple[int, int]]
) -> None:
    """Earlier payloads, a transaction, the clock: each step has a broker's answer, which the reference gives too."""
    find = find_of(tmp_path, BROKER, as_mutant(data))
    keep(tmp_path, find, **context)
    draft = promoted(tmp_path).draft()
    assert isinstance(draft.input, Scenario)
    answers = draft.expect.answers
    assert [(each.error_code, each.base_offset) for each in answers] == expected
    assert difference(predict(draft.input, "4.4.0") or (), answers, "exact") == ""
    assert (NOW.to_bytes(8, "big") in answers[-1].data) == ("settings" in context)


@pytest.mark.parametrize(
    ("outcome", "mode", "why"),
    [
        (Outcome("roundtrip", "wrong_data", "round trip"), "", "the reference's roundtrip"),
        (Outcome("convert", "leaked_exception", "KeyError", "kafka_records.f"), "", "the reference's convert"),
        (Outcome("append", "wrong_data", "append"), "", "the reference's append"),
        (Outcome("reference", "leaked_exception", "KeyError", "kafka_records.f"), "", "no fault is known"),
        (Outcome("reference", "wrong_data", "writing", "v2"), "encode", "fix the reference first"),
        (Outcome("kafka-python", "accepts_invalid", "error", "CRC-07"), "", "gives the same answer"),
    ],
)
def test_what_accuses_the_reference_is_not_answered_by_it(
    tmp_path: Path, outcome: Outcome, mode: Any, why: str
) -> None:
    """Where only the accused could say what is right, there is no case, and a sentence says what to do."""
    find_of(tmp_path, outcome, as_mutant(DATA), mode)
    assert why in refused(tmp_path)


def lying(verdict: str) -> Mutant:
    """An input with a fault for which *verdict* is expected."""
    rng, seeds = Random(3), own_seeds()
    made = (mutate(rng, seeds, "model") for _ in range(1000))
    return next(each for each in made if each.expected is not None and each.expected.verdict == verdict)


@pytest.mark.parametrize("verdict", ["valid", "invalid"])
def test_answer_that_a_fault_requires_becomes_the_case(tmp_path: Path, verdict: str) -> None:
    """The find keeps it, and the case expects it, whatever the reference reads now."""
    mutant = lying(verdict)
    assert mutant.expected is not None
    # As if the reference were wrong: the fault expects a verdict that the reference does not give.
    invalid = Expectation(verdict="invalid", kinds=("unsupported_magic",))
    expected = invalid if verdict == "invalid" else Expectation(verdict="valid", batches=(BATCH,))
    find_of(tmp_path, Outcome("reference", "wrong_data", "field", "v2"), mutant._replace(expected=expected))
    (kept,) = read_findings(tmp_path)
    assert kept.expected == expected
    draft = promoted(tmp_path).draft()
    assert (draft.op, draft.input) == ("decode", mutant.data)
    assert (draft.expect.verdict, draft.expect.kinds, draft.expect.batches) == (
        verdict,
        expected.kinds,
        expected.batches,
    )


def test_shrunk_input_has_no_known_fault(tmp_path: Path) -> None:
    """The right answer is known for the input with the fault only, not for shrunk bytes."""
    mutant = lying("invalid")
    find = find_of(tmp_path, Outcome("reference", "crash", "SIGSEGV"), mutant)
    write_triage(tmp_path, [msgspec.structs.replace(find, data=mutant.data[:-1])])
    assert "no fault is known" in refused(tmp_path)


def test_failure_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the corpus does not compile, the case's file is gone again."""
    find = find_of(tmp_path, Outcome("kafka-python", "rejects_valid", "error"), as_mutant(DATA))

    def fail() -> None:
        raise NoCase("the corpus does not compile: so it is")

    monkeypatch.setattr(command, "recompile", fail)
    done = CliRunner().invoke(fuzz, ["promote", find.name, "--dir", str(tmp_path), "--cases", str(tmp_path / "cases")])
    assert done.exit_code == 2
    assert "so it is" in done.output
    assert not list((tmp_path / "cases").glob("*"))


def test_what_was_there_is_there_again(tmp_path: Path) -> None:
    """Files that were written over have their content back; new ones are gone, even after an interrupt."""
    old, new = tmp_path / "old", tmp_path / "folder" / "new"
    old.write_bytes(b"as it was")
    files = {old: b"other", new: b"new"}
    with suppress(KeyboardInterrupt), write_case(files):
        assert {path: path.read_bytes() for path in files} == files
        raise KeyboardInterrupt
    assert old.read_bytes() == b"as it was"
    assert not new.exists()


# Reads everything but two inputs: one it never answers, and one it dies of.
FRAGILE = """
import base64, json, os, sys, time
HELLO = {"protocol": 1, "name": "fragile", "version": "1.0", "language": "python", "runtime": "",
         "decode": {"magics": [2], "compressions": ["none"]}, "encode": {"magics": [], "compressions": []},
         "append": False}
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "hello":
        print(json.dumps(HELLO), flush=True)
        continue
    data = base64.b64decode(request.get("data", ""))
    if request["op"] == "encode":
        print(json.dumps({"id": request["id"], "skipped": "it does not write"}), flush=True)
        continue
    if b"hang" in data:
        time.sleep(60)
    if b"die" in data:
        sys.exit(3)
    print(json.dumps({"id": request["id"], "batches": [{"magic": 2}]}), flush=True)
"""


def compiled(root: Path, *values: bytes) -> list[str]:
    """A corpus with a case for each of those values, and one for writers; the ids."""
    cases = []
    for value in values:
        batch = replace(BATCH, records=(Record(0, 1, None, value),))
        expect = Expectation(verdict="valid", batches=(batch,))
        cases.append(case_of(value.decode(), "decode", encode(batch), expect))
    cases.append(case_of("write", "encode", BATCH, Expectation(verdict="valid", data=DATA)))
    compiler.write_compiled(compiler.compile_corpus(cases, root), root)
    return [case.id for case in cases]


def case_of(name: str, op: Op, given: Question, expect: Expectation) -> Case:
    """A case of the area `found`."""
    return Case(id=f"found.{name}", title=name, rules=("HDR-01",), area="found", op=op, input=given, expect=expect)


@pytest.mark.slow
def test_whatever_another_client_does_is_recorded(tmp_path: Path) -> None:
    """One that is silent over a case, dies over the next and cannot write has an answer to each."""
    ids = compiled(tmp_path, b"plain", b"hang", b"die")
    (tmp_path / "fragile.py").write_text(FRAGILE)
    connection = f"process:{sys.executable} {tmp_path / 'fragile.py'}"
    recording = java_answers(ids, tmp_path, (connection, "java"))
    assert recording is not None
    assert recording.version == "1.0"
    verdicts = {id_: answer.verdict for id_, answer in recording.answers.items()}
    assert verdicts == {"found.plain": "ok", "found.hang": "hung", "found.die": "crashed", "found.write": "skipped"}
    assert java_answers(["found.other"], tmp_path, (connection, "java")) is None
    assert java_answers(ids, tmp_path, ("process:./no-such-program", "java")) is None
