"""Tables of fields: what a request or response holds, in which of its versions.

A table is compiled for a version once, into a writer and a reader.  Values are
plain dictionaries under Kafka's field names in snake case.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, cast

from kafka_conformance.broker.wire import primitives
from kafka_conformance.broker.wire.errors import GarbledResponse, UnsupportedVersion
from kafka_conformance.broker.wire.primitives import Codec, read_unsigned_varint, take, unsigned_varint

Type = Literal["bool", "int8", "int16", "int32", "int64", "uuid", "string", "bytes"]
Message = dict[str, Any]

REQUIRED: Final = object()
NEVER: Final = 1 << 15  # beyond every version
# Under this name, tagged fields that no table of ours knows.
UNKNOWN_TAGS: Final = "unknown_tags"

_FIXED: Final = {
    "bool": primitives.BOOL,
    "int8": primitives.INT8,
    "int16": primitives.INT16,
    "int32": primitives.INT32,
    "int64": primitives.INT64,
    "uuid": primitives.UUID_CODEC,
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    Attributes:
        name: Kafka's, in snake case.
        type: a primitive, or the fields of an element, which then are a struct.
        since, until: the first and last version that have it.
        many: whether it is an array of that.
        null: the first version in which it may be null.
        default: what is written where the value is left out; `REQUIRED` if there is none.
        tag: its number, if it is a tagged field (KIP-482).
    """

    name: str
    type: Type | tuple[Field, ...]
    since: int = 0
    until: int = NEVER
    many: bool = False
    null: int = NEVER
    default: Any = REQUIRED
    tag: int | None = None


def compile_fields(fields: tuple[Field, ...], version: int, *, flexible: bool) -> Codec:
    """The writer and the reader of a struct in one version."""
    present = [each for each in fields if each.since <= version <= each.until]
    plain = [(each, _codec(each, version, flexible)) for each in present if each.tag is None]
    tagged = {each.tag: (each, _codec(each, version, flexible)) for each in present if each.tag is not None}
    names = frozenset(each.name for each in fields) | {UNKNOWN_TAGS}
    writers = [(each.name, each.default, codec.write) for each, codec in plain]
    readers = [(each.name, codec.read) for each, codec in plain]
    absent = {each.name: each.default for each, _ in tagged.values()}

    def write(out: list[bytes], value: Mapping[str, Any]) -> None:
        if not names.issuperset(value):
            raise ValueError(f"no such fields: {', '.join(sorted(set(value) - names))}")
        for name, default, write_field in writers:
            found = value.get(name, default)
            if found is REQUIRED:
                raise ValueError(f"version {version} needs {name}")
            write_field(out, found)
        if flexible:
            _write_tags(out, value, tagged)

    def read(data: bytes, at: int) -> tuple[Message, int]:
        message = {}
        for name, read_field in readers:
            message[name], at = read_field(data, at)
        if flexible:
            message.update(absent)
            at = _read_tags(data, at, message, tagged)
        return message, at

    return Codec(write, read)


def _codec(each: Field, version: int, flexible: bool) -> Codec:
    nullable = version >= each.null
    if not each.many:
        return _element(each.type, version, flexible, nullable)
    length = primitives.COMPACT_LENGTH if flexible else primitives.INT32
    return primitives.array(_element(each.type, version, flexible, False), length, nullable=nullable)


def _element(kind: Type | tuple[Field, ...], version: int, flexible: bool, nullable: bool) -> Codec:
    if isinstance(kind, tuple):
        return compile_fields(kind, version, flexible=flexible)
    if kind in _FIXED:
        return _FIXED[kind]
    text = kind == "string"
    length = primitives.COMPACT_LENGTH if flexible else primitives.INT16 if text else primitives.INT32
    return primitives.byte_string(length, text=text, nullable=nullable)


def _write_tags(out: list[bytes], value: Mapping[str, Any], tagged: Mapping[int, tuple[Field, Codec]]) -> None:
    present = {
        tag: (codec, value[each.name])
        for tag, (each, codec) in tagged.items()
        if each.name in value and value[each.name] != each.default
    }
    out.append(unsigned_varint(len(present)))
    for tag, (codec, found) in sorted(present.items()):
        inner: list[bytes] = []
        codec.write(inner, found)
        raw = b"".join(inner)
        out.extend((unsigned_varint(tag), unsigned_varint(len(raw)), raw))


def _read_tags(data: bytes, at: int, message: Message, tagged: Mapping[int, tuple[Field, Codec]]) -> int:
    if data[at : at + 1] == b"\0":  # none, nearly always
        return at + 1
    count, at = read_unsigned_varint(data, at)
    for _ in range(count):
        tag, at = read_unsigned_varint(data, at)
        size, at = read_unsigned_varint(data, at)
        raw, at = take(data, at, size)
        if tag in tagged:
            each, codec = tagged[tag]
            message[each.name] = _whole(codec, raw)
        else:
            message.setdefault(UNKNOWN_TAGS, {})[tag] = raw
    return at


def _whole(codec: Codec, data: bytes) -> Any:
    """The value that takes all of *data*."""
    value, at = codec.read(data, 0)
    if at != len(data):
        raise ValueError(f"{len(data) - at} bytes are left over")
    return value


# Compared by identity: a table has a hundred fields, and is looked up for every request.
@dataclass(frozen=True, slots=True, eq=False)
class Api:
    """One request and its response.

    Attributes:
        key: its number.
        name: Kafka's.
        oldest, newest: the versions that the tables have.
        flexible: the first version with compact lengths and tagged fields.
        request, response: their fields.
    """

    key: int
    name: str
    oldest: int
    newest: int
    flexible: int
    request: tuple[Field, ...]
    response: tuple[Field, ...]

    def is_flexible(self, version: int) -> bool:
        """Whether the version has tagged fields, in the header too."""
        return version >= self.flexible

    def encode(self, version: int, body: Mapping[str, Any]) -> bytes:
        """The bytes of a request, without its header.

        Raises:
            UnsupportedVersion: the table has no such version.
            ValueError: a field is missing, unknown, or null where it must not be.
        """
        out: list[bytes] = []
        _compiled(self, version, "request").write(out, body)
        return b"".join(out)

    def decode(self, version: int, data: bytes) -> Message:
        """The fields of a response, its header taken off.

        Raises:
            GarbledResponse: these bytes are no such response, or more than one.
        """
        # A broker that does not know this version of ApiVersions answers in version 0 (KIP-511).
        if self.key == 18 and data[:2] == b"\x00\x23":
            version = 0
        try:
            return cast("Message", _whole(_compiled(self, version, "response"), data))
        except (ValueError, struct.error) as error:
            raise GarbledResponse(f"{self.name} v{version}: {error}") from error


@cache
def _compiled(api: Api, version: int, side: Literal["request", "response"]) -> Codec:
    if not api.oldest <= version <= api.newest:
        raise UnsupportedVersion(f"{api.name} v{version}: there are {api.oldest} to {api.newest}")
    fields = api.request if side == "request" else api.response
    return compile_fields(fields, version, flexible=api.is_flexible(version))


def side(api: Api, version: int, which: Literal["request", "response"]) -> Codec:
    """The writer and the reader of one side: what a broker would use for the other direction.

    Raises:
        UnsupportedVersion: the table has no such version.
    """
    return _compiled(api, version, which)
