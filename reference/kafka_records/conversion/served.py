"""How each release makes old batches of new ones: all in one, batch by batch, or as they are sent."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import Thrown
from kafka_records.broker.message_sets import messages_of
from kafka_records.broker.releases import Behaviour
from kafka_records.constants import MAGIC_VALUE_V0
from kafka_records.conversion.down import choose, write
from kafka_records.conversion.files import file_entries
from kafka_records.conversion.sending import sent
from kafka_records.errors import RecordFormatError
from kafka_records.log import encode
from kafka_records.model import Batch


def served(stored: bytes, to_magic: int, first_offset: int, does: Behaviour) -> bytes:
    """The record bytes of the response to a fetch that knows no more than *to_magic*.

    Raises:
        Thrown: a batch cannot be converted, and the fetch is answered with an error.
        Closed: part of the response has been sent already.
    """
    batches = tuple(file_entries(stored))
    if _is_served_as_stored(batches, to_magic, does):
        return stored
    match does.converts_by:
        case "set":
            return _as_one(batches, does)
        case "batch":
            return _by_batch(stored, batches, to_magic, first_offset, does)
    return sent(stored, batches, to_magic, first_offset, does)


def _is_served_as_stored(batches: Sequence[Entry], to_magic: int, does: Behaviour) -> bool:
    """#hasCompatibleMagic; and where there is no whole batch, old clients shall see that one is too large for them."""
    return not does.converts_always and all(batch.magic <= to_magic for batch in batches)


def _by_batch(stored: bytes, batches: Sequence[Entry], to_magic: int, first_offset: int, does: Behaviour) -> bytes:
    """Before 2.0, FileRecords#downConvert.  1.1 took nothing to convert for a batch that is too large."""
    chosen = choose(batches, to_magic, first_offset, does)
    if does.keeps_unconverted and all(records is None for _, records in chosen):
        return stored
    return write(chosen, to_magic, does)


def _as_one(batches: Sequence[Entry], does: Behaviour) -> bytes:
    """0.10, AbstractRecords#toMessageFormat: all messages in the codec of the first, so perhaps in one wrapper."""
    records = tuple(view.contents()._replace(timestamp=-1) for batch in batches for view in messages_of(batch, does))
    converted = Batch(
        magic=MAGIC_VALUE_V0,
        base_offset=records[0].offset,
        last_offset=records[-1].offset,
        compression=batches[0].compression(does),
        timestamp_type="none",
        records=records,
    )
    try:
        return encode(converted)
    except RecordFormatError as error:
        raise Thrown("IllegalArgumentException", error.rule) from None
