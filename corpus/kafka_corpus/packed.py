"""The same compressed bytes in each magic: what the codec modules of the corpus share."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from kafka_corpus.batches import PLAIN, compressed
from kafka_corpus.build import TIMESTAMP
from kafka_corpus.messages import numbered, seal, set_of, wrapper_batch
from kafka_records import Batch, Kind
from kafka_records.constants import Compression

# A codec that refuses; which of these words it has for it depends on the library.
REFUSED: Final[tuple[Kind, ...]] = ("decompression", "corrupt", "malformed", "truncated")
MAGICS = {"v0": 0, "v1": 1, "v2": 2}
LEGACY = {"v0": 0, "v1": 1}
# Where the framing is the same in all, one wrapper and one batch will do.
EITHER = {"v1": 1, "v2": 2}


def plain_of(magic: int) -> bytes:
    """Two records, or the message set of two messages, before compression."""
    return PLAIN if magic == 2 else set_of(numbered(magic, 0, 1), magic)


def around(packed: bytes, magic: int, codec: Compression) -> tuple[bytes, Batch]:
    """A batch or wrapper around *packed*, and what it is read as if that holds `plain_of(magic)`."""
    if magic == 2:
        return compressed(codec, packed)
    records = numbered(magic, 0, 1)
    data = seal(packed, magic, codec, offset=1, timestamp=TIMESTAMP + 1)
    return data, wrapper_batch(records, magic, codec, timestamp=TIMESTAMP + 1)


def split(plain: bytes, *at: int) -> list[bytes]:
    """*plain* cut at each position."""
    edges = [0, *at, len(plain)]
    return [plain[start:end] for start, end in pairwise(edges)]
