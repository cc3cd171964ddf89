"""The reference under its own fuzzing: what each of its functions promises about any bytes at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

import kafka_records
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.targets.base import Target, TargetResult
from kafka_fuzz.targets.codecs import LIMITS
from kafka_records import Batch, LogState, RecordFormatError, TopicConfig
from kafka_records.broker.releases import MINORS
from kafka_records.compression import decompress
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2, NO_TIMESTAMP

PACKAGES: Final = ("kafka_records",)
RELEASES: Final = tuple(f"{'.'.join(map(str, minor))}.0" for minor in sorted(MINORS))
MOST_OUT: Final = 1 << 20
NOW: Final = 1_795_000_000_000
CONFIGS: Final = tuple(
    TopicConfig.of(settings)
    for settings in (
        {},
        {"message.timestamp.type": "LogAppendTime"},
        {"cleanup.policy": "compact"},
        *({"compression.type": kind} for kind in ("uncompressed", "gzip", "snappy", "lz4", "zstd")),
    )
)


def round_trip_promise(mutant: Mutant) -> TargetResult:
    """Decoded batches encode to bytes that decode to equal batches, or encoding raises RecordFormatError."""
    try:
        batches = kafka_records.decode(mutant.data, limits=LIMITS)
        written = b"".join(map(kafka_records.encode, batches))
    except RecordFormatError:
        return TargetResult("refused")
    again = kafka_records.decode(written, limits=LIMITS)
    if len(again) != len(batches) or not all(map(is_same, again, batches)):
        return TargetResult("wrong_data", "round trip", "what was written is read as something else")
    return TargetResult("ok")


def is_same(written: Batch, read: Batch) -> bool:
    """Whether *written* is *read* again, as far as its magic has room for it.

    Wrappers of v0 may hold messages of v1, and the other way round: timestamps are lost, or made up.
    """
    wrapped = read.magic < MAGIC_VALUE_V2 and read.compression != "none"
    return timeless(written) == timeless(read) if wrapped or read.timestamp_type == "none" else written == read


def timeless(batch: Batch) -> Batch:
    """*batch* without its timestamps."""
    records = tuple(record._replace(timestamp=NO_TIMESTAMP) for record in batch.records)
    return replace(batch, records=records, max_timestamp=NO_TIMESTAMP)


def explain_promise(mutant: Mutant) -> TargetResult:
    """Every byte has exactly one field, whatever the bytes are."""
    found = kafka_records.explain(mutant.data)
    if any(b"".join(field.raw for field in section.fields) != section.data for section in found.sections):
        return TargetResult("wrong_data", "explain", "bytes without a field")
    return TargetResult("ok")


def append_promise(mutant: Mutant) -> TargetResult:
    """`append` answers every payload, in every release and with any settings."""
    rng = Random(len(mutant.data))
    release = rng.choice(RELEASES)
    version = rng.choice((2, 3, 7, 9))
    log = LogState(log_end_offset=rng.choice((0, 5)))
    result = kafka_records.append(
        log, mutant.data, rng.choice(CONFIGS), release=release, api_version=version, now_ms=NOW
    )
    if result.stored and result.error_code:
        return TargetResult("wrong_data", "append", "bytes are stored with an error")
    return TargetResult("ok" if not result.error_code else "refused")


def convert_promise(mutant: Mutant) -> TargetResult:
    """`convert` gives bytes, or refuses with our error."""
    rng = Random(len(mutant.data))
    try:
        kafka_records.convert(mutant.data, rng.randrange(3), release=rng.choice(RELEASES))
    except RecordFormatError:
        return TargetResult("refused")
    return TargetResult("ok")


def decompress_promise(mutant: Mutant) -> TargetResult:
    """Each decompressor gives no more than it may, or refuses with our error."""
    for codec in COMPRESSIONS:
        for magic in (0, 2):
            try:
                out = decompress(codec, mutant.data, magic=magic, most=MOST_OUT)
            except RecordFormatError:
                continue
            if codec != "none" and len(out) > MOST_OUT:
                return TargetResult("memory", codec, f"{len(out)} bytes out of {len(mutant.data)}")
    return TargetResult("ok")


PROMISES: Final[dict[str, Callable[[Mutant], TargetResult]]] = {
    "roundtrip": round_trip_promise,
    "explain": explain_promise,
    "append": append_promise,
    "convert": convert_promise,
    "decompress": decompress_promise,
}


def promise_target(name: str) -> Target:
    """The promise called *name*, held to any bytes; KeyError if there is none."""
    return Target(name, "", PACKAGES, PROMISES[name])
