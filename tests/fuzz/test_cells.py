"""Format cells: each mutant has one, and they can be counted."""

from random import Random
from typing import get_args

import pytest

from kafka_fuzz.mutate import mutate, own_seeds
from kafka_fuzz.mutate.entries import parts_of
from kafka_fuzz.mutate.faults import FAULTS
from kafka_fuzz.mutate.model import reachable
from kafka_fuzz.mutate.mutant import POSITIONS, Nesting, entry_position


@pytest.mark.slow
def test_model_reaches_what_is_reachable() -> None:
    """Every mutant of `model` is in a reachable cell, and all faults occur."""
    rng = Random(4)
    cells = {mutate(rng, (), "model").cell for _ in range(4000)}

    assert cells <= reachable()
    assert {cell.fault for cell in cells} >= set(FAULTS)


def test_reachable_cells_are_complete() -> None:
    """Reachable cells have every nesting and position, and each has a field and a fault."""
    assert {cell.nesting for cell in reachable()} == set(get_args(Nesting))
    assert {cell.position for cell in reachable()} == set(POSITIONS)
    assert all(cell.field and cell.fault for cell in reachable())


def test_positions() -> None:
    """The position depends on the index and the number of entries."""
    assert [entry_position(index, 1) for index in range(1)] == ["only"]
    assert [entry_position(index, 4) for index in range(4)] == ["first", "middle", "middle", "last"]


def test_seeds_cover_the_formats() -> None:
    """The seeds have entries of every magic and codec."""
    found = {(part.magic, part.codec) for seed in own_seeds() for part in parts_of(seed)}

    assert len(found) == 13
