"""v0 and v1 after the cleaner, and logs that no producer could have written (group CLN).

Releases up to 2.8 still store the old formats if the topic is configured so.  Later
ones find them on the disk only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_corpus.authoring.build import grid, put, raw_batch, raw_record
from kafka_corpus.authoring.frames import codec_id
from kafka_corpus.authoring.logs import (
    AT_ONCE,
    CODECS,
    COMPACTED,
    IN_A_DAY,
    appends,
    cleans,
    keyed,
    on_disk,
    planted,
    shunned,
)
from kafka_corpus.authoring.messages import message_bytes, set_of, wrap
from kafka_corpus.registry import Draft, case, scene, stored
from kafka_corpus.scenario import FIRST_OF_V2, NOW, Edit, Produce, Restart, StepAnswer
from kafka_records import Record
from kafka_records.constants import NO_TIMESTAMP, Compression

MAGICS = {"v0": 0, "v1": 1}
OLD_CODECS: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4"}
# The last release whose topics could ask for an old format, and the last whose cleaner kept it.
LAST_TO_STORE, LAST_TO_KEEP = "2.8.2", "3.9.2"
FORMATS = {0: "0.9.0", 1: "0.10.2"}
FIRST_WITH_CONTAINED_ERRORS = "2.4.1"


def dated(magic: int, *records: Record) -> tuple[Record, ...]:
    """*records* as *magic* can hold them."""
    return records if magic else tuple(record._replace(timestamp=NO_TIMESTAMP) for record in records)


def wrapped(
    magic: int, codec: Compression, *records: Record, last_offset: int | None = None, inner: int | None = None
) -> bytes:
    """A wrapper around *records* at their absolute offsets, in messages of *inner*, or else of the same magic."""
    newest = max(record.timestamp for record in records)
    last = records[-1].offset if last_offset is None else last_offset
    base = records[0].offset if magic else 0
    return wrap(
        set_of(records, magic if inner is None else inner, base=base), magic, codec, offset=last, timestamp=newest
    )


def topic_of_format(magic: int, **more: str) -> dict[str, str]:
    """The settings of a compacted topic in an old format."""
    return COMPACTED | {"message.format.version": FORMATS[magic]} | more


def old_log(magic: int) -> tuple[Record, ...]:
    """Records at offsets 0 to 4, of which the cleaner drops the first, and later the tombstone."""
    keys: Iterable[tuple[bytes, bytes | None]] = (
        (b"a", b"old"),
        (b"b", b"b"),
        (b"gone", None),
        (b"a", b"new"),
        (b"c", b"c"),
    )
    return dated(magic, *(keyed(at, key, value) for at, (key, value) in enumerate(keys)))


@case("CLN-21", "CLN-20", "CLN-18", each=MAGICS)
def stored_messages(magic: int) -> Draft:
    """Messages that are stored in an old format stay in it, and the remaining ones keep their bytes."""
    records = old_log(magic)
    sent = b"".join(message_bytes(record._replace(offset=0), magic) for record in records)
    lying = [message_bytes(record, magic) for record in records]
    without = [lying[at] for at in (1, 3, 4)]
    return scene(
        (Produce(data=sent, api_version=2), stored(b"".join(lying))),
        cleans(*lying[1:]),
        cleans(*without),
        config=topic_of_format(magic, **{"delete.retention.ms": "0"}),
        since="0.10.2.2",
        until=LAST_TO_STORE,
    )


@case("CLN-21", "CLN-20", each=grid(magic=MAGICS, codec=OLD_CODECS))
def stored_wrapper(row: dict[str, Any]) -> Draft:
    """The remaining messages of a wrapper are wrapped again, in its format, with their offsets and times."""
    magic, codec = row["magic"], row["codec"]
    records = old_log(magic)
    newer = dated(magic, keyed(5, b"c", b"newer"))
    last = message_bytes(newer[0], magic)
    return scene(
        (Produce(data=wrapped(magic, codec, *records), api_version=2), stored(wrapped(magic, codec, *records))),
        (Produce(data=message_bytes(newer[0], magic, base=5), api_version=2), stored(last, base_offset=5)),
        cleans(wrapped(magic, codec, *records[1:4]), last),
        config=topic_of_format(magic),
        since="0.10.2.2",
        until=LAST_TO_STORE,
        compare="masked",
    )


@case("CLN-20", "CLN-21", "SEG-06", each=MAGICS)
def messages_become_batches(magic: int) -> Draft:
    """The cleaner writes every message that stays as a batch of v2, its tombstones with a horizon."""
    records = old_log(magic)
    b, gone, a, c = records[1:]
    return scene(
        planted(*(message_bytes(record, magic) for record in records)),
        cleans(rewritten(b), rewritten(gone, delete_horizon=IN_A_DAY), rewritten(a), rewritten(c)),
        config=COMPACTED,
        since=FIRST_OF_V2,
    )


def rewritten(*records: Record, **fields: Any) -> bytes:
    """A batch that was made from messages has no leader epoch."""
    return on_disk(*records, **({"partition_leader_epoch": -1} | fields))


@case("CLN-20", "CLN-21", each=grid(magic=MAGICS, codec=OLD_CODECS))
def wrapper_becomes_a_batch(row: dict[str, Any]) -> Draft:
    """The cleaner writes a wrapper as a batch of v2 with the same codec, also one of which nothing goes."""
    magic, codec = row["magic"], row["codec"]
    whole = dated(magic, keyed(0, b"b"), keyed(1, b"d"))
    records = dated(magic, keyed(2, b"a"), keyed(3, b"e"), keyed(4, b"a"))
    return scene(
        planted(wrapped(magic, codec, *whole), wrapped(magic, codec, *records)),
        cleans(rewritten(*whole, compression=codec), rewritten(*records[1:], compression=codec)),
        config=COMPACTED,
        since=FIRST_OF_V2,
        compare="masked",
    )


@case("CLN-21", "CLN-20", "CLN-10")
def old_tombstones_go() -> Draft:
    """The tombstone of a message that became a batch goes like any other, when its horizon is reached."""
    a, gone, b = keyed(0, b"a"), keyed(1, b"gone", None), keyed(2, b"b")
    return scene(
        planted(*(message_bytes(record, 1) for record in (a, gone, b))),
        cleans(rewritten(a), rewritten(gone, delete_horizon=NOW), rewritten(b)),
        cleans(rewritten(a), rewritten(b)),
        config=AT_ONCE,
        since=FIRST_OF_V2,
    )


@case("CLN-22", "CLN-20", refs=["KAFKA-4298"], each=OLD_CODECS)
def messages_of_another_format_inside(codec: Compression) -> Draft:
    """Messages of v0 in a wrapper of v1 are written as a batch, though nothing goes."""
    records = dated(0, keyed(0, b"a"), keyed(1, b"b"))
    return scene(
        planted(wrap(set_of(records, 0), 1, codec, offset=1)),
        cleans(rewritten(*records, compression=codec)),
        config=COMPACTED,
        since=FIRST_OF_V2,
        compare="masked",
    )


@case("CLN-22", "CLN-21", refs=["KAFKA-4298"])
def messages_of_another_format_are_mended() -> Draft:
    """Messages of v0 in a wrapper of v1 become messages of v1, though nothing goes."""
    records = dated(0, keyed(0, b"a"), keyed(1, b"b"))
    return scene(
        planted(wrap(set_of(records, 0), 1, "gzip", offset=1)),
        cleans(wrap(set_of(records, 1), 1, "gzip", offset=1, timestamp=NO_TIMESTAMP)),
        config=COMPACTED,
        since=FIRST_OF_V2,
        until=LAST_TO_KEEP,
        compare="masked",
    )


@case("CLN-19", "CLN-17", each=CODECS)
def records_without_a_key(codec: Compression) -> Draft:
    """Records without a key go, and a batch that holds no others."""
    first = (keyed(0, None), keyed(1, b"a"), keyed(2, None))
    other = on_disk(keyed(4, b"b"))
    return scene(
        planted(on_disk(*first, compression=codec), on_disk(keyed(3, None), compression=codec), other),
        cleans(on_disk(first[1], base_offset=0, last_offset=2, compression=codec), other),
        config=COMPACTED,
        since=FIRST_OF_V2,
        compare="exact" if codec == "none" else "masked",
    )


TWO = raw_record(key=b"a", value=b"old") + raw_record(key=b"b", offset_delta=1)
UNREADABLE = {
    "more records than there are": raw_batch(TWO, record_count=5, last_offset_delta=1, partition_leader_epoch=0),
    "gzip that is none": raw_batch(TWO, record_count=2, attributes=codec_id("gzip"), partition_leader_epoch=0),
}


@case("CLN-24", "SEG-10", each=UNREADABLE, refs=["KIP-346"])
def undecodable_batch(batch: bytes) -> Draft:
    """A log with a batch that cannot be decoded is not cleaned at all, neither before nor after that batch."""
    log = (on_disk(keyed(0, b"a", b"older")), put(batch, "base_offset", 1), on_disk(keyed(3, b"a")))
    return scene(planted(*log), shunned(*log), config=COMPACTED, since=FIRST_WITH_CONTAINED_ERRORS)


@case("CLN-24", "CRC-14", "SEG-07")
def wrong_checksum() -> Draft:
    """The cleaner checks no checksum: a bit that flipped in a closed segment gets a right one in a rewritten batch."""
    first, newer = (keyed(0, b"a", b"precious"), keyed(1, b"b")), keyed(3, b"b", b"newer")
    whole, last = on_disk(*first), on_disk(newer)
    at = whole.index(b"precious")
    spoiled = put_bytes(whole, at, b"q")
    left = on_disk(keyed(0, b"a", b"qrecious"), base_offset=0, last_offset=1)
    return scene(
        appends(*first),
        cleans(whole),
        appends(newer),
        (Restart(clean=True), StepAnswer()),
        (Edit(at=at, data=b"q"), StepAnswer(data=spoiled + last)),
        cleans(left, last),
        config=COMPACTED,
    )


def put_bytes(data: bytes, at: int, piece: bytes) -> bytes:
    """*data* with *piece* written over it."""
    return data[:at] + piece + data[at + len(piece) :]


# Whether the tombstone of a message stays in a round that finds the message in a segment that is clean already.
SECOND_ROUND = {"a day": True, "at once": False}


@case("CLN-21", "CLN-20", each=SECOND_ROUND)
def old_tombstone_in_a_clean_segment(stays: bool) -> Draft:
    """A tombstone of v1 in a clean segment goes if that was last written more than delete.retention.ms ago."""
    a, gone, b = keyed(0, b"a"), keyed(1, b"gone", None), keyed(2, b"b")
    # The first leader epoch after a restart.
    newer = on_disk(keyed(4, b"c"), partition_leader_epoch=2)
    tombstone = (rewritten(gone, delete_horizon=IN_A_DAY),) if stays else ()
    return scene(
        appends(a, keyed(1, b"gone"), b),
        cleans(on_disk(a, keyed(1, b"gone"), b)),
        planted(*(message_bytes(record, 1) for record in (a, gone, b))),
        (Produce(data=put(newer, "base_offset", 0)), stored(newer, base_offset=4)),
        cleans(rewritten(a), *tombstone, rewritten(b), newer),
        config=COMPACTED if stays else AT_ONCE,
        since=FIRST_OF_V2,
    )
