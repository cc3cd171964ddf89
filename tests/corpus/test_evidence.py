"""Recorded answers: kept, merged into the vectors, and reviewed where they contradict a case."""

import json
import os
import pickle
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_corpus import compiler, evidence
from kafka_corpus.answers import ask_reference, batches_hash, disagreement
from kafka_corpus.case import Case
from kafka_corpus.check import check
from kafka_corpus.evidence import clients
from kafka_corpus.vector_format import Answer, content_hash, line_of
from kafka_corpus.vectors import load_vectors
from kafka_corpus.wire import to_wire


def replies(sample: list[Case], **other: object) -> list[bytes]:
    """The replies of a testee that is right, or *other* replies to single cases."""
    batch = json.loads(line_of(sample[2]))["expect"]["batches"]
    given: dict[str, object] = {
        "accepts": {"error": {"kind": "malformed", "message": "no"}},
        "packs": {"data": text(sample[1].expect.data)},
        "reads": {"batches": batch},
        "refuses": {"error": {"kind": "corrupt"}},
        "writes": {"data": text(sample[4].expect.data)},
    }
    lines = [
        {"id": f"sample.{name}"} | dict(reply) for name, reply in (given | other).items() if isinstance(reply, dict)
    ]
    return [json.dumps(line).encode() + b"\n" for line in ({"protocol": 1, "name": "x"}, *lines)]


def text(data: bytes | None) -> str:
    """Bytes as the protocol has them."""
    return b64encode(data or b"").decode()


def recorded(root: Path, sample: list[Case], **other: object) -> list[str]:
    """The report of `check` about the evidence, after recording and compiling."""
    recording = clients.record_replies(replies(sample, **other), sample, name="java", version="4.4.0")
    evidence.write_evidence(clients.with_recording(evidence.load_evidence(root), recording), root)
    compiler.write_compiled(compiler.compile_corpus(sample, root), root)
    return [f"{drift.where}: {drift.what}" for drift in check(sample, root) if drift.check != "rules"]


def test_right_answers(root: Path, sample: list[Case]) -> None:
    """Answers that are right need no review, and stand in the vectors beside the reference's."""
    assert recorded(root, sample) == []
    reads = load_vectors(root=root)[2]
    answer = {"verdict": "ok", "batches_sha256": batches_hash([to_wire(reads.expect.batches[0])])}
    assert reads.evidence == {"reference": answer, "java": {"4.4.0": answer}}


def test_contradiction(root: Path, sample: list[Case]) -> None:
    """An answer that contradicts its case fails the check, and is kept as a whole."""
    (found,) = recorded(root, sample, reads={"batches": []})
    assert found.startswith(
        "java 4.4.0 sample.reads: contradicts the case, and reviewed.toml has no reason for it: 0 batches"
    )
    assert load_vectors(root=root)[2].evidence["java"]["4.4.0"]["batches"] == []


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ({"error": {"kind": "malformed", "message": "no"}}, "refused (malformed no)"),
        ({"crashed": "signal 11"}, "crashed signal 11"),
        ({"hung": "5 s"}, "hung 5 s"),
        ({"batches": [{"magic": 1}]}, "batches[0].magic is 1"),
        ({"batches": [{"magic": 2, "records": [{"value": ""}]}]}, "batches[0].records[0].value is b''"),
        ({"batches": [{"records": []}]}, "batches[0].records: 0, expected 1"),
        ({"batches": [{}, {}]}, "2 batches, expected 1"),
    ],
    ids=str,
)
def test_reasons(sample: list[Case], reply: dict[str, object], reason: str) -> None:
    """A contradiction names the first field that differs."""
    recording = clients.record_replies(replies(sample, reads=reply), sample, name="x", version="1")
    assert disagreement(sample[2], recording.answers["sample.reads"]) == reason


@pytest.mark.parametrize("reply", [{"skipped": "no v2"}, {"batches": [{}]}, {"batches": [{"magic": 2}]}], ids=str)
def test_silence_contradicts_nothing(sample: list[Case], reply: dict[str, object]) -> None:
    """A reply of `skipped`, or a field that is not exposed, is no contradiction."""
    recording = clients.record_replies(replies(sample, reads=reply), sample, name="x", version="1")
    assert disagreement(sample[2], recording.answers["sample.reads"]) == ""


def test_bytes_are_compared(sample: list[Case]) -> None:
    """Written bytes are right if they are equal, or, compressed, equal above compression."""
    right = sample[4].expect.data
    assert right is not None
    assert disagreement(sample[4], Answer(verdict="ok", data=right[:-1])) != ""
    assert disagreement(sample[4], Answer(verdict="ok", data=right[:12] + b"\x00\x00\x00\x07" + right[16:])) != ""
    assert disagreement(sample[1], Answer(verdict="ok", data=right)) == "bytes that read as another batch"
    assert disagreement(sample[3], ask_reference(sample[2])) == "accepted"


def test_review(root: Path, sample: list[Case]) -> None:
    """A reviewed contradiction passes, for the releases and ids that are named."""
    entry = '[[issue]]\ntestee = "java"\ncases = ["sample.re*"]\nversions = ["{}"]\nreason = "reasons"\n'
    (root / "evidence" / "reviewed.toml").write_text(entry.format("4.4.0"), encoding="utf-8")
    assert recorded(root, sample, reads={"batches": []}) == []
    (root / "evidence" / "reviewed.toml").write_text(entry.format("3.9.0"), encoding="utf-8")
    assert len(recorded(root, sample, reads={"batches": []})) == 2


def test_review_without_need(root: Path, sample: list[Case]) -> None:
    """A review that no answer needs any more fails the check."""
    entry = '[[issue]]\ntestee = "java"\ncases = ["sample.reads"]\nreason = "reasons"\n'
    (root / "evidence" / "reviewed.toml").write_text(entry, encoding="utf-8")
    (found,) = recorded(root, sample)
    assert found.endswith("covers no contradiction any more: remove it")


def test_changed_case(root: Path, sample: list[Case]) -> None:
    """An answer to a case that has changed does not count; the check says so, compiling drops it."""
    assert recorded(root, sample) == []
    sample[0] = replace(sample[0], expect=replace(sample[0].expect, kinds=()))
    stale = [drift for drift in check(sample, root) if drift.check == "evidence"]
    assert [drift.where for drift in stale] == ["java 4.4.0 sample.accepts"]
    compiled = compiler.compile_corpus(sample, root, rewrite_ids=True)
    assert "java" not in compiled.cases[0].evidence
    compiler.write_compiled(compiled, root)
    assert "sample.accepts" not in evidence.load_evidence(root)
    assert "sample.reads" in evidence.load_evidence(root)


def test_requests_ask_every_case(sample: list[Case]) -> None:
    """The requests are hello and one line for each case; a decoder gets no list of transactions."""
    transacted = replace(sample[2], id="sample.transacted", aborted=())
    hello, *requests = map(json.loads, clients.requests([*sample, transacted]))
    assert hello == {"op": "hello", "protocol": 1}
    assert [request["id"] for request in requests] == [case.id for case in sample]
    assert [("data" in request, "batch" in request) for request in requests] == [
        (case.op == "decode", case.op == "encode") for case in sample
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"print", "malformed"),
        (b'{"id":"sample.reads"}', "neither batches, data, error nor skipped"),
        (b'{"id":"sample.reads","batches":7}', "Expected `array"),
    ],
)
def test_no_reply(sample: list[Case], line: bytes, why: str) -> None:
    """A line that is no reply is refused, and the text says why."""
    with pytest.raises(ValueError, match=why):
        clients.record_replies([line], sample, name="x", version="1")


def test_names_and_versions(sample: list[Case]) -> None:
    """A name may have hyphens; a version starts with a digit."""
    assert clients.record_replies([], sample, name="kafka-python", version="3.0.12").version == "3.0.12"
    for name, version in (("kafka", "latest"), ("Kafka", "1"), ("", "1")):
        with pytest.raises(ValueError, match="a version starts with a digit"):
            clients.record_replies([], sample, name=name, version=version)


def test_equal_answers_are_together(sample: list[Case], root: Path) -> None:
    """Versions that answer alike share an entry, oldest first; another answer and another name have their own."""
    other = {"error": {"kind": "corrupt", "message": "no"}}
    kept: evidence.Evidence = {}
    for name, version, reply in (
        ("x", "3.0.12", {}),
        ("x", "3.0.2", {}),
        ("x", "2.0", {"reads": other}),
        ("a", "1", {"reads": other}),
    ):
        kept = clients.with_recording(
            kept, clients.record_replies(replies(sample, **reply), sample, name=name, version=version)
        )
    assert evidence.write_evidence(kept, root) == ["evidence/sample.ndjson"]
    assert evidence.write_evidence(kept, root) == []
    assert evidence.load_evidence(root) == kept
    line = kept["sample.reads"]
    assert [(each.name, each.versions) for each in line.clients] == [
        ("a", ["1"]),
        ("x", ["2.0"]),
        ("x", ["3.0.2", "3.0.12"]),
    ]
    assert [(each.name, each.versions) for each in kept["sample.writes"].clients] == [
        ("a", ["1"]),
        ("x", ["2.0", "3.0.2", "3.0.12"]),
    ]
    assert clients.number_of_answers(kept, "x", "2.0") == len(sample)


def test_recording_again_replaces(sample: list[Case]) -> None:
    """A second answer of a version replaces the first; an answer to a case that has changed replaces all."""
    first = clients.with_recording({}, clients.record_replies(replies(sample), sample, name="x", version="1"))
    again = clients.record_replies(replies(sample, reads={"skipped": "busy"}), sample, name="x", version="1")
    second = clients.with_recording(first, again)
    assert [each.answer.verdict for each in second["sample.reads"].clients] == ["skipped"]
    changed = [replace(case, op="decode", input=b"other") if case.id == "sample.reads" else case for case in sample]
    third = clients.with_recording(second, clients.record_replies(replies(sample), changed, name="y", version="1"))
    assert [each.name for each in third["sample.reads"].clients] == ["y"]
    assert [each.name for each in third["sample.writes"].clients] == ["x", "y"]


def test_lines_carry_the_content(sample: list[Case]) -> None:
    """A recorded line has the hash of the case that was answered."""
    kept = clients.with_recording({}, clients.record_replies(replies(sample), sample, name="x", version="1"))
    assert {id_: line.sha256 for id_, line in kept.items()} == {case.id: content_hash(case) for case in sample}


def test_evidence_travels(root: Path, sample: list[Case]) -> None:
    """The answers that a case shows are the same after it was pickled, and are read again when the file changes."""
    assert recorded(root, sample) == []
    case = load_vectors("sample.reads", root=root)[0]
    copy = pickle.loads(pickle.dumps(case))
    assert copy == case
    assert dict(copy.evidence) == dict(case.evidence)
    (root / "evidence" / "sample.ndjson").unlink()
    assert list(load_vectors(root=root)[2].evidence) == ["reference", "java"]
    touched = root / "vectors" / "sample.ndjson"
    os.utime(touched, ns=(0, 0))
    assert list(load_vectors(root=root)[2].evidence) == ["reference"]
