"""Scenario steps that read or change the broker's disk, and DumpLogSegments.

Both are looked at for many partitions at once, since the tool is a Java process.
Where a segment holds what was fetched, and the tool reads it as its headers say,
there is nothing to keep but that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kafka_brokers import cleaning
from kafka_brokers.interface import Broker, NoBroker
from kafka_brokers.scenarios.normalize import Normal
from kafka_brokers.scenarios.runner import CannotPlay, ScenarioRunner
from kafka_brokers.wire import Client, TopicPartition
from kafka_corpus.evidence import Disk
from kafka_corpus.scenario import Clean, Dump, Edit, ReadSegments, Restart, Scenario, StepAnswer
from kafka_records import RecordFormatError
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET, MESSAGE_V0
from kafka_records.log import split_entries

# What DumpLogSegments says of batches, messages and records begins with one of these.
SAID_OF_ENTRIES: Final = ("baseOffset:", "offset:", "| offset:")


def settings(scenario: Scenario, release: str) -> dict[str, str]:
    """The topic's settings; one that is to be cleaned gets those that let us say when."""
    if any(isinstance(step, Clean) for step in scenario.steps):
        return cleaning.compacted(release) | scenario.config
    return scenario.config


def _owned(runner: ScenarioRunner) -> None:
    if runner.broker.data_directory is None:
        raise CannotPlay("the broker's disk cannot be seen")


def segment(runner: ScenarioRunner, _: ReadSegments) -> StepAnswer:
    """The bytes on the disk, without the fillers of cleaning."""
    _owned(runner)
    found = cleaning.each_segment(runner.broker, runner.partition)
    return StepAnswer(data=runner.normal.log(b"".join(map(_without_fillers, found))))


def _without_fillers(data: bytes) -> bytes:
    try:
        return cleaning.without_fillers(data)
    except RecordFormatError:
        # A segment that was edited has no fillers.
        return data


def clean(runner: ScenarioRunner, _: Clean) -> StepAnswer:
    """The log after cleaning, without the filler that triggers the cleaner; `silent` if the cleaner does not run."""
    _owned(runner)
    silent = False
    try:
        limit = runner.wait_limits.cleaner
        cleaning.force_clean(runner.broker, runner.client, runner.partition, limit=limit, largest=runner.largest_batch)
    except cleaning.NotCleaned:
        silent = True
    except NoBroker as error:
        raise CannotPlay(str(error)) from error
    runner.added()
    return replace(segment(runner, ReadSegments()), silent=silent)


def restart(runner: ScenarioRunner, step: Restart) -> StepAnswer:
    """End the broker one way or the other, start it, and wait until it leads the partition again."""
    _owned(runner)
    runner.client.close()
    if step.clean:
        runner.broker.shut_down()
    else:
        runner.broker.kill()
    cleaning.change_files(runner.broker, runner.partition, step.files)
    runner.broker.restart(clean=step.clean)
    connect_again(runner, runner.broker.client())
    return StepAnswer()


def edit(runner: ScenarioRunner, step: Edit) -> StepAnswer:
    """Change the segments while the broker is down; the answer holds what it then leaves of them."""
    _owned(runner)
    runner.client.close()
    before = {path: path.read_bytes() for path in cleaning.segment_files(runner.broker, runner.partition)}
    try:
        cleaning.edit_segment(runner.broker, runner.partition, step.at, step.data, cut=step.cut)
    except NoBroker:
        if not step.fatal:
            raise
        _heal(runner, before)
        return StepAnswer(ended=True)
    connect_again(runner, runner.broker.client())
    return segment(runner, ReadSegments())


def _heal(runner: ScenarioRunner, files: Mapping[Path, bytes]) -> None:
    """Put back what the broker could start with."""
    for path, data in files.items():
        path.write_bytes(data)
    cleaning.start_unclean(runner.broker)
    connect_again(runner, runner.broker.client())


def together(runners: Mapping[ScenarioRunner, Restart | Edit]) -> None:
    """One restart for all *stages*, each of which has come to such a step; none clean, or all.

    Raises:
        NoBroker: the broker does not start with what it finds.
    """
    (broker,) = {runner.broker for runner in runners}
    clean = all(isinstance(step, Restart) and step.clean for step in runners.values())
    for runner in runners:
        runner.client.close()
    if clean:
        broker.shut_down()
    else:
        broker.kill()
    for runner, step in runners.items():
        if isinstance(step, Edit):
            cleaning.write_over(broker, runner.partition, step.at, step.data, cut=step.cut)
        else:
            cleaning.change_files(broker, runner.partition, step.files)
    if clean:
        broker.restart(clean=True)
    else:
        cleaning.start_unclean(broker)
    client = broker.client()
    for runner, step in runners.items():
        connect_again(runner, client)
        runner.answers.append(segment(runner, ReadSegments()) if isinstance(step, Edit) else StepAnswer())


def dump(runner: ScenarioRunner, _: Dump) -> StepAnswer:
    """DumpLogSegments' output for each entry."""
    _owned(runner)
    files = ",".join(map(str, cleaning.segment_files(runner.broker, runner.partition)))
    said = runner.broker.dump_log_segments("--deep-iteration", "--files", files).splitlines()
    return StepAnswer(text="\n".join(line for line in said if line.startswith(SAID_OF_ENTRIES)))


def connect_again(runner: ScenarioRunner, client: Client) -> None:
    """Go on by *client*, once the broker leads the partition."""
    runner.client = client
    client.await_leaders({runner.partition.topic: runner.partition.partition + 1})
    runner.end = client.offset(runner.partition)


ON_DISK: Final[Mapping[type, Callable[[ScenarioRunner, Any], StepAnswer]]] = {
    ReadSegments: segment,
    Clean: clean,
    Restart: restart,
    Edit: edit,
    Dump: dump,
}


FILE_LINE: Final = "Dumping "
PAIR: Final = re.compile(r"(\w+): (\S+)")
FAILED: Final = "DumpLogSegments failed: "
TRANSACTIONAL, CONTROL = 0x10, 0x20

Said = dict[str, str]


class Stored(NamedTuple):
    """Contents of a case's partition according to the broker's answers.

    Attributes:
        id: of the case.
        partition: where it was played.
        normal: how its bytes are made the same for all times.
        data: made the same, end to end.
    """

    id: str
    partition: TopicPartition
    normal: Normal
    data: bytes


def look_at_disks(broker: Broker, stored: Sequence[Stored]) -> dict[str, Disk]:
    """Disk contents of *broker* for each case, by id."""
    segments = {each.id: cleaning.read_segments(broker, each.partition) for each in stored}
    said = _dumped(broker, [each for each in stored if segments[each.id]])
    return {each.id: _disk(each, segments[each.id], said.get(each.id, [])) for each in stored}


def _disk(stored: Stored, segment: bytes, said: list[Said] | str) -> Disk:
    normal = stored.normal.log(segment)
    unlike = said if isinstance(said, str) else dump_difference(said, segment)
    return Disk(segment=b"" if normal == stored.data else normal, dump=unlike)


def _dumped(broker: Broker, stored: Sequence[Stored]) -> dict[str, list[Said] | str]:
    """The tool's output for each; if it fails, the last file that it names is the cause; the rest is dumped again."""
    names = {each.id: list(map(str, cleaning.segment_files(broker, each.partition))) for each in stored}
    found: dict[str, list[Said] | str] = {}
    todo = list(names)
    while todo:
        text, failure = _dump_of(broker, [name for id_ in todo for name in names[id_]])
        said = read_dump(text)
        done = [id_ for id_ in todo if names[id_][-1] in said] if failure else todo
        for id_ in done:
            found[id_] = [entry for name in names[id_] for entry in said.get(name, ())]
        if failure:
            guilty = done[-1] if done else todo[0]
            found[guilty] = failure
        todo = [id_ for id_ in todo if id_ not in found]
    return found


def _dump_of(broker: Broker, files: Sequence[str]) -> tuple[str, str]:
    """The tool's output for *files*, and its failure; empty if it did not fail."""
    try:
        return broker.dump_log_segments("--files", ",".join(files)), ""
    except NoBroker as error:
        return error.log, FAILED + _last_line(error.log)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if "Exception" in line or "Error" in line]
    return lines[0] if lines else "it said nothing"


def read_dump(text: str) -> dict[str, list[Said]]:
    """The tool's lines about entries, by file."""
    found: dict[str, list[Said]] = {}
    current: list[Said] = []
    for line in text.splitlines():
        if line.startswith(FILE_LINE):
            current = found.setdefault(line.removeprefix(FILE_LINE), [])
        elif line.startswith(("baseOffset:", "offset:")):
            current.append(dict(PAIR.findall(line)))
    return found


def dump_difference(said: Sequence[Said], segment: bytes) -> str:
    """Where the tool does not say what the headers in *segment* do; empty if it does."""
    try:
        expected = list(header_lines(segment))
    except RecordFormatError as error:
        return f"not framed: {error}"
    if len(expected) != len(said):
        return f"{len(said)} entries in place of {len(expected)}"
    for index, (want, have) in enumerate(zip(expected, said, strict=True)):
        for name in want.keys() & have.keys():
            if have[name] != want[name]:
                return f"entry {index}: {name} is {have[name]}, the header says {want[name]}"
    return ""


def header_lines(segment: bytes) -> Iterator[Said]:
    """The header fields of the entries in *segment*, named as the tool does; every checksum is right."""
    for start, end in split_entries(segment):
        magic = segment[start + MAGIC_OFFSET]
        common = {"position": str(start), "magic": str(magic), "isvalid": "true"}
        yield common | (_batch(segment, start, end) if magic == 2 else _message(segment, start))


def _message(segment: bytes, start: int) -> Said:
    offset, _, crc, *_ = MESSAGE_V0.struct.unpack_from(segment, start)
    return {"offset": str(offset), "crc": str(crc)}


def _batch(segment: bytes, start: int, end: int) -> Said:
    header = BATCH_V2.values(segment, start)
    attributes = header["attributes"]
    return {
        "baseOffset": str(header["base_offset"]),
        "lastOffset": str(header["base_offset"] + header["last_offset_delta"]),
        "count": str(header["record_count"]),
        "baseSequence": str(header["base_sequence"]),
        "producerId": str(header["producer_id"]),
        "producerEpoch": str(header["producer_epoch"]),
        "partitionLeaderEpoch": str(header["partition_leader_epoch"]),
        "isTransactional": str(bool(attributes & TRANSACTIONAL)).lower(),
        "isControl": str(bool(attributes & CONTROL)).lower(),
        "size": str(end - start),
        "crc": str(header["crc"]),
    }
