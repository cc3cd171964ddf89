"""Records of Kafka's internal topics: what coordinators and KRaft keep in `__consumer_offsets` and its like.

The layouts of all types and versions are data (`internal_topics.json`), generated from the message schemas in Kafka's
jars.  Two frames hold them.  A coordinator's key is a type (int16) and fields, its value a version (int16) and fields
(TOP-01); a metadata record has no key, and its value begins with three unsigned varints: frame, type, version (TOP-08).

`(data, at) -> (value, at)`.  Whatever Kafka 4.4 reads is read with the same result; what it passes over, or reads
otherwise than it was written, is a `Remark`.  A type or version without a layout stays bytes.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from struct import Struct
from typing import Any, Final, Literal, NamedTuple

from kafka_records.budget import budget, pay
from kafka_records.constants import INT16_MAX
from kafka_records.control import decode_control
from kafka_records.errors import RecordFormatError
from kafka_records.model import DEFAULT, Batch
from kafka_records.primitives import take, wrap_int32
from kafka_records.schema import MAX_UNSIGNED_BYTES, UUID_BYTES
from kafka_records.varint import decode_unsigned

COORDINATORS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
# KRaft's log and snapshots, and what the default manager of remote log metadata keeps (KIP-405).
CLUSTER_METADATA: Final = "__cluster_metadata"
METADATA: Final = (CLUSTER_METADATA, "__remote_log_metadata")
INTERNAL_TOPICS: Final = (*COORDINATORS, *METADATA)
FRAME_VERSION: Final = 1
EMBEDDED: Final = "embedded"
CONSUMER_PROTOCOL: Final = "consumer"
UNKNOWN_TAGS: Final = "unknown_tagged_fields"
NO_VERSION: Final = (INT16_MAX, -1)
# What an element of an array takes in memory beside its bytes, and what a span takes.
ELEMENT_COST: Final = 128
SPAN_COST: Final = 256

Versions = tuple[int, int]
Fields = dict[str, Any]
LETTERS: Final = "bool=? int8=b int16=h uint16=H int32=i uint32=I int64=q float64=d"
FIXED: Final = {name: Struct(f">{letter}") for name, letter in (each.split("=") for each in LETTERS.split())}
INT8, INT16, INT32 = FIXED["int8"], FIXED["int16"], FIXED["int32"]


class Slot(NamedTuple):
    """A field in one version.

    Attributes:
        name: Kafka's, in snake case.
        type: a primitive, or `struct`.
        many: whether it is an array of that.
        nullable: whether it may be null.
        compact: whether lengths are unsigned varints (KIP-482).
        tagged: whether it is a tagged field.
        holds: the message of the consumer protocol that its bytes hold, or empty.
        inner: the fields of a struct.
    """

    name: str
    type: str
    many: bool
    nullable: bool
    compact: bool
    tagged: bool
    holds: str
    inner: VersionLayout | None


class VersionLayout(NamedTuple):
    """The fields of a struct in one version: those that are always there, and tagged ones by their tag.

    *foreign* are the tags of fields that only other versions have.
    """

    plain: tuple[Slot, ...]
    tagged: dict[int, Slot]
    foreign: frozenset[int]
    flexible: bool


@dataclass(frozen=True, slots=True, eq=False)
class MessageTable:
    """A message in all versions: its Kafka name, id (or None), versions, first flexible version and fields as data."""

    name: str
    topic: str
    id: int | None
    versions: Versions
    flexible: int
    release: str
    fields: tuple[dict[str, Any], ...]


class Remark(NamedTuple):
    """Something that Kafka passes over, or reads otherwise than it was written.

    Attributes:
        rule: the rule that says what Kafka does.
        message: what it is, in a sentence.
        path: the field, from `key` or `value` on.
        offset: from the start of the key or value.
    """

    rule: str
    message: str
    path: str
    offset: int


SpanKind = Literal["fixed", "length", "count", "string", "bytes", "uuid", "open", "close"]


class FieldSpan(NamedTuple):
    """Bytes that were read: a name, where they start and end, what kind they are and their value.

    `open` and `close` enclose the fields of a struct, and take no bytes; the value of `open` is its title.
    """

    name: str
    start: int
    end: int
    kind: SpanKind
    value: Any


@dataclass(slots=True)
class FieldReading:
    """Notes that are taken while fields are read.

    Attributes:
        room: bytes of memory that may still be used.
        spans: every primitive in order, where bytes are to be shown; otherwise None.
        remarks: what Kafka would pass over.
        embedded: whether bytes may hold messages of the consumer protocol.
    """

    room: int
    spans: list[FieldSpan] | None = None
    remarks: list[Remark] = field(default_factory=list)
    embedded: bool = True

    def span(self, name: str, start: int, end: int, kind: SpanKind, value: Any) -> None:
        """Note bytes, if they are wanted."""
        if self.spans is not None:
            self.room = pay(self.room, SPAN_COST, offset=start)
            self.spans.append(FieldSpan(name, start, end, kind, value))

    @contextmanager
    def part(self, name: str, title: str, at: int) -> Iterator[None]:
        """Enclose the spans of the body."""
        self.span(name, at, at, "open", title)
        yield
        self.span(name, at, at, "close", None)


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record of an internal topic.

    Attributes:
        topic: which.
        type: Kafka's name of the type, as `OffsetCommit` or `TopicRecord`; its number if there is no layout for it.
        key: its fields; bytes for an unknown type; None for metadata, which has no keys.
        version: of the value; None for a tombstone.
        value: its fields; bytes for an unknown type or version; None for a tombstone.
        remarks: what Kafka passes over.
    """

    topic: str
    type: str | int
    key: Fields | bytes | None
    version: int | None
    value: Fields | bytes | None
    remarks: tuple[Remark, ...] = ()


# ---- layouts ----


@cache
def message_tables() -> tuple[MessageTable, ...]:
    """Every message of the table, by topic, id and name."""
    # Not at the top: an import of this package must not pay for it.
    import json
    from importlib.resources import files

    text = files("kafka_records").joinpath("internal_topics.json").read_text(encoding="utf-8")
    return tuple(
        MessageTable(**each | {"versions": tuple(each["versions"]), "fields": tuple(each["fields"])})
        for each in json.loads(text)["messages"]
    )


@cache
def _by_name() -> dict[str, MessageTable]:
    return {each.name: each for each in message_tables()}


@cache
def table_of(topic: str, id_: int, end: str) -> MessageTable | None:
    """The message of type *id_* in *topic* whose name ends with *end*: `Key`, `Value` or `Record`."""
    for each in message_tables():
        if (each.topic, each.id) == (topic, id_) and each.name.endswith(end):
            return each
    return None


@cache
def version_layout(name: str, version: int) -> VersionLayout:
    """The fields of message *name* in *version*."""
    table = _by_name()[name]
    return _layout(table.fields, version, version >= table.flexible)


def _layout(fields: tuple[dict[str, Any], ...], version: int, flexible: bool) -> VersionLayout:
    plain, tagged = [], {}
    for each in fields:
        if not _has(each.get("versions", (0, INT16_MAX)), version):
            continue
        slot = _slot(each, version, flexible)
        if slot.tagged:
            tagged[each["tag"]] = slot
        else:
            plain.append(slot)
    foreign = {each["tag"] for each in fields if "tag" in each} - tagged.keys()
    return VersionLayout(tuple(plain), tagged, frozenset(foreign), flexible)


def _slot(each: dict[str, Any], version: int, flexible: bool) -> Slot:
    return Slot(
        name=each["name"],
        type=each["type"],
        many="many" in each,
        nullable=_has(each.get("nullable", NO_VERSION), version),
        compact=flexible,
        tagged=_has(each.get("tagged", NO_VERSION), version),
        holds=each.get("holds", ""),
        inner=_layout(tuple(each["fields"]), version, flexible) if "fields" in each else None,
    )


def _has(versions: Versions, version: int) -> bool:
    return versions[0] <= version <= versions[1]


# ---- fields ----


def read_fields(data: bytes, at: int, layout: VersionLayout, reading: FieldReading) -> tuple[Fields, int]:
    """Read the fields of a struct (TOP-04), and the tagged fields after them."""
    fields: Fields = {}
    for slot in layout.plain:
        fields[slot.name], at = read_slot(data, at, slot, reading)
    return fields, (read_tags(data, at, layout, fields, reading) if layout.flexible else at)


def read_slot(data: bytes, at: int, slot: Slot, reading: FieldReading) -> tuple[Any, int]:
    """Read one field; its name is in the path of errors."""
    try:
        if slot.many:
            return read_array(data, at, slot, reading)
        value, at = read_one(data, at, slot, slot.name, reading)
    except RecordFormatError as error:
        raise error.inside(slot.name) from None
    if slot.name == "protocol_type":
        # Members of a group hold messages of the consumer protocol only if the group says so.
        reading.embedded = value == CONSUMER_PROTOCOL
    return value, at


def read_array(data: bytes, at: int, slot: Slot, reading: FieldReading) -> tuple[tuple[Any, ...] | None, int]:
    """Read a count and as many elements; a count above the bytes that are left is refused (TOP-05)."""
    count, at = read_size(data, at, slot, f"{slot.name}_count", "count", reading)
    if count is None:
        return None, at
    found = []
    for index in range(count):
        reading.room = pay(reading.room, ELEMENT_COST, offset=at)
        try:
            value, at = read_one(data, at, slot, f"{slot.name}[{index}]", reading, element=True)
        except RecordFormatError as error:
            raise error.inside(f"[{index}]") from None
        found.append(value)
    return tuple(found), at


def read_one(
    data: bytes, at: int, slot: Slot, name: str, reading: FieldReading, *, element: bool = False
) -> tuple[Any, int]:
    """Read one value of the type of *slot*, which in an array is an element."""
    if slot.inner is not None:
        if slot.nullable and not element:
            present, at = read_presence(data, at, slot, reading)
            if not present:
                return None, at
        with reading.part(name, name.replace("_", " "), at):
            return read_fields(data, at, slot.inner, reading)
    if slot.type in FIXED:
        return read_fixed(data, at, FIXED[slot.type], name, reading)
    if slot.type == "uuid":
        raw, end = take(data, at, UUID_BYTES, field="", rule="TOP-04")
        reading.span(name, at, end, "uuid", uuid_text(raw))
        return uuid_text(raw), end
    return read_content(data, at, slot, name, reading)


def read_presence(data: bytes, at: int, slot: Slot, reading: FieldReading) -> tuple[bool, int]:
    """Read whether a nullable struct is there: a byte from 0 on, of a tagged field an unsigned varint from 1 on."""
    if not slot.tagged:
        number, at = read_fixed(data, at, INT8, f"{slot.name}_present", reading)
        return number >= 0, at
    # MessageDataGenerator#generateStructReader; KIP-893 has the byte only.
    number, end = read_unsigned(data, at)
    reading.span(f"{slot.name}_present", at, end, "count", number)
    return number > 0, end


def read_fixed(data: bytes, at: int, struct: Struct, name: str, reading: FieldReading) -> tuple[Any, int]:
    """Read a number or a boolean, which is true for every byte but 0."""
    if at + struct.size > len(data):
        take(data, at, struct.size, field="", rule="TOP-04")
    (value,) = struct.unpack_from(data, at)
    reading.span(name, at, at + struct.size, "fixed", value)
    return value, at + struct.size


def read_content(
    data: bytes, at: int, slot: Slot, name: str, reading: FieldReading
) -> tuple[str | bytes | Fields | None, int]:
    """Read a string or bytes; a string that is not UTF-8 has U+FFFD for what is not (TOP-06)."""
    size, at = read_size(data, at, slot, f"{name}_length", "length", reading)
    if size is None:
        return None, at
    if slot.holds and reading.embedded and size:
        raw, end = take(data, at, size, field="", rule="TOP-04")
        return read_embedded(raw, at, slot, name, reading), end
    raw, end = take(data, at, size, field="", rule="TOP-04")
    if slot.type == "string":
        reading.span(name, at, end, "string", raw)
        return raw.decode("utf-8", "replace"), end
    reading.span(name, at, end, "bytes", raw)
    return raw, end


def read_size(
    data: bytes, at: int, slot: Slot, name: str, kind: SpanKind, reading: FieldReading
) -> tuple[int | None, int]:
    """Read a length or count; a negative one is null, where the field may be null (TOP-05)."""
    if slot.compact:
        number, end = read_unsigned(data, at)
        length = wrap_int32(number - 1)
    else:
        struct = INT16 if slot.type == "string" and kind == "length" else INT32
        raw, end = take(data, at, struct.size, field="", rule="TOP-04")
        (length,) = struct.unpack(raw)
    reading.span(name, at, end, kind, length)
    if length < 0:
        if not slot.nullable or (slot.many and kind == "length"):
            raise RecordFormatError("malformed", f"{name} says null, which it may not be", offset=at, rule="TOP-05")
        return None, end
    if slot.compact and slot.type == "string" and kind == "length" and length > INT16_MAX:
        raise RecordFormatError("malformed", f"{name} is {length}, the most is {INT16_MAX}", offset=at, rule="TOP-05")
    if length > len(data) - end:
        message = f"{name} claims {length} where {len(data) - end} remain"
        raise RecordFormatError("truncated", message, offset=at, rule="TOP-05")
    return length, end


def read_unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned varint into an int32, as Java does: what does not fit is lost, and it may be negative."""
    number, at = decode_unsigned(data, at, MAX_UNSIGNED_BYTES, "")
    return wrap_int32(number), at


def read_tags(data: bytes, at: int, layout: VersionLayout, fields: Fields, reading: FieldReading) -> int:
    """Read tagged fields; the bytes of those without a layout are kept (TOP-07)."""
    count, start = read_count(data, at, "tagged_fields", reading)
    at = start
    unknown = []
    for index in range(count):
        try:
            with reading.part(f"tagged_fields[{index}]", f"tagged field {index}", at):
                tag, at = read_count(data, at, "tag", reading)
                size, at = read_count(data, at, "size", reading)
                if tag in layout.foreign:
                    message = f"tag {tag} is of a field that this version does not have"
                    raise RecordFormatError("malformed", message, path="tag", offset=at, rule="TOP-07")
                if tag in layout.tagged:
                    at = _read_tagged(data, at, size, layout.tagged[tag], fields, reading)
                else:
                    raw, end = take(data, at, size, field="", rule="TOP-04")
                    reading.room = pay(reading.room, ELEMENT_COST, offset=at)
                    reading.span("data", at, end, "bytes", raw)
                    unknown.append((tag, raw))
                    at = end
        except RecordFormatError as error:
            raise error.inside(f"tagged_fields[{index}]") from None
    if unknown:
        fields[UNKNOWN_TAGS] = tuple(unknown)
    return at


def _read_tagged(data: bytes, at: int, size: int, slot: Slot, fields: Fields, reading: FieldReading) -> int:
    """Read a tagged field as if it had no size, as Kafka does; another size is a remark (TOP-07)."""
    fields[slot.name], end = read_slot(data, at, slot, reading)
    if end - at != size:
        message = f"its size says {size} bytes, and it takes {end - at}: a reader that skips it goes on elsewhere"
        reading.remarks.append(Remark("TOP-07", message, slot.name, at))
    return end


def read_count(data: bytes, at: int, name: str, reading: FieldReading) -> tuple[int, int]:
    """Read an unsigned varint that may not be negative."""
    number, end = read_unsigned(data, at)
    reading.span(name, at, end, "count", number)
    if number < 0:
        raise RecordFormatError("malformed", f"{name} is {number}", path=name, offset=at, rule="TOP-07")
    return number, end


def read_embedded(raw: bytes, start: int, slot: Slot, name: str, reading: FieldReading) -> Fields | bytes:
    """Read a subscription or assignment of the consumer protocol; bytes that are none stay bytes (TOP-13)."""
    inner = FieldReading(reading.room, None if reading.spans is None else [])
    try:
        version, at = read_fixed(raw, 0, INT16, "version", inner)
        if version < 0:
            raise RecordFormatError("malformed", f"version {version}", path="version", offset=0, rule="TOP-13")
        newest = _by_name()[slot.holds].versions[1]
        fields, at = read_fields(raw, at, version_layout(slot.holds, min(version, newest)), inner)
    except RecordFormatError as error:
        reading.remarks.append(Remark("TOP-13", f"{name} is no {slot.holds}: {error.message}", name, start))
        reading.span(name, start, start + len(raw), "bytes", raw)
        return raw
    reading.room = inner.room
    with reading.part(name, f"{name.replace('_', ' ')}: {slot.holds} {version}", start):
        if reading.spans is not None and inner.spans is not None:
            reading.spans += [each._replace(start=each.start + start, end=each.end + start) for each in inner.spans]
        if at < len(raw):
            reading.span("rest", start + at, start + len(raw), "bytes", raw[at:])
    return {"version": version} | fields


def uuid_text(raw: bytes) -> str:
    """A uuid as Kafka prints it.

    >>> uuid_text(bytes(15) + b"\\x01")
    'AAAAAAAAAAAAAAAAAAAAAQ'
    """
    return urlsafe_b64encode(raw).decode().rstrip("=")


# ---- records ----


def decode_topic_record(topic: str, key: bytes | None, value: bytes | None) -> TopicRecord:
    """A record of *topic*, one of `INTERNAL_TOPICS`, that is in no control batch.

    Raises:
        RecordFormatError: key or value cannot be read; its path begins with `key` or `value`, and its offset
            counts from the start of that.
    """
    reading = FieldReading(budget((key or b"") + (value or b""), DEFAULT))
    if topic == CLUSTER_METADATA and key is not None:
        raise RecordFormatError("malformed", "a metadata record with a key", path="key", offset=0, rule="KRF-12")
    if topic in METADATA:
        return decode_metadata(topic, value, reading)
    id_, fields = decode_record_key(topic, key, reading)
    table = table_of(topic, id_, "Key")
    if table is None:
        return TopicRecord(topic, id_, fields, None, value, tuple(reading.remarks))
    version, content = decode_record_value(topic, id_, value, reading)
    return TopicRecord(topic, table.name.removesuffix("Key"), fields, version, content, tuple(reading.remarks))


def decode_record_key(topic: str, key: bytes | None, reading: FieldReading) -> tuple[int, Fields | bytes]:
    """The type and the fields of a coordinator's key; all of it as bytes if the type is unknown (TOP-01, TOP-02)."""
    with inside("key"):
        if key is None:
            raise RecordFormatError("malformed", "a record without a key", offset=0, rule="TOP-01")
        id_, at = read_fixed(key, 0, INT16, "type", reading)
        table = table_of(topic, id_, "Key")
        if table is None:
            message = f"record type {id_} is unknown: the coordinator passes over the record"
            reading.remarks.append(Remark("TOP-02", message, "key.type", 0))
            return id_, key
        fields, at = read_fields(key, at, version_layout(table.name, 0), reading)
        _remark_rest(key, at, "key", reading)
    return id_, fields


def decode_record_value(
    topic: str, id_: int, value: bytes | None, reading: FieldReading
) -> tuple[int | None, Fields | bytes | None]:
    """The version and the fields of a coordinator's value of a known type; null is a tombstone (TOP-03, TOP-14)."""
    if value is None:
        return None, None
    table = table_of(topic, id_, "Value")
    assert table is not None
    with inside("value"):
        version, at = read_fixed(value, 0, INT16, "version", reading)
        if not _has(table.versions, version):
            first, last = table.versions
            message = f"version {version} of {table.name} is unknown: Kafka 4.4 knows {first} to {last}"
            reading.remarks.append(Remark("TOP-03", message, "value.version", 0))
            return version, value
        fields, at = read_fields(value, at, version_layout(table.name, version), reading)
        _remark_rest(value, at, "value", reading)
    return version, fields


def _remark_rest(data: bytes, at: int, where: str, reading: FieldReading) -> None:
    """Bytes after the last field, which a coordinator ignores (TOP-12)."""
    if at < len(data):
        message = f"{len(data) - at} bytes after the last field are ignored"
        reading.remarks.append(Remark("TOP-12", message, where, at))


def decode_metadata(topic: str, value: bytes | None, reading: FieldReading) -> TopicRecord:
    """A metadata record; an unknown type stays bytes, after a remark (TOP-08 to TOP-11)."""
    with inside("value"):
        if not value:
            raise RecordFormatError("malformed", "a metadata record without a value", offset=0, rule="TOP-08")
        frame, at = read_short(value, 0, "frame_version", reading)
        if frame != FRAME_VERSION:
            message = f"frame version {frame}: there is only {FRAME_VERSION}"
            raise RecordFormatError("malformed", message, path="frame_version", offset=0, rule="TOP-08")
        id_, at = read_short(value, at, "type", reading)
        version, at = read_short(value, at, "version", reading)
        table = table_of(topic, id_, "Record")
        if table is None:
            message = f"metadata type {id_} is unknown: Kafka 4.4 does not load the log"
            reading.remarks.append(Remark("TOP-09", message, "value.type", 1))
            return TopicRecord(topic, id_, None, version, value, tuple(reading.remarks))
        fields, at = read_fields(value, at, version_layout(table.name, _nearest(table, version, reading)), reading)
        if at < len(value):
            message = f"{len(value) - at} bytes after the last field"
            raise RecordFormatError("malformed", message, offset=at, rule="TOP-11")
    return TopicRecord(topic, table.name, None, version, fields, tuple(reading.remarks))


def _nearest(table: MessageTable, version: int, reading: FieldReading) -> int:
    """The version with whose fields Kafka reads *version*, which it does not check (TOP-10)."""
    first, last = table.versions
    if not first <= version <= last:
        message = f"version {version} of {table.name} is unknown: Kafka 4.4 reads it like one of {first} to {last}"
        reading.remarks.append(Remark("TOP-10", message, "value.version", 2))
    return min(max(version, first), last)


def read_short(data: bytes, at: int, name: str, reading: FieldReading) -> tuple[int, int]:
    """Read an unsigned varint into an int16; one above its range is refused, one above an int32's is negative."""
    try:
        number, end = read_unsigned(data, at)
    except RecordFormatError as error:
        raise error.inside(name) from None
    if number > INT16_MAX:
        raise RecordFormatError("malformed", f"{name} is {number}", path=name, offset=at, rule="TOP-08")
    number = (number + 2**15) % 2**16 - 2**15
    reading.span(name, at, end, "count", number)
    return number, end


def snapshot_fault(batches: tuple[Batch, Batch] | None) -> str:
    """The fault of the first or the last batch of a snapshot of KRaft; empty if both are right (TOP-15).

    *batches* is None for a snapshot without any.
    """
    if batches is None:
        return "it has no batch"
    for which, batch, wanted in ((0, batches[0], "snapshot_header"), (-1, batches[1], "snapshot_footer")):
        try:
            type_ = (
                decode_control(batch.records[which]).type if batch.control and batch.records else "no control record"
            )
        except RecordFormatError as error:
            type_ = f"broken: {error.message}"
        if type_ != wanted:
            return f"its {'last' if which else 'first'} record is {type_}, and should be {wanted}"
    return ""


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Put *name* in front of the path of an error."""
    try:
        yield
    except RecordFormatError as error:
        raise error.inside(name) from None


def topic_of_path(path: str) -> str | None:
    """The internal topic whose records the file at *path* holds, by the name of its folder; None if it is none.

    >>> topic_of_path("/data/__consumer_offsets-12/00000000000000000000.log"), topic_of_path("orders-0/0.log")
    ('__consumer_offsets', None)
    >>> topic_of_path("bootstrap.checkpoint")
    '__cluster_metadata'
    """
    *folders, name = path.replace("\\", "/").split("/")
    if name.endswith(".checkpoint"):
        return CLUSTER_METADATA
    topic, dash, partition = (folders[-1] if folders else "").rpartition("-")
    return topic if dash and partition.isdecimal() and topic in INTERNAL_TOPICS else None
