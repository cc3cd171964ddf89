"""Evidence: what other implementations answered to the cases, recorded.

`<name>-<version>.ndjson` holds one line for each case, `{"id", "sha256", "answer"}`; the hash is
that of the case's content, so an answer to a case that has changed does not count.  Compiling
puts the answers into the vectors.  An answer that contradicts its case must be in
`reviewed.toml`, with the reason.

Recording reads a file of *replies*, in the shape that the testee protocol gives them, with case
ids as ids: `{"id","batches","error"}`, `{"id","data"}`, `{"id","error"}`, `{"id","skipped"}`; or
`{"id","crashed"}`, `hung`, `exceeded` and `garbled` with a text.  `kafkaproof corpus evidence
requests` writes the requests that lead to such replies, so any testee can answer them.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from kafka_corpus.answers import brief, disagreement
from kafka_corpus.case import Case
from kafka_corpus.scenario import Scenario
from kafka_corpus.vectors import Answer, content_hash, input_of, matches
from kafka_corpus.wire import WireBatch, to_wire
from kafka_records import Batch

FOLDER: Final = "evidence"
REVIEWED: Final = "reviewed.toml"
# A name may have hyphens in it; the version starts with a digit.
FILE_NAME: Final = re.compile(r"(?P<name>[a-z0-9_-]+?)-(?P<version>\d[\w.+-]*)\.ndjson")


class Line(msgspec.Struct):
    """One recorded answer; `sha256` is the content hash of the case."""

    id: str
    sha256: str
    answer: Answer


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
    """The answers of one implementation in one release, by case id."""

    name: str
    version: str
    lines: dict[str, Line]

    @property
    def file(self) -> str:
        """The file's name."""
        return f"{self.name}-{self.version}.ndjson"

    def text(self) -> bytes:
        """The answers as the file holds them, sorted by id."""
        return b"".join(_encoder.encode(self.lines[id_]) + b"\n" for id_ in sorted(self.lines))


@dataclass(frozen=True, slots=True)
class Reviewed:
    """Answers that contradict their cases, looked at by somebody.

    Attributes:
        name: the implementation.
        why: what is behind it.
        ids: cases, as in `vectors.matches`.
        versions: releases; empty means all.
    """

    name: str
    why: str
    ids: tuple[str, ...]
    versions: tuple[str, ...] = field(default=())

    def covers(self, recording: Recording, id_: str) -> bool:
        """Whether this is about the answer of *recording* to the case."""
        right_release = not self.versions or recording.version in self.versions
        return self.name == recording.name and right_release and any(matches(pattern, id_) for pattern in self.ids)


_encoder = msgspec.json.Encoder()
_lines = msgspec.json.Decoder(Line)
_replies = msgspec.json.Decoder(Reply)


def load(root: Path) -> list[Recording]:
    """Every recording below *root*, by name and version."""
    found = [recording for path in sorted((root / FOLDER).glob("*.ndjson")) if (recording := load_file(path))]
    return sorted(found, key=lambda recording: (recording.name, _version_key(recording.version)))


def load_file(path: Path) -> Recording | None:
    """The recording in one file, None if its name names no release."""
    named = FILE_NAME.fullmatch(path.name)
    if named is None:
        return None
    lines = _lines.decode_lines(path.read_bytes())
    return Recording(named["name"], named["version"], {line.id: line for line in lines})


def _version_key(version: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"[.+-]", version))


def load_reviewed(root: Path) -> list[Reviewed]:
    """The reviewed contradictions below *root*."""
    import tomllib

    path = root / FOLDER / REVIEWED
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("reviewed", []) if path.exists() else []
    return [
        Reviewed(entry["name"], entry["why"], tuple(entry["ids"]), tuple(entry.get("versions", ())))
        for entry in entries
    ]


def record(replies: Iterable[bytes], cases: Sequence[Case], *, name: str, version: str) -> Recording:
    """The answers in *replies* to *cases*; the reply to hello and to ids that are no case are passed over.

    Raises:
        ValueError: a line is no reply, or name and version make no file name.
    """
    by_id = {case.id: case for case in cases}
    recording = Recording(name, version, {})
    if FILE_NAME.fullmatch(recording.file) is None:
        raise ValueError(f"{recording.file} does not separate into a name and a version that starts with a digit")
    for line in filter(bytes.strip, replies):
        reply = _parse(line)
        if reply is not None and reply.id in by_id:
            case = by_id[reply.id]
            recording.lines[case.id] = Line(case.id, content_hash(case), brief(case, answer_of(reply)))
    return recording


def added(recording: Recording, root: Path) -> Recording:
    """*recording*, and beside it what was recorded below *root* of other cases in the same release."""
    path = root / FOLDER / recording.file
    before = load_file(path) if path.exists() else None
    return recording if before is None else replace(recording, lines=before.lines | recording.lines)


def _parse(line: bytes) -> Reply | None:
    if "id" not in msgspec.json.decode(line, type=dict[str, Any]):
        return None
    return _replies.decode(line)


def answer_of(reply: Reply) -> Answer:
    """What a reply says, in full; ValueError if it says nothing."""
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
    for case in cases:
        if isinstance(case.input, Scenario) or case.aborted is not None:
            continue
        given = input_of(case)
        what = {"batch": to_wire(given)} if isinstance(given, Batch) else {"data": b64encode(given).decode()}
        yield _encoder.encode({"id": case.id, "op": case.op, **what}) + b"\n"


def merged(recordings: Sequence[Recording], case: Case, content: str) -> dict[str, dict[str, Answer]]:
    """The recorded answers to *case*, by name and version; *content* is its hash."""
    answers: dict[str, dict[str, Answer]] = {}
    for recording in recordings:
        line = recording.lines.get(case.id)
        if line is not None and line.sha256 == content:
            answers.setdefault(recording.name, {})[recording.version] = line.answer
    return answers


def pruned(recording: Recording, contents: dict[str, str]) -> Recording:
    """*recording* without answers to cases that have changed or gone; *contents* has hashes by id."""
    kept = {id_: line for id_, line in recording.lines.items() if contents.get(id_) == line.sha256}
    return Recording(recording.name, recording.version, kept)


def contradictions(root: Path, cases: Sequence[Case], contents: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What is wrong with the evidence: (file and id, reason).

    Answers that contradict their case without a review, reviews that no answer needs any more,
    and answers to what is no longer asked.
    """
    recordings, reviewed = load(root), load_reviewed(root)
    needed: set[Reviewed] = set()
    for recording in recordings:
        current = pruned(recording, contents).lines
        for id_ in sorted(recording.lines.keys() - current.keys()):
            yield f"{recording.file} {id_}", "answers a case that has changed or gone (`corpus compile` drops it)"
        for case in (case for case in cases if case.id in current):
            if reason := disagreement(case, current[case.id].answer):
                reviews = [review for review in reviewed if review.covers(recording, case.id)]
                needed.update(reviews)
                if not reviews:
                    yield f"{recording.file} {case.id}", f"contradicts the case, and nobody has reviewed it: {reason}"
    for review in reviewed:
        if review not in needed:
            yield f"{REVIEWED} {review.name} {', '.join(review.ids)}", "covers no contradiction any more: remove it"
