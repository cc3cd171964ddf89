"""One connection to a broker: requests go out without waiting, responses come back in order.

A broker works on one request of a connection at a time and answers in order, so
the first request without an answer is the one on which it closed the connection.
Sending and receiving go on at the same time: large requests and large responses
cannot block each other.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka_brokers.wire.errors import GarbledResponse, Silent, Unreachable
from kafka_brokers.wire.schema import Api, Message, unsigned_varint

CLIENT_ID: Final = "kafkaproof"
# Seconds for a whole response, from when it is awaited.
TIME_LIMIT: Final = 30.0
# Requests on their way at once.
WINDOW: Final = 32
READ: Final = 1 << 20
# Kafka's own bound is 100 MiB for a request; a response may be as large as the request allows.
LARGEST_RESPONSE: Final = 1 << 29
API_VERSIONS_KEY: Final = 18

_NO_TAGS: Final = unsigned_varint(0)


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """The broker closed the connection instead of answering; how, in words."""

    how: str


@dataclass(frozen=True, slots=True)
class Request:
    """One request in one version.

    Attributes:
        api, version: which one.
        body: its fields.
        answered: whether a response comes; none does to a produce request with acks=0.
    """

    api: Api
    version: int
    body: Mapping[str, Any]
    answered: bool = True


def header(api: Api, version: int, correlation_id: int, client_id: str = CLIENT_ID) -> bytes:
    """A request's header: version 1, or 2 (one empty set of tags more) in flexible versions."""
    name = client_id.encode()
    tags = _NO_TAGS if api.is_flexible(version) else b""
    return struct.pack(">hhih", api.key, version, correlation_id, len(name)) + name + tags


def frame(request: Request, correlation_id: int, client_id: str = CLIENT_ID) -> bytes:
    """The request as sent, after its size."""
    body = request.api.encode(request.version, request.body)
    head = header(request.api, request.version, correlation_id, client_id)
    return struct.pack(">i", len(head) + len(body)) + head + body


def open_response(request: Request, correlation_id: int, data: bytes) -> Message:
    """The fields of the response in *data*, which is a whole frame without its size.

    Raises:
        GarbledResponse: it answers something else, or has not the shape that it must have.
    """
    if len(data) < 4 or int.from_bytes(data[:4], "big") != correlation_id:
        raise GarbledResponse(f"{request.api.name}: the response to request {correlation_id} starts {data[:4].hex()}")
    at = 4
    # KIP-511: the header of this response stays in version 0, so that anybody can read it.
    if request.api.is_flexible(request.version) and request.api.key != API_VERSIONS_KEY:
        if data[4:5] != _NO_TAGS:
            raise GarbledResponse(f"{request.api.name}: tagged fields in the response's header")
        at = 5
    return request.api.decode(request.version, data[at:])


class Connection:
    """A socket and what is on its way; not for more than one thread."""

    def __init__(self, host: str, port: int, *, time_limit: float = TIME_LIMIT, client_id: str = CLIENT_ID) -> None:
        """Connect.  Raises `Unreachable`."""
        self._time_limit = time_limit
        self._client_id = client_id
        self._next_id = 0
        self._waiting: deque[tuple[Request, int]] = deque()
        self._unsent = bytearray()
        self._received = bytearray()
        self._closed: ConnectionClosed | None = None
        try:
            self._socket = socket.create_connection((host, port), timeout=time_limit)
        except OSError as error:
            raise Unreachable(f"{host}:{port}: {error.strerror or error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)

    def close(self) -> None:
        """Let go of it."""
        self._socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: Request) -> Message | ConnectionClosed | None:
        """One request, and its answer; None where there is none to come.

        Raises:
            Silent: no answer within the time limit.
            GarbledResponse: bytes that are none.
        """
        return next(self.exchange((request,)))

    def exchange(
        self, requests: Iterable[Request], window: int = WINDOW
    ) -> Iterator[Message | ConnectionClosed | None]:
        """Answers in the order of *requests*, *window* of which are on their way at once.

        Ends after a `ConnectionClosed`: the requests after it have no answer.
        Nothing can be seen to go wrong with a request that has no answer, so
        send another one after it.

        Raises:
            Silent: no answer within the time limit.
            GarbledResponse: bytes that are none.
        """
        todo = iter(requests)
        while self._fill(todo, window):
            request, correlation_id = self._waiting.popleft()
            if not request.answered:
                yield None
                continue
            found = self._response()
            if isinstance(found, ConnectionClosed):
                self._waiting.clear()
                yield found
                return
            yield open_response(request, correlation_id, found)
        self._flush()

    def _fill(self, todo: Iterator[Request], window: int) -> bool:
        """Queue requests while there is room; whether any is on its way."""
        while len(self._waiting) < window:
            request = next(todo, None)
            if request is None:
                break
            self._waiting.append((request, self._next_id))
            self._unsent += frame(request, self._next_id, self._client_id)
            self._next_id = (self._next_id + 1) & 0x7FFF_FFFF
        return bool(self._waiting)

    def _response(self) -> bytes | ConnectionClosed:
        """The next frame, without its size."""
        end = time.monotonic() + self._time_limit
        while (whole := self._whole_frame()) is None:
            if self._closed:
                return self._closed
            self._pump(end)
        return whole

    def _whole_frame(self) -> bytes | None:
        if len(self._received) < 4:
            return None
        size = int.from_bytes(self._received[:4], "big", signed=True)
        if not 0 <= size <= LARGEST_RESPONSE:
            raise GarbledResponse(f"a response of {size} bytes is announced")
        if len(self._received) < 4 + size:
            return None
        data = bytes(self._received[4 : 4 + size])
        del self._received[: 4 + size]
        return data

    def _flush(self) -> None:
        end = time.monotonic() + self._time_limit
        while self._unsent and not self._closed:
            self._pump(end)

    def _pump(self, end: float) -> None:
        """Move bytes in either direction, as soon as some can be."""
        left = end - time.monotonic()
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        events = poll.poll(left * 1000) if left > 0 else []
        if not events:
            raise Silent(f"no answer within {self._time_limit:g} s")
        event = events[0][1]
        if event & select.POLLOUT:
            self._send_some()
        if event & ~select.POLLOUT:
            self._receive_some()

    def _send_some(self) -> None:
        try:
            del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            # It closed; reading says so too, after what it had sent before.
            self._unsent.clear()

    def _receive_some(self) -> None:
        try:
            data = self._socket.recv(READ)
        except BlockingIOError:
            return
        except OSError as error:
            self._closed = ConnectionClosed(error.strerror or str(error))
            return
        self._received += data
        if not data:
            self._closed = ConnectionClosed("closed without an answer")
