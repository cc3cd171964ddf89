"""Steps that look at the broker's disk, change it, or end the broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from kafka_conformance.broker import cleaning
from kafka_conformance.broker.errors import NoBroker
from kafka_conformance.broker.play.stage import CannotPlay, Stage
from kafka_conformance.broker.wire import Client
from kafka_corpus.scenario import Clean, Dump, Edit, Restart, Scenario, Segment, StepAnswer
from kafka_records import RecordFormatError

# What DumpLogSegments says of batches, messages and records begins with one of these.
SAID_OF_ENTRIES: Final = ("baseOffset:", "offset:", "| offset:")
# Seconds; a cleaner that has not begun by then keeps away from the partition (CLN-24, CLN-25).
CLEANER_LIMIT: Final = 5.0


def settings(scenario: Scenario, release: str) -> dict[str, str]:
    """The topic's settings; one that is to be cleaned gets those that let us say when."""
    if any(isinstance(step, Clean) for step in scenario.steps):
        return cleaning.compacted(release) | scenario.config
    return scenario.config


def _owned(stage: Stage) -> None:
    if stage.broker.data_directory is None:
        raise CannotPlay("the broker's disk cannot be seen")


def segment(stage: Stage, _: Segment) -> StepAnswer:
    """The bytes on the disk, without the fillers of cleaning."""
    _owned(stage)
    found = cleaning.read_segments(stage.broker, stage.partition)
    return StepAnswer(data=stage.normal.log(_without_fillers(found)))


def _without_fillers(data: bytes) -> bytes:
    try:
        return cleaning.without_fillers(data)
    except RecordFormatError:
        # Whoever edited them has left none.
        return data


def clean(stage: Stage, _: Clean) -> StepAnswer:
    """What the cleaner leaves, without the filler that made it begin; `silent` if it keeps away."""
    _owned(stage)
    silent = False
    try:
        cleaning.force_clean(stage.broker, stage.client, stage.partition, limit=CLEANER_LIMIT)
    except cleaning.NotCleaned:
        silent = True
    except NoBroker as error:
        raise CannotPlay(str(error)) from error
    stage.added()
    return replace(segment(stage, Segment()), silent=silent)


def restart(stage: Stage, step: Restart) -> StepAnswer:
    """End the broker one way or the other, start it, and wait until it leads the partition again."""
    _owned(stage)
    stage.client.close()
    if not step.clean:
        stage.broker.kill()
    stage.broker.restart(clean=step.clean)
    connect_again(stage, stage.broker.client())
    return StepAnswer()


def edit(stage: Stage, step: Edit) -> StepAnswer:
    """Change the segments while the broker is down; the answer holds what it then leaves of them."""
    _owned(stage)
    stage.client.close()
    before = {path: path.read_bytes() for path in cleaning.segment_files(stage.broker, stage.partition)}
    try:
        cleaning.edit_segment(stage.broker, stage.partition, step.at, step.data, cut=step.cut)
    except NoBroker:
        if not step.fatal:
            raise
        _heal(stage, before)
        return StepAnswer(ended=True)
    connect_again(stage, stage.broker.client())
    return segment(stage, Segment())


def _heal(stage: Stage, files: Mapping[Path, bytes]) -> None:
    """Put back what the broker could start with."""
    for path, data in files.items():
        path.write_bytes(data)
    cleaning.start_unclean(stage.broker)
    connect_again(stage, stage.broker.client())


def together(stages: Mapping[Stage, Restart | Edit]) -> None:
    """One restart for all *stages*, each of which has come to such a step; none clean, or all.

    Raises:
        NoBroker: the broker does not start with what it finds.
    """
    (broker,) = {stage.broker for stage in stages}
    clean = all(isinstance(step, Restart) and step.clean for step in stages.values())
    for stage in stages:
        stage.client.close()
    if clean:
        broker.restart(clean=True)
    else:
        broker.kill()
        for stage, step in stages.items():
            if isinstance(step, Edit):
                cleaning.write_over(broker, stage.partition, step.at, step.data, cut=step.cut)
        cleaning.start_unclean(broker)
    client = broker.client()
    for stage, step in stages.items():
        connect_again(stage, client)
        stage.answers.append(segment(stage, Segment()) if isinstance(step, Edit) else StepAnswer())


def dump(stage: Stage, _: Dump) -> StepAnswer:
    """What DumpLogSegments says of each entry."""
    _owned(stage)
    files = ",".join(map(str, cleaning.segment_files(stage.broker, stage.partition)))
    said = stage.broker.dump_log_segments("--deep-iteration", "--files", files).splitlines()
    return StepAnswer(text="\n".join(line for line in said if line.startswith(SAID_OF_ENTRIES)))


def connect_again(stage: Stage, client: Client) -> None:
    """Go on by *client*, once the broker leads the partition."""
    stage.client = client
    client.await_leaders({stage.partition.topic: stage.partition.partition + 1})
    stage.end = client.offset(stage.partition)


ON_DISK: Final[Mapping[type, Callable[[Stage, Any], StepAnswer]]] = {
    Segment: segment,
    Clean: clean,
    Restart: restart,
    Edit: edit,
    Dump: dump,
}
