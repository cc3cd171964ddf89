"""The page of a campaign in a real browser: it opens, findings unfold, it fits a phone, and it can be read.

Needs Chromium on the path and playwright, which drives it; skipped where one is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.shrink import TARGET, benchmark_inputs
from tests.browsing import Size, check_scrolling, check_view, every_scheme, every_size, unfold, visited

from kafka_conformance.judge.reach import ReachResult
from kafka_fuzz.campaign.plan import RoundReport
from kafka_fuzz.findings import FindingStore
from kafka_fuzz.shrink import Budget
from kafka_fuzz.shrink.search import as_mutant
from kafka_fuzz.targets import TARGETS
from kafka_fuzz.targets.outcome import Outcome
from kafka_fuzz.triage.night import Night
from kafka_fuzz.triage.reach import FindingReach, Tried
from kafka_fuzz.triage.report import campaign_page
from kafka_fuzz.triage.run import triaged

pytestmark = pytest.mark.slow

LONG = "a very long message without an end " * 12 + "x" * 300


def night_in(root: Path) -> Night:
    """Two findings of one cause, two of others, one with a long name, one with its reach; three rounds."""
    store = FindingStore(root)
    for data in benchmark_inputs().values():
        store.add(TARGETS[TARGET]().run(as_mutant(data)), as_mutant(data), version="1")
    for rule, data in (("REC-14", b"one"), ("REC-03", b"other")):
        outcome = Outcome("sarama", "accepts_invalid", "error", rule, why="expected malformed, got 1 batch")
        store.add(outcome, as_mutant(data), version="2")
    store.add(Outcome("sarama", "crash", LONG, LONG), as_mutant(b"crash"))
    found = triaged([root], None, budget=Budget(5000, 10.0))
    rounds = [RoundReport(TARGET, at, 1, executions=9, cpu_seconds=2.0, buckets=at * 7, cells=at) for at in range(1, 4)]
    reach = {found[0].key: FindingReach("", {"4.4.0": Tried(ReachResult(kept="as it is"), shows=True)})}
    return Night(tuple(rounds), frozenset(), tuple(found), reach)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page as a file."""
    path: Path = tmp_path_factory.mktemp("page") / "index.html"
    night = night_in(tmp_path_factory.mktemp("campaign"))
    path.write_text(campaign_page(night), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def opened(chromium: Any, address: str) -> Iterator[Any]:
    """The page."""
    with visited(chromium, address) as shown:
        yield shown


def test_a_cause_unfolds(opened: Any) -> None:
    """Finds of one cause stand under it, and are seen when it is opened; each opens with its bytes and its reach."""
    (cause,) = opened.locator("details.cause").all()
    inner = cause.locator("details.find")
    assert inner.count() == 2
    assert not inner.first.is_visible()
    cause.locator("summary").first.press("Enter")
    assert inner.first.is_visible()
    inner.first.locator("summary").click()
    assert inner.first.locator("pre").is_visible()
    assert "reach" in inner.first.locator("dl").inner_text()


def test_what_any_producer_can_store_is_said(opened: Any) -> None:
    """A finding with a measured reach shows it in its line, and by release when it is opened; the top counts it."""
    (reach,) = opened.locator("summary .reach").all()
    assert reach.inner_text() == "any producer can store it"
    assert "1 that any producer can store" in opened.locator(".tally").inner_text()


def test_curves_are_drawn(opened: Any) -> None:
    """A growing count has a line from the left edge to the right, higher at its end."""
    points = opened.locator("svg polyline").first.get_attribute("points").split()
    places = [tuple(map(float, point.split(","))) for point in points]
    assert len(places) == 4
    assert places == sorted(places)
    assert places[-1][1] < places[0][1]


def test_everything_that_scrolls_can_be_reached(opened: Any) -> None:
    """By keys, and it has a name."""
    check_scrolling(opened)


@every_scheme
@every_size
def test_it_fits(size: Size, scheme: str, chromium: Any, address: str) -> None:
    """Nothing is wider than the window with every find open, dark is dark, and all text can be read."""
    with visited(chromium, address, size=size, scheme=scheme) as shown:
        unfold(shown)
        check_view(shown, size, scheme)
