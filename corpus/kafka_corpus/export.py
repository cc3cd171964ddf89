"""The manifest of an export: counts and hashes, computed from the vectors.

Export of the corpus, for projects in any language to vendor.

    DIR/README.md             one page on the format
    DIR/LICENSE
    DIR/MANIFEST.json         counts and hashes
    DIR/vector.schema.json
    DIR/<area>.ndjson         the vectors
    DIR/inputs/<area>/*.bin   the inputs that recipes stand for, with `--inputs`

Each line holds its case with all recorded answers; the files in the tree keep the two apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from kafka_corpus import compressed_bytes, schema
from kafka_corpus.case import Case, Recipe
from kafka_corpus.vector_format import CORPUS_VERSION, SCHEMA_VERSION, UNRELEASED, Sha256, input_of, line_of
from kafka_corpus.vectors import VECTORS, corpus_hash, load_vectors, package_root

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
        libraries=compressed_bytes.all_libraries(line.libraries for line in VECTORS.read(root)),
        files={name: VectorFile(data.count(b"\n"), sha256(data).hexdigest()) for name, data in files.items()},
    )


def _count(names: Iterable[str]) -> dict[str, int]:
    """How often each name occurs, by name."""
    return dict(sorted(Counter(names).items()))


def manifest_text(manifest: Manifest) -> bytes:
    """The content of the file."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


INPUTS: Final = "inputs"


def exported(*, with_inputs: bool = False) -> Iterator[tuple[str, bytes]]:
    """The files to write: path below the folder, and content."""
    package, cases = package_root(), load_vectors()
    vectors = vector_files(cases)
    described = manifest_of(cases, vectors, package)
    yield "README.md", export_page(described).encode()
    yield "LICENSE", (package / "pages" / "LICENSE").read_bytes()
    yield FILE, manifest_text(described)
    yield schema.FILE, (package / "schema" / schema.FILE).read_bytes()
    yield from vectors.items()
    if with_inputs:
        yield from recipe_inputs()


def vector_files(cases: Sequence[Case]) -> dict[str, bytes]:
    """The content of each vector file, by name."""
    ordered = sorted(cases, key=lambda case: (case.area, case.id))
    areas = groupby(ordered, key=lambda case: case.area)
    return {f"{area}.ndjson": b"".join(map(line_of, group)) for area, group in areas}


def recipe_inputs() -> Iterator[tuple[str, bytes]]:
    """The inputs of cases that have a recipe in place of bytes."""
    for case in load_vectors():
        if isinstance(case.input, Recipe):
            data = input_of(case)
            assert isinstance(data, bytes)
            yield input_path(case), data


def input_path(case: Case) -> str:
    """Where the input of *case* goes: brackets and the like become hyphens."""
    name = re.sub(r"[^a-z0-9_]+", "-", case.id.partition(".")[2].lower()).strip("-")
    return f"{INPUTS}/{case.area}/{name}.bin"


def export_page(described: Manifest) -> str:
    """The README, with this corpus's numbers in it."""
    text = (package_root() / "pages" / "README.md").read_text(encoding="utf-8")
    state = " (unreleased: ids may still change)" if described.unreleased else ""
    numbers = {
        "{corpus_version}": described.corpus_version + state,
        "{schema_version}": str(described.schema_version),
        "{cases}": f"{described.cases:,}",
        "{areas}": str(len(described.areas)),
        "{sha256}": described.sha256,
    }
    for name, number in numbers.items():
        text = text.replace(name, number)
    return text


def export(folder: Path, *, with_inputs: bool = False) -> list[str]:
    """Write everything below *folder*; give the paths.  Files of areas that are gone are removed."""
    written = []
    for name, data in exported(with_inputs=with_inputs):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        written.append(name)
    for name in foreign(folder, set(written)):
        (folder / name).unlink()
    return written


def differences(folder: Path, *, with_inputs: bool = False) -> list[str]:
    """Differences between *folder* and a fresh export, one line each."""
    names = set()
    found = []
    for name, data in exported(with_inputs=with_inputs):
        names.add(name)
        path = folder / name
        if not path.exists():
            found.append(f"{name} is missing")
        elif path.read_bytes() != data:
            found.append(f"{name} is not what this corpus exports")
    return found + [f"{name} belongs to no area" for name in foreign(folder, names)]


def foreign(folder: Path, names: set[str]) -> list[str]:
    """Vector files in *folder* that are none of *names*; other files in the folder are ignored."""
    return sorted(path.name for path in folder.glob("*.ndjson") if path.name not in names)
