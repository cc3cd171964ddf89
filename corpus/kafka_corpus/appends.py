"""What a broker stores of a batch that it takes: the producer's bytes with a few fields set, or its records anew.

Which of the two depends on the topic's compression.type (RWR-03), so cases about
compressed bytes come in pairs: a broker that keeps them reads only as much as
its checks need, one that builds them anew reads everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka_corpus.batches import batch_of, bytes_of, compressed
from kafka_corpus.build import put, reseal
from kafka_corpus.messages import numbered
from kafka_corpus.packed import around
from kafka_corpus.registry import Draft, produced, refused, stored
from kafka_records import Record
from kafka_records.broker.errors import UNKNOWN_SERVER_ERROR
from kafka_records.constants import Compression

# The topic's compression.type; compressed batches are kept, or written anew without compression.
KEPT, REBUILT = "producer", "uncompressed"
PATHS: Final = {"kept": KEPT, "rebuilt": REBUILT}
# The last produce version that takes v0 and v1, and the release that zstd came with.
OLD_VERSION: Final = 2
FIRST_OF_ZSTD: Final = "2.1.0"


def compression(kind: str) -> dict[str, str]:
    """The settings of a topic with that compression.type; the default needs none."""
    return {} if kind == KEPT else {"compression.type": kind}


def ways(**values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Each of the named values on a topic that keeps it, and the first also where it is written anew.

    One axis, of which every value goes the same way in a decoder: the second
    path then needs no more than one of them.
    """
    ((axis, named),) = values.items()
    first = next(iter(named))
    return keeping(**values) | {f"rebuilt-{first}": {"path": REBUILT, axis: named[first]}}


def keeping(**values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Each of the named values on a topic that keeps it: for what is found before a first byte is decompressed."""
    ((axis, named),) = values.items()
    return {f"kept-{name}": {"path": KEPT, axis: value} for name, value in named.items()}


def kept(data: bytes, **fields: int) -> bytes:
    """A v2 batch in place: leader epoch 0, and *fields* set with the CRC made right (RWR-01, RWR-02)."""
    data = put(data, "partition_leader_epoch", 0)
    for name, value in fields.items():
        data = put(data, name, value)
    return reseal(data) if fields else data


def rebuilt(*records: Record, codec: Compression = "none", **fields: object) -> bytes:
    """*records* in a batch of the broker's own (RWR-05); *fields* are those of `Batch`."""
    return bytes_of(batch_of(*records, **{"compression": codec, "partition_leader_epoch": 0, **fields}))


def since_of(codec: Compression) -> str:
    """The oldest release that is asked about *codec* in v2; empty where that is the first with v2."""
    return FIRST_OF_ZSTD if codec == "zstd" else ""


def taken(codec: Compression, packed: bytes, path: str, *records: Record) -> Draft:
    """*packed* holds *records* (two, unless given): a broker keeps it, or builds the records anew."""
    data, batch = compressed(codec, packed, *records)
    answer = stored(kept(data) if path == KEPT else rebuilt(*batch.records))
    return produced(data, answer, config=compression(path), since=since_of(codec))


def not_taken(
    codec: Compression, packed: bytes, path: str, *records: Record, code: int = UNKNOWN_SERVER_ERROR
) -> Draft:
    """*packed* should hold *records* (two, unless given), and a broker refuses it."""
    data, _ = compressed(codec, packed, *records)
    return produced(data, refused(code), config=compression(path), since=since_of(codec))


def converted(codec: Compression, packed: bytes, magic: int) -> Draft:
    """A wrapper around *packed*, which holds `packed.plain_of`: its messages become one v2 batch (CNV-02)."""
    data, _ = around(packed, magic, codec)
    answer = stored(rebuilt(*numbered(magic, 0, 1), codec=codec))
    return produced(data, answer, api_version=OLD_VERSION, compare="masked")


def not_converted(codec: Compression, packed: bytes, magic: int, *, code: int = UNKNOWN_SERVER_ERROR) -> Draft:
    """A wrapper around *packed*, which a broker refuses."""
    return produced(around(packed, magic, codec)[0], refused(code), api_version=OLD_VERSION)
