"""Observations: the possible results of one case in a testee.

    Decoded, Encoded        it gave data
    Consumed                it delivered records as a consumer does, without batch boundaries
    Appended                it said what a broker answers and stores
    Played                  a broker's answers to the steps of a scenario
    Refused                 it reported an error
    Skipped                 it said that it does not do this
    NotSent                the runner had given it up
    Crashed, Hung, Exceeded, Garbled    the sandbox had to say it for the testee

Observations are values; nothing that a testee does is an exception of ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET

from kafka_conformance.sanitize import printable
from kafka_conformance.testees.protocol import CodecAnswer, CodecReply, Refusal
from kafka_corpus.scenario import StepAnswer
from kafka_corpus.wire import WireBatch, WireRecord


@dataclass(frozen=True, slots=True)
class Decoded:
    """Batches; with an error, those that it delivered before it."""

    batches: tuple[WireBatch, ...]
    error: Refusal | None = None


@dataclass(frozen=True, slots=True)
class ConsumedRecords:
    """Records as a consumer delivered them.

    Attributes:
        records: all of them, in order; with an error, those before it.
        next_offset: the offset of its last fetch; None if unknown.
        stalled: whether it would ask for that for ever; with an error, whether the call after it never returns.
        error: what it reported.
    """

    records: tuple[WireRecord, ...]
    next_offset: int | None = None
    stalled: bool = False
    error: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Encoded:
    """Bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Appended:
    """Kafka's error code; with 0, the first offset and the bytes stored."""

    error_code: int
    base_offset: int
    stored: bytes


@dataclass(frozen=True, slots=True)
class ScenarioAnswers:
    """A broker's answer to each step."""

    answers: tuple[StepAnswer, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """An error and nothing else."""

    error: Refusal


@dataclass(frozen=True, slots=True)
class Skipped:
    """The reason why a case was skipped; `by_runner` if it was never sent."""

    reason: str
    by_runner: bool = False


@dataclass(frozen=True, slots=True)
class NotSent:
    """The runner had given the testee up, and did not send the case."""

    reason: str


@dataclass(frozen=True, slots=True)
class Crashed:
    """The process ended with the question in hand."""

    signal: int | None = None
    exit_code: int | None = None
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class Hung:
    """No answer within the time limit, in seconds; with `stderr`, none ever, as its runtime said there."""

    seconds: float
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class Exceeded:
    """It took more memory than it may, or wrote more than is read.

    Attributes:
        what: which of them, in words.
        stderr: its last words.
        taken: resident bytes that it took; 0 if unknown.
        read: bytes of the input; 0 if it had none.
    """

    what: str
    stderr: str = ""
    taken: int = 0
    read: int = 0


@dataclass(frozen=True, slots=True)
class Garbled:
    """It answered, but not with a reply."""

    why: str


# The longest of ours has 23 characters.
MAX_KIND: Final = 40

Observation = (
    Decoded
    | ConsumedRecords
    | Encoded
    | Appended
    | ScenarioAnswers
    | Refused
    | Skipped
    | NotSent
    | Crashed
    | Hung
    | Exceeded
    | Garbled
)


def observe(answer: CodecAnswer | CodecReply) -> Observation:
    """The observation that *answer* stands for."""
    error = None if answer.error is UNSET else _tamed(answer.error)
    if answer.batches is not UNSET:
        return Decoded(tuple(answer.batches), error)
    if answer.records is not UNSET:
        return _consumed(answer, error)
    if error is not None:
        return Refused(error)
    if answer.skipped is not UNSET:
        return Skipped(printable(answer.skipped))
    if answer.data is not UNSET:
        return Encoded(answer.data)
    if answer.error_code is not UNSET:
        base_offset = -1 if answer.base_offset is UNSET else answer.base_offset
        return Appended(answer.error_code, base_offset, b"" if answer.stored is UNSET else answer.stored)
    return Garbled("a reply with neither batches, records, data, error, error_code nor skipped")


def _consumed(answer: CodecAnswer | CodecReply, error: Refusal | None) -> ConsumedRecords:
    records = () if answer.records is UNSET else tuple(answer.records)
    next_offset = None if answer.next_offset is UNSET else answer.next_offset
    return ConsumedRecords(records, next_offset, answer.stalled is True, error)


def _tamed(error: Refusal) -> Refusal:
    return Refusal(printable(error.kind, MAX_KIND), printable(error.message))


def how_it_ended(ending: Crashed | Exceeded | Hung) -> str:
    """The end of a testee in words."""
    if isinstance(ending, Exceeded):
        how = ending.what
    elif isinstance(ending, Hung):
        how = "it would wait for ever" if ending.stderr else f"no answer within {ending.seconds:.1f} s"
    elif ending.signal is not None:
        how = f"ended by signal {ending.signal}"
    elif ending.exit_code is not None:
        how = f"ended with exit code {ending.exit_code}"
    else:
        how = "ended"
    return f"{how}: {ending.stderr}" if ending.stderr else how


# Names of results differ from the lower-cased class name where they were published earlier.
_KINDS: Final[dict[type, str]] = {ConsumedRecords: "consumed", ScenarioAnswers: "played", NotSent: "not_sent"}


def observation_kind(observation: Observation) -> str:
    """The kind of an observation as result lines and messages name it, such as `decoded` or `crashed`."""
    return _KINDS.get(type(observation)) or type(observation).__name__.lower()


# Bytes of a batch that a result line keeps if a finding is about them.
MAX_WRITTEN: Final = 1024


def observation_summary(observation: Observation, *, finding: bool = False) -> dict[str, Any]:
    """The observation as a result line keeps it: its name and its small fields; of a *finding*, the written bytes too.

    `written` is hex, of the first `MAX_WRITTEN` bytes at most; `bytes` counts them all.
    """
    written = {"written": observation.data[:MAX_WRITTEN].hex()} if finding and isinstance(observation, Encoded) else {}
    return {"kind": observation_kind(observation)} | _small_fields(observation) | written


def _small_fields(observation: Observation) -> dict[str, Any]:
    match observation:
        case Decoded(batches, error):
            return {"batches": len(batches)} | _error(error)
        case ConsumedRecords(records, next_offset, stalled, error):
            position = {} if next_offset is None else {"next_offset": next_offset}
            return {"records": len(records)} | position | ({"stalled": True} if stalled else {}) | _error(error)
        case Refused(error):
            return _error(error)
        case Encoded(data):
            return {"bytes": len(data)}
        case Appended(error_code, base_offset, stored):
            return {"error_code": error_code, "base_offset": base_offset, "bytes": len(stored)}
        case ScenarioAnswers(answers):
            return {"error_codes": [answer.error_code for answer in answers]}
    return _ending_fields(observation)


def _ending_fields(observation: Observation) -> dict[str, Any]:
    match observation:
        case Skipped(reason, by_runner):
            return {"reason": reason} | ({"by_runner": True} if by_runner else {})
        case NotSent(reason):
            return {"reason": reason}
        case Crashed(signal, exit_code, stderr):
            return {"signal": signal, "exit_code": exit_code, "stderr": stderr}
        case Hung(seconds, stderr):
            return {"seconds": round(seconds, 3)} | ({"stderr": stderr} if stderr else {})
        case Exceeded(what, stderr, taken, read):
            return {"what": what, "stderr": stderr} | ({"taken": taken, "read": read} if taken else {})
        case Garbled(why):
            return {"why": why}
    return {}


def _error(error: Refusal | None) -> dict[str, Any]:
    return {} if error is None else {"error": {"kind": error.kind, "message": error.message}}
