"""A planted bug: the reference with one thing wrong, as a testee and as a decoder.

For the decoder one piece of the reference's source is replaced.  Its modules are
executed a second time in a namespace of their own, so the imported reference is
not changed.  `search_difference` looks for an input that shows the bug, by comparing the wrong decoder with the
reference.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from inspect import getsource
from pathlib import Path
from random import Random
from types import CodeType, ModuleType
from typing import Any, Final, NamedTuple

import msgspec

from kafka_conformance.judge.verdict import Severity
from kafka_conformance.testees import reference
from kafka_conformance.testees.interface import CodecError
from kafka_conformance.testees.protocol import Capability
from kafka_corpus.wire import WireBatch, from_wire, to_wire
from kafka_fuzz.mutate import Deck, Profile, draw_profile, mutate, own_seeds
from kafka_fuzz.mutate.mutant import Mutant
from kafka_records import Batch, RecordFormatError, decode

BatchDecoder = Callable[[bytes], tuple[Batch, ...]]

PACKAGE: Final = "kafka_records"
# The modules of the decoder in the order of their imports.  Model, errors and constants
# are shared with the imported reference, so that results can be compared.
MODULES: Final = (
    "layout",
    "checksum",
    "varint",
    "primitives",
    "attributes",
    "compression.common",
    "compression.gzip",
    "compression.snappy",
    "compression.lz4",
    "compression.zstd",
    "compression",
    "message",
    "record",
    "batch",
    "message_set",
    "log",
)


def changed_reference(module: str, old: str, new: str) -> BatchDecoder:
    """The reference's `decode` with *old* replaced by *new* in *module*.

    Raises:
        ValueError: *old* does not occur there exactly once.
    """
    text = source(module)
    if text.count(old) != 1:
        raise ValueError(f"{PACKAGE}.{module} has {text.count(old)} of {old!r}; a patch needs exactly one")
    code = {name: compiled(name) for name in MODULES}
    code[module] = compile(text.replace(old, new), f"<{PACKAGE}.{module}, changed>", "exec")
    decode: BatchDecoder = run(code)["log"].decode
    return decode


@cache
def source(module: str) -> str:
    """The source text of a module of the reference."""
    return getsource(import_module(f"{PACKAGE}.{module}"))


@cache
def compiled(module: str) -> CodeType:
    """The unchanged code of a module."""
    return compile(source(module), f"<{PACKAGE}.{module}, again>", "exec")


def run(code: dict[str, CodeType]) -> dict[str, ModuleType]:
    """Execute the modules; each one imports the other executed modules instead of the imported reference."""
    made: dict[str, ModuleType] = {}

    def find(name: str, *args: Any, **kwargs: Any) -> Any:
        inner = name.removeprefix(f"{PACKAGE}.")
        if name == PACKAGE:
            return within("", made)
        return made[inner] if inner in made else builtins.__import__(name, *args, **kwargs)

    for name, body in code.items():
        module = within(name, made)
        made[name] = module
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": find}
        exec(body, module.__dict__)
    return made


def within(name: str, made: dict[str, ModuleType]) -> ModuleType:
    """An empty module *name* with the submodules in *made* as attributes."""
    full = f"{PACKAGE}.{name}" if name else PACKAGE
    module = ModuleType(full)
    if not name:
        vars(module).update(vars(import_module(PACKAGE)))
    prefix = f"{name}." if name else ""
    for other, there in made.items():
        rest = other.removeprefix(prefix)
        if other.startswith(prefix) and "." not in rest:
            setattr(module, rest, there)
    return module


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


class DecoderAnswer(NamedTuple):
    """The batches that a decoder returned, whether it refused the input, and in *crashed* any other exception."""

    batches: tuple[Batch, ...]
    refused: bool
    crashed: str = ""


class Detection(NamedTuple):
    """The first input that shows a planted bug, the number of executions up to it, and both answers."""

    executions: int
    mutant: Mutant
    right: DecoderAnswer
    wrong: DecoderAnswer


def decoder_answer(decoder: BatchDecoder, data: bytes) -> DecoderAnswer:
    """The answer of *decoder* to *data*; no exception leaves this function."""
    try:
        return DecoderAnswer(decoder(data), False)
    except RecordFormatError as error:
        return DecoderAnswer(error.batches, True)
    except CodecError:
        return DecoderAnswer((), True)
    except Exception as error:
        return DecoderAnswer((), True, type(error).__name__)


def differs(right: DecoderAnswer, wrong: DecoderAnswer) -> bool:
    """Whether two answers are a difference that a campaign counts.

    A difference is: one decoder reads what the other refuses, it reads other data,
    or it raises an exception that is no refusal.  The number of batches that were
    read before a refusal does not count.
    """
    if wrong.crashed or right.refused != wrong.refused:
        return True
    return not right.refused and right.batches != wrong.batches


class InputSeries:
    """An endless series of inputs with the reference's answers; each is made once, when it is first needed."""

    def __init__(self, seed: int, profile: Profile | None = None, *, seeds: Sequence[bytes] = ()) -> None:
        self.rng = Random(seed)
        self.deck = Deck()
        self.profile = profile
        self.seeds = tuple(seeds) or own_seeds()
        self.made: list[tuple[Mutant, DecoderAnswer]] = []
        # Cumulative CPU-seconds for making inputs and decoding them with the reference.
        self.seconds: list[float] = [0.0]

    def __iter__(self) -> Iterator[tuple[Mutant, DecoderAnswer]]:
        """Inputs and right answers, from the first one on."""
        index = 0
        while True:
            if index == len(self.made):
                start = time.process_time()
                profile = self.profile or draw_profile(self.rng)
                mutant = mutate(self.rng, self.seeds, profile, self.deck)
                self.made.append((mutant, decoder_answer(decode, mutant.data)))
                self.seconds.append(self.seconds[-1] + time.process_time() - start)
            yield self.made[index]
            index += 1


def search_difference(decoder: BatchDecoder, series: InputSeries, most: int) -> Detection | None:
    """The first input on which *decoder* differs from the reference, or None after *most* executions."""
    for executions, (mutant, right) in enumerate(series, start=1):
        if executions > most:
            return None
        wrong = decoder_answer(decoder, mutant.data)
        if differs(right, wrong):
            return Detection(executions, mutant, right, wrong)
    return None
