"""Fake broker: feeds Fetch with the bytes of a case, and keeps what is produced.

It speaks just enough of the protocol of Kafka for a client that reads from, or
writes to, an assigned partition: no transactions, groups of one member with
`GROUP_VERSIONS`, and every topic exists.  A `Tape` is what it serves: the bytes
as they are, then one end record.

A client cannot know where a case ends, and a broker cannot know what a client
made of it; but the client requests the next offset.  The first fetch gets the
bytes as they are.  A client that then requests an offset after them gets the end
record there, at this very offset.  A client that requests served bytes again
gets it again, as from a broker, and after `TIME_LIMIT` times the end record with
a note that the client does not get on: it would go on for ever.

Requests of one connection are answered in order, as brokers do.  A fetch that
finds nothing waits as long as the client lets it, or until another tape is put
on, so that a consumer that is moved to the next case need not wait either.

Responses that need no waiting are bodies as `wire.schema` writes them; fields
that a version does not have are left out by the tables.

`EVERY_VERSION` is all that releases from 0.8 to 4.4 have.  Where Fetch or Produce is offered
in versions that name topics by id (KIP-516), Metadata gives the ids; where fetch
sessions are wanted (KIP-227), they are kept as a broker keeps them.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_OID, UUID, uuid5

from kafka_brokers.wire import schema, tables
from kafka_brokers.wire.connection import API_VERSIONS_KEY
from kafka_brokers.wire.schema import INT16, ZERO_UUID, Api, Message, byte_string
from kafka_records import Batch, Record, RecordFormatError, encode
from kafka_records.constants import (
    HEADER_SIZE_UP_TO_MAGIC,
    INT32_MAX,
    INT64_MAX,
    LOG_OVERHEAD,
    MAGIC_VALUE_V2,
    RECORD_BATCH_OVERHEAD,
    RECORD_OVERHEAD_V0,
)
from kafka_records.layout import BATCH_V2, ENTRY, MAGIC_OFFSET
from kafka_records.log import split_entries

NODE: Final = 1
CLUSTER: Final = "kafkaproof-fake-broker"
UNSUPPORTED_VERSION: Final = 35
FETCH_SESSION_ID_NOT_FOUND: Final = 70
INVALID_FETCH_SESSION_EPOCH: Final = 71
UNKNOWN_TOPIC_ID: Final = 100
EARLIEST: Final = -2
NO_EPOCH: Final = -1
NO_OPERATIONS: Final = -(1 << 31)

Versions = Mapping[Api, tuple[int, int]]
# What a release before topic ids offers; testees are run with it unless another Fetch version is wanted.
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
# All versions from 0.8 to 4.4.
EVERY_VERSION: Final[Versions] = {api: (api.oldest, api.newest) for api in GROUP_VERSIONS}
# The environment variables that name the newest Fetch version for consumers, and the newest Produce version.
FETCH_VERSION: Final = "KAFKAPROOF_FETCH_VERSION"
PRODUCE_VERSION: Final = "KAFKAPROOF_PRODUCE_VERSION"
# The first Fetch version with sessions.
SESSIONS: Final = 7
MEMBER: Final = "kafkaproof-member"


def with_fetch_version(versions: Versions, newest: int) -> Versions:
    """*versions*, with Fetch up to *newest*.

    Raises:
        ValueError: no release has such a Fetch version.
    """
    check_version(tables.FETCH, newest)
    # Clients learn topic ids from Metadata 10 and later, and some take other versions from what Metadata has.
    return {**versions, tables.FETCH: (tables.FETCH.oldest, newest)}


def check_version(api: Api, version: int) -> None:
    """Raise `ValueError` if no release has that *version* of *api*."""
    if not api.oldest <= version <= api.newest:
        raise ValueError(f"there is no {api.name} version {version}: they are {api.oldest} to {api.newest}")


def wanted_fetch_version() -> int | None:
    """The Fetch version that the environment wants of consumers; None if it wants none."""
    return _wanted_version(FETCH_VERSION)


def wanted_produce_version() -> int | None:
    """The Produce version that the environment wants of producers; None if it wants none."""
    return _wanted_version(PRODUCE_VERSION)


def _wanted_version(variable: str) -> int | None:
    value = os.environ.get(variable, "")
    return int(value) if value else None


def topic_id_of(name: str) -> UUID:
    """The id of a topic, the same in each process."""
    return uuid5(NAMESPACE_OID, f"{CLUSTER}/{name}")


def magic_of_fetch(version: int) -> int:
    """The magic that clients of a fetch version can read: from 2 on v1, from 4 on v2 (KIP-32, KIP-98)."""
    return 2 if version >= 4 else 1 if version >= 2 else 0


def magic_of_produce(version: int) -> int:
    """The magic that producers write in a produce version: v1 in 2, v2 from 3 on (KIP-32, KIP-98)."""
    return min(max(version - 1, 0), 2)


def versions_response(offered: Versions, *, error_code: int = 0) -> Message:
    """To ApiVersions."""
    keys = [{"api_key": api.key, "min_version": low, "max_version": high} for api, (low, high) in offered.items()]
    return {"error_code": error_code, "api_keys": keys, "throttle_time_ms": 0}


def metadata_response(names: Iterable[str], host: str, port: int, partitions: int, *, with_ids: bool) -> Message:
    """To Metadata: these topics exist; *with_ids* they have ids, too."""
    return {
        "throttle_time_ms": 0,
        "brokers": [{"node_id": NODE, "host": host, "port": port, "rack": None}],
        "cluster_id": CLUSTER,
        "controller_id": NODE,
        "topics": [_topic(name, partitions, topic_id_of(name) if with_ids else ZERO_UUID) for name in names],
        "cluster_authorized_operations": NO_OPERATIONS,
        "error_code": 0,
    }


def _topic(name: str, partitions: int, topic_id: UUID) -> Message:
    return {
        "error_code": 0,
        "name": name,
        "topic_id": topic_id,
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


def coordinator_response(body: Message, host: str, port: int) -> Message:
    """To FindCoordinator: it is us."""
    where = {"node_id": NODE, "host": host, "port": port}
    keys = [{"key": key, "error_code": 0, "error_message": None, **where} for key in body.get("coordinator_keys", ())]
    return {"throttle_time_ms": 0, "error_code": 0, "error_message": None, "coordinators": keys, **where}


def list_offset_response(index: int, timestamp: int, latest: int) -> Message:
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


def fetch_response(
    index: int, end: int, records: bytes, aborted: Sequence[tuple[int, int]] = (), error_code: int = 0
) -> Message:
    """To Fetch, for one partition: all of it is stable; *aborted* has producer id and first offset of transactions."""
    return {
        "partition_index": index,
        "error_code": error_code,
        "high_watermark": end,
        "last_stable_offset": end,
        "log_start_offset": 0,
        "aborted_transactions": [{"producer_id": who, "first_offset": first} for who, first in aborted],
        "preferred_read_replica": -1,
        "records": records,
    }


def produce_response(index: int, error_code: int = 0) -> Message:
    """To Produce, for one partition: it was taken, unless there is an error."""
    return {
        "index": index,
        "error_code": error_code,
        "base_offset": 0,
        "log_append_time_ms": -1,
        "log_start_offset": 0,
        "record_errors": [],
        "error_message": None,
    }


def producer_response(producer_id: int, producer_epoch: int) -> Message:
    """To InitProducerId."""
    return {"throttle_time_ms": 0, "error_code": 0, "producer_id": producer_id, "producer_epoch": producer_epoch}


def group_response(name: str, body: Message) -> Message:
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


# Key and value of the record that ends a case.
END: Final = b"kafkaproof: end of case"
# So often is one offset served: a client may throw a response away for reasons of its own.
TIME_LIMIT: Final = 3
NEVER: Final = 1 << 63  # the last offset of what has none

_DELTA: Final = BATCH_V2.field("last_offset_delta")


class Tape:
    """The bytes of a case, and the fetches for them; used under the broker's lock.

    Attributes:
        aborted: producer id and first offset of the transactions that the broker says were aborted.
        requests: the requested offsets in order, without those after the end record.
        position: the offset at which the client got the end record; None until it did.
        stalled: whether it got that only because it requested one offset again and again.
    """

    def __init__(self, data: bytes, aborted: Sequence[tuple[int, int]] = ()) -> None:
        self.data = data
        self.aborted = aborted
        self.requests: list[int] = []
        self.position: int | None = None
        self.stalled = False
        self._times: Counter[int] = Counter()
        self._rooms: dict[int, int] = {}
        self._entries = list(_framed(data))

    @property
    def end_offset(self) -> int:
        """The latest offset for ListOffsets: the one after the end record, by the batch headers."""
        if self.position is not None:
            return self.position + 1
        last = max((entry.last for entry in self._entries if entry.last != NEVER), default=-1)
        return min(max(last, -1) + 2, INT64_MAX)

    def read(self, offset: int, magic: int, room: int = 0) -> bytes:
        """Bytes for a fetch at *offset*; empty after the end record, which has format *magic*."""
        if room > self._rooms.setdefault(offset, room):  # it takes an entry for a cut one, and is not stalled yet
            self._rooms[offset], self._times[offset] = room, 0
        if self.position is not None and offset > self.position:
            return b""
        self.requests.append(offset)
        self._times[offset] += 1
        if self.position is None and (left := self._left(offset)):
            return left
        if self.position is None:
            self.position = offset
        return end_record(max(self.position, 0), magic)

    def _left(self, offset: int) -> bytes:
        if len(self.requests) == 1:
            return self.data
        # As a broker does, from the batch that holds the offset on.
        entry = next((entry for entry in self._entries if entry.last >= offset), None)
        if entry is None:
            return b""
        if self._times[offset] <= TIME_LIMIT:
            return self.data[entry.start :]
        self.stalled = not entry.is_empty
        return b""


class _Entry(NamedTuple):
    """An entry on a tape: where it starts, its last offset, and whether a client that has read it stays where it is."""

    start: int
    last: int
    is_empty: bool = False


def _framed(data: bytes) -> Iterator[_Entry]:
    """Each entry; an incomplete one is over.

    A client that requests the offset after an entry has read it, whatever its
    magic or size; what has no offset of its own, above those before it, is
    never over.  Brokers do not look at the last 17 bytes of a log after its
    last entry (FileLogInputStream): no fetch begins with them.
    """
    following, before = 0, -1
    try:
        for start, end in split_entries(data):
            following, entry = end, _entry_at(data, start)
            before = max(before, entry.last)
            yield entry
    except RecordFormatError:
        if following > 0 and len(data) - following <= HEADER_SIZE_UP_TO_MAGIC:
            return
        offset, size = ENTRY.struct.unpack_from(data, following)
        if not RECORD_OVERHEAD_V0 <= size <= INT32_MAX - LOG_OVERHEAD or following + LOG_OVERHEAD + size <= len(data):
            yield _Entry(following, int(offset) if offset > before else NEVER)


def _entry_at(data: bytes, start: int) -> _Entry:
    """An entry by its header; the first offset counts where the header gives no last one that a log has."""
    offset, size = ENTRY.struct.unpack_from(data, start)
    if data[start + MAGIC_OFFSET] != MAGIC_VALUE_V2 or size < RECORD_BATCH_OVERHEAD - LOG_OVERHEAD:
        return _Entry(start, int(offset))
    at = start + _DELTA.offset
    last = int(offset) + int.from_bytes(data[at : at + _DELTA.width], "big", signed=True)
    return _Entry(start, last) if last >= 0 else _Entry(start, int(offset), is_empty=True)


def end_record(offset: int, magic: int) -> bytes:
    """The record that ends a case."""
    timestamp = -1 if magic == 0 else 0
    record = Record(offset, timestamp, END, END)
    batch = Batch(
        magic=magic,
        base_offset=offset,
        last_offset=offset,
        timestamp_type="none" if magic == 0 else "create",
        max_timestamp=timestamp,
        records=(record,),
    )
    return encode(batch)


# What a producer chooses its magic by: it writes the newest that Produce and Fetch both have (KIP-32, KIP-98, KIP-110).
VERSIONS_BY_MAGIC: Final[Mapping[int, Versions]] = {
    0: {**VERSIONS, tables.PRODUCE: (0, 1), tables.FETCH: (0, 1)},
    1: {**VERSIONS, tables.PRODUCE: (0, 2), tables.FETCH: (0, 3)},
    2: {**VERSIONS, tables.PRODUCE: (3, 9), tables.FETCH: (4, 12)},
}
HOST: Final = "127.0.0.1"
LARGEST_REQUEST: Final = 256 * 1024 * 1024

_CLIENT_ID: Final = byte_string(INT16, text=True, nullable=True)


class WantedPartition(NamedTuple):
    """A partition of a fetch; the name is empty for an unknown id, and the id None in versions without ids."""

    topic_id: UUID | None
    name: str
    partition: int
    offset: int
    max_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FetchRound:
    """One fetch, alone or of a session.

    Attributes:
        wanted: the partitions to read, in the order of the request.
        session_id: that of the session; 0 without one.
        error_code: of the whole response.
        incremental: whether partitions without news are left out of the response.
    """

    wanted: Sequence[WantedPartition]
    session_id: int = 0
    error_code: int = 0
    incremental: bool = False

    def response(self, read: Sequence[tuple[WantedPartition, Message]]) -> Message:
        """The body of the response; partitions of one topic stand together."""
        topics: dict[tuple[str, UUID | None], list[Message]] = {}
        for wanted, answer in read:
            if not self.incremental or answer["records"] or answer["error_code"]:
                topics.setdefault((wanted.name, wanted.topic_id), []).append(answer)
        responses = [
            {"topic": name, "topic_id": topic_id or ZERO_UUID, "partitions": partitions}
            for (name, topic_id), partitions in topics.items()
        ]
        head = {"throttle_time_ms": 0, "error_code": self.error_code, "session_id": self.session_id}
        return {**head, "responses": responses}


class FetchSessions:
    """Fetch sessions (KIP-227): a client names its partitions once, and then what changes."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, dict[tuple[str, int], WantedPartition]]] = {}
        self._made = 0

    def round(
        self,
        session_id: int,
        epoch: int,
        wanted: Sequence[WantedPartition],
        forgotten: Sequence[tuple[str, int]],
    ) -> FetchRound:
        """The fetch with this session and epoch, as FetchManager has it.

        Epoch -1 is a fetch without a session, epoch 0 opens one; either ends the named one.
        """
        if epoch in (-1, 0):
            self._known.pop(session_id, None)
            if epoch == -1:
                return FetchRound(wanted)
            self._made += 1
            self._known[self._made] = (1, {(each.name, each.partition): each for each in wanted})
            return FetchRound(wanted, self._made)
        if session_id not in self._known:
            return FetchRound((), error_code=FETCH_SESSION_ID_NOT_FOUND)
        following, partitions = self._known[session_id]
        if epoch != following:
            return FetchRound((), session_id, error_code=INVALID_FETCH_SESSION_EPOCH)
        partitions |= {(each.name, each.partition): each for each in wanted}
        for key in forgotten:
            partitions.pop(key, None)
        self._known[session_id] = (1 if following == INT32_MAX else following + 1, partitions)
        return FetchRound(tuple(partitions.values()), session_id, incremental=True)


@dataclass(frozen=True, slots=True)
class ConnectionHandler:
    """The client's name and version (KIP-511); empty if it sent none."""

    name: str = ""
    version: str = ""


class FakeBroker:
    """A broker for as long as it is not closed.

    Attributes:
        port: where it listens, on loopback.
        client: name and version of the last client, if it sent them.
        producer: the id and epoch that the next producer gets.
        fetched: how many fetches came in each version.
        produced: how many produce requests came in each version.
    """

    def __init__(self, *, versions: Versions = VERSIONS, partitions: int = 1, sessions: bool = False) -> None:
        self.client = ConnectionHandler()
        self.producer = (0, 0)
        self.fetched: Counter[int] = Counter()
        self.produced: Counter[int] = Counter()
        self._versions = versions
        self._sessions = FetchSessions() if sessions else None
        self._topic_names: dict[UUID, str] = {}
        self._apis = {api.key: api for api in versions}
        self._partitions = partitions
        self._tapes: dict[tuple[str, int], Tape] = {}
        self._newest: Tape | None = None
        self._caught: list[bytes] = []
        # By group, topic and partition.
        self._committed: dict[tuple[str, str, int], int] = {}
        self._change = threading.Condition()
        self._changes = 0
        self._sockets: set[socket.socket] = set()
        self._closed = False
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True, name="fake-broker").start()

    @property
    def address(self) -> str:
        """The address for `bootstrap.servers`."""
        return f"{HOST}:{self.port}"

    def serve(self, topic: str, data: bytes, partition: int = 0, aborted: Sequence[tuple[int, int]] = ()) -> Tape:
        """Put *data* on a partition, in place of what was there; what was *aborted* is named in every answer."""
        tape = Tape(data, aborted)
        self.put_on(topic, tape, partition)
        return tape

    def put_on(self, topic: str, tape: Tape, partition: int = 0) -> None:
        """Put *tape*, which may answer fetches in its own way, on a partition."""
        with self._change:
            self._tapes[topic, partition] = self._newest = tape
            self._topic_names[topic_id_of(topic)] = topic
            self._changed()

    def withdraw(self, topic: str, partition: int = 0) -> None:
        """Take away what is on a partition."""
        with self._change:
            self._tapes.pop((topic, partition), None)

    def caught(self) -> list[bytes]:
        """Payloads produced since the last call, one for each request and partition."""
        with self._change:
            found, self._caught = self._caught, []
            return found

    def close(self) -> None:
        """Hang up on everybody."""
        with self._change:
            self._closed = True
            self._changed()
            sockets = [self._listener, *self._sockets]
        for each in sockets:
            _shut(each)

    def __enter__(self) -> FakeBroker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Connections

    def _changed(self) -> None:
        self._changes += 1
        self._change.notify_all()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._change:
                self._sockets.add(connection)
            threading.Thread(target=self._talk, args=(connection,), daemon=True, name=f"client-of-{self.port}").start()

    def _talk(self, connection: socket.socket) -> None:
        try:
            while frame := _frame(connection):
                response = self._respond(frame)
                if response is not None:
                    connection.sendall(struct.pack(">i", len(response)) + response)
        except (OSError, ValueError, struct.error):
            pass  # it went, or it talks nonsense: hang up
        finally:
            with self._change:
                self._sockets.discard(connection)
            _shut(connection)

    def _respond(self, frame: bytes) -> bytes | None:
        """The response to one request; None where none is sent.  Raises `ValueError` for what is no request."""
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
        api = self._apis.get(key)
        if api is None:
            raise ValueError(f"no api {key} here")
        low, high = self._versions[api]
        if api is tables.API_VERSIONS and not low <= version <= high:
            # KIP-511: the answer to a version that a broker does not know is version 0, and what it does know.
            body = versions_response(self._versions, error_code=UNSUPPORTED_VERSION)
            return _response(api, 0, correlation_id, body)
        _, at = _CLIENT_ID.read(frame, 8)
        if api.is_flexible(version):
            _, at = schema.compile_fields((), 0, flexible=True).read(frame, at)
        request, _ = schema.side(api, version, "request").read(frame, at)
        if api is tables.PRODUCE:
            self.produced[version] += 1
            if self._catch(request) == 0:
                return None
        return _response(api, version, correlation_id, self._answer(api, version, request))

    # Answers

    def _answer(self, api: Api, version: int, body: Message) -> Message:
        match api.name:
            case "ApiVersions":
                self._meet(body)
                return versions_response(self._versions)
            case "Metadata":
                return self._metadata(body)
            case "FindCoordinator":
                return coordinator_response(body, HOST, self.port)
            case "InitProducerId":
                return producer_response(*self.producer)
            case "ListOffsets":
                return self._list_offsets(body)
            case "Produce":
                return self._produced(version, body)
            case "Fetch":
                return self._fetch(version, body)
        return self._with_commits(api.name, body, group_response(api.name, body))

    def _with_commits(self, name: str, body: Message, answer: Message) -> Message:
        """The *answer* to a group's request, with the offsets that the group has committed."""
        topics = (body if name == "OffsetCommit" else answer).get("topics") or () if name.startswith("Offset") else ()
        with self._change:
            for name_, each in ((topic["name"], each) for topic in topics for each in topic["partitions"]):
                key = body.get("group_id", ""), name_, each["partition_index"]
                if name == "OffsetCommit":
                    self._committed[key] = each["committed_offset"]
                else:
                    each["committed_offset"] = self._committed.get(key, -1)
        return answer

    def _meet(self, body: Message) -> None:
        if name := body.get("client_software_name", ""):
            self.client = ConnectionHandler(name, body["client_software_version"])

    def _topics(self) -> list[str]:
        with self._change:
            return sorted({topic for topic, _ in self._tapes})

    @property
    def _has_ids(self) -> bool:
        return any(self._versions[api][1] > tables.LAST_BY_NAME for api in (tables.PRODUCE, tables.FETCH))

    def _metadata(self, body: Message) -> Message:
        requested = body.get("topics")
        if requested:
            named = [each["name"] or self._name_of(each.get("topic_id", ZERO_UUID)) for each in requested]
            names = [name for name in named if name is not None]
        else:
            names = self._topics()
        with self._change:
            self._topic_names.update((topic_id_of(name), name) for name in names)
        return metadata_response(names, HOST, self.port, self._partitions, with_ids=self._has_ids)

    def _name_of(self, topic_id: UUID) -> str | None:
        """The name of a topic that was served or named."""
        return self._topic_names.get(topic_id)

    def _named(self, version: int, topic: Message, field: str) -> str | None:
        """The name of the *topic* of a request; None for an unknown id."""
        if version <= tables.LAST_BY_NAME:
            return str(topic[field])
        return self._name_of(topic["topic_id"])

    def _list_offsets(self, body: Message) -> Message:
        with self._change:
            topics = [
                {
                    "name": topic["name"],
                    "partitions": [self._list_offset(topic["name"], each) for each in topic["partitions"]],
                }
                for topic in body["topics"]
            ]
        return {"throttle_time_ms": 0, "topics": topics}

    def _list_offset(self, topic: str, requests: Message) -> Message:
        tape = self._tapes.get((topic, requests["partition_index"]))
        latest = 0 if tape is None else tape.end_offset
        return list_offset_response(requests["partition_index"], requests["timestamp"], latest)

    def _catch(self, body: Message) -> int:
        """Keep what was produced; gives the acks that are wanted."""
        with self._change:
            for topic in body["topic_data"]:
                self._caught.extend(each["records"] or b"" for each in topic["partition_data"])
        return int(body["acks"])

    def _produced(self, version: int, body: Message) -> Message:
        responses = []
        for topic in body["topic_data"]:
            code = UNKNOWN_TOPIC_ID if self._named(version, topic, "name") is None else 0
            partitions = [produce_response(each["index"], code) for each in topic["partition_data"]]
            named = {key: topic[key] for key in ("name", "topic_id") if key in topic}
            responses.append({**named, "partition_responses": partitions})
        return {"throttle_time_ms": 0, "responses": responses}

    def _fetch(self, version: int, body: Message) -> Message:
        end = time.monotonic() + body["max_wait_ms"] / 1000
        magic = magic_of_fetch(version)
        with self._change:
            self.fetched[version] += 1
            session = self._session(version, body)
            before = self._changes
            while True:
                # The tape has ended and the client has been reassigned; the request is not answered.
                current = any(self._tapes.get((each.name, each.partition)) is self._newest for each in session.wanted)
                read = [(each, self._read(each, magic)) for each in session.wanted]
                found = any(answer["records"] or answer["error_code"] for _, answer in read)
                left = end - time.monotonic()
                if found or left <= 0 or not current or self._changes != before or self._closed:
                    return session.response(read)
                self._change.wait(left)

    def _session(self, version: int, body: Message) -> FetchRound:
        """The partitions of a fetch, or of its session."""
        topics = [(each.get("topic_id"), self._named(version, each, "topic") or "", each) for each in body["topics"]]
        wanted = [
            WantedPartition(id_, name, each["partition"], each["fetch_offset"], each["partition_max_bytes"])
            for id_, name, topic in topics
            for each in topic["partitions"]
        ]
        if self._sessions is None or version < SESSIONS:
            return FetchRound(wanted)
        forgotten = [
            (self._named(version, topic, "topic") or "", partition)
            for topic in body["forgotten_topics_data"]
            for partition in topic["partitions"]
        ]
        return self._sessions.round(body["session_id"], body["session_epoch"], wanted, forgotten)

    def _read(self, wanted: WantedPartition, magic: int) -> Message:
        if not wanted.name:
            return fetch_response(wanted.partition, -1, b"", error_code=UNKNOWN_TOPIC_ID)
        tape = self._tapes.get((wanted.name, wanted.partition))
        if tape is None:
            return fetch_response(wanted.partition, wanted.offset, b"")
        records = tape.read(wanted.offset, magic, wanted.max_bytes)
        return fetch_response(wanted.partition, tape.end_offset, records, tape.aborted)


def _response(api: Api, version: int, correlation_id: int, body: Mapping[str, Any]) -> bytes:
    # The header of ApiVersions' response stays in version 0 (KIP-511).
    tags = b"\0" if api.is_flexible(version) and api.key != API_VERSIONS_KEY else b""
    out = [struct.pack(">i", correlation_id), tags]
    schema.side(api, version, "response").write(out, api.known_fields(body))
    return b"".join(out)


def _frame(connection: socket.socket) -> bytes:
    """The next request; nothing when the client is gone."""
    size = int.from_bytes(_exactly(connection, 4) or b"\0\0\0\0", "big")
    if size > LARGEST_REQUEST:
        raise ValueError(f"a request of {size} bytes")
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        chunk = connection.recv(min(size - len(found), 1 << 20))
        if not chunk:
            return b""
        found += chunk
    return bytes(found)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it was not connected
    connection.close()
