"""Values of records of internal topics: drawn from the layouts, and written as Kafka writes them."""

from base64 import urlsafe_b64decode
from collections.abc import Iterator
from random import Random
from typing import Any

from kafka_records.internal_topics import (
    COORDINATORS,
    FIXED,
    INT8,
    INT16,
    INT32,
    METADATA,
    UNKNOWN_TAGS,
    Fields,
    MessageTable,
    Slot,
    VersionLayout,
    message_tables,
    uuid_text,
    version_layout,
)
from kafka_records.varint import encode_unsigned

TEXTS = ("", "a", "Zoë", "long " * 60)
NUMBERS = {"?": (False, True), "b": (-128, -1, 0, 127), "h": (-1, 0, 7, 32767), "H": (0, 65535), "d": (0.5, -1e9)}
INTEGERS = (-1, 0, 1, 2**31 - 1)
UNKNOWN_TAG = 99


def tables() -> Iterator[tuple[MessageTable, int]]:
    """Each message in each version, those aside that others hold."""
    for table in message_tables():
        for version in range(table.versions[0], table.versions[1] + 1):
            if table.topic in (*COORDINATORS, *METADATA):
                yield table, version


def drawn(layout: VersionLayout, rng: Random) -> Fields:
    """Fields of a struct; tagged ones, and unknown ones, are there or not."""
    fields = {slot.name: drawn_slot(slot, rng) for slot in layout.plain}
    fields |= {slot.name: drawn_slot(slot, rng) for slot in layout.tagged.values() if rng.random() < 0.6}
    if layout.flexible and rng.random() < 0.3:
        fields[UNKNOWN_TAGS] = ((UNKNOWN_TAG, rng.randbytes(3)),)
    return fields


def drawn_slot(slot: Slot, rng: Random) -> Any:
    """A value of one field."""
    if slot.nullable and rng.random() < 0.3:
        return None
    if slot.many:
        return tuple(drawn_one(slot, rng) for _ in range(rng.randrange(3)))
    return drawn_one(slot, rng)


def drawn_one(slot: Slot, rng: Random) -> Any:
    """A value, or an element of an array."""
    if slot.inner is not None:
        return drawn(slot.inner, rng)
    if slot.holds and rng.random() < 0.7:
        version = rng.randrange(4)
        return {"version": version} | drawn(version_layout(slot.holds, version), rng)
    match slot.type:
        case "string":
            # Whatever is in bytes is opened only if the group's protocol type says so.
            return "consumer" if slot.name == "protocol_type" else rng.choice(TEXTS)
        case "bytes":
            return b"" if slot.holds else rng.randbytes(rng.randrange(9))
        case "uuid":
            return uuid_text(rng.randbytes(16))
    return rng.choice(NUMBERS.get(FIXED[slot.type].format[-1:], INTEGERS if slot.type[0] != "u" else (0, 2**32 - 1)))


def written(layout: VersionLayout, fields: Fields) -> bytes:
    """The bytes of a struct."""
    out = b"".join(written_slot(slot, fields[slot.name]) for slot in layout.plain)
    if not layout.flexible:
        return out
    tagged = [
        (tag, written_slot(slot, fields[slot.name])) for tag, slot in layout.tagged.items() if slot.name in fields
    ]
    tagged += fields.get(UNKNOWN_TAGS, ())
    parts = (encode_unsigned(tag) + encode_unsigned(len(raw)) + raw for tag, raw in sorted(tagged))
    return out + encode_unsigned(len(tagged)) + b"".join(parts)


def written_slot(slot: Slot, value: Any) -> bytes:
    """The bytes of one field."""
    if slot.many:
        count = -1 if value is None else len(value)
        return length_bytes(slot, count, INT32) + b"".join(written_one(slot, each) for each in value or ())
    if slot.inner is not None and slot.nullable:
        present = encode_unsigned(value is not None) if slot.tagged else INT8.pack(-1 if value is None else 1)
        return present + (b"" if value is None else written_one(slot, value))
    return written_one(slot, value)


def written_one(slot: Slot, value: Any) -> bytes:
    """The bytes of a value, or of an element of an array."""
    if slot.inner is not None:
        return written(slot.inner, value)
    if slot.type in FIXED:
        return FIXED[slot.type].pack(value)
    if slot.type == "uuid":
        return urlsafe_b64decode(value + "==")
    if slot.holds and isinstance(value, dict):
        value = INT16.pack(value["version"]) + written(version_layout(slot.holds, value["version"]), value)
    raw = value.encode() if isinstance(value, str) else value
    length = -1 if raw is None else len(raw)
    return length_bytes(slot, length, INT16 if slot.type == "string" else INT32) + (raw or b"")


def length_bytes(slot: Slot, length: int, plain: Any) -> bytes:
    """A length or count, -1 for null."""
    return encode_unsigned(length + 1) if slot.compact else bytes(plain.pack(length))


def record_bytes(table: MessageTable, version: int, fields: Fields) -> bytes:
    """The bytes of a key, value or metadata record."""
    content = written(version_layout(table.name, version), fields)
    assert table.id is not None
    if table.topic in METADATA:
        return b"\x01" + encode_unsigned(table.id) + encode_unsigned(version) + content
    return INT16.pack(table.id if table.name.endswith("Key") else version) + content
