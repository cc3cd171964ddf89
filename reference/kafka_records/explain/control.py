"""Keys and values of control records in words: end markers, and what KRaft writes.

`decode` does not look into them, so nothing in here is ever the input's error.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from kafka_records.control import KEY, MARKER_VALUE, TRANSACTION_MARKERS, decode_key, decode_value, schema_of
from kafka_records.errors import RecordFormatError
from kafka_records.explain.pen import Pen
from kafka_records.explain.words import Words, content, size, text, timestamp
from kafka_records.schema import FIXED, MAX_UNSIGNED_BYTES, UUID_BYTES, Schema, decode_length
from kafka_records.varint import decode_unsigned

VERSION_BYTES = 2
BROKEN = "not a control record"


def write_control_key(pen: Pen, length: int) -> str | int:
    """Write version and type; give the type's name, its id if it is unknown, or `BROKEN`."""
    if length > 0:
        pen.claim("key", length)
    try:
        version, type_ = decode_key(None if length < 0 else pen.data[pen.at : pen.at + length])
    except RecordFormatError as error:
        words = Words(size(length), f"{error.message} ({error.rule})", rule=error.rule)
        pen.field("key", max(length, 0), words, "key")
        return BROKEN
    with pen.part("key", "control key", length):
        pen.field(
            "version", 2, Words(str(version), "read like 0" if version else "", rule="TXN-10"), "key", value=version
        )
        _, id_ = KEY.unpack_from(pen.data, pen.at - VERSION_BYTES)
        known = type_.replace("_", " ") if isinstance(type_, str) else "an unknown type, to be ignored"
        pen.field("type", 2, Words(str(id_), known, rule="TXN-11"), "key", value=id_)
        pen.rest("ignored", rule="TXN-09")
    return type_


def write_control_value(pen: Pen, type_: str | int, length: int) -> None:
    """Write the fields of a value of a known type; any other stays bytes."""
    pen.claim("value", max(length, 0))
    if length <= 0 or isinstance(type_, int) or type_ == BROKEN:
        pen.content("value", max(length, 0), content, "value")
        return
    raw = pen.data[pen.at : pen.at + length]
    with pen.part("value", f"{type_.replace('_', ' ')} value · {verdict(type_, raw)}", length):
        if type_ in TRANSACTION_MARKERS:
            write_marker(pen, raw)
        else:
            Value(pen, raw, pen.at).struct(schema_of(type_, raw))
        pen.rest("ignored", rule="TXN-13" if type_ in TRANSACTION_MARKERS else "KRF-09")


def verdict(type_: str, raw: bytes) -> str:
    """Whether the value can be read."""
    try:
        decode_value(type_, raw)
    except RecordFormatError as error:
        return f"broken: {error.message} ({error.rule})"
    return size(len(raw))


def write_marker(pen: Pen, raw: bytes) -> None:
    """Write an end marker's value (TXN-13)."""
    if len(raw) < MARKER_VALUE.size:
        raise RecordFormatError("malformed", f"it takes {size(MARKER_VALUE.size)}", rule="TXN-13")
    version, epoch = MARKER_VALUE.unpack_from(raw)
    pen.field("version", VERSION_BYTES, Words(str(version), rule="TXN-13"), "value", value=version)
    meaning = "of the coordinator"
    pen.field("coordinator_epoch", 4, Words(str(epoch), meaning, rule="TXN-13"), "value", value=epoch)


class Value(NamedTuple):
    """A KRaft value in a pen's hand: its bytes, and where they start in the section."""

    pen: Pen
    raw: bytes
    start: int

    def struct(self, schema: Schema) -> None:
        """Write the fields of *schema*, and the tagged fields after them."""
        for name, type_ in schema:
            self.field(name, type_)
        for index in range(self.unsigned("tagged_fields")):
            if not self.pen.left:
                return
            with self.pen.part(f"tagged_fields[{index}]", f"tagged field {index}"):
                self.unsigned("tag")
                self.pen.content("data", self.unsigned("size"), content, "value")

    def field(self, name: str, type_: Any) -> None:
        """Write one field of any type of a schema."""
        match type_:
            case tuple():
                with self.pen.part(name, name.replace("_", " ")):
                    self.struct(type_)
            case [schema]:
                for index in range(self.length(f"{name}_count")):
                    with self.pen.part(f"{name}[{index}]", f"{name.replace('_', ' ')} {index}"):
                        self.struct(schema)
            case "uuid":
                self.pen.content(name, UUID_BYTES, lambda raw: Words(uuid(raw)), "value")
            case "string":
                self.pen.content(name, self.length(f"{name}_length"), lambda raw: Words(text(raw)), "value")
            case _:
                self.fixed(name, FIXED[type_])

    def fixed(self, name: str, struct: Struct) -> None:
        """Write a number."""
        self.pen.claim(name, struct.size)
        (value,) = struct.unpack_from(self.raw, self.pen.at - self.start)
        meaning = timestamp(value) if name.endswith("timestamp") else ""
        self.pen.field(name, struct.size, Words(str(value), meaning, rule="KRF-09"), "value", value=value)

    def length(self, name: str) -> int:
        """Write a compact length or count, which is one less than its varint says (KRF-09)."""
        at = self.pen.at - self.start
        value, end = decode_length(self.raw, at)
        words = Words(str(value), f"unsigned varint {value + 1}, less 1", rule="KRF-09")
        self.pen.field(name, end - at, words, "length", value=value)
        return value

    def unsigned(self, name: str) -> int:
        """Write a plain unsigned varint."""
        at = self.pen.at - self.start
        value, end = decode_unsigned(self.raw, at, MAX_UNSIGNED_BYTES, name)
        words = Words(str(value), "" if value or name == "tag" else "none", rule="KRF-09")
        self.pen.field(name, end - at, words, "length", value=value)
        return value


def uuid(raw: bytes) -> str:
    """A uuid in its usual form.

    >>> uuid(bytes(15) + b"\x01")
    '00000000-0000-0000-0000-000000000001'
    """
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
