"""Measure brokers as an oracle: how many verdicts a second one gives, and how soon the first.

A verdict is an answer compared with what `kafka_records.broker.append` predicts:
error code and base offset, and in a second figure the stored bytes too, fetched
back.  Predictions are made beforehand: they can be made anywhere, and what is
measured is the broker with all that is between it and us.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka_brokers import container, jvm
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.releases import find_release
from kafka_brokers.wire import Client, Produced, TopicPartition, tables
from kafka_records import Batch, Header, Record, encode
from kafka_records.broker import AppendResult, LogState, TopicConfig, append

# Each payload has a partition of its own, so that a refused payload disturbs no other.
PARTITIONS: Final = 400
PARTITIONS_A_REQUEST: Final = 200
REQUESTS_UNDER_WAY: Final = 4
ROUNDS_AT_ONCE: Final = 8
# Far more payloads for each partition than a broker takes in the time.
ROUNDS: Final = 800
SECONDS: Final = 4.0

Answers = Mapping[TopicPartition, Produced]


@dataclass(frozen=True, slots=True)
class PredictedAppend:
    """A payload, and what is predicted when it is produced again and again to one partition."""

    payload: bytes
    predicted: tuple[AppendResult, ...]


def sample_payloads(now_ms: int) -> list[bytes]:
    """Of every kind that one partition's answer is about: some are stored, some refused."""
    record = Record(0, now_ms, b"key", b"value " * 10, (Header(b"header", b"value"),))
    batch = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=now_ms, records=(record,))
    three = tuple(record._replace(offset=at, timestamp=now_ms + at) for at in range(3))
    sound = encode(batch)
    return [
        sound,
        encode(replace(batch, last_offset=2, max_timestamp=now_ms + 2, records=three)),
        encode(replace(batch, base_offset=7, last_offset=7, records=(record._replace(offset=7),))),
        encode(replace(batch, compression="gzip")),
        sound[:-1] + bytes([sound[-1] ^ 1]),  # its CRC is wrong
        encode(replace(batch, records=(record._replace(key=None, value=None, headers=()),))),
    ]


def predicted_appends(release: str, api_version: int, now_ms: int, rounds: int = ROUNDS) -> list[PredictedAppend]:
    """Each payload with the predictions for *rounds* appends in a row."""
    return [
        PredictedAppend(payload, tuple(_predicted(payload, release, api_version, now_ms, rounds)))
        for payload in sample_payloads(now_ms)
    ]


def _predicted(payload: bytes, release: str, api_version: int, now_ms: int, rounds: int) -> Iterator[AppendResult]:
    log = LogState()
    for _ in range(rounds):
        result = append(log, payload, TopicConfig(), release=release, api_version=api_version, now_ms=now_ms)
        log = result.log
        yield result


class TopicRounds:
    """One topic of a broker; each round gets one verdict from every partition."""

    def __init__(self, client: Client, topic: str, appends: list[PredictedAppend]) -> None:
        self._client = client
        self._version = client.newest(tables.PRODUCE)
        self._partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        self._appends = appends
        self.verdicts = 0
        self.differences = 0

    def _question(self, where: TopicPartition) -> PredictedAppend:
        return self._appends[where.partition % len(self._appends)]

    def pipelined(self, rounds: range, *, fetched: bool) -> None:
        """Many partitions in a request, some requests under way at once."""
        starts = [(turn, at) for turn in rounds for at in range(0, PARTITIONS, PARTITIONS_A_REQUEST)]
        groups = [(turn, self._partitions[at : at + PARTITIONS_A_REQUEST]) for turn, at in starts]
        requests = [
            self._client.produce_request({each: self._question(each).payload for each in group}, self._version)
            for _, group in groups
        ]
        answers = self._client.exchange(requests, REQUESTS_UNDER_WAY)
        right = [
            self._compare(self._client.read_produced(answer) if isinstance(answer, dict) else {}, group, turn)
            for (turn, group), answer in zip(groups, answers, strict=True)
        ]
        if fetched:
            self._compare_stored([(turn, group) for (turn, _), group in zip(groups, right, strict=True)])

    def one_by_one(self, rounds: range, *, fetched: bool) -> None:
        """One partition in a request, and no request before the last was answered."""
        for turn in rounds:
            for where in self._partitions:
                answer = self._client.produce({where: self._question(where).payload}, self._version)
                right = self._compare(answer if isinstance(answer, dict) else {}, [where], turn)
                if fetched:
                    self._compare_stored([(turn, right)])

    def _compare(self, answers: Answers, group: list[TopicPartition], turn: int) -> list[TopicPartition]:
        """Verdicts on what was answered; the partitions where that was as predicted."""
        right = []
        for where in group:
            wanted, found = self._question(where).predicted[turn], answers.get(where)
            if found and (found.error_code, found.base_offset) == (wanted.error_code, wanted.base_offset):
                right.append(where)
        self.verdicts += len(group)
        self.differences += len(group) - len(right)
        return right

    def _compare_stored(self, groups: list[tuple[int, list[TopicPartition]]]) -> None:
        """Where something was stored, whether these are the bytes."""
        wanted = [
            {each: result for each in group if (result := self._question(each).predicted[turn]).stored}
            for turn, group in groups
        ]
        requests = [
            self._client.fetch_request(
                {where: result.base_offset for where, result in each.items()},
                partition_max_bytes=max(len(result.stored) for result in each.values()),
            )
            for each in wanted
            if each
        ]
        answers = self._client.exchange(requests, REQUESTS_UNDER_WAY)
        for each, answer in zip(filter(None, wanted), answers, strict=True):
            found = self._client.read_fetched(answer) if isinstance(answer, dict) else {}
            for where, result in each.items():
                got = found[where].records[: len(result.stored)] if where in found else b""
                self.differences += not _same(got, result)


def _same(got: bytes, wanted: AppendResult) -> bool:
    # Compressed bytes are whatever the broker's library makes of the records, where it compressed them.
    return got == wanted.stored or (wanted.path != "in place" and len(got) == len(wanted.stored))


@dataclass(frozen=True, slots=True)
class Way:
    """Modes of requests: rounds in flight (0: one request at a time), and whether stored bytes are fetched."""

    name: str
    at_once: int
    fetched: bool = False


# Not reported: meanwhile Java compiles the broker's code, which on a busy machine takes its time.
WARM_UP_VERDICTS: Final = 60_000
WARM_UP_SECONDS: Final = 20.0
WARM_UP: Final = Way("warm-up", ROUNDS_AT_ONCE)
WAYS: Final = (
    Way("answers", ROUNDS_AT_ONCE),
    Way("answers, one by one", 0),
    Way("answers and stored bytes", ROUNDS_AT_ONCE, fetched=True),
    Way("answers and stored bytes, one by one", 0, fetched=True),
)


def verdict_rates(broker: JvmBroker, seconds: float = SECONDS) -> Iterator[dict[str, Any]]:
    """Verdicts a second: pipelined and one by one, without and with the stored bytes."""
    with broker.client() as client:
        now_ms = int(time.time() * 1000)
        appends = predicted_appends(broker.release, client.newest(tables.PRODUCE), now_ms)
        for number, way in enumerate((WARM_UP, *WAYS)):
            topic = f"bench-{number}"
            broker.create_topics({topic: PARTITIONS})
            oracle = TopicRounds(client, topic, appends)
            if way is WARM_UP:
                _rate(oracle, way, WARM_UP_SECONDS, enough=WARM_UP_VERDICTS)
            else:
                rate = _rate(oracle, way, seconds)
                yield {
                    "what": f"broker {broker.release}: {way.name}",
                    "verdicts_per_second": round(rate),
                    "verdicts": oracle.verdicts,
                    "differences": oracle.differences,
                    "load_average": round(os.getloadavg()[0], 1),
                }


def _rate(oracle: TopicRounds, way: Way, seconds: float, *, enough: float = math.inf) -> float:
    """Verdicts a second over *seconds* or so, or until there are *enough*."""
    ask: Callable[..., None] = oracle.pipelined if way.at_once else oracle.one_by_one
    step = way.at_once or 1
    start = time.perf_counter()
    for first in range(0, ROUNDS - step, step):
        ask(range(first, first + step), fetched=way.fetched)
        if time.perf_counter() - start >= seconds or oracle.verdicts >= enough:
            break
    return oracle.verdicts / (time.perf_counter() - start)


def first_verdict(start: Callable[[str], JvmBroker], release: str) -> float:
    """Seconds from nothing that runs to the first verdict; jars are cached, and images built."""
    begin = time.perf_counter()
    with start(release) as broker, broker.client() as client:
        now_ms = int(time.time() * 1000)
        (appends, *_) = predicted_appends(release, version := client.newest(tables.PRODUCE), now_ms, rounds=1)
        where = TopicPartition("first", 0)
        broker.create_topics({where.topic: 1})
        answer = client.produce({where: appends.payload}, version)
        assert isinstance(answer, dict)
        assert answer[where].base_offset == appends.predicted[0].base_offset
        return time.perf_counter() - begin


def measure_release(release: str, runs: int) -> Iterator[dict[str, Any]]:
    """All figures of *release*.  Raises `NoBroker`."""
    places: dict[str, Callable[[str], JvmBroker]] = {"local": jvm.start_jvm}
    if container.engine_runs() and container.has_image(find_release(release)):
        places["container"] = container.start_container
    for name, start in places.items():
        seconds = sorted(first_verdict(start, release) for _ in range(runs))
        yield {
            "what": f"broker {release}, {name}: from nothing to the first verdict",
            "seconds": round(seconds[len(seconds) // 2], 2),
            "slowest_seconds": round(seconds[-1], 2),
        }
    with jvm.start_jvm(release) as broker:
        yield from verdict_rates(broker)
