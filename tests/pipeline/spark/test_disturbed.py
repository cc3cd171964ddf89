"""Properties of all jobs of the pipeline: a whole output is left alone, and a disturbed one is completed."""

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_pipeline.jobs.campaign import CampaignSettings, campaign_on_spark
from kafka_pipeline.jobs.generate import Generate, generate_cases
from kafka_pipeline.jobs.sweep import sweep_testees
from kafka_pipeline.spark.manifest import OtherRun

pytestmark = pytest.mark.spark

Opener = Callable[[], AbstractContextManager[Any]]
Tree = Callable[[Path], dict[str, bytes]]
Dying = Callable[[Path], AbstractContextManager[list[int]]]


def audit(opened: Opener, settings: Any) -> Any:
    """An audit, which needs the extra `columnar`."""
    from kafka_pipeline.audit import job

    return job.audit(opened, settings)


# By the fixture that has a whole one: the job, and a question that is another.
JOBS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "generated": (generate_cases, {"seed": 6}),
    "swept": (sweep_testees, {"testees": ("reference",)}),
    "fuzzed": (campaign_on_spark, {"executions": 201}),
    "audited": (audit, {"contiguous": True}),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_whole_output_is_left_alone_and_another_run_refused(
    name: str, request: pytest.FixtureRequest, closed: Opener, same: Tree
) -> None:
    """The same again opens no session; another question in the same folder is refused; neither changes anything."""
    settings, (job, other) = request.getfixturevalue(name), JOBS[name]
    before = same(settings.out)

    job(closed, settings)
    with pytest.raises(OtherRun, match=f"differs in {next(iter(other))}"):
        job(closed, replace(settings, **other))

    assert same(settings.out) == before


@pytest.mark.parametrize("name", JOBS)
def test_workers_die(
    name: str, request: pytest.FixtureRequest, opened: Opener, tmp_path: Path, same: Tree, workers_die: Dying
) -> None:
    """Python workers that are killed in the middle cost nothing but time."""
    whole, (job, _) = request.getfixturevalue(name), JOBS[name]
    settings = replace(whole, out=tmp_path / "out")
    with workers_die(settings.out) as killed:
        job(opened, settings)

    assert killed
    assert same(settings.out) == same(whole.out)


def generating(settings: Generate) -> tuple[str, ...]:
    """The command that makes these cases."""
    return ("generate", "--cases", str(settings.cases), "--seed", "5", "--shard", "2000", "--per-shape", "1")


def fuzzing(settings: CampaignSettings) -> tuple[str, ...]:
    """The command that runs this campaign."""
    targets = "+".join(settings.targets)
    return (
        "campaign", "--targets", targets, "--rounds", "2", "--shards", "2", "--executions", "200", "--seed", "9",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "command", "how"),
    [
        ("generated", generating, signal.SIGKILL),
        ("generated", generating, signal.SIGINT),
        ("fuzzed", fuzzing, signal.SIGINT),
    ],
)
def test_stopped_and_run_again(
    name: str,
    command: Callable[[Any], tuple[str, ...]],
    how: signal.Signals,
    request: pytest.FixtureRequest,
    opened: Opener,
    tmp_path: Path,
    same: Tree,
    stopped: Callable[..., None],
) -> None:
    """A command that is killed, virtual machine and all, or interrupted (it ends with 130), goes on where it was."""
    whole, out = request.getfixturevalue(name), tmp_path / "out"
    stopped(command(whole), out, how)

    assert not (out / "manifest.json").exists()
    JOBS[name][0](opened, replace(whole, out=out))
    assert same(out) == same(whole.out)
