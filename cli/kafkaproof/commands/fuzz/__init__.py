"""`kafkaproof fuzz`: the commands of fuzzing, each in a module of its own, imported when it is used."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import ClassVar, Final

import click

from kafkaproof.cli import LazyGroup

# Commands by the name that they had in the last release.
FORMER_NAMES: Final = {"side": "engine"}


class LateFuzz(LazyGroup):
    """The group's commands, none of them imported."""

    # Name, where it is defined, and what `--help` says without importing it.
    table: ClassVar[dict[str, tuple[str, str]]] = {
        "run": ("kafkaproof.commands.fuzz.run:run", "Fuzz targets for a while, and print new findings."),
        "merge": ("kafkaproof.commands.fuzz.engines:merge_command", "Keep the smallest of inputs with equal coverage."),
        "export": (
            "kafkaproof.commands.fuzz.engines:export_oss_fuzz",
            "Write entry points for OSS-Fuzz, with seeds and dictionary.",
        ),
        "reach": (
            "kafkaproof.commands.fuzz.promote:reach",
            "Measure whether producers or only a broker can cause a finding.",
        ),
        "engine": (
            "kafkaproof.commands.fuzz.engines:engine_command",
            "Fuzz with an external engine, Jazzer or Go's, on the same corpus.",
        ),
        "bench": ("kafkaproof.commands.fuzz.bench:bench", "Compare the profiles: buckets, lines, executions."),
        "triage": ("kafkaproof.commands.fuzz.triage:triage", "Deduplicate, shrink and draft findings of campaigns."),
        "corpus": (
            "kafkaproof.commands.fuzz.known:corpus_command",
            "Record the findings that corpus cases show.",
        ),
        "recall": (
            "kafkaproof.commands.fuzz.known:recall",
            "Measure the share of corpus findings that a campaign rediscovers.",
        ),
        "known": ("kafkaproof.commands.fuzz.known:known", "Accept findings as known, with the reason."),
        "seal": ("kafkaproof.commands.fuzz.seal:seal_campaign", "Encrypt a campaign, and print counts only."),
        "open": ("kafkaproof.commands.fuzz.seal:open_campaign", "Decrypt and unpack a sealed campaign."),
        "report": ("kafkaproof.commands.fuzz.triage:report_command", "Write a campaign as pages and files."),
        "promote": ("kafkaproof.commands.fuzz.promote:promote_command", "Turn findings into corpus cases."),
        "minimise": (
            "kafkaproof.commands.fuzz.minimise:minimise",
            "Cut an input down to the smallest that shows the same.",
        ),
    }

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command called *cmd_name*; raises `NoCheckout` for `bench` outside of a checkout."""
        if cmd_name in FORMER_NAMES:
            former, cmd_name = cmd_name, FORMER_NAMES[cmd_name]
            warning = f"warning: fuzz {former} is now fuzz {cmd_name}; the old name goes with the next release"
            click.echo(warning, err=True)
        if cmd_name == "bench":
            provide_benchmarks("kafkaproof fuzz bench")
        return super().get_command(ctx, cmd_name)


@click.group(cls=LateFuzz)
def fuzz() -> None:
    """Fuzz targets in campaigns, and process their findings: input that no case covers.

    Exit codes of `run`: 0 nothing new, 1 new findings, 2 usage, 3 could not be run, 130 interrupted.
    """


# Benchmarks are not in the wheel. `fuzz bench` takes them from the checkout: the one that an editable install points
# to, or the one that contains the working directory.

# A file that only a checkout of this project has.
MARK: Final = Path("benchmarks", "fuzz_outcomes.py")
NO_CHECKOUT: Final = 3


class NoCheckout(click.ClickException):
    """The working directory is in no checkout; the command ends with one line and exit code 3."""

    exit_code = NO_CHECKOUT


def find_checkout() -> Path | None:
    """The root of the checkout, or None outside of one."""
    installed = Path(__file__).resolve().parents[4]
    working = Path.cwd()
    return next((path for path in (installed, working, *working.parents) if (path / MARK).is_file()), None)


def provide_benchmarks(command: str) -> None:
    """Make `benchmarks` importable in this process and in the processes that it starts.

    Raises:
        NoCheckout: there is no checkout; *command* is named in the message.
    """
    root = find_checkout()
    if root is None:
        raise NoCheckout(
            f"`{command}` needs the benchmarks, which are not in the wheel: run it in a checkout of Kafkaproof"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    inherited = os.environ.get("PYTHONPATH", "")
    if str(root) not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (str(root), inherited) if part)
