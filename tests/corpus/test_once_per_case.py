"""Work that is done once for each case."""

import gc
from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_corpus.case import Case, once_per_case
from kafka_corpus.vectors import load_vectors


@pytest.fixture
def called() -> list[str]:
    """The ids of the cases that the work below was done for."""
    return []


@pytest.fixture
def work(called: list[str]) -> Callable[..., str]:
    """Work that notes the id of its case."""

    @once_per_case
    def named(case: Case, *, before: str = "") -> str:
        called.append(case.id)
        return before + case.id

    return named


def test_the_work_is_done_once(work: Callable[..., str], called: list[str]) -> None:
    """The value of the first call is that of the next, for each case and each further argument."""
    one, two = load_vectors()[:2]

    assert [work(one), work(two), work(one), work(one, before="a "), work(one, before="a ")] == [
        one.id,
        two.id,
        one.id,
        f"a {one.id}",
        f"a {one.id}",
    ]
    assert called == [one.id, two.id, one.id]


def test_a_value_does_not_outlive_its_case(work: Callable[..., str], called: list[str]) -> None:
    """A case that takes the place of one that is gone in memory does not get its value."""
    first = load_vectors()[0]
    names = [f"made.case[{number}]" for number in range(200)]
    given = []
    for name in names:
        given.append(work(replace(first, id=name)))
        gc.collect(0)

    assert given == names
    assert called == names


def test_an_error_is_raised_each_time() -> None:
    """Work that fails is done again."""
    tries = []

    @once_per_case
    def fails(case: Case) -> str:
        tries.append(case.id)
        raise ValueError(case.id)

    case = load_vectors()[0]
    for _ in range(2):
        with pytest.raises(ValueError, match=case.id.partition("[")[0]):
            fails(case)

    assert tries == [case.id] * 2
