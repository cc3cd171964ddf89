"""Responses of the fake broker that need no waiting, by request.

An answer is the body of a response, as `broker.wire.schema` writes it; fields
that a version does not have are left out by the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kafka_brokers.wire import tables
from kafka_brokers.wire.schema import ZERO_UUID, Api, Message

NODE: Final = 1
CLUSTER: Final = "kafkaproof-fake-broker"
UNSUPPORTED_VERSION: Final = 35
EARLIEST: Final = -2
NO_EPOCH: Final = -1
NO_OPERATIONS: Final = -(1 << 31)

Versions = Mapping[Api, tuple[int, int]]
# From version 13 on topics have ids, of which a broker without a state has none to give.
VERSIONS: Final[Versions] = {
    tables.PRODUCE: (0, 9),
    tables.FETCH: (0, 12),
    tables.LIST_OFFSETS: (0, 7),
    tables.METADATA: (0, 12),
    tables.FIND_COORDINATOR: (0, 4),
    tables.API_VERSIONS: (0, 3),
    tables.INIT_PRODUCER_ID: (0, 4),
}
# For clients that consume as members of a group only.
GROUP_VERSIONS: Final[Versions] = {
    **VERSIONS,
    **{
        api: (api.oldest, api.newest)
        for api in (
            tables.JOIN_GROUP,
            tables.SYNC_GROUP,
            tables.HEARTBEAT,
            tables.LEAVE_GROUP,
            tables.OFFSET_FETCH,
            tables.OFFSET_COMMIT,
        )
    },
}
MEMBER: Final = "kafkaproof-member"


def magic_of_fetch(version: int) -> int:
    """The magic that clients of a fetch version can read: from 2 on v1, from 4 on v2 (KIP-32, KIP-98)."""
    return 2 if version >= 4 else 1 if version >= 2 else 0


def versions(offered: Versions, *, error_code: int = 0) -> Message:
    """To ApiVersions."""
    keys = [{"api_key": api.key, "min_version": low, "max_version": high} for api, (low, high) in offered.items()]
    return {"error_code": error_code, "api_keys": keys, "throttle_time_ms": 0}


def metadata(body: Message, host: str, port: int, topics: Iterable[str], partitions: int) -> Message:
    """To Metadata: every requested topic exists."""
    requested = body.get("topics")
    names = list(topics) if not requested else [each["name"] for each in requested if each["name"] is not None]
    return {
        "throttle_time_ms": 0,
        "brokers": [{"node_id": NODE, "host": host, "port": port, "rack": None}],
        "cluster_id": CLUSTER,
        "controller_id": NODE,
        "topics": [_topic(name, partitions) for name in names],
        "cluster_authorized_operations": NO_OPERATIONS,
        "error_code": 0,
    }


def _topic(name: str, partitions: int) -> Message:
    return {
        "error_code": 0,
        "name": name,
        "topic_id": ZERO_UUID,
        "is_internal": False,
        "partitions": [_partition(index) for index in range(partitions)],
        "topic_authorized_operations": NO_OPERATIONS,
    }


def _partition(index: int) -> Message:
    # Without an epoch no client sends OffsetForLeaderEpoch.
    return {
        "error_code": 0,
        "partition_index": index,
        "leader_id": NODE,
        "leader_epoch": NO_EPOCH,
        "replica_nodes": [NODE],
        "isr_nodes": [NODE],
        "offline_replicas": [],
    }


def coordinator(body: Message, host: str, port: int) -> Message:
    """To FindCoordinator: it is us."""
    where = {"node_id": NODE, "host": host, "port": port}
    keys = [{"key": key, "error_code": 0, "error_message": None, **where} for key in body.get("coordinator_keys", ())]
    return {"throttle_time_ms": 0, "error_code": 0, "error_message": None, "coordinators": keys, **where}


def list_offset(index: int, timestamp: int, latest: int) -> Message:
    """To ListOffsets, for one partition: every log starts at 0."""
    offset = 0 if timestamp == EARLIEST else latest
    return {
        "partition_index": index,
        "error_code": 0,
        "old_style_offsets": [offset],
        "timestamp": -1,
        "offset": offset,
        "leader_epoch": NO_EPOCH,
    }


def fetch_response(index: int, end: int, records: bytes, aborted: Sequence[tuple[int, int]] = ()) -> Message:
    """To Fetch, for one partition: all of it is stable; *aborted* has producer id and first offset of transactions."""
    return {
        "partition_index": index,
        "error_code": 0,
        "high_watermark": end,
        "last_stable_offset": end,
        "log_start_offset": 0,
        "aborted_transactions": [{"producer_id": who, "first_offset": first} for who, first in aborted],
        "preferred_read_replica": -1,
        "records": records,
    }


def produce_response(index: int) -> Message:
    """To Produce, for one partition: it was taken."""
    return {
        "index": index,
        "error_code": 0,
        "base_offset": 0,
        "log_append_time_ms": -1,
        "log_start_offset": 0,
        "record_errors": [],
        "error_message": None,
    }


def producer(producer_id: int, producer_epoch: int) -> Message:
    """To InitProducerId."""
    return {"throttle_time_ms": 0, "error_code": 0, "producer_id": producer_id, "producer_epoch": producer_epoch}


def group(name: str, body: Message) -> Message:
    """To the requests of a group, by the *name* of the request: each member is alone in it and leads it."""
    done: Message = {"throttle_time_ms": 0, "error_code": 0}
    match name:
        case "JoinGroup":
            first = body["protocols"][0]
            members = [{"member_id": MEMBER, "metadata": first["metadata"]}]
            mine = {"protocol_name": first["name"], "leader": MEMBER, "member_id": MEMBER, "members": members}
            return {**done, "generation_id": 1, **mine}
        case "SyncGroup":
            return {**done, "assignment": next((each["assignment"] for each in body["assignments"]), b"")}
        case "OffsetFetch":
            none = {"committed_offset": -1, "metadata": "", "error_code": 0}
            topics = [
                {
                    "name": topic["name"],
                    "partitions": [{"partition_index": at, **none} for at in topic["partition_indexes"]],
                }
                for topic in body["topics"] or ()
            ]
            return {**done, "topics": topics}
        case "OffsetCommit":
            topics = [
                {
                    "name": topic["name"],
                    "partitions": [
                        {"partition_index": each["partition_index"], "error_code": 0} for each in topic["partitions"]
                    ],
                }
                for topic in body["topics"]
            ]
            return {**done, "topics": topics}
    return done


def known_fields(api: Api, message: Mapping[str, Any]) -> Message:
    """The fields of *message* that the response of *api* has in some version."""
    names = {each.name for each in api.response}
    return {name: value for name, value in message.items() if name in names}
