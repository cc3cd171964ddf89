"""A client of one broker: picks versions, knows topic ids, connects again where the broker closed.

It sends requests to one broker only, so that broker has to lead the
partitions, as it does in a cluster of one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kafka_brokers.wire import tables
from kafka_brokers.wire.connection import TIME_LIMIT, WINDOW, Connection, ConnectionClosed, Request
from kafka_brokers.wire.errors import BrokerError, Silent, UnsupportedVersion, WireError
from kafka_brokers.wire.partitions import (
    Fetched,
    Names,
    Produced,
    TopicPartition,
    fetch_body,
    parse_fetch_response,
    parse_produce_response,
    produce_body,
)
from kafka_brokers.wire.schema import ZERO_UUID, Api, Message

# What every broker has that does not know ApiVersions (0.8.2 and 0.9).
BEFORE_API_VERSIONS: Final = {
    api.key: (0, 0) for api in (tables.PRODUCE, tables.FETCH, tables.LIST_OFFSETS, tables.METADATA)
}
# Seconds for ApiVersions: 0.9 neither answers it nor closes the connection.
RANGES_LIMIT: Final = 5.0
# Seconds between two looks at something that takes a moment.
PAUSE: Final = 0.02
# Unknown topic, no leader, not the leader, unknown topic id: what a new topic answers for a moment.
NOT_YET: Final = frozenset({3, 5, 6, 100})
NOT_CONTROLLER: Final = 41
# A port has 16 bits.
LARGEST_PORT: Final = 65_535
MOST_DIGITS: Final = 5
# ListOffsets with this timestamp returns the start of the log.
EARLIEST: Final = -2
LATEST: Final = -1


def parse_address(bootstrap: str) -> tuple[str, int]:
    """Host and port of `host:port`.  Raises `ValueError` if it is none, or no such port exists."""
    host, colon, port = bootstrap.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()):
        raise ValueError(f"{bootstrap}: not of the form HOST:PORT")
    # A system call takes the lower 16 bits of a larger number, which is the port of something else.
    if len(port) > MOST_DIGITS or not 1 <= int(port) <= LARGEST_PORT:
        raise ValueError(f"{bootstrap}: the port of HOST:PORT is from 1 to {LARGEST_PORT}")
    return host.strip("[]"), int(port)


class Client:
    """Talks to one broker; not for more than one thread."""

    def __init__(
        self, bootstrap: str, *, time_limit: float = TIME_LIMIT, ranges: Mapping[int, tuple[int, int]] | None = None
    ) -> None:
        """Connect; *ranges* are the broker's versions by request, if they are known; otherwise ApiVersions is sent.

        Raises:
            Unreachable: no broker listens there.
            ValueError: *bootstrap* is not `host:port`.
        """
        self._address = parse_address(bootstrap)
        self._time_limit = time_limit
        self._ranges = ranges
        self._names = Names({})
        self._connection = self._connect()

    def _connect(self) -> Connection:
        return Connection(*self._address, time_limit=self._time_limit)

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def exchange(
        self, requests: Iterable[Request], window: int = WINDOW
    ) -> Iterator[Message | ConnectionClosed | None]:
        """An answer to each request, in order; `Closed` for those on which the broker closed the connection.

        Requests after such a request are sent again on a new connection.  If
        none can be had, the broker is gone, and that request has no answer.

        Raises:
            Unreachable: the broker is gone.
            Silent: no answer within the time limit.
            GarbledResponse: bytes that are none.
        """
        todo = list(requests)
        done = 0
        while done < len(todo):
            for answer in self._connection.exchange(todo[done:], window):
                if isinstance(answer, ConnectionClosed):
                    self._reconnect()
                done += 1
                yield answer

    def _reconnect(self) -> None:
        self._connection.close()
        self._connection = self._connect()

    def ask(self, api: Api, body: Mapping[str, Any], version: int | None = None) -> Message | ConnectionClosed | None:
        """One request, in the newest common version or in *version*, whether the broker has that or not."""
        request = Request(api, self.newest(api) if version is None else version, body)
        return next(self.exchange((request,)))

    def demand(self, api: Api, body: Mapping[str, Any], version: int | None = None) -> Message:
        """As `ask`, where a broker that closes the connection is an error (`WireError`)."""
        answer = self.ask(api, body, version)
        if isinstance(answer, ConnectionClosed) or answer is None:
            raise WireError(f"{api.name}: the broker closed the connection: {answer and answer.how}")
        return answer

    def ranges(self) -> Mapping[int, tuple[int, int]]:
        """Oldest and newest version of each request that the broker has, by the request's key."""
        if self._ranges is None:
            with Connection(*self._address, time_limit=min(RANGES_LIMIT, self._time_limit)) as connection:
                try:
                    answer = connection.ask(Request(tables.API_VERSIONS, 0, {}))
                except Silent:
                    answer = None
            self._ranges = _ranges(answer) if isinstance(answer, dict) else BEFORE_API_VERSIONS
        return self._ranges

    def newest(self, api: Api) -> int:
        """The newest version that the broker and the tables have.  Raises `UnsupportedVersion`."""
        oldest, newest = self.ranges().get(api.key, (0, -1))
        if min(newest, api.newest) < max(oldest, api.oldest):
            raise UnsupportedVersion(
                f"{api.name}: the broker has {oldest} to {newest}, we {api.oldest} to {api.newest}"
            )
        return min(newest, api.newest)

    def versions(self, api: Api) -> range:
        """All versions that the broker and the tables have, oldest first."""
        oldest, _ = self.ranges().get(api.key, (0, -1))
        return range(max(oldest, api.oldest), self.newest(api) + 1)

    def metadata(self, topics: Iterable[str] | None = None) -> Message:
        """Brokers, and these topics or all; topic ids are remembered."""
        version = self.newest(tables.METADATA)
        wanted: list[Message] | None = [] if version == 0 else None  # all, in words that the version has
        if topics is not None:
            wanted = [{"name": topic} for topic in topics]
        answer = self.demand(tables.METADATA, {"topics": wanted}, version)
        ids = {each["name"]: each.get("topic_id", ZERO_UUID) for each in answer["topics"]}
        self._names = Names({**self._names.ids, **{name: found for name, found in ids.items() if found != ZERO_UUID}})
        return answer

    def create_topics(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """Create *topics* (name: number of partitions), and wait until all of them can be written to.

        Raises:
            BrokerError: the broker refused one.
            UnsupportedVersion: it has no such request (before 0.10.1).
        """
        settings = [{"name": name, "value": value} for name, value in (config or {}).items()]
        wanted = [{"name": name, "num_partitions": count, "configs": settings} for name, count in topics.items()]
        end = time.monotonic() + self._time_limit
        while refused := _refused(self.demand(tables.CREATE_TOPICS, {"topics": wanted})):
            # A broker that has just started may not have been elected yet.
            if refused.code != NOT_CONTROLLER or time.monotonic() > end:
                raise refused
            time.sleep(PAUSE)
        self.await_leaders(topics)

    def await_leaders(self, topics: Mapping[str, int]) -> None:
        """Wait until the broker leads all partitions of *topics*.  Raises `Silent` after the time limit."""
        end = time.monotonic() + self._time_limit
        # A broker announces that it leads a partition a little before it accepts requests for it.
        while not (_led(self.metadata(topics), topics) and self._leads(topics)):
            if time.monotonic() > end:
                raise Silent(f"no leaders for {', '.join(topics)} within {self._time_limit:g} s")
            time.sleep(PAUSE)

    def _leads(self, topics: Mapping[str, int]) -> bool:
        wanted = [
            {"name": name, "partitions": [{"partition_index": at, "timestamp": EARLIEST} for at in range(count)]}
            for name, count in topics.items()
        ]
        answer = self.demand(tables.LIST_OFFSETS, {"topics": wanted})
        return not any(each["error_code"] in NOT_YET for topic in answer["topics"] for each in topic["partitions"])

    def produce(
        self, payloads: Mapping[TopicPartition, bytes | None], version: int | None = None, **fields: Any
    ) -> dict[TopicPartition, Produced] | ConnectionClosed | None:
        """Produce these bytes; *fields* are those of the request, such as `acks` and `transactional_id`.

        With acks=0 there is no answer: None, or `ConnectionClosed` if the broker then closed the connection.
        """
        request = self.produce_request(payloads, version, **fields)
        if not request.answered:
            return self._unanswered(request)
        answer = next(self.exchange((request,)))
        return parse_produce_response(answer, self._names) if isinstance(answer, dict) else answer

    def _unanswered(self, request: Request) -> ConnectionClosed | None:
        # The broker answers the next request, or closes the connection on this one.
        last = Request(tables.METADATA, 0, {"topics": [{"name": next(iter(self._topics(request)))}]})
        *_, answer = self._connection.exchange((request, last))
        if isinstance(answer, ConnectionClosed):
            self._reconnect()
            return answer
        return None

    def _topics(self, request: Request) -> Iterator[str]:
        for each in request.body["topic_data"]:
            yield self._names.name("name", each)

    def produce_request(
        self, payloads: Mapping[TopicPartition, bytes | None], version: int | None = None, **fields: Any
    ) -> Request:
        """The request of `produce`, to be sent by `exchange`; `read_produced` reads the answer."""
        if version is None:
            version = self.newest(tables.PRODUCE)
        self._learn(payloads, version)
        body = produce_body(payloads, version, self._names, **fields)
        return Request(tables.PRODUCE, version, body, answered=body.get("acks", -1) != 0)

    def read_produced(self, answer: Message) -> dict[TopicPartition, Produced]:
        """The answers by partition in a produce response."""
        return parse_produce_response(answer, self._names)

    def fetch(
        self, offsets: Mapping[TopicPartition, int], version: int | None = None, **fields: Any
    ) -> dict[TopicPartition, Fetched] | ConnectionClosed:
        """Fetch from these offsets on; *fields* are those of the request, such as `isolation_level`.

        Raises:
            BrokerError: the response as a whole is an error.
        """
        answer = next(self.exchange((self.fetch_request(offsets, version, **fields),)))
        assert answer is not None  # there is always an answer to a fetch
        return answer if isinstance(answer, ConnectionClosed) else parse_fetch_response(answer, self._names)

    def fetch_request(
        self, offsets: Mapping[TopicPartition, int], version: int | None = None, **fields: Any
    ) -> Request:
        """The request of `fetch`, to be sent by `exchange`; `read_fetched` reads the answer."""
        if version is None:
            version = self.newest(tables.FETCH)
        self._learn(offsets, version)
        return Request(tables.FETCH, version, fetch_body(offsets, version, self._names, **fields))

    def read_fetched(self, answer: Message) -> dict[TopicPartition, Fetched]:
        """The answers by partition in a fetch response.  Raises `BrokerError` if all of it is an error."""
        return parse_fetch_response(answer, self._names)

    def _learn(self, partitions: Iterable[TopicPartition], version: int) -> None:
        """Ask for the topic ids that a request in this version needs."""
        if version > tables.LAST_BY_NAME:
            unknown = {each.topic for each in partitions} - self._names.ids.keys()
            if unknown:
                self.metadata(sorted(unknown))
            for topic in unknown - self._names.ids.keys():
                raise BrokerError(3, f"the id of {topic}")

    def offset(self, partition: TopicPartition, timestamp: int = LATEST, isolation_level: int = 0) -> int:
        """ListOffsets: -1 is the log's end, -2 its start, others the first record with that timestamp or a later one.

        -1 where there is none.  Raises `BrokerError`.
        """
        entry = {"partition_index": partition.partition, "timestamp": timestamp}
        body = {"topics": [{"name": partition.topic, "partitions": [entry]}], "isolation_level": isolation_level}
        found = self.demand(tables.LIST_OFFSETS, body)["topics"][0]["partitions"][0]
        if found["error_code"]:
            raise BrokerError(found["error_code"], f"ListOffsets {partition.topic}-{partition.partition}")
        old_style = found.get("old_style_offsets")
        return int(found["offset"]) if old_style is None else next(iter(old_style), -1)


def _ranges(answer: Message) -> dict[int, tuple[int, int]]:
    return {each["api_key"]: (each["min_version"], each["max_version"]) for each in answer["api_keys"]}


def _refused(answer: Message) -> BrokerError | None:
    """The first error in a CreateTopics response."""
    for each in answer["topics"]:
        if each["error_code"]:
            reason = each.get("error_message") or "no reason given"
            return BrokerError(each["error_code"], f"CreateTopics {each['name']} ({reason})")
    return None


def _led(answer: Message, topics: Mapping[str, int]) -> bool:
    """Whether every partition has a leader; errors other than a delay are raised."""
    found = {each["name"]: each for each in answer["topics"]}
    for name, count in topics.items():
        each = found.get(name)
        if each is None or each["error_code"] in NOT_YET:
            return False
        if each["error_code"]:
            raise BrokerError(each["error_code"], f"Metadata {name}")
        partitions = each["partitions"]
        if len(partitions) < count or any(partition["error_code"] for partition in partitions):
            return False
    return True


def answers(bootstrap: str, time_limit: float, *, named: bool = True) -> bool:
    """Whether a broker at *bootstrap* is up and, if *named*, names the brokers of its cluster: readiness."""
    try:
        with Connection(*parse_address(bootstrap), time_limit=time_limit) as connection:
            # Version 0, as every release has it; no names mean all topics, which is one or none.
            answer = connection.ask(Request(tables.METADATA, 0, {"topics": []}))
    except WireError:
        return False
    return isinstance(answer, dict) and bool(answer["brokers"] or not named)
