"""`explain`: every byte of an input with its field, its value and its meaning.

The error comes from `decode` and from nowhere else.  The walk only annotates:
it reads the layout tables, calls the decoders' own functions, and where one of
them refuses, it says so and goes on with whatever the framing still allows.
"""

from __future__ import annotations

from kafka_records.budget import budget
from kafka_records.errors import RecordFormatError
from kafka_records.explain.entries import write_log
from kafka_records.explain.model import Explanation, Field, Group, Note, Part, Section
from kafka_records.explain.pen import Ink, Pen
from kafka_records.explain.words import number, size
from kafka_records.log import decode
from kafka_records.model import DEFAULT, Batch, Limits

__all__ = ["Explanation", "Field", "Group", "Note", "Part", "Section", "explain"]


def explain(data: bytes, *, limits: Limits = DEFAULT) -> Explanation:
    """Annotate every byte of *data*, valid or not; nothing is ever raised.

    It takes at most twice the memory that `decode` may take; bytes for which
    that is not enough are left in one field.
    """
    data = bytes(data)
    batches, error = attempt(data, limits)
    pen = Pen(data, Ink(budget(data, limits)))
    section = pen.section(input_title(data), None, lambda pen: write_log(pen, batches))
    records = sum(len(batch.records) for batch in batches)
    return Explanation(section=section, error=error, batches=len(batches), records=records)


def attempt(data: bytes, limits: Limits) -> tuple[tuple[Batch, ...], RecordFormatError | None]:
    """The batches that `decode` gives, and the error that it raises."""
    try:
        return decode(data, limits=limits), None
    except RecordFormatError as error:
        # The traceback would keep all that was decoded alive.
        return error.batches, error.with_traceback(None)


def input_title(data: bytes) -> str:
    """The whole input in one line."""
    return f"input of {size(len(data))}" if data else f"an empty input: {number(0, 'batch')}, and no error"
