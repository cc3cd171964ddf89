"""Mutants as a Hypothesis strategy, for property tests of any decoder.

@given(mutants("model"))
def test_my_codec(mutant):
    ...  # mutant.data, and what it has to be read as: mutant.expected
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

try:
    from hypothesis import strategies as st
except ImportError as error:
    text = 'kafka_fuzz.strategies needs Hypothesis: pip install "kafkaproof[strategies]"'
    raise ImportError(text, name=error.name) from error

from kafka_fuzz.mutate import PROFILES, Mutant, Profile, mutate, own_seeds

__all__ = ["mutants"]


def mutants(profile: Profile | None = None, *, seeds: Sequence[bytes] = ()) -> st.SearchStrategy[Mutant]:
    """Mutants of *profile*, by default of all, from *seeds*, by default from valid entries of every format.

    One integer determines the mutant and identifies a failing example.  Hypothesis
    does not shrink it: `kafkaproof fuzz minimise` shrinks the wire bytes.
    """
    profiles = PROFILES if profile is None else (profile,)
    start = tuple(seeds) or own_seeds()
    drawn = st.tuples(st.integers(0, 2**64 - 1), st.sampled_from(profiles))
    return drawn.map(lambda pair: mutate(Random(pair[0]), start, pair[1]))
