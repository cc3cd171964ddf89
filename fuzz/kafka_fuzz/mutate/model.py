"""The profile `model`: a valid log in which one thing, and no other, is a lie.

A cell says which lie, about what, and where; `for_cell` makes an input for any
of them, so that what a campaign has not reached can be asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import Final, NamedTuple, TypeVar

from kafka_fuzz.mutate.entries import CODECS, NUMBERS, BaseEntry, axes_of, base_entry, draw_base
from kafka_fuzz.mutate.faults import FAULTS, Fault, FaultResult, FaultSite
from kafka_fuzz.mutate.mutant import NO_FAULT, POSITIONS, Expected, Mutant, MutantCell, Position
from kafka_records import Batch
from kafka_records.constants import Compression

# One of ten inputs holds no lie: a reader that refuses those is wrong too.
VALID_SHARE: Final = 0.1
# Most entries stand alone; what a lie does to its neighbours is asked less often.
ALONE: Final = 0.5
# Of the entries that come before a lie, so many are odd themselves, though no error: a reader may have gone astray
# before it comes to what is wrong.
ODD: Final = 0.75
# Of those, so many are taken from what has led this reader astray before.
ASTRAY: Final = 0.7
AFTER_ODDITY: Final = "behind an oddity"
PLACES: Final[tuple[tuple[int, Compression], ...]] = tuple(
    (magic, codec) for magic, codecs in CODECS.items() for codec in codecs
)
NOT_FIRST: Final = ("middle", "last")
T = TypeVar("T")
Row = tuple[int, Compression, str, str]  # magic, codec, field, variant


@cache
def fault_rows() -> tuple[tuple[Fault, tuple[Row, ...]], ...]:
    """Each lie with everything that it can be told about."""
    return tuple((lie, tuple(rows_of_fault(lie))) for lie in FAULTS.values())


def rows_of_fault(lie: Fault) -> Iterator[Row]:
    """Magic, codec, field and variant."""
    for magic, codec in lie.where:
        for field in lie.fields:
            for variant in lie.variants:
                yield magic, codec, field, variant


@cache
def valid_rows() -> tuple[Row, ...]:
    """Everything that an entry without a lie can be."""
    return tuple(
        (magic, codec, axis, level) for magic, codec in PLACES for axis, level in axes_of(magic, codec, filled=False)
    )


def all_cells() -> Iterator[MutantCell]:
    """Every cell that `model` reaches."""
    for lie, rows in fault_rows():
        for position in lie.positions:
            for magic, codec, field, variant in rows:
                yield MutantCell(magic, codec, field, variant, lie.name, lie.nested(codec), position)
    for magic, codec, field, variant in valid_rows():
        for position in POSITIONS:
            yield MutantCell(magic, codec, field, variant, NO_FAULT, "entry", position)


@cache
def reachable() -> frozenset[MutantCell]:
    """The same as a set, which never changes: what a report counts against."""
    return frozenset(all_cells())


class Deck:
    """Lies in an order in which each comes once before any comes again, and so do the rows of each: none is missed
    for long.

    Attributes:
        astray: what is valid and was read as something else.
    """

    def __init__(self) -> None:
        self.astray: list[tuple[Fault, Row]] = []
        self._lies: list[tuple[Fault, tuple[Row, ...]]] = []
        self._rows: dict[str, list[Row]] = {}

    def learn(self, mutant: Mutant) -> None:
        """Take note of an input that was read, and as something else."""
        cell = mutant.cell
        lie = FAULTS.get(cell.lie)
        if lie is None or mutant.labels[0] == AFTER_ODDITY or not is_oddity(lie):
            return
        row: Row = (cell.magic, cell.codec, cell.field, cell.boundary)  # type: ignore[assignment]  # it was a row
        if (lie, row) not in self.astray:
            self.astray.append((lie, row))

    def draw(self, rng: Random) -> tuple[Fault, Row]:
        """The next one, and what it is to be told about."""
        if not self._lies:
            self._lies = shuffled(rng, fault_rows())
        lie, rows = self._lies.pop()
        left = self._rows.get(lie.name)
        if left is None:
            # The tables have the farthest last: told first, it is what most readers cannot bear.
            farthest = list(lie.variants)[-1]
            left = sorted(shuffled(rng, rows), key=lambda row: row[3] == farthest)
        self._rows[lie.name] = left = left or shuffled(rng, rows)
        return lie, left.pop()


def shuffled(rng: Random, items: Sequence[T]) -> list[T]:
    """*items* in any order."""
    found = list(items)
    rng.shuffle(found)
    return found


def mutate_model(rng: Random, deck: Deck | None = None) -> Mutant:
    """An input of any cell; lies are equally likely, whatever the number of their cells, or come as *deck* has them."""
    if rng.random() < VALID_SHARE:
        magic, codec, field, variant = pick(rng, valid_rows())
        return without_fault(
            rng, MutantCell(magic, codec, field, variant, NO_FAULT, "entry", draw_position(rng, POSITIONS))
        )
    lie, (magic, codec, field, variant) = deck.draw(rng) if deck else draw_row(rng)
    position = draw_position(rng, lie.positions)
    cell = MutantCell(magic, codec, field, variant, lie.name, lie.nested(codec), position)
    if position not in NOT_FIRST or rng.random() >= ODD:
        return with_fault(rng, lie, cell)
    return with_fault(rng, lie, cell, draw_oddity(rng, deck))


def draw_row(rng: Random) -> tuple[Fault, Row]:
    """Any lie, and any of its rows."""
    lie, rows = pick(rng, fault_rows())
    return lie, pick(rng, rows)


def for_cell(rng: Random, cell: MutantCell) -> Mutant:
    """An input of *cell*, one of `all_cells`; KeyError for a lie that there is not."""
    return without_fault(rng, cell) if cell.lie == NO_FAULT else with_fault(rng, FAULTS[cell.lie], cell)


def pick(rng: Random, items: tuple[T, ...]) -> T:
    """One of *items*; `Random.choice` takes four times as long."""
    return items[int(rng.random() * len(items))]


def draw_position(rng: Random, positions: tuple[Position, ...]) -> Position:
    """One of *positions*, mostly `only`."""
    if positions[0] == "only" and rng.random() < ALONE:
        return "only"
    return pick(rng, positions)


def without_fault(rng: Random, cell: MutantCell) -> Mutant:
    """A log without a lie, one of whose entries has the shape that *cell* says."""
    codec: Compression = cell.codec  # type: ignore[assignment]  # all_cells has no others
    base = base_entry(cell.magic, codec, cell.field, cell.boundary, int(rng.random() * NUMBERS))
    before, after = neighbours(rng, cell)
    batches = (*(each.batch for each in before), base.batch, *(each.batch for each in after))
    data = b"".join((*(each.data for each in before), base.data, *(each.data for each in after)))
    expected = Expected(verdict="valid", batches=batches)
    return Mutant(data, "model", (NO_FAULT, f"{cell.field} {cell.boundary}"), expected, cell)


class Oddity(NamedTuple):
    """An entry that is odd and valid: what about it, its bytes, and what they are read as."""

    label: str
    data: bytes
    batches: tuple[Batch, ...]


def with_fault(rng: Random, lie: Fault, cell: MutantCell, odd: Oddity | None = None) -> Mutant:
    """A log with *lie* told about one of its entries; *odd* comes before it in place of usual ones.

    What is odd is valid, so there is still one lie; whose fault an answer is, it does not say any more.
    """
    codec: Compression = cell.codec  # type: ignore[assignment]  # all_cells has no others
    base = draw_base(rng, cell.magic, codec)
    before, after = neighbours(rng, cell)
    start, batches = b"".join([each.data for each in before]), tuple([each.batch for each in before])
    labels: tuple[str, ...] = (lie.name, f"{cell.field} {cell.boundary}")
    if odd is not None:
        start, batches, labels = odd.data, odd.batches, (AFTER_ODDITY, *labels, odd.label)
    following = b"".join([each.data for each in after])
    spoken = lie.tell(FaultSite(base, rng, cell.field, lie.variants[cell.boundary], following, len(start)))
    data = spoken if isinstance(spoken, bytes) else spoken.data
    whole = b"".join((start, data, following))
    return Mutant(whole, "model", labels, verdict_of(lie, spoken, base, batches, after), cell)


def is_oddity(lie: Fault) -> bool:
    """Whether it is no error, whatever stands around it."""
    return lie.verdict == "valid" and lie.positions == POSITIONS and not lie.swallows


@cache
def odd_rows() -> tuple[tuple[Fault, tuple[Row, ...]], ...]:
    """Such lies, with their rows."""
    return tuple((lie, rows) for lie, rows in fault_rows() if is_oddity(lie))


def draw_oddity(rng: Random, deck: Deck | None = None) -> Oddity:
    """Any, or one that has led a reader astray, as *deck* knows."""
    if deck and deck.astray and rng.random() < ASTRAY:
        lie, (magic, codec, field, variant) = deck.astray[int(rng.random() * len(deck.astray))]
    else:
        lie, rows = pick(rng, odd_rows())
        magic, codec, field, variant = pick(rng, rows)
    base = draw_base(rng, magic, codec)
    spoken = lie.tell(FaultSite(base, rng, field, lie.variants[variant], b""))
    return Oddity(lie.name, *spoken[:2]) if isinstance(spoken, FaultResult) else Oddity(lie.name, spoken, (base.batch,))


def verdict_of(
    lie: Fault, spoken: FaultResult | bytes, base: BaseEntry, batches: tuple[Batch, ...], after: tuple[BaseEntry, ...]
) -> Expected:
    """The right answer: *batches* lie before the lie and are read, what lies behind only if the lie is no error."""
    kinds = lie.kinds
    if isinstance(spoken, FaultResult):
        batches, kinds = batches + spoken.batches, spoken.kinds or kinds
    elif lie.verdict != "invalid":
        batches = (*batches, base.batch)
    if lie.verdict == "invalid":
        return Expected(verdict="invalid", batches=batches, kinds=kinds)
    if not lie.swallows:
        batches += tuple([each.batch for each in after])
    return Expected(verdict=lie.verdict, batches=batches, kinds=kinds)


def neighbours(rng: Random, cell: MutantCell) -> tuple[tuple[BaseEntry, ...], tuple[BaseEntry, ...]]:
    """The entries before and behind, of any format."""
    match cell.position:
        case "first":
            return (), some_oddities(rng)
        case "middle":
            return some_oddities(rng), some_oddities(rng)
        case "last":
            return some_oddities(rng), ()
    return (), ()


def some_oddities(rng: Random) -> tuple[BaseEntry, ...]:
    """One entry, or two."""
    count = 1 if rng.random() < 0.8 else 2
    return tuple([draw_base(rng, *pick(rng, PLACES), filled=False) for _ in range(count)])
