"""`pipeline campaign` without Spark: its options, and the work of one shard, wherever it runs."""

import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from kafka_fuzz.campaign.plan import RoundPlan
from kafka_fuzz.findings import FindingStore, TargetMode
from kafka_fuzz.shrink.search import as_mutant
from kafka_fuzz.targets.outcome import Outcome
from kafka_pipeline.jobs.campaign import CampaignSettings, round_job
from kafka_pipeline.jobs.merging import with_names
from kafka_pipeline.jobs.rounds import ChildKilled, Shard
from kafka_pipeline.spark import BadShard
from kafka_pipeline.spark.shards import work
from kafkaproof.commands.pipeline import pipeline

LONG = 60.0


def shard(target: str, tmp_path: Path, *, executions: int = 64) -> Shard:
    """The first shard of a round that begins with nothing."""
    plan = RoundPlan(target, tmp_path, cpu_seconds=LONG, executions=executions)
    return Shard(round_plan=plan, number=0, before=tmp_path / "nothing.parquet", known="")


@pytest.mark.slow
def test_a_shard_is_the_same_again(tmp_path: Path) -> None:
    """Two that do the same shard, side by side, write the same files and count the same."""
    settings = [CampaignSettings(out=tmp_path / name, targets=("reference",), executions=64) for name in "ab"]
    one, other = (work(round_job(each, 0), 0) for each in settings)

    assert not one.problem
    assert one.files == other.files
    assert one.files[0].path == "rounds/round=000000/what=inputs/part-000000.parquet"
    assert one.counts["executions"] == other.counts["executions"] >= 64


@pytest.mark.slow
def test_what_the_harness_cannot_do_is_a_problem_of_the_shard(tmp_path: Path) -> None:
    """A target that is not there fails for good, and says so."""
    with pytest.raises(BadShard, match=r"^absent: KeyError"):
        shard("absent", tmp_path).seen()


def test_a_killed_child_reports_nothing(tmp_path: Path) -> None:
    """It is no problem of the shard, which may be tried again."""

    def kill() -> None:
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            for child in psutil.Process().children():
                with suppress(psutil.Error):
                    if "kafka_fuzz.campaign.round_process" in child.cmdline():
                        child.kill()
                        return
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(ChildKilled, match="ended with -9"):
        shard("reference", tmp_path, executions=10**9).seen()
    killer.join()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--targets", "broker:4.4.0"), "executors have no target 'broker:4.4.0'"),
        (("--targets", "differential"), "executors have no target 'differential'"),
        (("--targets", "differential:absent"), "absent"),
        (("--executions", "5", "--minutes", "1"), "exclude each other"),
        (("--known", __file__), f"{Path(__file__).name}: Expected '='"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    """Usage errors are reported in one line, before anything is started."""
    done = CliRunner().invoke(pipeline, ["campaign", "--out", str(tmp_path / "out"), *options])

    assert done.exit_code == 2
    assert said in done.output
    assert not (tmp_path / "out").exists()


def test_findings_name_their_co_testees(tmp_path: Path) -> None:
    """A finding has the co-testees of the round that first saw it; an in-process target has none."""
    cases: tuple[tuple[TargetMode, tuple[str, ...]], ...] = (
        ("differential", ("sarama", "process:./mine --fast")),
        ("", ()),
    )
    for mode, names in cases:
        store = FindingStore(tmp_path / f"as {mode}", mode=mode)
        store.add(Outcome("sarama", "crash"), as_mutant(b"any"))
        (find,) = store.findings.values()
        assert with_names(find, "differential:sarama,process:./mine --fast").names == names
        assert with_names(find, "") == find
