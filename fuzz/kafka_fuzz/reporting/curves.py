"""Growth over CPU-seconds as SVG: a line for each target, with its last value written beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from kafka_fuzz.reporting.night import Point

WIDTH: Final = 640
HEIGHT: Final = 240
LEFT, RIGHT, TOP, BOTTOM = 78, 14, 14, 40
# Colours that the page's style has; more targets begin again.
COLOURS: Final = 8
TICKS: Final = 4
# Axes that end before this have a decimal.
FINE: Final = 20


def chart(curves: Mapping[str, Sequence[Point]], title: str) -> str:
    """The picture; *curves* by target, each from its beginning."""
    most_x = max((points[-1].seconds for points in curves.values()), default=0.0) or 1.0
    most_y = nice(max((points[-1].value for points in curves.values()), default=0) or 1)
    rows = [
        f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)} over CPU-seconds">',
        *_axes(most_x, most_y),
    ]
    for number, points in enumerate(curves.values()):
        placed = " ".join(f"{_x(point.seconds, most_x):.1f},{_y(point.value, most_y):.1f}" for point in points)
        rows.append(f'<polyline class="line c{number % COLOURS}" points="{placed}"/>')
        rows += [
            f'<circle class="dot c{number % COLOURS}" cx="{_x(each.seconds, most_x):.1f}" '
            f'cy="{_y(each.value, most_y):.1f}" r="2.5"/>'
            for each in points[-1:]
        ]
    return "\n".join((*rows, "</svg>"))


def nice(value: int) -> int:
    """The next number that divides well into four.

    >>> nice(27), nice(1319)
    (40, 1600)
    """
    step = 4
    while step * 10 <= value:
        step *= 10
    return next(step * times for times in (1, 2, 3, 4, 5, 10) if step * times >= value)


def _x(seconds: float, most: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * seconds / most


def _y(value: float, most: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most


def _axes(most_x: float, most_y: int) -> Iterator[str]:
    for tick in range(TICKS + 1):
        value = most_y * tick // TICKS
        at = _y(value, most_y)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{value:,}</text>'
        seconds = most_x * tick / TICKS
        anchor = "end" if tick == TICKS else "middle"
        yield (
            f'<text class="tick" x="{_x(seconds, most_x):.1f}" y="{HEIGHT - 12}" text-anchor="{anchor}">'
            f"{seconds:,.{0 if most_x >= FINE else 1}f} s</text>"
        )
