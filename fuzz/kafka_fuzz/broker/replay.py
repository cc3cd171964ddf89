"""Known-finding replay on brokers: a payload is produced again as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    """All that it takes to send a payload as it was.

    Attributes:
        api_version: of the request.
        settings: of the topic.
        before: payloads that the partition took first, as hex, with their versions.
    """

    api_version: int
    settings: dict[str, str] = {}
    before: tuple[tuple[str, int], ...] = ()


NOTHING_SAYS: Final = "nothing says how it was sent to a broker"


class BrokerReplayer:
    """Asks *broker* about canaries; one that it does not survive is answered for, and it is started again."""

    def __init__(self, target: str, predicted: str = "") -> None:
        """Start a broker; *predicted* is what it is held against, if not its own release.

        Raises:
            NoBroker: there can be none.
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
        self._oracle = Oracle(self.broker, (), Random(0), prefix="canary", release=self._predicted)


@contextmanager
def open_broker_replayer(target: str, predicted: str = "") -> Iterator[BrokerReplayer]:
    """Somebody who asks the broker *target*, which ends with this; the arguments and errors of `Singer`."""
    singer = BrokerReplayer(target, predicted)
    try:
        yield singer
    finally:
        singer.close()


def sent_as(context: bytes) -> Sent | None:
    """How to send the payload of a find again, from its `broker.json`; None in a transaction, which has to be begun."""
    try:
        kept = msgspec.json.decode(context, type=Context)
    except msgspec.MsgspecError:
        return None
    if kept.transactional:
        return None
    return Sent(kept.api_version, kept.settings, tuple((data.hex(), version) for data, version in kept.before))
