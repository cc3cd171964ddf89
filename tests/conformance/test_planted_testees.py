"""The judge reports each planted bug with the severity that the bug states."""

from functools import cache
from pathlib import Path

import pytest

from kafka_conformance.in_process import CodecFunctions, judge_case, select_cases
from kafka_conformance.reports import summary
from kafka_conformance.runner.run import RunPlan, run
from kafka_conformance.testees.interface import load_testee
from kafka_conformance.testees.known import OLD_PLANTED, connect
from kafka_corpus.case import Case
from kafka_fuzz.planted_bugs import NULL_TESTEES, PLANTED_BUGS

NULLS = NULL_TESTEES
PATCHED = [name for name, bug in PLANTED_BUGS.items() if bug.patch]
# Run as processes: the bugs that are functions of their own, and one patch of the reference.
JUDGED = [name for name in PLANTED_BUGS if name not in PATCHED] + PATCHED[:1]
# Three change what Kafka's specification leaves open.  The fourth needs a v0 wrapper whose offset is not that of its
# last message, and the corpus has none.
NOT_SHOWN = {"slack_refused", "inner_tail_refused", "gzip_garbage_refused", "inner_offsets_of_v0_relative"}


def certified(name: str, cases: list[Case], folder: Path) -> summary.Report:
    """The report on a testee."""
    path = folder / "result.ndjson"
    return summary.make(run(RunPlan(connection=connect(name), cases=cases, corpus="small", path=path)), cases, (), path)


def test_there_are_enough_bugs() -> None:
    """There are the four testees that ignore their input, at least ten wrong codecs, and a patched one."""
    assert {"mute", "accept_all", "refuse_all", "skip_all"} == NULLS
    assert len(JUDGED) - len(NULLS) >= 10
    assert PATCHED


@cache
def decode_cases() -> list[Case]:
    """The decode cases of the corpus that need no limits."""
    return select_cases((), ops=("decode",))


@pytest.mark.parametrize("name", PATCHED)
def test_corpus_shows_each_patch(name: str) -> None:
    """A case of the corpus gets the severity that a patch of the reference states; without one, every case agrees."""
    caught_as = PLANTED_BUGS[name].caught_as
    codec = CodecFunctions(decode=PLANTED_BUGS[name].decode)
    outcomes = (judge_case(codec, case)[1].outcome for case in decode_cases())

    if caught_as is not None:
        assert caught_as in outcomes
    else:
        assert set(outcomes) == {"agree"}
        assert name in NOT_SHOWN


@pytest.mark.slow
@pytest.mark.parametrize("name", JUDGED)
def test_severity_is_reported(name: str, corpus: list[Case], tmp_path: Path) -> None:
    """The report has the severity that the bug states; testees that ignore their input score 0."""
    made = certified(f"planted:{name}", corpus, tmp_path)
    caught_as = PLANTED_BUGS[name].caught_as

    if caught_as is not None:
        assert made.results.counts()[caught_as] > 0
        assert not made.agrees
    if name in NULLS:
        assert made.certificate.score == 0.0
        assert not made.certificate.certified
        assert not made.agrees
        assert made.certificate.certified_for == ()
    assert made.results.complete


def test_the_reference_agrees(corpus: list[Case], tmp_path: Path) -> None:
    """The reference, from which all bugs are made, agrees with every case."""
    made = certified("reference", corpus, tmp_path)

    assert made.results.counts()["agree"] == len(corpus)
    assert made.findings == ()
    assert made.passes


def test_stray_lines_are_counted(corpus: list[Case], tmp_path: Path) -> None:
    """A testee that only prints stray lines passes, and the lines are counted."""
    made = certified("planted:prints-stray-lines", corpus, tmp_path)

    assert made.passes
    assert made.results.footer is not None
    assert made.results.footer.strays >= sum(case.op == "decode" for case in corpus)
    assert "DEBUG" in made.results.footer.first_stray


def test_bug_is_a_direct_testee_too() -> None:
    """A planted bug can be named by its module path, like any Python testee; a patched one, too."""
    assert load_testee("kafka_fuzz.planted_bugs.testees.swaps_key_and_value") is PLANTED_BUGS["swaps_key_and_value"]
    assert load_testee("kafka_fuzz.planted_bugs.testees.batch_crc_skipped") is PLANTED_BUGS["batch_crc_skipped"]


def test_unknown_bug_is_an_error() -> None:
    """The error for an unknown name suggests a near one."""
    with pytest.raises(AttributeError, match="swaps_key_and_value"):
        load_testee("kafka_fuzz.planted_bugs.testees.swaps_everything")


@pytest.mark.parametrize("name", ["kafka_conformance.sanitize", "json"])
def test_module_without_the_names_is_an_error(name: str) -> None:
    """A module without the six names cannot be served."""
    with pytest.raises(AttributeError, match="no testee"):
        load_testee(name)


def test_missing_import_of_an_adapter_is_reported() -> None:
    """A failed import inside an adapter is not reported as a missing attribute."""
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        load_testee("no_such_package.testee")


def test_old_prefix_works_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """The old prefix means `planted:`, and a line on standard error says so."""
    assert connect(f"{OLD_PLANTED}swaps-key-and-value") == connect("planted:swaps-key-and-value")
    assert f"{OLD_PLANTED}swaps-key-and-value is now planted:swaps-key-and-value" in capsys.readouterr().err
