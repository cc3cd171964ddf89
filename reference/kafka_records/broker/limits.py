"""Sizes that a topic allows."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_records.broker.config import TopicConfig
from kafka_records.broker.entries import Entry
from kafka_records.broker.errors import Thrown
from kafka_records.broker.releases import Behaviour


def check_sizes(batches: Sequence[Entry], config: TopicConfig, does: Behaviour, rule: str) -> None:
    """SIZ-01, SIZ-04: each batch against max.message.bytes."""
    if any(len(batch.data) > config.largest_batch(does) for batch in batches):
        raise Thrown("RecordTooLargeException", rule)


def check_segment(data: bytes, config: TopicConfig) -> None:
    """SIZ-06: what is appended against segment.bytes."""
    if len(data) > config.segment_bytes:
        raise Thrown("RecordBatchTooLargeException", "SIZ-06")
