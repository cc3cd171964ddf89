"""Encoders under fuzzing: testees encode batches, and the bytes are judged."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec

from kafka_conformance.judge.observation import Crashed, Exceeded, Garbled, Hung, Observation, Refused
from kafka_conformance.judge.verdict import judge
from kafka_conformance.runner.requests import CaseRequest, unsupported
from kafka_conformance.runner.results import sanitize_hello
from kafka_conformance.runner.run import trivial_decodes
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.connection import BadConnect, CannotRun
from kafka_conformance.testees.known import connect
from kafka_conformance.testees.protocol import HelloReply
from kafka_corpus.wire import WireBatch, from_wire, to_wire
from kafka_fuzz.encode.values import Writing, simpler, writing
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.shrink.search import DEFAULT, NOT_REPRODUCED, Budget, NotShown, Verdicts
from kafka_fuzz.shrink.worker import Done
from kafka_fuzz.targets.codecs import TOLERATED
from kafka_fuzz.targets.outcome import ENDINGS, Outcome, OutcomeClass, ending_cause, normalized_message, value_relation
from kafka_records import Batch, RecordFormatError
from kafka_records.constants import MAGIC_VALUE_V2

# Crashes and hangs of a testee with one value before requests with it are skipped.
ENOUGH: Final = 2


@dataclass(slots=True)
class EncodeTestee:
    """A testee that encodes, with its crashes and hangs by value."""

    name: str
    sandbox: Sandbox
    hello: HelloReply
    fallen: Counter[str] = field(default_factory=Counter)
    executions: int = 0
    skipped: int = 0

    @property
    def writes(self) -> bool:
        """Whether the testee announces that it encodes."""
        return bool(self.hello.encode.magics)

    def observe(self, turn: Sequence[Writing]) -> list[tuple[Writing, Observation]]:
        """The observations of those requests of *turn* that the testee supports."""
        wanted = [each for each in turn if unsupported(each.case, self.hello) is None]
        spared = [each for each in wanted if self.fallen[each.value] < ENOUGH]
        self.skipped += len(wanted) - len(spared)
        self.executions += len(spared)
        answers = self.sandbox.ask([CaseRequest(to_wire(each.batch), timeout_group=each.value) for each in spared])
        return [(each, answered.observation) for each, answered in zip(spared, answers, strict=True)]


def started(name: str, stack: ExitStack) -> EncodeTestee:
    """The testee called *name*, until *stack* is closed.  Raises `BadConnect`, `CannotRun`."""
    sandbox = Sandbox(connect(name))
    stack.callback(sandbox.close)
    writer = EncodeTestee(name, sandbox, sanitize_hello(sandbox.hello()))
    if writer.writes:
        sandbox.calibrate(trivial_decodes())
    return writer


# A prefix of keys, so that findings of encoders differ from those of decoders.
WRITING: Final = "writing"


def encode_outcome(testee: str, writing: Writing, seen: Observation) -> Outcome:
    """The outcome of *testee* for one encode request."""
    era = "v2" if writing.batch.magic == MAGIC_VALUE_V2 else "legacy"
    if isinstance(seen, Crashed | Hung | Exceeded | Garbled):
        detail, function = ending_cause(seen)
        why = getattr(seen, "stderr", "") or getattr(seen, "why", "")
        return Outcome(testee, ENDINGS[type(seen)], f"{WRITING} {detail}".strip(), function, writing.value, why)
    verdict = judge(writing.case, seen)
    if verdict.outcome in TOLERATED:
        return Outcome(testee, "refused" if isinstance(seen, Refused) else "ok")
    kind: OutcomeClass = verdict.outcome  # type: ignore[assignment]  # severities are outcome classes
    field = normalized_message(verdict.field).replace("[#]", "")
    relation = value_relation(verdict.difference) if verdict.difference else ""
    detail, where = f"{field} {relation}".strip(), era
    if isinstance(seen, Refused):
        detail = normalized_message(seen.error.message or seen.error.kind)
    elif kind == "accepts_invalid":
        detail, where = "", writing.rule
    return Outcome(testee, kind, f"{WRITING} {detail}".strip(), where, writing.value, verdict.why)


def mutant_of(writing: Writing) -> Mutant:
    """*writing* as a mutant, with the batch as JSON of the protocol."""
    data = msgspec.json.encode(to_wire(writing.batch))
    return Mutant(data, "model", (writing.value, writing.variant), None, writing.cell)


# Candidates that are sent to a testee at once.
MANY: Final = 16


def finding_batch(data: bytes) -> Batch:
    """The batch in *data*, the input of an encoder's finding; ValueError if there is none."""
    try:
        return from_wire(msgspec.json.decode(data, type=WireBatch))
    except (msgspec.MsgspecError, RecordFormatError, TypeError, AttributeError) as error:
        raise ValueError(f"the input is not a batch to encode: {error}") from None


def data_of(batch: Batch) -> bytes:
    """*batch* as the input of a finding."""
    return msgspec.json.encode(to_wire(batch))


class Writers:
    """The encoder with the finding, and others whose outcomes have to stay equal."""

    def __init__(self, specs: Sequence[str]) -> None:
        """Start the testees.  Raises `BadConnect`, `CannotRun`."""
        self._stack = ExitStack()
        try:
            self.writers = [started(spec, self._stack) for spec in specs]
        except (BadConnect, CannotRun):
            self.close()
            raise
        self.version = self.writers[0].hello.version

    def verdicts(self, many: Sequence[Batch]) -> list[tuple[Outcome, Verdicts]]:
        """The outcomes of all testees for each request; a testee without the capability has no finding."""
        requests = [writing(batch, "", "") for batch in many]
        first, *others = ([*_outcomes(writer, requests)] for writer in self.writers)
        return [
            (outcome, Verdicts(each.rule, outcome.bucket, tuple(rest[at].kind for rest in others)))
            for at, (outcome, each) in enumerate(zip(first, requests, strict=True))
        ]

    def shrink(self, data: bytes, *, budget: Budget = DEFAULT, co_testees: Sequence[str] = ()) -> Done:
        """Shrink the batch in *data*; findings of encoders have no co-testees.

        Raises:
            NotShown: *data* is not a batch, or the finding is not reproduced.
        """
        del co_testees
        try:
            best = finding_batch(data)
        except ValueError as error:
            raise NotShown(str(error)) from None
        ((outcome, wanted),) = self.verdicts([best])
        if not outcome.is_finding:
            raise NotShown(NOT_REPRODUCED)
        began, runs, tried, complete = time.monotonic(), 1, {best}, True
        candidates = simpler(best)
        while some := list(islice((each for each in candidates if each not in tried), MANY)):
            if runs >= budget.runs or time.monotonic() - began > budget.seconds:
                complete = False
                break
            runs += len(some)
            tried.update(some)
            shown = [each for each, (_, verdict) in zip(some, self.verdicts(some), strict=True) if verdict == wanted]
            if shown:
                best, candidates = shown[0], simpler(shown[0])
                tried.difference_update(shown[1:])
        ((outcome, _),) = self.verdicts([best])
        return Done(data_of(best), outcome, runs, time.monotonic() - began, complete)

    def close(self) -> None:
        """End the testees."""
        self._stack.close()


def _outcomes(writer: EncodeTestee, requests: Sequence[Writing]) -> Iterator[Outcome]:
    seen = {id(each): observed for each, observed in writer.observe(requests)}
    for each in requests:
        yield encode_outcome(writer.name, each, seen[id(each)]) if id(each) in seen else Outcome(writer.name, "ok")
