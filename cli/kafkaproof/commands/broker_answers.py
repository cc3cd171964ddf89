"""`kafkaproof broker record` and `compare`: what brokers answer to the corpus, kept and set side by side."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from kafka_brokers.interface import NoBroker
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.releases import RELEASES, find_release
from kafka_brokers.scenarios import recorder as answer_recorder
from kafka_conformance.judge.reach import replay_cases
from kafka_conformance.runner.keeping import reserved
from kafka_conformance.runner.requests import select, unmatched_pattern
from kafka_corpus import evidence
from kafka_corpus.case import Case
from kafka_corpus.evidence import brokers
from kafka_corpus.vectors import load_vectors, package_root
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, INTERRUPTED, OK, need_own_sources, say_json

DEFAULT_FOLDER: Final = "kafkaproof-results/brokers"
MOST_SHOWN: Final = 40

only_option = click.option("--only", multiple=True, metavar="GLOB", help="Cases by id, area or rule; may be repeated.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of lines.")
root_option = click.option(
    "--root", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="The folder that contains `evidence`.  [default: the package]",
)  # fmt: skip


@click.command("record")
@click.argument("releases", nargs=-1, metavar="[RELEASE]…")
@only_option
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_FOLDER, metavar="DIR",
    show_default=True, help="Where answers go one by one; a run that was stopped goes on from there.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Ask what has a recorded answer as well.")
@click.option(
    "--check", "only_check", is_flag=True, help="Ask everything again, and fail where the recorded answers differ."
)
@click.option("--container", "contained", is_flag=True, help="Brokers in containers, from images that `build` made.")
@root_option
@json_option
def record_command(
    releases: tuple[str, ...],
    only: tuple[str, ...],
    folder: Path,
    again: bool,
    only_check: bool,
    contained: bool,
    root: Path | None,
    as_json: bool,
) -> NoReturn:
    """Ask each RELEASE, or all, every case of the corpus that has no recorded answer of it, and record the answers."""
    # SIGTERM is ctrl-C by other means: what was earned is kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run = _Run(_cases(only), root or package_root(), folder, again or only_check, only_check, _starter(contained))
    click.get_current_context().with_resource(reserved(folder, hint="--dir DIR writes into another directory"))
    if root is None and not only_check:
        need_own_sources("kafkaproof broker record", "--root DIR writes into a copy, --check only compares")
    code, said = OK, []
    try:
        for release in [find_release(name).name for name in releases] or [each.name for each in RELEASES]:
            said.append(run.release(release))
            if not as_json:
                _print_answers(said[-1])
    except NoBroker as error:
        click.echo(str(error), err=True)
        code = CANNOT_RUN
    except KeyboardInterrupt:
        click.echo(f"stopped; what was earned is in {folder}, the same command goes on with it", err=True)
        code = INTERRUPTED
    if as_json:
        say_json({"releases": said})
    sys.exit(code or (DISAGREEMENTS if any(each["differing"] for each in said) else OK))


def _cases(only: Sequence[str]) -> list[Case]:
    corpus = load_vectors()
    if problem := unmatched_pattern(corpus, only):
        raise click.UsageError(f"--only: {problem}; kafkaproof corpus list shows them")
    return select(corpus, only)


def _starter(contained: bool) -> Callable[..., JvmBroker]:
    from kafka_brokers import container, jvm

    return container.start_container if contained else jvm.start_jvm


class _Run:
    """One call of the command."""

    def __init__(
        self,
        cases: Sequence[Case],
        root: Path,
        folder: Path,
        everything: bool,
        only_check: bool,
        start: Callable[..., JvmBroker],
    ) -> None:
        self._cases = cases
        self._root = root
        self._folder = folder / "check" if only_check else folder
        self._everything = everything
        self._only_check = only_check
        self._start = start

    def release(self, release: str) -> dict[str, Any]:
        """Ask one release; what came of it."""
        recorded = evidence.load_evidence(self._root)
        concerned = list(answer_recorder.scenario_requests(self._cases, release))
        requests = concerned if self._everything else answer_recorder.unanswered(concerned, recorded, release)
        lines = replay_cases(release, requests, self._folder, self._start) if requests else {}
        skipped = sorted(line.id for line in lines.values() if line.skipped)
        ended = sorted(line.id for line in lines.values() if any(step.ended for step in line.steps))
        differing = answer_recorder.differing(recorded, release, requests, lines) if self._only_check else []
        if not self._only_check:
            evidence.write_evidence(answer_recorder.merged(recorded, release, requests, lines), self._root)
        # The file of answers is done with once they are recorded or compared.
        answer_recorder.answer_file_of(self._folder, release).path.unlink(missing_ok=True)
        return {
            "release": release,
            "cases": len(concerned),
            "sent": len(requests),
            "skipped": skipped,
            "ended": ended,
            "differing": [{"case": change.id, "what": change.what} for change in differing],
        }


def _print_answers(said: dict[str, Any]) -> None:
    click.echo(f"{said['release']}: {said['sent']:,} of {said['cases']:,} cases sent")
    for what, ids in (("cannot be sent", said["skipped"]), ("ended the broker", said["ended"])):
        if ids:
            click.echo(f"  {len(ids):,} {what}: {', '.join(ids[:5])}{' …' if len(ids) > 5 else ''}")
    for each in said["differing"][:MOST_SHOWN]:
        click.echo(f"  {each['case']}: {each['what']}")


@click.command("compare")
@click.argument("old")
@click.argument("new")
@only_option
@root_option
@json_option
def compare_command(old: str, new: str, only: tuple[str, ...], root: Path | None, as_json: bool) -> NoReturn:
    """Show the cases that release NEW answers differently from release OLD, from the recorded answers."""
    recorded = evidence.load_evidence(root or package_root())
    known = brokers.recorded_releases(recorded)
    for name in (old, new):
        if name not in known:
            raise click.UsageError(f"nothing is recorded of {name}; there are {', '.join(sorted(known)) or 'none'}")
    found = list(answer_recorder.changes(recorded, old, new, [case.id for case in _cases(only)]))
    if as_json:
        say_json({"old": old, "new": new, "changes": [{"case": each.id, "what": each.what} for each in found]})
    else:
        for each in found:
            click.echo(f"{each.id}: {each.what}")
        click.echo(f"{len(found):,} cases changed from {old} to {new}")
    sys.exit(DISAGREEMENTS if found else OK)
