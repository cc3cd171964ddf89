"""Damage to the batches of a log, each with what an audit has to find."""

import struct

from tests.pipeline.recorded import HOUR, NOW, Log, Place, damage, seal

from kafka_corpus.authoring.logs import on_disk
from kafka_records import Batch, Record, decode, encode


@damage
def a_flipped_bit(log: Log) -> list[Place]:
    """In the middle of compressed records; the producer's next batch follows one that cannot be read."""
    data = bytearray(log.batch(6))
    data[100] ^= 4
    log.put(6, bytes(data))
    place = log.at("unreadable", 6)
    index = ("index_boundary", log.other(1, ".index").name, log.places()[6][1])
    return [place, log.at("gap", 7), log.at("sequence_cleaned", 7), *([index] if index[2] in positions(log, 1) else [])]


def positions(log: Log, number: int) -> list[int]:
    """The positions in an offset index."""
    data = log.other(number, ".index").read_bytes()
    return [position for _, position in struct.iter_unpack(">ii", data)]


@damage
def a_size_of_zero(log: Log) -> list[Place]:
    """The rest of the segment is not read, and the audit reports this."""
    log.without_indexes()
    log.set(45, "batch_length", 0, sealed=False)
    place = ("unreadable", log.files[3].name, 11945)
    lost = [("gap", log.files[4].name, 0), ("sequence_cleaned", log.files[4].name, 0)]
    return [place, *lost]


@damage
def an_unknown_magic(log: Log) -> list[Place]:
    """The entries after it are read."""
    log.without_indexes()
    expected = [log.at("unreadable", 2), log.at("gap", 3), log.at("sequence_cleaned", 3)]
    log.set(2, "magic", 9, sealed=False)
    return expected


@damage
def a_segment_cut_short(log: Log) -> list[Place]:
    """In the middle of the log."""
    log.without_indexes()
    log.files[1].write_bytes(log.files[1].read_bytes()[:-10])
    # It was its producer's first, so no sequence is missed.
    return [("tail", log.files[1].name, 14141), ("gap", log.files[2].name, 0)]


@damage
def a_batch_being_written(log: Log) -> list[Place]:
    """At the end of the log, where a broker may be at work."""
    path = log.files[4]
    path.write_bytes(path.read_bytes() + log.batch(40)[:30])
    return [("active_tail", path.name, 2465)]


@damage
def preallocated_zeros(log: Log) -> list[Place]:
    """At the end of the log they are no damage."""
    path = log.files[4]
    path.write_bytes(path.read_bytes() + bytes(5000))
    return [("preallocated", path.name, 2465)]


@damage
def offsets_used_again(log: Log) -> list[Place]:
    """A base offset is not under the CRC; the next batch's gap is as large as the step back."""
    log.without_indexes()
    log.set(3, "base_offset", 190, sealed=False)
    return [log.at("overlap", 3), log.at("gap", 4)]


@damage
def a_batch_below_its_segment(log: Log) -> list[Place]:
    """A base offset that belongs to the segment before."""
    log.without_indexes()
    log.set(4, "base_offset", 0, sealed=False)
    return [log.at("below_segment", 4), log.at("overlap", 4), log.at("gap", 5)]


@damage
def a_batch_beyond_its_segment(log: Log) -> list[Place]:
    """An index could not name its offset."""
    log.without_indexes()
    log.set(49, "base_offset", 1951 + 2**31, sealed=False)
    return [log.at("beyond_segment", 49), log.at("gap", 49)]


@damage
def a_leader_epoch_that_goes_back(log: Log) -> list[Place]:
    """Also under no CRC."""
    log.set(20, "partition_leader_epoch", 3, sealed=False)
    return [log.at("leader_epoch_back", 21)]


@damage
def a_batch_that_is_gone(log: Log) -> list[Place]:
    """As a cleaner would take it: notes."""
    log.without_indexes()
    log.put(12, b"")
    return [log.at("gap", 12), log.at("sequence_cleaned", 12)]


@damage
def a_batch_lost_by_a_broker(log: Log) -> list[Place]:
    """Its offsets went to the next batches, so cleaning does not explain the loss."""
    log.without_indexes()
    size = log.get(12, "last_offset_delta") + 1
    log.put(12, b"")
    for number in range(12, 49):
        log.set(number, "base_offset", log.get(number, "base_offset") - size, sealed=False)
    for number in (2, 3, 4):
        path = log.files[number]
        for file in log.folder.glob(f"{path.stem}.*"):
            file.rename(file.with_name(f"{int(path.stem) - size:020}{file.suffix}"))
    expected = [log.at("sequence_break", 12)]
    # The index of aborted transactions still has the old offsets.
    lost = [number for number in range(49) if is_abort(log.batch(number))]
    return expected + [("aborted_missing", log.places()[number][0].name, -1) for number in lost]


def is_abort(data: bytes) -> bool:
    """Whether a batch is an abort marker."""
    (batch,) = decode(data)
    return batch.control and batch.records[0].key == b"\0\0\0\0"


@damage
def a_batch_stored_twice(log: Log) -> list[Place]:
    """It replaces the producer's next batch, whose sequence is then missing at the batch after it."""
    log.without_indexes()
    copy = bytearray(log.batch(2))
    copy[:8] = log.batch(3)[:8]
    log.put(3, bytes(copy))
    return [log.at("duplicate", 3), log.at("sequence_break", 4)]


@damage
def a_max_timestamp_that_is_too_small(log: Log) -> list[Place]:
    """A lookup by time would miss the record that has it."""
    log.without_indexes()
    log.set(13, "max_timestamp", log.get(13, "max_timestamp") - 1)
    return [log.at("max_timestamp", 13)]


@damage
def a_time_in_the_future(log: Log) -> list[Place]:
    """More than an hour ahead, which is what brokers allow."""
    log.without_indexes()
    ahead = NOW + HOUR + 1 - log.get(48, "base_timestamp")
    for field in ("base_timestamp", "max_timestamp"):
        log.set(48, field, log.get(48, field) + ahead)
    # The open transaction is old beside it.
    return [log.at("future", 48), log.at("hanging", 49)]


@damage
def a_negative_time(log: Log) -> list[Place]:
    """Below the -1 that stands for none."""
    log.without_indexes()
    log.set(48, "base_timestamp", -5)
    log.set(48, "max_timestamp", -1)
    return [log.at("negative_timestamp", 48)]


@damage
def a_transaction_that_hangs(log: Log) -> list[Place]:
    """Open for longer than any transaction may take."""
    log.without_indexes()
    for field in ("base_timestamp", "max_timestamp"):
        log.set(49, field, log.get(49, field) - 2 * HOUR)
    return [log.at("hanging", 49)]


@damage
def an_unknown_attribute(log: Log) -> list[Place]:
    """A bit without a meaning."""
    log.set(1, "attributes", 0x80)
    return [log.at("unknown_attributes", 1)]


@damage
def data_outside_of_a_transaction(log: Log) -> list[Place]:
    """The open transaction's producer writes without it."""
    data = bytearray(log.batch(49))
    data[:8] = (1993).to_bytes(8, "big")
    log.files[4].write_bytes(log.files[4].read_bytes() + data)
    log.set(50, "base_sequence", 161)
    log.set(50, "attributes", 0)
    return [log.at("mixed_transaction", 50)]


@damage
def a_sequence_that_is_not_there(log: Log) -> list[Place]:
    """A producer without a sequence; the next batch is compared with nothing."""
    log.without_snapshots()
    log.set(4, "base_sequence", -1)
    return [log.at("no_sequence", 4)]


@damage
def a_sequence_without_a_producer(log: Log) -> list[Place]:
    """Known of clients, and harmless."""
    log.without_snapshots()
    log.set(4, "producer_id", -1)
    return [log.at("not_idempotent", 4)]


@damage
def a_transaction_without_a_producer(log: Log) -> list[Place]:
    """No marker can end it."""
    log.set(49, "producer_id", -1)
    return [log.at("not_idempotent", 49), log.at("transaction_without_producer", 49)]


@damage
def an_epoch_that_goes_back(log: Log) -> list[Place]:
    """A fenced producer's batch was stored, and that of the epoch which fenced it does not begin at sequence 0."""
    log.set(2, "producer_epoch", 4)
    return [log.at("epoch_back", 3), log.at("epoch_start", 2)]


@damage
def a_long_silence(log: Log) -> list[Place]:
    """A producer that is forgotten may go on anywhere."""
    log.without_indexes()
    day = 86_400_000
    for number in (2, 3, 4):
        log.set(number, "base_timestamp", log.get(number, "base_timestamp") - day)
        log.set(number, "max_timestamp", log.get(number, "max_timestamp") - day)
    for number in (0, 1):
        log.set(number, "base_timestamp", log.get(number, "base_timestamp") - 3 * day)
        log.set(number, "max_timestamp", log.get(number, "max_timestamp") - 3 * day)
    log.set(2, "base_sequence", 7)
    log.set(3, "base_sequence", 68)
    log.set(4, "base_sequence", 129)
    return [log.at("sequence_expired", 2)]


@damage
def an_older_coordinator(log: Log) -> list[Place]:
    """A marker that should have been fenced."""
    data = bytearray(log.batch(26))
    data[-5:-1] = (9).to_bytes(4, "big")
    log.put(26, seal(bytes(data)))
    return [log.at("coordinator_back", 28)]


@damage
def a_marker_of_no_type(log: Log) -> list[Place]:
    """A broker does not start on it; and the transaction goes on."""
    data = bytearray(log.batch(48))
    assert bytes(data[66:70]) in (b"\0\0\0\0", b"\0\0\0\1")
    was_abort = data[69] == 0
    data[69] = 3
    log.put(48, seal(bytes(data)))
    assert was_abort
    return [log.at("marker_broken", 48)]


def marker(**fields: object) -> bytes:
    """A batch with two end markers."""
    records = tuple(Record(1991 + at, NOW - HOUR, b"\0\0\0\0", b"\0\0\0\0\0\0") for at in range(2))
    return encode(
        Batch(magic=2, base_offset=1991, last_offset=1992, max_timestamp=NOW - HOUR, producer_id=7, producer_epoch=0,
              control=True, transactional=True, partition_leader_epoch=0, records=records, **fields)  # type: ignore[arg-type]
    )  # fmt: skip


@damage
def a_marker_with_two_records(log: Log) -> list[Place]:
    """Brokers and consumers look at the first."""
    log.without_indexes()
    log.put(49, b"")
    log.put(48, marker())
    return [log.at("marker_records", 48)]


@damage
def a_marker_that_is_compressed(log: Log) -> list[Place]:
    """No coordinator writes one."""
    log.without_indexes()
    log.put(49, b"")
    log.put(48, marker(compression="gzip"))
    return [log.at("marker_records", 48), log.at("marker_compressed", 48)]


def at_deltas(*deltas: int) -> bytes:
    """The first batch, with three records at these offset deltas."""
    records = (Record(delta, 1795276061986, b"k", b"v") for delta in deltas)
    return on_disk(*records, base_offset=0, last_offset=68, producer_id=0, producer_epoch=0, base_sequence=0)


@damage
def offsets_in_disorder(log: Log) -> list[Place]:
    """Within a batch, where a broker does not look."""
    log.without_indexes()
    log.put(0, at_deltas(0, 5, 5))
    return [log.at("offsets_disorder", 0)]


@damage
def a_record_outside_of_its_batch(log: Log) -> list[Place]:
    """Its offset belongs to the next batch."""
    log.without_indexes()
    log.put(0, at_deltas(0, 5, 69))
    return [log.at("offset_outside", 0)]


@damage
def a_last_offset_below_the_base(log: Log) -> list[Place]:
    """Which leaves no range at all."""
    log.without_indexes()
    log.set(49, "last_offset_delta", -3)
    return [log.at("negative_range", 49)]


@damage
def a_wrapper_with_another_time(log: Log) -> list[Place]:
    """v1, whose wrapper should have the largest time of its messages."""
    records = tuple(Record(1993 + at, NOW - HOUR + at, b"k", b"v") for at in range(3))
    wrapper = encode(Batch(magic=1, base_offset=1993, last_offset=1995, max_timestamp=NOW - HOUR, compression="gzip",
                           records=records))  # fmt: skip
    log.files[4].write_bytes(log.files[4].read_bytes() + wrapper)
    return [log.at("wrapper_timestamp", 50)]
