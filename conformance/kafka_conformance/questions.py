"""From cases to questions: what is sent, what is sent together, what is never sent.

A testee is asked what it announced.  A case beyond that is skipped here, with
the reason, and counts against its coverage like one that it skips itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET

from kafka_conformance.asked import Question
from kafka_conformance.families import family_of
from kafka_conformance.judging.consuming import unfollowable
from kafka_conformance.observation import Skipped
from kafka_conformance.protocol import AppendRequest, Capability, DecodeRequest, HelloReply
from kafka_corpus.case import Case, Recipe
from kafka_corpus.prediction import payload_of, version_of
from kafka_corpus.scenario import NEWEST_RELEASE, NOW, Scenario
from kafka_corpus.vectors import input_of
from kafka_corpus.wire import to_wire
from kafka_records import Batch
from kafka_records.constants import COMPRESSIONS, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD

# So many go out together, if they are small.
TOGETHER: Final = 32
TOGETHER_BYTES: Final = 256 * 1024
# Entries of an input that are looked at to see what it takes to read it.
LOOK: Final = 64

_MAGIC_AT: Final = 16
_CODEC_AT: Final = {0: 17, 1: 17, 2: 22}
_CODEC_BITS: Final = 0x07


@dataclass(frozen=True, slots=True)
class Asked:
    """A case and the question that it becomes."""

    case: Case
    question: Question


def beyond(case: Case, hello: HelloReply) -> Skipped | None:
    """Why *case* is not asked of this testee; None if it is."""
    if isinstance(case.input, Scenario):
        return None
    if case.op == "encode":
        if not isinstance(case.input, Batch):
            return Skipped("a batch made from a recipe is not asked in this version", by_runner=True)
        return _unannounced(hello.encode, "encode", {(case.input.magic, case.input.compression)})
    if hello.consumer and (why := unfollowable(case)):
        return Skipped(why, by_runner=True)
    if isinstance(case.input, bytes):
        return unread(case.input, hello)
    if isinstance(case.input, Recipe):
        # A recipe to decode that names no codec is one of zstd.
        made = case.input.args
        return _unannounced(hello.decode, "decode", {(made.get("magic", 2), made.get("codec", "zstd"))})
    return None


def unread(data: bytes, hello: HelloReply) -> Skipped | None:
    """Why *data* is not given to this testee to decode; None if it is."""
    return _unannounced(hello.decode, "decode", set(_needs(data)))


def _unannounced(capability: Capability, op: str, needs: set[tuple[int, str]]) -> Skipped | None:
    if op == "encode" and not capability.magics:
        return Skipped("announces no encode", by_runner=True)
    for magic, compression in sorted(needs):
        # A list that is empty says nothing; what nobody can announce is asked anyway.
        if capability.magics and magic in (0, 1, 2) and magic not in capability.magics:
            return Skipped(f"announces no {op} of magic {magic}", by_runner=True)
        if capability.compressions and compression and compression not in capability.compressions:
            return Skipped(f"announces no {op} of {compression}", by_runner=True)
    return None


def _needs(data: bytes) -> Iterator[tuple[int, str]]:
    """Magic and compression of each entry, as far as its bytes can be believed; "" for no such codec."""
    at = 0
    for _ in range(LOOK):
        if len(data) - at <= max(_CODEC_AT.values()):
            return
        magic = data[at + _MAGIC_AT]
        codec = data[at + _CODEC_AT[magic]] & _CODEC_BITS if magic in _CODEC_AT else len(COMPRESSIONS)
        yield magic, COMPRESSIONS[codec] if codec < len(COMPRESSIONS) else ""
        size = int.from_bytes(data[at + 8 : at + LOG_OVERHEAD], "big", signed=True)
        if size < HEADER_SIZE_UP_TO_MAGIC - LOG_OVERHEAD:
            return
        at += LOG_OVERHEAD + size


def concerns(case: Case, *, append: bool, deaf: bool = False) -> bool:
    """Whether *case* is for this codec.

    Args:
        case: the case.
        append: it announces `append`, so that one payload to a fresh log is for it.
        deaf: it delivers records, and nobody can tell it of aborted transactions.
    """
    if deaf and case.aborted is not None:
        return False
    if isinstance(case.input, Scenario):
        # A connection that is closed is no answer that a testee could give.
        answered = not any(answer.closed for answer in case.expect.answers)
        return append and case.op == "append" and case.input.is_plain() and answered
    return True


def append_request(scenario: Scenario) -> AppendRequest:
    """The one payload of *scenario*, as the newest release is asked that it concerns."""
    (step,) = scenario.produces()
    release = scenario.until or NEWEST_RELEASE
    return AppendRequest(
        id="",
        data=payload_of(step),
        release=release,
        api_version=version_of(step, release),
        log_end_offset=0,
        leader_epoch=0,
        config=scenario.config,
        now_ms=NOW,
    )


def question(case: Case, *, committed: bool = False) -> Question:
    """What *case* asks; recipes are built now, and are heavy.

    Whoever announces `committed` is told of aborted transactions; to others their records are records like all others.
    """
    if isinstance(case.input, Scenario):
        return Question(append_request(case.input), heavy=is_heavy(case), family=family_of(case))
    given = input_of(case)
    if committed and case.aborted is not None and isinstance(given, bytes):
        return Question(DecodeRequest(id="", data=given, aborted=list(case.aborted)), family=family_of(case))
    subject = to_wire(given) if isinstance(given, Batch) else given
    return Question(subject, heavy=is_heavy(case), family=family_of(case))


def is_heavy(case: Case) -> bool:
    """Whether its bytes are made when it is asked."""
    if isinstance(case.input, Scenario):
        return any(step.data is UNSET for step in case.input.produces())
    return isinstance(case.input, Recipe)


def groups(cases: Iterable[Case], at_once: int) -> Iterator[list[Case]]:
    """Cases in groups to be asked together: of one kind, not too many, heavy ones alone and first."""
    plain: dict[tuple[str, bool], list[Case]] = {}
    for case in cases:
        if is_heavy(case):
            yield [case]
        else:
            plain.setdefault((case.op, case.aborted is not None), []).append(case)
    for same in plain.values():
        yield from _split(same, max(1, min(TOGETHER, at_once)))


def _split(cases: Sequence[Case], most: int) -> Iterator[list[Case]]:
    group: list[Case] = []
    size = 0
    for case in cases:
        length = len(case.input) if isinstance(case.input, bytes) else 0
        if group and (len(group) >= most or size + length > TOGETHER_BYTES):
            yield group
            group, size = [], 0
        group.append(case)
        size += length
    if group:
        yield group
