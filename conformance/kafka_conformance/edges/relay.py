"""Both ends of a proxy: a client that sends frames of our making, and a broker that answers by a script.

The broker keeps each Produce and Fetch request as it arrived and gives the next
answer of a script, so the bytes on one side of the proxy can be compared with
those on the other.  ApiVersions and Metadata it answers by itself, as the proxy
and its filters need them, too.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

from kafka_brokers.fake_broker import metadata_response, topic_id_of, versions_response
from kafka_brokers.process import Guarded
from kafka_brokers.wire import tables
from kafka_brokers.wire.connection import API_VERSIONS_KEY, CLIENT_ID
from kafka_brokers.wire.errors import GarbledResponse
from kafka_brokers.wire.partitions import Names, TopicPartition, fetch_body, produce_body
from kafka_brokers.wire.schema import (
    UNKNOWN_TAGS,
    Api,
    Message,
    read_unsigned_varint,
    side,
    take_bytes,
    unsigned_varint,
)
from kafka_conformance.edges import said
from kafka_conformance.edges.running import CannotRunEdges
from kafka_records import Batch, Record, RecordFormatError, decode, encode

HOST: Final = "127.0.0.1"
TOPICS: Final = ("records-0", "records-1", "records-2")
PARTITIONS: Final = 64
# What the broker offers.  ApiVersions without 5, of which no release knows more than a draft.
OFFERED: Final = {
    tables.PRODUCE: (tables.PRODUCE.oldest, tables.PRODUCE.newest),
    tables.FETCH: (tables.FETCH.oldest, tables.FETCH.newest),
    tables.METADATA: (tables.METADATA.oldest, tables.METADATA.newest),
    tables.API_VERSIONS: (0, 4),
}
APIS: Final = {api.key: api for api in OFFERED}
# Seconds until a proxy that was started has to answer.
START_LIMIT: Final = 90.0
# Seconds without a byte of what has to come.
PATIENT: Final = 10.0
# So many times that until a frame is there as a whole, however it comes.
WHOLE: Final = 6
# Seconds in which a request still arrives after the proxy has closed the client's connection.
CLOSED_LIMIT: Final = 0.2
# Kafka's own bound of a request, socket.request.max.bytes.
LARGEST: Final = 100 << 20
_READ: Final = 1 << 16
_PAUSE: Final = 0.001
NO_TAGS: Final = b"\0"


class RelayClosed(Exception):
    """The connection was closed; the message says how."""


class RelaySilent(Exception):
    """Nothing came within the time limit."""


@dataclass(frozen=True, slots=True)
class RelayRequest:
    """A request without its correlation id: as it left the client, or as it arrived at the broker.

    Attributes:
        api, version: which one.
        body: the bytes after the header.
        client_id: None for null.
        tags: the tagged fields of the header, from their number on; empty in versions without.
    """

    api: Api
    version: int
    body: bytes
    client_id: bytes | None = CLIENT_ID.encode()
    tags: bytes = NO_TAGS

    def frame(self, correlation_id: int) -> bytes:
        """All bytes, with size and header."""
        name = b"\xff\xff" if self.client_id is None else struct.pack(">h", len(self.client_id)) + self.client_id
        head = struct.pack(">hhi", self.api.key, self.version, correlation_id) + name
        if self.api.is_flexible(self.version):
            head += self.tags
        return struct.pack(">i", len(head) + len(self.body)) + head + self.body

    def fields(self) -> Message:
        """The fields of the body.  Raises `GarbledResponse`."""
        return side_fields(self.api, self.version, "request", self.body)


@dataclass(frozen=True, slots=True)
class RelayReply:
    """The broker's answer to a request.

    Attributes:
        body: of the response, after its header; None for no response, as to acks=0.
        tags: the tagged fields of the header in flexible versions.
        close: whether it closes the connection instead.
        cut: send this many bytes of the response only, then close; None for all.
        pieces: of how many bytes each TCP segment is; 0 for as few segments as possible.
    """

    body: bytes | None
    tags: bytes = NO_TAGS
    close: bool = False
    cut: int | None = None
    pieces: int = 0


@dataclass(frozen=True, slots=True)
class Relayed:
    """One request and its response, as they came out of the proxy.

    Attributes:
        arrived: the request at the broker; None if it did not come.
        answered: the response at the client, header included but for the size; None if none came.
        correlation_id: of the request at the client.
        how: why there is no response: `closed` or `silent`; empty if there is one, or none is to come.
    """

    arrived: RelayRequest | None
    answered: bytes | None
    correlation_id: int
    how: str = ""


def side_fields(api: Api, version: int, which: Any, data: bytes) -> Message:
    """All fields of one side of a request.  Raises `GarbledResponse`."""
    try:
        found, at = side(api, version, which).read(data, 0)
    except (ValueError, struct.error) as error:
        raise GarbledResponse(f"{api.name} v{version}: {error}") from error
    if at != len(data):
        raise GarbledResponse(f"{api.name} v{version}: {len(data) - at} bytes are left over")
    message: Message = found
    return message


def side_bytes(api: Api, version: int, which: Any, fields: Message) -> bytes:
    """The bytes of one side of a request."""
    out: list[bytes] = []
    side(api, version, which).write(out, fields)
    return b"".join(out)


def response_tags(api: Api, version: int) -> bool:
    """Whether the header of the response has tagged fields; that of ApiVersions has none (KIP-511)."""
    return api.is_flexible(version) and api.key != API_VERSIONS_KEY


def open_request(frame: bytes) -> tuple[RelayRequest, int]:
    """A request and its correlation id.  Raises `GarbledResponse`."""
    try:
        key, version, correlation_id, size = struct.unpack_from(">hhih", frame)
        api = APIS[key]
        at = 10
        client_id = None
        if size >= 0:
            client_id, at = take_bytes(frame, at, size)
        start = at
        if api.is_flexible(version):
            count, at = read_unsigned_varint(frame, at)
            for _ in range(count):
                _, at = read_unsigned_varint(frame, at)
                size, at = read_unsigned_varint(frame, at)
                _, at = take_bytes(frame, at, size)
    except (KeyError, ValueError, struct.error) as error:
        raise GarbledResponse(f"a request that the broker cannot read: {error}") from error
    return RelayRequest(api, version, frame[at:], client_id, frame[start:at] or NO_TAGS), correlation_id


class _Stream:
    """Frames on a socket."""

    def __init__(self, on: socket.socket) -> None:
        self.socket = on
        self._received = bytearray()
        on.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def next_frame(self, seconds: float | None) -> bytes:
        """The next frame without its size.  Raises `RelayClosed`, `RelaySilent`, `GarbledResponse`.

        *seconds* limit the time without a byte, and `WHOLE` times as many that of the frame; None is no limit.
        """
        end = None if seconds is None else time.monotonic() + WHOLE * seconds
        while (size := self._size()) is None or len(self._received) < 4 + size:
            if end is not None and time.monotonic() > end:
                raise RelaySilent("a frame does not end")
            self._more(seconds)
        frame = bytes(self._received[4 : 4 + size])
        del self._received[: 4 + size]
        return frame

    def _size(self) -> int | None:
        if len(self._received) < 4:
            return None
        size = int.from_bytes(self._received[:4], "big", signed=True)
        if not 0 <= size <= LARGEST + _READ:
            raise GarbledResponse(f"a frame of {size} bytes is announced")
        return size

    def _more(self, seconds: float | None) -> None:
        self.socket.settimeout(seconds)
        try:
            data = self.socket.recv(_READ)
        except TimeoutError:
            raise RelaySilent(f"nothing for {seconds:g} s") from None
        except OSError as error:
            raise RelayClosed(error.strerror or str(error)) from error
        if not data:
            raise RelayClosed("closed")
        self._received += data


class ScriptedBroker:
    """The broker after the proxy; it takes any number of connections."""

    def __init__(self, address: tuple[str, int] = (HOST, 0)) -> None:
        """Listen.  Raises `OSError` if the address is taken."""
        self._server = socket.create_server(address, backlog=64)
        self._lock = threading.Lock()
        self._script: deque[RelayReply] = deque()
        self._arrived: list[RelayRequest] = []
        self._open: set[socket.socket] = set()
        self.host, self.port = self._server.getsockname()[:2]
        self.offered = dict(OFFERED)
        self._thread = threading.Thread(target=self._accept, name="scripted-broker", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Close all connections, and end."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            opened = list(self._open)
        for each in opened:
            _close(each)
        self._thread.join(PATIENT)

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"

    def expect(self, replies: Iterable[RelayReply]) -> None:
        """Forget what arrived; the next requests get these answers, in order."""
        with self._lock:
            self._script = deque(replies)
            self._arrived = []

    def arrived(self, number: int, seconds: float = PATIENT) -> list[RelayRequest]:
        """The requests since `expect`, as soon as there are *number*, or after *seconds*."""
        end = time.monotonic() + seconds
        while True:
            with self._lock:
                found = list(self._arrived)
            if len(found) >= number or time.monotonic() > end:
                return found
            time.sleep(_PAUSE)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        stream = _Stream(connection)
        try:
            while True:
                request, correlation_id = open_request(stream.next_frame(None))
                reply = self._reply(request)
                if reply.close:
                    break
                if reply.body is None:
                    continue
                tags = reply.tags if response_tags(request.api, request.version) else b""
                data = struct.pack(">i", correlation_id) + tags + reply.body
                whole = struct.pack(">i", len(data)) + data
                connection.settimeout(None)
                send_pieces(connection, whole if reply.cut is None else whole[: reply.cut], reply.pieces)
                if reply.cut is not None:
                    break
        except (RelayClosed, RelaySilent, GarbledResponse, OSError):
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
            _close(connection)

    def _reply(self, request: RelayRequest) -> RelayReply:
        if request.api is tables.API_VERSIONS:
            return self._versions(request.version)
        if request.api is tables.METADATA:
            return RelayReply(side_bytes(request.api, request.version, "response", self.metadata(request.fields())))
        with self._lock:
            self._arrived.append(request)
            return self._script.popleft() if self._script else RelayReply(None, close=True)

    def _versions(self, version: int) -> RelayReply:
        oldest, newest = self.offered[tables.API_VERSIONS]
        known = oldest <= version <= newest
        fields = versions_response(self.offered, error_code=0 if known else 35)
        return RelayReply(side_bytes(tables.API_VERSIONS, version if known else 0, "response", fields))

    def metadata(self, fields: Message) -> Message:
        """The answer to Metadata: the topics that were requested, by name or by id, or all."""
        wanted = fields["topics"] or ()
        ids = {topic_id_of(name): name for name in TOPICS}
        names = [each.get("name") or ids.get(each.get("topic_id"), "") for each in wanted]
        found = [name for name in names if name in TOPICS] or TOPICS
        return metadata_response(found, self.host, self.port, PARTITIONS, with_ids=True)


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


class ProxyClient:
    """The client before the proxy, and what arrives at the broker after it."""

    def __init__(self, address: tuple[str, int], broker: ScriptedBroker, *, patient: float = PATIENT) -> None:
        """Nothing is sent yet; *patient* is in seconds."""
        self._address = address
        self._broker = broker
        self._patient = patient
        self._stream: _Stream | None = None
        self._next_id = 0

    def close(self) -> None:
        """Close the connection; the next exchange opens another one."""
        if self._stream is not None:
            _close(self._stream.socket)
            self._stream = None

    def _connected(self) -> _Stream:
        if self._stream is None:
            try:
                self._stream = _Stream(socket.create_connection(self._address, timeout=self._patient))
            except (OSError, OverflowError, UnicodeError) as error:
                raise RelayClosed(getattr(error, "strerror", "") or str(error)) from error
        return self._stream

    def demand(self, api: Api, version: int, fields: Message) -> Message:
        """One request that the broker answers by itself: the fields of the response.

        Raises:
            RelayClosed, RelaySilent: there is none.
            GarbledResponse: it is none.
        """
        request = RelayRequest(api, version, side_bytes(api, version, "request", fields))
        stream = self._connected()
        self._next_id += 1
        stream.socket.sendall(request.frame(self._next_id))
        frame = stream.next_frame(self._patient)
        _, body = split_response(api, version, frame)
        return api.decode(version, body)

    def one(self, request: RelayRequest, reply: RelayReply, *, correlation_id: int | None = None) -> Relayed:
        """One request with the broker's answer to it; a request without a sign of life is sent again once."""
        ids = None if correlation_id is None else [correlation_id]
        found = self.several([request], [reply], ids=ids)[0]
        return self.several([request], [reply], ids=ids)[0] if found.how == "silent" else found

    def several(
        self,
        requests: Sequence[RelayRequest],
        replies: Sequence[RelayReply],
        *,
        ids: Sequence[int] | None = None,
        pieces: int = 0,
    ) -> list[Relayed]:
        """Send all requests at once, then read the responses.

        *ids* are correlation ids; with *pieces* each so many bytes are one TCP segment.
        """
        self._broker.expect(replies)
        numbers = list(ids) if ids is not None else [self._new_id() for _ in requests]
        data = b"".join(each.frame(number) for each, number in zip(requests, numbers, strict=True))
        answers: list[bytes | None] = []
        how = ""
        try:
            stream = self._connected()
            stream.socket.settimeout(self._patient)
            send_pieces(stream.socket, data, pieces)
            for reply in replies:
                # One by one: those before an error are kept.
                answers.append(None if reply.body is None and not reply.close else stream.next_frame(self._patient))  # noqa: PERF401 - as above
        except (RelayClosed, RelaySilent, GarbledResponse, OSError) as error:
            how = "silent" if isinstance(error, RelaySilent) else "closed"
            self.close()
        # Without a response there is no other sign that all of them have arrived.
        seconds = (
            0.0 if not how and replies[-1].body is not None else CLOSED_LIMIT if how == "closed" else self._patient
        )
        arrived = self._broker.arrived(len(requests), seconds)
        return [
            Relayed(
                arrived[at] if at < len(arrived) else None,
                answers[at] if at < len(answers) else None,
                numbers[at],
                how if at >= len(answers) else "",
            )
            for at in range(len(requests))
        ]

    def _new_id(self) -> int:
        self._next_id = (self._next_id + 1) & 0x7FFF_FFFF
        return self._next_id


def send_pieces(on: socket.socket, data: bytes, pieces: int) -> None:
    """Send *data*, in TCP segments of *pieces* bytes each; 0 leaves that to the system."""
    if not pieces:
        on.sendall(data)
        return
    for at in range(0, len(data), pieces):
        on.sendall(data[at : at + pieces])
        # Long enough for the segment to leave alone.
        time.sleep(_PAUSE / 4)


def split_response(api: Api, version: int, frame: bytes) -> tuple[bytes, bytes]:
    """Header (correlation id and tagged fields) and body of a response.  Raises `GarbledResponse`."""
    at = 4
    try:
        if response_tags(api, version):
            count, at = read_unsigned_varint(frame, at)
            for _ in range(count):
                _, at = read_unsigned_varint(frame, at)
                size, at = read_unsigned_varint(frame, at)
                _, at = take_bytes(frame, at, size)
    except ValueError as error:
        raise GarbledResponse(f"{api.name} v{version}: {error}") from error
    return frame[:at], frame[at:]


def tag_bytes(tags: dict[int, bytes]) -> bytes:
    """Tagged fields as they are side_bytes (KIP-482)."""
    each = [unsigned_varint(tag) + unsigned_varint(len(raw)) + raw for tag, raw in sorted(tags.items())]
    return unsigned_varint(len(tags)) + b"".join(each)


# ---- requests and answers ----

NAMES: Final = Names({topic: topic_id_of(topic) for topic in TOPICS})
FIRST: Final = TopicPartition(TOPICS[0], 0)


def _topic(field_name: str, topic: str, version: int) -> dict[str, Any]:
    return NAMES.key(field_name, topic, by_id=version > tables.LAST_BY_NAME)


def produce_of(version: int, payloads: Mapping[TopicPartition, bytes | None], **fields: Any) -> RelayRequest:
    """A Produce request; *fields* as in the table."""
    body = produce_body(payloads, version, NAMES, **fields)
    return RelayRequest(tables.PRODUCE, version, side_bytes(tables.PRODUCE, version, "request", body))


def stored_of(version: int, partitions: Iterable[TopicPartition] = (FIRST,), **fields: Any) -> RelayReply:
    """The response to a Produce request; *fields* are those of each partition, and the throttle time."""
    throttle = fields.pop(tables.THROTTLE, 0)
    message = _response(tables.PRODUCE, version, partitions, fields)
    return RelayReply(side_bytes(tables.PRODUCE, version, "response", message | {tables.THROTTLE: throttle}))


def fetch_of(version: int, partitions: Iterable[TopicPartition] = (FIRST,), **fields: Any) -> RelayRequest:
    """A Fetch request; *fields* as in the table."""
    body = fetch_body(dict.fromkeys(partitions, 7), version, NAMES, **fields)
    return RelayRequest(tables.FETCH, version, side_bytes(tables.FETCH, version, "request", body))


def fetched_of(version: int, records: Mapping[TopicPartition, bytes | None], **fields: Any) -> RelayReply:
    """The response to a Fetch request; *fields* are those of each partition, and some of the whole."""
    whole = {
        tables.THROTTLE: fields.pop(tables.THROTTLE, 0),
        "error_code": fields.pop("top_error", 0),
        "session_id": fields.pop("session_id", 0),
    }
    message = _response(tables.FETCH, version, records, fields, records)
    return RelayReply(side_bytes(tables.FETCH, version, "response", message | whole))


def _response(
    api: Api,
    version: int,
    partitions: Iterable[TopicPartition],
    fields: dict[str, Any],
    records: Mapping[TopicPartition, bytes | None] | None = None,
) -> Message:
    producing = api is tables.PRODUCE
    plain: dict[str, Any] = (
        {"base_offset": 0, "log_append_time_ms": -1, "log_start_offset": 0, "record_errors": [], "error_message": None}
        if producing
        else {
            "high_watermark": 9,
            "last_stable_offset": 9,
            "log_start_offset": 0,
            "aborted_transactions": None,
            "preferred_read_replica": -1,
        }
    )
    index, inner = ("index", "partition_responses") if producing else ("partition_index", "partitions")
    by_topic: dict[str, list[Message]] = {}
    for at, each in enumerate(partitions):
        own = plain | {"error_code": 0, index: each.partition} | ({} if records is None else {"records": records[each]})
        # Each partition has an offset of its own, so that two that changed places show.
        own["base_offset" if producing else "high_watermark"] += at
        by_topic.setdefault(each.topic, []).append(own | fields)
    key = "name" if producing else "topic"
    return {
        "responses": [_topic(key, topic, version) | {inner: answers} for topic, answers in by_topic.items()],
    }


def one_batch(value: bytes = b"value", *, records: int = 1, offset: int = 0) -> bytes:
    """A v2 batch."""
    made = tuple(Record(offset + at, 1_700_000_000_000 + at, b"key %d" % at, value) for at in range(records))
    last = offset + records - 1
    batch = Batch(
        magic=2, base_offset=offset, last_offset=last, max_timestamp=1_700_000_000_000 + records - 1, records=made
    )
    return encode(batch)


# ---- what a proxy has changed ----

# Names of changes, the gravest first.  Those of records can be declared (`--allow`).
RECORD_CHANGES: Final = (
    "repaired damage",
    "damaged records",
    "number of records",
    "values",
    "keys",
    "headers",
    "timestamps",
    "offsets",
    "producer",
    "attributes",
    "compression",
    "batching",
    "batch header",
    "encoding",
)
UNKNOWN_TAGS_CHANGE: Final = "unknown tagged fields"
OTHER_BYTES: Final = "other bytes of equal fields"


def record_changes(before: bytes | None, after: bytes | None) -> set[str]:
    """Names of what differs between the record bytes of both sides; empty if they are equal."""
    if before == after:
        return set()
    if before is None or after is None:
        return {"encoding"} if not before and not after else {"number of records"}
    try:
        left = decode(before)
    except RecordFormatError:
        return {"repaired damage" if _decodes(after) else "damaged records"}
    try:
        right = decode(after)
    except RecordFormatError:
        return {"damaged records"}
    return set(_batch_changes(left, right)) | set(_records_changes(left, right)) or {"encoding"}


def _decodes(data: bytes) -> bool:
    try:
        decode(data)
    except RecordFormatError:
        return False
    return True


def _records_changes(left: Sequence[Batch], right: Sequence[Batch]) -> Iterator[str]:
    before = [record for batch in left for record in batch.records]
    after = [record for batch in right for record in batch.records]
    if len(before) != len(after):
        yield "number of records"
        return
    names = {"value": "values", "key": "keys", "headers": "headers", "timestamp": "timestamps", "offset": "offsets"}
    for field, name in names.items():
        if any(getattr(one, field) != getattr(other, field) for one, other in zip(before, after, strict=True)):
            yield name


_BATCH_FIELDS: Final = {
    "producer": ("producer_id", "producer_epoch", "base_sequence"),
    "attributes": ("magic", "timestamp_type", "transactional", "control", "delete_horizon"),
    "compression": ("compression",),
    "batch header": ("base_offset", "last_offset", "max_timestamp", "partition_leader_epoch"),
}


def _batch_changes(left: Sequence[Batch], right: Sequence[Batch]) -> Iterator[str]:
    if len(left) != len(right):
        yield "batching"
    for name, fields in _BATCH_FIELDS.items():
        before, after = (
            [tuple(getattr(batch, field) for field in fields) for batch in batches] for batches in (left, right)
        )
        # With other batches, only values that no batch had before are another change.
        if before != after if len(left) == len(right) else set(after) - set(before) and name != "batch header":
            yield name


def message_changes(api: Api, version: int, which: Any, before: bytes, after: bytes) -> set[str]:
    """Names of what differs between a body on both sides; empty if the bytes are equal."""
    if before == after:
        return set()
    try:
        left, right = side_fields(api, version, which, before), side_fields(api, version, which, after)
    except GarbledResponse:
        return {"not readable"}
    return set(_field_changes(left, right, "")) or {OTHER_BYTES}


def _field_changes(before: Any, after: Any, name: str) -> Iterator[str]:
    if before == after:
        return
    if name == "records":
        yield from record_changes(before, after)
    elif isinstance(before, dict) and isinstance(after, dict) and name != UNKNOWN_TAGS:
        for key in sorted(before.keys() | after.keys()):
            yield from _field_changes(before.get(key), after.get(key), key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after, strict=True):
            yield from _field_changes(one, other, name)
    else:
        yield UNKNOWN_TAGS_CHANGE if name == UNKNOWN_TAGS else name.replace("_", " ")


def request_changes(sent: RelayRequest, arrived: RelayRequest) -> set[str]:
    """Names of what differs between a request as it left and as it arrived; correlation ids are the proxy's affair."""
    if (sent.api, sent.version) != (arrived.api, arrived.version):
        return {"request version"}
    found = message_changes(sent.api, sent.version, "request", sent.body, arrived.body)
    if sent.client_id != arrived.client_id:
        found.add("client id")
    if sent.tags != arrived.tags:
        found.add(UNKNOWN_TAGS_CHANGE)
    return found


def response_changes(request: RelayRequest, correlation_id: int, reply: RelayReply, answered: bytes) -> set[str]:
    """Names of what differs between a response as the broker sent it and as it came; *reply* has a body."""
    if answered[:4] != struct.pack(">I", correlation_id & 0xFFFF_FFFF):
        return {"correlation id"}
    try:
        head, body = split_response(request.api, request.version, answered)
    except GarbledResponse:
        return {"not readable"}
    found = message_changes(request.api, request.version, "response", reply.body or b"", body)
    if response_tags(request.api, request.version) and head[4:] != reply.tags:
        found.add(UNKNOWN_TAGS_CHANGE)
    return found


@cache
def is_odd(data: bytes, *, produced: bool) -> bool:
    """Whether these are other bytes than a producer, or a broker, would write for these records, or no records."""
    try:
        batches = decode(data)
        same = b"".join(map(encode, batches)) == data
        # Header keys are texts in Kafka's API.
        _ = [(header.key or b"").decode() for batch in batches for record in batch.records for header in record.headers]
    except (RecordFormatError, ValueError, OverflowError):
        return True
    return not same or any(_is_odd(batch, produced=produced) for batch in batches)


def _is_odd(batch: Batch, *, produced: bool) -> bool:
    own = batch.timestamp_type == "create"
    if own and batch.max_timestamp != max((each.timestamp for each in batch.records), default=-1):
        return True
    # Append time is a broker's affair, and so are offsets that are missing after compaction.
    offsets = [each.offset for each in batch.records]
    whole = len(offsets) == batch.last_offset + 1 - batch.base_offset  # a header may claim more than memory holds
    return produced and not (own and whole and offsets == [*range(batch.base_offset, batch.last_offset + 1)])


# ---- starting a proxy ----


@dataclass(slots=True)
class StartedProxy:
    """A proxy that this process started, or that runs somewhere.

    Attributes:
        address: where clients connect.
        command: the command line that started it; empty if it ran before.
        folder: of its log.
        process: the running command.
        starts: how often it was started.
    """

    address: tuple[str, int]
    command: Sequence[str]
    folder: Path
    process: Guarded | None = None
    starts: int = 0

    def ensure(self) -> bool:
        """Start it if it does not run; whether it had ended by itself.  Raises `CannotRunEdges`."""
        if not self.command or (self.process is not None and not self.process.has_ended()):
            return False
        ended = self.process is not None
        self.stop()
        try:
            self.process = Guarded(self.command, folder=self.folder, log=self.folder / "proxy.log")
        except OSError as error:
            raise CannotRunEdges(f"{self.command[0]} cannot be started: {error.strerror}") from error
        self.starts += 1
        self._await()
        return ended

    def _await(self) -> None:
        end = time.monotonic() + START_LIMIT
        while True:
            with suppress(OSError), socket.create_connection(self.address, timeout=1):
                return
            ended = self.process is not None and self.process.has_ended()
            if ended or time.monotonic() > end:
                tail = said(self.process.tail() if self.process else "")
                what = "ended" if ended else f"does not listen at {self.address[0]}:{self.address[1]}"
                raise CannotRunEdges(f"the proxy {what}: {tail}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it if it was started here."""
        if self.process is not None:
            self.process.kill()


def fill_proxy_command(words: Sequence[str], broker: ScriptedBroker, listen: tuple[str, int]) -> list[str]:
    """*words* with addresses for `{upstream}`, `{listen}`, and their `-host` and `-port`."""
    places = {
        "{upstream}": broker.address,
        "{upstream-host}": broker.host,
        "{upstream-port}": str(broker.port),
        "{listen}": f"{listen[0]}:{listen[1]}",
        "{listen-host}": listen[0],
        "{listen-port}": str(listen[1]),
    }
    pattern = re.compile("|".join(map(re.escape, places)))
    return [pattern.sub(lambda found: places[found[0]], word) for word in words]


def free_ports(number: int) -> int:
    """The first of *number* ports in sequence that are free now."""
    for start in range(21_000, 32_000, number):
        with suppress(OSError):
            for port in range(start, start + number):
                socket.create_server((HOST, port)).close()
            return start
    raise CannotRunEdges("no free ports")
