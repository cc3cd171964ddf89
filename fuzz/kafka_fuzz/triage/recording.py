"""What the Java client makes of new cases, recorded as their evidence, whatever it does over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from kafka_conformance.asked import Question
from kafka_conformance.connect import BadConnect, CannotRun, connect
from kafka_conformance.observation import (
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
from kafka_conformance.protocol import Refusal
from kafka_conformance.runner import trivial_decodes
from kafka_conformance.sandbox import Sandbox
from kafka_corpus.case import Case
from kafka_corpus.evidence import clients
from kafka_corpus.scenario import Scenario
from kafka_corpus.vectors import input_of, load_vectors
from kafka_corpus.wire import to_wire
from kafka_records import Batch

# Who is asked, and under which name the answers are kept.
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
        version, replies = _asked(connect(who[0]), cases)
    except (CannotRun, BadConnect):
        return None
    new = clients.record(replies, cases, name=who[1], version=version)
    return new if new.answers else None


def _asked(connection: Any, cases: Iterable[Case]) -> tuple[str, list[bytes]]:
    """Its version, and a reply for each case."""
    sandbox = Sandbox(connection)
    try:
        version = sandbox.hello().version
        sandbox.calibrate(trivial_decodes())
        return version, [reply for case in cases for reply in _replies(sandbox, case)]
    finally:
        sandbox.close()


def _replies(sandbox: Sandbox, case: Case) -> Iterator[bytes]:
    given = input_of(case)
    question = Question(to_wire(given) if isinstance(given, Batch) else given)
    for answered in sandbox.ask([question]):
        yield msgspec.json.encode({"id": case.id} | said(answered.observation))


def said(seen: Observation) -> dict[str, Any]:
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
