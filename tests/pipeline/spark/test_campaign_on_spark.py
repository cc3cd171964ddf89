"""`pipeline campaign` on Spark: rounds of shards, merged corpora, a campaign's folder; whatever happens in between."""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from kafka_fuzz.campaign.plan import read_log, read_state
from kafka_fuzz.campaign.store import Corpus
from kafka_fuzz.findings import finding_input, read_findings
from kafka_fuzz.mutate import MutantCell
from kafka_pipeline.jobs.campaign import CampaignSettings, campaign_on_spark
from kafka_pipeline.spark.shards import ShardsFailed
from kafkaproof.commands.pipeline.campaign import deduplicated_findings

pytestmark = pytest.mark.spark

CRASHING = "planted:crashes-on-a-tenth"
Opener = Callable[[], AbstractContextManager[Any]]
Tree = Callable[[Path], dict[str, bytes]]


def rows_of(folder: Path, what: str) -> list[dict[str, Any]]:
    """All rows of one kind in the files below *folder*."""
    paths = sorted(folder.rglob(f"what={what}/*.parquet"))
    return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


def merged(settings: CampaignSettings, number: int) -> list[dict[str, Any]]:
    """The inputs of the corpora after round *number*."""
    return [row for row in pq.ParquetFile(settings.merged(number)).read().to_pylist() if row["what"] == "inputs"]


def claims(row: dict[str, Any]) -> set[tuple[Any, ...]]:
    """Everything that an input does, by target."""
    cell = tuple(row[name] for name in MutantCell._fields)
    return {(row["target"], each) for each in (cell, row["key"], *row["lines"])}


def note(smallest: dict[tuple[Any, ...], int], row: dict[str, Any]) -> None:
    """Take note of what the input of *row* does, and of its size where none is smaller."""
    for claim in claims(row):
        smallest[claim] = min(smallest.get(claim, row["size"]), row["size"])


def test_every_shard_saw_what_it_saw(fuzzed: CampaignSettings) -> None:
    """Each shard of each round counts, and has found; the testee that crashes has crashed in all of its shards."""
    lines = list(read_log(fuzzed.out))

    assert len(lines) == fuzzed.rounds * len(fuzzed.tasks)
    assert all(line.executions >= fuzzed.executions and line.cpu_seconds > 0 for line in lines)
    assert {(line.target, line.number) for line in lines} == {(name, at) for name in fuzzed.targets for at in range(4)}
    for number in range(fuzzed.rounds):
        findings = rows_of(fuzzed.out / f"rounds/round={number:06}", "finds")
        assert {row["shard"] for row in findings if row["target"] == "kafka-python"} == {0, 2}
        assert {row["shard"] for row in findings if (row["target"], row["kind"]) == (CRASHING, "crash")} == {1, 3}


def test_merging_loses_nothing_and_keeps_the_smallest(fuzzed: CampaignSettings) -> None:
    """Whatever an input of the rounds did, one of the merged corpus does, and it is the smallest that did it."""
    smallest: dict[tuple[Any, ...], int] = {}
    kept: list[dict[str, Any]] = []
    for number in range(fuzzed.rounds):
        for row in rows_of(fuzzed.out / f"rounds/round={number:06}", "inputs"):
            note(smallest, row)
        kept = merged(fuzzed, number)
        covered: dict[tuple[Any, ...], int] = {}
        for row in kept:
            note(covered, row)
            assert any(smallest[claim] == row["size"] for claim in claims(row))
        assert covered == smallest
    assert len(kept) < len(rows_of(fuzzed.out / "rounds", "inputs"))


def test_a_round_begins_with_what_the_one_before_learnt(fuzzed: CampaignSettings) -> None:
    """In the second round an input is kept only for what no shard of the first had seen."""
    before = {claim for row in merged(fuzzed, 0) for claim in claims(row)}
    later = rows_of(fuzzed.out / "rounds/round=000001", "inputs")

    assert later
    assert all(claims(row) - before for row in later)


def test_the_folder_is_that_of_a_campaign(fuzzed: CampaignSettings, tmp_path: Path) -> None:
    """Finds and corpora are where local campaigns have them; triage folds them, and a report is written."""
    findings = {find.key: find for find in read_findings(fuzzed.out)}
    seen = rows_of(fuzzed.out / "rounds", "finds")

    assert set(findings) == {row["key"] for row in seen}
    for key, find in findings.items():
        own = [row for row in seen if row["key"] == key]
        assert find.count == sum(row["count"] for row in own)
        assert find.size == min(row["size"] for row in own) == len(finding_input(fuzzed.out, find))
    assert {key for line in read_log(fuzzed.out) for key in line.new_findings} == set(findings)
    for target in fuzzed.targets:
        wanted = {row["sha256"] for row in merged(fuzzed, 1) if row["target"] == target}
        assert set(Corpus(fuzzed.out, target).entries) == wanted
    assert read_state(fuzzed.out).next_round == 4
    cells = pq.read_table(fuzzed.out / "cells").to_pylist()
    assert sum(row["inputs"] for row in cells) == len(rows_of(fuzzed.out / "rounds", "inputs"))

    out = tmp_path / "report"
    assert {find.key for find in deduplicated_findings(fuzzed.out)} <= set(findings)
    argv = [sys.executable, "-m", "kafkaproof", "fuzz", "report", "--dir", str(fuzzed.out), "--out", str(out)]
    assert subprocess.run(argv, check=False, capture_output=True).returncode == 1
    # What kept results of kafka-python have, too, is known.
    states = [find.state for find in deduplicated_findings(fuzzed.out)]
    new, known = states.count("new"), states.count("known")
    assert f"\n{new} new, {known} known, 0 gone. " in (out / "summary.md").read_text(encoding="utf-8")
    assert new > 5


def test_a_bad_shard_is_done_again_alone(opened: Opener, fuzzed: CampaignSettings, same: Tree) -> None:
    """A damaged shard is detected by its hash, and only that shard runs again, to the same bytes."""
    before, log = same(fuzzed.out), list(read_log(fuzzed.out))
    bad, other = sorted((fuzzed.out / "rounds/round=000000/what=finds").iterdir())[:2]
    since = other.stat().st_mtime_ns
    data = bytearray(bad.read_bytes())
    data[len(data) // 2] ^= 1
    bad.write_bytes(data)

    campaign_on_spark(opened, fuzzed)

    assert same(fuzzed.out) == before
    assert other.stat().st_mtime_ns == since
    again = list(read_log(fuzzed.out))
    assert [line.number for line, old in zip(again, log, strict=True) if line.cpu_seconds != old.cpu_seconds] in (
        [0],
        [],
    )


def test_time_is_counted_and_what_was_earned_stays(
    opened: Opener, closed: Opener, tmp_path: Path, tree: Tree, stopped: Callable[..., None]
) -> None:
    """A campaign with rounds of some minutes, killed with its JVM after the first shard, goes on with the others."""
    out, minutes, targets = tmp_path / "out", 0.05, ("reference", "kafka-python")
    settings = CampaignSettings(out=out, targets=targets, rounds=2, shards=1, executions=0, minutes=minutes, seed=9)
    options = {"--targets": "+".join(targets), "--rounds": 2, "--shards": 1, "--minutes": minutes, "--seed": 9}
    stopped(("campaign", *(str(part) for pair in options.items() for part in pair)), out, signal.SIGKILL)
    earned = {path: data for path, data in tree(out).items() if path.startswith("receipts/")}
    assert earned

    campaign_on_spark(opened, settings)

    said = msgspec.json.decode((out / "manifest.json").read_bytes())
    files = {file["path"]: file for file in said["files"]}
    for receipt in earned.values():
        assert all(files[file["path"]] == file for file in msgspec.json.decode(receipt)["files"])
    lines = list(read_log(out))
    assert {(line.target, line.number) for line in lines} == {(name, at) for name in targets for at in range(2)}
    assert all(line.executions > 0 and line.cpu_seconds >= minutes * 60 / 2 for line in lines)
    assert said["counts"]["executions"] == sum(line.executions for line in lines)
    campaign_on_spark(closed, settings)


def test_a_testee_that_does_not_start_ends_the_campaign(opened: Opener, tmp_path: Path) -> None:
    """It is a problem of the shards, and is named."""
    settings = CampaignSettings(
        out=tmp_path, targets=("differential:process:true,reference",), rounds=1, shards=1, executions=9
    )
    with pytest.raises(ShardsFailed, match="process:true did not say hello"):
        campaign_on_spark(opened, settings)
