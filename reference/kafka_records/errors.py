"""The one error that the reference raises for bytes (or values) that break a rule.

    ValueError
    └── RecordFormatError     kind, path, offset, rule, batches

A decoder gives a value or raises this, and nothing else.  An error starts
where the rule broke, with a short path; every caller on the way out puts its
own segment in front (``inside``), so no path is built while all is well.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

if TYPE_CHECKING:
    from kafka_records.model import Batch

# CON-01: Java has other classes for them.
Kind = Literal[
    "truncated",  # the bytes end before a field or a promised record does
    "corrupt",  # a checksum does not match
    "malformed",  # the structure contradicts itself
    "unsupported_magic",  # no such format version
    "unsupported_compression",  # no such codec, or not in this format version
    "decompression",  # the codec refuses the compressed bytes
    "limit",  # more output or objects than the caller allows
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

# An offset for errors about a value that was to be encoded: there are no bytes.
NO_OFFSET: Final = -1


class RecordFormatError(ValueError):
    """Bytes that are not valid Kafka record data, or a batch that cannot be written.

    Attributes:
        kind: what went wrong, one of ``KINDS``.
        path: the field, as in ``batch.records[3].headers[0].key_length``.
        offset: bytes from the start of the input; inside compressed data the
            start of the compressed bytes; ``NO_OFFSET`` when encoding.
        inner_offset: bytes from the start of the decompressed data, or None.
        rule: id in the rule catalogue (``kafka_records.rules``).
        batches: those decoded before the error.
    """

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        path: str = "",
        offset: int = NO_OFFSET,
        rule: str,
        inner_offset: int | None = None,
        batches: tuple[Batch, ...] = (),
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.path = path
        self.offset = offset
        self.inner_offset = inner_offset
        self.rule = rule
        self.batches = batches

    def inside(self, segment: str, *, moved: int = 0) -> RecordFormatError:
        """Put *segment* in front of the path and move the offset by *moved* bytes."""
        self.path = ".".join(filter(None, (segment, self.path))).replace(".[", "[")
        if self.offset != NO_OFFSET:
            self.offset += moved
        return self

    def decompressed_at(self, offset: int) -> RecordFormatError:
        """Say that the bytes were decompressed from what starts at *offset*."""
        self.inner_offset, self.offset = self.offset, offset
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is pickled by its `args`, and ours takes more than a message.
        return partial(type(self), rule=self.rule), (self.kind, self.message), vars(self)

    def __str__(self) -> str:
        where = f"at {self.path or 'input'}"
        if self.offset != NO_OFFSET:
            where += f", byte {self.offset}"
        if self.inner_offset is not None:
            where += f", decompressed byte {self.inner_offset}"
        return f"{self.message} ({where}; {self.rule})"
