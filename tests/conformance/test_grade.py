"""The table of grades: every input, and each sentence that the grades promise."""

from itertools import product

import pytest

from kafka_conformance.judge.grade import (
    EFFECTS,
    EXPECTATIONS,
    FROM_PEERS,
    GRADES,
    REACHES,
    ROWS,
    STRENGTHS,
    UNSAFE,
    Effect,
    Reach,
    all_inputs,
    grade_of,
    grade_rank,
    grade_row,
    grade_table,
)

REACHES_USERS: tuple[Reach, ...] = ("any_producer", "broker_itself", "old_logs", "rot", "as_writer")
# Effects on data, position, progress, or detection of damage.
HARMFUL: tuple[Effect, ...] = (
    "wrong_data", "lost_data", "stuck", "crash", "memory", "accepts_invalid", "rejects_valid",
)  # fmt: skip
ALL = list(all_inputs())


def test_every_input_has_a_grade() -> None:
    """The table has a row for every input."""
    assert len(ALL) == len(STRENGTHS) * len(EXPECTATIONS) * len(REACHES) * len(EFFECTS) == 3 * 3 * 7 * 9
    assert {grade_of(*given) for given in ALL} == set(GRADES)


def test_every_row_decides_some_input() -> None:
    """No row of the table is hidden by those above it."""
    deciding = {grade_row(*given) for given in ALL}
    assert [row for row in ROWS if row not in deciding] == []


def test_fail_needs_all_four() -> None:
    """FAIL: a must rule, valid or invalid, one of five reaches, and an effect on data, progress or detection."""
    for strength, expectation, reach, effect in ALL:
        if grade_of(strength, expectation, reach, effect) == "FAIL":
            assert strength == "must"
            assert expectation in ("valid", "invalid")
            assert reach in REACHES_USERS
            assert effect in HARMFUL


def test_all_four_give_fail() -> None:
    """One exception: a writer that accepts a request which Kafka's refuses is only more lenient."""
    for expectation, reach, effect in product(("valid", "invalid"), REACHES_USERS, HARMFUL):
        lenient_writer = reach == "as_writer" and effect == "accepts_invalid"
        expected = "NON_STRICT" if lenient_writer else "FAIL"
        assert grade_of("must", expectation, reach, effect) == expected, (expectation, reach, effect)  # type: ignore[arg-type]


def test_acceptable_cases_never_fail() -> None:
    """A case that may be refused or read is never FAIL."""
    assert all(grade_of(*given) != "FAIL" for given in ALL if given[1] == "acceptable")


@pytest.mark.parametrize("effect", ["crash", "stuck"])
@pytest.mark.parametrize("reach", ["hostile", "retired"])
def test_hostile_input_that_stops_the_process(effect: Effect, reach: Reach) -> None:
    """A crash, hang or exhausted memory by a hostile peer is HOSTILE."""
    for strength, expectation in product(STRENGTHS, EXPECTATIONS):
        assert grade_of(strength, expectation, reach, effect) == "HOSTILE"


def test_memory_counts_unless_nothing_limits_it() -> None:
    """Memory is INFO only where no rule limits it."""
    for expectation in EXPECTATIONS:
        assert grade_of("must", expectation, "hostile", "memory") == "HOSTILE"
        assert all(grade_of("may", expectation, reach, "memory") == "INFO" for reach in REACHES)


def test_forged_input_that_is_accepted() -> None:
    """Forged input that is accepted as other data is HOSTILE."""
    assert grade_of("must", "invalid", "hostile", "accepts_invalid") == "HOSTILE"
    assert grade_of("should", "invalid", "hostile", "accepts_invalid") == "NON_STRICT"


def test_hostile_is_only_for_what_a_peer_sends() -> None:
    """Besides forged input, only what stops the process is HOSTILE."""
    for strength, expectation, reach, effect in ALL:
        if grade_of(strength, expectation, reach, effect) == "HOSTILE":
            assert reach in FROM_PEERS
            assert effect in UNSAFE or (reach, expectation) == ("hostile", "invalid")


def test_recommendations_and_acceptable_cases_are_not_strict() -> None:
    """Recommendations and acceptable cases are NON_STRICT."""
    for reach in REACHES_USERS:
        assert grade_of("should", "valid", reach, "wrong_data") == "NON_STRICT"
        assert grade_of("must", "acceptable", reach, "wrong_data") == "NON_STRICT"


@pytest.mark.parametrize("effect", ["equivalent", "wrong_error"])
def test_equivalences_and_kinds_of_errors_are_info(effect: Effect) -> None:
    """Equivalent forms and other kinds of error are INFO."""
    assert all(grade_of(*given) == "INFO" for given in ALL if given[3] == effect)


def test_retired_formats_are_info() -> None:
    """Bytes that no supported release serves are INFO."""
    assert all(grade_of(*given) == "INFO" for given in ALL if given[2] == "retired" and given[3] not in UNSAFE)


def test_rules_that_tolerate_are_info() -> None:
    """A rule of strength `may` gives INFO."""
    assert all(grade_of(*given) == "INFO" for given in ALL if given[0] == "may" and given[3] not in UNSAFE)


def test_a_stronger_rule_never_gives_a_milder_grade() -> None:
    """With all else equal, a stronger rule gives the same or a graver grade."""
    for expectation, reach, effect in product(EXPECTATIONS, REACHES, EFFECTS):
        ranks = [_severity(strength, expectation, reach, effect) for strength in ("may", "should", "must")]
        assert ranks == sorted(ranks), (expectation, reach, effect)


def _severity(strength: object, expectation: object, reach: object, effect: object) -> int:
    """Higher is worse; FAIL and HOSTILE are equally grave."""
    grade = grade_of(strength, expectation, reach, effect)  # type: ignore[arg-type]
    return -max(grade_rank(grade), 1)


def test_the_printed_table_has_every_row() -> None:
    """The printed table has a line for each row, in order."""
    table = grade_table()
    assert [number for number, *_ in table] == list(range(1, len(ROWS) + 1))
    assert table[0][1:3] == ("INFO", "effect equivalent")
    assert table[-1][1:3] == ("FAIL", "anything else")
    assert any(conditions.endswith("reach any but as_writer") for _, _, conditions, _ in table)
