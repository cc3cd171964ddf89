"""Records of internal topics with what an audit has to find in each, and files that hold them."""

from pathlib import Path
from typing import NamedTuple

from kafka_records import Batch, ControlRecord, Record, encode, encode_control

OFFSETS, TRANSACTIONS, METADATA = "__consumer_offsets", "__transaction_state", "__cluster_metadata"
COMMIT = bytes.fromhex("0001 0001 67 0001 74 00000000")
COMMITTED = bytes.fromhex("0003 0000000000000005 00000001 0001 6d 0000000000000007")
GROUP = bytes.fromhex("0002 0001 67")
MEMBER = bytes.fromhex(
    "0003 0008 636f6e73756d6572 00000001 ffff ffff 0000000000000000"
    "00000001 0001 6d ffff 0000 0000 00000000 00000000 00000001 3f 00000000"
)
TOPIC = bytes.fromhex("01 02 00 02 74 00000000000000000000000000000001 00")
CHANGE = bytes.fromhex("01 05 00 00000001 00000000000000000000000000000001 01 01 09 00000001")
EPOCH_TIME = 1_700_000_000_000


class TopicDamage(NamedTuple):
    """A record, and the finding: its kind, and words of its message."""

    kind: str
    words: str
    topic: str
    key: bytes | None
    value: bytes | None


DAMAGED = (
    TopicDamage("topic_record", "value.offset: the length claims 8 bytes, 6 are left (byte 2; TOP-04)",
                OFFSETS, COMMIT, COMMITTED[:8]),
    TopicDamage("topic_record", "key: a record without a key (byte 0; TOP-01)", OFFSETS, None, COMMITTED),
    TopicDamage("topic_record", "value: the length claims 2 bytes, 0 are left (byte 0; TOP-04)", OFFSETS, COMMIT, b""),
    TopicDamage("topic_type", "record type 99 is unknown", OFFSETS, b"\0\x63", COMMITTED),
    TopicDamage("topic_version", "version 9 of OffsetCommitValue is unknown: Kafka 4.4 knows 0 to 4",
                OFFSETS, COMMIT, b"\0\x09" + COMMITTED[2:]),
    TopicDamage("transaction_version", "version 9 of TransactionLogValue",
                TRANSACTIONS, bytes(2) + GROUP[2:], b"\0\x09"),
    TopicDamage("topic_rest", "value: 1 bytes after the last field are ignored", OFFSETS, COMMIT, COMMITTED + b"?"),
    TopicDamage("topic_tag", "its size says 9 bytes, and it takes 4", METADATA, None, CHANGE),
    TopicDamage("topic_protocol", "subscription is no ConsumerProtocolSubscription", OFFSETS, GROUP, MEMBER),
    TopicDamage("metadata_record", "value: 1 bytes after the last field (byte 22; TOP-11)",
                METADATA, None, TOPIC + b"?"),
    TopicDamage("metadata_record", "key: a metadata record with a key (byte 0; KRF-12)", METADATA, b"?", TOPIC),
    TopicDamage("metadata_type", "metadata type 99 is unknown", METADATA, None, b"\x01\x63\0\0"),
    TopicDamage("metadata_version", "version 5 of TopicRecord is unknown",
                METADATA, None, TOPIC[:2] + b"\5" + TOPIC[3:]),
)  # fmt: skip
CLEAN = ((OFFSETS, COMMIT, COMMITTED), (OFFSETS, COMMIT, None), (METADATA, None, TOPIC))
KINDS_SHOWN = {each.kind for each in DAMAGED} | {"metadata_snapshot"}


def batch_of(offset: int, *contents: tuple[bytes | None, bytes | None], control: bool = False) -> bytes:
    """A batch of these keys and values."""
    records = tuple(Record(offset + at, EPOCH_TIME, key, value) for at, (key, value) in enumerate(contents))
    return encode(Batch(magic=2, base_offset=offset, last_offset=offset + len(records) - 1, max_timestamp=EPOCH_TIME,
                        partition_leader_epoch=1, control=control, records=records))  # fmt: skip


def log_file(folder: Path, topic: str, data: bytes, name: str = f"{0:020}.log") -> Path:
    """The file of partition 0 of *topic* below *folder*."""
    path = folder / f"{topic}-0" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def end(type_: str) -> bytes:
    """The batch at an end of a snapshot."""
    value = {"version": 0} | ({"last_contained_log_timestamp": EPOCH_TIME} if type_ == "snapshot_header" else {})
    record = encode_control(ControlRecord(type_, value))
    return batch_of(0 if type_ == "snapshot_header" else 2, (record.key, record.value), control=True)


def snapshot(*contents: bytes, header: bool = True, footer: bool = True) -> bytes:
    """A snapshot that holds these metadata records."""
    middle = batch_of(1, *((None, each) for each in contents))
    return end("snapshot_header") * header + middle + end("snapshot_footer") * footer
