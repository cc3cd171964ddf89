"""How sections are written: one field after the other, each where the last one ended.

So the fields of a section cover it without gaps or overlaps, and nothing that
a length in the input claims can change that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafka_records.budget import pay
from kafka_records.errors import RecordFormatError
from kafka_records.explain.model import Field, Group, Note, Part, Section
from kafka_records.explain.words import Words, joined, overlong, size
from kafka_records.varint import (
    MAX_VARINT_BYTES,
    MAX_VARLONG_BYTES,
    decode_varint,
    decode_varlong,
    sizeof_varint,
    sizeof_varlong,
)

# What a field or part takes in memory: the object, three texts, two numbers, its bytes.
FIELD_COST = 1024


@dataclass(slots=True)
class Ink:
    """The memory budget that is left, for all sections together."""

    room: int

    def pay(self, price: int) -> None:
        """Take *price* bytes; kind `limit` if there are fewer."""
        self.room = pay(self.room, price, offset=0)


@dataclass(slots=True)
class OpenPart:
    """A part that is being written; its title may become known last."""

    path: str
    offset: int
    title: str
    children: list[Part | Field] = field(default_factory=list)
    opened: Section | None = None

    def done(self, end: int) -> Part:
        """The part, from its offset to *end*."""
        return Part(
            title=self.title,
            path=self.path,
            offset=self.offset,
            size=end - self.offset,
            children=tuple(self.children),
            opened=self.opened,
        )


class Pen:
    """Writes one section.  *at* is the next byte, *end* where the part in hand ends."""

    __slots__ = ("at", "data", "draft", "end", "ink")

    def __init__(self, data: bytes, ink: Ink, path: str = "") -> None:
        self.data = data
        self.ink = ink
        self.at = 0
        self.end = len(data)
        self.draft = OpenPart(path, 0, "")

    @property
    def left(self) -> int:
        """Bytes of the part in hand that are not written yet."""
        return self.end - self.at

    def path(self, name: str) -> str:
        """The path of *name* in the part in hand; a name as `[0]` belongs to the segment before it."""
        return ".".join(filter(None, (self.draft.path, name)))

    def claim(self, name: str, length: int) -> None:
        """Refuse a length that the part in hand has not got."""
        if not 0 <= length <= self.left:
            message = f"{name} claims {size(length)}, {self.left} are left"
            raise RecordFormatError("truncated", message, path=name, offset=self.at, rule="REC-13")

    def narrow(self, name: str, length: int) -> None:
        """End the part in hand after *length* bytes, which field *name* has claimed."""
        self.claim(name, length)
        self.end = self.at + length

    @contextmanager
    def part(self, name: str, title: str, length: int | None = None) -> Iterator[OpenPart]:
        """Write a part in the body of the `with`: of *length* bytes, or as long as the body makes it.

        A body that raises RecordFormatError cannot read on; the bytes that are
        left (in the enclosing part, if there is no *length*) become one field that says so.
        """
        self.ink.pay(FIELD_COST)
        outer, outer_end = self.draft, self.end
        self.draft = OpenPart(self.path(name), self.at, title)
        if length is not None:
            self.end = min(self.at + length, self.end)
        try:
            yield self.draft
            if length is not None:
                self.rest("not read")
        except RecordFormatError as error:
            self.rest(f"not read: {error.message}")
        outer.children.append(self.draft.done(self.at))
        self.draft, self.end = outer, outer_end

    def section(self, title: str, origin: int | None, write: Callable[[Pen], None]) -> Section:
        """The whole section, written by *write*."""
        try:
            write(self)
            self.rest("not read")
        except RecordFormatError as error:
            self.rest(f"not read: {error.message}")
        root = self.draft.done(self.at)
        return Section(title=title, data=self.data, origin=origin, root=root)

    def field(
        self,
        name: str,
        length: int,
        words: Words,
        group: Group,
        *,
        value: int | str | bytes | None = None,
    ) -> None:
        """Write a field of *length* bytes, or of those that are left; none of no bytes."""
        if self.left and length:
            self.ink.pay(FIELD_COST)
            self._add(name, min(length, self.left), words, group, value)

    def rest(self, meaning: str, *, name: str = "rest", rule: str | None = None, group: Group = "unread") -> None:
        """Write all that is left of the part in hand as one field, which costs nothing."""
        if self.left:
            self._add(name, self.left, Words(size(self.left), meaning, rule=rule), group, None)

    def _add(self, name: str, length: int, words: Words, group: Group, value: int | str | bytes | None) -> None:
        raw = self.data[self.at : self.at + length]
        self.draft.children.append(
            Field(
                offset=self.at,
                size=length,
                path=self.path(name),
                name=name,
                raw=raw,
                value=value,
                shown=words.shown,
                meaning=words.meaning,
                notes=words.notes,
                group=group,
                rule=words.rule,
            )
        )
        self.at += length

    def content(self, name: str, length: int, say: Callable[[bytes], Words], group: Group) -> None:
        """Write *length* bytes of content, or refuse if there are fewer."""
        self.claim(name, length)
        raw = self.data[self.at : self.at + length]
        self.field(name, length, say(raw), group, value=raw)

    def varint(self, name: str, say: Callable[[int], str], group: Group, rule: str) -> int:
        """Write a zig-zag int32 and give its value."""
        return self._varint(name, say, group, rule, MAX_VARINT_BYTES)

    def varlong(self, name: str, say: Callable[[int], str], group: Group, rule: str) -> int:
        """Write a zig-zag int64 and give its value."""
        return self._varint(name, say, group, rule, MAX_VARLONG_BYTES)

    def _varint(self, name: str, say: Callable[[int], str], group: Group, rule: str, most: int) -> int:
        decode, sizeof = (
            (decode_varint, sizeof_varint) if most == MAX_VARINT_BYTES else (decode_varlong, sizeof_varlong)
        )
        window = self.data[self.at : min(self.at + most, self.end)]
        try:
            value, used = decode(window, 0, name)
        except RecordFormatError as error:
            self.field(name, len(window), Words("?", error.message, rule=error.rule), group)
            raise
        shortest = sizeof(value)
        words = Words(str(value), joined(say(value), overlong(used, shortest)), zigzag(window[:used]), rule)
        self.field(name, used, words, group, value=value)
        return value


def zigzag(raw: bytes) -> tuple[Note, ...]:
    """How a varint of several bytes is put together; one byte needs no drawing."""
    if len(raw) == 1:
        return ()
    groups = " ".join(f"{byte & 0x7F:07b}" for byte in reversed(raw))
    unsigned = sum((byte & 0x7F) << (7 * index) for index, byte in enumerate(raw))
    return (Note("zig-zag", f"{groups} is {unsigned}"),)
