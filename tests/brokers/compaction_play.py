"""A partition on a real broker and `compact` beside it: what both make of the same rounds of cleaning."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from kafka_brokers.cleaning import (
    active_base_offset,
    await_cleaned,
    cleaned_up_to,
    compacted,
    force_clean,
    read_segments,
    segment_files,
)
from kafka_brokers.interface import NoBroker
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.wire import Client, TopicPartition, tables
from kafka_brokers.wire.transactions import Producer, add_partitions, init_producer_id, send_end_transaction
from kafka_records import Batch, CleanerConfig, CompactResult, Header, Record, Round, Segment, compact, decode, encode
from kafka_records.broker.entries import file_entries, last_offset_of
from kafka_records.compression import decompress
from kafka_records.constants import COMPRESSIONS, RECORD_BATCH_OVERHEAD
from kafka_records.layout import ATTRIBUTES_OFFSET_LEGACY, ATTRIBUTES_OFFSET_V2, BATCH_V2, MAGIC_OFFSET
from kafka_records.log import split_entries
from kafka_records.message import decode_message

WHEN = 1_700_000_000_000
DAY = 86_400_000
# Seconds for what happens in a moment.
LIMIT = 10.0
NAMES = count()


def batch(*records: Record, **fields: object) -> Batch:
    """A v2 batch of *records*, as a producer would send it."""
    given: dict[str, object] = {
        "magic": 2,
        "base_offset": 0,
        "last_offset": records[-1].offset,
        "max_timestamp": max(record.timestamp for record in records),
        "records": records,
    }
    return Batch(**given | fields)  # type: ignore[arg-type]  # fields of any type


def record(offset: int, key: bytes | None, value: bytes | None = b"value", headers: Sequence[Header] = ()) -> Record:
    """A record a few milliseconds after the one before."""
    return Record(offset, WHEN + 7 * offset, key, value, tuple(headers))


def stored_at(base_offset: int, entry: Batch) -> bytes:
    """A batch as a leader stores it at that offset."""
    moved = tuple(each._replace(offset=each.offset + base_offset) for each in entry.records)
    last = entry.last_offset + base_offset
    placed = replace(entry, base_offset=base_offset, last_offset=last, records=moved)
    return encode(replace(placed, partition_leader_epoch=0) if entry.magic == 2 else placed)


@dataclass
class Play:
    """One fresh partition of a broker."""

    broker: JvmBroker
    client: Client
    settings: dict[str, str] = field(default_factory=dict)

    limit: float = 5.0

    def __post_init__(self) -> None:
        self.partition = TopicPartition(f"cleaned-{next(NAMES)}", 0)
        self.broker.create_topics({self.partition.topic: 1}, compacted(self.release) | self.settings)

    @property
    def release(self) -> str:
        """The broker's."""
        return self.broker.release

    @property
    def config(self) -> CleanerConfig:
        """The settings, as `compact` takes them."""
        return CleanerConfig.of(self.settings)

    def produce(self, *batches: Batch, **fields: object) -> None:
        """Append each, which has to be taken."""
        for each in batches:
            version = 2 if each.magic < 2 else min(9, self.client.newest(tables.PRODUCE))
            answer = self.client.produce({self.partition: encode(each)}, version, **fields)
            assert isinstance(answer, dict)
            assert answer[self.partition].error_code == 0, answer

    def transaction(self, name: str, *batches: Batch, commit: bool, ends: bool = True) -> Producer:
        """One transaction of these batches; its producer."""
        producer = init_producer_id(self.client, f"{self.partition.topic}-{name}")
        assert add_partitions(self.client, f"{self.partition.topic}-{name}", producer, [self.partition]) == {
            self.partition: 0
        }
        sequence = 0
        for each in batches:
            signed = replace(each, transactional=True, base_sequence=sequence, **producer._asdict())
            self.produce(signed, transactional_id=f"{self.partition.topic}-{name}")
            sequence += len(each.records)
        if ends:
            before = self.end()
            send_end_transaction(self.client, f"{self.partition.topic}-{name}", producer, commit=commit)
            limit = time.monotonic() + LIMIT
            while self.end() == before:
                assert time.monotonic() < limit
        return producer

    def end(self) -> int:
        """The log's end offset."""
        return self.client.offset(self.partition)

    def fetched(self) -> bytes:
        """All of the log as it is fetched, which is a segment at a time at most."""
        found = b""
        while True:
            entries_ = list(file_entries(found))
            offset = last_offset_of(entries_[-1]) + 1 if entries_ else 0
            answer = self.client.fetch({self.partition: offset}, max_wait_ms=0)
            assert isinstance(answer, dict)
            if not answer[self.partition].records:
                return found
            found += answer[self.partition].records

    def segments(self) -> list[Segment]:
        """The files and their times."""
        return [
            Segment(int(path.stem), path.stat().st_mtime_ns // 1_000_000)
            for path in segment_files(self.broker, self.partition)
        ]

    def difference(self) -> object:
        """Where broker and `compact` disagree; None if they do not, and () if both find the log uncleanable."""
        try:
            theirs, ours = self.clean()
        except NoBroker:
            return () if self.foretell().error else "not cleaned"
        if ours.error:
            return ours.error, ours.rule, describe(theirs)
        if above_compression(ours.data) != above_compression(theirs):
            return ours.fates, describe(ours.data), describe(theirs)
        return None

    def foretell(self) -> CompactResult:
        """The result that `compact` predicts now."""
        data = read_segments(self.broker, self.partition)
        given = Round(first_uncleanable_offset=active_base_offset(self.broker, self.partition))
        return compact(data, self.config, given, release=self.release, now_ms=now_ms())

    def clean(self) -> tuple[bytes, CompactResult]:
        """The segments after the broker's next round, and the result that `compact` predicts for it."""
        await_cleaned(self.broker, self.partition, limit=self.limit)
        before, first_dirty, segments = (
            read_segments(self.broker, self.partition),
            cleaned_up_to(self.broker, self.partition),
            self.segments(),
        )
        start = now_ms()
        force_clean(self.broker, self.client, self.partition, limit=self.limit)
        after = read_segments(self.broker, self.partition)
        active = segment_files(self.broker, self.partition)[-1]
        given = Round(
            first_dirty_offset=first_dirty,
            first_uncleanable_offset=active_base_offset(self.broker, self.partition),
            segments=segments,
        )
        now = self._began(before, after, start)
        self._left, self._segments, self._since = after, self.segments(), now_ms()
        return after, compact(before + active.read_bytes(), self.config, given, release=self.release, now_ms=now)

    def filler_cleans_as_predicted(self) -> CompactResult:
        """Check the round that removes a filler, after a batch of a producer that has not written before."""
        await_cleaned(self.broker, self.partition, limit=LIMIT)
        active = active_base_offset(self.broker, self.partition)
        after = read_segments(self.broker, self.partition)
        before = self._left + segment_files(self.broker, self.partition)[-1].read_bytes()
        given = Round(
            first_dirty_offset=self._segments[-1].base_offset, first_uncleanable_offset=active, segments=self._segments
        )
        now = self._began(self._left, after, self._since)
        ours = compact(before, self.config, given, release=self.release, now_ms=now)
        assert above_compression(ours.data) == above_compression(after), (ours.fates, describe(after))
        return ours

    def _began(self, before: bytes, after: bytes, start: int) -> int:
        """When the round began: that is in the delete horizons, if there is a new one."""
        known = horizons(before)
        for horizon in horizons(after) - known:
            began = horizon - self.config.delete_retention_ms
            assert start <= began <= now_ms()
            return began
        return now_ms()

    def cleans_as_predicted(self) -> CompactResult:
        """One round, in which broker and `compact` have to agree."""
        theirs, ours = self.clean()
        assert ours.error is None, ours
        assert self.fetched() == theirs
        assert above_compression(ours.data) == above_compression(theirs), (ours.fates, describe(theirs))
        return ours


def now_ms() -> int:
    """Our clock, which is the broker's."""
    return time.time_ns() // 1_000_000


def horizons(data: bytes) -> set[int]:
    """The delete horizons in a log."""
    return {each.delete_horizon for each in decode(data) if each.delete_horizon is not None}


def describe(data: bytes) -> Sequence[Batch]:
    """A log without its filler."""
    return [each for each in decode(data) if len(encode(each)) < 100_000]


def above_compression(data: bytes) -> list[object]:
    """Each entry; of a compressed one its fields and what it decompresses to."""
    return [_above(data[start:end]) for start, end in split_entries(data)]


def _above(entry: bytes) -> object:
    v2 = entry[MAGIC_OFFSET] == 2
    codec = entry[ATTRIBUTES_OFFSET_V2 + 1 if v2 else ATTRIBUTES_OFFSET_LEGACY] & 7
    if codec == 0:
        return entry
    if v2:
        header = BATCH_V2.struct.unpack_from(entry)
        packed, outside = entry[RECORD_BATCH_OVERHEAD:], header[:1] + header[2:4] + header[5:]
    else:
        message = decode_message(entry)
        packed, outside = message.value or b"", message._replace(value=None)
    return outside, decompress(COMPRESSIONS[codec], packed, magic=entry[MAGIC_OFFSET], most=2**24)
