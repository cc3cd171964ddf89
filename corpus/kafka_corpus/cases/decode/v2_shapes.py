"""Ordinary v2 batches: codec, key, value and header shapes, counts and producers, each pair of them once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka_corpus.authoring.build import TIMESTAMP, expected, packed, raw_records, sealed
from kafka_corpus.authoring.shapes import BYTES, CODECS, COUNTS, HEADERS, MANY_HEADERS, pairwise, shaped
from kafka_corpus.registry import Draft, case, valid
from kafka_records import Batch

STATES: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "stored": {"base_offset": 2**33 + 7, "partition_leader_epoch": 4},
    "idempotent": {"producer_id": 1000, "producer_epoch": 3, "base_sequence": 70},
    "transactional": {"producer_id": 2**40, "producer_epoch": 0, "base_sequence": 0, "transactional": True},
    "delete horizon": {"delete_horizon": TIMESTAMP + 86_400_000},
}
SHAPES: Final = pairwise(codec=CODECS, key=BYTES, value=BYTES, headers=HEADERS, count=COUNTS, state=STATES)
MANY: Final = pairwise(codec=CODECS, key=BYTES, value=BYTES, headers=MANY_HEADERS, count=COUNTS, state=STATES)


def created(row: Mapping[str, Any]) -> Batch:
    """The row's records in a CreateTime batch."""
    first = row["state"].get("base_offset", 0)
    made = tuple(one._replace(offset=first + one.offset) for one in shaped(row))
    return expected(*made, compression=row["codec"], **{"max_timestamp": made[-1].timestamp, **row["state"]})


@case("REC-01", "HDR-01", "CMP-03", each=SHAPES)
def create_time(row: dict[str, Any]) -> Draft:
    """A CreateTime batch of this codec and these shapes is read."""
    return valid(sealed(created(row)), created(row))


@case("REC-01", "HDR-01", "CMP-03", each=MANY)
def many_headers(row: dict[str, Any]) -> Draft:
    """A batch of this codec whose records have many or unusual headers is read."""
    return valid(sealed(created(row)), created(row))


@case("TIM-02", "REC-01", "CMP-03", each=SHAPES)
def append_time(row: dict[str, Any]) -> Draft:
    """A LogAppendTime batch of this codec and these shapes is read, every record with the append time."""
    sent, now = created(row), TIMESTAMP + 5000
    stored = (made._replace(timestamp=now) for made in sent.records)
    fields = {**row["state"], "compression": row["codec"], "max_timestamp": now, "timestamp_type": "append"}
    base = TIMESTAMP if sent.delete_horizon is None else sent.delete_horizon
    payload = raw_records(sent.records, base_offset=sent.base_offset, base_timestamp=base)
    return valid(stamped(sent, payload, now, base), expected(*stored, **fields))


def stamped(sent: Batch, payload: bytes, now: int, base_timestamp: int) -> bytes:
    """The batch as a broker with LogAppendTime stores it: base and deltas as they were sent."""
    flags = (True, sent.transactional, sent.control, sent.delete_horizon is not None)
    return packed(
        sent.compression,
        payload,
        attributes=sum(bit << at for at, bit in enumerate(flags, start=3)),
        base_offset=sent.base_offset,
        partition_leader_epoch=sent.partition_leader_epoch,
        base_timestamp=base_timestamp,
        max_timestamp=now,
        producer_id=sent.producer_id,
        producer_epoch=sent.producer_epoch,
        base_sequence=sent.base_sequence,
        record_count=len(sent.records),
    )
