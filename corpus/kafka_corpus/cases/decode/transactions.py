"""Transactional data and its neighbours in a log (group TXN)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_corpus.authoring.batches import batch_of, bytes_of
from kafka_corpus.authoring.build import TIMESTAMP, grid, raw_message
from kafka_corpus.authoring.messages import record_of, single_batch
from kafka_corpus.cases.decode.control import marker
from kafka_corpus.registry import Draft, acceptable, case, invalid, must_refuse, must_write, valid
from kafka_records import Batch, Record
from kafka_records.constants import Compression

CODECS: dict[str, Compression] = {"none": "none", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
SENTINELS: dict[str, dict[str, Any]] = {
    "no-producer": {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1},
    "no-epoch": {"producer_epoch": -1},
    "no-sequence": {"base_sequence": -1},
}
PRODUCERS: dict[str, dict[str, Any]] = {
    "smallest": {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0},
    "largest": {"producer_id": 2**63 - 1, "producer_epoch": 2**15 - 1, "base_sequence": 2**31 - 1},
}


def data(*offsets: int, producer: int = 77, sequence: int = 0, **fields: Any) -> Batch:
    """A batch of transactional records at *offsets*."""
    records = [Record(offset, TIMESTAMP + offset, b"k%d" % offset, b"v%d" % producer) for offset in offsets]
    known = {"transactional": True, "producer_id": producer, "producer_epoch": 3, "base_sequence": sequence}
    return batch_of(*records, **(known | fields))


def plain(*offsets: int) -> Batch:
    """A batch of records outside any transaction."""
    return data(*offsets, transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1)


def end(type_: int, offset: int, *, producer: int = 77) -> Batch:
    """The marker that ends a transaction: 0 aborts, 1 commits."""
    record = marker(type_, offset=offset)
    return batch_of(record, transactional=True, control=True, producer_id=producer, producer_epoch=3, base_sequence=-1)


def log(*batches: Batch) -> Draft:
    """A log of *batches*, which has to be read as just those."""
    return valid(b"".join(map(bytes_of, batches)), *batches)


@case("TXN-01")
def golden() -> Draft:
    """A transactional batch that kafka-clients 3.9.0 wrote has bit 4 set, and the usual layout."""
    vector = bytes.fromhex(
        "000000000000000000000040ffffffff0288492c140010000000000000018bcfe568000000018bcfe56800000000000000004d0003"
        "0000000a000000011c000000066b65790a76616c756500"
    )
    batch = batch_of(
        Record(0, TIMESTAMP, b"key", b"value"), transactional=True, producer_id=77, producer_epoch=3, base_sequence=10
    )
    return valid(vector, batch)


@case("TXN-01", "CMP-01", each=grid(codec=CODECS, producer=PRODUCERS))
def transactional(shape: dict[str, Any]) -> Draft:
    """Bit 4 marks a transactional batch, whatever its codec and producer."""
    return log(data(5, 6, compression=shape["codec"], **shape["producer"]))


@case("TXN-01", "PID-01", each=grid(codec=CODECS, producer=PRODUCERS))
def write_transactional(shape: dict[str, Any]) -> Draft:
    """A transactional batch is written with bit 4 and its producer."""
    batch = data(7, 8, compression=shape["codec"], **shape["producer"])
    return must_write(batch, bytes_of(batch), compare="exact" if shape["codec"] == "none" else "masked")


@case("TXN-01", "PID-04", each=SENTINELS)
def transactional_without(fields: dict[str, Any]) -> Draft:
    """A transactional batch without producer, epoch or sequence is one that Kafka's writer refuses."""
    why = "MemoryRecordsBuilder#validateProducerState refuses to write it, no reader looks"
    batch = data(5, **fields)
    return acceptable(bytes_of(batch), batch, kinds=("malformed",), why=why)


@case("TXN-01", "PID-04", each=SENTINELS)
def write_transactional_without(fields: dict[str, Any]) -> Draft:
    """A transactional batch cannot be written without producer, epoch or sequence."""
    return must_refuse(data(5, **fields), "malformed")


@case("TXN-01", "ATT-04", each={"create": {}, "append": {"timestamp_type": "append"}})
def bits_do_not_touch(fields: dict[str, Any]) -> Draft:
    """Bit 4 makes a batch transactional, and changes neither its control bit nor its timestamp type."""
    records = data(5, 6).records
    batch = data(5, 6, **fields)
    if fields:
        batch = replace(batch, records=tuple(record._replace(timestamp=batch.max_timestamp) for record in records))
    assert not batch.control
    return log(batch)


@case("TXN-23", each={"abort": 0, "commit": 1})
def a_transaction(type_: int) -> Draft:
    """Under read_uncommitted a transaction's data is read alike, whether it was committed or aborted."""
    return log(data(0, 1), data(2, sequence=2), end(type_, 3))


@case("TXN-23")
def aborted_and_committed_by_turns() -> Draft:
    """One producer's aborted and committed transactions follow one another; the markers separate them."""
    return log(data(0), end(0, 1), data(2, sequence=1), end(1, 3), data(4, sequence=2), end(0, 5))


@case("TXN-23")
def two_producers_at_once() -> Draft:
    """Transactions of two producers overlap; a marker belongs to its producer id."""
    return log(
        data(0, producer=1),
        data(1, producer=2),
        end(0, 2, producer=2),
        data(3, producer=1, sequence=1),
        end(1, 4, producer=1),
    )


@case("TXN-23", "TXN-24")
def plain_data_between() -> Draft:
    """Data outside any transaction may stand between that of a transaction and its marker."""
    return log(data(0), plain(1, 2), data(3, sequence=1), plain(4), end(0, 5))


@case("TXN-23")
def transaction_still_open() -> Draft:
    """The data of a transaction that has no marker yet is read like any other."""
    return log(plain(0), data(1, 2))


@case("TXN-24", each={"first": 0, "middle": 1, "last": 2})
def marker_position(at: int) -> Draft:
    """A marker takes an offset like a record, wherever it stands in a fetch."""
    batches = [plain(0), plain(2)]
    batches.insert(at, end(1, (10, 1, 3)[at]))
    if at == 0:
        batches[1:] = [plain(11), plain(12)]
    return log(*batches)


@case("TXN-24", refs=("https://github.com/tulios/kafkajs/issues/403",))
def nothing_but_markers() -> Draft:
    """A fetch may hold control batches only; they still move the offset on."""
    return log(end(1, 100), end(0, 101, producer=78), end(1, 102))


@case("TXN-24", "FRM-07")
def partial_marker_at_the_end() -> Draft:
    """A marker that the fetch cut short is dropped like any partial batch."""
    whole = end(1, 1)
    return valid(bytes_of(data(0)) + bytes_of(whole)[:-1], data(0))


@case("TXN-23", "CRC-07")
def corrupt_marker() -> Draft:
    """A marker whose type changed on the way does not match its CRC: an abort must not become a commit."""
    bad = bytearray(bytes_of(end(0, 1)))
    assert bad[69] == 0
    bad[69] = 1
    return invalid(bytes_of(data(0)) + bytes(bad), "corrupt", before=(data(0),))


@case("TXN-07", "LEG-20", each={"transactional": 0x10, "control": 0x20, "both": 0x30})
def bits_below_v2(attributes: int) -> Draft:
    """Bits 4 and 5 of a v1 message make it neither transactional nor a control message."""
    batch = single_batch(record_of(1, 8, b"key"), 1)
    return valid(raw_message(1, b"key", offset=8, attributes=attributes), batch)
