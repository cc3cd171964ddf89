"""The protocol's primitive types: how each is written and read (Kafka's protocol guide, KIP-482).

A reader takes the bytes and a position, and gives the value and the position
behind it.  It raises `ValueError` (or `struct.error`, which means the same)
where the bytes end too early or cannot be what they should be.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from uuid import UUID

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
    """The value at *at*, and the position behind it."""
    value = 0
    for index in range(_VARINT_BYTES):
        if at + index >= len(data):
            raise ValueError("a varint needs another byte")
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    raise ValueError("a varint of more than five bytes")


def take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
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
    raw, at = take(data, at, 16)
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
    """A string (UTF-8) or bytes behind a length."""
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
        raw, at = take(data, at, size)
        return raw.decode() if text else raw, at

    return Codec(write, read)


def array(element: Codec, length: Codec, *, nullable: bool) -> Codec:
    """Elements behind their number."""
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
        # Every element takes a byte at least: a count beyond that is a lie, and no reason to loop.
        if not 0 <= count <= len(data) - at:
            raise ValueError(f"{count} elements cannot be in {len(data) - at} bytes")
        found = []
        for _ in range(count):
            value, at = read_element(data, at)
            found.append(value)
        return found, at

    return Codec(write, read)
