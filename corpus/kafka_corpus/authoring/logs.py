"""Logs as a broker stores them on disk, and the bytes that the cleaner and recovery leave of them."""

from __future__ import annotations

from typing import Any, Final

from kafka_corpus.authoring.batches import batch_of, bytes_of
from kafka_corpus.authoring.build import TIMESTAMP, put
from kafka_corpus.authoring.steps import AnsweredStep, takes
from kafka_corpus.registry import stored
from kafka_corpus.scenario import NOW, Clean, Edit, Fetch, FindOffset, ReadSegments, StepAnswer
from kafka_records import Record
from kafka_records.constants import Compression

# Topics whose tombstones stay for a day, which is the default, or may go with the next round.
COMPACTED: Final = {"cleanup.policy": "compact"}
AT_ONCE: Final = COMPACTED | {"delete.retention.ms": "0"}
# The horizon that a batch gets in the one topic; in the other it is NOW.
IN_A_DAY: Final = NOW + 86_400_000
CODECS: Final[dict[str, Compression]] = {"none": "none", "gzip": "gzip"}
# ListOffsets: the end of the log.
LATEST: Final = -1


def keyed(offset: int, key: bytes | None, value: bytes | None = b"value", *, later: int | None = None) -> Record:
    """A record at `TIMESTAMP` plus its offset in milliseconds, or plus *later* if given."""
    return Record(offset, TIMESTAMP + (offset if later is None else later), key, value)


def on_disk(*records: Record, **fields: Any) -> bytes:
    """A batch on the disk; *fields* are those of `Batch`."""
    return bytes_of(batch_of(*records, **({"partition_leader_epoch": 0} | fields)))


def appends(*records: Record, **fields: Any) -> AnsweredStep:
    """A batch is produced, and stored where the offsets of its *records* say."""
    batch = bytes_of(batch_of(*records, **fields))
    return takes(put(batch, "base_offset", 0), records[0].offset)


def cleans(*left: bytes) -> AnsweredStep:
    """The cleaner runs over the log, and leaves these batches."""
    return Clean(), StepAnswer(data=b"".join(left))


def shunned(*left: bytes) -> AnsweredStep:
    """The cleaner skips the log, which keeps these batches."""
    return Clean(), StepAnswer(data=b"".join(left), silent=True)


def planted(*entries: bytes, left: bytes | None = None) -> AnsweredStep:
    """The whole log is replaced by *entries* while the broker is down; recovery keeps them all, unless *left* says."""
    data = b"".join(entries)
    return Edit(at=0, data=data, cut=True), StepAnswer(data=data if left is None else left)


def holds(*entries: bytes) -> AnsweredStep:
    """The segments hold these entries."""
    return ReadSegments(), StepAnswer(data=b"".join(entries))


def ends_at(offset: int) -> AnsweredStep:
    """The log ends at *offset*."""
    return FindOffset(LATEST), StepAnswer(base_offset=offset)


def serves(data: bytes, end: int, offset: int = 0) -> AnsweredStep:
    """A fetch from *offset* brings *data* of a log that ends at *end*."""
    return Fetch(offset=offset), stored(data, base_offset=-1, high_watermark=end, last_stable_offset=end)
