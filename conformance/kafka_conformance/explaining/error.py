"""Where an error stands in an explanation, and what to say of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from kafka_conformance.hostile import printable
from kafka_records import Explanation, RecordFormatError
from kafka_records.explain import Field, Part, Section
from kafka_records.rules import rule

FAINT: Final = "color(102)"
WRONG: Final = "bold color(160)"
# Folding text asks for a console, and takes nothing from it but the size of a tab.
ANYWHERE: Final = Console(width=80, color_system=None)


@dataclass(frozen=True, slots=True)
class Mark:
    """The place of an error.

    Attributes:
        section: whose bytes it counts.
        at: the byte; the one behind the last of *part* if there is none.
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


def describe(error: RecordFormatError, width: int) -> Iterator[Text]:
    """What is wrong and where, the rule, and its sources."""
    broken = rule(error.rule)
    for text in (
        Text.assemble((f"{error.kind}: ", WRONG), (printable(error.message), "bold")),
        Text(where(error), FAINT),
        Text.assemble((f"{broken.id}  ", WRONG), broken.statement),
        Text(f"sources: {', '.join(broken.sources)}", FAINT),
    ):
        yield from folded(text, width)


def folded(text: Text, width: int) -> Iterable[Text]:
    """The text on lines of at most *width* cells; at least one line."""
    return text.wrap(ANYWHERE, width) or [text]


def where(error: RecordFormatError) -> str:
    """Path and byte."""
    inner = "" if error.inner_offset is None else f", decompressed byte {error.inner_offset}"
    return f"at {error.path}, byte {error.offset}{inner}"
