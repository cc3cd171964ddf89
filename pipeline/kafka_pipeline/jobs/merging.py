"""Corpora of a campaign's rounds merged by SQL, and the campaign folder made of them.

What an input does: it has content, a cell, an outcome (or a vector of them),
lines that no other input covers.  Each of these is kept by the smallest input
that claims it, ties broken by all else that a row has, so that the same rows
give the same corpus however they were divided.  Nothing that was covered is lost.

OUT/corpus, OUT/finds, OUT/state, OUT/known.toml, OUT/log.ndjson

So that `fuzz report`, `triage`, `known`, `promote` and `run` go on from there.
The log says what rounds took, and is the only one of these that differs from
one run to the next.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from kafka_fuzz.campaign import known_findings, store
from kafka_fuzz.campaign.known_findings import REPLAY_FILE, STATE, read_replay_results
from kafka_fuzz.campaign.plan import (
    LOG,
    CampaignState,
    Progress,
    RoundPlan,
    RoundReport,
    finding_targets,
    read_log,
    round_report,
    testees_in,
    write_state,
)
from kafka_fuzz.campaign.replay import replay_known_findings
from kafka_fuzz.findings import FINDINGS_FOLDER, FuzzFinding, write_atomically, write_finding
from kafka_fuzz.mutate import MutantCell
from kafka_pipeline.jobs.rounds import COUNTS, MILLISECONDS, PROGRESS, SCHEMA, fill, row_finding
from kafka_pipeline.spark.shards import query_table, read_batches, required_schema, spark_failures, view

_CELL: Final = ", ".join(MutantCell._fields)
# Columns that distinguish rows of inputs; their order decides which of two is kept.
_OWN: Final = f"size, sha256, key, {_CELL}, profile, labels, version, lines"
CORPUS: Final = f"""
    WITH inputs AS (SELECT target, data, struct({_OWN}) AS own, {_OWN} FROM seen WHERE what = 'inputs'),
    claims AS (
        SELECT target, own, explode(concat(
            array(concat('does ', key), concat('cell ', to_json(struct({_CELL})))),
            transform(lines, line -> concat('line ', line))
        )) AS claim FROM inputs
    ),
    chosen AS (SELECT DISTINCT target, own FROM (SELECT target, min(own) AS own FROM claims GROUP BY target, claim)),
    contents AS (SELECT sha256, first(data) AS data FROM inputs GROUP BY sha256)
    SELECT 'inputs' AS what, target, own.*, data
    FROM chosen JOIN contents ON own.sha256 = contents.sha256
    ORDER BY target, own
"""
FALLEN: Final = "SELECT DISTINCT 'fallen' AS what, target, key FROM seen WHERE what = 'fallen' ORDER BY target, key"
# Each key once, with its smallest input, and where it was seen first.
_BEST: Final = (
    f"size, sha256, {_CELL}, profile, labels, version, kind, detail, function, fault_label, why, mode, target, data"
)
FINDINGS_QUERY: Final = f"""
    SELECT key, sum(count) AS count, min(struct({_BEST})) AS best, min(struct(round, shard)) AS first
    FROM rounds WHERE what = 'finds' GROUP BY key ORDER BY key
"""
CELLS: Final = f"""
    SELECT target, {_CELL}, count_if(what = 'inputs') AS inputs, count_if(what = 'finds') AS finds, min(round) AS first
    FROM rounds WHERE what != 'fallen' GROUP BY ALL ORDER BY target, {_CELL}
"""
CELLS_SCHEMA: Final = required_schema(
    {name: SCHEMA.field(name).type for name in ("target", *MutantCell._fields)}
    | dict.fromkeys(("inputs", "finds", "first"), pa.int64())
)


def merge_corpora(spark: Any, new: Path, before: Path) -> pa.Table:
    """Merged corpora for the next round, from the rows in the folder *new* and in the file *before*.

    Raises:
        PipelineError: Spark gave up.
    """
    names = ", ".join(name for name in SCHEMA.names if name != "shard")
    parts = []
    if any(new.glob("*/*.parquet")):
        view(spark, "new", new)
        parts.append(f"SELECT {names} FROM new")
    if before.exists():
        view(spark, "before", before.parent)
        parts.append(f"SELECT {names} FROM before")
    if not parts:
        return SCHEMA.empty_table()
    with spark_failures():
        spark.sql(" UNION ALL ".join(parts)).createOrReplaceTempView("seen")
    return pa.concat_tables([_filled(query_table(spark, query)) for query in (CORPUS, FALLEN)])


def _filled(table: pa.Table) -> pa.Table:
    """*table* with the columns that it lacks, empty."""
    arrays = [
        table.column(each.name).cast(each.type) if each.name in table.column_names else _empty(each, table.num_rows)
        for each in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _empty(column: pa.Field, rows: int) -> pa.Array:
    value: Any = [] if pa.types.is_list(column.type) else 0 if pa.types.is_integer(column.type) else ""
    return pa.array([value] * rows, column.type)


class ShardReport(NamedTuple):
    """A finished shard: its round, its number, its plan, and its counts."""

    number: int
    shard: int
    round_plan: RoundPlan
    counts: dict[str, int]


class BestInput(NamedTuple):
    """A finding with its smallest input, and the round and shard that saw it first."""

    finding: FuzzFinding
    data: bytes
    first: tuple[int, int]


class Assembled:
    """Findings and corpora of all rounds."""

    def __init__(self, spark: Any, rounds: Path, corpora: Path) -> None:
        self._spark = spark
        self._rounds = rounds
        self._corpora = corpora

    @cached_property
    def _view(self) -> bool:
        """Whether there is anything to ask about."""
        there = any(self._rounds.rglob("*.parquet"))
        if there:
            view(self._spark, "rounds", self._rounds)
        return there

    @cached_property
    def findings(self) -> list[BestInput]:
        """The findings of all rounds, counts added up."""
        rows = query_table(self._spark, FINDINGS_QUERY).to_pylist() if self._view else []
        return [
            BestInput(row_finding(row["best"] | {"key": row["key"], "count": row["count"]}), row["best"]["data"],
                 (row["first"]["round"], row["first"]["shard"]))
            for row in rows
        ]  # fmt: skip

    @cached_property
    def corpus(self) -> list[dict[str, Any]]:
        """The rows of the last corpora."""
        return [row for batch in read_batches(filter(Path.exists, [self._corpora])) for row in batch.to_pylist()]

    @property
    def inputs(self) -> int:
        """Inputs that are kept, of all targets."""
        return len({(row["target"], row["sha256"]) for row in self.corpus if row["what"] == "inputs"})

    def cells(self) -> pa.Table:
        """The cells that were reached, by target."""
        if not self._view:
            return CELLS_SCHEMA.empty_table()
        return query_table(self._spark, CELLS).cast(CELLS_SCHEMA)

    def write(self, out: Path, text: str, seed: int, reports: Iterable[ShardReport]) -> None:
        """Write the folder; what an earlier attempt left of it goes."""
        for name in (store.CORPUS_FOLDER, FINDINGS_FOLDER):
            shutil.rmtree(out / name, ignore_errors=True)
        (out / STATE).mkdir(exist_ok=True)
        fill(out, self.corpus)
        reports = list(reports)
        round_plan = {(report.number, report.shard): report.round_plan.target for report in reports}
        for best in self.findings:
            write_finding(out, with_names(best.finding, round_plan.get(best.first, "")), best.data)
        if text and not (out / known_findings.KNOWN_FILE).exists():
            (out / known_findings.KNOWN_FILE).write_text(text, encoding="utf-8")
        lines = [self._report(each) for each in reports]
        write_atomically(out / LOG, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        write_state(out, CampaignState(seed, max(line.number for line in lines) + 1))

    def _report(self, report: ShardReport) -> RoundReport:
        round_plan = report.round_plan
        names = set(finding_targets(round_plan.target))
        new = [best.finding.key for best in self.findings if best.first == (report.number, report.shard)]
        counts = {name: report.counts[name] for name in COUNTS}
        seconds = report.counts[MILLISECONDS] / 1000
        progress = Progress(cpu_seconds=seconds, **{name: counts.pop(name) for name in PROGRESS})
        versions = ", ".join(self._versions(round_plan.target, names))
        return round_report(round_plan, progress, version=versions, new_findings=tuple(new), **counts)

    def _versions(self, target: str, names: set[str]) -> list[str]:
        """Known versions of *target*, or of the testees that it compares."""
        if names == {target}:
            return sorted({row["version"] for row in self.corpus if row["target"] == target} - {""})
        found = (best.finding for best in self.findings)
        return sorted(
            {f"{finding.outcome.target} {finding.version}" for finding in found if finding.outcome.target in names}
        )


def with_names(finding: FuzzFinding, target: str) -> FuzzFinding:
    """*finding* with the testees that ran beside its own in a round of *target*."""
    side_by_side = finding.mode == "differential" and target
    return msgspec.structs.replace(finding, names=testees_in(target)) if side_by_side else finding


def counts_in(out: Path) -> dict[tuple[str, int], dict[str, int]]:
    """Counts of rounds in the log, by target and number."""
    return {
        (line.target, line.number): {name: getattr(line, name) for name in COUNTS}
        | {MILLISECONDS: round(line.cpu_seconds * 1000)}
        for line in read_log(out)
    }


def gone(out: Path, text: str, targets: Iterable[str]) -> tuple[str, ...]:
    """Ids of known findings that no longer occur, replayed on the driver once for a campaign."""
    path = out / STATE / REPLAY_FILE
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        if text:
            (out / known_findings.KNOWN_FILE).write_text(text, encoding="utf-8")
        report = replay_known_findings(out, known_findings.read_known_findings(out), list(targets))
        # Which of its functions a loop was stopped in is never the same twice, and says nothing where all is as it was.
        same = [msgspec.structs.replace(each, key=each.key if each.gone else "") for each in report]
        write_atomically(path, msgspec.json.encode(same))
    return tuple(sorted(replayed.id for replayed in read_replay_results(out) if replayed.gone))
