"""The columnar codec as a testee: Arrow columns as batches, up to the first entry that cannot be read, and back."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from kafka_conformance.testees.interface import CodecError
from kafka_conformance.testees.reference import DECODES, ENCODES, VERSION
from kafka_corpus.wire import WireBatch, from_wire, to_wire
from kafka_pipeline.columnar import batch_tables, batches_of, read_chunks, write_rows
from kafka_records import Batch, Record, RecordFormatError
from kafka_records import encode as _encode

__all__ = ["DECODES", "ENCODES", "NAME", "VERSION", "decode", "encode"]

NAME = "columnar"


def decode(data: bytes) -> list[WireBatch]:
    """Every complete batch of *data*, all fields exposed."""
    batches: list[WireBatch] = []
    for chunk in read_chunks(data):
        broken = chunk.broken[0] if chunk.broken else None
        before = (to_wire(batch) for at, batch in batches_of(chunk) if broken is None or at < broken.position)
        batches.extend(before)
        if broken is not None:
            raise CodecError(broken.kind, f"{broken.message} (at {broken.path}; {broken.rule})", batches)
    return batches


def encode(batch: WireBatch) -> bytes:
    """The bytes of *batch*, by way of columns; numbers that no column holds are left to the reference."""
    plain = from_wire(batch)
    try:
        try:
            tables = batch_tables([plain])
        except (OverflowError, pa.ArrowException):
            return _encode(plain)
        return bytes(write_rows(*tables))
    except RecordFormatError as error:
        raise CodecError(error.kind, str(error)) from error


# Kernels are compiled, or found in the cache, before the first request.
_one = Batch(magic=2, base_offset=0, last_offset=0, records=(Record(0, 0, None, None),))
for _batch in (_one, replace(_one, compression="lz4")):
    decode(bytes(write_rows(*batch_tables([_batch]))))
