"""Confirm, shrink and replay a difference between a broker and the reference.

The payload is produced again on empty partitions: first alone, then after the
payloads that the log accepted from the same producers, then after all payloads
that it accepted.  A difference that none of these reproduces is not kept: its
cause was the state of the machine, such as a full heap or a clock between two
milliseconds.

The replay of a known finding produces the payload as it was sent when it was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Final, Literal, TypeAlias

import msgspec

from kafka_brokers import jvm
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.wire import WireError
from kafka_fuzz.broker.lanes import CONFIG, FLAGS, MARKER, LaneRequest, Sender, Taken, release_of
from kafka_fuzz.broker.oracle import BrokerLost, JudgedPayload, Oracle
from kafka_fuzz.broker.payloads import is_batch
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.shrink import Budget, shrink
from kafka_fuzz.targets.outcome import Outcome
from kafka_records.constants import COMPRESSIONS, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafka_records.layout import ATTRIBUTES_OFFSET_LEGACY, BATCH_V2, MAGIC_OFFSET

# Rules that the reference names where a heap may be full (`broker.limits`); only the broker knows how full it is.
OF_THE_HEAP: Final = frozenset({"REC-08", "REC-15", "HDR-18", "CMP-10"})
UNKNOWN_SERVER_ERROR: Final = -1
# Requests that shrinking a difference may use; each takes a few milliseconds.
BUDGET: Final = Budget(runs=400, seconds=6.0)
CONTEXT: Final = "broker.json"
Earlier: TypeAlias = tuple[tuple[bytes, int], ...]


class Context(msgspec.Struct, frozen=True, omit_defaults=True):
    """The broker state and the request that reproduce a difference.

    Attributes:
        release, settings, api_version: of the broker, its topic, the request.
        before: payloads that the partition accepted first, with their versions.
        answered, predicted: error code, base offset, and the bytes in the log.
        record_errors: the invalid records that the broker lists; None in files of earlier versions.
        rule: the rule that the reference names.
        transactional: whether a transactional producer sent it, and `open` if in its transaction.
        producer: id and epoch of that producer.
    """

    release: str
    settings: dict[str, str]
    api_version: int
    before: tuple[tuple[bytes, int], ...]
    answered: tuple[int, int, bytes]
    predicted: tuple[int, int, bytes]
    rule: str
    transactional: Literal["", "open", "not open"] = ""
    record_errors: tuple[int, ...] | None = None
    producer: tuple[int, int] = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


@dataclass(frozen=True, slots=True)
class BrokerDifference:
    """A difference that was reproduced: its outcome, the payload, and the context that reproduces it."""

    outcome: Outcome
    mutant: Mutant
    context: Context


def confirm_difference(oracle: Oracle, target: str, judged: JudgedPayload) -> BrokerDifference | None:
    """Reproduce *judged* on empty partitions; None if it does not differ again.

    Raises:
        BrokerLost: the broker ended or did not answer.
    """
    request = judged.request
    if is_of_the_heap(judged):
        return None
    if request.lane.sender is not None:
        return confirmed_in_transaction(oracle, target, judged)
    for before in earlier_payloads(request):
        again = oracle.again(request.lane.settings, before, request.mutant, request.version)
        if again.different:
            return difference_of(target, again, before)
    return None


def confirmed_in_transaction(oracle: Oracle, target: str, judged: JudgedPayload) -> BrokerDifference | None:
    """The same for a transactional producer; a marker is kept without being reproduced."""
    request = judged.request
    if MARKER in request.mutant.labels:
        return difference_of(target, judged, ())
    assert request.lane.sender is not None
    since = [each for each in request.lane.sender.since if each.payload != request.mutant.data]
    for before in ((), tuple(since)):
        again = oracle.again_in_transaction(judged, before)
        if again.different:
            return difference_of(target, again, as_sent(before, request.lane.sender, again.request.lane.sender))
    return None


def as_sent(before: tuple[Taken, ...], old: Sender, new: Sender | None) -> tuple[Taken, ...]:
    """Payloads of *old* as *new* would have sent them."""
    assert new is not None
    return tuple(each._replace(payload=new.as_mine(each.payload, old.producer)) for each in before)


def is_of_the_heap(judged: JudgedPayload) -> bool:
    """Whether the answer depends on the free memory of the broker, which the reference cannot predict."""
    return judged.wanted.error_code == UNKNOWN_SERVER_ERROR and judged.wanted.rule in OF_THE_HEAP


def earlier_payloads(request: LaneRequest) -> Iterator[tuple[Taken, ...]]:
    """Earlier payloads to send first: none, those of the same producer, all that the log accepted."""
    yield ()
    taken, payload = request.lane.taken, request.mutant.data
    # The last is the payload itself, if the reference accepts it.
    earlier = tuple(taken[:-1] if taken and taken[-1].payload == payload else taken)
    if not earlier:
        return
    if (producer := producer_of(payload)) >= 0:
        yield tuple(each for each in earlier if producer_of(each.payload) == producer)
    yield earlier


def producer_of(data: bytes) -> int:
    """The producer id of the first batch; -1 where there is none."""
    return BATCH_V2.values(data)["producer_id"] if is_batch(data) else -1


def difference_of(target: str, judged: JudgedPayload, before: tuple[Taken, ...]) -> BrokerDifference:
    """A difference with the context that reproduces it."""
    request, given, wanted = judged.request, judged.given, judged.wanted
    sender = request.lane.sender
    context = Context(
        release=request.lane.release,
        settings=request.lane.settings,
        api_version=request.version,
        before=tuple(before),
        answered=(given.error_code, given.base_offset, given.stored),
        predicted=(wanted.error_code, wanted.base_offset, wanted.stored),
        rule=wanted.rule,
        transactional="" if sender is None else "open" if sender.is_open else "not open",
        record_errors=given.record_errors,
        producer=(NO_PRODUCER_ID, NO_PRODUCER_EPOCH) if sender is None else sender.producer,
    )
    return BrokerDifference(difference_outcome(target, judged), request.mutant, context)


def difference_outcome(target: str, judged: JudgedPayload) -> Outcome:
    """The outcome of a difference; its key has the field, the reference's rule, the format and the fault."""
    mutant = judged.request.mutant
    detail = f"{judged.different} by {judged.wanted.rule}, {entry_format(mutant.data)}"
    settings = ", ".join(f"{name}={value}" for name, value in judged.request.lane.settings.items()) or "no settings"
    return Outcome(target, "difference", detail, "", fault_of(mutant), f"produce {judged.request.version}, {settings}")


def fault_of(mutant: Mutant) -> str:
    """The label of the fault in a mutant of `model`; empty for other mutants."""
    return mutant.labels[0] if mutant.expected is not None and mutant.labels else ""


def entry_format(data: bytes) -> str:
    """Magic and codec of the first entry.

    >>> entry_format(bytes(100))
    'v0 none'
    """
    if len(data) <= MAGIC_OFFSET:
        return "no entry"
    magic = data[MAGIC_OFFSET]
    at = BATCH_V2.field("attributes").offset + 1 if magic >= 2 else ATTRIBUTES_OFFSET_LEGACY
    number = data[at] & 0x07 if at < len(data) else 0
    return f"v{magic} {COMPRESSIONS[number] if number < len(COMPRESSIONS) else number}"


def shrink_difference(oracle: Oracle, found: BrokerDifference) -> BrokerDifference:
    """The same difference with fewer payloads before it and fewer bytes, within `BUDGET` requests.

    Raises:
        BrokerLost: the broker ended or did not answer.
        NotShown: the difference is not reproduced each time.
    """
    best = found
    for each in found.context.before:
        fewer = tuple(other for other in best.context.before if other != each)
        best = _shown(oracle, best, fewer, best.mutant.data) or best
    smaller = shrink(
        best.mutant.data, lambda data: _shown(oracle, best, best.context.before, data) is not None, budget=BUDGET
    )
    return _shown(oracle, best, best.context.before, smaller) or best


def _shown(oracle: Oracle, found: BrokerDifference, before: Earlier, data: bytes) -> BrokerDifference | None:
    """The same difference for *data* after *before*; None if it does not occur."""
    taken = tuple(Taken(*each) for each in before)
    mutant = found.mutant._replace(data=data)
    again = oracle.again(found.context.settings, taken, mutant, found.context.api_version)
    if not again.different or is_of_the_heap(again):
        return None
    made = difference_of(found.outcome.target, again, taken)
    return made if made.outcome.key == found.outcome.key else None


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
