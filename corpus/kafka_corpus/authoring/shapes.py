"""Key, value and header shapes, and a grid in which every two of them meet.

The full product of codec, key, value, headers and record count has thousands
of rows, most of which test nothing new.  An orthogonal
array of 25 rows has every pair of levels once, for up to six axes of five.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, Final

from kafka_corpus.authoring.build import TIMESTAMP, record
from kafka_records import Record
from kafka_records.constants import COMPRESSIONS

Headers = tuple[tuple[bytes, bytes | None], ...]

BYTES: Final[dict[str, bytes | None]] = {
    "null": None,
    "empty": b"",
    "small": b"small",
    "1000 B": bytes(range(250)) * 4,
    "not UTF-8": b"\xff\xfe\x00\x80",
}
HEADERS: Final[dict[str, Headers]] = {
    "none": (),
    "one": ((b"h", b"1"),),
    "null value": ((b"h", None), (b"g", b"")),
    "empty key": ((b"", b"1"), (b"", None)),
    "duplicates": ((b"h", b"1"), (b"h", b"2"), (b"h", b"1")),
}
MANY_HEADERS: Final[dict[str, Headers]] = {
    "64": tuple((b"h%d" % at, b"%d" % at) for at in range(64)),
    "long value": ((b"h", b"v" * 1000),),
    "long key": ((b"k" * 1000, b"1"),),
    "binary values": tuple((b"b", bytes((at,) * at)) for at in range(10)),
    "not ASCII": (("größe".encode(), "标头".encode()), ("😀".encode(), None)),
}
COUNTS: Final = {"1": 1, "2": 2, "10": 10, "64": 64, "100": 100}
CODECS: Final[dict[str, Any]] = {codec: codec for codec in COMPRESSIONS}


def pairwise(**axes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Twenty-five rows in which any two levels of different axes meet; each of up to six axes has five levels."""
    rows = {}
    for i, j in product(range(5), repeat=2):
        # The level of each axis: i, j, i + j, i + 2j and so on, modulo 5.
        levels = (i, j, *((i + step * j) % 5 for step in range(1, 5)))
        chosen = {axis: list(values)[level] for (axis, values), level in zip(axes.items(), levels, strict=False)}
        name = ", ".join(f"{axis} {label}" for axis, label in chosen.items())
        rows[name] = {axis: axes[axis][label] for axis, label in chosen.items()}
    return rows


def shaped(row: Mapping[str, Any]) -> tuple[Record, ...]:
    """As many records as the row's count says, a millisecond apart.

    The first three have the row's key, value and headers; the others are small,
    so that no vector is larger than it has to be.
    """
    full = {"value": row["value"], "key": row["key"], "headers": row["headers"]}
    return tuple(
        record(offset=at, timestamp=TIMESTAMP + at, **(full if at < 3 else {"value": b"%d" % at}))
        for at in range(row["count"])
    )
