"""Compile the case functions: vector files, evidence files and schema, in memory.

The caller decides whether to write the files or to compare them.  A case whose content has not changed keeps
its compressed bytes and the reference's answer from its old line, so compiling costs what is new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET

from kafka_corpus import compressed_bytes, evidence, id_registry, line_files, schema
from kafka_corpus.answers import ask_reference, brief
from kafka_corpus.case import Case, Question
from kafka_corpus.scenario import Scenario
from kafka_corpus.vector_format import Answer, content_hash, line_of, parse_line
from kafka_corpus.vectors import VECTORS, VectorLine, case_in, vector_line
from kafka_records import Batch

# More than what fills two lz4 blocks is made at run time, from a recipe.
MAX_INPUT: Final = 128 * 1024
SCHEMA: Final = f"schema/{schema.FILE}"
AREA_FOLDERS: Final = (VECTORS, evidence.EVIDENCE)


@dataclass(frozen=True, slots=True)
class Compiled:
    """The outcome.

    Attributes:
        cases: the cases as their vectors have them.
        contents: content hashes, by id.
        answers: the answers of the reference, by id.
        files: the content of files, by path below the root.
        breaches: promises about ids that the cases break: (id, reason).
    """

    cases: tuple[Case, ...]
    contents: dict[str, str]
    answers: dict[str, Answer]
    files: dict[str, bytes]
    breaches: list[tuple[str, str]]


def compile_corpus(
    cases: Sequence[Case],
    root: Path,
    *,
    areas: Collection[str] | None = None,
    reuse: bool = True,
    rewrite_ids: bool = False,
    retire: Collection[str] = (),
) -> Compiled:
    """*cases* compiled, with the vectors and the evidence below *root*.

    Args:
        cases: those of *areas*, or all.
        root: holds the folders `vectors`, `evidence` and `schema`.
        areas: what is compiled; everything if not given.
        reuse: take the reference's answers from *root* where a case has not changed.
        rewrite_ids: forget all ids that are not among *cases*, and the old content of those that are.
        retire: ids that end without a successor.

    Raises:
        ValueError: a case is too big, or a file below *root* cannot be read.
    """
    if refused := list(filter(None, map(too_big, cases))):
        raise ValueError("\n".join(refused))
    stored = VECTORS.read(root)
    old = {line.id: line for line in stored}
    lines = [_line(case, old.get(case.id), root, reuse=reuse) for case in sorted(cases, key=lambda case: case.id)]
    contents = {line.id: line.sha256 for line in lines}
    ended = id_registry.ending_ids(cases, retire)
    past = [line for line in id_registry.retired(stored, ended, contents) if not (rewrite_ids and held(line, areas))]
    live = [line for line in stored if not held(line, areas) and not line.retired and line.id not in ended]
    breaches = list(id_registry.breaches(stored, cases, contents, ended, areas, rewrite=rewrite_ids))
    written = None if areas is None else {*areas, *(id_.partition(".")[0] for id_ in ended)}
    return Compiled(
        cases=tuple(case_in(line, root) for line in lines),
        contents=contents,
        answers={line.id: line.reference_answer() for line in lines},
        files=_files([*lines, *past, *live], root, written),
        breaches=breaches,
    )


def _line(case: Case, old: VectorLine | None, root: Path, *, reuse: bool) -> VectorLine:
    content, libraries = content_hash(case), compressed_bytes.unusual_libraries()
    if old is not None and not old.retired:
        if content != old.sha256 and compressed_bytes.made_elsewhere(old.libraries):
            case = compressed_bytes.keep_bytes(case, case_in(old, root))
            content = content_hash(case)
        if content == old.sha256:
            libraries = old.libraries
            if reuse:
                return vector_line(case, content, old.reference, libraries)
    return vector_line(case, content, _reference_answer(case), libraries)


def _reference_answer(case: Case) -> msgspec.Raw:
    # The reference gets the case as the vector has it: a line does not hold all that a `Batch` can.
    as_vector = parse_line(line_of(case))
    return msgspec.Raw(msgspec.json.encode(brief(as_vector, ask_reference(as_vector))))


def held(line: VectorLine, areas: Collection[str] | None) -> bool:
    """Whether *line* is of one of *areas*; of any, if none are given."""
    return areas is None or line.area in areas


def _files(lines: Sequence[VectorLine], root: Path, areas: Collection[str] | None) -> dict[str, bytes]:
    """The files of *areas*, or all of them and the schema."""
    vectors = VECTORS.texts(line for line in lines if held(line, areas))
    live = {line.id: line.sha256 for line in lines if not line.retired}
    current = evidence.pruned(evidence.load_evidence(root, areas), live)
    recorded = evidence.EVIDENCE.texts(current.values())
    return vectors | recorded | ({SCHEMA: schema.schema_text()} if areas is None else {})


def too_big(case: Case) -> str:
    """Why *case* is too big for a vector, or an empty string: it belongs into a recipe."""
    given = case.input
    size = len(given) if isinstance(given, bytes) else batch_size(given)
    if size > MAX_INPUT:
        return f"{case.id}: an input of {size} bytes; more than {MAX_INPUT} has to be a recipe"
    return ""


def batch_size(given: Question) -> int:
    """Bytes of keys, values and headers of a batch, of the payloads of a scenario."""
    if isinstance(given, Scenario):
        return sum(len(step.data) for step in given.produces() if step.data is not UNSET)
    if not isinstance(given, Batch):
        return 0
    texts = [text for record in given.records for text in (record.key, record.value, *sum(record.headers, ()))]
    return sum(len(text) for text in texts if text)


def stored_files(root: Path) -> dict[str, bytes]:
    """The compiled files below *root*, by path."""
    names = [folder.path(area) for folder in AREA_FOLDERS for area in folder.areas(root)]
    names += [f"schema/{path.name}" for path in sorted((root / "schema").glob("*.json"))]
    return {name: (root / name).read_bytes() for name in names}


def write_compiled(compiled: Compiled, root: Path, *, areas: Iterable[str] | None = None) -> list[str]:
    """Write the files that differ below *root*, and remove those of areas that are gone; their paths.

    With *areas*, only their files are removed.
    """
    changed = line_files.changed_files(compiled.files, root)
    line_files.write_files(changed, root)
    places = None if areas is None else {folder.path(area) for area in areas for folder in AREA_FOLDERS}
    gone = [name for name in stored_files(root) if name not in compiled.files and (places is None or name in places)]
    for name in gone:
        (root / name).unlink()
    return sorted(changed) + gone
