"""Ordinary batches after the cleaner: those that it copies, and those that it rewrites (group CLN)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import batch_of, bytes_of
from kafka_corpus.authoring.build import grid, overlong_varint, put, raw_batch, raw_header, raw_record, record
from kafka_corpus.authoring.frames import codec_id, deflate_stored, gzip_member
from kafka_corpus.authoring.logs import (
    AT_ONCE,
    CODECS,
    COMPACTED,
    appends,
    cleans,
    ends_at,
    keyed,
    on_disk,
    serves,
    shunned,
)
from kafka_corpus.authoring.shapes import CODECS as ALL_CODECS
from kafka_corpus.authoring.steps import (
    APPEND_TIME,
    COMMIT,
    assigned,
    begun,
    commits,
    marker_at,
    since_of,
    takes,
    times,
    writes,
)
from kafka_corpus.registry import Draft, case, scene
from kafka_corpus.scenario import NOW, Edit, Restart, StepAnswer, producer_id
from kafka_records import Record
from kafka_records.constants import INT32_MAX, NO_TIMESTAMP, Compression
from kafka_records.varint import encode_varint

PRODUCER = {"producer_id": 77, "producer_epoch": 3, "base_sequence": 0}
ODD = raw_record(length=overlong_varint(14, 3), attributes=0x7F, key=b"key")
ENCLOSED = {
    "none": raw_batch(ODD),
    "gzip": raw_batch(gzip_member(ODD, body=deflate_stored(ODD[:5], ODD[5:])), attributes=codec_id("gzip")),
}


@case("CLN-01", each=ENCLOSED)
def copied_batch(batch: bytes) -> Draft:
    """A batch from which nothing goes keeps every byte: varints that are too long, attributes, compressed blocks."""
    return scene(
        takes(batch),
        appends(keyed(1, b"other"), keyed(2, b"other")),
        cleans(assigned(batch), on_disk(keyed(2, b"other"), base_offset=1)),
        config=COMPACTED,
    )


@case("CLN-02", "CLN-03", "CLN-04", "CLN-05", "CLN-18", each=ALL_CODECS)
def rewritten_batch(codec: Compression) -> Draft:
    """A batch that loses its first and its last record keeps its offsets, its producer and its codec."""
    keys = (b"a", b"b", b"a", b"c")
    records = [keyed(at, key, b"%d" % at * 40) for at, key in enumerate(keys)]
    fields: dict[str, Any] = {"compression": codec} | PRODUCER
    newer = keyed(4, b"c", b"newer")
    return scene(
        appends(*records, **fields),
        appends(newer),
        cleans(on_disk(*records[1:3], base_offset=0, last_offset=3, **fields), on_disk(newer)),
        config=COMPACTED,
        since=since_of(codec),
        compare="exact" if codec == "none" else "masked",
    )


# Milliseconds of the three records; the second and the third are left, or the first and the third.
TIMES = {
    "of the first": {"times": (5, 9, 7), "left": (1, 2)},
    "of the newest": {"times": (5, 9, 7), "left": (0, 2)},
    "of the only one": {"times": (5, 9, 1), "left": (2,)},
    "all the same": {"times": (4, 4, 4), "left": (1, 2)},
}


@case("CLN-04", "CLN-05", each=grid(shape=TIMES, codec=CODECS))
def times_of_what_is_left(row: dict[str, Any]) -> Draft:
    """The first record that is left gives the base timestamp, and the newest the max timestamp."""
    after, left, codec = row["shape"]["times"], row["shape"]["left"], row["codec"]
    records = [keyed(at, b"%d" % at, later=each) for at, each in enumerate(after)]
    gone = (at for at in range(3) if at not in left)
    newer = [keyed(3 + at, b"%d" % key, b"newer") for at, key in enumerate(gone)]
    stays = on_disk(*(records[at] for at in left), base_offset=0, last_offset=2, compression=codec)
    return scene(
        appends(*records, compression=codec),
        appends(*newer),
        cleans(stays, on_disk(*newer)),
        config=COMPACTED,
        compare="exact" if codec == "none" else "masked",
    )


@case("CLN-06", "CLN-05", "CLN-01", each=CODECS)
def append_time(codec: Compression) -> Draft:
    """On a LogAppendTime topic the producer's times are lost in a rewritten batch, and stay in a copy."""
    first = bytes_of(batch_of(keyed(0, b"a"), keyed(1, b"b"), keyed(2, b"c"), compression=codec))
    other = bytes_of(batch_of(keyed(0, b"b"), keyed(1, b"d"), compression=codec))
    left = [record(key=key, offset=at, timestamp=NOW) for at, key in ((0, b"a"), (2, b"c"))]
    return scene(
        times(first),
        times(other, 3),
        cleans(
            on_disk(*left, timestamp_type="append", max_timestamp=NOW, compression=codec),
            assigned(other, 3, appended=True),
        ),
        config=COMPACTED | APPEND_TIME,
        compare="exact" if codec == "none" else "masked",
    )


@case("CLN-07", "CLN-02", each=CODECS)
def rewritten_header_key(codec: Compression) -> Draft:
    """The key of a header that is not UTF-8 comes out of the cleaner with question marks of Unicode's in it."""
    headers = raw_header(b"k\xff\xc0", b"\xff") + raw_header("größe".encode(), None)
    written = raw_record(key=b"key", offset_delta=1, header_count=encode_varint(2), headers=headers)
    plain = raw_record(key=b"old") + written
    first = raw_batch(_packed(codec, plain), record_count=2, attributes=codec_id(codec))
    names = (("k\ufffd\ufffd".encode(), b"\xff"), ("größe".encode(), None))
    kept = record(key=b"key", offset=1, headers=names)
    newer = keyed(2, b"old", b"newer")
    return scene(
        takes(first),
        appends(newer),
        cleans(on_disk(kept, base_offset=0, compression=codec), on_disk(newer)),
        config=COMPACTED,
        compare="exact" if codec == "none" else "masked",
    )


def _packed(codec: Compression, plain: bytes) -> bytes:
    return gzip_member(plain) if codec == "gzip" else plain


@case("CLN-07")
def rewritten_varints() -> Draft:
    """Varints that are longer than they have to be come out of the cleaner as short as they can be."""
    long = raw_record(
        length=overlong_varint(21, 5),
        timestamp_delta=overlong_varint(0, 4),
        offset_delta=overlong_varint(1, 2),
        key_length=overlong_varint(3, 4),
        key=b"key",
    )
    first = raw_batch(raw_record(key=b"old") + long, record_count=2)
    newer = keyed(2, b"old", b"newer")
    return scene(
        takes(first),
        appends(newer),
        cleans(on_disk(record(key=b"key", offset=1), base_offset=0), on_disk(newer)),
        config=COMPACTED,
    )


@case("CLN-17", "CLN-01", "OFF-13", each=CODECS)
def whole_batches_go(codec: Compression) -> Draft:
    """Batches of which nothing is left are gone, and a fetch of an offset in the gap begins after it."""
    log = [(keyed(0, b"a"), keyed(1, b"b")), (keyed(2, b"c"),), (keyed(3, b"b"), keyed(4, b"a"))]
    left = [on_disk(*records, compression=codec) for records in log[1:]]
    more = (keyed(6, b"c"), keyed(7, b"d"))
    return scene(
        *(appends(*records, compression=codec) for records in log),
        cleans(*left),
        serves(b"".join(left), 6),
        serves(b"".join(left), 6, 1),
        appends(*more),
        cleans(left[1], on_disk(*more)),
        config=COMPACTED,
    )


@case("CLN-18", each=CODECS)
def last_of_each_key(codec: Compression) -> Draft:
    """Of many records under one key in a batch only the last stays; an empty key is a key like others."""
    keys = (b"", b"k", b"", b"k", b"\0", b"", b"k\0", b"k", b"k" * 300, b"")
    records = [keyed(at, key, b"%d" % at) for at, key in enumerate(keys)]
    left = [records[at] for at in (4, 6, 7, 8, 9)]
    return scene(
        appends(*records, compression=codec),
        cleans(on_disk(*left, base_offset=0, compression=codec)),
        config=COMPACTED,
        compare="exact" if codec == "none" else "masked",
    )


@case("CLN-03", "CLN-04", "CLN-05")
def rewritten_twice() -> Draft:
    """Each round takes more from a batch, whose count and times follow, and whose offsets stay."""
    first = [keyed(at, b"%d" % at) for at in range(4)]
    second, third = keyed(5, b"0", b"newer"), keyed(7, b"3", b"newer")
    return scene(
        appends(*first),
        cleans(on_disk(*first)),
        appends(second),
        cleans(on_disk(*first[1:], base_offset=0), on_disk(second)),
        appends(third),
        cleans(on_disk(*first[1:3], base_offset=0, last_offset=3), on_disk(second), on_disk(third)),
        config=AT_ONCE,
    )


@case("CLN-25", "SEG-01", "CLN-01")
def small_segments_become_one() -> Draft:
    """The cleaner writes small segments into one, and a large one after them by itself: a fetch reads one file."""
    first, second, third = (keyed(at, key) for at, key in ((0, b"a"), (2, b"b"), (4, b"c")))
    return scene(
        appends(first),
        cleans(on_disk(first)),
        appends(second),
        cleans(on_disk(first), on_disk(second)),
        serves(on_disk(first), 4),
        appends(third),
        cleans(on_disk(first), on_disk(second), on_disk(third)),
        serves(on_disk(first) + on_disk(second), 6),
        config=COMPACTED,
    )


@case("CLN-18", "CLN-25")
def segment_larger_than_the_buffer() -> Draft:
    """A segment above the size of the cleaner's buffer is read in parts, on a topic whose batches fit into it."""
    old, other, newer = keyed(0, b"a", b"old"), keyed(1, b"b"), keyed(2, b"a")
    return scene(
        appends(old),
        appends(other),
        appends(newer),
        cleans(on_disk(other), on_disk(newer)),
        config=COMPACTED | {"max.message.bytes": "200000"},
    )


FIRST_WITH_CONTAINED_ERRORS = "2.4.1"
CLOSED = on_disk(keyed(0, b"a"))
# Bytes at the start of a segment that was closed before the broker shut down in order.
ENDS = {
    "above its buffer": put(CLOSED, "batch_length", 2_000_000),
    "within its buffer": put(CLOSED, "batch_length", 600_000),
    "16 bytes": CLOSED + bytes(16),
    "5 bytes": CLOSED + bytes(5),
}


@case("CLN-24", "SEG-03", each=ENDS, refs=["KIP-346"], since="1.1")
def end_of_a_segment_that_is_missing(spoiled: bytes) -> Draft:
    """A closed segment whose last batch is cut short cannot be cleaned: the cleaner's buffer grows until it fails."""
    last = on_disk(keyed(2, b"b"))
    return scene(
        appends(keyed(0, b"a")),
        cleans(CLOSED),
        appends(keyed(2, b"b")),
        (Restart(clean=True), StepAnswer()),
        (Edit(at=0, data=spoiled), StepAnswer(data=spoiled + last)),
        shunned(spoiled, last),
        config=COMPACTED,
        since=FIRST_WITH_CONTAINED_ERRORS,
    )


FAR_AWAY, NO_MORE = INT32_MAX + 11, INT32_MAX + 1
# Milliseconds between two batches, segment.index.bytes, and segments in the groups that are cleaned together, each as
# its base offset and its number of batches, of which the first gets no entry in an index.
GROUPS: dict[str, tuple[int, int, list[list[tuple[int, int]]]]] = {
    "indexes of offsets": (0, 36, [[(0, 2), (2, 2)], [(4, 4), (8, 1)]]),
    "indexes of times": (1, 48, [[(0, 2), (2, 2)], [(4, 4)], [(8, 3)]]),
    "offsets": (0, 1_000, [[(0, 2)], [(2, 2)], [(FAR_AWAY, 2), (FAR_AWAY + 2, 1)]]),
    "offsets that fit": (0, 1_000, [[(0, 2), (2, 2)], [(NO_MORE, 2), (NO_MORE + 2, 1)]]),
    "one offset too many": (0, 1_000, [[(0, 2)], [(2, 2)], [(NO_MORE + 1, 2), (NO_MORE + 3, 1)]]),
    "offsets that fit before the last segment": (0, 1_000, [[(0, 2), (2, 2)], [(NO_MORE, 1)]]),
    "one offset too many before the last segment": (0, 1_000, [[(0, 2)], [(2, 2), (NO_MORE + 1, 1)]]),
}


@case("SEG-16", "SEG-12", each=GROUPS, since="1.1")
def groups_of_segments(shape: tuple[int, int, list[list[tuple[int, int]]]]) -> Draft:
    """The cleaner makes one segment of several if the indexes fit, and offsets up to the start of the next segment."""
    step, room, groups = shape
    logs = {
        base: [on_disk(keyed(at, b"%d" % at, later=at * step)) for at in range(base, base + count)]
        for group in groups
        for base, count in group
    }
    end = max(base + len(batches) for base, batches in logs.items())
    grouped = {group[0][0]: b"".join(b"".join(logs[base]) for base, _ in group) for group in groups}
    return scene(
        (Restart(files={f"{base:020}.log": b"".join(batches) for base, batches in logs.items()}), StepAnswer()),
        ends_at(end),
        cleans(*grouped.values()),
        *(serves(data, end + 1, base) for base, data in grouped.items()),
        config=COMPACTED | {"segment.index.bytes": str(room), "index.interval.bytes": "0"},
        since="2.8.2",
    )


@case("SEG-16", "CLN-25", since="1.1")
def groups_of_segments_that_were_held_back() -> Draft:
    """Of segments that all are cleaned in one round the cleaner joins as many as one index of times has room for.

    The index has room for one entry, so each batch gets a segment of its own; one
    without a timestamp needs no entry.  An open transaction keeps the cleaner away
    until all are there.
    """
    producer = {"producer_id": producer_id(0), "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    untimed = on_disk(Record(0, NO_TIMESTAMP, b"untimed", b"value"), **producer)
    others = [on_disk(keyed(at, b"%d" % at)) for at in (1, 2)]
    marker = marker_at(3, COMMIT)
    return scene(
        *begun(),
        writes(untimed),
        *(appends(keyed(at, b"%d" % at)) for at in (1, 2)),
        commits(3),
        cleans(untimed, *others, marker),
        serves(untimed + others[0], 5),
        serves(others[1], 5, 2),
        config=COMPACTED | {"segment.index.bytes": "12"},
        since="2.8.2",
    )
