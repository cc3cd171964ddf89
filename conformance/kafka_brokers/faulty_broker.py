"""Faulty brokers: two fake brokers that store what is produced, and answer some produce requests with a fault.

A `BrokerFault` is data: which requests it hits, whether their records are stored, and
how they are answered.  What is stored is decided by `kafka_records.append`, so a
batch of an idempotent producer is taken once, and a gap in its sequences is
refused, as by a broker.

Both brokers share one log.  A produce request to the broker that does not lead gets
NOT_LEADER_OR_FOLLOWER, and Metadata names the leader.  Requests of one connection are
answered in order, so that a request which waits for its answer delays those after it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_brokers.fake_broker import NODE, VERSIONS, FakeBroker, produce_response, producer_response
from kafka_brokers.wire.schema import Api, Message
from kafka_records import LogState, TopicConfig, append

RELEASE: Final = "3.9.0"
NOT_LEADER: Final = 6
# Of the first producer; the next one gets the next.
FIRST_PRODUCER: Final = 4000
NODES: Final = (NODE, NODE + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFault:
    """A fault that hits some produce requests.

    Attributes:
        error: Kafka's number for the partition; 0 for none.
        stores: whether the records are stored.
        hangs_up: whether the connection is closed in place of an answer.
        seconds: how long the answer takes.
        throttle_ms: `throttle_time_ms` of the answer.
        moves: whether the other broker leads from then on.
        forgets: whether what is known of the producer is dropped, as when its records were deleted.
        times: how many requests are hit.
        after: how many records have to be stored before.
        most_bytes: `max.message.bytes` of the topic; 0 for the default.
    """

    error: int = 0
    stores: bool = False
    hangs_up: bool = False
    seconds: float = 0
    throttle_ms: int = 0
    moves: bool = False
    forgets: bool = False
    times: int = 1
    after: int = 0
    most_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """The part of a produce request for one partition, and its answer.

    Attributes:
        at: seconds on the clock of this machine when it came.
        node: the broker that it came to.
        data: its records.
        error: the code of the answer.
        hit: whether the fault hit it.
        stored: whether its records were appended to the log.
        answered: whether there was an answer.
        base_offset: of the stored records, also of those that were stored before.
    """

    at: float
    node: int
    topic: str
    partition: int
    acks: int
    data: bytes
    error: int
    hit: bool
    stored: bool
    answered: bool = True
    base_offset: int = -1


@dataclass(slots=True)
class FaultyCluster:
    """Two brokers with one log; it is closed by leaving it.

    Attributes:
        fault: what happens.
        topic: the one topic, whose partitions are led by the same broker.
        requests: all produce requests, in the order in which they came.
        leader: the node that leads.
    """

    fault: BrokerFault
    topic: str
    partitions: int = 2
    requests: list[ProduceRequest] = field(default_factory=list)
    leader: int = NODE
    brokers: tuple[FaultyBroker, ...] = ()
    _logs: dict[tuple[str, int], LogState] = field(default_factory=dict)
    _stored: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    _hits: int = 0
    _producers: int = FIRST_PRODUCER
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __enter__(self) -> FaultyCluster:
        self.brokers = tuple(FaultyBroker(self, node) for node in NODES)
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers:
            broker.close()

    @property
    def address(self) -> str:
        """For `bootstrap.servers`: that of the broker that leads first."""
        return self.brokers[0].address

    def stored(self) -> dict[tuple[str, int], list[bytes]]:
        """The stored bytes of each partition, batch by batch."""
        with self._lock:
            return {key: list(batches) for key, batches in self._stored.items()}

    def new_producer(self) -> int:
        """The next producer id."""
        with self._lock:
            self._producers += 1
            return self._producers - 1

    def take(self, node: int, version: int, acks: int, topic: str, partition: int, data: bytes) -> ProduceRequest:
        """Keep a request, store its records if they are to be stored, and decide about the answer."""
        with self._lock:
            hit = self._is_hit(node)
            if hit and self.fault.forgets:
                log = self._logs.get((topic, partition), LogState())
                self._logs[topic, partition] = LogState(log_end_offset=log.log_end_offset)
            error, stored, base_offset = NOT_LEADER, False, -1
            if node == self.leader and not (hit and not self.fault.stores):
                error, stored, base_offset = self._append(version, topic, partition, data)
            if hit:
                error = self.fault.error
                self.leader = NODES[1] if self.fault.moves else self.leader
            answered = not (hit and self.fault.hangs_up)
            request = ProduceRequest(
                at=time.monotonic(), node=node, topic=topic, partition=partition, acks=acks, data=data,
                error=error, hit=hit, stored=stored, answered=answered, base_offset=-1 if error else base_offset,
            )  # fmt: skip
            self.requests.append(request)
            return request

    def _is_hit(self, node: int) -> bool:
        count = sum(log.log_end_offset for log in self._logs.values())
        if self._hits >= self.fault.times or count < self.fault.after or node != self.leader:
            return False
        self._hits += 1
        return True

    def _append(self, version: int, topic: str, partition: int, data: bytes) -> tuple[int, bool, int]:
        config = TopicConfig(max_message_bytes=self.fault.most_bytes or None)
        log = self._logs.get((topic, partition), LogState())
        now = int(time.time() * 1000)
        result = append(log, data, config, release=RELEASE, api_version=version, now_ms=now)
        self._logs[topic, partition] = result.log
        if result.stored:
            self._stored.setdefault((topic, partition), []).append(result.stored)
        return result.error_code, bool(result.stored), result.base_offset

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset after the last record."""
        return self._logs.get((topic, partition), LogState()).log_end_offset

    def led_by(self) -> int:
        """The node that leads now."""
        with self._lock:
            return self.leader


class FaultyBroker(FakeBroker):
    """One of the brokers of a cluster."""

    def __init__(self, cluster: FaultyCluster, node: int) -> None:
        self._cluster = cluster
        self._node = node
        super().__init__(versions=VERSIONS, partitions=cluster.partitions)
        self.serve(cluster.topic, b"")

    def _answer(self, api: Api, version: int, body: Message) -> Message:
        match api.name:
            case "Metadata":
                return self._with_both(super()._answer(api, version, body))
            case "InitProducerId":
                return producer_response(self._cluster.new_producer(), 0)
            case "Produce":
                return self._taken(version, body)
        return super()._answer(api, version, body)

    def _catch(self, body: Message) -> int:
        """The acks that are wanted; without them the records are taken here, as no answer is made."""
        if body["acks"] == 0:
            self._taken(0, body)
        return int(body["acks"])

    def _with_both(self, answer: Message) -> Message:
        brokers = [
            {"node_id": broker.node, "host": "127.0.0.1", "port": broker.port, "rack": None}
            for broker in self._cluster.brokers
        ]
        leader = self._cluster.led_by()
        topics = [
            {**topic, "partitions": [{**each, **_replicas(leader)} for each in topic["partitions"]]}
            for topic in answer["topics"]
        ]
        return {**answer, "brokers": brokers, "topics": topics}

    @property
    def node(self) -> int:
        """Its number in the cluster."""
        return self._node

    def _taken(self, version: int, body: Message) -> Message:
        cluster, responses, hit, silent = self._cluster, [], False, False
        for topic in body["topic_data"]:
            partitions = []
            for each in topic["partition_data"]:
                where = topic["name"], each["index"]
                taken = cluster.take(self._node, version, body["acks"], *where, each["records"] or b"")
                hit, silent = hit or taken.hit, silent or not taken.answered
                partitions.append(self._partition_answer(taken))
            responses.append({"name": topic["name"], "partition_responses": partitions})
        fault = cluster.fault
        if hit and fault.seconds:
            time.sleep(fault.seconds)
        if silent:
            raise ConnectionAbortedError("the fault hangs up")
        return {"throttle_time_ms": fault.throttle_ms if hit else 0, "responses": responses}

    def _partition_answer(self, taken: ProduceRequest) -> Message:
        answer: dict[str, Any] = {**produce_response(taken.partition, taken.error), "base_offset": taken.base_offset}
        if taken.hit and self._cluster.fault.forgets:
            # What the producer wrote before has been deleted (KIP-360 describes the answer).
            answer["log_start_offset"] = self._cluster.end_offset(taken.topic, taken.partition)
        return answer


def _replicas(leader: int) -> Mapping[str, Any]:
    return {"leader_id": leader, "replica_nodes": list(NODES), "isr_nodes": list(NODES)}
