"""Faults in v0 and v1 messages: plain ones, and the inner messages of wrappers."""

from __future__ import annotations

from dataclasses import replace

from kafka_fuzz.mutate.entries import BaseEntry
from kafka_fuzz.mutate.faults.table import BROKEN, CLAIM, LEGACY, FaultResult, FaultSite, fault
from kafka_fuzz.mutate.fixup import INT32, fixed_up, nullable_bytes, write_message_bytes
from kafka_fuzz.mutate.packing import pack_fast
from kafka_records import Record
from kafka_records.constants import INT32_MAX, INT64_MAX, INT64_MIN
from kafka_records.message import Message

LENGTHS = ("key_length", "value_length")
WORDS = b"value"
SLACK = {"zero": b"\0", "ones": b"\xff", "large": bytes(40)}
TIMES = {"smallest": INT64_MIN, "minus two": -2, "minus one": -1, "zero": 0, "largest": INT64_MAX}


def any_message(site: FaultSite) -> tuple[int, Message]:
    """The plain message, or one of a wrapper's, and its index."""
    if not site.base.inner:
        return 0, site.base.message
    index = int(site.rng.random() * len(site.base.inner))
    return index, site.base.inner[index]


def with_message(base: BaseEntry, index: int, written: bytes) -> bytes:
    """The entry with another message at *index*; a plain message is all there is."""
    if not base.inner:
        return written
    return with_payload(base, b"".join((*base.parts[:index], written, *base.parts[index + 1 :])))


def with_payload(base: BaseEntry, payload: bytes) -> bytes:
    """The wrapper with another set in it."""
    return write_message_bytes(base.message._replace(value=pack_fast(base.codec, payload, base.magic)))


def read_as_message(base: BaseEntry, index: int, record: Record, data: bytes) -> FaultResult:
    """*data*, to be read with *record* at *index*."""
    records = (*base.batch.records[:index], record, *base.batch.records[index + 1 :])
    return FaultResult(data, (replace(base.batch, records=records),))


def message_body(message: Message, field: str, length: int, content: bytes = b"") -> bytes:
    """Key and value, one of them with *length* and *content*."""
    changed = INT32.pack(length) + content
    if field == "key_length":
        return changed + nullable_bytes(message.value)
    return nullable_bytes(message.key) + changed


@fault(
    "LEG-08",
    "LEG-09",
    magics=LEGACY,
    nesting="record",
    field=LENGTHS,
    variants={"minus two": -2, "smallest": -INT32_MAX - 1, "back": 0},
)
def message_null_by_another_negative(site: FaultSite) -> FaultResult:
    """A length below -1 is null as well, also the one that leads back to where the message begins."""
    index, message = any_message(site)
    length = site.value or -len(write_message_bytes(message, message_body(message._replace(value=b""), site.field, 0)))
    if not site.value and site.field == "key_length":
        length += len(nullable_bytes(b""))  # the value's length follows
    data = with_message(site.base, index, write_message_bytes(message, message_body(message, site.field, length)))
    return read_as_message(site.base, index, changed_message(site, index, None), data)


@fault("LEG-10", magics=LEGACY, nesting="record", field=LENGTHS, variants={"minus one": None, "zero": b""})
def message_null_and_empty_swapped(site: FaultSite) -> FaultResult:
    """A key or value is made null, or empty, whatever it was: the two differ."""
    index, message = any_message(site)
    body = message_body(message, site.field, -1 if site.value is None else 0)
    data = with_message(site.base, index, write_message_bytes(message, body))
    return read_as_message(site.base, index, changed_message(site, index, site.value), data)


def changed_message(site: FaultSite, index: int, content: bytes | None) -> Record:
    """The record at *index* with another key or value."""
    record = site.base.batch.records[index]
    return record._replace(key=content) if site.field == "key_length" else record._replace(value=content)


@fault(
    "LEG-11",
    magics=LEGACY,
    nesting="record",
    field=LENGTHS,
    kinds=CLAIM,
    variants={"by one": 1, "far": 2**20, "largest": INT32_MAX},
)
def message_length_beyond(site: FaultSite) -> bytes:
    """A key or value claims more bytes than its message has left."""
    index, message = any_message(site)
    rest = (message.key or b"") + nullable_bytes(message.value) if site.field == "key_length" else message.value or b""
    claimed = min(len(rest) + site.value, INT32_MAX)
    changed = INT32.pack(claimed) + rest
    body = changed if site.field == "key_length" else nullable_bytes(message.key) + changed
    return with_message(site.base, index, write_message_bytes(message, body))


@fault(
    "LEG-12",
    magics=LEGACY,
    nesting="record",
    field="value_length",
    verdict="acceptable",
    kinds=("malformed",),
    variants={"by one": 1, "zero": len(WORDS)},
)
def message_value_length_too_small(site: FaultSite) -> FaultResult:
    """A value claims fewer bytes than there are; Kafka ignores the rest of the message."""
    index, message = any_message(site)
    length = len(WORDS) - site.value
    data = with_message(
        site.base, index, write_message_bytes(message, message_body(message, site.field, length, WORDS))
    )
    return read_as_message(site.base, index, site.base.batch.records[index]._replace(value=WORDS[:length]), data)


@fault(
    "LEG-12",
    magics=LEGACY,
    nesting="record",
    field="body",
    verdict="acceptable",
    kinds=("malformed",),
    variants=SLACK,
    label="bytes_behind_the_value",
)
def bytes_after_the_value(site: FaultSite) -> bytes:
    """There are bytes between a value and the end of its message, and the checksum covers them."""
    index, message = any_message(site)
    body = nullable_bytes(message.key) + nullable_bytes(message.value) + site.value
    return with_message(site.base, index, write_message_bytes(message, body))


@fault(
    "LEG-03",
    magics=LEGACY,
    nesting="record",
    field="size",
    kinds=("truncated", "malformed", "corrupt"),
    variants={"smallest": 26, "by one": 0},
)
def message_shorter_than_its_fields(site: FaultSite) -> bytes:
    """A whole message, its size and checksum right, that ends inside its fields."""
    index, message = any_message(site)
    whole = write_message_bytes(message._replace(value=WORDS))
    return with_message(site.base, index, fixed_up(whole[: site.value or len(whole) - 1]))


@fault(
    "LEG-20",
    "LEG-13",
    magics=LEGACY,
    nesting="record",
    field="attributes",
    verdict="acceptable",
    kinds=("malformed",),
    variants={"bit 4": 0x10, "bit 7": -0x80, "all": -0x10},
)
def message_attribute_bits_unknown(site: FaultSite) -> bytes:
    """Bits that mean nothing are set in a message."""
    index, message = any_message(site)
    written = write_message_bytes(message._replace(attributes=message.attributes | site.value))
    return with_message(site.base, index, written)


@fault(
    "LEG-21",
    magics=(1,),
    nesting="record",
    field="timestamp",
    verdict="acceptable",
    kinds=("malformed",),
    variants=TIMES,
)
def message_timestamp_at_an_edge(site: FaultSite) -> FaultResult:
    """A message has a time at an edge, or one that no writer writes."""
    base, (index, message) = site.base, any_message(site)
    data = with_message(base, index, write_message_bytes(message._replace(timestamp=site.value)))
    record = base.batch.records[index]
    if not base.inner:
        batch = replace(base.batch, max_timestamp=site.value, records=(record._replace(timestamp=site.value),))
        return FaultResult(data, (batch,))
    return read_as_message(base, index, record if append_time(base) else record._replace(timestamp=site.value), data)


def append_time(base: BaseEntry) -> bool:
    """Whether a wrapper's time holds for its messages (NST-20)."""
    return base.batch.timestamp_type == "append"


@fault("LEG-18", "NST-21", magics=(1,), nesting="record", field="attributes")
def message_append_time_bit_set(site: FaultSite) -> FaultResult:
    """A message has the LogAppendTime bit; inside a wrapper no reader looks at it."""
    base, (index, message) = site.base, any_message(site)
    data = with_message(base, index, write_message_bytes(message._replace(attributes=message.attributes | 0x08)))
    return FaultResult(data, (base.batch if base.inner else replace(base.batch, timestamp_type="append"),))


@fault("LEG-17", magics=(0,), nesting="record", field="attributes", verdict="acceptable", kinds=("malformed",))
def message_append_time_bit_without_time(site: FaultSite) -> bytes:
    """v0 has no timestamps, and so no type of them, whatever bit 3 says."""
    index, message = any_message(site)
    return with_message(site.base, index, write_message_bytes(message._replace(attributes=message.attributes | 0x08)))


@fault(
    "LEG-15", magics=LEGACY, field="attributes", kinds=("unsupported_compression",), variants={"packed": 1, "not": 0}
)
def zstd_before_v2(site: FaultSite) -> bytes:
    """The attributes name zstd, which came with v2; the value is zstd's, or is not."""
    message, base = site.base.message, site.base
    value = pack_fast("zstd", base.payload or base.data, 2) if site.value else message.value
    return write_message_bytes(message._replace(attributes=message.attributes & ~7 | 4, value=value))


@fault("NST-01", magics=LEGACY, codecs=("none",), field="attributes", kinds=("decompression", *BROKEN, "corrupt"))
def plain_message_with_a_codec(site: FaultSite) -> bytes:
    """The attributes name a codec, and the value is no compressed set."""
    message = site.base.message
    number = site.rng.choice((1, 2, 3))
    return write_message_bytes(message._replace(attributes=message.attributes | number, value=b"not compressed"))
