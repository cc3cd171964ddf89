"""Transactions after the cleaner: aborted data, markers, and open transactions (group CLN)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import some_records
from kafka_corpus.authoring.build import grid
from kafka_corpus.authoring.logs import AT_ONCE, CODECS, COMPACTED, IN_A_DAY, appends, cleans, keyed, on_disk, shunned
from kafka_corpus.authoring.steps import (
    ABORT,
    COMMIT,
    aborts,
    assigned,
    begun,
    commits,
    data,
    ends,
    marker_at,
    named,
    writes,
)
from kafka_corpus.authoring.steps import added as joined
from kafka_corpus.registry import Draft, case, scene
from kafka_corpus.scenario import NOW, producer_id
from kafka_records.constants import Compression

ENDS = {"abort": ABORT, "commit": COMMIT}


def without_record(offset: int, *, epoch: int = 1, **fields: Any) -> bytes:
    """The final form of the marker of the producer that has not written since."""
    known = {"producer_id": producer_id(0), "producer_epoch": epoch, "transactional": True, "control": True}
    return on_disk(base_offset=offset, last_offset=offset, max_timestamp=NOW, **(known | fields))


@case("CLN-12", "CLN-11", "CLN-13", "CLN-15", "TXN-18", each=CODECS)
def aborted_transaction(codec: Compression) -> Draft:
    """Aborted data goes at once; its marker gets a horizon in the next round, and loses its record in the third."""
    other = keyed(3, b"other")
    return scene(
        *begun(),
        writes(data(0, 2, codec)),
        aborts(2),
        appends(other),
        cleans(marker_at(2, ABORT), on_disk(other)),
        cleans(marker_at(2, ABORT, delete_horizon=NOW), on_disk(other)),
        cleans(without_record(2), on_disk(other)),
        config=AT_ONCE,
    )


@case("CLN-12", "CLN-18")
def aborted_data_replaces_nothing() -> Draft:
    """A record stays, though one under its key was written later in a transaction that was aborted."""
    first = some_records(2)
    return scene(
        appends(*first),
        *begun(),
        writes(data(0, 2), 2),
        aborts(4),
        cleans(on_disk(*first), marker_at(4, ABORT)),
        config=COMPACTED,
    )


@case("CLN-12")
def aborted_data_between_other_data() -> Draft:
    """Where batches of two producers alternate, the aborted ones go, and the committed ones stay."""
    mine, theirs = (data(0, 1, who=0), data(0, 2, who=1))
    return scene(
        *begun("a"),
        *begun("b"),
        writes(mine, 0, alias="a"),
        writes(theirs, 1, alias="b"),
        aborts(3, alias="a"),
        commits(4, alias="b", who=1),
        appends(keyed(5, b"key 9")),
        cleans(assigned(theirs, 1), marker_at(3, ABORT), marker_at(4, COMMIT, who=1), on_disk(keyed(5, b"key 9"))),
        config=COMPACTED,
    )


@case("CLN-13", "CLN-11", "CLN-02", each=CODECS)
def committed_transaction(codec: Compression) -> Draft:
    """A COMMIT marker stays as long as the cleaner finds data of its transaction, and gets a horizon after that."""
    first = some_records(2)
    producer = {"producer_id": producer_id(0), "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    newer, newest = keyed(3, b"key 0", b"newer"), keyed(5, b"key 1", b"newer")
    left = on_disk(first[1], base_offset=0, compression=codec, **producer)
    marker = marker_at(2, COMMIT)
    return scene(
        *begun(),
        writes(data(0, 2, codec)),
        commits(2),
        appends(newer),
        cleans(left, marker, on_disk(newer)),
        appends(newest),
        cleans(marker, on_disk(newer), on_disk(newest)),
        cleans(marker_at(2, COMMIT, delete_horizon=IN_A_DAY), on_disk(newer), on_disk(newest)),
        config=COMPACTED,
        compare="exact" if codec == "none" else "masked",
    )


@case("CLN-11", "CLN-09", each=grid(type_=ENDS, config={"a day": COMPACTED, "at once": AT_ONCE}))
def marker_without_data(row: dict[str, Any]) -> Draft:
    """A marker without data gets attributes 70 and a horizon at once, and has both until the horizon is reached."""
    type_, config = row["type_"], row["config"]
    horizon = IN_A_DAY if config == COMPACTED else NOW
    waiting = marker_at(0, type_, delete_horizon=horizon)
    assert waiting[22] == 0x70
    return scene(
        *begun(),
        ends(marker_at(0, type_), commit=type_ == COMMIT),
        cleans(waiting),
        cleans(waiting if config == COMPACTED else without_record(0)),
        config=config,
    )


@case("CLN-11", "CLN-14", "CLN-17", each=ENDS)
def marker_of_a_producer_that_goes_on(type_: int) -> Draft:
    """The marker of a producer's earlier transaction goes when its horizon is reached; that of the last stays."""
    later = data(0, 2, epoch=2)
    last = marker_at(3, COMMIT, epoch=3)
    return scene(
        *begun(),
        ends(marker_at(0, type_), commit=type_ == COMMIT),
        named(),
        joined(),
        writes(later, 1),
        commits(3, epoch=3),
        cleans(marker_at(0, type_, delete_horizon=NOW), assigned(later, 1), last),
        cleans(assigned(later, 1), last),
        config=AT_ONCE,
    )


@case("CLN-23", "TXN-11", each=ENDS, refs=["KAFKA-14055"])
def record_under_the_key_of_a_marker(type_: int) -> Draft:
    """A record whose key is that of a marker does not take the place of the marker, nor a marker that of the record."""
    key = bytes(2) + type_.to_bytes(2, "big")
    first = keyed(0, key, b"first")
    kept = data(0, 2)
    shown = [] if type_ == ABORT else [assigned(kept, 1)]
    return scene(
        appends(first),
        *begun(),
        writes(kept, 1),
        ends(marker_at(3, type_), commit=type_ == COMMIT),
        cleans(on_disk(first), *shown, marker_at(3, type_)),
        appends(keyed(5, key)),
        cleans(
            *shown,
            marker_at(3, type_) if shown else marker_at(3, type_, delete_horizon=IN_A_DAY),
            on_disk(keyed(5, key)),
        ),
        config=COMPACTED,
    )


@case("CLN-25", "OFF-14")
def open_transaction() -> Draft:
    """The cleaner keeps away from a segment in which a transaction is open, also from the part before it."""
    first, newer = keyed(0, b"a"), keyed(1, b"a", b"newer")
    log = (on_disk(first), on_disk(newer), assigned(data(0, 2), 2))
    return scene(
        appends(first),
        appends(newer),
        *begun(),
        writes(data(0, 2), 2),
        shunned(*log),
        config=COMPACTED,
    )


@case("CLN-25", "CLN-12")
def transaction_that_ends_after_all() -> Draft:
    """Once the transaction has ended, the cleaner goes over all that it was kept away from."""
    first, newer = keyed(0, b"key 0"), keyed(1, b"key 0", b"newer")
    log = (on_disk(first), on_disk(newer), assigned(data(0, 2), 2))
    return scene(
        appends(first),
        appends(newer),
        *begun(),
        writes(data(0, 2), 2),
        shunned(*log),
        aborts(5),
        cleans(on_disk(newer), marker_at(5, ABORT, delete_horizon=IN_A_DAY)),
        config=COMPACTED,
    )
