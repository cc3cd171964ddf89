"""Reviewed causes: the form of their files, and the findings that fit them."""

import pytest

from kafka_conformance.causes import (
    BadCausesError,
    CauseKey,
    FindingMatch,
    cause_key,
    causes_of,
    parse_causes,
    reviewed_cause,
    reviewed_causes,
)
from kafka_conformance.runner.results import ResultLine
from kafka_corpus.vectors import load_vectors

ENTRY = """
[[cause]]
id = "append-time-ignored"
title = "LogAppendTime is ignored in v2 batches"
grade = "FAIL"
effect = "wrong_data"
reach = "broker_itself"
profiles = ["consumer"]
testees = ["kafka-go"]
rules = ["TIM-02"]
version = "0.4.51"
source = "protocol/record_v2.go:60 readFromVersion2"
explanation = "The batch's own time is not used."
smallest = "timestamp.append_time_overrides[none-0]"
[[cause.match]]
cases = ["timestamp.*"]
field = "timestamp$"
[[cause.match]]
outcome = ["crash"]
why = "panic: .*time"
observation = '"exit_code": 2'
"""


def finding(outcome: str, field: str = "", why: str = "", observation: dict[str, object] | None = None) -> ResultLine:
    return ResultLine(
        case="timestamp.a", outcome=outcome, area="timestamp", op="decode", expected="valid",  # type: ignore[arg-type]
        rules=("TIM-02",), field=field, why=why, observation=observation or {},
    )  # fmt: skip


def test_all_conditions_of_a_match_have_to_hold() -> None:
    """One condition that does not hold is enough to miss."""
    causes = parse_causes(ENTRY, "kafka-go.toml")
    wrong = finding("wrong_data", "batches[0].records[0].timestamp")
    assert reviewed_cause(causes, "kafka-go", "timestamp.a", wrong) == causes[0]
    assert reviewed_cause(causes, "kafka-go", "varint.a", wrong) is None
    assert reviewed_cause(causes, "kio", "timestamp.a", wrong) is None
    assert reviewed_cause(causes, "kafka-go", "timestamp.a", finding("wrong_data", "timestamp.x")) is None


def test_any_match_of_a_cause_is_enough() -> None:
    """A cause fits if one of its matches does."""
    causes = parse_causes(ENTRY, "kafka-go.toml")
    crash = finding("crash", why="panic: bad time", observation={"exit_code": 2})
    assert reviewed_cause(causes, "kafka-go", "varint.a", crash) == causes[0]
    assert reviewed_cause(causes, "kafka-go", "varint.a", finding("crash", why="panic: bad time")) is None


def test_a_finding_without_an_entry_is_named_by_rule_and_effect() -> None:
    """Unreviewed findings are grouped by rule and effect."""
    causes = parse_causes(ENTRY, "kafka-go.toml")
    key = cause_key(causes, "kafka-go", "a.b", finding("rejects_valid"), ("REC-21",), "rejects_valid")
    assert (key.id, key.title, key.reviewed) == (
        "unreviewed-rejects-valid-rec-21", "Valid bytes are refused (REC-21)", None,
    )  # fmt: skip
    same = cause_key(causes, "kafka-go", "timestamp.a", finding("wrong_data", "timestamp"), ("TIM-02",), "wrong_data")
    assert (same.id, same.reviewed) == ("append-time-ignored", causes[0])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('grade = "FAIL"', 'grade = "GRAVE"', "is no grade of a cause"),
        ('effect = "wrong_data"', 'effect = "bad"', "bad"),
        ('id = "append-time-ignored"', 'id = "Append_Time"', "kebab-case"),
        ("LogAppendTime is ignored", "LogAppendTime is ignored " + "and " * 12, "at most 72"),
        ('version = "0.4.51"', 'verzion = "0.4.51"', "verzion"),
        ("own time is not used.", "own time is not used. " + "Again. " * 90, "more than 90 words"),
        ('[[cause]]\nid = "append', '[[cause]\nid = "append', "kafka-go.toml"),
    ],
)
def test_broken_entries(old: str, new: str, reason: str) -> None:
    """A broken entry is one error that names the file."""
    assert old in ENTRY
    with pytest.raises(BadCausesError, match=reason):
        parse_causes(ENTRY.replace(old, new), "kafka-go.toml")


@pytest.mark.parametrize(("grade", "effect"), [("FAIL", "wrong_data"), ("NON_STRICT", "crash")])
def test_what_cannot_be_lowered(grade: str, effect: str) -> None:
    """A reviewer lowers no grade to FAIL, and none of what stops a process."""
    entry = ENTRY.replace('grade = "FAIL"', f'grade = "{grade}"\nlowered = "No user meets it."')
    with pytest.raises(BadCausesError, match="is not lowered"):
        parse_causes(entry.replace('effect = "wrong_data"', f'effect = "{effect}"'), "kafka-go.toml")


def test_ids_are_unique() -> None:
    """An id that is there twice is an error."""
    with pytest.raises(BadCausesError, match="there twice"):
        parse_causes(ENTRY + ENTRY, "kafka-go.toml")


def test_earlier_ids_are_not_used_again() -> None:
    """An id that stands for another entry now is no id of a new one."""
    earlier = ENTRY.replace('effect = "wrong_data"', 'effect = "wrong_data"\nformerly = ["wrong-time"]')
    (cause,) = parse_causes(earlier, "kafka-go.toml")
    assert CauseKey(cause.id, cause.title, cause).ids == ("append-time-ignored", "wrong-time")
    with pytest.raises(BadCausesError, match="wrong-time is there twice"):
        parse_causes(earlier + ENTRY.replace("append-time-ignored", "wrong-time"), "kafka-go.toml")


def test_an_empty_match_fits_everything() -> None:
    """A match without conditions fits any finding."""
    assert FindingMatch().fits("a.b", finding("crash"))


def test_every_published_entry_names_a_case_of_the_corpus() -> None:
    """The smallest case of each entry exists."""
    ids = {case.id for case in load_vectors()}
    published = [(library, cause) for library, causes in reviewed_causes().items() for cause in causes]
    assert [(library, cause.id) for library, cause in published if cause.smallest not in ids] == []
    assert all(cause in causes_of(testee) for _, cause in published for testee in cause.testees)
