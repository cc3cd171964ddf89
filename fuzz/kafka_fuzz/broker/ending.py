"""Transactions of a lane begin and end; the marker that comes of it is compared with the one that is predicted."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from kafka_conformance.broker.wire import BrokerError, Client
from kafka_conformance.broker.wire.client import PAUSE
from kafka_conformance.broker.wire.transactions import Producer, add_partitions, end_transaction
from kafka_fuzz.broker.comparing import Answer, stored_difference
from kafka_fuzz.broker.lanes import Lane
from kafka_fuzz.broker.payloads import is_batch, with_header
from kafka_fuzz.broker.transactions import Sender
from kafka_fuzz.cells import NO_LIE, Cell
from kafka_fuzz.mutate import Mutant
from kafka_records import AppendResult
from kafka_records import end_transaction as ended
from kafka_records.constants import MAGIC_VALUE_V2
from kafka_records.layout import BATCH_V2

# Seconds for a marker to get from the coordinator to the partition.
MARKER_LIMIT: Final = 10.0
MARKER: Final = "marker"


def begin(client: Client, lane: Lane, sender: Sender) -> None:
    """Add the partition to the transaction of *sender*."""
    try:
        code = add_partitions(client, sender.id, sender.producer, [lane.where])[lane.where]
    except BrokerError as error:
        code = error.code
    sender.is_open, sender.is_lost = not code, bool(code)


def end(client: Client, lane: Lane, sender: Sender, *, commit: bool) -> tuple[str, Answer, AppendResult] | None:
    """End the transaction: how the marker differs from what is predicted; None where there is none to be had."""
    if predicted(lane, sender.producer, commit=commit, now_ms=0).error_code:
        sender.is_lost = True  # a marker that is not taken is sent again, and again
        return None
    try:
        following = end_transaction(client, sender.id, sender.producer, commit=commit)
    except BrokerError:
        sender.is_lost = True
        return None
    marker = awaited(client, lane)
    wanted = timed(lane, sender.producer, marker, commit=commit)
    different = stored_difference(marker, wanted)
    sender.producer, sender.is_open, sender.since = following, False, []
    lane.log = wanted.log
    return different and f"{MARKER}: {different}", Answer(0, wanted.base_offset, stored=marker), wanted


def predicted(lane: Lane, producer: Producer, *, commit: bool, now_ms: int) -> AppendResult:
    """The marker that the reference says."""
    return ended(
        lane.log, *producer, commit=commit, coordinator_epoch=0, now_ms=now_ms, release=lane.release, config=lane.config
    )


def timed(lane: Lane, producer: Producer, marker: bytes, *, commit: bool) -> AppendResult:
    """The same at the times that *marker* says: the coordinator's, when it made it, and the partition's, later."""
    if not is_batch(marker):
        return predicted(lane, producer, commit=commit, now_ms=0)
    made, taken = (max(0, BATCH_V2.values(marker)[name]) for name in ("base_timestamp", "max_timestamp"))
    wanted = predicted(lane, producer, commit=commit, now_ms=taken)
    header = BATCH_V2.values(wanted.stored)
    return replace(wanted, stored=with_header(wanted.stored, {**header, "base_timestamp": min(made, taken)}))


def awaited(client: Client, lane: Lane) -> bytes:
    """What comes behind the log's end, as soon as something does; empty where nothing does."""
    limit = time.monotonic() + MARKER_LIMIT
    while time.monotonic() < limit:
        found = client.fetch({lane.where: lane.log.log_end_offset}, max_wait_ms=0)
        if isinstance(found, dict) and found[lane.where].records:
            return found[lane.where].records
        time.sleep(PAUSE)
    return b""


def marked(marker: bytes) -> Mutant:
    """A marker as something that was looked at."""
    return Mutant(marker, "bytes", (MARKER,), None, Cell(MAGIC_VALUE_V2, "none", "", MARKER, NO_LIE, "entry", "only"))
