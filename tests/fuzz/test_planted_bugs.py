"""Each planted bug with a budget is found by comparing its decoder with the reference, within the budget."""

from functools import cache

import pytest

from kafka_fuzz.planted_bugs import PLANTED_BUGS, InputSeries, search_difference
from kafka_fuzz.planted_bugs.bug import changed_reference
from kafka_records import decode, encode
from kafka_records.model import Batch

SEEDS = (0, 1)
BUDGETS = {name: bug.budget for name, bug in PLANTED_BUGS.items() if bug.budget is not None}


@cache
def series(seed: int) -> InputSeries:
    """One series of inputs for all bugs."""
    return InputSeries(seed)


@pytest.mark.parametrize("name", BUDGETS)
def test_bug_is_found_within_its_budget(name: str) -> None:
    """In each of two series an input within the budget shows the bug."""
    decoder = PLANTED_BUGS[name].decoder()
    detections = [search_difference(decoder, series(seed), BUDGETS[name]) for seed in SEEDS]

    assert all(detections), f"not found within {BUDGETS[name]}"


def test_there_are_enough_bugs() -> None:
    """At least 25 bugs are patches of the reference's source; each bug has a name, a sentence and a positive budget."""
    patched = [bug for bug in PLANTED_BUGS.values() if bug.patch]

    assert len(patched) >= 25
    assert all(bug.budget for bug in patched)
    assert all(budget > 0 for budget in BUDGETS.values())
    assert all(bug.wrong and name == bug.NAME for name, bug in PLANTED_BUGS.items())


def test_equivalent_source_shows_no_difference() -> None:
    """A copy of the reference with another spelling of the same code answers as the reference does."""
    decoder = changed_reference("batch", "if header.crc != computed:", "if header.crc != computed :")

    assert search_difference(decoder, series(SEEDS[0]), 1000) is None


def test_imported_reference_is_not_changed() -> None:
    """A patched decoder reads other data, and the imported reference still reads the same."""
    data = encode(Batch(magic=2, base_offset=3, last_offset=9))
    before = decode(data)
    wrong = PLANTED_BUGS["last_offset_from_records"].decoder()

    assert wrong(data) != before
    assert decode(data) == before


@pytest.mark.parametrize("old", ["no such text", "return"])
def test_patch_that_does_not_fit_is_an_error(old: str) -> None:
    """The text to be replaced has to occur exactly once, so a patch cannot become stale unnoticed."""
    with pytest.raises(ValueError, match="exactly one"):
        changed_reference("batch", old, "pass")
