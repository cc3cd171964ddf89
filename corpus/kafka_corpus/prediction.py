"""The reference's predictions of a broker's answers to a scenario, step by step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from msgspec import UNSET

from kafka_corpus import recipes
from kafka_corpus.authoring.build import reseal, signed
from kafka_corpus.case import Recipe
from kafka_corpus.scenario import (
    ISOLATION,
    NEWEST_RELEASE,
    NOW,
    Aborted,
    AddPartitions,
    Clean,
    Edit,
    EndTransaction,
    Fetch,
    FindOffset,
    InitProducerId,
    Produce,
    ReadSegments,
    Restart,
    Scenario,
    Step,
    StepAnswer,
    WriteMarker,
    producer_id,
)
from kafka_records import (
    AppendResult,
    CleanerConfig,
    LogState,
    Producing,
    RecordFormatError,
    Round,
    TopicConfig,
    abort_index,
    append,
    compact,
    end_transaction,
    fetch_view,
    last_stable_offset,
    recover,
)
from kafka_records.broker.errors import INVALID_TXN_STATE
from kafka_records.broker.releases import MINORS, behaviour, minor_version
from kafka_records.compaction import Segment
from kafka_records.compaction.releases import cleaning
from kafka_records.constants import MAGIC_VALUE_V2
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET
from kafka_records.log import split_entries
from kafka_records.transactions import BUMPS_EPOCH, append_marker

# ProduceResponse: fields that newer versions add.
FIRST_WITH_TIME: Final = 2
FIRST_WITH_RECORD_ERRORS: Final = 8
LATEST, EARLIEST = -1, -2
# socket.request.max.bytes: a broker reads no more.
LARGEST_REQUEST: Final = 100 * 1024 * 1024
# A fetch reads one segment, and these settings decide where one ends.
ROLLING: Final = frozenset({"segment.bytes", "segment.ms", "segment.index.bytes"})
LARGEST_BATCH: Final = "max.message.bytes"
# After the first cleaning: the segment that was cleaned, and the filler's.  Later the cleaner groups segments.
UNGROUPED: Final = 2


class Unpredicted(Exception):
    """The reference makes no prediction for this."""


@dataclass(slots=True)
class _Producer:
    """A producer with an id from the broker, and its transaction on the partition."""

    id: int
    is_transactional: bool
    epoch: int = 0
    is_open: bool = False


@dataclass(slots=True)
class _Partition:
    """The state of a scenario's partition after the steps so far."""

    release: str
    settings: dict[str, str]
    log: LogState = field(default_factory=LogState)
    stored: bytes = b""
    producers: dict[str, _Producer] = field(default_factory=dict)
    # Whether the leader epoch is still that of a new partition.
    is_first_leader: bool = True
    # Base offsets of the segments: the first, those of fillers, and those that begin after fillers.
    segments: list[int] = field(default_factory=lambda: [0])
    # The last filler, and where the cleaner goes on.
    filler: int | None = None
    first_dirty_offset: int = 0
    # Whether the broker has shut down in order, and whether its recovery split a segment.
    is_flushed: bool = False
    is_split: bool = False
    # What the reference gives as reasons: rules, and what the cleaner did with each entry.
    reasons: list[Any] = field(default_factory=list)

    @property
    def config(self) -> TopicConfig:
        """The topic's settings, read."""
        return TopicConfig.of(self.settings)

    def took(self, result: AppendResult) -> None:
        """The log after an append."""
        self.reasons.append((result.rule, result.path, result.whole_request))
        self.log = result.log
        self.stored += result.stored


def predict(scenario: Scenario, release: str) -> tuple[StepAnswer, ...] | None:
    """The answers of a broker of *release*; None where the reference has no prediction (`silence` gives the reason)."""
    found = reasoned(scenario, release)
    return None if found is None else found[0]


def reasoned(scenario: Scenario, release: str) -> tuple[tuple[StepAnswer, ...], list[Any]] | None:
    """As `predict`, with the reasons of the reference in order: rules, and what the cleaner did with entries."""
    try:
        return _predicted(scenario, release)
    except Unpredicted:
        return None


def silence(scenario: Scenario, release: str) -> str:
    """Why the reference predicts nothing for *scenario* on *release*; empty if it does."""
    try:
        _predicted(scenario, release)
    except Unpredicted as error:
        return str(error)
    return ""


def _predicted(scenario: Scenario, release: str) -> tuple[tuple[StepAnswer, ...], list[Any]]:
    if minor_version(release) not in MINORS:
        raise Unpredicted(f"release {release}")
    partition = _Partition(release, scenario.config)
    return tuple(_prediction(step)(partition, step) for step in scenario.steps), partition.reasons


def _prediction(step: Step) -> Callable[[_Partition, Any], StepAnswer]:
    if type(step) not in _PREDICTIONS:
        raise Unpredicted(f"the answer to {type(step).__struct_config__.tag}")
    return _PREDICTIONS[type(step)]


def newest_predicted(scenario: Scenario) -> tuple[StepAnswer, ...] | None:
    """The reference's prediction for the newest release that *scenario* is about."""
    return predict(scenario, scenario.until or NEWEST_RELEASE)


def step_payload(step: Produce) -> bytes:
    """The bytes that the step produces, before a producer's id is put into them."""
    if step.data is not UNSET:
        return step.data
    if step.recipe is UNSET:
        raise ValueError("a payload is given as data or as a recipe")
    made = recipes.build_recipe(Recipe(step.recipe.name, step.recipe.args))
    assert isinstance(made, bytes)
    return made


def version_of(step: Produce, release: str) -> int:
    """The version of the request that is sent to *release*."""
    return min(step.api_version, behaviour(release).produce[1])


def _produce(partition: _Partition, step: Produce) -> StepAnswer:
    elsewhere = step.beside is not UNSET or step.again is not UNSET or step.topic
    if step.is_null() or elsewhere or step.acks not in (-1, 0, 1) or not partition.is_first_leader:
        raise Unpredicted("more than a payload")
    does, version = behaviour(partition.release), version_of(step, partition.release)
    payload = step_payload(step)
    if version < does.produce[0] or len(payload) > LARGEST_REQUEST:
        return StepAnswer(closed=True)
    producer = _producer(partition, step.producer) if step.producer else None
    if producer is not None:
        epoch = producer.epoch - step.epochs_back
        payload = signed(payload, producer.id, epoch)
    log = replace(partition.log, producing=_producing(step, producer))
    result = append(log, payload, partition.config, release=partition.release, api_version=version, now_ms=NOW)
    partition.took(result)
    if producer is not None and step.transactional and not result.error_code:
        producer.is_open = producer.is_open or (does.adds_partitions is not None and version >= does.adds_partitions)
    return _as_answer(result, version, step.acks)


def _producer(partition: _Partition, alias: str) -> _Producer:
    if alias not in partition.producers:
        raise Unpredicted("a producer that the broker did not name")
    return partition.producers[alias]


def _producing(step: Produce, producer: _Producer | None) -> Producing:
    if producer is None or not producer.is_transactional:
        return Producing(transactional_id=step.transactional, producer="unknown")
    return Producing(
        transactional_id=step.transactional,
        producer="other epoch" if step.epochs_back else "known",
        in_transaction=producer.is_open,
    )


def _as_answer(result: AppendResult, version: int, acks: int) -> StepAnswer:
    if acks == 0:
        # There is no response: an error closes the connection.
        return StepAnswer(data=result.stored, closed=result.error_code != 0)
    return StepAnswer(
        error_code=result.error_code,
        base_offset=result.base_offset,
        log_append_time=result.log_append_time if version >= FIRST_WITH_TIME else -1,
        record_errors=result.record_errors if version >= FIRST_WITH_RECORD_ERRORS else (),
        data=result.stored,
    )


def _init_producer_id(partition: _Partition, step: InitProducerId) -> StepAnswer:
    known = partition.producers.get(step.producer)
    if known is None:
        partition.producers[step.producer] = _Producer(producer_id(len(partition.producers)), step.transactional)
    elif known.is_open or not step.transactional:
        raise Unpredicted("the end of a transaction by another producer")
    else:
        known.epoch += 1
    return StepAnswer()


def _add_partitions(partition: _Partition, step: AddPartitions) -> StepAnswer:
    _producer(partition, step.producer).is_open = True
    return StepAnswer()


def _end_transaction(partition: _Partition, step: EndTransaction) -> StepAnswer:
    producer = _producer(partition, step.producer)
    bumps = behaviour(partition.release).transaction_version >= BUMPS_EPOCH
    if not producer.is_open and not bumps:
        return StepAnswer(error_code=INVALID_TXN_STATE)
    if not producer.is_open or not partition.is_first_leader:
        raise Unpredicted("a transaction without this partition")
    result = end_transaction(
        partition.log,
        producer.id,
        producer.epoch,
        commit=step.commit,
        coordinator_epoch=0,
        now_ms=NOW,
        release=partition.release,
        config=partition.config,
    )
    if result.error_code:
        raise Unpredicted("a marker that is not taken is sent again")
    partition.took(result)
    producer.is_open = False
    producer.epoch += bumps
    return StepAnswer(data=result.stored)


def _write_marker(partition: _Partition, step: WriteMarker) -> StepAnswer:
    if not partition.is_first_leader:
        raise Unpredicted("a marker after a restart")
    producer = _producer(partition, step.producer)
    result = append_marker(
        partition.log,
        producer.id,
        producer.epoch + step.epochs_ahead,
        commit=step.commit,
        coordinator_epoch=step.coordinator_epoch,
        now_ms=NOW,
        release=partition.release,
        config=partition.config,
        transaction_version=step.transaction_version,
    )
    partition.took(result)
    return StepAnswer(error_code=result.error_code, data=_with_known_epoch(result.stored))


# The bit of control batches in the attributes.
CONTROL: Final = 0x20
# The epoch of the coordinator in a marker, counted from its end; in answers it is 0.
_COORDINATOR_EPOCH: Final = -5


def _with_known_epoch(marker: bytes) -> bytes:
    return reseal(marker[:_COORDINATOR_EPOCH] + bytes(4) + marker[_COORDINATOR_EPOCH + 4 :]) if marker else b""


def _as_recorded(log: bytes) -> bytes:
    """*log* with coordinator epochs of 0 in its markers, up to an entry that is none."""
    done: list[bytes] = []
    with suppress(RecordFormatError):
        for start, end in split_entries(log):
            entry = log[start:end]
            done.append(_with_known_epoch(entry) if _is_marker(entry) else entry)
    return b"".join(done) + log[sum(map(len, done)) :]


def _is_marker(entry: bytes) -> bool:
    if entry[MAGIC_OFFSET] < MAGIC_VALUE_V2:
        return False
    header = BATCH_V2.values(entry)
    return bool(header["attributes"] & CONTROL and header["record_count"])


def _fetch(partition: _Partition, step: Fetch) -> StepAnswer:
    if ROLLING & partition.settings.keys() or partition.is_split or len(partition.segments) > UNGROUPED:
        raise Unpredicted("which segment an offset is in")
    end = partition.log.log_end_offset
    limits: dict[str, Any] = {} if step.max_bytes is UNSET else {"partition_max_bytes": step.max_bytes}
    result = fetch_view(
        partition.stored,
        fetch_offset=step.offset,
        high_watermark=end,
        api_version=min(step.api_version, behaviour(partition.release).fetch[1]),
        release=partition.release,
        isolation_level=ISOLATION[step.isolation],
        last_stable_offset=last_stable_offset(partition.stored, end),
        aborted=abort_index(partition.stored),
        config=partition.config,
        down_conversion=partition.settings.get("message.downconversion.enable") != "false",
        **limits,
    )
    partition.reasons.append(result.rule)
    if result.closed:
        return StepAnswer(closed=True)
    return StepAnswer(
        error_code=result.error_code,
        data=result.records,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        aborted=tuple(Aborted(who, first) for who, first in result.aborted or ()),
    )


def _find_offset(partition: _Partition, step: FindOffset) -> StepAnswer:
    end = partition.log.log_end_offset
    if step.timestamp == EARLIEST:
        return StepAnswer(base_offset=0)
    if step.timestamp != LATEST:
        raise Unpredicted("a time")
    is_committed = step.isolation == "read_committed"
    return StepAnswer(base_offset=last_stable_offset(partition.stored, end) if is_committed else end)


def _segment(partition: _Partition, _: ReadSegments) -> StepAnswer:
    return StepAnswer(data=partition.stored)


def _restart(partition: _Partition, step: Restart) -> StepAnswer:
    if step.files:
        raise Unpredicted("files that change while the broker is down")
    partition.is_first_leader = False
    partition.is_flushed = step.clean
    return StepAnswer()


def _edit(partition: _Partition, step: Edit) -> StepAnswer:
    rest = b"" if step.cut else partition.stored[step.at + len(step.data) :]
    edited = partition.stored[: step.at] + step.data + rest
    partition.is_first_leader = False
    if partition.filler is None:
        return _recovered(partition, edited)
    if not partition.is_flushed:
        raise Unpredicted("recovery of several segments")
    if not _is_framed(edited) or _is_across(partition, step.at, step.at + len(step.data)):
        raise Unpredicted("a closed segment that ends within an entry")
    # A segment that was closed before a clean shutdown is not looked at again.
    partition.stored = edited
    return StepAnswer(data=edited)


def _is_framed(log: bytes) -> bool:
    """Whether *log* is whole entries."""
    try:
        return sum(end - start for start, end in split_entries(log)) == len(log)
    except RecordFormatError:
        return False


def _is_across(partition: _Partition, start: int, end: int) -> bool:
    """Whether bytes from *start* to *end* go over the end of a segment, so that its file gets longer."""
    bases = {*partition.segments, *([] if partition.filler is None else [partition.filler + 1])}
    entries = (at for at, _ in split_entries(partition.stored))
    return any(start < at < end and int.from_bytes(partition.stored[at : at + 8]) in bases for at in entries)


def _recovered(partition: _Partition, edited: bytes) -> StepAnswer:
    result = recover(edited, release=partition.release)
    partition.reasons.append((result.rule, result.error, result.next_offset))
    if result.error:
        return StepAnswer(ended=True)  # SEG-13; the old bytes are restored
    partition.stored, partition.is_split = _as_recorded(result.data), result.splits
    partition.log = replace(partition.log, log_end_offset=result.next_offset)
    return StepAnswer(data=partition.stored)


def _clean(partition: _Partition, _: Clean) -> StepAnswer:
    if LARGEST_BATCH in partition.settings:
        raise Unpredicted("how many fillers end a segment")
    end, last = partition.log.log_end_offset, partition.filler
    rounds = [end]
    if last is not None and last + 1 < end:
        # A batch produced since began a segment, and the filler before it got a round of its own.
        partition.segments.append(last + 1)
        rounds = [last + 1, end]
    # The filler, which is in no answer.
    partition.log = replace(partition.log, log_end_offset=end + 1)
    # CLN-25: an open transaction keeps the cleaner away.
    is_open = any(producer.is_open for producer in partition.producers.values())
    silent = is_open or not all(_clean_round(partition, each) for each in rounds)
    partition.segments.append(end)
    partition.filler = end
    return StepAnswer(data=partition.stored, silent=silent)


def _clean_round(partition: _Partition, end: int) -> bool:
    """The log up to the offset *end* is cleaned; whether it can be (CLN-24)."""
    given = Round(
        first_dirty_offset=partition.first_dirty_offset,
        first_uncleanable_offset=end,
        high_watermark=partition.log.log_end_offset,
        segments=[Segment(base, NOW + at) for at, base in enumerate(partition.segments)],
    )
    config = CleanerConfig.of(partition.settings)
    try:
        cleaning(partition.release)
    except RecordFormatError as error:  # a release whose cleaner is not described
        raise Unpredicted(str(error)) from None
    result = compact(partition.stored, config, given, release=partition.release, now_ms=NOW)
    partition.reasons.append((result.rule, result.error, result.fates))
    if result.error:
        return False
    partition.stored, partition.first_dirty_offset = result.data, end
    return True


_PREDICTIONS: Final[dict[type[Step], Callable[[_Partition, Any], StepAnswer]]] = {
    Produce: _produce,
    InitProducerId: _init_producer_id,
    AddPartitions: _add_partitions,
    EndTransaction: _end_transaction,
    WriteMarker: _write_marker,
    Fetch: _fetch,
    FindOffset: _find_offset,
    ReadSegments: _segment,
    Restart: _restart,
    Edit: _edit,
    Clean: _clean,
}
