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
from kafka_records.compaction import (
    CleanerConfig,
    CompactResult,
    Fate,
    RecoverResult,
    Round,
    Segment,
    compact,
    recover,
)
from kafka_records.control import ControlRecord, decode_control, encode_control
from kafka_records.conversion import convert
from kafka_records.errors import KINDS, Kind, RecordFormatError
from kafka_records.explain import Explanation, explain
from kafka_records.fetching import Consumed, FetchResult, IndexEntry, committed, consume, fetch_view, offset_index
from kafka_records.log import decode, encode
from kafka_records.model import DEFAULT, Batch, Header, Limits, Record
from kafka_records.transactions import AbortedTransaction, AbortIndex, abort_index, end_transaction, last_stable_offset

__all__ = [
    "DEFAULT",
    "KINDS",
    "AbortIndex",
    "AbortedTransaction",
    "AppendResult",
    "Batch",
    "BatchMetadata",
    "CleanerConfig",
    "CompactResult",
    "Consumed",
    "ControlRecord",
    "Explanation",
    "Fate",
    "FetchResult",
    "Header",
    "IndexEntry",
    "Kind",
    "Limits",
    "LogState",
    "ProducerState",
    "Producing",
    "Record",
    "RecordFormatError",
    "RecoverResult",
    "Round",
    "Segment",
    "TopicConfig",
    "abort_index",
    "append",
    "committed",
    "compact",
    "consume",
    "convert",
    "decode",
    "decode_control",
    "encode",
    "encode_control",
    "end_transaction",
    "explain",
    "fetch_view",
    "last_stable_offset",
    "offset_index",
    "recover",
]
