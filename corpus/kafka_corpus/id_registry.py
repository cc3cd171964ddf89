"""The registry of ids: the content of an id never changes.

Each line of the vector files registers an id, with the hash of its content.  A case that was wrong gets a new id
and names the old one in `supersedes`; the old line then says since when it is retired.

A released corpus is frozen: `frozen/<area>.ndjson` has the digest of each id that a version promises to keep, one
line an id, sorted.  The vectors may only differ from it as their version allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from kafka_corpus import schema
from kafka_corpus.case import Case
from kafka_corpus.line_files import AreaFolder
from kafka_corpus.vector_format import CORPUS_VERSION
from kafka_corpus.vectors import VECTORS, VectorLine

# Hexadecimal digits of a content hash in a frozen line.
DIGEST: Final = 16
# The line of the schema, in the file of the area `schema`.
SCHEMA_ID: Final = f"schema.{schema.FILE}"


class FrozenLine(msgspec.Struct, frozen=True):
    """An id that may not change, the start of its content hash, and the version that froze it."""

    id: str
    sha256: str
    version: str


FROZEN: Final = AreaFolder("frozen", msgspec.json.Decoder(FrozenLine))


def ending_ids(cases: Sequence[Case], retire: Collection[str] = ()) -> dict[str, str]:
    """The ids that *cases* supersede and those to *retire*, with the version that ends each."""
    return {case.supersedes: case.since for case in cases if case.supersedes} | dict.fromkeys(retire, CORPUS_VERSION)


def retired(stored: Sequence[VectorLine], ends: Mapping[str, str], live: Collection[str]) -> list[VectorLine]:
    """The lines of ids that have ended, by now or by *ends*; *live* has the ids that are cases."""
    past = [
        line if line.retired else msgspec.structs.replace(line, retired=ends[line.id])
        for line in stored
        if line.retired or line.id in ends
    ]
    return [line for line in past if line.id not in live]


def breaches(
    stored: Sequence[VectorLine],
    cases: Sequence[Case],
    contents: Mapping[str, str],
    ends: Mapping[str, str],
    areas: Collection[str] | None = None,
    *,
    rewrite: bool = False,
) -> Iterator[tuple[str, str]]:
    """Each id whose promise *cases* break, and the reason.

    Args:
        stored: every line that there is.
        cases: those of *areas*, or all.
        contents: the content hashes of *cases*.
        ends: the ids that end now.
        areas: what is held to the promise; everything if not given.
        rewrite: whether ids may change, and go.
    """
    for line in stored:
        held = areas is None or line.area in areas
        if held and not rewrite and (broken := _breach(line, contents.get(line.id), ends)):
            yield line.id, broken
    there = Counter(line.id for line in stored)
    for case in cases:
        if case.supersedes and case.supersedes not in there:
            yield case.id, f"supersedes {case.supersedes}, which is not a known id"
    for id_ in sorted(id_ for id_, times in there.items() if times > 1):
        yield id_, "has two lines in its vector file"


def _breach(line: VectorLine, content: str | None, ends: Mapping[str, str]) -> str:
    if (end := line.retired or ends.get(line.id)) and content is not None:
        return f"was retired in {end}, and an id is never used again"
    if line.retired:
        return ""
    if content is None:
        gone = "is gone; a case that replaces it names it in `supersedes`, or `corpus compile --retire` ends it"
        return "" if line.id in ends else gone
    if content != line.sha256:
        return "has another content than before; give the new case an id of its own and `supersedes`"
    return ""


def current_lines(root: Path, version: str = CORPUS_VERSION) -> list[FrozenLine]:
    """Each id below *root* and the schema, as *version* freezes them.

    An id that was retired before a version froze it is not among them: no released corpus promised to keep it.
    """
    frozen = {line.id for line in FROZEN.read(root)}
    kept = (line for line in VECTORS.read(root) if not line.retired or line.id in frozen)
    lines = [FrozenLine(line.id, line.sha256[:DIGEST], version) for line in kept]
    return [*lines, FrozenLine(SCHEMA_ID, schema_digest(), version)]


def schema_digest() -> str:
    """The start of the hash of the schema without descriptions, whose words may change."""
    text = msgspec.json.encode(_without_descriptions(schema.build_schema()), order="deterministic")
    return sha256(text).hexdigest()[:DIGEST]


def _without_descriptions(document: Any) -> Any:
    if isinstance(document, dict):
        return {
            name: _without_descriptions(each)
            for name, each in document.items()
            if not (name in ("title", "description") and isinstance(each, str))
        }
    return list(map(_without_descriptions, document)) if isinstance(document, list) else document


def frozen_breaches(root: Path, version: str = CORPUS_VERSION) -> Iterator[tuple[str, str]]:
    """Each frozen id below *root* that *version* may not change so, and the reason; raises as `read_lines`."""
    now = {line.id: line.sha256 for line in current_lines(root)}
    retired = {line.id: line.retired for line in VECTORS.read(root) if line.retired}
    for line in FROZEN.read(root):
        major, minor = numbers = _numbers(line.version)
        if _numbers(version)[0] > major:
            continue
        change, takes = "", f"{major + 1}.0"
        if line.id not in now:
            change = "is gone"
        elif line.id == SCHEMA_ID and now[line.id] != line.sha256 and _numbers(version) <= numbers:
            change, takes = "has other fields", f"{major}.{minor + 1}, or {takes} if readers of the old one fail"
        elif line.id != SCHEMA_ID and now[line.id] != line.sha256:
            change = "has another question or right answer"
        elif (end := retired.get(line.id)) and min(_numbers(end), _numbers(version)) <= numbers:
            change, takes = f"was retired in {end}", f"{major}.{minor + 1}"
        if change:
            yield line.id, f"{change}, but version {line.version} froze it: that takes version {takes}"


def frozen_changes(root: Path, contents: Mapping[str, str], areas: Collection[str] | None = None) -> list[str]:
    """The frozen ids of *areas* that are cases and whose content hash in *contents* is another, or missing."""
    live = {line.id for line in VECTORS.read(root, areas) if not line.retired}
    frozen = (line for line in FROZEN.read(root, areas) if line.id in live)
    return [line.id for line in frozen if contents.get(line.id, "")[:DIGEST] != line.sha256]


def _numbers(version: str) -> tuple[int, int]:
    """Major and minor number."""
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def frozen_files(root: Path, version: str = CORPUS_VERSION) -> dict[str, bytes]:
    """The files of frozen ids once *version* freezes all that is below *root*, by path.

    An id that has not changed keeps the version that froze it first.
    """
    before = {(line.id, line.sha256): line for line in FROZEN.read(root) if line.id != SCHEMA_ID}
    return FROZEN.texts(before.get((line.id, line.sha256), line) for line in current_lines(root, version))


def not_frozen(root: Path) -> list[str]:
    """The ids below *root* that no version has frozen yet."""
    known = {line.id for line in FROZEN.read(root)}
    return [line.id for line in current_lines(root) if line.id not in known]
