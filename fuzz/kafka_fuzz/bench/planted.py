"""Planted bugs: how long each wrong codec of the zoo takes to be found, plain mutation beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

import msgspec

from kafka_fuzz.zoo import ZOO, Prey
from kafka_fuzz.zoo.bench import hunted

MIX: Final = "mix"
PLAIN: Final = "bytes"


class Planted(msgspec.Struct):
    """One wrong codec: medians over repeats, executions and CPU-seconds of everything that they took.

    Plain mutation is given up after *most* executions; *plain_found* says in how many of the repeats it was not.
    """

    name: str
    executions: float
    seconds: float
    found: int
    plain_executions: float
    plain_seconds: float
    plain_found: int
    repeats: int
    most: int


def planted(repeats: int, most: int, names: Sequence[str] = ()) -> Iterator[Planted]:
    """Every wrong codec, or those called *names*; all of them get the same inputs, repeat by repeat."""
    mixed = [Prey(seed) for seed in range(repeats)]
    plain = [Prey(seed, PLAIN) for seed in range(repeats)]
    for name in names or ZOO:
        decoder = ZOO[name].decoder()
        ours = [hunted(decoder, prey, most) for prey in mixed]
        theirs = [hunted(decoder, prey, most) for prey in plain]
        yield Planted(
            name,
            median(each.executions for each in ours),
            median(each.seconds for each in ours),
            sum(each.executions <= most for each in ours),
            median(each.executions for each in theirs),
            median(each.seconds for each in theirs),
            sum(each.executions <= most for each in theirs),
            repeats,
            most,
        )


HEAD: Final = f"{'planted bug':34}{'executions':>11}{'CPU-s':>9}{'plain: executions':>19}{'CPU-s':>9}{'found':>8}"


def line(one: Planted) -> str:
    """One wrong codec; behind `>` what was tried in vain."""
    ours, plain = (">" if count > one.most else "" for count in (one.executions, one.plain_executions))
    return (
        f"{one.name:34}{f'{ours}{min(one.executions, one.most):,.0f}':>11}{f'{ours}{one.seconds:.3f}':>9}"
        f"{f'{plain}{min(one.plain_executions, one.most):,.0f}':>19}{f'{plain}{one.plain_seconds:.3f}':>9}"
        f"{f'{one.plain_found}/{one.repeats}':>8}"
    )


def summary(made: Sequence[Planted]) -> str:
    """How many were found at all, and the slowest."""
    slowest = max(made, key=lambda one: one.seconds)
    found = sum(one.executions <= one.most for one in made)
    plain = sum(one.plain_executions <= one.most for one in made)
    return (
        f"{len(made)} planted bugs: {found} found by the mix, the slowest in {slowest.seconds:.3f} CPU-s"
        f" ({slowest.name}); {plain} by plain mutation within {made[0].most:,} executions"
    )
