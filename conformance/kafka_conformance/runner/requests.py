"""From cases to requests: selection, batching, and the lines that are sent.

A testee gets only cases that it announced.  A case beyond that is skipped here, with
the reason, and counts against its coverage like one that it skips itself.
"""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher, get_close_matches
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET

from kafka_conformance.judge.consuming import unfollowable
from kafka_conformance.judge.observation import (
    Crashed,
    Exceeded,
    Garbled,
    Hung,
    Observation,
    Skipped,
    how_it_ended,
    observe,
)
from kafka_conformance.process.child import ReadFailure
from kafka_conformance.process.time_limits import may_loop, time_factor, timeout_group
from kafka_conformance.testees import protocol
from kafka_conformance.testees.protocol import AppendRequest, Capability, CodecReply, DecodeRequest, HelloReply, Misfit
from kafka_corpus.case import Case, Recipe
from kafka_corpus.prediction import step_payload, version_of
from kafka_corpus.recipes import recipe_format
from kafka_corpus.scenario import NEWEST_RELEASE, NOW, Scenario
from kafka_corpus.vector_format import input_of, matches
from kafka_corpus.wire import WireBatch, to_wire
from kafka_records import Batch
from kafka_records.constants import COMPRESSIONS, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD

# A testee that left so many requests unanswered, and answered none, gets no more requests.
MAX_UNANSWERED: Final = 3
# Identical crashes of fresh processes that are needed before a crash signature is trusted.
PROVEN: Final = 3
# What Go and Rust say of the thread that a program begins in, which is the one that reads questions.
_FIRST: Final = re.compile(r"goroutine 1 [^|]*\[running\]|thread 'main'")
_NUMBERS: Final = re.compile(r"0x[0-9a-f]+|\d+")
# What a testee took more of than it may.
TOO_MUCH: Final = {
    ReadFailure.GREW: "it took more and more memory, and had not answered when its time was over",
    ReadFailure.TOO_LONG: f"it wrote a line longer than {protocol.MAX_LINE // 2**20} MiB",
}
# Signals that come from people, process managers and the kernel's memory killer.
_FROM_OUTSIDE: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU})


@dataclass(frozen=True, slots=True)
class CaseRequest:
    """Bytes to decode, with aborted transactions or without, a batch to encode or a payload to append.

    Attributes:
        subject: the payload.
        heavy: may take long.
        time_factor: on the time limits, if it is heavy.
        timeout_group: the cases that share known hangs with this one.
        fresh: goes to a fresh process where one is to be had at once, since what a process did before decides
            how much memory it takes, or what is in memory that it has freed.
    """

    subject: bytes | WireBatch | AppendRequest | DecodeRequest
    heavy: bool = False
    time_factor: float = 1.0
    timeout_group: str = ""
    fresh: bool = False

    @property
    def size(self) -> int:
        """Bytes that the testee reads; 0 for a batch to encode."""
        match self.subject:
            case bytes(data) | AppendRequest(data=data) | DecodeRequest(data=bytes(data)):
                return len(data)
        return 0


@dataclass(frozen=True, slots=True)
class TimedObservation:
    """An observation, what it took in seconds, and how often the process died over it.

    Attributes:
        lone: whether a fresh process of one thread answered this case alone, or ran out of memory over it where it is
            heavy; False after other deaths.
    """

    observation: Observation
    seconds: float
    deaths: int = 0
    lone: bool = False


@dataclass(slots=True)
class Tally:
    """Events other than answers.

    A late end is that of a process that had answered all its requests, or
    that crashed in a request which it answers alone.
    """

    starts: int = 0
    strays: int = 0
    first_stray: str = ""
    last_stray: str = ""
    late_ends: int = 0
    first_late_end: str = ""
    detached: int = 0  # processes outside of a testee's group that were ended
    waited: float = 0.0  # seconds spent on cases that hung

    def stray(self, text: str) -> None:
        """Count a line that is no reply."""
        self.strays += 1
        self.first_stray = self.first_stray or text
        self.last_stray = text

    def late_end(self, ending: Observation) -> None:
        """Count a crash that no request caused, unless it may come from outside."""
        if isinstance(ending, Crashed | Exceeded | Hung) and not killed_from_outside(ending):
            self.late_ends += 1
            self.first_late_end = self.first_late_end or how_it_ended(ending)


@dataclass(slots=True)
class BehaviourProfile:
    """Facts learnt about a testee; all its sandboxes share them.

    Attributes:
        hello: what it said of itself; None until it did.
        quick: whether it starts at once.
        many: whether it takes `many`; None until it said hello.
        fell: how often it crashed in a line of many.
        doubtful: whether it left a trivial question unanswered; then requests are sent one by one.
        answers: requests that it answered.
        unanswered: requests over which it hung, crashed or talked nonsense.
        takes_rows: whether it takes lines ahead of its replies; None until one of them was late.
        hung: the families of the questions that it hung over.
        endings: how often processes that ended so were right to be believed.
        refuted: the endings that were another question's doing.
    """

    hello: HelloReply | None = None
    quick: bool = False
    many: bool | None = None
    fell: int = 0
    doubtful: bool = False
    answers: int = 0
    unanswered: int = 0
    takes_rows: bool | None = None
    hung: set[str] = field(default_factory=set)
    endings: Counter[tuple[object, ...]] = field(default_factory=Counter)
    refuted: set[tuple[object, ...]] = field(default_factory=set)

    @property
    def is_given_up(self) -> bool:
        """Whether it answered no request of several, and gets no more."""
        return self.doubtful and not self.answers and self.unanswered >= MAX_UNANSWERED

    def counts(self, ending: Observation, *, fresh: bool, single: bool = False) -> bool:
        """Whether *ending* was caused by the current request.

        The ending of a *fresh* process was, and it is remembered.  In another process
        memory may run out because of what the process kept, and earlier requests may
        cause an exception in an event loop or in a thread.  There an ending counts only
        if it was seen in `PROVEN` fresh processes and was never refuted, and if only a
        *single* request was sent or the error output names the main thread.
        """
        mark = _mark(ending)
        if fresh and mark is not None:
            self.endings[mark] += 1
        believed = mark is not None and mark not in self.refuted and self.endings[mark] >= PROVEN
        return fresh or (believed and (single or bool(_FIRST.search(getattr(ending, "stderr", "")))))

    def refute(self, ending: Observation) -> None:
        """Remember that the question with which a process ended so is answered by another."""
        mark = _mark(ending)
        if mark is not None:
            self.refuted.add(mark)

    def hangs_over(self, question: CaseRequest) -> bool:
        """Whether it is known to hang over such questions: it had all the time that there is, and needs no more."""
        return question.timeout_group in self.hung


def single_line(name: str, question: CaseRequest) -> bytes:
    """The line that sends *question*."""
    subject = question.subject
    if isinstance(subject, bytes):
        return protocol.request_line(protocol.DecodeRequest(id=name, data=subject))
    if isinstance(subject, AppendRequest | DecodeRequest):
        return protocol.request_line(msgspec.structs.replace(subject, id=name))
    return protocol.request_line(protocol.EncodeRequest(id=name, batch=subject))


def many_line(name: str, questions: Iterable[CaseRequest]) -> bytes:
    """One line that sends all of *questions*, which are bytes."""
    many = [question.subject for question in questions if isinstance(question.subject, bytes)]
    return protocol.request_line(protocol.DecodeRequest(id=name, many=many))


def observe_reply(reply: CodecReply | Misfit) -> Observation:
    """The observation that a reply line stands for."""
    return observe(reply) if isinstance(reply, CodecReply) else Garbled(f"not a reply: {reply.why}")


def _mark(ending: Observation) -> tuple[object, ...] | None:
    """The signature of a crash: signal or exit code, and the last words without numbers.

    A signal without a message has no signature: memory corrupted by an earlier case ends a process like that.
    """
    if not isinstance(ending, Crashed):
        return None
    words = _NUMBERS.sub("#", ending.stderr)
    return None if ending.signal and not words else (ending.signal, ending.exit_code, words)


def died(observation: Observation) -> bool:
    """Whether the process ended over it."""
    return isinstance(observation, Crashed | Exceeded) or (isinstance(observation, Hung) and bool(observation.stderr))


def killed_from_outside(observation: Observation) -> bool:
    """Whether somebody else may have ended the process."""
    return isinstance(observation, Crashed) and observation.signal in _FROM_OUTSIDE


def select(cases: Sequence[Case], only: Sequence[str]) -> list[Case]:
    """The cases that one of *only* names, by id or by rule; all of them if there is none."""
    if not only:
        return list(cases)
    return [case for case in cases if any(_named(case, pattern) for pattern in only)]


def unmatched_pattern(cases: Sequence[Case], only: Sequence[str]) -> str:
    """An error for the first of *only* that names no case, with near names; empty if each names some."""
    for pattern in only:
        if not any(_named(case, pattern) for case in cases):
            near = near_names(cases, pattern)
            return f"no case matches {pattern!r}" + (f"; did you mean {' or '.join(near)}?" if near else "")
    return ""


def near_names(cases: Iterable[Case], pattern: str) -> list[str]:
    """Areas, case functions, rules and case ids like *pattern*, the most like first."""
    names: dict[str, str] = {}
    for case in cases:
        function = case.id.partition("[")[0]
        names |= {case.id: case.id, function: f"{function}*" if function != case.id else function}
        names |= {case.area: f"{case.area}.*"} | {rule: rule for rule in case.rules}
    wanted = {text for text in (pattern, pattern.rstrip(".*"), pattern.partition("[")[0]) if text}
    found = [near for text in sorted(wanted) for near in get_close_matches(text, names, n=NEAR_NAMES, cutoff=NEAR)]
    ranked = sorted(set(found), key=lambda name: (-max(_likeness(text, name) for text in wanted), name))
    return [names[name] for name in ranked[:NEAR_NAMES]]


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def _named(case: Case, pattern: str) -> bool:
    return matches(pattern, case.id) or any(matches(pattern, rule) for rule in case.rules)


# Names that are suggested for a pattern, and the similarity from 0 to 1 above which they are.
NEAR_NAMES: Final = 3
NEAR: Final = 0.7
# So many go out together, if they are small.
TOGETHER: Final = 32
TOGETHER_BYTES: Final = 256 * 1024
_Item = TypeVar("_Item")
# The area of cases that claim sizes, or are large.
CLAIMS: Final = "resources"
# A large message two wrappers deep: its memory can be freed before it is read.
FREED: Final = "wrapper_insides.large_message_in_two_wrappers["
# Entries of an input that are looked at to see what it takes to read it.
LOOK: Final = 64

_MAGIC_AT: Final = 16
_CODEC_AT: Final = {0: 17, 1: 17, 2: 22}
_CODEC_BITS: Final = 0x07


def unsupported(case: Case, hello: HelloReply) -> Skipped | None:
    """The reason why *case* is not sent to this testee; None if it is."""
    if isinstance(case.input, Scenario):
        return None
    if case.op == "encode":
        if not isinstance(case.input, Batch):
            return Skipped("a batch made from a recipe is not sent in this version", by_runner=True)
        return _unannounced(hello.encode, "encode", {(case.input.magic, case.input.compression)})
    if hello.consumer and (why := unfollowable(case)):
        return Skipped(why, by_runner=True)
    if isinstance(case.input, bytes):
        return unsupported_bytes(case.input, hello)
    if isinstance(case.input, Recipe):
        return _unannounced(hello.decode, "decode", {recipe_format(case.input)})
    return None


def unsupported_bytes(data: bytes, hello: HelloReply) -> Skipped | None:
    """Why *data* is not given to this testee to decode; None if it is."""
    return _unannounced(hello.decode, "decode", set(needed_formats(data)))


def _unannounced(capability: Capability, op: str, needs: set[tuple[int, str]]) -> Skipped | None:
    if op == "encode" and not capability.magics:
        return Skipped("announces no encode", by_runner=True)
    for magic, compression in sorted(needs):
        # An empty list restricts nothing; formats that cannot be announced are sent anyway.
        if capability.magics and magic in (0, 1, 2) and magic not in capability.magics:
            return Skipped(f"announces no {op} of magic {magic}", by_runner=True)
        if capability.compressions and compression and compression not in capability.compressions:
            return Skipped(f"announces no {op} of {compression}", by_runner=True)
    return None


def needed_formats(data: bytes) -> Iterator[tuple[int, str]]:
    """Magic and compression of each entry, as far as its bytes can be believed; "" for no such codec."""
    at = 0
    for _ in range(LOOK):
        if len(data) - at <= _MAGIC_AT:
            return
        magic = data[at + _MAGIC_AT]
        known = magic in _CODEC_AT and at + _CODEC_AT[magic] < len(data)
        codec = data[at + _CODEC_AT[magic]] & _CODEC_BITS if known else len(COMPRESSIONS)
        yield magic, COMPRESSIONS[codec] if codec < len(COMPRESSIONS) else ""
        size = int.from_bytes(data[at + 8 : at + LOG_OVERHEAD], "big", signed=True)
        if size < HEADER_SIZE_UP_TO_MAGIC - LOG_OVERHEAD:
            return
        at += LOG_OVERHEAD + size


def is_relevant(case: Case, *, append: bool, deaf: bool = False) -> bool:
    """Whether *case* is for this codec.

    Args:
        case: the case.
        append: it announces `append`, so that one payload to a fresh log is for it.
        deaf: it delivers records, and does not take aborted transactions.
    """
    if deaf and case.aborted is not None:
        return False
    if isinstance(case.input, Scenario):
        # A connection that is closed is no answer that a testee could give.
        answered = not any(answer.closed for answer in case.expect.answers)
        return append and case.op == "append" and case.input.is_plain() and answered
    return True


def append_request(scenario: Scenario) -> AppendRequest:
    """The append request for the one payload of *scenario*, to the newest release that it concerns."""
    (step,) = scenario.produces()
    release = scenario.until or NEWEST_RELEASE
    return AppendRequest(
        id="",
        data=step_payload(step),
        release=release,
        api_version=version_of(step, release),
        log_end_offset=0,
        leader_epoch=0,
        config=scenario.config,
        now_ms=NOW,
    )


def request_for(case: Case, *, committed: bool = False) -> CaseRequest:
    """The request for *case*; inputs from recipes are built now, and are heavy.

    A testee with `committed` gets the aborted transactions; others read their records like all other records.
    """
    return CaseRequest(
        subject=_subject(case, committed=committed),
        heavy=is_heavy(case),
        time_factor=time_factor(case),
        timeout_group=timeout_group(case),
        fresh=needs_fresh_process(case),
    )


def _subject(case: Case, *, committed: bool) -> bytes | WireBatch | AppendRequest | DecodeRequest:
    if isinstance(case.input, Scenario):
        return append_request(case.input)
    given = input_of(case)
    if isinstance(given, Batch):
        return to_wire(given)
    if committed and case.aborted is not None:
        return DecodeRequest(id="", data=given, aborted=list(case.aborted))
    return given


def is_heavy(case: Case) -> bool:
    """Whether its bytes are built when it is sent."""
    if isinstance(case.input, Scenario):
        return any(step.data is UNSET for step in case.input.produces())
    return isinstance(case.input, Recipe)


def needs_fresh_process(case: Case) -> bool:
    """Whether what a codec does with its memory for *case* may depend on what its process did before.

    A runtime that has memory left of another case fills it with zeros for a claim, and so takes it; new memory of
    the system it does not touch.  A codec that reads what it has freed crashes if the allocator gave a large block
    back to the system; after other large blocks it keeps them, and the codec reads what was there.
    """
    return is_heavy(case) or case.area == CLAIMS or case.id.startswith(FREED)


def group_cases(cases: Iterable[Case], at_once: int) -> Iterator[list[Case]]:
    """Cases in groups that are sent together: of one kind, and not too many.

    Those that need a fresh process, or may keep a CPU busy for long, go alone and first: several workers share them.
    """
    plain: dict[tuple[str, bool], list[Case]] = {}
    for case in cases:
        if needs_fresh_process(case) or may_loop(case):
            yield [case]
        else:
            plain.setdefault((case.op, case.aborted is not None), []).append(case)
    for same in plain.values():
        yield from split_groups(same, _input_size, max(1, min(TOGETHER, at_once)))


def _input_size(case: Case) -> int:
    return len(case.input) if isinstance(case.input, bytes) else 0


def split_groups(items: Iterable[_Item], size: Callable[[_Item], int], most: int = TOGETHER) -> Iterator[list[_Item]]:
    """*items* in groups that are sent together: at most *most* of them, with `TOGETHER_BYTES` of *size*."""
    group: list[_Item] = []
    total = 0
    for item in items:
        if group and (len(group) >= most or total + size(item) > TOGETHER_BYTES):
            yield group
            group, total = [], 0
        group.append(item)
        total += size(item)
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """The cases of a run that have no result yet.

    Attributes:
        groups: cases that are sent together, in the order in which they are sent.
        skipped: cases beyond what the testee announced, with the reason.
    """

    groups: Sequence[Sequence[Case]]
    skipped: Sequence[tuple[Case, Skipped]]

    @property
    def count(self) -> int:
        """How many cases are sent."""
        return sum(map(len, self.groups))


def relevant_cases(cases: Iterable[Case], hello: HelloReply) -> list[Case]:
    """The cases that concern the testee that announced *hello*."""
    deaf = hello.consumer and not hello.committed
    return [case for case in cases if is_relevant(case, append=hello.append, deaf=deaf)]


def plan_requests(cases: Iterable[Case], hello: HelloReply, known: Collection[str], jobs: int) -> RequestPlan:
    """Plan the requests for *cases*, except those whose ids are *known*, to a testee with *jobs* processes at work."""
    sent: list[Case] = []
    skipped: list[tuple[Case, Skipped]] = []
    for case in cases:
        if case.id in known:
            continue
        if reason := unsupported(case, hello):
            skipped.append((case, reason))
        else:
            sent.append(case)
    at_once = -(-len(sent) // (jobs * 4))
    return RequestPlan(list(group_cases(sent, min(at_once, TOGETHER))), skipped)
