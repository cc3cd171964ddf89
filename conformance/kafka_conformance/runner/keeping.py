"""Where results go, so that a partial result never replaces a full one.

A run of some cases has a directory of its own, unless the user names one; a directory that holds
the result of all cases is refused.  A page about several testees, and a history of releases, are
not replaced by one about fewer.  While a run writes to a directory, no other may.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from kafka_conformance.runner import results
from kafka_conformance.runner.results import Unusable
from kafka_conformance.sanitize import indented_json, printable

# Default directories: for a run of all cases, and for a run of a part of them.
WHOLE: Final = "kafkaproof-results"
PART: Final = "kafkaproof-partial"
DEFAULT_HELP: Final = f"{WHOLE}; {PART} for a part of the cases"
REPORT_HINT: Final = "--report DIR writes into another directory"
# In a directory of pages: the testees that each page is about, by the page's file name.
PAGES: Final = "pages.json"


class InUse(OSError):
    """Another process writes to the directory."""


@contextmanager
def reserved(folder: Path, *, hint: str = REPORT_HINT) -> Iterator[None]:
    """Hold a lock on *folder*, which is made if need be; the system releases it when the process ends.

    Folders that were made, and are still empty at the end, are removed.  *hint* says what the second run can do.

    Raises:
        InUse: another process has it.
    """
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(descriptor, folder, hint)
        try:
            yield
        finally:
            _remove_empty(made)
    finally:
        os.close(descriptor)


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove *folders*, the innermost first, up to the first that holds something."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _lock(descriptor: int, folder: Path, hint: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InUse(f"{printable(str(folder), 500)}: another run writes there; {hint}") from None


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
    hint: str = REPORT_HINT,
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


def check_covers_pages(folder: Path, pages: Iterable[str], testees: Iterable[str], hint: str = REPORT_HINT) -> None:
    """Raise `WouldReplace` if one of *pages* in *folder* is about more testees than *testees*."""
    recorded, new = _pages(folder), set(testees)
    for page in pages:
        old = set(recorded.get(page, ()))
        if len(new) < len(old) and (folder / page).exists():
            raise WouldReplace(
                f"{printable(str(folder / page), 500)} is about {len(old):,} testees, and one about {len(new):,} would "
                f"replace it, without {printable(', '.join(sorted(old - new)))}; {hint}"
            )


def record_pages(folder: Path, pages: Iterable[str], testees: Iterable[str]) -> None:
    """Note in *folder* that *pages* are about *testees*."""
    (folder / PAGES).write_bytes(indented_json(_pages(folder) | dict.fromkeys(pages, sorted(set(testees)))))


def _pages(folder: Path) -> dict[str, list[str]]:
    try:
        return msgspec.json.decode((folder / PAGES).read_bytes(), type=dict[str, list[str]])
    except (OSError, msgspec.DecodeError):
        return {}  # no pages were written there
