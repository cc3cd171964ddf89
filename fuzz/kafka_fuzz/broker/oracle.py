"""A broker as the target of many payloads at a time: a turn produces one payload in each lane and fetches it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Final, NamedTuple

from kafka_brokers.interface import Broker
from kafka_brokers.scenarios.normalize import now_ms
from kafka_brokers.wire import ConnectionClosed, Produced, TopicPartition, WireError, tables
from kafka_brokers.wire.connection import Request
from kafka_fuzz.broker.lanes import (
    BEGINS,
    ENDS,
    TRANSACTIONAL_LANES,
    Lane,
    LaneRequest,
    Lanes,
    ProduceAnswer,
    Settings,
    answer_difference,
    begin_lane_transaction,
    end_lane_transaction,
    marker_mutant,
)
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.mutate.mutant import first_entry_spans
from kafka_records import AppendResult, LogState
from kafka_records.attributes import TRANSACTIONAL_FLAG_MASK
from kafka_records.broker.releases import behaviour
from kafka_records.constants import MAGIC_VALUE_V2
from kafka_records.layout import ATTRIBUTES_OFFSET_V2, MAGIC_OFFSET

LANES_A_SETTING: Final = 24
PARTITIONS_A_REQUEST: Final = 48
REQUESTS_UNDER_WAY: Final = 6
# The parts of a turn that are sent one after another.
PARTS: Final = 4
# The last version of the request that takes v0 and v1.
LAST_OF_V1: Final = 2
LOW_ATTRIBUTES: Final = ATTRIBUTES_OFFSET_V2 + 1
# Bytes fetched from one lane in one turn; more than a payload has.
MOST_FETCHED: Final = 1 << 20

Draw = Callable[[LogState], Mutant]


class JudgedPayload(NamedTuple):
    """An answered payload; *different* is the field in which the broker differs from the reference, or empty."""

    request: LaneRequest
    different: str
    given: ProduceAnswer
    wanted: AppendResult


class BrokerLost(Exception):
    """The broker ended or does not answer; one payload of *suspects* is the cause."""

    def __init__(self, error: WireError, suspects: list[LaneRequest]) -> None:
        super().__init__(str(error))
        self.error = error
        self.suspects = suspects


class Oracle:
    """One broker, with lanes for each of its settings."""

    def __init__(
        self,
        broker: Broker,
        settings: Iterable[Settings],
        rng: Random,
        *,
        prefix: str = "fuzz",
        release: str = "",
        transactional: Iterable[Settings] = (),
    ) -> None:
        """Connect, and create the topics; answers are predicted for *release*, by default that of *broker*.

        Raises:
            WireError: the broker closed the connection or sent an invalid answer.
        """
        self.release = release or broker.release
        self._rng = rng
        self._client = broker.client()
        oldest, newest = behaviour(self.release).produce
        newest = min(newest, self._client.newest(tables.PRODUCE))
        self._new = range(max(oldest, LAST_OF_V1 + 1), newest + 1)
        self._old = range(oldest, LAST_OF_V1 + 1)
        self._lanes = Lanes(broker, self.release, prefix=prefix, at_once=LANES_A_SETTING)
        self._busy = [self._lanes.take(each) for each in settings for _ in range(LANES_A_SETTING)]
        self._busy += [
            self._lanes.take_sender(each, self._client) for each in transactional for _ in range(TRANSACTIONAL_LANES)
        ]

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def turn(self, draw: Draw) -> list[JudgedPayload]:
        """One payload for each lane, answered and judged.

        A thread sends one part of the payloads while the next part is made.

        Raises:
            BrokerLost: the broker ended or did not answer.
        """
        pool = ThreadPoolExecutor(1)
        try:
            parts = [pool.submit(self._ask, self._drawn_requests(draw, lanes)) for lanes in self._parts()]
            judged = [judge_answer(*each) for part in parts for each in part.result()]
        finally:
            pool.shutdown(cancel_futures=True)
        try:
            judged += self._between()
        except WireError as error:
            raise BrokerLost(error, []) from error
        self._renew({each.request.lane.where for each in judged if each.different})
        return judged

    def _between(self) -> Iterator[JudgedPayload]:
        """Begin and end transactions; yields the markers."""
        for lane in self._busy:
            sender, chance = lane.sender, self._rng.random()
            if sender is None or sender.is_lost:
                continue
            if not sender.is_open and chance < BEGINS:
                begin_lane_transaction(self._client, lane, sender)
            elif sender.is_open and chance < ENDS:
                ended = end_lane_transaction(self._client, lane, sender, commit=self._rng.random() < 0.5)
                if ended is not None:
                    different, given, wanted = ended
                    yield JudgedPayload(
                        LaneRequest(lane, marker_mutant(given.stored), 0, wanted), different, given, wanted
                    )

    def _parts(self) -> list[list[Lane]]:
        """The lanes in parts, each with lanes of all settings."""
        return [part for at in range(PARTS) if (part := self._busy[at::PARTS])]

    def _ask(self, requests: list[LaneRequest]) -> list[tuple[LaneRequest, Produced | ConnectionClosed, bytes]]:
        """Produce the payloads, and fetch the bytes that the broker stored."""
        answers = self._produce(list(request_groups(requests)))
        stored = self._stored(requests, answers)
        return [(each, answers[each.lane.where], stored.get(each.lane.where, b"")) for each in requests]

    def again(
        self, settings: Settings, before: Iterable[tuple[bytes, int]], mutant: Mutant, version: int
    ) -> JudgedPayload:
        """Produce *mutant* on an empty partition after the payloads *before*.

        Raises:
            BrokerLost: the broker ended or did not answer.
        """
        lane = self._lanes.take(settings)
        for payload, its_version in before:
            self._ask_alone(self._expected(lane, mutant._replace(data=payload), its_version))
        return self._ask_alone(self._expected(lane, mutant, version))

    def again_in_transaction(self, judged: JudgedPayload, before: Iterable[tuple[bytes, int]]) -> JudgedPayload:
        """Produce the payload of a transactional lane again by another producer, after the payloads *before*.

        Raises:
            BrokerLost: the broker ended or did not answer.
        """
        requests, old = judged.request, judged.request.lane.sender
        lane = self._lanes.take_sender(requests.lane.settings, self._client)
        assert old is not None
        assert lane.sender is not None
        if old.is_open:
            begin_lane_transaction(self._client, lane, lane.sender)
        mutant, other = requests.mutant, old.producer
        for payload, version in before:
            mine = mutant._replace(data=lane.sender.as_mine(payload, other))
            self._ask_alone(self._expected(lane, mine, version))
        mine = mutant._replace(data=lane.sender.as_mine(mutant.data, other))
        return self._ask_alone(self._expected(lane, mine, requests.version))

    def _ask_alone(self, requests: LaneRequest) -> JudgedPayload:
        (answered,) = self._ask([requests])
        return judge_answer(*answered)

    def _drawn_requests(self, draw: Draw, lanes: Iterable[Lane]) -> list[LaneRequest]:
        new, old = self._rng.choice(self._new), self._rng.choice(self._old or self._new)
        return [self._drawn(lane, draw(lane.log), old, new) for lane in lanes]

    def _drawn(self, lane: Lane, mutant: Mutant, old: int, new: int) -> LaneRequest:
        """*mutant* for *lane*, with the request version for its format."""
        if lane.sender is None:
            return self._expected(lane, mutant, old if is_old(mutant.data) else new)
        mutant, version = lane.sender.signed(mutant, lane.log, self._rng), lane.sender.newest(self.release, new)
        return self._expected(lane, mutant, old if is_old(mutant.data) else version)

    def _expected(self, lane: Lane, mutant: Mutant, version: int) -> LaneRequest:
        return LaneRequest(lane, mutant, version, lane.predict(mutant.data, version, now_ms()))

    def _produce(self, groups: list[list[LaneRequest]]) -> dict[TopicPartition, Produced | ConnectionClosed]:
        requests = [self._produce_request(group) for group in groups]
        found: dict[TopicPartition, Produced | ConnectionClosed] = {}
        answers = self._client.exchange(requests, REQUESTS_UNDER_WAY)
        for group in groups:
            try:
                answer = next(answers)
                read = self._client.read_produced(answer) if isinstance(answer, dict) else None
            except WireError as error:
                raise BrokerLost(error, group) from error
            for each in group:
                found[each.lane.where] = read[each.lane.where] if read else answer  # type: ignore[assignment]
        return found

    def _produce_request(self, group: list[LaneRequest]) -> Request:
        """The request for *group*, before which the client may ask for a topic; a lost broker does not answer that."""
        sender = group[0].lane.sender
        try:
            return self._client.produce_request(
                {each.lane.where: each.mutant.data for each in group},
                group[0].version,
                transactional_id=sender.id if sender else None,
            )
        except WireError as error:
            raise BrokerLost(error, group) from error

    def _stored(
        self, requests: list[LaneRequest], answers: Mapping[TopicPartition, Produced | ConnectionClosed]
    ) -> dict[TopicPartition, bytes]:
        """Fetch the bytes after the former end of each log that may have grown."""
        looked = [each for each in requests if each.predicted.stored or is_taken(answers[each.lane.where], each.lane)]
        groups = [looked[at : at + PARTITIONS_A_REQUEST] for at in range(0, len(looked), PARTITIONS_A_REQUEST)]
        found: dict[TopicPartition, bytes] = {}
        try:
            fetches = [
                self._client.fetch_request(
                    {each.lane.where: each.lane.log.log_end_offset for each in group},
                    partition_max_bytes=MOST_FETCHED,
                    max_wait_ms=0,
                )
                for group in groups
            ]
            for answer in self._client.exchange(fetches, REQUESTS_UNDER_WAY):
                if isinstance(answer, dict):
                    found |= {where: got.records for where, got in self._client.read_fetched(answer).items()}
        except WireError as error:
            raise BrokerLost(error, looked) from error
        return found

    def _renew(self, differing: set[TopicPartition]) -> None:
        """Replace lanes whose log is no longer as predicted, and worn ones."""
        for index, lane in enumerate(self._busy):
            if lane.where in differing or lane.is_worn:
                lanes, settings = self._lanes, lane.settings
                plain = lane.sender is None
                self._busy[index] = lanes.take(settings) if plain else lanes.take_sender(settings, self._client)


def request_groups(requests: Iterable[LaneRequest]) -> Iterator[list[LaneRequest]]:
    """Payloads by request: one version each; a payload that can fail a whole request is alone (PRD-02, TXN-04)."""
    groups: dict[int, list[LaneRequest]] = {}
    for each in requests:
        if each.predicted.whole_request or each.lane.sender is not None or is_transactional(each.mutant.data):
            yield [each]
            continue
        group = groups.setdefault(each.version, [])
        group.append(each)
        if len(group) == PARTITIONS_A_REQUEST:
            yield groups.pop(each.version)
    yield from groups.values()


def judge_answer(requests: LaneRequest, answer: Produced | ConnectionClosed, stored: bytes) -> JudgedPayload:
    """Compare one answer with the prediction."""
    if isinstance(answer, Produced):
        return JudgedPayload(requests, *requests.lane.judge(requests, answer, stored))
    given = ProduceAnswer(closed=True)
    return JudgedPayload(
        requests, answer_difference(given, requests.predicted, requests.version), given, requests.predicted
    )


def is_taken(answer: Produced | ConnectionClosed, lane: Lane) -> bool:
    """Whether the broker's answer shows that the log has grown."""
    return isinstance(answer, Produced) and not answer.error_code and answer.base_offset >= lane.log.log_end_offset


def is_transactional(data: bytes) -> bool:
    """Whether a batch is transactional: a broker refuses a whole request with batches of two producers."""
    return any(
        data[start + MAGIC_OFFSET] >= MAGIC_VALUE_V2 and data[start + LOW_ATTRIBUTES] & TRANSACTIONAL_FLAG_MASK
        for start, end in first_entry_spans(data)
        if end - start > LOW_ATTRIBUTES
    )


def is_old(data: bytes) -> bool:
    """Whether a payload begins with a message of v0 or v1."""
    return len(data) > MAGIC_OFFSET and data[MAGIC_OFFSET] < MAGIC_VALUE_V2
