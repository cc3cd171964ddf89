"""An explanation as rows of plain data, for a page that lays them out itself.

A row is a list whose first element says what it is:

    ["part", depth, title]
    ["field", depth, group, offset, bytes, name, value, meaning, notes]
    ["open", depth, title]        what compressed bytes hold, until "close"
    ["close"]
    ["error", kind, message, where, rule]    below the field that is wrong
    ["end", offset]               an error stands where there is no byte any more
    ["more", count]               rows that are left out

`bytes` are lines of hex; a line with the wrong byte is a list of three: what is
before it, the byte, what is behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kafka_conformance.explaining.error import Mark, locate, where
from kafka_conformance.explaining.view import rows_of, summary
from kafka_conformance.hostile import printable
from kafka_records import Explanation, explain
from kafka_records.explain import Field, Part, Section

Row = list[Any]

# A page of fields; `kafkaproof explain` has them all.
MOST_ROWS: Final = 400
# Larger inputs are floods, whose first fields say as much as all of them.
MOST_BYTES: Final = 256 * 1024


def explained(title: str, data: bytes, most: int = MOST_BYTES) -> dict[str, Any]:
    """Bytes, *most* of them, with the meaning of each: a title, rows, and what it comes to."""
    explanation = explain(data[:most])
    found = list(_Walk(explanation).rows())
    left = len(found) - MOST_ROWS
    kept = [*found[:MOST_ROWS], *_error_beyond(found[MOST_ROWS:]), ["more", left]] if left > 0 else found
    cut = len(data) > most
    size = f"{len(data):,} bytes, of which the first {most:,} are shown" if cut else f"{len(data):,} bytes"
    return {"title": title, "size": size, "rows": kept, "summary": summary(explanation).plain}


def _error_beyond(left_out: list[Row]) -> list[Row]:
    return [row for row in left_out if row[0] in ("error", "end")]


class _Walk:
    """Goes through the parts of an explanation as `explaining.view.Page` does."""

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
        """What is wrong and where, and the rule that was broken."""
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
