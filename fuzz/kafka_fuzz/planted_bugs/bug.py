"""A planted bug: the reference with one thing wrong, as a testee and as a decoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import msgspec

from kafka_conformance.judge.verdict import Severity
from kafka_conformance.testees import reference
from kafka_conformance.testees.interface import CodecError
from kafka_conformance.testees.protocol import Capability
from kafka_corpus.wire import WireBatch, from_wire, to_wire
from kafka_fuzz.planted_bugs.patched import BatchDecoder, changed_reference
from kafka_records import RecordFormatError

WireDecoder = Callable[[bytes], list[WireBatch]]
WireEncoder = Callable[[WireBatch], bytes]


def _everything() -> Capability:
    return reference.DECODES


@dataclass(frozen=True, slots=True)
class SourcePatch:
    """A replacement in a module of the reference; *old* occurs there exactly once."""

    module: str
    old: str
    new: str

    def decoder(self) -> BatchDecoder:
        """The reference's `decode` with the replacement.  Raises `ValueError` if *old* does not occur once."""
        return changed_reference(self.module, self.old, self.new)


class PatchEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A planted bug as `patches.toml` describes it; see there."""

    wrong: str
    module: str
    old: str
    new: str
    budget: int
    caught_as: Severity | None = None


@dataclass(frozen=True, kw_only=True)
class PlantedBug:
    """A testee with one thing wrong, known by `planted:NAME`.

    Attributes:
        NAME: its name, in lower case with underscores.
        wrong: the bug, in one sentence.
        caught_as: a severity that the judge reports for a case of the corpus; None if no case shows the bug.
        budget: the executions within which fuzzing finds the bug, with the mix of profiles that campaigns
            run; None if the fuzzer does not look for it.
        patch: the replacement in the reference's source; None for a bug that is a function of its own.
    """

    NAME: str
    wrong: str
    caught_as: Severity | None = None
    budget: int | None = None
    patch: SourcePatch | None = None
    decode: WireDecoder = reference.decode
    encode: WireEncoder = reference.encode
    VERSION: str = "planted"
    DECODES: Capability = field(default_factory=_everything)
    ENCODES: Capability = field(default_factory=_everything)

    def decoder(self) -> BatchDecoder:
        """The decoder as the reference's interface has it; it raises `RecordFormatError` or `CodecError`."""
        if self.patch:
            return self.patch.decoder()
        return lambda data: tuple(map(from_wire, self.decode(data)))


def patched_bug(name: str, entry: PatchEntry) -> PlantedBug:
    """The bug that an entry of `patches.toml` describes."""
    patch = SourcePatch(entry.module, entry.old, entry.new)

    @cache
    def decoder() -> BatchDecoder:
        return patch.decoder()

    def decode(data: bytes) -> list[WireBatch]:
        try:
            return list(map(to_wire, decoder()(data)))
        except RecordFormatError as error:
            raise CodecError(error.kind, str(error), list(map(to_wire, error.batches))) from error

    return PlantedBug(
        NAME=name, wrong=entry.wrong, caught_as=entry.caught_as, budget=entry.budget, patch=patch, decode=decode
    )


def read_patches() -> dict[str, PlantedBug]:
    """The bugs of `patches.toml` by name, in the order of the file."""
    entries = msgspec.toml.decode(Path(__file__).with_name("patches.toml").read_bytes(), type=dict[str, PatchEntry])
    return {name: patched_bug(name, entry) for name, entry in entries.items()}
