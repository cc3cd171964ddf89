"""Known deviations: findings that somebody has looked at and decided to live with.

    [[deviation]]
    case = "v2_batch.empty_*"          # a case id, or a pattern of ids
    severity = "rejects_valid"
    reason = "our consumer never sees one"
    issue = "https://example.org/123"  # optional

They are strict: an entry that no longer happens fails the run, and one covers
no other severity than its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from kafka_conformance.judge import Severity
from kafka_conformance.results import Line
from kafka_corpus.vectors import matches


class Deviation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One entry of the file."""

    case: Annotated[str, msgspec.Meta(min_length=1)]
    severity: Severity
    reason: Annotated[str, msgspec.Meta(min_length=1)]
    issue: str | None = None

    def covers(self, line: Line) -> bool:
        """Whether *line* is this deviation, happening."""
        return line.outcome == self.severity and self.is_about(line)

    def is_about(self, line: Line) -> bool:
        """Whether *line* is of a case that this is about."""
        return matches(self.case, line.case)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    deviation: list[Deviation] = []


class BadDeviations(ValueError):
    """The file cannot be read, or says something that it cannot say."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What the deviations file means for one run.

    Attributes:
        known: ids of the cases whose finding is declared.
        stale: entries about cases of this run, none of which happens.
    """

    known: frozenset[str]
    stale: tuple[Deviation, ...]


def load(path: Path) -> tuple[Deviation, ...]:
    """The entries in *path*.  Raises `BadDeviations`."""
    try:
        content: Any = msgspec.toml.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise BadDeviations(f"{path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise BadDeviations(f"{path}: {error}") from error
    return tuple(content.deviation)


def apply(deviations: Iterable[Deviation], lines: Sequence[Line]) -> Applied:
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
