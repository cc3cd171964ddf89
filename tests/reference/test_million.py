"""Mutated inputs raise nothing but the one error, and none takes longer than a second."""

import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kafka_records import KINDS, decode

MUTANTS = Path(__file__).with_name("mutants.py")
PROCESSES = 2
MILLION = 1_000_000


@pytest.fixture(scope="module")
def mutants() -> dict[str, Any]:
    """The names of the mutation module."""
    return runpy.run_path(str(MUTANTS))


def test_what_is_mutated_is_valid(mutants: dict[str, Any]) -> None:
    """The inputs start from batches of every magic and codec that decode takes."""
    found = [decode(data)[0] for data in mutants["valid"]()]
    assert len({(batch.magic, batch.compression) for batch in found}) == 4 + 4 + 5
    assert {batch.timestamp_type for batch in found} == {"none", "create", "append"}


def test_mutants_can_be_made_again(mutants: dict[str, Any]) -> None:
    """A seed and a number are enough to make an input again, and numbers differ."""
    mutant = mutants["mutant"]
    some = [mutant(1, number) for number in range(50)]
    assert some == [mutant(1, number) for number in range(50)]
    assert len(set(some)) > 40


@pytest.mark.no_cover
def test_twenty_thousand_mutants(mutants: dict[str, Any]) -> None:
    """Whatever is done to a batch, it is read or refused, and every kind of refusal is met."""
    seen = Counter(mutants["outcomes"](2, 20_000))
    assert seen.total() == 20_000
    assert set(seen) - {"limit"} == {"value", *KINDS} - {"limit"}
    # Most get past the door: a suite of corrupt checksums would test nothing.
    assert seen["corrupt"] < 4_000
    assert seen["value"] < 12_000


@pytest.mark.million
def test_a_million_mutants() -> None:
    """A million inputs, in two processes, with a line for every fifty thousand."""
    share = str(MILLION // PROCESSES)
    command = [sys.executable, str(MUTANTS)]
    running = [subprocess.Popen([*command, str(seed), share]) for seed in range(100, 100 + PROCESSES)]
    assert [process.wait() for process in running] == [0] * PROCESSES
