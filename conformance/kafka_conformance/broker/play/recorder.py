"""The recorder: every scenario played to a broker, and each answer on the disk before the next is asked.

A broker that ends, or falls silent, is started again, and the scenario is played
once more on an empty partition.  If it ends there again, that is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from kafka_conformance.broker.errors import NoBroker
from kafka_conformance.broker.interface import Broker
from kafka_conformance.broker.play.disk import ON_DISK, settings
from kafka_conformance.broker.play.partitions import Fresh
from kafka_conformance.broker.play.stage import CannotPlay, Patience, Stage
from kafka_conformance.broker.wire import BrokerError, Client, WireError
from kafka_corpus.scenario import Scenario, StepAnswer

UNKNOWN_SERVER_ERROR: Final = -1
TRIES: Final = 2

Answers = tuple[StepAnswer, ...]


class Asked(NamedTuple):
    """A case, the hash of its content, and what it asks of brokers."""

    id: str
    sha256: str
    scenario: Scenario


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one broker answered to one case; `skipped` says why it could not be asked."""

    id: str
    sha256: str
    steps: Answers = ()
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """A file of lines, to which answers are added as they come.

    A line that a crash cut off is dropped when the file is read again.
    """

    path: Path

    def lines(self) -> dict[str, Line]:
        """What is there, by case id."""
        if not self.path.exists():
            return {}
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        return {line.id: line for line in _lines.decode_lines(whole)}

    def begin(self, asked: Sequence[Asked]) -> dict[str, Line]:
        """Make the file ready to be added to; what it holds of *asked* already."""
        contents = {each.id: each.sha256 for each in asked}
        kept = {id_: line for id_, line in self.lines().items() if contents.get(id_) == line.sha256}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(b"".join(map(_line, kept.values())))
        return kept

    def add(self, line: Line) -> None:
        """One more line, on the disk when this returns."""
        with self.path.open("ab") as file:
            file.write(_line(line))


_encoder = msgspec.json.Encoder()
_lines = msgspec.json.Decoder(Line)


def _line(line: Line) -> bytes:
    return _encoder.encode(line) + b"\n"


class Recorder:
    """Plays scenarios to one broker, which is started again whenever it ends."""

    def __init__(self, broker: Broker, *, fresh: Callable[[Broker, int], Fresh] | None = None) -> None:
        self._broker = broker
        self._fresh = fresh or (lambda running, start: Fresh(running, prefix=f"case-{start}"))
        self._partitions: Fresh | None = None
        self._client: Client | None = None
        self._patience = Patience()
        self.renewals = 0
        self.restarts = 0

    def close(self) -> None:
        """Let go of the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def record(self, asked: Sequence[Asked], recording: Recording) -> Iterator[Line]:
        """Ask what *recording* does not hold yet; each line as it comes, those that were there first.

        Raises:
            NoBroker: the broker cannot be started again.
        """
        earned = recording.begin(asked)
        yield from earned.values()
        # Those that end the broker come last: starting it takes longer than all others.
        for each in sorted(asked, key=lambda each: each.scenario.restarts()):
            if each.id not in earned:
                line = self._ask(each)
                recording.add(line)
                yield line

    def _ask(self, asked: Asked) -> Line:
        for last in (False, True):
            try:
                return Line(asked.id, asked.sha256, self.play(asked.scenario))
            except CannotPlay as error:
                return Line(asked.id, asked.sha256, skipped=str(error))
            except (WireError, OSError):
                self._restart()
                if last:
                    return Line(asked.id, asked.sha256, (StepAnswer(ended=True),))
        raise AssertionError  # the loop has an end

    def play(self, scenario: Scenario) -> Answers:
        """The broker's answers to *scenario*.

        Raises:
            CannotPlay: it cannot be brought to it.
            WireError: it ended, or is silent.
        """
        if self._partitions is None:
            self._partitions = self._fresh(self._broker, self.renewals)
        if self._client is None:
            self._client = self._broker.client()
        number = 2 if any(step.beside is not msgspec.UNSET for step in scenario.produces()) else 1
        config = settings(scenario, self._broker.release)
        try:
            partitions = self._partitions.take(config, number)
        except (BrokerError, NoBroker) as error:
            raise CannotPlay(f"no topic with these settings: {error}") from error
        stage = Stage(self._broker, self._client, scenario, partitions, self._patience)
        answers = stage.play(ON_DISK)
        self._client = stage.client
        if scenario.restarts():
            # Partitions that were there before have another leader epoch now.
            self.renew(self._client)
        elif scenario.is_plain() and _left_nothing(answers):
            self._partitions.give_back(config, partitions[0])
        return answers

    def _restart(self) -> None:
        """A broker that is gone, or was lost, is started again."""
        self.close()
        self.restarts += 1
        self._broker.restart()
        self.renew()

    def renew(self, client: Client | None = None) -> None:
        """Go on with *client*, or a new connection, and on partitions that nobody has used."""
        if client is None:
            self.close()
        self.renewals += 1
        self._partitions = None


def _left_nothing(answers: Answers) -> bool:
    return all(answer.error_code not in (0, UNKNOWN_SERVER_ERROR) for answer in answers)


def answers_of(lines: Mapping[str, Line]) -> dict[str, Answers]:
    """The answers in *lines* by case id, without what was skipped."""
    return {id_: line.steps for id_, line in lines.items() if line.steps}
