"""Lines of the testee protocol, and its schema."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kafka_conformance.judge.observation import Decoded, Encoded, Garbled, Refused, Skipped, observe
from kafka_conformance.testees import protocol
from kafka_conformance.testees.protocol import CodecReply, Misfit, Stray
from kafka_corpus.case import Case
from kafka_corpus.wire import to_wire

# The lines of the protocol's description, word for word.
REQUESTS = (
    '{"op":"hello","protocol":1}',
    '{"id":"7","op":"decode","data":"AAAA"}',
    '{"id":"7","op":"decode","many":["AAAA",""]}',
    '{"id":"8","op":"encode","batch":{"magic":2,"records":[]}}',
    '{"id":"8","op":"encode","batch":{"records":[{"key":null,"headers":[[null,"AAAA"]]}]}}',
    '{"id":"9","op":"append","data":"AAAA","release":"4.4.0","api_version":7,"log_end_offset":0,"leader_epoch":0,'
    '"config":{"message.timestamp.type":"CreateTime"},"now_ms":1724709879130}',
)
HELLO = (
    '{"protocol":1,"name":"franz-go","version":"1.20.5","language":"go","runtime":"go1.26","decode":{"magics":[0,1,2],'
    '"compressions":["none","gzip"]},"encode":{"magics":[2],"compressions":["none"]},"append":false}'
)
REPLIES = (
    '{"id":"7","batches":[]}',
    '{"id":"7","batches":[],"error":{"kind":"corrupt","message":"…"}}',
    '{"id":"7","error":{"kind":"corrupt","message":"…"}}',
    '{"id":"7","skipped":"no v0 decoder"}',
    '{"id":"7","many":[{"batches":[]},{"skipped":"no"}]}',
    '{"id":"8","data":"AAAA"}',
    '{"id":"9","error_code":0,"base_offset":0,"stored":"AAAA"}',
    '{"id":"9","error_code":87}',
)


def valid_line(line: str) -> bool:
    """Whether the stored schema takes *line*."""
    return bool(Draft202012Validator(json.loads(protocol.stored_schema())).is_valid(json.loads(line)))


def test_schema_is_current() -> None:
    """The schema in the package is what the models say, and `--check` agrees."""
    assert protocol.stored_schema() == protocol.protocol_schema_text()
    assert protocol.write_schema(["--check"]) == 0


def test_schema_check_fails_on_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--check` fails when the models say something else."""
    monkeypatch.setattr(protocol, "FILE", "another.json")

    assert protocol.write_schema(["--check"]) == 1


def test_schema_is_a_schema() -> None:
    """The file is valid JSON Schema."""
    Draft202012Validator.check_schema(json.loads(protocol.stored_schema()))


@pytest.mark.parametrize("line", [*REQUESTS, HELLO, *REPLIES])
def test_schema_takes_the_described_lines(line: str) -> None:
    """Every line of the protocol's description fits the schema."""
    assert valid_line(line)


@pytest.mark.parametrize(
    "line",
    [
        '{"id":"7"}',
        '{"id":7,"batches":[]}',
        '{"id":"7","batches":{}}',
        '{"id":"7","error":{"kind":7}}',
        '{"id":"7","error":{"kind":"nasty"}}',
        '{"id":"7","op":"decode"}',
        '{"op":"unknown","id":"7"}',
        '{"protocol":1}',
        "[]",
    ],
)
def test_schema_refuses(line: str) -> None:
    """A line that is neither request nor reply does not fit."""
    assert not valid_line(line)


@pytest.mark.parametrize("line", REQUESTS)
def test_requests_come_back(line: str) -> None:
    """A request that is read and written again says the same."""
    assert json.loads(protocol.request_line(protocol.parse_request(line.encode()))) == json.loads(line)


def test_hello_is_read() -> None:
    """A hello reply gives identity and capabilities."""
    hello = protocol.parse_hello(HELLO.encode())

    assert isinstance(hello, protocol.HelloReply)
    assert (hello.name, hello.decode.magics, hello.append, hello.many) == ("franz-go", [0, 1, 2], False, False)


@pytest.mark.parametrize(
    ("line", "kind"), [*zip(REPLIES[:4], (Decoded, Decoded, Refused, Skipped), strict=True)], ids=str
)
def test_replies_are_observed(line: str, kind: type) -> None:
    """Each form of reply is the observation that it says."""
    reply = protocol.parse_reply(line.encode())

    assert isinstance(reply, CodecReply)
    assert isinstance(observe(reply), kind)


def test_encoded_is_observed() -> None:
    """A reply with data is Encoded, one with nothing is Garbled."""
    assert observe(CodecReply(id="8", data=b"\0")) == Encoded(b"\0")
    assert isinstance(observe(CodecReply(id="8")), Garbled)


@pytest.mark.parametrize("line", [b"DEBUG", b"", b"[1]", b'{"no":"id"}', b"{" * 10_000, b'"x"', b"\xff"])
def test_other_lines_are_stray(line: bytes) -> None:
    """A line without an id is stray."""
    assert isinstance(protocol.parse_reply(line), Stray)


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":"7","batches":1}',
        b'{"id":"7","batches":[{"magic":"two"}]}',
        b'{"id":"7","data":"not base64!"}',
        b'{"id":7,"batches":[]}',
    ],
)
def test_wrong_shapes_are_misfits(line: bytes) -> None:
    """A line with the id but of another shape is a misfit that says what is wrong."""
    reply = protocol.parse_reply(line)

    assert isinstance(reply, Misfit)
    assert reply.id == "7"
    assert "$" in reply.why or "JSON" in reply.why


def test_print_without_newline_is_cut_off() -> None:
    """Text before the reply on its line is ignored."""
    reply = protocol.parse_reply(b'loading...{"id":"7","batches":[]}')

    assert reply == CodecReply(id="7", batches=[])


def test_null_is_left_out() -> None:
    """Null where only a number can be is as if the field were left out; a record's null is a value."""
    line = (
        b'{"id":"7","error":null,"batches":[{"magic":2,"max_timestamp":null,'
        b'"records":[{"timestamp":null,"key":null,"value":null,"headers":null}]}]}'
    )
    reply = protocol.parse_reply(line)

    assert isinstance(reply, CodecReply)
    assert isinstance(reply.batches, list)
    assert isinstance(reply.batches[0].records, list)
    first = reply.batches[0].records[0]
    assert (first.offset, first.timestamp, first.key, first.headers) == (msgspec.UNSET, -1, None, [])


def test_unknown_error_kind_is_a_refusal() -> None:
    """An error of a kind that we do not know is still an error."""
    reply = protocol.parse_reply(b'{"id":"7","error":{"kind":"nasty","message":"\\u001b"}}')

    assert isinstance(reply, CodecReply)
    assert observe(reply) == Refused(protocol.Refusal("nasty", r"\x1b"))


@given(st.binary())
def test_parsing_never_raises(line: bytes) -> None:
    """Whatever bytes stand on a line, reading it gives a value."""
    assert isinstance(protocol.parse_reply(line), CodecReply | Misfit | Stray)
    assert isinstance(protocol.parse_hello(line), protocol.HelloReply | Stray)


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_parsing_json_never_raises(document: object) -> None:
    """Any JSON that follows an id is parsed to a value."""
    line = json.dumps({"id": "7", "batches": document}).encode()

    assert isinstance(protocol.parse_reply(line), CodecReply | Misfit)


def test_batches_survive_the_protocol(corpus: list[Case]) -> None:
    """The expected batches of every case come back from a reply line as they were."""
    for case in corpus:
        batches = list(map(to_wire, case.expect.batches))
        reply = protocol.parse_reply(protocol.reply_line(CodecReply(id="1", batches=batches)))

        assert isinstance(reply, CodecReply)
        assert reply.batches == batches
