"""The adapters drive their codecs as their own consumers and producers do."""

import warnings
from types import ModuleType

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from kafka_conformance.judge.compare import compare
from kafka_conformance.judge.observation import Decoded, Encoded
from kafka_conformance.judge.verdict import judge
from kafka_conformance.testees import aiokafka_, reference
from kafka_conformance.testees.interface import CodecError, NotDone
from kafka_corpus.case import Case, Expectation
from kafka_corpus.wire import WireBatch, to_wire
from kafka_records import Batch, Header, Record, decode
from kafka_records.model import Batch as Model

with warnings.catch_warnings():
    # kafka-python reads its schemas through what Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.legacy_records import LegacyRecord
    from kafka.record.memory_records import MemoryRecordsBuilder

    from kafka_conformance.testees import kafka_python

TIMESTAMP = 1_700_000_000_123
RECORDS = (
    Record(0, TIMESTAMP, b"key", b"value" * 40, (Header(b"h", b"v"), Header(b"n", None))),
    Record(1, TIMESTAMP + 1, None, b"value" * 40, ()),
)
OLD = tuple(Record(at, TIMESTAMP + at, b"key", b"value" * 40) for at in range(2))
CODECS = [kafka_python, aiokafka_]
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")

# v0 and v1 know no zstd.
FORMATS = [(magic, name) for magic in (0, 1, 2) for name in COMPRESSIONS if magic == 2 or name != "zstd"]

both = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.NAME)


def given(magic: int, compression: str, **fields: object) -> Batch:
    """A batch of two records."""
    records = RECORDS if magic == 2 else OLD if magic == 1 else tuple(each._replace(timestamp=-1) for each in OLD)
    plain = {"timestamp_type": "none" if magic == 0 else "create", "max_timestamp": records[-1].timestamp}
    fields = {"base_offset": 0, "last_offset": 1, **plain, **fields}
    return Model(magic=magic, compression=compression, records=records, **fields)  # type: ignore[arg-type]


@both
@pytest.mark.parametrize(("magic", "compression"), FORMATS)
def test_they_read_what_the_reference_writes(codec: ModuleType, magic: int, compression: str) -> None:
    """Every format is read as the reference reads it, field by field, but for what is known not to be there."""
    data = reference.encode(to_wire(given(magic, compression)))
    if codec is aiokafka_ and (magic, compression) == (0, "lz4"):
        with pytest.raises(CodecError) as caught:
            codec.decode(data)
        assert caught.value.kind == "unsupported_compression"
        return
    found = compare(list(map(to_wire, decode(data))), codec.decode(data))

    assert found.differences == []
    # Only fields that the API does not expose are left out.
    if magic == 2:
        assert found.left_out == ({"delete_horizon"} | ({"partition_leader_epoch"} if codec is aiokafka_ else set()))


@both
@pytest.mark.parametrize(("magic", "compression"), FORMATS)
def test_the_reference_reads_what_they_write(codec: ModuleType, magic: int, compression: str) -> None:
    """The records that an encoder was given come back through the reference."""
    batch = given(magic, compression)
    if codec is aiokafka_ and magic < 2:
        assert codec.ENCODES.magics == [2]
        with pytest.raises(NotDone, match="its producer writes v2"):
            codec.encode(to_wire(batch))
        return
    read = decode(codec.encode(to_wire(batch)))

    assert tuple(record for each in read for record in each.records) == batch.records
    assert {each.magic for each in read} == {magic}


@both
def test_a_partial_batch_at_the_end_is_dropped(codec: ModuleType, named: dict[str, Case]) -> None:
    """Two batches and a part of a third are two batches."""
    data = named["two_and_a_part"].input

    assert len(codec.decode(data)) == 2


@both
@pytest.mark.parametrize(
    ("name", "kind"), [("crc", "corrupt"), ("second_crc", "corrupt"), ("trailing", "malformed"), ("count", "malformed")]
)
def test_errors_have_the_kind_that_fits(codec: ModuleType, name: str, kind: str, named: dict[str, Case]) -> None:
    """An exception of the codec becomes an error with a kind; batches read before it are delivered."""
    case = named[name]
    with pytest.raises(CodecError) as caught:
        codec.decode(case.input)

    assert caught.value.kind == kind
    assert len(caught.value.batches) == len(case.expect.batches)


@both
def test_what_a_decompressor_raises(codec: ModuleType, named: dict[str, Case]) -> None:
    """An exception out of zlib is documented by neither, so that a caller does not expect it: `other`."""
    data = named["gzip"].input
    assert isinstance(data, bytes)
    from kafka_records.checksum import checksum_v2

    broken = data[:61] + b"\x00" * (len(data) - 61)
    with pytest.raises(CodecError) as caught:
        codec.decode(broken[:17] + checksum_v2(broken).to_bytes(4, "big") + broken[21:])

    assert caught.value.kind == "other"


@both
@pytest.mark.parametrize(
    "fields",
    [
        {"base_offset": 5, "last_offset": 6},
        {"partition_leader_epoch": 3},
        {"timestamp_type": "append"},
        {"timestamp_type": "none"},
        {"control": True},
        {"delete_horizon": 5},
        {"last_offset": 9},
        {"records": []},
    ],
    ids=str,
)
def test_batches_beyond_the_builder_are_skipped(codec: ModuleType, fields: dict[str, object]) -> None:
    """A batch that the API cannot express is no failure of the codec."""
    wanted: WireBatch = replace(to_wire(given(2, "none")), **fields)

    with pytest.raises(NotDone):
        codec.encode(wanted)


@both
def test_header_keys_that_are_no_text(codec: ModuleType) -> None:
    """Keys are text in both APIs: bytes that are not UTF-8 cannot be written."""
    batch = to_wire(given(2, "none"))
    assert isinstance(batch.records, list)
    batch.records[0].headers = [(b"\xff", b"v")]

    with pytest.raises(NotDone, match="UTF-8"):
        codec.encode(batch)


def test_offsets_wrap_back() -> None:
    """The last offset is correct even if its successor cannot be represented."""
    largest = 2**63 - 1
    records = (Record(largest, TIMESTAMP, b"k", b"v"),)
    batch = Model(magic=1, base_offset=largest, last_offset=largest, max_timestamp=TIMESTAMP, records=records)

    assert aiokafka_.decode(reference.encode(to_wire(batch)))[0].last_offset == largest


@both
def test_v0_has_no_timestamps(codec: ModuleType) -> None:
    """Where the codec says None, the timestamp is Kafka's -1, which is none."""
    data = reference.encode(to_wire(given(0, "none")))
    first = codec.decode(data)[0]

    assert isinstance(first.records, list)
    assert first.records[0].timestamp == -1


@both
def test_offsets_are_counted_as_a_producer_does(codec: ModuleType) -> None:
    """Records after a gap are skipped: no offset is set that a producer would not write."""
    wanted = given(2, "none", last_offset=5)
    gap = replace(to_wire(wanted), records=to_wire(wanted).records)
    assert isinstance(gap.records, list)
    gap.records[1].offset = 5

    with pytest.raises(NotDone, match="other offsets"):
        codec.encode(gap)


def test_wrong_offset_counting_is_wrong_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """No adapter gives a builder the offsets of a request, so a builder that counts wrongly is seen."""

    class ByTwo(MemoryRecordsBuilder):  # type: ignore[misc]
        def append(self, *fields: object, **more: object) -> object:
            metadata = super().append(*fields, **more)
            self.skip(1)
            return metadata

    monkeypatch.setattr(kafka_python, "MemoryRecordsBuilder", ByTwo)
    verdict = judge(encode_case(given(2, "none")), Encoded(kafka_python.encode(to_wire(given(2, "none")))))

    assert (verdict.outcome, verdict.field) == ("wrong_data", "batches[0].last_offset")
    assert "batches.records.offset" in verdict.also


def encode_case(batch: Batch) -> Case:
    """An encode case whose right answer is the reference's."""
    expect = Expectation(verdict="valid", data=reference.encode(to_wire(batch)))
    return Case(id="a.b", title="", rules=("X",), area="a", op="encode", input=batch, expect=expect)


def test_lost_timestamps_are_wrong_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timestamp that a codec gives as None is compared as none, and not left out."""
    monkeypatch.setattr(LegacyRecord, "timestamp", property(lambda _: None))
    batch = given(1, "none")
    found = kafka_python.decode(reference.encode(to_wire(batch)))
    expect = Expectation(verdict="valid", batches=tuple(decode(reference.encode(to_wire(batch)))))
    case = Case(id="a.b", title="", rules=("X",), area="a", op="decode", input=b"", expect=expect)

    verdict = judge(case, Decoded(tuple(found)))

    assert (verdict.outcome, verdict.field) == ("wrong_data", "batches[0].records[0].timestamp")


@both
def test_an_undocumented_exception_under_read_committed_is_other(codec: ModuleType, named: dict[str, Case]) -> None:
    """The kinds of `committed` are those of `decode`."""
    data = named["gzip"].input
    assert isinstance(data, bytes)
    from kafka_records.checksum import checksum_v2

    broken = data[:61] + b"\x00" * (len(data) - 61)
    broken = broken[:17] + checksum_v2(broken).to_bytes(4, "big") + broken[21:]
    answer = codec.committed(broken, [])

    assert answer.error is not UNSET
    assert answer.error.kind == "other"
    assert codec.committed(named["crc"].input, []).error.kind == "corrupt"
