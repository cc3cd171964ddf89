"""The testee protocol, version 1: models, and the JSON Schema that is generated from them.

JSON lines over standard input and output, one reply to each request, in order.
Lines go out through `request_line` and come in through `parse_reply`, which
never raises: what is no reply is a `Stray`, what is a reply to the right
question but not of the right shape is a `Misfit`.

`python -m kafka_conformance.testees.protocol` writes the schema; with `--check` it fails
if the stored schema differs from the models.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kafka_conformance.sanitize import indented_json, printable
from kafka_corpus.schema import clean_descriptions
from kafka_corpus.wire import WireBatch, WireRecord
from kafka_records import KINDS
from kafka_records.constants import NO_TIMESTAMP

PROTOCOL: Final = 1

# An exception that the codec did not mean to raise, such as an index error: it fits no expectation.
LEAKED: Final = "other"

# A reply longer than this is refused before it is read to its end: 32 MiB of
# JSON hold 24 MiB of record data, and no case needs that much.
MAX_LINE: Final = 32 * 1024 * 1024

# What a testee may call itself, its version, language and runtime; the last two may be empty.
NAME_ALPHABET: Final = "letters and digits of ASCII, spaces, and . _ + - ( ) , ~"
MAX_NAME: Final = 100
_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9 ._+(),~-]{{0,{MAX_NAME - 1}}}")

Aborted = tuple[int, int]

Id = Annotated[str, Meta(description="chosen by the runner, given back unchanged")]


class HelloRequest(msgspec.Struct, tag_field="op", tag="hello"):
    """The first line that a testee gets."""

    protocol: int = PROTOCOL


class DecodeRequest(msgspec.Struct, tag_field="op", tag="decode", kw_only=True):
    """Decode `data`; or each of `many` on its own, if the testee announced that.

    `aborted` comes with `data`, and only to testees that announced `committed`:
    the transactions that the broker's answer to the fetch says were aborted.
    """

    id: Id
    data: bytes | UnsetType = UNSET
    many: list[bytes] | UnsetType = UNSET
    aborted: Annotated[list[Aborted], Meta(description="producer id and first offset of each")] | UnsetType = UNSET


class EncodeRequest(msgspec.Struct, tag_field="op", tag="encode", kw_only=True):
    """Write `batch`."""

    id: Id
    batch: WireBatch


class AppendRequest(msgspec.Struct, tag_field="op", tag="append", kw_only=True):
    """Do with the produced payload `data` what a broker of `release` does."""

    id: Id
    data: bytes
    release: str
    api_version: int
    log_end_offset: int
    leader_epoch: int
    config: dict[str, str]
    now_ms: int


RequestLine = HelloRequest | DecodeRequest | EncodeRequest | AppendRequest


class Capability(msgspec.Struct):
    """The formats that a codec claims to read, or to write."""

    magics: list[int] = []
    compressions: list[str] = []


class HelloReply(msgspec.Struct, kw_only=True):
    """The identity of a testee and the formats it claims."""

    protocol: int
    name: str
    version: str
    language: str = ""
    runtime: str = ""
    decode: Capability = msgspec.field(default_factory=Capability)
    encode: Capability = msgspec.field(default_factory=Capability)
    append: bool = False
    many: Annotated[bool, Meta(description="understands `many` in decode")] = False
    consumer: Annotated[bool, Meta(description="answers decode with `records`, as a consumer delivers them")] = False
    committed: Annotated[
        bool,
        Meta(description="answers decode with `aborted` by `records`, as under read_committed"),
    ] = False


class Refusal(msgspec.Struct, omit_defaults=True):
    """An error as the testee reports it; a kind of its own making fits no expectation, one left out fits all.

    `other` is what the codec lets slip and does not document, as an index error
    out of its inside; it fits no expectation either.
    """

    kind: Annotated[str, Meta(extra_json_schema={"enum": [*KINDS, LEAKED]})] = ""
    message: str = ""


class CodecAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One answer within `many`.

    A consumer gives `records`: the records delivered, without batch boundaries.
    `next_offset` is the offset of its next fetch; `stalled` says that it
    fetched one offset again and again, and would do so for ever, or beside an
    error that the next call to the consumer does not return.
    """

    batches: list[WireBatch] | UnsetType = UNSET
    records: list[WireRecord] | UnsetType = UNSET
    next_offset: int | UnsetType = UNSET
    stalled: bool | UnsetType = UNSET
    data: bytes | UnsetType = UNSET
    error: Refusal | UnsetType = UNSET
    skipped: str | UnsetType = UNSET
    error_code: int | UnsetType = UNSET
    base_offset: int | UnsetType = UNSET
    stored: bytes | UnsetType = UNSET


class CodecReply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An answer with the id of its request, or one answer for each of `many`."""

    id: Id
    batches: list[WireBatch] | UnsetType = UNSET
    records: list[WireRecord] | UnsetType = UNSET
    next_offset: int | UnsetType = UNSET
    stalled: bool | UnsetType = UNSET
    data: bytes | UnsetType = UNSET
    error: Refusal | UnsetType = UNSET
    skipped: str | UnsetType = UNSET
    error_code: int | UnsetType = UNSET
    base_offset: int | UnsetType = UNSET
    stored: bytes | UnsetType = UNSET
    many: list[CodecAnswer] | UnsetType = UNSET


# A reply holds at least one of these.
ANSWERS: Final = ("batches", "records", "data", "error", "skipped", "error_code", "many")


class HelloRefusal(msgspec.Struct, kw_only=True):
    """The reply to hello of a testee that cannot be run so, with its reason."""

    protocol: int
    error: Refusal


@dataclass(frozen=True, slots=True)
class Misfit:
    """A line that names its request but is not a reply to it."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Stray:
    """A line that is nothing of ours, like a debug print; kept short."""

    text: str


_encoder = msgspec.json.Encoder()
_requests = msgspec.json.Decoder(RequestLine)
_replies = msgspec.json.Decoder(CodecReply)
_hellos = msgspec.json.Decoder(HelloReply)
_hello_refusals: Final = msgspec.json.Decoder(HelloRefusal)


class _Envelope(msgspec.Struct):
    id: Any


_envelopes = msgspec.json.Decoder(_Envelope)


def request_line(request: RequestLine) -> bytes:
    """*request* as one line, newline included."""
    return _encoder.encode(request) + b"\n"


def reply_line(reply: CodecReply | HelloReply | HelloRefusal) -> bytes:
    """*reply* as one line, newline included."""
    return _encoder.encode(reply) + b"\n"


def parse_request(line: bytes) -> RequestLine:
    """The request in *line*; raises `msgspec.DecodeError` (a `ValueError`)."""
    request: RequestLine = _requests.decode(line)
    return request


def name_problem(hello: HelloReply) -> str:
    """Why the names of *hello* cannot be used; empty if they can.  They go into files and reports of many formats."""
    for field in ("name", "version", "language", "runtime"):
        value = getattr(hello, field)
        if not _NAME.fullmatch(value) and (value or field in ("name", "version")):
            return f"its {field} {printable(repr(value), MAX_NAME)} is not 1 to {MAX_NAME} of {NAME_ALPHABET}"
    return ""


def parse_hello(line: bytes) -> HelloReply | HelloRefusal | Stray:
    """The reply to the first request, or what stands there instead."""
    part = _json_part(line, b'{"protocol"')
    try:
        return _hellos.decode(part)
    except (ValueError, RecursionError):
        pass
    try:
        return _hello_refusals.decode(part)
    except (ValueError, RecursionError):
        return Stray(printable(line))


def parse_reply(line: bytes) -> CodecReply | Misfit | Stray:
    """The reply in *line*; never raises, whatever the line holds."""
    line = _json_part(line, b'{"id"')
    try:
        return _replies.decode(line)
    except (ValueError, RecursionError) as error:
        return _misfit_or_stray(line, str(error))


def _json_part(line: bytes, start: bytes) -> bytes:
    # A print without a newline ends up in front of the reply, on the same line.
    if line.startswith(b"{"):
        return line
    at = line.find(start)
    return line if at < 0 else line[at:]


def _misfit_or_stray(line: bytes, why: str) -> CodecReply | Misfit | Stray:
    try:
        envelope = _envelopes.decode(line)
    except (ValueError, RecursionError):
        return Stray(printable(line))
    try:
        return _replies.decode(_encoder.encode(without_nulls(msgspec.json.decode(line))))
    except (ValueError, RecursionError):
        return Misfit(printable(str(envelope.id)), printable(why))


# What may be null in a reply; null elsewhere is how many languages leave a field out.
_NULLABLE: Final = frozenset({"key", "value", "delete_horizon"})
# Fields of a record that every record has: null is a value there, that of a record without it.
_NULL_VALUES: Final[dict[str, Any]] = {"timestamp": NO_TIMESTAMP, "headers": []}


def without_nulls(document: Any) -> Any:
    """A reply without the nulls that stand for fields left out; a null timestamp is -1, null headers are none."""
    if isinstance(document, dict):
        given = {name: _NULL_VALUES.get(name) if value is None else value for name, value in document.items()}
        kept = (pair for pair in given.items() if pair[1] is not None or pair[0] in _NULLABLE)
        return {name: value if name == "headers" else without_nulls(value) for name, value in kept}
    return list(map(without_nulls, document)) if isinstance(document, list) else document


def request_id(line: bytes) -> str | None:
    """The id in *line*, for the error reply to a request that does not parse."""
    try:
        envelope = _envelopes.decode(line)
    except (ValueError, RecursionError):
        return None
    return str(envelope.id)


FILE: Final = "protocol.schema.json"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def build_protocol_schema() -> dict[str, Any]:
    """The schema of one line, in either direction."""
    (requests, hello, reply), definitions = msgspec.json.schema_components(
        [RequestLine, HelloReply, CodecReply], ref_template="#/$defs/{name}"
    )
    for answer in (CodecReply.__name__, CodecAnswer.__name__):
        names = [name for name in ANSWERS if name in definitions[answer]["properties"]]
        definitions[answer]["anyOf"] = [{"required": [name]} for name in names]
    # Exactly one of the two, where the model has two optional fields.
    definitions["DecodeRequest"]["oneOf"] = [{"required": ["data"]}, {"required": ["many"]}]
    definitions["request"] = requests
    definitions["reply"] = {"anyOf": [hello, reply]}
    return {
        "$schema": DIALECT,
        "title": f"kafkaproof testee protocol, version {PROTOCOL}: one line",
        "anyOf": [{"$ref": "#/$defs/request"}, {"$ref": "#/$defs/reply"}],
        "$defs": dict(sorted(definitions.items())),
    }


def protocol_schema_text() -> str:
    """The schema as the file holds it."""
    return indented_json(clean_descriptions(build_protocol_schema())).decode()


def stored_schema() -> str:
    """The file inside the package; empty if there is none."""
    source = files(__package__).joinpath(FILE)
    return source.read_text(encoding="utf-8") if source.is_file() else ""


def write_schema(arguments: list[str]) -> int:
    """Write the schema, or with `--check` say whether it is up to date: exit code 0, or 1 if it is not."""
    if "--check" not in arguments:
        (Path(__file__).parent / FILE).write_text(protocol_schema_text(), encoding="utf-8")
        return 0
    if stored_schema() == protocol_schema_text():
        return 0
    print(f"{FILE} is out of date: run python -m kafka_conformance.testees.protocol", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(write_schema(sys.argv[1:]))
