"""Tombstones, delete horizons, and the batches that stay though they are empty (group CLN)."""

from __future__ import annotations

from kafka_corpus.authoring.logs import AT_ONCE, CODECS, COMPACTED, IN_A_DAY, appends, cleans, keyed, on_disk
from kafka_corpus.authoring.steps import APPEND_TIME, PRODUCER_ID, assigned, numbered_from, takes, times
from kafka_corpus.registry import Draft, case, scene
from kafka_corpus.scenario import NOW
from kafka_records.constants import Compression

# The first release in range whose cleaner keeps the last batch of a round, and the last one (KAFKA-17076).
FIRST_TO_KEEP_LAST, LAST_TO_KEEP_LAST = "3.9.2", "4.3.1"
# Horizons of a client's: its tombstones may stay, or had to go long ago.
AHEAD, PASSED = 2_500_000_000_000, 1_700_000_000_001


@case("CLN-08", "CLN-01", "TIM-18", each=CODECS)
def tombstone_gets_a_horizon(codec: Compression) -> Draft:
    """A batch with a tombstone is rewritten with a delete horizon, though nothing goes; others are copied."""
    first = (keyed(0, b"a"), keyed(1, b"gone", None), keyed(2, b"b"))
    other = keyed(3, b"c")
    return scene(
        appends(*first, compression=codec),
        appends(other, compression=codec),
        cleans(on_disk(*first, compression=codec, delete_horizon=IN_A_DAY), on_disk(other, compression=codec)),
        config=COMPACTED,
        compare="exact" if codec == "none" else "masked",
    )


@case("CLN-08", "CLN-02", "CLN-05")
def tombstone_in_a_batch_that_loses_records() -> Draft:
    """A batch that gets a horizon and loses records keeps its offsets and its producer."""
    producer = {"producer_id": PRODUCER_ID, "producer_epoch": 1, "base_sequence": 0}
    first = (keyed(0, b"a"), keyed(1, b"gone", None), keyed(2, b"a"), keyed(3, b"b"))
    newer = keyed(4, b"b", b"newer")
    left = on_disk(*first[1:3], base_offset=0, last_offset=3, delete_horizon=IN_A_DAY, **producer)
    return scene(appends(*first, **producer), appends(newer), cleans(left, on_disk(newer)), config=COMPACTED)


@case("CLN-08", "CLN-18")
def tombstone_that_goes_gives_no_horizon() -> Draft:
    """A batch whose only tombstone goes, for its key was written again, gets no horizon."""
    first = (keyed(0, b"back", None), keyed(1, b"a"))
    newer = keyed(2, b"back")
    return scene(
        appends(*first), appends(newer), cleans(on_disk(first[1], base_offset=0), on_disk(newer)), config=COMPACTED
    )


@case("CLN-08", "CLN-06")
def tombstone_with_append_time() -> Draft:
    """On a LogAppendTime topic the records of a batch that gets a horizon all have the broker's time."""
    step, answer = times(assigned(on_disk(keyed(0, b"a"), keyed(1, b"gone", None)), 0))
    left = (keyed(0, b"a")._replace(timestamp=NOW), keyed(1, b"gone", None)._replace(timestamp=NOW))
    return scene(
        (step, answer),
        cleans(on_disk(*left, timestamp_type="append", delete_horizon=IN_A_DAY)),
        config=COMPACTED | APPEND_TIME,
    )


@case("CLN-09", "ATT-11", each=CODECS)
def horizon_stays(codec: Compression) -> Draft:
    """A batch that has a horizon keeps it, rewritten as well as copied."""
    first = (keyed(0, b"a"), keyed(1, b"gone", None), keyed(2, b"b"))
    newer = keyed(3, b"a", b"newer")
    left = on_disk(*first[1:], base_offset=0, delete_horizon=AHEAD, compression=codec)
    return scene(
        appends(*first, delete_horizon=AHEAD, compression=codec),
        appends(newer),
        cleans(left, on_disk(newer)),
        cleans(left, on_disk(newer)),
        config=AT_ONCE,
        compare="exact" if codec == "none" else "masked",
    )


@case("CLN-10", "CLN-09", "CLN-17", each=CODECS)
def tombstone_goes(codec: Compression) -> Draft:
    """Once the horizon is reached the tombstone goes, and a batch that held nothing else; the horizon stays."""
    first = (keyed(0, b"a"), keyed(1, b"gone", None))
    other, last = keyed(2, b"other", None), keyed(3, b"z")
    horizon = {"delete_horizon": NOW, "compression": codec}
    return scene(
        appends(*first, compression=codec),
        appends(other, compression=codec),
        appends(last),
        cleans(on_disk(*first, **horizon), on_disk(other, **horizon), on_disk(last)),
        cleans(on_disk(first[0], last_offset=1, **horizon), on_disk(last)),
        config=AT_ONCE,
        compare="exact" if codec == "none" else "masked",
    )


@case("CLN-10", "CLN-09", each={"ahead": AHEAD, "passed": PASSED, "0": 0})
def horizon_alone_decides(horizon: int) -> Draft:
    """Before its horizon a tombstone stays, whatever delete.retention.ms says; after it, it goes at first sight."""
    first = (keyed(0, b"a"), keyed(1, b"gone", None))
    left = first if horizon == AHEAD else first[:1]
    return scene(
        appends(*first, delete_horizon=horizon),
        appends(keyed(2, b"b")),
        cleans(on_disk(*left, last_offset=1, delete_horizon=horizon), on_disk(keyed(2, b"b"))),
        config=AT_ONCE if horizon == AHEAD else COMPACTED,
    )


def _numbered(sequence: int, offset: int, codec: Compression = "none") -> bytes:
    return assigned(numbered_from(sequence, 2, codec), offset)


def _empty(sequence: int, offset: int, max_timestamp: int, *, epoch: int = 0, **fields: object) -> bytes:
    """The remains of a batch of two records."""
    return on_disk(
        base_offset=offset,
        last_offset=offset + 1,
        max_timestamp=max_timestamp,
        producer_id=PRODUCER_ID,
        producer_epoch=epoch,
        base_sequence=sequence,
        **fields,
    )


NEWEST_OF_TWO = keyed(1, b"").timestamp


@case("CLN-14", "CLN-15", "CLN-17", each=CODECS)
def last_batch_of_a_producer(codec: Compression) -> Draft:
    """Of a producer's batches only the last stays without records, with its sequence and its max timestamp."""
    newer = (keyed(4, b"key 0"), keyed(5, b"key 1"))
    return scene(
        takes(numbered_from(0, 2, codec)),
        takes(numbered_from(2, 2, codec), 2),
        appends(*newer),
        cleans(_empty(2, 2, NEWEST_OF_TWO), on_disk(*newer)),
        cleans(_empty(2, 2, NEWEST_OF_TWO), on_disk(*newer)),
        config=AT_ONCE,
    )


@case("CLN-14", "CLN-17", refs=["KAFKA-8335"])
def last_sequence_in_two_epochs() -> Draft:
    """Of two batches that end at one sequence, in two epochs, only the last stays without records.

    Kafka 2.1.1 knew a producer's last batch by its sequence, and kept both; 2.2.2 does not.
    """
    newer = (keyed(4, b"key 0"), keyed(5, b"key 1"))
    return scene(
        takes(numbered_from(0, 2)),
        takes(numbered_from(0, 2, epoch=1), 2),
        appends(*newer),
        cleans(_empty(0, 2, NEWEST_OF_TWO, epoch=1), on_disk(*newer)),
        config=AT_ONCE,
    )


@case("CLN-14", "CLN-15", "CLN-05")
def empty_batch_with_append_time() -> Draft:
    """An empty batch keeps the type of its time, and the broker's time itself."""
    step, answer = times(numbered_from(0, 2))
    newer, answer_to_newer = times(on_disk(keyed(0, b"key 0"), keyed(1, b"key 1")), 2)
    return scene(
        (step, answer),
        (newer, answer_to_newer),
        cleans(_empty(0, 0, NOW, timestamp_type="append"), answer_to_newer.data),
        config=COMPACTED | APPEND_TIME,
    )


@case("CLN-14", "CLN-17")
def empty_batch_goes_in_its_turn() -> Draft:
    """An empty batch goes once its producer has written another, which its sequence still allows."""
    newer = (keyed(2, b"key 0"), keyed(3, b"key 1"))
    producer = {"producer_id": PRODUCER_ID, "producer_epoch": 0, "base_sequence": 2}
    return scene(
        takes(numbered_from(0, 2)),
        appends(*newer),
        cleans(_empty(0, 0, NEWEST_OF_TWO), on_disk(*newer)),
        appends(keyed(5, b"other"), **producer),
        cleans(on_disk(*newer), on_disk(keyed(5, b"other"), **producer)),
        config=AT_ONCE,
    )


@case("CLN-16", "CLN-15", "CLN-17", each=CODECS, refs=["KAFKA-17076"])
def last_batch_of_a_round(codec: Compression) -> Draft:
    """The last batch that is cleaned stays without records, and goes in a later round."""
    tombstones = (keyed(2, b"b", None), keyed(3, b"c", None))
    empty = on_disk(base_offset=2, last_offset=3, max_timestamp=tombstones[1].timestamp)
    return scene(
        appends(keyed(0, b"a"), keyed(1, b"z")),
        appends(*tombstones, compression=codec, delete_horizon=PASSED),
        cleans(on_disk(keyed(0, b"a"), keyed(1, b"z")), empty),
        cleans(on_disk(keyed(0, b"a"), keyed(1, b"z"))),
        config=COMPACTED,
        since=FIRST_TO_KEEP_LAST,
        until=LAST_TO_KEEP_LAST,
    )


@case("CLN-16", "CLN-15", refs=["KAFKA-17076"])
def last_batch_of_a_round_after_many_records() -> Draft:
    """The last batch that is cleaned stays without records, after 300 others, too."""
    others = tuple(keyed(at, b"key %d" % at) for at in range(300))
    gone = keyed(300, b"b", None)
    return scene(
        appends(*others),
        appends(gone, delete_horizon=PASSED),
        cleans(on_disk(*others), on_disk(base_offset=300, last_offset=300, max_timestamp=gone.timestamp)),
        config=COMPACTED,
        since=FIRST_TO_KEEP_LAST,
        until=LAST_TO_KEEP_LAST,
    )


@case("CLN-16", "CLN-17", refs=["KAFKA-17076"])
def last_batch_of_a_round_is_not_the_last_of_the_log() -> Draft:
    """The last batch that is cleaned goes with its records if more of the log is committed after it."""
    first, last = keyed(0, b"a"), keyed(1, b"b", None)
    return scene(
        appends(first), appends(last, delete_horizon=PASSED), cleans(on_disk(first)), config=COMPACTED, since="4.4.0"
    )
