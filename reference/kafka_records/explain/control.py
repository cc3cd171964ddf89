"""Keys and values of control records in words: end markers, and what KRaft writes.

`decode` does not look into them, so nothing in here is ever the input's error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafka_records.control import KEY, MARKER_VALUE, TRANSACTION_MARKERS, decode_key, decode_value, schema_of
from kafka_records.errors import RecordFormatError
from kafka_records.explain.pen import Pen
from kafka_records.explain.words import Words, content, number, size, text, timestamp
from kafka_records.schema import FIXED, UUID_BYTES, Schema, decode_length, decode_unsigned_int

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
        pen.field("version", 2, Words(str(version), "read like 0" if version else "", rule="TXN-10"), "key", value=version)
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
    meaning = "epoch of the transaction coordinator"
    pen.field("coordinator_epoch", 4, Words(str(epoch), meaning, rule="TXN-13"), "value", value=epoch)


class Value(NamedTuple):
    """A KRaft value in a pen's hand: its bytes, and where they start in the section."""

    pen: Pen
    raw: bytes
    start: int

    def struct(self, schema: Schema) -> None:
        """Write the fields of *schema*, and the tagged fields behind them."""
        for name, type_ in schema:
            self.field(name, type_)
        count = self.unsigned("tagged_fields", "none" )
        for index in range(count):
            if not self.pen.left:
                return
            with self.pen.part(f"tagged_fields[{index}]", f"tagged field {index}"):
                self.unsigned("tag")
                length = self.unsigned("size")
                self.pen.content("data", length, content, "value")

    def field(self, name: str, type_: Any) -> None:
        """Write one field of any type of a schema."""
        match type_:
            case tuple():
                with self.pen.part(name, name.replace("_", " ")):
                    self.struct(type_)
            case [schema]:
                self.array(name, schema)
            case "uuid":
                self.pen.content(name, UUID_BYTES, lambda raw: Words(uuid(raw), "a uuid"), "value")
            case "string":
                self.pen.content(name, self.length(name, "byte"), lambda raw: Words(text(raw)), "value")
            case _:
                self.fixed(name, type_)
