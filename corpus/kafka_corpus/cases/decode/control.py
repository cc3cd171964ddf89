"""Control batches: transaction markers and KRaft's own records (groups TXN and KRF).

A codec for batches carries the keys and values of control records as bytes, so
that a key or value of an unknown form is no error of the batch; what reads
them (a consumer, a raft client) may refuse it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_corpus.authoring.batches import batch_of, bytes_of, payload_of
from kafka_corpus.authoring.build import TIMESTAMP, grid, raw_batch
from kafka_corpus.registry import Draft, acceptable, case, invalid, may_write, must_refuse, must_write, valid
from kafka_records import Batch, Header, Record
from kafka_records.constants import Compression

PRODUCER: dict[str, Any] = {"producer_id": 77, "producer_epoch": 3, "base_sequence": -1}
MARKER: dict[str, Any] = {"control": True, "transactional": True, **PRODUCER}
TYPES = {
    "abort": 0,
    "commit": 1,
    "leader-change": 2,
    "snapshot-header": 3,
    "snapshot-footer": 4,
    "kraft-version": 5,
    "kraft-voters": 6,
}
UNKNOWN = {"seven": 7, "hundred": 100, "largest": 32767, "minus-1": -1, "least": -32768}
CODECS: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
VALUE = bytes.fromhex("000000000009")  # version 0, coordinator epoch 9
CARRIED = "a batch carries its records as bytes; only who reads the key or value has reason to refuse"


def key_of(type_: int, version: int = 0) -> bytes:
    """A control key: version and type."""
    return version.to_bytes(2, "big", signed=True) + type_.to_bytes(2, "big", signed=True)


def marker(type_: int = 1, *, key: bytes | None = None, value: bytes | None = VALUE, offset: int = 0) -> Record:
    """An end marker, its key as given or of *type_*."""
    return Record(offset, TIMESTAMP, key_of(type_) if key is None else key, value)


def marked(record: Record, **fields: Any) -> Batch:
    """A batch of one transaction marker."""
    return batch_of(record, **(MARKER | fields))


def both(batch: Batch) -> tuple[bytes, Batch]:
    """The bytes of *batch* and the batch."""
    return bytes_of(batch), batch


GOLDEN = {
    "commit": (
        "000000000000000000000042ffffffff02412a64dd0030000000000000018bcfe568000000018bcfe56800000000000000004d0003"
        "ffffffff000000012000000008000000010c00000000000900",
        1,
    ),
    "abort": (
        "000000000000000000000042ffffffff02b514b2950030000000000000018bcfe568000000018bcfe56800000000000000004d0003"
        "ffffffff000000012000000008000000000c00000000000900",
        0,
    ),
}


@case("TXN-14", "TXN-13", each=GOLDEN)
def golden_marker(golden: tuple[str, int]) -> Draft:
    """A marker that kafka-clients 3.9.0 wrote is a control batch of one record."""
    text, type_ = golden
    return valid(bytes.fromhex(text), marked(marker(type_)))


@case("TXN-14", each=GOLDEN)
def write_marker(golden: tuple[str, int]) -> Draft:
    """An end marker batch is exactly 78 bytes: attributes 30, no codec, one record, no sequence."""
    text, type_ = golden
    data = bytes.fromhex(text)
    assert len(data) == 78
    return must_write(marked(marker(type_)), data)


EPOCHS = {"zero": 0, "one": 1, "largest": 2**31 - 1, "minus-1": -1}


@case("TXN-13", each=grid(type_={"abort": 0, "commit": 1}, epoch=EPOCHS))
def coordinator_epochs(shape: dict[str, Any]) -> Draft:
    """A marker's value is a version and the coordinator's epoch, an int32."""
    value = bytes(2) + shape["epoch"].to_bytes(4, "big", signed=True)
    return valid(*both(marked(marker(shape["type_"], value=value, offset=8))))


@case("TXN-13", "TXN-14", each=EPOCHS)
def write_coordinator_epochs(epoch: int) -> Draft:
    """Any coordinator epoch is written into six bytes."""
    batch = marked(marker(value=bytes(2) + epoch.to_bytes(4, "big", signed=True), offset=9))
    return must_write(batch, bytes_of(batch))


@case("TXN-13", each={"longer": VALUE + b"more", "version-1": b"\x00\x01" + VALUE[2:] + bytes(8)})
def marker_value_of_the_future(value: bytes) -> Draft:
    """A marker's value may be longer, and of a newer version."""
    return valid(*both(marked(marker(value=value))))


BAD_VALUES = {"empty": b"", "five-bytes": VALUE[:5], "negative-version": b"\xff\xff" + VALUE[2:], "null": None}


@case("TXN-13", each=BAD_VALUES)
def marker_value_bad(value: bytes | None) -> Draft:
    """A marker's value that is too short, null or of a negative version is carried as it is."""
    return acceptable(*both(marked(marker(value=value))), kinds=("malformed", "truncated"), why=CARRIED)


@case("TXN-09", each={"longer": key_of(1) + b"more", "much-longer": key_of(0) + bytes(100)})
def longer_key(key: bytes) -> Draft:
    """A control key may be longer than its four bytes; the rest is for versions to come."""
    return valid(*both(marked(marker(key=key))))


@case("TXN-09", "SEG-13", each={"empty": 0, "one-byte": 1, "two-bytes": 2, "three-bytes": 3})
def shorter_key(size: int) -> Draft:
    """A control key below four bytes says no type; the batch around it is sound."""
    return acceptable(*both(marked(marker(key=key_of(1)[:size]))), kinds=("malformed", "truncated"), why=CARRIED)


@case("TXN-09", "TXN-14", each={"longer": key_of(1) + b"more"})
def write_longer_key(key: bytes) -> Draft:
    """A control key that is longer than it has to be is written as it is."""
    batch = marked(marker(key=key))
    why = "ControlRecordType#recordKey writes four bytes and no more"
    return may_write(batch, bytes_of(batch), why=why)


@case("TXN-09", "TXN-14", each={"empty": 0, "one-byte": 1, "three-bytes": 3})
def write_shorter_key(size: int) -> Draft:
    """A control key below four bytes has no type; a batch codec may not look."""
    batch = marked(marker(key=key_of(1)[:size]))
    return may_write(batch, bytes_of(batch), why="ControlRecordType#parse refuses the key, but a batch carries bytes")


@case("TXN-10", "TXN-14", each={"one": 1, "minus-1": -1})
def write_key_version(version: int) -> Draft:
    """A control key of another version is written as it is, or refused."""
    batch = marked(marker(key=key_of(1, version)))
    why = "ControlRecordType#recordKey writes version 0, but a batch carries bytes"
    return may_write(batch, bytes_of(batch), why=why)


@case("TXN-10", each={"one": 1, "largest": 32767})
def key_version_above_0(version: int) -> Draft:
    """A control key of a newer version is read like version 0."""
    return valid(*both(marked(marker(key=key_of(1, version)))))


@case("TXN-10", each={"minus-1": -1, "least": -32768})
def key_version_below_0(version: int) -> Draft:
    """A negative control key version is invalid; the batch around it is sound."""
    return acceptable(*both(marked(marker(key=key_of(1, version)))), kinds=("malformed",), why=CARRIED)


@case("TXN-11", refs=["A13"], each=TYPES)
def known_types(type_: int) -> Draft:
    """Seven types of control record are known; the type is in the key."""
    record = Record(4, TIMESTAMP, key_of(type_), bytes(16))
    return valid(*both(batch_of(record, control=True, partition_leader_epoch=1)))


@case("TXN-11", refs=("https://github.com/IBM/sarama/pull/1898",), each=UNKNOWN)
def unknown_types(type_: int) -> Draft:
    """A control record of an unknown type is to be skipped, so its batch must be readable."""
    record = Record(4, TIMESTAMP, key_of(type_), b"whatever it means")
    return valid(*both(batch_of(record, control=True, partition_leader_epoch=1)))


@case("TXN-11", each=UNKNOWN)
def unknown_types_of_marker(type_: int) -> Draft:
    """A transactional control record of an unknown type, without a value, must be readable too."""
    return valid(*both(marked(marker(key=key_of(type_), value=None))))


@case("TXN-12", each={"seven": 7, "minus-1": -1})
def write_unknown_type(type_: int) -> Draft:
    """Kafka cannot write a control record of an unknown type; a batch codec may not look."""
    batch = marked(marker(key=key_of(type_)))
    return may_write(
        batch, bytes_of(batch), why="ControlRecordType#recordKey refuses UNKNOWN, but a batch carries bytes"
    )


ATTRIBUTES = {
    "30": {},
    "38": {"timestamp_type": "append"},
    "70": {"delete_horizon": TIMESTAMP + 86_400_000},
    "78": {"timestamp_type": "append", "delete_horizon": TIMESTAMP + 86_400_000},
}


@case("TXN-15", "CLN-11", each=grid(type_={"abort": 0, "commit": 1}, attributes=ATTRIBUTES))
def marker_attributes(shape: dict[str, Any]) -> Draft:
    """A marker has attributes 30, 38 on a LogAppendTime topic, 70 or 78 once a delete horizon is set."""
    return valid(*both(marked(marker(shape["type_"], offset=3), **shape["attributes"])))


@case("TXN-14", "CLN-11", each=ATTRIBUTES)
def write_marker_attributes(attributes: dict[str, Any]) -> Draft:
    """The attributes of a marker are written from the fields of the batch."""
    batch = marked(marker(offset=5), **attributes)
    return must_write(batch, bytes_of(batch))


@case("TXN-16", each={"minus-1": -1, "zero": 0, "seventeen": 17})
def base_sequence_of_a_marker(sequence: int) -> Draft:
    """A control batch with a producer id needs no sequence."""
    return valid(*both(marked(marker(offset=6), base_sequence=sequence)))


@case("TXN-16", "PID-04", each={"minus-1": -1, "minus-2": -2})
def write_base_sequence_of_a_marker(sequence: int) -> Draft:
    """A control batch may be written with a producer id and without a sequence."""
    batch = marked(marker(offset=7), base_sequence=sequence)
    return must_write(batch, bytes_of(batch))


@case("TXN-16", "PID-04")
def write_marker_without_a_producer() -> Draft:
    """A transactional control batch cannot be written without a producer id."""
    return must_refuse(marked(marker(), producer_id=-1, producer_epoch=-1), "malformed")


@case("TXN-17", refs=["A15"], each={"two": 2, "five": 5})
def several_markers_in_a_batch(count: int) -> Draft:
    """A control batch of several records is read whole, although a consumer looks at the first only."""
    records = [marker(n % 2, offset=n) for n in range(count)]
    return valid(*both(batch_of(*records, **MARKER)))


@case("TXN-18", "CLN-15", each={"create": {}, "append": {"timestamp_type": "append"}, "later": {"last_offset": 9}})
def empty_control_batch(fields: dict[str, Any]) -> Draft:
    """A cleaned transaction may leave a control batch without records."""
    batch = batch_of(**({"base_offset": 5, "last_offset": 5, "max_timestamp": TIMESTAMP} | MARKER | fields))
    return valid(*both(batch))


@case("TXN-18", "CLN-15")
def write_empty_control_batch() -> Draft:
    """A control batch without records is written as its header alone."""
    batch = batch_of(base_offset=6, last_offset=6, max_timestamp=TIMESTAMP, **MARKER)
    return must_write(batch, bytes_of(batch))


@case("TXN-19", each={"with-value": VALUE, "without": None})
def control_record_without_key(value: bytes | None) -> Draft:
    """A control record without a key has no type; Kafka's consumer parses the key only with read_committed."""
    record = Record(0, TIMESTAMP, None, value)
    return acceptable(*both(batch_of(record, **MARKER)), kinds=("malformed",), why=CARRIED)


@case("TXN-20", each={"leader-change": 2, "kraft-version": 5, "unknown": 9})
def marker_of_another_type(type_: int) -> Draft:
    """A transactional control record that is neither COMMIT nor ABORT is no end marker; its batch is sound."""
    return acceptable(*both(marked(marker(type_, offset=11))), kinds=("malformed",), why=CARRIED)


@case("TXN-20", "TXN-12", each={"leader-change": 2, "kraft-voters": 6})
def write_marker_of_another_type(type_: int) -> Draft:
    """Kafka writes no end marker but COMMIT and ABORT; a batch codec may not look."""
    batch = marked(marker(type_, offset=12))
    return may_write(batch, bytes_of(batch), why="EndTransactionMarker refuses the type, but a batch carries bytes")


@case("TXN-22", "TXN-24", each={"transactional": MARKER, "kraft": {"control": True}})
def control_bit(fields: dict[str, Any]) -> Draft:
    """Bit 5 marks a control batch, so that applications never see its records."""
    return valid(*both(batch_of(marker(offset=13), **fields)))


@case("TXN-22")
def data_that_looks_like_a_marker() -> Draft:
    """A record is not a control record for having a key and value like one."""
    batch = batch_of(marker(), transactional=True, producer_id=77, producer_epoch=3, base_sequence=0)
    return valid(*both(batch))


@case("TXN-15", "TXN-14", each=CODECS)
def compressed_marker(codec: Compression) -> Draft:
    """A control batch may be compressed, although no broker writes one so."""
    return valid(*both(marked(marker(), compression=codec)))


@case("TXN-09", "REC-16")
def control_record_with_headers() -> Draft:
    """A control record may have headers like any other record."""
    return valid(*both(marked(with_header(marker()))))


def with_header(record: Record) -> Record:
    """*record* with a header."""
    return record._replace(headers=(Header(b"h", b"1"),))


@case("TXN-14", "HDR-14")
def bytes_behind_a_marker() -> Draft:
    """A control batch has no room for bytes after its records either."""
    data = raw_batch(payload_of([marker()]) + b"\x00", attributes=0x30, producer_id=77, producer_epoch=3)
    return invalid(data, "malformed")


@case("TXN-09", "TXN-11", each={"abort": 0, "commit": 1})
def write_with_another_leader_epoch(type_: int) -> Draft:
    """A marker is written with the leader epoch that its batch has."""
    batch = replace(marked(marker(type_, offset=20)), partition_leader_epoch=12)
    return must_write(batch, bytes_of(batch))
