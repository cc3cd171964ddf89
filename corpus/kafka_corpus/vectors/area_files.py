"""Vector files: one for each area, one line for each id, sorted by id.

A line holds the question and the right answer, the hash of both, and the reference's answer.  Recorded answers of
other implementations are in `kafka_corpus.evidence`.  Nothing is stored over all areas, so two branches that
each add a case to another area change no file in common.

The line of a retired id stays in its file, with the version that retired it: an id is never used again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kafka_corpus import line_files
from kafka_corpus.case import Case, Op
from kafka_corpus.evidence.recorded import RecordedEvidence
from kafka_corpus.vector_format import Answer, Expect, Input, Vector, to_case, to_vector

FOLDER: Final = "vectors"
SUFFIX: Final = ".ndjson"
MAX_LINE: Final = 1024 * 1024


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
        return self.id.partition(".")[0]

    def reference_answer(self) -> Answer:
        """The answer of the reference, as the case was compiled."""
        return msgspec.json.decode(self.reference, type=Answer)


class _Hash(msgspec.Struct):
    id: str
    sha256: str
    retired: str = ""


_encoder = msgspec.json.Encoder()
_lines = msgspec.json.Decoder(VectorLine)
_hashes = msgspec.json.Decoder(_Hash)


def vector_line(case: Case, content: str, reference: msgspec.Raw, libraries: dict[str, str]) -> VectorLine:
    """The line of *case*, whose content hash is *content*."""
    vector = to_vector(case)
    return VectorLine(
        id=vector.id,
        sha256=content,
        since=vector.since,
        supersedes=vector.supersedes,
        title=vector.title,
        rules=vector.rules,
        refs=vector.refs,
        op=vector.op,
        input=vector.input,
        expect=vector.expect,
        reference=reference,
        libraries=libraries,
    )


def raw_answer(answer: Answer) -> msgspec.Raw:
    """An answer of the reference as lines hold it."""
    return msgspec.Raw(_encoder.encode(answer))


def case_in(line: VectorLine, root: Path) -> Case:
    """The case in *line*, with the recorded answers below *root*."""
    vector = Vector(
        id=line.id,
        title=line.title,
        rules=line.rules,
        area=line.area,
        op=line.op,
        input=line.input,
        expect=line.expect,
        evidence=RecordedEvidence(root, line.id, line.sha256, line.reference, line.expect),
        refs=line.refs,
        since=line.since,
        supersedes=line.supersedes,
    )
    return to_case(vector)


def area_text(lines: Iterable[VectorLine]) -> bytes:
    """The content of a file.

    Raises:
        ValueError: a line is longer than `MAX_LINE`.
    """
    encoded = {line.id: _encoder.encode(line) + b"\n" for line in lines}
    if too_long := [id_ for id_, line in encoded.items() if len(line) > MAX_LINE]:
        raise ValueError(f"{too_long[0]}: a line of more than {MAX_LINE} bytes")
    return b"".join(encoded[id_] for id_ in sorted(encoded))


def area_texts(lines: Iterable[VectorLine]) -> dict[str, bytes]:
    """The content of each file, by its path below a root."""
    ordered = sorted(lines, key=lambda line: (line.area, line.id))
    return {area_path(area): area_text(group) for area, group in groupby(ordered, key=lambda line: line.area)}


def area_path(area: str) -> str:
    """The file of *area*, below a root."""
    return f"{FOLDER}/{area}{SUFFIX}"


def area_names(root: Path) -> list[str]:
    """The areas below *root*."""
    return sorted(file.stem for file in (root / FOLDER).glob(f"*{SUFFIX}"))


def read_area(root: Path, area: str) -> list[VectorLine]:
    """The lines of one file.

    Raises:
        line_files.BadFileError: a line is not what it should be.
    """
    return line_files.read_lines(_lines, root / area_path(area))


def read_all_areas(root: Path) -> list[VectorLine]:
    """The lines of every file below *root*; raises as `read_area`."""
    return [line for area in area_names(root) for line in read_area(root, area)]


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
    """One file, kept in memory until it changes on the disk; raises as `read_area`."""
    return _loaded(root, area, *line_files.file_state(root / area_path(area)))


@cache
def _loaded(root: Path, area: str, _changed: int, _size: int) -> LoadedArea:
    return LoadedArea(root, read_area(root, area))


def content_hashes(root: Path, area: str) -> list[tuple[str, str]]:
    """Id and content hash of each live case of *area*; raises as `read_area`."""
    return _content_hashes(root, area, *line_files.file_state(root / area_path(area)))


@cache
def _content_hashes(root: Path, area: str, _changed: int, _size: int) -> list[tuple[str, str]]:
    return [
        (line.id, line.sha256) for line in line_files.read_lines(_hashes, root / area_path(area)) if not line.retired
    ]
