"""An explanation of bytes as lines of text, with the place of an error.

offset  bytes                    field                   value               meaning
         0  00 00 00 00 00 00 00 00  base_offset             0                   offset of …

The content of compressed bytes follows them after a vertical rail, with its own offsets.
An error has a caret under its byte, with the rule that was broken.  Texts come
as `rich.text.Text`, never as markup, for they hold what the input holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from rich.console import Console
from rich.text import Text

from kafka_conformance.reports.byte_rows import BYTES_PER_ROW, Mark, locate, plain_summary, rows_of, where
from kafka_conformance.sanitize import printable
from kafka_records import Explanation, RecordFormatError
from kafka_records.explain import Field, Group, Part, Section
from kafka_records.rules import rule

FAINT: Final = "color(102)"
WRONG: Final = "bold color(160)"
# Wrapping text needs a console, but uses only its tab size.
ANYWHERE: Final = Console(width=80, color_system=None)


def describe(error: RecordFormatError, width: int) -> Iterator[Text]:
    """The error, its place, the rule, and its sources."""
    broken = rule(error.rule)
    for text in (
        Text.assemble((f"{error.kind}: ", WRONG), (printable(error.message), "bold")),
        Text(where(error), FAINT),
        Text.assemble((f"{broken.id}  ", WRONG), broken.statement),
        Text(f"sources: {', '.join(broken.sources)}", FAINT),
    ):
        yield from wrap_text(text, width)


def wrap_text(text: Text, width: int) -> Iterable[Text]:
    """The text on lines of at most *width* cells, without trailing spaces; at least one line."""
    lines = list(text.wrap(ANYWHERE, width)) or [text]
    for line in lines:
        line.rstrip()
    return lines


HEX_WIDTH: Final = 3 * BYTES_PER_ROW - 1
VALUE_WIDTH: Final = 19  # an int64 up to 10^18, or sixteen bits in groups of four
NARROWEST_MEANING: Final = 24
# Of middling brightness, so that they can be read on black and on white: contrast
# is about 4.5 with either.
STYLES: Final[dict[Group, str]] = {
    "framing": "color(32)",
    "format": "color(98)",
    "checksum": "color(133)",
    "offset": "color(30)",
    "time": "color(130)",
    "producer": "color(66)",
    "length": "color(32)",
    "key": "color(28)",
    "value": "color(28)",
    "codec": "color(133)",
    "packed": "color(102)",
    "unread": "color(102)",
}
RIGHT: Final = "bold color(28)"


@dataclass(frozen=True, slots=True)
class Columns:
    """How wide the columns of one section are, in characters; *rail* is what stands before them."""

    width: int
    rail: str
    offset: int
    name: int

    @classmethod
    def of(cls, section: Section, width: int, rail: str) -> Columns:
        """As wide as the section's offsets and names are."""
        names = [len(name) for name in labels(section.root, bool(rail))]
        offset = max(4, len(str(len(section.data))))
        return cls(width=width, rail=rail, offset=offset, name=max([22, *names]))

    @property
    def hex_at(self) -> int:
        """Where the bytes start."""
        return len(self.rail) + self.offset + 2

    @property
    def name_at(self) -> int:
        """Where the names start."""
        return self.hex_at + HEX_WIDTH + 2

    @property
    def text_width(self) -> int:
        """Characters left for value and meaning."""
        return max(20, self.width - self.name_at - self.name - 2)


def labels(part: Part, depth: int) -> Iterator[str]:
    """The names of all fields, indented as they will be shown."""
    for child in part.children:
        if isinstance(child, Part):
            yield from labels(child, depth + 1)
        else:
            yield indent_lines(child.name, depth)


def indent_lines(name: str, depth: int) -> str:
    """A name below its part; the fields of a batch stand at the margin."""
    return "  " * max(0, depth - 1) + name


def explanation_lines(explanation: Explanation, width: int, broken: str = "") -> Iterator[Text]:
    """The whole explanation, at most *width* characters a line; *broken* is a fault in what its batches hold."""
    mark = locate(explanation)
    yield from Page(explanation.section, width, "", mark).lines()
    yield Text()
    if explanation.error or not broken:
        yield from wrap_text(explanation_summary(explanation), width)
    if broken:
        yield from wrap_text(Text.assemble(("✗ ", WRONG), ("broken", WRONG), f": {printable(broken)}"), width)


def explanation_summary(explanation: Explanation) -> Text:
    """The last line: what can be read, and what is wrong."""
    mark, word, rest = plain_summary(explanation)
    style = RIGHT if explanation.error is None else WRONG
    return Text.assemble((mark, style), (word, style), rest)


class Page:
    """The lines of one section."""

    def __init__(self, section: Section, width: int, rail: str, mark: Mark | None) -> None:
        self.section = section
        self.columns = Columns.of(section, width, rail)
        self.mark = mark

    @property
    def rail(self) -> Text:
        """The prefix of every line."""
        return Text(self.columns.rail, style=FAINT)

    def lines(self) -> Iterator[Text]:
        """Every part and field, and the mark of the error."""
        # Only the input has headings across the page.
        yield from self.part(self.section.root, int(bool(self.columns.rail)))

    def part(self, part: Part, depth: int) -> Iterator[Text]:
        """The children of a part, and what its bytes hold if they are compressed."""
        for child in part.children:
            if isinstance(child, Field):
                yield from self.field(child, depth)
                continue
            yield from self.heading(child, depth)
            yield from self.part(child, depth + 1)
        if part.opened:
            yield from self.opened(part.opened)
        if self.mark and self.mark.is_end_of(self.section, part):
            yield from self.end_mark(part)

    def heading(self, part: Part, depth: int) -> Iterator[Text]:
        """The heading of a part: a rule for a batch, a line above the names for all others."""
        title = printable(part.title)
        if depth:
            blank = " " * (self.columns.name_at - len(self.columns.rail))
            yield Text.assemble(self.rail, (blank + indent_lines("▾ ", depth), FAINT), (title, "bold"))
            return
        yield Text()
        yield Text.assemble(("━━ ", FAINT), (title, "bold"), (" " + "━" * (self.columns.width - len(title) - 4), FAINT))

    def opened(self, section: Section) -> Iterator[Text]:
        """The content of compressed bytes, after a vertical rail."""
        indent = self.columns.rail + " " * 2
        title = printable(section.title)
        bar = "─" * (self.columns.width - len(indent) - len(title) - 4)
        yield Text.assemble((f"{indent}╭─ ", FAINT), (title, "bold"), (f" {bar}", FAINT))
        yield from Page(section, self.columns.width, f"{indent}│ ", self.mark).lines()
        yield Text(f"{indent}╰{'─' * (self.columns.width - len(indent) - 1)}", style=FAINT)

    def field(self, field: Field, depth: int) -> Iterator[Text]:
        """The rows of one field, and a mark below the byte that is wrong."""
        marked = self.mark.at if self.mark and self.mark.is_in(self.section, field) else None
        style = STYLES[field.group]
        rows = rows_of(field, marked)
        lefts = [self.bytes_row(field, row, marked, style) for row in rows]
        texts = list(self.texts(field))
        name = Text(indent_lines(field.name, depth).ljust(self.columns.name), style)
        wrong = next((number for number, row in enumerate(rows) if isinstance(row, range) and marked in row), None)
        column = 0 if marked is None else (marked - field.offset) % BYTES_PER_ROW
        # The meaning may go on beside the caret; what is wrong then comes below both.
        beside = wrong == len(lefts) - 1 and len(texts) > len(lefts)
        if beside:
            lefts.append(Text.assemble(" " * (self.columns.offset + 2 + 3 * column), ("^^", WRONG)))
        for number, (left, right) in enumerate(zip_longest(lefts, texts)):
            yield self.row(left or Text(), name if number == 0 else Text(), right or Text())
            if number == wrong and not beside:
                yield from self.caret(column)
        if beside:
            yield from self.caret(column, shown=False)

    def row(self, left: Text, name: Text, right: Text) -> Text:
        """One line of all columns."""
        left.pad_right(self.columns.offset + 2 + HEX_WIDTH - len(left))
        name.pad_right(self.columns.name - len(name))
        line = Text.assemble(self.rail, left, "  ", name, "  ", right)
        line.rstrip()
        return line

    def bytes_row(self, field: Field, row: range | str, marked: int | None, style: str) -> Text:
        """An offset and up to eight bytes, or the number of those that are not shown."""
        if isinstance(row, str):
            return Text(" " * (self.columns.offset + 2) + row, FAINT)
        line = Text.assemble((f"{row.start:>{self.columns.offset}}  ", FAINT))
        for at in row:
            digits = f"{field.raw[at - field.offset]:02x}"
            line.append(digits, "reverse " + WRONG if at == marked else style)
            line.append(" ")
        line.rstrip()
        return line

    def texts(self, field: Field) -> Sequence[Text]:
        """Value and meaning, and below them the notes."""
        rows = [*self.pair(printable(field.shown), printable(field.meaning), "bold", "")]
        for note in field.notes:
            rows += self.pair(printable(note.shown), printable(note.meaning), FAINT, FAINT)
        return rows

    def pair(self, shown: str, meaning: str, shown_style: str, meaning_style: str) -> Iterator[Text]:
        """Value and meaning side by side; a long value pushes the meaning away."""
        room = self.columns.text_width - VALUE_WIDTH - 2
        if len(shown) <= VALUE_WIDTH and room >= NARROWEST_MEANING:
            value = shown
            for line in wrap_text(Text(meaning, meaning_style), room):
                yield Text.assemble((value.ljust(VALUE_WIDTH + 2), shown_style), line)
                value = ""
            return
        both = Text.assemble((shown, shown_style), "  ", (meaning, meaning_style))
        if len(shown) <= VALUE_WIDTH or len(both) <= self.columns.text_width:
            yield from wrap_text(both, self.columns.text_width)
            return
        yield from wrap_text(Text(shown, shown_style), self.columns.text_width)
        yield from wrap_text(Text(meaning, meaning_style), self.columns.text_width)

    def caret(self, index: int, *, shown: bool = True) -> Iterator[Text]:
        """The caret under a byte, if it is still to be *shown*, followed by the error."""
        assert self.mark
        at = self.columns.hex_at + 3 * index
        blank = " " * (at - len(self.columns.rail))
        room = max(40, self.columns.width - at - 3)
        for number, line in enumerate(describe(self.mark.error, room)):
            yield Text.assemble(self.rail, blank, ("^^ " if shown and number == 0 else "   ", WRONG), line)

    def end_mark(self, part: Part) -> Iterator[Text]:
        """A mark where there is no byte any more."""
        end = part.offset + part.size
        what = "end of the input" if end == len(self.section.data) and not self.columns.rail else "end of these bytes"
        yield Text.assemble(self.rail, (f"{end:>{self.columns.offset}}  ··   {what}", FAINT))
        yield from self.caret(0)
