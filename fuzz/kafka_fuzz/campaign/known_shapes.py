"""Recognise inputs that show a known finding by their bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from struct import Struct
from typing import Final

from kafka_records import RecordFormatError
from kafka_records.compression import decompress
from kafka_records.compression.snappy import HEADER, MAGIC
from kafka_records.constants import COMPRESSIONS, LOG_OVERHEAD, MAGIC_VALUE_V0
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET, MESSAGE_V0, MESSAGE_V1
from kafka_records.varint import decode_unsigned

SNAPPY: Final = 2
LEGACY_CODECS: Final = (1, 2, 3)
CODEC_MASK: Final = 0x07
# Far more than a mutant holds; less than what workers have.
LARGE: Final = 256 << 20
# Of what inputs unpack to, this much is looked at: far more than they hold.
LARGEST_INNER: Final = 1 << 20
SMALLEST: Final = MESSAGE_V0.size
SIZE: Final = Struct(">8xi")


def snappy_claims(data: bytes) -> bool:
    """Whether a snappy block says that hundreds of megabytes will come out of it.

    Entries are taken at their word: a decoder that gets as far as the block has done so too.
    """
    return any(claim > LARGE for payload in payloads(data, SNAPPY) for claim in claims_of(payload))


def payloads(data: bytes, codec: int, magics: Collection[int] = (0, 1, 2)) -> Iterator[bytes]:
    """Payloads that entries of *data* with one of *magics* compressed with *codec*, up to the first broken frame."""
    at, length = 0, len(data)
    while at + SMALLEST <= length:
        (size,) = SIZE.unpack_from(data, at)
        end = min(at + LOG_OVERHEAD + max(size, 0), length)
        magic = data[at + MAGIC_OFFSET] if at + MAGIC_OFFSET < end else 0
        if magic not in magics:
            pass
        elif magic == 2 and end - at > BATCH_V2.size and data[at + 22] & CODEC_MASK == codec:
            yield data[at + BATCH_V2.size : end]
        elif magic < 2 and end - at > SMALLEST and data[at + 17] & CODEC_MASK == codec:
            yield from value_of(data[at:end], (MESSAGE_V1 if magic else MESSAGE_V0).size)
        if size <= 0:
            return
        at += LOG_OVERHEAD + size


def value_of(entry: bytes, at: int) -> Iterator[bytes]:
    """The value of a v0 or v1 message whose key begins at *at*."""
    key = int.from_bytes(entry[at : at + 4], "big", signed=True)
    at += 4 + max(key, 0) + 4
    if at < len(entry):
        yield entry[at:]


def claims_of(payload: bytes) -> Iterator[int]:
    """Claimed sizes of the blocks of a snappy stream: xerial blocks or one raw block."""
    if not payload.startswith(MAGIC):
        yield claim_at(payload, 0)
        return
    at = HEADER.size
    while at + 4 < len(payload):
        yield claim_at(payload, at + 4)
        length = int.from_bytes(payload[at : at + 4], "big", signed=True)
        if length <= 0:
            return
        at += 4 + length


def claim_at(data: bytes, at: int) -> int:
    """The varint at *at*; 0 where there is none."""
    try:
        return decode_unsigned(data, at, 5, "claim")[0]
    except RecordFormatError:
        return 0


def inner_sizes_lead_back(data: bytes) -> bool:
    """Whether who adds up the sizes of packed messages without looking at them comes to one of them again."""
    return any(leads_back(inner) for codec in LEGACY_CODECS for inner in unpacked(data, codec))


def unpacked(data: bytes, codec: int) -> Iterator[bytes]:
    """Decompressed v0 and v1 entries of *data* that use *codec*; entries that fail are left out."""
    for payload in payloads(data, codec, magics=(0, 1)):
        with suppress(RecordFormatError):
            # As v0 has it: lz4's header is not checked, which old producers got wrong.
            yield decompress(COMPRESSIONS[codec], payload, magic=MAGIC_VALUE_V0, most=LARGEST_INNER)


def leads_back(messages: bytes) -> bool:
    """Whether a size in a message set is that of nothing, or less.

    >>> leads_back(bytes(8) + (100).to_bytes(4, "big")), leads_back(bytes(8) + (-12).to_bytes(4, "big", signed=True))
    (False, True)
    """
    at = 0
    while at + LOG_OVERHEAD <= len(messages):
        (size,) = SIZE.unpack_from(messages, at)
        if size <= -LOG_OVERHEAD:
            return True
        at += LOG_OVERHEAD + size
    return False


SHAPES: Final[dict[str, Callable[[bytes], bool]]] = {
    "inner_sizes_lead_back": inner_sizes_lead_back,
    "snappy_claims": snappy_claims,
}
