"""How brokers differ from release to release, as one table of what changed when.

A release stands for its minor version: `behaviour("4.1.2")` is what `CHANGES`
had made of the broker by 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal

from kafka_records.broker.errors import CORRUPT_MESSAGE, INVALID_RECORD
from kafka_records.constants import (
    DEFAULT_MAX_MESSAGE_BYTES,
    INT64_MAX,
    MAGIC_VALUE_V1,
    MAGIC_VALUE_V2,
)
from kafka_records.errors import RecordFormatError

# How a compressed v2 batch is read while its bytes are kept: whole records; keys and
# values skipped by way of a buffer (2.4); skipped in the stream itself (KAFKA-14633, 3.6).
SkipsBy = Literal["nothing", "buffer", "stream"]
# How stored batches become older ones on their way to an old fetch: all at once (0.10), batch by
# batch, as they are sent (KIP-283, 2.0), or not at all (KIP-896, 4.0).
ConvertsBy = Literal["set", "batch", "chunk", "nothing"]
HOUR: Final = 3_600_000  # milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Behaviour of a release, where releases differ.

    Attributes:
        produce: oldest and newest version of the produce request.
        newest_magic: the newest format that it stores.
        honours_message_format: whether the topic's message.format.version may ask for an older one.
        codecs: how many codec ids it knows.
        invalid_record: what it answers to InvalidRecordException (KIP-467).
        inspects_first: whether it looks into a request's batches before any partition is appended to.
        one_magic: whether all batches of a partition need one magic, compressed ones a set of their own.
        collects: whether errors of records are gathered before one is raised (TIM-17).
        ordered_inner: whether inner offsets out of order are refused rather than rewritten.
        skips_by: how compressed records are read that are kept as they are.
        checks_partial: whether the magic of a partial entry is looked at (FRM-08).
        names_lengths: whether a record that is longer than the batch is refused, not read as null.
        bounds_bodies: whether compressed records are measured by max.decompressed.message.bytes.
        buffers_gzip: whether it reads gzip through a buffer; if not, half a KiB of compressed bytes at a time.
        knows_horizon: whether bit 6 survives where attributes are rewritten (KIP-534).
        checks_prefix: whether its zstd refuses one to four bytes that cannot begin a frame.
        skips_any_size: whether its zstd skips a frame of which nearly 4 GiB are missing.
        sees_available: whether its byte streams say how much is left.
        create_time_only: whether LogAppendTime from a producer is refused on every topic (TIM-14).
        time_limits: whether before.max and after.max exist (KIP-937).
        after_max: default of message.timestamp.after.max.ms.
        difference_max: whether message.timestamp.difference.max.ms exists.
        max_message_bytes: default of max.message.bytes.
        verifies: whether a transaction's partition is verified with the coordinator (KIP-890).
        adds_partitions: the produce version that adds a partition to a transaction by itself.
        fences_early: whether a transactional batch of an older epoch is refused before its records are looked at.
        accepts_unknown: whether an unknown producer may start at any sequence (KIP-360).
        fetch: oldest and newest version of the fetch request.
        converts_by: how an old fetch is served from newer batches (CNV-06 to CNV-14).
        drops_headers: whether records with headers can be converted (KAFKA-6739; 1.0.2 and 1.1.1 were the first).
        keeps_unconverted: whether what is stored is sent as it is where nothing was to be converted in it.
        converts_always: whether old fetches are converted for whatever they read, rather than only if that is newer.
        reports_stable: whether a read_uncommitted fetch gets the last stable offset.
        guards_zstd: whether a topic of compression.type=zstd refuses old fetches (CNV-15).
        transaction_version: of the feature transaction.version; from 2 on a marker carries the next epoch (KIP-890).
        strict_markers: whether a marker of transaction.version 2 needs a newer epoch than the partition knows.
    """

    produce: tuple[int, int] = (0, 2)
    newest_magic: int = MAGIC_VALUE_V1
    honours_message_format: bool = True
    codecs: int = 4
    invalid_record: int = CORRUPT_MESSAGE
    inspects_first: bool = False
    one_magic: bool = False
    collects: bool = False
    ordered_inner: bool = False
    skips_by: SkipsBy = "nothing"
    checks_partial: bool = False
    names_lengths: bool = False
    bounds_bodies: bool = False
    buffers_gzip: bool = False
    knows_horizon: bool = False
    checks_prefix: bool = False
    skips_any_size: bool = False
    sees_available: bool = False
    create_time_only: bool = True
    time_limits: bool = False
    after_max: int = INT64_MAX
    difference_max: bool = True
    max_message_bytes: int = 1_000_012
    verifies: bool = False
    adds_partitions: int | None = None
    fences_early: bool = False
    accepts_unknown: bool = False
    fetch: tuple[int, int] = (0, 3)
    converts_by: ConvertsBy = "set"
    drops_headers: bool = False
    keeps_unconverted: bool = False
    converts_always: bool = False
    reports_stable: bool = False
    guards_zstd: bool = False
    transaction_version: int = 0
    strict_markers: bool = False


Version = tuple[int, ...]
OLDEST: Final = Behaviour()

CHANGES: Final[Mapping[Version, Mapping[str, Any]]] = {
    (0, 11, 0): {
        "produce": (0, 3),
        "newest_magic": MAGIC_VALUE_V2,
        "inspects_first": True,
        "fetch": (0, 5),
        "converts_by": "batch",
    },
    (1, 0): {"produce": (0, 5), "fetch": (0, 6), "drops_headers": True},
    (1, 1): {"buffers_gzip": True, "fetch": (0, 7), "keeps_unconverted": True},
    (2, 0): {"produce": (0, 6), "checks_partial": True, "fetch": (0, 8), "converts_by": "chunk"},
    (2, 1): {"produce": (0, 7), "codecs": 5, "fetch": (0, 10), "guards_zstd": True, "reports_stable": True},
    (2, 3): {"fetch": (0, 11)},
    (2, 4): {
        "produce": (0, 8),
        "invalid_record": INVALID_RECORD,
        "one_magic": True,
        "ordered_inner": True,
        "skips_by": "buffer",
    },
    (2, 5): {
        "ordered_inner": False,
        "collects": True,
        "accepts_unknown": True,
        "max_message_bytes": DEFAULT_MAX_MESSAGE_BYTES,
    },
    (2, 7): {"fetch": (0, 12)},
    (2, 8): {"produce": (0, 9)},
    (3, 0): {"honours_message_format": False, "names_lengths": True, "converts_always": True},
    (3, 1): {"knows_horizon": True, "fetch": (0, 13)},
    (3, 5): {"fetch": (0, 15), "checks_prefix": True},
    (3, 6): {
        "produce": (0, 9),
        "skips_by": "stream",
        "sees_available": True,
        "create_time_only": False,
        "time_limits": True,
        "verifies": True,
    },
    (3, 7): {"fetch": (0, 16)},
    (3, 8): {"produce": (0, 11)},
    (3, 9): {"fetch": (0, 17)},
    (4, 0): {
        "produce": (3, 12),
        "after_max": HOUR,
        "difference_max": False,
        "adds_partitions": 12,
        "fetch": (4, 17),
        "converts_by": "nothing",
        "guards_zstd": False,
        "transaction_version": 2,
    },
    (4, 1): {"produce": (3, 13), "fetch": (4, 18), "fences_early": True},
    (4, 3): {"strict_markers": True},
    (4, 4): {"bounds_bodies": True, "skips_any_size": True},
}

MINORS: Final[frozenset[Version]] = frozenset(
    {(0, 10, 2), (0, 11, 0), (1, 0), (1, 1)}
    | {(2, minor) for minor in range(9)}
    | {(3, minor) for minor in range(10)}
    | {(4, minor) for minor in range(5)}
)


@lru_cache(maxsize=64)
def behaviour(release: str) -> Behaviour:
    """The behaviour of *release*, like "4.4.0".

    Raises:
        RecordFormatError: kind `malformed`, for a release that is not in the table.
    """
    minor = minor_version(release)
    if minor not in MINORS:
        message = f"no release {release!r} is known"
        raise RecordFormatError("malformed", message, path="release", rule="PRD-01")
    found = OLDEST
    for since, changed in CHANGES.items():
        if since <= minor:
            found = replace(found, **changed)
    return found


def minor_version(release: str) -> Version:
    """The version of a release: three numbers before 1.0, two since; empty if it is none.

    >>> minor_version("0.10.2.2"), minor_version("4.4.0"), minor_version("newest")
    ((0, 10, 2), (4, 4), ())
    """
    numbers = release.split(".")
    if not all(number.isascii() and number.isdigit() for number in numbers):
        return ()
    version = tuple(map(int, numbers))
    return version[:3] if version[0] == 0 else version[:2]
