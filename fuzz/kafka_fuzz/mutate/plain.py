"""The profile `bytes`: edits that know nothing of structure, the baseline of every comparison.

The edits are those of libFuzzer and AFL: bits, bytes and integers are changed,
ranges are inserted, deleted, doubled and spliced, dictionary words are inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, Literal

from kafka_fuzz.mutate.dictionary import dictionary_words
from kafka_fuzz.mutate.mutant import Mutant, MutantCell
from kafka_records.layout import MAGIC_OFFSET

Edit = Callable[[bytes, Random, Sequence[bytes]], bytes]

# Integers at the edges of types, sizes and prefixes.
EDGES: Final = (
    *(0, 1, 2, 7, 8, 13, 14, 16, 32, 60, 61, 63, 64, 100, 127, 128, 255, 256, 512, 1000, 8191, 8192, 32767, 65535),
    *(2**31 - 14, 2**31 - 13, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1),
    *(-1, -2, -4, -12, -13, -128, -32768, -(2**31), -(2**63)),
)
BYTES: Final = (0, 1, 2, 3, 7, 8, 0x0F, 0x10, 0x20, 0x40, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
COUNTS: Final = (1, 1, 1, 2, 3, 5)
LONGEST: Final = 1 << 20


def mutate_bytes(rng: Random, seeds: Sequence[bytes], edits: Sequence[tuple[str, Edit]] = ()) -> Mutant:
    """One of *seeds* after a few of *edits*, or of all that there are."""
    edits = edits or EDITS
    data = seeds[int(rng.random() * len(seeds))] if seeds else b""
    labels = []
    for _ in range(COUNTS[int(rng.random() * len(COUNTS))]):
        name, edit = edits[int(rng.random() * len(edits))]
        data = edit(data, rng, seeds)
        labels.append(name)
    return Mutant(data[:LONGEST], "bytes", tuple(labels), None, cell_of(data, labels[-1]))


def cell_of(data: bytes, edit: str) -> MutantCell:
    """The cell of an edit that knows no fields."""
    magic = data[MAGIC_OFFSET] if len(data) > MAGIC_OFFSET else -1
    return MutantCell(magic if magic < 3 else -1, "", "bytes", edit, "", "entry", "only")


def byte_cell(data: bytes, rng: Random, room: int = 0) -> int:
    """A position from which *room* bytes are left, or 0."""
    return int(rng.random() * max(1, len(data) - room + 1))


def flip_bit(data: bytes, rng: Random, seeds: Sequence[bytes]) -> bytes:
    """One bit."""
    at = byte_cell(data, rng, 1)
    return data[:at] + bytes(byte ^ 1 << rng.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]


def set_byte(data: bytes, rng: Random, seeds: Sequence[bytes]) -> bytes:
    """One byte set to a value with a meaning in some field."""
    at = byte_cell(data, rng, 1)
    return data[:at] + bytes((rng.choice(BYTES),)) + data[at + 1 :]


def step_byte(data: bytes, rng: Random, seeds: Sequence[bytes]) -> bytes:
    """One byte changed by 1 or 2."""
    at = byte_cell(data, rng, 1)
    return data[:at] + bytes((byte + rng.choice((-2, -1, 1, 2))) % 256 for byte in data[at : at + 1]) + data[at + 1 :]


def set_integer(data: bytes, rng: Random, seeds: Sequence[bytes]) -> bytes:
    """Two, four or eight bytes set to an edge."""
    width = rng.choice((2, 4, 4, 8))
    at = byte_cell(data, rng, width)
    order: Literal["big", "little"] = "big" if rng.random() < 0.7 else "little"
    return data[:at] + (rng.choice(EDGES) % (1 << 8 * width)).to_bytes(width, order) + data[at + width :]


def insert(data: bytes, rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A few random bytes inserted."""
    at = byte_cell(data, rng)
    return data[:at] + rng.randbytes(rng.choice((1, 1, 2, 4, 8, 16))) + data[at:]


def delete(data: bytes, rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A few bytes deleted."""
    at = byte_cell(data, rng)
    return data[:at] + data[at + rng.choice((1, 1, 2, 4, 8, 16)) :]


def truncate(data: bytes, rng: Random, seeds: Sequence[bytes]) -> bytes:
    """All bytes after a random position deleted."""
    return data[: byte_cell(data, rng)]


def double(data: bytes, rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A range repeated."""
    at = byte_cell(data, rng)
    end = at + rng.randrange(1, 64)
    return data[:end] + data[at:end] + data[end:]


def splice(data: bytes, rng: Random, seeds: Sequence[bytes]) -> bytes:
    """The start of *data* and the end of another seed."""
    other = seeds[int(rng.random() * len(seeds))] if seeds else data
    return data[: byte_cell(data, rng)] + other[byte_cell(other, rng) :]


def put_word(data: bytes, rng: Random, seeds: Sequence[bytes]) -> bytes:
    """A word of the dictionary, inserted or over existing bytes."""
    word = rng.choice(dictionary_words())
    at = byte_cell(data, rng)
    return data[:at] + word + data[at + rng.choice((0, len(word))) :]


EDITS: Final[tuple[tuple[str, Edit], ...]] = tuple(
    (edit.__name__, edit)
    for edit in (flip_bit, set_byte, step_byte, set_integer, insert, delete, truncate, double, splice, put_word)
)
