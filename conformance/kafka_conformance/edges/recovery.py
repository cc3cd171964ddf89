"""Consumers around one damaged batch: what they deliver, and whether the application can go on.

A fake broker serves good batches, a damaged one, and good ones after it.  Fetches start at the batch that holds the
offset, with the first one whole (KIP-74).  The client is an application in plain code, in a process of its own:

    poll; deliver records; on an error, note it and seek to the offset that the error names, or to the position, or
    to the one after the last record; if that was tried before, to the next offset

It runs twice where there is an error: the second time it notes errors and polls on, without a seek, as many
applications do.  Where nothing comes and no error either for fifteen seconds, it seeks to the next good batch.

A built client gets one line, {"op": "recover", "bootstrap", "topic", "offset", "end", "seek", "past", "silence_ms",
"limit_ms", "after_error_ms"}, and answers with lines:

    {"offset": 0, "value": "base64"}
    {"error": {"type", "message", "topic", "partition", "offset"}, "position": 9}     what it does not name is left out
    {"sought": 10, "why": "error"}
    {"done": "end"}                                                                   or "time"
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO, Any, Final, NamedTuple

import msgspec

from kafka_brokers.fake_broker import END, GROUP_VERSIONS, FakeBroker
from kafka_conformance.edges import EdgeCell, EdgeGrade, EdgeRow, said
from kafka_conformance.edges.damaged_logs import DAMAGES, DamagedLog, tape_of
from kafka_conformance.edges.running import CannotRunEdges
from kafka_conformance.edges.sound_logs import SOUND_LOGS
from kafka_conformance.process.fetch_client import client_environment
from kafka_conformance.testees import client_parts
from kafka_conformance.testees.connection import CannotRun, import_path
from kafka_conformance.testees.known import by_name, find_testee
from kafka_records.constants import MAGIC_VALUE_V1, MAGIC_VALUE_V2

# Python clients by name: module and class of the application that runs in a child of ours.
MODULES: Final = {
    "kafka-python-client": "kafka_conformance.testees.kafka_python_client:KafkaPythonApplication",
    "aiokafka-client": "kafka_conformance.testees.aiokafka_client:AiokafkaApplication",
    "aiokafka-getmany": "kafka_conformance.testees.aiokafka_client:AiokafkaBatchApplication",
    "confluent-kafka": "kafka_conformance.testees.confluent_kafka_:ConfluentApplication",
}
# A second API of a testee.
TESTEES: Final = {"aiokafka-getmany": "aiokafka-client"}
COLUMNS: Final = (
    *MODULES,
    "java-consumer",
    "franz-go-client",
    "sarama-client",
    "kafka-go-reader",
    "kafkajs-client",
    "platformatic-kafka-client",
    "rskafka-client",
    "kafka-ts",
    "optiopay-kafka",
    "kafka-node",
    "no-kafka",
    "kafka-rust",
)
# Clients that read no message sets: v0 and v1.
NO_OLD_MESSAGES: Final = ("platformatic-kafka-client", "rskafka-client", "kafka-ts")
# Clients that read nothing but message sets, with the newest magic of them.
ONLY_OLD_MESSAGES: Final[Mapping[str, int]] = {"kafka-node": 1, "no-kafka": 0, "kafka-rust": 0}
# Clients without lz4, for which an error is right.
NO_LZ4: Final = ("optiopay-kafka", *ONLY_OLD_MESSAGES)
# The log of each row, in the order of the table.
LOGS: Final[Mapping[str, Callable[..., DamagedLog]]] = {**DAMAGES, **SOUND_LOGS}
TOPIC: Final = "recovery"
# For so long fetches are counted, from the first error or the last record on.
COUNTED_SECONDS: Final = 10.0
# Without records and errors for so long, a client is silent; some give up only after retries of ten seconds.
SILENCE_SECONDS: Final = 15.0
# What an application gets in all when it seeks, and when it polls on.
SEEK_SECONDS: Final = 60.0
POLL_SECONDS: Final = 30.0
# What the slowest client delivers on a busy machine.
RECORDS_PER_SECOND: Final = 2000
# Beyond a silence, until a client that does not return is ended; on a busy machine all is slower.
GRACE_SECONDS: Final = 15.0
# More fetches than this in ten seconds are a busy loop: a client that waits half a second sends 20.
HOT: Final = 100
MAX_LINE: Final = 1 << 23
MAX_ERRORS: Final = 5
MAX_OFFSETS: Final = 24


def log_for(row: str, newest_magic: int = MAGIC_VALUE_V1) -> DamagedLog:
    """The log of *row*; old messages have *newest_magic* if a client reads nothing newer."""
    log = LOGS[row]()
    return LOGS[row](newest_magic) if log.magic == MAGIC_VALUE_V1 and newest_magic < MAGIC_VALUE_V1 else log


# ---- runs ----


class RecoveryEvent(NamedTuple):
    """A line that an application printed, and when."""

    at: float
    line: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApplicationRun:
    """One run of an application.

    Attributes:
        events: its lines.
        fetches: time and offset of each fetch.
        ending: `end`, `time`, `crash`, or `hang` if a call did not return.
        stderr: the last of its log, where it crashed.
    """

    events: Sequence[RecoveryEvent]
    fetches: Sequence[tuple[float, int]]
    ending: str
    stderr: str = ""


def run_application(
    argv: Sequence[str], environment: Mapping[str, str], log: DamagedLog, *, seek: bool, step: int = 0
) -> ApplicationRun:
    """Run the application *argv* on a broker of its own with *log*."""
    tape, limit = tape_of(log), (SEEK_SECONDS if seek else POLL_SECONDS) + len(log.good) / RECORDS_PER_SECOND
    with FakeBroker(versions=GROUP_VERSIONS) as broker, TemporaryFile() as stderr:
        broker.put_on(TOPIC, tape)
        request = {
            "op": "recover", "bootstrap": broker.address, "topic": TOPIC, "partition": 0,
            "offset": log.start, "end": END.decode(), "seek": seek, "step": step, "past": log.past,
            "silence_ms": int(SILENCE_SECONDS * 1000), "limit_ms": int(limit * 1000),
            "after_error_ms": int(COUNTED_SECONDS * 1000),
        }  # fmt: skip
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environment, start_new_session=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        watchdog = _Watchdog(process, SILENCE_SECONDS + GRACE_SECONDS)
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            events, more = [], 0.0
            for event in _events(process.stdout):
                events.append(event)
                # It seeks once out of a silence; in the next one it prints no more until its time is over.
                more = limit if event.line.get("why") == "silence" else more
                watchdog.restart(more)
            hung = watchdog.fired
        except BrokenPipeError:
            events, hung = [], False
        finally:
            watchdog.cancel()
            code = _ended(process)
        done = events[-1].line.get("done") if events else None
        ending = str(done) if done else "hang" if hung else "crash"
        text = _tail(stderr) if ending == "crash" else ""
        return ApplicationRun(
            events, tuple(tape.fetches), ending, text or (f"exit code {code}" if ending == "crash" else "")
        )


def _events(stdout: IO[bytes]) -> Iterator[RecoveryEvent]:
    while line := stdout.readline(MAX_LINE):
        if not line.startswith(b"{"):
            continue
        try:
            event = json.loads(line)
        except ValueError:
            continue
        yield RecoveryEvent(time.monotonic(), event)
        if "done" in event:
            return


class _Watchdog:
    """Ends a process that has printed nothing for so many seconds."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self._process, self._seconds = process, seconds
        self.fired = False
        self._start(0)

    def _start(self, more: float) -> None:
        self._began, self._more = time.monotonic(), more
        self._timer = threading.Timer(self._seconds + more, self._fire)
        self._timer.daemon = True
        self._timer.start()

    def _fire(self) -> None:
        self.fired = True
        _end(self._process)

    def restart(self, more: float) -> None:
        """Begin again, with so many seconds *more*, since it has printed something; at most once a second."""
        if more == self._more and time.monotonic() - self._began < 1.0:
            return
        self.cancel()
        self._start(more)

    def cancel(self) -> None:
        """Let the process be."""
        self._timer.cancel()


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it ended


def _ended(process: subprocess.Popen[bytes]) -> int:
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        pass
    _end(process)
    code = process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # it ended before it read
    return code


def _tail(stderr: IO[bytes]) -> str:
    stderr.seek(0)
    lines = [line for line in stderr.read().decode(errors="replace").splitlines() if line.strip()]
    first = next((line for line in lines if re.match(r"panic|fatal|thread '.*panicked|.*Error", line)), "")
    return said(first or (lines[-1] if lines else ""))


# ---- judgement ----


class RecoveryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Observations in one situation; offsets are lists in the order of events.

    Attributes:
        before, after: good offsets before and after the damage that were not delivered.
        below: offsets that were delivered though the consumer began after them.
        wrong: offsets that were delivered with another value than was written.
        unknown: offsets that were delivered though no record has them, as that of a marker.
        inside: offsets of the damaged batch that were delivered as they were written.
        written: how many records the damaged batch had.
        twice: offsets that were delivered twice without a seek.
        errors: the first errors, without repetitions.
        error_count: of the run with seeks.
        position: the consumer's position at the first error.
        names: which of topic, partition and offset an error names.
        sought: the offsets that the application went to.
        silent: whether it had to seek since nothing came, no error either.
        fetches: sent in ten seconds for the damaged place, while the application did not seek.
        ending: of the run with seeks.
        polled_on: how the run without seeks ended; empty if there was no need for one.
        polled_past: whether good records after the damage came in that run.
        passed_over: good offsets that the run without seeks fetched past and never delivered, though it had ten seconds
            from the error on.
        stderr: the last line of a process that crashed.
    """

    before: list[int] = []
    after: list[int] = []
    below: list[int] = []
    wrong: list[int] = []
    unknown: list[int] = []
    inside: list[int] = []
    written: int = 3
    twice: list[int] = []
    errors: list[str] = []
    error_count: int = 0
    position: int | None = None
    names: list[str] = []
    sought: list[int] = []
    silent: bool = False
    fetches: int = 0
    ending: str = "end"
    polled_on: str = ""
    polled_past: bool = False
    passed_over: list[int] = []
    stderr: str = ""


def facts_of(log: DamagedLog, seeking: ApplicationRun, polling: ApplicationRun | None) -> RecoveryFacts:
    """The facts of one or two runs on *log*."""
    written = {**log.good, **log.inside}
    delivered = list(_delivered(seeking))
    values = dict(delivered)
    errors = [event.line for event in seeking.events if "error" in event.line]
    jumps = [event.line for event in seeking.events if "sought" in event.line]
    both = [*delivered, *(_delivered(polling) if polling else ())]
    # Records before the damage count in either run: an error may come before they were taken.
    return RecoveryFacts(
        before=[offset for offset in log.good if offset < log.first_bad and offset not in values][:MAX_OFFSETS],
        after=[offset for offset in log.good if offset > log.first_bad and offset not in values][:MAX_OFFSETS],
        below=sorted({offset for offset, _ in both if offset < log.start}),
        wrong=sorted({offset for offset, value in both if offset in written and written[offset] != value}),
        unknown=sorted({offset for offset, _ in both if log.start <= offset <= log.last and offset not in written}),
        inside=[offset for offset, value in log.inside.items() if values.get(offset) == value],
        written=len(log.inside),
        twice=sorted({*_twice(seeking), *(_twice(polling) if polling else ())}),
        errors=list(dict.fromkeys(said(line["error"].get("message", "")) for line in errors))[:MAX_ERRORS],
        error_count=len(errors),
        position=errors[0].get("position") if errors else None,
        names=_names(errors, log) if errors else [],
        sought=[line["sought"] for line in jumps][:20],
        silent=any(line.get("why") == "silence" for line in jumps),
        fetches=_fetches_while_stuck(log, polling or seeking),
        ending=seeking.ending,
        polled_on=polling.ending if polling else "",
        polled_past=any(offset >= log.past for offset, _ in _delivered(polling)) if polling else False,
        passed_over=_passed_over(log, polling)[:MAX_OFFSETS] if polling else [],
        stderr=seeking.stderr or (polling.stderr if polling else ""),
    )


def _delivered(run: ApplicationRun) -> Iterator[tuple[int, bytes]]:
    for event in run.events:
        if "offset" in event.line:
            yield event.line["offset"], b64decode(event.line["value"])


def _twice(run: ApplicationRun) -> Iterator[int]:
    """Offsets that come again where the application did not go back to them."""
    seen: set[int] = set()
    for event in run.events:
        if "sought" in event.line:
            seen = {offset for offset in seen if offset < event.line["sought"]}
        elif "offset" in event.line:
            if event.line["offset"] in seen:
                yield event.line["offset"]
            seen.add(event.line["offset"])


def _passed_over(log: DamagedLog, run: ApplicationRun) -> list[int]:
    """Good offsets below the last fetch that did not come."""
    delivered = {offset for offset, _ in _delivered(run)}
    last = run.fetches[-1][1] if run.fetches else 0
    return [offset for offset in log.good if offset < last and offset not in delivered]


def _names(errors: Sequence[Mapping[str, Any]], log: DamagedLog) -> list[str]:
    """Which of topic, partition and offset an error names, in its attributes or its text."""
    offsets = {str(offset) for offset in log.inside}
    found = []
    error = errors[0]["error"]
    text = str(error.get("message", ""))
    if error.get("topic") or TOPIC in text:
        found.append("topic")
    if error.get("partition") is not None or re.search(rf"{TOPIC}\W{{0,3}}0|partition\W{{0,8}}0", text, re.IGNORECASE):
        found.append("partition")
    numbers = set(re.findall(r"\boffset(?: is)?\W{0,5}(\d+)|[=:@]\s?(\d+)\b", text, re.IGNORECASE))
    if error.get("offset") is not None or offsets & {number for pair in numbers for number in pair}:
        found.append("offset")
    return found


def _fetches_while_stuck(log: DamagedLog, run: ApplicationRun) -> int:
    """Fetches for the damaged batch or before it in ten seconds from the first error on, or from the last record."""
    first = next((event.at for event in run.events if "error" in event.line), None)
    if first is None:
        jump = next((event.at for event in run.events if event.line.get("why") == "silence"), None)
        if jump is None and run.ending == "end":
            return 0
        last = max((event.at for event in run.events if "offset" in event.line), default=None)
        before = [event.at for event in run.events if "offset" in event.line and (jump is None or event.at < jump)]
        first = max(before) if before else (last or (run.fetches[0][0] if run.fetches else 0.0))
    return sum(first <= at <= first + COUNTED_SECONDS and offset < log.past for at, offset in run.fetches)


# Damage that no broker stores: kafka.log.LogValidator.validateRecord compares these checksums in a produce request.
NOT_STORED: Final = "wrong-inner-crc-v1"
# Rows with bytes that no broker makes or stores: it gives each record its offset, writes the markers, compares inner
# checksums, refuses a last offset before the base offset, and has no entry of four bytes.
HOSTILE_ROWS: Final = frozenset(
    {"short-size-v1", "broken-marker", "damage-before-position", "batches-before-position", "batch-repeated",
     "base-offset-minus-one", "last-offset-before-base", "wrapper-at-zero", "wrapper-at-its-first"}
)  # fmt: skip


def excuse_for(column: str, row: str, facts: RecoveryFacts) -> str:
    """Why a FAIL is NON_STRICT: a documented default, or damage that no broker stores; else empty.

    Neither excuses another value at an offset that is not damaged, or a record that comes twice.
    """
    if facts.twice or (facts.wrong and not set(facts.wrong) <= set(log_for(row).inside)):
        return ""
    if column == "confluent-kafka" and row in ("wrong-crc", "wrong-crc-v1", NOT_STORED):
        return "librdkafka compares checksums only with check.crcs=true, and documents that."
    if column == "aiokafka-client" and row in ("huge-length", "cut-segment"):
        return "aiokafka documents that `async for` logs such an error and does not raise it."
    if row == "oversized-v1" and column in ONLY_OLD_MESSAGES and facts.error_count:
        return "Fetch versions up to 2 bring a part of such a message (KIP-74): an error is the only sign."
    if row == "lz4-v1" and column in NO_LZ4 and facts.error_count and not facts.passed_over:
        return "It does not have lz4: an error is the only answer."
    if row == NOT_STORED:
        return "Brokers compare the checksums of inner messages when they are produced, and store none like this."
    return ""


# Where Kafka's own consumer does what would be a finding: the outcome is INFO, of any client.
YARDSTICK: Final = {"unknown-compression": "withholds good records", "record-count": "seek skips good records"}


# The outcome of an error in place of records that are not damaged, and of records that come again.
REFUSES: Final = "refuses good batch"
TWICE: Final = "delivers twice"


class RecoveryVerdict(NamedTuple):
    """The judgement of a cell."""

    grade: EdgeGrade
    outcome: str
    detail: str


def judge_recovery(
    facts: RecoveryFacts, *, readable: bool = False, hostile: bool = False, java: str = "", excuse: str = ""
) -> RecoveryVerdict:
    """The grade of *facts*: FAIL for lost, wrong or repeated records, HOSTILE for a process that ends or hangs.

    *readable*: the batch is good, and is to be delivered; *hostile*: no broker makes the bytes, so that a FAIL is
    HOSTILE, and an error in place of records, or records that come twice, NON_STRICT; *java*: the outcome of Kafka's
    consumer where that is a finding, too; *excuse*: why a FAIL is NON_STRICT.
    """
    of_good = (_another_value, _data, _stuck, _refused)
    judges = (_crash, _hang, _offsets_below, *(of_good if readable else (_data, _stuck)), _going_on)
    verdict = next(filter(None, (judge(facts) for judge in judges)), None) or _good(facts, readable)
    if verdict.outcome == java:
        return RecoveryVerdict("INFO", verdict.outcome, f"{verdict.detail} Kafka's own consumer does the same.")
    if excuse and verdict.grade == "FAIL":
        return RecoveryVerdict("NON_STRICT", verdict.outcome, f"{verdict.detail} {excuse}")
    if hostile and verdict.grade == "FAIL":
        return verdict._replace(grade="NON_STRICT" if verdict.outcome in (REFUSES, TWICE) else "HOSTILE")
    return verdict


def _crash(facts: RecoveryFacts) -> RecoveryVerdict | None:
    if "crash" not in (facts.ending, facts.polled_on):
        return None
    return RecoveryVerdict("HOSTILE", "process ends", f"The process ends: {facts.stderr}.")


def _offsets_below(facts: RecoveryFacts) -> RecoveryVerdict | None:
    if not facts.below:
        return None
    if facts.below[0] < 0:
        detail = f"Records came with the {_offsets(facts.below)}; no record has an offset below 0."
        return RecoveryVerdict("FAIL", "delivers negative offsets", detail)
    detail = f"The consumer began after {_offsets(facts.below)}, and delivers the same all over again."
    return RecoveryVerdict("FAIL", "delivers below its position", detail)


def _another_value(facts: RecoveryFacts) -> RecoveryVerdict | None:
    if not facts.wrong:
        return None
    detail = f"{_offsets(facts.wrong)} came with another value, though nothing to deliver is damaged."
    return RecoveryVerdict("FAIL", "delivers another value", detail)


def _data(facts: RecoveryFacts) -> RecoveryVerdict | None:
    if facts.wrong:
        return RecoveryVerdict("FAIL", "delivers damaged value", f"{_offsets(facts.wrong)} came with another value.")
    if facts.unknown:
        return RecoveryVerdict("FAIL", "delivers unknown offsets", f"No record has the {_offsets(facts.unknown)}.")
    if facts.twice:
        return RecoveryVerdict("FAIL", TWICE, f"{_offsets(facts.twice)} came twice without a seek.")
    if facts.before and facts.error_count and facts.passed_over:
        detail = f"After the error it goes on by itself, and {_offsets(facts.passed_over)} never came."
        return RecoveryVerdict("FAIL", "error, loses good records", detail)
    if facts.before and facts.error_count:
        where = (
            f"At the first error the position is {facts.position}" if facts.position is not None else "An error comes"
        )
        detail = f"{where}; {_offsets(facts.before)} before the damage never came."
        return RecoveryVerdict("NON_STRICT", "withholds good records", detail)
    if facts.ending == "end" and (facts.before or facts.after) and not facts.silent and not facts.error_count:
        detail = f"{_offsets([*facts.before, *facts.after])} outside of the damage never came, and no error did."
        return RecoveryVerdict("FAIL", "loses good records", detail)
    return None


def _hang(facts: RecoveryFacts) -> RecoveryVerdict | None:
    if facts.ending == "hang":
        return RecoveryVerdict("HOSTILE", "hangs", "A call of the consumer does not return.")
    if facts.polled_on == "hang":
        detail = (
            "An error comes; if the application polls on, and has not sought to a later offset, the call never returns."
        )
        return RecoveryVerdict("HOSTILE", "next poll hangs", detail)
    return None


def _stuck(facts: RecoveryFacts) -> RecoveryVerdict | None:
    if not facts.silent or facts.error_count:
        return None
    loop = f"{facts.fetches} fetches in ten seconds"
    again = "a seek past it works" if not facts.after else "a seek past it does not help"
    if facts.fetches > HOT:
        return RecoveryVerdict("HOSTILE", "busy loop, no error", f"No record and no error comes, with {loop}; {again}.")
    return RecoveryVerdict("HOSTILE", "stuck, no error", f"No record and no error comes, with {loop}; {again}.")


def _refused(facts: RecoveryFacts) -> RecoveryVerdict | None:
    """An error for records without damage."""
    if not facts.error_count or len(facts.inside) == facts.written:
        return None
    return RecoveryVerdict("FAIL", REFUSES, f"The batch is good, and an error comes: {facts.errors[0]}.")


def _going_on(facts: RecoveryFacts) -> RecoveryVerdict | None:
    if not facts.error_count:
        return None
    if facts.after and facts.ending == "end":
        detail = (
            f"The position at the error is {facts.position}; with the seek past it {_offsets(facts.after)} is lost."
        )
        return RecoveryVerdict("NON_STRICT", "seek skips good records", detail)
    if facts.ending != "end":
        detail = f"After {facts.error_count} errors the application got no further; it sought {_offsets(facts.sought)}."
        return RecoveryVerdict("NON_STRICT", "cannot seek past", detail)
    if facts.silent:
        detail = "One error comes, then no more; a seek to the next good batch works."
        return RecoveryVerdict("NON_STRICT", "error, then silence", detail)
    if facts.passed_over:
        detail = f"After the error it goes on by itself, and {_offsets(facts.passed_over)} never came."
        return RecoveryVerdict("FAIL", "error, loses good records", detail)
    if facts.polled_past:
        detail = "After the error the consumer goes on with the next batch by itself."
        return RecoveryVerdict("NON_STRICT", "error, skips batch", detail)
    if "offset" not in facts.names and facts.position is None:
        detail = "The error names no offset, and the consumer has no position."
        return RecoveryVerdict("NON_STRICT", "error without offset", detail)
    if facts.fetches > HOT:
        detail = f"While the application does not seek, the consumer sends {facts.fetches} fetches in ten seconds."
        return RecoveryVerdict("NON_STRICT", "error, busy loop", detail)
    return None


def _good(facts: RecoveryFacts, readable: bool) -> RecoveryVerdict:
    named = ", ".join(facts.names) or "no place"
    position = "" if facts.position is None else f"; the position is {facts.position}"
    detail = f"The error names {named}{position}; after a seek to {_offsets(facts.sought)} the good records came."
    if facts.ending == "time" and not facts.error_count:
        return RecoveryVerdict("not run", "out of time", "Records came until the time was over, on a slow machine.")
    match facts.error_count > 0, readable, len(facts.inside):
        case True, _, _:
            return RecoveryVerdict("PASS", "error, seek works", detail)
        case False, True, number if number == facts.written:
            return RecoveryVerdict("PASS", "delivers it", "All records came.")
        case False, False, number if number == facts.written:
            detail = "All records of the damaged batch came as they were written, without an error."
            return RecoveryVerdict("NON_STRICT", "ignores the damage", detail)
        case False, _, 0:
            return RecoveryVerdict("FAIL", "skips batch silently", "The batch is left out, and no error came.")
    detail = f"Of the batch only {_offsets(facts.inside)} came, and no error."
    return RecoveryVerdict("FAIL", "skips records silently", detail)


def _offsets(offsets: Sequence[int]) -> str:
    shown = ", ".join(map(str, offsets[:6])) + (", …" if len(offsets) > 6 else "")
    return f"offset {shown}" if len(offsets) == 1 else f"offsets {shown}" if offsets else "no offset"


# ---- columns ----


def columns() -> Sequence[str]:
    """Clients known by name."""
    return COLUMNS


@dataclass(frozen=True, slots=True)
class RecoveryColumn:
    """A client whose application is put on damaged logs."""

    name: str
    version: str
    argv: Sequence[str]
    environment: Mapping[str, str]

    def __call__(self, row: EdgeRow) -> EdgeCell:
        """Run the application on the log of *row*, and judge."""
        plain = self.name.partition("@")[0]
        log = log_for(row.id, ONLY_OLD_MESSAGES.get(plain, 1))
        if log.magic < MAGIC_VALUE_V2 and plain in NO_OLD_MESSAGES:
            return EdgeCell(row=row.id, grade="not run", outcome="no old messages", detail="It reads v2 batches only.")
        if log.magic == MAGIC_VALUE_V2 and plain in ONLY_OLD_MESSAGES:
            return EdgeCell(row=row.id, grade="not run", outcome="no v2 batches", detail="It reads old messages only.")
        seeking = run_application(self.argv, self.environment, log, seek=True)
        if seeking.ending == "hang" and plain in MODULES:
            # The first seek, to the place of the error itself, was not enough.
            seeking = run_application(self.argv, self.environment, log, seek=True, step=1)
        polling = None
        if any("error" in event.line for event in seeking.events):
            polling = run_application(self.argv, self.environment, log, seek=False)
        facts = facts_of(log, seeking, polling)
        java, excuse = YARDSTICK.get(row.id, ""), excuse_for(plain, row.id, facts)
        hostile = row.id in HOSTILE_ROWS
        verdict = judge_recovery(facts, readable=log.readable, hostile=hostile, java=java, excuse=excuse)
        observed = msgspec.to_builtins(facts)
        return EdgeCell(
            row=row.id, grade=verdict.grade, outcome=verdict.outcome, detail=said(verdict.detail), observed=observed
        )


@contextmanager
def opened(column: str) -> Iterator[RecoveryColumn]:
    """The application of a client, built now if it has to be.  Raises `CannotRunEdges`."""
    try:
        plain, at, release = column.partition("@")
        name = TESTEES.get(plain, plain) + at + release
        known = find_testee(name)
        if known is None or plain not in COLUMNS:
            raise CannotRunEdges(f"{column} has no application that recovers; there are {', '.join(COLUMNS)}")
        spec = by_name(name)
    except (CannotRun, ValueError) as error:
        raise CannotRunEdges(str(error)) from error
    environment = {**client_environment(), **dict(spec.environment)}
    if plain in MODULES:
        argv = [sys.executable, "-m", client_parts.__name__, MODULES[plain]]
        environment.setdefault(*import_path())
    else:
        # The process of ours that speaks the testee protocol is left out: only the client's own command is of use.
        argv = list(spec.argv[3:])
    yield RecoveryColumn(column, known.version() or "", argv, environment)
