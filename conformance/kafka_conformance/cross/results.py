"""The file of a cross run: NDJSON with a header, a line for each thing that happened, and a footer.

    written    what a producer made of a batch, with its bytes
    stored     what the broker made of such bytes
    read       what a consumer made of such bytes

Equal bytes for one batch are asked once, so lines about bytes name the batch
and their SHA-256, and the producers are those that wrote them.  Every line is
on the disk when it is known; a file without a footer is an incomplete run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec

from kafka_conformance.cross.verdict import Blame, Judged
from kafka_conformance.hostile import printable
from kafka_conformance.keeping import WouldReplace
from kafka_conformance.results import LineWriter, Unusable, check_footer, whole_lines
from kafka_conformance.severity import Outcome

FORMAT: Final = "kafkaproof-cross"
VERSION: Final = 1
FILE: Final = "cross.ndjson"


class Header(msgspec.Struct, kw_only=True):
    """Who takes part, and what is written.

    `absent` are those that could not be started, with the reason; `broker` is a
    release, or empty; `read` says whether consumers get what producers `written`
    or what the broker `stored`; `part` whether testees or batches were chosen.
    """

    format: str = FORMAT
    version: int = VERSION
    testees: list[dict[str, Any]]
    absent: dict[str, str] = {}
    corpus: str
    batches: list[str]
    broker: str = ""
    read: str = "written"
    part: bool = False


class _Line(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What all lines have in common."""

    batch: str
    outcome: Outcome
    blame: Blame = ""
    field: str = ""
    why: str = ""

    @property
    def judged(self) -> Judged:
        """The verdict in it."""
        return Judged(self.outcome, self.blame, self.field, self.why)


class Written(_Line, tag_field="kind", tag="written", kw_only=True, omit_defaults=True):
    """What *producer* wrote; no bytes if it did not."""

    producer: str
    data: bytes = b""
    sha256: str = ""


class Stored(_Line, tag_field="kind", tag="stored", kw_only=True, omit_defaults=True):
    """What the broker stored of some bytes; `right` are those of Kafka's own writer, by the reference."""

    sha256: str
    data: bytes = b""
    right: bytes = b""


class Read(_Line, tag_field="kind", tag="read", kw_only=True, omit_defaults=True):
    """What *consumer* made of some bytes."""

    consumer: str
    sha256: str


class Footer(msgspec.Struct, tag_field="kind", tag="footer", kw_only=True):
    """That it is complete; `sha256` is over every byte before it."""

    seconds: float
    sha256: str


Line = Written | Stored | Read


@dataclass(frozen=True, slots=True)
class Results:
    """A cross run as read from its file."""

    header: Header
    written: Mapping[tuple[str, str], Written]  # by producer and batch
    stored: Mapping[tuple[str, str], Stored]  # by batch and hash of the bytes
    read: Mapping[tuple[str, str, str], Read]  # by consumer, batch and hash
    footer: Footer | None

    @property
    def complete(self) -> bool:
        """Whether the run came to its end."""
        return self.footer is not None

    def lines(self) -> Iterator[Line]:
        """All lines: what was written, then what was stored, then what was read."""
        return chain(self.written.values(), self.stored.values(), self.read.values())


def hash_of(data: bytes) -> str:
    """How bytes are named in lines."""
    return hashlib.sha256(data).hexdigest()[:16]


_headers = msgspec.json.Decoder(Header)
_lines = msgspec.json.Decoder(Written | Stored | Read | Footer)


def read(path: Path) -> Results:
    """The run in *path*; a torn last line is as if it had not been written.

    Raises:
        Unusable: there is no such file, or it is none of these.
    """
    whole = whole_lines(path)
    try:
        header = _headers.decode(whole[0]) if whole else None
        if header is None or header.format != FORMAT or header.version != VERSION:
            raise Unusable(f"{path}: not the result of a cross run")
        return _sorted(header, [_lines.decode(line) for line in whole[1:]], whole, path)
    except msgspec.DecodeError as error:
        raise Unusable(f"{path}: not the result of a cross run: {error}") from error


def _sorted(header: Header, lines: Iterable[Line | Footer], whole: list[bytes], path: Path) -> Results:
    written, stored, seen, footer = {}, {}, {}, None
    for line in lines:
        match line:
            case Written():
                written[line.producer, line.batch] = line
            case Stored():
                stored[line.batch, line.sha256] = line
            case Read():
                seen[line.consumer, line.batch, line.sha256] = line
            case Footer():
                footer = line
    if footer:
        check_footer(footer.sha256, whole[:-1], path)
    return Results(header, written, stored, seen, footer)


class Writer(LineWriter):
    """Writes the file of a run; `finish` makes it complete."""

    def __init__(self, path: Path, header: Header, earned: Results | None = None) -> None:
        """Start *path* anew with *header* and what was *earned* before."""
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, header, earned.lines() if earned else ())

    def finish(self, seconds: float) -> None:
        """Add the footer."""
        self.complete(Footer(seconds=round(seconds, 3), sha256=self.sha256()))


def check_covers(path: Path, testees: Iterable[str], batches: Iterable[str]) -> None:
    """Raise `WouldReplace` if *path* holds a whole run that has more than some chosen *testees* and *batches*."""
    try:
        old = read(path).header
    except Unusable:
        return  # there is none
    before = {str(testee.get("label")) for testee in old.testees}
    if not old.part and not (before <= set(testees) and set(old.batches) <= set(batches)):
        raise WouldReplace(
            f"{printable(str(path), 500)} is the result of a whole run ({len(before)} testees, {len(old.batches)} "
            "batches), and one of a part would replace it; --report DIR writes into another directory"
        )


def check_same_run(old: Header, new: Header) -> None:
    """Raise `Unusable` unless a run with header *new* may go on with the results of *old*."""
    for field in ("testees", "corpus", "batches", "broker", "read"):
        if getattr(old, field) != getattr(new, field):
            raise Unusable(f"it cannot be resumed: it had other {field}")
