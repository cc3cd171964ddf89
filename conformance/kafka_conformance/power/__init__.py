"""Mutants of real implementations, and what the corpus sees of them.

A *code mutant* is an implementation with one small change.  The corpus sees it if the judge's verdict on some case
differs from that on the unchanged implementation.  Each implementation is a `MutationTarget`, registered in `TARGETS`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import Final, Protocol, cast, runtime_checkable

from kafka_conformance.power.results import CodeMutant, MethodCoverage, MutantCode, MutantResult


class MutationTarget(Protocol):
    """An implementation that can be mutated.  Making one is cheap; `CannotRun` says what it lacks on this machine."""

    def version(self) -> str:
        """The release that is mutated."""

    def mutants(self) -> Sequence[CodeMutant]:
        """Every mutant, in an order that depends on the release only."""

    def run(self, mutants: Sequence[CodeMutant]) -> Generator[MutantResult, None, None]:
        """Run *mutants* and yield each result at once, in any order.  Closing the iterator ends what runs."""


@runtime_checkable
class CoverageTarget(MutationTarget, Protocol):
    """A target whose branch coverage by the corpus can be measured."""

    def coverage(self) -> Iterator[MethodCoverage]:
        """Branch coverage of each method that the corpus enters."""


class ThreadedPlayer(Protocol):
    """Plays mutants one after the other, beside others of its kind; see `side_by_side`."""

    def results(self, mutants: Iterable[MutantCode]) -> Iterator[MutantResult]:
        """The result of each of *mutants*, which come with their code, in any order."""

    def end(self) -> None:
        """Have `results` fail soon, which runs in another thread; called again when it has ended."""


def of_different_classes(mutants: Iterable[MutantCode]) -> list[list[MutantCode]]:
    """*mutants* in groups in which each class is there once."""
    groups: list[dict[str, MutantCode]] = []
    for mutant, code in mutants:
        group = next((each for each in groups if mutant.class_name not in each), None)
        if group is None:
            groups.append(group := {})
        group[mutant.class_name] = mutant, code
    return [list(each.values()) for each in groups]


def side_by_side(players: Sequence[ThreadedPlayer], todo: deque[MutantCode]) -> Generator[MutantResult, None, None]:
    """The results of *players*, each in a thread of its own, which take mutants from *todo*."""
    found: SimpleQueue[MutantResult | BaseException | None] = SimpleQueue()
    threads = [Thread(target=_play_all, args=(each, todo, found), daemon=True) for each in players]
    try:
        for thread in threads:
            thread.start()
        running = len(threads)
        while running:
            result = found.get()
            if isinstance(result, BaseException):
                raise result
            if result is None:
                running -= 1
            else:
                yield result
    finally:
        todo.clear()
        for player in players:
            player.end()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        for player in players:
            player.end()


def _play_all(
    player: ThreadedPlayer,
    todo: deque[MutantCode],
    found: SimpleQueue[MutantResult | BaseException | None],
) -> None:
    """Put the results of what *player* takes from *todo*, or its failure, and at last None."""

    def taken() -> Iterator[MutantCode]:
        with suppress(IndexError):
            while True:
                yield todo.popleft()

    try:
        for result in player.results(taken()):
            found.put(result)
    except BaseException as error:
        found.put(error)
    finally:
        found.put(None)


@dataclass(frozen=True, slots=True)
class TargetEntry:
    """A registered target.

    Attributes:
        place: module and class, imported when the target is used.
        about: what is mutated and how, in sentences for the page.
    """

    place: str
    about: str


TARGETS: Final[dict[str, TargetEntry]] = {
    "java-client": TargetEntry(
        "kafka_conformance.power.java:JavaClient",
        "Apache Kafka's Java client: the packages `common.record`, `common.compress` and `common.header`, and"
        " `ByteUtils`. PIT makes the mutants (its default mutators, `REMOVE_CONDITIONALS` and `INLINE_CONSTS`). The"
        " testee `java-kafka-clients` answers the decode and encode cases.",
    ),
    "java-broker": TargetEntry(
        "kafka_conformance.power.broker:JavaBroker",
        "Apache Kafka's broker: `LogValidator`, `ProducerAppendInfo`, `ProducerStateManager`,"
        " `ProducerStateEntry`, `Cleaner`, `LogSegment`, and `MemoryRecords` with its filter. PIT makes the"
        " mutants, as for the client. A real broker of the release runs, and an agent in it replaces the code of"
        " classes while it runs. The scenarios that reach the changed line, as JaCoCo says, are played over the"
        " wire: the first ones to a mutant alone, the others to mutants of different classes together, and what then"
        " differs to each alone. A mutant is seen if an answer differs from the recorded one (error code, offsets,"
        " times, and bytes stored, fetched, or left by cleaner and recovery) and does not differ without the mutant."
        " Where a scenario restarts the broker, it starts with the mutant, if the class then has a part in it. Kafka"
        " 4.x has no down-conversion any more.",
    ),
    "kafka-python": TargetEntry(
        "kafka_conformance.power.python:kafka_python",
        "The modules `kafka.record` of kafka-python. cosmic-ray makes the mutants; of the operators that replace one"
        " operator by another, two are drawn at each place. The testee `kafka-python` answers the decode and encode"
        " cases, those of the area `resources` left out.",
    ),
    "aiokafka-pure": TargetEntry(
        "kafka_conformance.power.python:aiokafka_pure",
        "The pure Python modules `aiokafka.record` of aiokafka, mutated as those of kafka-python. The testee"
        " `aiokafka-pure` answers the decode and encode cases, those of the area `resources` left out.",
    ),
    "reference": TargetEntry(
        "kafka_conformance.power.python:reference",
        "This project's own reference, `kafka_records`, mutated as kafka-python is. A mutant is seen if the answer that"
        " a vector stores changes, with rule, path and offset, or the records that a read_committed consumer gets, or"
        " if a prediction no longer fits what brokers answered. It is also seen if one of these differs from the digest"
        " that `explained.ndjson` keeps: the explanation of a case, the start of a frame that is written, an answer"
        " predicted for a release with the rules that explain it, what is made of an entry, a frame, a control record"
        " or a record of an internal topic in which a byte is another, the answers of a release in grids of requests"
        " and states, or the bound of memory, stack or epoch at which an outcome changes. Survivors of a sample become"
        " cases and digests, so less is seen of a sample when it is drawn than later.",
    ),
    "columnar": TargetEntry(
        "kafka_conformance.power.python:columnar",
        "The columnar codec of the pipeline, mutated as kafka-python is. The testee `columnar` answers the decode and"
        " encode cases, those of the area `resources` left out. Its"
        " kernels run as Python, in which they answer each case as they do when they are compiled."
        " Functions that emit LLVM code are not reached.",
    ),
}


def known_target(name: str) -> TargetEntry:
    """The entry of *name*.

    Raises:
        ValueError: there is none; the text has near names.
    """
    if entry := TARGETS.get(name):
        return entry
    near = get_close_matches(name, TARGETS)
    raise ValueError(
        f"no target {name!r}; " + (f"did you mean {near[0]}?" if near else f"known are {', '.join(TARGETS)}")
    )


def open_target(name: str) -> MutationTarget:
    """The target *name*.

    Raises:
        ValueError: there is none.
    """
    module, _, attribute = known_target(name).place.partition(":")
    return cast(MutationTarget, getattr(import_module(module), attribute)())
