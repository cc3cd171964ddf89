"""The manifest of an export: counts and hashes, computed from the vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from kafka_corpus import compressed_bytes
from kafka_corpus.case import Case
from kafka_corpus.vector_format import CORPUS_VERSION, SCHEMA_VERSION, UNRELEASED, Sha256
from kafka_corpus.vectors import area_files, corpus_hash

FILE: Final = "MANIFEST.json"
FORMAT: Final = "kafkaproof vectors"


class VectorFile(msgspec.Struct):
    """One exported vector file: the number of its cases, and the hash of its bytes."""

    cases: int
    sha256: Sha256


class Manifest(msgspec.Struct, kw_only=True):
    """Content of the corpus.

    `sha256` is that of the lines `<content hash>  <id>`, one a case, sorted by
    id: it changes when a question or a right answer does, not with a title.
    """

    format: str = FORMAT
    schema_version: int = SCHEMA_VERSION
    corpus_version: str = CORPUS_VERSION
    unreleased: bool = UNRELEASED
    cases: int
    areas: dict[str, int]
    ops: dict[str, int]
    verdicts: dict[str, int]
    sha256: Sha256
    libraries: Annotated[dict[str, list[str]], Meta(description="libraries that compressed the compressed inputs")]
    files: dict[str, VectorFile]


def manifest_of(cases: Sequence[Case], files: Mapping[str, bytes], root: Path) -> Manifest:
    """The manifest of *cases*, which are stored below *root*, exported as the vector *files* by name."""
    return Manifest(
        cases=len(cases),
        areas=_count(case.area for case in cases),
        ops=_count(case.op for case in cases),
        verdicts=_count(case.expect.verdict for case in cases),
        sha256=corpus_hash(root),
        libraries=compressed_bytes.all_libraries(line.libraries for line in area_files.VECTORS.read(root)),
        files={name: VectorFile(data.count(b"\n"), sha256(data).hexdigest()) for name, data in files.items()},
    )


def _count(names: Iterable[str]) -> dict[str, int]:
    """How often each name occurs, by name."""
    return dict(sorted(Counter(names).items()))


def manifest_text(manifest: Manifest) -> bytes:
    """The content of the file."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
