"""Faults: the verdict of each fault holds for the reference, in each cell of the fault."""

from itertools import groupby
from random import Random

import pytest

from kafka_fuzz.mutate import for_cell
from kafka_fuzz.mutate.faults import FAULTS
from kafka_fuzz.mutate.model import all_cells, reachable
from kafka_fuzz.mutate.mutant import NO_FAULT, MutantCell
from kafka_fuzz.targets.codecs import reference_agrees
from kafka_records import KINDS, RecordFormatError, decode
from kafka_records.rules import rule

ROUNDS = 2


def by_fault(cell: MutantCell) -> str:
    """The fault of a cell."""
    return cell.fault


CELLS = {name: list(group) for name, group in groupby(all_cells(), by_fault)}


@pytest.mark.parametrize("name", CELLS)
def test_the_verdict_holds(name: str) -> None:
    """In each of its cells the reference gives the verdict that the table says."""
    made = [for_cell(Random(f"{number}{cell}"), cell) for cell in CELLS[name] for number in range(ROUNDS)]

    assert [(mutant.cell, mutant.data.hex()) for mutant in made if not reference_agrees(mutant)] == []


def test_there_are_enough() -> None:
    """There are at least 60 faults, each in every cell that it names, and inputs without a fault."""
    assert len(FAULTS) >= 60
    assert {*FAULTS, NO_FAULT} == set(CELLS)
    assert len(reachable()) == sum(map(len, CELLS.values()))


@pytest.mark.parametrize("name", FAULTS)
def test_the_table_is_true_to_the_catalogue(name: str) -> None:
    """A fault states the false claim, and names rules and kinds that exist."""
    fault = FAULTS[name]

    assert fault.says.endswith(".")
    assert fault.rules
    assert all(rule(id_).statement for id_ in fault.rules)
    assert set(fault.kinds) <= set(KINDS)
    assert bool(fault.kinds) == (fault.verdict != "valid")


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.verdict == "invalid"])
def test_input_before_a_fault_is_valid(name: str) -> None:
    """The entries before a fault are read, so the fault is the only thing that is wrong."""
    lasts = [cell for cell in CELLS[name] if cell.position in ("last", "middle")]
    for cell in lasts[:20]:
        mutant = for_cell(Random(str(cell)), cell)
        with pytest.raises(RecordFormatError) as caught:
            decode(mutant.data)
        assert mutant.expected is not None
        assert caught.value.batches == mutant.expected.batches
