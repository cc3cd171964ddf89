"""Batches to write: every field usual most of the time and odd now and then, by a seed and an index."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from kafka_records import Batch, Header, Record
from kafka_records.constants import COMPRESSIONS, INT32_MAX, INT64_MAX, TimestampType

T = TypeVar("T")
ODD = 0.1
TIME = 1_700_000_000_000
INT64_MIN = -INT64_MAX - 1
CONTROL_KEYS = (bytes.fromhex("00000000"), bytes.fromhex("00000001"), bytes.fromhex("00000002"))
ODD_CONTROL_KEYS = (None, b"", b"\0\0\0", bytes.fromhex("00000009"), bytes.fromhex("ffff0000"), b"\0\1\0\1more")


def batch(seed: int, index: int) -> Batch:
    """The batch at *index* of a series."""
    chance = Random(f"{seed}:{index}")
    magic = chance.choice((0, 1, 2, 2, 2))
    # A v1 wrapper below offset 0, or below its last message, is read by neither (NST-10).
    base = pick(chance, (0, 10, 2**40), (INT64_MAX, INT64_MAX - 5, -1 if magic == 2 else 1))
    control = chance.random() < (0.15 if magic == 2 else 0.02)
    held = tuple(records(chance, magic, base, control=control))
    last = held[-1].offset if held else base
    highest = max((record.timestamp for record in held), default=-1)
    times: tuple[TimestampType, ...] = ("create", "append")
    none: tuple[TimestampType, ...] = ("none",)
    return Batch(
        magic=magic,
        base_offset=base,
        last_offset=clip(
            pick(chance, (last,), (last + 1, last - (magic == 2), base + INT32_MAX, base + INT32_MAX + 1))
        ),
        compression=chance.choice(("none", "none", *COMPRESSIONS[1 : 5 if magic == 2 or chance.random() < ODD else 4])),
        timestamp_type=pick(chance, times, none) if magic else pick(chance, none, times),
        max_timestamp=pick(chance, (highest,), (-1, 0, TIME, -2, INT64_MAX)),
        control=control,
        records=held,
        **producer(chance, magic),
        **rarely(chance, partition_leader_epoch=(0, 5, INT32_MAX, -2)),
        **rarely(chance if magic == 2 else Random(0), delete_horizon=(TIME, 0, INT64_MAX)),
    )


def pick(chance: Random, usual: Sequence[T], odd: Sequence[T]) -> T:
    """A usual value, or seldom an odd one."""
    return chance.choice(odd if chance.random() < ODD else usual)


def rarely(chance: Random, **choices: Sequence[Any]) -> dict[str, Any]:
    """Each of *choices*, or mostly none of them."""
    return {name: chance.choice(values) for name, values in choices.items() if chance.random() < 2 * ODD}


def clip(value: int) -> int:
    """The int64 that is nearest."""
    return min(max(value, INT64_MIN), INT64_MAX)


def producer(chance: Random, magic: int) -> dict[str, Any]:
    """Producer fields: whole in a third of v2, in pieces elsewhere."""
    if magic == 2 and chance.random() < 0.35:
        return {
            "producer_id": pick(chance, (0, 7), (-1, -2, INT64_MAX)),
            "producer_epoch": pick(chance, (0, 3), (-1, -2, 32767)),
            "base_sequence": pick(chance, (0, 10), (-1, -2, INT32_MAX)),
            "transactional": chance.random() < 0.4,
        }
    return rarely(chance, producer_id=(7, -2), transactional=(True,)) if chance.random() < ODD else {}


def records(chance: Random, magic: int, base: int, *, control: bool) -> list[Record]:
    """None to five records, their offsets rising most of the time."""
    made = []
    offset = base
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3, 3, 5))):
        key = pick(chance, CONTROL_KEYS, ODD_CONTROL_KEYS) if control else chance.choice((None, b"", b"k", b"k" * 70))
        value = chance.choice((None, b"", b"v", b"v" * 300))
        timestamp = pick(chance, (TIME, TIME + 5, TIME - 7, -1) if magic else (-1,), (0, -2, INT64_MAX, INT64_MIN))
        with_headers = chance.random() < (0.4 if magic == 2 else 0.05)
        made.append(Record(clip(offset), timestamp, key, value, headers(chance) if with_headers else ()))
        offset += pick(chance, (1, 1, 2), (0, -1, INT32_MAX, INT32_MAX + 1, 2**32))
    return made


def headers(chance: Random) -> tuple[Header, ...]:
    """One to three headers; keys are UTF-8, since Java's are text."""
    keys, values = (b"", b"h", b"n" * 70, "ключ".encode(), b"\0"), (None, b"", b"v", b"w" * 70)
    return tuple(Header(chance.choice(keys), chance.choice(values)) for _ in range(chance.randint(1, 3)))
