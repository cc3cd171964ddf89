"""Broken bytes that have one plain reading, and those that have none."""

from collections.abc import Callable

import lz4.frame
import pytest

from kafka_conformance.judge.grading import plain_reading
from kafka_conformance.judge.reach import has_usual_times, is_canonical
from kafka_corpus.vector_format import input_of
from kafka_corpus.vectors import load_vectors
from kafka_records import Batch, Record, RecordFormatError, decode, encode
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
        pytest.param(lambda data: data + b"\0", id="a byte after the records"),
        pytest.param(lambda data: data[:22] + b"\x07" + data[23:], id="an unknown codec"),
        pytest.param(lambda data: data[:22] + b"\x01" + data[23:], id="no gzip stream"),
        pytest.param(lambda data: data[:22] + b"\x02" + data[23:], id="no snappy block"),
        pytest.param(lambda data: data[:22] + b"\x03" + data[23:], id="no lz4 frame"),
        pytest.param(lambda data: data[:22] + b"\x04" + data[23:], id="no zstd frame"),
        pytest.param(
            lambda data: data[:RECORD_COUNT_OFFSET_V2] + b"\0\0\0\3" + data[HEADER:], id="a count of more records"
        ),
    ],
)
def test_bytes_without_a_plain_reading(change: Callable[[bytes], bytes]) -> None:
    """Lengths and counts that do not meet leave no plain reading."""
    assert plain_reading(sealed(change(encode(BATCH)))) is None


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
        ((0, 253_402_300_799_999), True),
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
