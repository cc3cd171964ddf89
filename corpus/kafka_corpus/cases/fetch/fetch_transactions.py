"""Markers, and fetches of transactions that are open, committed or aborted (groups TXN and OFF)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import batch_of, bytes_of, some_records
from kafka_corpus.authoring.build import TIMESTAMP, grid, put, reseal
from kafka_corpus.authoring.steps import (
    ABORT,
    APPEND_TIME,
    COMMIT,
    aborts,
    added,
    assigned,
    begun,
    commits,
    data,
    ends,
    fetched,
    fetches,
    listed,
    marker_at,
    marks,
    marks_not,
    named,
    producer_batch,
    takes,
    writes,
)
from kafka_corpus.registry import Draft, case, scene, stored
from kafka_corpus.scenario import NOW, Clean, Fetch, FindOffset, Isolation, Produce, StepAnswer, producer_id
from kafka_records.broker.errors import INVALID_PRODUCER_EPOCH
from kafka_records.constants import Compression
from kafka_records.transactions import TRANSACTION_COORDINATOR_FENCED

CODECS: dict[str, Compression] = {"none": "none", "gzip": "gzip"}
ENDS = {"abort": ABORT, "commit": COMMIT}
COMMITTED: Isolation = "read_committed"


@case("TXN-14", "OFF-15", each=ENDS, refs=["A14"])
def marker(type_: int) -> Draft:
    """The marker of a transaction is a batch of 78 bytes after its data; the next data follows it."""
    batch = marker_at(2, type_)
    assert len(batch) == 78
    return scene(*begun(), writes(data(0, 2)), ends(batch, commit=type_ == COMMIT), takes(producer_batch(), 3))


@case("TXN-15", each=grid(type_=ENDS, codec={"gzip": "gzip", "lz4": "lz4"}))
def marker_on_a_compressed_topic(shape: dict[str, Any]) -> Draft:
    """On a topic whose batches are recompressed the markers stay uncompressed."""
    type_, codec = shape["type_"], shape["codec"]
    step = Produce(data=data(0, 2), producer="a", transactional=True)
    return scene(
        *begun(),
        (step, stored(assigned(data(0, 2, codec)))),
        ends(marker_at(2, type_), commit=type_ == COMMIT),
        config={"compression.type": codec},
        compare="masked",
    )


@case("TXN-15", "RWR-02", each=ENDS, refs=["A37"])
def marker_on_an_append_time_topic(type_: int) -> Draft:
    """On a LogAppendTime topic the marker has attributes 38, and the broker's time as its max timestamp."""
    step = Produce(data=data(0, 2), producer="a", transactional=True)
    batch = marker_at(2, type_, timestamp_type="append")
    assert batch[22] == 0x38
    return scene(
        *begun(),
        (step, stored(assigned(data(0, 2), appended=True), log_append_time=NOW)),
        ends(batch, commit=type_ == COMMIT),
        config=APPEND_TIME,
    )


@case("TXN-14", "OFF-15", each=ENDS)
def marker_of_a_transaction_without_data(type_: int) -> Draft:
    """A partition that was added to a transaction gets its marker, though nothing was written to it."""
    return scene(*begun(), ends(marker_at(0, type_), commit=type_ == COMMIT), takes(producer_batch(), 1))


@case("OFF-15", "OFF-13", "TXN-14")
def offsets_of_markers() -> Draft:
    """Every marker takes an offset, so that the offsets of the data have gaps."""
    log = (
        assigned(producer_batch())
        + assigned(data(0), 1)
        + marker_at(2, ABORT)
        + assigned(data(0, epoch=1), 3)
        + marker_at(4, COMMIT, epoch=2)
    )
    return scene(
        takes(producer_batch()),
        *begun(),
        writes(data(0), 1),
        aborts(2),
        added(),
        writes(data(0, epoch=1), 3),
        commits(4, epoch=2),
        fetches(log, 5),
    )


@case("OFF-13", "OFF-12", each={"first": 0, "second": 1, "marker": 2, "behind": 3, "end": 4})
def fetch_beside_a_marker(offset: int) -> Draft:
    """A fetch from any offset begins with the batch that has it, data or marker."""
    batches = {0: assigned(data(0, 2)), 2: marker_at(2, COMMIT), 3: assigned(producer_batch(), 3)}
    found = b"".join(batch for at, batch in batches.items() if at >= (offset if offset > 1 else 0))
    return scene(*begun(), writes(data(0, 2)), commits(2), takes(producer_batch(), 3), fetches(found, 4, offset))


def read(data_: bytes, end: int, stable: int, *first_offsets: int, offset: int = 0) -> tuple[Fetch, StepAnswer]:
    """A read_committed fetch, and the transactions that it says were aborted."""
    answer = fetched(data_, end, stable=stable, aborted=tuple(map(listed, first_offsets)))
    return Fetch(offset=offset, isolation=COMMITTED), answer


@case("TXN-23", each=CODECS)
def open_transaction(codec: Compression) -> Draft:
    """Under read_committed a fetch ends before the first open transaction, under read_uncommitted it does not."""
    batch = assigned(data(0, 2, codec), 1)
    after = assigned(producer_batch(), 3)
    before = assigned(producer_batch())
    return scene(
        takes(producer_batch()),
        *begun(),
        writes(data(0, 2, codec), 1),
        takes(producer_batch(), 3),
        read(before, 4, 1),
        (Fetch(), fetched(before + batch + after, 4, stable=1)),
    )


@case("TXN-23")
def nothing_behind_the_stable_offset() -> Draft:
    """A read_committed fetch from inside an open transaction brings nothing, and no error."""
    return scene(*begun(), writes(data(0, 2)), read(b"", 2, 0), read(b"", 2, 0, offset=1))


@case("TXN-23", each=CODECS)
def aborted_transaction(codec: Compression) -> Draft:
    """An aborted transaction is fetched under read_committed too, with its first offset in the list of the aborted."""
    log = assigned(producer_batch(2)) + assigned(data(0, 2, codec), 2) + marker_at(4, ABORT)
    return scene(takes(producer_batch(2)), *begun(), writes(data(0, 2, codec), 2), aborts(4), read(log, 5, 5, 2))


@case("TXN-23", each=CODECS)
def committed_transaction(codec: Compression) -> Draft:
    """A committed transaction is in no list."""
    log = assigned(data(0, 2, codec)) + marker_at(2, COMMIT)
    return scene(*begun(), writes(data(0, 2, codec)), commits(2), read(log, 3, 3))


@case("TXN-23")
def aborted_transaction_under_read_uncommitted() -> Draft:
    """Under read_uncommitted nothing is said about aborted transactions."""
    log = assigned(data(0)) + marker_at(1, ABORT)
    return scene(*begun(), writes(data(0)), aborts(1), fetches(log, 2))


@case("TXN-23", each={"its first": 0, "its second batch": 1, "its marker": 2})
def fetch_inside_an_aborted_transaction(offset: int) -> Draft:
    """A fetch from inside an aborted transaction still lists it, with a first offset before the fetch offset."""
    batches = [assigned(data(0)), assigned(data(1), 1), marker_at(2, ABORT), assigned(producer_batch(), 3)]
    return scene(
        *begun(),
        writes(data(0)),
        writes(data(1), 1),
        aborts(2),
        takes(producer_batch(), 3),
        read(b"".join(batches[offset:]), 4, 4, 0, offset=offset),
    )


@case("TXN-23")
def fetch_behind_an_aborted_transaction() -> Draft:
    """A fetch from after the marker lists the transaction no more."""
    return scene(
        *begun(),
        writes(data(0)),
        aborts(1),
        takes(producer_batch(), 2),
        read(assigned(producer_batch(), 2), 3, 3, offset=2),
    )


@case("TXN-23")
def aborted_and_committed_by_turns() -> Draft:
    """Of one producer's transactions only the aborted ones are listed, in the order of their offsets."""
    log = (
        assigned(data(0))
        + marker_at(1, ABORT)
        + assigned(data(0, epoch=1), 2)
        + marker_at(3, COMMIT, epoch=2)
        + assigned(data(0, epoch=2), 4)
        + marker_at(5, ABORT, epoch=3)
    )
    return scene(
        *begun(),
        writes(data(0)),
        aborts(1),
        added(),
        writes(data(0, epoch=1), 2),
        commits(3, epoch=2),
        added(),
        writes(data(0, epoch=2), 4),
        aborts(5, epoch=3),
        read(log, 6, 6, 0, 4),
    )


@case("TXN-23", "OFF-14")
def transactions_that_overlap() -> Draft:
    """The stable offset waits for the transaction that began first, even if one that began later has ended."""
    first, second, third = data(0), data(0, who=1), data(1)
    log = assigned(first) + assigned(second, 1) + assigned(third, 2)
    log += marker_at(3, ABORT, who=1) + marker_at(4, COMMIT)
    listed_second = fetched(log, 5, aborted=(listed(1, who=1),))
    return scene(
        *begun(),
        *begun("b"),
        writes(first),
        writes(second, 1, alias="b"),
        writes(third, 2),
        aborts(3, alias="b", who=1),
        read(b"", 4, 0),
        commits(4),
        (Fetch(isolation=COMMITTED), listed_second),
    )


@case("TXN-23", each={"far-behind": 3})
def aborted_transaction_behind_a_limited_fetch(base: int) -> Draft:
    """A limited fetch does not list what was aborted above the first entry of the offset index after its bytes.

    LogSegment#fetchUpperBoundOffset; after each 4,096 bytes the next append gets an entry (index.interval.bytes).
    """
    record = some_records(1)[0]._replace(value=b"-" * 5000)
    long = bytes_of(batch_of(record))
    most = len(long) + 100
    log = b"".join(assigned(long, offset) for offset in range(base)) + assigned(data(0), base)
    log += marker_at(base + 1, ABORT)
    answer = fetched(log[:most], base + 2)
    return scene(
        *(takes(long, offset) for offset in range(base)),
        *begun(),
        writes(data(0), base),
        aborts(base + 1),
        (Fetch(isolation=COMMITTED, max_bytes=most), answer),
    )


@case("TXN-23")
def aborted_transaction_behind_one_interval() -> Draft:
    """After exactly 4,096 bytes the offset index gets no entry yet, so that the transaction is below the next one."""
    record = some_records(1)[0]
    padding = 4096 - len(bytes_of(batch_of(record._replace(value=b"-" * 4000))))
    full = bytes_of(batch_of(record._replace(value=b"-" * (4000 + padding))))
    assert len(full) == 4096
    log = assigned(full, 0) + assigned(data(0), 1) + marker_at(2, ABORT)
    return scene(
        takes(full),
        *begun(),
        writes(data(0), 1),
        aborts(2),
        (Fetch(isolation=COMMITTED, max_bytes=4096), fetched(log[:4096], 3, aborted=(listed(1),))),
    )


def of_size(size: int, **fields: Any) -> bytes:
    """A batch of *size* bytes, about 4,000, with one record; *fields* are those of `Batch`."""
    (record,) = some_records(1)
    padding = size - len(bytes_of(batch_of(record._replace(value=b"-" * 4000), **fields)))
    return bytes_of(batch_of(record._replace(value=b"-" * (4000 + padding)), **fields))


@case("TXN-23")
def aborted_transactions_around_an_entry_of_the_index() -> Draft:
    """A limited fetch lists what was aborted below the entry of the offset index at its end, and nothing from there on.

    Each append gets an entry, since 4,097 bytes have come before it since the last.
    """
    producer = {"producer_id": producer_id(0), "producer_epoch": 0, "base_sequence": 0}
    first, second = of_size(4097), of_size(4097, transactional=True, **producer)
    log = assigned(first, 0) + assigned(second, 1)
    assert len(log) == 2 * 4097
    return scene(
        takes(first),
        *begun(),
        writes(second, 1),
        *begun("b"),
        writes(data(0, who=1), 2, alias="b"),
        aborts(3),
        aborts(4, alias="b", who=1),
        (Fetch(isolation=COMMITTED, max_bytes=len(log)), fetched(log, 5, aborted=(listed(1),))),
    )


@case("TXN-23", each={"read_uncommitted": "read_uncommitted", "read_committed": "read_committed"})
def end_of_the_log(isolation: Isolation) -> Draft:
    """Under read_committed the end of the log is where the first open transaction begins."""
    end = 3 if isolation == "read_uncommitted" else 1
    found = FindOffset(-1, isolation), StepAnswer(base_offset=end)
    return scene(takes(producer_batch()), *begun(), writes(data(0, 2), 1), found)


@case("TXN-23", "TXN-14")
def transaction_without_data_is_not_listed() -> Draft:
    """An aborted transaction that wrote nothing to the partition is not listed, though its marker is there."""
    return scene(*begun(), aborts(0), read(marker_at(0, ABORT), 1, 1))


@case("TXN-18", "CLN-15", each=ENDS)
def empty_control_batch(type_: int) -> Draft:
    """Of a marker that is the last trace of its producer the cleaner leaves the batch, with no record in it."""
    marked = marker_at(0, type_)
    left = put(put(marked[:61], "batch_length", 49), "record_count", 0)
    left = reseal(put(left, "base_timestamp", -1))
    return scene(
        *begun(),
        ends(marked, commit=type_ == COMMIT),
        (Clean(), StepAnswer(data=marker_at(0, type_, delete_horizon=NOW))),
        (Clean(), StepAnswer(data=left)),
        config={"delete.retention.ms": "0"},
    )


# The first release whose WriteTxnMarkers request has the version of transactions.
FIRST_STRICT = "4.3.1"


@case("TXN-21", "TXN-14", each=ENDS)
def marker_of_an_older_coordinator(type_: int) -> Draft:
    """A marker of an older coordinator epoch is fenced, one of the same or a newer epoch is written.

    ProducerAppendInfo#checkCoordinatorEpoch; a coordinator sends the epoch of its own partition's leader.
    """
    commit = type_ == COMMIT
    return scene(
        *begun(),
        writes(data(0)),
        marks(marker_at(1, type_), commit=commit, coordinator_epoch=5),
        marks_not(TRANSACTION_COORDINATOR_FENCED, commit=commit, coordinator_epoch=4),
        marks(marker_at(2, type_), commit=commit, coordinator_epoch=5),
        marks(marker_at(3, type_), commit=commit, coordinator_epoch=6),
    )


@case("TXN-21", "TXN-14")
def marker_of_a_coordinator_epoch_below_zero() -> Draft:
    """Before its first marker a producer's coordinator epoch is -1: a marker of -2 is fenced, one of -1 is written."""
    return scene(
        *begun(),
        writes(data(0)),
        marks_not(TRANSACTION_COORDINATOR_FENCED, coordinator_epoch=-2),
        marks(marker_at(1, COMMIT), coordinator_epoch=-1),
    )


@case("PID-14", "TXN-14", each=ENDS)
def marker_of_an_older_producer_epoch(type_: int) -> Draft:
    """A marker of an older epoch than the partition knows of the producer is refused, and writes nothing."""
    commit = type_ == COMMIT
    older = marks_not(INVALID_PRODUCER_EPOCH, commit=commit, epochs_ahead=1)
    return scene(*begun(), marks(marker_at(0, type_, epoch=2), commit=commit, epochs_ahead=2), older)


@case("PID-14", "TXN-14")
def marker_of_the_same_epoch() -> Draft:
    """Below transaction.version 2 a marker may have the epoch of the transaction that it ends."""
    log = assigned(data(0)) + marker_at(1, ABORT, epoch=0)
    return scene(
        *begun(),
        writes(data(0)),
        marks(marker_at(1, ABORT, epoch=0), commit=False, epochs_ahead=0),
        read(log, 2, 2, 0),
    )


@case("PID-14", "TXN-14", each={"3": 3, "300": 300, "32767": 32_767})
def marker_of_the_same_epoch_keeps_the_batches(epoch: int) -> Draft:
    """A marker of the producer's own epoch forgets no batch: one that is sent again is known.

    Kafka 0.11 answers it with the offset of the marker, the last that it knows of the producer.
    """
    step, answer = writes(data(0, transactional=False, epoch=epoch), transactional=False, epochs_back=-epoch)
    again = StepAnswer(base_offset=0, log_append_time=TIMESTAMP)
    return scene(
        named(),
        (step, answer),
        marks(marker_at(1, COMMIT, epoch=epoch), epochs_ahead=epoch),
        (step, again),
    )


@case("PID-14", "TXN-14", refs=["KIP-890"])
def marker_of_the_same_epoch_in_version_2() -> Draft:
    """Under transaction.version 2 a marker of the epoch of the open transaction itself is refused.

    ProducerAppendInfo#checkProducerEpoch.
    """
    same = marks_not(INVALID_PRODUCER_EPOCH, epochs_ahead=0, transaction_version=2)
    return scene(*begun(), writes(data(0)), same, since=FIRST_STRICT)


@case("PID-14", "TXN-14", refs=["KIP-890"])
def marker_that_comes_again_in_version_2() -> Draft:
    """Under transaction.version 2 a marker that comes again after the end of its transaction is written again."""
    return scene(
        *begun(),
        writes(data(0)),
        marks(marker_at(1, COMMIT), transaction_version=2),
        marks(marker_at(2, COMMIT), transaction_version=2),
        since=FIRST_STRICT,
    )
