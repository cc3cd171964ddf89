"""The columnar decoder says what the reference says, of every entry, in every way that bytes can come."""

import random
import subprocess
import sys
from pathlib import Path
from zlib import crc32 as zlib_crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from crc32c import crc32c as package_crc32c

from kafka_corpus import strategies
from kafka_corpus.vectors import load_vectors
from kafka_pipeline.columnar import (
    BATCHES,
    ERRORS,
    RECORDS,
    batches_of,
    checksum,
    gzip_frames,
    inflate,
    read_by_reference,
    read_chunks,
    scan,
)
from kafka_pipeline.columnar import (
    inflate as frames,
)
from kafka_pipeline.columnar.decoder import ROWS, SMALL
from kafka_pipeline.columnar.jit import kernel
from kafka_pipeline.reading import Reading
from kafka_records import Batch, Header, Limits, Record, encode
from kafka_records.constants import COMPRESSIONS
from kafka_records.layout import BATCH_V2, CRC_OFFSET_V2, CRC_START_V2

pytestmark = pytest.mark.columnar

repeatable = settings(
    max_examples=100, derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in COMPRESSIONS if magic == 2 or codec != "zstd"]


def reading(data: bytes, limits: Limits | None = None) -> Reading:
    """The content of the columns, as the reference's types: batches, and errors."""
    chunks = list(read_chunks(data, limits=limits) if limits else read_chunks(data))
    for chunk in chunks:
        chunk.records.validate(full=True)
        assert (chunk.records.schema, chunk.batches.schema, chunk.errors.schema) == (RECORDS, BATCHES, ERRORS)
    batches = [pair for chunk in chunks for pair in batches_of(chunk)]
    return batches, [broken for chunk in chunks for broken in chunk.broken]


def batch_of(magic: int, codec: str, count: int, size: int = 100) -> Batch:
    """So many records, with every kind of key, value and header that there is."""
    records = tuple(
        Record(
            offset=at,
            timestamp=-1 if magic == 0 else 1_700_000_000_000 + at * 7,
            key=(None, b"", b"key", b"k" * 13)[at % 4],
            value=None if at % 5 == 4 else bytes([at % 251]) * (at % size),
            headers=() if magic < 2 else tuple(Header(b"h" * n, (None, b"v" * 20)[n % 2]) for n in range(at % 3)),
        )
        for at in range(count)
    )
    return Batch(
        magic=magic,
        base_offset=0,
        last_offset=count - 1,
        compression=codec,  # type: ignore[arg-type]
        timestamp_type="none" if magic == 0 else "create",
        max_timestamp=records[-1].timestamp,
        records=records,
    )


INPUTS = {case.id: case.input for case in load_vectors() if case.op == "decode" and isinstance(case.input, bytes)}


def test_every_case_of_the_corpus() -> None:
    """Each input of the corpus gives the same batches and the same errors, in all their fields."""
    assert len(INPUTS) > 2000
    different = [id_ for id_, data in INPUTS.items() if reading(data) != read_by_reference(data)]

    assert different == []


@pytest.mark.parametrize(("magic", "codec"), [(0, "none"), (1, "gzip"), (2, "none"), (2, "lz4")])
def test_large_logs(magic: int, codec: str) -> None:
    """A log that is larger than a chunk is read whole, and nothing in it twice."""
    data = encode(batch_of(magic, codec, 500)) * (ROWS // 500 + 20)

    assert reading(data) == read_by_reference(data)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_batch_larger_than_a_chunk(codec: str) -> None:
    """More records, and more headers, than a chunk has room for are still one batch."""
    data = encode(batch_of(2, "none", 9)) + encode(batch_of(2, codec, ROWS + 5000, 9))

    assert reading(data) == read_by_reference(data)


@repeatable
@given(strategies.logs())
def test_valid_logs(log: tuple[Batch, ...]) -> None:
    """Any valid log comes back."""
    data = b"".join(map(encode, log))
    batches, broken = reading(data)

    assert ([batch for _, batch in batches], broken) == (list(log), [])


@repeatable
@given(st.lists(st.one_of(strategies.encoded(), strategies.nearly_valid().map(lambda pair: pair[0])), max_size=4))
def test_faults_among_valid_logs(parts: list[bytes]) -> None:
    """Broken entries become errors, and the entries after them are read wherever sizes allow."""
    data = b"".join(parts)

    assert reading(data) == read_by_reference(data)


@repeatable
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    """Bytes of any kind give what the reference says of them."""
    assert reading(data) == read_by_reference(data)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_every_byte_changed(magic: int, codec: str) -> None:
    """One byte changed anywhere in the middle of three entries breaks that one, and no other."""
    entry = encode(batch_of(magic, codec, 3))
    draw = random.Random(5)
    for at in range(len(entry)):
        changed = bytearray(entry)
        changed[at] ^= 1 << draw.randrange(8)
        data = entry + bytes(changed) + entry
        assert reading(data) == read_by_reference(data), at


@pytest.mark.parametrize("codec", COMPRESSIONS)
def test_entries_at_the_end_of_memory(codec: str) -> None:
    """Entries read alike whether the memory ends after the last entry or within it."""
    entry = encode(batch_of(2, codec, 40))
    data = entry * (SMALL // len(entry) + 3)
    for cut in (0, 1, 63, 64, 65, len(entry) - 1):
        part = data[: len(data) - cut]
        assert reading(part) == read_by_reference(part)


@pytest.mark.parametrize("window", [1, 100, 4096, 5000, 100_000, 2**20])
def test_files_by_windows(window: int, tmp_path: Path) -> None:
    """A file gives the same in windows of any size, with errors and the entries after them, and a tail is left out."""
    entries = [encode(batch_of(magic, codec, 60)) for magic, codec in FORMATS]
    unknown = entries[0][:16] + b"\x07" + entries[0][17:]
    broken = entries[1][:-1] + bytes([entries[1][-1] ^ 1])
    data = b"".join([*entries, unknown, broken, *entries[::-1]]) * 2 + entries[0][:100]
    path = tmp_path / "00000000000000000000.log"
    for name, content in (
        ("a tail", data),
        ("zeros", data[:-100] + bytes(40)),
        ("a cut unknown", data[:-100] + unknown[:50]),
    ):
        path.write_bytes(content)
        chunks = list(scan(path, window=window))
        batches = [pair for chunk in chunks for pair in batches_of(chunk)]
        assert (batches, [each for chunk in chunks for each in chunk.broken]) == read_by_reference(content), name


def test_empty_files_and_windows_that_cannot_be(tmp_path: Path) -> None:
    """An empty file gives nothing; a window of no bytes, or of too many, is refused."""
    path = tmp_path / "empty.log"
    path.write_bytes(b"")

    assert list(scan(path)) == []
    for window in (0, 2**30 + 1):
        with pytest.raises(ValueError, match=f"a window of {window} bytes"):
            next(scan(path, window=window))


def test_limits_hold_for_each_entry() -> None:
    """An entry that takes more memory than the limits allow is an error of kind `limit`, as in the reference."""
    data = encode(batch_of(2, "gzip", 90_000, 2)) + encode(batch_of(2, "zstd", 3))
    limits = Limits(max_output_bytes=0)
    batches, broken = reading(data, limits)

    assert (batches, broken) == read_by_reference(data, limits=limits)
    assert [each.kind for each in broken] == ["limit"]
    assert len(batches) == 1


def test_positions_are_those_of_the_file() -> None:
    """Positions count from the position that the caller gives for the first byte, in all three tables."""
    entry = encode(batch_of(2, "none", 2))
    (chunk,) = read_chunks(entry + entry[:20] + b"\xff" + entry[21:], position=1000)

    assert chunk.records["position"].to_pylist() == [1000, 1000]
    assert chunk.batches["position"].to_pylist() == [1000]
    assert chunk.errors.select(["position", "offset"]).to_pylist() == [
        {"position": 1000 + len(entry), "offset": 1000 + len(entry) + 17}
    ]


def test_no_copy_of_what_is_not_compressed() -> None:
    """Keys and values of uncompressed batches are views into the memory that was given."""
    entry = encode(batch_of(2, "none", 200))
    data = entry * (SMALL // len(entry) + 1)
    first = next(iter(read_chunks(data)))

    assert first.memory[0].address == first.source.start
    assert len(first.memory) == 1
    assert first.records["value"].buffers()[2].address == first.source.start


@pytest.mark.parametrize("size", [*range(70), *range(100, 1200, 37), 5000])
def test_checksums(size: int) -> None:
    """Both CRCs are those of the packages, for every size and place, with special instructions and without."""
    import numpy as np

    data = np.frombuffer(random.Random(size).randbytes(size + 200), np.uint8)
    start = int(data.ctypes.data)
    for place in (0, 15, 16, 63, 64, 77):
        wanted = data[place : place + size].tobytes()
        for crc, right in (
            (checksum.crc32c, package_crc32c(wanted)),
            (checksum.plain_crc32c, package_crc32c(wanted)),
            (checksum.crc32, zlib_crc32(wanted)),
            (checksum.plain_crc32, zlib_crc32(wanted)),
        ):
            assert crc(start + place, size, start) == right


def test_checksums_of_four() -> None:
    """Four CRCs are right together, whatever the sizes, and one wrong bit in any of the four is found."""
    import numpy as np

    draw = random.Random(4)
    whole = np.frombuffer(draw.randbytes(40_000), np.uint8).copy()
    start = int(whole.ctypes.data)
    for _ in range(300):
        sizes = [draw.choice((draw.randrange(4, 200), 9000)) for _ in range(4)]
        places = [100 + 4 * number + sum(sizes[:number]) for number in range(4)]
        for place, size in zip(places, sizes, strict=True):
            crc = zlib_crc32(whole[place : place + size].tobytes())
            whole[place - 4 : place] = np.frombuffer(crc.to_bytes(4, "big"), np.uint8)
        requested = [number for place, size in zip(places, sizes, strict=True) for number in (start + place, size)]

        assert four_right(*requested)
        for place, size in zip(places, sizes, strict=True):
            # Each byte of the CRC, and one of the data.
            for at in (*range(place - 4, place), draw.randrange(place, place + size)):
                bit = 1 << draw.randrange(8)
                whole[at] ^= bit
                assert not four_right(*requested)
                whole[at] ^= bit


@kernel
def four_right(
    one: int, one_size: int, two: int, two_size: int, three: int, three_size: int, four: int, four_size: int
) -> bool:
    """`four_right_crc32`, called from compiled code as kernels call it."""
    return checksum.four_right_crc32(one, one_size, two, two_size, three, three_size, four, four_size)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("wrong", ["checksum", "key", "value", "magic", "codec", "size"])
def test_one_wrong_message_among_many(magic: int, wrong: str) -> None:
    """Messages are read four at a time; a wrong one is found in each place, and the others are read."""
    parts = [encode(batch_of(magic, "none", 1 + number)) for number in range(14)]
    messages = [part[-size_of_last(part) :] for part in parts]
    fixed = 18 if magic == 0 else 26
    for number in range(len(messages)):
        changed = [bytearray(message) for message in messages]
        message = changed[number]
        if wrong == "key":
            message[fixed : fixed + 4] = (1000).to_bytes(4, "big")
        elif wrong == "value":
            key_size = max(int.from_bytes(message[fixed : fixed + 4], "big", signed=True), 0)
            message[fixed + 4 + key_size : fixed + 8 + key_size] = (1000).to_bytes(4, "big")
        elif wrong == "size":
            message[8:12] = (13).to_bytes(4, "big")
        elif wrong != "checksum":
            message[16 if wrong == "magic" else 17] ^= 1
        message[12:16] = (zlib_crc32(message[16:]) ^ (wrong == "checksum")).to_bytes(4, "big")
        data = b"".join(changed)

        assert reading(data) == read_by_reference(data)


def size_of_last(data: bytes) -> int:
    """Bytes of the last message in *data*."""
    at = size = 0
    while at < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        at += size
    return size


def test_without_the_extra() -> None:
    """Where a package is missing, the import says which extra brings it."""
    hide = "import sys; sys.modules['numba'] = None; import kafka_pipeline.columnar"
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("pip install 'kafkaproof[columnar]'")


def deflated(bits: str) -> bytes:
    """A gzip member around a block of these bits, for an output of nothing."""
    bits = bits.replace(" ", "")
    block = bytes(int(bits[at : at + 8].ljust(8, "0")[::-1], 2) for at in range(0, len(bits), 8))
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + block + bytes(8)


def is_plain(member: bytes) -> bool:
    """Whether ISA-L is given it."""
    import numpy as np

    memory = np.frombuffer(member + bytes(64), np.uint8)
    packed = np.array([[0, memory.ctypes.data, len(member), 1]], np.int64)
    plain = np.zeros(1, np.int64)
    gzip_frames.find_plain(packed, 1, plain)
    return bool(plain[0])


def lengths(*codes: int) -> str:
    """A deflate block whose codes of length 1 to 15 are these, by symbol, sent by a code for lengths of 4 bits each."""
    order = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
    head = "1 01 00000 10000 1111"  # the last block, its codes in it; 257 and 2 symbols, 19 lengths
    table = "".join("001" if symbol < 16 else "000" for symbol in order)
    return head + table + "".join(f"{code:04b}" for code in codes)


def test_codes_that_are_complete_are_for_isa_l() -> None:
    """A block is for ISA-L where its codes are complete, as zlib wants them; ISA-L itself would take fewer."""
    literals = [0] * 257
    literals[0] = literals[256] = 1

    assert is_plain(deflated(lengths(*literals, 1, 1)))
    assert is_plain(deflated(lengths(*literals, 0, 0)))
    assert is_plain(deflated(lengths(*literals, 1, 0)))
    assert not is_plain(deflated(lengths(*literals, 2, 0)))  # a quarter of the distances
    literals[0] = 2
    assert not is_plain(deflated(lengths(*literals, 1, 1)))  # three quarters of the literals
    literals[0] = literals[1] = 1
    assert not is_plain(deflated(lengths(*literals, 1, 1)))  # more than all
    literals[256], literals[1] = 0, 1
    assert not is_plain(deflated(lengths(*literals, 1, 1)))  # no end of the block


def test_members_that_others_wrote_are_for_isa_l() -> None:
    """Members that zlib writes at any level are plain if they are one block, and read as the reference reads them."""
    import gzip

    data = b"".join(b"%d,%d;" % (at, at * at) for at in range(900))
    plain = [is_plain(gzip.compress(data, level)) for level in range(10)]

    assert plain == [True] * 10
    assert not is_plain(gzip.compress(random.Random(1).randbytes(200_000)))


def test_plain_members_are_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members of one block are made plain without a call from Python for each, and what they hold is right."""
    monkeypatch.setattr(inflate.Inflater, "inflate_one", None)
    data = b"".join(encode(batch_of(magic, "gzip", count)) for magic in (0, 1, 2) for count in (1, 50, 700))

    assert reading(data) == read_by_reference(data)


def test_every_byte_of_a_member_changed() -> None:
    """A gzip member with one byte changed, in a batch whose CRC is right, is what the reference says it is."""
    entry = encode(batch_of(2, "gzip", 20))
    draw = random.Random(6)
    for at in range(BATCH_V2.size, len(entry)):
        changed = bytearray(entry)
        changed[at] ^= 1 << draw.randrange(8)
        changed[CRC_OFFSET_V2:CRC_START_V2] = package_crc32c(bytes(changed[CRC_START_V2:])).to_bytes(4, "big")
        data = entry + bytes(changed) + entry
        assert reading(data) == read_by_reference(data), at


@pytest.mark.parametrize("missing", ["gzip", "lz4", "zstd"])
def test_without_the_functions_of_a_library(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a package's library cannot be called by address, its frames are read all the same."""
    monkeypatch.setattr(frames, "symbol_address", lambda found, name: 0)
    data = encode(batch_of(2, missing, 50)) * 3

    assert reading(data) == read_by_reference(data)
