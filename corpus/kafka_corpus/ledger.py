"""The ledger of ids: what an id once asked, it asks for ever.

`goldens/ids.ndjson` has one line for each id that ever was, in the order in
which they came.  A case that was wrong gets a new id and names the old one in
`supersedes`; the old line then says since when it is retired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from kafka_corpus.case import Case
from kafka_corpus.vectors import CORPUS_VERSION, content_hash

LIVE: Final = None


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One id: the hash of its content, and the versions in which it came and went."""

    id: str
    sha256: str
    since: str
    supersedes: str | None = None
    retired: str | None = LIVE


_encoder = msgspec.json.Encoder()
_entries = msgspec.json.Decoder(Entry)


def parse(data: bytes) -> list[Entry]:
    """The entries of a ledger file; raises `msgspec.DecodeError` (a `ValueError`)."""
    return _entries.decode_lines(data)


def text(entries: Iterable[Entry]) -> bytes:
    """The entries as the file holds them."""
    return b"".join(_encoder.encode(entry) + b"\n" for entry in entries)


def entry_of(case: Case) -> Entry:
    """A new line for *case*."""
    return Entry(case.id, content_hash(case), case.since, case.supersedes)


def extend(old: Sequence[Entry], cases: Sequence[Case], *, retire: Sequence[str] = ()) -> list[Entry]:
    """The ledger with new ids at its end, and superseded ones retired; nothing else changes."""
    known = {entry.id for entry in old}
    ended = {case.supersedes: case.since for case in cases if case.supersedes} | dict.fromkeys(retire, CORPUS_VERSION)
    kept = [
        msgspec.structs.replace(entry, retired=ended[entry.id]) if entry.id in ended and not entry.retired else entry
        for entry in old
    ]
    return kept + [entry_of(case) for case in sorted(cases, key=lambda case: case.id) if case.id not in known]


def breaches(ledger: Sequence[Entry], cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    """Each id with which *cases* break their promise, and how."""
    live = {case.id: case for case in cases}
    lines = [entry.id for entry in ledger]
    for entry in ledger:
        if broken := _breach(entry, live.get(entry.id)):
            yield entry.id, broken
    for case in cases:
        if case.supersedes and case.supersedes not in lines:
            yield case.id, f"supersedes {case.supersedes}, which never was"
    for id_ in sorted({id_ for id_ in lines if lines.count(id_) > 1} if len(set(lines)) < len(lines) else ()):
        yield id_, "stands in the ledger twice"


def _breach(entry: Entry, case: Case | None) -> str:
    if entry.retired:
        return "" if case is None else f"was retired in {entry.retired}, and an id is never used again"
    if case is None:
        return "is gone; a case that replaces it names it in `supersedes`, or `corpus compile --retire` ends it"
    if content_hash(case) != entry.sha256:
        return "asks or expects something else than before; give the new case an id of its own and `supersedes`"
    return ""
