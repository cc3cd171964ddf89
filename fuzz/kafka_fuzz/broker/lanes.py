"""Lanes: one partition each, with the reference's idea of the log in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafka_conformance.broker.clock import now_of
from kafka_conformance.broker.interface import Broker
from kafka_conformance.broker.play.partitions import Fresh
from kafka_conformance.broker.wire import Client, Produced, TopicPartition
from kafka_fuzz.broker.comparing import Answer, answer_of, difference
from kafka_fuzz.broker.settings import ROOM, Settings
from kafka_fuzz.broker.transactions import Sender, Taken, with_producing
from kafka_fuzz.mutate import Mutant
from kafka_records import AppendResult, LogState, TopicConfig, append

# More than the mutators make.
LARGEST: Final = "4000000"
# A log that has taken so many payloads, or knows so many producers, is left alone: what led to a difference has
# to be played again.
MOST_TAKEN: Final = 400
MOST_PRODUCERS: Final = 40


class Asked(NamedTuple):
    """A payload on its way to a lane, and what is predicted."""

    lane: Lane
    mutant: Mutant
    version: int
    predicted: AppendResult


@dataclass(slots=True)
class Lane:
    """A partition, its topic's settings, the log in it, the payloads that it took, and who sends in transactions."""

    release: str
    where: TopicPartition
    settings: Settings
    config: TopicConfig
    log: LogState = field(default_factory=LogState)
    taken: list[Taken] = field(default_factory=list)
    sender: Sender | None = None

    @property
    def is_worn(self) -> bool:
        """Whether it is time for an empty partition."""
        is_lost = self.sender is not None and self.sender.is_lost
        return is_lost or len(self.taken) >= MOST_TAKEN or len(self.log.producers) > MOST_PRODUCERS

    def predict(self, payload: bytes, version: int, now_ms: int) -> AppendResult:
        """What the reference says of *payload*."""
        log = with_producing(self.log, self.sender, payload)
        return append(log, payload, self.config, release=self.release, api_version=version, now_ms=now_ms)

    def judge(self, asked: Asked, produced: Produced, stored: bytes) -> tuple[str, Answer, AppendResult]:
        """Where the broker's answer differs from what is predicted; the log goes on as predicted."""
        given, wanted = answer_of(produced, stored), asked.predicted
        different = difference(given, wanted, asked.version)
        if different or self.config.timestamp_type == "LogAppendTime":
            # Predicted by our clock, and judged by the broker's.
            timed = stored if self.config.timestamp_type == "LogAppendTime" else b""
            wanted = self.predict(asked.mutant.data, asked.version, now_of(produced, timed))
            different = difference(given, wanted, asked.version)
        if not wanted.error_code:
            self.taken.append(Taken(asked.mutant.data, asked.version))
            if self.sender is not None:
                self.sender.since.append(self.taken[-1])
        self.log = wanted.log
        return different, given, wanted


class Lanes:
    """Lanes on partitions that nobody has used, by settings."""

    def __init__(self, broker: Broker, release: str, *, prefix: str, at_once: int) -> None:
        """Topics are called *prefix* and a number, and have *at_once* partitions; *release* is predicted."""
        self._release = release
        self._fresh = Fresh(broker, prefix=prefix, at_once=at_once)

    def take(self, settings: Settings) -> Lane:
        """An empty one.  Raises `BrokerError` where the broker does not take the settings."""
        return self._take(settings)

    def take_sender(self, settings: Settings, client: Client) -> Lane:
        """An empty one, and a transactional producer for it, which *client* asks for."""
        lane = self._take(settings)
        lane.sender = Sender.start(client, f"{lane.where.topic}-{lane.where.partition}")
        return lane

    def _take(self, settings: Settings) -> Lane:
        whole = {ROOM: LARGEST, **settings}
        (where,) = self._fresh.take(whole)
        return Lane(self._release, where, settings, TopicConfig.of(whole))
