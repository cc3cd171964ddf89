"""Producer ids and transactions, step by step: each function is one request and its retries.

Codes that mean "in a moment" are waited out; all others are the caller's to see.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from kafka_brokers.wire import tables
from kafka_brokers.wire.client import PAUSE, Client
from kafka_brokers.wire.connection import ConnectionClosed
from kafka_brokers.wire.errors import BrokerError
from kafka_brokers.wire.partitions import Produced, TopicPartition

# Loading, none yet, not here, still ending the last transaction.
IN_A_MOMENT: Final = frozenset({14, 15, 16, 51})
# Error codes while the producer's last transaction is still ending; the first before version 12.
UNVERIFIED: Final = frozenset({19, 51})
VERIFIED_LIMIT: Final = 5.0
TRANSACTION_KEY: Final = 1
# Seconds; the first transaction creates the topic that holds all transactions.
TIME_LIMIT: Final = 30.0
# The newest versions that are for clients, and not for other brokers.
ADD_PARTITIONS_VERSION: Final = 3

T = TypeVar("T")
Exchanged = dict[TopicPartition, Produced] | ConnectionClosed | None
"""The answers to a produce request; `Closed` if the connection was closed on it, None if there is none to it."""
Payloads = Mapping[TopicPartition, bytes | None]
"""What is produced where."""


class Producer(NamedTuple):
    """Producer id and epoch from a broker."""

    producer_id: int
    producer_epoch: int


def init_producer_id(client: Client, transactional_id: str | None = None, *, timeout_ms: int = 60_000) -> Producer:
    """A producer id, or the next epoch of the one that *transactional_id* has.  Raises `BrokerError`."""
    if transactional_id is not None:
        _patiently(lambda: find_coordinator(client, transactional_id), "FindCoordinator")
    body = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
    found: list[Producer] = []

    def ask() -> int:
        answer = client.demand(tables.INIT_PRODUCER_ID, body)
        found[:] = [Producer(answer["producer_id"], answer["producer_epoch"])]
        return int(answer["error_code"])

    _patiently(ask, "InitProducerId")
    return found[0]


def find_coordinator(client: Client, transactional_id: str) -> int:
    """Ask for the coordinator of *transactional_id*; the error code.  The first time, it makes the broker have one."""
    version = client.newest(tables.FIND_COORDINATOR)
    body = {"key": transactional_id, "coordinator_keys": [transactional_id], "key_type": TRANSACTION_KEY}
    answer = client.demand(tables.FIND_COORDINATOR, body, version)
    return int(answer["coordinators"][0]["error_code"] if "coordinators" in answer else answer["error_code"])


def add_partitions(
    client: Client, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Add *partitions* to the running transaction, or begin one with them; error codes by partition."""
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each.partition)
    body = {
        "transactional_id": transactional_id,
        **producer._asdict(),
        "topics": [{"name": name, "partitions": indexes} for name, indexes in topics.items()],
    }
    found: dict[TopicPartition, int] = {}

    def ask() -> int:
        version = min(ADD_PARTITIONS_VERSION, client.newest(tables.ADD_PARTITIONS_TO_TXN))
        answer = client.demand(tables.ADD_PARTITIONS_TO_TXN, body, version)
        for topic in answer["results_by_topic"]:
            for each in topic["results_by_partition"]:
                found[TopicPartition(topic["name"], each["partition_index"])] = each["partition_error_code"]
        return max((code for code in found.values() if code in IN_A_MOMENT), default=0)

    _patiently(ask, "AddPartitionsToTxn")
    return found


def send_end_transaction(
    client: Client, transactional_id: str, producer: Producer, *, commit: bool, version: int | None = None
) -> Producer:
    """Commit or abort; the producer to go on with, whose epoch is higher from version 5 on (KIP-890).

    Raises:
        BrokerError: there was no such transaction, or another producer has fenced this one.
    """
    body = {"transactional_id": transactional_id, **producer._asdict(), "committed": commit}
    found: list[Producer] = []

    def ask() -> int:
        answer = client.demand(tables.END_TXN, body, version)
        found[:] = [Producer(answer.get("producer_id", -1), answer.get("producer_epoch", -1))]
        return int(answer["error_code"])

    _patiently(ask, "EndTxn")
    return producer if found[0].producer_id < 0 else found[0]


def send_marker(
    client: Client,
    where: TopicPartition,
    producer: Producer,
    *,
    commit: bool,
    coordinator_epoch: int,
    transaction_version: int = 0,
) -> int:
    """Have the leader of *where* append a marker with the producer's epoch, as a coordinator does; the error code."""
    marker = {
        **producer._asdict(),
        "transaction_result": commit,
        "topics": [{"name": where.topic, "partition_indexes": [where.partition]}],
        "coordinator_epoch": coordinator_epoch,
        "transaction_version": transaction_version,
    }
    answer = client.demand(tables.WRITE_TXN_MARKERS, {"markers": [marker]})
    return int(answer["markers"][0]["topics"][0]["partitions"][0]["error_code"])


def once_verified(
    where: TopicPartition,
    payloads: Payloads,
    produce: Callable[[Payloads], Exchanged],
    *,
    seconds: float = VERIFIED_LIMIT,
) -> Exchanged:
    """Produce in a transaction, and again while the coordinator cannot say what becomes of it (TXN-05).

    What goes to other partitions is sent once: it may be stored already.
    """
    given = produce(payloads)
    if not _is_unverified(given, where):
        return given
    again = _until(lambda: produce({where: payloads[where]}), lambda last: not _is_unverified(last, where), seconds)
    return given | again if isinstance(given, dict) and isinstance(again, dict) else again


def _is_unverified(given: Exchanged, where: TopicPartition) -> bool:
    return isinstance(given, dict) and given[where].error_code in UNVERIFIED


def _patiently(ask: Callable[[], int], name: str) -> None:
    """Ask until the code is not one of those that pass by themselves."""
    if code := _until(ask, lambda code: code not in IN_A_MOMENT, TIME_LIMIT):
        raise BrokerError(code, name)


def _until(ask: Callable[[], T], is_answer: Callable[[T], bool], seconds: float) -> T:
    """Ask until it is an answer, or so many seconds have passed: then the last one is."""
    end = time.monotonic() + seconds
    while not is_answer(given := ask()) and time.monotonic() < end:
        time.sleep(PAUSE)
    return given
