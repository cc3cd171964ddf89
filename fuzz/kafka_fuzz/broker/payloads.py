"""Produce payloads: mutants, and seeds that the corpus does not contain.

A broker reads compressed records through buffers of half a KiB to 128 KiB.  Large
seeds have faults after the first buffer, when some records were already read.

Most mutants would be refused for something other than their fault: several batches,
a base offset, a transaction.  Clients write none of these by chance, so they are
mostly corrected, and the broker gets to the fault.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from random import Random
from typing import Final

import lz4.frame
import snappy
import zstandard

from kafka_corpus.authoring.build import raw_batch, raw_record
from kafka_fuzz.mutate import Mutant, Profile, draw_profile, for_cell, mutate
from kafka_fuzz.mutate.fixup import with_crc
from kafka_fuzz.mutate.model import all_cells, pick
from kafka_fuzz.mutate.mutant import MutantCell, first_entry_spans
from kafka_records import LogState
from kafka_records.attributes import CONTROL_FLAG_MASK, TIMESTAMP_TYPE_MASK, TRANSACTIONAL_FLAG_MASK
from kafka_records.broker.state import UNKNOWN_PRODUCER, ProducerState
from kafka_records.checksum import checksum_v2
from kafka_records.compression import compress
from kafka_records.constants import (
    COMPRESSIONS,
    INT32_MAX,
    INT64_MAX,
    MAGIC_VALUE_V2,
    NO_PARTITION_LEADER_EPOCH,
    Compression,
)
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET
from kafka_records.primitives import increment_sequence, wrap_int32

# Bytes of records, by number and by size of each; around the buffers' sizes.
SHAPES: Final = ((3, 900), (2, 9_000), (40, 60), (3, 30_000), (1, 140_000))
Pack = Callable[[bytes], bytes]


def two(pack: Pack) -> Pack:
    """Compress two halves separately."""
    return lambda data: pack(data[: len(data) // 2]) + pack(data[len(data) // 2 :])


def zstd(*, size: bool, checksum: bool = False) -> Pack:
    """A zstd compressor; *size* writes the content size."""
    return zstandard.ZstdCompressor(level=1, write_content_size=size, write_checksum=checksum).compress


def packed_lz4(**options: object) -> Pack:
    """An lz4 compressor with frame *options* that other libraries use."""
    return lambda data: bytes(lz4.frame.compress(data, **options))


STREAMS: Final[dict[Compression, tuple[Pack, ...]]] = {
    "none": (bytes,),
    "gzip": (gzip.compress, two(gzip.compress)),
    "snappy": (lambda data: bytes(snappy.compress(data)), two(lambda data: compress("snappy", data, magic=2))),
    "lz4": (
        packed_lz4(store_size=False, block_linked=False),
        packed_lz4(store_size=False, block_linked=False, block_checksum=True, content_checksum=True),
        packed_lz4(store_size=False, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX4MB),
        packed_lz4(store_size=True, block_linked=False),
        packed_lz4(store_size=False, block_linked=True),
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
    """Valid batches of every shape in every stream, always the same."""
    return tuple(dict.fromkeys(shaped_seeds()))


def shaped_seeds() -> Iterator[bytes]:
    """Yield the large seeds, repetitions included."""
    rng = Random("large seeds")
    for number, codec in enumerate(COMPRESSIONS):
        packs: tuple[Pack, ...] = (partial(compress, codec, magic=2), *STREAMS[codec])
        for count, size in SHAPES:
            records = b"".join(raw_record(offset_delta=at, value=random_value(rng, size)) for at in range(count))
            for pack in packs:
                yield raw_batch(pack(records), record_count=count, attributes=number)


def random_value(rng: Random, size: int) -> bytes:
    """Bytes that can be compressed, but not to almost nothing."""
    piece = rng.randbytes(48)
    return (piece * (size // len(piece) + 1))[: size - 16] + rng.randbytes(16)


# The shares of mutants that keep other entries, stay as they are, or get a producer.
WITH_OTHERS: Final = 0.15
AS_IT_IS: Final = 0.15
WITH_PRODUCER: Final = 0.25
# The share of large seeds, which take a broker a hundred times as long as others.
LARGE: Final = 0.025
# The share of old formats for releases that refuse them without reading further.
OLD_TO_NEW: Final = 0.04
# Bits that clients do not set by chance, and the share of mutants in which each is cleared.
BITS: Final = (
    (TRANSACTIONAL_FLAG_MASK, 0.9),
    (CONTROL_FLAG_MASK, 0.8),
    (TIMESTAMP_TYPE_MASK, 0.5),
)
PRODUCERS: Final = (0, 1, 2, INT64_MAX)
FIRST_SEQUENCES: Final = (0, 0, 0, 5, INT32_MAX - 1, INT32_MAX)


class Payloads:
    """A stream of payloads for one release; the same seed gives the same, for the same states of the logs."""

    def __init__(self, rng: Random, seeds: Sequence[bytes], *, magics: tuple[int, ...], profile: str = "mixed") -> None:
        """*magics* are those that the release accepts; *profile* is a mutation profile or `mixed`."""
        self._rng = rng
        self._magics = magics
        self._profile = profile
        self._seeds = [seed for seed in seeds if len(seed) > MAGIC_OFFSET and self._is_taken(seed[MAGIC_OFFSET])]

    def _is_taken(self, magic: int) -> bool:
        return magic in self._magics or magic > MAGIC_VALUE_V2

    def draw(self, log: LogState) -> Mutant:
        """The next payload, for a partition with that *log*."""
        rng = self._rng
        made = self._mutant()
        if rng.random() >= WITH_OTHERS:
            made = without_neighbours(made)
        if not is_batch(made.data) or rng.random() < AS_IT_IS:
            return made
        if rng.random() < WITH_PRODUCER:
            return with_data(made, as_idempotent(made.data, rng, log), "with a producer")
        return with_data(made, as_client(made.data, rng), "as a client")

    def _mutant(self) -> Mutant:
        rng = self._rng
        profile: Profile = draw_profile(rng) if self._profile == "mixed" else self._profile  # type: ignore[assignment]
        if profile == "model" and 0 not in self._magics and rng.random() >= OLD_TO_NEW:
            return for_cell(rng, pick(rng, pick(rng, new_cells())))
        if profile == "fixup" and rng.random() < LARGE:
            return mutate(rng, large_seeds(), profile)
        return mutate(rng, self._seeds, profile)


@cache
def new_cells() -> tuple[tuple[MutantCell, ...], ...]:
    """The cells of v2 batches grouped by fault, so that each fault is equally likely."""
    found: dict[str, list[MutantCell]] = {}
    for cell in all_cells():
        if cell.magic == MAGIC_VALUE_V2 and cell.position in ("only", "last"):
            found.setdefault(cell.fault, []).append(cell)
    return tuple(tuple(cells) for cells in found.values())


def with_data(mutant: Mutant, data: bytes, label: str) -> Mutant:
    """*mutant* with other bytes and one more label, if the bytes differ."""
    return mutant if data == mutant.data else mutant._replace(data=data, labels=(*mutant.labels, label))


def without_neighbours(mutant: Mutant) -> Mutant:
    """*mutant* without the entries around the one that was changed."""
    if mutant.cell.position == "only":
        return mutant
    spans = first_entry_spans(mutant.data)
    if len(spans) < 2:
        return mutant
    match mutant.cell.position:
        case "first":
            data = mutant.data[: spans[0][1]]
        case "last":
            data = mutant.data[spans[-1][0] :]
        case _:
            data = mutant.data[slice(*spans[1])]
    return with_data(mutant, data, "alone")


def is_batch(data: bytes) -> bool:
    """Whether *data* begins with a whole header of a v2 batch."""
    return len(data) >= BATCH_V2.size and data[MAGIC_OFFSET] == MAGIC_VALUE_V2


def as_client(data: bytes, rng: Random) -> bytes:
    """The first batch of *data* with base offset 0 and, mostly, without bits that clients do not set."""
    header = BATCH_V2.values(data)
    header["base_offset"] = 0
    header["partition_leader_epoch"] = NO_PARTITION_LEADER_EPOCH
    for bit, share in BITS:
        if header["attributes"] & bit and rng.random() < share:
            header["attributes"] &= ~bit
    return with_header(data, header)


def with_header(data: bytes, header: dict[str, int]) -> bytes:
    """*data* with another header; a correct checksum is corrected again."""
    end = len(data) if (spans := first_entry_spans(data)) == [] else spans[0][1]
    right = BATCH_V2.values(data)["crc"] == checksum_v2(data[:end])
    written = BATCH_V2.struct.pack(*(header[field.name] for field in BATCH_V2.fields)) + data[BATCH_V2.size :]
    return with_crc(written[:end]) + written[end:] if right else written


def as_idempotent(data: bytes, rng: Random, log: LogState) -> bytes:
    """The first batch of *data* from an idempotent producer, known or new, mostly with the next sequence."""
    data = as_client(data, rng)
    header = BATCH_V2.values(data)
    header["producer_id"] = rng.choice(PRODUCERS)
    state = log.producers.get(header["producer_id"], UNKNOWN_PRODUCER)
    header["producer_epoch"] = max(0, state.epoch) + rng.choice((0, 0, 0, 0, 0, 0, 0, 1, -1)) & 0x7FFF
    header["base_sequence"] = sequence(rng, state)
    return with_header(data, header)


def sequence(rng: Random, state: ProducerState) -> int:
    """A sequence: mostly the next one, at times an earlier or a later one."""
    if not state.batches or rng.random() < 0.05:
        return rng.choice(FIRST_SEQUENCES)
    chance = rng.random()
    if chance < 0.6:
        return increment_sequence(state.last_sequence, 1)
    if chance < 0.85:
        return rng.choice(state.batches).first_sequence
    return wrap_int32(state.last_sequence + rng.choice((-3, -1, 0, 2, 3)))
