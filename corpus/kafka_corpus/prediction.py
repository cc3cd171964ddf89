"""What the reference says that a broker answers to a scenario, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from msgspec import UNSET

from kafka_corpus import recipes
from kafka_corpus.case import Recipe
from kafka_corpus.scenario import NEWEST_RELEASE, NOW, Produce, Scenario, Step, StepAnswer
from kafka_records import AppendResult, LogState, RecordFormatError, TopicConfig, append
from kafka_records.broker.releases import MINORS, behaviour, minor_version

# ProduceResponse: what newer versions say more.
FIRST_WITH_TIME: Final = 2
FIRST_WITH_RECORD_ERRORS: Final = 8


class Unpredicted(Exception):
    """The reference has nothing to say about this."""


@dataclass(slots=True)
class _Partition:
    """The partition that a scenario is played on, as far as it has got."""

    release: str
    config: TopicConfig
    log: LogState = field(default_factory=LogState)
    stored: bytes = b""


def predict(scenario: Scenario, release: str) -> tuple[StepAnswer, ...] | None:
    """The answers of a broker of *release*; None for what the reference does not know."""
    if minor_version(release) not in MINORS:
        return None
    try:
        partition = _Partition(release, TopicConfig.of(scenario.config))
        return tuple(_answer(partition, step) for step in scenario.steps)
    except (Unpredicted, RecordFormatError):
        return None


def newest_predicted(scenario: Scenario) -> tuple[StepAnswer, ...] | None:
    """What the reference says of the newest release that *scenario* is about."""
    return predict(scenario, scenario.until or NEWEST_RELEASE)


def _answer(partition: _Partition, step: Step) -> StepAnswer:
    predicted = _PREDICTIONS.get(type(step))
    if predicted is None:
        raise Unpredicted(type(step).__name__)
    return predicted(partition, step)


def payload_of(step: Produce) -> bytes:
    """The bytes that the step produces, before a producer's id is put into them."""
    if step.data is not UNSET:
        return step.data
    if step.recipe is UNSET:
        raise ValueError("a payload is given as data or as a recipe")
    made = recipes.build(Recipe(step.recipe.name, step.recipe.args))
    assert isinstance(made, bytes)
    return made


def version_of(step: Produce, release: str) -> int:
    """The version of the request that *release* is asked in."""
    return min(step.api_version, behaviour(release).produce[1])


def _produce(partition: _Partition, step: Step) -> StepAnswer:
    assert isinstance(step, Produce)
    if step.producer or step.transactional or step.beside is not UNSET or step.acks not in (-1, 0, 1):
        raise Unpredicted("more than a payload")
    version = version_of(step, partition.release)
    result = append(
        partition.log,
        payload_of(step),
        partition.config,
        release=partition.release,
        api_version=version,
        now_ms=NOW,
    )
    partition.log = result.log
    partition.stored += result.stored
    return _as_answer(result, version, step.acks)


def _as_answer(result: AppendResult, version: int, acks: int) -> StepAnswer:
    if acks == 0:
        # There is no response: an error closes the connection.
        return StepAnswer(data=result.stored, closed=result.error_code != 0)
    return StepAnswer(
        error_code=result.error_code,
        base_offset=result.base_offset,
        log_append_time=result.log_append_time if version >= FIRST_WITH_TIME else -1,
        record_errors=result.record_errors if version >= FIRST_WITH_RECORD_ERRORS else (),
        data=result.stored,
    )


_PREDICTIONS: Final[dict[type, Callable[[_Partition, Step], StepAnswer]]] = {Produce: _produce}
