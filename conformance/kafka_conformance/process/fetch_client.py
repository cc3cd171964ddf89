"""`fetch:COMMAND`: any client that consumes from an address, as a testee.

A process of ours holds a fake broker and speaks the testee protocol; the
user's command consumes from the broker.  With `{topic}` in it the command is
run for each case (`{bootstrap}` and `{partition}` are filled too), prints a line
for each record, and ends, or is ended when it printed the end record.  Without,
it stays up: it gets `{"bootstrap", "topic", "partition", "offset", "end"}` on a
line for each case, and answers with a line.  `lines` has both formats.

{"offset": 0, "timestamp": 1700000000000, "key": "a2V5", "value": null, "headers": [["aA==", "dg=="]]}
    {"error": {"kind": "corrupt", "message": "…"}}      or {"error": "…"}
    {"skipped": "no zstd here"}

Fields that a client does not know are left out.  Bytes are base64; `encoding`
beside them says `hex` or `text` where they are that.  Text with U+FFFD in it is
treated as not given: its original bytes are lost.  A client that stays up
answers with one line, `{"records": [RECORD, …]}`, and `error` beside it.

Lines that are no JSON object are log output, and are skipped.

If a client crashes, this process ends in the same way: the runner can then
distinguish a crash from exhausted memory, and restarts this process.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from tempfile import TemporaryFile
from typing import IO, Any, Final, Literal, NoReturn, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from kafka_brokers.fake_broker import END, FakeBroker, Tape, magic_of_fetch, wanted_fetch_version
from kafka_conformance.process.child import OUT_OF_MEMORY
from kafka_conformance.sanitize import printable, tail
from kafka_conformance.testees import serve
from kafka_conformance.testees.client_parts import FIRST, ConsumerBroker
from kafka_conformance.testees.connection import CLIENT_PYTHONPATH
from kafka_conformance.testees.interface import NotDone
from kafka_conformance.testees.protocol import (
    MAX_LINE,
    Capability,
    CodecAnswer,
    HelloReply,
    Refusal,
    parse_hello,
)
from kafka_corpus.wire import WireBatch, WireRecord
from kafka_records import encode
from kafka_records.constants import NO_TIMESTAMP

Encoding = Literal["base64", "hex", "text"]
REPLACED: Final = "\N{REPLACEMENT CHARACTER}"


class BadLine(ValueError):
    """A JSON object that is nothing of the above."""


class _ReadsCommitted(msgspec.Struct):
    """The part of a client's hello about aborted transactions."""

    committed: bool = True


class PrintedRecord(msgspec.Struct):
    """A record as a client prints it.

    A field that is left out is not exposed.  Null is a value: no key, no value, no
    timestamp (-1), no headers.
    """

    offset: int | UnsetType = UNSET
    timestamp: int | None | UnsetType = UNSET
    key: str | None | UnsetType = UNSET
    value: str | None | UnsetType = UNSET
    headers: list[tuple[str | None, str | None]] | None | UnsetType = UNSET
    encoding: Encoding | None = None

    def wire(self, encoding: Encoding = "base64") -> WireRecord:
        """The record in the protocol's shape.  Raises `BadLine`."""
        how = self.encoding or encoding
        headers = UNSET if self.headers is UNSET else [_header(each, how) for each in self.headers or ()]
        return WireRecord(
            offset=self.offset,
            timestamp=NO_TIMESTAMP if self.timestamp is None else self.timestamp,
            key=decode_field(self.key, how),
            value=decode_field(self.value, how),
            # Only a field that is not exposed can be left out of the comparison: a list has no holes.
            headers=UNSET if headers is UNSET or any(UNSET in each for each in headers) else headers,
        )


class PrintedLine(PrintedRecord):
    """A line: a record, an error, or what a client that stays up answers."""

    records: list[PrintedRecord] | None = None
    error: Any = None
    skipped: str | None = None

    def refusal(self) -> Refusal | None:
        """The error in it."""
        if not self.error:
            return None
        if isinstance(self.error, dict):
            return Refusal(str(self.error.get("kind") or ""), str(self.error.get("message") or ""))
        return Refusal(message=str(self.error))

    def answer(self) -> CodecAnswer:
        """The whole answer of a client that stays up.  Raises `BadLine`."""
        refusal = self.refusal()
        if self.skipped is not None:
            return CodecAnswer(skipped=self.skipped)
        if self.records is None and refusal is None:
            raise BadLine("an answer has records, error or skipped")
        records = up_to_the_end([each.wire(self.encoding or "base64") for each in self.records or ()])
        return CodecAnswer(records=records) if refusal is None else CodecAnswer(records=records, error=refusal)


_decoder = msgspec.json.Decoder(PrintedLine)


def parse_printed_line(line: bytes) -> PrintedLine | None:
    """The record in *line*; None if it is not a JSON object.  Raises `BadLine`."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError as error:
        raise BadLine(f"{error}: {printable(line)}") from error
    except (ValueError, RecursionError):
        return None


def _header(header: tuple[str | None, str | None], encoding: Encoding) -> tuple[Any, Any]:
    return decode_field(header[0], encoding), decode_field(header[1], encoding)


def decode_field(text: str | None | UnsetType, encoding: Encoding) -> bytes | None | UnsetType:
    """The bytes that *text* stands for.  Raises `BadLine`."""
    if text is None or text is UNSET:
        return text
    try:
        match encoding:
            case "hex":
                return bytes.fromhex(text)
            case "text":
                return UNSET if REPLACED in text else text.encode()
        return b64decode(text, validate=True)
    except ValueError as error:
        raise BadLine(f"{printable(text)} is no {encoding}") from error


def is_end(record: WireRecord) -> bool:
    """Whether this is the record that ends a case."""
    return END in (record.key, record.value)


def up_to_the_end(records: list[WireRecord]) -> list[WireRecord]:
    """The records before the one that ends the case."""
    at = next((index for index, each in enumerate(records) if is_end(each)), len(records))
    return records[:at]


TOPIC: Final = "{topic}"
STDERR_TAIL: Final = 16 * 1024

_PANIC: Final = re.compile(rb"^(panic: |fatal error: |thread '.*' panicked|Fatal Python error)", re.MULTILINE)


class FetchClient(Protocol):
    """A client that reads from the fake broker."""

    def read(self, topic: str, tape: Tape) -> CodecAnswer: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


def start_client(command: Sequence[str], broker: FakeBroker) -> FetchClient:
    """The client that *command* is: with `{topic}` in it, one for each case."""
    each = any(TOPIC in word for word in command)
    return OneShotClient(command, broker.address) if each else LongRunningClient(command, broker.address)


def fill_client_command(command: Sequence[str], bootstrap: str, topic: str = "") -> list[str]:
    """*command* with its placeholders filled."""
    values = {"{bootstrap}": bootstrap, TOPIC: topic, "{partition}": "0"}
    words = list(command)
    for name, value in values.items():
        words = [word.replace(name, value) for word in words]
    return words


def client_environment() -> dict[str, str]:
    """The environment that the runner was started with."""
    own = dict(os.environ)
    path = own.pop(CLIENT_PYTHONPATH, "")
    own.pop("PYTHONPATH", None)
    return own | ({"PYTHONPATH": path} if path else {})


class OneShotClient:
    """A process for each case, which prints a line for each record, and ends or is ended."""

    def __init__(self, command: Sequence[str], bootstrap: str) -> None:
        self._command = command
        self._bootstrap = bootstrap
        self._environment = client_environment()

    def read(self, topic: str, tape: Tape) -> CodecAnswer:
        """The records that the client delivers of *tape*."""
        words = fill_client_command(self._command, self._bootstrap, topic)
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
                return CodecAnswer(records=records, error=_refusal(code, _end_of(stderr)))
        return _consumed(records, tape)

    def close(self) -> None:
        """Nothing runs between cases."""


def _printed(stdout: IO[bytes]) -> tuple[list[WireRecord], CodecAnswer | None, bool]:
    """Records; an answer that stands for itself (an error, or skipped); and whether the end record came."""
    records: list[WireRecord] = []
    while raw := stdout.readline(MAX_LINE):
        line = parse_printed_line(raw)
        if line is None:
            continue
        if line.skipped is not None:
            return records, CodecAnswer(skipped=line.skipped), True
        if refusal := line.refusal():
            return records, CodecAnswer(records=records, error=refusal), True
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
    stderr.seek(max(0, os.fstat(stderr.fileno()).st_size - STDERR_TAIL))
    return stderr.read()


def _consumed(records: list[WireRecord], tape: Tape) -> CodecAnswer:
    position = UNSET if tape.position is None else tape.position
    return CodecAnswer(records=records, next_offset=position, stalled=tape.stalled)


class LongRunningClient:
    """One process, which gets a line for each case and answers with one."""

    def __init__(self, command: Sequence[str], bootstrap: str) -> None:
        self._bootstrap = bootstrap
        words = fill_client_command(command, bootstrap)
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=client_environment(), bufsize=0
        )

    def read(self, topic: str, tape: Tape, **more: Any) -> CodecAnswer:
        """The records that the client delivers of *tape*; *more* goes into the request."""
        request = {"bootstrap": self._bootstrap, "topic": topic, "partition": 0, "offset": 0, "end": END.decode()}
        answer = self.ask({**request, **more})
        if answer.error is UNSET and answer.skipped is UNSET:
            assert answer.records is not UNSET
            return _consumed(answer.records, tape)
        return answer

    def ask(self, request: Mapping[str, Any]) -> CodecAnswer:
        """The answer to a *request* of any kind."""
        self._send(request)
        while raw := self._read_line():
            if (line := parse_printed_line(raw)) is not None:
                return line.answer()
        return self._fell()

    def hello(self) -> HelloReply:
        """The identity that the client reports; it reads committed records unless it says `"committed": false`."""
        self._send({"op": "hello"})
        while raw := self._read_line():
            if isinstance(hello := parse_hello(raw), HelloReply):
                hello.committed = msgspec.json.decode(raw, type=_ReadsCommitted).committed
                return hello
        return self._fell()

    def _send(self, request: Mapping[str, Any]) -> None:
        try:
            self._stdin.write(json.dumps(request, separators=(",", ":")).encode() + b"\n")
        except OSError:
            self._fell()

    def _read_line(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline(MAX_LINE)

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _fell(self) -> NoReturn:
        end_as(self._process.wait())

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def end_as(code: int) -> NoReturn:
    """End like a process that ended with *code*; below 0 that is a signal."""
    sys.stderr.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(code)


class FetchTestee:
    """A testee that is a client on a fake broker.

    The formats that a client reads are unknown; it gets every case, and says
    `skipped` itself.
    """

    DECODES: Final = Capability()
    ENCODES: Final = Capability()
    LANGUAGE: Final = "consumer"
    RUNTIME: Final = "on a fake broker"

    def __init__(self, command: list[str]) -> None:
        self._broker = ConsumerBroker()
        self._client = start_client(command, self._broker)
        self._number = 0
        # The first case is ours: a client says its name and version when it connects (KIP-511).
        wanted = wanted_fetch_version()
        magic = 2 if wanted is None else magic_of_fetch(wanted)
        self.consume(encode(FIRST[magic]))
        self.NAME = self._broker.client.name or PurePath(command[0]).name
        self.VERSION = self._broker.client.version or "unknown"

    def consume(self, data: bytes) -> CodecAnswer:
        """The records that the client delivers of *data*, from a topic of its own."""
        self._number += 1
        topic = f"case-{self._number}"
        tape = self._broker.serve(topic, data)
        try:
            return self._client.read(topic, tape)
        except BadLine as error:
            # No answer, and nothing of the client's codec: the process ends, and this is its last word.
            sys.exit(f"what the client printed is no record and no error: {error}")
        except OSError as error:
            sys.exit(f"the client cannot be run: {error}")
        finally:
            self._broker.withdraw(topic)

    def decode(self, _data: bytes) -> list[WireBatch]:
        """Not supported: a consumer exposes no batches; see `consume`."""
        raise NotDone("a consumer exposes no batches")

    def encode(self, _batch: WireBatch) -> bytes:
        """Not supported: it is not announced."""
        raise NotDone("a consumer writes nothing")

    def close(self) -> None:
        """End the client."""
        self._client.close()
        self._broker.close()


def main(command: list[str]) -> None:
    """Serve until standard input ends."""
    try:
        fetching = FetchTestee(command)
    except OSError as error:
        sys.exit(f"the client cannot be run: {error}")
    serve.serve(fetching, sys.stdin.buffer, sys.stdout.buffer)
    fetching.close()


if __name__ == "__main__":
    main(sys.argv[1:])
