"""Format cells: cheap to say of any input, and countable."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_fuzz.mutate import mutate, own_seeds
from kafka_fuzz.mutate.faults import FAULTS
from kafka_fuzz.mutate.model import reachable
from kafka_fuzz.mutate.mutant import NESTINGS, POSITIONS, MutantCell, boundary_of, entry_position, observed_cell
from kafka_records import Batch, encode
from kafka_records.constants import INT32_MAX
from kafka_records.layout import BATCH_V2


def test_model_reaches_what_is_reachable() -> None:
    """Every mutant of `model` is in a reachable cell, and all faults occur."""
    rng = Random(4)
    cells = {mutate(rng, (), "model").cell for _ in range(4000)}

    assert cells <= reachable()
    assert {cell.fault for cell in cells} >= set(FAULTS)


def test_cells_name_what_there_is() -> None:
    """Cells that are counted have a nesting, a position and a field."""
    assert {cell.nesting for cell in reachable()} == set(NESTINGS)
    assert {cell.position for cell in reachable()} == set(POSITIONS)
    assert all(cell.field and cell.fault for cell in reachable())


@pytest.mark.parametrize(
    ("value", "width", "boundary"),
    [
        (-(2**31), 4, "smallest"),
        (-2, 4, "negative"),
        (-1, 8, "minus one"),
        (0, 1, "zero"),
        (1, 2, "one"),
        (127, 8, "small"),
        (128, 8, "large"),
        (2**31 - 13, 4, "near largest"),
        (2**31 - 1, 4, "largest"),
        (2**31 - 1, 8, "large"),
    ],
)
def test_boundaries(value: int, width: int, boundary: str) -> None:
    """A value's class depends on the width of its field."""
    assert boundary_of(value, width) == boundary


def test_positions() -> None:
    """One entry is the only one; of more there is a first and a last."""
    assert [entry_position(index, 1) for index in range(1)] == ["only"]
    assert [entry_position(index, 4) for index in range(4)] == ["first", "middle", "middle", "last"]


def test_cells_of_a_batch() -> None:
    """Each fixed field but the checksum gives a cell, with its value's class."""
    data = encode(Batch(magic=2, base_offset=0, last_offset=INT32_MAX))
    found = observed_cell(data)

    assert {cell.field for cell in found} == {field.name for field in BATCH_V2.fields} - {"crc"}
    assert MutantCell(2, "none", "last_offset_delta", "largest", "", "entry", "only") in found
    assert MutantCell(2, "none", "producer_id", "minus one", "", "entry", "only") in found


@given(data=st.binary(max_size=200))
def test_any_bytes_have_cells(data: bytes) -> None:
    """Bytes from anywhere are looked at without complaint."""
    assert all(cell.fault == "" for cell in observed_cell(data))


def test_seeds_cover_the_formats() -> None:
    """The seeds have entries of every magic and codec."""
    found = {(cell.magic, cell.codec) for seed in own_seeds() for cell in observed_cell(seed)}

    assert len(found) == 13
