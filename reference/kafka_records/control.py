"""Control records: the meaning of the records of a control batch.

The key says which type (TXN-09), the value belongs to the type.  Transaction
markers have a fixed value (TXN-13); KRaft's are messages of the flexible kind
(KRF-02 to KRF-08).  Unknown types are to be ignored, not refused (TXN-11), so
their value stays bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Any, Final

from kafka_records.errors import RecordFormatError
from kafka_records.model import Record
from kafka_records.schema import Schema, decode_struct, encode_struct

# TXN-11, A13: ControlRecordType; the names stand at their type ids.
CONTROL_TYPES: Final = (
    "abort",
    "commit",
    "leader_change",
    "snapshot_header",
    "snapshot_footer",
    "kraft_version",
    "kraft_voters",
)
TRANSACTION_MARKERS: Final = ("abort", "commit")
KEY: Final = Struct(">hh")  # version, type
MARKER_VALUE: Final = Struct(">hi")  # version, coordinator epoch
VERSION: Final = Struct(">h")

VOTER_V0: Final[Schema] = (("voter_id", "i32"),)
VOTER_V1: Final[Schema] = (*VOTER_V0, ("voter_directory_id", "uuid"))  # KRF-04, KIP-853
ENDPOINT: Final[Schema] = (("name", "string"), ("host", "string"), ("port", "u16"))
VERSIONS: Final[Schema] = (("min_supported_version", "i16"), ("max_supported_version", "i16"))


def leader_change(voter: Schema) -> Schema:
    """LeaderChangeMessage.json (KRF-02), whose version 1 has a longer voter (KRF-04)."""
    return (("version", "i16"), ("leader_id", "i32"), ("voters", [voter]), ("granting_voters", [voter]))


# KRF-05 to KRF-08: the others have had one version.
SCHEMAS: Final[dict[str, Schema]] = {
    "leader_change": leader_change(VOTER_V0),
    "snapshot_header": (("version", "i16"), ("last_contained_log_timestamp", "i64")),
    "snapshot_footer": (("version", "i16"),),
    "kraft_version": (("version", "i16"), ("kraft_version", "i16")),
    "kraft_voters": (
        ("version", "i16"),
        (
            "voters",
            [
                (
                    ("voter_id", "i32"),
                    ("voter_directory_id", "uuid"),
                    ("endpoints", [ENDPOINT]),
                    ("kraft_version_feature", VERSIONS),
                )
            ],
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """A control record.

    Attributes:
        type: a name of `CONTROL_TYPES`, or the id of an unknown type.
        value: the fields of its value by name; bytes (or None) for an unknown type.
        key_version: 0 in all that Kafka has written so far.
    """

    type: str | int
    value: dict[str, Any] | bytes | None
    key_version: int = 0


def decode_control(record: Record) -> ControlRecord:
    """The content of a record in a control batch, of which KRaft may write several (KRF-10).

    Raises:
        RecordFormatError: key or value is too short or contradicts itself; its
            offset counts from the start of the key or value.
    """
    try:
        version, type_ = decode_key(record.key)
        value = record.value if isinstance(type_, int) else decode_value(type_, record.value)
    except RecordFormatError as error:
        raise error.inside("control") from None
    return ControlRecord(type_, value, version)


def decode_key(key: bytes | None) -> tuple[int, str | int]:
    """The key's version and type; what follows them is ignored (TXN-09)."""
    if key is None:
        # TXN-19: Kafka runs into a NullPointerException here.
        raise RecordFormatError("malformed", "a control record without a key", path="key", offset=0, rule="TXN-19")
    if len(key) < KEY.size:
        message = f"a control key of {len(key)} bytes, the least is {KEY.size}"
        raise RecordFormatError("malformed", message, path="key", offset=len(key), rule="TXN-09")
    version, type_ = KEY.unpack_from(key)
    if version < 0:
        # TXN-10: versions above 0 are read as 0.
        message = f"control key version {version}"
        raise RecordFormatError("malformed", message, path="key.version", offset=0, rule="TXN-10")
    return version, CONTROL_TYPES[type_] if 0 <= type_ < len(CONTROL_TYPES) else type_


def decode_value(type_: str, value: bytes | None) -> dict[str, Any]:
    """The fields of the value of a known type."""
    try:
        if value is None:
            raise RecordFormatError("malformed", "a control record without a value", offset=0, rule="KRF-11")
        if type_ in TRANSACTION_MARKERS:
            return decode_marker(value)
        return decode_struct(value, 0, schema_of(type_, value))[0]
    except RecordFormatError as error:
        raise error.inside("value") from None


def decode_marker(value: bytes) -> dict[str, Any]:
    """An end marker's value: version and coordinator epoch, the rest ignored (TXN-13)."""
    if len(value) < MARKER_VALUE.size:
        message = f"an end marker value of {len(value)} bytes, the least is {MARKER_VALUE.size}"
        raise RecordFormatError("malformed", message, offset=len(value), rule="TXN-13")
    version, coordinator_epoch = MARKER_VALUE.unpack_from(value)
    if version < 0:
        message = f"end marker version {version}"
        raise RecordFormatError("malformed", message, path="version", offset=0, rule="TXN-13")
    return {"version": version, "coordinator_epoch": coordinator_epoch}


def schema_of(type_: str, value: bytes) -> Schema:
    """The schema of a KRaft value; only a leader change has had a second version so far."""
    if type_ == "leader_change" and len(value) >= VERSION.size and VERSION.unpack_from(value)[0] >= 1:
        return leader_change(VOTER_V1)
    return SCHEMAS[type_]


def encode_control(control: ControlRecord, *, offset: int = 0, timestamp: int = -1) -> Record:
    """The record that stands for *control* in a control batch.

    Raises:
        RecordFormatError: the type is unknown (TXN-12), or a field is missing or too large.
    """
    if not isinstance(control.type, str) or control.type not in CONTROL_TYPES or not isinstance(control.value, dict):
        message = f"control type {control.type} cannot be written"
        raise RecordFormatError("malformed", message, path="control.type", rule="TXN-12")
    try:
        key = KEY.pack(control.key_version, CONTROL_TYPES.index(control.type))
        return Record(offset, timestamp, key, encode_control_value(control.type, control.value))
    except (KeyError, TypeError, StructError) as error:
        message = f"{control.type}: {error!r}"
        raise RecordFormatError("malformed", message, path="control.value", rule="TXN-12") from None


def encode_control_value(type_: str, fields: dict[str, Any]) -> bytes:
    """The bytes of a control value."""
    if type_ in TRANSACTION_MARKERS:
        return MARKER_VALUE.pack(fields["version"], fields["coordinator_epoch"])
    return encode_struct(fields, schema_of(type_, VERSION.pack(fields["version"])))
