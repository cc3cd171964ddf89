"""v0 and v1 payloads, for `append_cases`: answers of 2.8.2, 1.1.1 and 0.10.2.2."""

from __future__ import annotations

from tests.reference.append_cases import (
    BATCH,
    MESSAGE_V0,
    MESSAGE_V1,
    Produce,
    fixed,
    framed,
    packed,
    v01,
    wrapped,
)

from kafka_corpus.authoring.build import flip, raw_batch, raw_message, raw_record
from kafka_records.constants import INT32_MAX

KEYLESS, KEYED = MESSAGE_V1, raw_message(1, b"k")
INNER = tuple(raw_message(1, offset=offset) for offset in range(3))
INNER_V0 = tuple(raw_message(0, offset=offset) for offset in range(3))
APPEND_TIME = "LogAppendTime"


def short(size: int, magic: int = 1, attributes: int = 0) -> bytes:
    """A message of so many bytes after its prefix, zeros after the attributes, its CRC right."""
    return fixed(bytes(8) + size.to_bytes(4, "big") + bytes(4) + bytes((magic % 256, attributes)) + bytes(size - 6))


def lengths(key: int, value: int) -> bytes:
    """A v1 message that claims these sizes."""
    return raw_message(1, body=key.to_bytes(4, "big", signed=True) + value.to_bytes(4, "big", signed=True))


PLAIN: tuple[Produce, ...] = (
    v01("v1", "CNV-01", MESSAGE_V1, (0, 0, 0)),
    v01("v0", "CNV-01", MESSAGE_V0, (0, 0, 0)),
    v01("v0 on append time", "CNV-01", MESSAGE_V0, (0, 0, 0), message_timestamp_type=APPEND_TIME),
    v01("v1 on append time", "CNV-01", MESSAGE_V1, (0, 0, 0), message_timestamp_type=APPEND_TIME),
    v01("many v1", "CNV-01", b"".join(INNER), (0, 0, 0)),
    v01("v0 and v1", "LEG-25", MESSAGE_V0 + MESSAGE_V1, (87, 0, 0)),
    v01("v1 and v0", "LEG-25", MESSAGE_V1 + MESSAGE_V0, (87, 0, 0), message_timestamp_type=APPEND_TIME),
    v01("nothing", "FRM-12", b"", (0, 0, 0)),
    v01("too short", "FRM-12", MESSAGE_V1[:-1], (0, 0, 0)),
    v01("partial of magic 9", "FRM-08", MESSAGE_V1[:16] + b"\x09" + MESSAGE_V1[17:-1], (2, 0, 0)),
    v01("size 13", "FRM-05", MESSAGE_V1[:11] + b"\x0d" + MESSAGE_V1[12:], (2, 2, 2)),
    v01("corrupt", "LEG-04", flip(MESSAGE_V1, 25), (2, 2, 2)),
    v01("too large", "SIZ-01", raw_message(1, None, bytes(999)), (10, 10, 10), max_message_bytes="500"),
    v01("larger than a segment", "SIZ-06", b"".join(INNER * 9), (18, 18, 18), segment_bytes="200"),
    v01(
        "grows",
        "SIZ-04",
        wrapped(1, "gzip", raw_message(1, None, bytes(999))),
        (10, 10, 10),
        compression_type="uncompressed",
        max_message_bytes="500",
    ),
    v01("codec 5", "LEG-16", raw_message(1, attributes=5), (-1, -1, -1)),
    v01("14 bytes of v1", "LEG-03", short(14), (-1, -1, 0), compression_type="gzip"),
    v01("14 bytes of v1, converted", "LEG-03", short(14), (-1, -1, 0)),
    v01("18 bytes of v1 on a compacted topic", "LEG-03", short(18), (-1, -1, 0), cleanup_policy="compact"),
    v01("key beyond the end", "LEG-11", lengths(99, -1), (-1, -1, 0), compression_type="gzip"),
    v01("value beyond the end", "LEG-11", lengths(-1, 99), (-1, -1, 0)),
    v01("null key on a compacted topic", "LEG-26", KEYLESS, (87, 2, 2), cleanup_policy="compact"),
    v01("key on a compacted topic", "CNV-01", KEYED, (0, 0, 0), cleanup_policy="compact"),
    v01("bit 3 on create time", "TIM-14", raw_message(1, attributes=8), (32, 32, 32)),
    v01(
        "bit 3 on append time", "TIM-13", raw_message(1, attributes=8), (32, 32, 32), message_timestamp_type=APPEND_TIME
    ),
    v01("below -1", "CNV-19", raw_message(1, timestamp=-2), (-1, -1, 0)),
    v01("years ago", "TIM-10", MESSAGE_V1, (32, 32, 32), message_timestamp_difference_max_ms="1000"),
    v01("no timestamp, measured", "CNV-01", MESSAGE_V0, (0, 0, 32), message_timestamp_difference_max_ms="1000"),
    v01("slack", "CNV-01", raw_message(1, tail=b"slack"), (0, 0, 0)),
    v01("into gzip", "CNV-01", b"".join(INNER), (0, 0, 0), compression_type="gzip"),
    v01("v0 into gzip", "CNV-01", b"".join(INNER_V0), (0, 0, 0), compression_type="gzip"),
    v01("v0 and v1 into gzip", "LEG-25", MESSAGE_V0 + MESSAGE_V1, (87, 0, 0), compression_type="gzip"),
)
WRAPPERS: tuple[Produce, ...] = (
    v01("wrapper", "CNV-01", wrapped(1, "gzip", *INNER, offset=2), (0, 0, 0)),
    v01("wrapper of v0", "CNV-01", wrapped(0, "lz4", *INNER_V0, offset=2), (0, 0, 0)),
    v01("wrapper at offset 0", "CNV-01", wrapped(1, "gzip", *INNER), (0, 0, 0)),
    v01("wrapper below its messages", "NST-10", wrapped(1, "gzip", *INNER, offset=1), (87, 2, 0)),
    v01("wrapper far off", "CNV-01", wrapped(1, "snappy", *INNER, offset=77), (0, 0, 0)),
    v01("to nothing", "CNV-01", wrapped(1, "gzip", *INNER, offset=2), (0, 0, 0), compression_type="uncompressed"),
    v01(
        "on append time", "CNV-01", wrapped(1, "gzip", *INNER, offset=2), (0, 0, 0), message_timestamp_type=APPEND_TIME
    ),
    v01("wrapper with bit 3", "TIM-14", wrapped(1, "gzip", *INNER, offset=2, attributes=8), (32, 32, 32)),
    v01("wrapper with wrong time", "CNV-01", wrapped(1, "gzip", *INNER, offset=2, timestamp=5), (0, 0, 0)),
    v01("no value", "NST-03", raw_message(1, None, None, attributes=1), (87, 2, -1)),
    v01("no messages", "NST-05", wrapped(1, "gzip"), (87, 2, -1)),
    v01("cut short", "NST-05", wrapped(1, "gzip", INNER[0][:-1]), (87, 2, -1)),
    v01("tail cut short", "CNV-01", wrapped(1, "gzip", *INNER[:2], INNER[2][:-1], offset=1), (0, 0, 0)),
    v01("inner size 13", "NST-07", wrapped(1, "gzip", bytes(11) + b"\x0d"), (2, 2, 2)),
    v01("not gzip", "GZP-01", raw_message(1, None, b"not gzip", attributes=1), (-1, -1, -1)),
    v01(
        "cut gzip", "GZP-05", fixed(raw_message(1, None, wrapped(1, "gzip", *INNER)[34:-9], attributes=1)), (-1, -1, -1)
    ),
    v01("inner of the other magic", "NST-15", wrapped(1, "gzip", INNER_V0[0]), (87, 2, 2)),
    v01("inner of another magic", "LEG-03", wrapped(1, "gzip", short(14, magic=7)), (-1, 2, 2)),
    v01("inner batch", "NST-25", wrapped(1, "gzip", BATCH), (87, 2, 2)),
    v01("inner compressed", "NST-16", wrapped(1, "gzip", wrapped(1, "gzip", *INNER)), (87, 2, 2)),
    v01("inner codec 5", "LEG-16", wrapped(1, "gzip", raw_message(1, attributes=5)), (-1, -1, -1)),
    v01("inner corrupt", "NST-17", wrapped(1, "gzip", flip(INNER[0], 25)), (2, 2, 2)),
    v01("inner corrupt, rebuilt", "NST-17", wrapped(1, "gzip", flip(INNER[0], 25)), (2, 2, 0), compression_type="lz4"),
    v01(
        "inner larger than memory",
        "REC-08",
        wrapped(1, "gzip", INNER[0], bytes(8) + INT32_MAX.to_bytes(4, "big")),
        (-1, -1, -1),
    ),
    v01("two wrappers", "NST-24", wrapped(1, "gzip", INNER[0]) + wrapped(1, "gzip", INNER[1], offset=1), (87, 0, 0)),
    v01("wrapper and message", "NST-24", wrapped(1, "gzip", INNER[0]) + INNER[1], (87, 0, 0)),
    v01("zstd", "LEG-15", raw_message(1, None, b"zstd", attributes=4), (87, -1, -1)),
    v01("all wrong", "CNV-01", wrapped(1, "gzip", *INNER[::-1], offset=2), (0, 0, 0)),
    v01("null key, inner", "LEG-26", wrapped(1, "gzip", *INNER, offset=2), (87, 2, 2), cleanup_policy="compact"),
)
FORMATS: tuple[Produce, ...] = (
    v01("sizes that overflow", "LEG-11", raw_message(0, body=b"\xff" * 4 + INT32_MAX.to_bytes(4, "big")), (-1, -1, -1)),
    v01("sizes of a gigabyte", "LEG-11", raw_message(0, body=b"\xff" * 4 + (2**30).to_bytes(4, "big")), (-1, -1, -1)),
    v01("below -1 to v0", "CNV-19", raw_message(1, timestamp=-2), (-1, -1, -1), message_format_version="0.9.0"),
    v01(
        "wrapper rebuilt on append time",
        "RWR-05",
        wrapped(1, "gzip", *INNER[::-1], offset=2),
        (0, 0, 0),
        message_format_version="0.10.0",
        message_timestamp_type=APPEND_TIME,
    ),
    v01("v1 kept", "RWR-01", b"".join(INNER), (0, 0, 0), message_format_version="0.10.0"),
    v01(
        "v1 kept on append time",
        "RWR-01",
        MESSAGE_V1,
        (0, 0, 0),
        message_format_version="0.10.0",
        message_timestamp_type=APPEND_TIME,
    ),
    v01(
        "v1 with strange bits",
        "RWR-01",
        raw_message(1, attributes=0x70, timestamp=-9),
        (0, 0, 0),
        message_format_version="0.10.0",
    ),
    v01("wrapper kept", "RWR-01", wrapped(1, "gzip", *INNER, offset=2), (0, 0, 0), message_format_version="0.10.0"),
    v01(
        "wrapper kept on append time",
        "RWR-01",
        wrapped(1, "gzip", *INNER, offset=2),
        (0, 0, 0),
        message_format_version="0.10.0",
        message_timestamp_type=APPEND_TIME,
    ),
    v01(
        "wrapper rebuilt",
        "RWR-05",
        wrapped(1, "gzip", *INNER[::-1], offset=2),
        (0, 0, 0),
        message_format_version="0.10.0",
    ),
    v01("v1 to v0", "CNV-01", b"".join(INNER), (0, 0, 0), message_format_version="0.9.0"),
    v01("v0 kept", "RWR-01", b"".join(INNER_V0), (0, 0, 0), message_format_version="0.9.0"),
    v01("wrapper to v0", "CNV-01", wrapped(1, "lz4", *INNER, offset=2), (0, 0, 0), message_format_version="0.9.0"),
    v01(
        "wrapper of v0 rebuilt",
        "RWR-05",
        wrapped(0, "gzip", *INNER_V0, offset=2),
        (0, 0, 0),
        message_format_version="0.9.0",
    ),
    v01(
        "v0 to v1 in gzip",
        "CNV-01",
        wrapped(0, "gzip", *INNER_V0, offset=2),
        (0, 0, 0),
        message_format_version="0.10.0",
    ),
    v01("v2 to v1", "CNV-01", BATCH, (0, 0, 2), message_format_version="0.10.0"),
    v01(
        "producer to v1",
        "PID-18",
        raw_batch(raw_record(), producer_id=1, producer_epoch=0, base_sequence=0),
        (43, 43, 2),
        message_format_version="0.10.0",
    ),
    v01("zstd to v1", "LEG-15", packed("zstd", raw_record()), (-1, -1, 2), message_format_version="0.10.0"),
    v01("v2 by an old request", "RWR-01", BATCH, (0, 0, 2)),
    v01("two v2 by an old request", "PRD-08", BATCH + BATCH, (87, 0, 2)),
    v01("v2 not gzip", "GZP-01", framed("gzip", raw_record()), (-1, -1, 2)),
)
MESSAGES = PLAIN + WRAPPERS + FORMATS
