"""Deliberately wrong testees are caught, each as what it is."""

from pathlib import Path

import pytest

from kafka_conformance.reports import summary
from kafka_conformance.runner.run import RunPlan, run
from kafka_conformance.testees.connect import connect
from kafka_conformance.testees.interface import load_testee
from kafka_corpus.case import Case
from kafka_fuzz.planted_bugs.testees import NULL_TESTEES, TESTEE_BUGS

NULLS = NULL_TESTEES


def certified(name: str, cases: list[Case], folder: Path) -> summary.Report:
    """The report on a miniature."""
    path = folder / "result.ndjson"
    return summary.make(run(RunPlan(connection=connect(name), cases=cases, corpus="small", path=path)), cases, (), path)


def test_there_are_enough() -> None:
    """There are the four null ones and at least ten wrong codecs."""
    assert {"mute", "accept_all", "refuse_all", "skip_all"} == NULLS
    assert len(TESTEE_BUGS) - len(NULLS) >= 10


SLOW = {"mute", "hangs_on_lz4"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in TESTEE_BUGS]
)
def test_caught(name: str, corpus: list[Case], tmp_path: Path) -> None:
    """It is caught as what it says it is; the null ones score nothing and are not certified."""
    made = certified(f"miniature:{name}", corpus, tmp_path)
    caught_as = TESTEE_BUGS[name].caught_as

    if caught_as is not None:
        assert made.results.counts()[caught_as] > 0
        assert not made.agrees
    if name in NULLS:
        assert made.certificate.score == 0.0
        assert not made.certificate.certified
        assert not made.agrees
    assert made.results.complete


def test_the_reference_is_not_caught(corpus: list[Case], tmp_path: Path) -> None:
    """What all of them are made from agrees with everything."""
    made = certified("reference", corpus, tmp_path)

    assert made.results.counts()["agree"] == len(corpus)
    assert made.certificate.certified
    assert made.agrees


def test_stray_lines_are_counted(corpus: list[Case], tmp_path: Path) -> None:
    """A testee that only prints too much is certified, and its lines are counted."""
    made = certified("miniature:prints-stray-lines", corpus, tmp_path)

    assert made.certificate.certified
    assert made.results.footer is not None
    assert made.results.footer.strays >= sum(case.op == "decode" for case in corpus)
    assert "DEBUG" in made.results.footer.first_stray


def test_reached_as_direct_too() -> None:
    """A miniature can be named by its place, like any Python testee."""
    assert load_testee("kafka_fuzz.planted_bugs.testees.swaps_key_and_value") is TESTEE_BUGS["swaps_key_and_value"]


def test_an_unknown_one_is_an_error() -> None:
    """A name that is no miniature says which there are."""
    with pytest.raises(AttributeError, match="swaps_key_and_value"):
        load_testee("kafka_fuzz.planted_bugs.testees.swaps_everything")


@pytest.mark.parametrize("name", ["kafka_conformance.sanitize", "json"])
def test_a_module_that_is_no_testee_is_an_error(name: str) -> None:
    """A module without the six names cannot be served."""
    with pytest.raises(AttributeError, match="no testee"):
        load_testee(name)


def test_what_an_adapter_misses_is_not_hidden() -> None:
    """An import that fails is not taken for a missing attribute."""
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        load_testee("no_such_package.testee")
