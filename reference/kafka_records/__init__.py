"""The executable specification of Kafka's record formats.

Pure functions over bytes: no I/O, no clock, no state.  Everybody may import
this package; it imports nothing of ours.
"""

from kafka_records.broker import (
    AppendResult,
    BatchMetadata,
    LogState,
    ProducerState,
    Producing,
    TopicConfig,
    append,
)
from kafka_records.control import ControlRecord, decode_control, encode_control
from kafka_records.errors import KINDS, Kind, RecordFormatError
from kafka_records.explain import Explanation, explain
from kafka_records.log import decode, encode
from kafka_records.model import DEFAULT, Batch, Header, Limits, Record

__all__ = [
    "DEFAULT",
    "KINDS",
    "AppendResult",
    "Batch",
    "BatchMetadata",
    "ControlRecord",
    "Explanation",
    "Header",
    "Kind",
    "Limits",
    "LogState",
    "ProducerState",
    "Producing",
    "Record",
    "RecordFormatError",
    "TopicConfig",
    "append",
    "decode",
    "decode_control",
    "encode",
    "encode_control",
    "explain",
]
