"""Steps that look at the broker's disk, change it, or end the broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka_conformance.broker import cleaning
from kafka_conformance.broker.errors import NoBroker
from kafka_conformance.broker.play.stage import CannotPlay, Stage
from kafka_corpus.scenario import Clean, Dump, Edit, Restart, Scenario, Segment, StepAnswer

# What DumpLogSegments says of batches, messages and records begins with one of these.
SAID_OF_ENTRIES: Final = ("baseOffset:", "offset:", "| offset:")


def settings(scenario: Scenario, release: str) -> dict[str, str]:
    """The topic's settings; one that is to be cleaned gets those that let us say when."""
    if any(isinstance(step, Clean) for step in scenario.steps):
        return cleaning.compacted(release) | scenario.config
    return scenario.config


def _owned(stage: Stage) -> None:
    if stage.broker.data_directory is None:
        raise CannotPlay("the broker's disk cannot be seen")


def segment(stage: Stage, _: Segment) -> StepAnswer:
    """The bytes on the disk."""
    _owned(stage)
    return StepAnswer(data=stage.normal.log(cleaning.read_segments(stage.broker, stage.partition)))


def clean(stage: Stage, _: Clean) -> StepAnswer:
    """What the cleaner leaves, without the filler that made it begin."""
    _owned(stage)
    try:
        cleaning.force_clean(stage.broker, stage.client, stage.partition)
    except NoBroker as error:
        raise CannotPlay(str(error)) from error
    stage.added()
    left = cleaning.read_segments(stage.broker, stage.partition)
    return StepAnswer(data=stage.normal.log(cleaning.without_fillers(left)))


def restart(stage: Stage, step: Restart) -> StepAnswer:
    """End the broker one way or the other, start it, and wait until it leads the partition again."""
    _owned(stage)
    stage.client.close()
    if not step.clean:
        stage.broker.kill()
    stage.broker.restart(clean=step.clean)
    _connect_again(stage)
    return StepAnswer()


def edit(stage: Stage, step: Edit) -> StepAnswer:
    """Change the segments while the broker is down; the answer holds what it then leaves of them."""
    _owned(stage)
    stage.client.close()
    cleaning.edit_segment(stage.broker, stage.partition, step.at, step.data, cut=step.cut)
    _connect_again(stage)
    return segment(stage, Segment())


def dump(stage: Stage, _: Dump) -> StepAnswer:
    """What DumpLogSegments says of each entry."""
    _owned(stage)
    files = ",".join(map(str, cleaning.segment_files(stage.broker, stage.partition)))
    said = stage.broker.dump_log_segments("--deep-iteration", "--files", files).splitlines()
    return StepAnswer(text="\n".join(line for line in said if line.startswith(SAID_OF_ENTRIES)))


def _connect_again(stage: Stage) -> None:
    stage.client = stage.broker.client()
    stage.client.await_leaders({stage.partition.topic: stage.partition.partition + 1})


ON_DISK: Final[Mapping[type, Callable[[Stage, Any], StepAnswer]]] = {
    Segment: segment,
    Clean: clean,
    Restart: restart,
    Edit: edit,
    Dump: dump,
}
