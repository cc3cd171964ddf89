"""A planted bug in the reference, and the search for an input that shows it.

The decoder's modules are run again in a namespace of their own, so that the
reference that everybody else uses stays as it is.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import getsource
from random import Random
from types import CodeType, ModuleType
from typing import Any, Final, NamedTuple

from kafka_conformance.testees.interface import CodecError
from kafka_corpus.wire import from_wire
from kafka_fuzz.mutate import Deck, Profile, draw_profile, mutate, own_seeds
from kafka_fuzz.mutate.mutant import Mutant
from kafka_fuzz.planted_bugs.testees import TESTEE_BUGS
from kafka_records import Batch, RecordFormatError, decode

Decode = Callable[[bytes], tuple[Batch, ...]]

PACKAGE: Final = "kafka_records"
# What decoding runs through, those that others import first.  Model, errors and
# constants are the reference's own, or nothing could be compared.
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


@dataclass(frozen=True, slots=True)
class PatchedDecoder:
    """A wrong codec.

    Attributes:
        name: what it is called.
        wrong: what is wrong with it.
        budget: how many executions find it at most, in the mix of profiles that campaigns run.
        module: the module of the reference that is changed; empty for a miniature of that name.
        old: what is replaced there; it occurs once.
        new: by what.
    """

    name: str
    wrong: str
    budget: int
    module: str = ""
    old: str = ""
    new: str = ""

    def decoder(self) -> Decode:
        """Its decoder, which raises what it raises."""
        if self.module:
            return changed_reference(self.module, self.old, self.new)
        miniature = TESTEE_BUGS[self.name]
        return lambda data: tuple(map(from_wire, miniature.decode(data)))


def changed_reference(module: str, old: str, new: str) -> Decode:
    """The reference's `decode` with *old* replaced by *new* in *module*.

    Raises:
        ValueError: *old* does not occur there exactly once.
    """
    text = source(module)
    if text.count(old) != 1:
        raise ValueError(f"{PACKAGE}.{module} has {text.count(old)} of {old!r}, and needs one")
    code = {name: compiled(name) for name in MODULES}
    code[module] = compile(text.replace(old, new), f"<{PACKAGE}.{module}, changed>", "exec")
    decode: Decode = run(code)["log"].decode
    return decode


@cache
def source(module: str) -> str:
    """The text of a module of the reference."""
    return getsource(import_module(f"{PACKAGE}.{module}"))


@cache
def compiled(module: str) -> CodeType:
    """The code of a module as it is."""
    return compile(source(module), f"<{PACKAGE}.{module}, again>", "exec")


def run(code: dict[str, CodeType]) -> dict[str, ModuleType]:
    """Run the modules, each with an import that finds the others of its kind."""
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
    """A module, not yet run, that has the submodules that are there already."""
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


class DecoderAnswer(NamedTuple):
    """What a decoder made of an input: batches, and whether it refused; *crashed* names any other exception."""

    batches: tuple[Batch, ...]
    refused: bool
    crashed: str = ""


class Detection(NamedTuple):
    """The first input that told a wrong codec: after how many executions, and both answers."""

    executions: int
    mutant: Mutant
    right: DecoderAnswer
    wrong: DecoderAnswer


def decoder_answer(decoder: Decode, data: bytes) -> DecoderAnswer:
    """What *decoder* answers, whatever it does."""
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

    One reads what the other refuses, or reads other data, or raises what it should
    not.  How far each got before it refused is no difference.
    """
    if wrong.crashed or right.refused != wrong.refused:
        return True
    return not right.refused and right.batches != wrong.batches


class InputSeries:
    """A series of inputs with the reference's answers, made as far as somebody asks."""

    def __init__(self, seed: int, profile: Profile | None = None, *, seeds: Sequence[bytes] = ()) -> None:
        self.rng = Random(seed)
        self.deck = Deck()
        self.profile = profile
        self.seeds = tuple(seeds) or own_seeds()
        self.made: list[tuple[Mutant, DecoderAnswer]] = []
        # CPU-seconds that making them and asking the reference took, added up.
        self.seconds: list[float] = [0.0]

    def __iter__(self) -> Iterator[tuple[Mutant, DecoderAnswer]]:
        """From the first on, without end."""
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


def search_difference(decoder: Decode, prey: InputSeries, most: int) -> Detection | None:
    """The first input that tells *decoder* from the reference, within *most* executions."""
    for executions, (mutant, right) in enumerate(prey, start=1):
        if executions > most:
            return None
        wrong = decoder_answer(decoder, mutant.data)
        if differs(right, wrong):
            return Detection(executions, mutant, right, wrong)
    return None
