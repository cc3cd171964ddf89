"""Shapes of valid entries: how many records, which keys, headers, times and offsets.

`AXES` names every level of every axis, and the entries that can have it; these
are the cells of inputs without a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from kafka_records.constants import INT32_MAX, INT64_MAX, NO_TIMESTAMP

Pair = tuple[bytes, bytes | None]
Row = tuple[int, int, bytes | None, bytes | None, tuple[Pair, ...]]
Fits = Callable[[int, str], bool]

NOW: Final = 1_700_000_000_000
INT16_MAX: Final = 2**15 - 1
COUNTS: Final = {"none": 0, "one": 1, "two": 2, "three": 3, "many": 70}
# 63, 64 and 8,192 are where a length's varint grows by a byte (VAR-12).
SIZES: Final = {"63 bytes": 63, "64 bytes": 64, "8192 bytes": 8192}
BASE_OFFSETS: Final = {"zero": 0, "large": 2**40, "near the end": INT64_MAX - 2**34, "beyond int32": INT32_MAX + 1}
COMMON_OFFSETS: Final = ("zero", "large", "gaps", "rising")
TIMES: Final = {"none": NO_TIMESTAMP, "zero": 0, "largest": INT64_MAX}
HEADERS: Final[dict[str, tuple[Pair, ...]]] = {
    "none": (),
    "one": ((b"h", b"1"),),
    "null value": ((b"h", None), (b"g", b"")),
    "empty key": ((b"", b"1"),),
    "repeated": ((b"h", b"1"), (b"h", b"2")),
    "repeated alike": ((b"h", b"1"), (b"h", b"1")),
    "in no order": ((b"z", b"1"), (b"a", None), (b"m", b""), (b"b", b"2")),
    "not UTF-8": ((b"\xff\xfe", b"\x80"),),
    "long": ((b"k" * 64, b"v" * 64),),
    "many": tuple((b"h%d" % at, b"%d" % at) for at in range(70)),
}
MARKERS: Final = {
    "commit": (b"\0\0\0\1", b"\0\0\0\0\0\7"),
    "abort": (b"\0\0\0\0", b"\0\0\0\0\0\7"),
    "leader change": (bytes.fromhex("00000002"), bytes.fromhex("00000000000102000000010002000000010000")),
}


def _any(magic: int, codec: str) -> bool:
    return True


def _v2(magic: int, codec: str) -> bool:
    return magic == 2


def _timed(magic: int, codec: str) -> bool:
    return magic > 0


def _several(magic: int, codec: str) -> bool:
    return magic == 2 or codec != "none"


def _plain_v2(magic: int, codec: str) -> bool:
    return magic == 2 and codec == "none"


CONTENT: Final[dict[str, Fits]] = dict.fromkeys(("null", "empty", "text", "not UTF-8", *SIZES), _any)
AXES: Final[dict[str, dict[str, Fits]]] = {
    "records": {"none": _v2, "one": _any, "two": _several, "three": _several, "many": _several},
    "key": CONTENT,
    "value": CONTENT,
    "headers": dict.fromkeys(HEADERS, _v2),
    "timestamp": {
        **dict.fromkeys(("equal", "rising", *TIMES, "append"), _timed),
        **dict.fromkeys(("falling", "far apart", "none later", "append in one second"), _several),
    },
    "offset": {**dict.fromkeys(("rising", *BASE_OFFSETS), _any), "gaps": _several, "gap at the end": _v2},
    "producer": dict.fromkeys(("idempotent", "transactional", "largest", "horizon", "leader epoch"), _v2),
    "control": dict.fromkeys(MARKERS, _plain_v2),
}


@dataclass(slots=True)
class Shape:
    """One shape; what a format lacks is not looked at."""

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[tuple[Pair, ...]]
    base_offset: int = 0
    last_offset: int = 0
    append: bool = False
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    control: bool = False
    leader_epoch: int = -1
    horizon: int | None = field(default=None)

    def rows(self) -> Iterator[Row]:
        """The records."""
        return zip(self.offsets, self.timestamps, self.keys, self.values, self.headers, strict=True)


def draw_shape(rng: Random, magic: int, codec: str, axis: str, level: str) -> Shape:
    """A shape with *level* on *axis*, and common levels on the others."""
    levels = {
        "records": rng.choice(("one", "two", "three", "three")),
        "key": rng.choice(("null", "empty", "text", "text")),
        "value": rng.choice(("null", "empty", "text", "text", "text")),
        "headers": rng.choice(("none", "none", "one", "null value")),
        "timestamp": rng.choice(("equal", "rising", "rising", "append")),
        "offset": rng.choice(COMMON_OFFSETS),
        "producer": rng.choice(("", "", "idempotent", "transactional")),
        "control": "",
        axis: level,
    }
    count = COUNTS[levels["records"]]
    if (magic < 2 and codec == "none") or axis == "control":
        count = 1
    elif level in ("falling", "far apart", "none later", "append in one second", "gaps") and count < 2:
        count = 2
    shape = Shape(
        offsets=draw_offsets(rng, levels["offset"], count),
        timestamps=draw_timestamps(rng, levels["timestamp"], count),
        keys=[shape_content(rng, levels["key"]) for _ in range(count)],
        values=[shape_content(rng, levels["value"]) for _ in range(count)],
        headers=[HEADERS[levels["headers"]] if magic == 2 else () for _ in range(count)],
    )
    return finished(rng, shape, levels)


def finished(rng: Random, shape: Shape, levels: dict[str, str]) -> Shape:
    """The shape with what belongs to the whole entry."""
    start = BASE_OFFSETS.get(levels["offset"], 7)
    shape.base_offset = shape.offsets[0] if shape.offsets else start
    shape.last_offset = shape.offsets[-1] if shape.offsets else start + 9
    if levels["offset"] == "gap at the end":
        shape.last_offset += rng.choice((1, 1000))
    shape.append = levels["timestamp"].startswith("append")
    with_producer_state(rng, shape, levels["producer"])
    if levels["control"]:
        key, value = MARKERS[levels["control"]]
        shape.control, shape.keys, shape.values = True, [key], [value]
        shape.base_sequence = -1
    return shape


def with_producer_state(rng: Random, shape: Shape, level: str) -> None:
    """Set the producer fields of *shape* as *level* requires."""
    if level in ("idempotent", "transactional"):
        shape.producer_id, shape.producer_epoch, shape.base_sequence = rng.randrange(5000), rng.randrange(9), 0
        shape.transactional = level == "transactional"
    elif level == "largest":
        shape.producer_id, shape.producer_epoch, shape.base_sequence = INT64_MAX, INT16_MAX, INT32_MAX
    elif level == "horizon":
        shape.horizon = NOW + rng.randrange(10**9)
    elif level == "leader epoch":
        shape.leader_epoch = rng.choice((0, 7, INT32_MAX))


def draw_offsets(rng: Random, level: str, count: int) -> list[int]:
    """Rising offsets, with gaps as compaction leaves them if *level* says so."""
    start = BASE_OFFSETS.get(level, 1 + rng.randrange(1000))
    steps = [rng.choice((2, 3, 64, 1000)) if level == "gaps" else 1 for _ in range(count)]
    return [start + sum(steps[:index]) for index in range(count)]


def draw_timestamps(rng: Random, level: str, count: int) -> list[int]:
    """Milliseconds since 1970."""
    now = NOW + rng.randrange(10**9)
    match level:
        case "none" | "zero" | "largest":
            return [TIMES[level]] * count
        case "falling":
            return [now - index * rng.choice((1, 64, 10**6)) for index in range(count)]
        case "far apart":
            return [(0, INT64_MAX, now)[index % 3] for index in range(count)]
        case "equal":
            return [now] * count
        case "none later":
            return [now, *[NO_TIMESTAMP] * (count - 1)]
        case "append in one second":
            now -= now % 1000
    return [now + index * 5 for index in range(count)]


def shape_content(rng: Random, level: str) -> bytes | None:
    """A key or a value."""
    match level:
        case "null":
            return None
        case "empty":
            return b""
        case "text":
            return b"%x" % rng.getrandbits(4 * rng.randrange(1, 20))
        case "not UTF-8":
            return b"\xff\xfe\x00\x80"
    return b"%08x" % rng.getrandbits(32) + b"x" * (SIZES[level] - 8)
