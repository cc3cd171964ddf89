"""Vectors: the compiled cases, one line each in `vectors/<area>.ndjson`, and how they are loaded."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafka_corpus.case import Case, Op
from kafka_corpus.vector_format import OPS, corpus_hash_of, matches
from kafka_corpus.vectors import area_files

_ROOT: Final = Path(__file__).parent.parent


def package_root() -> Path:
    """The folder that holds `vectors`, `evidence` and `schema`: the package."""
    return _ROOT


def load_vectors(only: str | None = None, *, ops: Collection[Op] = OPS, root: Path = _ROOT) -> list[Case]:
    """The compiled cases below *root*, sorted by id; *only* as in `matches`, *ops* as in `CODEC_OPS`.

    Recorded answers are read from `evidence/<area>.ndjson` when a case's `evidence` is first used.

    Raises:
        ValueError: a vector file cannot be read.
    """
    found: list[Case] = []
    with _no_collection():
        for area in _areas(root, only):
            loaded = area_files.load_area(root, area)
            wanted = (line for line in loaded.lines if line.op in ops and (only is None or matches(only, line.id)))
            found += [loaded.case(line) for line in wanted if not line.retired]
    return sorted(found, key=lambda case: case.id)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the garbage collector: loading makes 10^6 objects and no garbage, and the passes take half of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _areas(root: Path, only: str | None) -> list[str]:
    """The areas that can hold a case that *only* names."""
    areas = area_files.VECTORS.areas(root)
    named = (only or "*").partition(".")[0]
    return areas if "*" in named or "?" in named else [area for area in areas if area == named]


def corpus_hash(root: Path = _ROOT) -> str:
    """The hash of the corpus below *root*: see `corpus_hash_of`."""
    return corpus_hash_of(area_files.content_hashes(root))
