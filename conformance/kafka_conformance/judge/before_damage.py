"""The records of a broken entry that Kafka's consumer delivers before its error; pure.

It reads records one by one, and gives each that it could read. The last record of a batch is not among them if
anything is left after it: that is found out while it is read (HDR-14). Of a wrapper these are the messages before
the first one whose checksum is wrong (NST-18): the wrapper says which offsets they have, whatever another message
holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_corpus.authoring.build import reseal_message
from kafka_records import RecordFormatError
from kafka_records import attributes as bits
from kafka_records.batch import BatchHeader, decode_header
from kafka_records.compression import decompress
from kafka_records.constants import MAGIC_VALUE_V2, RECORD_BATCH_OVERHEAD
from kafka_records.layout import ATTRIBUTES_OFFSET_LEGACY, ATTRIBUTES_OFFSET_V2, MAGIC_OFFSET
from kafka_records.log import split_entries
from kafka_records.message import Message, decode_message, is_compressed
from kafka_records.message_set import Inner, base_offset_of, resolve
from kafka_records.model import Record
from kafka_records.record import Base, decode_record

MAX_PAYLOAD: Final = 16 * 1024 * 1024


def records_before_damage(entry: bytes) -> tuple[Record, ...] | None:
    """The records of *entry* before the damage; None where it does not say.

    That is so if the damage is not in the records: then the first error decides, which is another one in each
    library.
    """
    try:
        if entry[MAGIC_OFFSET] == MAGIC_VALUE_V2:
            return _of_batch(entry)
        message = decode_message(entry)
        return _of_wrapper(message) if is_compressed(message) else None
    except RecordFormatError:
        return None


def _of_batch(entry: bytes) -> tuple[Record, ...] | None:
    header = decode_header(entry)
    if header.attributes & bits.CONTROL_FLAG_MASK or header.record_count <= 0:
        return None
    codec = bits.compression_of(header.attributes, at=ATTRIBUTES_OFFSET_V2, rule="ATT-02")
    payload = entry[RECORD_BATCH_OVERHEAD:]
    if codec != "none":
        payload = decompress(codec, payload, magic=MAGIC_VALUE_V2, most=MAX_PAYLOAD)
    return tuple(_delivered(payload, header))


def _delivered(payload: bytes, header: BatchHeader) -> Iterator[Record]:
    append_time = header.max_timestamp if header.attributes & bits.TIMESTAMP_TYPE_MASK else None
    base = Base(header.base_offset, header.base_timestamp, append_time)
    at = 0
    for index in range(header.record_count):
        try:
            record, at = decode_record(payload, at, base, MAX_PAYLOAD)
        except RecordFormatError:
            return
        if index < header.record_count - 1 or at == len(payload):
            yield record


def _of_wrapper(wrapper: Message) -> tuple[Record, ...] | None:
    codec = bits.compression_of(wrapper.attributes, at=ATTRIBUTES_OFFSET_LEGACY, rule="LEG-16")
    payload = decompress(codec, wrapper.value or b"", magic=wrapper.magic, most=MAX_PAYLOAD)
    given = [payload[start:end] for start, end in split_entries(payload)]
    sealed = list(map(reseal_message, given))
    damaged = (at for at, pair in enumerate(zip(given, sealed, strict=True)) if pair[0] != pair[1])
    first = next(damaged, None)
    if first is None:
        return None
    messages = [Inner(0, decode_message(message)) for message in sealed]
    return tuple(resolve(messages, base_offset_of(messages, wrapper), wrapper)[:first])
