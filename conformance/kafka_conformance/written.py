"""What is wrong with bytes that a testee wrote: an encode case's answer, field by field.

`exact` compares every byte.  `masked` is for compressed batches, whose bytes
depend on the library: header fields and the decompressed payload have to be
the same; length and CRC have to hold, which reading them proves.  `readable`
takes whatever the reference reads back as the same batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import kafka_records
from kafka_conformance.compare import Comparison, Difference, compare
from kafka_corpus.case import Case
from kafka_corpus.wire import to_wire
from kafka_records import Batch, RecordFormatError
from kafka_records.compression import decompress
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2, RECORD_BATCH_OVERHEAD
from kafka_records.layout import BATCH_V2
from kafka_records.log import entries
from kafka_records.message import decode_message

MAX_PAYLOAD: Final = 256 * 1024 * 1024
CODEC_BITS: Final = 0x07


def differences(case: Case, data: bytes) -> list[Difference]:
    """Where *data* is not what *case* expects, worst and first in front."""
    right = case.expect.data
    if right is not None and data == right:
        return []
    try:
        given = kafka_records.decode(data)
    except RecordFormatError as error:
        return [Difference(error.path or "data", "bytes that can be read", str(error))]
    expected = _expected(case)
    if _unwrapped(expected, given):
        return [Difference("batches[0].compression", expected[0].compression, "none", lossy=True)]
    found = _graded(_by_field(expected, given), expected)
    if found or case.expect.compare == "readable" or right is None:
        return found
    return _by_bytes(right, data, masked=case.expect.compare == "masked")


def _expected(case: Case) -> Sequence[Batch]:
    if case.expect.data is not None:
        return kafka_records.decode(case.expect.data)
    assert isinstance(case.input, Batch)
    return (case.input,)


def _unwrapped(expected: Sequence[Batch], given: Sequence[Batch]) -> bool:
    """Whether messages came without their wrapper: a writer may leave out a compression that gains nothing."""
    if len(expected) != 1 or expected[0].magic >= MAGIC_VALUE_V2 or expected[0].compression == "none":
        return False
    same = {(expected[0].magic, "none", expected[0].timestamp_type)}
    plain = {(batch.magic, batch.compression, batch.timestamp_type) for batch in given} == same
    return plain and expected[0].records == tuple(record for batch in given for record in batch.records)


def _by_field(expected: Sequence[Batch], given: Sequence[Batch]) -> list[Difference]:
    comparison: Comparison = compare(list(map(to_wire, expected)), list(map(to_wire, given)))
    for index, (want, have) in enumerate(zip(expected, given, strict=False)):
        # Not part of the wire shape: it changes no record, but an encoder writes it.
        if want.base_timestamp is not None and have.base_timestamp != want.base_timestamp:
            path = f"batches[{index}].base_timestamp"
            comparison.differences.append(Difference(path, want.base_timestamp, have.base_timestamp))
    return comparison.differences


def _graded(found: list[Difference], expected: Sequence[Batch]) -> list[Difference]:
    """Mark what does the records no harm, like an epoch that brokers overwrite, or a codec not used."""
    first = expected[0]
    return [replace(difference, lossy=difference.lossy or _harmless(difference, first)) for difference in found]


def _harmless(difference: Difference, first: Batch) -> bool:
    legacy = first.magic < MAGIC_VALUE_V2
    match difference.path.rpartition(".")[2]:
        case "partition_leader_epoch":
            return True  # HDR-07: what a producer writes there is overwritten by every broker
        case "base_sequence":
            return first.producer_id == -1  # PID-02: without a producer nobody looks at it
        case "compression":
            return bool(difference.given == "none")
        case "max_timestamp":
            return legacy  # NST-23: a wrapper's time should be the newest inner one; brokers work it out again
        case "last_offset":
            # NST-09: readers take a wrapper at offset 0 as a producer's, and every broker gives it another.
            return legacy and bool(difference.given == 0)
        case "base_offset" | "offset":
            # NST-13: some old producers leave all offsets 0, and brokers give them others.
            return legacy and first.base_offset == 0 and bool(difference.given == 0)
    return False


def _by_bytes(right: bytes, data: bytes, *, masked: bool) -> list[Difference]:
    """The first byte that differs, though every field reads the same."""
    if masked:
        right, data = _opened(right), _opened(data)
        path = "decompressed"
    else:
        path = "data"
    pairs = enumerate(zip(right, data, strict=False))
    at = next((index for index, (want, have) in pairs if want != have), None)
    if at is not None:
        return [Difference(f"{path}[{at}]", right[at : at + 8], data[at : at + 8])]
    return [Difference(f"{path}.length", len(right), len(data))] if len(right) != len(data) else []


def _opened(data: bytes) -> bytes:
    """What lies above compression in every entry, end to end."""
    return b"".join(_payload(data[start:end]) for start, end in entries(data))


def _payload(entry: bytes) -> bytes:
    if entry[BATCH_V2.field("magic").offset] == 2:
        attributes = BATCH_V2.field("attributes")
        codec = entry[attributes.offset + attributes.width - 1] & CODEC_BITS
        return decompress(COMPRESSIONS[codec], entry[RECORD_BATCH_OVERHEAD:], magic=2, most=MAX_PAYLOAD)
    message = decode_message(entry)
    codec = message.attributes & CODEC_BITS
    return decompress(COMPRESSIONS[codec], message.value or b"", magic=message.magic, most=MAX_PAYLOAD)
