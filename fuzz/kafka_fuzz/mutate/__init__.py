"""Mutators: wire bytes in, wire bytes out, in three profiles, each deterministic from a seed.

    mutant = mutate(Random(7), seeds, "model")
    mutant.data, mutant.labels, mutant.expected, mutant.cell

`bytes` knows no structure and is the baseline; `fixup` mutates fields of *seeds*
and fixes up sizes and checksums; `model` needs no seeds and knows the right answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from kafka_fuzz.mutate.entries import corpus_seeds, own_seeds
from kafka_fuzz.mutate.fixup_profile import mutate_fixup
from kafka_fuzz.mutate.model import Deck, for_cell, mutate_model
from kafka_fuzz.mutate.mutant import PROFILES, Expected, Mutant, MutantCell, Profile, current_profile
from kafka_fuzz.mutate.plain import mutate_bytes

__all__ = [
    "PROFILES",
    "SHARES",
    "Deck",
    "Expected",
    "Mutant",
    "MutantCell",
    "Profile",
    "corpus_seeds",
    "current_profile",
    "custom_mutator",
    "draw_profile",
    "for_cell",
    "mutate",
    "own_seeds",
]

# How often a mutant may be too long before one is cut.
TRIES: Final = 4
# How often each is run in a campaign, out of 100.
SHARES: Final[dict[Profile, int]] = {"bytes": 10, "fixup": 45, "model": 45}


def mutate(rng: Random, seeds: Sequence[bytes], profile: Profile, deck: Deck | None = None) -> Mutant:
    """An input for a decoder; the same states of *rng* and *deck* and the same *seeds* give the same.

    Args:
        seeds: wire bytes to start from; not looked at by `model`.
        profile: one of `PROFILES`.
        deck: the source of faults for `model`, so that a stream of inputs misses none; it can learn which inputs
            mislead a reader, to put them before other entries.

    Raises:
        ValueError: there is no such profile.
    """
    match profile:
        case "bytes":
            return mutate_bytes(rng, seeds)
        case "fixup":
            return mutate_fixup(rng, seeds, deck)
        case "model":
            return mutate_model(rng, deck)
    raise ValueError(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}")


def draw_profile(rng: Random) -> Profile:
    """A profile, each as often as `SHARES` says."""
    number = rng.random() * 100
    for profile, share in SHARES.items():
        if number < share:
            return profile
        number -= share
    return "model"


def custom_mutator(data: bytes, max_size: int, seed: int) -> bytes:
    """The mutator interface of atheris: mutate *data* to at most *max_size* bytes.

    All three profiles take turns.  A mutant that is too long is made again from
    the same numbers, a few times, and then cut: libFuzzer ends a run on longer ones.
    """
    rng, data, ours = Random(seed), bytes(data), own_seeds()
    # Mostly from *data*; one in four from an entry of ours, and splices come from there.
    seeds = (data, data, data, ours[int(rng.random() * len(ours))]) if data else ours
    for _ in range(TRIES):
        made = mutate(rng, seeds, draw_profile(rng)).data
        if len(made) <= max_size:
            return made
    return mutate_bytes(rng, (data[:max_size],)).data[:max_size]
