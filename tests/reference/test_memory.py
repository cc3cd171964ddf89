"""Hostile inputs cost a bounded amount of memory, and a moment.

Each is decoded in a process of its own, whose largest resident set is compared
before and after.
"""

import gzip
import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import lz4.block
import pytest
import snappy
import xxhash
import zstandard

from kafka_corpus.authoring.build import raw_batch, raw_header, raw_message, raw_record
from kafka_records.varint import encode_unsigned, encode_varint

MIB = 1024 * 1024
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
SECONDS = 30

# Reads a file, decodes it, and says how it ended and by how much the process grew.
CHILD = """
import json, resource, sys, time
from pathlib import Path
from kafka_records import Limits, RecordFormatError, decode

def peak():
    # Linux hands ru_maxrss on from the parent through exec; VmHWM is the program's own.
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

data = Path(sys.argv[1]).read_bytes()
before, start = peak(), time.process_time()
try:
    batches, kind, rule = decode(data, limits=Limits(max_output_bytes=int(sys.argv[2]))), "value", ""
except RecordFormatError as error:
    batches, kind, rule = error.batches, error.kind, error.rule
seconds = time.process_time() - start
print(json.dumps([kind, rule, sum(len(batch.records) for batch in batches), len(batches), peak() - before, seconds]))
"""


class Outcome(NamedTuple):
    """How decoding ended, what came of it, and what it took."""

    kind: str
    rule: str
    records: int
    batches: int
    grown: int
    seconds: float


def run(path: Path, data: bytes, most: int) -> Outcome:
    """Decode *data* in a process of its own, and check what it took."""
    path.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(most)], capture_output=True, check=True, timeout=10 * SECONDS
    )
    outcome = Outcome(*json.loads(done.stdout))
    assert outcome.grown <= 64 * MIB + 8 * len(data) + most, outcome
    assert outcome.seconds < SECONDS, outcome
    return outcome


def gzipped(plain: bytes, times: int) -> bytes:
    """*plain* many times over in one member, without compressing it that often; the trailer is wrong."""
    deflater = zlib.compressobj(wbits=-15)
    piece = deflater.compress(plain) + deflater.flush(zlib.Z_FULL_FLUSH)
    return gzip.compress(b"")[:10] + piece * times + b"\x03\x00" + bytes(8)


def snapped(plain: bytes, times: int) -> bytes:
    """*plain* many times over in xerial blocks."""
    block: bytes = snappy.compress(plain)
    return b"\x82SNAPPY\0" + bytes(8) + (len(block).to_bytes(4, "big") + block) * times


def lz4ed(plain: bytes, times: int) -> bytes:
    """*plain* many times over in blocks of up to 4 MiB."""
    block: bytes = lz4.block.compress(plain, store_size=False)
    check = xxhash.xxh32_intdigest(b"\x60\x70") >> 8 & 0xFF
    blocks = (len(block).to_bytes(4, "little") + block) * times
    return b"\x04\x22\x4d\x18\x60\x70" + bytes((check,)) + blocks + bytes(4)


def zstd_zeros(times: int, window: int = 0x88) -> bytes:
    """128 KiB of zeros many times over, four bytes each, in one frame with a window of 128 MiB."""
    size = 131072 << 3 | 2
    blocks = (size.to_bytes(3, "little") + b"\0") * (times - 1) + (size | 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00" + bytes((window,)) + blocks


def zstd_sized(plain: bytes) -> bytes:
    """*plain* in a frame that says its size."""
    return zstandard.ZstdCompressor(level=1).compress(plain)


def repeated(record: bytes, times: int, codec: int) -> bytes:
    """A batch of one record many times over."""
    packers: dict[int, Callable[[bytes], bytes]] = {
        0: bytes,
        GZIP: lambda plain: gzip.compress(plain, 1),
        SNAPPY: lambda plain: snapped(plain, 1),
        ZSTD: zstd_sized,
    }
    return raw_batch(packers[codec](record * times), record_count=times, attributes=codec)


def wrapped(message: bytes, times: int) -> bytes:
    """A wrapper around one message many times over."""
    return raw_message(message[16], None, gzip.compress(message * times, 1), attributes=GZIP)


def test_growth_is_seen(tmp_path: Path) -> None:
    """The measure sees what a decoder takes, however large this process is itself."""
    ballast = bytes(range(256)) * MIB
    outcome = run(
        tmp_path / "log", raw_batch(gzip.compress(raw_record(value=bytes(40 * MIB))), attributes=GZIP), 256 * MIB
    )
    assert len(ballast) == 256 * MIB
    assert outcome.kind == "value"
    assert outcome.grown > 40 * MIB


BOMBS = {
    "gzip": lambda: raw_batch(gzipped(bytes(MIB), 1024), attributes=GZIP),
    "gzip-members": lambda: raw_batch(gzip.compress(bytes(MIB)) * 1024, attributes=GZIP),
    "snappy": lambda: raw_batch(snapped(bytes(MIB), 1024), attributes=SNAPPY),
    "lz4": lambda: raw_batch(lz4ed(bytes(4 * MIB), 256), attributes=LZ4),
    "zstd": lambda: raw_batch(zstd_zeros(8192), attributes=ZSTD),
    "zstd-frames": lambda: raw_batch(zstd_zeros(8) * 1024, attributes=ZSTD),
    "zstd-sized": lambda: raw_batch(zstd_zeros(8192)[:4] + b"\xe0" + (2**30).to_bytes(8, "little"), attributes=ZSTD),
    "v0-gzip": lambda: raw_message(0, None, gzipped(bytes(MIB), 1024), attributes=GZIP),
    "v1-snappy": lambda: raw_message(1, None, snapped(bytes(MIB), 1024), attributes=SNAPPY),
    "v1-lz4": lambda: raw_message(1, None, lz4ed(bytes(4 * MIB), 256), attributes=LZ4),
}


@pytest.mark.parametrize("most", [16 * MIB, pytest.param(256 * MIB, marks=pytest.mark.slow)], ids=["16-mib", "256-mib"])
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_go_off_in_a_box(name: str, most: int, tmp_path: Path) -> None:
    """A GiB of zeros ends in kind `limit` long before it is there (CMP-10)."""
    outcome = run(tmp_path / "bomb", BOMBS[name](), most)
    assert outcome.kind == "limit" or (name, outcome.kind) == ("zstd-sized", "decompression")
    assert outcome.rule == "CMP-10" or name == "zstd-sized"


CLAIMS = {
    "record-count": lambda: raw_batch(raw_record(), record_count=2**31 - 1),
    "record-count-gzip": lambda: raw_batch(gzip.compress(raw_record()), record_count=2**31 - 1, attributes=GZIP),
    "record-length": lambda: raw_batch(raw_record(length=encode_varint(2**31 - 1))),
    "record-length-gzip": lambda: raw_batch(
        gzip.compress(raw_record(length=encode_varint(2**31 - 1))), attributes=GZIP
    ),
    "key-length": lambda: raw_batch(raw_record(key_length=encode_varint(2**31 - 1))),
    "header-count": lambda: raw_batch(raw_record(header_count=encode_varint(2**31 - 1))),
    "header-key": lambda: raw_batch(
        raw_record(header_count=b"\x02", headers=raw_header(b"", b"", key_length=encode_varint(2**31 - 1)))
    ),
    "message-key": lambda: raw_message(0, body=b"\x7f\xff\xff\xff"),
    "inner-size": lambda: raw_message(1, None, gzip.compress(bytes(8) + b"\x7f\xff\xff\xff"), attributes=GZIP),
    "snappy-raw": lambda: raw_batch(encode_unsigned(2**32 - 1) + b"\0?", attributes=SNAPPY),
    "snappy-framed": lambda: raw_batch(
        snapped(b"", 1)[:16] + b"\0\0\0\x06" + encode_unsigned(2**32 - 1) + b"?", attributes=SNAPPY
    ),
    "snappy-block": lambda: raw_batch(snapped(b"", 1)[:16] + (2**29).to_bytes(4, "big"), attributes=SNAPPY),
    "lz4-block": lambda: raw_batch(lz4ed(b"", 0)[:7] + (2**22).to_bytes(4, "little") + b"?", attributes=LZ4),
    "zstd-window": lambda: raw_batch(b"\x28\xb5\x2f\xfd\x00\x88\x19\x00\x00one", attributes=ZSTD),
    "zstd-size": lambda: raw_batch(
        b"\x28\xb5\x2f\xfd\xe0" + (2**27).to_bytes(8, "little") + b"\x19\0\0one", attributes=ZSTD
    ),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_cost_nothing(name: str, tmp_path: Path) -> None:
    """A count or length that is only claimed is refused, and allocates next to nothing."""
    outcome = run(tmp_path / "claim", CLAIMS[name](), 256 * MIB)
    assert outcome.kind not in {"value", "limit"}
    assert outcome.records == 0
    assert outcome.grown < 16 * MIB
    assert outcome.seconds < 1


# Seven bytes, each object a new one: only null is shared.
TINIEST = raw_record(value=None)
TWO_BYTES = raw_record(key=b"kk", value=b"vv")
LONG_TIMES = raw_record(key=b"kk", value=b"vv", timestamp_delta=2**62, offset_delta=2**30)
MANY_HEADERS = raw_record(value=None, header_count=encode_varint(50_000), headers=b"\0\x01" * 50_000)
FULL_HEADERS = raw_record(value=None, header_count=encode_varint(50_000), headers=b"\x04kk\x04vv" * 50_000)
OBJECTS = {
    "tiniest": lambda: repeated(TINIEST, 200_000, 0),
    "tiniest-gzip": lambda: repeated(TINIEST, 60 * MIB // len(TINIEST), GZIP),
    "tiniest-snappy": lambda: repeated(TINIEST, 20 * MIB // len(TINIEST), SNAPPY),
    "tiniest-zstd": lambda: repeated(TINIEST, 60 * MIB // len(TINIEST), ZSTD),
    "two-bytes-zstd": lambda: repeated(TWO_BYTES, 20 * MIB // len(TWO_BYTES), ZSTD),
    "long-times-zstd": lambda: repeated(LONG_TIMES, 20 * MIB // len(LONG_TIMES), ZSTD),
    "empty-headers": lambda: repeated(MANY_HEADERS, 4, 0),
    "empty-headers-zstd": lambda: repeated(MANY_HEADERS, 200, ZSTD),
    "full-headers-zstd": lambda: repeated(FULL_HEADERS, 200, ZSTD),
    "v0-messages": lambda: raw_message(0, None, None) * 40_000,
    "v1-messages": lambda: raw_message(1, b"kk", b"vv") * 40_000,
    "v0-wrapped": lambda: wrapped(raw_message(0, None, None, offset=2**40), 500_000),
    "v1-wrapped": lambda: wrapped(raw_message(1, b"kk", b"vv", offset=2**40), 490_000),
    "v1-wrappers": lambda: wrapped(raw_message(1, b"kk", b"vv"), 2) * 5000,
    "empty-batches": lambda: raw_batch(b"", record_count=0, producer_id=2**40, base_sequence=2**30) * 100_000,
    "small-batches": lambda: raw_batch(TINIEST, producer_id=2**40, base_sequence=2**30) * 50_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("most", [0, 256 * MIB], ids=["none", "256-mib"])
@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_paid_for(name: str, most: int, tmp_path: Path) -> None:
    """As many of the smallest things as there is room for, and an end by kind `limit` when there are more."""
    outcome = run(tmp_path / "objects", OBJECTS[name](), most)
    assert outcome.kind in {"value", "limit"}
    if outcome.kind == "value":
        assert outcome.batches > 0


def lz4_record(size: int) -> bytes:
    """A record of *size* zero bytes, in blocks of 4 MiB."""
    record = raw_record(value=bytes(size))
    blocks = [lz4.block.compress(record[at : at + 4 * MIB], store_size=False) for at in range(0, len(record), 4 * MIB)]
    return lz4ed(b"", 0)[:7] + b"".join(len(block).to_bytes(4, "little") + block for block in blocks) + bytes(4)


LARGE = {
    "zstd": lambda: raw_batch(zstd_sized(raw_record(value=bytes(120 * MIB))), attributes=ZSTD),
    "zstd-half": lambda: raw_batch(zstd_sized(raw_record(key=bytes(40 * MIB), value=bytes(40 * MIB))), attributes=ZSTD),
    "snappy": lambda: raw_batch(snappy.compress(raw_record(value=bytes(60 * MIB))), attributes=SNAPPY),
    "gzip": lambda: raw_batch(gzip.compress(raw_record(value=bytes(90 * MIB)), 1), attributes=GZIP),
    "v1": lambda: raw_message(1, None, gzip.compress(raw_message(1, None, bytes(120 * MIB)), 1), attributes=GZIP),
    "v0": lambda: raw_message(0, None, gzip.compress(raw_message(0, None, bytes(40 * MIB)), 1), attributes=GZIP),
    "zstd-most": lambda: raw_batch(zstd_sized(raw_record(value=bytes(135 * MIB))), attributes=ZSTD),
    "gzip-most": lambda: raw_batch(gzip.compress(raw_record(value=bytes(135 * MIB)), 1), attributes=GZIP),
    "lz4-most": lambda: raw_batch(lz4_record(135 * MIB), attributes=LZ4),
    "v0-two": lambda: raw_message(
        0, None, gzip.compress(raw_message(0) + raw_message(0, None, bytes(130 * MIB)), 1), attributes=GZIP
    ),
    "zstd-fits": lambda: raw_batch(zstd_sized(raw_record(value=bytes(85 * MIB))), attributes=ZSTD),
    "plain": lambda: raw_batch(raw_record(value=bytes(40 * MIB))),
    "v1-plain": lambda: raw_message(1, None, bytes(40 * MIB)),
}


@pytest.mark.slow
@pytest.mark.parametrize("most", [64 * MIB, 256 * MIB], ids=["64-mib", "256-mib"])
@pytest.mark.parametrize("name", LARGE)
def test_one_large_record(name: str, most: int, tmp_path: Path) -> None:
    """A record that is nearly all of its batch is copied no more often than there is room for."""
    outcome = run(tmp_path / "large", LARGE[name](), most)
    assert outcome.kind in {"value", "limit"}
