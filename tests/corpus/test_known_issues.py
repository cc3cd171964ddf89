"""Known issues: one schema, errors that name path, line and entry, and a writer that the loader reads."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_corpus.known_issues import BadIssueList, KnownIssue, issue_list_text, load_issues

TEXTS = st.text(max_size=20)
ISSUES = st.builds(
    KnownIssue, id=TEXTS, testee=TEXTS, versions=st.lists(TEXTS, max_size=2).map(tuple),
    cases=st.lists(TEXTS, max_size=2).map(tuple), rule=TEXTS, reason=TEXTS, upstream=TEXTS, state=TEXTS,
)  # fmt: skip


@given(st.lists(ISSUES, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_written_list_is_read(tmp_path: Path, issues: list[KnownIssue]) -> None:
    """The loader reads what the writer wrote, whatever characters the texts have."""
    path = tmp_path / "issues.toml"
    path.write_bytes(issue_list_text("# Remarks.\n", issues).encode())
    assert load_issues(path, KnownIssue) == tuple(issues)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[[issue]]\nid = "a"\n\n[[issue]]\nid = "b"\nreasn = "x"\n', ":4: issue 2 (b): Object contains unknown field"),
        ("\n[[old]]\nname = 3\n", ":2: old 1: Expected `str`, got `int` - at `$.testee`"),
        ("[other]\n", ": there is a table 'other'; known issues are tables [[issue]]"),
        ("issue = 1\n", ": issue is no list of tables [[issue]]"),
        ("[[issue]\n", ": Expected ']]' at the end of an array declaration (at line 1, column"),
    ],
)
def test_errors_name_the_entry(text: str, error: str, tmp_path: Path) -> None:
    """A malformed list is refused with path, line and entry; fields of former lists count under their new names."""
    path = tmp_path / "issues.toml"
    path.write_text(text)
    with pytest.raises(BadIssueList) as raised:
        load_issues(path, KnownIssue, {"old": {"name": "testee"}})
    assert str(raised.value).startswith(f"{path}{error}")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """A file that is not there is named with the system's error."""
    with pytest.raises(BadIssueList, match=r"none\.toml: No such file"):
        load_issues(tmp_path / "none.toml", KnownIssue)


def test_former_tables_are_read(tmp_path: Path) -> None:
    """Former names of tables and fields, single texts for lists, and a table of states are read."""
    path = tmp_path / "issues.toml"
    path.write_text('[[old]]\nname = "java"\ncase = "a.*"\n\n[states]\n"x/y" = "public"\n')
    assert load_issues(path, KnownIssue, {"old": {"name": "testee", "case": "cases"}, "states": {}}) == (
        KnownIssue(testee="java", cases=("a.*",)),
        KnownIssue(id="x/y", state="public"),
    )


@pytest.mark.parametrize(
    ("testee", "version", "case", "covered"),
    [
        ("java", "4.4.0", "a.one[x]", True),
        ("java", "3.9.0", "a.one[x]", False),
        ("java", "4.4.0", "b.one", False),
        ("sarama", "4.4.0", "a.one[x]", False),
    ],
)
def test_an_issue_covers_its_cases(testee: str, version: str, case: str, covered: bool) -> None:
    """An issue covers the cases that its patterns match, in its versions of its testee; no versions are all."""
    issue = KnownIssue(testee="java", versions=("4.4.0",), cases=("a.*",))
    assert issue.covers(testee, version, case) is covered
    assert KnownIssue(testee="java", cases=("a.*",)).covers("java", "3.9.0", "a.one[x]")
