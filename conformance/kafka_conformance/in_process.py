"""Codecs as functions of this process: `check_codec`, with limits on time and memory.

A testee in a process of its own can be killed; a function can only be
interrupted.  So these limits are weaker: a loop in C runs on until it comes
back to Python, and an extension that ends the process when it gets no memory
ends the tests.  Where the system has no such limit, there is none.

from kafka_conformance import check_codec

def test_our_decoder():
    check_codec(our_decode, magics=[2], deviations="deviations.toml")
"""

from __future__ import annotations

import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn, cast

import msgspec

from kafka_conformance.judge.observation import (
    Crashed,
    Decoded,
    Encoded,
    Exceeded,
    Garbled,
    Hung,
    Observation,
    Refused,
    Skipped,
    observation_summary,
)
from kafka_conformance.judge.plain_reading import plain_mark
from kafka_conformance.judge.verdict import Verdict, judge
from kafka_conformance.reports.summary import Report, make
from kafka_conformance.reports.terminal import alike_findings
from kafka_conformance.runner import keeping, results
from kafka_conformance.runner.deviations import Deviation, load_deviations
from kafka_conformance.runner.requests import is_heavy, select, unsupported
from kafka_conformance.runner.results import ResultHeader, ResultLine
from kafka_conformance.runner.smoke import sample_case
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.interface import CodecError, NotDone
from kafka_conformance.testees.protocol import PROTOCOL, Capability, HelloReply, Refusal
from kafka_corpus.case import Case, Op
from kafka_corpus.vector_format import CODEC_OPS, input_of
from kafka_corpus.vectors import corpus_hash, load_vectors
from kafka_corpus.wire import WireBatch, to_wire
from kafka_records import Batch, Kind
from kafka_records.constants import COMPRESSIONS
from kafka_records.rules import rule

# Seconds until an alarm of others that was due while ours was set.
SOON: Final = 0.001
# CPU seconds on top for code in C, which the alarm does not reach.
IN_C: Final = 10
STATM: Final = Path("/proc/self/statm")


class TimeUp(BaseException):
    """The time is up; not an `Exception`, so that a codec does not take it for its own."""


@contextmanager
def resource_limits(seconds: float | None, memory: int | None) -> Iterator[None]:
    """Run the block under limits: *seconds*, and bytes of *memory* on top of what is taken now; None is no limit."""
    with ExitStack() as stack:
        if memory is not None and sys.platform == "linux":
            stack.enter_context(_memory(memory))
        if seconds is not None and _has_alarm(seconds):
            stack.enter_context(_alarm(seconds))
        yield


def _has_alarm(seconds: float) -> bool:
    """Whether there is an alarm to set: on this system, in this thread, and no other (pytest-timeout) is sooner."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return False
    other = signal.getitimer(signal.ITIMER_REAL)[0]
    return other == 0 or other > seconds


def raise_time_up(*_: object) -> NoReturn:
    """The handler of the signals of `resource_limits` and `cpu_limit`."""
    raise TimeUp


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, raise_time_up)
    began = time.monotonic()
    # The alarm repeats: a codec that swallows the first exception meets the next.
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:  # an alarm of others goes on
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), SOON), interval)


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raises `TimeUp` in the block after so many CPU seconds, and ends the process `IN_C` seconds later.

    The caller has to make `raise_time_up` the handler of SIGPROF.
    """
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds) + IN_C, hard))
    # It repeats: a codec that swallows the first exception meets the next.
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@contextmanager
def _memory(most: int) -> Iterator[None]:
    import resource

    taken = int(STATM.read_bytes().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = [limit for limit in (taken + most, soft, hard) if limit != resource.RLIM_INFINITY]
    try:
        resource.setrlimit(resource.RLIMIT_AS, (min(allowed), hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


Given = WireBatch | Batch | Mapping[str, Any]
Decode = Callable[[bytes], Iterable[Given]]
Encode = Callable[[Batch], bytes]
Errors = Mapping[type[Exception], Kind]

MAGICS: Final = (0, 1, 2)
SECONDS: Final = 5.0
MEMORY: Final[int | None] = None
# What raises when an extension in Rust panics: no Exception, and no module to import it from.
PANIC: Final = "PanicException"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecFunctions:
    """Functions of a codec, and the formats that they support.

    Attributes:
        decode: bytes to batches; `check_codec` says which.
        encode: a `kafka_records.Batch` to bytes.
        magics: the formats that they know.
        compressions: the compressions that they know.
        errors: what the codec's exceptions mean; None if kinds of errors are not to be compared.
        seconds: how long one case may take; None for no limit.
        memory: bytes of address space that one case may take; None for no limit.
    """

    decode: Decode | None = None
    encode: Encode | None = None
    name: str = ""
    version: str = ""
    magics: tuple[int, ...] = MAGICS
    compressions: tuple[str, ...] = COMPRESSIONS
    errors: Errors | None = None
    seconds: float | None = SECONDS
    memory: int | None = MEMORY

    def hello(self) -> HelloReply:
        """The hello reply of the codec as a testee."""
        able = Capability(list(self.magics), list(self.compressions))
        return HelloReply(
            protocol=PROTOCOL,
            name=self.name or _name_of(self.decode or self.encode),
            version=self.version,
            language="python",
            runtime=f"{platform.python_implementation()} {platform.python_version()}",
            decode=able if self.decode else Capability(),
            encode=able if self.encode else Capability(),
        )

    def does(self, case: Case) -> bool:
        """Whether there is a function for *case*."""
        return {"decode": self.decode, "encode": self.encode}.get(case.op) is not None

    def check_shape(self) -> None:
        """Raise `TypeError` if `decode` gives something that is no batch, even for the plainest input."""
        plainest = sample_case(2)
        seen = self.observe(plainest) if self.does(plainest) else None
        if isinstance(seen, Garbled):
            raise TypeError(seen.why)

    def observe(self, case: Case) -> Observation:
        """Call the function for *case*; its failures are observations, but an interrupt is raised."""
        given = input_of(case)
        batches: list[WireBatch] = []
        try:
            with resource_limits(self.seconds, self.memory):
                if isinstance(given, Batch):
                    return Encoded(bytes(self._encode(given)))
                for batch in self._decode(given):
                    batches.append(_as_wire(batch))  # noqa: PERF401  # those before an error are kept
            return Decoded(tuple(batches))
        except BaseException as raised:
            return self._of_error(raised, case, batches)

    def _decode(self, data: bytes) -> Iterable[Given]:
        if self.decode is None:
            raise NotDone("there is no decode")
        return self.decode(data)

    def _encode(self, batch: Batch) -> bytes:
        if self.encode is None:
            raise NotDone("there is no encode")
        return self.encode(batch)

    def _of_error(self, raised: BaseException, case: Case, batches: list[WireBatch]) -> Observation:
        match raised:
            case NotDone():
                return Skipped(printable(str(raised)))
            case NotABatch():
                return Garbled(printable(str(raised)))
            case CodecError():
                return _refused(raised.kind, str(raised), raised.batches or batches)
            case MemoryError():
                return Exceeded("it raised MemoryError")
            case Exception():
                text = f"{type(raised).__name__}: {raised}"
                return _refused(self._kind(raised, case), text, batches)
            case TimeUp():
                return Hung(self.seconds or 0.0)
        if isinstance(raised, SystemExit) or type(raised).__name__ == PANIC:
            return Crashed(stderr=printable(f"{type(raised).__name__}: {raised}"))
        raise raised

    def _kind(self, raised: Exception, case: Case) -> str:
        if self.errors is None:
            return case.expect.kinds[0] if case.expect.kinds else "malformed"
        return next((kind for type_, kind in self.errors.items() if isinstance(raised, type_)), "malformed")


class NotABatch(TypeError):
    """`decode` returned a value that is not a batch."""


def _as_wire(given: Given) -> WireBatch:
    if isinstance(given, WireBatch):
        return given
    if isinstance(given, Batch):
        return to_wire(given)
    try:
        # Bytes are bytes: text, as in the protocol's base64, would be a mistake.
        return msgspec.convert(given, WireBatch, builtin_types=(bytes, bytearray, memoryview))
    except msgspec.ValidationError as error:
        raise NotABatch(f"decode gave a batch of another shape: {error}") from error


def _refused(kind: str, message: str, batches: list[WireBatch]) -> Observation:
    refusal = Refusal(kind, printable(message))
    return Decoded(tuple(batches), refusal) if batches else Refused(refusal)


def _name_of(function: object) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', 'codec')}".lstrip(".")


MOST_FINDINGS: Final = 20
# Stands in results where a connect string would.
IN_PROCESS: Final = "in-process"


def check_codec(
    decode: Decode | None = None,
    encode: Encode | None = None,
    *,
    only: str | Sequence[str] = (),
    magics: Collection[int] = MAGICS,
    compressions: Collection[str] = COMPRESSIONS,
    errors: Errors | None = None,
    deviations: str | Path | Sequence[Deviation] = (),
    name: str = "",
    version: str = "",
    heavy: bool = False,
    seconds: float | None = SECONDS,
    memory: int | None = MEMORY,
    result: str | Path | None = None,
    raises: bool = True,
) -> Report:
    """Put the corpus to a codec in this process; raise one `AssertionError` that says what is wrong with it.

    A batch that `decode` gives is a mapping with the fields of the testee
    protocol's BATCH (`{"magic": 2, "records": [{"offset": 0, "key": b"k", ...}]}`;
    keys, values and header keys are bytes), a `kafka_corpus.wire.WireBatch` or
    a `kafka_records.Batch`.  A field that the codec does not expose is left
    out.  `decode` may be a generator: what it gave before an exception counts.
    An exception is a refusal; `NotDone` says that the codec has no such feature.

    Args:
        decode: the batches in some bytes; a partial one at the end is dropped.
        encode: the bytes for a `kafka_records.Batch`.
        only: cases by id, area or rule, with `*` and `?`; all if empty.
        magics: the formats that the codec knows; cases of other formats are skipped.
        compressions: the compressions that it knows, likewise.
        errors: the kind of error that an exception class means, first match
            first, "malformed" for all others; without, kinds are not compared.
        deviations: known deviations, or the TOML file with them; strict, one
            that no longer happens is a failure too.
        name: of the codec, for the summary.
        version: of the codec.
        heavy: ask also for inputs that are made to take all time and memory.
            A testee in a process of its own is the better place for them.
        seconds: how long one case may take; None for no limit.
        memory: bytes of address space that one case may take (Linux).  Without,
            there is no limit; an extension that ends the process when it gets
            no memory would end the tests with it.
        result: where to write the result file, for `kafkaproof report`.
        raises: False gives the report and raises no `AssertionError`.

    Returns:
        The report; `findings`, `by_area()` and `agrees` say most of it.

    Raises:
        AssertionError: something disagrees, or a known deviation no longer happens.
        TypeError: there is neither decode nor encode, or what `decode` gives is no batch.
        ValueError: no case is selected, or the deviations cannot be read.
    """
    if decode is None and encode is None:
        raise TypeError("check_codec needs decode, encode or both")
    codec = CodecFunctions(
        decode=decode, encode=encode, name=name, version=version, magics=tuple(magics), errors=errors,
        compressions=tuple(compressions), seconds=seconds, memory=memory,
    )  # fmt: skip
    codec.check_shape()
    patterns = [only] if isinstance(only, str) else list(only)
    declared = load_deviations(Path(deviations)) if isinstance(deviations, str | Path) else tuple(deviations)
    cases = [case for case in select_cases(patterns, heavy=heavy) if codec.does(case)]
    if not cases:
        raise ValueError(f"no case is selected by {', '.join(patterns)}; kafkaproof corpus list shows them")
    made = _report(codec, cases, patterns, declared, result)
    if raises and (made.fresh or made.applied.stale):
        raise AssertionError(failure_text(made))
    return made


def select_cases(only: Sequence[str], *, ops: Collection[str] = CODEC_OPS, heavy: bool = False) -> list[Case]:
    """The cases that *only* selects, those for brokers left out and heavy ones if they are not wanted."""
    cases = select(_loaded(tuple(cast(Collection[Op], ops))), only)
    return cases if heavy else [case for case in cases if not is_heavy(case)]


@cache
def _loaded(ops: tuple[Op, ...]) -> Sequence[Case]:
    """The corpus, read once for all tests of a session."""
    return load_vectors(ops=ops)


def _report(
    codec: CodecFunctions,
    cases: Sequence[Case],
    only: Sequence[str],
    declared: Sequence[Deviation],
    path: str | Path | None,
) -> Report:
    testee = msgspec.to_builtins(codec.hello()) | {"connect": IN_PROCESS}
    settings = {"seconds": codec.seconds, "memory": codec.memory}
    # A run in this process never covers the whole corpus.
    header = ResultHeader(
        testee=testee, corpus=corpus_hash(), cases=len(cases), only=list(only) or [IN_PROCESS], settings=settings
    )
    with TemporaryDirectory() as folder:
        where = Path(path) if path else Path(folder) / results.FILE
        keeping.check_covers_result(where, header.only, len(cases), whole=[IN_PROCESS], hint="name another file")
        _write(where, header, codec, cases)
        return make(results.read_results(where), cases, declared, where)


def _write(path: Path, header: ResultHeader, codec: CodecFunctions, cases: Sequence[Case]) -> None:
    writer = results.ResultWriter(path, header)
    began = time.monotonic()
    try:
        for case in cases:
            writer.write([judge_case(codec, case)[0]])
        writer.finish(seconds=round(time.monotonic() - began, 3), waited=0.0, starts=0, strays=0)
    finally:
        writer.close()


def judge_case(codec: CodecFunctions, case: Case) -> tuple[ResultLine, Verdict]:
    """Put *case* to *codec*: the line of the result, and the verdict."""
    began = time.monotonic()
    observation = unsupported(case, codec.hello()) or codec.observe(case)
    spent = 0.0 if isinstance(observation, Skipped) else time.monotonic() - began
    verdict = judge(case, observation)
    summary = observation_summary(observation, finding=verdict.outcome != "agree")
    summary |= plain_mark(case, observation, accepted=verdict.outcome == "accepts_invalid")
    return results.result_line(case, verdict, summary, spent, 0), verdict


def failure_text(made: Report) -> str:
    """The findings, worst first, as the message of an assertion."""
    testee, counts = made.results.header.testee, made.results.counts()
    known = len(made.findings) - len(made.fresh)
    aside = f", {known:,} known deviations aside" if known else ""
    sent = len(made.results.lines) - counts["skipped"]
    name = " ".join(filter(None, (testee["name"], testee["version"])))
    return "\n".join([f"{name} disagrees in {len(made.fresh):,} of {sent:,} cases{aside}", *_findings(made)])


def _findings(made: Report) -> Iterator[str]:
    groups = alike_findings(made.fresh)
    for first, others in groups[:MOST_FINDINGS]:
        more = f"  and {len(others):,} alike" if others else ""
        yield f"  {first.line.outcome:<15}  {first.line.case}  {first.line.rules[0]}  {first.line.why}{more}"
    left = sum(1 + len(others) for _, others in groups[MOST_FINDINGS:])
    if left:
        yield f"  and {left:,} more"
    for entry in made.applied.stale:
        yield f"  stale deviation  {entry.staleness}"
    if groups:
        yield f"look at one with: kafkaproof explain --case '{groups[0][0].line.case}'"


def case_failure_text(case: Case, verdict: Verdict) -> str:
    """One finding, with its rule in words, as the message of a failed test."""
    lines = [f"{verdict.outcome}: {verdict.why}", f"  case   {case.id}", f"         {case.title}"]
    lines += [f"  rule   {rule(case.rules[0]).id}: {rule(case.rules[0]).statement}"] if case.rules else []
    return "\n".join([*lines, f"  bytes  kafkaproof explain --case '{case.id}'"])
