"""Mutated logs: valid batches of every format and codec, broken at random, most of them with corrected checksums.

    python tests/reference/mutants.py SEED COUNT

decodes so many, with a line of progress now and then, and ends with 1 at the
first that raises anything but the one error or takes longer than a second.
A seed and a number make the same input again: `mutant(SEED, NUMBER)`.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import product

from kafka_records import Batch, Header, Limits, Record, RecordFormatError, decode, encode
from kafka_records.checksum import checksum_legacy, checksum_v2
from kafka_records.compression import compress, decompress
from kafka_records.constants import COMPRESSIONS, Compression, TimestampType

LIMITS = Limits(max_output_bytes=16 * 1024 * 1024)
LONGEST = 1.0  # seconds of processor time for one input
PROGRESS = 50_000
# Values that break things more often than others.
SPICE = (0x00, 0x01, 0x02, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)


@cache
def valid() -> tuple[bytes, ...]:
    """Encoded batches of every magic, codec, timestamp type and shape."""
    headers = (Header(b"h", None), Header(b"", b"value"), Header(b"\xff", b""))
    full = tuple(Record(7 + at, 1000 + at, b"key" if at % 2 else None, b"v" * 9 * at, headers[:at]) for at in range(4))
    bare = tuple(record._replace(headers=()) for record in full)
    made: list[Batch] = []
    kinds: tuple[TimestampType, ...] = ("create", "append")
    for magic, codec, kind in product((0, 1, 2), COMPRESSIONS, kinds):
        if magic == 2 or codec != "zstd":
            shapes = (full, full[:1]) if magic == 2 else (bare, bare[:1])
            made.extend(batch(magic, codec, kind, records) for records in shapes)
    made.append(Batch(magic=2, base_offset=3, last_offset=9))
    made.append(Batch(magic=2, base_offset=3, last_offset=9, delete_horizon=5000, records=full[:2]))
    return tuple(map(encode, made))


def batch(magic: int, codec: Compression, kind: TimestampType, records: tuple[Record, ...]) -> Batch:
    """A batch of that shape."""
    return Batch(
        magic=magic,
        base_offset=7,
        last_offset=records[-1].offset,
        compression=codec,
        timestamp_type=kind,
        max_timestamp=2000,
        records=records,
    )


def mutant(seed: int, number: int) -> bytes:
    """The input of that number."""
    chance = random.Random(f"{seed}/{number}")
    data = chance.choice(valid())
    if chance.random() < 0.2:
        data += chance.choice(valid())
    if chance.random() < 0.3:
        data = inside(data, chance)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        data = mutate(data, chance)
    return corrected(data) if chance.random() < 0.9 else data


def mutate(data: bytes, chance: random.Random) -> bytes:
    """*data* with one change somewhere."""
    at = chance.randrange(len(data) + 1)
    size = chance.choice((1, 1, 2, 4, 8, 16))
    match chance.randrange(7):
        case 0:  # flip a bit
            return data[:at] + bytes(byte ^ 1 << chance.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]
        case 1:  # a value that breaks things
            return data[:at] + bytes((chance.choice(SPICE),)) * min(size, len(data) - at) + data[at + size :]
        case 2:  # cut something out
            return data[:at] + data[at + size :]
        case 3:  # put something in
            return data[:at] + bytes(chance.choice(SPICE) for _ in range(size)) + data[at:]
        case 4:  # say it again
            return data[:at] + data[at : at + size] * chance.randrange(2, 4) + data[at + size :]
        case 5:  # truncate
            return data[:at]
    other = chance.choice(valid())  # splice
    return data[:at] + other[chance.randrange(len(other)) :]


def inside(data: bytes, chance: random.Random) -> bytes:
    """*data* with its first batch's records mutated under the compression, and compressed again."""
    start = {0: 26, 1: 34, 2: 61}[data[16]]
    end = 12 + int.from_bytes(data[8:12], "big")
    codec: Compression = COMPRESSIONS[data[22 if data[16] == 2 else 17] & 7]
    plain = mutate(decompress(codec, data[start:end], magic=data[16], most=2**20), chance)
    if codec != "none" and data[16] < 2:
        plain = corrected(plain)
    packed = compress(codec, plain, magic=data[16])
    if data[16] < 2:
        return data[: start - 4] + len(packed).to_bytes(4, "big") + packed + data[end:]
    return data[:start] + packed + data[end:]


def corrected(data: bytes) -> bytes:
    """*data* as one entry, its size and checksum right, so that decoders read on."""
    if len(data) < 21:
        return data
    data = data[:8] + (len(data) - 12).to_bytes(4, "big") + data[12:]
    if data[16] == 2:
        return data[:17] + checksum_v2(data).to_bytes(4, "big") + data[21:]
    return data[:12] + checksum_legacy(data).to_bytes(4, "big") + data[16:]


def refusal(data: bytes) -> RecordFormatError | None:
    """The error of decode, if it is a `RecordFormatError`; any other exception is not caught."""
    try:
        decode(data, limits=LIMITS)
    except RecordFormatError as error:
        return error
    return None


def outcome(data: bytes) -> str:
    """How decoding ends: `value`, or the kind of an error that has all its parts."""
    if (error := refusal(data)) is None:
        return "value"
    assert 0 <= error.offset <= len(data), error
    assert error.path.startswith("batch"), error
    return error.kind


def outcomes(seed: int, count: int) -> Iterator[str]:
    """The outcomes of so many inputs, each of them in time.

    Raises:
        AssertionError: the input, in hex, and what it did.
    """
    for number in range(count):
        data = mutant(seed, number)
        start = time.process_time()
        try:
            yield outcome(data)
        except Exception as error:
            raise AssertionError(f"mutant({seed}, {number}) {data.hex()}") from error
        assert time.process_time() - start < LONGEST, f"mutant({seed}, {number}) takes too long: {data.hex()}"


def main(seed: int, count: int) -> None:
    """Decode so many mutants and say what became of them."""
    seen: Counter[str] = Counter()
    for kind in outcomes(seed, count):
        seen[kind] += 1
        if seen.total() % PROGRESS == 0:
            sys.stdout.write(f"{seed} {dict(sorted(seen.items()))}\n")
            sys.stdout.flush()
    assert seen.total() == count


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
