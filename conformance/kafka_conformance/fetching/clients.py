"""Two ways to run a client: one process for each case, or one that stays up.

A client that falls takes us with it, in the way in which it fell: who started
us knows how to tell a crash from memory that ran out, and starts us again.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from tempfile import TemporaryFile
from typing import IO, Final, NoReturn, Protocol

from msgspec import UNSET

from kafka_conformance.fake_broker import END, FakeBroker, Tape
from kafka_conformance.fetching.lines import is_end, parse
from kafka_conformance.hostile import tail
from kafka_conformance.process.child import OUT_OF_MEMORY
from kafka_conformance.protocol import MAX_LINE, Answer, Refusal
from kafka_corpus.wire import WireRecord

TOPIC: Final = "{topic}"
STDERR_TAIL: Final = 16 * 1024
# The runner sets PYTHONPATH for us, which is nothing for a client in Python; this holds what was there.
CLIENT_PYTHONPATH: Final = "KAFKAPROOF_CLIENT_PYTHONPATH"

_PANIC: Final = re.compile(rb"^(panic: |fatal error: |thread '.*' panicked|Fatal Python error)", re.MULTILINE)


class Client(Protocol):
    """Whoever reads what the broker serves."""

    def read(self, topic: str, tape: Tape) -> Answer: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


def client(command: Sequence[str], broker: FakeBroker) -> Client:
    """The client that *command* is: with `{topic}` in it, one for each case."""
    each = any(TOPIC in word for word in command)
    return EachTime(command, broker.address) if each else StaysUp(command, broker.address)


def filled(command: Sequence[str], bootstrap: str, topic: str = "") -> list[str]:
    """*command* with its placeholders filled."""
    values = {"{bootstrap}": bootstrap, TOPIC: topic, "{partition}": "0"}
    words = list(command)
    for name, value in values.items():
        words = [word.replace(name, value) for word in words]
    return words


def environment() -> dict[str, str]:
    """The environment of whoever started the runner."""
    own = dict(os.environ)
    path = own.pop(CLIENT_PYTHONPATH, "")
    own.pop("PYTHONPATH", None)
    return own | ({"PYTHONPATH": path} if path else {})


class EachTime:
    """A process for each case, which prints a line for each record, and ends or is ended."""

    def __init__(self, command: Sequence[str], bootstrap: str) -> None:
        self._command = command
        self._bootstrap = bootstrap
        self._environment = environment()

    def read(self, topic: str, tape: Tape) -> Answer:
        """What it delivers of *tape*."""
        words = filled(self._command, self._bootstrap, topic)
        with TemporaryFile() as stderr:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=self._environment
            )
            assert process.stdout is not None
            with process.stdout:
                records, answer, ended = _printed(process.stdout)
            if ended:  # it printed the end record: whatever it would do next is of no interest
                process.kill()
            code = process.wait()
            if answer is not None:
                return answer
            if code and not ended:
                return Answer(records=records, error=_refusal(code, _end_of(stderr)))
        return _consumed(records, tape)

    def close(self) -> None:
        """Nothing runs between cases."""


def _printed(stdout: IO[bytes]) -> tuple[list[WireRecord], Answer | None, bool]:
    """Records; an answer that stands for itself (an error, or skipped); and whether the end record came."""
    records: list[WireRecord] = []
    while raw := stdout.readline(MAX_LINE):
        line = parse(raw)
        if line is None:
            continue
        if line.skipped is not None:
            return records, Answer(skipped=line.skipped), True
        if refusal := line.refusal():
            return records, Answer(records=records, error=refusal), True
        record = line.wire()
        if is_end(record):
            return records, None, True
        records.append(record)
    return records, None, False


def _refusal(code: int, stderr: bytes) -> Refusal:
    """The error that ended it; does not return if it fell instead."""
    if code < 0 or _PANIC.search(stderr) or OUT_OF_MEMORY.search(stderr):
        sys.stderr.buffer.write(stderr)
        end_as(code)
    lines = tail(stderr).strip().splitlines()
    return Refusal(message=lines[-1] if lines else f"exit code {code}")


def _end_of(stderr: IO[bytes]) -> bytes:
    stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, stderr.tell() - STDERR_TAIL))
    return stderr.read()


def _consumed(records: list[WireRecord], tape: Tape) -> Answer:
    position = UNSET if tape.position is None else tape.position
    return Answer(records=records, next_offset=position, stalled=tape.stalled)


class StaysUp:
    """One process, which gets a line for each case and answers with one."""

    def __init__(self, command: Sequence[str], bootstrap: str) -> None:
        self._bootstrap = bootstrap
        words = filled(command, bootstrap)
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), bufsize=0
        )

    def read(self, topic: str, tape: Tape) -> Answer:
        """What it delivers of *tape*."""
        end = END.decode()
        request = {"bootstrap": self._bootstrap, "topic": topic, "partition": 0, "offset": 0, "end": end}
        try:
            self._stdin.write(json.dumps(request).encode() + b"\n")
        except OSError:
            self._fell()
        answer = self._answer()
        if answer.error is UNSET and answer.skipped is UNSET:
            assert answer.records is not UNSET
            return _consumed(answer.records, tape)
        return answer

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _answer(self) -> Answer:
        assert self._process.stdout is not None
        while raw := self._process.stdout.readline(MAX_LINE):
            if (line := parse(raw)) is not None:
                return line.answer()
        return self._fell()

    def _fell(self) -> NoReturn:
        end_as(self._process.wait())

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def end_as(code: int) -> NoReturn:
    """End like a process that ended with *code*; below 0 that is a signal."""
    sys.stderr.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(code)
