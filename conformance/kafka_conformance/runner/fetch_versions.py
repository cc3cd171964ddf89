"""Results of one client through several Fetch versions, side by side: which cases depend on the version.

A case that no broker sends in a version was not run in it, and is compared in the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from kafka_brokers.fake_broker import VERSIONS, with_fetch_version
from kafka_conformance.judge.verdict import OPEN
from kafka_conformance.runner.results import Results
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.known import split_fetch_version

# Outcomes of cases that were not run.
NOT_RUN: Final = frozenset(OPEN) - {"flaky"}
# Lines of the table on a terminal.
SHOWN: Final = 20


class BadFetchVersions(ValueError):
    """Not a list of Fetch versions."""


@dataclass(frozen=True, slots=True)
class ClientByVersion:
    """One client.

    Attributes:
        name: its connect string without a Fetch version.
        versions: those that were wanted, ascending.
        compared: how many cases ran in each version.
        differing: by case the outcome in each version in which it ran, where they are not all the same.
    """

    name: str
    versions: tuple[int, ...]
    compared: dict[int, int]
    differing: dict[str, dict[int, str]]

    @property
    def spoken(self) -> tuple[int, ...]:
        """The versions in which any case ran."""
        return tuple(version for version in self.versions if self.compared[version])


def parse_fetch_versions(text: str) -> tuple[int, ...]:
    """Fetch versions separated by commas, ascending and each once; `4-7` is a range.

    >>> parse_fetch_versions("12,4-6,4")
    (4, 5, 6, 12)

    Raises:
        BadFetchVersions: it is none, or no release has such a version.
    """
    found: set[int] = set()
    for part in filter(None, map(str.strip, text.split(","))):
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part)
        if match is None:
            raise BadFetchVersions(f"{part!r} is no version")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise BadFetchVersions(f"{part!r} is an empty range")
        try:
            with_fetch_version(VERSIONS, last)
        except ValueError as error:
            raise BadFetchVersions(str(error)) from None
        found.update(range(first, last + 1))
    if not found:
        raise BadFetchVersions(f"{text!r} names no version")
    return tuple(sorted(found))


def with_versions(names: Sequence[str], versions: Sequence[int]) -> list[str]:
    """The connect strings of each client in each version."""
    return [f"{name}+fetch{version}" for name in names for version in versions]


def compare_versions(results: Sequence[tuple[str, Results | None]]) -> list[ClientByVersion]:
    """Each client of *results*: connect strings with Fetch versions, and None for one that could not be run."""
    rows = [(*split_fetch_version(connect), made) for connect, made in results]
    wanted = sorted(
        ((name, version, made) for name, version, made in rows if version is not None), key=lambda row: row[:2]
    )
    return [_compared(name, list(group)) for name, group in groupby(wanted, key=lambda row: row[0])]


def _compared(name: str, rows: Sequence[tuple[str, int, Results | None]]) -> ClientByVersion:
    by_case: dict[str, dict[int, str]] = {}
    compared = {version: 0 for _, version, _ in rows}
    for _, version, made in rows:
        for line in made.lines if made else ():
            outcome = str(line.outcome)
            if outcome not in NOT_RUN:
                compared[version] += 1
                by_case.setdefault(line.case, {})[version] = outcome
    differing = {case: outcomes for case, outcomes in sorted(by_case.items()) if len(set(outcomes.values())) > 1}
    return ClientByVersion(name, tuple(compared), compared, differing)


def versions_document(clients: Sequence[ClientByVersion]) -> dict[str, Any]:
    """The comparison as JSON: versions as text, since they are keys."""
    return {
        "clients": [
            {
                "connect": each.name,
                "versions": list(each.versions),
                "spoken": list(each.spoken),
                "compared": {str(version): count for version, count in each.compared.items()},
                "differing": {
                    case: {str(version): outcome for version, outcome in outcomes.items()}
                    for case, outcomes in each.differing.items()
                },
            }
            for each in clients
        ]
    }


def versions_lines(clients: Sequence[ClientByVersion]) -> Iterator[str]:
    """The comparison for a terminal."""
    for each in clients:
        name = printable(each.name, 80)
        yield f"{name}: " + ", ".join(f"{count:,} cases in Fetch {version}" for version, count in each.compared.items())
        if silent := [version for version in each.versions if not each.compared[version]]:
            yield f"  no case ran in Fetch {', '.join(map(str, silent))}"
        if len(each.spoken) < 2:
            yield "  nothing to compare: cases ran in fewer than two versions"
            continue
        if not each.differing:
            yield "  no outcome depends on the version"
            continue
        yield f"  {len(each.differing):,} outcomes depend on the version:"
        for case, outcomes in list(each.differing.items())[:SHOWN]:
            yield f"  {case}: " + ", ".join(
                f"{outcome} in {_spans(outcomes, outcome)}" for outcome in _unique(outcomes)
            )
        if len(each.differing) > SHOWN:
            yield f"  and {len(each.differing) - SHOWN:,} more"


def _unique(outcomes: dict[int, str]) -> list[str]:
    return list(dict.fromkeys(outcomes[version] for version in sorted(outcomes)))


def _spans(outcomes: dict[int, str], wanted: str) -> str:
    return ", ".join(str(version) for version in sorted(outcomes) if outcomes[version] == wanted)
