"""v0 and v1 messages in words: plain ones, wrappers, and the inner messages of wrappers."""

from __future__ import annotations

from typing import NamedTuple

from kafka_records import attributes as bits
from kafka_records.checksum import checksum_legacy
from kafka_records.constants import LOG_OVERHEAD, MAGIC_VALUE_V0
from kafka_records.errors import RecordFormatError
from kafka_records.explain.codecs import Content, write_packed
from kafka_records.explain.fixed import Values, codec_of, say_attributes, say_crc, write_fixed
from kafka_records.explain.pen import Pen
from kafka_records.explain.record import write_topic_content
from kafka_records.explain.words import Words, content, length_of, size, timestamp
from kafka_records.layout import CRC_START_LEGACY, ENTRY, MAGIC_OFFSET
from kafka_records.message import is_too_small, layout_of
from kafka_records.model import Batch, Record
from kafka_records.primitives import INT32

UNKNOWN_MAGIC = "no known format, read like v1"
MAGICS = ("message without timestamp", "message with timestamp (KIP-32)")


def write_entry(pen: Pen, length: int, batch: Batch | None, topic: str = "") -> None:
    """Write a top-level message; *batch* is what `decode` made of it, if it did, *topic* an internal one or empty."""
    header = Header(pen.data[pen.at : pen.at + length], pen.at, None)
    with pen.part("batch", f"message · {size(length)}", length) as draft:
        values = write_message_header(pen, header)
        draft.title = message_title(values, length)
        if values["attributes"] & bits.COMPRESSION_CODEC_MASK:
            write_wrapper(pen, values, batch, topic)
        else:
            draft.title += write_body(pen, topic)


class Header(NamedTuple):
    """The words for one message: its bytes, where they start, and the record that it became in a wrapper."""

    data: bytes
    start: int
    record: Record | None

    def say(self, name: str, value: int, values: Values) -> Words:
        """One field in words."""
        match name:
            case "offset":
                return Words(str(value), self.say_offset(value, values), rule=self.offset_rule)
            case "message_size":
                return Words(str(value), f"bytes to follow; {value + LOG_OVERHEAD:,} in all", rule="FRM-01")
            case "crc":
                covers = (self.start + CRC_START_LEGACY, self.start + len(self.data))
                return say_crc(value, checksum_legacy(self.data), name="CRC-32", covers=covers, rule="LEG-04")
            case "magic":
                return Words(str(value), MAGICS[value] if 0 <= value < len(MAGICS) else UNKNOWN_MAGIC, rule="FRM-03")
            case "attributes":
                return say_attributes(value, MAGIC_VALUE_V0 if values["magic"] == MAGIC_VALUE_V0 else 1)
        return Words(str(value), self.say_time(value), rule="LEG-21")

    def say_offset(self, offset: int, values: Values) -> str:
        """A wrapper has the offset of its last message; an inner offset of v1 is relative."""
        if self.record is None:
            return "offset of its last message" if values.get("attributes", 0) & bits.COMPRESSION_CODEC_MASK else ""
        return "absolute" if self.record.offset == offset else f"relative: offset {self.record.offset}"

    @property
    def offset_rule(self) -> str:
        """The rule that gives the meaning of the offset."""
        return "FRM-01" if self.record is None else "NST-08"

    def say_time(self, ms: int) -> str:
        """A wrapper's LogAppendTime overrides the time of an inner message (NST-20)."""
        if self.record is None or self.record.timestamp == ms:
            return timestamp(ms)
        return f"{timestamp(ms)}, but the wrapper's LogAppendTime holds: {timestamp(self.record.timestamp)}"


def write_message_header(pen: Pen, header: Header) -> Values:
    """Write the fixed fields of the message in hand; framing lets none pass that lacks one (FRM-05)."""
    return write_fixed(pen, layout_of(header.data[MAGIC_OFFSET]), header.say)


def message_title(values: Values, length: int) -> str:
    """A message in one line."""
    codec = values["attributes"] & bits.COMPRESSION_CODEC_MASK
    what = f"wrapper v{values['magic']}" if codec else f"message v{values['magic']}"
    return " · ".join(
        (
            what,
            f"last offset {values['offset']}" if codec else f"offset {values['offset']}",
            codec_of(values["attributes"]),
            size(length),
        )
    )


def write_body(pen: Pen, topic: str) -> str:
    """Write key and value, and any bytes after them; give what a record of an internal topic adds to the title."""
    if topic:
        title = f" · {write_topic_content(pen, topic, write_length)}"
    else:
        title = ""
        for name in ("key", "value"):
            length = write_length(pen, name)
            pen.content(name, max(length, 0), content, "key" if name == "key" else "value")
    pen.rest("ignored: the value has ended", name="slack", rule="LEG-12")
    return title


def write_length(pen: Pen, name: str) -> int:
    """Write an int32 length; every negative one is null."""
    if pen.left < INT32.size:
        raise RecordFormatError("truncated", f"{name}_length needs 4 bytes", rule="LEG-03")
    (length,) = INT32.unpack_from(pen.data, pen.at)
    words = Words(str(length), length_of(name, length), rule="LEG-08" if name == "key" else "LEG-09")
    pen.field(f"{name}_length", INT32.size, words, "length", value=length)
    return int(length)


def write_wrapper(pen: Pen, values: Values, batch: Batch | None, topic: str) -> None:
    """Write a wrapper's key, which is ignored, and its value, opened."""
    length = write_length(pen, "key")
    pen.content("key", max(length, 0), lambda raw: Words(size(len(raw)), "ignored", rule="NST-02"), "key")
    length = write_length(pen, "value")
    if length < 0:
        raise RecordFormatError("malformed", "a compressed message without a value", rule="NST-03")
    pen.claim("value", length)
    compression = bits.compression_of(values["attributes"], at=0, rule="LEG-16")
    end, pen.end = pen.end, pen.at + length
    records = batch.records if batch else ()
    write_packed(pen, "value", Content(compression, values["magic"], lambda inner: write_inner(inner, records, topic)))
    pen.end = end
    pen.rest("ignored: the value has ended", name="slack", rule="LEG-12")


def write_inner(pen: Pen, records: tuple[Record, ...], topic: str) -> None:
    """Write an inner message set; *records* are the decoded messages, empty if `decode` failed."""
    index = 0
    while pen.left >= LOG_OVERHEAD:
        _, length = ENTRY.struct.unpack_from(pen.data, pen.at)
        if is_too_small(length):
            raise RecordFormatError("malformed", f"an inner message of {length} bytes", rule="NST-07")
        if LOG_OVERHEAD + length > pen.left:
            break
        write_message(pen, LOG_OVERHEAD + length, index, records[index] if records else None, topic)
        index += 1
    pen.rest("a partial message, dropped", name="partial", rule="NST-06")


def write_message(pen: Pen, length: int, index: int, record: Record | None, topic: str) -> None:
    """Write one inner message."""
    header = Header(pen.data[pen.at : pen.at + length], pen.at, record)
    with pen.part(f"records[{index}]", f"inner message {index} · {size(length)}", length) as draft:
        write_message_header(pen, header)
        draft.title = f"inner message {index} · {size(length)}"
        if record is not None:
            draft.title = f"inner message {index} · offset {record.offset} · {size(length)}"
        draft.title += write_body(pen, topic)
