"""Scenarios: steps on a fresh partition of a broker, and its answers.

A step is one request, or one thing that happens to the broker; an answer belongs
to each.  Answers do not depend on when they were recorded: a broker's time becomes
`NOW` in them, and producer ids that it assigned become those of `producer_id`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

# Milliseconds: replaces the time of the answering broker in answers.
NOW: Final = 1_795_000_000_000
# The producer id that stands for the first producer that a broker named, and so on.
FIRST_PRODUCER_ID: Final = 9_000
NEWEST: Final = 99  # a produce version that no release has yet

# The releases that v2 came with, and that took v0 and v1 last (KIP-896: produce 0 to 2 are gone in 4.0).
OLDEST: Final = "0.8.2.2"
NEWEST_RELEASE: Final = "4.4.0"
FIRST_OF_V2: Final = "0.11.0.3"
LAST_OF_V1: Final = "3.9.2"
FIRST_PRODUCE_OF_V2: Final = 3

Isolation = Literal["read_uncommitted", "read_committed"]
# The number of each in requests.
ISOLATION: Final[dict[Isolation, int]] = {"read_uncommitted": 0, "read_committed": 1}


class Made(msgspec.Struct, frozen=True):
    """A payload that is too large to keep: a function of `kafka_corpus.recipes` makes it."""

    name: str
    args: dict[str, Any]


class Produce(msgspec.Struct, frozen=True, tag_field="do", tag="produce", omit_defaults=True, kw_only=True):
    """Produce a payload; the answer holds the bytes that were stored.

    `api_version` is the newest version to be used: a release that has only older ones gets its newest.
    """

    data: Annotated[bytes, Meta(description="neither data nor recipe stand for null")] | UnsetType = UNSET
    recipe: Made | UnsetType = UNSET
    api_version: int = NEWEST
    acks: int = -1
    producer: Annotated[str, Meta(description="batches get this producer's id and epoch before they are sent")] = ""
    epochs_back: Annotated[int, Meta(description="how far the epoch of the batches is below the producer's")] = 0
    transactional: Annotated[bool, Meta(description="the request names the producer's transactional id")] = False
    again: Annotated[bytes, Meta(description="the same partition once more, in the same request")] | UnsetType = UNSET
    topic: Annotated[str, Meta(description="an internal topic in place of the scenario's own")] = ""
    beside: Annotated[bytes, Meta(description="a payload for another partition in the same request")] | UnsetType = (
        UNSET
    )

    def is_null(self) -> bool:
        """Whether the records are null, which is not the same as empty."""
        return self.data is UNSET and self.recipe is UNSET

    def is_plain(self) -> bool:
        """Whether the step is one payload without a producer, a second partition or another topic."""
        alone = self.again is UNSET and self.beside is UNSET and not (self.topic or self.producer or self.transactional)
        return alone and self.acks != 0 and not self.is_null()


class InitProducerId(msgspec.Struct, frozen=True, tag_field="do", tag="init_producer_id", omit_defaults=True):
    """Ask for a producer id; a second time for the next epoch of a transactional one."""

    producer: str
    transactional: bool = True


class AddPartitions(msgspec.Struct, frozen=True, tag_field="do", tag="add_partitions"):
    """Add the partition to the producer's transaction."""

    producer: str


class EndTransaction(msgspec.Struct, frozen=True, tag_field="do", tag="end_transaction"):
    """Commit or abort; the answer holds the marker that the partition got."""

    producer: str
    commit: bool


class WriteMarker(msgspec.Struct, frozen=True, tag_field="do", tag="write_marker", omit_defaults=True, kw_only=True):
    """Send a WriteTxnMarkers request, as a coordinator does; the answer holds the marker that was stored.

    Below `transaction_version` 2 the version of the request has no field for it, or the field is 0 or 1.
    """

    producer: str
    commit: bool
    epochs_ahead: Annotated[int, Meta(description="how far the marker's epoch is above the producer's")] = 1
    coordinator_epoch: int = 0
    transaction_version: int = 0


class Fetch(msgspec.Struct, frozen=True, tag_field="do", tag="fetch", omit_defaults=True, kw_only=True):
    """Fetch; `api_version` as for `Produce`, `max_bytes` for the partition."""

    offset: int = 0
    api_version: int = NEWEST
    isolation: Isolation = "read_uncommitted"
    max_bytes: int | UnsetType = UNSET


class FindOffset(msgspec.Struct, frozen=True, tag_field="do", tag="find_offset", omit_defaults=True):
    """ListOffsets: the first record at or after `timestamp`; -1: end of the log, -2: its start, -3: its latest time."""

    timestamp: int
    isolation: Isolation = "read_uncommitted"


class Clean(msgspec.Struct, frozen=True, tag_field="do", tag="clean"):
    """Run the cleaner over the whole log; the answer holds the segments after it; `silent` if it skips the log."""


class Restart(msgspec.Struct, frozen=True, tag_field="do", tag="restart", omit_defaults=True):
    """Kill the broker, or end it cleanly, and start it on its data, of which the partition's `files` are changed."""

    clean: bool = False
    files: Annotated[dict[str, bytes | None], Meta(description="new content by file name; null removes a file")] = {}


class Edit(msgspec.Struct, frozen=True, tag_field="do", tag="edit", omit_defaults=True):
    """Kill the broker, write `data` over the segments from byte `at` on (`cut` drops the rest), and start it again.

    The answer holds what it then leaves of them.
    """

    at: int
    data: bytes = b""
    cut: bool = False
    fatal: Annotated[bool, Meta(description="the broker may not start again; then the answer is `ended`")] = False


class ReadSegments(msgspec.Struct, frozen=True, tag_field="do", tag="segment"):
    """Read the segment files from the disk, end to end."""


class Dump(msgspec.Struct, frozen=True, tag_field="do", tag="dump"):
    """Have DumpLogSegments read the segments; the answer holds its lines about batches and records."""


Step = (
    Produce
    | InitProducerId
    | AddPartitions
    | EndTransaction
    | WriteMarker
    | Fetch
    | FindOffset
    | Clean
    | Restart
    | Edit
    | ReadSegments
    | Dump
)


class Aborted(msgspec.Struct, frozen=True):
    """An aborted transaction in a fetch response."""

    producer_id: int
    first_offset: int


class StepAnswer(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A broker's answer to one step.

    Offsets are -1, and lists empty, where an answer has none.
    """

    error_code: int = 0
    base_offset: Annotated[int, Meta(description="produce: of the first record; find_offset: the offset found")] = -1
    log_append_time: Annotated[int, Meta(description="NOW, the time of a duplicate's first copy, or -1")] = -1
    data: Annotated[bytes, Meta(description="bytes stored, fetched, or in the segments")] = b""
    record_errors: tuple[int, ...] = ()
    high_watermark: int = -1
    last_stable_offset: int = -1
    aborted: tuple[Aborted, ...] = ()
    text: Annotated[str, Meta(description="what DumpLogSegments says")] = ""
    beside: Annotated[int, Meta(description="produce: the error code of the other partition")] | UnsetType = UNSET
    closed: Annotated[bool, Meta(description="the broker closed the connection instead of answering")] = False
    silent: Annotated[bool, Meta(description="the broker did not answer, to this only")] = False
    ended: Annotated[bool, Meta(description="the broker itself ended, or answered nothing any more")] = False


Op = Literal["append", "fetch", "convert", "segment", "compact"]
# Before this version a fetch gets v0 or v1 only.
FIRST_FETCH_OF_V2: Final = 4
_OPS: Final[tuple[tuple[Op, tuple[type, ...]], ...]] = (
    ("compact", (Clean,)),
    ("segment", (ReadSegments, Dump, Edit, Restart)),
)
_FETCHING: Final = (Fetch, FindOffset, InitProducerId, EndTransaction, WriteMarker)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The steps to run on an empty partition.

    Attributes:
        steps: in order.
        config: the topic's settings, under Kafka's own names.
        since: the oldest release of the range; empty for the oldest of all.
        until: the newest; empty for the newest of all.
    """

    steps: tuple[Step, ...]
    config: dict[str, str] = field(default_factory=dict)
    since: str = ""
    until: str = ""

    def concerns(self, release: str) -> bool:
        """Whether *release* is in the range of the scenario."""
        number = release_number(release)
        newest = release_number(self.until) if self.until else (NEWEST,)
        return release_number(self.since or "0") <= number <= newest

    def bounded(self) -> Scenario:
        """With the oldest and the newest release set, where the payloads or their versions leave no choice."""
        is_v2 = any(step.api_version >= FIRST_PRODUCE_OF_V2 for step in self.produces())
        # KIP-98 brought v2 and transactions.
        is_v2 = is_v2 or any(isinstance(step, InitProducerId) for step in self.steps)
        since = self.since or (FIRST_OF_V2 if is_v2 else OLDEST)
        until = self.until or (LAST_OF_V1 if any(True for _ in self.produces()) and not is_v2 else "")
        return replace(self, since=since, until=until)

    def produces(self) -> Iterator[Produce]:
        """The steps that produce."""
        return (step for step in self.steps if isinstance(step, Produce))

    def restarts(self) -> bool:
        """Whether a step ends the broker."""
        return any(isinstance(step, Restart | Edit) for step in self.steps)

    def is_plain(self) -> bool:
        """Whether the scenario is one plain payload, which a testee's `append` can answer, too."""
        only = self.steps[0]
        return len(self.steps) == 1 and isinstance(only, Produce) and only.is_plain()


def op_of(steps: Sequence[Step]) -> Op:
    """The operation of a scenario, by the step furthest from a produce: cleaner, disk, old fetches, fetches."""
    for op, kinds in _OPS:
        if any(isinstance(step, kinds) for step in steps):
            return op
    old = any(isinstance(step, Fetch) and step.api_version < FIRST_FETCH_OF_V2 for step in steps)
    return "convert" if old else "fetch" if any(isinstance(step, _FETCHING) for step in steps) else "append"


def release_number(release: str) -> tuple[int, ...]:
    """Releases in their order.

    >>> release_number("0.10.2.2") < release_number("0.11.0.3") < release_number("4.4.0")
    True
    """
    return tuple(map(int, release.split(".")))


def producer_id(index: int) -> int:
    """The producer id that stands for the producer that was named as number *index*, from 0."""
    return FIRST_PRODUCER_ID + index
