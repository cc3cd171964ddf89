"""Files for an upstream project's OSS-Fuzz folder: programs, seeds, a dictionary, the build script.

Everything is made from the package, byte for byte the same each time.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Final

from kafka_fuzz.mutate import corpus_seeds, own_seeds
from kafka_fuzz.mutate.dictionary import dictionary_text
from kafka_fuzz.targets import COMPILED, NAMES

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
