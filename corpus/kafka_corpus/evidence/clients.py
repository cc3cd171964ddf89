"""Recorded answers of clients: libraries that read and write the formats.

An answer that contradicts its case must be in `reviewed.toml`, with the reason.

Recording reads a file of *replies*, in the shape that the testee protocol gives them, with case
ids as ids: `{"id","batches","error"}`, `{"id","data"}`, `{"id","error"}`, `{"id","skipped"}`; or
`{"id","crashed"}`, `hung`, `exceeded` and `garbled` with a text.  `kafkaproof corpus evidence
requests` writes the requests that lead to such replies, so any testee can answer them.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from kafka_corpus.answers import brief, disagreement
from kafka_corpus.case import Case
from kafka_corpus.evidence import EVIDENCE, CaseEvidence, ClientAnswer, Evidence, line_for, load_evidence, pruned
from kafka_corpus.known_issues import KnownIssue, load_issues
from kafka_corpus.scenario import Scenario
from kafka_corpus.vector_format import Answer, content_hash, input_of
from kafka_corpus.wire import WireBatch, to_wire
from kafka_records import Batch

REVIEWED: Final = "reviewed.toml"
OUTDATED: Final = "answers a case that has changed or gone (`corpus compile` drops it)"
NAME: Final = re.compile(r"[a-z0-9_-]+")
VERSION: Final = re.compile(r"\d[\w.+-]*")


class Error(msgspec.Struct):
    """An error in a reply."""

    kind: str
    message: str = ""


class Reply(msgspec.Struct, kw_only=True):
    """A line of a file of replies."""

    id: str
    batches: list[WireBatch] | UnsetType = UNSET
    data: bytes | UnsetType = UNSET
    error: Error | UnsetType = UNSET
    skipped: str | UnsetType = UNSET
    crashed: str | UnsetType = UNSET
    hung: str | UnsetType = UNSET
    exceeded: str | UnsetType = UNSET
    garbled: str | UnsetType = UNSET


ENDINGS: Final = ("skipped", "crashed", "hung", "exceeded", "garbled")


@dataclass(frozen=True, slots=True)
class Recording:
    """The answers of one implementation in one version, by case id, and the content hashes of the cases."""

    name: str
    version: str
    answers: dict[str, Answer]
    contents: dict[str, str]


_encoder = msgspec.json.Encoder()
_replies = msgspec.json.Decoder(Reply)


def _version_key(version: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"[.+-]", version))


def load_reviewed_answers(root: Path) -> tuple[KnownIssue, ...]:
    """The reviewed contradictions below *root*; raises `BadIssueList`."""
    path = root / EVIDENCE.name / REVIEWED
    return load_issues(path, KnownIssue) if path.exists() else ()


def record_replies(replies: Iterable[bytes], cases: Sequence[Case], *, name: str, version: str) -> Recording:
    """The answers in *replies* to *cases*; the reply to hello and to ids that are no case are skipped.

    Raises:
        ValueError: a line is no reply, or name or version cannot be kept.
    """
    if NAME.fullmatch(name) is None or VERSION.fullmatch(version) is None:
        raise ValueError(f"{name} {version}: a name has small letters, digits, - and _; a version starts with a digit")
    by_id = {case.id: case for case in cases}
    recording = Recording(name, version, {}, {})
    for line in filter(bytes.strip, replies):
        reply = _parse(line)
        if reply is not None and reply.id in by_id:
            case = by_id[reply.id]
            recording.answers[case.id] = brief(case, answer_of(reply))
            recording.contents[case.id] = content_hash(case)
    return recording


def with_recording(evidence: Evidence, recording: Recording) -> Evidence:
    """*evidence* with the answers of *recording*; all other answers to cases that have not changed stay."""
    merged = dict(evidence)
    for id_, answer in recording.answers.items():
        line = line_for(evidence, id_, recording.contents[id_])
        answers = line.by_client() | {(recording.name, recording.version): answer}
        merged[id_] = msgspec.structs.replace(line, clients=_together(answers))
    return merged


def _together(answers: dict[tuple[str, str], Answer]) -> list[ClientAnswer]:
    """Equal answers of an implementation together, by name and oldest version."""
    found: list[ClientAnswer] = []
    for name, version in sorted(answers, key=lambda key: (key[0], _version_key(key[1]))):
        answer = answers[name, version]
        equal = next((each for each in found if each.name == name and each.answer == answer), None)
        if equal is None:
            found.append(ClientAnswer(name, [version], answer))
        else:
            equal.versions.append(version)
    return found


def number_of_answers(evidence: Evidence, name: str, version: str) -> int:
    """Answers of that implementation in that version."""
    return sum((name, version) in line.by_client() for line in evidence.values())


def _parse(line: bytes) -> Reply | None:
    if "id" not in msgspec.json.decode(line, type=dict[str, Any]):
        return None
    return _replies.decode(line)


def answer_of(reply: Reply) -> Answer:
    """The answer in a reply, in full; ValueError if there is none."""
    for ending in ENDINGS:
        if (text := getattr(reply, ending)) is not UNSET:
            return msgspec.convert({"verdict": ending, "message": text}, Answer)
    if reply.error is not UNSET:
        error = reply.error
        return Answer(verdict="error", kind=error.kind, message=error.message, batches=reply.batches or UNSET)
    if reply.batches is UNSET and reply.data is UNSET:
        raise ValueError(f"the reply to {reply.id} has neither batches, data, error nor skipped")
    return Answer(verdict="ok", batches=reply.batches, data=reply.data)


def requests(cases: Iterable[Case]) -> Iterator[bytes]:
    """Hello and a request for each case, as lines of the testee protocol.

    Scenarios are for brokers. What a consumer of committed data sees is no question to a decoder either.
    """
    yield _encoder.encode({"op": "hello", "protocol": 1}) + b"\n"
    for case in filter(is_request, cases):
        given = input_of(case)
        what = {"batch": to_wire(given)} if isinstance(given, Batch) else {"data": b64encode(given).decode()}
        yield _encoder.encode({"id": case.id, "op": case.op, **what}) + b"\n"


def is_request(case: Case) -> bool:
    """Whether a client can answer *case*: scenarios are for brokers, and transactions are for consumers."""
    return not isinstance(case.input, Scenario) and case.aborted is None


def client_contradictions(root: Path, cases: Sequence[Case], contents: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Defects of the recorded answers of clients: (implementation, version and id; reason).

    Answers that contradict their case without a review, reviews that no answer needs any more,
    and answers to cases that have changed or gone.
    """
    evidence, reviewed = load_evidence(root), load_reviewed_answers(root)
    current = pruned(evidence, contents)
    by_id = {case.id: case for case in cases}
    needed: set[KnownIssue] = set()
    for id_, line in sorted(evidence.items()):
        if id_ not in current:
            yield from ((_where(key, id_), OUTDATED) for key in line.by_client())
            continue
        for key, reason in _disagreements(by_id[id_], line):
            reviews = [review for review in reviewed if review.covers(*key, id_)]
            needed.update(reviews)
            if not reviews:
                yield _where(key, id_), f"contradicts the case, and {REVIEWED} has no reason for it: {reason}"
    for review in reviewed:
        if review not in needed:
            yield f"{REVIEWED} {review.testee} {', '.join(review.cases)}", "covers no contradiction any more: remove it"


def _disagreements(case: Case, line: CaseEvidence) -> Iterator[tuple[tuple[str, str], str]]:
    for key, answer in line.by_client().items():
        if reason := disagreement(case, answer):
            yield key, reason


def _where(key: tuple[str, str], id_: str) -> str:
    return f"{key[0]} {key[1]} {id_}"
