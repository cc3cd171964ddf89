"""The client against a scripted peer on loopback that misbehaves; real brokers are in test_local.py."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from kafka_brokers.wire import Client, ConnectionClosed, GarbledResponse, Silent, Unreachable, tables
from kafka_brokers.wire.client import answers, parse_address
from kafka_brokers.wire.connection import Connection, Request
from kafka_brokers.wire.partitions import Produced, TopicPartition
from kafka_brokers.wire.transactions import Payloads, once_verified

# Answers one frame; None closes the connection.
Behaviour = Callable[[bytes], bytes | None]
ASK = Request(tables.METADATA, 0, {"topics": []})
NOTHING = bytes(8)  # no brokers, no topics
WHERE = TopicPartition("topic", 0)


def framed(data: bytes) -> bytes:
    """*data* after its size."""
    return len(data).to_bytes(4, "big") + data


def reply(request: bytes) -> bytes:
    """An empty Metadata v0 response to *request*."""
    return framed(request[4:8] + NOTHING)


class Peer:
    """Serves connections, each in a thread of its own."""

    def __init__(self, behave: Behaviour) -> None:
        self.seen: list[bytes] = []
        self._behave = behave
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as file:
            while len(head := file.read(4)) == 4:
                request = file.read(int.from_bytes(head, "big"))
                self.seen.append(request)
                answer = self._behave(request)
                if answer is None:
                    break
                connection.sendall(answer)

    def stop_listening(self) -> None:
        """Refuse connections from now on."""
        with suppress(OSError):  # it has been done
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def close(self) -> None:
        """End it."""
        self.stop_listening()
        self._thread.join(5)


@pytest.fixture
def peer() -> Iterator[Callable[[Behaviour], Peer]]:
    """Make peers that are closed at the end."""
    with ExitStack() as stack:

        def make(behave: Behaviour) -> Peer:
            made = Peer(behave)
            stack.callback(made.close)
            return made

        yield make


def correlation(request: bytes) -> int:
    """The number of a request."""
    return int.from_bytes(request[4:8], "big")


def test_pipelined_answers_come_in_order(peer: Callable[[Behaviour], Peer]) -> None:
    """A hundred requests on one connection have a hundred answers."""
    there = peer(reply)
    with Connection("127.0.0.1", there.port) as connection:
        found = list(connection.exchange([ASK] * 100, window=7))
    assert found == [{"brokers": [], "topics": []}] * 100
    assert [correlation(each) for each in there.seen] == list(range(100))


def test_large_requests_and_responses_do_not_block_each_other(peer: Callable[[Behaviour], Peer]) -> None:
    """Megabytes go both ways at once, though neither side reads before it has written."""
    name = b"x" * 30_000
    topics = b"".join(b"\0\0" + len(name).to_bytes(2, "big") + name + bytes(4) for _ in range(100))

    def behave(request: bytes) -> bytes:
        return framed(request[4:8] + bytes(4) + (100).to_bytes(4, "big") + topics)

    there = peer(behave)
    request = Request(tables.METADATA, 0, {"topics": [{"name": "y" * 30_000}] * 100})
    with Connection("127.0.0.1", there.port) as connection:
        found = list(connection.exchange([request] * 8))
    assert [len(each["topics"]) for each in found if isinstance(each, dict)] == [100] * 8


def test_the_one_that_closed_is_found(peer: Callable[[Behaviour], Peer]) -> None:
    """The request on which the broker closed the connection is `Closed`; the others have their answers."""
    marked = Request(tables.METADATA, 0, {"topics": [{"name": "poison"}]})
    there = peer(lambda request: None if b"poison" in request else reply(request))
    with Client(f"127.0.0.1:{there.port}") as client:
        found = list(client.exchange([ASK, ASK, marked, ASK, marked, ASK]))
    assert [isinstance(each, ConnectionClosed) for each in found] == [False, False, True, False, True, False]


def test_a_broker_that_is_gone_is_no_answer(peer: Callable[[Behaviour], Peer]) -> None:
    """Where the connection breaks and no other can be had, answers so far are kept and the rest has none."""
    there: list[Peer] = []

    def behave(request: bytes) -> bytes | None:
        if correlation(request) < 2:
            return reply(request)
        there[0].stop_listening()
        return None

    there.append(peer(behave))
    with Client(f"127.0.0.1:{there[0].port}") as client:
        answers_so_far = client.exchange([ASK] * 4)
        assert [next(answers_so_far), next(answers_so_far)] == [{"brokers": [], "topics": []}] * 2
        with pytest.raises(Unreachable):
            next(answers_so_far)


def test_silence_has_a_limit(peer: Callable[[Behaviour], Peer]) -> None:
    """A broker that takes a request and never answers is `Silent`."""
    there = peer(lambda _: b"")
    with Connection("127.0.0.1", there.port, time_limit=0.1) as connection, pytest.raises(Silent, match=r"0\.1 s"):
        connection.ask(ASK)


def drip(listener: socket.socket) -> None:
    """Announce a hundred bytes to one connection, and send them one by one."""
    with suppress(OSError), listener.accept()[0] as connection:
        connection.sendall((100).to_bytes(4, "big"))
        for _ in range(100):
            connection.sendall(b"\0")
            time.sleep(0.02)


def test_an_answer_in_drops_has_a_limit() -> None:
    """The limit is that of a whole answer, however often a byte of it comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dripping = threading.Thread(target=drip, args=(listener,), daemon=True)
        dripping.start()
        with (
            Connection("127.0.0.1", listener.getsockname()[1], time_limit=0.2) as connection,
            pytest.raises(Silent, match=r"0\.2 s"),
        ):
            connection.ask(ASK)
        dripping.join(5)
    assert not dripping.is_alive()


@pytest.mark.parametrize("answer", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", framed(b"\0\0")])
def test_frames_that_are_none(answer: bytes, peer: Callable[[Behaviour], Peer]) -> None:
    """A size that cannot be, and a response without a header, are `GarbledResponse`."""
    there = peer(lambda _: answer)
    with Connection("127.0.0.1", there.port) as connection, pytest.raises(GarbledResponse):
        connection.ask(ASK)


def test_no_listener() -> None:
    """A port without a listener is `Unreachable`, and no broker that is ready."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(Unreachable, match=str(port)):
        Client(f"127.0.0.1:{port}")
    assert not answers(f"127.0.0.1:{port}", 1)


def test_brokers_without_api_versions(peer: Callable[[Behaviour], Peer]) -> None:
    """Where ApiVersions closes the connection, the oldest version of each old request is taken."""
    there = peer(lambda request: None if request[:2] == b"\0\x12" else reply(request))
    with Client(f"127.0.0.1:{there.port}") as client:
        assert list(client.versions(tables.PRODUCE)) == [0]
        assert client.metadata()["topics"] == []


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", ":9092", "host:port", "host:-1", "host:²", "host:0", "host:65536", "host:" + "9" * 5000],
)
def test_addresses(text: str) -> None:
    """Text that is not HOST:PORT, or names a port that cannot be, is refused."""
    assert parse_address("host:65535") == ("host", 65_535)
    assert parse_address("[::1]:9092") == ("::1", 9092)
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)


def produced(code: int) -> dict[TopicPartition, Produced]:
    """The answer to a request for one partition."""
    return {WHERE: Produced(code, -1)}


@pytest.mark.parametrize("code", [19, 51])
def test_what_passes_in_a_moment_is_waited_out(code: int) -> None:
    """A passing error is retried: while the last transaction is ending, the next one's data cannot be judged."""
    answers = iter([produced(code), produced(code), produced(120), produced(0)])

    assert once_verified(WHERE, {WHERE: b""}, lambda _: next(answers)) == produced(120)
    assert next(answers) == produced(0)


def test_other_partitions_are_sent_once() -> None:
    """It may have been stored the first time, and would be stored again."""
    other = WHERE._replace(partition=1)
    sent: list[set[TopicPartition]] = []

    def produce(payloads: Payloads) -> dict[TopicPartition, Produced]:
        sent.append(set(payloads))
        return {each: Produced(51 if each == WHERE and len(sent) < 3 else 0, len(sent)) for each in payloads}

    given = once_verified(WHERE, {WHERE: b"in it", other: b"beside"}, produce)

    assert sent == [{WHERE, other}, {WHERE}, {WHERE}]
    assert given == {WHERE: Produced(0, 3), other: Produced(0, 1)}


def test_what_does_not_pass_is_the_answer() -> None:
    """An error that stays is returned once the time limit has passed."""
    assert once_verified(WHERE, {WHERE: b""}, lambda _: produced(19), seconds=0.05) == produced(19)


@pytest.mark.parametrize("given", [ConnectionClosed("reset"), None])
def test_a_missing_answer_is_not_requested_again(given: ConnectionClosed | None) -> None:
    """The connection was closed, or there is none to acks=0."""
    answers = iter([given])

    assert once_verified(WHERE, {WHERE: b""}, lambda _: next(answers)) is given
