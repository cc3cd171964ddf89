"""Releases of one codec beside each other: when a finding came, and when it went."""

import re
from pathlib import Path

import pytest

from kafka_conformance.judge.verdict import Outcome
from kafka_conformance.reports.html import history_page
from kafka_conformance.runner.history import history, history_document, history_lines
from kafka_conformance.runner.results import ResultHeader, ResultLine, Results
from kafka_conformance.testees import published
from kafka_conformance.testees.connection import CannotRun
from kafka_conformance.testees.known import find_testee


def results(**outcomes: Outcome) -> Results:
    """A run of so many cases."""
    lines = tuple(
        ResultLine(case=f"a.{name}", outcome=outcome, area="a", op="decode", expected="valid", rules=("X",))
        for name, outcome in outcomes.items()
    )
    header = ResultHeader(testee={"name": "t"}, corpus="c", cases=len(lines), only=[], settings={})
    return Results(header, lines, None)


RUNS = [
    ("1.0", results(always="crash", came="agree", went="hang", fine="agree", skipped_before="skipped")),
    ("1.1", results(always="wrong_data", came="agree", went="hang", fine="agree", skipped_before="skipped")),
    ("2.0", results(always="crash", came="lossy", went="agree", fine="agree", skipped_before="rejects_valid")),
]


def test_when_findings_come_and_go() -> None:
    """A finding has a first release, and one from which on it is gone; what everybody gets right is none."""
    made = history("t", RUNS, {})

    assert {finding.case: made.span(finding) for finding in made.findings} == {
        "a.always": "in all 3",
        "a.went": "in 1.0 or before, gone in 2.0",
        "a.skipped_before": "since 2.0",
        "a.came": "since 2.0",
    }
    assert made.findings[0].severity == "wrong_data"
    assert history_document(made)["findings"][1] == {
        "case": "a.went", "severity": "hang", "since": "1.0", "gone": "2.0",
        "releases": {"1.0": "hang", "1.1": "hang", "2.0": "agree"},
    }  # fmt: skip


def test_a_finding_that_changes() -> None:
    """A crash that became milder, or a milder finding that became a crash, is not reported as an old finding."""
    runs = [
        ("1.0", results(eased="crash", worse="lossy", limit="hang")),
        ("1.1", results(eased="accepts_invalid", worse="lossy", limit="memory")),
        ("2.0", results(eased="accepts_invalid", worse="crash", limit="memory")),
    ]
    made = history("t", runs, {})

    assert {finding.case: made.span(finding) for finding in made.findings} == {
        "a.eased": "in all 3, crash before 1.1, now accepts_invalid",
        "a.worse": "in all 3, lossy before 2.0, now crash",
        "a.limit": "in all 3",
    }
    assert "    crash  a.eased" in history_lines(made)
    assert "    hang  a.limit" not in history_lines(made)


def test_a_release_that_was_not_run_is_named() -> None:
    """The reason is on the console and, escaped, on the page."""
    made = history("t", RUNS[:1], {"0.9": "<b>does not build</b>"})

    assert list(history_lines(made))[-1] == "  not run: 0.9: <b>does not build</b>"
    assert "&lt;b&gt;does not build" in history_page(made)
    assert "<b>does not build" not in history_page(made)


def test_where_releases_are_published() -> None:
    """A recipe's commands for another version say which tool fetches it, and under what name."""
    known = {name: find_testee(name) for name in ("franz-go", "kafkajs", "rskafka") if _is_known(name)}

    for name, source in {"franz-go": ("go", "github.com/twmb/franz-go"), "kafkajs": ("npm", "kafkajs")}.items():
        if (found := known.get(name)) and found.recipe:
            assert published._source(found.recipe.versioned) == source
    java = [published._plain(text) for text in ("v1.2.3", "1.2.3", "2.0.0-beta.1", "3.0rc1")]
    assert java == ["1.2.3", "1.2.3", "", ""]


CARGO = """#!/bin/sh
for last; do :; done
if grep -q '"<2.0.0"' "$last"; then
    {first}
fi
if grep -q '"<' "$last"; then
    echo 'error: failed to select a version for the requirement `{missing} = "<1.0.0"`' >&2
    echo 'required by package `releases v0.0.0`' >&2
    exit 101
fi
printf '[[package]]\nname = "codec"\nversion = "2.0.0"\n' > "$(dirname "$last")/Cargo.lock"
"""


@pytest.mark.parametrize(
    ("first", "missing", "why"),
    [
        (":", "codec", ""),
        (":", "a-dependency", "for the requirement `a-dependency"),
        ("echo 'error: failed to get it' >&2; echo '  [6] no host' >&2; exit 101", "codec", "failed to get it; [6] no"),
    ],
)
def test_an_error_of_cargo_does_not_end_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, missing: str, why: str
) -> None:
    """A registry that does not answer is an error after the first release, too, not the oldest release."""
    (tmp_path / "cargo").write_text(CARGO.format(first=first, missing=missing))
    (tmp_path / "cargo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if not why:
        assert published._of_cargo("codec", 9) == ["2.0.0"]
        return
    with pytest.raises(CannotRun, match=re.escape(why)):
        published._of_cargo("codec", 9)


def _is_known(name: str) -> bool:
    from kafka_conformance.testees.known import known_testees

    return name in {known.name for known in known_testees()}
