"""The requests that we send, and their responses, in all versions from 0.8 to 4.4.

Written from Kafka's protocol guide and checked against brokers.  Field names are
Kafka's in snake case, with one departure: what Kafka names differently in
different versions of one table (the `V3AndBelow…` fields of AddPartitionsToTxn)
stands in the form of those versions.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_brokers.wire.schema import NEVER, ZERO_UUID, Api, Type, WireField

NO_LIMIT: Final = 0x7FFF_FFFF
HIGHEST_OFFSET: Final = (1 << 63) - 1
# Produce and Fetch carry topic ids in the versions after this one (KIP-516).
LAST_BY_NAME: Final = 12


def one(name: str, kind: Type | tuple[WireField, ...], since: int = 0, until: int = NEVER, **more: Any) -> WireField:
    """A field with one value."""
    return WireField(name, kind, since, until, **more)


def many(name: str, kind: Type | tuple[WireField, ...], since: int = 0, until: int = NEVER, **more: Any) -> WireField:
    """A field with an array."""
    return WireField(name, kind, since, until, many=True, **more)


THROTTLE: Final = "throttle_time_ms"


def topic_key(name: str) -> tuple[WireField, WireField]:
    """A topic by name, in later versions by id."""
    return one(name, "string", 0, LAST_BY_NAME), one("topic_id", "uuid", LAST_BY_NAME + 1)


LEADER: Final = (one("leader_id", "int32", default=-1), one("leader_epoch", "int32", default=-1))
ENDPOINT: Final = (
    one("node_id", "int32"),
    one("host", "string"),
    one("port", "int32"),
    one("rack", "string", null=0, default=None),
)

API_VERSIONS: Final = Api(
    18, "ApiVersions", 0, 5, flexible=3,
    request=(
        one("client_software_name", "string", 3, default="kafkaproof"),
        one("client_software_version", "string", 3, default="1"),
        one("cluster_id", "string", 5, null=5, default=None),
        one("node_id", "int32", 5, default=-1),
    ),
    response=(
        one("error_code", "int16"),
        many("api_keys", (one("api_key", "int16"), one("min_version", "int16"), one("max_version", "int16"))),
        one(THROTTLE, "int32", 1),
        many("supported_features",
             (one("name", "string"), one("min_version", "int16"), one("max_version", "int16")), 3, tag=0, default=()),
        one("finalized_features_epoch", "int64", 3, tag=1, default=-1),
        many("finalized_features",
             (one("name", "string"), one("max_version_level", "int16"), one("min_version_level", "int16")),
             3, tag=2, default=()),
        one("zk_migration_ready", "bool", 3, tag=3, default=False),
    ),
)  # fmt: skip

METADATA: Final = Api(
    3, "Metadata", 0, 13, flexible=9,
    request=(
        # Empty means all topics in version 0, and none from version 1 on, where null means all.
        many("topics", (
            one("topic_id", "uuid", 10, default=ZERO_UUID),
            one("name", "string", null=10),
        ), null=1),
        one("allow_auto_topic_creation", "bool", 4, default=False),
        one("include_cluster_authorized_operations", "bool", 8, 10, default=False),
        one("include_topic_authorized_operations", "bool", 8, default=False),
    ),
    response=(
        one(THROTTLE, "int32", 3),
        many("brokers", (
            one("node_id", "int32"),
            one("host", "string"),
            one("port", "int32"),
            one("rack", "string", 1, null=1),
        )),
        one("cluster_id", "string", 2, null=2),
        one("controller_id", "int32", 1),
        many("topics", (
            one("error_code", "int16"),
            one("name", "string", null=12),
            one("topic_id", "uuid", 10),
            one("is_internal", "bool", 1),
            many("partitions", (
                one("error_code", "int16"),
                one("partition_index", "int32"),
                one("leader_id", "int32"),
                one("leader_epoch", "int32", 7),
                many("replica_nodes", "int32"),
                many("isr_nodes", "int32"),
                many("offline_replicas", "int32", 5),
            )),
            one("topic_authorized_operations", "int32", 8),
        )),
        one("cluster_authorized_operations", "int32", 8, 10),
        one("error_code", "int16", 13),
    ),
)  # fmt: skip

CREATE_TOPICS: Final = Api(
    19, "CreateTopics", 0, 7, flexible=5,
    request=(
        many("topics", (
            one("name", "string"),
            one("num_partitions", "int32", default=1),
            one("replication_factor", "int16", default=1),
            many("assignments", (one("partition_index", "int32"), many("broker_ids", "int32")), default=()),
            many("configs", (one("name", "string"), one("value", "string", null=0)), default=()),
        )),
        one("timeout_ms", "int32", default=60_000),
        one("validate_only", "bool", 1, default=False),
    ),
    response=(
        one(THROTTLE, "int32", 2),
        many("topics", (
            one("name", "string"),
            one("topic_id", "uuid", 7),
            one("error_code", "int16"),
            one("error_message", "string", 1, null=1),
            one("topic_config_error_code", "int16", 5, tag=0, default=0),
            one("num_partitions", "int32", 5),
            one("replication_factor", "int16", 5),
            many("configs", (
                one("name", "string"),
                one("value", "string", null=5),
                one("read_only", "bool"),
                one("config_source", "int8"),
                one("is_sensitive", "bool"),
            ), 5, null=5),
        )),
    ),
)  # fmt: skip

PRODUCE: Final = Api(
    0, "Produce", 0, 13, flexible=9,
    request=(
        one("transactional_id", "string", 3, null=3, default=None),
        one("acks", "int16", default=-1),
        one("timeout_ms", "int32", default=30_000),
        many("topic_data", (
            *topic_key("name"),
            many("partition_data", (one("index", "int32"), one("records", "bytes", null=0))),
        )),
    ),
    response=(
        many("responses", (
            *topic_key("name"),
            many("partition_responses", (
                one("index", "int32"),
                one("error_code", "int16"),
                one("base_offset", "int64"),
                one("log_append_time_ms", "int64", 2),
                one("log_start_offset", "int64", 5),
                many("record_errors", (
                    one("batch_index", "int32"),
                    one("batch_index_error_message", "string", null=8),
                ), 8),
                one("error_message", "string", 8, null=8),
                one("current_leader", LEADER, 10, tag=0, default=None),
            )),
        )),
        one(THROTTLE, "int32", 1),
        many("node_endpoints", ENDPOINT, 10, tag=0, default=()),
    ),
)  # fmt: skip

FETCH: Final = Api(
    1, "Fetch", 0, 18, flexible=12,
    request=(
        one("cluster_id", "string", 12, null=12, tag=0, default=None),
        one("replica_id", "int32", 0, 14, default=-1),
        one("replica_state", (one("replica_id", "int32", default=-1), one("replica_epoch", "int64", default=-1)),
            15, tag=1, default=None),
        one("max_wait_ms", "int32", default=500),
        one("min_bytes", "int32", default=1),
        one("max_bytes", "int32", 3, default=NO_LIMIT),
        one("isolation_level", "int8", 4, default=0),
        # No session (KIP-227): every fetch of ours is a full one.
        one("session_id", "int32", 7, default=0),
        one("session_epoch", "int32", 7, default=-1),
        many("topics", (
            *topic_key("topic"),
            many("partitions", (
                one("partition", "int32"),
                one("current_leader_epoch", "int32", 9, default=-1),
                one("fetch_offset", "int64"),
                one("last_fetched_epoch", "int32", 12, default=-1),
                one("log_start_offset", "int64", 5, default=-1),
                one("partition_max_bytes", "int32", default=NO_LIMIT),
                one("replica_directory_id", "uuid", 17, tag=0, default=ZERO_UUID),
                one("high_watermark", "int64", 18, tag=1, default=HIGHEST_OFFSET),
            )),
        )),
        many("forgotten_topics_data",
             (one("topic", "string", 7, 12), one("topic_id", "uuid", 13), many("partitions", "int32")), 7, default=()),
        one("rack_id", "string", 11, default=""),
    ),
    response=(
        one(THROTTLE, "int32", 1),
        one("error_code", "int16", 7),
        one("session_id", "int32", 7),
        many("responses", (
            *topic_key("topic"),
            many("partitions", (
                one("partition_index", "int32"),
                one("error_code", "int16"),
                one("high_watermark", "int64"),
                one("last_stable_offset", "int64", 4),
                one("log_start_offset", "int64", 5),
                one("diverging_epoch", (one("epoch", "int32"), one("end_offset", "int64")), 12, tag=0, default=None),
                one("current_leader", LEADER, 12, tag=1, default=None),
                one("snapshot_id", (one("end_offset", "int64"), one("epoch", "int32")), 12, tag=2, default=None),
                many("aborted_transactions", (one("producer_id", "int64"), one("first_offset", "int64")), 4, null=4),
                one("preferred_read_replica", "int32", 11),
                one("records", "bytes", null=0),
            )),
        )),
        many("node_endpoints", ENDPOINT, 16, tag=0, default=()),
    ),
)  # fmt: skip

LIST_OFFSETS: Final = Api(
    2, "ListOffsets", 0, 11, flexible=6,
    request=(
        one("replica_id", "int32", default=-1),
        one("isolation_level", "int8", 2, default=0),
        many("topics", (
            one("name", "string"),
            many("partitions", (
                one("partition_index", "int32"),
                one("current_leader_epoch", "int32", 4, default=-1),
                one("timestamp", "int64"),
                one("max_num_offsets", "int32", 0, 0, default=1),
            )),
        )),
        one("timeout_ms", "int32", 10, default=30_000),
    ),
    response=(
        one(THROTTLE, "int32", 2),
        many("topics", (
            one("name", "string"),
            many("partitions", (
                one("partition_index", "int32"),
                one("error_code", "int16"),
                many("old_style_offsets", "int64", 0, 0),
                one("timestamp", "int64", 1),
                one("offset", "int64", 1),
                one("leader_epoch", "int32", 4),
            )),
        )),
    ),
)  # fmt: skip

FIND_COORDINATOR: Final = Api(
    10, "FindCoordinator", 0, 6, flexible=3,
    request=(
        one("key", "string", 0, 3),
        one("key_type", "int8", 1, default=0),
        many("coordinator_keys", "string", 4),
    ),
    response=(
        one(THROTTLE, "int32", 1),
        one("error_code", "int16", 0, 3),
        one("error_message", "string", 1, 3, null=1),
        one("node_id", "int32", 0, 3),
        one("host", "string", 0, 3),
        one("port", "int32", 0, 3),
        many("coordinators", (
            one("key", "string"),
            one("node_id", "int32"),
            one("host", "string"),
            one("port", "int32"),
            one("error_code", "int16"),
            one("error_message", "string", null=4),
        ), 4),
    ),
)  # fmt: skip

INIT_PRODUCER_ID: Final = Api(
    22, "InitProducerId", 0, 6, flexible=2,
    request=(
        one("transactional_id", "string", null=0, default=None),
        one("transaction_timeout_ms", "int32", default=60_000),
        one("producer_id", "int64", 3, default=-1),
        one("producer_epoch", "int16", 3, default=-1),
        one("enable_2pc", "bool", 6, default=False),
        one("keep_prepared_txn", "bool", 6, default=False),
    ),
    response=(
        one(THROTTLE, "int32"),
        one("error_code", "int16"),
        one("producer_id", "int64"),
        one("producer_epoch", "int16"),
        one("ongoing_txn_producer_id", "int64", 6),
        one("ongoing_txn_producer_epoch", "int16", 6),
    ),
)  # fmt: skip

_TXN_TOPICS: Final = (one("name", "string"), many("partitions", "int32"))
_TXN_RESULTS: Final = (
    one("name", "string"),
    many("results_by_partition", (one("partition_index", "int32"), one("partition_error_code", "int16"))),
)

# Versions 4 and 5 are for brokers that add partitions for their clients (KIP-890).
ADD_PARTITIONS_TO_TXN: Final = Api(
    24, "AddPartitionsToTxn", 0, 5, flexible=3,
    request=(
        many("transactions", (
            one("transactional_id", "string"),
            one("producer_id", "int64"),
            one("producer_epoch", "int16"),
            one("verify_only", "bool", default=False),
            many("topics", _TXN_TOPICS),
        ), 4),
        one("transactional_id", "string", 0, 3),
        one("producer_id", "int64", 0, 3),
        one("producer_epoch", "int16", 0, 3),
        many("topics", _TXN_TOPICS, 0, 3),
    ),
    response=(
        one(THROTTLE, "int32"),
        one("error_code", "int16", 4),
        many("results_by_transaction", (one("transactional_id", "string"), many("topic_results", _TXN_RESULTS)), 4),
        many("results_by_topic", _TXN_RESULTS, 0, 3),
    ),
)  # fmt: skip

END_TXN: Final = Api(
    26, "EndTxn", 0, 5, flexible=3,
    request=(
        one("transactional_id", "string"),
        one("producer_id", "int64"),
        one("producer_epoch", "int16"),
        one("committed", "bool"),
    ),
    response=(
        one(THROTTLE, "int32"),
        one("error_code", "int16"),
        one("producer_id", "int64", 5),
        one("producer_epoch", "int16", 5),
    ),
)  # fmt: skip

_MARKED: Final = (one("partition_index", "int32"), one("error_code", "int16"))

WRITE_TXN_MARKERS: Final = Api(
    27, "WriteTxnMarkers", 0, 2, flexible=1,
    request=(
        many("markers", (
            one("producer_id", "int64"),
            one("producer_epoch", "int16"),
            one("transaction_result", "bool"),
            many("topics", (one("name", "string"), many("partition_indexes", "int32"))),
            one("coordinator_epoch", "int32"),
            one("transaction_version", "int8", 2, default=0),
        )),
    ),
    response=(
        many("markers", (
            one("producer_id", "int64"),
            many("topics", (one("name", "string"), many("partitions", _MARKED))),
        )),
    ),
)  # fmt: skip

# Consumer groups, each request in one version: a fake broker with groups of one member takes them.
_MEMBER: Final = (one("group_id", "string"), one("generation_id", "int32"), one("member_id", "string"))

JOIN_GROUP: Final = Api(
    11, "JoinGroup", 2, 2, flexible=6,
    request=(
        one("group_id", "string"),
        one("session_timeout_ms", "int32"),
        one("rebalance_timeout_ms", "int32"),
        one("member_id", "string"),
        one("protocol_type", "string"),
        many("protocols", (one("name", "string"), one("metadata", "bytes"))),
    ),
    response=(
        one(THROTTLE, "int32"),
        one("error_code", "int16"),
        one("generation_id", "int32"),
        one("protocol_name", "string"),
        one("leader", "string"),
        one("member_id", "string"),
        many("members", (one("member_id", "string"), one("metadata", "bytes"))),
    ),
)  # fmt: skip

SYNC_GROUP: Final = Api(
    14, "SyncGroup", 1, 1, flexible=4,
    request=(*_MEMBER, many("assignments", (one("member_id", "string"), one("assignment", "bytes")))),
    response=(one(THROTTLE, "int32"), one("error_code", "int16"), one("assignment", "bytes")),
)  # fmt: skip

HEARTBEAT: Final = Api(
    12, "Heartbeat", 1, 1, flexible=4,
    request=_MEMBER,
    response=(one(THROTTLE, "int32"), one("error_code", "int16")),
)  # fmt: skip

LEAVE_GROUP: Final = Api(
    13, "LeaveGroup", 1, 1, flexible=4,
    request=(one("group_id", "string"), one("member_id", "string")),
    response=(one(THROTTLE, "int32"), one("error_code", "int16")),
)  # fmt: skip

OFFSET_FETCH: Final = Api(
    9, "OffsetFetch", 3, 3, flexible=6,
    request=(
        one("group_id", "string"),
        many("topics", (one("name", "string"), many("partition_indexes", "int32")), null=2),
    ),
    response=(
        one(THROTTLE, "int32"),
        many("topics", (
            one("name", "string"),
            many("partitions", (
                one("partition_index", "int32"),
                one("committed_offset", "int64"),
                one("metadata", "string", null=0),
                one("error_code", "int16"),
            )),
        )),
        one("error_code", "int16"),
    ),
)  # fmt: skip

OFFSET_COMMIT: Final = Api(
    8, "OffsetCommit", 5, 5, flexible=8,
    request=(
        *_MEMBER,
        many("topics", (
            one("name", "string"),
            many("partitions", (
                one("partition_index", "int32"),
                one("committed_offset", "int64"),
                one("committed_metadata", "string", null=0),
            )),
        )),
    ),
    response=(
        one(THROTTLE, "int32"),
        many("topics", (
            one("name", "string"),
            many("partitions", (one("partition_index", "int32"), one("error_code", "int16"))),
        )),
    ),
)  # fmt: skip

# Later versions give reasons, and name topics by id.
DELETE_TOPICS: Final = Api(
    20, "DeleteTopics", 0, 3, flexible=4,
    request=(many("topic_names", "string"), one("timeout_ms", "int32", default=60_000)),
    response=(
        one(THROTTLE, "int32", 1),
        many("responses", (one("name", "string"), one("error_code", "int16"))),
    ),
)  # fmt: skip
