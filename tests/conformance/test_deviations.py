"""Known deviations are strict."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from kafka_conformance.judge.verdict import Outcome
from kafka_conformance.runner.deviations import (
    Deviation,
    FindingCauses,
    apply_deviations,
    draft_deviations,
    load_deviations,
)
from kafka_conformance.runner.results import ResultLine
from kafka_corpus.known_issues import BadIssueList


def line(case: str, outcome: Outcome) -> ResultLine:
    """A line of this case with this outcome."""
    return ResultLine(case=case, outcome=outcome, area="a", op="decode", expected="valid", rules=())


LINES = (
    line("a.one[lz4]", "wrong_data"),
    line("a.one[gzip]", "wrong_data"),
    line("a.two", "agree"),
    line("a.four", "flaky"),
)


def declared(case: str, severity: str = "wrong_data") -> Deviation:
    """A declaration."""
    return Deviation(case=case, severity=severity, reason="seen")  # type: ignore[arg-type]  # any severity


@pytest.mark.parametrize(
    ("entry", "known", "stale"),
    [
        (declared("a.one[lz4]"), ("a.one[lz4]",), False),
        (declared("a.one[*]"), ("a.one[lz4]", "a.one[gzip]"), False),
        (declared("a.one"), ("a.one[lz4]", "a.one[gzip]"), False),
        (declared("a.*"), ("a.one[lz4]", "a.one[gzip]"), False),
        (declared("a.one[lz4]", "crash"), (), True),
        (declared("a.two"), (), True),
        (declared("a.three"), (), False),
        # It comes and goes.
        (declared("a.four"), (), False),
    ],
    ids=str,
)
def test_what_an_entry_covers(entry: Deviation, known: tuple[str, ...], stale: bool) -> None:
    """An entry covers findings of its severity; it is stale if none of its cases that ran shows it."""
    applied = apply_deviations([entry], LINES)

    assert applied.known == set(known)
    assert applied.stale == ((entry,) if stale else ())


@pytest.mark.parametrize(
    "text",
    [
        '[[issue]]\ncases = ["a.one"]\nseverity = "lossy"\nreason = "text"\nupstream = "https://example.org/1"\n'
        '[[issue]]\ncases = ["b.*"]\nseverity = "crash"\nreason = "old"\n',
        '[[deviation]]\ncase = "a.one"\nseverity = "lossy"\nreason = "text"\nissue = "https://example.org/1"\n'
        '[[deviation]]\ncase = "b.*"\nseverity = "crash"\nreason = "old"\n',
    ],
    ids=["issues", "deviations"],
)
def test_file_is_read(text: str, tmp_path: Path) -> None:
    """Entries are read from TOML, upstream optional; tables and fields may have the names of earlier releases."""
    path = tmp_path / "known.toml"
    path.write_text(text)

    assert load_deviations(path) == (
        Deviation(case="a.one", severity="lossy", reason="text", issue="https://example.org/1"),
        Deviation(case="b.*", severity="crash", reason="old"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        '[[deviation]]\ncase = "a.one"\nseverity = "lossy"\n',
        '[[deviation]]\ncase = "a.one"\nseverity = "lossy"\nreason = ""\n',
        '[[deviation]]\ncase = ""\nseverity = "lossy"\nreason = "x"\n',
        '[[deviation]]\ncase = "a.one"\nseverity = "bad"\nreason = "x"\n',
        '[[deviation]]\ncase = "a.one"\nseverity = "lossy"\nreason = "x"\nreasn = "y"\n',
        '[[issue]]\ncases = []\nseverity = "lossy"\nreason = "x"\n',
        '[[deviations]]\ncase = "a.one"\nseverity = "lossy"\nreason = "x"\n',
        '[[deviation]]\ncase = "a.one"\nseverity = "agree"\nreason = "x"\n',
        '[[issue]]\ncases = ["a.one"]\nreason = "x"\n',
        '[[issue]]\ncases = ["a.one"]\ncause = "some-cause"\nseverity = "lossy"\nreason = "x"\n',
        '[[issue]]\nreason = "x"\n',
        '[[issue]]\ncause = ""\nreason = "x"\n',
        '[[issue]]\ncause = "some-cause"\n',
    ],
)
def test_a_file_that_says_something_else_is_refused(text: str, tmp_path: Path) -> None:
    """A missing reason, an unknown severity or a misspelt key is an error, not an entry that never matches."""
    path = tmp_path / "known.toml"
    path.write_text(text)

    with pytest.raises(BadIssueList, match=r"known\.toml"):
        load_deviations(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """A file that is not there is an error."""
    with pytest.raises(BadIssueList):
        load_deviations(tmp_path / "none.toml")


MIXED = (
    line("a.one[lz4]", "wrong_data"),
    line("a.part[x]", "lossy"),
    line("a.two", "agree"),
    line("a.one[gzip]", "wrong_data"),
    line("a.part[y]", "agree"),
    msgspec.structs.replace(line('a.three["1"]', "crash"), why='it said "\\x1b\nbye"'),
    line("a.skip", "skipped"),
)


def test_a_draft_declares_all_findings(tmp_path: Path) -> None:
    """A draft from a run covers all of its findings, whatever a testee said, and nothing in it is stale."""
    path = tmp_path / "deviations.toml"
    path.write_text(draft_deviations(MIXED), encoding="utf-8")
    entries = load_deviations(path)
    assert [entry.case for entry in entries] == ["a.one", "a.part[x]", "a.three"]
    assert apply_deviations(entries, MIXED).known == {
        each.case for each in MIXED if each.outcome not in ("agree", "skipped")
    }
    assert apply_deviations(entries, MIXED).stale == ()


def test_a_draft_keeps_what_is_known(tmp_path: Path) -> None:
    """Entries that were there stay as they are, and only what they do not cover is added."""
    known = Deviation(case="a.one*", severity="wrong_data", reason="old", issue="https://example.org/1")
    path = tmp_path / "deviations.toml"
    path.write_text(draft_deviations(MIXED, [known]), encoding="utf-8")
    first, *others = load_deviations(path)
    assert first == known
    assert {entry.case for entry in others} == {"a.part[x]", "a.three"}


CAUSED = FindingCauses(
    by_case={"a.one[lz4]": "times-cut", "a.one[gzip]": "times-cut", "a.part[x]": "keys-lost"},
    titles={"keys-lost": "FAIL: Keys are lost", "times-cut": "INFO: Times are cut"},
    foreign=frozenset({"of-another-library"}),
    former={"times-cut": ("seconds-lost",)},
)


def by_cause(cause: str, severity: str | None = None) -> Deviation:
    """A declaration of a cause."""
    return Deviation(cause=cause, severity=severity, reason="seen")  # type: ignore[arg-type]  # any severity


@pytest.mark.parametrize(
    ("entry", "known", "stale"),
    [
        (by_cause("times-cut"), ("a.one[gzip]", "a.one[lz4]"), False),
        (by_cause("times-cut", "wrong_data"), ("a.one[gzip]", "a.one[lz4]"), False),
        (by_cause("times-cut", "crash"), (), True),
        (by_cause("seconds-lost"), ("a.one[gzip]", "a.one[lz4]"), False),
        (by_cause("gone"), (), True),
        (by_cause("of-another-library"), (), False),
    ],
    ids=lambda value: value.name if isinstance(value, Deviation) else None,
)
def test_an_entry_of_a_cause_covers_its_findings(entry: Deviation, known: tuple[str, ...], stale: bool) -> None:
    """All findings of a cause are declared by its id or an earlier one; in whole runs one without findings is stale."""
    applied = apply_deviations([entry], MIXED, CAUSED)
    partial = apply_deviations([entry], MIXED, partial_causes())

    assert applied.known == set(known)
    assert applied.stale == ((entry,) if stale else ())
    assert (partial.known, partial.stale) == (applied.known, ())


def partial_causes() -> FindingCauses:
    """The same causes in a run of a part of the corpus."""
    return replace(CAUSED, complete=False)


def test_a_new_case_of_a_declared_cause_is_declared(tmp_path: Path) -> None:
    """An entry that was written before a case existed covers it, if it has the same cause."""
    path = tmp_path / "deviations.toml"
    path.write_text(draft_deviations(MIXED, (), CAUSED), encoding="utf-8")
    new = line("a.later", "rejects_valid")
    causes = replace(CAUSED, by_case={**CAUSED.by_case, "a.later": "keys-lost"})

    applied = apply_deviations(load_deviations(path), (*MIXED, new), causes)

    assert "a.later" in applied.known
    assert applied.stale == ()


def test_a_draft_has_an_entry_for_each_cause(tmp_path: Path) -> None:
    """The gravest cause comes first; a finding without a cause is declared by its case."""
    path = tmp_path / "deviations.toml"
    path.write_text(draft_deviations(MIXED, (), CAUSED), encoding="utf-8")
    entries = load_deviations(path)

    assert [entry.name for entry in entries] == ["keys-lost", "times-cut", "a.three"]
    assert entries[0].reason == "FAIL: Keys are lost"
    assert apply_deviations(entries, MIXED, CAUSED).known == {
        each.case for each in MIXED if each.outcome not in ("agree", "skipped")
    }
