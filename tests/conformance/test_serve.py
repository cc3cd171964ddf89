"""The server of Python testees answers every line."""

import io
import json
import subprocess
import sys
from base64 import b64encode
from typing import Any

import pytest

from kafka_conformance.testees import interface, reference
from kafka_conformance.testees.interface import CodecError, NotDone
from kafka_conformance.testees.serve import serve
from kafka_corpus.case import Case
from kafka_corpus.wire import WireBatch
from kafka_fuzz.planted_bugs import PlantedBug
from kafka_records import Batch, Record, encode


def talk(lines: list[object], testee: interface.Testee = reference) -> list[Any]:
    """The replies to *lines*; what is no string is sent as JSON."""
    sent = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    sink = io.BytesIO()
    serve(testee, io.BytesIO(sent.encode()), sink)
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def text(data: bytes) -> str:
    """Bytes as the protocol writes them."""
    return b64encode(data).decode()


def failing(error: BaseException) -> PlantedBug:
    """A testee whose decoder raises *error*."""

    def decode(data: bytes) -> list[WireBatch]:
        assert isinstance(data, bytes)
        raise error

    return PlantedBug(NAME="failing", wrong="", caught_as=None, decode=decode)


def test_hello() -> None:
    """Hello has the name, the protocol and the announced formats."""
    (hello,) = talk([{"op": "hello", "protocol": 1}])

    assert (hello["protocol"], hello["name"], hello["language"], hello["many"]) == (1, "reference", "python", True)
    assert hello["decode"]["magics"] == [0, 1, 2]
    assert hello["encode"]["compressions"] == ["none", "gzip", "snappy", "lz4", "zstd"]


def test_decode_and_encode_go_together(named: dict[str, Case]) -> None:
    """Bytes that the reference decodes are encoded to the same bytes."""
    data = named["three"].input
    assert isinstance(data, bytes)
    (decoded,) = talk([{"id": "7", "op": "decode", "data": text(data)}])
    (encoded,) = talk([{"id": "8", "op": "encode", "batch": decoded["batches"][0]}])

    assert (decoded["id"], len(decoded["batches"][0]["records"])) == ("7", 3)
    assert encoded == {"id": "8", "data": text(data)}


def test_batches_before_an_error(named: dict[str, Case]) -> None:
    """The reference delivers the batches before the error, and the error's kind."""
    data = named["second_crc"].input
    assert isinstance(data, bytes)
    (reply,) = talk([{"id": "7", "op": "decode", "data": text(data)}])

    assert len(reply["batches"]) == 1
    assert reply["error"]["kind"] == "corrupt"


def test_many() -> None:
    """Each of many is answered on its own, errors too."""
    (reply,) = talk([{"id": "7", "op": "decode", "many": ["", text(bytes(12)), ""]}])

    assert [sorted(answer) for answer in reply["many"]] == [["batches"], ["error"], ["batches"]]


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        '{"id":"7"}',
        '{"id":"7","op":"decode"}',
        '{"id":"7","op":"decode","data":"no base64!"}',
        '{"id":"7","op":"decode","data":5}',
        '{"id":"7","op":"decode","many":5}',
        '{"id":"7","op":"encode","batch":[]}',
        '{"id":"7","op":"encode","batch":{"magic":"two"}}',
        '{"id":"7","op":"nothing"}',
        '{"id":"7","op":' + "[" * 5000,
        "\x00\x01",
    ],
)
def test_what_is_no_request_gets_an_error(line: str) -> None:
    """A line that is no request gets an error reply, and serving goes on."""
    error, after = talk([line, {"id": "8", "op": "decode", "data": ""}])

    assert error["error"]["kind"] == "malformed"
    assert after == {"id": "8", "batches": []}


def test_empty_lines_are_no_requests() -> None:
    """Nothing is answered to nothing."""
    assert talk(["", "  "]) == []


def appending(data: bytes, release: str = "4.4.0") -> dict[str, object]:
    """A request to append *data* at offset 7."""
    request = {"id": "9", "op": "append", "data": text(data), "release": release, "api_version": 9}
    return request | {"log_end_offset": 7, "leader_epoch": 4, "config": {}, "now_ms": 1_724_709_879_130}


def test_append_is_skipped() -> None:
    """A testee that is no broker skips append requests."""
    (reply,) = talk([appending(b"")], failing(IndexError()))

    assert sorted(reply) == ["id", "skipped"]


def test_append_is_answered() -> None:
    """The reference says what a broker stores, or the code that it refuses with."""
    data = encode(Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=5, records=(Record(0, 5, b"k", b"v"),)))
    stored, refused, unknown = talk([appending(data), appending(data + data), appending(data, "0.7.0")])

    kept = (7).to_bytes(8, "big") + data[8:12] + (4).to_bytes(4, "big") + data[16:]
    assert stored == {"id": "9", "error_code": 0, "base_offset": 7, "stored": text(kept)}
    assert refused == {"id": "9", "error_code": 87}
    assert unknown["error"]["kind"] == "malformed"


@pytest.mark.parametrize(
    ("error", "reply"),
    [
        (NotDone("no v0"), {"skipped": "no v0"}),
        (CodecError("limit", "too much"), {"error": {"kind": "limit", "message": "too much"}}),
        (IndexError("at 5"), {"error": {"kind": "other", "message": "builtins.IndexError: at 5"}}),
        (MemoryError(), {"error": {"kind": "other", "message": "builtins.MemoryError: "}}),
        (RecursionError("deep"), {"error": {"kind": "other", "message": "builtins.RecursionError: deep"}}),
    ],
)
def test_exceptions_are_replies(error: Exception, reply: dict[str, object]) -> None:
    """An exception of an adapter becomes the reply, with its class if it is not a `CodecError`."""
    assert talk([{"id": "7", "op": "decode", "data": ""}], failing(error)) == [{"id": "7"} | reply]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_the_end_of_the_process_is_no_reply(error: BaseException) -> None:
    """An interrupt and an exit end the testee, as they would anywhere."""
    with pytest.raises(type(error)):
        talk([{"id": "7", "op": "decode", "data": ""}], failing(error))


def test_encode_errors_are_replies() -> None:
    """A batch that cannot be written is refused with a kind."""
    (reply,) = talk([{"id": "8", "op": "encode", "batch": {"magic": 9, "base_offset": 0, "last_offset": 0}}])

    assert reply["error"]["kind"] == "unsupported_magic"


@pytest.mark.slow
def test_as_a_program(named: dict[str, Case]) -> None:
    """`kafkaproof testee reference` answers line by line, before its input ends."""
    command = [sys.executable, "-m", "kafkaproof", "testee", "reference"]
    environment = {"PYTHONPATH": ":".join(sys.path)}
    batch = Batch(magic=2, base_offset=0, last_offset=-1)
    assert encode(batch)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for line in ('{"op":"hello","protocol":1}', '{"id":"7","op":"decode","data":""}', "what?"):
            child.stdin.write(line + "\n")
            child.stdin.flush()
            assert json.loads(child.stdout.readline())
        child.stdin.close()

    assert child.returncode == 0
