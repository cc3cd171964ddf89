"""Steps that look at the broker's disk, or end the broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka_conformance.broker.play.stage import CannotPlay, Stage
from kafka_corpus.scenario import Restart, Segment, StepAnswer


def read_segments(stage: Stage) -> bytes:
    """All segment files of the partition, oldest first.  Raises `CannotPlay` where the disk is not ours to see."""
    folder = stage.broker.data_directory
    if folder is None:
        raise CannotPlay("the broker's disk cannot be seen")
    name = f"{stage.partition.topic}-{stage.partition.partition}"
    return b"".join(path.read_bytes() for path in sorted((folder / name).glob("*.log")))


def segment(stage: Stage, _: Segment) -> StepAnswer:
    """The bytes on the disk."""
    return StepAnswer(data=stage.normal.log(read_segments(stage)))


def restart(stage: Stage, step: Restart) -> StepAnswer:
    """End the broker one way or the other, start it, and wait until it leads the partition again."""
    stage.client.close()
    if not step.clean:
        stage.broker.kill()
    stage.broker.restart(clean=step.clean)
    _connect_again(stage)
    return StepAnswer()


def _connect_again(stage: Stage) -> None:
    stage.client = stage.broker.client()
    stage.client.await_leaders({stage.partition.topic: stage.partition.partition + 1})


ON_DISK: Final[Mapping[type, Callable[[Stage, Any], StepAnswer]]] = {Segment: segment, Restart: restart}
