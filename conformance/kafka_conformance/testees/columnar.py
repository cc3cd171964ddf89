"""The columnar decoder as a testee: Arrow columns as batches, up to the first entry that cannot be read."""

from __future__ import annotations

from kafka_conformance.protocol import Capability
from kafka_conformance.testee import CodecError, NotDone
from kafka_conformance.testees.reference import DECODES, VERSION
from kafka_corpus.columnar import batches_of, read
from kafka_corpus.wire import WireBatch, to_wire
from kafka_records import Batch, Record
from kafka_records import encode as _encode

__all__ = ["DECODES", "ENCODES", "NAME", "VERSION", "decode", "encode"]

NAME = "columnar"
ENCODES = Capability([], [])


def decode(data: bytes) -> list[WireBatch]:
    """Every complete batch of *data*, all fields exposed."""
    batches: list[WireBatch] = []
    for chunk in read(data):
        broken = chunk.broken[0] if chunk.broken else None
        before = (to_wire(batch) for at, batch in batches_of(chunk) if broken is None or at < broken.position)
        batches.extend(before)
        if broken is not None:
            raise CodecError(broken.kind, f"{broken.message} (at {broken.path}; {broken.rule})", batches)
    return batches


def encode(batch: WireBatch) -> bytes:
    """There is no encoder in columns."""
    raise NotDone(f"no encoder for {batch.magic}")


# Kernels are compiled, or found in the cache, before any question is asked.
decode(_encode(Batch(magic=2, base_offset=0, last_offset=0, records=(Record(0, 0, None, None),))))
