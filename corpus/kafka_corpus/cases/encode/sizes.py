"""Sizes of the smallest and some larger encodings; golden sizes are in the area of that name."""

from __future__ import annotations

from typing import Final

from kafka_corpus.authoring.build import TIMESTAMP, expected, raw_batch, raw_message, raw_record, record, sealed
from kafka_corpus.registry import Draft, case, must_write, valid
from kafka_records import Batch

V0: Final = expected(record(None, timestamp=-1), magic=0, timestamp_type="none", max_timestamp=-1)
V1: Final = expected(record(None), magic=1)
EMPTY: Final = expected(last_offset=0, max_timestamp=-1)
SMALLEST: Final[dict[str, tuple[int, bytes, Batch]]] = {
    "v0 of 26 B": (26, raw_message(0, None, None), V0),
    "v1 of 34 B": (34, raw_message(1, None, None), V1),
    "empty v2 batch of 61 B": (61, sealed(EMPTY), EMPTY),
    "v2 record in 68 B": (68, raw_batch(raw_record(value=None)), expected(record(None))),
}


@case("SIZ-13", each=SMALLEST)
def smallest_is_written(row: tuple[int, bytes, Batch]) -> Draft:
    """The smallest encodings take 26 B in v0, 34 B in v1, and 61 or 68 B in v2."""
    size, data, batch = row
    assert len(data) == size
    return must_write(batch, data)


@case("SIZ-13", each={name: SMALLEST[name] for name in list(SMALLEST)[1:3]})
def smallest_is_read(row: tuple[int, bytes, Batch]) -> Draft:
    """The smallest encodings are read."""
    return valid(row[1], row[2])


@case("SIZ-10")
def close_to_the_upper_bound() -> Draft:
    """A record with the largest deltas takes 18 of the 21 bytes that a producer reserves for its fixed fields.

    Only the length stays short: five bytes of it need a record above 128 MiB.
    """
    later = record(b"x" * 100, offset=2**31 - 1, timestamp=2**63 - 1)
    batch = expected(record(b"", timestamp=0), later, last_offset=2**31 - 1, max_timestamp=2**63 - 1)
    payload = raw_record(value=b"") + raw_record(timestamp_delta=2**63 - 1, offset_delta=2**31 - 1, value=b"x" * 100)
    header = {"base_timestamp": 0, "max_timestamp": 2**63 - 1, "last_offset_delta": 2**31 - 1}
    return must_write(batch, raw_batch(payload, record_count=2, **header))


@case("SIZ-11")
def count_of_many_records() -> Draft:
    """The count of a thousand records is an int32 of its own, so that a batch may have up to 2^31 - 1."""
    batch = expected(*(record(None, offset=at, timestamp=TIMESTAMP) for at in range(1000)))
    return must_write(batch, sealed(batch))


@case("SIZ-13", each={"null": None, "empty": b""})
def null_and_empty_take_one_byte(key: bytes | None) -> Draft:
    """A null key takes one byte in v2, as an empty one does, and four bytes in the older formats."""
    batch = expected(record(b"sized", key=key))
    data = sealed(batch)
    assert len(data) == 73
    return must_write(batch, data)
