"""`fetch_view`: the answer to a fetch of one partition (KafkaApis, ReplicaManager, UnifiedLog#read)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kafka_records.broker.config import TopicConfig
from kafka_records.broker.errors import (
    NONE,
    UNSUPPORTED_COMPRESSION_TYPE,
    UNSUPPORTED_VERSION,
    Thrown,
    code_of,
)
from kafka_records.broker.releases import Behaviour, behaviour
from kafka_records.constants import MAGIC_VALUE_V0, MAGIC_VALUE_V1
from kafka_records.conversion import Closed, served
from kafka_records.fetching.segment import IndexEntry, Slice, position_of, read_segment, recovered_index, upper_bound
from kafka_records.transactions import AbortIndex

OFFSET_OUT_OF_RANGE: Final = 1
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
# Where the broker does not say.
NO_OFFSET: Final = -1
NO_LIMIT: Final = 2**31 - 1
NO_ABORTED: Final = AbortIndex()
DEFAULT_CONFIG: Final = TopicConfig()

# FetchRequest: since version 3 the first batch comes whole (KIP-74), since 4 there are
# isolation levels (KIP-98), since 10 readers know zstd (KIP-110).
FIRST_WITH_WHOLE_BATCH: Final = 3
FIRST_WITH_ISOLATION: Final = 4
FIRST_WITH_ZSTD: Final = 10
# CNV-07: the last versions that know v0 only, and v1.
LAST_OF_V0: Final = 1
LAST_OF_V1: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """A broker's answer for one partition.

    Attributes:
        error_code: Kafka's number.
        records: the bytes.
        aborted: producer id and first offset of the transactions to be left out; None where there is no list.
        high_watermark: -1 with an error.
        last_stable_offset: -1 with an error, and before version 4.
        closed: whether the broker closes the connection instead.
        rule: id of the rule that decided.
    """

    error_code: int = NONE
    records: bytes = b""
    aborted: tuple[tuple[int, int], ...] | None = None
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    closed: bool = False
    rule: str = "SEG-02"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetch:
    """A partition as its leader sees it, and the request for it.  Attributes are the arguments of `fetch_view`."""

    stored: bytes
    offset: int
    version: int
    does: Behaviour
    committed: bool
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int
    most: int
    is_first: bool
    aborted: AbortIndex
    index: Sequence[IndexEntry] | None
    config: TopicConfig
    down_conversion: bool

    @property
    def visible(self) -> int:
        """The end of the part that the reader may see."""
        return self.last_stable_offset if self.committed else self.high_watermark

    @property
    def offset_index(self) -> Sequence[IndexEntry]:
        """As it is, or as it would be."""
        return recovered_index(self.stored) if self.index is None else self.index

    @property
    def limited(self) -> bool:
        """Whether even a first batch is cut off (KIP-74)."""
        return self.version < FIRST_WITH_WHOLE_BATCH


class _Read(NamedTuple):
    """Result of UnifiedLog#read."""

    data: bytes
    aborted: tuple[tuple[int, int], ...] | None


def fetch_view(
    stored: bytes,
    *,
    fetch_offset: int,
    high_watermark: int,
    api_version: int,
    release: str,
    isolation_level: int = READ_UNCOMMITTED,
    last_stable_offset: int | None = None,
    aborted: AbortIndex = NO_ABORTED,
    partition_max_bytes: int = NO_LIMIT,
    max_bytes: int = NO_LIMIT,
    is_first: bool = True,
    log_start_offset: int = 0,
    log_end_offset: int | None = None,
    index: Sequence[IndexEntry] | None = None,
    config: TopicConfig = DEFAULT_CONFIG,
    down_conversion: bool = True,
) -> FetchResult:
    """Answer a consumer's fetch of one partition as a broker does.

    Args:
        stored: the segment that holds *fetch_offset*.
        fetch_offset: the offset in the request.
        high_watermark: the offset after the last record that is replicated.
        api_version: of the fetch request.
        release: of Kafka, like "4.4.0".
        isolation_level: 1 is read_committed, for versions that know it.
        last_stable_offset: where the first open transaction begins; *high_watermark* if there is none.
        aborted: the aborted transactions of the whole log.
        partition_max_bytes: what the request allows for the partition.
        max_bytes: what it allows for all, or what is left of that (from version 3 on).
        is_first: whether no partition before this one had data in the response.
        log_start_offset: everything below has been deleted.
        log_end_offset: after the last record; *high_watermark* if all is replicated.
        index: the segment's offset index, which decides how far aborted transactions are listed; that of a log
            appended to batch by batch if it is not given.
        config: the topic's settings.
        down_conversion: message.downconversion.enable.

    Raises:
        RecordFormatError: kind `malformed`, only for a release that is not known.
    """
    does = behaviour(release)
    knows_limit = api_version >= FIRST_WITH_WHOLE_BATCH
    return _checked(
        _Fetch(
            stored=bytes(stored),
            offset=fetch_offset,
            version=api_version,
            does=does,
            committed=isolation_level == READ_COMMITTED and api_version >= FIRST_WITH_ISOLATION,
            high_watermark=high_watermark,
            last_stable_offset=min(high_watermark, _or(last_stable_offset, high_watermark)),
            log_start_offset=log_start_offset,
            log_end_offset=_or(log_end_offset, high_watermark),
            most=min(partition_max_bytes, max_bytes) if knows_limit else partition_max_bytes,
            is_first=is_first,
            aborted=aborted,
            index=index,
            config=config,
            down_conversion=down_conversion,
        )
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _checked(fetch: _Fetch) -> FetchResult:
    """KafkaApis#handleFetchRequest."""
    oldest, newest = fetch.does.fetch
    if not oldest <= fetch.version <= newest:
        # PRD-09: a real broker closes the connection, or answers in its own version.
        return FetchResult(error_code=UNSUPPORTED_VERSION, closed=True, rule="PRD-09")
    try:
        return _converted(_answered(fetch), fetch)
    except Thrown as thrown:
        return FetchResult(error_code=code_of(thrown.name, invalid_record=fetch.does.invalid_record), rule=thrown.rule)
    except Closed as closed:
        return FetchResult(closed=True, rule=closed.thrown.rule)


def _answered(fetch: _Fetch) -> FetchResult:
    """ReplicaManager#readFromLog."""
    if not fetch.log_start_offset <= fetch.offset <= fetch.log_end_offset:
        return FetchResult(error_code=OFFSET_OUT_OF_RANGE, rule="OFF-12")
    found = _read(fetch)
    return FetchResult(
        records=found.data,
        aborted=found.aborted,
        high_watermark=fetch.high_watermark,
        last_stable_offset=_reported_stable(fetch),
    )


def _reported_stable(fetch: _Fetch) -> int:
    reports = fetch.version >= FIRST_WITH_ISOLATION and (fetch.committed or fetch.does.reports_stable)
    return fetch.last_stable_offset if reports else NO_OFFSET


def _read(fetch: _Fetch) -> _Read:
    """UnifiedLog#read, LocalLog#read."""
    if fetch.offset >= fetch.visible:
        return _Read(b"", () if fetch.committed else None)
    end = position_of(fetch.stored, fetch.visible)
    whole_first = fetch.is_first and not fetch.limited
    piece = read_segment(fetch.stored, fetch.offset, fetch.most, end, fetch.offset_index, whole_first=whole_first)
    if piece is None or (piece.incomplete and not fetch.limited):
        # Nothing follows the offset; or less than a batch, which no consumer can use (KIP-74).
        return _Read(b"", None)
    return _Read(piece.data, _aborted(fetch, piece) if fetch.committed else None)


def _aborted(fetch: _Fetch, piece: Slice) -> tuple[tuple[int, int], ...]:
    """LocalLog#addAbortedTransactions."""
    return fetch.aborted.overlapping(fetch.offset, upper_bound(piece, fetch.offset_index, fetch.log_end_offset))


def _converted(answer: FetchResult, fetch: _Fetch) -> FetchResult:
    """KafkaApis#maybeConvertFetchedData."""
    if fetch.does.guards_zstd and fetch.config.compression == "zstd" and fetch.version < FIRST_WITH_ZSTD:
        return FetchResult(error_code=UNSUPPORTED_COMPRESSION_TYPE, rule="CNV-15")
    to_magic = _to_magic(fetch.config.magic(fetch.does), fetch.version)
    if to_magic is None:
        return answer
    if not fetch.down_conversion:
        return FetchResult(error_code=UNSUPPORTED_VERSION, rule="CNV-16")
    records = served(answer.records, to_magic, fetch.offset, fetch.does)
    return replace(answer, records=records, rule="CNV-07")


def _to_magic(magic: int, version: int) -> int | None:
    """The format that the reader has to be given, if it does not know the topic's (CNV-07)."""
    if magic > MAGIC_VALUE_V0 and version <= LAST_OF_V0:
        return MAGIC_VALUE_V0
    return MAGIC_VALUE_V1 if magic > MAGIC_VALUE_V1 and version <= LAST_OF_V1 else None
