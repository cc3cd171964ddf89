"""The type of a fault, and the table of all faults.

A fault changes one thing in a valid entry.  Everything that depends on it (lengths,
counts, checksums, compression) agrees with the change, unless the fault is about
that.  So the right answer is known without a decoder.
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
    """The place of a fault.

    Attributes:
        base: the entry that gets the fault.
        field: the field.
        value: what the variant stands for.
        following: the entries after it.
        start: the number of bytes before it.
    """

    base: BaseEntry
    rng: Random
    field: str
    value: Any
    following: bytes
    start: int = 0


class FaultResult(NamedTuple):
    """The bytes of a fault and the right batches; *kinds* if the error kinds differ from the table's."""

    data: bytes
    batches: tuple[Batch, ...] = ()
    kinds: tuple[Kind, ...] = ()


# Bytes alone: refused as the table says, or read as if nothing had been done.
PlantFault = Callable[[FaultSite], FaultResult | bytes]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        name: its label.
        says: the wrong thing, in one sentence.
        plant: makes the bytes.
        where: the (magic, codec) pairs that it applies to.
        fields: the fields.
        variants: boundary classes by name, and what they stand for.
        verdict: `invalid`: every reader has to refuse it.  `valid`: it is no
            error, and the batches are known.  `acceptable`: either.
        kinds: what a refusal may be called, best first.
        rules: ids in the rule catalogue.
        nesting: the part of the entry; records of a compressed entry are `packed`.
        positions: the entries of an input that it applies to.
        swallows: nothing after it is read, though it is no error.
    """

    name: str
    says: str
    plant: PlantFault
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
        """Its nesting in an entry of *codec*."""
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
    label: str = "",
) -> Callable[[PlantFault], PlantFault]:
    """Register a function as a fault under *label* or its own name; without *kinds* the fault is no error."""
    fields = (field,) if isinstance(field, str) else field

    def enter(plant: PlantFault) -> PlantFault:
        name = label or plant.__name__
        says = (plant.__doc__ or "").strip()
        FAULTS[name] = Fault(
            name,
            says,
            plant,
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
        return plant

    return enter


def places(magics: tuple[int, ...], codecs: tuple[Compression, ...]) -> Iterator[tuple[int, Compression]]:
    """Those of *magics* and *codecs* that go together."""
    for magic in magics:
        for codec in codecs:
            if codec in CODECS[magic]:
                yield magic, codec
