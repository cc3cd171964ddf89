"""Records of internal topics that brokers wrote, held field by field against kafka-dump-log: needs Java and Maven."""

import base64
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from kafka_brokers import jvm
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.message_schemas import schemas_text, snake
from kafka_pipeline.audit.local import audit_directory
from kafka_records import Batch, Record, decode, decode_control
from kafka_records.internal_topics import decode_topic_record, topic_of_path

confluent_kafka, admin = pytest.importorskip("confluent_kafka"), pytest.importorskip("confluent_kafka.admin")
pytestmark = [pytest.mark.broker, pytest.mark.slow]

CONFIG = {
    "metadata.log.max.record.bytes.between.snapshots": "1000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__share_group_state": "--share-group-state-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}
# Types of records that each release has to have written.
OF_ALL = {
    *("OffsetCommit", "GroupMetadata", "TransactionLog", "AccessControlEntryRecord", "RemoveAccessControlEntryRecord"),
    *("ConfigRecord", "FeatureLevelRecord", "PartitionRecord"),
    *("ProducerIdsRecord", "RegisterBrokerRecord", "RegisterControllerRecord", "RemoveTopicRecord", "TopicRecord"),
    *("UserScramCredentialRecord", "BrokerRegistrationChangeRecord", "NoOpRecord"),
}
OF_3_9 = {"ClientQuotaRecord", "ZkMigrationStateRecord"}
OF_4_4 = {
    *("ConsumerGroupMetadata", "ConsumerGroupMemberMetadata", "ConsumerGroupTargetAssignmentMember"),
    *("ConsumerGroupTargetAssignmentMetadata", "ConsumerGroupCurrentMemberAssignment"),
    *("ConsumerGroupRegularExpression", "ShareGroupMetadata", "ShareGroupMemberMetadata", "ShareSnapshot"),
    *("ShareGroupStatePartitionMetadata", "ShareUpdate"),
}
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
# Fields of bytes that hold a message with a version of its own, which the tool does not print.
EMBEDDED = ("subscription", "assignment")
LINE = re.compile(r"\| offset: (?P<offset>\d+) .*? headerKeys: \[\] ?(?P<content>.*)")
OLD_TRANSACTION = re.compile(
    r"key: transaction_metadata::transactionalId=(?P<transactional_id>\w+) payload: producerId:(?P<producer_id>\d+),"
    r"producerEpoch:(?P<producer_epoch>\d+),state=(?P<state>\w+),partitions=\[(?P<partitions>.*)\],"
    r"txnLastUpdateTimestamp=(?P<transaction_last_update_timestamp_ms>\d+),txnTimeoutMs=(?P<transaction_timeout_ms>\d+)"
)


class Compared(NamedTuple):
    """The types of records that were compared, how many there were, and what differs."""

    types: set[str]
    records: int
    differences: list[str]


def transactions_and_groups(bootstrap: str) -> None:
    """A transaction with offsets, an aborted one, and a group of the classic protocol that commits and is deleted."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="shop")
    producer.init_transactions()
    producer.begin_transaction()
    for number in range(6):
        producer.send("orders", b"value %d" % number, partition=number % 2)
    offset = OffsetAndMetadata(3, "in a transaction", -1)
    producer.send_offsets_to_transaction({TopicPartition("orders", 0): offset}, "billing")
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send("orders", b"aborted").get(10)
    producer.abort_transaction()
    producer.close()
    consumer = KafkaConsumer("orders", bootstrap_servers=bootstrap, group_id="classic", auto_offset_reset="earliest",
                             enable_auto_commit=False)  # fmt: skip
    seen, end = 0, time.monotonic() + 30
    while seen < 6 and time.monotonic() < end:
        seen += sum(map(len, consumer.poll(500).values()))
    consumer.commit()
    consumer.close()


def new_groups(bootstrap: str, client: Any) -> None:
    """A group of the new protocol that commits, and a share group."""
    settings = {"bootstrap.servers": bootstrap, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**settings, "group.id": "modern", "group.protocol": "consumer"})
    consumer.subscribe(["orders", "^ord.*"])
    seen, end = 0, time.monotonic() + 30
    while seen < 6 and time.monotonic() < end:
        seen += consumer.poll(1.0) is not None
    consumer.commit(asynchronous=False)
    consumer.close()
    altered(client, admin.ConfigResource.Type.GROUP, "sharers", "share.auto.offset.reset", "earliest")
    sharing = confluent_kafka.ShareConsumer({"bootstrap.servers": bootstrap, "group.id": "sharers"})
    sharing.subscribe(["orders"])
    seen, end = 0, time.monotonic() + 30
    while seen < 6 and time.monotonic() < end:
        seen += len(list(sharing.poll(1.0) or ()))
    sharing.close()


def altered(client: Any, kind: object, name: str, key: str, value: str) -> None:
    """Set one setting."""
    entry = admin.ConfigEntry(key, value, incremental_operation=admin.AlterConfigOpType.SET)
    done(client.incremental_alter_configs([admin.ConfigResource(kind, name, incremental_configs=[entry])]))


def done(futures: Any) -> None:
    """Wait for an admin client's futures."""
    for future in futures.values():
        future.result(30)


def administered(broker: JvmBroker, client: Any) -> None:
    """Settings, access rights, credentials, quotas, and topics and groups that are deleted."""
    altered(client, admin.ConfigResource.Type.TOPIC, "orders", "retention.ms", "1000000")
    where = (admin.ResourceType.TOPIC, "orders", admin.ResourcePatternType.LITERAL, "User:Zoë")
    what = (admin.AclOperation.READ, admin.AclPermissionType.ALLOW)
    done(client.create_acls([admin.AclBinding(*where, "*", *what)]))
    done(client.delete_acls([admin.AclBindingFilter(*where, None, *what)]))
    sha = admin.ScramCredentialInfo(admin.ScramMechanism.SCRAM_SHA_256, 4096)
    done(client.alter_user_scram_credentials([admin.UserScramCredentialUpsertion("alice", sha, b"secret", b"salt")]))
    if broker.release == "3.9.2":
        # 4.x has the tool in a jar of its own.
        set_quota(broker)
    broker.create_topics({"deleted": 3})
    done(client.delete_topics(["deleted"]))
    done(client.delete_consumer_groups(["classic"]))


def set_quota(broker: JvmBroker) -> None:
    """Give a user a quota."""
    quota = ("--entity-type", "users", "--entity-name", "alice", "--alter", "--add-config", "request_percentage=12.5")
    code, said = broker.tool("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, *quota)
    assert code == 0, said


def files_of(folder: Path) -> dict[str, list[Path]]:
    """Files with records of internal topics, by topic."""
    found: dict[str, list[Path]] = {}
    for path in (*sorted(folder.glob("__*/*.log")), *sorted(folder.glob("**/*.checkpoint"))):
        topic = topic_of_path(path.as_posix())
        if topic is not None and path.stat().st_size:
            found.setdefault(topic, []).append(path)
    return found


def compared(broker: JvmBroker, folder: Path) -> Compared:
    """Compare our decoding of each record with the tool's."""
    result = Compared(set(), 0, [])
    for topic, paths in files_of(folder).items():
        said = broker.dump_log_segments(DECODERS[topic], "--files", ",".join(map(str, paths)))
        for path, lines in zip(paths, re.split(r"^Dumping .*\n", said, flags=re.MULTILINE)[1:], strict=True):
            contents = {int(each["offset"]): each["content"] for each in LINE.finditer(lines)}
            for batch, record in records_of(path):
                content = contents.pop(record.offset)
                difference = control_difference(record, content) if batch.control else ""
                if not batch.control:
                    type_, difference = record_difference(topic, record, content)
                    result.types.add(type_)
                result = result._replace(records=result.records + 1)
                if difference:
                    result.differences.append(f"{path.name} {record.offset}: {difference}")
            result.differences.extend(f"{path.name} {offset}: only the tool has it" for offset in contents)
    return result


def records_of(path: Path) -> Iterator[tuple[Batch, Record]]:
    """Each record with its batch."""
    for batch in decode(path.read_bytes()):
        for record in batch.records:
            yield batch, record


def record_difference(topic: str, record: Record, content: str) -> tuple[str, str]:
    """The type of a record, and how the tool's reading differs; empty if it does not."""
    found = decode_topic_record(topic, record.key, record.value)
    assert found.remarks == ()
    if old := OLD_TRANSACTION.fullmatch(content):
        return str(found.type), old_transaction_difference(found.key, found.value, old.groupdict())
    key, _, payload = content.rpartition("payload: ")
    tool: list[Any] = []
    if topic != "__cluster_metadata":
        tool.append(in_snake(json.loads(key.removeprefix("key: "))["data"]))
    tool.append(None if payload == "<DELETE>" else in_snake(json.loads(payload)["data"]))
    ours = [as_json(each) for each in ((found.value,) if topic == "__cluster_metadata" else (found.key, found.value))]
    if topic == "__cluster_metadata":
        assert json.loads(payload)["type"] == snake(str(found.type)).upper()
        assert json.loads(payload)["version"] == found.version
    elif payload != "<DELETE>":
        assert json.loads(payload)["version"] == str(found.version)
    return str(found.type), "" if ours == tool else f"ours {ours}, the tool's {tool}"


def old_transaction_difference(key: Any, value: Any, tool: dict[str, str]) -> str:
    """How the tool's text of a transaction, as 3.9 prints it, differs."""
    partitions = [
        f"{each['topic']}-{number}"
        for each in value["transaction_partitions"] or ()
        for number in each["partition_ids"]
    ]
    ours = {**key, **value, "state": STATES[value["transaction_status"]]}
    assert sorted(filter(None, tool.pop("partitions").split(","))) == sorted(partitions)
    return "".join(f"{name}: {ours[name]}, not {text}" for name, text in tool.items() if str(ours[name]) != text)


def control_difference(record: Record, content: str) -> str:
    """How the tool's reading of a control record differs."""
    found = decode_control(record)
    assert isinstance(found.value, dict)
    word, _, rest = content.partition(" ")
    word = word.removesuffix(":")
    if word == "endTxnMarker":
        same = rest == f"{str(found.type).upper()} coordinatorEpoch: {found.value['coordinator_epoch']}"
    elif word == "controlType":
        same = rest.partition("(")[0] == str(found.type).upper()
    else:
        names = {"KRaftVersion": "kraft_version", "KRaftVoters": "kraft_voters"}
        # Directories and the like are in other forms.
        same = names.get(word, snake(word)) == found.type and in_snake(json.loads(rest)).keys() == found.value.keys()
        if word != "KRaftVoters":
            same = same and in_snake(json.loads(rest)) == as_json(found.value)
    return "" if same else f"{found} is not {content}"


def in_snake(value: Any) -> Any:
    """JSON with names in snake case."""
    if isinstance(value, dict):
        return {snake(name): in_snake(each) for name, each in value.items()}
    return [in_snake(each) for each in value] if isinstance(value, list) else value


def as_json(value: Any, name: str = "") -> Any:
    """Our fields as the tool prints them: bytes in base64, and no version of embedded messages."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {key: as_json(each, key) for key, each in value.items() if name not in EMBEDDED or key != "version"}
        case tuple():
            return [as_json(each) for each in value]
    return value


@pytest.mark.parametrize("release", ["3.9.2", "4.4.0"])
def test_records_are_read_as_the_tool_reads_them(release: str) -> None:
    """Each field of each record and snapshot is what kafka-dump-log prints, and an audit finds nothing wrong."""
    wanted = OF_ALL | (OF_4_4 if release == "4.4.0" else OF_3_9)
    with jvm.start_jvm(release, config=CONFIG) as broker:
        broker.create_topics({"orders": 2})
        transactions_and_groups(broker.bootstrap)
        client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
        if release == "4.4.0":
            new_groups(broker.bootstrap, client)
        administered(broker, client)
        end = time.monotonic() + 30
        log = broker.data_directory / "__cluster_metadata-0"
        while len([*log.glob("*.checkpoint")]) < 2 and time.monotonic() < end:
            time.sleep(0.1)
        del client
        broker.kill()
        found = compared(broker, broker.data_directory)
        assert found.differences == []
        assert wanted - found.types == set()
        assert found.records > 100
        assert len([*log.glob("*.checkpoint")]) >= 2
        report = audit_directory(broker.data_directory)
        kinds = {each.kind for log_report in report.logs for each in log_report.listed}
        assert kinds <= {"not_idempotent", "gap", "active_tail", "preallocated"}
        assert any(".checkpoint" in segment.beside for each in report.logs for segment in each.segments)


def test_the_table_is_that_of_the_jars() -> None:
    """The table of internal topics is what the message schemas in the jars of five releases give."""
    from importlib.resources import files

    assert files("kafka_records").joinpath("internal_topics.json").read_text(encoding="utf-8") == schemas_text()
