"""The log cleaner and the recovery of a segment: `compact`, `recover`, and their values."""

from kafka_records.compaction.compact import compact
from kafka_records.compaction.model import CleanerConfig, CompactResult, Fate, Round, Segment
from kafka_records.compaction.recover import RecoverResult, recover

__all__ = [
    "CleanerConfig",
    "CompactResult",
    "Fate",
    "RecoverResult",
    "Round",
    "Segment",
    "compact",
    "recover",
]
