"""Where results go, so that a run of some cases never replaces the result of all.

A run of a part has a directory of its own, unless its user names one; one that holds the result
of all cases is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kafka_conformance.runner import results
from kafka_conformance.runner.results import Unusable
from kafka_conformance.sanitize import printable

# Default directories: for a run of all cases, and for a run of a part of them.
WHOLE: Final = "kafkaproof-results"
PART: Final = "kafkaproof-partial"
DEFAULT_HELP: Final = f"{WHOLE}; {PART} for a part of the cases"


class WouldReplace(Unusable):
    """A result of more is where one of less would be written."""


def result_directory(folder: Path | None, *, part: bool) -> Path:
    """Where results go: *folder*, or what is usual for a whole run or a *part* of one."""
    return folder or Path(PART if part else WHOLE)


def check_covers_result(
    path: Path,
    only: Sequence[str],
    cases: int,
    *,
    whole: Sequence[str] = (),
    hint: str = "--report DIR writes into another directory",
) -> None:
    """Raise `WouldReplace` if *path* holds a result of all cases, and *only* chose fewer, namely *cases*.

    A result of all cases has nothing, or *whole*, for `only`; *hint* says how to write elsewhere.
    """
    try:
        old = results.read_result_header(path)
    except Unusable:
        return  # there is none
    if old.only != list(only) and set(old.only) <= set(whole) and cases < old.cases:
        raise WouldReplace(
            f"{printable(str(path), 500)} is the result of all {old.cases:,} cases, and one of {cases:,} would "
            f"replace it; {hint}"
        )
