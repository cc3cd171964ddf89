"""A v2 record in words, its headers, and the key and value of a control record or of one in an internal topic.

`decode` does not look into control records (end markers, and what KRaft writes), nor into those of internal
topics, so nothing in their keys and values is ever the input's error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple

from kafka_records.control import KEY, MARKER_VALUE, TRANSACTION_MARKERS, decode_key, decode_value, schema_of
from kafka_records.errors import RecordFormatError
from kafka_records.explain.model import Group
from kafka_records.explain.pen import Pen
from kafka_records.explain.words import Words, content, length_of, size, text, timestamp
from kafka_records.internal_topics import (
    METADATA,
    FieldReading,
    FieldSpan,
    decode_metadata,
    decode_record_key,
    decode_record_value,
    table_of,
)
from kafka_records.primitives import wrap_int64
from kafka_records.schema import FIXED, MAX_UNSIGNED_BYTES, UUID_BYTES, Schema, decode_length
from kafka_records.varint import decode_unsigned


class Surroundings(NamedTuple):
    """The values that a record takes from its batch; *append_time* is None unless LogAppendTime.

    *topic* is the internal topic that the record belongs to, or empty.
    """

    base_offset: int
    base_timestamp: int
    append_time: int | None
    control: bool
    topic: str = ""

    def say_time(self, delta: int) -> str:
        """The timestamp that a delta gives (TIM-01, TIM-02, TIM-18)."""
        own = timestamp(wrap_int64(self.base_timestamp + delta))
        return own if self.append_time is None else f"{own}, but LogAppendTime holds: {timestamp(self.append_time)}"

    def say_offset(self, delta: int) -> str:
        """The offset that a delta gives (OFF-01)."""
        return f"offset {wrap_int64(self.base_offset + delta)}"


def write_record(pen: Pen, index: int, around: Surroundings) -> None:
    """Write one record; if it is broken, its length still shows where the next starts."""
    with pen.part(f"records[{index}]", f"record {index}") as draft:
        length = pen.varint("length", lambda value: f"{size(value)} to follow", "framing", "REC-02")
        pen.narrow("length", length)
        draft.title += f" · {size(pen.end - draft.offset)}"
        attributes = pen.data[pen.at] if pen.left else 0
        unused = "unused" if attributes == 0 else "unused bits, ignored"
        pen.field("attributes", 1, Words(f"0x{attributes:02x}", unused, rule="ATT-15"), "format", value=attributes)
        pen.varlong("timestamp_delta", around.say_time, "time", "TIM-01")
        delta = pen.varint("offset_delta", around.say_offset, "offset", "OFF-01")
        draft.title = f"record {index} · {around.say_offset(delta)} · {size(pen.end - draft.offset)}"
        if around.control:
            draft.title += f" · {write_control_content(pen)}"
        elif around.topic:
            draft.title += f" · {write_topic_content(pen, around.topic, write_varint_length)}"
        else:
            write_nullable(pen, "key")
            write_nullable(pen, "value")
        write_headers(pen)
        pen.rest("more than the record's fields take", rule="REC-04")


def write_nullable(pen: Pen, name: str) -> None:
    """Write a length and the bytes that it claims; a negative one claims none."""
    length = write_varint_length(pen, name)
    pen.content(name, max(length, 0), content, "key" if name == "key" else "value")


def write_varint_length(pen: Pen, name: str) -> int:
    """Write the length of a key or value."""
    rule = "REC-10" if name == "key" else "REC-11"
    return pen.varint(f"{name}_length", lambda value: length_of(name, value), "length", rule)


def write_headers(pen: Pen) -> None:
    """Write the header count and the headers."""
    count = pen.varint("header_count", lambda value: "" if value else "no headers", "framing", "REC-01")
    if not 0 <= count <= pen.left:
        message = f"header_count is {count}, {pen.left} are left"
        raise RecordFormatError("malformed", message, rule="REC-14" if count < 0 else "REC-15")
    for index in range(count):
        if pen.left:
            write_record_header(pen, index)


def write_record_header(pen: Pen, index: int) -> None:
    """Write one header; a broken one leaves the rest of its record unread."""
    with pen.part(f"headers[{index}]", f"header {index}") as draft:
        length = pen.varint("key_length", lambda value: length_of("key", value), "length", "REC-18")
        key = pen.data[pen.at : pen.at + max(length, 0)]
        pen.content("key", length, say_header_key, "key")  # REC-18: a header key cannot be null
        draft.title += f" · {text(key)}"
        write_nullable(pen, "value")


def say_header_key(key: bytes) -> Words:
    """A header key: text by convention, any bytes in fact (REC-21)."""
    try:
        key.decode()
    except UnicodeDecodeError:
        return Words(text(key), f"{size(len(key))}, not UTF-8", rule="REC-21")
    return Words(text(key), size(len(key)), rule="REC-21")


def write_control_content(pen: Pen) -> str:
    """Write key and value of a control record; give the name of its type."""
    type_ = write_control_key(pen, write_varint_length(pen, "key"))
    write_control_value(pen, type_, write_varint_length(pen, "value"))
    return type_ if isinstance(type_, str) else f"unknown type {type_}"


def write_topic_content(pen: Pen, topic: str, lengths: Callable[[Pen, str], int]) -> str:
    """Write key and value of a record of an internal topic, each after what *lengths* writes; give its type's name."""
    length = lengths(pen, "key")
    if topic in METADATA:
        pen.content("key", max(length, 0), content, "key")
        type_ = write_topic_part(pen, "value", lengths(pen, "value"), partial(metadata_type, topic))
        return type_ if isinstance(type_, str) else unknown_type(type_)
    type_ = write_topic_part(pen, "key", length, lambda raw, reading: decode_record_key(topic, raw, reading)[0])
    table = None if type_ is None else table_of(topic, type_, "Key")
    length = lengths(pen, "value")
    if table is None:
        pen.content("value", max(length, 0), content, "value")
        return unknown_type(type_)
    write_topic_part(pen, "value", length, lambda raw, reading: decode_record_value(topic, type_, raw, reading)[0])
    return f"{table.name.removesuffix('Key')}{', a tombstone' if length < 0 else ''}"


def metadata_type(topic: str, raw: bytes, reading: FieldReading) -> str | int:
    """The type of a metadata record."""
    return decode_metadata(topic, raw, reading).type


def unknown_type(type_: int | None) -> str:
    """The title of a record without a layout."""
    return "its type cannot be read" if type_ is None else f"unknown type {type_}"


def write_topic_part(pen: Pen, name: str, length: int, read: Callable[[bytes, FieldReading], Any]) -> Any:
    """Write the fields of a key or value, with what is wrong in the title; give what *read* gives, None if it fails."""
    pen.claim(name, max(length, 0))
    if length < 0:
        return None
    raw, reading = pen.data[pen.at : pen.at + length], FieldReading(pen.ink.room, [])
    found, remarks, wrong = None, [], ""
    try:
        found = read(raw, reading)
    except RecordFormatError as error:
        wrong = f"{error.message} ({error.rule})"
        remarks.append(f"broken: {wrong}")
    remarks += [f"{each.message} ({each.rule})" for each in reading.remarks]
    with pen.part(name, " · ".join((name, size(length), *remarks)), length):
        write_spans(pen, iter(reading.spans or ()), name)
        pen.rest(f"not read: {wrong}" if wrong else "no fields")
    return found


def write_spans(pen: Pen, spans: Iterator[FieldSpan], group: str) -> None:
    """Write spans up to the end of the part in hand."""
    for name, start, end, kind, value in spans:
        if kind == "open":
            with pen.part(name, value):
                write_spans(pen, spans, group)
        elif kind == "close":
            return
        else:
            words = span_words(name, kind, value)
            pen.field(name, end - start, words, span_group(kind, name, group), value=value)


# TransactionState of Kafka, by number.
TRANSACTION_STATES: Final = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
    "PrepareEpochFence",
)
TIMES: Final = ("timestamp", "timestamp_ms")


def span_group(kind: str, name: str, group: str) -> Group:
    """The purpose of a field."""
    if kind in ("length", "count"):
        return "length"
    if name.endswith(TIMES):
        return "time"
    return "key" if group == "key" else "value"


def span_words(name: str, kind: str, value: Any) -> Words:
    """A field of an internal topic in words."""
    match kind:
        case "string":
            return Words(text(value), size(len(value)))
        case "bytes":
            return content(value)
        case "length":
            return Words(str(value), "null" if value < 0 else "")
    if name.endswith(TIMES):
        return Words(str(value), timestamp(value))
    if name == "transaction_status" and 0 <= value < len(TRANSACTION_STATES):
        return Words(str(value), TRANSACTION_STATES[value])
    return Words(str(value), "null" if kind == "count" and value < 0 else "")


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
