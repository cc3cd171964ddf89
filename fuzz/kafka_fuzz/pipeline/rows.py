"""One case as a row: what it is (mutator, cell, labels), its bytes, the right answer, and two hashes.

The hashes are of its content, and of its shape, which is the same for cases
that differ in nothing but values.  The right answer is the one that belongs to
the lie, which the tests hold against the reference in every cell; where no lie
is known, the reference is asked.  One of so many is asked besides (`verify`).
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any, Final, Self

from xxhash import xxh3_64_intdigest, xxh3_128_digest

from kafka_corpus.case import Expectation
from kafka_corpus.pipeline.needs import Refused
from kafka_fuzz.cells import NO_LIE, Cell
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.mutate.lies import LIES
from kafka_fuzz.pipeline.outlines import Outlines
from kafka_fuzz.pipeline.space import Space
from kafka_fuzz.targets.oracle import holds, right_answer

COLUMNS: Final = (
    "index",
    "mutator",
    *Cell._fields,
    "labels",
    "data",
    "verdict",
    "kinds",
    "rules",
    "batches",
    "content",
    "shape",
)


class Wrong(Refused):
    """The reference does not give the answer that goes with a lie: one of them is wrong, and nothing is written."""


class Rows:
    """Makes rows; it remembers what it worked out, and gives the same whatever it was asked before."""

    def __init__(self, space: Space, verify: int = 64) -> None:
        """Of *space*; the reference decodes one of *verify* cases as well, none if that is 0."""
        self._space = space
        self._verify = verify
        self._outlines = Outlines()
        self._rng = Random()

    def __reduce__(self) -> tuple[type[Self], tuple[Space, int]]:
        """What a worker is sent: not what was worked out."""
        return type(self), (self._space, self._verify)

    def row(self, index: int) -> tuple[Any, ...]:
        """One row, its columns as in `COLUMNS`.  Raises `Wrong`."""
        mutant = self._space.case(index, self._rng)
        if self._verify and index % self._verify == 0 and not holds(mutant):
            raise Wrong(f"the reference does not answer case {index} of seed {self._space.seed} as its lie says")
        right = right_answer(mutant)
        batches, outlines = self._outlines.of(right.batches)
        cell = mutant.cell
        return (
            index,
            mutant.profile,
            *cell,
            "" if mutant.expected else "; ".join(mutant.labels),
            mutant.data,
            right.verdict,
            right.kinds,
            rules_of(mutant, right),
            batches,
            xxh3_128_digest(mutant.data),
            shape_of(cell, right, outlines, len(mutant.data)),
        )


def rules_of(mutant: Mutant, right: Expectation) -> tuple[str, ...]:
    """The rules that a case is about: its lie's, or the one by which the reference refuses."""
    if mutant.expected is None:
        return (right.why,) if right.why else ()
    lie = mutant.cell.lie
    return () if lie == NO_LIE else LIES[lie].rules


def shape_of(cell: Cell, right: Expectation, outlines: bytes, size: int) -> int:
    """The hash of a shape, as a signed 64-bit integer."""
    parts = (
        _bytes_of(cell),
        right.verdict.encode(),
        ",".join(right.kinds).encode(),
        b"%d" % size.bit_length(),
        outlines,
    )
    shape = xxh3_64_intdigest(b"\0".join(parts))
    return shape - (1 << 64) if shape >> 63 else shape


@cache
def _bytes_of(cell: Cell) -> bytes:
    return repr(tuple(cell)).encode()
