"""Seeded payloads for `test_append`: valid batches and messages, and changed ones.

Where a change is not meant to be detected by the checksum, the checksum is
fixed up, so that the checks after it run too.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random

import snappy
import xxhash
from tests.reference.append_cases import LZ4_HEADER, lz4_block
from tests.reference.append_codec_cases import SNAPPY_HEADER, lz4_with, raw_zstd, snappy_block, with_checksum

from kafka_corpus.authoring.build import (
    TIMESTAMP,
    raw_batch,
    raw_header,
    raw_message,
    raw_record,
    reseal,
    reseal_message,
)
from kafka_records.compression import compress
from kafka_records.constants import COMPRESSIONS, INT32_MAX, INT64_MAX, INT64_MIN, RECORD_BATCH_OVERHEAD, Compression
from kafka_records.varint import encode_varint

Named = tuple[str, bytes]
# Bytes in front of what the checksum of a v2 batch, or of a message, begins with.
UNSEALED, UNSEALED_MESSAGE = 21, 16
KEYS = (None, b"", b"key", b"k" * 200)
HEADER_KEYS = (b"h", b"", b"\xff\xfe", b"k\xed\xa0\x80")
SMALL_BYTES = (0, 1, 0x7F, 0x80, 0xFF)
FIELDS: dict[str, tuple[int, ...]] = {
    "attributes": (8, 16, 24, 32, 48, 64, 72, 0x80, 0x100, 0x7F00, 5, 6, 7),
    "last_offset_delta": (-1, -2, 0, 1, 4, INT32_MAX, -INT32_MAX - 1),
    "base_timestamp": (-1, -2, 0, 5, INT64_MIN, INT64_MAX),
    "max_timestamp": (-1, -2, 0, 5, INT64_MIN, INT64_MAX, TIMESTAMP + 1),
    "producer_id": (-2, 0, 1, 2, 5, INT64_MAX),
    "producer_epoch": (-2, -1, 0, 1, 3, 32767),
    "base_sequence": (-2, -1, 0, 1, 2, INT32_MAX),
    "partition_leader_epoch": (0, 7, -9),
    "record_count": (0, -1, 1, 2, 5, INT32_MAX),
    "base_offset": (1, -1, INT64_MAX),
}


def mutated(rng: Random, data: bytes, times: int = 1) -> bytes:
    """*data* with so many bytes set, inserted or taken away."""
    for _ in range(times):
        at = rng.randrange(len(data) + 1)
        before, after = data[:at], data[at:]
        match rng.choice("sssssssiidde"):
            case "s":
                bit = bytes((after[0] ^ 1 << rng.randrange(8),)) if after else b""
                data = before + rng.choice((bit, bytes((rng.choice(SMALL_BYTES),)), rng.randbytes(1))) + after[1:]
            case "i":
                data = before + rng.randbytes(rng.randint(1, 4)) + after
            case "d":
                data = before + after[rng.randint(1, 4) :]
            case _:
                data = before
    return data


def _records(rng: Random, count: int) -> bytes:
    return b"".join(_record(rng, index) for index in range(count))


def _record(rng: Random, index: int) -> bytes:
    headers = [raw_header(rng.choice(HEADER_KEYS), rng.choice((None, b"", b"v"))) for _ in range(rng.choice((0, 0, 3)))]
    values = (None, b"", rng.randbytes(rng.randint(0, 60)), b"x" * rng.randint(0, 5000))
    return raw_record(
        attributes=rng.choice((0, 0, 0, 0x7F)),
        timestamp_delta=rng.choice((0, 1, 5, -3, 1000)),
        offset_delta=index if rng.random() < 0.97 else rng.choice((0, -1, 9, INT32_MAX)),
        key=rng.choice(KEYS),
        value=rng.choice(values),
        header_count=encode_varint(len(headers)),
        headers=b"".join(headers),
    )


def _batch(codec: Compression, payload: bytes, count: int, **fields: int) -> bytes:
    return raw_batch(payload, **{"record_count": count, "attributes": COMPRESSIONS.index(codec), **fields})


def _count(rng: Random) -> int:
    return rng.choice((1, 1, 2, 3, 7))


def _whole(rng: Random, codec: Compression) -> bytes:
    count = _count(rng)
    return _batch(codec, compress(codec, _records(rng, count), magic=2), count)


def _wrong_records(rng: Random, codec: Compression) -> bytes:
    count = _count(rng)
    return _batch(codec, compress(codec, mutated(rng, _records(rng, count), rng.randint(1, 3)), magic=2), count)


def _wrong_payload(rng: Random, codec: Compression) -> bytes:
    count = _count(rng)
    return _batch(codec, mutated(rng, compress(codec, _records(rng, count), magic=2), rng.randint(1, 2)), count)


def _wrong_fields(rng: Random, codec: Compression) -> bytes:
    count = _count(rng)
    fields = {name: rng.choice(FIELDS[name]) for name in rng.sample(sorted(FIELDS), rng.randint(1, 2))}
    if "attributes" in fields and rng.random() < 0.9:
        fields["attributes"] |= COMPRESSIONS.index(codec)
    return _batch(codec, compress(codec, _records(rng, count), magic=2), count, **fields)


def _wrong_header(rng: Random, codec: Compression) -> bytes:
    batch = _whole(rng, codec)
    header = mutated(rng, batch[UNSEALED:RECORD_BATCH_OVERHEAD])
    batch = batch[:UNSEALED] + header + batch[RECORD_BATCH_OVERHEAD:]
    return reseal(batch) if len(batch) >= RECORD_BATCH_OVERHEAD else batch


def _wrong_bytes(rng: Random, codec: Compression) -> bytes:
    return mutated(rng, _whole(rng, codec))


def _more_after(rng: Random, codec: Compression) -> bytes:
    batch, more = _whole(rng, codec), _whole(rng, rng.choice(COMPRESSIONS))
    return batch + rng.choice((more, more[:-1], bytes(rng.randint(1, 20)), raw_message(1)))


def _large(rng: Random, codec: Compression) -> bytes:
    count = rng.choice((1, 3, 8))
    records = b"".join(
        raw_record(offset_delta=index, value=rng.randbytes(rng.choice((1, 50))) * rng.randint(1, 3000))
        for index in range(count)
    )
    kind = rng.choice(("whole", "records", "payload"))
    payload = compress(codec, mutated(rng, records) if kind == "records" else records, magic=2)
    return _batch(codec, mutated(rng, payload) if kind == "payload" else payload, count)


def _pieces(rng: Random, codec: Compression) -> bytes:
    """Records in several frames or blocks, which their writer would not have made so."""
    count = _count(rng)
    records = _records(rng, count)
    cuts = [0, *sorted(rng.randrange(len(records) + 1) for _ in range(rng.randint(1, 3))), len(records)]
    pieces = [records[start:end] for start, end in pairwise(cuts)]
    payload = PIECES[codec](rng, pieces)
    return _batch(codec, mutated(rng, payload) if rng.random() < 0.4 else payload, count)


def _plain_pieces(rng: Random, pieces: list[bytes]) -> bytes:
    return b"".join(pieces) + rng.choice((b"", b"\0"))


def _gzip_pieces(rng: Random, pieces: list[bytes]) -> bytes:
    return b"".join(map(gzip.compress, pieces)) + bytes(rng.choice((0, 0, 1, 17, 18, 19, 40)))


def _snappy_pieces(rng: Random, pieces: list[bytes]) -> bytes:
    if rng.random() < 0.2:
        packed: bytes = snappy.compress(b"".join(pieces))
        return packed
    blocks = [rng.choice((b"", b"", SNAPPY_HEADER)) + snappy_block(piece) for piece in pieces]
    return SNAPPY_HEADER + b"".join(blocks) + bytes(rng.choice((0, 0, 3, 4)))


def _lz4_pieces(rng: Random, pieces: list[bytes]) -> bytes:
    flags = rng.choice((0x60, 0x60, 0x70, 0x64))
    blocks = [_lz4_piece(rng, flags, piece) for piece in pieces]
    end = bytes(8 if flags & 4 else 4)
    if flags == 0x60 and rng.random() < 0.5:
        return LZ4_HEADER + b"".join(blocks) + end
    return lz4_with(flags, *blocks, end)


def _lz4_piece(rng: Random, flags: int, piece: bytes) -> bytes:
    # A stored block of no bytes would be the end mark.
    stored = (len(piece) | 1 << 31).to_bytes(4, "little") + piece
    block = stored if piece and rng.random() < 0.5 else lz4_block(piece)
    return block + (xxhash.xxh32_intdigest(block[4:]).to_bytes(4, "little") if flags & 0x10 else b"")


def _zstd_pieces(rng: Random, pieces: list[bytes]) -> bytes:
    def frame(piece: bytes) -> bytes:
        small = raw_zstd((piece[:5], False), (piece[5:], True))
        skippable = bytes((0x50 + rng.randrange(16),)) + b"\x2a\x4d\x18\x02\x00\x00\x00xy"
        return rng.choice((compress("zstd", piece, magic=2), with_checksum(piece), small, skippable + small))

    return b"".join(map(frame, pieces)) + rng.choice((b"", b"", b"\x28\xb5", bytes(4)))


PIECES: dict[Compression, Callable[[Random, list[bytes]], bytes]] = {
    "none": _plain_pieces,
    "gzip": _gzip_pieces,
    "snappy": _snappy_pieces,
    "lz4": _lz4_pieces,
    "zstd": _zstd_pieces,
}
KINDS: dict[str, Callable[[Random, Compression], bytes]] = {
    "whole": _whole,
    "wrong records": _wrong_records,
    "wrong payload": _wrong_payload,
    "wrong fields": _wrong_fields,
    "wrong header": _wrong_header,
    "wrong bytes": _wrong_bytes,
    "more after": _more_after,
    "large": _large,
    "pieces": _pieces,
}


def batches(seed: int, count: int) -> Iterator[Named]:
    """So many v2 batches, each in one of the ways above."""
    rng = Random(seed)
    for index in range(count):
        kind, codec = rng.choice(tuple(KINDS)), rng.choice(COMPRESSIONS)
        yield f"{kind}, {codec}, {seed}:{index}", KINDS[kind](rng, codec)


def sequences(seed: int, count: int) -> Iterator[Named]:
    """Batches of three idempotent producers: most continue, some go back, leave a gap, or restart at sequence 0."""
    rng = Random(seed)
    ends: dict[tuple[int, int], int] = {}
    for index in range(count):
        producer_id, epoch, size = rng.choice((1, 2, 3)), rng.choice((0, 0, 0, 0, 1, 1, 2)), rng.choice((1, 1, 2, 3, 9))
        end = ends.get((producer_id, epoch), rng.choice((0, 0, 5, INT32_MAX - 2)))
        back = max(0, end - rng.choice((1, 2, 3, 4, 5, 9)))
        sequence = rng.choice((*[end] * 6, back, back, back, rng.choice((0, 1, end + 1)))) & INT32_MAX
        ends[producer_id, epoch] = (sequence + size) & INT32_MAX
        yield (
            f"sequence {producer_id}/{epoch}/{sequence}+{size}, {seed}:{index}",
            raw_batch(
                b"".join(raw_record(offset_delta=at) for at in range(size)),
                record_count=size,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                max_timestamp=rng.choice((TIMESTAMP, 5)),
            ),
        )


def messages(seed: int, count: int) -> Iterator[Named]:
    """So many sets of v0 and v1 messages, plain and in wrappers."""
    rng = Random(seed)
    for index in range(count):
        magic = rng.choice((0, 1, 1))
        kind = rng.choice(("plain", "wrapper"))
        data = (_plain_messages if kind == "plain" else _wrapper)(rng, magic)
        yield f"{kind} of {magic}, {seed}:{index}", data + bytes(rng.choice((*[0] * 30, 11, 20)))


def _message(rng: Random, magic: int, offset: int) -> bytes:
    times = (*[TIMESTAMP] * 30, *[-1, TIMESTAMP + offset, 5] * 8, -2, INT64_MIN, INT64_MAX)
    return raw_message(
        magic,
        rng.choice((None, b"", b"key")),
        rng.choice((None, b"", b"value", b"x" * rng.randint(0, 3000))),
        offset=offset,
        attributes=rng.choice((*[0] * 60, 8, 0x10, 0x70, -128, 5, 1)),
        tail=rng.choice((*[b""] * 20, b"zz")),
        timestamp=rng.choice(times),
    )


def _resealed(message: bytes) -> bytes:
    return reseal_message(message) if len(message) >= UNSEALED_MESSAGE else message


def _other(rng: Random, magic: int) -> int:
    return magic if rng.random() < 0.98 else 1 - magic


def _plain_messages(rng: Random, magic: int) -> bytes:
    found = [_message(rng, _other(rng, magic), rng.choice((0, at, 5))) for at in range(rng.choice((1, 1, 2, 3, 8)))]
    if (change := rng.random()) < 0.6:
        at = rng.randrange(len(found))
        found[at] = mutated(rng, found[at])
        if change < 0.4:
            found[at] = _resealed(found[at])
    return b"".join(found)


def _wrapper(rng: Random, magic: int) -> bytes:
    count = rng.choice((1, 1, 2, 3, 8))
    codec = rng.choice(COMPRESSIONS[1:4])
    value = compress(codec, _inner(rng, magic, count), magic=magic)
    value = mutated(rng, value) if rng.random() < 0.15 else value
    wrapper = raw_message(
        magic,
        rng.choice((None, None, None, b"k")),
        value if rng.random() < 0.98 else None,
        offset=rng.choice((0, count - 1, count - 1, count - 1, count, 7, -1, 10**6)),
        attributes=COMPRESSIONS.index(codec) | rng.choice((*[0] * 20, 8, 0x10, 0x40)),
        timestamp=rng.choice((TIMESTAMP, -1, 0, 5, -2)),
    )
    if (change := rng.random()) < 0.2:
        wrapper = mutated(rng, wrapper) if change < 0.05 else _resealed(mutated(rng, wrapper))
    return wrapper + (_message(rng, magic, 0) if rng.random() < 0.05 else b"")


def _inner(rng: Random, magic: int, count: int) -> bytes:
    ascending = list(range(count))
    offsets = rng.choice(
        (ascending, ascending, ascending, [0] * count, ascending[::-1], [at * 2 for at in ascending], [100] * count)
    )
    inner = b"".join(_message(rng, _other(rng, magic), offset) for offset in offsets)
    if (change := rng.random()) < 0.15:
        return mutated(rng, inner)
    strange = _resealed(mutated(rng, _message(rng, magic, 0)))
    return inner if change < 0.8 else rng.choice((strange + inner, inner + strange))
