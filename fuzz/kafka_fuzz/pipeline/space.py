"""The space of generated cases: a number, with a seed, is a case, on every machine and in any order.

    index ──► which mutator (shares) ──► which point of its grid ──► drawn from Random(seed, index)

The grid of `model` is every cell of the format that a lie or a truth can lie in
(`kafka_fuzz.mutate.model.reachable`), one after the other, so that each is asked as
often as any other.  That of `repair` and `bytes` is a valid entry of every shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from random import Random
from typing import Final

from kafka_fuzz.cells import Cell
from kafka_fuzz.mutate import PROFILES, Mutant, Profile, for_cell, mutate, own_seeds
from kafka_fuzz.mutate.model import all_cells

# Indexes below this, so that no two pairs of seed and index are drawn alike.
MOST: Final = 1 << 48
MOST_SEED: Final = 1 << 63
SHARES: Final[dict[Profile, int]] = {"model": 1}


@cache
def grid() -> tuple[Cell, ...]:
    """The cells, in the order of the table of lies."""
    return tuple(all_cells())


@cache
def grid_hash() -> str:
    """What an index stands for depends on it, so a manifest says it."""
    return sha256("\n".join(map(repr, grid())).encode()).hexdigest()


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
            cells = grid()
            return for_cell(rng, cells[point % len(cells)])
        seeds = own_seeds()
        # Mostly from the entry whose turn it is; splices come from another.
        entry, other = seeds[point % len(seeds)], seeds[int(rng.random() * len(seeds))]
        return mutate(rng, (entry, entry, entry, other), profile)


def parse_shares(text: str) -> dict[Profile, int]:
    """`model=8,repair=1` as shares; a name alone has a share of 1.

    >>> parse_shares("model=8,repair")
    {'model': 8, 'repair': 1}

    Raises:
        ValueError: that is no list of shares.
    """
    shares: dict[Profile, int] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        profile = next((each for each in PROFILES if each == name), None)
        if profile is None:
            raise ValueError(f"there is no mutator {name!r}; there are {', '.join(PROFILES)}")
        if number and not number.isdecimal():
            raise ValueError(f"a share is a number, not {number!r}")
        shares[profile] = int(number or 1)
    return shares
