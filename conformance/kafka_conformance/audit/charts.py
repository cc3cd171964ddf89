"""What is in a log, as SVG: how much there is over time, how large entries are, and where findings lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

from kafka_corpus.audit.counting import NO_HOUR
from kafka_corpus.audit.joining import LogReport

WIDTH, HEIGHT = 640, 220
LEFT, RIGHT, TOP, BOTTOM = 78, 10, 12, 40
MOST_BARS: Final = 48
STRIP: Final = 26
# Segments in a strip, and marks in one segment; beyond that they would not be seen.
MOST_SEGMENTS, MOST_MARKS = 200, 400


class Bar(NamedTuple):
    """A bar: what stands below it, what is said of it, and how high it is."""

    label: str
    words: str
    value: int


def bars(given: Sequence[Bar], title: str) -> str:
    """The bars, from 0 to the highest, whose number stands beside it."""
    most = max((bar.value for bar in given), default=0) or 1
    step = (WIDTH - LEFT - RIGHT) / max(len(given), 1)
    floor = HEIGHT - BOTTOM
    rows = [f'<svg class="bars" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">']
    for value in dict.fromkeys((most, most // 2, 0)):
        y = floor - value / most * (floor - TOP)
        rows.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        rows.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 6:.1f}" text-anchor="end">{short(value)}</text>')
    every = max(1, -(-len(given) // 6))
    for number, bar in enumerate(given):
        height, x = bar.value / most * (floor - TOP), LEFT + number * step
        if bar.value:
            rows.append(
                f'<rect class="bar" x="{x + step * 0.08:.1f}" y="{floor - max(height, 1.5):.1f}" '
                f'width="{step * 0.84:.1f}" height="{max(height, 1.5):.1f}"><title>{escape(bar.words)}</title></rect>'
            )
        if number % every == 0:
            anchor = "start" if number == 0 and len(given) > 1 else "middle"
            at = x if anchor == "start" else x + step / 2
            rows.append(
                f'<text class="tick" x="{at:.1f}" y="{HEIGHT - 12}" text-anchor="{anchor}">{escape(bar.label)}</text>'
            )
    return "\n".join((*rows, "</svg>"))


def short(number: float) -> str:
    """A number in four characters or so.

    >>> short(950), short(12_400), short(3_000_000), short(0.5)
    ('950', '12.4k', '3M', '0.5')
    """
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}".rstrip("0").rstrip(".") + letter
    return f"{number:.1f}".rstrip("0").rstrip(".") or "0"


def over_time(hours: Mapping[str, int]) -> list[Bar]:
    """Records by time: hours, or as many together as it takes."""
    known = sorted((int(hour), number) for hour, number in hours.items() if hour != NO_HOUR)
    if not known:
        return []
    first, last = known[0][0], known[-1][0]
    width = -(-(last - first + 1) // MOST_BARS)
    totals = [0] * ((last - first) // width + 1)
    for hour, number in known:
        totals[(hour - first) // width] += number
    form = "%H:%M" if last - first < 48 else "%m-%d" if last - first < 24 * 300 else "%Y-%m"
    made = []
    for at, total in enumerate(totals):
        start = datetime.fromtimestamp((first + at * width) * 3600, UTC)
        hours_said = f"{width} hour{'s' if width > 1 else ''}"
        made.append(Bar(f"{start:{form}}", f"{start:%Y-%m-%d %H:%M} UTC, {hours_said}: {total:,} records", total))
    return made


def by_power(numbers: Mapping[str, int], what: str) -> list[Bar]:
    """Entries by the power of two that something of theirs is below."""
    known = {int(power): number for power, number in numbers.items()}
    if not known:
        return []
    return [
        Bar(
            short(2 ** max(power - 1, 0) if power else 0), _range(power, what, known.get(power, 0)), known.get(power, 0)
        )
        for power in range(min(known), max(known) + 1)
    ]


def _range(power: int, what: str, number: int) -> str:
    least, most = (2 ** (power - 1), 2**power - 1) if power else (0, 0)
    return (
        f"{least:,} to {most:,} {what}: {number:,} entries" if most > least else f"{least:,} {what}: {number:,} entries"
    )


def strip(log: LogReport) -> str:
    """The log from end to end, a box for each segment, a mark where each finding is."""
    shown = log.segments[:MOST_SEGMENTS]
    total = sum(segment.bytes for segment in shown) or 1
    gap = 2.0 if len(shown) > 1 else 0.0
    room = WIDTH - gap * (len(shown) - 1)
    label = f"{len(log.segments)} segments from end to end, with marks where findings are"
    rows = [
        f'<svg class="strip" viewBox="0 0 {WIDTH} {STRIP}" preserveAspectRatio="none" role="img" aria-label="{label}">'
    ]
    x, places = 0.0, {}
    for segment in shown:
        width = room * segment.bytes / total
        read = width * segment.read / (segment.bytes or 1)
        rows.append(f'<rect class="read-part" x="{x:.2f}" y="4" width="{read:.2f}" height="{STRIP - 8}"/>')
        if segment.read < segment.bytes:
            left = f'x="{x + read:.2f}" y="4" width="{width - read:.2f}"'
            rows.append(f'<rect class="unread-part" {left} height="{STRIP - 8}"/>')
        places[segment.path] = (x, width / (segment.bytes or 1))
        x += width + gap
    marks = {}
    for finding in sorted(log.listed, key=lambda each: each.severity, reverse=True):
        if finding.position >= 0 and finding.file in places:
            start, scale = places[finding.file]
            marks[f"{start + finding.position * scale:.1f}"] = finding.severity
    for at, severity in list(marks.items())[-MOST_MARKS:]:
        rows.append(f'<rect class="mark m-{severity}" x="{at}" y="0" width="2.5" height="{STRIP}"/>')
    return "\n".join((*rows, "</svg>"))
