"""The registry of ids: the content of an id never changes.

Each line of the vector files registers an id, with the hash of its content.  A case that was wrong gets a new id
and names the old one in `supersedes`; the old line then says since when it is retired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from kafka_corpus.case import Case
from kafka_corpus.vector_format import CORPUS_VERSION
from kafka_corpus.vectors.area_files import VectorLine


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
