"""What a miniature is, and how one is made from the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import UNSET

from kafka_conformance.judge import Severity
from kafka_conformance.protocol import Capability
from kafka_conformance.testees import reference
from kafka_corpus.wire import WireBatch, WireRecord

Decode = Callable[[bytes], list[WireBatch]]
Encode = Callable[[WireBatch], bytes]


def _everything() -> Capability:
    return reference.DECODES


@dataclass(frozen=True, kw_only=True)
class Miniature:
    """A testee with one thing wrong.

    Attributes:
        NAME: as in `miniature:NAME`.
        wrong: what is wrong with it.
        caught_as: the severity that has to show it; None for those that are
            only unpleasant, and for those that answer nothing.
    """

    NAME: str
    wrong: str
    caught_as: Severity | None
    decode: Decode = reference.decode
    encode: Encode = reference.encode
    VERSION: str = "miniature"
    DECODES: Capability = field(default_factory=_everything)
    ENCODES: Capability = field(default_factory=_everything)


def on_batches(change: Callable[[WireBatch], None]) -> Decode:
    """The reference's decoder, with *change* done to each batch that it gives."""

    def decode(data: bytes) -> list[WireBatch]:
        batches = reference.decode(data)
        for batch in batches:
            change(batch)
        return batches

    return decode


def on_records(change: Callable[[WireRecord], None]) -> Decode:
    """The reference's decoder, with *change* done to each record that it gives."""

    def change_all(batch: WireBatch) -> None:
        for record in records_of(batch):
            change(record)

    return on_batches(change_all)


def records_of(batch: WireBatch) -> list[WireRecord]:
    """The records of *batch*, none if they are left out."""
    return [] if batch.records is UNSET else batch.records
