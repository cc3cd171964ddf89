"""A v2 record batch in words: its header, then its records, opened if they are compressed."""

from __future__ import annotations

from typing import NamedTuple

from kafka_records import attributes as bits
from kafka_records.checksum import checksum_v2
from kafka_records.constants import LOG_OVERHEAD, MAGIC_VALUE_V2, RECORD_BATCH_OVERHEAD
from kafka_records.errors import RecordFormatError
from kafka_records.explain.codecs import Content, write_packed
from kafka_records.explain.fixed import Values, codec_of, say_attributes, say_crc, write_fixed
from kafka_records.explain.pen import Pen
from kafka_records.explain.record import Surroundings, write_record
from kafka_records.explain.words import Words, number, size, span, timestamp
from kafka_records.layout import BATCH_V2, CRC_START_V2
from kafka_records.primitives import increment_sequence, wrap_int64


def write_batch(pen: Pen, length: int, topic: str = "") -> None:
    """Write the batch of *length* bytes whose first byte comes next; *topic* is an internal one that it belongs to."""
    header = Header(pen.data[pen.at : pen.at + length], pen.at)
    with pen.part("batch", f"record batch v2 without a whole header · {size(length)}", length) as draft:
        values = write_fixed(pen, BATCH_V2, header.say)
        if len(values) < len(BATCH_V2.fields):
            message = f"a batch of {size(length)}, its header takes {RECORD_BATCH_OVERHEAD}"
            raise RecordFormatError("malformed", message, rule="HDR-05")
        draft.title = batch_title(values, length)
        write_payload(pen, values, topic)


def batch_title(values: Values, length: int) -> str:
    """The batch in one line."""
    attributes = values["attributes"]
    traits = [
        "control batch v2" if attributes & bits.CONTROL_FLAG_MASK else "record batch v2",
        f"offset{'s' if values['last_offset_delta'] else ''} {span(values['base_offset'], last_offset(values))}",
        number(values["record_count"], "record"),
        codec_of(attributes),
        size(length),
    ]
    if attributes & bits.TRANSACTIONAL_FLAG_MASK:
        traits.insert(3, "transactional")
    return " · ".join(traits)


def last_offset(values: Values) -> int:
    """The offset that the batch reaches to (HDR-09)."""
    return wrap_int64(values["base_offset"] + values["last_offset_delta"])


class Header(NamedTuple):
    """The words for one header: the batch's bytes, and where they start in their section."""

    data: bytes
    start: int

    def say(self, name: str, value: int, values: Values) -> Words:
        """One field in words."""
        match name:
            case "crc":
                covers = (self.start + CRC_START_V2, self.start + len(self.data))
                return say_crc(value, checksum_v2(self.data), name="CRC-32C", covers=covers, rule="CRC-01")
            case "attributes":
                return say_attributes(value, MAGIC_VALUE_V2)
            case "base_offset":
                return Words(str(value), "where the batch starts", rule="FRM-01")
            case "batch_length":
                meaning = f"bytes to follow; {value + LOG_OVERHEAD:,} in all"
                return Words(str(value), meaning, rule="HDR-03")
            case "partition_leader_epoch":
                meaning = "none: the leader fills it in" if value == -1 else "of the leader that appended it"
                return Words(str(value), meaning, rule="HDR-07")
            case "magic":
                return Words(str(value), "record batch (KIP-98)", rule="FRM-03")
            case "last_offset_delta":
                return Words(str(value), f"last offset {last_offset(values)}", rule="HDR-09")
            case "record_count":
                return Words(str(value), say_count(value, values), rule="HDR-15" if value < 0 else "HDR-04")
        return say_time(name, value, values) if name.endswith("timestamp") else say_producer(name, value, values)


def say_time(name: str, value: int, values: Values) -> Words:
    """The two timestamps of a header, which the attributes give their meaning."""
    attributes = values["attributes"]
    if name == "base_timestamp":
        if attributes & bits.DELETE_HORIZON_FLAG_MASK:
            return Words(str(value), f"delete horizon: {timestamp(value)}", rule="TIM-18")
        return Words(str(value), timestamp(value), rule="TIM-01")
    if attributes & bits.TIMESTAMP_TYPE_MASK:
        return Words(str(value), f"LogAppendTime of every record: {timestamp(value)}", rule="TIM-02")
    return Words(str(value), timestamp(value), rule="TIM-07")


def say_producer(name: str, value: int, values: Values) -> Words:
    """Producer id, epoch and sequence; -1 stands for none."""
    if value == -1:
        return Words("-1", f"no {name.replace('_', ' ')}", rule="HDR-22")
    if name != "base_sequence":
        return Words(str(value), "", rule="HDR-23" if name == "producer_id" else "PID-01")
    last = increment_sequence(value, values["last_offset_delta"])
    return Words(str(value), f"sequences {span(value, last)}", rule="PID-11")


def say_count(count: int, values: Values) -> str:
    """How many records there are, and whether that fits the offsets."""
    if count < 0:
        return "a count cannot be negative"
    if count == 0:
        return "an empty batch: what follows is not looked at"
    gaps = count - 1 != values["last_offset_delta"]
    return (
        f"offsets for {number(values['last_offset_delta'] + 1, 'record')}: a gap, as after compaction" if gaps else ""
    )


def write_payload(pen: Pen, values: Values, topic: str) -> None:
    """Write what follows the header."""
    count, attributes = values["record_count"], values["attributes"]
    if count == 0:
        pen.rest("ignored: record_count is 0", name="records", rule="HDR-16")
        return
    if count < 0:
        raise RecordFormatError("malformed", f"record_count is {count}", rule="HDR-15")
    compression = bits.compression_of(attributes, at=0, rule="ATT-02")
    around = Surroundings(
        base_offset=values["base_offset"],
        base_timestamp=values["base_timestamp"],
        append_time=values["max_timestamp"] if attributes & bits.TIMESTAMP_TYPE_MASK else None,
        control=bool(attributes & bits.CONTROL_FLAG_MASK),
        topic=topic,
    )
    if compression == "none":
        write_records(pen, count, around)
    else:
        write_packed(
            pen, "records", Content(compression, MAGIC_VALUE_V2, lambda inner: write_records(inner, count, around))
        )


def write_records(pen: Pen, count: int, around: Surroundings) -> None:
    """Write *count* records, or as many as there are bytes for."""
    for index in range(count):
        if not pen.left:
            return
        write_record(pen, index, around)
    pen.rest(f"more than the {number(count, 'record')} that record_count says", name="records", rule="HDR-14")
