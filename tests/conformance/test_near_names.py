"""Suggestions for unknown names of cases, areas, rules and testees."""

import re
from pathlib import Path

import pytest

from kafka_conformance.runner.requests import near_names, unmatched_pattern
from kafka_conformance.testees.connection import BadConnect
from kafka_conformance.testees.known import check_connect
from kafka_corpus.vectors import load_vectors


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("resorces", "resources.*"),
        ("resorces.*", "resources.*"),
        ("resources.bomb_in_the_batch", "resources.bomb_in_a_batch*"),
        ("resources.bomb_in_a_batch[gzip-1-gb]", "resources.bomb_in_a_batch[gzip-1-gib]"),
        ("CMP-1O", "CMP-10"),
    ],
)
def test_near_names_of_cases(pattern: str, near: str) -> None:
    """A pattern that names no case suggests an area, a case function, a case or a rule that is like it."""
    assert near in near_names(load_vectors(), pattern)
    assert f"no case matches {pattern!r}; did you mean " in unmatched_pattern(load_vectors(), ["HDR-18", pattern])


def test_patterns_that_match_are_no_problem() -> None:
    """Ids, areas and rules that exist need no suggestion; one like nothing has none."""
    assert unmatched_pattern(load_vectors(), ["resources.*", "CMP-10"]) == ""
    assert unmatched_pattern(load_vectors(), ["zzzzzzzz"]) == "no case matches 'zzzzzzzz'"


def test_a_program_is_suggested_as_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a program in place of a testee suggests `process:`, and a name like a known one that one."""
    tmp_path.joinpath("example.py").touch()
    monkeypatch.chdir(tmp_path)
    for name in ("./example.py", "example.py", "./example.py --fast"):
        with pytest.raises(BadConnect, match=f"did you mean process:{re.escape(name)}"):
            check_connect(name)
    with pytest.raises(BadConnect, match="did you mean kafka-python"):
        check_connect("kafka_pyton")
