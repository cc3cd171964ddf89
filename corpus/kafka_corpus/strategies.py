"""Hypothesis strategies for valid and nearly valid batches of every format.

For property tests of any codec (`pip install "kafkaproof[strategies]"`):

    @given(strategies.encoded(strategies.logs()))
    def test_my_codec_reads_what_kafka_reads(data):
        assert my_codec.decode(data) == kafka_records.decode(data)

    @given(strategies.nearly_valid())
    def test_my_codec_refuses_what_kafka_refuses(faulty):
        data, label = faulty
        with pytest.raises(MyError):
            my_codec.decode(data)

A valid batch survives `encode` and `decode` unchanged, and Kafka's own
reader accepts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

try:
    from hypothesis import strategies as st
except ImportError as error:
    text = 'kafka_corpus.strategies needs Hypothesis: pip install "kafkaproof[strategies]"'
    raise ImportError(text, name=error.name) from error

from kafka_corpus.authoring.faults import FAULTS
from kafka_records import Batch, Header, Record, encode, encode_control
from kafka_records.constants import COMPRESSIONS, INT32_MAX, INT64_MAX, NO_TIMESTAMP, Compression, TimestampType
from kafka_records.control import ControlRecord

# Small sizes find the same defects as large ones, and fit on a screen.
MAX_TEXT: Final = 40
MAX_RECORDS: Final = 6
# The largest gap between offsets that compaction leaves.
MAX_GAP: Final = 1000
INT16_MAX: Final = 2**15 - 1
MAGICS: Final = (0, 1, 2)
# zstd came with v2 (LEG-15).
LEGACY_COMPRESSIONS: Final = COMPRESSIONS[:-1]


def texts() -> st.SearchStrategy[bytes | None]:
    """Keys and values: null, empty, and some bytes.

    >>> isinstance(texts().map(lambda text: text is None or len(text)), st.SearchStrategy)
    True
    """
    return st.none() | st.binary(max_size=MAX_TEXT)


def timestamps() -> st.SearchStrategy[int]:
    """Milliseconds since 1970: plausible ones, none at all (-1), and the extremes."""
    return st.integers(1_300_000_000_000, 1_900_000_000_000) | st.sampled_from((NO_TIMESTAMP, 0, INT64_MAX))


def offsets() -> st.SearchStrategy[int]:
    """Base offsets: small, beyond 32 bits, and close to the largest."""
    return st.integers(0, 1000) | st.integers(INT32_MAX, 2**40) | st.just(INT64_MAX - 2**34)


def headers(*, max_size: int = 3) -> st.SearchStrategy[tuple[Header, ...]]:
    """Record headers: keys may be empty or repeat, and need not be UTF-8; values may be null.

    `@given(headers())` gives `()`, `(Header(b"", None),)`, `(Header(b"\\x80", b"1"), Header(b"\\x80", b""))`.
    """
    keys = st.binary(max_size=8) | st.text(max_size=4).map(str.encode)
    return st.lists(st.builds(Header, keys, texts()), max_size=max_size).map(tuple)


@st.composite
def records(
    draw: st.DrawFn, *, magic: int = 2, base_offset: int = 0, min_size: int = 1, max_size: int = MAX_RECORDS
) -> tuple[Record, ...]:
    """The records of one batch: rising offsets with gaps in between, as compaction leaves them.

    `@given(records(magic=1))` gives records without headers; v0 ones have no timestamp either.
    """
    size = draw(st.integers(min_size, max_size))
    gaps = draw(st.lists(st.sampled_from((1, 1, 1, 2)) | st.integers(1, MAX_GAP), min_size=size, max_size=size))
    made = []
    for index in range(size):
        offset = base_offset + sum(gaps[:index])
        timestamp = draw(timestamps()) if magic else NO_TIMESTAMP
        made.append(Record(offset, timestamp, draw(texts()), draw(texts()), draw(headers()) if magic == 2 else ()))
    return tuple(made)


@st.composite
def batches(
    draw: st.DrawFn,
    *,
    magic: int | None = None,
    compression: Compression | None = None,
    base_offset: int | None = None,
) -> Batch:
    """A batch that Kafka writes and reads: of any magic and codec, or of those given.

    Legacy entries are plain messages (one record) or wrappers.  v2 ones may be
    empty, transactional, idempotent or control batches, with a delete horizon,
    a gap after the last record, or LogAppendTime.

    `@given(batches(magic=1, compression="lz4"))` gives v1 wrappers.
    """
    magic = draw(st.sampled_from(MAGICS)) if magic is None else magic
    base = draw(offsets()) if base_offset is None else base_offset
    if magic == 2:
        return draw(record_batches(compression=compression, base_offset=base))
    codec = draw(st.sampled_from(LEGACY_COMPRESSIONS)) if compression is None else compression
    content = draw(records(magic=magic, base_offset=base, max_size=1 if codec == "none" else MAX_RECORDS))
    kind: TimestampType = "none" if magic == 0 else draw(st.sampled_from(("create", "append")))
    content, latest = with_timestamps(content, kind, draw(timestamps()))
    return Batch(
        magic=magic,
        base_offset=base,
        last_offset=content[-1].offset,
        compression=codec,
        timestamp_type=kind,
        max_timestamp=latest,
        records=content,
    )


@st.composite
def record_batches(draw: st.DrawFn, *, compression: Compression | None, base_offset: int) -> Batch:
    """A v2 batch; `batches(magic=2)` is the way to ask for one."""
    # Kafka compresses neither control batches nor empty ones.
    shapes = ("data", "data", "data", "control", "empty") if compression in (None, "none") else ("data",)
    shape = draw(st.sampled_from(shapes))
    codec: Compression = "none"
    if shape == "data":
        codec = draw(st.sampled_from(COMPRESSIONS)) if compression is None else compression
    content = draw(contents(shape, base_offset))
    kind: TimestampType = draw(st.sampled_from(("create", "create", "append")))
    content, latest = with_timestamps(content, kind, draw(timestamps()))
    batch = Batch(
        magic=2,
        base_offset=base_offset,
        last_offset=(content[-1].offset if content else base_offset) + draw(st.sampled_from((0, 0, 0, 1, MAX_GAP))),
        compression=codec,
        timestamp_type=kind,
        max_timestamp=latest,
        control=shape == "control",
        partition_leader_epoch=draw(st.sampled_from((-1, 0, 7, INT32_MAX))),
        delete_horizon=draw(st.none() | st.integers(0, 2**41)),
        records=content,
    )
    return draw(with_producer(batch))


def contents(shape: str, base_offset: int) -> st.SearchStrategy[tuple[Record, ...]]:
    """The records of a data, control or empty batch."""
    match shape:
        case "empty":
            return st.just(())
        case "control":
            return st.tuples(markers(base_offset))
    return records(base_offset=base_offset)


@st.composite
def markers(draw: st.DrawFn, offset: int = 0) -> Record:
    """The record of a control batch: the end of a transaction, or a change of leader."""
    epoch = draw(st.integers(-1, INT32_MAX))
    marker = {"version": 0, "coordinator_epoch": epoch}
    change = {"version": 0, "leader_id": 1, "voters": [{"voter_id": 1}], "granting_voters": [{"voter_id": 1}]}
    type_ = draw(st.sampled_from(("commit", "abort", "leader_change")))
    control = ControlRecord(type_, change if type_ == "leader_change" else marker)
    return encode_control(control, offset=offset, timestamp=draw(timestamps()))


def with_timestamps(content: Sequence[Record], kind: TimestampType, now: int) -> tuple[tuple[Record, ...], int]:
    """*content* with the timestamps that *kind* requires, and the largest of them."""
    if kind == "append":
        return tuple(record._replace(timestamp=now) for record in content), now
    return tuple(content), max((record.timestamp for record in content), default=NO_TIMESTAMP)


@st.composite
def with_producer(draw: st.DrawFn, batch: Batch) -> Batch:
    """*batch* with the state of an idempotent or transactional producer, or without any."""
    if not draw(st.booleans()):
        return batch
    return replace(
        batch,
        producer_id=draw(st.sampled_from((0, 1000, INT64_MAX))),
        producer_epoch=draw(st.sampled_from((0, INT16_MAX))),
        base_sequence=-1 if batch.control else draw(st.sampled_from((0, 1, INT32_MAX))),
        transactional=draw(st.booleans()),
    )


@st.composite
def logs(
    draw: st.DrawFn, *, max_size: int = 4, magic: int | None = None, compression: Compression | None = None
) -> tuple[Batch, ...]:
    """Batches end to end, of mixed formats unless *magic* is given; offsets rise.

    `@given(logs())` gives what a segment holds after two upgrades of a broker.
    """
    log: list[Batch] = []
    following = draw(st.integers(0, 1000))
    for _ in range(draw(st.integers(0, max_size))):
        log.append(draw(batches(magic=magic, compression=compression, base_offset=following)))
        following = log[-1].last_offset + draw(st.sampled_from((1, 1, 2, MAX_GAP)))
    return tuple(log)


def encoded(
    source: st.SearchStrategy[Batch] | st.SearchStrategy[tuple[Batch, ...]] | None = None,
) -> st.SearchStrategy[bytes]:
    """The bytes of what *source* gives, batches or logs; of any log if there is none.

    `@given(encoded(batches(magic=2, compression="zstd")))` gives single v2 batches.
    """
    given: st.SearchStrategy[Batch | tuple[Batch, ...]] = logs() if source is None else source
    return given.map(lambda made: b"".join(map(encode, (made,) if isinstance(made, Batch) else made)))


@st.composite
def nearly_valid(draw: st.DrawFn, *, magic: int | None = None, label: str | None = None) -> tuple[bytes, str]:
    """Bytes with one fault that every reader must refuse, and the label of the fault.

    Lengths and checksums agree with the fault, so that it is the only one.  `FAULTS`
    has the labels, and the error kinds that fit; *label* selects one of them.

    `@given(nearly_valid())` gives `(b"...", "record_count_too_high")`.
    """
    choices = [FAULTS[label]] if label else list(FAULTS.values())
    if magic is None:
        magic = draw(st.sampled_from([each for each in MAGICS if any(each in fault.magics for fault in choices)]))
    label = label or draw(st.sampled_from([name for name, fault in FAULTS.items() if magic in fault.magics]))
    fault = FAULTS[label]
    codec: Compression | None = "none" if fault.plain else None
    batch = draw(batches(magic=magic, compression=codec).filter(lambda made: bool(made.records)))
    return fault.apply(encode(batch), draw(st.integers(0, 2**16))), label


__all__ = [
    "FAULTS",
    "batches",
    "encoded",
    "headers",
    "logs",
    "markers",
    "nearly_valid",
    "offsets",
    "records",
    "texts",
    "timestamps",
]
