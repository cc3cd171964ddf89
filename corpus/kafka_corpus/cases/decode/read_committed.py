"""Records that a read_committed consumer skips, given the list of aborted transactions (groups TXN, OFF and CON).

The broker sends all batches up to the last stable offset, and names the
aborted transactions among them by producer id and first offset; the client
leaves them out until the producer's abort marker.  To a codec without such a
consumer these are batches like all others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from kafka_corpus.authoring.batches import batch_of, bytes_of
from kafka_corpus.authoring.build import TIMESTAMP, grid, raw_batch
from kafka_corpus.authoring.frames import codec_id
from kafka_corpus.authoring.messages import numbered, set_of, single_batches, wrapped
from kafka_corpus.registry import Draft, case, reads_committed
from kafka_records import Batch, Record
from kafka_records.constants import Compression

CODECS: dict[str, Compression] = {"none": "none", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
ABORT, COMMIT = 0, 1
# Producer ids.
ONE: Final = 1000
TWO: Final = 2000
# The key of an abort marker, which is the int32 0: an application may have such keys too.
ABORT_KEY: Final = bytes(4)
ENDS = {"abort": ABORT, "commit": COMMIT}


def data(first: int, producer: int = ONE, *, count: int = 1, key: bytes | None = None, **fields: object) -> Batch:
    """Records of a transaction, from offset *first* on."""
    name = b"key" if key is None else key
    records = [Record(first + at, TIMESTAMP + at, name, b"%d of %d" % (first + at, producer)) for at in range(count)]
    header: dict[str, object] = {"transactional": True, "producer_id": producer, "producer_epoch": 1}
    return batch_of(*records, **(header | {"base_sequence": 0} | fields))


def plain(offset: int) -> Batch:
    """A record of no transaction."""
    return batch_of(Record(offset, TIMESTAMP, b"plain", b"%d" % offset))


def marker(offset: int, type_: int, producer: int = ONE, *, version: int = 0) -> Batch:
    """The end of a transaction of *producer*."""
    key = version.to_bytes(2, "big") + type_.to_bytes(2, "big")
    record = Record(offset, TIMESTAMP, key, bytes(6))
    return batch_of(record, transactional=True, control=True, producer_id=producer, producer_epoch=1)


def fetch(*batches: Batch, aborted: tuple[tuple[int, int], ...], seen: tuple[int, ...]) -> Draft:
    """The fetched bytes, the aborted producers, and the offsets that are committed."""
    return reads_committed(b"".join(map(bytes_of, batches)), *batches, aborted=aborted, seen=seen)


@case("TXN-23", "TXN-22", each=CODECS)
def aborted_transaction(codec: Compression) -> Draft:
    """The batches of an aborted transaction are left out, and those after its marker are not."""
    first, second = data(0, count=2, compression=codec), data(2, compression=codec)
    return fetch(first, second, marker(3, ABORT), plain(4), aborted=((ONE, 0),), seen=(4,))


@case("TXN-22", "TXN-24")
def committed_transaction() -> Draft:
    """A committed transaction is seen whole, and its marker is not."""
    return fetch(data(0, count=2), marker(2, COMMIT), plain(3), aborted=(), seen=(0, 1, 3))


@case("TXN-23")
def marker_not_fetched_yet() -> Draft:
    """A fetch that ends before the abort marker gives no record of the transaction."""
    return fetch(plain(0), data(1, count=2), data(3), aborted=((ONE, 1),), seen=(0,))


@case("TXN-23")
def committed_behind_aborted() -> Draft:
    """The next transaction of the same producer is seen, if it was committed."""
    batches = data(0), marker(1, ABORT), data(2, count=2), marker(4, COMMIT)
    return fetch(*batches, aborted=((ONE, 0),), seen=(2, 3))


@case("TXN-23")
def aborted_behind_committed() -> Draft:
    """A transaction that was committed before an aborted one of the same producer is seen."""
    batches = data(0), marker(1, COMMIT), data(2), marker(3, ABORT), data(4), marker(5, COMMIT)
    return fetch(*batches, aborted=((ONE, 2),), seen=(0, 4))


@case("TXN-23")
def two_producers() -> Draft:
    """Transactions of two producers at once, of which one is aborted, are kept apart."""
    batches = data(0), data(1, TWO), data(2), marker(3, ABORT), data(4, TWO), marker(5, COMMIT, TWO)
    return fetch(*batches, aborted=((ONE, 0),), seen=(1, 4))


@case("TXN-23")
def marker_of_another_producer() -> Draft:
    """A marker ends the transaction of its own producer only, whatever it says."""
    batches = data(0), data(1, TWO), marker(2, ABORT, TWO), data(3), marker(4, COMMIT, TWO), data(5), marker(6, ABORT)
    return fetch(*batches, plain(7), aborted=((TWO, 1), (ONE, 0)), seen=(7,))


@case("TXN-23")
def listed_by_their_ends() -> Draft:
    """Aborted transactions are listed as they ended, and not as they began."""
    batches = data(0), data(1, TWO), marker(2, ABORT, TWO), data(3), marker(4, ABORT), plain(5)
    return fetch(*batches, aborted=((TWO, 1), (ONE, 0)), seen=(5,))


@case("TXN-23", "OFF-12")
def both_began_before_the_fetch() -> Draft:
    """A fetch may begin in the middle of several transactions that began before it."""
    batches = data(5, TWO), data(6), marker(7, ABORT), data(8, TWO), marker(9, ABORT, TWO), plain(10)
    return fetch(*batches, aborted=((ONE, 0), (TWO, 1)), seen=(10,))


@case("TXN-23")
def two_begin_in_one_batch() -> Draft:
    """A client applies each aborted transaction whose first offset is not above a batch's last offset."""
    batches = data(3, TWO, count=4), data(7), marker(8, ABORT), marker(9, ABORT, TWO), plain(10)
    return fetch(*batches, aborted=((ONE, 2), (TWO, 3)), seen=(10,))


@case("TXN-23", "TXN-09", refs=("kafkajs 2.2.4: filterAbortedMessages",), each=CODECS)
def key_like_that_of_a_marker(codec: Compression) -> Draft:
    """A record whose key is the int32 0 is no abort marker, which is a record of a control batch.

    kafkajs takes it for one, and gives the rest of the aborted transaction.
    """
    first = data(0, key=ABORT_KEY, compression=codec)
    return fetch(first, data(1, count=2, compression=codec), marker(3, ABORT), plain(4), aborted=((ONE, 0),), seen=(4,))


@case("TXN-10", "TXN-23")
def marker_with_a_newer_key() -> Draft:
    """The key of an abort marker may be of a newer version, and ends the transaction all the same."""
    batches = data(0), marker(1, ABORT, version=1), data(2), marker(3, COMMIT)
    return fetch(*batches, aborted=((ONE, 0),), seen=(2,))


@case("TXN-18", "TXN-23", "CLN-15", each={"aborted": ((ONE, 0),), "committed": ()})
def control_batch_without_records(aborted: tuple[tuple[int, int], ...]) -> Draft:
    """A control batch whose record was cleaned ends no transaction, and is no error."""
    records: dict[str, object] = {"transactional": True, "control": True, "producer_id": TWO, "producer_epoch": 1}
    empty = batch_of(base_offset=1, last_offset=1, **records)
    batches = data(0), empty, data(2), marker(3, ABORT if aborted else COMMIT), plain(4)
    return fetch(*batches, aborted=aborted, seen=(4,) if aborted else (0, 2, 4))


@case("TXN-23", "OFF-11")
def data_that_was_cleaned() -> Draft:
    """An aborted batch of which nothing is left is passed over with its offsets."""
    fields: dict[str, object] = {"transactional": True, "producer_id": ONE, "producer_epoch": 1, "base_sequence": 0}
    empty = batch_of(base_offset=0, last_offset=2, **fields)
    return fetch(empty, data(3), marker(4, ABORT), plain(5), aborted=((ONE, 0),), seen=(5,))


@case("OFF-11", "CLN-15", "TXN-23", each={"one": 1, "two": 2})
def nothing_but_what_was_cleaned(count: int) -> Draft:
    """A fetch of batches without records moves the consumer on, though there is nothing to give.

    kafkajs repeats the same fetch for ever.
    """
    fields: dict[str, object] = {"transactional": True, "producer_id": ONE, "producer_epoch": 1, "base_sequence": 0}
    batches = [batch_of(base_offset=3 * at, last_offset=3 * at + 2, **fields) for at in range(count)]
    return fetch(*batches, aborted=(), seen=())


@case("TXN-23", each=ENDS)
def idempotent_but_not_transactional(type_: int) -> Draft:
    """Only transactional batches are left out: a producer id alone does not make one."""
    others = data(1, TWO, transactional=False)
    return fetch(
        data(0),
        others,
        marker(2, type_),
        plain(3),
        aborted=((ONE, 0),) if type_ == ABORT else (),
        seen=(1, 3) if type_ == ABORT else (0, 1, 3),
    )


@case("TXN-23", "TXN-06")
def first_offset_that_is_cleaned() -> Draft:
    """A transaction may begin at an offset that is not there any more."""
    batches = plain(0), data(4), marker(6, ABORT), data(7), marker(8, COMMIT)
    return fetch(*batches, aborted=((ONE, 2),), seen=(0, 7))


@case("OFF-11", "TXN-23", each=grid(magic={"v0": 0, "v1": 1}, codec={"none": "none", "gzip": "gzip"}))
def only_old_messages(shape: dict[str, Any]) -> Draft:
    """Old messages are of no transaction: all are seen, and the next fetch begins after the last of them."""
    magic, codec = shape["magic"], shape["codec"]
    records = numbered(magic, 0, 2, 3)
    if codec == "none":
        return reads_committed(set_of(records, magic), *single_batches(records, magic), seen=(0, 2, 3))
    packed, batch = wrapped(records, magic, codec)
    return reads_committed(packed, batch, seen=(0, 2, 3))


@case("TXN-23", "FRM-03")
def old_messages_before_a_transaction() -> Draft:
    """A log that was upgraded holds old messages before its first transaction, which may be aborted."""
    old = numbered(1, 0, 1)
    batches = data(2, count=2), marker(4, ABORT)
    log = set_of(old, 1) + b"".join(map(bytes_of, batches))
    return reads_committed(log, *single_batches(old, 1), *batches, aborted=((ONE, 2),), seen=(0, 1))


@case("TXN-23")
def aborted_twice() -> Draft:
    """Two aborted transactions of one producer, with a committed one between, are both left out."""
    batches = data(0), marker(1, ABORT), data(2), marker(3, COMMIT), data(4), data(5), marker(6, ABORT), plain(7)
    return fetch(*batches, aborted=((ONE, 0), (ONE, 4)), seen=(2, 7))


@case(
    "OFF-04",
    "CON-04",
    "TXN-23",
    each={"one-twice": (0, 1, 1), "all-the-same": (0, 0, 0), "back": (1, 2, 0)},
    since="1.1",
)
def offset_that_comes_again(offsets: tuple[int, ...]) -> Draft:
    """Of records with one offset a consumer gives the first, and none below its position.

    Brokers store the offset deltas of an uncompressed batch as they were sent.
    """
    records = [Record(offset, TIMESTAMP, b"key", b"%d" % at) for at, offset in enumerate(offsets)]
    given = tuple(offset for at, offset in enumerate(offsets) if offset > max(offsets[:at], default=-1))
    return fetch(batch_of(*records, base_offset=0, last_offset=2), plain(3), aborted=(), seen=(*given, 3))


@case("TXN-23", each=CODECS, since="1.1")
def aborted_from_inside_a_batch(codec: Compression) -> Draft:
    """A batch is left out if a transaction of its producer was aborted from one of its offsets on."""
    return fetch(data(0, count=3, compression=codec), marker(3, ABORT), plain(4), aborted=((ONE, 1),), seen=(4,))


@case("TXN-23", "TXN-17", since="1.1")
def marker_without_the_transactional_bit() -> Draft:
    """An abort marker ends a transaction by its control bit alone."""
    end = replace(marker(1, ABORT), transactional=False)
    return fetch(data(0), end, data(2), marker(3, COMMIT), aborted=((ONE, 0),), seen=(2,))


@case("TXN-23", "TXN-10", each={"commit": COMMIT, "unknown": 7}, since="1.1")
def other_marker_inside_an_aborted_transaction(type_: int) -> Draft:
    """No marker but that of an abort ends the records that are left out."""
    batches = data(0), marker(1, type_), data(2), marker(3, ABORT), plain(4)
    return fetch(*batches, aborted=((ONE, 0),), seen=(4,))


@case("TXN-23", "ATT-01", each={codec: CODECS[codec] for codec in ("gzip", "zstd")}, since="1.1")
def compressed_marker(codec: Compression) -> Draft:
    """A marker may be compressed, and ends its transaction all the same."""
    end = replace(marker(1, ABORT), compression=codec)
    return fetch(data(0), end, data(2), marker(3, COMMIT), aborted=((ONE, 0),), seen=(2,))


@case("TXN-23", since="1.1")
def listed_in_falling_order() -> Draft:
    """A consumer puts aborted transactions in order by their first offsets: a commit between two of them counts."""
    batches = data(0), marker(1, ABORT), data(2), marker(3, COMMIT), data(4), marker(5, ABORT), plain(6)
    return fetch(*batches, aborted=((ONE, 4), (ONE, 0)), seen=(2, 6))


@case("TXN-23", "TXN-09", each={"empty": 0, "one-byte": 1, "two-bytes": 2, "three-bytes": 3}, since="1.2")
def marker_with_a_short_key(size: int) -> Draft:
    """Under read_committed a control key below four bytes is an error: it does not say what became of the records."""
    end = marker(1, ABORT)
    short = replace(end, records=(end.records[0]._replace(key=ABORT_KEY[:size]),))
    batches = data(0), short, data(2), marker(3, COMMIT)
    return reads_committed(
        b"".join(map(bytes_of, batches)),
        *batches,
        aborted=((ONE, 0),),
        seen=(),
        kinds=("malformed", "truncated"),
        why="a batch carries its records as bytes; who looks for abort markers has to read the key",
    )


@case("TXN-23", "CMP-05", each={codec: CODECS[codec] for codec in ("gzip", "zstd")}, since="1.2")
def aborted_batch_that_cannot_be_decompressed(codec: Compression) -> Draft:
    """A batch of an aborted transaction is left out before it is decompressed."""
    broken = raw_batch(
        b"no compressed bytes", attributes=0x10 | codec_id(codec), producer_id=ONE, producer_epoch=1, base_sequence=0
    )
    batches = marker(1, ABORT), plain(2)
    return reads_committed(
        broken + b"".join(map(bytes_of, batches)),
        *batches,
        aborted=((ONE, 0),),
        seen=(2,),
        kinds=("decompression", "corrupt", "malformed", "truncated"),
        why="to a codec the first batch is broken; a consumer does not look into it",
    )
