"""Compile the case functions: vectors, ledger, manifest and schema, in memory.

Whoever calls decides whether to write the files or to compare them.  The one
thing that is taken over from the old files is compressed bytes: another release
of a codec library writes others for the same data, and what an id asks must not
change with the machine.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET

from kafka_corpus import errata, evidence, ledger, pack, schema
from kafka_corpus.answers import ask_reference, brief, data_difference
from kafka_corpus.case import Case, Question
from kafka_corpus.evidence import brokers
from kafka_corpus.scenario import Scenario
from kafka_corpus.vectors import (
    IDS,
    MANIFEST,
    Answer,
    Manifest,
    VectorFile,
    content_hash,
    corpus_hash_of,
    line_of,
    parse_line,
    parse_manifest,
)
from kafka_records import Batch

GOLDENS: Final = "goldens"
# More than what fills two lz4 blocks is made at run time, from a recipe.
MAX_INPUT: Final = 128 * 1024
MAX_LINE: Final = 1024 * 1024

# What compresses, by codec; python-snappy does its work in cramjam.
LIBRARIES: Final = {"lz4": "lz4", "snappy": "cramjam", "zstd": "zstandard"}


def package_root() -> Path:
    """Where goldens, schema and evidence lie: this package."""
    return Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Compiled:
    """The outcome: cases with their evidence, content hashes by id, and files by path below the root."""

    cases: tuple[Case, ...]
    contents: dict[str, str]
    ledger: list[ledger.Entry]
    files: dict[str, bytes]


def compile_corpus(
    cases: Sequence[Case], root: Path, *, rewrite_ids: bool = False, retire: Sequence[str] = ()
) -> Compiled:
    """*cases* compiled, with ledger and evidence below *root*.

    Raises:
        ValueError: a case is too big, or what lies below *root* cannot be read.
    """
    settled = settle(cases, root)
    contents = {case.id: content_hash(case) for case in settled}
    recordings = [evidence.pruned(recording, contents) for recording in evidence.load(root)]
    asked = brokers.pruned(brokers.load(root), contents)
    complete = tuple(with_evidence(case, recordings, asked, contents[case.id]) for case in settled)
    entries = ledger.extend([] if rewrite_ids else stored_ledger(root), complete, retire=retire)
    vectors = vector_files(complete)
    files = {f"{GOLDENS}/{name}": data for name, (_, data) in vectors.items()}
    files[f"{GOLDENS}/{IDS}"] = ledger.text(entries)
    files[f"{GOLDENS}/{MANIFEST}"] = manifest_text(complete, contents, vectors, libraries(root))
    files[f"schema/{schema.FILE}"] = schema.text()
    files |= {f"{evidence.FOLDER}/{recording.file}": recording.text() for recording in recordings}
    if asked:
        files[f"{evidence.FOLDER}/{brokers.FILE}"] = brokers.text(asked)
        files[errata.FILE] = errata.page(complete).encode()
    return Compiled(complete, contents, entries, files)


def settle(cases: Sequence[Case], root: Path) -> list[Case]:
    """*cases* in order of id, with compressed bytes as they were compiled elsewhere."""
    if refused := list(filter(None, map(too_big, cases))):
        raise ValueError("\n".join(refused))
    ordered = sorted(cases, key=lambda case: case.id)
    if same_libraries(root):
        return ordered
    old = {case.id: case for case in stored_cases(root)}
    return [keep_bytes(case, old[case.id]) if case.id in old else case for case in ordered]


def keep_bytes(case: Case, old: Case) -> Case:
    """*case* with the bytes of *old*, if the two differ in nothing but how they are compressed."""
    kept = replace(case, input=old.input, expect=replace(case.expect, data=old.expect.data))
    if content_hash(kept) != content_hash(old):
        return case
    if isinstance(case.input, bytes):
        same = ask_reference(case) == ask_reference(old)
    else:
        same = case.input == old.input and not data_difference(old, case.expect.data or b"")
    return kept if same else case


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


def with_evidence(case: Case, recordings: Sequence[evidence.Recording], asked: brokers.Ledger, content: str) -> Case:
    """*case* with the reference's answer and the recorded ones."""
    # Asked as the vector has it: a line does not hold all that a `Batch` can.
    as_vector = parse_line(line_of(replace(case, evidence={})))
    answers: dict[str, Any] = {"reference": brief(as_vector, ask_reference(as_vector))}
    answers |= evidence.merged(recordings, case, content)
    if case.id in asked:
        answers["brokers"] = brokers.as_evidence(asked[case.id], case)
    return replace(case, evidence=answers)


def vector_files(cases: Sequence[Case]) -> dict[str, tuple[int, bytes]]:
    """Number of cases and content of each vector file, by name."""
    files = {}
    if any(f"{case.area}.ndjson" == IDS for case in cases):
        raise ValueError(f"no area can be called {IDS.partition('.')[0]}: the ledger has that name")
    for area, group in groupby(sorted(cases, key=lambda case: (case.area, case.id)), key=lambda case: case.area):
        lines = [line_of(case) for case in group]
        if too_long := [line for line in lines if len(line) > MAX_LINE]:
            raise ValueError(f"{parse_line(too_long[0]).id}: a line of more than {MAX_LINE} bytes")
        files[f"{area}.ndjson"] = (len(lines), b"".join(lines))
    return files


def manifest_text(
    cases: Sequence[Case],
    contents: Mapping[str, str],
    vectors: Mapping[str, tuple[int, bytes]],
    codecs: dict[str, list[str]],
) -> bytes:
    """The manifest as the file holds it."""
    manifest = Manifest(
        cases=len(cases),
        areas=count(case.area for case in cases),
        ops=count(case.op for case in cases),
        verdicts=count(case.expect.verdict for case in cases),
        sha256=corpus_hash_of(contents.items()),
        libraries=codecs,
        files={name: VectorFile(number, sha256(data).hexdigest()) for name, (number, data) in vectors.items()},
    )
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def count(names: Iterable[str]) -> dict[str, int]:
    """How often each name occurs, by name."""
    return dict(sorted(Counter(names).items()))


def here() -> dict[str, str]:
    """The codec libraries of this environment, by codec."""
    return {"gzip": zlib.ZLIB_RUNTIME_VERSION} | {codec: metadata.version(name) for codec, name in LIBRARIES.items()}


def libraries(root: Path) -> dict[str, list[str]]:
    """All libraries that the inputs below *root* came from, those of this environment included."""
    manifest = stored_manifest(root)
    old = manifest.libraries if manifest else {}
    return {codec: sorted({*old.get(codec, ()), version}) for codec, version in here().items()}


def same_libraries(root: Path) -> bool:
    """Whether everything below *root* was compressed by what is installed here."""
    manifest = stored_manifest(root)
    return manifest is None or manifest.libraries == {codec: [version] for codec, version in here().items()}


def stored_manifest(root: Path) -> Manifest | None:
    """The manifest below *root*, None if nothing was ever compiled there."""
    path = root / GOLDENS / MANIFEST
    return parse_manifest(path.read_bytes()) if path.exists() else None


def stored_cases(root: Path) -> list[Case]:
    """The cases compiled below *root*."""
    lines = stored_lines(root)
    files = {name: data for name, data in lines.items() if name.startswith(GOLDENS) and not name.endswith(IDS)}
    return [parse_line(line) for data in files.values() for line in data.splitlines()]


def stored_ledger(root: Path) -> list[ledger.Entry]:
    """The ledger below *root*; empty if there is none yet."""
    return ledger.parse(stored_lines(root).get(f"{GOLDENS}/{IDS}", b""))


def stored_files(root: Path) -> dict[str, bytes]:
    """What lies below *root* where compiled files do, by path."""
    patterns = (f"{GOLDENS}/*.json", "schema/*.json", f"{evidence.FOLDER}/*.ndjson", errata.FILE)
    paths = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    return stored_lines(root) | {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def stored_lines(root: Path) -> dict[str, bytes]:
    """The packed files below *root*, by the path that they would have unpacked."""
    found = {}
    for folder in (GOLDENS, evidence.FOLDER):
        for path in sorted((root / folder).glob(f"*.ndjson{pack.SUFFIX}")):
            name = path.name.removesuffix(pack.SUFFIX)
            found[f"{folder}/{name}"] = pack.read(root / folder, name)
    return found


def write(compiled: Compiled, root: Path) -> list[str]:
    """Write what differs below *root*, remove what no area has any more; give the paths."""
    old = stored_files(root)
    changed = sorted(name for name, data in compiled.files.items() if old.get(name) != data)
    gone = sorted(name for name in old.keys() - compiled.files.keys() if name.startswith(GOLDENS))
    for name in changed:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if is_packed(name):
            pack.write(root / name, compiled.files[name])
        else:
            (root / name).write_bytes(compiled.files[name])
    for name in gone:
        (root / (name + pack.SUFFIX if is_packed(name) else name)).unlink()
    return changed + gone


def is_packed(name: str) -> bool:
    """Whether the file at this path below a root is kept packed."""
    return (name.startswith(GOLDENS) and name.endswith(".ndjson")) or name == f"{evidence.FOLDER}/{brokers.FILE}"


def reference_answer(case: Case) -> Answer:
    """The reference's answer as compiling put it into the case."""
    answer: Answer = case.evidence["reference"]
    return answer
