"""What an input has to go on showing while it is reduced: the same find, and the same verdict of all who are asked.

The lie that made an input does not survive the first cut, so what is right about
a candidate is what the reference says of it, and its answer is part of the
verdict: an input does not drift from one broken rule to another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

import msgspec

import kafka_records
from kafka_fuzz.cells import NO_LIE, Cell
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.outcome import Outcome
from kafka_fuzz.reduce.search import Same
from kafka_fuzz.targets.base import Target
from kafka_fuzz.targets.oracle import LIMITS
from kafka_records import RecordFormatError

# What somebody makes of bytes.
Run: TypeAlias = Callable[[bytes], Outcome]
NO_CELL: Final = Cell(-1, "", "", "", NO_LIE, "entry", "only")
# CPU-seconds after which a candidate hangs: small inputs take a tenth of a millisecond.
IMPATIENT: Final = 0.05


class Verdicts(NamedTuple):
    """A verdict vector: the reference's, the bucket of the target, the class of everybody else."""

    reference: str
    bucket: str
    others: tuple[str, ...] = ()


def as_mutant(data: bytes) -> Mutant:
    """*data* of which nothing else is known."""
    return Mutant(data, "bytes", (), None, NO_CELL)


def reference_verdict(data: bytes, *, exact: bool) -> str:
    """`ok`, or that the reference refuses *data*; *exact* tells refusals apart by kind and rule."""
    try:
        kafka_records.decode(data, limits=LIMITS)
    except RecordFormatError as error:
        return f"{error.kind} {error.rule}" if exact else "refused"
    return "ok"


def verdicts(run: Run, data: bytes, others: Sequence[Run] = ()) -> Verdicts:
    """What a target, the reference and *others* make of *data*."""
    return with_reference(run(data), data, tuple(other(data).kind for other in others))


def with_reference(outcome: Outcome, data: bytes, others: tuple[str, ...] = ()) -> Verdicts:
    """A target's outcome and those of *others* as one vector with the reference's."""
    # What was taken that must not be has no function by which it could be told: the broken rule stands for it.
    exact = outcome.kind == "accepts_invalid"
    # A loop over several functions is stopped in any of them; of testees the rule that is broken is told instead.
    anywhere = outcome.kind == "hang" and "." in outcome.function
    bucket = msgspec.structs.replace(outcome, function="").bucket if anywhere else outcome.bucket
    return Verdicts(reference_verdict(data, exact=exact), bucket, others)


def runner(target: Target) -> Run:
    """*target* in this process, as something that is asked about bytes."""
    return lambda data: target.run(as_mutant(data))


def same_verdicts(target: Target, data: bytes, others: Sequence[Target] = ()) -> tuple[Outcome, Same]:
    """What *target* makes of *data* in this process, and the predicate that holds for all with the same verdicts.

    One that hangs is given up much sooner than in a campaign, or reducing it would take minutes.
    """
    outcome = target.run(as_mutant(data))
    if outcome.kind == "hang":
        target = replace(target, limit=IMPATIENT)
    asked, rest = runner(target), [runner(other) for other in others]
    wanted = verdicts(asked, data, rest)
    return outcome, lambda candidate: verdicts(asked, candidate, rest) == wanted
