"""Known-finding replay on brokers: a payload is produced again as it was sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from random import Random
from typing import Final

import msgspec

from kafka_brokers import jvm
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.wire import WireError
from kafka_fuzz.broker.confirming import Context, difference_outcome
from kafka_fuzz.broker.lanes import Taken
from kafka_fuzz.broker.oracle import BrokerLost, Oracle
from kafka_fuzz.broker.settings import CONFIG, FLAGS, release_of
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.targets.outcome import Outcome


class Sent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The request that reproduces a finding on a broker.

    Attributes:
        api_version: of the request.
        settings: of the topic.
        before: payloads that the partition accepted first, in hexadecimal, with their versions.
    """

    api_version: int
    settings: dict[str, str] = {}
    before: tuple[tuple[str, int], ...] = ()


NOTHING_SAYS: Final = "the entry does not state how the payload was sent to a broker"


class BrokerReplayer:
    """Replays known findings on a broker; a broker that ends is reported as an outcome and started again."""

    def __init__(self, target: str, predicted: str = "") -> None:
        """Start a broker; it is compared with the release *predicted*, by default its own.

        Raises:
            NoBroker: it cannot be started.
            ValueError: there is no such release.
        """
        self._target, self._predicted = target, predicted
        self._release = release_of(target)
        self._start()

    def close(self) -> None:
        """End the broker."""
        with suppress(WireError):
            self._oracle.close()
        self.broker.stop()

    def outcome(self, mutant: Mutant, sent: Sent | None) -> Outcome:
        """The outcome of *mutant* on the broker; ValueError if *sent* is missing."""
        if sent is None:
            raise ValueError(NOTHING_SAYS)
        before = [Taken(bytes.fromhex(payload), version) for payload, version in sent.before]
        try:
            judged = self._oracle.again(sent.settings, before, mutant, sent.api_version)
        except BrokerLost:
            return self._lost()
        return difference_outcome(self._target, judged) if judged.different else Outcome(self._target, "ok")

    def _lost(self) -> Outcome:
        has_ended = self.broker.has_ended()
        self.close()
        self._start()
        return Outcome(self._target, "crash" if has_ended else "hang")

    def _start(self) -> None:
        self.broker: JvmBroker = jvm.start_jvm(self._release, config=CONFIG, flags=FLAGS)
        self._oracle = Oracle(self.broker, (), Random(0), prefix="replay", release=self._predicted)


@contextmanager
def open_broker_replayer(target: str, predicted: str = "") -> Iterator[BrokerReplayer]:
    """A replayer for the broker *target*, which ends with the block; arguments and errors as `BrokerReplayer`."""
    with closing(BrokerReplayer(target, predicted)) as replayer:
        yield replayer


def sent_as(context: bytes) -> Sent | None:
    """The request that reproduces a finding, from its `broker.json`; None if it was sent in a transaction."""
    try:
        kept = msgspec.json.decode(context, type=Context)
    except msgspec.MsgspecError:
        return None
    if kept.transactional:
        return None
    return Sent(kept.api_version, kept.settings, tuple((data.hex(), version) for data, version in kept.before))
