"""The releases of Apache Kafka that count as supported, as a dated table.

Reach depends on it: bytes that a supported broker stores and serves reach every
consumer, and bytes that only older releases stored reach those that read logs
from that time.  `--supported 2.8..4.4` replaces the range.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kafka_corpus.scenario import release_number

# The day on which the table was last compared with https://kafka.apache.org/downloads.
AS_OF: Final = "2026-11-23"
# First and last minor release that get fixes or that operators still run in large numbers: 3.9 is the last
# with ZooKeeper, and the release from which clusters move to 4.x (KIP-833).
FIRST: Final = "3.9"
LAST: Final = "4.4"
# The oldest release whose logs count as `old_logs`.  0.10 brought format v1 (KIP-31, KIP-32, in 2016); what earlier
# releases wrote as v0 no recorded release since then stores unchanged.
OLDEST_LOGS: Final = "0.10.0"
# For bytes that Kafka refuses: brokers since 0.11 check records of v0 and v1, so that a log has such bytes only
# if a broken producer wrote them before (KIP-98, in 2017).
OLDEST_INVALID_LOGS: Final = "0.11.0"

_RANGE: Final = re.compile(r"(?P<first>\d+(?:\.\d+){1,3})(?:(?P<dots>\.\.)(?P<last>\d+(?:\.\d+){1,3})?)?")


class BadRangeError(ValueError):
    """A text names no range of releases."""


@dataclass(frozen=True, slots=True)
class SupportedReleases:
    """A range of minor releases, both included."""

    first: str = FIRST
    last: str = LAST

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"

    def covers(self, release: str) -> bool:
        """Whether *release* is in the range; only as many numbers are compared as the bounds have.

        >>> SupportedReleases().covers("3.9.2"), SupportedReleases().covers("3.0.2")
        (True, False)
        """
        number, first, last = map(release_number, (release, self.first, self.last))
        return first <= number[: len(first)] and number[: len(last)] <= last

    def is_older(self, release: str) -> bool:
        """Whether *release* is below the range."""
        first = release_number(self.first)
        return release_number(release)[: len(first)] < first


SUPPORTED: Final = SupportedReleases()


def parse_supported(text: str) -> SupportedReleases:
    """The range that *text* names: `2.8..4.4`, `3.9..` (up to the newest), or `4.4` alone.

    Raises:
        BadRangeError: it names none, or the first release is newer than the last.

    >>> str(parse_supported("2.8.."))
    '2.8..4.4'
    """
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise BadRangeError(f"{text!r} is no range of releases; write for example {FIRST}..{LAST}")
    first = found["first"]
    last = found["last"] or (LAST if found["dots"] else first)
    if release_number(first) > release_number(last):
        raise BadRangeError(f"{text!r} starts at {first}, which is newer than its end {last}")
    return SupportedReleases(first, last)
