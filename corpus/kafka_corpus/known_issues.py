"""Known issues: the schema, the loader and the writer of every list of differences that a person accepted.

    [[issue]]
    id = "one word or a sentence"                # of lists whose entries are named
    testee = "kafka-python"                      # the codec, client or broker that it is about
    versions = ["3.0.12"]                        # its releases; all of them if left out
    cases = ["v2_batch.empty_*"]                 # case ids, or patterns of ids
    reason = "our consumer never reads one"      # why it is accepted
    upstream = "https://example.org/issues/12"   # the maintainers' issue or pull request
    state = "flaky"                              # of lists whose entries have states

A list that matches by more than these fields has a subclass of `KnownIssue` with them.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from kafka_corpus.vector_format import matches

TABLE: Final = "issue"
_HEADER: Final = re.compile(r"^\s*\[\[\s*\"?(\w+)\"?\s*\]\]", re.MULTILINE)
_BARE_KEY: Final = re.compile("[A-Za-z0-9_-]+")
_DELETE: Final = "\x7f"


class BadIssueList(ValueError):
    """A list of known issues cannot be used; the text has the path, the line and the entry."""


class KnownIssue(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One accepted difference.

    Attributes:
        id: its name; empty in lists whose entries need none.
        testee: the codec, client or broker; empty for the one that a run is about.
        versions: its releases; empty for all.
        cases: case ids, or patterns of ids.
        rule: id of the rule that it is about.
        reason: why it is accepted.
        upstream: the maintainers' issue or pull request.
        state: one of the states that its list has.
    """

    id: str = ""
    testee: str = ""
    versions: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    rule: str = ""
    reason: str = ""
    upstream: str = ""
    state: str = ""

    def covers(self, testee: str, version: str, case: str) -> bool:
        """Whether this is about *case* in that version of *testee*."""
        right_version = not self.versions or version in self.versions
        return self.testee == testee and right_version and any(matches(pattern, case) for pattern in self.cases)


IssueType = TypeVar("IssueType", bound=KnownIssue)
# New names of fields by the former names, for each name that the table `issue` had in former lists.
FormerFields = Mapping[str, Mapping[str, str]]


def load_issues(path: Path, kind: type[IssueType], former: FormerFields | None = None) -> tuple[IssueType, ...]:
    """The entries of the list in *path*; tables and fields may have the names in *former*.

    Raises:
        BadIssueList: the file cannot be read, is no TOML, has other tables, or an entry is not of *kind*.
    """
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        raise BadIssueList(f"{path}: {error.strerror}") from error
    except ValueError as error:  # TOML or UTF-8
        raise BadIssueList(f"{path}: {error}") from error
    tables: dict[str, Mapping[str, str]] = {TABLE: {}, **(former or {})}
    for name in document:
        if name not in tables:
            raise BadIssueList(f"{path}: there is a table {name!r}; known issues are tables [[{TABLE}]]")
    return tuple(
        _converted(path, text, table, number, {renamed.get(key, key): value for key, value in entry.items()}, kind)
        for table, renamed in tables.items()
        for number, entry in enumerate(_entries(path, table, document.get(table, [])))
    )


def _entries(path: Path, table: str, found: Any) -> list[dict[str, Any]]:
    """The entries of one table; a former table of strings has states by id."""
    if isinstance(found, dict):
        found = [{"id": id_, "state": state} for id_, state in found.items()]
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise BadIssueList(f"{path}: {table} is no list of tables [[{table}]]")
    return found


def _converted(
    path: Path, text: str, table: str, number: int, fields: dict[str, Any], kind: type[IssueType]
) -> IssueType:
    for name in ("versions", "cases"):
        if isinstance(fields.get(name), str):
            fields[name] = [fields[name]]
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        headers = [match for match in _HEADER.finditer(text) if match[1] == table]
        line = f":{text.count(chr(10), 0, headers[number].start(1)) + 1}" if number < len(headers) else ""
        name = f" ({fields['id']})" if fields.get("id") else ""
        raise BadIssueList(f"{path}{line}: {table} {number + 1}{name}: {error}") from None


def issue_list_text(head: str, issues: Iterable[KnownIssue]) -> str:
    """The file with *issues*, after the comment *head*."""
    return head + "".join(f"\n[[{TABLE}]]\n{''.join(_rows(each))}" for each in issues)


def _rows(issue: KnownIssue) -> Iterator[str]:
    for name, value in msgspec.to_builtins(issue).items():
        yield f"{name} = {toml_value(value)}\n"


def toml_value(value: Any) -> str:
    """*value* as TOML writes it on one line.

    >>> toml_value({"hex": "00", "n.n": 1}), toml_value(["a\\x7f"])
    ('{ hex = "00", "n.n" = 1 }', '["a\\\\u007f"]')
    """
    if isinstance(value, dict):
        rows = (f"{_key(name)} = {toml_value(each)}" for name, each in value.items() if each is not None)
        return "{ " + ", ".join(rows) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, str):
        # TOML has the escapes of JSON, which leaves the character DEL as it is.
        return json.dumps(value, ensure_ascii=False).replace(_DELETE, "\\u007f")
    return json.dumps(value)


def _key(name: str) -> str:
    """*name* as a key of one table; an unquoted dot would separate two tables."""
    return name if _BARE_KEY.fullmatch(name) else toml_value(name)
