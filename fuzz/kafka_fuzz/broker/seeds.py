"""Seeds that the corpus has none of: batches larger than any buffer on their way, and streams that writers of
other languages make.

A broker reads compressed records through buffers of half a KiB to 128 KiB.  What
is wrong behind the first of them is met later, when something was read already.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from functools import cache, partial
from random import Random
from typing import Final

import lz4.frame
import snappy
import zstandard

from kafka_corpus.build import raw_batch, raw_record
from kafka_records.compression import compress
from kafka_records.constants import COMPRESSIONS, Compression

# Bytes of records, by number and by size of each; around the buffers' sizes.
SHAPES: Final = ((3, 900), (2, 9_000), (40, 60), (3, 30_000), (1, 140_000))
Pack = Callable[[bytes], bytes]


def two(pack: Pack) -> Pack:
    """Halves, packed one after the other."""
    return lambda data: pack(data[: len(data) // 2]) + pack(data[len(data) // 2 :])


def zstd(*, size: bool, checksum: bool = False) -> Pack:
    """One call, which can say how large its output is."""
    return zstandard.ZstdCompressor(level=1, write_content_size=size, write_checksum=checksum).compress


def lz4_frame(**options: object) -> Pack:
    """A frame as other libraries write it."""
    return lambda data: bytes(lz4.frame.compress(data, **options))


STREAMS: Final[dict[Compression, tuple[Pack, ...]]] = {
    "none": (bytes,),
    "gzip": (gzip.compress, two(gzip.compress)),
    "snappy": (lambda data: bytes(snappy.compress(data)), two(lambda data: compress("snappy", data, magic=2))),
    "lz4": (
        lz4_frame(store_size=False, block_linked=False),
        lz4_frame(store_size=False, block_linked=False, block_checksum=True, content_checksum=True),
        lz4_frame(store_size=False, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX4MB),
        lz4_frame(store_size=True, block_linked=False),
        lz4_frame(store_size=False, block_linked=True),
    ),
    "zstd": (
        zstd(size=True),
        zstd(size=True, checksum=True),
        two(zstd(size=True)),
        two(zstd(size=False)),
    ),
}


@cache
def large_seeds() -> tuple[bytes, ...]:
    """Valid batches of every shape in every stream, the same for ever."""
    return tuple(dict.fromkeys(seeds()))


def seeds() -> Iterator[bytes]:
    """One after the other."""
    rng = Random("large seeds")
    for number, codec in enumerate(COMPRESSIONS):
        packs: tuple[Pack, ...] = (partial(compress, codec, magic=2), *STREAMS[codec])
        for count, size in SHAPES:
            records = b"".join(raw_record(offset_delta=at, value=value(rng, size)) for at in range(count))
            for pack in packs:
                yield raw_batch(pack(records), record_count=count, attributes=number)


def value(rng: Random, size: int) -> bytes:
    """Bytes that can be packed, but not into nothing."""
    piece = rng.randbytes(48)
    return (piece * (size // len(piece) + 1))[: size - 16] + rng.randbytes(16)
