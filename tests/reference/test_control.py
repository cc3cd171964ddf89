"""Control records: what their keys and values say."""

from typing import Any

import pytest

from kafka_records import (
    Batch,
    ControlRecord,
    Record,
    RecordFormatError,
    decode,
    decode_control,
    encode,
    encode_control,
)

TIMESTAMP = 1_700_000_000_000
VOTER = {
    "voter_id": 1,
    "voter_directory_id": bytes(range(16)),
    "endpoints": ({"name": b"CONTROLLER", "host": b"localhost", "port": 65535},),
    "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
}
# kafka-clients 3.9.0: batches of one control record; leader 1, epoch 5, coordinator epoch 9.
GOLDEN: dict[str, tuple[str, dict[str, Any]]] = {
    "commit": (
        "000000000000000000000042ffffffff02412a64dd0030000000000000018bcfe568000000018bcfe56800000000000000004d0003"
        "ffffffff000000012000000008000000010c00000000000900",
        {"version": 0, "coordinator_epoch": 9},
    ),
    "abort": (
        "000000000000000000000042ffffffff02b514b2950030000000000000018bcfe568000000018bcfe56800000000000000004d0003"
        "ffffffff000000012000000008000000000c00000000000900",
        {"version": 0, "coordinator_epoch": 9},
    ),
    "leader_change": (
        "00000000000000000000004f00000005021154eaf90020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffff"
        "ffffffff000000013a0000000800000002260000000000010200000001000200000001000000",
        {"version": 0, "leader_id": 1, "voters": ({"voter_id": 1},), "granting_voters": ({"voter_id": 1},)},
    ),
    "snapshot_header": (
        "0000000000000000000000470000000502b9ed88800020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffff"
        "ffffffff000000012a00000008000000031600000000018bcfe567ff0000",
        {"version": 0, "last_contained_log_timestamp": TIMESTAMP - 1},
    ),
    "snapshot_footer": (
        "00000000000000000000003f00000005028f6608e60020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffff"
        "ffffffff000000011a00000008000000040600000000",
        {"version": 0},
    ),
    "kraft_version": (
        "0000000000000000000000410000000502a89c55860020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffff"
        "ffffffff000000011e00000008000000050a000000010000",
        {"version": 0, "kraft_version": 1},
    ),
    "kraft_voters": (
        "0000000000000000000000620000000502372d0b840020000000000000018bcfe568000000018bcfe56800ffffffffffffffffffff"
        "ffffffff000000016000000008000000064c000002000000010000000000000001000000000000000202024302682385000000000100"
        "000000",
        {
            "version": 0,
            "voters": (
                {
                    "voter_id": 1,
                    "voter_directory_id": (1).to_bytes(8, "big") + (2).to_bytes(8, "big"),
                    "endpoints": ({"name": b"C", "host": b"h", "port": 9093},),
                    "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
                },
            ),
        },
    ),
}


def record(key: bytes | None, value: bytes | None = b"\x00\x00\x00\x00\x00\x09") -> Record:
    """A record as control batches hold them."""
    return Record(0, -1, key, value)


def failure(control: Record) -> tuple[str, str, str, int]:
    """Kind, rule, path and offset of what `decode_control` raises."""
    with pytest.raises(RecordFormatError) as caught:
        decode_control(control)
    return caught.value.kind, caught.value.rule, caught.value.path, caught.value.offset


@pytest.mark.parametrize("type_", GOLDEN)
def test_the_golden_control_records_both_ways(type_: str) -> None:
    """The Java client's control records are read as what they say, and written again (TXN-11, TXN-13, KRF-02 to 08)."""
    hexed, fields = GOLDEN[type_]
    (batch,) = decode(bytes.fromhex(hexed))
    assert batch.control
    (found,) = batch.records
    assert decode_control(found) == ControlRecord(type_, fields)
    assert encode_control(ControlRecord(type_, fields), offset=0, timestamp=TIMESTAMP) == found
    assert encode(batch).hex() == hexed


def test_an_end_marker_batch_is_78_bytes() -> None:
    """A transaction marker is encoded as the fixed batch of 78 bytes (TXN-14, TXN-16)."""
    marker = encode_control(ControlRecord("commit", {"version": 0, "coordinator_epoch": 9}), timestamp=TIMESTAMP)
    batch = Batch(
        magic=2,
        base_offset=0,
        last_offset=0,
        max_timestamp=TIMESTAMP,
        producer_id=77,
        producer_epoch=3,
        transactional=True,
        control=True,
        records=(marker,),
    )
    assert encode(batch).hex() == GOLDEN["commit"][0]
    assert len(encode(batch)) == 78


def test_a_second_version_of_the_leader_change() -> None:
    """Version 1 gives voters a directory id (KRF-04)."""
    voters = ({"voter_id": 3, "voter_directory_id": bytes(range(16))},)
    control = ControlRecord("leader_change", {"version": 1, "leader_id": 3, "voters": voters, "granting_voters": ()})
    written = encode_control(control)
    assert decode_control(written) == control
    assert written.value is not None
    assert len(written.value) == 2 + 4 + (1 + 4 + 16 + 1) + 1 + 1


def test_strings_and_arrays_come_back() -> None:
    """Compact strings and arrays hold what was put into them (KRF-09)."""
    control = ControlRecord("kraft_voters", {"version": 0, "voters": (VOTER, VOTER | {"endpoints": ()})})
    assert decode_control(encode_control(control)) == control
    long = VOTER | {"endpoints": ({"name": b"n" * 200, "host": b"", "port": 0},) * 3}
    control = ControlRecord("kraft_voters", {"version": 0, "voters": (long,) * 200})
    assert decode_control(encode_control(control)) == control


@pytest.mark.parametrize("type_", [7, 32767, -1, -(2**15)])
def test_unknown_types_are_no_error(type_: int) -> None:
    """An unknown type keeps its value as bytes, and its key version (TXN-11)."""
    key = b"\x00\x05" + type_.to_bytes(2, "big", signed=True)
    assert decode_control(record(key, b"any")) == ControlRecord(type_, b"any", 5)
    assert decode_control(record(key, None)) == ControlRecord(type_, None, 5)


def test_more_than_is_known_is_ignored() -> None:
    """Longer keys and marker values, and newer versions, are read as far as they are known (TXN-09, TXN-10, TXN-13)."""
    expected = ControlRecord("commit", {"version": 3, "coordinator_epoch": 9}, key_version=4)
    assert decode_control(record(b"\x00\x04\x00\x01more", b"\x00\x03\x00\x00\x00\x09more")) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (None, ("malformed", "TXN-19", "control.key", 0)),
        (b"", ("malformed", "TXN-09", "control.key", 0)),
        (b"\x00\x00\x00", ("malformed", "TXN-09", "control.key", 3)),
        (b"\xff\xff\x00\x00", ("malformed", "TXN-10", "control.key.version", 0)),
    ],
)
def test_keys_that_say_nothing(key: bytes | None, expected: tuple[str, str, str, int]) -> None:
    """A key needs four bytes and a version from 0 (TXN-09, TXN-10, TXN-19)."""
    assert failure(record(key)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ("malformed", "KRF-11", "control.value", 0)),
        (b"\x00\x00\x00\x00\x00", ("malformed", "TXN-13", "control.value", 5)),
        (b"\xff\xff\x00\x00\x00\x00", ("malformed", "TXN-13", "control.value.version", 0)),
    ],
)
def test_marker_values_that_say_nothing(value: bytes | None, expected: tuple[str, str, str, int]) -> None:
    """A marker value needs six bytes and a version from 0 (TXN-13)."""
    for key in (b"\x00\x00\x00\x00", b"\x00\x00\x00\x01"):
        assert failure(record(key, value)) == expected


@pytest.mark.parametrize("type_", range(2, 7))
def test_every_cut_of_a_kraft_value_is_refused(type_: int) -> None:
    """A value that ends early is refused at any byte, by a path below the value."""
    name = list(GOLDEN)[type_]
    found = decode(bytes.fromhex(GOLDEN[name][0]))[0].records[0]
    assert found.value
    for cut in range(len(found.value)):
        kind, rule, path, offset = failure(record(found.key, found.value[:cut]))
        assert kind in {"truncated", "malformed"}
        assert rule in {"KRF-08", "KRF-09", "VAR-11"}
        assert path.startswith("control.value.")
        assert offset <= cut


def test_a_nested_path() -> None:
    """A broken field in an array of an array is named like one in Python."""
    good = encode_control(ControlRecord("kraft_voters", {"version": 0, "voters": (VOTER, VOTER)}))
    assert good.value is not None
    at = good.value.rindex(b"localhost") - 1
    broken = good.value[:at] + b"\x7f" + good.value[at + 1 :]
    expected = ("malformed", "KRF-09", "control.value.voters[1].endpoints[0].host", at)
    assert failure(good._replace(value=broken)) == expected


@pytest.mark.parametrize(
    "control",
    [
        ControlRecord(7, b""),
        ControlRecord("unknown", {}),
        ControlRecord("commit", b"bytes"),
        ControlRecord("commit", None),
    ],
)
def test_unknown_types_are_not_written(control: ControlRecord) -> None:
    """Only known types with known fields can be written (TXN-12)."""
    with pytest.raises(RecordFormatError, match="cannot be written") as caught:
        encode_control(control)
    assert (caught.value.rule, caught.value.path) == ("TXN-12", "control.type")


@pytest.mark.parametrize(
    ("type_", "fields", "key_version"),
    [
        ("commit", {"version": 0}, 0),
        ("commit", {"version": 0, "coordinator_epoch": 2**31}, 0),
        ("commit", {"version": 0, "coordinator_epoch": 0}, 2**15),
        ("snapshot_footer", {}, 0),
        ("snapshot_footer", {"version": 2**15}, 0),
        ("leader_change", {"version": 0, "leader_id": 0, "voters": (None,), "granting_voters": ()}, 0),
        ("kraft_voters", {"version": 0, "voters": (VOTER | {"voter_directory_id": b"short"},)}, 0),
        ("kraft_voters", {"version": 0, "voters": (VOTER | {"voter_directory_id": "text"},)}, 0),
    ],
)
def test_fields_that_do_not_fit_are_not_written(type_: str, fields: dict[str, Any], key_version: int) -> None:
    """A missing field or one too large for its width is refused (TXN-12)."""
    with pytest.raises(RecordFormatError) as caught:
        encode_control(ControlRecord(type_, fields, key_version))
    assert (caught.value.rule, caught.value.path) == ("TXN-12", "control.value")
