"""Payloads around records that may be broken, and what the leader of a fresh partition stores of whole ones."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_corpus.appends import kept, rebuilt
from kafka_corpus.batches import APPEND
from kafka_corpus.build import packed, raw_batch
from kafka_corpus.scenario import NOW
from kafka_records import Record
from kafka_records.constants import Compression

# The second byte of the attributes, and the bits of it that brokers know.
LOW_BYTE = 22
KNOWN_BITS = 0x7F


def stamped(batch: bytes) -> bytes:
    """*batch* on a LogAppendTime topic: the type and the time in the header, the CRC made right (RWR-02)."""
    return kept(batch, attributes=batch[LOW_BYTE] & KNOWN_BITS | APPEND, max_timestamp=NOW)


def written(*records: Record, codec: Compression = "none") -> bytes:
    """A batch that the broker writes itself: the records numbered from 0, nothing of the old header."""
    placed = (record._replace(offset=at) for at, record in enumerate(records))
    return rebuilt(*placed, codec=codec)


def enclosed(codec: Compression, payload: bytes, *, record_count: int = 1, attributes: int = 0, **fields: int) -> bytes:
    """A producer's batch around records: compressed, or as they are for "none"."""
    if codec == "none":
        return raw_batch(payload, record_count=record_count, attributes=attributes, **fields)
    return packed(codec, payload, record_count=record_count, attributes=attributes, **fields)


def offered(codecs: Mapping[str, Compression], payloads: Mapping[str, bytes]) -> dict[str, bytes]:
    """Records enclosed in each of *codecs*, by codec and name."""
    return {
        f"{label}, {name}": enclosed(codec, each) for label, codec in codecs.items() for name, each in payloads.items()
    }
