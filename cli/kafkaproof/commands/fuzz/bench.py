"""`kafkaproof fuzz bench`: what fuzzing costs and finds, measured by anyone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final

import click
import msgspec
from benchmarks import fuzz
from benchmarks.fuzz_outcomes import OutcomeRepeat

from kafka_brokers.interface import NoBroker
from kafka_conformance.testees.connection import BadConnect, CannotRun
from kafkaproof.cli import CANNOT_RUN
from kafkaproof.commands.fuzz.run import ProfileChoice

WHAT: Final = ("outcomes", "planted", "crash", "pipe", "broker")


@click.command()
@click.argument("what", type=click.Choice(WHAT), default="outcomes")
@click.option("--repeats", type=click.IntRange(min=1), default=10, show_default=True, metavar="N")
@click.option(
    "--seconds", type=click.FloatRange(min=0.5), default=12.0, show_default=True, metavar="S",
    help="CPU-seconds of each repeat of each profile.",
)  # fmt: skip
@click.option("--target", "targets", multiple=True, default=fuzz.TARGETS, show_default=True, metavar="NAME")
@click.option(
    "--profile", "profiles", multiple=True, type=ProfileChoice(fuzz.COLUMNS), default=fuzz.COLUMNS,
    help="One of them, as often as you like; all of them unless given.",
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Repeats at a time."
)
@click.option(
    "--most", type=click.IntRange(min=1), default=5000, show_default=True, metavar="N",
    help="planted: executions after which a search is stopped.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, every repeat in it.")
def bench(
    what: str,
    repeats: int,
    seconds: float,
    targets: tuple[str, ...],
    profiles: tuple[str, ...],
    jobs: int,
    most: int,
    as_json: bool,
) -> None:
    """Measure what fuzzing costs and finds: medians of repeats, by CPU-second.

    outcomes: the profiles side by side on Python codecs.  Unexpected ends (leaked exceptions by type and line,
    hangs and exhausted memory by function) are what a fuzzer finds that has no reference.  Outcome buckets hold what
    is read wrongly, too: by field and how it differs, and what is taken though it is invalid, by the rule that it
    breaks.  Findings have the keys of campaigns, with the fault, which plain mutation does not know.  `plain` is what a
    first fuzzing target has: bytes changed blindly, from fifteen valid logs.  `bytes` does so with valid logs of every
    shape and a dictionary; `mix` is all profiles, each as often as a campaign runs it.

    planted: the executions that find each planted bug, by the mix and by plain mutation.

    crash: until the first crash of compiled aiokafka, the campaign's start counted.

    pipe: inputs a second through the pipe of a testee, Java's unless --target names others, answers compared.

    broker: payloads a second that a real broker stores or refuses, compared with what the reference predicts.
    """
    match what:
        case "planted":
            print_planted(repeats, most, as_json=as_json)
        case "crash":
            print_crashes(repeats, as_json=as_json)
        case "pipe":
            names = (fuzz.TESTEE,) if targets == fuzz.TARGETS else targets
            for name in names:
                print_rates(lambda seed, name=name: fuzz.pipe_rate(name, seconds, seed), repeats, as_json=as_json)  # type: ignore[misc]
        case "broker":
            print_rates(lambda seed: fuzz.broker_rate(fuzz.BROKER, seconds, seed), repeats, as_json=as_json)
        case _:
            print_outcomes(run_repeats(repeats, seconds, targets, profiles, jobs), as_json=as_json)


def run_repeats(
    repeats: int, seconds: float, targets: tuple[str, ...], profiles: tuple[str, ...], jobs: int
) -> list[OutcomeRepeat]:
    """Every repeat of every profile and target."""
    made: list[OutcomeRepeat] = []
    try:
        for each in fuzz.measure_outcomes(repeats, seconds, targets, profiles, jobs):
            made.append(each)
            click.echo(f"{len(made)} of {repeats * len(targets) * len(profiles)} repeats", err=True)
    except fuzz.CannotMeasure as error:
        click.echo(str(error), err=True)
        sys.exit(CANNOT_RUN)
    return made


def print_planted(repeats: int, most: int, *, as_json: bool) -> None:
    """One line for each planted bug as it is found, or everything as JSON."""
    made = []
    if not as_json:
        click.echo(fuzz.HEAD)
    for one in fuzz.measure_planted(repeats, most):
        made.append(one)
        if not as_json:
            click.echo(fuzz.planted_line(one))
    click.echo(msgspec.json.encode({"planted": made}) if as_json else fuzz.planted_summary(made))


def print_crashes(repeats: int, *, as_json: bool) -> None:
    """The median, or everything as JSON."""
    found = list(fuzz.first_crashes(repeats))
    click.echo(msgspec.json.encode({"first_crash": found}) if as_json else fuzz.crash_summary(found))


def print_rates(once: Callable[[int], fuzz.Rate], repeats: int, *, as_json: bool) -> None:
    """The median, or everything as JSON; exit code 3 if the testee or broker cannot run."""
    try:
        made = list(fuzz.measure_rates(once, repeats))
    except (BadConnect, CannotRun, NoBroker, ValueError) as error:
        click.echo(str(error), err=True)
        sys.exit(CANNOT_RUN)
    click.echo(msgspec.json.encode({"rates": made}) if as_json else fuzz.report_rate(made))


def print_outcomes(made: Sequence[OutcomeRepeat], *, as_json: bool) -> None:
    """The medians as a table, or everything as JSON."""
    if as_json:
        click.echo(msgspec.json.encode({"repeats": made}))
    else:
        click.echo("\n".join(fuzz.outcome_lines(made)))
