"""KRaft's control records and metadata batches (group KRF).

The values are messages of the flexible kind (KIP-482), with unsigned compact
lengths inside the signed ones of the record.  A batch codec carries them as
bytes; what KRaft's own reader (RecordsIterator) requires beyond that is said
where a case is `acceptable`.
"""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import batch_of, bytes_of, payload_of
from kafka_corpus.authoring.build import TIMESTAMP, flip, raw_batch, raw_message
from kafka_corpus.authoring.messages import record_of, single_batch
from kafka_corpus.cases.decode.control import key_of
from kafka_corpus.registry import Draft, acceptable, case, invalid, may_write, must_write, valid
from kafka_records import Batch, Header, Record

EPOCH = 5
RAFT = "KRaft's RecordsIterator refuses it; a consumer or log reader takes it like any batch"
DIRECTORY = bytes.fromhex("00112233445566778899aabbccddeeff")


def int32(value: int) -> bytes:
    """Four bytes."""
    return value.to_bytes(4, "big", signed=True)


def compact(*items: bytes) -> bytes:
    """A compact array: the count plus one, unsigned, then the items."""
    assert len(items) < 127
    return bytes((len(items) + 1,)) + b"".join(items)


def text(value: bytes) -> bytes:
    """A compact string; lengths above 126 take two bytes."""
    size = len(value) + 1
    return (bytes((size,)) if size < 128 else bytes((size & 0x7F | 0x80, size >> 7))) + value


def leader_change(leader: int, voters: list[bytes], granting: list[bytes], version: int = 0) -> bytes:
    """LeaderChangeMessage: version, leader, voters, granting voters, no tagged fields."""
    return version.to_bytes(2, "big") + int32(leader) + compact(*voters) + compact(*granting) + b"\x00"


def voter(node: int, directory: bytes = b"") -> bytes:
    """A voter of a leader change; version 1 adds its directory."""
    return int32(node) + directory + b"\x00"


def voters(*nodes: int, host: bytes = b"localhost") -> bytes:
    """VotersRecord: each node with its directory, one endpoint and the versions that it supports."""
    items = [
        int32(node)
        + DIRECTORY
        + compact(text(b"CONTROLLER") + text(host) + (9093 + node).to_bytes(2, "big") + b"\x00")
        + bytes.fromhex("0000000100")
        + b"\x00"
        for node in nodes
    ]
    return bytes(2) + compact(*items) + b"\x00"


LEADER_CHANGES = {
    "one-voter": leader_change(1, [voter(1)], [voter(1)]),
    "three-voters": leader_change(2, [voter(1), voter(2), voter(3)], [voter(2), voter(3)]),
    "no-granting": leader_change(7, [voter(7)], []),
    "large-ids": leader_change(2**31 - 1, [voter(2**31 - 1)], [voter(2**31 - 1)]),
    "many-voters": leader_change(0, [voter(n) for n in range(40)], [voter(n) for n in range(21)]),
}
HEADERS = {"usual": TIMESTAMP - 1, "zero": 0, "none": -1, "largest": 2**63 - 1}
VERSIONS = {"zero": 0, "one": 1, "largest": 2**15 - 1}
VOTERS = {
    "one": voters(1),
    "three": voters(1, 2, 3),
    "none": voters(),
    "long-host": voters(1, host=b"controller." * 15 + b"example.org"),
    "empty-host": voters(4, host=b""),
}


def control(*records: tuple[int, bytes | None], epoch: int = EPOCH, base: int = 0) -> Batch:
    """A KRaft control batch: no producer, not transactional, the leader's epoch (KRF-01)."""
    made = [Record(base + n, TIMESTAMP, key_of(type_), value) for n, (type_, value) in enumerate(records)]
    return batch_of(*made, control=True, partition_leader_epoch=epoch)


def both(batch: Batch) -> tuple[bytes, Batch]:
    """The bytes of *batch* and the batch."""
    return bytes_of(batch), batch


GOLDEN = {
    "leader-change": (
        2,
        "00000000000000000000004f00000005021154eaf90020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffff"
        "ffffff000000013a0000000800000002260000000000010200000001000200000001000000",
    ),
    "snapshot-header": (
        3,
        "0000000000000000000000470000000502b9ed88800020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffff"
        "ffffff000000012a00000008000000031600000000018bcfe567ff0000",
    ),
    "snapshot-footer": (
        4,
        "00000000000000000000003f00000005028f6608e60020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffff"
        "ffffff000000011a00000008000000040600000000",
    ),
    "kraft-version": (
        5,
        "0000000000000000000000410000000502a89c55860020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffff"
        "ffffff000000011e00000008000000050a000000010000",
    ),
    "kraft-voters": (
        6,
        "0000000000000000000000620000000502372d0b840020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffffff"
        "ffffff000000016000000008000000064c0000020000000100000000000000010000000000000002020243026823850000000001000000"
        "00",
    ),
}


@case("KRF-01", "KRF-09", each=GOLDEN)
def golden(vector: tuple[int, str]) -> Draft:
    """A KRaft control batch that kafka-clients 3.9.0 wrote is read."""
    type_, written = vector
    data = bytes.fromhex(written)
    # The value is between its length and the header count.
    return valid(data, control((type_, data[61 + 10 : -1])))


@case("KRF-01", "KRF-09", each=GOLDEN)
def write_golden(vector: tuple[int, str]) -> Draft:
    """A KRaft control batch is written with attributes 20, no producer, and the leader's epoch."""
    type_, written = vector
    data = bytes.fromhex(written)
    return must_write(control((type_, data[61 + 10 : -1])), data)


@case("KRF-02", "KRF-09", each=LEADER_CHANGES)
def leader_changes(value: bytes) -> Draft:
    """A leader change names the leader, the voters and those that granted their vote."""
    return valid(*both(control((2, value), base=30)))


@case("KRF-02", "KRF-01", each=LEADER_CHANGES)
def write_leader_changes(value: bytes) -> Draft:
    """A leader change is written as it is."""
    batch = control((2, value), base=31)
    return must_write(batch, bytes_of(batch))


@case("KRF-03", each={"leader-change": LEADER_CHANGES["one-voter"]})
def write_leader_change_without_epoch(value: bytes) -> Draft:
    """Kafka writes no leader change without a leader epoch; a batch codec may not look."""
    batch = control((2, value), epoch=-1)
    return may_write(batch, bytes_of(batch), why="MemoryRecordsBuilder#appendLeaderChangeMessage needs the epoch")


@case("KRF-04", refs=("KIP-853",))
def leader_change_of_version_1() -> Draft:
    """Version 1 of a leader change gives each voter its directory."""
    named = [voter(1, DIRECTORY), voter(2, bytes(16))]
    return valid(*both(control((2, leader_change(1, named, named[:1], version=1)))))


@case("KRF-09", "KRF-02", each={"one-tag": b"\x01\x00\x03abc", "two-tags": b"\x02\x00\x00\x05\x01x"})
def tagged_fields(tags: bytes) -> Draft:
    """Tagged fields after a value are for versions to come."""
    return valid(*both(control((2, LEADER_CHANGES["one-voter"][:-1] + tags))))


@case("KRF-09", each={"snapshot-footer": (4, bytes(3) + b"more"), "kraft-version": (5, bytes(5) + b"more")})
def bytes_behind_a_value(record: tuple[int, bytes]) -> Draft:
    """Bytes after a control value are carried along."""
    return acceptable(*both(control(record)), kinds=("malformed",), why=RAFT)


@case(
    "KRF-09", each={"null-voters": b"\x00\x00", "count-beyond": b"\x7f\x00", "never-ends": b"\xff\xff\xff\xff\xff\xff"}
)
def compact_lengths_bad(tail: bytes) -> Draft:
    """A compact length that cannot be is carried along as bytes."""
    return acceptable(*both(control((2, bytes(2) + int32(1) + tail))), kinds=("malformed", "truncated"), why=RAFT)


@case("KRF-05", each=HEADERS)
def snapshot_headers(timestamp: int) -> Draft:
    """A snapshot header carries the timestamp of the last record that the snapshot contains."""
    value = bytes(2) + timestamp.to_bytes(8, "big", signed=True) + b"\x00"
    return valid(*both(control((3, value), base=40)))


@case("KRF-05", each=HEADERS)
def write_snapshot_headers(timestamp: int) -> Draft:
    """A snapshot header is written as it is."""
    batch = control((3, bytes(2) + timestamp.to_bytes(8, "big", signed=True) + b"\x00"), base=41)
    return must_write(batch, bytes_of(batch))


@case("KRF-06", each={"epoch-5": EPOCH, "epoch-0": 0})
def snapshot_footers(epoch: int) -> Draft:
    """A snapshot footer says nothing but its version."""
    return valid(*both(control((4, bytes(3)), epoch=epoch, base=50)))


@case("KRF-06")
def write_snapshot_footer() -> Draft:
    """A snapshot footer is written as three bytes."""
    batch = control((4, bytes(3)), base=51)
    return must_write(batch, bytes_of(batch))


@case("KRF-07", each=VERSIONS)
def kraft_versions(version: int) -> Draft:
    """A KRaft version record carries the version as an int16."""
    return valid(*both(control((5, bytes(2) + version.to_bytes(2, "big") + b"\x00"), base=60)))


@case("KRF-07", each=VERSIONS)
def write_kraft_versions(version: int) -> Draft:
    """A KRaft version record is written as it is."""
    batch = control((5, bytes(2) + version.to_bytes(2, "big") + b"\x00"), base=61)
    return must_write(batch, bytes_of(batch))


@case("KRF-08", "KRF-09", refs=("KIP-853",), each=VOTERS)
def voter_sets(value: bytes) -> Draft:
    """A voter set names each voter with its directory, endpoints and versions."""
    return valid(*both(control((6, value), base=70)))


@case("KRF-08", "KRF-09", each=VOTERS)
def write_voter_sets(value: bytes) -> Draft:
    """A voter set is written as it is."""
    batch = control((6, value), base=71)
    return must_write(batch, bytes_of(batch))


START_OF_EPOCH = ((2, LEADER_CHANGES["three-voters"]), (5, bytes.fromhex("0000000100")), (6, VOTERS["three"]))
SNAPSHOT = ((3, bytes(11)), (5, bytes(5)), (6, VOTERS["one"]))


@case("KRF-10", refs=["A15"], each={"start-of-epoch": START_OF_EPOCH, "snapshot": SNAPSHOT, "two": START_OF_EPOCH[:2]})
def several_control_records(records: tuple[tuple[int, bytes], ...]) -> Draft:
    """A KRaft control batch may hold several records, unlike a transaction marker."""
    return valid(*both(control(*records, base=80)))


@case("KRF-10", "KRF-01")
def write_several_control_records() -> Draft:
    """Several control records are written into one batch."""
    batch = control(*START_OF_EPOCH, base=81)
    return must_write(batch, bytes_of(batch))


@case("KRF-11", each={"no-value": (2, None), "empty-value": (4, b""), "marker": (1, bytes(6)), "unknown": (7, b"?")})
def control_record_that_raft_refuses(record: tuple[int, bytes | None]) -> Draft:
    """KRaft's reader wants a control record to have a value and a type from 2 to 6."""
    return acceptable(*both(control(record, base=90)), kinds=("malformed", "truncated"), why=RAFT)


def metadata(*records: Record, **fields: Any) -> Batch:
    """A batch of metadata records: no producer, the leader's epoch."""
    return batch_of(*records, **({"partition_leader_epoch": EPOCH} | fields))


# A frame version, a record type (4, unsigned varints) and its version, then the record.
RECORD = Record(100, TIMESTAMP, None, b"\x01\x0c\x00" + b"metadata")


@case("KRF-12", each={"key": RECORD._replace(key=b"key"), "no-value": RECORD._replace(value=None)})
def data_record_that_raft_refuses(record: Record) -> Draft:
    """KRaft's reader wants a data record to have no key, and a value."""
    return acceptable(*both(metadata(record)), kinds=("malformed",), why=RAFT)


@case("KRF-13", each={"later": 1, "earlier": -1})
def timestamp_delta_in_a_metadata_batch(delta: int) -> Draft:
    """KRaft's reader wants every timestamp delta to be 0."""
    later = RECORD._replace(offset=101, timestamp=TIMESTAMP + delta)
    return acceptable(*both(metadata(RECORD, later)), kinds=("malformed",), why=RAFT)


@case("KRF-14")
def headers_in_a_metadata_batch() -> Draft:
    """KRaft's reader wants no record headers."""
    batch = metadata(RECORD._replace(headers=(Header(b"h", b"1"),)))
    return acceptable(*both(batch), kinds=("malformed",), why=RAFT)


@case("KRF-15")
def record_longer_than_its_compressed_batch() -> Draft:
    """KRaft's reader measures a record against the compressed batch, so it refuses records that compress well."""
    batch = metadata(RECORD._replace(value=b"-" * 500), compression="zstd")
    data = bytes_of(batch)
    assert len(data) < 500
    return acceptable(data, batch, kinds=("malformed", "limit"), why=RAFT)


@case("KRF-16", "HDR-14")
def bytes_behind_the_last_metadata_record() -> Draft:
    """KRaft's reader does not look for bytes after the last record."""
    why = "RecordsIterator stops after the count, every other reader of Kafka's refuses the bytes"
    batch = metadata(RECORD)
    payload = payload_of(batch.records, base_offset=100)
    return acceptable(bytes_of(batch, packed=payload + b"\x00\x00"), batch, kinds=("malformed",), why=why)


@case("KRF-17")
def metadata_in_a_v1_message() -> Draft:
    """KRaft's reader knows v2 only; to others a v1 message is a v1 message."""
    record = record_of(1, 100, None, RECORD.value)
    data = raw_message(1, None, RECORD.value, offset=100)
    return acceptable(data, single_batch(record, 1), kinds=("malformed", "unsupported_magic"), why=RAFT)


@case("KRF-17", "CRC-07")
def crc_of_a_metadata_batch() -> Draft:
    """A metadata batch with a wrong CRC is corrupt; KRaft's reader checks it only on demand."""
    return invalid(flip(bytes_of(metadata(RECORD)), 75), "corrupt")


@case("KRF-18", each={"none": "none", "zstd": "zstd", "lz4": "lz4"})
def write_metadata_batch(codec: str) -> Draft:
    """A metadata batch has one time, the append time as CreateTime, no producer and the leader's epoch."""
    batch = metadata(RECORD, RECORD._replace(offset=101, value=b"\x01\x0d\x00more"), compression=codec)
    return must_write(batch, bytes_of(batch), compare="exact" if codec == "none" else "masked")


@case("KRF-18", "KRF-12", each={"one": 1, "fifty": 50})
def metadata_batches(count: int) -> Draft:
    """A metadata batch holds records without keys, all at one time."""
    records = [RECORD._replace(offset=100 + n, value=b"\x01\x0c\x00%d" % n) for n in range(count)]
    return valid(*both(metadata(*records)))


@case("KRF-01", "CMP-01", each={"none": "none", "zstd": "zstd"})
def control_batch_behind_data(codec: str) -> Draft:
    """Control and data batches alternate in a metadata log."""
    batches = (
        control(*START_OF_EPOCH, base=0),
        metadata(RECORD._replace(offset=3), compression=codec),
        control((4, bytes(3)), base=4),
    )
    return valid(b"".join(map(bytes_of, batches)), *batches)


@case("KRF-20", "HDR-16")
def control_batch_without_records() -> Draft:
    """A KRaft control batch without records is readable, although KRaft never appends one."""
    data = raw_batch(b"", record_count=0, last_offset_delta=0, attributes=0x20, partition_leader_epoch=EPOCH)
    batch = batch_of(base_offset=0, last_offset=0, control=True, partition_leader_epoch=EPOCH, max_timestamp=TIMESTAMP)
    return valid(data, batch)
