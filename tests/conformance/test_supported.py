"""The dated table of supported releases, and ranges that replace it."""

from datetime import date

import pytest

from kafka_brokers.releases import (
    NEWEST,
    RELEASES,
    SUPPORTED,
    SUPPORTED_AS_OF,
    BadRangeError,
    SupportedReleases,
    parse_supported,
)


def test_the_table_has_a_date() -> None:
    """The table of supported releases says when it was checked."""
    assert date.fromisoformat(SUPPORTED_AS_OF) >= date(2026, 11, 1)


def test_supported_are_the_last_of_3_and_all_of_4() -> None:
    """3.9 and every 4.x are supported."""
    covered = [release.name for release in RELEASES if SUPPORTED.covers(release.name)]
    assert covered == ["3.9.2", "4.0.2", "4.1.2", "4.3.1", "4.4.0"]
    assert NEWEST in covered


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.8..4.4", SupportedReleases("2.8", "4.4")),
        ("3.9..", SupportedReleases("3.9", "4.4")),
        ("4.1", SupportedReleases("4.1", "4.1")),
        (" 0.11.0..2.8.2 ", SupportedReleases("0.11.0", "2.8.2")),
    ],
)
def test_ranges(text: str, expected: SupportedReleases) -> None:
    """Ranges of releases are read and printed."""
    assert parse_supported(text) == expected


@pytest.mark.parametrize("text", ["", "4", "..4.4", "four", "4.4..3.9", "3.9...4.4", "3.9-4.4"])
def test_texts_that_are_no_range(text: str) -> None:
    """Any other text is one error."""
    with pytest.raises(BadRangeError, match=r"range|newer"):
        parse_supported(text)


def test_bounds_compare_as_many_numbers_as_they_have() -> None:
    """A bound of two numbers covers all patch releases."""
    supported = SupportedReleases("2.8", "4.0")
    assert supported.covers("2.8.0")
    assert supported.covers("4.0.99")
    assert not supported.covers("4.1.0")
