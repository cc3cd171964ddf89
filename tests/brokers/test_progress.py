"""Progress in cases, with a rate and the time that is left."""

import time

import pytest

from kafka_brokers import progress
from kafka_brokers.progress import RATE_SECONDS, Pace


def test_the_rate_is_that_of_the_last_seconds() -> None:
    """Rate and time left follow from the last seconds, not from the beginning."""
    pace = Pace(0.0)
    assert pace.text(1000, "cases") == ""
    pace.update(10.0, 500)
    assert pace.text(1000, "cases") == "50 cases/s, 10 s left"
    pace.update(10.0 + RATE_SECONDS, 600)
    pace.update(10.0 + 2 * RATE_SECONDS, 620)

    assert pace.rate() == 1.0
    assert pace.text(1000, "cases") == "1.0 cases/s, 6 min 20 s left"


def test_no_time_left_is_guessed_from_the_first_cases() -> None:
    """The first cases are the expensive ones, so they say nothing of the rest."""
    pace = Pace(0.0)
    pace.update(10.0, 10)

    assert pace.text(1000, "cases") == "1.0 cases/s"


def test_lines_have_cases_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is no terminal, a line now and then sums up all testees."""
    now = iter([0.0, 4.0, 8.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    with progress.progress_of(["one", "two"]) as progress_for:
        progress_for("one")(200, 1000, 1)
        progress_for("two")(200, 1000, 2)

    assert capsys.readouterr().err == "2 testees: 400 of 2,000 cases, 3 findings; 50 cases/s, 32 s left\n"
