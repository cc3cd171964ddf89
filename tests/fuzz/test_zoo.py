"""The zoo: each wrong codec is found by comparing it with the reference, within its budget."""

from functools import cache

import pytest

from kafka_fuzz.planted_bugs import ZOO, InputSeries, search_difference
from kafka_fuzz.planted_bugs.patched import changed_reference
from kafka_fuzz.planted_bugs.testees import TESTEE_BUGS
from kafka_records import decode, encode
from kafka_records.model import Batch

SEEDS = (0, 1)


@cache
def prey(seed: int) -> InputSeries:
    """One series of inputs for all animals."""
    return InputSeries(seed)


@pytest.mark.parametrize("name", ZOO)
def test_found(name: str) -> None:
    """It is told from the reference within its budget, in each of two series."""
    animal = ZOO[name]
    decoder = animal.decoder()
    catches = [search_difference(decoder, prey(seed), animal.budget) for seed in SEEDS]

    assert all(catches), f"not found within {animal.budget}"


def test_there_are_enough() -> None:
    """There are at least 25 wrong codecs besides the miniatures, each with a budget and a reason."""
    changed = [animal for animal in ZOO.values() if animal.module]

    assert len(changed) >= 25
    assert {animal.name for animal in ZOO.values() if not animal.module} <= set(TESTEE_BUGS)
    assert all(animal.budget > 0 and animal.wrong for animal in ZOO.values())


def test_what_is_not_changed_is_not_found() -> None:
    """A copy of the reference with nothing changed answers as the reference does."""
    decoder = changed_reference("batch", "if header.crc != computed:", "if header.crc != computed :")

    assert search_difference(decoder, prey(SEEDS[0]), 1000) is None


def test_the_reference_stays_as_it_is() -> None:
    """Making a wrong codec changes nothing for anybody else."""
    data = encode(Batch(magic=2, base_offset=3, last_offset=9))
    before = decode(data)
    wrong = ZOO["last_offset_from_records"].decoder()

    assert wrong(data) != before
    assert decode(data) == before


@pytest.mark.parametrize("old", ["no such text", "return"])
def test_a_change_that_does_not_fit_is_an_error(old: str) -> None:
    """What is to be replaced has to be there, and once; so the zoo cannot rot when the reference moves on."""
    with pytest.raises(ValueError, match="needs one"):
        changed_reference("batch", old, "pass")
