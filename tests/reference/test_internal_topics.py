"""Records of internal topics: every type and version, what Kafka passes over, and bytes that are broken at random."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.explained import titles
from tests.reference.topic_values import drawn, record_bytes, tables

from kafka_records import Batch, ControlRecord, Limits, Record, RecordFormatError, encode, encode_control, explain
from kafka_records.internal_topics import (
    INTERNAL_TOPICS,
    METADATA,
    FieldReading,
    VersionLayout,
    decode_record_value,
    decode_topic_record,
    message_tables,
    read_fields,
    read_size,
    snapshot_fault,
    table_of,
    topic_of_path,
    version_layout,
)

OFFSETS, TRANSACTIONS, METADATA_LOG = "__consumer_offsets", "__transaction_state", "__cluster_metadata"
EVERY = list(tables())
SEEDS = st.integers(0, 2**32)


def unhex(text: str) -> bytes:
    """Bytes from digits with spaces."""
    return bytes.fromhex(text)


# `Probe` on Kafka 4.4.0's own classes gave these values.
KEY = unhex("0001 0001 67 0001 74 00000000")
V3 = unhex("0003 0000000000000005 00000001 0001 6d 0000000000000007")
V4 = unhex("0004 0000000000000005 00000001 02 6d 0000000000000007 00")
COMMIT = {"offset": 5, "leader_epoch": 1, "metadata": "m", "commit_timestamp": 7}
TOPIC = unhex("01 02 00 02 74 00000000000000000000000000000001 00")
TOPIC_FIELDS = {"name": "t", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
GROUP = unhex("0002 0001 67")
GROUP_HEAD = unhex("0003 0008 636f6e73756d6572 00000001 ffff ffff 0000000000000000")
MEMBER_HEAD = unhex("00000001 0001 6d ffff 0000 0000 00000000 00000000")


def both(topic: str, key: bytes | None, value: bytes | None) -> tuple[Any, list[str]]:
    """The value of a record, and the rules of its remarks."""
    found = decode_topic_record(topic, key, value)
    return found.value, [each.rule for each in found.remarks]


def test_every_type_and_version_comes_back() -> None:
    """Bytes that the layouts write are read as it was, in every version of every type, and every byte is explained."""
    for table, version in EVERY:
        for seed in range(6):
            fields = drawn(version_layout(table.name, version), Random(seed))
            data = record_bytes(table, version, fields)
            if table.name.endswith("Key"):
                found = decode_topic_record(table.topic, data, None)
                assert (found.key, found.value, found.version) == (fields, None, None)
            elif table.topic in METADATA:
                found = decode_topic_record(table.topic, None, data)
                assert (found.type, found.version, found.value) == (table.name, version, fields)
            else:
                assert table.id is not None
                reading = FieldReading(1 << 24, [])
                assert decode_record_value(table.topic, table.id, data, reading) == (version, fields)
                spans = [each for each in reading.spans or () if each.start < each.end]
                assert b"".join(data[each.start : each.end] for each in spans) == data


@given(st.sampled_from(EVERY), SEEDS, st.data())
def test_broken_bytes_raise_one_error(each: tuple[Any, int], seed: int, data: st.DataObject) -> None:
    """Whatever is changed, cut or added, a record is read or `RecordFormatError` is raised, and it can be explained."""
    table, version = each
    raw = bytearray(record_bytes(table, version, drawn(version_layout(table.name, version), Random(seed))))
    for at in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=3)):
        raw[at] = data.draw(st.sampled_from((0, 1, 2, 0x7F, 0x80, 0xFF)))
    broken = bytes(raw[: data.draw(st.integers(0, len(raw)))]) + data.draw(st.binary(max_size=2))
    keys = [each for each, _ in EVERY if (each.topic, each.id) == (table.topic, table.id) and each.name[-3:] == "Key"]
    key = record_bytes(keys[0], 0, drawn(version_layout(keys[0].name, 0), Random(seed))) if keys else None
    if table.name.endswith("Key"):
        key, broken = broken, b""
    error = failure(table.topic, key, broken)
    if error is not None:
        assert error.path.startswith(("key", "value"))
        assert 0 <= error.offset <= len(key if error.path.startswith("key") and key else broken)
    explained = explain(log_of((key, broken)), topic=table.topic)
    assert explained.error is None
    assert b"".join(each.raw for each in explained.section.fields) == explained.section.data


def failure(topic: str, key: bytes | None, value: bytes | None) -> RecordFormatError | None:
    """The error of a record, or None."""
    try:
        decode_topic_record(topic, key, value)
    except RecordFormatError as error:
        return error
    return None


def log_of(*contents: tuple[bytes | None, bytes | None], magic: int = 2, compression: Any = "none") -> bytes:
    """A batch of records with these keys and values."""
    records = tuple(Record(at, 5, key, value) for at, (key, value) in enumerate(contents))
    return encode(Batch(magic=magic, base_offset=0, last_offset=len(records) - 1, max_timestamp=5,
                        compression=compression, records=records))  # fmt: skip


def test_as_kafka_reads() -> None:
    """Records that Kafka 4.4 reads, or passes over, with what it ignores as a remark (TOP-01 to TOP-14)."""
    assert both(OFFSETS, KEY, V3) == (COMMIT, [])
    assert both(OFFSETS, KEY, V4) == (COMMIT, [])
    assert both(OFFSETS, KEY, None) == (None, [])
    assert both(OFFSETS, KEY, V3 + b"\xff") == (COMMIT, ["TOP-12"])
    assert both(OFFSETS, KEY + b"\xff", V3) == (COMMIT, ["TOP-12"])
    assert both(OFFSETS, KEY, unhex("0005") + V4[2:]) == (unhex("0005") + V4[2:], ["TOP-03"])
    assert both(OFFSETS, KEY, unhex("ffff") + V3[2:])[1] == ["TOP-03"]
    assert both(OFFSETS, unhex("0063 00"), V3) == (V3, ["TOP-02"])
    assert decode_topic_record(OFFSETS, unhex("0063 00"), V3).key == unhex("0063 00")
    assert decode_topic_record(OFFSETS, unhex("0001 0003 ffc328 0001 74 00000000"), V3).key == {
        "group": "\ufffd\ufffd(",
        "topic": "t",
        "partition": 0,
    }
    assert both(METADATA_LOG, None, TOPIC) == (TOPIC_FIELDS, [])
    assert both(METADATA_LOG, None, unhex("01 02 05") + TOPIC[3:]) == (TOPIC_FIELDS, ["TOP-10"])
    assert both(METADATA_LOG, None, unhex("01 02 ffffffff0f") + TOPIC[3:]) == (TOPIC_FIELDS, ["TOP-10"])
    assert both(METADATA_LOG, None, unhex("01 63 00 00")) == (unhex("01 63 00 00"), ["TOP-09"])
    tagged = TOPIC[:-1] + unhex("01 05 01 ff")
    assert both(METADATA_LOG, None, tagged)[0] == TOPIC_FIELDS | {"unknown_tagged_fields": ((5, b"\xff"),)}
    change = unhex("01 05 00 00000001 00000000000000000000000000000001")
    assert both(METADATA_LOG, None, change + unhex("02 01 04 00000001 01 04 00000002"))[0]["leader"] == 2
    assert both(METADATA_LOG, None, change + unhex("01 01 09 00000001"))[1] == ["TOP-07"]


def test_members_hold_the_consumer_protocol() -> None:
    """Subscriptions are opened in a group of type consumer; a newer version is read as 3, and others stay bytes."""
    subscription = unhex("0009 00000001 0001 74 00000000 00000000 ffffffff ffff 77")
    fields = {"topics": ("t",), "user_data": b"", "owned_partitions": (), "generation_id": -1, "rack_id": None}
    for held, expected, remarks in (
        (subscription, {"version": 9} | fields, []),
        (b"", b"", []),
        (unhex("ffff"), unhex("ffff"), ["TOP-13"]),
        (b"?", b"?", ["TOP-13"]),
    ):
        value = GROUP_HEAD + MEMBER_HEAD + len(held).to_bytes(4, "big") + held + unhex("00000000")
        found, rules = both(OFFSETS, GROUP, value)
        assert (found["members"][0]["subscription"], rules) == (expected, remarks)
        explained = explain(log_of((GROUP, value)), topic=OFFSETS)
        assert b"".join(each.raw for each in explained.section.fields) == explained.section.data
        other = value.replace(b"consumer", b"connect!")
        assert both(OFFSETS, GROUP, other)[0]["members"][0]["subscription"] == held


@pytest.mark.parametrize(
    ("topic", "key", "value", "expected"),
    [
        (OFFSETS, None, V3, ("key", "TOP-01", 0)),
        (OFFSETS, b"", V3, ("key", "TOP-04", 0)),
        (OFFSETS, KEY, b"", ("value", "TOP-04", 0)),
        (OFFSETS, KEY, V3[:8], ("value.offset", "TOP-04", 2)),
        (OFFSETS, unhex("0001 ffff 0001 74 00000000"), V3, ("key.group", "TOP-05", 2)),
        (OFFSETS, GROUP, GROUP_HEAD + unhex("fffffffe"), ("value.members", "TOP-05", 28)),
        (OFFSETS, GROUP, GROUP_HEAD + unhex("7fffffff"), ("value.members", "TOP-05", 28)),
        (OFFSETS, GROUP, GROUP_HEAD + unhex("00000001 00"), ("value.members[0].member_id", "TOP-04", 32)),
        (OFFSETS, KEY, V4[:-1] + unhex("01 00 02 0000"), ("value.tagged_fields[0].topic_id", "TOP-04", 27)),
        (METADATA_LOG, b"", TOPIC, ("key", "KRF-12", 0)),
        (METADATA_LOG, None, None, ("value", "TOP-08", 0)),
        (METADATA_LOG, None, b"", ("value", "TOP-08", 0)),
        (METADATA_LOG, None, unhex("00 02 00 00"), ("value.frame_version", "TOP-08", 0)),
        (METADATA_LOG, None, unhex("02 02 00 00"), ("value.frame_version", "TOP-08", 0)),
        (METADATA_LOG, None, unhex("01 808004 00"), ("value.type", "TOP-08", 1)),
        (METADATA_LOG, None, unhex("01"), ("value.type", "VAR-11", 1)),
        (METADATA_LOG, None, TOPIC + b"\x00", ("value", "TOP-11", 22)),
        (METADATA_LOG, None, TOPIC[:-1] + unhex("ffffffff0f"), ("value.tagged_fields", "TOP-07", 21)),
        (METADATA_LOG, None, TOPIC[:-1] + unhex("01 05 05 00"), ("value.tagged_fields[0]", "TOP-04", 24)),
        (METADATA_LOG, None, unhex("01 02 00 ffffffff0f 74"), ("value.name", "TOP-05", 3)),
        (METADATA_LOG, None, unhex("01 02 00 818002") + bytes(32768), ("value.name", "TOP-05", 3)),
        (
            METADATA_LOG, None, unhex("01 05 00 00000001") + bytes(16) + unhex("01 08 01 01"),
            ("value.tagged_fields[0].tag", "TOP-07", 26),
        ),
    ],
)  # fmt: skip
def test_what_kafka_refuses(topic: str, key: bytes | None, value: bytes | None, expected: tuple[str, str, int]) -> None:
    """The error names the field, the rule and the byte, and the byte is shown in the explanation."""
    with pytest.raises(RecordFormatError) as caught:
        decode_topic_record(topic, key, value)
    assert (caught.value.path, caught.value.rule, caught.value.offset) == expected


def test_memory_is_bounded() -> None:
    """A value of many elements that take little is refused with kind `limit`, as is showing it."""
    layout = version_layout("PartitionChangeRecord", 0)
    many = unhex("01 05 00 00000001") + bytes(16) + unhex("808001") + unhex("6300") * 16384
    with pytest.raises(RecordFormatError, match="more memory") as caught:
        read_fields(many, 3, layout, FieldReading(1 << 20))
    assert caught.value.kind == "limit"
    explained = explain(log_of((None, many)), topic=METADATA_LOG, limits=Limits(max_output_bytes=-(16 << 20) + 100_000))
    assert b"".join(each.raw for each in explained.section.fields) == explained.section.data


def test_no_element_of_an_array_is_empty() -> None:
    """Each element takes a byte at least, so a count that is at most the bytes that are left bounds memory."""

    def check(layout: VersionLayout) -> None:
        for slot in (*layout.plain, *layout.tagged.values()):
            if slot.inner is not None:
                assert slot.inner.plain or slot.inner.flexible, slot
                check(slot.inner)

    for table in message_tables():
        for version in range(table.versions[0], table.versions[1] + 1):
            check(version_layout(table.name, version))


def test_every_topic_has_layouts() -> None:
    """A key has a value beside it, no id occurs twice, and the topics of a table are those that are known."""
    names = [each.name for each in message_tables()]
    assert len(names) == len(set(names)) == 83
    assert {each.topic for each in message_tables()} == {*INTERNAL_TOPICS, "embedded"}
    for each in message_tables():
        if each.name.endswith("Key") and each.id is not None:
            assert table_of(each.topic, each.id, "Value") is not None
    assert table_of(OFFSETS, 9, "Key") is None


def test_snapshots_have_ends() -> None:
    """The first record is a header and the last one a footer; whatever else is there is named (TOP-15)."""

    def control(type_: str, value: dict[str, Any]) -> Batch:
        record = encode_control(ControlRecord(type_, value))
        return Batch(magic=2, base_offset=0, last_offset=0, control=True, records=(record,))

    header = control("snapshot_header", {"version": 0, "last_contained_log_timestamp": 7})
    footer = control("snapshot_footer", {"version": 0})
    broken = Batch(magic=2, base_offset=0, last_offset=0, control=True, records=(Record(0, 0, b"", None),))
    assert snapshot_fault((header, footer)) == ""
    assert snapshot_fault(None) == "it has no batch"
    assert snapshot_fault((footer, footer)) == "its first record is snapshot_footer, and should be snapshot_header"
    assert snapshot_fault((header, Batch(magic=2, base_offset=0, last_offset=0))) == (
        "its last record is no control record, and should be snapshot_footer"
    )
    assert snapshot_fault((broken, footer)).startswith("its first record is broken: a control key of 0 bytes")


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("/data/__consumer_offsets-49/00000000000000000000.log", OFFSETS),
        ("__transaction_state-0/00000000000000000000.log", TRANSACTIONS),
        ("C:\\data\\__cluster_metadata-0\\0.log", METADATA_LOG),
        ("/data/__cluster_metadata-0/00000000000000000007-0000000001.checkpoint", METADATA_LOG),
        ("bootstrap.checkpoint", METADATA_LOG),
        ("0.log", None),
        ("/data/__consumer_offsets/0.log", None),
        ("/data/__consumer_offsets-/0.log", None),
        ("/data/my__consumer_offsets-1/0.log", None),
        ("/data/__consumer_offsets-1.a-delete/0.log", None),
        ("/data/recovery-point-offset-checkpoint", None),
    ],
)
def test_topics_by_path(path: str, topic: str | None) -> None:
    """The folder's name says which topic it is; a snapshot is KRaft's in any folder."""
    assert topic_of_path(path) == topic


def test_lengths_of_elements_may_not_be_null() -> None:
    """An array may be null where its strings may not."""
    (slot,) = [each for each in version_layout("PartitionChangeRecord", 0).tagged.values() if each.name == "isr"]
    assert read_size(b"\x00", 0, slot, "isr_count", "count", FieldReading(1 << 20)) == (None, 1)
    with pytest.raises(RecordFormatError, match="null"):
        read_size(b"\x00", 0, slot, "isr[0]_length", "length", FieldReading(1 << 20))


@pytest.mark.parametrize(("magic", "compression"), [(2, "none"), (2, "gzip"), (1, "none"), (1, "gzip"), (0, "none")])
def test_titles(magic: int, compression: str) -> None:
    """Records of every format have the name of their type in their title, and what is wrong in that of their value."""
    short = unhex("0001 000000000000000a 0001 00000064 01 01 ffffffffffffffff 0000000000000007 00")
    contents = [(unhex("0000 0001 74"), short), (unhex("0000 0001 74"), None), (unhex("0009"), b"x"), (None, b"x")]
    datas = [log_of(*contents, magic=magic, compression=compression)] if magic == 2 or compression != "none" else [
        log_of(each, magic=magic) for each in contents
    ]  # fmt: skip
    sections = [section for data in datas for section in explain(data, topic=TRANSACTIONS).sections]
    said = "\n".join(title for section in sections for title in titles(section.root))
    for words in ("TransactionLog\n", "TransactionLog, a tombstone", "unknown type 9", "its type cannot be read"):
        assert words in f"{said}\n"
    meanings = {each.name: each.meaning for section in sections for each in section.fields}
    assert meanings["transaction_status"] == "Ongoing"
    assert meanings["transaction_last_update_timestamp_ms"] == "no timestamp"
    assert "record type 9 is unknown: the coordinator passes over the record (TOP-02)" in said


def test_titles_of_metadata() -> None:
    """A metadata record has its type in its title; broken and unknown ones say so."""
    values = (TOPIC, unhex("01 63 00 00"), TOPIC + b"\0", None)
    said = "\n".join(titles(explain(log_of(*((None, each) for each in values)), topic=METADATA_LOG).section.root))
    assert "TopicRecord" in said
    assert "unknown type 99" in said
    assert "broken: 1 bytes after the last field (TOP-11)" in said
    assert said.count("its type cannot be read") == 2
