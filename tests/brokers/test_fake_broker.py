"""The fake broker, called through our wire client like any broker."""

import socket
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from kafka_brokers.fake_broker import (
    END,
    EVERY_VERSION,
    FETCH_SESSION_ID_NOT_FOUND,
    INVALID_FETCH_SESSION_EPOCH,
    UNKNOWN_TOPIC_ID,
    VERSIONS,
    VERSIONS_BY_MAGIC,
    FakeBroker,
    Tape,
    topic_id_of,
    with_fetch_version,
)
from kafka_brokers.wire import Connection, tables
from kafka_brokers.wire.connection import Request
from kafka_brokers.wire.schema import ZERO_UUID, Api, Message
from kafka_records import Batch, Record, decode, encode

BEGIN = -2
LATEST = -1


def batch(first: int, count: int = 2, **fields: object) -> bytes:
    """A batch of *count* records from offset *first* on."""
    records = tuple(Record(first + at, 7, None, b"value") for at in range(count))
    plain = {"base_offset": first, "last_offset": first + count - 1, "max_timestamp": 7}
    return encode(Batch(magic=2, records=records, **(plain | fields)))  # type: ignore[arg-type]


TWO = batch(0) + batch(2)


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """A broker with one partition in every topic."""
    with FakeBroker() as started:
        yield started


@pytest.fixture
def newest() -> Iterator[FakeBroker]:
    """A broker with every version of every request, and fetch sessions."""
    with FakeBroker(versions=EVERY_VERSION, sessions=True) as started:
        yield started


def ask(broker: FakeBroker, api: Api, version: int, body: Message) -> Message:
    """One request on a connection of its own."""
    host, port = broker.address.split(":")
    with Connection(host, int(port)) as connection:
        answer = connection.ask(Request(api, version, body))
    assert isinstance(answer, dict)
    return answer


def fetch_body(offset: int, *, version: int = 12, topic: str = "t", wait: int = 0, **more: object) -> Message:
    """A request for the one partition of *topic* at *offset*."""
    named = {"topic": topic} if version < 13 else {"topic_id": topic_id_of(topic)}
    partitions = [{"partition": 0, "fetch_offset": offset}]
    return {"max_wait_ms": wait, "topics": [{**named, "partitions": partitions}], **more}


def fetch(broker: FakeBroker, offset: int, *, version: int = 12, topic: str = "t", wait: int = 0) -> Message:
    """The answer of the one partition of *topic* at *offset*."""
    body = fetch_body(offset, version=version, topic=topic, wait=wait)
    (answered,) = ask(broker, tables.FETCH, version, body)["responses"]
    return dict(answered["partitions"][0])


def is_end(records: bytes, offset: int) -> bool:
    """Whether these are the end record at *offset*."""
    (found,) = decode(records)
    return found.records == (Record(offset, found.max_timestamp, END, END),)


@pytest.mark.parametrize("version", range(tables.FETCH.newest + 1))
def test_a_fetch_gets_the_bytes_as_they_are_and_then_the_end(newest: FakeBroker, version: int) -> None:
    """In every version the first fetch gets the case, and the next one the end record in the magic of that version."""
    tape = newest.serve("t", TWO)

    assert fetch(newest, 0, version=version)["records"] == TWO
    end = fetch(newest, 4, version=version)

    assert is_end(end["records"], 4)
    assert decode(end["records"])[0].magic == (0 if version < 2 else 1 if version < 4 else 2)
    assert end["high_watermark"] == 5
    assert (tape.requests, tape.position, tape.stalled) == ([0, 4], 4, False)
    assert fetch(newest, 5, version=version)["records"] == b""
    assert newest.fetched == {version: 3}


def test_a_later_offset_gets_the_rest(broker: FakeBroker) -> None:
    """From the batch that holds the offset on, as from a broker."""
    broker.serve("t", TWO)
    fetch(broker, 0)

    assert fetch(broker, 2)["records"] == batch(2)


def test_a_client_that_repeats_one_offset_has_stalled() -> None:
    """After three times the same answer a client gets the end record where it stands, and that is noted."""
    tape = Tape(TWO)

    assert [tape.read(0, 2) for _ in range(3)] == [TWO] * 3
    assert is_end(tape.read(0, 2), 0)
    assert tape.stalled


def test_a_client_that_makes_room_has_not_stalled() -> None:
    """A client that fetches the same offset with a larger size takes the entry for a cut one, and may give up later."""
    tape = Tape(TWO)

    assert [tape.read(0, 2, room) for room in (100, 100, 100, 200, 200, 400)] == [TWO] * 6
    assert not tape.stalled
    assert [tape.read(0, 2, 400) for _ in range(2)] == [TWO] * 2
    assert is_end(tape.read(0, 2, 400), 0)
    assert tape.stalled


@pytest.mark.parametrize(
    ("tail", "stalls"),
    [(batch(4)[:-1], False), (batch(4)[:3], False), (b"\xff" * 17, False), (b"\xff" * 18, True)],
)
def test_a_part_of_a_batch_is_over_and_garbage_is_not(tail: bytes, *, stalls: bool) -> None:
    """A real broker would send the rest of a batch; what cannot be one it would send for ever, if it looks at it."""
    tape = Tape(TWO + tail)
    tape.read(0, 2)

    answers = [tape.read(4, 2) for _ in range(4)]

    assert [each == tail for each in answers] == ([True] * 3 + [False] if stalls else [False] * 4)
    assert is_end(answers[3], 4)
    assert tape.stalled is stalls


def unknown(data: bytes, magic: int) -> bytes:
    """*data* with another magic."""
    return data[:16] + bytes([magic]) + data[17:]


@pytest.mark.parametrize("odd", [unknown(batch(2), 127), unknown(batch(2), 255), batch(2)[:8] + b"\xff" * 10])
def test_an_entry_that_a_client_has_read_is_over(odd: bytes) -> None:
    """A client that requests the offset after an entry of impossible magic or size has read it as a batch."""
    tape = Tape(batch(0) + odd)
    tape.read(0, 2)

    assert is_end(tape.read(3, 2), 3)
    assert not tape.stalled


@pytest.mark.parametrize("odd", [unknown(batch(2), 127), batch(2)[:8] + b"\xff" * 10])
def test_an_entry_that_a_client_has_not_read_comes_again(odd: bytes) -> None:
    """A client that stays at the offset of such an entry gets it again, and has stalled in the end."""
    tape = Tape(batch(0) + odd)
    tape.read(0, 2)

    assert [tape.read(2, 2) for _ in range(3)] == [odd] * 3
    assert is_end(tape.read(2, 2), 2)
    assert tape.stalled


@pytest.mark.parametrize("magic", [3, 255])
def test_a_part_of_an_entry_of_unknown_magic_is_over(magic: int) -> None:
    """A real broker would send the rest of it."""
    tape = Tape(batch(0) + unknown(batch(2), magic)[:17])
    tape.read(0, 2)

    assert is_end(tape.read(2, 2), 2)
    assert not tape.stalled


def test_a_batch_whose_last_offset_is_below_its_first_comes_again() -> None:
    """A client that retries such a batch gets it again, until it reports its error."""
    odd = batch(0)
    odd = odd[:23] + b"\xff" * 4 + odd[27:]
    tape = Tape(odd)

    assert [tape.read(0, 2) for _ in range(3)] == [odd] * 3
    # A client that has read it, and stays at offset 0, has not stalled.
    assert is_end(tape.read(0, 2), 0)
    assert not tape.stalled


def test_a_batch_whose_records_are_below_its_base_is_over_after_them() -> None:
    """The last offset counts, not the base."""
    tape = Tape(batch(8192, 1)[:23] + (-8192).to_bytes(4, "big", signed=True) + batch(8192, 1)[27:])
    tape.read(0, 2)

    assert is_end(tape.read(1, 2), 1)


def test_no_bytes_are_the_end_at_once(broker: FakeBroker) -> None:
    """A case of no bytes has nothing but its end record."""
    broker.serve("t", b"")

    assert is_end(fetch(broker, 0)["records"], 0)


def test_a_fetch_that_waits_ends_with_the_next_case(broker: FakeBroker) -> None:
    """A fetch that waits at the end of one case returns when another case is served."""
    broker.serve("t", b"")
    fetch(broker, 0)
    host, port = broker.address.split(":")
    body = {"max_wait_ms": 60_000, "topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 1}]}]}
    with Connection(host, int(port), time_limit=30) as connection:
        request = Request(tables.FETCH, 12, body)
        broker.serve("other", TWO)
        answer = connection.ask(request)

    assert isinstance(answer, dict)
    assert answer["responses"][0]["partitions"][0]["records"] == b""


@pytest.mark.parametrize("version", range(13))
def test_every_topic_exists(broker: FakeBroker, version: int) -> None:
    """Metadata names the one broker as the leader of every requested topic."""
    answer = ask(broker, tables.METADATA, version, {"topics": [{"name": "any"}]})

    assert [(each["host"], each["port"]) for each in answer["brokers"]] == [("127.0.0.1", broker.port)]
    (topic,) = answer["topics"]
    assert (topic["name"], topic["error_code"], len(topic["partitions"])) == ("any", 0, 1)


@pytest.mark.parametrize("version", range(1, 8))
def test_offsets_are_listed(broker: FakeBroker, version: int) -> None:
    """A log starts at 0, and ends after its end record."""
    broker.serve("t", TWO)

    def listed(timestamp: int) -> int:
        partitions = [{"partition_index": 0, "timestamp": timestamp}]
        answer = ask(broker, tables.LIST_OFFSETS, version, {"topics": [{"name": "t", "partitions": partitions}]})
        return int(answer["topics"][0]["partitions"][0]["offset"])

    assert (listed(BEGIN), listed(LATEST)) == (0, 5)


@pytest.mark.parametrize("magic", VERSIONS_BY_MAGIC)
def test_what_is_produced_is_caught(magic: int) -> None:
    """The bytes of a produce request are kept, in the versions in which a producer writes this magic."""
    low, high = VERSIONS_BY_MAGIC[magic][tables.PRODUCE]
    with FakeBroker(versions=VERSIONS_BY_MAGIC[magic]) as broker:
        for version in range(low, high + 1):
            body = {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": TWO}]}]}
            answer = ask(broker, tables.PRODUCE, version, body)

            assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0
            assert broker.caught() == [TWO]
            assert broker.caught() == []


@pytest.mark.parametrize("version", range(tables.PRODUCE.newest + 1))
def test_a_produce_request_is_taken_in_every_version(newest: FakeBroker, version: int) -> None:
    """From version 13 on by the id of a topic that Metadata named; an unknown id is an error of its own."""
    ask(newest, tables.METADATA, 12, {"topics": [{"name": "t"}]})
    named = {"name": "t"} if version < 13 else {"topic_id": topic_id_of("t")}
    body = {"topic_data": [{**named, "partition_data": [{"index": 0, "records": TWO}]}]}
    (answer,) = ask(newest, tables.PRODUCE, version, body)["responses"]

    assert answer["partition_responses"][0]["error_code"] == 0
    assert answer.items() >= named.items()
    assert newest.caught() == [TWO]


def test_topics_have_ids_where_requests_need_them(newest: FakeBroker, broker: FakeBroker) -> None:
    """A topic is found by its name and by its id; a broker of releases without ids gives none."""
    (named,) = ask(newest, tables.METADATA, 12, {"topics": [{"name": "t"}]})["topics"]
    (found,) = ask(newest, tables.METADATA, 12, {"topics": [{"name": None, "topic_id": named["topic_id"]}]})["topics"]
    (without,) = ask(broker, tables.METADATA, 12, {"topics": [{"name": "t"}]})["topics"]

    assert named["topic_id"] == found["topic_id"] == topic_id_of("t")
    assert (found["name"], without["topic_id"]) == ("t", ZERO_UUID)


def test_an_unknown_topic_id_is_an_error(newest: FakeBroker) -> None:
    """In Fetch and in Produce."""
    newest.serve("t", TWO)
    fetched = fetch(newest, 0, version=17, topic="never seen")
    body = {"topic_data": [{"topic_id": topic_id_of("no"), "partition_data": [{"index": 0, "records": TWO}]}]}
    (produced,) = ask(newest, tables.PRODUCE, 13, body)["responses"]

    assert (fetched["error_code"], fetched["records"]) == (UNKNOWN_TOPIC_ID, b"")
    assert produced["partition_responses"][0]["error_code"] == UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_a_session_has_what_changed(newest: FakeBroker, version: int) -> None:
    """A partition is named once (KIP-227): later responses have it where there is news, until it is forgotten."""

    def ask_in(session: int, epoch: int, body: Message) -> Message:
        return ask(newest, tables.FETCH, version, {**body, "session_id": session, "session_epoch": epoch})

    newest.serve("t", TWO)
    first = ask_in(0, 0, fetch_body(0, version=version))
    session = first["session_id"]
    moved = ask_in(session, 1, fetch_body(2, version=version))
    same = ask_in(session, 2, {"max_wait_ms": 0, "topics": []})
    named = {"topic": "t"} if version < 13 else {"topic_id": topic_id_of("t")}
    forgotten = [{**named, "partitions": [0]}]
    without = ask_in(session, 3, {"max_wait_ms": 0, "topics": [], "forgotten_topics_data": forgotten})

    assert session > 0
    assert first["responses"][0]["partitions"][0]["records"] == TWO
    assert moved["responses"][0]["partitions"][0]["records"] == batch(2)
    assert same["responses"] == moved["responses"]
    assert (without["session_id"], without["responses"]) == (session, [])
    # FetchManager: a wrong epoch, an unknown session, and a session that was closed by the client.
    assert ask_in(session, 9, fetch_body(0, version=version))["error_code"] == INVALID_FETCH_SESSION_EPOCH
    assert ask_in(77, 1, fetch_body(0, version=version))["error_code"] == FETCH_SESSION_ID_NOT_FOUND
    assert ask_in(session, -1, fetch_body(0, version=version))["session_id"] == 0
    assert ask_in(session, 4, fetch_body(0, version=version))["error_code"] == FETCH_SESSION_ID_NOT_FOUND


def test_versions_that_no_release_has_are_refused() -> None:
    """A Fetch version is one of 0 to 18."""
    assert with_fetch_version(VERSIONS, 18)[tables.FETCH] == (0, 18)
    for version in (-1, 19):
        with pytest.raises(ValueError, match=f"no Fetch version {version}: they are 0 to 18"):
            with_fetch_version(VERSIONS, version)


def test_a_version_that_is_not_there_is_answered_in_version_0(broker: FakeBroker) -> None:
    """KIP-511: error 35, and the versions that there are."""
    answer = ask(broker, tables.API_VERSIONS, 5, {})

    assert answer["error_code"] == 35
    assert {each["api_key"] for each in answer["api_keys"]} >= {0, 1, 2, 3, 18}


def test_the_client_is_known_by_what_it_says(broker: FakeBroker) -> None:
    """From version 3 on ApiVersions names the client's software."""
    ask(broker, tables.API_VERSIONS, 3, {"client_software_name": "mine", "client_software_version": "1.2"})

    assert (broker.client.name, broker.client.version) == ("mine", "1.2")


@pytest.mark.parametrize(
    "nonsense", [b"\x7f\xff\xff\xff", b"\0\0\0\x02hi", b"\0\0\0\x08\x7f\xff\0\0\0\0\0\0", b""], ids=str
)
def test_nonsense_is_hung_up_on(broker: FakeBroker, nonsense: bytes) -> None:
    """A client that does not speak Kafka's protocol loses its connection, and other clients keep theirs."""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as client:
        client.sendall(nonsense)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    broker.serve("t", TWO)
    assert fetch(broker, 0)["records"] == TWO


def test_slow_and_huge_requests_do_no_harm(newest: FakeBroker) -> None:
    """A request that comes a byte at a time is answered, one of a GiB is refused at once, and others are served."""
    newest.serve("t", TWO)
    slow = socket.create_connection(("127.0.0.1", newest.port), timeout=10)
    huge = socket.create_connection(("127.0.0.1", newest.port), timeout=10)
    with slow, huge:
        huge.sendall((1 << 30).to_bytes(4, "big"))
        assert huge.recv(1) == b""
        request = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff"
        for at in range(len(request)):
            slow.sendall(request[at : at + 1])
            assert at > 0 or fetch(newest, 0)["records"] == TWO
        assert slow.recv(8)[4:] == b"\0\0\0\x07"


@pytest.mark.slow
def test_ten_thousand_connections_leave_nothing(newest: FakeBroker) -> None:
    """Connections that come and go, with a request or without one, leave no socket and no thread."""
    newest.serve("t", TWO)
    before = psutil.Process().num_fds()
    for number in range(10_000):
        if number % 10:
            socket.create_connection(("127.0.0.1", newest.port), timeout=10).close()
        else:
            assert ask(newest, tables.API_VERSIONS, 0, {})["error_code"] == 0
    name, end = f"client-of-{newest.port}", time.monotonic() + 30

    def left() -> tuple[int, list[object], bool]:
        """Threads without a client, sockets whose client has gone, and whether there are more files than before.

        A socket that is still connected has a client of another process: it once talked to a broker with this port.
        """
        ours = [each for each in psutil.Process().net_connections("tcp4") if newest.port in each.laddr]
        at_work = [each for each in ours if each.status == psutil.CONN_ESTABLISHED]
        threads = sum(each.name == name for each in threading.enumerate())
        gone: list[object] = [each for each in ours if each.status == psutil.CONN_CLOSE_WAIT]
        return max(threads - len(at_work), 0), gone, psutil.Process().num_fds() > before + len(at_work) + 2

    while any(left()) and time.monotonic() < end:
        time.sleep(0.05)

    assert left() == (0, [], False)
