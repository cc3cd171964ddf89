"""atheris (libFuzzer) as the engine of a campaign, and entry points for OSS-Fuzz.

libFuzzer uses this project's mutators and targets, and its inputs are handled like all
others.  So three of its limits do not matter: it stops at the first exception, has no
triage, and its merge may silently keep nothing.

The program of a target is `fuzz_<target>.py`, which `kafkaproof fuzz export`
writes, with its seeds and its dictionary:

    ./fuzz_kafka_python.py -max_total_time=60 corpus/

It prints `DEDUP_TOKEN: <key>` before it raises, so that libFuzzer's own minimiser
stays with the same finding.  Inputs of known findings are skipped, and findings that
its own seeds show raise nothing; else libFuzzer would stop at them each time.  A file
that is given runs alone, and raises whatever it shows.

Without atheris the program replays the given files, as libFuzzer does, and fuzzes nothing:

    ./fuzz_kafka_python.py crash-1 corpus/

Files for an upstream project's OSS-Fuzz folder (programs, seeds, a dictionary, the build script) are made from the
package, byte for byte the same each time.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from kafka_fuzz.campaign.plan import target_folder
from kafka_fuzz.campaign.store import LONGEST
from kafka_fuzz.campaign.worker import CLOCK, Worker, unchanged_mutant
from kafka_fuzz.mutate import Mutant, mutate
from kafka_fuzz.mutate.plain import mutate_bytes

if TYPE_CHECKING:
    from kafka_fuzz.campaign.plan import RoundPlan
from collections.abc import Collection
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from io import BytesIO

from kafka_fuzz.campaign.known_findings import STATE, InputSkips, read_known_findings
from kafka_fuzz.mutate import corpus_seeds, custom_mutator, own_seeds
from kafka_fuzz.mutate.dictionary import dictionary_text
from kafka_fuzz.targets import COMPILED, NAMES, Target, make_target

# libFuzzer would replace the exit status by its own; the fork server needs the real one.
OFF: Final = tuple(
    f"-handle_{name}=0" for name in ("abrt", "bus", "fpe", "ill", "int", "segv", "term", "usr1", "usr2", "xfsz")
)
FLAGS: Final = (*OFF, "-verbosity=0", "-print_final_stats=0", "-rss_limit_mb=0", "-mutate_depth=1", "-len_control=0")


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


def edges_folder(plan: RoundPlan) -> Path:
    """Where libFuzzer keeps its inputs between rounds."""
    return plan.directory / STATE / "atheris" / target_folder(plan.target)


class LibfuzzerWorker:
    """A worker whose inputs come from libFuzzer.

    libFuzzer hands bytes about; what our mutators know of the last ones is kept beside them.
    """

    def __init__(self, worker: Worker, seconds: float) -> None:
        self.worker = worker
        self.seconds = seconds
        self.rng = Random(f"{worker.plan.stream}/{worker.attempt}")
        self.last: Mutant | None = None
        self.count = 0

    def mutate(self, data: bytes, max_size: int, seed: int) -> bytes:
        """Mutate *data* for atheris."""
        rng, seeds = Random(seed), self.worker.pool.seeds
        data = bytes(data)
        near = (data, data, data, seeds[int(rng.random() * len(seeds))]) if data else seeds
        mutant = mutate(rng, near, self.worker.plan.drawn_profile(rng))
        if len(mutant.data) > max_size:
            mutant = mutate_bytes(rng, (data[:max_size],))
            mutant = mutant._replace(data=mutant.data[:max_size])
        self.last = mutant
        return mutant.data

    def run(self, data: bytes) -> None:
        """One input."""
        worker, last = self.worker, self.last
        mutant = last if last is not None and last.data == data else unchanged_mutant(bytes(data))
        worker.one(mutant, self.rng)
        self.count += 1
        if self.count % CLOCK == 0 and worker.is_over(self.seconds):
            worker.finish()
            os._exit(0)  # libFuzzer would go on


def drive(worker: Worker, seconds: float) -> None:
    """Run *worker* under libFuzzer; it does not come back."""
    worker.pool.complete()
    folder = edges_folder(worker.plan)
    folder.mkdir(parents=True, exist_ok=True)
    driven = LibfuzzerWorker(worker, seconds)
    seed = 1 + Random(worker.plan.stream).randrange(2**31 - 1)
    flags = (f"-seed={seed}", f"-max_len={LONGEST}", f"-artifact_prefix={folder}/")
    run_libfuzzer([sys.argv[0], str(folder), *FLAGS, *flags], driven.run, driven.mutate)


def run_libfuzzer(
    arguments: Sequence[str],
    run: Callable[[bytes], None],
    mutator: Callable[[bytes, int, int], bytes],
) -> None:
    """Hand the process over to libFuzzer."""
    import atheris

    atheris.Setup(list(arguments), run, custom_mutator=mutator)
    atheris.Fuzz()


class FindingRaised(Exception):
    """The target did what it must not; the text says what."""


class LibfuzzerTarget:
    """A target for libFuzzer: it raises at the first finding that is not known."""

    def __init__(self, target: Target, shown: Collection[str] = ()) -> None:
        """Run *target*, and raise nothing for the buckets in *shown*; ValueError for a malformed known.toml."""
        self.target = target
        self.shown = shown
        self.known = read_known_findings(Path())
        self.skips = InputSkips(target.name, self.known)

    def run(self, data: bytes) -> None:
        """One input."""
        mutant = unchanged_mutant(bytes(data))
        if self.skips.skips(mutant):
            return
        outcome = self.target.run(mutant)
        known = outcome.bucket in self.shown or any(rule.explains(outcome.key) for rule in self.known)
        if outcome.is_finding and not known:
            sys.stderr.write(f"DEDUP_TOKEN: {outcome.bucket}\n")
            raise FindingRaised(f"{outcome.bucket} {outcome.why}")


def shown_by_seeds(target: Target) -> frozenset[str]:
    """The buckets of findings that the seeds of *target* show; libFuzzer would stop at the first of them."""
    stepping = InputSkips(target.name, read_known_findings(Path()))
    mutants = (unchanged_mutant(data) for data in target_seeds(target.name))
    outcomes = (target.run(mutant) for mutant in mutants if not stepping.skips(mutant))
    return frozenset(outcome.bucket for outcome in outcomes if outcome.is_finding)


def main(name: str, arguments: Sequence[str] | None = None) -> None:
    """Hand the process over to libFuzzer, which ends it; without it, replay files, or say what is missing."""
    target = make_target(name)
    given = list(arguments or sys.argv)
    if find_spec("atheris") is None:
        sys.exit(replay_files(LibfuzzerTarget(target), given[1:]))
    is_replay = any(Path(argument).is_file() for argument in given[1:] if not argument.startswith("-"))
    once = LibfuzzerTarget(target, () if is_replay else shown_by_seeds(target))
    instrument(target.packages)
    run_libfuzzer(given, once.run, custom_mutator)


def replay_files(once: LibfuzzerTarget, arguments: Sequence[str]) -> str | None:
    """Run the files among *arguments*, and those in the folders among them; what is wrong, or None."""
    paths = [Path(argument) for argument in arguments if not argument.startswith("-")]
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    inputs = [file for file in files if file.is_file()]
    if not inputs:
        return "atheris is not installed: pip install 'kafkaproof[fuzz]'. Without it, give files to replay."
    for file in inputs:
        once.run(file.read_bytes())
    sys.stderr.write(f"Replayed {len(inputs)} inputs; nothing is fuzzed without atheris\n")
    return None


PROGRAM: Final = '''#!/usr/bin/env python3
"""Fuzzes {about}, with Kafkaproof's mutators and judge.

libFuzzer runs this file again, for forks and merges: it has to be executable, and started by a path.
"""

import sys

from kafka_fuzz.campaign.libfuzzer import main

main("{name}", sys.argv)
'''
BUILD: Final = """#!/bin/bash -eu
# OSS-Fuzz runs this in its Python image; see google.github.io/oss-fuzz, "Integrating a Python project".
# Another project's: put `pip3 install .` of your own package first, so that your sources are what is fuzzed.
pip3 install "kafkaproof[fuzz,testees]"
kafkaproof fuzz export "$OUT/exported"
# What is imported by name, and tables, are not seen by PyInstaller, which compile_python_fuzzer hands these options to.
packages=()
for package in kafka_records kafka_corpus kafka_brokers kafka_conformance kafka_fuzz kafka aiokafka; do
  packages+=(--collect-all "$package")
done
for program in "$OUT"/exported/fuzz_*.py; do
  compile_python_fuzzer "$program" "${packages[@]}"
done
mv "$OUT"/exported/*.zip "$OUT"/exported/*.dict "$OUT"
rm -r "$OUT/exported"
"""
ABOUT: Final = {
    "reference": "the reference's decoder",
    "roundtrip": "what the reference reads, written and read again",
    "explain": "the reference's annotated hex",
    "append": "the reference's model of a broker's append",
    "convert": "the reference's conversion between formats",
    "decompress": "the reference's decompressors",
    "kafka-python": "kafka-python's record classes",
    "aiokafka-pure": "aiokafka's record classes, those in Python",
    "aiokafka": "aiokafka's record classes, those in Cython",
}
# The time of every file in the archives; the first that the format knows.
NEVER: Final = (1980, 1, 1, 0, 0, 0)


def program_name(target: str) -> str:
    """The name of a target's program, without its ending.

    >>> program_name("kafka-python")
    'fuzz_kafka_python'
    """
    return f"fuzz_{target.replace('-', '_')}"


def exported_files(*, seeds: bool = True) -> Iterator[tuple[str, bytes, bool]]:
    """Each file: name, content, whether it is a program; the seeds' archives only with *seeds*."""
    yield "build.sh", BUILD.encode(), True
    words = dictionary_text().encode()
    for target in NAMES:
        name = program_name(target)
        yield f"{name}.py", PROGRAM.format(name=target, about=ABOUT.get(target, target)).encode(), True
        if seeds:
            yield f"{name}.dict", words, False
            yield f"{name}_seed_corpus.zip", archive(target_seeds(target)), False


def target_seeds(target: str) -> tuple[bytes, ...]:
    """The seeds of *target*: valid logs, and the corpus unless the target is compiled, which might crash on it."""
    return tuple(sorted({*own_seeds(), *(() if target in COMPILED else corpus_seeds())}))


@cache
def archive(seeds: tuple[bytes, ...]) -> bytes:
    """The *seeds*, each under its hash."""
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, data in sorted((sha256(data).hexdigest(), data) for data in seeds):
            # Stored, because what zlib makes of the same bytes differs between its releases.
            file.writestr(zipfile.ZipInfo(name, NEVER), data)
    return made.getvalue()


def write_export(directory: Path, *, seeds: bool = True) -> int:
    """Write everything into *directory*; give the number of files.  OSError where that cannot be."""
    directory.mkdir(parents=True, exist_ok=True)
    count = 0
    for count, (name, content, runs) in enumerate(exported_files(seeds=seeds), 1):  # noqa: B007  # the last count is the answer
        path = directory / name
        path.write_bytes(content)
        path.chmod(0o755 if runs else 0o644)
    return count


def differing_exports(directory: Path, *, seeds: bool = True) -> list[str]:
    """The names of the files that `write` would change."""
    return [
        name
        for name, content, runs in exported_files(seeds=seeds)
        if not (path := directory / name).is_file()
        or path.read_bytes() != content
        or bool(path.stat().st_mode & 0o100) != runs
    ]
