"""The columnar codec reads nothing before its input, or after it: the pages there are not readable."""

import subprocess
import sys

import pytest

pytest.importorskip("numba")

pytestmark = pytest.mark.columnar

# Reads logs that begin where a page begins, and logs that end where one ends, whole and cut; prints how many it read.
# They are read in place.  If one ends close to the end of a page, that end is copied; a small one is copied whole.
PROGRAM = """
import ctypes, mmap
import pyarrow as pa
from kafka_pipeline.columnar import read_chunks
from kafka_pipeline.columnar.decoder import SMALL
from kafka_records import Batch, Header, Record, encode
from kafka_records.constants import COMPRESSIONS

PAGES, PAGE, NO_ACCESS = 128, mmap.PAGESIZE, 0
libc = ctypes.CDLL(None, use_errno=True)
memory = mmap.mmap(-1, (PAGES + 2) * PAGE)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + PAGE
end = start + PAGES * PAGE
for page in (start - PAGE, end):
    assert libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), NO_ACCESS) == 0

def at(address, data):
    ctypes.memmove(address, data, len(data))
    view = memoryview((ctypes.c_char * len(data)).from_address(address)).cast("B")
    chunks = list(read_chunks(view))
    rows = pa.concat_tables([pa.Table.from_batches([chunk.records]) for chunk in chunks])
    return rows, sum(len(chunk.broken) for chunk in chunks)

def batch(magic, codec, count, size):
    headers = (Header(b"h", b"x" * (size % 7)),) if magic == 2 and count % 2 else ()
    records = tuple(
        Record(n, 1_700_000_000_000 + n if magic else -1, b"k" * (n % 3), bytes([n % 251]) * size, headers)
        for n in range(count)
    )
    kind = "create" if magic else "none"
    return Batch(magic=magic, base_offset=0, last_offset=count - 1, compression=codec, timestamp_type=kind,
                 max_timestamp=records[-1].timestamp, records=records)

number = 0
for magic in (0, 1, 2):
    for codec in COMPRESSIONS:
        if magic < 2 and codec == "zstd":
            continue
        for count, size in ((1, 0), (1, 300), (3, 20_000), (5, 60), (9, 100), (130, 90)):
            log = encode(batch(magic, codec, count, size))
            log *= SMALL // len(log) + 2
            for cut in (0, 1, 2, 3, 7, 8, 15, 16, 31, 63, 64, len(log) // 2):
                data = log[: len(log) - cut]
                decoded, broken = at(end - len(data), data)
                assert (decoded.equals(at(start, data)[0]), broken) == (True, 0), (magic, codec, count, size, cut)
                assert decoded.num_rows >= count
                number += 2
print(number)
"""


def test_nothing_around_the_input_is_read() -> None:
    """Every format and codec, whole and cut short, is read between two pages; access to either ends the process."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 1500
