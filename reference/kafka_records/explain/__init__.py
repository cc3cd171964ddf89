"""`explain`: every byte of an input with its field, its value and its meaning.

The error comes from `decode` and from nowhere else.  The walk only annotates:
it reads the layout tables, calls the decoders' own functions, and where one of
them refuses, it says so and goes on with whatever the framing still allows.

A log is entries of any magic, end to end, and at its end what cannot be one.
"""

from __future__ import annotations

from kafka_records.budget import budget
from kafka_records.constants import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MAGIC_VALUE_V2
from kafka_records.errors import RecordFormatError
from kafka_records.explain.batch import write_batch
from kafka_records.explain.fixed import Values, read_values, write_fixed
from kafka_records.explain.message import write_entry
from kafka_records.explain.model import Explanation, Field, Group, Note, Part, Section
from kafka_records.explain.pen import Ink, Pen
from kafka_records.explain.words import Words, number, size
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET, MESSAGE_V0, MESSAGE_V1, Layout
from kafka_records.log import decode, next_entry
from kafka_records.model import DEFAULT, Batch, Limits

__all__ = ["Explanation", "Field", "Group", "Note", "Part", "Section", "explain"]

LAYOUTS = (MESSAGE_V0, MESSAGE_V1, BATCH_V2)
# Meanings of the fields of an incomplete entry.
PLAIN = {
    "crc": "cannot be verified here",
    "magic": "the format version",
}


def explain(data: bytes, *, limits: Limits = DEFAULT, topic: str = "") -> Explanation:
    """Annotate every byte of *data*, valid or not; nothing is ever raised.

    With *topic*, one of `INTERNAL_TOPICS`, keys and values are annotated, too.
    It takes at most twice the memory that `decode` may take; bytes for which
    that is not enough are left in one field.
    """
    data = bytes(data)
    batches, error = attempt(data, limits)
    pen = Pen(data, Ink(budget(data, limits)))
    section = pen.section(input_title(data), None, lambda pen: write_log(pen, batches, topic))
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


def write_log(pen: Pen, batches: tuple[Batch, ...], topic: str) -> None:
    """Write every entry; *batches* are those that `decode` has read."""
    index = 0
    while pen.left:
        start = pen.at
        try:
            end = next_entry(pen.data, start)
        except RecordFormatError as error:
            write_impossible(pen, error)
            return
        if end is None:
            write_partial(pen)
            return
        batch = batches[index] if index < len(batches) else None
        if pen.data[start + MAGIC_OFFSET] == MAGIC_VALUE_V2:
            write_batch(pen, end - start, topic)
        else:
            write_entry(pen, end - start, batch, topic)
        index += 1


def write_impossible(pen: Pen, error: RecordFormatError) -> None:
    """Size or magic is impossible, so the start of the next entry is unknown."""
    with pen.part("batch", f"not an entry: {error.message}"):
        write_fixed(pen, MESSAGE_V0, say_plainly, upto=LOG_OVERHEAD)
        if error.path == "magic":
            pen.field("bytes_12_to_15", 4, Words("", "crc in v0 and v1, leader epoch in v2"), "unread")
            magic = int.from_bytes(pen.data[pen.at : pen.at + 1], "big", signed=True)
            pen.field("magic", 1, Words(str(magic), error.message, rule=error.rule), "format", value=magic)
        raise error


def write_partial(pen: Pen) -> None:
    """The end of a log in the middle of an entry: normal after a fetch, and dropped."""
    left = pen.left
    rule = "FRM-04" if left < LOG_OVERHEAD else "FRM-06" if left < HEADER_SIZE_UP_TO_MAGIC else "FRM-07"
    layout = partial_layout(pen)
    whole = read_values(pen, layout).get(layout.fields[1].name)
    of = "" if whole is None else f" of {whole + LOG_OVERHEAD:,}"
    with pen.part("batch", f"a partial entry, dropped: {left:,}{of} bytes ({rule})"):
        write_fixed(pen, layout, say_plainly)
        pen.rest("dropped with what is missing", name="partial", rule=rule)


def partial_layout(pen: Pen) -> Layout:
    """The layout that the magic names; up to the size they are all alike."""
    if pen.left < HEADER_SIZE_UP_TO_MAGIC:
        return MESSAGE_V0
    return LAYOUTS[pen.data[pen.at + MAGIC_OFFSET]]


def say_plainly(name: str, value: int, _: Values) -> Words:
    """A field of an entry that is not whole: its value, and little else."""
    if name in {"message_size", "batch_length"}:
        return Words(str(value), f"bytes to follow; {value + LOG_OVERHEAD:,} in all", (), "FRM-01")
    shown = f"0x{value:08x}" if name == "crc" else str(value)
    return Words(shown, PLAIN.get(name, ""))
