"""Input and result of the cleaner, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from kafka_records.broker.config import LARGEST_ARRAY, TopicConfig
from kafka_records.broker.errors import JavaName
from kafka_records.broker.releases import Behaviour
from kafka_records.broker.state import ProducerState
from kafka_records.errors import RecordFormatError
from kafka_records.transactions import AbortedTransaction

# LogConfig#DEFAULT_DELETE_RETENTION_MS: a day.
DEFAULT_DELETE_RETENTION_MS: Final = 86_400_000

Outcome = Literal["copied", "rewritten", "emptied", "dropped", "not cleaned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerConfig:
    """A topic's settings, as far as the cleaner's result depends on them.

    max.message.bytes is none of them: a batch that grows beyond it is written all the same.

    Attributes:
        delete_retention_ms: delete.retention.ms.
        max_decompressed_message_bytes: max.decompressed.message.bytes, in releases that have it.
    """

    delete_retention_ms: int = DEFAULT_DELETE_RETENTION_MS
    max_decompressed_message_bytes: int = LARGEST_ARRAY

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> CleanerConfig:
        """The configuration that *settings* describe, under Kafka's own names; others are left alone.

        Raises:
            RecordFormatError: kind `malformed`, for a value that Kafka does not take.
        """
        return cls(
            delete_retention_ms=_number(settings, "delete.retention.ms", DEFAULT_DELETE_RETENTION_MS),
            max_decompressed_message_bytes=TopicConfig.of(settings).max_decompressed_message_bytes,
        )

    def largest_body(self, does: Behaviour) -> int | None:
        """Most bytes that the body of a compressed record may take, in releases that bound it."""
        return self.max_decompressed_message_bytes if does.bounds_bodies else None


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    value = settings.get(name, str(default))
    try:
        return int(value)
    except ValueError:
        message = f"{name} is {value!r}"
        raise RecordFormatError("malformed", message, path=f"config.{name}", rule="CLN-08") from None


class Segment(NamedTuple):
    """A segment file; its time decides where batches carry none (CLN-21)."""

    base_offset: int
    last_modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Input of a round of cleaning beside the bytes; a field that is None follows from the bytes.

    Attributes:
        first_dirty_offset: where the last round ended, 0 before the first.
        first_uncleanable_offset: base offset of the active segment, or of the one that holds the last stable
            offset if that is an earlier one (CLN-25); None if all of the log is cleaned.
        high_watermark: the first offset that is not committed; None if all of the log is.
        producers: the producers that are still active, by id; those that have expired are left out.
        aborted: the index of aborted transactions.
        segments: the files, in order; none if there is one, written just now.
    """

    first_dirty_offset: int = 0
    first_uncleanable_offset: int | None = None
    high_watermark: int | None = None
    producers: Mapping[int, ProducerState] | None = None
    aborted: Sequence[AbortedTransaction] | None = None
    segments: Sequence[Segment] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """The cleaner's decision about one entry.

    Attributes:
        last_offset: its last offset, which names it.
        outcome: whether its bytes are kept, rewritten, only its header written, gone, or not looked at.
        kept: how many of its records stay.
        dropped: how many go; 0 where they were not even read.
        rules: what decided.
    """

    last_offset: int
    outcome: Outcome
    kept: int = 0
    dropped: int = 0
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """A log after a round of cleaning.

    Attributes:
        data: its bytes; those that were given if it could not be cleaned.
        fates: one for each entry of what was given.
        next_dirty_offset: where the next round begins.
        error: the Java exception that makes the partition uncleanable, if there is one (CLN-24).
        rule: id of the rule that it breaks; empty without an error.
    """

    data: bytes
    next_dirty_offset: int
    fates: tuple[Fate, ...] = ()
    error: JavaName | None = None
    rule: str = ""

    @property
    def kept(self) -> int:
        """How many of the cleaned records stay."""
        return sum(fate.kept for fate in self.fates)

    @property
    def dropped(self) -> int:
        """How many records were read and left out."""
        return sum(fate.dropped for fate in self.fates)

    @property
    def rules(self) -> tuple[str, ...]:
        """Ids of all rules that decided something."""
        return tuple(sorted({rule for fate in self.fates for rule in fate.rules}))
