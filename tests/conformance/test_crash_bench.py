"""What the bench measures of crashes: runs in which one input in ten ends the testee."""

import os

import pytest

from kafka_conformance import bench
from kafka_conformance.connect import connect


def test_processor_seconds_are_those_of_children_too() -> None:
    """A run's processor time is that of this process and of all that it started, and not less than its own."""
    taken = bench.one_run(connect("miniature:refuse-all"), 1)

    assert taken.cases > 0
    assert 0 < taken.own < taken.cpu
    assert taken.cpu <= taken.wall * (os.cpu_count() or 1) * 2


def test_the_sound_testee_is_the_same_but_for_the_falls() -> None:
    """A testee in another language falls by a variable; the reference has a miniature that does."""
    assert bench.falling("reference").name == "miniature:crashes-on-a-tenth"


@pytest.mark.testees
@pytest.mark.parametrize("name", bench.COSTS)
def test_a_tenth_of_all_inputs_ends_it(name: str) -> None:
    """Each that is measured crashes on about one input in ten, and answers the others."""
    cases = bench.stored_inputs()
    counts, sound = (bench.results_of(each, cases, 2).counts() for each in (bench.falling(name), connect(name)))

    assert sum(counts.values()) == sum(sound.values())
    assert 0.05 < (counts["crash"] - sound["crash"]) / sum(counts.values()) < 0.15
