"""An explanation of bytes as rows of plain data, for pages.

A row is a list whose first element says what it is:

    ["part", depth, title]
    ["field", depth, group, offset, bytes, name, value, meaning, notes]
    ["open", depth, title]        what compressed bytes hold, until "close"
    ["close"]
    ["error", kind, message, where, rule]    below the field that is wrong
    ["end", offset]               an error stands where there is no byte any more
    ["more", count]               rows that are left out

`bytes` are lines of hex; a line with the wrong byte is a list of three: what is
before it, the byte, and what follows it.

It needs nothing but the reference, so that it runs in a browser too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kafka_conformance.sanitize import printable
from kafka_records import Explanation, RecordFormatError, explain
from kafka_records.explain import Field, Part, Section

Row = list[Any]

# A page of fields; `kafkaproof explain` has them all.
MOST_ROWS: Final = 400
# Larger inputs are floods, whose first fields say as much as all of them.
MOST_BYTES: Final = 256 * 1024
BYTES_PER_ROW: Final = 8
# Of a long string the first rows, and the number of bytes that are left.
LINES_OF_A_FIELD: Final = 4


def explained(title: str, data: bytes, most: int = MOST_BYTES) -> dict[str, Any]:
    """Bytes, *most* of them, with the meaning of each: a title, rows, and what it comes to."""
    explanation = explain(data[:most])
    found = list(_Walk(explanation).rows())
    left = len(found) - MOST_ROWS
    kept = [*found[:MOST_ROWS], *_error_beyond(found[MOST_ROWS:]), ["more", left]] if left > 0 else found
    cut = len(data) > most
    size = f"{len(data):,} bytes, of which the first {most:,} are shown" if cut else f"{len(data):,} bytes"
    return {"title": title, "size": size, "rows": kept, "summary": "".join(plain_summary(explanation))}


def _error_beyond(left_out: list[Row]) -> list[Row]:
    return [row for row in left_out if row[0] in ("error", "end")]


class _Walk:
    """Goes through the parts of an explanation as `reports.explain.Page` does."""

    def __init__(self, explanation: Explanation) -> None:
        self.explanation = explanation
        self.mark: Mark | None = locate(explanation)

    def rows(self) -> Iterator[Row]:
        """All rows."""
        section = self.explanation.section
        yield from self.part(section, section.root, 0)

    def part(self, section: Section, part: Part, depth: int) -> Iterator[Row]:
        """The children of a part, and what its bytes hold if they are compressed."""
        for child in part.children:
            if isinstance(child, Field):
                yield from self.field(section, child, depth)
                continue
            yield ["part", depth, printable(child.title)]
            yield from self.part(section, child, depth + 1)
        if part.opened:
            yield ["open", depth, printable(part.opened.title)]
            yield from self.part(part.opened, part.opened.root, depth + 1)
            yield ["close"]
        if self.mark and self.mark.is_end_of(section, part):
            yield ["end", part.offset + part.size]
            yield self.error(self.mark)

    def field(self, section: Section, field: Field, depth: int) -> Iterator[Row]:
        """The row of a field, and below it what is wrong there."""
        mark = self.mark if self.mark and self.mark.is_in(section, field) else None
        notes = [[printable(note.shown), printable(note.meaning)] for note in field.notes]
        shown, meaning = printable(field.shown), printable(field.meaning)
        digits = list(_bytes(field, None if mark is None else mark.at))
        yield ["field", depth, field.group, field.offset, digits, field.name, shown, meaning, notes]
        if mark:
            yield self.error(mark)

    def error(self, mark: Mark) -> Row:
        """The error, its place, and the rule that was broken."""
        error = mark.error
        return ["error", error.kind, printable(error.message), where(error), error.rule]


def _bytes(field: Field, marked: int | None) -> Iterator[str | list[str]]:
    for row in rows_of(field, marked):
        if isinstance(row, str):
            yield row
            continue
        digits = [f"{field.raw[at - field.offset]:02x}" for at in row]
        if marked is None or marked not in row:
            yield " ".join(digits)
        else:
            at = marked - row.start
            yield [" ".join(digits[:at]), digits[at], " ".join(digits[at + 1 :])]


def plain_summary(explanation: Explanation) -> tuple[str, str, str]:
    """The readable parts and the error, as three texts: a mark, a word, and the rest."""
    readable = f"{count(explanation.batches, 'batch', 'batches')}, {count(explanation.records, 'record', 'records')}"
    error = explanation.error
    if error is None:
        return "✓ ", "valid", f": {readable}"
    before = f"; before it {readable}" if explanation.batches else ""
    return "✗ ", error.kind, f": {printable(str(error))}{before}"


@dataclass(frozen=True, slots=True)
class Mark:
    """The place of an error.

    Attributes:
        section: whose bytes it counts.
        at: the byte; the one after the last of *part* if there is none.
        part: the part that ends too early, or None if there is a byte to point at.
    """

    error: RecordFormatError
    section: Section
    at: int
    part: Part | None

    def is_in(self, section: Section, field: Field) -> bool:
        """Whether the byte is one of *field*'s."""
        return self.part is None and section is self.section and field.offset <= self.at < field.offset + field.size

    def is_end_of(self, section: Section, part: Part) -> bool:
        """Whether the error is that *part* ends here."""
        return section is self.section and part is self.part


def locate(explanation: Explanation) -> Mark | None:
    """Where the error stands, or None if there is none."""
    error, section = explanation.error, explanation.section
    if error is None:
        return None
    at = error.offset
    if error.inner_offset is not None:
        # A part that was too large to be opened is marked as a whole.
        opened = [each for each in explanation.sections if each.origin == error.offset]
        if opened:
            section, at = opened[0], error.inner_offset
    roots = section.root.children[explanation.batches :] if section is explanation.section else ()
    root = next((child for child in roots if isinstance(child, Part)), section.root)
    part = deepest(root, error.path, at)
    return Mark(error, section, at, part if at == part.offset + part.size else None)


def deepest(part: Part, path: str, at: int) -> Part:
    """The innermost part that *path* leads through and that reaches to *at*."""
    for child in part.children:
        if isinstance(child, Part) and leads(path, child.path) and child.offset <= at <= child.offset + child.size:
            return deepest(child, path, at)
    return part


def leads(path: str, through: str) -> bool:
    """Whether *path* is *through* or below it."""
    return path == through or path.startswith((f"{through}.", f"{through}["))


def where(error: RecordFormatError) -> str:
    """Path and byte."""
    inner = "" if error.inner_offset is None else f", decompressed byte {error.inner_offset}"
    return f"at {error.path}, byte {error.offset}{inner}"


def count(number: int, one: str, many: str) -> str:
    """So many things."""
    return f"{number:,} {one if number == 1 else many}"


def rows_of(field: Field, marked: int | None) -> list[range | str]:
    """The rows of a field's bytes as ranges of offsets, most of a long one left out."""
    end = field.offset + field.size
    starts = range(field.offset, end, BYTES_PER_ROW)
    rows: list[range | str] = [range(start, min(start + BYTES_PER_ROW, end)) for start in starts[:LINES_OF_A_FIELD]]
    left = starts[LINES_OF_A_FIELD:]
    if not left:
        return rows
    if marked is not None and marked >= left.start:
        around = left.start + (marked - left.start) // BYTES_PER_ROW * BYTES_PER_ROW
        rows += [more(around - left.start), range(around, min(around + BYTES_PER_ROW, end))]
        rows.append(more(end - around - BYTES_PER_ROW))
    else:
        rows.append(more(end - left.start))
    return [row for row in rows if row]


def more(number: int) -> str:
    """The placeholder for bytes that are not shown; empty if there are none."""
    return f"… {count(number, 'byte', 'bytes')} more" if number > 0 else ""
