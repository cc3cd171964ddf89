"""What a lie is, and the table that all of them are in.

A lie takes one valid entry and makes one thing in it untrue; all that depends
on it (lengths, counts, checksums, compression) agrees with the lie, unless the
lie is about that.  So the right answer is known, with no decoder asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from kafka_corpus.case import Verdict
from kafka_fuzz.mutate.entries import CODECS, BaseEntry
from kafka_fuzz.mutate.mutant import POSITIONS, Nesting, Position
from kafka_records import Batch, Kind
from kafka_records.constants import COMPRESSIONS, Compression


class FaultSite(NamedTuple):
    """Where a lie is told.

    Attributes:
        base: the entry that it is told about.
        field: the field.
        value: what the variant stands for.
        following: the entries behind it.
        start: how many bytes lie before it.
    """

    base: BaseEntry
    rng: Random
    field: str
    value: Any
    following: bytes
    start: int = 0


class FaultResult(NamedTuple):
    """The bytes of a lie, and what they have to be read as; *kinds* if they have to be refused with others."""

    data: bytes
    batches: tuple[Batch, ...] = ()
    kinds: tuple[Kind, ...] = ()


# Bytes alone: refused as the table says, or read as if nothing had been done.
PlantFault = Callable[[FaultSite], FaultResult | bytes]


@dataclass(frozen=True, slots=True)
class Fault:
    """One lie.

    Attributes:
        name: its label.
        says: what is untrue, in one sentence.
        tell: makes the bytes.
        where: the (magic, codec) that it can be told about.
        fields: the fields.
        variants: boundary classes by name, and what they stand for.
        verdict: `invalid`: every reader has to refuse it.  `valid`: it is no
            error, and the batches are known.  `acceptable`: either.
        kinds: what a refusal may be called, best first.
        rules: ids in the rule catalogue.
        nesting: where it lies; records of a compressed entry are `packed`.
        positions: the entries of an input that it can be told about.
        swallows: nothing behind it is read, though it is no error.
    """

    name: str
    says: str
    tell: PlantFault
    where: tuple[tuple[int, Compression], ...]
    fields: tuple[str, ...]
    variants: Mapping[str, Any]
    verdict: Verdict
    kinds: tuple[Kind, ...]
    rules: tuple[str, ...]
    nesting: Nesting
    positions: tuple[Position, ...]
    swallows: bool

    def nested(self, codec: str) -> Nesting:
        """Where it lies in an entry of *codec*."""
        return "packed" if self.nesting == "record" and codec != "none" else self.nesting


FAULTS: Final[dict[str, Fault]] = {}

BROKEN: Final[tuple[Kind, ...]] = ("malformed", "truncated")
CLAIM: Final[tuple[Kind, ...]] = ("truncated", "malformed", "limit")
UNPACKED: Final[tuple[Kind, ...]] = ("malformed", "truncated", "decompression")
STREAM: Final[tuple[Kind, ...]] = ("decompression", "corrupt", "malformed", "truncated")
FRAMING: Final[tuple[Kind, ...]] = ("malformed", "corrupt", "truncated")
CORRUPT: Final[tuple[Kind, ...]] = ("corrupt",)

ALL: Final = (0, 1, 2)
LEGACY: Final = (0, 1)
V2: Final = (2,)
PACKED: Final = COMPRESSIONS[1:]
PLAIN: Final = COMPRESSIONS[:1]
LAST: Final[tuple[Position, ...]] = ("only", "last")
NOT_LAST: Final[tuple[Position, ...]] = ("first", "middle")
ONE: Final = {"": None}


def fault(
    *rules: str,
    magics: tuple[int, ...] = V2,
    codecs: tuple[Compression, ...] = COMPRESSIONS,
    field: str | tuple[str, ...],
    variants: Mapping[str, Any] = ONE,
    kinds: tuple[Kind, ...] = (),
    verdict: Verdict | None = None,
    nesting: Nesting = "entry",
    positions: tuple[Position, ...] = POSITIONS,
    swallows: bool = False,
) -> Callable[[PlantFault], PlantFault]:
    """Enter a function in the table under its name; without *kinds* the lie is no error."""
    fields = (field,) if isinstance(field, str) else field

    def enter(tell: PlantFault) -> PlantFault:
        name = tell.__name__
        says = (tell.__doc__ or "").strip()
        FAULTS[name] = Fault(
            name,
            says,
            tell,
            tuple(places(magics, codecs)),
            fields,
            variants,
            verdict or ("invalid" if kinds else "valid"),
            kinds,
            rules,
            nesting,
            positions,
            swallows,
        )
        return tell

    return enter


def places(magics: tuple[int, ...], codecs: tuple[Compression, ...]) -> Iterator[tuple[int, Compression]]:
    """Those of *magics* and *codecs* that go together."""
    for magic in magics:
        for codec in codecs:
            if codec in CODECS[magic]:
                yield magic, codec
