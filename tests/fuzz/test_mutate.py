"""Mutators: deterministic, true to their labels, and never surprised by a seed."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_fuzz import cells
from kafka_fuzz.cells import NO_LIE
from kafka_fuzz.mutate import PROFILES, Deck, Mutant, Profile, custom_mutator, draw_profile, mutate, own_seeds
from kafka_fuzz.mutate.lies import LIES
from kafka_fuzz.mutate.sealing import mended
from kafka_fuzz.strategies import mutants
from kafka_records.checksum import checksum_legacy, checksum_v2

COUNT = 2000


def series(profile: Profile, seed: int, count: int = COUNT) -> list[Mutant]:
    """Mutants from one generator."""
    rng = Random(seed)
    return [mutate(rng, own_seeds(), profile) for _ in range(count)]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_same_seed_gives_the_same(profile: Profile) -> None:
    """A generator in the same state gives the same mutants, whatever was asked before."""
    first = series(profile, 7, 300)
    series(profile, 8, 100)

    assert series(profile, 7, 300) == first
    assert series(profile, 9, 300) != first


@pytest.mark.parametrize("profile", PROFILES)
def test_mutants_differ(profile: Profile) -> None:
    """Nearly all of a series are different inputs."""
    assert len({mutant.data for mutant in series(profile, 1)}) > 0.7 * COUNT


@pytest.mark.parametrize("profile", ["bytes", "repair"])
@given(seeds=st.lists(st.binary(max_size=200), max_size=3), number=st.integers(0, 2**32))
def test_any_seed_will_do(profile: Profile, seeds: list[bytes], number: int) -> None:
    """Seeds may be anything, or not be there at all."""
    mutant = mutate(Random(number), seeds, profile)

    assert mutant.profile == profile
    assert mutant.labels
    assert mutant.expected is None


def test_an_unknown_profile_is_an_error() -> None:
    """A profile that there is not is named, with those that there are."""
    with pytest.raises(ValueError, match="'wild'; there are bytes, repair, model"):
        mutate(Random(1), (), "wild")  # type: ignore[arg-type]  # that is the point


def test_profiles_have_their_shares() -> None:
    """A campaign runs 10 of `bytes` to 45 of each of the others."""
    rng = Random(3)
    drawn = [draw_profile(rng) for _ in range(4000)]

    assert 0.07 < drawn.count("bytes") / 4000 < 0.13
    assert 0.4 < drawn.count("repair") / 4000 < 0.5


def sound(data: bytes) -> bool:
    """Whether the entries of *data* lie end to end with the checksums that their bytes ask for."""
    spans = cells.framed(data)
    at = 0
    for start, end in spans:
        entry = data[start:end]
        v2 = entry[16] == 2
        if v2 and (len(entry) < 61 or int.from_bytes(entry[17:21], "big") != checksum_v2(entry)):
            return False
        if not v2 and int.from_bytes(entry[12:16], "big") != checksum_legacy(entry):
            return False
        at = end
    return at == len(data) or len(spans) == cells.MOST_ENTRIES


def test_repair_mends() -> None:
    """Sizes and checksums are right in all that was not left wrong on purpose."""
    wanted = [
        mutant
        for mutant in series("repair", 5)
        if not any(label == "cut" or "left wrong" in label or "magic" in label for label in mutant.labels)
    ]

    assert len(wanted) > COUNT / 2
    assert sum(not sound(mutant.data) for mutant in wanted) < len(wanted) * 0.03


def test_repair_leaves_one_in_ten_wrong() -> None:
    """About one of ten has one thing left wrong, and says so, and it is."""
    made = series("repair", 6)
    wrong = [mutant for mutant in made if any("left wrong" in label for label in mutant.labels)]

    assert 0.07 < len(wrong) / COUNT < 0.13
    assert sum(sound(mutant.data) for mutant in wrong) < len(wrong) * 0.1


def test_mending_is_idempotent() -> None:
    """What was mended needs no mending."""
    for mutant in series("bytes", 2, 300):
        once = mended(mutant.data)
        assert mended(once) == once


@given(data=st.binary(max_size=400), most=st.integers(0, 500), seed=st.integers(0, 2**32 - 1))
def test_custom_mutator_keeps_to_the_size(data: bytes, most: int, seed: int) -> None:
    """libFuzzer ends the run on a mutant that is longer than it asked for."""
    made = custom_mutator(data, most, seed)

    assert len(made) <= most
    assert made == custom_mutator(data, most, seed)


@given(mutant=mutants("model"))
def test_mutants_as_a_strategy(mutant: Mutant) -> None:
    """Hypothesis draws mutants that know their answer."""
    assert mutant.expected is not None
    assert mutant.cell in cells.reachable()


def test_a_deck_leaves_no_lie_out() -> None:
    """Before any lie comes a second time each has come once; the same seed gives the same order."""
    rng, deck = Random(9), Deck()
    told = [label for _ in range(3 * len(LIES)) if (label := mutate(rng, (), "model", deck).labels[0]) != NO_LIE]
    assert set(told[: len(LIES)]) == set(LIES)
    assert set(told[len(LIES) : 2 * len(LIES)]) == set(LIES)
    rng, deck = Random(9), Deck()
    again = (mutate(rng, (), "model", deck).labels[0] for _ in range(3 * len(LIES)))
    assert [label for label in again if label != NO_LIE] == told
