"""Limits of APIs: the closed list of reasons to skip a case that a codec announces; pure.

A testee may skip a case only if the case is beyond a limit of this list.  Each limit
is a property of the batch to write, or of the bytes to read, so that the judge can
check it.  A skip without such a reason is no answer to the case.

A limit belongs to an API and not to a case: a codec that answers one case beyond a
limit does not have it.  `contradicted` finds the skips for which no limit is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from kafka_conformance.judge.reach import complete_entries
from kafka_corpus.case import Case, Recipe, once_per_case
from kafka_corpus.vector_format import input_of
from kafka_records import Batch, RecordFormatError
from kafka_records import attributes as bits
from kafka_records.compression import decompress
from kafka_records.constants import (
    INT32_MAX,
    INT64_MAX,
    MAGIC_VALUE_V1,
    MAGIC_VALUE_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
)
from kafka_records.layout import ATTRIBUTES_OFFSET_LEGACY, MAGIC_OFFSET
from kafka_records.message import decode_message, is_compressed

INT16_MAX: Final = (1 << 15) - 1
# The last millisecond of the year 9999, with which Python's datetime and others end.
LAST_OF_DATES: Final = 253_402_300_799_999
# About the year 262,000, with which chrono of Rust and others end.
LAST_OF_CALENDAR: Final = 8_000_000_000_000_000
MAX_INNER: Final = 16 * 1024 * 1024

BatchLimit = Callable[[Batch], bool]


def _counts_otherwise(batch: Batch) -> bool:
    offsets = [record.offset - batch.base_offset for record in batch.records]
    return offsets != list(range(len(offsets))) or batch.last_offset - batch.base_offset != max(len(offsets) - 1, 0)


def _sets_maximum(batch: Batch) -> bool:
    return batch.timestamp_type == "create" and batch.max_timestamp != max(
        (record.timestamp for record in batch.records), default=batch.max_timestamp
    )


def _repeats_header_key(batch: Batch) -> bool:
    return any(len({each.key for each in record.headers}) < len(record.headers) for record in batch.records)


def _is_unsorted(batch: Batch) -> bool:
    """Whether a map that sorts its keys changes the order of the headers."""
    keys = [[header.key or b"" for header in record.headers] for record in batch.records]
    return any(each != sorted(each) for each in keys)


def _splits_header_key(batch: Batch) -> bool:
    """Whether headers of one key are apart, or keys are numbers: a map by key puts those together and these first."""
    for record in batch.records:
        keys = [header.key or b"" for header in record.headers]
        runs = sum(one != other for one, other in pairwise(keys)) + 1
        if (keys and runs > len(set(keys))) or any(key.isdigit() for key in keys):
            return True
    return False


def _is_text(key: bytes | None) -> bool:
    if key is None:
        return False
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _has_headers(test: Callable[[bytes | None, bytes | None], bool]) -> BatchLimit:
    return lambda batch: any(test(*header) for record in batch.records for header in record.headers)


def _exceeds_types(batch: Batch) -> bool:
    """Whether a field of the header does not fit the type that the format gives it."""
    return (
        not -INT32_MAX - 1 <= batch.base_sequence <= INT32_MAX
        or not -INT32_MAX - 1 <= batch.partition_leader_epoch <= INT32_MAX
        or not -INT16_MAX - 1 <= batch.producer_epoch <= INT16_MAX
        or not -INT64_MAX - 1 <= batch.producer_id <= INT64_MAX
    )


def _offset_deltas(batch: Batch) -> list[int]:
    return [offset - batch.base_offset for offset in (*(record.offset for record in batch.records), batch.last_offset)]


def _has_half_a_producer(batch: Batch) -> bool:
    """Whether some of producer id, epoch and sequence are set, or a transaction without them."""
    fields = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    unset = [field < 0 for field in fields]
    return any(unset) and (not all(unset) or batch.transactional)


# The limits of APIs that write, by name, each with what is beyond it.
WRITERS: Final[Mapping[str, BatchLimit]] = MappingProxyType(
    {
        "base offset": lambda batch: batch.base_offset != 0,
        "offset of the first record": lambda batch: (
            batch.records[:1] != () and batch.base_offset != batch.records[0].offset
        ),
        "offset of the last record": lambda batch: (
            batch.records[:1] != () and batch.last_offset != batch.records[-1].offset
        ),
        "offsets 0, 1, 2": _counts_otherwise,
        "types of the fields": _exceeds_types,
        "offset deltas of an int32": lambda batch: any(
            not -INT32_MAX - 1 <= d <= INT32_MAX for d in _offset_deltas(batch)
        ),
        "offsets from the base on": lambda batch: min(_offset_deltas(batch)) < 0,
        "a producer's whole state": _has_half_a_producer,
        "LogAppendTime": lambda batch: batch.timestamp_type == "append",
        "delete horizon": lambda batch: batch.delete_horizon is not None,
        "delete horizon from 1970 on": lambda batch: (batch.delete_horizon or 0) < 0,
        "max timestamp": _sets_maximum,
        "timestamp type": lambda batch: batch.timestamp_type not in ("create", "append"),
        "times from 1970 on": lambda batch: any(record.timestamp < 0 for record in batch.records),
        "times but 0": lambda batch: any(record.timestamp == 0 for record in batch.records),
        "times up to the year 9999": lambda batch: any(record.timestamp > LAST_OF_DATES for record in batch.records),
        "times of a calendar": lambda batch: any(abs(record.timestamp) > LAST_OF_CALENDAR for record in batch.records),
        "leader epoch": lambda batch: batch.partition_leader_epoch != NO_PARTITION_LEADER_EPOCH,
        "producer id": lambda batch: batch.producer_id != NO_PRODUCER_ID or batch.producer_epoch != NO_PRODUCER_EPOCH,
        "base sequence": lambda batch: batch.base_sequence not in (0, NO_SEQUENCE),
        "transactions": lambda batch: batch.transactional,
        "control records": lambda batch: batch.control,
        "at least one record": lambda batch: not batch.records,
        "key or value": lambda batch: any(each.key is None and each.value is None for each in batch.records),
        "headers": lambda batch: any(record.headers for record in batch.records),
        "header keys of text": _has_headers(lambda key, _: not _is_text(key)),
        "header values": _has_headers(lambda _, value: value is None),
        "header keys once": _repeats_header_key,
        "headers in the order of their keys": _is_unsorted,
        "headers by key": _splits_header_key,
        "magics 0, 1, 2": lambda batch: not 0 <= batch.magic <= MAGIC_VALUE_V2,
        "old messages": lambda batch: batch.magic < MAGIC_VALUE_V2,
        "old messages without zstd": lambda batch: batch.magic < MAGIC_VALUE_V2 and batch.compression == "zstd",
        "v0 without lz4": lambda batch: batch.magic < MAGIC_VALUE_V1 and batch.compression == "lz4",
        "codec of an empty batch": lambda batch: not batch.records and batch.compression != "none",
    }
)
# The limits of APIs that read, by name: what is beyond them, of the magics of entries and of messages inside wrappers.
READERS: Final[Mapping[str, Callable[[Sequence[int], set[int]], bool]]] = MappingProxyType(
    {
        "batches after messages": lambda outer, _: outer[0] < MAGIC_VALUE_V2 <= max(outer),
        "messages after batches": lambda outer, _: min(outer) < MAGIC_VALUE_V2 <= outer[0],
        "messages of one format": lambda outer, inner: {0, 1} <= {*outer, *inner},
        "inner messages of v0 and v1": lambda _, inner: bool(inner - {0, 1}),
    }
)
LIMITS: Final = (*WRITERS, *READERS)


@once_per_case
def limits_beyond(case: Case) -> frozenset[str]:
    """The limits that *case* is beyond; none if every API for its formats can express it."""
    if isinstance(case.input, Batch):
        batch = case.input
        return frozenset(name for name, is_beyond in WRITERS.items() if is_beyond(batch))
    if case.op == "decode" and not isinstance(case.input, Recipe):
        data = input_of(case)
        assert isinstance(data, bytes)
        outer, inner = _formats(data)
        return frozenset(name for name, is_beyond in READERS.items() if outer and is_beyond(outer, inner))
    return frozenset()


def _formats(data: bytes) -> tuple[list[int], set[int]]:
    """The magics of the entries, and of the messages inside wrappers, as far as they can be read."""
    entries = [data[start:end] for start, end in complete_entries(data)]
    return [entry[MAGIC_OFFSET] for entry in entries], set().union(*map(_inner_formats, entries))


def _inner_formats(entry: bytes) -> set[int]:
    if entry[MAGIC_OFFSET] >= MAGIC_VALUE_V2:
        return set()
    try:
        message = decode_message(entry)
        if not is_compressed(message) or message.value is None:
            return set()
        compression = bits.compression_of(message.attributes, at=ATTRIBUTES_OFFSET_LEGACY, rule="ATT-02")
        inner = decompress(compression, message.value, magic=message.magic, most=MAX_INNER)
    except RecordFormatError:
        return set()
    return {inner[start + MAGIC_OFFSET] for start, _ in complete_entries(inner)}


def contradicted(expressed: Iterable[Case], skipped: Iterable[Case]) -> frozenset[str]:
    """The ids of those *skipped* cases that are beyond no limit but such as an *expressed* case is beyond, too.

    Only cases of one operation and one magic are compared: a library may have a writer for each.

    Args:
        expressed: valid cases that the codec read or wrote, rightly or not.
        skipped: cases that it skipped.
    """
    groups: defaultdict[tuple[str, int], list[Case]] = defaultdict(list)
    for case in skipped:
        groups[_writer(case)].append(case)
    passed: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for case in expressed:
        if case.expect.verdict == "valid" and _writer(case) in groups:
            passed[_writer(case)] |= limits_beyond(case)
    return frozenset(
        case.id for writer, cases in groups.items() for case in cases if not limits_beyond(case) - passed[writer]
    )


def _writer(case: Case) -> tuple[str, int]:
    return case.op, case.input.magic if isinstance(case.input, Batch) else -1
