"""The reference's predictions of a broker's answers to a scenario, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import product
from typing import Any, Final

from msgspec import UNSET

from kafka_corpus import recipes
from kafka_corpus.answer_diff import masked
from kafka_corpus.authoring.batches import PLAIN, TRANSACTIONAL, compressed, payload_of, some_records
from kafka_corpus.authoring.build import raw_batch, reseal, signed
from kafka_corpus.authoring.frames import pack
from kafka_corpus.authoring.messages import numbered, set_of
from kafka_corpus.case import Recipe
from kafka_corpus.scenario import (
    FIRST_PRODUCER_ID,
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
    BatchMetadata,
    CleanerConfig,
    LogState,
    ProducerState,
    Producing,
    RecordFormatError,
    Round,
    TopicConfig,
    abort_index,
    append,
    compact,
    convert,
    end_transaction,
    fetch_view,
    last_stable_offset,
    recover,
)
from kafka_records.broker.errors import INVALID_TXN_STATE
from kafka_records.broker.releases import MINORS, behaviour, minor_version
from kafka_records.broker.state import Verification
from kafka_records.compaction import Segment
from kafka_records.compaction.releases import cleaning
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2
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


# --- grids: the answers of a release to many requests ----------------------------------------------------------------

# Epochs of producers and markers, the largest int16 among them; and of coordinators.
EPOCHS: Final = (0, 1, 2, 32_766, 32_767)
COORDINATOR_EPOCHS: Final = (3, 4, 5)


def marker_grid(release: str) -> Iterator[Any]:
    """The answer of a leader to a marker, and its state then, for each state, epoch and version.

    A real producer gets to the last epochs only after tens of thousands of transactions.
    """
    states = (
        ProducerState(epoch=epoch, transaction_first_offset=first, coordinator_epoch=COORDINATOR_EPOCHS[1])
        for epoch in EPOCHS
        for first in (None, 0)
    )
    for state, epoch, coordinator, version in product(states, EPOCHS, COORDINATOR_EPOCHS, range(3)):
        known = LogState(log_end_offset=1).with_producer(FIRST_PRODUCER_ID, state)
        marker: dict[str, Any] = {"coordinator_epoch": coordinator, "transaction_version": version, "now_ms": NOW}
        result = append_marker(known, FIRST_PRODUCER_ID, epoch, commit=True, release=release, **marker)
        after = result.log.producers[FIRST_PRODUCER_ID]
        yield result.error_code, result.rule, after.epoch, after.transaction_first_offset, after.coordinator_epoch


# The largest int32, where sequences begin again; and the epoch that a log knows of a producer.
LAST: Final = 2_147_483_647
EPOCH: Final = 3
ABOUT_EPOCH: Final = (EPOCH - 1, EPOCH, EPOCH + 1)


def _known_batch(last_sequence: int, delta: int = 0) -> BatchMetadata:
    return BatchMetadata(last_sequence, 20, delta, NOW - 1)


# Batches that a log remembers: none, one of two records, as many as it can, and some where sequences begin again.
REMEMBERED: Final = (
    (), (_known_batch(4, 1),), tuple(map(_known_batch, range(5))), (_known_batch(LAST, 1),), (_known_batch(0, 1),),
)  # fmt: skip
SEQUENCES: Final = (-1, 0, 1, 3, 4, 5, 6, LAST - 1, LAST)


def producer_grid(release: str) -> Iterator[Any]:
    """The answer to a batch of each epoch and sequence, for each state of its producer."""
    states = [ProducerState(epoch=EPOCH, batches=batches) for batches in REMEMBERED]
    batches = product((None, 7), ABOUT_EPOCH, SEQUENCES, (1, 2), (0, TRANSACTIONAL))
    for first, epoch, sequence, count, bits in batches:
        payload = _of_producer(epoch, sequence, count, bits)
        log = LogState(log_end_offset=21, producing=Producing(transactional_id=True))
        yield appended(log, payload, release)
        for state in states:
            known = replace(state, transaction_first_offset=first)
            yield appended(log.with_producer(FIRST_PRODUCER_ID, known), payload, release)


def _of_producer(epoch: int, sequence: int, count: int = 1, bits: int = TRANSACTIONAL) -> bytes:
    fields = {"producer_id": FIRST_PRODUCER_ID, "producer_epoch": epoch, "base_sequence": sequence}
    return raw_batch(payload_of(some_records(count)), record_count=count, attributes=bits, **fields)


def pending_grid(release: str) -> Iterator[Any]:
    """The answer to a batch that a transaction has to vouch for, for each thing that is known of that."""
    known = ProducerState(epoch=EPOCH, batches=REMEMBERED[1])
    states = None, ProducerState(epoch=EPOCH), known, replace(known, transaction_first_offset=7)
    vouched = [Producing(transactional_id=True, producer=each) for each in ("known", "unknown", "other epoch")]
    vouched += [Producing(transactional_id=True, in_transaction=False), Producing()]
    awaited = [None, *(Verification(epoch=EPOCH, lowest_sequence=1, bumps_epoch=each) for each in (False, True))]
    awaited += [Verification(epoch=EPOCH - 1, lowest_sequence=0, bumps_epoch=True)]
    newest = behaviour(release).produce[1]
    versions = [each for each in (5, 9, 10, 11, 12) if newest - 2 <= each <= newest]
    for state, producing, pending in product(states, vouched, awaited):
        log = LogState(log_end_offset=21, producing=producing).with_verification(FIRST_PRODUCER_ID, pending)
        log = log if state is None else log.with_producer(FIRST_PRODUCER_ID, state)
        for epoch, sequence, version in product(ABOUT_EPOCH, (0, 1, 2, 5), versions):
            yield appended(log, _of_producer(epoch, sequence), release, version=version)
        yield appended(log, _of_producer(EPOCH, 5, bits=0), release)


def appended(
    log: LogState,
    payload: bytes,
    release: str,
    *,
    version: int | None = None,
    settings: Mapping[str, str] | None = None,
    now: int = NOW,
) -> Any:
    """The answer to *payload*, above compression, and what the log then knows of its producer."""
    version = behaviour(release).produce[1] if version is None else version
    config = TopicConfig.of(settings or {})
    result = append(log, payload, config, release=release, api_version=version, now_ms=now)
    after = result.log
    known = after.producers.get(FIRST_PRODUCER_ID), after.verifying.get(FIRST_PRODUCER_ID), after.log_end_offset
    result = replace(result, stored=above_compression(result.stored))
    return [getattr(result, each.name) for each in fields(result) if each.name != "log"], known


def above_compression(data: bytes) -> bytes:
    """*data* with what a codec makes of it left open; empty if it is cut off, or broken on purpose."""
    try:
        return masked(data)
    except RecordFormatError:
        return b""


def version_grid(release: str) -> Iterator[Any]:
    """The answers of a release to each version of the requests; the error for one that is not known."""
    if isinstance(error := or_error(partial(behaviour, release)), tuple):
        yield error
        return
    stored = raw_batch(PLAIN, record_count=2)
    payloads = stored, set_of(numbered(1, 0, 1), 1), compressed("zstd", pack("zstd", PLAIN))[0]
    for version, payload in product(range(-1, 15), payloads):
        yield appended(LogState(), payload, release, version=version)
    for version in range(-1, 20):
        yield _fetched(stored, release, version)
    for number in NUMBERS:
        yield or_error(partial(appended, LogState(log_end_offset=number), stored, release))
        yield or_error(partial(appended, LogState(leader_epoch=number), stored, release))
    for number in NUMBERS:
        yield or_error(partial(appended, LogState(), stored, release, now=number))


# About the bounds of what is passed beside the bytes.
NUMBERS: Final = tuple(
    bound + more for bound in (0, (1 << 31) - 1, (1 << 63) - (1 << 31), (1 << 63) - 1) for more in (-2, -1, 0, 1)
)


# Where a fetch of the log of a grid begins; its end is above all of them but one.
OFFSETS: Final = (-1, 0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 13)
END: Final = 12
FETCH_VERSIONS: Final = (0, 1, 2, 3, 4, 9, 10, 17)


def fetch_grid(log: bytes, release: str) -> Iterator[Any]:
    """The answers to fetches of *log*, for each offset, version, limit and state of the log."""
    newest = behaviour(release).fetch[1]
    versions = [each for each in FETCH_VERSIONS if each <= newest]
    for offset, version, level in product(OFFSETS, versions, (0, 1)):
        yield _fetched(log, release, version, fetch_offset=offset, isolation_level=level)
    sizes = [end - start for start, end in split_entries(log)][:2]
    limits = (-1, 0, 1, *(each + more for each in (sizes[0], sum(sizes)) for more in (-1, 0, 1)))
    names = "partition_max_bytes", "max_bytes"
    for name, limit, is_first, version, offset in product(names, limits, (False, True), (2, 3, 4, newest), (0, 1, 5)):
        yield _fetched(log, release, version, fetch_offset=offset, is_first=is_first, **{name: limit})
    states = product(OFFSETS, (5, END), (None, 3, END), (0, 2), (0, 1), (None, END))
    for offset, high, stable, start, level, end in states:
        given = {"high_watermark": high, "last_stable_offset": stable, "log_start_offset": start, "log_end_offset": end}
        yield _fetched(log, release, newest, fetch_offset=offset, isolation_level=level, **given)
    for version, is_converted, codec in product(versions, (False, True), ("producer", "zstd")):
        config = TopicConfig(compression=codec)
        yield _fetched(log, release, version, down_conversion=is_converted, config=config)


def _fetched(data: bytes, release: str, version: int, **given: Any) -> Any:
    given = {"fetch_offset": 0, "high_watermark": END} | given
    result = fetch_view(data, release=release, api_version=version, aborted=abort_index(data), **given)
    return replace(result, records=above_compression(result.records))


def conversion_grid(entries: Iterable[bytes], release: str) -> Iterator[Any]:
    """Stored *entries* for older clients, and for a newer log."""
    for data, magic in product(entries, (0, 1, 2)):
        yield or_error(partial(_converted, data, magic, release))


def _converted(data: bytes, magic: int, release: str) -> bytes:
    return above_compression(convert(data, magic, release=release))


DAY: Final = 86_400_000


def cleaning_grid(log: bytes, release: str) -> Iterator[Any]:
    """*log* after a round of cleaning, for each thing that the cleaner knows, and at each time that matters."""
    times = [(NOW + more, 0) for more in (-1, 0, 1)] + [(NOW, DAY)]
    segments = ((), (Segment(0, NOW - DAY - 1), Segment(4, NOW)), (Segment(0, NOW - DAY), Segment(2, NOW - DAY)))
    starts = product((0, 2, 5), ((None, None), (5, 3), (END, None)))
    first = compact(log, CleanerConfig(delete_retention_ms=0), release=release, now_ms=NOW)
    yield first.rules, above_compression(first.data)
    for (dirty, (end, high)), is_forgotten, written in product(starts, (False, True), segments):
        given = Round(first_dirty_offset=dirty, first_uncleanable_offset=end, high_watermark=high, segments=written)
        given = replace(given, producers={}) if is_forgotten else given
        for now, kept in times:
            config = CleanerConfig(delete_retention_ms=kept)
            result = compact(log, config, given, release=release, now_ms=now)
            yield replace(result, data=above_compression(result.data)), result.kept, result.dropped, result.rules


def recovery_grid(segments: Iterable[bytes], release: str) -> Iterator[Any]:
    """The remains of *segments* after recovery, named after each of some offsets."""
    for data, base in product(segments, (0, 1)):
        yield recover(data, release=release, base_offset=base)


# Values of each setting: at bounds, with spaces, and what Kafka does not take.
SETTINGS: Final[dict[str, tuple[str, ...]]] = {
    **{f"message.timestamp.{each}.max.ms": ("0", "1", str((1 << 63) - 1), "x") for each in ("before", "after")},
    "message.timestamp.difference.max.ms": ("0", "1", str((1 << 63) - 1), "x"),
    **dict.fromkeys(("max.message.bytes", "max.decompressed.message.bytes", "segment.bytes"), ("0", "1", "x")),
    "message.timestamp.type": ("CreateTime", " LogAppendTime ", "logappendtime", ""),
    "compression.type": ("producer", "uncompressed", "none", "gzip", "snappy", "lz4", "zstd", "x"),
    "delete.retention.ms": ("0", "1", "x"),
    "cleanup.policy": ("delete", "compact", "delete, compact", "compacted", ""),
    "message.format.version": ("0.8.2", "0.9.0", "0.9.9", "0.10.0", "0.10.0-IV0", "0.10.2", "0.11.0", "1.0", "9", "x"),
    "another": ("x",),
}


def setting_grid(release: str) -> Iterator[Any]:
    """The meaning of settings for *release*, alone and in pairs that concern one another."""
    times = [name for name in SETTINGS if name.endswith(".max.ms")]
    pairs = ({name: value, other: "5"} for name in times for value in SETTINGS[name] for other in times)
    for given in ({}, *({name: value} for name, values in SETTINGS.items() for value in values), *pairs):
        yield or_error(partial(_settings, given, release))


def _settings(given: Mapping[str, str], release: str) -> Any:
    config, does, cleaner = TopicConfig.of(given), behaviour(release), CleanerConfig.of(given)
    bounds = config.limits(does), config.largest_batch(does), config.largest_body(does), config.magic(does)
    return config, bounds, [config.target(each) for each in COMPRESSIONS], cleaner, cleaner.largest_body(does)


def or_error(said: Callable[[], Any]) -> Any:
    """The value that *said* gives, or the error."""
    try:
        return said()
    except RecordFormatError as error:
        return error.kind, error.path, error.offset, error.inner_offset, error.rule, error.message, len(error.batches)
