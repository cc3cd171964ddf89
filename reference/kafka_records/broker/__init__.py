"""Appends of produced payloads by a broker: `append`, and the values that it takes and gives."""

from kafka_records.broker.append import append
from kafka_records.broker.config import TopicConfig
from kafka_records.broker.state import (
    AppendResult,
    BatchMetadata,
    LogState,
    ProducerState,
    Producing,
)

__all__ = [
    "AppendResult",
    "BatchMetadata",
    "LogState",
    "ProducerState",
    "Producing",
    "TopicConfig",
    "append",
]
