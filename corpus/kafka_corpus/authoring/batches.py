"""v2 batches built by hand, each with the batch that it decodes to, and the same payload in each magic."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from kafka_corpus.authoring.build import TIMESTAMP, header_fields, raw_batch, raw_records
from kafka_corpus.authoring.frames import pack
from kafka_corpus.authoring.messages import numbered, seal, set_of, wrapper_batch
from kafka_records import Batch, Kind, Record
from kafka_records.constants import Compression

APPEND, TRANSACTIONAL, CONTROL, HORIZON = 0x08, 0x10, 0x20, 0x40


def some_records(count: int = 2, *, base: int = 0) -> tuple[Record, ...]:
    """Records a millisecond apart, with their index in keys and values."""
    return tuple(
        Record(base + index, TIMESTAMP + index, b"key %d" % index, b"value %d" % index) for index in range(count)
    )


def payload_of(records: Sequence[Record], *, base_offset: int = 0, base_timestamp: int = TIMESTAMP) -> bytes:
    """*records* end to end, their deltas counted from the bases."""
    return raw_records(records, base_offset=base_offset, base_timestamp=base_timestamp)


def batch_of(*records: Record, **fields: object) -> Batch:
    """A batch of *records*: offsets from first to last, the newest timestamp; *fields* replaces any field."""
    known: dict[str, object] = {
        "magic": 2,
        "base_offset": records[0].offset if records else 0,
        "last_offset": records[-1].offset if records else 0,
        "max_timestamp": max((record.timestamp for record in records), default=-1),
        "records": records,
    }
    return Batch(**(known | fields))  # type: ignore[arg-type]  # the names are Batch's, the caller's tests say so


def bytes_of(batch: Batch, *, packed: bytes | None = None, base_timestamp: int | None = None, **fields: int) -> bytes:
    """The bytes of *batch*; *packed* replaces its (compressed) records, *fields* change its header."""
    header = header_fields(batch, base_timestamp=base_timestamp)
    if packed is None:
        payload = raw_records(batch.records, base_offset=batch.base_offset, base_timestamp=header["base_timestamp"])
        packed = pack(batch.compression, payload)
    return raw_batch(packed, **(header | fields))


def compressed(codec: Compression, packed: bytes, *records: Record) -> tuple[bytes, Batch]:
    """A batch whose payload is *packed*, and the batch of *records* that it must decode to."""
    batch = batch_of(*(records or some_records()), compression=codec)
    return bytes_of(batch, packed=packed), batch


PLAIN = payload_of(some_records())


# Error kinds for a compressed payload that is refused; which of them is reported depends on the library.
REFUSED: Final[tuple[Kind, ...]] = ("decompression", "corrupt", "malformed", "truncated")
MAGICS = {"v0": 0, "v1": 1, "v2": 2}
LEGACY = {"v0": 0, "v1": 1}
# One wrapper and one batch are enough where the framing is the same in every magic.
EITHER = {"v1": 1, "v2": 2}


def plain_of(magic: int) -> bytes:
    """Two records, or the message set of two messages, before compression."""
    return PLAIN if magic == 2 else set_of(numbered(magic, 0, 1), magic)


def around(packed: bytes, magic: int, codec: Compression) -> tuple[bytes, Batch]:
    """A batch or wrapper around *packed*, and the batch that it decodes to if that holds `plain_of(magic)`."""
    if magic == 2:
        return compressed(codec, packed)
    records = numbered(magic, 0, 1)
    data = seal(packed, magic, codec, offset=1, timestamp=TIMESTAMP + 1)
    return data, wrapper_batch(records, magic, codec, timestamp=TIMESTAMP + 1)


def split(plain: bytes, *at: int) -> list[bytes]:
    """*plain* cut at each position."""
    edges = [0, *at, len(plain)]
    return [plain[start:end] for start, end in pairwise(edges)]
