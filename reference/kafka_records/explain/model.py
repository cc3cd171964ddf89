"""Result of `explain`: sections of bytes, in them parts, in them fields.

    Explanation ── Section (the input) ── Part (a batch) ── Field, Field, Part (a record) …
                                             └── opened: Section (what its compressed bytes hold)

The fields of a section cover its bytes exactly once, in order, whatever they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kafka_records.errors import RecordFormatError

# What a field is for, so that a reader may colour it.
Group = Literal[
    "framing",  # offsets, sizes and counts of what follows
    "format",  # magic bytes and attributes
    "checksum",
    "offset",
    "time",
    "producer",
    "length",  # lengths of keys, values, headers
    "key",
    "value",
    "codec",  # framing of a compression format
    "packed",  # compressed bytes
    "unread",  # bytes that a decoder does not look at, or never reaches
]


@dataclass(frozen=True, slots=True)
class Note:
    """A line below a field: a detail of its value, and what that means."""

    shown: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Bytes with one meaning.

    Attributes:
        offset: from the start of the section.
        size: in bytes, at least 1.
        path: as in ``RecordFormatError.path``.
        name: the last segment of the path, Kafka's own name where it has one.
        raw: the bytes.
        value: what they stand for: a number, a text, bytes, or None if nothing.
        shown: the value as text, without control characters, shortened if it is long.
        meaning: what the value says, in plain words; may be empty.
        notes: details, such as the attributes bit by bit.
        group: what the field is for.
        rule: id in the rule catalogue, or None.
    """

    offset: int
    size: int
    path: str
    name: str
    raw: bytes
    value: int | str | bytes | None
    shown: str
    meaning: str
    notes: tuple[Note, ...]
    group: Group
    rule: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Fields that belong together: a batch, a record, a header, compressed bytes.

    Attributes:
        title: what it is, in one line.
        path: as in ``RecordFormatError.path``.
        offset: from the start of the section.
        size: in bytes.
        children: its fields and parts, end to end.
        opened: what its bytes hold, if they are compressed and could be opened.
    """

    title: str
    path: str
    offset: int
    size: int
    children: tuple[Part | Field, ...]
    opened: Section | None

    @property
    def fields(self) -> Iterator[Field]:
        """Every field, in order, those of `opened` left out."""
        for child in self.children:
            if isinstance(child, Field):
                yield child
            else:
                yield from child.fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Bytes with offsets of their own: the input, or the content of a compressed part.

    Attributes:
        title: what it is, in one line.
        data: its bytes.
        origin: in the enclosing section, the offset of the compressed bytes; None for the input.
        root: everything in it.
    """

    title: str
    data: bytes
    origin: int | None
    root: Part

    @property
    def fields(self) -> tuple[Field, ...]:
        """Every field, in order; together they are `data`."""
        return tuple(self.root.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Every byte of an input with its meaning.

    Attributes:
        section: the input.
        error: what `decode` raises for this input, or None.
        batches: how many batches can be read (those before the error).
        records: how many records these hold.
    """

    section: Section
    error: RecordFormatError | None
    batches: int
    records: int

    @property
    def sections(self) -> tuple[Section, ...]:
        """The input, then every section that was opened, in order."""
        return (self.section, *_opened(self.section.root))


def _opened(part: Part) -> Iterator[Section]:
    if part.opened:
        yield part.opened
        yield from _opened(part.opened.root)
    for child in part.children:
        if isinstance(child, Part):
            yield from _opened(child)
