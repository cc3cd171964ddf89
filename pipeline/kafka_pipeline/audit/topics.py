"""Keys and values in internal topics: what a coordinator or KRaft refuses, passes over or misreads as it loads them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from kafka_pipeline.audit.entries import Looked
from kafka_pipeline.audit.findings import UNREADABLE, AuditFinding, AuditFindings
from kafka_pipeline.reading import Broken, entries_by_reference, read_file
from kafka_records.errors import RecordFormatError
from kafka_records.internal_topics import METADATA, decode_topic_record, snapshot_fault
from kafka_records.model import Batch

CHECKPOINT: Final = ".checkpoint"
# The kind of finding for the rule of a remark.
KIND_OF_RULE: Final = {
    "TOP-02": "topic_type",
    "TOP-03": "topic_version",
    "TOP-07": "topic_tag",
    "TOP-09": "metadata_type",
    "TOP-10": "metadata_version",
    "TOP-12": "topic_rest",
    "TOP-13": "topic_protocol",
}


def check_topic_records(looked: Looked, topic: str, found: AuditFindings, file: str) -> None:
    """Judge key and value of each record of *topic* that is in no control batch."""
    for entry in np.flatnonzero(~looked.control).tolist():
        start = int(looked.starts[entry])
        for row in range(start, start + int(looked.records[entry])):
            key, value = looked.key_and_value(row)
            check_topic_record(topic, key, value, found, file, int(looked.position[entry]), int(looked.offsets[row]))


def check_topic_record(
    topic: str, key: bytes | None, value: bytes | None, found: AuditFindings, file: str, position: int, offset: int
) -> None:
    """Judge one record; *position* is where its entry starts."""
    try:
        record = decode_topic_record(topic, key, value)
    except RecordFormatError as error:
        said = f"{error.path}: {error.message} (byte {error.offset}; {error.rule})"
        found.add("metadata_record" if topic in METADATA else "topic_record", file, position, offset, said)
        return
    for remark in record.remarks:
        kind = KIND_OF_RULE[remark.rule]
        if kind == "topic_version" and topic == "__transaction_state":
            kind = "transaction_version"
        found.add(kind, file, position, offset, f"{remark.path}: {remark.message} (byte {remark.offset})")


def check_snapshots(folder: Path, topic: str, found: AuditFindings) -> list[str]:
    """Judge the snapshots of KRaft in a log's *folder*; the suffixes of files that are there."""
    paths = sorted(folder.glob(f"*{CHECKPOINT}"))
    for path in paths:
        try:
            check_snapshot(path, topic, found)
        except FileNotFoundError:
            # KRaft deletes the snapshots that newer ones replace.
            continue
        except OSError as error:
            found.add("not_read", path.as_posix(), -1, -1, error.strerror or str(error))
    return [CHECKPOINT] if paths else []


def check_snapshot(path: Path, topic: str, found: AuditFindings) -> None:
    """Judge each entry and record of a snapshot, and its ends.  Raises `OSError`."""
    file, ends, read, broken = path.as_posix(), None, 0, False
    with read_file(path) as source:
        reading = entries_by_reference(source, 0, source.size)
        while True:
            try:
                entry = next(reading)
            except StopIteration as over:
                read, broken = over.value
                break
            if isinstance(entry, Broken):
                said = f"{entry.kind}: {entry.path}: {entry.message} (byte {entry.offset})"
                found.put(AuditFinding(UNREADABLE, entry.rule, "error", file, entry.position, -1, said))
                continue
            ends = (ends[0] if ends else entry.batch, entry.batch)
            _check_batch(entry.batch, topic, found, file, entry.position)
        if read < source.size and not broken:
            found.add("tail", file, read, -1, f"{source.size - read:,} bytes, and the entry is larger")
    if fault := snapshot_fault(ends):
        found.add("metadata_snapshot", file, -1, -1, fault)


def _check_batch(batch: Batch, topic: str, found: AuditFindings, file: str, position: int) -> None:
    for record in () if batch.control else batch.records:
        check_topic_record(topic, record.key, record.value, found, file, position, record.offset)
