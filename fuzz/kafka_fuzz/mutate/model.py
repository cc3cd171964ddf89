"""The profile `model`: a valid log with exactly one fault.

A cell names the fault, its field and its position; `for_cell` makes an input for any
cell, so a campaign can make inputs for the cells that it has not reached.
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

# One of ten inputs has no fault: a reader that refuses it is wrong, too.
VALID_SHARE: Final = 0.1
# Most entries are alone in their log; the effect of a fault on its neighbours is tested less often.
ALONE: Final = 0.5
# The share of odd but valid entries before a fault: they may already mislead a reader.
ODD: Final = 0.75
# Of those, so many are taken from what has led this reader astray before.
ASTRAY: Final = 0.7
# Part of labels in saved campaigns.
AFTER_ODDITY: Final = "behind an oddity"
PLACES: Final[tuple[tuple[int, Compression], ...]] = tuple(
    (magic, codec) for magic, codecs in CODECS.items() for codec in codecs
)
NOT_FIRST: Final = ("middle", "last")
T = TypeVar("T")
Row = tuple[int, Compression, str, str]  # magic, codec, field, variant


@cache
def fault_rows() -> tuple[tuple[Fault, tuple[Row, ...]], ...]:
    """Each fault with all its rows."""
    return tuple((fault, tuple(rows_of_fault(fault))) for fault in FAULTS.values())


def rows_of_fault(fault: Fault) -> Iterator[Row]:
    """Magic, codec, field and variant."""
    for magic, codec in fault.where:
        for field in fault.fields:
            for variant in fault.variants:
                yield magic, codec, field, variant


@cache
def valid_rows() -> tuple[Row, ...]:
    """Every row of an entry without a fault."""
    return tuple(
        (magic, codec, axis, level) for magic, codec in PLACES for axis, level in axes_of(magic, codec, filled=False)
    )


def all_cells() -> Iterator[MutantCell]:
    """Every cell that `model` reaches."""
    for fault, rows in fault_rows():
        for position in fault.positions:
            for magic, codec, field, variant in rows:
                yield MutantCell(magic, codec, field, variant, fault.name, fault.nested(codec), position)
    for magic, codec, field, variant in valid_rows():
        for position in POSITIONS:
            yield MutantCell(magic, codec, field, variant, NO_FAULT, "entry", position)


@cache
def reachable() -> frozenset[MutantCell]:
    """The same as a set, which never changes: what a report counts against."""
    return frozenset(all_cells())


class Deck:
    """Faults in an order in which each comes once before any comes again; the same holds for the rows of each.

    Attributes:
        astray: what is valid and was read as something else.
    """

    def __init__(self) -> None:
        self.astray: list[tuple[Fault, Row]] = []
        self._faults: list[tuple[Fault, tuple[Row, ...]]] = []
        self._rows: dict[str, list[Row]] = {}

    def learn(self, mutant: Mutant) -> None:
        """Take note of an input that was read, and as something else."""
        cell = mutant.cell
        fault = FAULTS.get(cell.fault)
        if fault is None or mutant.labels[0] == AFTER_ODDITY or not is_oddity(fault):
            return
        row: Row = (cell.magic, cell.codec, cell.field, cell.boundary)  # type: ignore[assignment]  # it was a row
        if (fault, row) not in self.astray:
            self.astray.append((fault, row))

    def draw(self, rng: Random) -> tuple[Fault, Row]:
        """The next fault and its row."""
        if not self._faults:
            self._faults = shuffled(rng, fault_rows())
        fault, rows = self._faults.pop()
        left = self._rows.get(fault.name)
        if left is None:
            # Tables have the most extreme variant last; it comes first, as most readers fail on it.
            farthest = list(fault.variants)[-1]
            left = sorted(shuffled(rng, rows), key=lambda row: row[3] == farthest)
        self._rows[fault.name] = left = left or shuffled(rng, rows)
        return fault, left.pop()


def shuffled(rng: Random, items: Sequence[T]) -> list[T]:
    """*items* in any order."""
    found = list(items)
    rng.shuffle(found)
    return found


def mutate_model(rng: Random, deck: Deck | None = None) -> Mutant:
    """An input of any cell; faults are equally likely, whatever the number of their cells, or in *deck*'s order."""
    if rng.random() < VALID_SHARE:
        magic, codec, field, variant = pick(rng, valid_rows())
        return without_fault(
            rng, MutantCell(magic, codec, field, variant, NO_FAULT, "entry", draw_position(rng, POSITIONS))
        )
    fault, (magic, codec, field, variant) = deck.draw(rng) if deck else draw_row(rng)
    position = draw_position(rng, fault.positions)
    cell = MutantCell(magic, codec, field, variant, fault.name, fault.nested(codec), position)
    if position not in NOT_FIRST or rng.random() >= ODD:
        return with_fault(rng, fault, cell)
    return with_fault(rng, fault, cell, draw_oddity(rng, deck))


def draw_row(rng: Random) -> tuple[Fault, Row]:
    """A random fault, and a random row of it."""
    fault, rows = pick(rng, fault_rows())
    return fault, pick(rng, rows)


def for_cell(rng: Random, cell: MutantCell) -> Mutant:
    """An input of *cell*, one of `all_cells`; KeyError for an unknown fault."""
    return without_fault(rng, cell) if cell.fault == NO_FAULT else with_fault(rng, FAULTS[cell.fault], cell)


def pick(rng: Random, items: tuple[T, ...]) -> T:
    """One of *items*; `Random.choice` takes four times as long."""
    return items[int(rng.random() * len(items))]


def draw_position(rng: Random, positions: tuple[Position, ...]) -> Position:
    """One of *positions*, mostly `only`."""
    if positions[0] == "only" and rng.random() < ALONE:
        return "only"
    return pick(rng, positions)


def without_fault(rng: Random, cell: MutantCell) -> Mutant:
    """A log without a fault, one of whose entries has the shape of *cell*."""
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


def with_fault(rng: Random, fault: Fault, cell: MutantCell, odd: Oddity | None = None) -> Mutant:
    """A log with *fault* in one of its entries; *odd* comes before it in place of usual entries.

    *odd* is valid, so there is still one fault; but a wrong answer can be due to either of the two.
    """
    codec: Compression = cell.codec  # type: ignore[assignment]  # all_cells has no others
    base = draw_base(rng, cell.magic, codec)
    before, after = neighbours(rng, cell)
    start, batches = b"".join([each.data for each in before]), tuple([each.batch for each in before])
    labels: tuple[str, ...] = (fault.name, f"{cell.field} {cell.boundary}")
    if odd is not None:
        start, batches, labels = odd.data, odd.batches, (AFTER_ODDITY, *labels, odd.label)
    following = b"".join([each.data for each in after])
    planted = fault.plant(FaultSite(base, rng, cell.field, fault.variants[cell.boundary], following, len(start)))
    data = planted if isinstance(planted, bytes) else planted.data
    whole = b"".join((start, data, following))
    return Mutant(whole, "model", labels, verdict_of(fault, planted, base, batches, after), cell)


def is_oddity(fault: Fault) -> bool:
    """Whether it is no error, whatever stands around it."""
    return fault.verdict == "valid" and fault.positions == POSITIONS and not fault.swallows


@cache
def odd_rows() -> tuple[tuple[Fault, tuple[Row, ...]], ...]:
    """The faults that are odd and valid, with their rows."""
    return tuple((fault, rows) for fault, rows in fault_rows() if is_oddity(fault))


def draw_oddity(rng: Random, deck: Deck | None = None) -> Oddity:
    """Any, or one that has led a reader astray, as *deck* knows."""
    if deck and deck.astray and rng.random() < ASTRAY:
        fault, (magic, codec, field, variant) = deck.astray[int(rng.random() * len(deck.astray))]
    else:
        fault, rows = pick(rng, odd_rows())
        magic, codec, field, variant = pick(rng, rows)
    base = draw_base(rng, magic, codec)
    planted = fault.plant(FaultSite(base, rng, field, fault.variants[variant], b""))
    return (
        Oddity(fault.name, *planted[:2])
        if isinstance(planted, FaultResult)
        else Oddity(fault.name, planted, (base.batch,))
    )


def verdict_of(
    fault: Fault,
    planted: FaultResult | bytes,
    base: BaseEntry,
    batches: tuple[Batch, ...],
    after: tuple[BaseEntry, ...],
) -> Expected:
    """The right answer: *batches* come before the fault and are read; *after* is read only if the fault is no error."""
    kinds = fault.kinds
    if isinstance(planted, FaultResult):
        batches, kinds = batches + planted.batches, planted.kinds or kinds
    elif fault.verdict != "invalid":
        batches = (*batches, base.batch)
    if fault.verdict == "invalid":
        return Expected(verdict="invalid", batches=batches, kinds=kinds)
    if not fault.swallows:
        batches += tuple([each.batch for each in after])
    return Expected(verdict=fault.verdict, batches=batches, kinds=kinds)


def neighbours(rng: Random, cell: MutantCell) -> tuple[tuple[BaseEntry, ...], tuple[BaseEntry, ...]]:
    """The entries before and after, of any format."""
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
