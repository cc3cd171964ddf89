"""Broken bytes that have one plain reading, and those that have none."""

from collections.abc import Callable

import lz4.frame
import msgspec
import pytest

from kafka_conformance.judge.observation import ConsumedRecords, Decoded, Refused
from kafka_conformance.judge.plain_reading import gives_plain_reading, plain_mark, plain_reading
from kafka_conformance.judge.usual_form import has_usual_times, is_canonical
from kafka_conformance.testees.protocol import Refusal
from kafka_corpus.case import Case, Expectation
from kafka_corpus.vector_format import input_of
from kafka_corpus.vectors import load_vectors
from kafka_corpus.wire import to_wire, to_wire_record
from kafka_records import Batch, Header, Record, RecordFormatError, decode, encode
from kafka_records.checksum import checksum_v2
from kafka_records.layout import CRC_OFFSET_V2, RECORD_COUNT_OFFSET_V2

RECORDS = (Record(0, 5, b"key", b"value"), Record(1, 6, None, None))
BATCH = Batch(magic=2, base_offset=0, last_offset=1, max_timestamp=6, records=RECORDS)
HEADER = 61


def sealed(data: bytes) -> bytes:
    """*data* with its size and checksum made right."""
    fixed = bytearray(data)
    fixed[8:12] = (len(data) - 12).to_bytes(4, "big")
    fixed[CRC_OFFSET_V2 : CRC_OFFSET_V2 + 4] = checksum_v2(bytes(fixed)).to_bytes(4, "big")
    return bytes(fixed)


def test_a_number_in_more_bytes_than_kafka_reads() -> None:
    """A varint of up to ten bytes has one plain reading."""
    data = encode(BATCH)
    length = data[HEADER]
    overlong = sealed(data[:HEADER] + bytes([length | 0x80, 0x80, 0x80, 0x80, 0x80, 0x00]) + data[HEADER + 1 :])
    with pytest.raises(RecordFormatError):
        decode(overlong)
    assert plain_reading(overlong) == (RECORDS,)


def test_an_lz4_frame_after_a_skippable_one() -> None:
    """Skippable frames are passed over in a plain reading."""
    payload = encode(BATCH)[HEADER:]
    skippable = bytes.fromhex("502a4d18 03000000 616263")
    data = bytearray(encode(BATCH)[:HEADER] + skippable + lz4.frame.compress(payload))
    data[22] = 3  # the codec
    with pytest.raises(RecordFormatError):
        decode(sealed(bytes(data)))
    assert plain_reading(sealed(bytes(data))) == (RECORDS,)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda data: data[:-1], id="a record that ends early"),
        pytest.param(lambda data: data + data[HEADER:], id="records after those that are counted"),
        pytest.param(lambda data: data[:22] + b"\x07" + data[23:], id="an unknown codec"),
        pytest.param(lambda data: data[:22] + b"\x01" + data[23:], id="no gzip stream"),
        pytest.param(lambda data: data[:22] + b"\x02" + data[23:], id="no snappy block"),
        pytest.param(lambda data: data[:22] + b"\x03" + data[23:], id="no lz4 frame"),
        pytest.param(lambda data: data[:22] + b"\x04" + data[23:], id="no zstd frame"),
        pytest.param(
            lambda data: data[:RECORD_COUNT_OFFSET_V2] + b"\0\0\0\3" + data[HEADER:], id="a count of more records"
        ),
        pytest.param(
            lambda data: data[:RECORD_COUNT_OFFSET_V2] + b"\0\0\0\1" + data[HEADER:], id="a count of fewer records"
        ),
        pytest.param(
            lambda data: data[:HEADER] + b"\x16" + b"\x80" * 9 + b"\4" + data[HEADER + 1 :], id="a varint of 68 bits"
        ),
        pytest.param(lambda data: data + b"\2k\2v\2l\1", id="headers that no count has"),
    ],
)
def test_bytes_without_a_plain_reading(change: Callable[[bytes], bytes]) -> None:
    """Lengths and counts that do not meet leave no plain reading."""
    assert plain_reading(sealed(change(encode(BATCH)))) is None


def test_a_magic_above_2_is_no_part_of_the_checksum() -> None:
    """A batch whose magic alone is damaged holds the same records; a message of v1 has a checksum of its magic."""
    data = encode(BATCH)
    assert plain_reading(data[:16] + b"\3" + data[17:]) == (RECORDS,)
    assert plain_reading(data + data[:16] + b"\x7f" + data[17:]) == (RECORDS, RECORDS)
    message = encode(Batch(magic=1, base_offset=0, last_offset=0, max_timestamp=5, records=(Record(0, 5, b"k", b"v"),)))
    assert plain_reading(message) is not None
    assert plain_reading(message[:16] + b"\3" + message[17:]) is None


def test_zeros_are_no_records_and_no_entries() -> None:
    """Padding after the records, and up to 17 bytes after the last entry, hold nothing."""
    data = encode(BATCH)
    assert plain_reading(sealed(data + bytes(4))) == (RECORDS,)
    assert plain_reading(data + bytes(17)) == (RECORDS,)
    assert plain_reading(data + bytes(18)) is None


def test_a_header_without_a_key_has_an_empty_one() -> None:
    """A key length of -1 leaves no doubt about the rest of the record."""
    record = b"\0\0\0" + b"\2k" + b"\2v" + b"\2" + b"\1" + b"\2w"
    data = encode(Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=0, records=(Record(0, 0, b"k", b"v"),)))
    reading = plain_reading(sealed(data[:HEADER] + bytes([2 * len(record)]) + record))
    assert reading is not None
    assert reading[0][0].headers == (Header(b"", b"w"),)


LENIENT = """
    framing.unknown_magic[127]
    v2_headers.null_key_and_nothing_else[gzip]
    compression.too_many_bytes[gzip-one-byte]
    framing.unknown_magic_of_a_partial_batch[3]
    gzip.header_checksum_wrong[extra]
    lz4.not_a_frame[legacy]
    snappy.block_length_impossible[v2-largest]
    snappy.little_endian_block_length[v2]
    v2_record.bytes_behind_the_fields[a zero byte]
    v2_record.bytes_behind_the_last_record[lz4-half a record]
    v2_record.length_beyond_what_is_left[last of two-INT32_MAX]
    v2_record.length_shorter_than_the_fields[last of two-1]
    varint.tenth_byte_continues[lz4]
    zstd.bytes_behind_the_frame[four-zeros]
    zstd.window_too_large[256-mib]
"""


@pytest.mark.parametrize("id_", LENIENT.strip().split("\n"))
def test_cases_of_the_corpus_that_leave_no_doubt(id_: str) -> None:
    """A codec that accepts these gives the records that they hold: it is lenient, and nothing is lost."""
    id_ = id_.strip()
    (case,) = (case for case in load_vectors(f"{id_.partition('.')[0]}.*") if case.id == id_)
    data = input_of(case)
    assert isinstance(data, bytes)
    reading = plain_reading(data)

    assert case.expect.verdict == "invalid"
    assert reading is not None
    records = [to_wire_record(record) for entry in reading for record in entry]
    assert records
    assert gives_plain_reading(case, ConsumedRecords(tuple(records), 9))
    assert not gives_plain_reading(case, ConsumedRecords((*records, records[-1]), 9))


OVERLONG = sealed(encode(BATCH) + b"\0")
ACCEPTED = Case(
    id="a.b",
    title="",
    rules=("X",),
    area="a",
    op="decode",
    input=OVERLONG,
    expect=Expectation(verdict="invalid", kinds=("malformed",)),
)
WIRE = to_wire(BATCH)


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (Decoded((WIRE,), None), True),
        (Decoded((msgspec.structs.replace(WIRE, last_offset=77),), None), True),
        (Decoded((msgspec.structs.replace(WIRE, records=msgspec.UNSET),), None), False),
        (Decoded((WIRE, WIRE), None), False),
        (Decoded((WIRE,), Refusal("malformed")), False),
        (Decoded((), None), False),
        (ConsumedRecords(tuple(WIRE.records or ()), 2), True),
        (ConsumedRecords(tuple(msgspec.structs.replace(each, value=b"x") for each in WIRE.records or ()), 2), False),
        (ConsumedRecords(tuple(WIRE.records or ()), 2, stalled=True), False),
        (Refused(Refusal("malformed")), False),
    ],
)
def test_what_is_given_is_compared_record_by_record(given: Decoded | ConsumedRecords | Refused, *, plain: bool) -> None:
    """As many records are not enough: each has to be the one that the bytes hold."""
    assert gives_plain_reading(ACCEPTED, given) is plain
    assert plain_mark(ACCEPTED, given, accepted=True) == {"plain": plain}
    assert plain_mark(ACCEPTED, given, accepted=False) == {}


def test_a_wrong_checksum_has_no_plain_reading() -> None:
    """Damaged bytes are compared with no reading: damage has to be found."""
    data = encode(BATCH)
    assert plain_reading(data[:-1] + bytes([data[-1] ^ 1])) is None


def test_valid_v2_bytes_have_the_reading_of_the_reference() -> None:
    """All cases of three areas: the plain reading of sound bytes is what they contain."""
    compared = 0
    for case in [case for area in ("v2_record", "varint", "v2_headers") for case in load_vectors(f"{area}.*")]:
        if case.op == "decode" and case.expect.verdict == "valid" and isinstance(case.input, bytes):
            expected = tuple(batch.records for batch in case.expect.batches)
            if all(batch.magic == 2 and batch.records for batch in case.expect.batches):
                assert plain_reading(case.input) == expected, case.id
                compared += 1
    assert compared > 100


def test_encoded_batches_are_canonical() -> None:
    """The reference writes canonical bytes."""
    assert is_canonical(encode(BATCH), [BATCH])


@pytest.mark.parametrize(
    "id_", ["varint.overlong_form[timestamp_delta in 9 bytes]", "v2_record.negative_value_length[none--64]"]
)
def test_forms_that_no_writer_makes(id_: str) -> None:
    """Bytes in a form that no writer makes are not canonical."""
    (case,) = (case for case in load_vectors(f"{id_.partition('.')[0]}.*") if case.id == id_)
    data = input_of(case)
    assert isinstance(data, bytes)
    assert decode(data)
    assert not is_canonical(data, case.expect.batches)


@pytest.mark.parametrize(
    ("times", "usual"),
    [
        ((5, 6), True),
        ((-1, -1), True),
        ((5, -1), False),
        ((0, 4_102_444_800_000), True),
        ((0, 4_102_444_800_001), False),
        ((0, 2**53), False),
        ((-5,), False),
    ],
)
def test_usual_times(times: tuple[int, ...], usual: bool) -> None:
    """Times that no clock gives are unusual."""
    records = tuple(Record(index, time, None, None) for index, time in enumerate(times))
    assert (
        has_usual_times([Batch(magic=2, base_offset=0, last_offset=len(times) - 1, max_timestamp=0, records=records)])
        is usual
    )
