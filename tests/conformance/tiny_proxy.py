"""A proxy of a hundred lines that passes frames on, and wrong ones: `python tiny_proxy.py UPSTREAM LISTEN [FAULT]`."""

import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from crc32c import crc32c

from kafka_brokers.wire import tables
from kafka_brokers.wire.client import parse_address
from kafka_brokers.wire.errors import WireError
from kafka_brokers.wire.schema import Message
from kafka_conformance.edges.relay import RelayRequest, open_request, side_bytes, split_response
from kafka_records import RecordFormatError, decode, encode
from kafka_records.layout import BATCH_V2

LARGEST: Final = 1 << 20

Waiting = dict[int, RelayRequest]


def _frames(connection: socket.socket) -> Iterator[bytes]:
    with connection.makefile("rb") as stream:
        while len(size := stream.read(4)) == 4:
            frame = stream.read(int.from_bytes(size, "big"))
            if len(frame) == int.from_bytes(size, "big"):
                yield frame


def _send(connection: socket.socket, frame: bytes) -> None:
    connection.sendall(struct.pack(">i", len(frame)) + frame)


def _changed_records(message: Any, change: Callable[[bytes], bytes]) -> Any:
    """*message* with each record set changed."""
    if isinstance(message, dict):
        return {
            key: change(value) if key == "records" and value else _changed_records(value, change)
            for key, value in message.items()
        }
    return [_changed_records(each, change) for each in message] if isinstance(message, list) else message


def recompressed(data: bytes) -> bytes:
    """Each batch with gzip."""
    return b"".join(encode(replace(batch, compression="gzip")) for batch in decode(data))


def without_headers(data: bytes) -> bytes:
    """Records without their headers."""
    return b"".join(
        encode(replace(batch, records=tuple(each._replace(headers=()) for each in batch.records)))
        for batch in decode(data)
    )


def with_right_checksum(data: bytes) -> bytes:
    """The first batch with a checksum of whatever it holds."""
    try:
        decode(data)
    except RecordFormatError:
        crc = BATCH_V2.field("crc")
        body = data[crc.offset + crc.width :]
        return data[: crc.offset] + crc32c(body).to_bytes(4, "big") + body
    return data


def upper_case(data: bytes) -> bytes:
    """Values in capitals."""
    return b"".join(
        encode(
            replace(
                batch, records=tuple(each._replace(value=each.value and each.value.upper()) for each in batch.records)
            )
        )
        for batch in decode(data)
    )


RECORDS: Final = {"recompresses": recompressed, "drops headers": without_headers, "upper case": upper_case}


class TinyProxy:
    """Passes frames on; *fault* is a key of `RECORDS`, or one that `_request` or `_response` know."""

    def __init__(self, upstream: tuple[str, int], listen: tuple[str, int] = ("127.0.0.1", 0), fault: str = "") -> None:
        self.upstream, self.fault = upstream, fault
        self._server = socket.create_server(listen)
        self.address = "{}:{}".format(*self._server.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                broker = socket.create_connection(self.upstream)
                waiting: Waiting = {}
                for source, target, change in ((client, broker, self._request), (broker, client, self._response)):
                    threading.Thread(target=self._pump, args=(source, target, change, waiting), daemon=True).start()

    def _pump(
        self, source: socket.socket, target: socket.socket, change: Callable[[bytes, Waiting], bytes], waiting: Waiting
    ) -> None:
        held: list[bytes] = []
        with suppress(OSError, ValueError, WireError):
            for frame in _frames(source):
                if self.fault == "cuts" and len(frame) > LARGEST:
                    break
                changed = change(frame, waiting)
                if self.fault == "reorders" and change == self._response and waiting and not held:
                    held.append(changed)
                    continue
                for passed in (changed, *held):
                    _send(target, passed)
                held.clear()
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        source.close()

    def _request(self, frame: bytes, waiting: Waiting) -> bytes:
        request, number = open_request(frame)
        fields = request.fields()
        if request.api is not tables.PRODUCE or fields["acks"]:
            waiting[number] = request
        if self.fault in RECORDS and request.api is tables.PRODUCE:
            body: Message = _changed_records(fields, RECORDS[self.fault])
            changed = RelayRequest(
                request.api, request.version, side_bytes(request.api, request.version, "request", body)
            )
            return changed.frame(number)[4:]
        return frame

    def _response(self, frame: bytes, waiting: Waiting) -> bytes:
        request = waiting.pop(int.from_bytes(frame[:4], "big", signed=True))
        head, body = split_response(request.api, request.version, frame)
        if self.fault == "hides errors" and request.api is tables.PRODUCE:
            fields = request.api.decode(request.version, body)
            fields["responses"][0]["partition_responses"][0]["error_code"] = 0
            return head + side_bytes(request.api, request.version, "response", fields)
        if self.fault == "repairs" and request.api is tables.FETCH:
            fields = _changed_records(request.api.decode(request.version, body), with_right_checksum)
            return head + side_bytes(request.api, request.version, "response", fields)
        return frame


if __name__ == "__main__":
    TinyProxy(parse_address(sys.argv[1]), parse_address(sys.argv[2]), " ".join(sys.argv[3:]))
    threading.Event().wait()
