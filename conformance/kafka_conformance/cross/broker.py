"""The column of the broker: what producers wrote is produced to it, each on a partition of its own, and fetched back.

The bytes that Kafka's own writer would send, by the reference, go first.  What
the broker does with those is right, so a batch that no client may send (a
marker, say) is refused from every writer, and no side is to blame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Final

from kafka_brokers.interface import Broker
from kafka_brokers.releases import find_release
from kafka_brokers.scenarios.recorder import Recorder
from kafka_brokers.scenarios.runner import CannotPlay
from kafka_brokers.wire import UnsupportedVersion, WireError
from kafka_conformance.cross.results import StoredLine
from kafka_conformance.cross.verdict import of_broker, reading
from kafka_corpus.case import Case
from kafka_corpus.scenario import (
    FIRST_PRODUCE_OF_V2,
    NEWEST,
    AddPartitions,
    InitProducerId,
    Produce,
    Scenario,
    Step,
    StepAnswer,
    release_number,
)
from kafka_records import Batch, RecordFormatError
from kafka_records.constants import MAGIC_VALUE_V2

# A topic takes any time; the setting came with 3.6 (KIP-937), and before there was no limit.
ANY_TIME: Final = {"message.timestamp.after.max.ms": str(2**63 - 1)}
FIRST_WITH_LIMIT: Final = (3, 6)
ALIAS: Final = "producer"


class Taker:
    """A broker that takes what producers wrote, and remembers what it makes of the right bytes."""

    def __init__(self, broker: Broker) -> None:
        self._recorder = Recorder(broker)
        self._release = broker.release
        self._magics = find_release(broker.release).magics
        self._right: dict[str, StepAnswer] = {}
        self.name = f"Kafka {broker.release}"

    def close(self) -> None:
        """Let go of the connection."""
        self._recorder.close()

    def take(self, case: Case, written: Mapping[str, bytes]) -> Iterator[StoredLine]:
        """The broker's result for each byte string in *written* for *case*, by hash."""
        for sha256, data in written.items():
            yield self._take(case, sha256, data)

    def _take(self, case: Case, sha256: str, data: bytes) -> StoredLine:
        assert isinstance(case.input, Batch)
        if case.input.magic not in self._magics:
            return StoredLine(batch=case.id, sha256=sha256, outcome="skipped", why=f"{self.name} takes no magic so old")
        assert case.expect.data is not None
        try:
            right = self._answer(case, case.expect.data)
            given = right if data == case.expect.data else self._scenario_answer(case, data)
        except (CannotPlay, UnsupportedVersion) as error:
            return StoredLine(batch=case.id, sha256=sha256, outcome="skipped", why=str(error))
        judged = asdict(of_broker(right, given, self.name))
        return StoredLine(batch=case.id, sha256=sha256, data=given.data, right=right.data, **judged)

    def _answer(self, case: Case, data: bytes) -> StepAnswer:
        if case.id not in self._right:
            self._right[case.id] = self._scenario_answer(case, data)
        return self._right[case.id]

    def _scenario_answer(self, case: Case, data: bytes) -> StepAnswer:
        try:
            return self._recorder.play(self._scenario(case, data))[-1]
        except UnsupportedVersion:
            raise
        except WireError:
            self._recorder.renew()
            return StepAnswer(ended=True)

    def _scenario(self, case: Case, data: bytes) -> Scenario:
        batch = case.input
        assert isinstance(batch, Batch)
        version = NEWEST if batch.magic >= MAGIC_VALUE_V2 else FIRST_PRODUCE_OF_V2 - 1
        steps: tuple[Step, ...] = (Produce(data=data, api_version=version),)
        # Bytes get the id and epoch of a real transaction, and a new checksum; broken ones stay as they are.
        if batch.transactional and not batch.control and not isinstance(reading(data), RecordFormatError):
            produce = Produce(data=data, api_version=version, producer=ALIAS, transactional=True)
            steps = (InitProducerId(ALIAS), AddPartitions(ALIAS), produce)
        limited = release_number(self._release) >= FIRST_WITH_LIMIT
        return Scenario(steps=steps, config=dict(ANY_TIME) if limited else {})
