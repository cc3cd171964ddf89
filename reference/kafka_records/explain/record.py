"""A v2 record in words, its headers, and the key and value of a control record."""

from __future__ import annotations

from typing import NamedTuple

from kafka_records.errors import RecordFormatError
from kafka_records.explain.control import write_control_key, write_control_value
from kafka_records.explain.pen import Pen
from kafka_records.explain.words import Words, content, length_of, size, text, timestamp
from kafka_records.primitives import wrap_int64


class Surroundings(NamedTuple):
    """The values that a record takes from its batch; *append_time* is None unless LogAppendTime."""

    base_offset: int
    base_timestamp: int
    append_time: int | None
    control: bool

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
