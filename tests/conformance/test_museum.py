"""The museum: the form of exhibits, the comparison of their runs, and results that are kept."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from kafka_conformance import installed_version
from kafka_conformance.museum import (
    BadExhibitsError,
    Exhibit,
    ExhibitRun,
    UnknownExhibit,
    corpus_defects,
    exhibit_document,
    exhibits,
    find_exhibit,
    parse_exhibits,
)
from kafka_conformance.museum.running import (
    FILE,
    MOST_WHY,
    RUNS,
    CaseAnswer,
    ExhibitResult,
    MuseumPlan,
    ReleaseAnswers,
    compared,
    run_exhibits,
)
from kafka_corpus.vectors import load_vectors
from kafka_records.rules import groups

ENTRY = """
product = "kafka-python"
language = "python"

[[exhibit]]
id = "compacted-tail"
title = "A compacted tail stops the consumer"
links = ["https://example.org/1"]
last_bad = "1.4.4"
fixed = "1.4.5"
symptom = "It waits for ever."
rules = ["CLN-03"]
cases = ["history.last_records_compacted_away"]

[exhibit.run]
testee = "kafka-python-client"
bad = "1.4.4"
good = "1.4.7"
outcome = ["hang"]
"""
RUN = ExhibitRun(testee="x", bad="1.0", good="2.0", outcome=["hang"], why="again")
STUCK = CaseAnswer("a.b", "hang", "it fetches offset 7 again and again")


@pytest.mark.slow
def test_every_exhibit_names_rules_and_cases_that_exist() -> None:
    """A rule or case that was renamed would leave an exhibit without what shows it."""
    cases, rules = load_vectors(), {rule.id for group in groups() for rule in group.rules}
    assert [problem for exhibit in exhibits() for problem in corpus_defects(exhibit, cases, rules)] == []
    assert len(exhibits()) >= 60
    assert sum(exhibit.run is not None for exhibit in exhibits()) >= 30


def test_defects_of_an_exhibit_in_the_corpus_are_named() -> None:
    """An unknown rule and a pattern without a case are found."""
    (exhibit,) = parse_exhibits(ENTRY.replace("CLN-03", "CLN-99"), "a.toml")
    assert list(corpus_defects(exhibit, [], {"CLN-03"})) == [
        "compacted-tail: there is no rule CLN-99",
        "compacted-tail: no case matches history.last_records_compacted_away",
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('fixed = "1.4.5"', 'fixed = "1.4.4"', "last_bad is 1.4.4, and fixed is 1.4.4"),
        ('bad = "1.4.4"\ngood', 'bad = "1.4.6"\ngood', "bad is 1.4.6, and last_bad is 1.4.4"),
        ('good = "1.4.7"', 'good = "1.4.10-rc1"', "'1.4.10-rc1' is no version"),
        ('good = "1.4.7"', "", "the run names no release without it, and it is not open"),
        ("https://example.org/1", "example.org/1", "'example.org/1' is no https address"),
        ('["https://example.org/1"]', "[]", "there is no link"),
        ('["hang"]', '["slow"]', "outcomes of a run are among"),
        ('id = "compacted-tail"', 'id = "Compacted"', "an id is kebab-case"),
        ('last_bad = "1.4.4"\nfixed = "1.4.5"\n', "", "no release and no date says when it was there"),
        ("rules =", "rule =", "unknown field `rule`"),
    ],
)
def test_bad_entries_are_refused_with_the_reason(old: str, new: str, problem: str) -> None:
    """Each rule of the form has an error that names the file and the exhibit."""
    assert old in ENTRY
    with pytest.raises(BadExhibitsError, match=r"^a\.toml: ") as refused:
        parse_exhibits(ENTRY.replace(old, new), "a.toml")
    assert problem in str(refused.value)


def test_releases_are_compared_as_numbers() -> None:
    """1.10 is newer than 1.9, in the order of releases as in the words."""
    (exhibit,) = parse_exhibits(ENTRY.replace("1.4.4", "1.9").replace("1.4.5", "1.10").replace("1.4.7", "1.11"), "a")
    assert (exhibit.affected, exhibit.state, exhibit_document(exhibit)["product"]) == (
        "up to 1.9", "fixed", "kafka-python"
    )  # fmt: skip


def test_an_unknown_id_gets_near_ones() -> None:
    """A typing error costs one more call only."""
    known = exhibits()[0].id
    assert find_exhibit(known) is exhibits()[0]
    with pytest.raises(UnknownExhibit, match=f"did you mean .*{known}"):
        find_exhibit(f"{known}s")


def release(name: str, *answers: CaseAnswer) -> ReleaseAnswers:
    return ReleaseAnswers(name, answers)


def test_red_and_green_are_of_the_same_cases() -> None:
    """The good release has to agree on each case that the bad one got wrong, and a skipped case counts for neither."""
    skipped = CaseAnswer("a.c", "skipped")
    good = release("2.0", CaseAnswer("a.b", "agree"), skipped)
    assert compared(RUN, release("1.0", STUCK, skipped), good) == ("red and green", "")
    assert compared(RUN, release("1.0", STUCK), None) == ("red", "")
    assert compared(RUN, release("1.0", STUCK), release("2.0", skipped))[0] == "not green"
    assert compared(RUN, release("1.0", STUCK), release("2.0", STUCK))[1].startswith("2.0: a.b is hang, it fetches")


@pytest.mark.parametrize(
    "answers",
    [(), (CaseAnswer("a.b", "skipped"),), (CaseAnswer("a.b", "agree"),), (CaseAnswer("a.b", "hang", "no answer"),),
     (STUCK, CaseAnswer("a.c", "crash"))],
)  # fmt: skip
def test_anything_else_is_not_red(answers: tuple[CaseAnswer, ...]) -> None:
    """Silence, agreement, and another finding than the described one do not show the defect."""
    assert compared(RUN, release("1.0", *answers), None)[0] == "not red"


def test_whole_texts_are_searched_and_short_ones_are_kept() -> None:
    """The text of an exhibit is found at the end of a long verdict, too; a result has the start, escaped."""
    long = release("1.0", CaseAnswer("a.b", "hang", "\x1b" + "x" * 500 + " again and again"))
    assert compared(RUN, long, None) == ("red", "")
    (kept,) = long.stored().answers
    assert len(kept.why) == MOST_WHY
    assert kept.why.startswith("\\x1bxxx")
    described = msgspec.structs.replace(RUN, why="never")
    assert "\x1b" not in compared(described, long, None)[1]


def exhibit_of(testee: str, version: str) -> Exhibit:
    return Exhibit(
        id="of-the-reference", title="None", links=["https://example.org"], symptom="None", rules=["CLN-03"],
        cases=["history.last_records_compacted_away"], is_open=True, seen="2026",
        run=ExhibitRun(testee=testee, bad=version, outcome=["hang"]),
    )  # fmt: skip


@pytest.mark.slow
def test_a_result_is_kept_until_the_exhibit_changes(tmp_path: Path) -> None:
    """The reference has no defect, so its run is not red; the second call takes the line that is on disk."""
    started: list[str] = []
    plan = MuseumPlan(exhibits=[exhibit_of("reference", installed_version())], cases=load_vectors(), folder=tmp_path)
    (first,) = run_exhibits(plan, lambda exhibit: started.append(exhibit.id))
    assert (first.status, first.bad and first.bad.words()) == ("not red", "1 agree")
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"exhibit":"of-the-ref')  # as a killed process leaves it
    (second,) = run_exhibits(plan, lambda exhibit: started.append(exhibit.id))
    assert second == first
    assert started == ["of-the-reference"]
    (third,) = run_exhibits(replace(plan, again=True))
    lines = (tmp_path / FILE).read_bytes().splitlines()
    assert [msgspec.json.decode(lines[at], type=ExhibitResult) for at in (0, 2)] == [first, third]


def test_a_release_that_cannot_run_is_skipped_with_the_reason(tmp_path: Path) -> None:
    """The reference has no other releases."""
    plan = MuseumPlan(exhibits=[exhibit_of("reference", "99.0")], cases=load_vectors(), folder=tmp_path)
    (result,) = run_exhibits(plan)
    assert result.status == "skipped"
    assert "has no other releases" in result.reason


@pytest.mark.slow
def test_an_exhibit_whose_files_cannot_be_written_is_skipped(tmp_path: Path) -> None:
    """An error of the system ends one exhibit, not the run."""
    one = exhibit_of("reference", installed_version())
    two = msgspec.structs.replace(one, id="another")
    (tmp_path / RUNS).mkdir()
    (tmp_path / RUNS / one.id).touch()
    first, second = run_exhibits(MuseumPlan(exhibits=[one, two], cases=load_vectors(), folder=tmp_path))
    assert (first.status, second.status) == ("skipped", "not red")
    assert "Not a directory" in first.reason
