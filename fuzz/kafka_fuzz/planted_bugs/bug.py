"""A planted bug: the reference with one thing wrong, as a testee and as a decoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

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


@dataclass(frozen=True, kw_only=True)
class PlantedBug:
    """A testee with one thing wrong, known by `planted:NAME`.

    Attributes:
        NAME: its name, in lower case with underscores.
        wrong: the bug, in one sentence.
        caught_as: a severity that the corpus has to report; None if no case can report one.
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


def patched_bug(
    name: str, wrong: str, budget: int, module: str, old: str, new: str, *, caught_as: Severity | None = None
) -> PlantedBug:
    """A bug that is the reference with *old* replaced by *new* in *module*."""
    patch = SourcePatch(module, old, new)

    @cache
    def decoder() -> BatchDecoder:
        return patch.decoder()

    def decode(data: bytes) -> list[WireBatch]:
        try:
            return list(map(to_wire, decoder()(data)))
        except RecordFormatError as error:
            raise CodecError(error.kind, str(error), list(map(to_wire, error.batches))) from error

    return PlantedBug(NAME=name, wrong=wrong, caught_as=caught_as, budget=budget, patch=patch, decode=decode)
