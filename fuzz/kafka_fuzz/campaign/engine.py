"""atheris (libFuzzer) as the engine: it chooses what to mutate by the edges that inputs cover, we do all the rest.

Our mutators, our targets, our finds: an input goes the way of every other, so
that libFuzzer's own stop at the first exception, its lack of triage and its
merge (which may keep nothing and say nothing) do not matter.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from kafka_fuzz.campaign.loop import CLOCK, Worker, as_it_is
from kafka_fuzz.campaign.pool import LONGEST
from kafka_fuzz.campaign.rounds import folder_name
from kafka_fuzz.mutate import Mutant, Profile, draw_profile, mutate
from kafka_fuzz.mutate.plain import mutate_bytes

if TYPE_CHECKING:
    from kafka_fuzz.campaign.rounds import Round

# libFuzzer would end the process in its own way; who waits for it has to see how it really died.
OFF: Final = tuple(
    f"-handle_{name}=0" for name in ("abrt", "bus", "fpe", "ill", "int", "segv", "term", "usr1", "usr2", "xfsz")
)
FLAGS: Final = (*OFF, "-verbosity=0", "-print_final_stats=0", "-rss_limit_mb=0", "-mutate_depth=1", "-len_control=0")
STATE: Final = "state"


def instrument(packages: tuple[str, ...]) -> int:
    """Count the edges of every function of *packages* that is imported; give how many functions.

    `atheris.instrument_imports` knows top-level packages only, and we want a few modules of some.
    ModuleNotFoundError where atheris is not installed.
    """
    import atheris

    found = {id(function): function for module in modules_of(packages) for function in functions_of(vars(module))}
    ours = [function for function in found.values() if (function.__module__ or "").startswith(packages)]
    for function in ours:
        atheris.instrument_func(function)
    return len(ours)


def modules_of(packages: tuple[str, ...]) -> list[ModuleType]:
    """The modules of *packages* that are imported."""
    return [module for name, module in sorted(sys.modules.items()) if name.startswith(packages)]


def functions_of(names: Any) -> Iterator[FunctionType]:
    """The functions among the values of *names*, and those of its classes."""
    for value in list(names.values()):
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__  # noqa: PLW2901  # what is inside of it
        if isinstance(value, FunctionType):
            yield value
        elif isinstance(value, property) and isinstance(value.fget, FunctionType):
            yield value.fget
        elif isinstance(value, type):
            yield from (each for each in functions_of(vars(value)) if each.__module__ == value.__module__)


def edges_folder(asked: Round) -> Path:
    """Where libFuzzer keeps its inputs between rounds."""
    return asked.directory / STATE / "atheris" / folder_name(asked.target)


class Driven:
    """A worker whose inputs come from libFuzzer.

    libFuzzer hands bytes about; what our mutators know of the last ones is kept beside them.
    """

    def __init__(self, worker: Worker, seconds: float) -> None:
        self.worker = worker
        self.seconds = seconds
        self.rng = Random(f"{worker.asked.stream}/{worker.attempt}")
        self.last: Mutant | None = None
        self.count = 0

    def mutate(self, data: bytes, max_size: int, seed: int) -> bytes:
        """What atheris asks for."""
        rng, seeds = Random(seed), self.worker.pool.seeds
        data = bytes(data)
        near = (data, data, data, seeds[int(rng.random() * len(seeds))]) if data else seeds
        mutant = mutate(rng, near, self._profile(rng))
        if len(mutant.data) > max_size:
            mutant = mutate_bytes(rng, (data[:max_size],))
            mutant = mutant._replace(data=mutant.data[:max_size])
        self.last = mutant
        return mutant.data

    def run(self, data: bytes) -> None:
        """One input."""
        worker, last = self.worker, self.last
        mutant = last if last is not None and last.data == data else as_it_is(bytes(data))
        worker.one(mutant, self.rng)
        self.count += 1
        if self.count % CLOCK == 0 and worker.is_over(self.seconds):
            worker.finish()
            os._exit(0)  # libFuzzer would go on

    def _profile(self, rng: Random) -> Profile:
        asked = self.worker.asked.profile
        return draw_profile(rng) if asked == "mixed" else asked  # type: ignore[return-value]  # the command line takes no others


def drive(worker: Worker, seconds: float) -> None:
    """Run *worker* under libFuzzer; it does not come back."""
    worker.pool.complete()
    folder = edges_folder(worker.asked)
    folder.mkdir(parents=True, exist_ok=True)
    driven = Driven(worker, seconds)
    seed = 1 + Random(worker.asked.stream).randrange(2**31 - 1)
    flags = (f"-seed={seed}", f"-max_len={LONGEST}", f"-artifact_prefix={folder}/")
    fuzz([sys.argv[0], str(folder), *FLAGS, *flags], driven.run, driven.mutate)


def fuzz(
    arguments: Sequence[str],
    run: Callable[[bytes], None],
    mutator: Callable[[bytes, int, int], bytes],
) -> None:
    """Hand the process over to libFuzzer."""
    import atheris

    atheris.Setup(list(arguments), run, custom_mutator=mutator)
    atheris.Fuzz()
