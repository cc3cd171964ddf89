"""Field tables of the wire protocol and their primitive types (Kafka protocol guide, KIP-482).

A reader takes the bytes and a position, and gives the value and the position
after it.  It raises `ValueError` (or `struct.error`, which means the same)
where the bytes end too early or cannot be what they should be.

A table is compiled for a version once, into a writer and a reader.  Values are
plain dictionaries under Kafka's field names in snake case.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, NamedTuple, cast
from uuid import UUID

from kafka_brokers.wire.errors import GarbledResponse, UnsupportedVersion

Write = Callable[[list[bytes], Any], None]
Read = Callable[[bytes, int], tuple[Any, int]]

ZERO_UUID: Final = UUID(int=0)
# A length in an unsigned varint is at most an int32 and one.
_VARINT_BYTES: Final = 5


class Codec(NamedTuple):
    """How values of one type are written and read."""

    write: Write
    read: Read


def unsigned_varint(value: int) -> bytes:
    """Seven bits a byte, least significant first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_unsigned_varint(data: bytes, at: int) -> tuple[int, int]:
    """The value at *at*, and the position after it."""
    value = 0
    for index in range(_VARINT_BYTES):
        if at + index >= len(data):
            raise ValueError("a varint needs another byte")
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    raise ValueError("a varint of more than five bytes")


def take_bytes(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    """*size* bytes, all there."""
    if size < 0 or at + size > len(data):
        raise ValueError(f"{size} bytes wanted, {len(data) - at} are left")
    return data[at : at + size], at + size


def _fixed(code: str) -> Codec:
    layout = struct.Struct(f">{code}")
    pack, unpack, size = layout.pack, layout.unpack_from, layout.size

    def write(out: list[bytes], value: Any) -> None:
        out.append(pack(value))

    def read(data: bytes, at: int) -> tuple[Any, int]:
        return unpack(data, at)[0], at + size

    return Codec(write, read)


INT8: Final = _fixed("b")
INT16: Final = _fixed("h")
INT32: Final = _fixed("i")
INT64: Final = _fixed("q")
BOOL: Final = _fixed("?")


def _write_uuid(out: list[bytes], value: Any) -> None:
    out.append(value.bytes)


def _read_uuid(data: bytes, at: int) -> tuple[UUID, int]:
    raw, at = take_bytes(data, at, 16)
    return UUID(bytes=raw), at


UUID_CODEC: Final = Codec(_write_uuid, _read_uuid)


# A length is -1 for null in the old encoding; in the compact one it is an
# unsigned varint of length + 1, and 0 for null.
def compact_length() -> Codec:
    """Lengths in the flexible versions of a request."""

    def write(out: list[bytes], value: Any) -> None:
        out.append(unsigned_varint(value + 1))

    def read(data: bytes, at: int) -> tuple[int, int]:
        length, at = read_unsigned_varint(data, at)
        return length - 1, at

    return Codec(write, read)


COMPACT_LENGTH: Final = compact_length()


def byte_string(length: Codec, *, text: bool, nullable: bool) -> Codec:
    """A string (UTF-8) or bytes after a length."""
    write_length, read_length = length

    def write(out: list[bytes], value: Any) -> None:
        if value is None:
            if not nullable:
                raise ValueError("this version has no null here")
            write_length(out, -1)
            return
        raw = value.encode() if text else bytes(value)
        write_length(out, len(raw))
        out.append(raw)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        size, at = read_length(data, at)
        if size == -1 and nullable:
            return None, at
        raw, at = take_bytes(data, at, size)
        return raw.decode() if text else raw, at

    return Codec(write, read)


def array(element: Codec, length: Codec, *, nullable: bool) -> Codec:
    """Elements after their number."""
    write_length, read_length = length
    write_element, read_element = element

    def write(out: list[bytes], value: Any) -> None:
        if value is None and not nullable:
            raise ValueError("this version has no null here")
        write_length(out, -1 if value is None else len(value))
        for each in value or ():
            write_element(out, each)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        count, at = read_length(data, at)
        if count == -1 and nullable:
            return None, at
        # Every element takes a byte at least: a larger count is forged, and raises an error without a loop.
        if not 0 <= count <= len(data) - at:
            raise ValueError(f"{count} elements cannot be in {len(data) - at} bytes")
        found = []
        for _ in range(count):
            value, at = read_element(data, at)
            found.append(value)
        return found, at

    return Codec(write, read)


Type = Literal["bool", "int8", "int16", "int32", "int64", "uuid", "string", "bytes"]
Message = dict[str, Any]

REQUIRED: Final = object()
NEVER: Final = 1 << 15  # beyond every version
# Under this name, tagged fields that no table of ours knows.
UNKNOWN_TAGS: Final = "unknown_tags"

_FIXED: Final = {
    "bool": BOOL,
    "int8": INT8,
    "int16": INT16,
    "int32": INT32,
    "int64": INT64,
    "uuid": UUID_CODEC,
}


@dataclass(frozen=True, slots=True)
class WireField:
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
    type: Type | tuple[WireField, ...]
    since: int = 0
    until: int = NEVER
    many: bool = False
    null: int = NEVER
    default: Any = REQUIRED
    tag: int | None = None


def compile_fields(fields: tuple[WireField, ...], version: int, *, flexible: bool) -> Codec:
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


def _codec(each: WireField, version: int, flexible: bool) -> Codec:
    nullable = version >= each.null
    if not each.many:
        return _element(each.type, version, flexible, nullable)
    length = COMPACT_LENGTH if flexible else INT32
    return array(_element(each.type, version, flexible, False), length, nullable=nullable)


def _element(kind: Type | tuple[WireField, ...], version: int, flexible: bool, nullable: bool) -> Codec:
    if isinstance(kind, tuple):
        return compile_fields(kind, version, flexible=flexible)
    if kind in _FIXED:
        return _FIXED[kind]
    text = kind == "string"
    length = COMPACT_LENGTH if flexible else INT16 if text else INT32
    return byte_string(length, text=text, nullable=nullable)


def _write_tags(out: list[bytes], value: Mapping[str, Any], tagged: Mapping[int, tuple[WireField, Codec]]) -> None:
    raw: dict[int, bytes] = dict(value.get(UNKNOWN_TAGS, {}))
    for tag, (each, codec) in tagged.items():
        if each.name in value and value[each.name] != each.default:
            inner: list[bytes] = []
            codec.write(inner, value[each.name])
            raw[tag] = b"".join(inner)
    out.append(unsigned_varint(len(raw)))
    for tag, content in sorted(raw.items()):
        out.extend((unsigned_varint(tag), unsigned_varint(len(content)), content))


def _read_tags(data: bytes, at: int, message: Message, tagged: Mapping[int, tuple[WireField, Codec]]) -> int:
    if data[at : at + 1] == b"\0":  # none, nearly always
        return at + 1
    count, at = read_unsigned_varint(data, at)
    for _ in range(count):
        tag, at = read_unsigned_varint(data, at)
        size, at = read_unsigned_varint(data, at)
        raw, at = take_bytes(data, at, size)
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
    request: tuple[WireField, ...]
    response: tuple[WireField, ...]

    def is_flexible(self, version: int) -> bool:
        """Whether the version has tagged fields, in the header too."""
        return version >= self.flexible

    def known_fields(self, message: Mapping[str, Any]) -> Message:
        """The fields of *message* that the response has in some version."""
        names = {each.name for each in self.response}
        return {name: value for name, value in message.items() if name in names}

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
