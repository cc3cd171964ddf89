"""Stretches of segments: each begins and ends between entries, so that each can be read alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from kafka_pipeline.reading import ALL, Bounds, ByteSource
from kafka_pipeline.segments.files import indexed, open_segment
from kafka_pipeline.segments.listing import SegmentFile, local_path

SPLIT: Final = 256 * 1024 * 1024
"""Bytes in one task: a task of Spark's costs a tenth of a second however little it does."""


# Bytes in which entries are looked for when a segment is cut: so many stay in a processor's cache.
CUT_WINDOW: Final = 1024 * 1024
# A segment is cut no further where an entry is larger.
LARGEST_SKIPPED: Final = 64 * CUT_WINDOW


class Stretch(msgspec.Struct, frozen=True, order=True):
    """Bytes of a segment from one entry's start to another's, or to the end."""

    path: str
    start: int
    end: int


def split_segment(segment: SegmentFile, most: int = SPLIT) -> list[Stretch]:
    """The whole segment in stretches of about *most* bytes, found by the headers of its entries.

    The last one reaches to the end, whatever is there, and so does the first
    where headers cannot be followed.  On another machine that would mean reading
    all of it: there the segment's index says where entries begin, and without an
    index it is left whole.

    Raises:
        OSError: it cannot be read.
    """
    if segment.size <= most:
        return [Stretch(segment.path, 0, segment.size)]
    with open_segment(segment.path) as source:
        is_here = local_path(segment.path) is not None
        cuts = list(boundaries(source, 0, segment.size, most) if is_here else indexed(source, segment, most))
    starts = [0, *cuts]
    return [Stretch(segment.path, start, end) for start, end in zip(starts, [*cuts, segment.size], strict=True)]


def boundaries(source: ByteSource, start: int, end: int, most: int) -> Iterator[int]:
    """Where to cut from *start* to *end*: after about *most* bytes, between entries, with some on both sides."""
    from kafka_pipeline.columnar.scan import runs_in

    at, cut, window = start, start, CUT_WINDOW
    while at < end:
        runs = runs_in(source.window(at, min(at + window, end)), most=1)
        if runs.broken or (not runs.done and (window >= LARGEST_SKIPPED or at + window >= end)):
            return
        window = CUT_WINDOW if runs.done else 8 * window
        for _, stop in runs.places:
            if at + stop - cut >= most and at + stop < end:
                cut = at + stop
                yield cut
        at += runs.done


def whole_entries(source: ByteSource, start: int, end: int) -> int:
    """Where the last entry from *start* on that is whole by *end* ends; *end* if what is there cannot be followed."""
    from kafka_pipeline.columnar.scan import WINDOW, runs_in

    at = start
    window = WINDOW
    while at < end:
        stop = min(at + window, end)
        runs = runs_in(source.window(at, stop))
        if runs.broken:
            return end
        if not runs.done and stop == end:
            return at
        at, window = at + runs.done, WINDOW if runs.done else 2 * window
    return at


def pack_stretches(stretches: Iterable[Stretch], most: int = SPLIT) -> list[list[Stretch]]:
    """The same stretches in tasks of about *most* bytes, in order."""
    tasks: list[list[Stretch]] = []
    room = 0
    for stretch in stretches:
        size = stretch.end - stretch.start
        if not tasks or size > room:
            tasks.append([])
            room = most
        tasks[-1].append(stretch)
        room -= size
    return tasks


def among(segments: Sequence[SegmentFile], bounds: Bounds = ALL) -> list[SegmentFile]:
    """Those of *segments* that may hold offsets within *bounds*, by their names (SEG-01)."""
    kept = []
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        base = segment.base_offset
        ends = following.base_offset if following is not None and following.log == segment.log else None
        if base is not None and base > bounds.last_offset:
            continue
        if base is not None and ends is not None and ends <= bounds.first_offset:
            continue
        kept.append(segment)
    return kept
