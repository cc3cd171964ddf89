"""What is wrong with bytes that a testee wrote: an encode case's answer, field by field.

`exact` compares every byte.  `masked` is for compressed batches, whose bytes
depend on the library: header fields and the decompressed payload have to be
the same; length and CRC have to hold, which reading them proves.  `readable`
takes whatever the reference reads back as the same batch.  What does no harm
has a name in `equivalence`; everything else is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import kafka_records
from kafka_conformance.judging import equivalence
from kafka_conformance.judging.compare import Comparison, Difference, compare
from kafka_corpus.case import Case
from kafka_corpus.wire import to_wire
from kafka_records import Batch, RecordFormatError
from kafka_records.compression import decompress
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2, RECORD_BATCH_OVERHEAD
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET
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
    found = compared(_expected(case), given)
    if case.expect.compare == "readable" or right is None or not all(each.lossy for each in found):
        return found
    if found:
        # Behind a field that does no harm there may be bits that do.
        return found + _out_of_form(given, data)
    return _by_bytes(right, data, masked=case.expect.compare == "masked")


def _expected(case: Case) -> Sequence[Batch]:
    if case.expect.data is not None:
        return kafka_records.decode(case.expect.data)
    assert isinstance(case.input, Batch)
    return (case.input,)


def compared(expected: Sequence[Batch], given: Sequence[Batch]) -> list[Difference]:
    """Where batches that were written and read back are not those *expected*; equivalences are named."""
    if equivalence.unwrapped(expected, given):
        name = str(equivalence.LEFT_UNCOMPRESSED)
        return [Difference("batches[0].compression", expected[0].compression, "none", lossy=True, equivalence=name)]
    comparison: Comparison = compare(list(map(to_wire, expected)), list(map(to_wire, given)))
    for index, (want, have) in enumerate(zip(expected, given, strict=False)):
        # Not part of the wire shape: it changes no record, but an encoder writes it.
        if want.base_timestamp is not None and have.base_timestamp != want.base_timestamp:
            path = f"batches[{index}].base_timestamp"
            comparison.differences.append(Difference(path, want.base_timestamp, have.base_timestamp))
    return equivalence.graded(comparison.differences, expected, given)


def _out_of_form(given: Sequence[Batch], data: bytes) -> list[Difference]:
    """Where v2 batches are not written as what they hold would be; older wrappers have no one form."""
    if any(batch.magic < MAGIC_VALUE_V2 for batch in given):
        return []
    try:
        right = b"".join(map(kafka_records.encode, given))
    except RecordFormatError:
        return []
    return _by_bytes(right, data, masked=True)


def _by_bytes(right: bytes, data: bytes, *, masked: bool) -> list[Difference]:
    """The first byte that differs, though every field reads the same."""
    if masked:
        # Bits that nobody reads lie outside of what is compressed.
        found = _attributes(right, data) or _first_byte(_opened(right), _opened(data), "decompressed")
    else:
        found = _first_byte(right, data, "data")
    if found is None:
        return []
    # Exact bytes of a codec's own are exact: only what it holds may have another form.
    if _opened(right) != _opened(data) and equivalence.only_longer_varints(right, data):
        found = replace(found, lossy=True, equivalence=str(equivalence.LONGER_VARINT))
    return [found]


def _first_byte(right: bytes, data: bytes, path: str) -> Difference | None:
    pairs = enumerate(zip(right, data, strict=False))
    at = next((index for index, (want, have) in pairs if want != have), None)
    if at is not None:
        return Difference(f"{path}[{at}]", right[at : at + 8], data[at : at + 8])
    return Difference(f"{path}.length", len(right), len(data)) if len(right) != len(data) else None


def _attributes(right: bytes, data: bytes) -> Difference | None:
    pairs = zip(entries(right), entries(data), strict=False)
    for index, ((start, end), (at, stop)) in enumerate(pairs):
        want, have = _attributes_of(right[start:end]), _attributes_of(data[at:stop])
        if want != have:
            return Difference(f"batches[{index}].attributes", want, have)
    return None


def _attributes_of(entry: bytes) -> int:
    if entry[MAGIC_OFFSET] == MAGIC_VALUE_V2:
        field = BATCH_V2.field("attributes")
        return int.from_bytes(entry[field.offset : field.offset + field.width], "big")
    return decode_message(entry).attributes


def _opened(data: bytes) -> bytes:
    """What lies above compression in every entry, end to end."""
    return b"".join(_payload(data[start:end]) for start, end in entries(data))


def _payload(entry: bytes) -> bytes:
    codec = COMPRESSIONS[_attributes_of(entry) & CODEC_BITS]
    if entry[MAGIC_OFFSET] == MAGIC_VALUE_V2:
        return decompress(codec, entry[RECORD_BATCH_OVERHEAD:], magic=2, most=MAX_PAYLOAD)
    message = decode_message(entry)
    return decompress(codec, message.value or b"", magic=message.magic, most=MAX_PAYLOAD)
