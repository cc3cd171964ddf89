"""What a round of a campaign saw, as rows: inputs that were kept, finds, and what testees fell over.

One schema for all three, divided by folder (`what=`); what does not apply to a
row is empty.  The structs of local campaigns become rows here, and come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import pyarrow as pa

from kafka_conformance.pipeline.asking import lasting
from kafka_fuzz.campaign.store import Entry
from kafka_fuzz.finds import Find
from kafka_fuzz.mutate import Cell, Mutant
from kafka_fuzz.outcome import Outcome

What = Literal["inputs", "finds", "fallen"]
_TYPES: Final[dict[str, Any]] = {
    "what": pa.string(),
    "target": pa.string(),
    "shard": pa.int32(),
    "key": pa.string(),
    "sha256": pa.string(),
    "size": pa.int64(),
    "data": pa.binary(),
    "profile": pa.string(),
    "labels": pa.list_(pa.string()),
    "magic": pa.int8(),
    **dict.fromkeys(Cell._fields[1:], pa.string()),
    "version": pa.string(),
    "lines": pa.list_(pa.string()),
    "kind": pa.string(),
    "detail": pa.string(),
    "function": pa.string(),
    "told": pa.string(),
    "why": pa.string(),
    "count": pa.int64(),
    "asked": pa.string(),
}
SCHEMA: Final = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _TYPES.items()])
# `what` is a part of the path.
STORED: Final = pa.schema([each for each in SCHEMA if each.name != "what"])
ALIKE: Final = ("target", "profile", "codec", "field", "boundary", "lie", "nesting", "position", "version", "kind")
_EMPTY: Final[dict[str, Any]] = {
    name: [] if pa.types.is_list(kind) else b"" if kind == pa.binary() else "" if kind == pa.string() else 0
    for name, kind in _TYPES.items()
}

Row = dict[str, Any]


def batch_of(rows: Iterable[Row], counts: bytes = b"{}") -> pa.RecordBatch:
    """*rows*, and what else is counted, as JSON that goes along."""
    schema = SCHEMA.with_metadata({b"counts": counts})
    return pa.RecordBatch.from_pylist([_EMPTY | row for row in rows], schema=schema)


def row_of_input(target: str, shard: int, entry: Entry, data: bytes) -> Row:
    """An input that was kept: its key is the outcome's, or the vector's."""
    return {
        "what": "inputs",
        "target": target,
        "shard": shard,
        "key": entry.bucket,
        "sha256": entry.sha,
        "size": entry.size,
        "data": data,
        "profile": entry.profile,
        "labels": list(entry.labels),
        **entry.cell._asdict(),
        "version": entry.version,
        "lines": list(entry.lines),
    }


def row_of_find(shard: int, find: Find, data: bytes) -> Row:
    """A find: its target is the one that is to blame, which may be one of several that were asked."""
    outcome = find.outcome
    return {
        "what": "finds",
        "target": outcome.target,
        "shard": shard,
        "key": find.key,
        "sha256": find.sha256,
        "size": find.size,
        "data": data,
        "profile": find.profile,
        "labels": list(find.labels),
        **find.cell._asdict(),
        "version": find.version,
        "kind": outcome.kind,
        "detail": outcome.detail,
        "function": outcome.function,
        "told": outcome.lie,
        "why": lasting(outcome.kind, outcome.why),
        "count": find.count,
        "asked": find.asked,
    }


def row_of_fallen(testee: str, shard: int, cause: str) -> Row:
    """A cause that a testee is spared from the next round on."""
    return {"what": "fallen", "target": testee, "shard": shard, "key": cause}


def mutant_of(row: Mapping[str, Any]) -> Mutant:
    """An input of a row, as the corpus of a campaign takes it."""
    return Mutant(row["data"], row["profile"], tuple(row["labels"]), None, cell_of(row))


def find_of(row: Mapping[str, Any]) -> Find:
    """The find of a row."""
    outcome = Outcome(row["target"], row["kind"], row["detail"], row["function"], row["told"], row["why"])
    return Find(
        key=row["key"],
        outcome=outcome,
        sha256=row["sha256"],
        size=row["size"],
        profile=row["profile"],
        labels=tuple(row["labels"]),
        cell=cell_of(row),
        version=row["version"],
        count=row["count"],
        asked=row["asked"],
    )


def cell_of(row: Mapping[str, Any]) -> Cell:
    """The cell of a row."""
    return Cell(*(row[name] for name in Cell._fields))
