"""Vectors: the compiled cases, one line for each id in `vectors/<area>.ndjson`, sorted by id, and how they are loaded.

A line holds the question and the right answer, the hash of both, and the reference's answer.  Recorded answers of
other implementations are in `kafka_corpus.evidence`.  Nothing is stored over all areas, so two branches that
each add a case to another area change no file in common.

The line of a retired id stays in its file, with the version that retired it: an id is never used again.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kafka_corpus import line_files
from kafka_corpus.case import Case, Op
from kafka_corpus.evidence import RecordedEvidence
from kafka_corpus.line_files import AreaFolder, area_of
from kafka_corpus.vector_format import OPS, Answer, Expect, Input, Vector, corpus_hash_of, matches, to_case, to_vector


class VectorLine(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One id: what `Vector` has, except for recorded answers and the area, which is the start of the id."""

    id: str
    sha256: Annotated[str, Meta(description="content hash: of the question and its right answer")]
    since: str
    supersedes: str | UnsetType = UNSET
    retired: Annotated[str, Meta(description="the corpus version that ended the id")] = ""
    title: str
    rules: list[str]
    refs: list[str] = []
    op: Op
    input: Input
    expect: Expect
    reference: Annotated[msgspec.Raw, Meta(description="the answer of kafka_records")]
    libraries: Annotated[dict[str, str], Meta(description="see `kafka_corpus.compressed_bytes`")] = {}

    @property
    def area(self) -> str:
        """The area of the id."""
        return area_of(self)

    def reference_answer(self) -> Answer:
        """The answer of the reference, as the case was compiled."""
        return msgspec.json.decode(self.reference, type=Answer)


class _Hash(msgspec.Struct):
    id: str
    sha256: str
    retired: str = ""


VECTORS: Final = AreaFolder("vectors", msgspec.json.Decoder(VectorLine), max_line=4 * 1024 * 1024)
_HASHES: Final = AreaFolder("vectors", msgspec.json.Decoder(_Hash))
# The fields that a line and a vector share.
_SHARED: Final = tuple(name for name in VectorLine.__struct_fields__ if name in Vector.__struct_fields__)


def vector_line(case: Case, content: str, reference: msgspec.Raw, libraries: dict[str, str]) -> VectorLine:
    """The line of *case*, whose content hash is *content*."""
    vector = to_vector(case)
    shared = {name: getattr(vector, name) for name in _SHARED}
    return VectorLine(**shared, sha256=content, reference=reference, libraries=libraries)


def case_in(line: VectorLine, root: Path) -> Case:
    """The case in *line*, with the recorded answers below *root*."""
    shared = {name: getattr(line, name) for name in _SHARED}
    recorded = RecordedEvidence(root, line.id, line.sha256, line.reference, line.expect)
    return to_case(Vector(**shared, area=line.area, evidence=recorded))


@dataclass(frozen=True, slots=True)
class LoadedArea:
    """One file in memory, with those of its cases that were used."""

    root: Path
    lines: list[VectorLine]
    cases: dict[str, Case] = field(default_factory=dict)

    def case(self, line: VectorLine) -> Case:
        """The case in *line*, made once."""
        made = self.cases.get(line.id)
        if made is None:
            made = self.cases[line.id] = case_in(line, self.root)
        return made


def load_area(root: Path, area: str) -> LoadedArea:
    """One file, kept in memory until it changes on the disk; raises as `line_files.read_lines`."""
    return _loaded(root, area, *line_files.file_state(root / VECTORS.path(area)))


@cache
def _loaded(root: Path, area: str, _changed: int, _size: int) -> LoadedArea:
    return LoadedArea(root, VECTORS.read(root, [area]))


def content_hashes(root: Path) -> list[tuple[str, str]]:
    """Id and content hash of each live case below *root*; raises as `line_files.read_lines`."""
    files = [(area, line_files.file_state(root / VECTORS.path(area))) for area in VECTORS.areas(root)]
    return [pair for area, state in files for pair in _content_hashes(root, area, *state)]


@cache
def _content_hashes(root: Path, area: str, _changed: int, _size: int) -> list[tuple[str, str]]:
    return [(line.id, line.sha256) for line in _HASHES.read(root, [area]) if not line.retired]


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
            loaded = load_area(root, area)
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
    areas = VECTORS.areas(root)
    named = (only or "*").partition(".")[0]
    return areas if "*" in named or "?" in named else [area for area in areas if area == named]


def corpus_hash(root: Path = _ROOT) -> str:
    """The hash of the corpus below *root*: see `corpus_hash_of`."""
    return corpus_hash_of(content_hashes(root))
