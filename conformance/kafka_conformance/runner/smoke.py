"""Is an adapter sound?  The least that shows it, before 2,000 cases are run through it.

Every check is one line of talk.  Lines in both directions are validated: ours
before they go out, the testee's by the JSON Schema where `jsonschema` is
installed, else by the models that the schema is made from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

import msgspec

from kafka_conformance.judge.observation import (
    ConsumedRecords,
    Decoded,
    Observation,
    Refused,
    Skipped,
    how_it_ended,
    observation_kind,
    observe,
)
from kafka_conformance.judge.verdict import judge
from kafka_conformance.process.child import LOADS, Child, ReadFailure
from kafka_conformance.process.starting import Starter
from kafka_conformance.process.time_limits import TimeLimit
from kafka_conformance.sanitize import printable
from kafka_conformance.testees import protocol
from kafka_conformance.testees.connection import ConnectionSpec
from kafka_conformance.testees.protocol import CodecReply, HelloReply, Stray
from kafka_corpus.case import Case, Expectation
from kafka_corpus.wire import to_wire
from kafka_records import Batch, Record, RecordFormatError, decode, encode

# What a small question may take, once the testee is up.
SECONDS: Final = 10.0
TIMESTAMP: Final = 1_724_709_879_130


@dataclass(frozen=True, slots=True)
class SmokeCheck:
    """One thing that was looked at; `problem` is empty if it is as it should be."""

    name: str
    problem: str = ""
    note: str = ""

    @property
    def passed(self) -> bool:
        """Whether it is as it should be."""
        return not self.problem


class _Stop(Exception):
    """The testee has ended or is silent, so further checks are pointless."""


@dataclass(slots=True)
class _Talk:
    child: Child
    hello_seconds: float
    strays: int = 0
    first_stray: str = ""
    schema_problem: str = ""

    def ask(self, line: bytes, seconds: float = SECONDS) -> bytes:
        """Send one line, give the next one that is JSON of ours."""
        self.child.send(line)
        return self.next(seconds)

    def next(self, seconds: float = SECONDS) -> bytes:
        end = time.monotonic() + seconds
        while True:
            line = self.child.read_line(TimeLimit(seconds))
            if isinstance(line, ReadFailure):
                raise _Stop(_trouble(self.child, line))
            if line.lstrip().startswith(b"{"):
                self._validate(line)
                return line
            self.strays += 1
            self.first_stray = self.first_stray or printable(line)
            if time.monotonic() > end:
                raise _Stop(f"no reply, but {self.strays:,} other lines; the first was {self.first_stray!r}")

    def _validate(self, line: bytes) -> None:
        self.schema_problem = self.schema_problem or schema_problem(line)


def _trouble(child: Child, trouble: ReadFailure) -> str:
    if trouble is ReadFailure.ENDED:
        return f"it ended: {how_it_ended(child.ending())}"
    return f"no reply ({trouble.value}); {child.stderr_tail()}".rstrip("; ")


def smoke(connection: ConnectionSpec) -> Iterator[SmokeCheck]:
    """Run the checks on the testee of *connection*; yield each as it ends."""
    starter = Starter(connection, greets=False)
    starter.join()
    child = Child(connection, starter)
    talk = _Talk(child, connection.hello_seconds)
    try:
        hello = yield from _say_hello(talk)
        for check in (_decodes, _malformed, _order, _unknown):
            yield from check(talk, hello)
        yield SmokeCheck("every line fits the JSON Schema", talk.schema_problem, how_validated())
        yield SmokeCheck("standard output", note=_strays(talk))
        yield _broken_line(talk)
    except _Stop as stop:
        yield SmokeCheck("it answers", str(stop))
    finally:
        child.dismiss()
        starter.leave()


def _strays(talk: _Talk) -> str:
    if not talk.strays:
        return "nothing but replies"
    return f"{talk.strays} other lines, which are tolerated: {talk.first_stray}"


def _say_hello(talk: _Talk) -> Generator[SmokeCheck, None, HelloReply]:
    line = talk.ask(protocol.request_line(protocol.HelloRequest()), talk.hello_seconds * LOADS)
    hello = protocol.parse_hello(line)
    if isinstance(hello, Stray):
        yield SmokeCheck("hello", f"not a hello reply: {hello.text}")
        raise _Stop("there is no hello to go on with")
    if isinstance(hello, protocol.HelloRefusal):
        yield SmokeCheck("hello", f"it cannot run: {printable(hello.error.message)}")
        raise _Stop("there is no hello to go on with")
    problem = "" if hello.protocol == protocol.PROTOCOL else f"it speaks protocol {hello.protocol}"
    problem = problem or protocol.name_problem(hello)
    unknown = set(hello.decode.magics + hello.encode.magics) - {0, 1, 2}
    problem = problem or (f"it announces magic {sorted(unknown)}" if unknown else "")
    about = ", ".join(filter(None, (f"{hello.name} {hello.version}", hello.language, hello.runtime)))
    yield SmokeCheck("hello", problem, printable(about))
    return hello


def sample_case(magic: int, base_offset: int = 0) -> Case:
    """A small valid batch of *magic*, with its right answer."""
    timestamp = -1 if magic == 0 else TIMESTAMP
    record = Record(base_offset, timestamp, b"key", b"value")
    type_: Any = "none" if magic == 0 else "create"
    batch = Batch(
        magic=magic,
        base_offset=base_offset,
        last_offset=base_offset,
        timestamp_type=type_,
        max_timestamp=timestamp,
        records=(record,),
    )
    data = encode(batch)
    expect = Expectation(verdict="valid", batches=decode(data))
    return Case(id=f"smoke.magic_{magic}", title="", rules=(), area="smoke", op="decode", input=data, expect=expect)


def _magics_to_decode(hello: HelloReply) -> Sequence[int]:
    """Those that are announced; of a client that announces none, the newest, unless it only writes."""
    writes_only = bool(hello.encode.magics) and not hello.consumer
    return hello.decode.magics or ([] if writes_only else [2])


def _decodes(talk: _Talk, hello: HelloReply) -> Iterator[SmokeCheck]:
    for magic in _magics_to_decode(hello):
        if magic not in (0, 1, 2):
            continue
        case = sample_case(magic)
        yield _check_decode(talk, f"decodes a batch of magic {magic}", case)
        assert isinstance(case.input, bytes)
        # Offsets go up, or a consumer would leave the second out.
        second = sample_case(magic, base_offset=1).input
        assert isinstance(second, bytes)
        doubled = replace(case, input=case.input + second + second[:-1])
        expect = Expectation(verdict="valid", batches=decode(doubled.input))  # type: ignore[arg-type]  # bytes, as above
        doubled = replace(doubled, expect=expect)
        yield _check_decode(talk, f"two of magic {magic} and a partial one", doubled, partial=True)
    yield from _check_many(talk, hello)
    if 2 in hello.encode.magics:
        yield _check_encode(talk)
        yield _check_unusual(talk)


def _check_decode(talk: _Talk, name: str, case: Case, *, partial: bool = False) -> SmokeCheck:
    """With a *partial* batch at the end, a codec may refuse that one, if the adapter shows those before it."""
    assert isinstance(case.input, bytes)
    reply = _reply(talk, protocol.DecodeRequest(id=name, data=case.input))
    if isinstance(reply, str):
        return SmokeCheck(name, reply)
    observation = observe(reply)
    verdict = judge(case, observation)
    if partial and verdict.outcome == "rejects_valid" and _delivered(observation) == 2:
        return SmokeCheck(name, note=f"the partial one is refused: {verdict.why}")
    left_out = f"leaves out {', '.join(verdict.left_out)}" if verdict.left_out and not partial else ""
    return SmokeCheck(name, "" if verdict.outcome == "agree" else f"{verdict.outcome}: {verdict.why}", left_out)


def _delivered(observation: Observation) -> int:
    match observation:
        case Decoded(batches, _):
            return len(batches)
        case ConsumedRecords(records):
            return len(records)
    return 0


def _reply(talk: _Talk, request: protocol.DecodeRequest | protocol.EncodeRequest) -> CodecReply | str:
    reply = protocol.parse_reply(talk.ask(protocol.request_line(request)))
    if isinstance(reply, Stray):
        return f"not a reply: {reply.text}"
    if reply.id != request.id:
        return f"its id is {reply.id!r}, ours was {request.id!r}"
    return reply if isinstance(reply, CodecReply) else f"not a reply: {reply.why}"


def _check_many(talk: _Talk, hello: HelloReply) -> Iterator[SmokeCheck]:
    if not hello.many:
        return
    data = encode(_one())
    reply = _reply(talk, protocol.DecodeRequest(id="many", many=[data, data]))
    if isinstance(reply, str):
        yield SmokeCheck("answers many at once", reply)
        return
    count = len(reply.many) if isinstance(reply.many, list) else 0
    yield SmokeCheck("answers many at once", "" if count == 2 else f"{count} answers to 2 inputs")


def _one() -> Batch:
    record = Record(0, TIMESTAMP, b"key", b"value")
    return Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=TIMESTAMP, records=(record,))


def _check_encode(talk: _Talk) -> SmokeCheck:
    reply = _reply(talk, protocol.EncodeRequest(id="encode", batch=to_wire(_one())))
    if isinstance(reply, str):
        return SmokeCheck("encodes a batch of magic 2", reply)
    if isinstance(reply.skipped, str):
        return SmokeCheck("encodes a batch of magic 2", f"a plain batch is skipped: {printable(reply.skipped)}")
    if not isinstance(reply.data, bytes):
        return SmokeCheck("encodes a batch of magic 2", "there is no data in its reply")
    try:
        same = decode(reply.data)[0].records == _one().records
    except (RecordFormatError, IndexError) as error:
        return SmokeCheck("encodes a batch of magic 2", f"the reference cannot read it: {error}")
    return SmokeCheck("encodes a batch of magic 2", "" if same else "other records come back")


INEXPRESSIBLE: Final = "answer `skipped` with the reason if the writer's API cannot express a batch"


def unusual_case() -> Case:
    """An encode request that most writers cannot express: offsets that do not start at 0, a leader epoch."""
    batch = Batch(
        magic=2,
        base_offset=1000,
        last_offset=1000,
        max_timestamp=TIMESTAMP,
        partition_leader_epoch=7,
        records=(Record(1000, TIMESTAMP, b"key", b"value"),),
    )
    expect = Expectation(verdict="valid", data=encode(batch))
    return Case(id="smoke.unusual", title="", rules=(), area="smoke", op="encode", input=batch, expect=expect)


def _check_unusual(talk: _Talk) -> SmokeCheck:
    """A batch is written as requested, or skipped: another batch, or an error, would be a finding about the codec."""
    name = "writes or skips an unusual batch"
    case = unusual_case()
    assert isinstance(case.input, Batch)
    reply = _reply(talk, protocol.EncodeRequest(id="unusual", batch=to_wire(case.input)))
    if isinstance(reply, str):
        return SmokeCheck(name, reply)
    verdict = judge(case, observe(reply))
    if verdict.outcome in ("agree", "skipped"):
        return SmokeCheck(name, note=f"it is skipped: {verdict.why}" if verdict.why else "")
    return SmokeCheck(name, f"{verdict.outcome}: {verdict.why}; {INEXPRESSIBLE}")


def _malformed(talk: _Talk, _hello: HelloReply) -> Iterator[SmokeCheck]:
    """Garbage after the header: a codec that does not check the CRC fails too."""
    data = encode(_one())
    broken = data[:61] + b"\xff" * (len(data) - 61)
    reply = _reply(talk, protocol.DecodeRequest(id="malformed", data=broken))
    if isinstance(reply, str):
        yield SmokeCheck("an error for a malformed batch", reply)
        return
    observation = observe(reply)
    # A client that reports nothing and requests the batch again and again has not taken it either.
    refused = (
        isinstance(observation, Refused | Skipped)
        or (isinstance(observation, Decoded | ConsumedRecords) and observation.error is not None)
        or (isinstance(observation, ConsumedRecords) and observation.stalled)
    )
    yield SmokeCheck("an error for a malformed batch", "" if refused else f"it answers {observation_kind(observation)}")


def _order(talk: _Talk, _hello: HelloReply) -> Iterator[SmokeCheck]:
    data = encode(_one())
    ids = [f"order-{number}" for number in range(8)]
    talk.child.send(b"".join(protocol.request_line(protocol.DecodeRequest(id=name, data=data)) for name in ids))
    replies = [protocol.parse_reply(talk.next()) for _ in ids]
    got = [getattr(reply, "id", None) for reply in replies]
    yield SmokeCheck("replies in order", "" if got == ids else f"ids came back as {', '.join(map(str, got))}")


def _unknown(talk: _Talk, _hello: HelloReply) -> Iterator[SmokeCheck]:
    line = talk.ask(b'{"id":"unknown","op":"no_such_op"}\n')
    reply = protocol.parse_reply(line)
    answered = isinstance(reply, CodecReply) and not isinstance(observe(reply), Decoded)
    yield SmokeCheck("an unknown op is an error or skipped", "" if answered else f"it answers {printable(line)}")


def _broken_line(talk: _Talk) -> SmokeCheck:
    """The effect of a line that is not JSON: the protocol never sends one, so the check is informative."""
    name = "a line that is no JSON"
    talk.child.send(b"this is no JSON\n")
    talk.child.send(protocol.request_line(protocol.DecodeRequest(id="after", data=b"")))
    try:
        first = protocol.parse_reply(talk.next())
        if isinstance(first, CodecReply) and first.id == "after":
            return SmokeCheck(name, note="ignored")
        talk.next()
    except _Stop as stop:
        return SmokeCheck(name, note=f"not survived, which is allowed: {stop}")
    return SmokeCheck(name, note="answered with an error")


@cache
def _validator() -> Callable[[Any], str] | None:
    if find_spec("jsonschema") is None:
        return None
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    checked = Draft202012Validator(protocol.build_protocol_schema() | {"anyOf": [{"$ref": "#/$defs/reply"}]})

    def problem(document: Any) -> str:
        error = best_match(checked.iter_errors(document))
        return "" if error is None else f"{error.json_path}: {error.message}"

    return problem


def how_validated() -> str:
    """The validator for lines: its name, or why there is none."""
    return "by jsonschema" if _validator() else "by the models; install jsonschema to use the schema itself"


def schema_problem(line: bytes) -> str:
    """The schema error of a testee's *line*; empty if valid.  Null counts as a missing field."""
    try:
        document = protocol.without_nulls(msgspec.json.decode(line))
    except ValueError as error:
        return f"{printable(line)}: {error}"
    problem = (_validator() or _model_problem)(document)
    return f"{printable(line, 80)}: {printable(problem)}" if problem else ""


def _model_problem(document: Any) -> str:
    try:
        msgspec.convert(document, HelloReply if "protocol" in document else CodecReply)
    except (msgspec.ValidationError, TypeError) as error:
        return str(error)
    return ""


def passed(checks: Sequence[SmokeCheck]) -> bool:
    """Whether every check passed."""
    return all(check.passed for check in checks)
