"""The profile `model`: a valid log in which one thing, and no other, is a lie.

A cell says which lie, about what, and where; `for_cell` makes an input for any
of them, so that what a campaign has not reached can be asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Final, TypeVar

from kafka_fuzz.cells import NO_LIE, POSITIONS, Cell, Position
from kafka_fuzz.mutate.bases import CODECS, NUMBERS, Base, axes_of, base_of, draw_base
from kafka_fuzz.mutate.lies import LIES, Lie, Spot, Told
from kafka_fuzz.mutate.mutant import Expected, Mutant
from kafka_records import Batch
from kafka_records.constants import Compression

# One of ten inputs holds no lie: a reader that refuses those is wrong too.
TRUTHS: Final = 0.1
# Most entries stand alone; what a lie does to its neighbours is asked less often.
ALONE: Final = 0.5
PLACES: Final[tuple[tuple[int, Compression], ...]] = tuple(
    (magic, codec) for magic, codecs in CODECS.items() for codec in codecs
)
T = TypeVar("T")
Row = tuple[int, Compression, str, str]  # magic, codec, field, variant


@cache
def told_rows() -> tuple[tuple[Lie, tuple[Row, ...]], ...]:
    """Each lie with everything that it can be told about."""
    return tuple((lie, tuple(rows_of(lie))) for lie in LIES.values())


def rows_of(lie: Lie) -> Iterator[Row]:
    """Magic, codec, field and variant."""
    for magic, codec in lie.where:
        for field in lie.fields:
            for variant in lie.variants:
                yield magic, codec, field, variant


@cache
def true_rows() -> tuple[Row, ...]:
    """Everything that an entry without a lie can be."""
    return tuple(
        (magic, codec, axis, level) for magic, codec in PLACES for axis, level in axes_of(magic, codec, filled=False)
    )


def all_cells() -> Iterator[Cell]:
    """Every cell that `model` reaches."""
    for lie, rows in told_rows():
        for position in lie.positions:
            for magic, codec, field, variant in rows:
                yield Cell(magic, codec, field, variant, lie.name, lie.nested(codec), position)
    for magic, codec, field, variant in true_rows():
        for position in POSITIONS:
            yield Cell(magic, codec, field, variant, NO_LIE, "entry", position)


class Deck:
    """Lies in an order in which each comes once before any comes again, so that none is missed for long."""

    def __init__(self) -> None:
        self._left: list[tuple[Lie, tuple[Row, ...]]] = []

    def draw(self, rng: Random) -> tuple[Lie, tuple[Row, ...]]:
        """The next one, with its rows."""
        if not self._left:
            self._left = list(told_rows())
            rng.shuffle(self._left)
        return self._left.pop()


def mutate_model(rng: Random, deck: Deck | None = None) -> Mutant:
    """An input of any cell; lies are equally likely, whatever the number of their cells, or come as *deck* has them."""
    if rng.random() < TRUTHS:
        magic, codec, field, variant = pick(rng, true_rows())
        return truth(rng, Cell(magic, codec, field, variant, NO_LIE, "entry", draw_position(rng, POSITIONS)))
    lie, rows = deck.draw(rng) if deck else pick(rng, told_rows())
    magic, codec, field, variant = pick(rng, rows)
    position = draw_position(rng, lie.positions)
    return told(rng, lie, Cell(magic, codec, field, variant, lie.name, lie.nested(codec), position))


def for_cell(rng: Random, cell: Cell) -> Mutant:
    """An input of *cell*, one of `all_cells`; KeyError for a lie that there is not."""
    return truth(rng, cell) if cell.lie == NO_LIE else told(rng, LIES[cell.lie], cell)


def pick(rng: Random, items: tuple[T, ...]) -> T:
    """One of *items*; `Random.choice` takes four times as long."""
    return items[int(rng.random() * len(items))]


def draw_position(rng: Random, positions: tuple[Position, ...]) -> Position:
    """One of *positions*, mostly `only`."""
    if positions[0] == "only" and rng.random() < ALONE:
        return "only"
    return pick(rng, positions)


def truth(rng: Random, cell: Cell) -> Mutant:
    """A log without a lie, one of whose entries has the shape that *cell* says."""
    codec: Compression = cell.codec  # type: ignore[assignment]  # all_cells has no others
    base = base_of(cell.magic, codec, cell.field, cell.boundary, int(rng.random() * NUMBERS))
    before, after = neighbours(rng, cell)
    batches = (*(each.batch for each in before), base.batch, *(each.batch for each in after))
    data = b"".join((*(each.data for each in before), base.data, *(each.data for each in after)))
    expected = Expected(verdict="valid", batches=batches)
    return Mutant(data, "model", (NO_LIE, f"{cell.field} {cell.boundary}"), expected, cell)


def told(rng: Random, lie: Lie, cell: Cell) -> Mutant:
    """A log with *lie* told about one of its entries."""
    codec: Compression = cell.codec  # type: ignore[assignment]  # all_cells has no others
    base = draw_base(rng, cell.magic, codec)
    before, after = neighbours(rng, cell)
    following = b"".join([each.data for each in after])
    spoken = lie.tell(Spot(base, rng, cell.field, lie.variants[cell.boundary], following))
    data = spoken if isinstance(spoken, bytes) else spoken.data
    whole = b"".join((*(each.data for each in before), data, following))
    labels = (lie.name, f"{cell.field} {cell.boundary}")
    return Mutant(whole, "model", labels, verdict_of(lie, spoken, base, before, after), cell)


def verdict_of(
    lie: Lie, spoken: Told | bytes, base: Base, before: tuple[Base, ...], after: tuple[Base, ...]
) -> Expected:
    """The right answer: what lies before the lie is read, what lies behind only if the lie is no error."""
    batches: tuple[Batch, ...] = tuple([each.batch for each in before])
    kinds = lie.kinds
    if isinstance(spoken, Told):
        batches, kinds = batches + spoken.batches, spoken.kinds or kinds
    elif lie.verdict != "invalid":
        batches = (*batches, base.batch)
    if lie.verdict == "invalid":
        return Expected(verdict="invalid", batches=batches, kinds=kinds)
    if not lie.swallows:
        batches += tuple([each.batch for each in after])
    return Expected(verdict=lie.verdict, batches=batches, kinds=kinds)


def neighbours(rng: Random, cell: Cell) -> tuple[tuple[Base, ...], tuple[Base, ...]]:
    """The entries before and behind, of any format."""
    match cell.position:
        case "first":
            return (), some(rng)
        case "middle":
            return some(rng), some(rng)
        case "last":
            return some(rng), ()
    return (), ()


def some(rng: Random) -> tuple[Base, ...]:
    """One entry, or two."""
    count = 1 if rng.random() < 0.8 else 2
    return tuple([draw_base(rng, *pick(rng, PLACES), filled=False) for _ in range(count)])
