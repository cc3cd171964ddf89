"""A stretch of a segment, judged: what is wrong within it, what is in it, and what its ends leave open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from kafka_pipeline.audit import entries
from kafka_pipeline.audit.entries import (
    HOUR_MS,
    First,
    LogPosition,
    Looked,
    Numbers,
    Order,
    QuickLimits,
    looked_by_reference,
)
from kafka_pipeline.audit.findings import UNREADABLE, AuditFinding, AuditFindings
from kafka_pipeline.audit.indexes import SUFFIX, Held, Snapshot, check_epochs, read_beside, snapshots_of
from kafka_pipeline.audit.producers import (
    ABORT,
    COMMIT,
    EVENT,
    PLAIN,
    TRANSACTIONAL,
    UNREAD,
    AbortedRange,
    Events,
    Producers,
    event_array,
    last_sequences,
)
from kafka_pipeline.audit.topics import CHECKPOINT, check_snapshot, check_snapshots, check_topic_records
from kafka_pipeline.reading import READ_WINDOW, ByteSource, window_bytes
from kafka_pipeline.segments.files import Stretch, Table, open_segment, stretch_source
from kafka_pipeline.segments.listing import SegmentFile, local_path
from kafka_records.attributes import COMPRESSION_CODEC_MASK
from kafka_records.constants import COMPRESSIONS
from kafka_records.control import TRANSACTION_MARKERS, decode_key, decode_value
from kafka_records.errors import RecordFormatError
from kafka_records.internal_topics import CLUSTER_METADATA, topic_of_path

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


EPOCHS: Final = "leader-epoch-checkpoint"


class Summary(msgspec.Struct, kw_only=True):
    """Result of one stretch.

    Attributes:
        path, start, end: which.
        read: where reading ended; later bytes were not read.
        listed, found: findings, and how many there are.
        counts: what is in it.
        first: its first entry.
        reached: how far it goes.
        heads, known: of producers: their first events, and their last (`EVENT`).
        aborted: transactions that were aborted in it.
        aborts: those that the index has, if there is one: producer, first offset, last offset.
        snapshots: of producers, at its first offset; of the last segment's, at higher ones, too.
        beside: suffixes of files that are there.
    """

    path: str
    start: int
    end: int
    read: int
    listed: list[AuditFinding]
    found: dict[str, int]
    counts: ContentCounts
    first: First | None
    reached: LogPosition
    heads: bytes
    known: bytes
    aborted: list[AbortedRange]
    aborts: list[tuple[int, int, int]] | None
    snapshots: list[Snapshot]
    beside: list[str]


class AuditTask(msgspec.Struct, frozen=True):
    """A stretch of a segment of *size* bytes; *last* if it is the last segment of its log.

    With *growing* the end of a last segment is no finding: a broker may be writing there.
    """

    stretch: Stretch
    size: int
    last: bool
    growing: bool = False


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """How stretches are judged.

    Attributes:
        now_ms: the time that timestamps are compared with.
        contiguous: whether missing offsets are errors.
        kernels: whether compiled kernels read the entries; otherwise the reference does, which gives the same.
        quick: how much the reference reads; None for everything.
    """

    now_ms: int
    contiguous: bool = False
    kernels: bool = True
    quick: QuickLimits | None = None


def judge_stretch(
    stretch: Stretch, size: int, *, last: bool, now_ms: int, contiguous: bool = False, kernels: bool = True
) -> Summary:
    """Judge a stretch of a segment of *size* bytes; *last* says that it is the log's last segment."""
    return judge_task(AuditTask(stretch, size, last), Judgement(now_ms=now_ms, contiguous=contiguous, kernels=kernels))


def judge_task(task: AuditTask, how: Judgement) -> Summary:
    """Judge a stretch of a segment; a segment that cannot be read, or is not there any more, is a finding.

    Raises:
        MoreThanQuick: there is more in it than the reference is to read.
    """
    try:
        with open_segment(task.stretch.path) as source:
            return _Judge(task, how).judge(stretch_source(source, task.size))
    except OSError as error:
        return _Judge(task, how).unread(error)


class _Judge:
    def __init__(self, task: AuditTask, how: Judgement) -> None:
        stretch = task.stretch
        self.stretch, self.size, self.last, self.growing, self.how = stretch, task.size, task.last, task.growing, how
        self.found = AuditFindings()
        self.base_offset = SegmentFile(stretch.path, task.size).base_offset
        self.order = Order(self.found, "gap_in_contiguous" if how.contiguous else "gap")
        self.producers = Producers(self.found, [stretch.path])
        self.counts = ContentCounts()
        self.snapshots: list[Snapshot] = []
        self.path = Path(stretch.path)
        self.topic = topic_of_path(stretch.path)
        self.broken = False
        self.framing: AuditFinding | None = None

    def judge(self, source: ByteSource) -> Summary:
        """All of it."""
        beside = read_beside(self.path, self.found if self.stretch.start == 0 else AuditFindings(0))
        present = list(beside.present) + self._others()
        base = self.base_offset
        held = None if base is None else Held(beside, self.path, base, self.found, self.stretch.start)
        read = self._chunks(source, held)
        if read < self.stretch.end:
            self._tail(source, read)
        if held is not None and self.stretch.end == self.size and not self.broken:
            # A broker may have written more batches, and index entries for them.
            held.finish(max(read, self._size_now()) if self.last else read)
        return self._summary(read, present, beside.aborts)

    def unread(self, error: OSError) -> Summary:
        """The summary of a segment that cannot be read."""
        # A dangling link is there, and what it names is not.
        gone = isinstance(error, FileNotFoundError) and not self.path.is_symlink()
        self.found.add("gone" if gone else "not_read", self.stretch.path, -1, -1, error.strerror or str(error))
        return self._summary(self.stretch.start, [], None)

    def _size_now(self) -> int:
        """The size of the segment if it has grown since it was listed; else 0."""
        here = local_path(self.stretch.path)
        with suppress(OSError):
            size = here.stat().st_size if here is not None else 0
            return size if size > self.size else 0
        return 0

    def _reading(self, source: ByteSource) -> Generator[Looked, None, tuple[int, bool]]:
        """The entries of the stretch, by the reader that was chosen."""
        if not self.how.kernels:
            contents = self.topic is not None
            return looked_by_reference(source, self.stretch.start, self.stretch.end, self.how.quick, contents=contents)
        # Importing Numba and Arrow takes a second, and they are not installed everywhere.
        from kafka_pipeline.audit.kernels import read_looked

        return read_looked(source, self.stretch.start, self.stretch.end)

    def _chunks(self, source: ByteSource, held: Held | None) -> int:
        """Look at all entries; where reading ended."""
        reading = self._reading(source)
        while True:
            try:
                looked = next(reading)
            except StopIteration as end:
                read, self.broken = end.value
                return int(read)
            self._errors(looked)
            entries.check_entries(looked, self.found, self.stretch.path, self.base_offset, self.how.now_ms)
            missing = self.order.follow(looked, self.stretch.path)
            self.producers.follow(self._events(looked, missing))
            self.counts.add(count_contents(looked))
            if held is not None:
                held.follow(looked)
            if self.topic is not None:
                check_topic_records(looked, self.topic, self.found, self.stretch.path)

    def _errors(self, looked: Looked) -> None:
        for broken in looked.broken:
            said = f"{broken.kind}: {broken.path}: {broken.message} (byte {broken.offset})"
            finding = AuditFinding(UNREADABLE, broken.rule, "error", self.stretch.path, broken.position, -1, said)
            if broken.size is None:
                self.framing = finding
            else:
                self.found.put(finding)

    def _tail(self, source: ByteSource, read: int) -> None:
        """Add findings for the bytes after the last complete entry."""
        left = self.stretch.end - read
        if self.last and self.growing and (self.framing is None or is_zero(source, read, self.stretch.end)):
            self.stretch = msgspec.structs.replace(self.stretch, end=read)
        elif self.last and is_zero(source, read, self.stretch.end):
            self.found.add("preallocated", self.stretch.path, read, -1, f"{left:,} bytes")
        elif self.framing is not None:
            said = f"{self.framing.message}; {left:,} bytes from here on were not looked at"
            self.found.put(msgspec.structs.replace(self.framing, message=said))
        else:
            kind = "active_tail" if self.last else "tail"
            self.found.add(kind, self.stretch.path, read, -1, f"{left:,} bytes, and the entry is larger")

    def _events(self, looked: Looked, missing: Numbers) -> Events:
        """The batches and markers of producers."""
        at = np.flatnonzero(looked.modern & (looked.producer >= 0))
        events = np.zeros(len(at), EVENT)
        if not len(at):
            return events
        base, sequence = looked.base[at], looked.sequence[at]
        events["producer"], events["epoch"] = looked.producer[at], looked.epoch[at]
        events["base_sequence"], events["last_sequence"] = sequence, last_sequences(sequence, looked.last[at] - base)
        events["base"], events["last"], events["first"] = base, looked.last[at], base
        events["time"] = events["first_time"] = looked.newest[at]
        events["position"], events["missing"], events["coordinator"] = looked.position[at], missing[at], -1
        events["kind"] = np.where(looked.transactional[at], TRANSACTIONAL, PLAIN)
        self._markers(looked, at, events)
        return events

    def _markers(self, looked: Looked, at: Numbers, events: Events) -> None:
        """Read the markers among the entries *at*; one without a record was cleaned (TXN-18)."""
        control = np.flatnonzero(looked.control[at])
        events["kind"][control] = UNREAD
        marks = control[looked.records[at[control]] > 0]
        if not len(marks):
            return
        for mark, row in zip(marks.tolist(), looked.starts[at[marks]].tolist(), strict=True):
            kind, coordinator, wrong = marker_event(*looked.key_and_value(row))
            events["kind"][mark], events["coordinator"][mark] = kind, coordinator
            if wrong:
                place = int(at[mark])
                position, offset = int(looked.position[place]), int(looked.base[place])
                self.found.add("marker_broken", self.stretch.path, position, offset, wrong)

    def _others(self) -> list[str]:
        """Look at the files that belong to the whole log, or to no index."""
        if self.stretch.start:
            return []
        snapshot, epochs = self.path.with_suffix(SUFFIX), self.path.with_name(EPOCHS)
        present = [SUFFIX] if snapshot.exists() else []
        self.snapshots = snapshots_of(self.path, self.found, last=self.last)
        if self.last and epochs.exists():
            check_epochs(epochs, self.found)
            present.append(EPOCHS)
        if self.last and self.topic == CLUSTER_METADATA:
            present += self._metadata_snapshots()
        return present

    def _metadata_snapshots(self) -> list[str]:
        """Judge the snapshots of KRaft beside the log, or the ends of the one that is audited itself."""
        if self.path.suffix != CHECKPOINT:
            return check_snapshots(self.path.parent, CLUSTER_METADATA, self.found)
        ends = AuditFindings()
        check_snapshot(self.path, CLUSTER_METADATA, ends)
        for finding in ends.listed:
            # The entries and records are judged as those of any segment are.
            if finding.kind == "metadata_snapshot":
                self.found.put(finding)
        return []

    def _summary(self, read: int, present: list[str], aborts: Table | None) -> Summary:
        return Summary(
            path=self.stretch.path,
            start=self.stretch.start,
            end=self.stretch.end,
            read=read,
            listed=self.found.listed,
            found=dict(sorted(self.found.counts.items())),
            counts=self.counts,
            first=self.order.first,
            reached=self.order.reached,
            heads=event_array(row for _, head in sorted(self.producers.heads.items()) for row in head).tobytes(),
            known=b"".join(rows.tobytes() for _, rows in sorted(self.producers.known.items())),
            aborted=self.producers.aborted,
            aborts=None
            if aborts is None
            else [(int(row["producer"]), int(row["first"]), int(row["last"])) for row in aborts],
            snapshots=self.snapshots,
            beside=present,
        )


def is_zero(source: ByteSource, start: int, end: int) -> bool:
    """Whether all bytes from *start* to *end* are zero."""
    for at in range(start, end, READ_WINDOW):
        if window_bytes(source.window(at, min(at + READ_WINDOW, end))).strip(b"\0"):
            return False
    return True


@lru_cache(maxsize=4096)
def marker_event(key: bytes | None, value: bytes | None) -> tuple[int, int, str]:
    """The kind of event that a marker is, its coordinator epoch, and what is wrong with it (SEG-13)."""
    try:
        _, type_ = decode_key(key)
        if type_ not in TRANSACTION_MARKERS:
            return UNREAD, -1, f"its type is {type_} (TXN-20)"
        fields = decode_value(str(type_), value)
    except RecordFormatError as error:
        return UNREAD, -1, f"{error.message} ({error.rule})"
    return (ABORT if type_ == "abort" else COMMIT), int(fields["coordinator_epoch"]), ""
