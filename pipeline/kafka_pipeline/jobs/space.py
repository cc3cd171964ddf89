"""Generated cases by integer index, and the row of each.

index ──► which mutator (shares) ──► which point of its grid ──► drawn from Random(seed, index)

The grid of `model` is every cell of the format that a fault or a valid input can be in
(`kafka_fuzz.mutate.model.reachable`), one after the other, so that each is used as
often as any other.  That of `fixup` and `bytes` is a valid entry of every shape.

Most cases hold valid entries that many others hold too, so what is worked out
for a batch is kept, first for a while and, when it is wanted again, for good.

The hashes are of its content, and of its shape, which is the same for cases
that differ in nothing but values.  The right answer is the one that belongs to
the fault, which the tests hold against the reference in every cell; where no fault
is known, the reference decides.  It also checks one of so many cases (`verify`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from random import Random
from typing import Any, Final, NamedTuple, Self

import msgspec
from xxhash import xxh3_64_digest, xxh3_64_intdigest, xxh3_128_digest

from kafka_corpus.case import Expectation
from kafka_corpus.wire import to_wire
from kafka_fuzz.mutate import PROFILES, Mutant, Profile, current_profile, for_cell, mutate, own_seeds
from kafka_fuzz.mutate.faults import FAULTS
from kafka_fuzz.mutate.model import all_cells
from kafka_fuzz.mutate.mutant import NO_FAULT, MutantCell
from kafka_fuzz.targets.codecs import reference_agrees, right_answer
from kafka_pipeline.spark import BadShard
from kafka_records import Batch, Record

# Indexes below this, so that no two pairs of seed and index are drawn alike.
MOST: Final = 1 << 48
MOST_SEED: Final = 1 << 63
SHARES: Final[dict[Profile, int]] = {"model": 1}
# The name of the field `fault` of a cell in earlier releases.
OLD_FAULT: Final = "lie"


@cache
def model_grid() -> tuple[MutantCell, ...]:
    """The cells, in the order of the table of faults."""
    return tuple(all_cells())


@cache
def grid_hash() -> str:
    """Hash of the grid, for manifests: the meaning of an index depends on the grid."""
    # The text of a cell as earlier releases hashed it, so that their outputs stay usable.
    lines = (repr(cell).replace(" fault=", f" {OLD_FAULT}=") for cell in model_grid())
    return sha256("\n".join(lines).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Space:
    """Every case of one seed.

    Attributes:
        seed: from 0 up to 2**63.
        turns: mutators in the order in which they take turns.
    """

    seed: int
    turns: tuple[Profile, ...]

    @classmethod
    def of(cls, seed: int, shares: Mapping[Profile, int]) -> Space:
        """A space in which each mutator is used as often as its share says.

        Raises:
            ValueError: no share, one below 1, an unknown mutator, or a seed out of range.
        """
        unknown = [name for name in shares if name not in PROFILES]
        if unknown:
            raise ValueError(f"there is no mutator {unknown[0]!r}; there are {', '.join(PROFILES)}")
        if not shares or min(shares.values()) < 1:
            raise ValueError("every mutator needs a share of at least 1")
        if not 0 <= seed < MOST_SEED:
            raise ValueError("a seed is from 0 up to 2**63")
        return cls(seed, tuple(name for name, share in shares.items() for _ in range(share)))

    def case(self, index: int, rng: Random | None = None) -> Mutant:
        """The case of that number; *rng* is any generator, to save making one.

        Raises:
            ValueError: there is no such index.
        """
        if not 0 <= index < MOST:
            raise ValueError("an index is from 0 up to 2**48")
        rng = rng or Random()
        rng.seed(self.seed << 48 | index)
        around, turn = divmod(index, len(self.turns))
        profile = self.turns[turn]
        point = around * self.turns.count(profile) + self.turns[:turn].count(profile)
        if profile == "model":
            cells = model_grid()
            return for_cell(rng, cells[point % len(cells)])
        seeds = own_seeds()
        # Mostly from the entry whose turn it is; splices come from another.
        entry, other = seeds[point % len(seeds)], seeds[int(rng.random() * len(seeds))]
        return mutate(rng, (entry, entry, entry, other), profile)


def parse_shares(text: str) -> dict[Profile, int]:
    """`model=8,fixup=1` as shares; a name alone has a share of 1.

    >>> parse_shares("model=8,fixup")
    {'model': 8, 'fixup': 1}

    Raises:
        ValueError: that is no list of shares.
    """
    shares: dict[Profile, int] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        name = current_profile(name)
        profile = next((each for each in PROFILES if each == name), None)
        if profile is None:
            raise ValueError(f"there is no mutator {name!r}; there are {', '.join(PROFILES)}")
        if number and not number.isdecimal():
            raise ValueError(f"a share is a number, not {number!r}")
        shares[profile] = int(number or 1)
    return shares


# Batches that were met once are forgotten after so many others.
YOUNG: Final = 2048
# Records of a batch that are looked at.
LOOK: Final = 8


class Outlined(NamedTuple):
    """A batch, its JSON, and the hash of its outline."""

    batch: Batch
    json: bytes
    outline: bytes


class Outlines:
    """Cached outlines of batches, by identity, since comparing batches takes longer."""

    def __init__(self) -> None:
        self._young: dict[int, Outlined] = {}
        self._old: dict[int, Outlined] = {}

    def of(self, batches: Iterable[Batch]) -> tuple[bytes, bytes]:
        """The JSON of *batches*, and the hashes of their outlines one after the other."""
        found = [self._one(batch) for batch in batches]
        return b"[" + b",".join([each.json for each in found]) + b"]", b"".join([each.outline for each in found])

    def _one(self, batch: Batch) -> Outlined:
        # An entry holds its batch, so no other can have the same identity.
        key = id(batch)
        found = self._old.get(key)
        if found is not None:
            return found
        found = self._young.pop(key, None)
        if found is not None:
            self._old[key] = found
            return found
        if len(self._young) >= YOUNG:
            self._young.clear()
        made = self._young[key] = Outlined(batch, msgspec.json.encode(to_wire(batch)), outline_of(batch))
        return made


def outline_of(batch: Batch) -> bytes:
    """Eight bytes, the same for batches that differ in nothing but values."""
    parts = (
        batch.magic,
        batch.compression,
        batch.timestamp_type,
        batch.producer_id >= 0,
        batch.transactional,
        batch.control,
        batch.delete_horizon is not None,
        (batch.last_offset - batch.base_offset).bit_length(),
        len(batch.records).bit_length(),
        *[_outline_of_record(record) for record in batch.records[:LOOK]],
    )
    return xxh3_64_digest(repr(parts).encode())


def _outline_of_record(record: Record) -> tuple[int, int, int]:
    return _size(record.key), _size(record.value), len(record.headers).bit_length()


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content).bit_length()


COLUMNS: Final = (
    "index",
    "mutator",
    *MutantCell._fields,
    "labels",
    "data",
    "verdict",
    "kinds",
    "rules",
    "batches",
    "content",
    "shape",
)


class Wrong(BadShard):
    """The reference contradicts the expected answer of a fault: one of them is wrong, and nothing is written."""


class Rows:
    """Makes rows; it remembers what it worked out, and gives the same whatever it made before."""

    def __init__(self, space: Space, verify: int = 64) -> None:
        """Of *space*; the reference decodes one of *verify* cases as well, none if that is 0."""
        self._space = space
        self._verify = verify
        self._outlines = Outlines()
        self._rng = Random()

    def __reduce__(self) -> tuple[type[Self], tuple[Space, int]]:
        """Pickle the settings only, not the cache."""
        return type(self), (self._space, self._verify)

    def row(self, index: int) -> tuple[Any, ...]:
        """One row, its columns as in `COLUMNS`.  Raises `Wrong`."""
        mutant = self._space.case(index, self._rng)
        if self._verify and index % self._verify == 0 and not reference_agrees(mutant):
            raise Wrong(f"the reference does not answer case {index} of seed {self._space.seed} as its fault expects")
        right, _ = right_answer(mutant)
        batches, outlines = self._outlines.of(right.batches)
        cell = mutant.cell
        return (
            index,
            mutant.profile,
            *cell,
            "" if mutant.expected else "; ".join(mutant.labels),
            mutant.data,
            right.verdict,
            right.kinds,
            rules_of(mutant, right),
            batches,
            xxh3_128_digest(mutant.data),
            shape_hash(cell, right, outlines, len(mutant.data)),
        )


def rules_of(mutant: Mutant, right: Expectation) -> tuple[str, ...]:
    """The rules that a case is about: its fault's, or the one by which the reference refuses."""
    if mutant.expected is None:
        return (right.why,) if right.why else ()
    fault = mutant.cell.fault
    return () if fault == NO_FAULT else FAULTS[fault].rules


def shape_hash(cell: MutantCell, right: Expectation, outlines: bytes, size: int) -> int:
    """The hash of a shape, as a signed 64-bit integer."""
    parts = (
        _bytes_of(cell),
        right.verdict.encode(),
        ",".join(right.kinds).encode(),
        b"%d" % size.bit_length(),
        outlines,
    )
    shape = xxh3_64_intdigest(b"\0".join(parts))
    return shape - (1 << 64) if shape >> 63 else shape


@cache
def _bytes_of(cell: MutantCell) -> bytes:
    return repr(tuple(cell)).encode()
