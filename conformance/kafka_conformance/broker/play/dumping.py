"""What lies on the disk behind the answers: segment files, and DumpLogSegments' reading of them.

Both are looked at for many partitions at once, since the tool is a Java process.
Where a segment holds what was fetched, and the tool reads it as its headers say,
there is nothing to keep but that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kafka_conformance.broker import cleaning
from kafka_conformance.broker.errors import NoBroker
from kafka_conformance.broker.interface import Broker
from kafka_conformance.broker.play.normal import Normal
from kafka_conformance.broker.wire import TopicPartition
from kafka_corpus.evidence import Disk
from kafka_records import RecordFormatError
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET, MESSAGE_V0
from kafka_records.log import entries

FILE_LINE: Final = "Dumping "
PAIR: Final = re.compile(r"(\w+): (\S+)")
FAILED: Final = "DumpLogSegments failed: "
TRANSACTIONAL, CONTROL = 0x10, 0x20

Said = dict[str, str]


class Stored(NamedTuple):
    """What the answers to a case say that its partition holds.

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


def look(broker: Broker, stored: Sequence[Stored]) -> dict[str, Disk]:
    """What is on the disk of *broker* for each case, by id."""
    segments = {each.id: cleaning.read_segments(broker, each.partition) for each in stored}
    said = _dumped(broker, [each for each in stored if segments[each.id]])
    return {each.id: _disk(each, segments[each.id], said.get(each.id, [])) for each in stored}


def _disk(stored: Stored, segment: bytes, said: list[Said] | str) -> Disk:
    normal = stored.normal.log(segment)
    unlike = said if isinstance(said, str) else difference(said, segment)
    return Disk(segment=b"" if normal == stored.data else normal, dump=unlike)


def _dumped(broker: Broker, stored: Sequence[Stored]) -> dict[str, list[Said] | str]:
    """What the tool says of each; one over which it fails is the last that it names, and the rest is asked again."""
    names = {each.id: list(map(str, cleaning.segment_files(broker, each.partition))) for each in stored}
    found: dict[str, list[Said] | str] = {}
    todo = list(names)
    while todo:
        text, failure = _asked(broker, [name for id_ in todo for name in names[id_]])
        said = read(text)
        done = [id_ for id_ in todo if names[id_][-1] in said] if failure else todo
        for id_ in done:
            found[id_] = [entry for name in names[id_] for entry in said.get(name, ())]
        if failure:
            guilty = done[-1] if done else todo[0]
            found[guilty] = failure
        todo = [id_ for id_ in todo if id_ not in found]
    return found


def _asked(broker: Broker, files: Sequence[str]) -> tuple[str, str]:
    """What the tool says of *files*, and how it failed, if it did."""
    try:
        return broker.dump_log_segments("--files", ",".join(files)), ""
    except NoBroker as error:
        return error.log, FAILED + _last_line(error.log)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if "Exception" in line or "Error" in line]
    return lines[0] if lines else "it said nothing"


def read(text: str) -> dict[str, list[Said]]:
    """What the tool says of the entries in each file, by file."""
    found: dict[str, list[Said]] = {}
    current: list[Said] = []
    for line in text.splitlines():
        if line.startswith(FILE_LINE):
            current = found.setdefault(line.removeprefix(FILE_LINE), [])
        elif line.startswith(("baseOffset:", "offset:")):
            current.append(dict(PAIR.findall(line)))
    return found


def difference(said: Sequence[Said], segment: bytes) -> str:
    """Where the tool does not say what the headers in *segment* do; empty if it does."""
    try:
        expected = list(headers(segment))
    except RecordFormatError as error:
        return f"not framed: {error}"
    if len(expected) != len(said):
        return f"{len(said)} entries in place of {len(expected)}"
    for index, (want, have) in enumerate(zip(expected, said, strict=True)):
        for name in want.keys() & have.keys():
            if have[name] != want[name]:
                return f"entry {index}: {name} is {have[name]}, the header says {want[name]}"
    return ""


def headers(segment: bytes) -> Iterator[Said]:
    """What the headers of the entries in *segment* say, in the tool's words; every checksum is right."""
    for start, end in entries(segment):
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
