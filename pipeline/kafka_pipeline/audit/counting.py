"""Counts without findings: sizes, formats, codecs, keys, headers, and records per hour."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import msgspec
import numpy as np

from kafka_pipeline.audit.entries import HOUR_MS, Looked, Numbers
from kafka_records.attributes import COMPRESSION_CODEC_MASK
from kafka_records.constants import COMPRESSIONS

# Hours that are counted: from 1970 on; what says another time is counted as that.
MOST_HOURS: Final = 1 << 20
NO_HOUR: Final = "none"


class ContentCounts(msgspec.Struct, kw_only=True):
    """How much there is of what.

    Attributes:
        numbers: totals by name.
        formats: batches, records and bytes by format: `v2 lz4`.
        sizes: entries by the power of two that their size is below.
        records: entries by the power of two that their number of records is below.
        hours: records by hour since 1970, or `none`.
        oldest, newest: timestamps that are times; -1 if there are none.
    """

    numbers: dict[str, int] = {}
    formats: dict[str, list[int]] = {}
    sizes: dict[str, int] = {}
    records: dict[str, int] = {}
    hours: dict[str, int] = {}
    oldest: int = -1
    newest: int = -1

    def add(self, other: ContentCounts) -> None:
        """All that *other* counted, too."""
        for mine, its in ((self.numbers, other.numbers), (self.sizes, other.sizes),
                          (self.records, other.records), (self.hours, other.hours)):  # fmt: skip
            for name, number in its.items():
                mine[name] = mine.get(name, 0) + number
        for name, numbers in other.formats.items():
            self.formats[name] = [
                a + b for a, b in zip(self.formats.get(name, [0] * len(numbers)), numbers, strict=True)
            ]
        if other.newest >= 0:
            self.oldest = min(self.oldest, other.oldest) if self.oldest >= 0 else other.oldest
            self.newest = max(self.newest, other.newest)

    def in_order(self) -> ContentCounts:
        """The same with names in an order that does not depend on how the log was cut."""
        ordered: dict[str, Any] = {
            "formats": dict(sorted(self.formats.items())),
            **{name: dict(sorted(getattr(self, name).items(), key=_number)) for name in ("sizes", "records", "hours")},
        }
        return msgspec.structs.replace(self, **ordered)


def _number(item: tuple[str, int]) -> int:
    return -1 if item[0] == NO_HOUR else int(item[0])


def count_contents(looked: Looked) -> ContentCounts:
    """Counts of a chunk."""
    records, sizes, totals = looked.records, looked.size, looked.totals
    counts = ContentCounts(
        numbers={
            "entries": len(records),
            "records": totals.records,
            "bytes": int(sizes.sum()),
            "headers": totals.headers,
            "key_bytes": totals.key_bytes,
            "value_bytes": totals.value_bytes,
            "header_bytes": totals.header_bytes,
            "without_key": totals.without_key,
            "without_value": totals.without_value,
            "control": int(looked.control.sum()),
            "transactional": int(looked.transactional.sum()),
            "idempotent": int((looked.producer >= 0).sum()),
            "empty": int((records == 0).sum()),
        },
        sizes=_by_power(sizes),
        records=_by_power(records),
    )
    codec = looked.attributes & COMPRESSION_CODEC_MASK
    for magic in (0, 1, 2):
        for number, name in enumerate(COMPRESSIONS):
            which = (looked.magic == magic) & (codec == number)
            if which.any():
                counts.formats[f"v{magic} {name}"] = [
                    int(which.sum()), int(records[which].sum()), int(sizes[which].sum())
                ]  # fmt: skip
    _count_hours(looked, counts)
    return counts


def _by_power(numbers: Numbers) -> dict[str, int]:
    powers = np.frexp(numbers.astype(np.float64))[1]
    return {str(power): number for power, number in Counter(powers.tolist()).items()}


def _count_hours(looked: Looked, counts: ContentCounts) -> None:
    times = looked.newest
    hours = np.where((times >= 0) & (times < MOST_HOURS * HOUR_MS), times // HOUR_MS, -1)
    known, where = np.unique(hours, return_inverse=True)
    totals = np.bincount(where, weights=looked.records).astype(np.int64)
    counts.hours = {
        NO_HOUR if hour < 0 else str(hour): total for hour, total in zip(known.tolist(), totals.tolist(), strict=True)
    }
    real = times[hours >= 0]
    if len(real):
        counts.oldest, counts.newest = int(real.min()), int(real.max())
