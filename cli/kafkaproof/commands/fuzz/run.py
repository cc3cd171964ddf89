"""`kafkaproof fuzz run`: a campaign over targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from kafka_conformance.sanitize import printable
from kafka_conformance.testees.recipe import BuildError
from kafka_fuzz.campaign.plan import (
    ALL,
    OF_TESTEES,
    CampaignPlan,
    Progress,
    campaign_lock,
    expand_targets,
    unknown_targets,
)
from kafka_fuzz.campaign.supervisor import Campaign, screen, severity_summary
from kafka_fuzz.mutate import PROFILES, current_profile
from kafka_fuzz.targets.outcome import severity
from kafka_fuzz.targets.sanitized import SANITIZED, build_sanitized
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, INTERRUPTED, OK, say_json
from kafkaproof.commands.fuzz import find_checkout


class ProfileChoice(click.Choice[str]):
    """A mutation profile; the former name of one is taken with a warning."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The profile that *value* names."""
        return str(super().convert(current_profile(value), param, ctx))


def campaign_option(about: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--dir`, the folder of a campaign, as the parameter `directory`."""
    folder = click.Path(file_okay=False, path_type=Path)
    return click.option("--dir", "directory", type=folder, default="kafkaproof-fuzz", show_default=True, help=about)


def kept_results() -> Path | None:
    """The kept results of the checkout; None outside of one."""
    checkout = find_checkout()
    return checkout / "results" if checkout else None


results_option = click.option(
    "--results", type=click.Path(path_type=Path, file_okay=False), default=kept_results,
    help="Kept results, for the reviewed causes of findings.  [default: those of the checkout]",
)  # fmt: skip


MOST_SHOWN: Final = 40


@click.command()
@click.option("--targets", default=ALL, show_default=True, help="Names, with commas between them.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="How long, by the clock.  [default: 1]")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="The same in seconds.")
@click.option("--cpu-minutes", type=click.FloatRange(min=0, min_open=True), help="Limit of CPU time.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Rounds at a time.")
@campaign_option("Corpus, findings, log: the next campaign continues from them.")
@click.option("--seed", type=int, help="Of the campaign.  [default: that of the folder, or 1]")
@click.option("--profile", type=ProfileChoice(["mixed", *PROFILES]), default="mixed", show_default=True)
@click.option("--engine", type=click.Choice(["own", "atheris"]), default="own", show_default=True)
@click.option("--round", "round_seconds", type=click.FloatRange(min=0.1), help="CPU-seconds of a round.")
@click.option("--blind", is_flag=True, help="Leave out the cases of the corpus, as for `fuzz recall`.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.pass_context
def run(
    ctx: click.Context,
    targets: str,
    minutes: float | None,
    seconds: float | None,
    cpu_minutes: float | None,
    jobs: int,
    directory: Path,
    seed: int | None,
    profile: str,
    engine: Any,
    round_seconds: float | None,
    blind: bool,
    as_json: bool,
) -> None:
    """Fuzz targets until the time is over, and print new findings.

    `all` is everything that can run here but brokers and aiokafka-asan.
    Targets in process: reference, roundtrip, explain, append, convert, decompress,
    kafka-python, aiokafka-pure, aiokafka, aiokafka-asan.  With processes of their
    own: differential:A,B (what testees read), encode:A,B (what they write) and
    broker:RELEASE; + joins them: reference+differential:reference,aiokafka.
    """
    names = tuple(split_targets(targets))
    wrong = unknown_targets(names)
    if wrong or not names:
        raise click.UsageError(f"there is no target {', '.join(map(repr, wrong)) or 'named'}")
    if minutes and seconds:
        raise click.UsageError("--minutes and --seconds say the same; give one of them")
    if engine == "atheris" and find_spec("atheris") is None:
        raise click.UsageError("atheris is not installed: pip install 'kafkaproof[fuzz]'; --engine own needs nothing")
    spent = seconds or (minutes or 1.0) * 60
    cpu_seconds = cpu_minutes * 60 if cpu_minutes else None
    how = (jobs, seed, profile, engine, round_seconds, blind, cpu_seconds)
    plan = CampaignPlan(expand_targets(names), directory.resolve(), spent, *how)
    # Before the rounds, whose time is limited; where one cannot be built, its round reports why.
    for name in SANITIZED.keys() & set(plan.targets):
        with suppress(BuildError, ImportError):
            build_sanitized(name)
    campaign = run_campaign(plan)
    print_campaign(campaign, as_json=as_json)
    ctx.exit(campaign_exit_code(campaign))


def split_targets(text: str) -> list[str]:
    """The names in *text*: with + between them, or commas where no name holds any.

    >>> split_targets("reference,kafka-python"), split_targets("reference+differential:a,b")
    (['reference', 'kafka-python'], ['reference', 'differential:a,b'])
    >>> split_targets("differential:a,b")
    ['differential:a,b']
    >>> split_targets("reference,encode:a,b+differential")
    ['reference', 'encode:a,b', 'differential']
    """
    names: list[str] = []
    for part in text.split("+"):
        at = min((found for kind in OF_TESTEES if (found := part.find(f"{kind}:")) >= 0), default=len(part))
        names += [name.strip() for name in part[:at].split(",")]
        names.append(part[at:])
    return [name for name in names if name]


def run_campaign(plan: CampaignPlan) -> Campaign:
    """The campaign, when it is over."""
    try:
        with campaign_lock(plan.directory), screen() as show:
            campaign = Campaign(plan, show)
            campaign.run()
            return campaign
    except BlockingIOError:
        raise click.UsageError(f"another campaign runs in {plan.directory}") from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise NotTaken(plan.directory, error) from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None


class NotTaken(click.ClickException):
    """The disk does not take what a campaign writes in *directory*, or does not give it."""

    exit_code = CANNOT_RUN

    def __init__(self, directory: Path, error: OSError) -> None:
        super().__init__(f"{error.filename or directory}: {error.strerror or error}")


def campaign_exit_code(campaign: Campaign) -> int:
    """By the worst that happened."""
    if campaign.interrupted:
        return INTERRUPTED
    if campaign.failures():
        return CANNOT_RUN
    known = campaign.already_known()
    return (
        DISAGREEMENTS if any(not known.reason(finding.key, finding.version) for finding in campaign.findings()) else OK
    )


def print_campaign(campaign: Campaign, *, as_json: bool) -> None:
    """Print the result of a campaign, as text or JSON."""
    if as_json:
        say_json(campaign_document(campaign))
        return
    for target in campaign.plan.targets:
        click.echo(target_line(target, campaign.progress(target)))
    for replay in campaign.replays:
        if replay.gone:
            click.echo(printable(f"  gone: {replay.id}; its input now shows {replay.key or 'no finding'}", 300))
        if replay.why:
            click.echo(printable(f"  not replayed: {replay.id}; {replay.why}", 300))
    known = campaign.already_known()
    shown = [finding for finding in campaign.findings() if not known.reason(finding.key, finding.version)]
    for finding in shown[:MOST_SHOWN]:
        mark = "new" if finding.key not in campaign.old else "   "
        click.echo(printable(f"  {mark} {severity(finding.outcome.kind):16} {finding.size:6} B  {finding.key}", 160))
    if len(shown) > MOST_SHOWN:
        click.echo(f"  and {len(shown) - MOST_SHOWN} more")
    counts: Counter[str] = Counter(severity(finding.outcome.kind) for finding in shown)
    known_count = len(campaign.findings()) - len(shown)
    click.echo(f"{severity_summary(counts) or 'no findings'}; {known_count} known  ·  {campaign.plan.directory}")
    for target, why in campaign.failures().items():
        click.echo(printable(f"{target} could not be run: {why}", 1000), err=True)


def target_line(target: str, progress: Progress) -> str:
    """One target's numbers."""
    speed = progress.executions / progress.cpu_seconds if progress.cpu_seconds else 0.0
    return (
        f"{target:20} {progress.executions:10,} executions, {speed:7,.0f} a CPU-second; {progress.lines:5,} lines, "
        f"{progress.cells:6,} cells, {progress.buckets:4,} outcomes, {progress.corpus:6,} inputs kept"
    )


def campaign_document(campaign: Campaign) -> dict[str, Any]:
    """Everything, for programs."""
    known = campaign.already_known()
    return {
        "directory": str(campaign.plan.directory),
        "seed": campaign.state.seed,
        "interrupted": campaign.interrupted,
        "targets": {
            name: {"progress": campaign.progress(name), "rounds": standing.rounds, "restarts": standing.restarts}
            for name, standing in campaign.states.items()
        },
        "findings": [
            {
                "finding": finding,
                "new": finding.key not in campaign.old,
                "known": known.reason(finding.key, finding.version),
            }
            for finding in campaign.findings()
        ],
        "replays": campaign.replays,
        "failures": campaign.failures(),
    }
