"""Checks of entries: header against records, offsets and epochs against the entry before."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from kafka_pipeline.audit.findings import AuditFindings
from kafka_pipeline.reading import Broken, ByteSource, ReadEntry, entries_by_reference
from kafka_records.attributes import (
    COMPRESSION_CODEC_MASK,
    CONTROL_FLAG_MASK,
    DELETE_HORIZON_FLAG_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_FLAG_MASK,
)
from kafka_records.constants import INT32_MAX, INT64_MAX, INT64_MIN, NO_TIMESTAMP
from kafka_records.layout import BATCH_V2, MESSAGE_V0, MESSAGE_V1
from kafka_records.model import DEFAULT, Batch, Limits

Numbers = npt.NDArray[np.int64]
# A record that is not there.
NOWHERE: Final = -1
HOUR_MS: Final = 3_600_000
KNOWN_BITS: Final = (
    COMPRESSION_CODEC_MASK
    | TIMESTAMP_TYPE_MASK
    | TRANSACTIONAL_FLAG_MASK
    | CONTROL_FLAG_MASK
    | DELETE_HORIZON_FLAG_MASK
)
Flags = npt.NDArray[np.bool_]
Check = tuple[str, Flags, Callable[[int], str]]


class RecordTotals(NamedTuple):
    """Sums over the records of some entries."""

    records: int = 0
    headers: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    header_bytes: int = 0
    without_key: int = 0
    without_value: int = 0


@dataclass(frozen=True, kw_only=True)
class Looked:
    """Some entries in a row, as columns that checks are written in: header fields, and facts about their records.

    Attributes:
        position, size: where each entry starts in its file, and its bytes.
        magic, attributes, base, last, newest, producer, epoch, sequence, leader_epoch, records: fields of its header;
            `newest` is the maximum timestamp, `records` how many there are.
        starts: where the records of each entry start among all.
        offsets: of all records.
        disorder: of each entry the first record whose offset does not grow, or `NOWHERE`.
        outside: the first record whose offset is outside of its entry's, or `NOWHERE`.
        latest, earliest: timestamps of its records.
        totals: sums over all records.
        broken: entries that cannot be read.
        key_and_value: gives key and value of a record by its number; only the first one of each control batch has to be
            there, and in internal topics all.
    """

    position: Numbers
    size: Numbers
    magic: Numbers
    attributes: Numbers
    base: Numbers
    last: Numbers
    newest: Numbers
    producer: Numbers
    epoch: Numbers
    sequence: Numbers
    leader_epoch: Numbers
    records: Numbers
    starts: Numbers
    offsets: Numbers
    disorder: Numbers
    outside: Numbers
    latest: Numbers
    earliest: Numbers
    totals: RecordTotals
    broken: tuple[Broken, ...]
    key_and_value: Callable[[int], tuple[bytes | None, bytes | None]]

    @cached_property
    def modern(self) -> Flags:
        """Which are of v2."""
        return np.asarray(self.magic == 2)

    @cached_property
    def control(self) -> Flags:
        """Which are control batches."""
        return np.asarray(self.modern & (self.attributes & CONTROL_FLAG_MASK != 0))

    @cached_property
    def transactional(self) -> Flags:
        """Which belong to transactions."""
        return np.asarray(self.modern & (self.attributes & TRANSACTIONAL_FLAG_MASK != 0))

    @cached_property
    def marker(self) -> Flags:
        """Which are control batches of a producer."""
        return np.asarray(self.control & (self.producer >= 0))

    @cached_property
    def create(self) -> Flags:
        """Which have their producers' timestamps."""
        return np.asarray((self.attributes & TIMESTAMP_TYPE_MASK == 0) & (self.magic > 0))


def check_entries(looked: Looked, found: AuditFindings, file: str, segment_base: int | None, now_ms: int) -> None:
    """Everything that can be said of entries one by one."""
    for kind, which, say in (*_offsets(looked, segment_base), *_times(looked, now_ms), *_producers(looked)):
        places = np.flatnonzero(which)
        for at in places[: found.most].tolist():
            found.add(kind, file, int(looked.position[at]), int(looked.base[at]), say(at))
        found.more(kind, len(places) - found.most)


def _offsets(looked: Looked, segment_base: int | None) -> Iterator[Check]:
    base, last, offsets = looked.base, looked.last, looked.offsets
    outside, disorder = looked.outside, looked.disorder

    def range_of(at: int) -> str:
        return f"offsets {base[at]} to {last[at]}"

    yield "negative_range", looked.modern & (last < base), range_of
    yield (
        "offset_outside",
        (outside >= 0) & (last >= base),
        lambda at: f"offset {offsets[outside[at]]} in a batch of {range_of(at)}",
    )
    yield (
        "offsets_disorder",
        disorder >= 0,
        lambda at: f"offset {offsets[disorder[at]]} follows {offsets[disorder[at] - 1]}",
    )
    if segment_base is not None:
        yield "below_segment", base < segment_base, lambda at: f"{range_of(at)} in the segment {segment_base}"
        beyond = (last >= base) & (last - segment_base > INT32_MAX)
        yield "beyond_segment", beyond, lambda at: f"{range_of(at)} in the segment {segment_base}"


def _times(looked: Looked, now_ms: int) -> Iterator[Check]:
    newest = looked.newest
    largest = np.maximum(looked.latest, NO_TIMESTAMP)
    wrong = looked.create & (looked.records > 0) & (newest != largest)

    def against(at: int) -> str:
        return f"it says {newest[at]}, the largest is {largest[at]}"

    yield "max_timestamp", wrong & looked.modern, against
    yield "wrapper_timestamp", wrong & ~looked.modern, against
    ahead = np.maximum(newest, np.where(looked.records > 0, looked.latest, NO_TIMESTAMP))
    yield (
        "future",
        ahead > now_ms + HOUR_MS,
        lambda at: f"{ahead[at]} is {(int(ahead[at]) - now_ms) / HOUR_MS:,.1f} hours ahead",
    )
    before = (looked.records > 0) & (looked.earliest < NO_TIMESTAMP)
    yield "negative_timestamp", before, lambda at: f"{looked.earliest[at]}"


def _producers(looked: Looked) -> Iterator[Check]:
    producer, sequence, epoch = looked.producer, looked.sequence, looked.epoch

    def who(at: int) -> str:
        return f"producer {producer[at]}, epoch {epoch[at]}, base sequence {sequence[at]}"

    unknown = looked.modern & (looked.attributes & ~KNOWN_BITS != 0)
    yield "unknown_attributes", unknown, lambda at: f"attributes {int(looked.attributes[at]) & 0xFFFF:#06x}"
    yield "not_idempotent", looked.modern & (producer < 0) & ((epoch != -1) | (sequence != -1)), who
    yield "no_sequence", (producer >= 0) & ~looked.control & (sequence < 0), who
    yield "transaction_without_producer", looked.transactional & (producer < 0), who
    yield "marker_records", looked.marker & (looked.records > 1), lambda at: f"{looked.records[at]} records"
    packed = looked.attributes & COMPRESSION_CODEC_MASK != 0
    yield "marker_compressed", looked.marker & packed & (looked.records > 0), who


NO_EPOCH = -1
# Missing offsets are not counted where so many would be: the offset itself is wrong, which is a finding.
FAR: Final = 1 << 62


def wrapped_int64(number: int) -> int:
    """*number* in 64 bits, as sums of offsets wrap in columns and in Java.

    >>> wrapped_int64(2**63 - 1 + 1) == -(2**63), wrapped_int64(-5)
    (True, -5)
    """
    return (number - INT64_MIN) % (1 << 64) + INT64_MIN


class LogPosition(msgspec.Struct, array_like=True):
    """How far a log has come: -1 and False before its first entry.

    Attributes:
        last: the last offset.
        epoch: the last leader epoch that there was; -1 if there was none.
        missing: offsets that were not there so far.
        gaps: how often some were not there.
        begun: whether there was an entry.
    """

    last: int = -1
    epoch: int = NO_EPOCH
    missing: int = 0
    gaps: int = 0
    begun: bool = False


class First(msgspec.Struct, array_like=True):
    """The first entry of a stretch, for what comes before it."""

    position: int
    base: int
    epoch: int


class Order:
    """Follows a log entry by entry."""

    def __init__(self, found: AuditFindings, gap: str = "gap") -> None:
        self.found, self.gap = found, gap
        self.reached = LogPosition()
        self.first: First | None = None

    def follow(self, looked: Looked, file: str) -> Numbers:
        """Go over a chunk; how many offsets had been missing at each entry, since the beginning."""
        count = len(looked.base)
        epochs = np.where(looked.modern, looked.leader_epoch, NO_EPOCH)
        if not count:
            return np.zeros(0, np.int64)
        if self.first is None:
            self.first = First(*(int(column[0]) for column in (looked.position, looked.base, epochs)))
        reached = self.reached
        start = reached.last if reached.begun else wrapped_int64(int(looked.base[0]) - 1)
        before = np.concatenate((np.array([start], np.int64), looked.last[:-1]))
        # Modulo 2^64 the difference is right wherever the offset grows, even from one end of the range to the other.
        skipped = looked.base.view(np.uint64) - before.view(np.uint64) - np.uint64(1)
        missing = np.where((looked.base > before) & (skipped < FAR), skipped, 0).astype(np.int64)
        self._add_findings(looked, file, before, missing)
        self._epochs(looked, file, epochs)
        total = reached.missing + np.cumsum(missing)
        known = epochs[epochs >= 0]
        self.reached = LogPosition(
            last=int(looked.last[-1]),
            epoch=int(known[-1]) if len(known) else reached.epoch,
            missing=int(total[-1]),
            gaps=reached.gaps + int((missing > 0).sum()),
            begun=True,
        )
        return total

    def join(self, first: First, file: str) -> int:
        """Begin the next stretch of the log; the number of missing offsets in between."""
        reached = self.reached
        if not reached.begun:
            return 0
        if 0 <= first.epoch < reached.epoch:
            self._epoch_back(file, first.position, first.base, first.epoch, reached.epoch)
        if first.base <= reached.last:
            self._overlap(file, first.position, first.base, reached.last)
        missing = max(first.base - reached.last - 1, 0)
        missing = missing if missing < FAR else 0
        if missing:
            self._gap(file, first.position, first.base, missing)
        return missing

    def _add_findings(self, looked: Looked, file: str, before: Numbers, missing: Numbers) -> None:
        for at in np.flatnonzero(looked.base <= before).tolist():
            self._overlap(file, int(looked.position[at]), int(looked.base[at]), int(before[at]))
        for at in np.flatnonzero(missing > 0).tolist():
            self._gap(file, int(looked.position[at]), int(looked.base[at]), int(missing[at]))

    def _epochs(self, looked: Looked, file: str, epochs: Numbers) -> None:
        known = np.flatnonzero(epochs >= 0)
        before = np.concatenate(([self.reached.epoch], epochs[known]))[:-1]
        back = epochs[known] < before
        for at, earlier in zip(known[back].tolist(), before[back].tolist(), strict=True):
            self._epoch_back(file, int(looked.position[at]), int(looked.base[at]), int(epochs[at]), earlier)

    def _overlap(self, file: str, position: int, base: int, last: int) -> None:
        self.found.add("overlap", file, position, base, f"offset {base} follows {last}")

    def _gap(self, file: str, position: int, base: int, missing: int) -> None:
        said = f"{missing:,} offsets before {base} are not there"
        self.found.add(self.gap, file, position, base, said)

    def _epoch_back(self, file: str, position: int, base: int, epoch: int, earlier: int) -> None:
        self.found.add("leader_epoch_back", file, position, base, f"leader epoch {epoch} follows {earlier}")


# Records that are gathered before they are checked.
GATHERED: Final = 32 * 1024


class MoreThanQuick(Exception):
    """A small log holds more than the reference reads in a moment: kernels have to read it."""


class QuickLimits(NamedTuple):
    """How much the reference reads before kernels are faster, however long they take to start."""

    records: int = 60_000
    limits: Limits = Limits(max_output_bytes=16 * 1024 * 1024)


def looked_by_reference(
    source: ByteSource, start: int, end: int, quick: QuickLimits | None = None, *, contents: bool = False
) -> Generator[Looked, None, tuple[int, bool]]:
    """The entries from *start* to *end*, as `kernels.read_looked` gives them, without Numba and Arrow.

    With *contents*, key and value of every record are kept.

    Raises:
        MoreThanQuick: there is more than *quick* allows.
        OSError: the source cannot be read.
    """
    reading = entries_by_reference(source, start, end, quick.limits if quick else DEFAULT)
    gathered, seen = _Gathered(contents), 0
    while True:
        try:
            entry = next(reading)
        except StopIteration as over:
            if gathered.rows or gathered.broken:
                yield gathered.looked()
            read, broken = over.value
            return int(read), bool(broken)
        if isinstance(entry, Broken):
            if quick and entry.kind == "limit":
                raise MoreThanQuick
            gathered.broken.append(entry)
        else:
            seen += len(entry.batch.records)
            gathered.put(entry)
        if quick and seen > quick.records:
            raise MoreThanQuick
        if len(gathered.offsets) >= GATHERED or len(gathered.broken) >= GATHERED:
            yield gathered.looked()
            gathered = _Gathered(contents)


class _Gathered:
    """Entries that the reference has read, on their way into columns."""

    def __init__(self, contents: bool) -> None:
        self.contents = contents
        self.rows: list[tuple[int, ...]] = []
        self.offsets: list[int] = []
        self.totals = [0] * len(RecordTotals._fields)
        self.broken: list[Broken] = []
        self.kept: dict[int, tuple[bytes | None, bytes | None]] = {}

    def put(self, entry: ReadEntry) -> None:
        """One more entry."""
        batch, row = entry.batch, len(self.offsets)
        offsets = [record.offset for record in batch.records]
        times = [record.timestamp for record in batch.records]
        header = _header_of(entry.data, batch)
        base, last = header[3], header[4]
        disorder = next((at for at in range(1, len(offsets)) if offsets[at] <= offsets[at - 1]), None)
        outside = next((at for at, offset in enumerate(offsets) if not base <= offset <= last), None)
        facts = (
            NOWHERE if disorder is None else row + disorder,
            NOWHERE if outside is None else row + outside,
            max(times, default=INT64_MIN),
            min(times, default=INT64_MAX),
        )
        self.rows.append((entry.position, *header, len(offsets), row, *facts))
        self.offsets += offsets
        for at, record in enumerate(batch.records if self.contents else batch.records[: batch.control]):
            self.kept[row + at] = record.key, record.value
        self._count(batch)

    def _count(self, batch: Batch) -> None:
        for record in batch.records:
            sums = (
                1,
                len(record.headers),
                len(record.key or b""),
                len(record.value or b""),
                sum(len(key or b"") + len(value or b"") for key, value in record.headers),
                record.key is None,
                record.value is None,
            )
            self.totals = [total + more for total, more in zip(self.totals, sums, strict=True)]

    def looked(self) -> Looked:
        """All of them."""
        columns = np.array(self.rows, np.int64).reshape(len(self.rows), len(_COLUMNS)).T
        return Looked(
            **dict(zip(_COLUMNS, columns, strict=True)),
            offsets=np.array(self.offsets, np.int64),
            totals=RecordTotals(*self.totals),
            broken=tuple(self.broken),
            key_and_value=self.kept.__getitem__,
        )


# In the order of `_Gathered.rows`.
_COLUMNS: Final = (
    *("position", "size", "magic", "attributes", "base", "last", "newest", "producer", "epoch", "sequence"),
    *("leader_epoch", "records", "starts", "disorder", "outside", "latest", "earliest"),
)


def _header_of(data: bytes, batch: Batch) -> tuple[int, ...]:
    """Size, magic and the fields up to the leader epoch; what an entry of v0 or v1 lacks is -1 (NST-26)."""
    if batch.magic == 2:
        of = BATCH_V2.values(data)
        base = of["base_offset"]
        last = wrapped_int64(base + of["last_offset_delta"])
        return (
            *(len(data), 2, of["attributes"], base, last, of["max_timestamp"]),
            *(of["producer_id"], of["producer_epoch"], of["base_sequence"], of["partition_leader_epoch"]),
        )
    of = (MESSAGE_V1 if batch.magic else MESSAGE_V0).values(data)
    first = batch.records[0].offset if batch.records else 0
    newest = of.get("timestamp", NO_TIMESTAMP)
    return len(data), batch.magic, of["attributes"] & 0xFF, first, of["offset"], newest, -1, -1, -1, -1
