"""Logs as brokers may hold them, of every magic and codec, sound and broken: what fetches are tried on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kafka_corpus.authoring.build import put, reseal
from kafka_records import Batch, Header, Record, encode
from kafka_records.constants import COMPRESSIONS
from kafka_records.control import ControlRecord, encode_control

WHEN: Final = 1_700_000_000_000
LATER: Final = WHEN + 77_000
# Codecs that both formats know.
OLD_CODECS: Final = COMPRESSIONS[:4]


def record(offset: int, size: int = 9, **fields: Any) -> Record:
    """A record that says its offset, *size* bytes long."""
    value = f"value {offset} ".encode()
    given = Record(offset, WHEN + offset * 10, f"key {offset}".encode(), (value * (size // len(value) + 1))[:size])
    return given._replace(**fields)


def batch(base: int, count: int = 3, *, size: int = 9, **fields: Any) -> Batch:
    """A v2 batch of *count* records from the offset *base* on, or one with *fields* different."""
    records = tuple(record(base + index, size) for index in range(count))
    last = WHEN + (base + count - 1) * 10
    made = Batch(magic=2, base_offset=base, last_offset=base + count - 1, max_timestamp=last, records=records)
    return replace(made, **{"partition_leader_epoch": 0} | fields)


def v2(base: int, count: int = 3, *, size: int = 9, **fields: Any) -> bytes:
    """As `batch`, in bytes."""
    return encode(batch(base, count, size=size, **fields))


def message(magic: int, base: int, count: int = 1, **fields: Any) -> bytes:
    """One v0 or v1 message, or a wrapper with *count*."""
    given = batch(base, count)
    old: dict[str, Any] = {"magic": magic, "partition_leader_epoch": -1}
    if magic == 0:
        old |= {"timestamp_type": "none", "max_timestamp": -1}
        old["records"] = tuple(each._replace(timestamp=-1) for each in given.records)
    return encode(replace(given, **old | fields))


def marker(base: int, producer_id: int = 7, *, commit: bool = True, **fields: Any) -> bytes:
    """The end of a transaction."""
    said = ControlRecord("commit" if commit else "abort", {"version": 0, "coordinator_epoch": 0})
    records = (encode_control(said, offset=base, timestamp=WHEN),)
    given: dict[str, Any] = {"control": True, "transactional": True, "producer_id": producer_id, "producer_epoch": 0}
    given |= {"max_timestamp": WHEN, "records": records}
    return v2(base, 1, **given | fields)


def written(producer_id: int, base: int, count: int = 3, **fields: Any) -> bytes:
    """Part of a transaction."""
    given: dict[str, Any] = {
        "transactional": True,
        "producer_id": producer_id,
        "producer_epoch": 0,
        "base_sequence": base,
    }
    return v2(base, count, **given | fields)


def compacted(base: int, *deltas: int, last: int, **fields: Any) -> bytes:
    """A batch after compaction: records at *deltas* only, the last offset as it was."""
    records = tuple(record(base + delta) for delta in deltas)
    given: dict[str, Any] = {"records": records, "last_offset": base + last}
    return v2(base, 1, **given | fields)


def empty(base: int, count: int = 3) -> bytes:
    """A batch without records after compaction."""
    return v2(base, count, records=(), producer_id=7, producer_epoch=0, base_sequence=0)


def repeated(base: int) -> bytes:
    """Three records of one and the same offset, as an append lets pass (OFF-04)."""
    sound = v2(base)
    # The offset delta is the fourth byte of a record: length, attributes, timestamp delta.
    at = sound.index(b"key 1".replace(b"1", str(base + 1).encode())) - 2
    assert sound[at] == 2
    return reseal(sound[:at] + b"\0" + sound[at + 1 :])


CODEC_LOGS: Final[Mapping[str, bytes]] = {
    f"{name}, {codec}": b"".join(made)
    for codec in OLD_CODECS
    for name, made in {
        "v2": [v2(base, size=60, compression=codec) for base in (0, 3, 6)],
        "LogAppendTime": [
            v2(base, size=60, compression=codec, timestamp_type="append", max_timestamp=LATER + base) for base in (0, 3)
        ],
        "long": [v2(base, size=4000, compression=codec) for base in (0, 3)],
        "many small": [v2(base, 40, size=1, compression=codec) for base in (0, 40, 80)],
        "compacted": [compacted(0, 1, 4, last=7, compression=codec), compacted(8, 0, last=3, compression=codec)],
        "v1 wrappers": [message(1, base, 3, compression=codec) for base in ((0, 3) if codec != "none" else ())],
        "v1 LogAppendTime": [
            message(
                1, base, 1 if codec == "none" else 3, compression=codec, timestamp_type="append", max_timestamp=LATER
            )
            for base in (0, 3)
        ],
        "v0": [message(0, base, 1 if codec == "none" else 3, compression=codec) for base in (0, 3)],
        "mixed": [
            message(0, 0, 1 if codec == "none" else 3, compression=codec),
            message(1, 3, 1 if codec == "none" else 3, compression=codec),
            v2(6, compression=codec),
            message(1, 9, 1 if codec == "none" else 3, compression=codec),
        ],
    }.items()
    if made
}

LOGS: Final[Mapping[str, bytes]] = dict(CODEC_LOGS) | {
    "codecs one after the other": b"".join(v2(3 * at, compression=codec) for at, codec in enumerate(OLD_CODECS)),
    "headers": v2(0, 1, records=(record(0, headers=(Header(b"h", b"v"), Header(b"", None))),)),
    "nulls": v2(0, 2, records=(record(0, key=None), record(1, value=None))),
    "empty strings": v2(0, 2, records=(record(0, key=b""), record(1, value=b""))),
    "no timestamps": v2(0, 2, max_timestamp=-1, records=(record(0, timestamp=-1), record(1, timestamp=-1))),
    "a producer": v2(0, producer_id=7, producer_epoch=1, base_sequence=0) + v2(3),
    "delete horizon": v2(0, delete_horizon=WHEN + 5) + v2(3, delete_horizon=WHEN, compression="gzip"),
    "a transaction": written(7, 0) + marker(3) + v2(4),
    "a marker first": marker(0) + v2(1) + v2(4),
    "markers first": marker(0) + marker(1, commit=False) + v2(2) + v2(5) + v2(8),
    "a marker first, then large batches": marker(0) + b"".join(v2(at, size=30_000) for at in (1, 4, 7)),
    "an empty batch first": empty(0) + v2(3) + v2(6),
    "markers only": marker(0) + marker(1),
    "one marker": marker(0),
    "empty batches": empty(0) + v2(3) + empty(6) + v2(9) + empty(12),
    "an empty batch only": empty(0),
    "zstd": v2(0, compression="zstd"),
    "zstd last": v2(0) + v2(3) + v2(6, compression="zstd"),
    "zstd after another codec": v2(0, compression="gzip") + v2(3, compression="zstd") + v2(6),
    "zstd after a marker": marker(0) + v2(1, compression="zstd"),
    "zstd after a marker and data": marker(0) + v2(1) + v2(4, compression="zstd"),
    "zstd after 140 KB": v2(0) + v2(3, size=50_000) + v2(6, compression="zstd"),
    "much zstd last": v2(0)
    + b"".join(v2(at, 1, size=60_000, compression="none") for at in (3, 4, 5))
    + v2(6, compression="zstd"),
    "zstd before many bytes": v2(0) + v2(3, compression="zstd") + b"".join(v2(at, 1, size=70_000) for at in (6, 7, 8)),
    "in chunks": b"".join(v2(at, size=20_000) for at in range(0, 21, 3)),
    "in chunks, codecs": b"".join(
        v2(3 * at, size=9_000, compression=OLD_CODECS[at % 4], timestamp_type="create") for at in range(24)
    ),
    "much padding": b"".join(
        v2(
            3 * at,
            3,
            size=5,
            records=tuple(record(3 * at + i, 5, headers=(Header(b"h", bytes(60_000)),)) for i in range(3)),
        )
        for at in range(3)
    ),
    "more than fits": b"".join(v2(300 * at, 300, size=1) for at in range(20)),
    "v1 after v2": v2(0) + message(1, 3) + message(1, 4, 3, compression="lz4"),
    "v0 after v2": v2(0) + message(0, 3) + message(0, 4, 3, compression="snappy"),
    "v0 only, then v1": message(0, 0) + message(1, 1) + message(1, 2, 2, compression="gzip"),
    "repeated offsets": repeated(0) + v2(3),
    "repeated offsets last": v2(0) + repeated(3) + v2(6),
    "a timestamp below -1": reseal(put(v2(0), "base_timestamp", -5)) + v2(3),
    "too many counted": reseal(put(v2(0), "record_count", 4)) + v2(3),
    "too many counted last": v2(0) + reseal(put(v2(3), "record_count", 4)) + v2(6),
    "too few counted": reseal(put(v2(0), "record_count", 2)) + v2(3),
    "a negative count": reseal(put(v2(0), "record_count", -1)) + v2(3),
    "too many counted, gzip": reseal(put(v2(0, compression="gzip"), "record_count", 4)) + v2(3),
    "codec 5": reseal(put(v2(0), "attributes", 5)) + v2(3),
    "codec 5 last": v2(0) + reseal(put(v2(3), "attributes", 5)),
    "not gzip": reseal(put(v2(0), "attributes", 1)) + v2(3),
    "not gzip last": v2(0) + reseal(put(v2(3), "attributes", 1)),
    "magic 3": put(v2(0), "magic", 3) + v2(3),
}


# What only the libraries decide, each release with its own, is not compared: compressed bytes and their length.
def is_exact(name: str) -> bool:
    """Whether a conversion of the log *name* gives the same bytes with every library."""
    return not any(
        word in name for word in ("gzip", "lz4", "snappy", "codec", "horizon", "v1 after", "v0 after", "then v1")
    )
