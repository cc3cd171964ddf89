"""How each release makes old batches of new ones: all in one, batch by batch, or as they are sent.

`convert`: stored bytes for an older fetch, or produced ones for a newer log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kafka_records.broker import LogState, TopicConfig, append
from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import JavaName, Thrown
from kafka_records.broker.message_sets import messages_of
from kafka_records.broker.releases import Behaviour, behaviour
from kafka_records.constants import MAGIC_VALUE_V0, MAGIC_VALUE_V2
from kafka_records.conversion.down import choose, write
from kafka_records.conversion.files import file_entries
from kafka_records.conversion.sending import Closed, sent
from kafka_records.errors import Kind, RecordFormatError
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


KINDS: Final[Mapping[JavaName, Kind]] = {
    "UnsupportedCompressionTypeException": "unsupported_compression",
    "CorruptRecordException": "corrupt",
    "KafkaException": "decompression",
}
# The last version of the produce request with messages in it.
PRODUCE_OF_MESSAGES: Final = 2


def convert(data: bytes, to_magic: int, *, first_offset: int = 0, release: str) -> bytes:
    """*data* as a broker of *release* sends it to clients that know formats up to *to_magic*.

    Downwards that is the answer to a fetch (CNV-06 to CNV-14), padding and all;
    upwards, what an append makes of messages (CNV-01 to CNV-05), for nothing is
    ever converted upwards later (CNV-06).

    Args:
        data: entries end to end, of any magic.
        to_magic: 0, 1 or 2.
        first_offset: downwards, where the fetch begins; upwards, what the first message gets.
        release: of Kafka, like "3.9.2".

    Raises:
        RecordFormatError: the broker refuses, or closes the connection.
    """
    does = behaviour(release)
    if to_magic >= MAGIC_VALUE_V2:
        return _up(bytes(data), first_offset, release)
    if does.converts_by == "nothing":
        raise _refused(f"{release} converts nothing", "unsupported_magic", "PRD-09")
    return _down(bytes(data), to_magic, first_offset, does)


def _down(data: bytes, to_magic: int, first_offset: int, does: Behaviour) -> bytes:
    try:
        return served(data, to_magic, first_offset, does)
    except Thrown as thrown:
        raise _refused(thrown.name, KINDS.get(thrown.name, "malformed"), thrown.rule) from None
    except Closed as closed:
        message = f"the connection is closed: {closed.thrown.name}"
        raise _refused(message, KINDS.get(closed.thrown.name, "malformed"), closed.thrown.rule) from None


def _up(data: bytes, first_offset: int, release: str) -> bytes:
    log = LogState(log_end_offset=first_offset)
    result = append(log, data, TopicConfig(), release=release, api_version=PRODUCE_OF_MESSAGES, now_ms=0)
    if result.error_code:
        raise _refused(f"error {result.error_code}", "malformed", result.rule)
    return result.stored


def _refused(message: str, kind: Kind, rule: str) -> RecordFormatError:
    return RecordFormatError(kind, message, rule=rule)
