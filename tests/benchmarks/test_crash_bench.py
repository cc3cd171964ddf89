"""The crash benchmark: runs in which one request in ten ends the testee."""

import os

import pytest
from benchmarks import promises

from kafka_conformance.runner.requests import is_heavy
from kafka_conformance.testees.known import connect
from kafka_corpus.vectors import load_vectors

# One case in so many is run: hundreds remain of each operation.
SHARE = {"decode": 8, "encode": 2}


@pytest.mark.slow
def test_processor_seconds_are_those_of_children_too() -> None:
    """A run's processor time is that of this process and of all that it started, and not less than its own."""
    taken = promises.one_run(connect("planted:refuse-all"), 1)

    assert taken.cases > 0
    assert 0 < taken.own < taken.cpu
    assert taken.cpu <= taken.wall * (os.cpu_count() or 1) * 2


def test_the_cost_of_crashes_is_printed_with_the_machine() -> None:
    """Ratios are medians of pairs; beside them stand the cases, the crashes of its own, and what one costs."""
    pairs = [
        (
            promises.RunCost(wall=wall, cpu=3.0, own=1.0, cases=100, crashes=12),
            promises.RunCost(2.0, 2.0, 1.0, 100, crashes=2),
        )
        for wall in (3.0, 4.0, 9.0)
    ]

    assert promises.crash_figures(pairs) == {
        "ratio": 2.0,
        "processor_ratio": 1.5,
        "seconds": 4.0,
        "seconds_without": 2.0,
        "cases": 100,
        "crashes": 10,
        "processor_milliseconds_a_crash": 100.0,
    }


def test_the_sound_testee_is_the_same_but_for_the_falls() -> None:
    """A testee in another language crashes by a variable; for the reference, a planted bug does."""
    assert promises.falling("reference").name == "planted:crashes-on-a-tenth"
    for one, other in ((promises.falling, promises.standing), (promises.standing, promises.falling)):
        assert (one("reference").preloads, other(promises.PROGRAM).preloads) == (True, False)
    assert promises.falling(promises.PROGRAM).argv == promises.falling("reference").argv


@pytest.mark.testees
@pytest.mark.parametrize("name", [promises.PROGRAM, *promises.COSTS, promises.VIRTUAL_MACHINE])
@pytest.mark.parametrize("op", ["decode", "encode"])
def test_a_tenth_of_all_questions_ends_it(name: str, op: str) -> None:
    """Each that is measured crashes on about one question in ten, of either kind, and answers the others."""
    cases = [case for case in load_vectors() if case.op == op and not is_heavy(case)][:: SHARE[op]]
    counts, sound = (
        promises.results_of(each, cases, 2).counts() for each in (promises.falling(name), promises.standing(name))
    )

    assert sum(counts.values()) == sum(sound.values())
    requested = sum(sound.values()) - sound["skipped"]
    assert requested > 100
    assert 0.06 < (counts["crash"] - sound["crash"]) / requested < 0.14
