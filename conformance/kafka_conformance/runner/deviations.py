"""Known deviations: findings that somebody has looked at and decided to live with.

    [[deviation]]
    case = "v2_batch.empty_*"          # a case id, or a pattern of ids
    severity = "rejects_valid"
    reason = "our consumer never sees one"
    issue = "https://example.org/123"  # optional

`kafkaproof certify TESTEE --write-deviations FILE` writes the first such file.
They are strict: an entry that no longer happens fails the run, and one covers
no other severity than its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from kafka_conformance.judge.verdict import SEVERITIES, Severity
from kafka_conformance.runner.results import ResultLine
from kafka_conformance.sanitize import printable
from kafka_corpus.vectors import matches

MAX_REASON: Final = 160
_HEAD: Final = """\
# Known deviations: one that no longer happens fails the run.
# Each reason is what the run said; write why it is tolerable, or fix it.
"""


class Deviation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One entry of the file."""

    case: Annotated[str, msgspec.Meta(min_length=1)]
    severity: Severity
    reason: Annotated[str, msgspec.Meta(min_length=1)]
    issue: str | None = None

    def covers(self, line: ResultLine) -> bool:
        """Whether *line* is this deviation, happening."""
        return line.outcome == self.severity and self.is_about(line)

    def is_about(self, line: ResultLine) -> bool:
        """Whether *line* is of a case that this is about."""
        return matches(self.case, line.case)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    deviation: list[Deviation] = []


class BadDeviations(ValueError):
    """The file cannot be read, or says something that it cannot say."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The effect of the deviations file on one run.

    Attributes:
        known: ids of the cases whose finding is declared.
        stale: entries about cases of this run, none of which happens.
    """

    known: frozenset[str]
    stale: tuple[Deviation, ...]


def load_deviations(path: Path) -> tuple[Deviation, ...]:
    """The entries in *path*.  Raises `BadDeviations`."""
    try:
        content: Any = msgspec.toml.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise BadDeviations(f"{path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise BadDeviations(f"{path}: {error}") from error
    return tuple(content.deviation)


def apply_deviations(deviations: Iterable[Deviation], lines: Sequence[ResultLine]) -> Applied:
    """Which findings in *lines* are declared, and which declarations are stale.

    An entry about none of the cases in *lines* is not stale: `--only` may have
    left them out.
    """
    known: set[str] = set()
    stale = []
    for deviation in deviations:
        happened = {line.case for line in lines if deviation.covers(line)}
        known |= happened
        if not happened and any(map(deviation.is_about, lines)):
            stale.append(deviation)
    return Applied(frozenset(known), tuple(stale))


def draft_deviations(lines: Sequence[ResultLine], known: Iterable[Deviation] = ()) -> str:
    """A file that declares every finding in *lines*, after those that are *known* already.

    Where all cases of a case function have the same finding, one entry names the function.
    """
    kept, lines = list(known), sorted(lines, key=lambda line: line.case)
    fresh = [line for line in lines if line.outcome in SEVERITIES and not any(entry.covers(line) for entry in kept)]
    text = [_HEAD, *map(_entry, kept)]
    by_function = {name: {line.outcome for line in group} for name, group in groupby(lines, _function)}
    for name, group in groupby(fresh, _function):
        found = list(group)
        whole = len(by_function[name]) == 1 and not any(entry.is_about(found[0]) for entry in kept)
        text += [_entry(_declaring(line, name if whole else line.case)) for line in (found[:1] if whole else found)]
    return "\n".join(text)


def _function(line: ResultLine) -> str:
    return line.case.partition("[")[0]


def _declaring(line: ResultLine, case: str) -> Deviation:
    return msgspec.convert({"case": case, "severity": line.outcome, "reason": f"it did: {line.why}"}, Deviation)


def _entry(entry: Deviation) -> str:
    """One entry as TOML; a string of JSON is one of TOML's too."""
    fields = {"case": entry.case, "severity": entry.severity, "reason": entry.reason, "issue": entry.issue}
    lines = [f"{name} = {_quoted(text)}" for name, text in fields.items() if text]
    return "\n".join(["[[deviation]]", *lines, ""])


def _quoted(text: str) -> str:
    return msgspec.json.encode(printable(text, MAX_REASON)).decode()
