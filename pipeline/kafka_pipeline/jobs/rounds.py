"""One shard of a campaign round: a child process of a campaign, and its rows.

One schema for all three, divided by folder (`what=`); what does not apply to a
row is empty.  The structs of local campaigns become rows here, and come back.

The folder gets the corpus of the round before, the inputs are counted, hashes
are seeded, nothing is shared with other shards: the same shard is the same
wherever and however often it is done.  A killed child reports nothing,
and Spark tries the shard again.
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa

from kafka_fuzz.campaign.differential import FALLEN, read_fallen
from kafka_fuzz.campaign.known_findings import KNOWN_FILE, REPLAY_FILE, STATE, ReplayResult
from kafka_fuzz.campaign.plan import RoundPlan, RoundReport
from kafka_fuzz.campaign.store import INDEX, Corpus, CorpusEntry, read_index
from kafka_fuzz.campaign.supervisor import RoundMessage, round_command
from kafka_fuzz.findings import FuzzFinding, finding_input, read_findings, write_atomically
from kafka_fuzz.mutate import Mutant, MutantCell
from kafka_fuzz.targets.outcome import Outcome
from kafka_pipeline.jobs.sweep import lasting
from kafka_pipeline.spark import BadShard
from kafka_pipeline.spark.shards import read_batches, required_schema

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
    **dict.fromkeys(MutantCell._fields[1:], pa.string()),
    "version": pa.string(),
    "lines": pa.list_(pa.string()),
    "kind": pa.string(),
    "detail": pa.string(),
    "function": pa.string(),
    "fault_label": pa.string(),
    "why": pa.string(),
    "count": pa.int64(),
    "mode": pa.string(),
}
SCHEMA: Final = required_schema(_TYPES)
# `what` is a part of the path.
STORED: Final = pa.schema([each for each in SCHEMA if each.name != "what"])
ALIKE: Final = ("target", "profile", "codec", "field", "boundary", "fault", "nesting", "position", "version", "kind")
_EMPTY: Final[dict[str, Any]] = {
    name: [] if pa.types.is_list(kind) else b"" if kind == pa.binary() else "" if kind == pa.string() else 0
    for name, kind in _TYPES.items()
}

Row = dict[str, Any]


def rows_to_batch(rows: Iterable[Row], counts: bytes = b"{}") -> pa.RecordBatch:
    """*rows*, and what else is counted, as JSON that goes along."""
    schema = SCHEMA.with_metadata({b"counts": counts})
    return pa.RecordBatch.from_pylist([_EMPTY | row for row in rows], schema=schema)


def input_row(target: str, shard: int, entry: CorpusEntry, data: bytes) -> Row:
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


def finding_row(shard: int, find: FuzzFinding, data: bytes) -> Row:
    """A finding: its target is the faulty one, which may be one of several that ran."""
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
        "fault_label": outcome.fault,
        "why": lasting(outcome.kind, outcome.why),
        "count": find.count,
        "mode": find.mode,
    }


def row_of_fallen(testee: str, shard: int, cause: str) -> Row:
    """A cause that a testee is spared from the next round on."""
    return {"what": "fallen", "target": testee, "shard": shard, "key": cause}


def row_mutant(row: Mapping[str, Any]) -> Mutant:
    """An input of a row, as the corpus of a campaign takes it."""
    return Mutant(row["data"], row["profile"], tuple(row["labels"]), None, row_cell(row))


def row_finding(row: Mapping[str, Any]) -> FuzzFinding:
    """The finding of a row."""
    outcome = Outcome(row["target"], row["kind"], row["detail"], row["function"], row["fault_label"], row["why"])
    return FuzzFinding(
        key=row["key"],
        outcome=outcome,
        sha256=row["sha256"],
        size=row["size"],
        profile=row["profile"],
        labels=tuple(row["labels"]),
        cell=row_cell(row),
        version=row["version"],
        count=row["count"],
        mode=row["mode"],
    )


def row_cell(row: Mapping[str, Any]) -> MutantCell:
    """The cell of a row."""
    return MutantCell(*(row[name] for name in MutantCell._fields))


# What a round counts, and its log says.
PROGRESS: Final = ("executions", "skipped", "lines", "cells", "corpus", "buckets", "findings")
COUNTS: Final = (*PROGRESS, "restarts")
MILLISECONDS: Final = "milliseconds"
# Sets of strings have the same order in every process.
ENVIRONMENT: Final = {"PYTHONHASHSEED": "0"}


class ChildKilled(Exception):
    """The child ended without a report: it was killed from outside, and may succeed on another try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Settings of one Spark task.

    Attributes:
        round_plan: the round without its folder, which is made where the task runs.
        number: of the shard among all of its round.
        before: the corpora that the round begins with; a file that may not be there.
        known: the list of known findings, as text.
        gone: of these, and of the package's, the ids of those that no longer are.
    """

    round_plan: RoundPlan
    number: int
    before: Path
    known: str
    gone: tuple[str, ...] = ()

    def seen(self) -> pa.RecordBatch:
        """Do it.

        Raises:
            Refused: the harness could not do its work, and never will.
            Died: the child was killed.
        """
        with TemporaryDirectory(prefix="kafkaproof-") as folder:
            round_plan = msgspec.structs.replace(self.round_plan, directory=Path(folder))
            given = self._prepare(round_plan)
            report, milliseconds = ran(round_plan)
            counts = {name: getattr(report, name) for name in COUNTS} | {MILLISECONDS: milliseconds}
            return rows_to_batch(self._rows(round_plan, given), msgspec.json.encode(counts))

    def _prepare(self, round_plan: RoundPlan) -> int:
        """Write what the child begins with; how much of its index that is."""
        root = round_plan.directory
        (root / STATE).mkdir()
        (root / KNOWN_FILE).write_text(self.known, encoding="utf-8")
        write_atomically(
            root / STATE / REPLAY_FILE,
            msgspec.json.encode([ReplayResult("", each, "", gone=True) for each in self.gone]),
        )
        rows = [row for batch in read_batches(filter(Path.exists, [self.before])) for row in batch.to_pylist()]
        fill(root, rows)
        index = Corpus(root, round_plan.target).folder / INDEX
        return index.stat().st_size if index.exists() else 0

    def _rows(self, round_plan: RoundPlan, given: int) -> Iterator[Row]:
        corpus = Corpus(round_plan.directory, round_plan.target)
        for entry in read_index(corpus.folder / INDEX, given)[0]:
            yield input_row(round_plan.target, self.number, entry, corpus.data(entry))
        for find in read_findings(round_plan.directory):
            yield finding_row(self.number, find, finding_input(round_plan.directory, find))
        for testee, causes in sorted(read_fallen(round_plan.directory).items()):
            for cause in sorted(cause for cause, often in causes.items() if often >= 1.0):
                yield row_of_fallen(testee, self.number, cause)


def fill(root: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write merged corpora as a campaign has them."""
    corpora: dict[str, Corpus] = {}
    fallen: dict[str, dict[str, float]] = {}
    for row in rows:
        target = row["target"]
        if row["what"] == "fallen":
            fallen.setdefault(target, {})[row["key"]] = 1.0
            continue
        if target not in corpora:
            corpora[target] = Corpus(root, target)
        corpora[target].keep(row_mutant(row), row["key"], row["lines"], row["version"])
    for corpus in corpora.values():
        corpus.close()
    write_atomically(root / STATE / FALLEN, msgspec.json.encode(fallen))


def ran(round_plan: RoundPlan) -> tuple[RoundReport, int]:
    """The child's final report, and its CPU time in milliseconds with all processes that it started."""
    before = children_cpu_seconds()
    done = subprocess.run(
        round_command(round_plan),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env=os.environ | ENVIRONMENT,
    )
    took = round((children_cpu_seconds() - before) * 1000)
    last = done.stdout.splitlines()[-1:]
    try:
        report = msgspec.json.decode(last[0], type=RoundMessage).report if last else None
    except msgspec.MsgspecError:
        report = None
    if report is None or report.interrupted:
        words = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ChildKilled(f"a round of {round_plan.target} ended with {done.returncode}: {''.join(words)}")
    if report.failure or not report.executions:
        raise BadShard(f"{round_plan.target}: {report.failure or 'it executed nothing'}")
    return report, took


def children_cpu_seconds() -> float:
    """CPU-seconds of the processes that ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
