"""Faults in v0 and v1 messages: plain ones, wrappers, and the inner messages of wrappers.

Faults of wrappers concern their content, and the offsets and timestamps in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kafka_fuzz.mutate.entries import BaseEntry, base_entry
from kafka_fuzz.mutate.faults.table import (
    BROKEN,
    CLAIM,
    FRAMING,
    LEGACY,
    PACKED,
    STREAM,
    UNPACKED,
    FaultResult,
    FaultSite,
    fault,
)
from kafka_fuzz.mutate.fixup import INT32, SIZE_AT, fixed_up, nullable_bytes, pack_fast, with_crc, write_message_bytes
from kafka_records import Batch, Record
from kafka_records.constants import COMPRESSIONS, INT32_MAX, INT64_MAX, INT64_MIN, LOG_OVERHEAD, NO_TIMESTAMP
from kafka_records.layout import CRC_OFFSET_LEGACY, MAGIC_OFFSET
from kafka_records.message import Message
from kafka_records.primitives import wrap_int64

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


CODECS = PACKED[:-1]
SMALL = {"zero": 0, "one": 1, "two": 2, "four": 4, "thirteen": 13}
BELOW_ZERO = {"minus one": -1, "minus five": -5, "minus nine": -9, "minus twenty": -20, "smallest": -(2**31)}
SHIFTS = {"less by one": -1, "less by four": -4, "more by one": 1, "more by eight": 8}
NEGATIVE = {"minus two": -2, "smallest": -(2**31)}
wrapper_fault = partial(fault, magics=LEGACY, codecs=CODECS)
WRAPPER_TIMES = {"smallest": INT64_MIN, "minus one": -1, "zero": 0, "largest": INT64_MAX}


def read_wrapper(base: BaseEntry, wrapper: Message, inner: Sequence[Message]) -> Batch:
    """The batch that a decoder returns for a wrapper around *inner* (NST-08, NST-09, NST-14, NST-20)."""
    relative = wrapper.magic == 1 and wrapper.offset != 0
    start = wrapper.offset - inner[-1].offset if relative else 0
    append = wrapper.magic == 1 and bool(wrapper.attributes & 0x08)
    records = tuple(
        Record(
            wrap_int64(start + each.offset),
            wrapper.timestamp if append and each.magic == 1 else each.timestamp,
            each.key,
            each.value,
        )
        for each in inner
    )
    return replace(
        base.batch,
        base_offset=records[0].offset,
        last_offset=wrapper.offset,
        timestamp_type="append" if append else base.batch.timestamp_type if wrapper.magic == 0 else "create",
        max_timestamp=wrapper.timestamp,
        records=records,
    )


def wrapper_result(base: BaseEntry, wrapper: Message, inner: Sequence[Message] | None = None) -> FaultResult:
    """A wrapper, perhaps around other messages, and what it is read as."""
    if inner is None:
        return FaultResult(write_message_bytes(wrapper), (read_wrapper(base, wrapper, base.inner),))
    payload = b"".join(map(write_message_bytes, inner))
    packed = pack_fast(base.codec, payload, base.magic)
    return FaultResult(write_message_bytes(wrapper._replace(value=packed)), (read_wrapper(base, wrapper, inner),))


@wrapper_fault("NST-03", field="value_length", kinds=UNPACKED)
def wrapper_value_null(site: FaultSite) -> bytes:
    """A wrapper has no value."""
    return write_message_bytes(site.base.message._replace(value=None))


@wrapper_fault("NST-04", field="value_length", kinds=STREAM)
def wrapper_value_empty(site: FaultSite) -> bytes:
    """A wrapper's value has no bytes."""
    return write_message_bytes(site.base.message._replace(value=b""))


@wrapper_fault("NST-03", "LEG-09", field="value_length", kinds=UNPACKED, variants=NEGATIVE)
def wrapper_value_null_by_another_negative(site: FaultSite) -> bytes:
    """A wrapper has no value, by a length below -1."""
    message = site.base.message
    return write_message_bytes(message, nullable_bytes(message.key) + INT32.pack(site.value))


@wrapper_fault("NST-02", "LEG-08", field="key_length", variants={**NEGATIVE, "far back": -(2**20)})
def wrapper_key_null_by_another_negative(site: FaultSite) -> bytes:
    """A wrapper has no key, by a length below -1."""
    message = site.base.message
    return write_message_bytes(message, INT32.pack(site.value) + nullable_bytes(message.value))


@wrapper_fault("NST-02", field="key", variants={"empty": b"", "text": b"key", "large": b"k" * 300})
def wrapper_key_present(site: FaultSite) -> bytes:
    """A wrapper has a key, which readers ignore."""
    return write_message_bytes(site.base.message._replace(key=site.value))


@wrapper_fault(
    "NST-05",
    "NST-27",
    nesting="packed",
    field="records",
    kinds=UNPACKED,
    variants={"zero": 0, "prefix": 11, "all but one": -1},
)
def wrapper_without_messages(site: FaultSite) -> bytes:
    """A wrapper's set holds no whole message."""
    return with_payload(site.base, site.base.parts[0][: site.value])


@wrapper_fault(
    "NST-06",
    nesting="packed",
    field="tail",
    verdict="acceptable",
    kinds=CLAIM,
    variants={"prefix": 11, "all but one": -1},
)
def inner_message_cut_short(site: FaultSite) -> FaultResult:
    """A wrapper's set ends inside one message more, which Kafka drops."""
    base = site.base
    return FaultResult(with_payload(base, base.payload + base.parts[-1][: site.value]), (base.batch,))


@wrapper_fault(
    "NST-07",
    nesting="packed",
    field="tail",
    kinds=FRAMING,
    variants={"prefix": 12, "large": 100},
    label="zeros_behind_the_messages",
)
def zeros_after_the_messages(site: FaultSite) -> bytes:
    """Zeros follow the messages of a wrapper's set."""
    return with_payload(site.base, site.base.payload + bytes(site.value))


@wrapper_fault("NST-07", nesting="packed", field="size", kinds=FRAMING, variants=SMALL)
def inner_size_too_small(site: FaultSite) -> bytes:
    """An inner message's size is below the smallest."""
    index, message = any_message(site)
    return with_message(site.base, index, with_inner_size(message, site.value))


@wrapper_fault("NST-07", nesting="packed", field="size", kinds=FRAMING, variants=BELOW_ZERO)
def inner_size_negative(site: FaultSite) -> bytes:
    """An inner message's size is below zero, and leads into what was read already, or before it."""
    index, message = any_message(site)
    return with_message(site.base, index, with_inner_size(message, site.value))


@wrapper_fault("NST-07", "NST-18", nesting="packed", field="size", kinds=FRAMING, variants=SHIFTS)
def inner_size_off(site: FaultSite) -> bytes:
    """An inner message's size leads to where none begins: before its end, or into the next one."""
    index, message = any_message(site)
    right = len(write_message_bytes(message)) - LOG_OVERHEAD
    # What reaches beyond the last one would be a partial message, which is none of ours.
    shift = site.value if site.value < 0 or index < len(site.base.inner) - 1 else -1
    return with_message(site.base, index, with_inner_size(message, right + shift))


def with_inner_size(message: Message, size: int) -> bytes:
    """A message with another size, which no checksum of its own covers."""
    written = write_message_bytes(message)
    return written[:SIZE_AT] + INT32.pack(size) + written[LOG_OVERHEAD:]


@wrapper_fault("NST-07", nesting="packed", field="size", kinds=FRAMING, variants={"here": False, "back": True})
def inner_size_leads_nowhere(site: FaultSite) -> bytes:
    """An inner message's size leads to it again, or to the first: who adds it up without looking never ends."""
    index, message = any_message(site)
    size = -LOG_OVERHEAD - (sum(map(len, site.base.parts[:index])) if site.value else 0)
    return with_message(site.base, index, with_inner_size(message, size))


@wrapper_fault("NST-18", "LEG-04", nesting="packed", field="crc", kinds=("corrupt",))
def inner_crc_wrong(site: FaultSite) -> bytes:
    """An inner message's checksum is not that of its bytes; the wrapper's is right."""
    index, message = any_message(site)
    written = bytearray(write_message_bytes(message))
    written[CRC_OFFSET_LEGACY + site.rng.randrange(4)] ^= 1 << site.rng.randrange(8)
    return with_message(site.base, index, bytes(written))


@wrapper_fault(
    "NST-16",
    nesting="packed",
    field="attributes",
    kinds=("malformed", "unsupported_compression", "decompression"),
    variants={codec: codec for codec in CODECS},
)
def wrapper_in_a_wrapper(site: FaultSite) -> bytes:
    """An inner message is a wrapper itself."""
    base, inner = site.base, site.base.inner[-1]
    value = pack_fast(site.value, base.parts[-1], base.magic)
    nested = write_message_bytes(inner._replace(attributes=COMPRESSIONS.index(site.value), key=None, value=value))
    return with_message(base, len(base.inner) - 1, nested)


@wrapper_fault(
    "NST-16",
    nesting="packed",
    field="attributes",
    kinds=("malformed", "unsupported_compression", "decompression"),
    variants={"one": 1, "three": 3, "seven": 7},
)
def inner_message_with_a_codec(site: FaultSite) -> bytes:
    """An inner message names a codec, and is plain."""
    index, message = any_message(site)
    return with_message(site.base, index, write_message_bytes(message._replace(attributes=site.value)))


@wrapper_fault(
    "NST-15",
    magics=(1,),
    nesting="packed",
    field="magic",
    verdict="acceptable",
    kinds=("unsupported_magic", "malformed"),
    variants={"three": 3, "largest": 127, "minus one": 255},
)
def inner_message_of_an_unknown_magic(site: FaultSite) -> bytes:
    """An inner message has an unknown magic; Kafka reads it as the wrapper's, and no reader may drop it."""
    index, _ = any_message(site)
    part = site.base.parts[index]
    odd = part[:MAGIC_OFFSET] + bytes((site.value,)) + part[MAGIC_OFFSET + 1 :]
    return with_message(site.base, index, with_crc(odd))


@wrapper_fault(
    "NST-25", nesting="packed", field="magic", kinds=("corrupt", "malformed", "unsupported_magic", "truncated")
)
def batch_in_a_wrapper(site: FaultSite) -> bytes:
    """A v2 batch is inside a wrapper."""
    batch = base_entry(2, "none", "key", "text", site.rng.randrange(8)).data
    return with_payload(site.base, batch)


@wrapper_fault(
    "NST-15", nesting="packed", field="magic", verdict="acceptable", kinds=("malformed", "unsupported_magic")
)
def inner_message_of_another_magic(site: FaultSite) -> FaultResult:
    """An inner message has another magic than its wrapper."""
    base, (index, message) = site.base, any_message(site)
    other = message._replace(magic=1 - base.magic, attributes=0, timestamp=NO_TIMESTAMP if base.magic else 77)
    return wrapper_result(base, base.message, (*base.inner[:index], other, *base.inner[index + 1 :]))


@wrapper_fault(
    "NST-10",
    magics=(1,),
    field="offset",
    kinds=("malformed",),
    variants={"by one": 1, "minus one": -1, "smallest": INT64_MIN},
)
def wrapper_offset_below_the_last(site: FaultSite) -> bytes:
    """A wrapper's offset is below that of its last message."""
    base = site.base
    gap = 3 + site.rng.randrange(50)
    inner = [each._replace(offset=each.offset + gap) for each in base.inner]
    offset = inner[-1].offset - 1 if site.value == 1 else site.value
    return wrapper_result(base, base.message._replace(offset=offset), inner).data


@wrapper_fault("NST-09", magics=(1,), field="offset")
def wrapper_offset_zero(site: FaultSite) -> FaultResult:
    """A wrapper's offset is zero, as some producers leave it: the inner offsets hold as they are."""
    return wrapper_result(site.base, site.base.message._replace(offset=0))


@wrapper_fault("NST-08", magics=(1,), field="offset", variants={"by one": 1, "far": 2**40, "largest": INT64_MAX})
def wrapper_offset_moved(site: FaultSite) -> FaultResult:
    """A wrapper's offset is larger, as a broker makes it, and all of its records move."""
    base = site.base
    offset = min(base.message.offset + site.value, INT64_MAX)
    return wrapper_result(base, base.message._replace(offset=offset))


@wrapper_fault(
    "NST-14",
    magics=(0,),
    field="offset",
    verdict="acceptable",
    kinds=("malformed",),
    variants={"minus one": -1, "zero": 0, "largest": INT64_MAX},
)
def wrapper_offset_without_meaning(site: FaultSite) -> FaultResult:
    """A v0 wrapper's offset is not that of its last message, whose offset holds."""
    return wrapper_result(site.base, site.base.message._replace(offset=site.value))


@wrapper_fault(
    "NST-13",
    "NST-08",
    magics=(1,),
    nesting="packed",
    field="offset",
    verdict="acceptable",
    kinds=("malformed",),
    variants={"absolute": "absolute", "zero": "zero", "reversed": "reversed"},
)
def inner_offsets_unusual(site: FaultSite) -> FaultResult:
    """Inner offsets are not 0, 1, 2 and so on; they are counted from the last."""
    base, count = site.base, len(site.base.inner)
    start = base.batch.base_offset
    offsets = {
        "absolute": [each.offset + start for each in base.inner],
        "zero": [0] * count,
        "reversed": list(range(count - 1, -1, -1)),
    }[site.value]
    inner = [each._replace(offset=offset) for each, offset in zip(base.inner, offsets, strict=True)]
    wrapper = base.message._replace(offset=max(base.message.offset, inner[-1].offset))
    return wrapper_result(base, wrapper, inner)


@wrapper_fault("NST-23", "NST-20", magics=(1,), field="timestamp", variants=WRAPPER_TIMES)
def wrapper_timestamp_wrong(site: FaultSite) -> FaultResult:
    """A wrapper's timestamp is not the latest of its messages; with LogAppendTime it holds for all."""
    return wrapper_result(site.base, site.base.message._replace(timestamp=site.value))


@wrapper_fault(
    "NST-20", magics=(1,), field="attributes", variants={"latest": None, "none": -1, "zero": 0, "within a second": 7}
)
def wrapper_append_time_bit_set(site: FaultSite) -> FaultResult:
    """A wrapper says LogAppendTime, and its messages have times of their own."""
    message, inner = site.base.message, site.base.inner
    time = message.timestamp if site.value is None else site.value
    if site.value == 7:
        second = inner[0].timestamp // 1000 * 1000 % 2**62
        inner, time = tuple(each._replace(timestamp=second) for each in inner), second + 7
    return wrapper_result(site.base, message._replace(attributes=message.attributes | 0x08, timestamp=time), inner)


@wrapper_fault("CMP-06", field="attributes", kinds=STREAM)
def wrapper_codec_of_another(site: FaultSite) -> bytes:
    """A wrapper names another codec than packed its messages."""
    message = site.base.message
    number = message.attributes & 7
    other = site.rng.choice([each for each in (1, 2, 3) if each != number])
    return write_message_bytes(message._replace(attributes=message.attributes & ~7 | other))


@wrapper_fault("CMP-06", "NST-01", field="value", kinds=STREAM)
def wrapper_not_packed(site: FaultSite) -> bytes:
    """A wrapper's messages are not compressed."""
    return write_message_bytes(site.base.message._replace(value=site.base.payload))
