"""`kafkaproof certify`: run the corpus against codecs and judge their answers."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import click

from kafka_brokers.progress import Progress, progress_of
from kafka_brokers.releases import SUPPORTED, BadRangeError, SupportedReleases, parse_supported
from kafka_conformance.edges.relay import RECORD_CHANGES
from kafka_conformance.judge.grade import PROFILES
from kafka_conformance.reports import summary, terminal
from kafka_conformance.reports.certificate import ORIGINS, SELF
from kafka_conformance.reports.collection import folder_name
from kafka_conformance.reports.profiles import PassCriteria, finding_causes
from kafka_conformance.reports.summary import Report
from kafka_conformance.runner import bisect, deviations, keeping, results
from kafka_conformance.runner.fetch_versions import (
    BadVersions,
    ClientByVersion,
    check_covers_versions,
    compare_versions,
    parse_versions,
    steady_versions,
    version_cases,
    versions_document,
    versions_lines,
    with_versions,
    write_version_column,
    write_versions,
)
from kafka_conformance.runner.history import History, check_covers_history, history, history_document, history_lines
from kafka_conformance.runner.keeping import DEFAULT_HELP
from kafka_conformance.runner.requests import select, unmatched_pattern
from kafka_conformance.runner.results import Results
from kafka_conformance.runner.run import Interrupted, Outcome, ParallelRuns, RunPlan, run
from kafka_conformance.sanitize import indented_json, printable
from kafka_conformance.testees.connection import MIB, BadConnect, CannotRun, HelloRefused
from kafka_conformance.testees.known import (
    OURS,
    KnownTestee,
    check_connect,
    connect,
    find_testee,
    known_testees,
    split_version,
    testee_at,
)
from kafka_conformance.testees.published import newest, releases
from kafka_corpus.case import Case
from kafka_corpus.known_issues import BadIssueList
from kafka_corpus.vector_format import CODEC_OPS
from kafka_corpus.vectors import corpus_hash, load_vectors
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, INTERRUPTED, OK, say_json
from kafkaproof.commands.edges import ProxySettings, certify_proxy

# With more testees than this the tables of each stay in their files.
MOST_TABLES: Final = 3
# Cases of which a whole run sends a variant, too.
VARIANTS: Final = 300


@dataclass(frozen=True, slots=True)
class CertifySettings:
    """Options of the command line."""

    only: tuple[str, ...]
    folder: Path
    declared: tuple[deviations.Deviation, ...]
    jobs: int
    formats: tuple[str, ...]
    memory: int | None
    resume: bool
    as_json: bool
    draft: Path | None = None
    areas: bool = False
    variants: int = 0
    seed: str = ""
    origin: str = SELF
    profiles: tuple[str, ...] = ()
    strict: bool = False
    supported: SupportedReleases = SUPPORTED
    per_group: int | None = None

    @property
    def criteria(self) -> PassCriteria:
        """The conditions for exit code 0."""
        return PassCriteria(self.profiles, self.strict, self.supported)


@dataclass(frozen=True, slots=True)
class CertifyOutcome:
    """How it went with one testee.

    Attributes:
        name: as given on the command line.
        document: what JSON says of it.
        code: the exit code that it alone would have; `CANNOT_RUN` if it was not run.
        made: its report, if it came to its end.
        refused: whether the testee itself said that it cannot be run so.
    """

    name: str
    document: dict[str, Any]
    code: int
    made: Report | None = None
    refused: bool = False

    @property
    def why(self) -> str:
        """Why it was not run, or not to its end."""
        return str(self.document.get("error", ""))


def certify_several(names: Sequence[str], cases: Sequence[Case], settings: CertifySettings) -> list[CertifyOutcome]:
    """Run all of *names*, write what they amount to, show it; in the order of *names*.

    One that cannot be run is among them, with the reason.
    """
    if len(names) > 1:
        from kafka_conformance.reports.output import check_together

        with _usage_errors():
            check_together(names, settings.formats, settings.folder)
    done: dict[str, CertifyOutcome] = {}
    with progress_of(names) as on_progress, ExitStack() as locks:
        plans = {
            name: plan
            for name in dict.fromkeys(names)
            if (plan := _plan(name, cases, settings, on_progress(name), done, locks))
        }
        planned = list(plans)
        together = ParallelRuns(list(plans.values()), settings.jobs)
        with _interruptible(together.stop):
            for at, outcome in together.outcomes():
                done[planned[at]] = _ended(planned[at], plans[planned[at]], outcome, settings, together)
    ordered = [done[name] for name in dict.fromkeys(names)]
    _write_together(ordered, settings)
    if not settings.as_json:
        _show(ordered, settings)
    return ordered


def exit_code(done: Sequence[CertifyOutcome], *, lenient: bool) -> int:
    """The worst of all; if *lenient*, testees that cannot run here count only if none can run."""
    codes = [each.code for each in done]
    ran = [code for code in codes if code != CANNOT_RUN]
    return max(ran if lenient and ran else codes, default=CANNOT_RUN)


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Show a result that would be replaced as an error of usage."""
    try:
        yield
    except keeping.WouldReplace as error:
        raise click.UsageError(str(error)) from error


def _plan(
    name: str,
    cases: Sequence[Case],
    settings: CertifySettings,
    on_progress: Progress,
    done: dict[str, CertifyOutcome],
    locks: ExitStack,
) -> RunPlan | None:
    """The run of testee *name*, its folder reserved in *locks*; if it cannot run, None, and *done* has the reason."""
    path = settings.folder / folder_name(name) / results.FILE
    memory = None if settings.memory is None else settings.memory * MIB
    try:
        connection = connect(name, memory=memory)
        with _usage_errors():
            keeping.check_covers_result(path, settings.only, len(cases))
        locks.enter_context(keeping.reserved(path.parent))
    except (CannotRun, OSError) as error:
        done[name] = _cannot_run(name, error)
        return None
    if not settings.resume:
        _keep_what_was_earned(path)
    return RunPlan(
        connection=connection,
        cases=cases,
        corpus=corpus_hash(),
        path=path,
        only=settings.only,
        resume=settings.resume,
        progress=on_progress,
        seed=settings.seed,
        variants=settings.variants,
        settings={"origin": settings.origin, "date": datetime.now(UTC).date().isoformat()},
    )


def _ended(
    name: str, plan: RunPlan, outcome: Outcome, settings: CertifySettings, together: ParallelRuns
) -> CertifyOutcome:
    match outcome:
        case results.Results():
            made = summary.make(outcome, plan.cases, settings.declared, plan.path, settings.criteria)
            write_report(made, settings.formats, plan.path.parent)
            _write_draft(made, settings)
            return CertifyOutcome(name, summary.report_document(made), OK if made.passes else DISAGREEMENTS, made)
        case Interrupted():
            return _stopped(name, plan.path, outcome)
        case CannotRun() | OSError():
            return _cannot_run(name, outcome)
        case results.Unusable():
            together.stop()
            raise click.UsageError(f"--resume: {outcome}") from outcome
    raise outcome


@contextmanager
def _interruptible(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM do *stop*, so that what was earned is kept; the second time they end everything."""
    signals = (signal.SIGINT, signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(_number: int, _frame: FrameType | None) -> None:
        for each in signals:
            signal.signal(each, signal.default_int_handler)
        stop()

    before = [signal.signal(each, first) for each in signals]
    try:
        yield
    finally:
        for each, handler in zip(signals, before, strict=True):
            signal.signal(each, handler)


def _keep_what_was_earned(path: Path) -> None:
    """Move an incomplete result aside: somebody may have meant `--resume`."""
    try:
        incomplete = path.exists() and not results.read_results(path).complete
    except results.Unusable:
        incomplete = False
    if incomplete:
        aside = path.with_name(f"incomplete-{path.name}")
        path.replace(aside)
        click.echo(f"an incomplete result was there: now {aside}; --resume would have gone on with it", err=True)


# The certificate of a testee that did not come to its end.
_NOTHING: Final[dict[str, Any]] = {"passes": False, "certified": False, "certified_for": []}


def _cannot_run(name: str, error: CannotRun | OSError) -> CertifyOutcome:
    hint = getattr(error, "hint", "")
    text = printable(str(error), 2000)
    click.echo(f"{text}\n  hint: {hint}" if hint else text, err=True)
    document = {"testee": {"connect": name}, "error": text, "hint": hint, "agrees": False, **_NOTHING}
    code = getattr(error, "exit_code", CANNOT_RUN)
    return CertifyOutcome(name, document, code, refused=isinstance(error, HelloRefused))


def _stopped(name: str, path: Path, stopped: Interrupted) -> CertifyOutcome:
    click.echo(f"{name}: {stopped}; what was earned is in {path}, --resume goes on with it", err=True)
    if (before := results.previous_result(path)).exists():
        click.echo(f"{name}: the complete result from before is {before}", err=True)
    counts = results.read_results(path).counts() if path.exists() else {}
    document = {"testee": {"connect": name}, "complete": False, "agrees": False, **_NOTHING, "counts": counts}
    return CertifyOutcome(name, document | {"error": str(stopped), "result": str(path)}, INTERRUPTED)


def _write_draft(made: Report, settings: CertifySettings) -> None:
    if settings.draft:
        causes = finding_causes(made.results, made.cases, made.criteria.supported)
        text = deviations.draft_deviations(made.results.lines, settings.declared, causes)
        settings.draft.write_text(text, encoding="utf-8")
        click.echo(f"all causes are declared in {settings.draft}; now say there why each is tolerable", err=True)


def write_report(made: Report, formats: Sequence[str], folder: Path) -> None:
    """Write the requested formats into *folder*."""
    terminal.write_summary(made, folder / "summary.txt")
    if formats:
        # The page needs a template engine, a plain run does not.
        from kafka_conformance.reports.output import write_formats

        write_formats(made, formats, folder)


def _write_together(done: Sequence[CertifyOutcome], settings: CertifySettings) -> None:
    """Several testees in one matrix, beside the directories of each."""
    made = [each.made for each in done if each.made]
    if len(done) > 1 and made:
        from kafka_conformance.reports.output import write_together

        not_run = {each.name: each.why for each in done if each.made is None and each.code != INTERRUPTED}
        write_together(made, settings.formats, settings.folder, not_run)


def _show(done: Sequence[CertifyOutcome], settings: CertifySettings) -> None:
    made = [each.made for each in done if each.made]
    if len(made) <= MOST_TABLES:
        for each in made:
            terminal.show_result(each, terminal.console(), details=settings.areas or bool(settings.only))
    if len(done) > 1 and made:
        not_run = {each.name: _reason(each) for each in done if each.made is None}
        terminal.show_together(made, not_run, settings.folder, terminal.console())


def _reason(done: CertifyOutcome) -> str:
    """Why a testee was not run, without its name, and the command that changes this where there is one."""
    why, hint = done.why.removeprefix(f"{done.name} cannot run: "), done.document.get("hint", "")
    return f"{why} ({hint})" if hint else why


JSON: Final = "history.json"
PAGE: Final = "history.html"


def certify_history(known: KnownTestee, last: int, cases: Sequence[Case], settings: CertifySettings) -> int:
    """Run the *last* releases of *known*, show and write since when each finding is there; give the exit code."""
    with _usage_errors():
        check_covers_history(settings.folder / JSON, known.name, last)
    latest = newest(known, last)
    done = certify_several([f"{known.name}@{release}" for release in latest], cases, settings)
    made = _history(known.name, latest, done)
    if made.releases:
        _write(made, settings)
    if settings.as_json:
        say_json({"history": history_document(made), "testees": [each.document for each in done]})
    else:
        click.echo()
        click.echo("\n".join(history_lines(made)))
    return exit_code(done, lenient=True)


def _history(name: str, releases: Sequence[str], done: Sequence[CertifyOutcome]) -> History:
    pairs = list(zip(releases, done, strict=True))
    runs = [(release, each.made.results) for release, each in pairs if each.made]
    return history(name, runs, {release: each.why for release, each in pairs if not each.made})


def _write(made: History, settings: CertifySettings) -> None:
    from kafka_conformance.reports.html import history_page

    (settings.folder / JSON).write_bytes(indented_json(history_document(made)))
    (settings.folder / PAGE).write_text(history_page(made), encoding="utf-8")


def certify_versions(
    names: Sequence[str], request: str, versions: Sequence[int], cases: Sequence[Case], settings: CertifySettings
) -> int:
    """Run each client through each version of *request*, show and write what depends on it; give the exit code."""
    for name in names:
        if split_version(name)[2] is not None:
            raise click.UsageError(f"{name} and --{request}-versions both name versions: say one of them")
        _check_name(f"{name}+{request}{versions[0]}")
    path = settings.folder / f"{request}-versions.json"
    with _usage_errors():
        check_covers_versions(path, names, versions)
    cases = version_cases(cases, request, settings.per_group)
    if settings.per_group:
        settings = replace(settings, only=tuple(case.id for case in cases))
    done = certify_several(with_versions(names, request, versions), cases, settings)
    if exit_code(done, lenient=False) == INTERRUPTED:
        return _not_compared(path, done, settings)
    made = compare_versions(_results_by_name(done))
    if differing := [case for case in cases if any(case.id in client.differing for client in made)]:
        clients = [name for each in made if each.differing for name in with_versions([each.name], request, each.spoken)]
        ids, again = tuple(case.id for case in differing), settings.folder / "again"
        second = replace(settings, folder=again, only=ids, formats=(), resume=False, variants=0, as_json=True)
        confirmed = certify_several(clients, differing, second)
        if exit_code(confirmed, lenient=False) == INTERRUPTED:
            return _not_compared(path, done, settings)
        made = steady_versions(made, _results_by_name(confirmed))
    written = write_versions(path, made)
    for client in made:
        if client in written:
            _write_version_edges(client, done, settings.folder)
        else:
            click.echo(f"{client.name}: the comparison from before stays in {path}", err=True)
    if settings.as_json:
        say_json({f"{request}_versions": versions_document(made), "testees": [each.document for each in done]})
    else:
        click.echo()
        click.echo("\n".join(versions_lines(made)))
    return exit_code(counting_versions(done, made), lenient=False)


def _not_compared(path: Path, done: Sequence[CertifyOutcome], settings: CertifySettings) -> int:
    """Say that a stopped run compares nothing and leaves *path* as it is; give the exit code."""
    click.echo("the versions are not compared" + (f"; {path} is of an earlier run" if path.exists() else ""), err=True)
    if settings.as_json:
        say_json({"testees": [each.document for each in done]})
    return INTERRUPTED


def _results_by_name(done: Sequence[CertifyOutcome]) -> list[tuple[str, Results | None]]:
    return [(each.name, each.made.results if each.made else None) for each in done]


def _write_version_edges(client: ClientByVersion, done: Sequence[CertifyOutcome], folder: Path) -> None:
    """Write the comparison of one client as a column of the table of edges."""
    named = {split_version(each.name): each for each in done}
    own = {version: each for version in client.versions if (each := named.get((client.name, client.request, version)))}
    ran = {version: each.made for version, each in own.items() if each.made}
    if not ran:
        return
    grades = {
        version: {found.line.case: found.graded.grade for found in made.profiled.findings}
        for version, made in ran.items()
    }
    whys = {version: each.why for version, each in own.items() if each.made is None}
    write_version_column(folder, client, str(next(iter(ran.values())).results.header.testee["version"]), grades, whys)


def counting_versions(done: Sequence[CertifyOutcome], clients: Sequence[ClientByVersion]) -> list[CertifyOutcome]:
    """The outcomes that decide the exit code.

    A version that a client does not speak, or in which no chosen case is sent, is no failure if another one ran.
    """
    by_name = {each.name: each for each in clients}
    counting = []
    for each in done:
        name, _, version = split_version(each.name)
        client = by_name[name]
        silent = version is not None and not client.compared[version] and (each.refused or each.made is not None)
        if not (silent and client.spoken):
            counting.append(each)
    return counting


# Below the directory of results: a file for each codec and case, with a line for each release that was run.
BISECTIONS: Final = "bisect"


def certify_bisect(
    known: KnownTestee, case: Case, ends: tuple[str | None, str | None], settings: CertifySettings
) -> int:
    """Find and show the releases of *known* between *ends* that get *case* wrong; give the exit code."""
    try:
        bisect.between((), *ends)  # a wrong range is refused before the registry is read
    except ValueError as error:
        raise click.UsageError(f"--from, --to: {error}") from error
    path = settings.folder / BISECTIONS / folder_name(known.name) / f"{folder_name(case.id)}.ndjson"
    earlier = bisect.read_outcomes(path, corpus_hash())

    def outcome(release: str) -> bisect.ReleaseOutcome:
        if (found := earlier.get(release)) is None:
            found = _release_outcome(known.name, release, case, settings)
            bisect.append_outcome(path, found)
        click.echo(f"{known.name}@{release}: {found.outcome or f'not run: {found.why}'}", err=True)
        return found

    try:
        with _interruptible(_interrupt):
            published = bisect.between(releases(known), *ends)
            found = list(bisect.bisect(published, outcome))
    except CannotRun as error:
        click.echo(printable(str(error), 2000), err=True)
        return CANNOT_RUN
    except (Interrupted, KeyboardInterrupt):
        click.echo(f"stopped; the same command goes on with what is in {path}", err=True)
        return INTERRUPTED
    made = bisect.bisection(known.name, case.id, published, found)
    if settings.as_json:
        say_json(bisect.bisection_document(made))
    else:
        click.echo("\n".join(bisect.bisection_lines(made)))
    return OK if any(each.state != "unknown" for each in found) else CANNOT_RUN


def _interrupt() -> NoReturn:
    """End what runs now, and remove its temporary folder, as Ctrl-C does."""
    raise KeyboardInterrupt


def _release_outcome(name: str, release: str, case: Case, settings: CertifySettings) -> bisect.ReleaseOutcome:
    """The outcome of *case* in *release* of the codec *name*, or why it was not run."""
    corpus = corpus_hash()
    memory = None if settings.memory is None else settings.memory * MIB
    plain = corpus_cases((bisect.PLAIN_CASE,)) if case.op == "decode" and case.id != bisect.PLAIN_CASE else []
    cases = [case, *plain]
    try:
        connection = connect(testee_at(name, release), memory=memory)
        with tempfile.TemporaryDirectory(prefix="kafkaproof-bisect-") as folder:
            path = Path(folder) / results.FILE
            plan = RunPlan(
                connection=connection, cases=cases, corpus=corpus, path=path, only=[case.id], known_variation=False
            )
            done = run(plan)
    except (CannotRun, BadConnect, OSError) as error:
        return bisect.ReleaseOutcome(release=release, why=printable(str(error), 500), corpus=corpus)
    return bisect.release_outcome(release, case.id, done)


PROXY: Final = "proxy:"
# The parameters of the command that a proxy takes.
PROXY_OPTIONS: Final = frozenset({"testees", "only", "folder", "upstream", "allow", "as_json"})
COMMANDLINE: Final = click.core.ParameterSource.COMMANDLINE


def _one_proxy(testees: Sequence[str], settings: ProxySettings) -> str | None:
    """The proxy that is to be certified; None if it is something else."""
    if not (settings.upstream or settings.allow or any(name.startswith(PROXY) for name in testees)):
        return None
    if len(testees) != 1 or not testees[0].startswith(PROXY):
        raise click.UsageError("proxies are certified one at a time; --upstream and --allow are for them")
    context = click.get_current_context()
    given = [
        each.opts[0]
        for each in context.command.params
        if each.name not in PROXY_OPTIONS and context.get_parameter_source(str(each.name)) is COMMANDLINE
    ]
    if given:
        raise click.UsageError(f"{', '.join(given)}: without effect for a proxy")
    return testees[0].removeprefix(PROXY)


FORMATS: Final = ("html", "json", "junit", "sarif", "badge", "markdown")


def name_list_parser(formats: Sequence[str]) -> Callable[[click.Context, click.Parameter, str], tuple[str, ...]]:
    """A click callback that parses `--format`: names of *formats* separated by commas."""

    def read(_ctx: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in text.split(",") if name.strip())
        for name in names:
            if name not in formats:
                raise click.BadParameter(f"{name!r} is none of {', '.join(formats)}")
        return names

    return read


def _declared(_ctx: click.Context, _parameter: click.Parameter, path: Path | None) -> tuple[deviations.Deviation, ...]:
    try:
        return () if path is None else deviations.load_deviations(path)
    except BadIssueList as error:
        raise click.BadParameter(str(error)) from error


declared_option = click.option(
    "--deviations", "declared", type=click.Path(path_type=Path, dir_okay=False), callback=_declared, metavar="FILE",
    help="Known deviations (TOML); strict, one that no longer happens fails the run.",
)  # fmt: skip


def _supported(_ctx: click.Context, _parameter: click.Parameter, text: str) -> SupportedReleases:
    try:
        return parse_supported(text)
    except BadRangeError as error:
        raise click.BadParameter(str(error)) from error


def _versions(_ctx: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...]:
    try:
        return () if text is None else parse_versions(str(parameter.name).partition("_")[0], text)
    except BadVersions as error:
        raise click.BadParameter(str(error)) from error


supported_option = click.option(
    "--supported", default=str(SUPPORTED), show_default=True, callback=_supported, metavar="RANGE",
    help="Kafka releases that count as supported: what they store reaches consumers.",
)  # fmt: skip
formats_option = click.option(
    "--format",
    "formats",
    callback=name_list_parser(FORMATS),
    default="json",
    metavar="NAME,…",
    help=f"{', '.join(FORMATS)}.",
)


@click.command("certify")
@click.argument("testees", nargs=-1, metavar="TESTEE…")
@click.option("--all", "everything", is_flag=True, help="Every known testee that can run here.")
@click.option(
    "--history", "last", type=click.IntRange(min=1), metavar="N",
    help="The last N releases of one known testee: since when is each finding there?",
)  # fmt: skip
@click.option(
    "--fetch-versions", callback=_versions, metavar="N,…",
    help="Send each case to a client through each of these Fetch versions: which outcomes depend on it?",
)  # fmt: skip
@click.option(
    "--produce-versions", callback=_versions, metavar="N,…",
    help="Have a client produce each batch through each of these Produce versions: which bytes depend on it?",
)  # fmt: skip
@click.option(
    "--per-group", type=click.IntRange(min=1), metavar="N",
    help="With --fetch-versions or --produce-versions: N cases of each area, format and verdict.",
)  # fmt: skip
@click.option(
    "--bisect", "bisected", metavar="CASE",
    help="The first and the last release of one known testee that gets CASE wrong.",
)  # fmt: skip
@click.option("--from", "first", metavar="VERSION", help="With --bisect: the oldest release.  [default: all]")
@click.option("--to", "latest", metavar="VERSION", help="With --bisect: the newest release.  [default: all]")
@click.option("--only", multiple=True, metavar="GLOB", help="Cases by id, area or rule; may be repeated.")
@click.option(
    "--report", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", show_default=DEFAULT_HELP,
    help="Where results go, one directory for each testee.",
)  # fmt: skip
@declared_option
@click.option(
    "--write-deviations", "draft", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write all findings into FILE as known deviations, to start from.",
)  # fmt: skip
@click.option(
    "--profile", "profiles", type=click.Choice(PROFILES), multiple=True,
    help="A profile that decides the exit code; may be repeated.  [default: those that the codec announces]",
)  # fmt: skip
@click.option(
    "--variants", type=click.IntRange(min=0), metavar="N",
    help="Cases that are sent with other numbers and texts, too.  [default: 300; of a part none]",
)  # fmt: skip
@click.option("--seed", metavar="TEXT", help="What the variants are drawn from, to repeat a run.  [default: random]")
@click.option(
    "--origin", type=click.Choice(list(ORIGINS)), default=SELF, show_default=True,
    help="Who runs it, for the certificate: its author, a CI that reruns what was submitted, or Kafkaproof.",
)  # fmt: skip
@click.option("--areas", is_flag=True, help="Also print all causes, the table by area, and findings.")
@click.option("--strict", is_flag=True, help="Exit with 1 for NON_STRICT causes, too.")
@supported_option
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Testees at work at once.  [default: processors]")
@formats_option
@click.option("--memory", type=click.IntRange(min=64), metavar="MIB", help="Resident memory that a testee may take.")
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped.")
@click.option(
    "--upstream", default="", metavar="HOST:PORT",
    help="With proxy:HOST:PORT: where that proxy expects its broker; it is played there.",
)  # fmt: skip
@click.option(
    "--allow", callback=name_list_parser(RECORD_CHANGES), default="", metavar="NAME,…",
    help=f"With proxy: changes of records that it is meant to make: {', '.join(RECORD_CHANGES)}.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the table.")
def certify_testees(
    testees: tuple[str, ...], everything: bool, last: int | None, folder: Path | None, jobs: int | None, as_json: bool,
    variants: int | None, seed: str | None, fetch_versions: tuple[int, ...], produce_versions: tuple[int, ...],
    bisected: str | None, first: str | None, latest: str | None, upstream: str, allow: tuple[str, ...], **options: Any,
) -> NoReturn:  # fmt: skip
    """Run the corpus against each TESTEE and judge the answers.

    A TESTEE is a known name (kafkaproof testees), direct:MODULE,
    process:COMMAND LINE, container:IMAGE, or fetch:COMMAND LINE for a client
    that consumes.  Several run side by side.  proxy:HOST:PORT, proxy:COMMAND LINE
    with {upstream} and {listen}, and proxy:NAME are proxies, one at a time.

    The exit code is 1 if a profile fails: kafkaproof explain --grade shows which
    findings count.
    """
    folder = keeping.result_directory(folder, part=bool(part := options["only"] or options["per_group"] or bisected))
    proxy = ProxySettings(upstream, allow, options["only"])
    if (what := _one_proxy(testees, proxy)) is not None:
        sys.exit(certify_proxy(what, folder, proxy, as_json=as_json))
    if variants is None:
        variants = VARIANTS if seed or not part else 0
    settings = CertifySettings(
        folder=folder,
        jobs=jobs or os.cpu_count() or 1,
        as_json=as_json,
        variants=variants,
        seed=(seed or secrets.token_hex(8)) if variants else "",
        **options,
    )
    if everything == bool(testees):
        raise click.UsageError("say which testees to certify, or --all")
    request, versions = _request_versions(fetch_versions, produce_versions)
    if settings.draft:
        _check_draft(settings, settings.draft, one_run=len(testees) == 1 and not versions)
    _check_modes(settings, bisected=bisected is not None, history=last is not None, versions=request)
    if any(each is not None for each in (first, latest, bisected)):
        case = _one_case(bisected)
        sys.exit(certify_bisect(_one_known(testees, "--bisect"), case, (first, latest), settings))
    cases = corpus_cases(settings.only)
    for name in testees:
        _check_name(name)
    if last is not None:
        sys.exit(certify_history(_one_known(testees, "--history"), last, cases, settings))
    if request:
        clients = list(testees) or [known.name for known in known_testees() if known.fetches]
        sys.exit(certify_versions(clients, request, versions, cases, settings))
    done = certify_several(list(testees) or [known.name for known in known_testees()], cases, settings)
    if as_json:
        say_json({"testees": [each.document for each in done]})
    sys.exit(exit_code(done, lenient=everything))


def _check_draft(settings: CertifySettings, draft: Path, *, one_run: bool) -> None:
    """Refuse a draft of known deviations of several runs, or one that a part of a run would replace."""
    if not one_run:
        raise click.UsageError("--write-deviations is for one run of one testee")
    if settings.only and draft.exists():
        raise click.UsageError(f"--write-deviations: {draft} is there, and --only sees only a part of it")


def _request_versions(fetch: tuple[int, ...], produce: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """The request whose versions are compared, and the versions; both empty for a plain run."""
    if fetch and produce:
        raise click.UsageError("--fetch-versions and --produce-versions are two runs: take one of them")
    return ("produce", produce) if produce else ("fetch" if fetch else "", fetch)


def _check_modes(settings: CertifySettings, *, bisected: bool, history: bool, versions: str) -> None:
    """Refuse options that exclude each other: `--bisect`, `--history`, and the request of *versions*."""
    if bisected and (settings.only or history):
        raise click.UsageError("--bisect is for one case: neither --only nor --history goes with it")
    if settings.per_group and not versions:
        raise click.UsageError("--per-group goes with --fetch-versions or --produce-versions")
    option = "--bisect" if bisected else "--history"
    if versions and (bisected or history):
        raise click.UsageError(f"{option} compares releases, --{versions}-versions compares versions: take one of them")
    if settings.draft and (bisected or history):
        raise click.UsageError(f"--write-deviations is for one run, and {option} runs several releases")


def _one_case(bisected: str | None) -> Case:
    """The case that `--bisect` names."""
    if bisected is None:
        raise click.UsageError("--from and --to go with --bisect")
    cases = corpus_cases((bisected,), option="--bisect")
    if len(cases) != 1:
        raise click.UsageError(f"--bisect takes one case, and {bisected!r} is {len(cases):,}")
    return cases[0]


def _one_known(testees: tuple[str, ...], option: str) -> KnownTestee:
    """The testee that *option* takes, named without a release, a version of a request or a scheme."""
    for name in testees:
        _check_name(name)
    name = testees[0] if len(testees) == 1 else ""
    is_plain = name and not {":", "@"} & set(name) and split_version(name)[2] is None
    known = find_testee(name) if is_plain else None
    if known is None or (known.module and known.distribution == OURS):
        raise click.UsageError(f"{option} takes the name of one known testee that has releases")
    return known


def _check_name(name: str) -> None:
    """Refuse an unknown name at once; a testee that cannot run here is reported later."""
    try:
        check_connect(name)
    except BadConnect as error:
        raise click.UsageError(str(error)) from error


def corpus_cases(only: Sequence[str] = (), *, option: str = "--only") -> list[Case]:
    """The cases for codecs that *only*, the patterns of *option*, chooses; exit code 2 or 3 if there are none."""
    try:
        corpus = load_vectors(ops=(*CODEC_OPS, "append"))
    except (OSError, ValueError) as error:
        click.echo(f"the corpus cannot be read: {error}", err=True)
        sys.exit(CANNOT_RUN)
    if problem := unmatched_pattern(corpus, only):
        raise click.UsageError(f"{option}: {problem}; kafkaproof corpus list shows them")
    cases = select(corpus, only)
    gc.freeze()  # cases live until the end; the garbage collector need not scan them
    return cases
