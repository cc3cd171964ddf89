"""The columnar decoder under mutants: whatever was done to an entry, it says what the reference says."""

from random import Random

import pytest

pytest.importorskip("numba")

from kafka_fuzz.mutate import PROFILES, Profile, mutate, own_seeds
from kafka_pipeline.columnar import batches_of, read_by_reference, read_chunks

pytestmark = pytest.mark.columnar

COUNT = 3000


@pytest.mark.parametrize("profile", PROFILES)
def test_mutants(profile: Profile) -> None:
    """Mutants of every profile give the same batches and the same errors."""
    rng = Random(11)
    for number in range(COUNT):
        data = mutate(rng, own_seeds(), profile).data
        chunks = list(read_chunks(data))
        batches = [pair for chunk in chunks for pair in batches_of(chunk)]
        broken = [each for chunk in chunks for each in chunk.broken]
        assert (batches, broken) == read_by_reference(data), number
