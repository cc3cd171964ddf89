"""`fetch:COMMAND` makes a testee of any client that consumes."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import UNSET

from kafka_brokers.fake_broker import END
from kafka_conformance.judge.observation import ConsumedRecords, Crashed, Exceeded, Observation, Skipped
from kafka_conformance.process.fetch_client import BadLine, parse_printed_line
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.connection import BadConnect, CannotRun
from kafka_conformance.testees.known import check_connect, connect
from kafka_conformance.testees.protocol import Refusal
from kafka_corpus.wire import WireRecord
from kafka_records import Batch, Header, Record, encode

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fetch-testees.md"
RECORDS = (
    Record(0, 1_700_000_000_000, b"key", b"\xff\x00", (Header(b"h", b"v"), Header(b"n", None))),
    Record(1, 1_700_000_000_001, None, b""),
)
BATCH = Batch(magic=2, base_offset=0, last_offset=4, max_timestamp=RECORDS[1].timestamp, records=RECORDS)
DATA = encode(BATCH)
DELIVERED = tuple(WireRecord(each.offset, each.timestamp, each.key, each.value, list(each.headers)) for each in RECORDS)
# Output of a client that reads nothing: the first batch is the runner's, and requests the client's name.
PRINTS = "import sys; sys.stdout.write({!r})"
END_LINE = f'{{"key":null,"value":"{END.decode()}","encoding":"text"}}\n'


@pytest.fixture(scope="module")
def consumer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The consumer of docs/fetch-testees.md, which is kafka-python's."""
    found = re.search(r"^<!-- consumer.py -->\n```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found
    path = tmp_path_factory.mktemp("fetching") / "consumer.py"
    path.write_text(found[1], encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def client(consumer: Path) -> Iterator[Sandbox]:
    """kafka-python's consumer as a testee."""
    sandbox = Sandbox(connect(f"fetch:{sys.executable} {consumer}"))
    yield sandbox
    sandbox.close()


def ask(sandbox: Sandbox, data: bytes) -> Observation:
    """The observation of the testee for *data*."""
    return next(sandbox.ask([CaseRequest(data)])).observation


def once(script: str, *words: str) -> Sandbox:
    """A testee that runs a program in Python for each case."""
    quoted = script.replace("\\", "\\\\").replace('"', '\\"')
    return Sandbox(connect(f'fetch:{sys.executable} -c "{quoted}" {{topic}} {" ".join(words)}'))


@pytest.mark.slow
def test_a_consumer_says_who_it_is(client: Sandbox) -> None:
    """Name and version are those that the client sends to its broker."""
    hello = client.hello()

    assert (hello.name, hello.consumer, hello.encode.magics) == ("kafka-python", True, [])
    assert hello.version[0].isdigit()


@pytest.mark.slow
def test_a_consumer_delivers_records_and_its_position(client: Sandbox) -> None:
    """The position is the offset after the batch, not after its last record."""
    assert ask(client, DATA) == ConsumedRecords(DELIVERED, next_offset=5)


@pytest.mark.slow
def test_control_records_are_not_delivered(client: Sandbox) -> None:
    """A marker moves the position, and is nothing to see."""
    marker = Record(0, 5, b"\0\0\0\1", b"\0\0\0\0\0\0")
    batch = Batch(
        magic=2, base_offset=0, last_offset=0, max_timestamp=5, producer_id=1, producer_epoch=0,
        transactional=True, control=True, records=(marker,),
    )  # fmt: skip

    assert ask(client, encode(batch)) == ConsumedRecords((), next_offset=1)


def test_what_a_consumer_raises_is_its_refusal(client: Sandbox) -> None:
    """A checksum mismatch is an error without a kind, since the client reports text only."""
    observed = ask(client, DATA[:-1] + b"\xff")

    assert isinstance(observed, ConsumedRecords)
    assert observed.error is not None
    assert (observed.error.kind, observed.records) == ("", ())
    assert "crc check" in observed.error.message
    assert ask(client, DATA) == ConsumedRecords(DELIVERED, next_offset=5)


@pytest.mark.slow
def test_a_command_with_a_topic_is_run_for_each_case(consumer: Path) -> None:
    """The same consumer, started by a program that prints a line for each record."""
    script = (
        "import sys, json, subprocess\n"
        "case = json.dumps(dict(topic=sys.argv[1], bootstrap=sys.argv[2], partition=0, offset=0, end=sys.argv[3]))\n"
        "done = subprocess.run([sys.executable, sys.argv[4]], input=case.encode(), capture_output=True, check=True)\n"
        "answer = json.loads(done.stdout)\n"
        "print('a stray line')\n"
        "for record in answer['records']: print(json.dumps(record))\n"
    )
    sandbox = once(script, "{bootstrap}", f"'{END.decode()}'", str(consumer))
    try:
        assert sandbox.hello().name == "kafka-python"
        assert ask(sandbox, DATA) == ConsumedRecords(DELIVERED, next_offset=5)
    finally:
        sandbox.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (PRINTS.format('{"offset":0,"value":"dg=="}\n'), ConsumedRecords((WireRecord(offset=0, value=b"v"),))),
        (PRINTS.format('{"error":"no"}\n'), ConsumedRecords((), error=Refusal(message="no"))),
        (PRINTS.format('{"offset":3}\n{"error":{"kind":"corrupt","message":"no"}}\n'),
         ConsumedRecords((WireRecord(offset=3),), error=Refusal("corrupt", "no"))),
        (PRINTS.format('{"skipped":"no zstd"}\n'), Skipped("no zstd")),
        ("import sys; sys.exit('it is broken')", ConsumedRecords((), error=Refusal(message="it is broken"))),
        ("import sys; sys.exit(3)", ConsumedRecords((), error=Refusal(message="exit code 3"))),
        (PRINTS.format(END_LINE) + "; sys.stdout.flush(); import time; time.sleep(600)", ConsumedRecords(())),
    ],
    ids=["record", "error", "kind", "skipped", "message", "code", "end"],
)  # fmt: skip
def test_what_is_printed_is_what_it_did(script: str, expected: Observation) -> None:
    """Lines and exit codes become observations; the end record ends the process."""
    sandbox = once(script)
    try:
        assert ask(sandbox, DATA) == expected
    finally:
        sandbox.close()


# The first case is ours, to learn the client's name: these crash in the second.
SECOND = "import sys, os, signal\nif sys.argv[1] == 'case-1': sys.exit()\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", Crashed(signal=11)),
        ("print('panic: index out of range', file=sys.stderr, flush=True); os._exit(2)", Crashed(exit_code=2)),
        ("print('fatal error: runtime: out of memory', file=sys.stderr, flush=True); os._exit(2)",
         Crashed(exit_code=2)),
        ("x = bytearray(1 << 60)", Crashed(exit_code=1)),
        ("x = bytearray(1 << 32)", Exceeded("it took more than 1,024 MiB of memory")),
        ("print('{\"offset\":\"zero\"}')", Crashed(exit_code=1)),
    ],
    ids=["signal", "panic", "out of memory", "a forged length", "its limit", "no record"],
)  # fmt: skip
def test_a_crash_of_a_client_differs_from_a_refusal(script: str, expected: Observation) -> None:
    """Signals, panics and memory beyond the limit are observations; a line that is no record is no answer."""
    sandbox = once(SECOND + script)
    try:
        observed = ask(sandbox, DATA)
    finally:
        sandbox.close()

    assert type(observed) is type(expected)
    if isinstance(observed, Exceeded) and isinstance(expected, Exceeded):
        assert observed.what == expected.what
    if isinstance(observed, Crashed) and isinstance(expected, Crashed):
        assert (observed.signal, observed.exit_code) == (expected.signal, expected.exit_code)


@pytest.mark.slow
def test_the_environment_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client in Python does not import what we import."""
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    sandbox = once("import os, sys; sys.exit(os.environ['PYTHONPATH'])")
    try:
        observed = ask(sandbox, DATA)
    finally:
        sandbox.close()

    assert observed == ConsumedRecords((), error=Refusal(message="/theirs"))
    assert os.environ["PYTHONPATH"] == "/theirs"


def test_bad_commands_are_reported_at_once() -> None:
    """A command that is not there cannot run; one that is none is a wrong connect string."""
    with pytest.raises(CannotRun, match="there is no program"):
        connect("fetch:no-such-program {topic}")
    for text in ("fetch:", "fetch: ", "fetch:'unbalanced"):
        with pytest.raises(BadConnect):
            check_connect(text)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"offset":1,"timestamp":null,"key":"aw==","value":null,"headers":[["aA==",null]]}',
         WireRecord(1, -1, b"k", None, [(b"h", None)])),
        (b'{"offset":1,"key":"aw==","headers":null}', WireRecord(1, UNSET, b"k", UNSET, [])),
        (b'{"key":"6b","encoding":"hex"}', WireRecord(key=b"k")),
        (b'{"key":"k","value":"\\ufffd","headers":[["h","\\ufffd"]],"encoding":"text"}', WireRecord(key=b"k")),
        (b'{"key":"k","headers":[["h","v"]],"encoding":"text","p":0}', WireRecord(key=b"k", headers=[(b"h", b"v")])),
    ],
    ids=["base64", "null headers", "hex", "text lost", "text"],
)  # fmt: skip
def test_a_line_is_a_record(line: bytes, expected: WireRecord) -> None:
    """Bytes are decoded by the given encoding; absent fields and text with replaced bytes are left out."""
    assert wire(line) == expected


def wire(line: bytes) -> WireRecord:
    """The record that *line* is."""
    found = parse_printed_line(line)
    assert found is not None
    return found.wire()


@pytest.mark.parametrize("line", [b"", b"INFO starting", b"[1]", b"{not json", b"\xff{}"], ids=str)
def test_other_lines_are_passed_over(line: bytes) -> None:
    """Output that is no JSON object is treated as a log line."""
    assert parse_printed_line(line) is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"offset":"1"}',
        b'{"offset":null}',
        b'{"encoding":"latin-1"}',
        b'{"headers":[["a"]]}',
        b'{"key":"no base64!"}',
        b'{"key":"g","encoding":"hex"}',
    ],
    ids=str,
)
def test_a_record_that_is_none_is_said_to_be(line: bytes) -> None:
    """A JSON object that does not fit is a mistake of the adapter, not an answer."""
    with pytest.raises(BadLine):
        wire(line)
