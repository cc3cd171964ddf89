"""Tables of the records of Kafka's internal topics, generated from the message schemas in the jars of releases.

The jars hold Kafka's own JSON schemas.  A message is taken from the newest release that has it, and has to agree with
what older releases wrote: a newer one may only have more tagged fields.  `kafkaproof broker schemas` writes the table
that `kafka_records.internal_topics` reads.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafka_brokers import jars
from kafka_brokers.interface import NoBroker
from kafka_brokers.releases import find_release

# Newest first.  KRaft's records before 3.3 were a preview, with other layouts under the same versions.
READ: Final = ("4.4.0", "4.3.1", "4.1.2", "4.0.2", "3.9.2")
# Share groups were early access until 4.0 (KIP-932): 4.1 gave version 0 of their records other fields.
EARLY_ACCESS: Final = {"4.0.2": re.compile(r"Share\w+"), "3.9.2": re.compile(r"Share\w+")}
SCHEMA_FILE: Final = re.compile(r"(?:common/)?(?:message|metadata)/\w+\.json")
# A comment, or a string that may hold two slashes.
TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*')
WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
VERSIONS: Final = re.compile(r"(\d+)(?:(\+)|-(\d+))?")
NO_LIMIT: Final = 32767

# By the name of a schema: the topic whose records it describes.
TOPICS: Final = (
    ("__transaction_state", re.compile(r"TransactionLog(Key|Value)")),
    ("__share_group_state", re.compile(r"Share(Snapshot|Update)(Key|Value)")),
    (
        "__consumer_offsets",
        re.compile(r"((Legacy)?OffsetCommit|GroupMetadata|(Consumer|Share|Streams)Group\w+)(Key|Value)"),
    ),
    ("__remote_log_metadata", re.compile(r"Remote\w+Record")),
)
EMBEDDED: Final = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment")
# Fields of bytes that hold a message of the consumer protocol.
HOLDS: Final = {
    ("GroupMetadataValue", "subscription"): "ConsumerProtocolSubscription",
    ("GroupMetadataValue", "assignment"): "ConsumerProtocolAssignment",
    ("ConsumerGroupMemberMetadataValue", "metadata"): "ConsumerProtocolSubscription",
}

Schema = Mapping[str, Any]
Described = dict[str, Any]


def schemas_text(releases: Iterable[str] = READ) -> str:
    """The table as JSON: one line for each field.

    Raises:
        NoBroker: jars cannot be fetched, or two releases contradict each other in one version of a message.
        JarsDiffer: jars are not those that were locked.
    """
    names = list(releases)
    found: dict[str, Described] = {}
    for release in names:
        early = EARLY_ACCESS.get(release)
        for schema in read_schemas(jars.provide(find_release(release))):
            if early is None or not early.fullmatch(schema["name"]):
                _take(found, schema, release)
    return _as_text(names[0], found)


def read_schemas(folder: Path) -> Iterator[Schema]:
    """The schemas in the jars of *folder* that describe records of internal topics."""
    for jar in sorted(folder.glob("kafka*.jar")):
        with zipfile.ZipFile(jar) as content:
            for name in sorted(content.namelist()):
                if SCHEMA_FILE.fullmatch(name):
                    schema = json.loads(without_comments(content.read(name).decode()))
                    if topic_of_schema(schema) is not None:
                        yield schema


def without_comments(text: str) -> str:
    """*text* without comments, which Kafka's schemas have.

    >>> without_comments('{"a": "b//c"} // d')
    '{"a": "b//c"} '
    """
    return TOKEN.sub(lambda found: found[0] if found[0].startswith('"') else "", text)


def topic_of_schema(schema: Schema) -> str | None:
    """The topic whose records *schema* describes, `embedded` for what others hold in bytes, or None."""
    name = schema["name"]
    for topic, names in TOPICS:
        if names.fullmatch(name):
            return topic
    if name in EMBEDDED:
        return "embedded"
    return "__cluster_metadata" if schema["type"] == "metadata" and name.endswith("Record") else None


def _take(found: dict[str, Described], schema: Schema, release: str) -> None:
    """Add a message, unless a newer release has it; then both have to agree on versions that both have."""
    described = message_entry(schema)
    newer = found.setdefault(described["name"], described)
    if newer is described:
        described["release"] = release
        return
    first = max(described["versions"][0], newer["versions"][0])
    for version in range(first, described["versions"][1] + 1):
        if not _agree(_at(described["fields"], version), _at(newer["fields"], version)):
            raise NoBroker(f"{described['name']} {version} of Kafka {release} is not that of {newer['release']}")


def message_entry(schema: Schema) -> Described:
    """A message in the words of the table."""
    name, topic = schema["name"], topic_of_schema(schema)
    structs = {each["name"]: each["fields"] for each in schema.get("commonStructs", ())}
    first, last = version_range(schema["validVersions"])
    id_ = schema.get("apiKey")
    if topic not in (None, "embedded") and id_ is None:
        # Before 4.1 the version of a key was what is its type now; versions 0 and 1 of a commit's were one layout.
        id_ = last if name.endswith("Key") else None
    if name.endswith("Key"):
        first = last = 0
    fields = [_field(each, name, structs, schema["validVersions"]) for each in schema["fields"]]
    flexible = version_range(schema.get("flexibleVersions", "none"))[0]
    return {"name": name, "topic": topic, "id": id_, "versions": [first, last], "flexible": flexible, "fields": fields}


def _field(field: Schema, message: str, structs: Mapping[str, Any], valid: str) -> Described:
    kind, many = field["type"].removeprefix("[]"), field["type"].startswith("[]")
    inner = field.get("fields") or structs.get(kind)
    # A tagged field without versions has those in which it is tagged (FieldSpec).
    versions = version_range(field.get("versions", field.get("taggedVersions", valid)))
    if message.endswith("Key"):
        versions = (0, NO_LIMIT)
    described: Described = {"name": snake(field["name"]), "type": "struct" if inner else kind}
    if many:
        described["many"] = True
    if versions != (0, NO_LIMIT):
        described["versions"] = list(versions)
    if (nullable := version_range(field.get("nullableVersions", "none"))) != NEVER:
        described["nullable"] = list(nullable)
    if (tagged := version_range(field.get("taggedVersions", "none"))) != NEVER:
        described["tagged"], described["tag"] = list(tagged), int(field["tag"])
    if (message, described["name"]) in HOLDS:
        described["holds"] = HOLDS[message, described["name"]]
    if inner:
        described["fields"] = [_field(each, message, structs, "0+") for each in inner]
    return described


NEVER: Final = (NO_LIMIT, -1)


def version_range(versions: str) -> tuple[int, int]:
    """The first and the last version that a text names.

    >>> version_range("2+"), version_range("0-3"), version_range("5"), version_range("none")
    ((2, 32767), (0, 3), (5, 5), (32767, -1))
    """
    found = VERSIONS.fullmatch(versions)
    if found is None:
        return NEVER
    first = int(found[1])
    return first, NO_LIMIT if found[2] else int(found[3] or first)


def snake(name: str) -> str:
    """Kafka's name of a field in snake case.

    >>> snake("LastKnownElr"), snake("isr")
    ('last_known_elr', 'isr')
    """
    return WORD.sub("_", name).lower()


class Present(NamedTuple):
    """A field in one version; *tag* is None for one that is always there."""

    name: str
    type: str
    many: bool
    nullable: bool
    tag: int | None
    fields: list[Present]


def _at(fields: Iterable[Described], version: int) -> list[Present]:
    """The fields that a version has."""
    found = []
    for field in fields:
        first, last = field.get("versions", (0, NO_LIMIT))
        if first <= version <= last:
            low, high = field.get("nullable", NEVER)
            tag = field["tag"] if "tag" in field and field["tagged"][0] <= version <= field["tagged"][1] else None
            inner = _at(field.get("fields", ()), version)
            found.append(Present(field["name"], field["type"], "many" in field, low <= version <= high, tag, inner))
    return found


def _agree(old: list[Present], new: list[Present]) -> bool:
    """Whether what was written with *old* is read with *new*."""
    plain = [[each for each in some if each.tag is None] for some in (old, new)]
    tagged = [{each.tag: each for each in some if each.tag is not None} for some in (old, new)]
    pairs = [*zip(*plain, strict=False), *((each, tagged[1].get(tag)) for tag, each in tagged[0].items())]
    return len(plain[0]) == len(plain[1]) and all(
        other is not None and each[:5] == other[:5] and _agree(each.fields, other.fields) for each, other in pairs
    )


def _as_text(newest: str, found: Mapping[str, Described]) -> str:
    """The messages in order: by topic, type, and key before value."""
    ids = {name.removesuffix("Key"): each["id"] for name, each in found.items() if name.endswith("Key")}
    for name, each in found.items():
        if name.endswith("Value"):
            each["id"] = ids[name.removesuffix("Value")]
    ordered = sorted(found.values(), key=lambda each: (each["topic"], each["id"] or 0, each["name"]))
    lines = [f'{{"about": "Written by `kafkaproof broker schemas`.", "newest": "{newest}", "messages": [']
    for number, each in enumerate(ordered):
        head = {key: value for key, value in each.items() if key != "fields"}
        lines.append(json.dumps(head)[:-1] + ', "fields": [')
        lines += [f" {json.dumps(field)}," for field in each["fields"]]
        lines[-1] = lines[-1].removesuffix(",")
        lines.append("]}" + ("," if number + 1 < len(ordered) else ""))
    return "\n".join([*lines, "]}", ""])
