"""What one partition of the fake broker serves: the bytes of a case, then a record that ends them.

A client cannot know where a case ends, and a broker cannot know what a client
made of it; but the client asks for what comes next.  The first fetch gets the
bytes as they are.  Whoever then asks for an offset behind them gets the end
record there, at this very offset.  Whoever asks again for what has been served
gets it again, as from a broker, and after `PATIENCE` times the end record with
a note that the client does not get on: it would go on for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kafka_records import Batch, Record, RecordFormatError, encode
from kafka_records.constants import INT64_MAX, MAGIC_VALUE_V2
from kafka_records.layout import BATCH_V2, ENTRY, MAGIC_OFFSET
from kafka_records.log import entries

# Key and value of the record that ends a case.
END: Final = b"kafkaproof: end of case"
# So often is one offset served: a client may throw a response away for reasons of its own.
PATIENCE: Final = 3
# The last offset of what has none.
NEVER: Final = 1 << 63

_DELTA: Final = BATCH_V2.field("last_offset_delta")


class Tape:
    """The bytes of a case, and what was asked of them; used under the broker's lock.

    Attributes:
        aborted: producer id and first offset of the transactions that the broker says were aborted.
        asked: the offsets that were asked for, in order, but for those behind the end record.
        position: the offset at which the client got the end record; None until it did.
        stalled: whether it got that only because it asked for one offset again and again.
    """

    def __init__(self, data: bytes, aborted: Sequence[tuple[int, int]] = ()) -> None:
        self.data = data
        self.aborted = aborted
        self.asked: list[int] = []
        self.position: int | None = None
        self.stalled = False
        self._times: Counter[int] = Counter()
        self._entries = list(_framed(data))

    @property
    def end_offset(self) -> int:
        """What ListOffsets calls the latest offset: behind the end record, as far as headers can be believed."""
        if self.position is not None:
            return self.position + 1
        last = max((last for _, last in self._entries if last != NEVER), default=-1)
        return min(max(last, -1) + 2, INT64_MAX)

    def read(self, offset: int, magic: int) -> bytes:
        """What a fetch at *offset* gets; nothing behind the end record, which is written in *magic*."""
        if self.position is not None and offset > self.position:
            return b""
        self.asked.append(offset)
        self._times[offset] += 1
        if self.position is None and (left := self._left(offset)):
            return left
        if self.position is None:
            self.position = offset
        return end_record(max(self.position, 0), magic)

    def _left(self, offset: int) -> bytes:
        if len(self.asked) == 1:
            return self.data
        # As a broker does, from the batch that holds the offset on.
        start = next((start for start, last in self._entries if last >= offset), None)
        if start is None:
            return b""
        self.stalled = self._times[offset] > PATIENCE
        return b"" if self.stalled else self.data[start:]


def _framed(data: bytes) -> Iterator[tuple[int, int]]:
    """Start and last offset of each whole entry; what is no entry and no beginning of one is never over."""
    behind = 0
    try:
        for start, end in entries(data):
            behind = end
            yield start, _last_offset(data, start)
    except RecordFormatError:
        yield behind, NEVER


def _last_offset(data: bytes, start: int) -> int:
    offset, size = ENTRY.struct.unpack_from(data, start)
    if data[start + MAGIC_OFFSET] != MAGIC_VALUE_V2 or size < _DELTA.offset:
        return int(offset)
    at = start + _DELTA.offset
    return int(offset) + int.from_bytes(data[at : at + _DELTA.width], "big", signed=True)


def end_record(offset: int, magic: int) -> bytes:
    """The record that ends a case."""
    timestamp = -1 if magic == 0 else 0
    record = Record(offset, timestamp, END, END)
    batch = Batch(
        magic=magic,
        base_offset=offset,
        last_offset=offset,
        timestamp_type="none" if magic == 0 else "create",
        max_timestamp=timestamp,
        records=(record,),
    )
    return encode(batch)
