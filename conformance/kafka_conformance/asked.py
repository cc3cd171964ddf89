"""What passes between the runner and a sandbox, and the lines that questions become."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kafka_conformance import protocol
from kafka_conformance.observation import Crashed, Exceeded, Garbled, Hung, Observation, how_it_ended, observe
from kafka_conformance.process.child import Trouble
from kafka_conformance.protocol import AppendRequest, DecodeRequest, HelloReply, Misfit, Reply
from kafka_corpus.wire import WireBatch

# So often a fresh process has to end over its first question in one way, before that is believed of others.
PROVEN: Final = 3
# What Go and Rust say of the thread that a program begins in, which is the one that reads questions.
_FIRST: Final = re.compile(r"goroutine 1 [^|]*\[running\]|thread 'main'")
_NUMBERS: Final = re.compile(r"0x[0-9a-f]+|\d+")
# What a testee took more of than it may.
TOO_MUCH: Final = {
    Trouble.GREW: "it took more and more memory, and had not answered when its time was over",
    Trouble.TOO_LONG: f"it wrote a line longer than {protocol.MAX_LINE // 2**20} MiB",
}
# Signals that come from people, process managers and the kernel's memory killer.
_FROM_OUTSIDE: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU})


@dataclass(frozen=True, slots=True)
class Question:
    """Bytes to decode, with aborted transactions or without, a batch to encode or a payload to append.

    Attributes:
        subject: what is asked.
        heavy: asked alone, and may take long.
        family: of what other questions it is a variation.
    """

    subject: bytes | WireBatch | AppendRequest | DecodeRequest
    heavy: bool = False
    family: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    """An observation, what it took in seconds, and how often the process died over it."""

    observation: Observation
    seconds: float
    deaths: int = 0


@dataclass(slots=True)
class Tally:
    """What happened beside the answers.

    A late end is that of a process that had answered all that it was asked, or
    that fell over a question which alone does it no harm.
    """

    starts: int = 0
    strays: int = 0
    first_stray: str = ""
    last_stray: str = ""
    late_ends: int = 0
    first_late_end: str = ""
    waited: float = 0.0  # seconds spent on cases that hung
    answers: int = 0
    unanswered: int = 0

    def stray(self, text: str) -> None:
        """Count a line that is no reply."""
        self.strays += 1
        self.first_stray = self.first_stray or text
        self.last_stray = text

    def late_end(self, ending: Observation) -> None:
        """Count an end that no question is to blame for; nobody else may have brought it about."""
        if isinstance(ending, Crashed | Exceeded | Hung) and not outside(ending):
            self.late_ends += 1
            self.first_late_end = self.first_late_end or how_it_ended(ending)


@dataclass(slots=True)
class Learnt:
    """What was learnt about a testee; all sandboxes of it share this.

    Attributes:
        hello: what it said of itself; None until it did.
        quick: whether it starts at once.
        many: whether it takes `many`; None until it said hello.
        fell: how often it fell over a line of many.
        doubtful: whether it left a trivial question unanswered; then it is asked one by one.
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
    takes_rows: bool | None = None
    hung: set[str] = field(default_factory=set)
    endings: Counter[tuple[object, ...]] = field(default_factory=Counter)
    refuted: set[tuple[object, ...]] = field(default_factory=set)

    def counts(self, ending: Observation, *, fresh: bool, single: bool = False) -> bool:
        """Whether *ending* is the doing of the question in hand.

        That of a *fresh* process is, and is remembered.  In another one memory
        may have run out over what it kept, and what earlier questions left
        behind may throw in a loop of events, or in a thread.  Where there was
        only a *single* one, or the words are those of the first, an ending that
        was the question's own doing often enough, and never anything else, is
        believed.
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

    def hangs_over(self, question: Question) -> bool:
        """Whether it is known to hang over such questions: it had all the time that there is, and needs no more."""
        return question.family in self.hung


def line_of(name: str, question: Question) -> bytes:
    """The line that asks *question*."""
    subject = question.subject
    if isinstance(subject, bytes):
        return protocol.request_line(protocol.DecodeRequest(id=name, data=subject))
    if isinstance(subject, AppendRequest | DecodeRequest):
        return protocol.request_line(msgspec.structs.replace(subject, id=name))
    return protocol.request_line(protocol.EncodeRequest(id=name, batch=subject))


def many_line(name: str, questions: Iterable[Question]) -> bytes:
    """One line that asks all of *questions*, which are bytes."""
    many = [question.subject for question in questions if isinstance(question.subject, bytes)]
    return protocol.request_line(protocol.DecodeRequest(id=name, many=many))


def observe_reply(reply: Reply | Misfit) -> Observation:
    """What a line that names its question amounts to."""
    return observe(reply) if isinstance(reply, Reply) else Garbled(f"not a reply: {reply.why}")


def _mark(ending: Observation) -> tuple[object, ...] | None:
    """What two deaths of one defect share: signal or exit code, and the last words without numbers.

    A signal without a word tells nothing: memory that an earlier case has spoilt ends a process like that.
    """
    if not isinstance(ending, Crashed):
        return None
    words = _NUMBERS.sub("#", ending.stderr)
    return None if ending.signal and not words else (ending.signal, ending.exit_code, words)


def died(observation: Observation) -> bool:
    """Whether the process ended over it."""
    return isinstance(observation, Crashed | Exceeded) or (isinstance(observation, Hung) and bool(observation.stderr))


def outside(observation: Observation) -> bool:
    """Whether somebody else may have ended the process."""
    return isinstance(observation, Crashed) and observation.signal in _FROM_OUTSIDE
