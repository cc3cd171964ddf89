"""What a mutator gives: bytes, and what is known of them."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args

from kafka_corpus.case import Expectation as Expected
from kafka_fuzz.cells import Cell

__all__ = ["PROFILES", "Cell", "Expected", "Mutant", "Profile"]

# bytes: knows no structure, the baseline.  repair: mutates fields and mends what
# depends on them.  model: a valid log in which one thing, and no other, is a lie.
Profile = Literal["bytes", "repair", "model"]
PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)


class Mutant(NamedTuple):
    """One input for a decoder.

    Attributes:
        data: wire bytes, always.
        profile: who made them.
        labels: what was done, in order; for `model` the lie and its variant.
        expected: `model` only: the right answer, which needs no second implementation.
        cell: where in the space of the format the change lies.
    """

    data: bytes
    profile: Profile
    labels: tuple[str, ...]
    expected: Expected | None
    cell: Cell
