"""`kafkaproof programme`: submissions of certificates are checked, run again and listed."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from kafka_brokers.releases import SUPPORTED, SupportedReleases
from kafka_conformance.causes import library_of
from kafka_conformance.dossiers.folder import Disclosure, embargoed_pages, load_disclosures
from kafka_conformance.reports import certificate, programme
from kafka_conformance.reports.programme import BadSubmission, ReleaseState, Submission, SubmittedRelease
from kafka_conformance.runner import results
from kafka_conformance.runner.deviations import Deviation
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.connection import BadConnect
from kafka_conformance.testees.known import find_testee
from kafka_conformance.testees.published import newest
from kafka_corpus.known_issues import BadIssueList
from kafka_corpus.vector_format import CORPUS_VERSION
from kafka_corpus.vectors import corpus_hash
from kafkaproof.cli import DISAGREEMENTS, OK, say_json
from kafkaproof.commands.certify import VARIANTS, CertifyOutcome, CertifySettings, certify_several, corpus_cases

SUBMISSIONS: Final = "programme/submissions"
RERUN: Final = "kafkaproof-rerun"
CI: Final = "ci"

submission_file = click.Path(path_type=Path, exists=True, dir_okay=False)


def _day(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> datetime:
    now = datetime.now(UTC)
    if text is None:
        return now
    if not certificate.is_day(text):
        raise click.BadParameter(f"{printable(text, 40)!r} is no day, as in {now.date()}")
    return datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC)


now_option = click.option(
    "--now", callback=_day, metavar="DATE", help="The day on which it is checked.  [default: today, in UTC]"
)
rerun_folder_option = click.option(
    "--report", "folder", type=click.Path(path_type=Path, file_okay=False), default=RERUN, show_default=True,
    metavar="DIR", help="Where the result and certificate of the re-run go.",
)  # fmt: skip
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def certify_again(
    connect: str,
    folder: Path,
    *,
    origin: str,
    declared: tuple[Deviation, ...] = (),
    supported: SupportedReleases = SUPPORTED,
) -> CertifyOutcome:
    """Certify *connect* over the whole corpus, with variants from a new seed; write result and certificate."""
    settings = CertifySettings(
        only=(),
        folder=folder,
        declared=declared,
        jobs=os.cpu_count() or 1,
        formats=("json",),
        memory=None,
        resume=False,
        as_json=True,
        variants=VARIANTS,
        seed=secrets.token_hex(8),
        origin=origin,
        supported=supported,
    )
    (done,) = certify_several([connect], corpus_cases(), settings)
    if done.made is not None:
        content = certificate.statement(done.made, results.FILE)
        done.made.path.with_name(certificate.FILE).write_bytes(certificate.encode_certificate(content))
    return done


@click.group("programme")
def programme_group() -> None:
    """Certificates of projects: check a submission, run it again, list what is current."""


@programme_group.command("check")
@click.argument("files", nargs=-1, type=submission_file, metavar="FILE…", required=True)
@now_option
@json_option
def check_submissions(files: tuple[Path, ...], now: datetime, as_json: bool) -> NoReturn:
    """Check the form of submissions: keys, names, profiles and dates. Nothing is run.

    Exit codes: 0 they can be run again, 1 a release in them has expired, 2 a file has a problem.
    """
    found = _loaded(files, now)
    states = {path: programme.release_states(each, now.date()) for path, each in found.items()}
    expired = any(state.reason for each in states.values() for state in each)
    if as_json:
        say_json({"submissions": [_document(found[path], states[path]) for path in found]})
    else:
        for path, each in found.items():
            click.echo(f"{path}: {each.project}, {_counted(len(each.release), 'release')}")
            for state in states[path]:
                click.echo(f"  {_state_line(state)}")
    sys.exit(DISAGREEMENTS if expired else OK)


def _loaded(files: Sequence[Path], now: datetime) -> dict[Path, Submission]:
    """The submissions in *files*; ends with exit code 2 and a line for each problem in any of them."""
    found, problems = {}, []
    for path in files:
        try:
            found[path] = programme.load_submission(path, now.date())
        except BadSubmission as error:
            problems.append(str(error))
    if problems:
        raise click.UsageError("\n".join(problems))
    return found


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _state_line(state: ReleaseState) -> str:
    given = state.release
    until = state.reason or f"until {state.expires}"
    return f"{given.version:<10} {state.state:<9} {until}; {', '.join(given.profiles)}"


def _document(submission: Submission, states: Sequence[ReleaseState]) -> dict[str, Any]:
    releases = [
        {
            "version": state.release.version,
            "state": state.state,
            "reason": state.reason,
            "date": state.release.date.isoformat(),
            "expires": state.expires.isoformat(),
            "profiles": state.release.profiles,
            "corpus": state.release.corpus,
            "corpus_version": state.release.corpus_version,
        }
        for state in states
    ]
    return {"project": submission.project, "contact": submission.contact, "releases": releases}


@programme_group.command("rerun")
@click.argument("file", type=submission_file)
@click.option("--release", "version", metavar="VERSION", help="This release.  [default: those that have not expired]")
@rerun_folder_option
@now_option
@json_option
def rerun_submission(file: Path, version: str | None, folder: Path, now: datetime, as_json: bool) -> NoReturn:
    """Certify what FILE submits again, with a new seed, and compare with its claims.

    This installs and runs the package, image or testee that FILE names.  The result has the origin "re-run by CI".

    Exit codes: 0 all claims hold, 1 one does not, 2 FILE has a problem, 3 the codec could not be run.
    """
    (submission,) = _loaded([file], now).values()
    states = programme.release_states(submission, now.date())
    chosen = [state for state in states if not state.reason] if version is None else _named(states, version)
    if not chosen:
        click.echo(f"{file}: no release is covered: {'; '.join(f'{_state_line(each)}' for each in states)}", err=True)
        sys.exit(DISAGREEMENTS)
    reruns = [_rerun(submission, state.release, folder, as_json) for state in chosen]
    if as_json:
        say_json({"project": submission.project, "releases": [document for document, _ in reruns]})
    sys.exit(max(code for _, code in reruns))


def _named(states: Sequence[ReleaseState], version: str) -> list[ReleaseState]:
    found = [state for state in states if state.release.version == version]
    if not found:
        known = ", ".join(state.release.version for state in states)
        raise click.UsageError(f"--release: there is no {printable(version, 40)} in the file; it has {known}")
    return found


def _rerun(submission: Submission, claim: SubmittedRelease, folder: Path, as_json: bool) -> tuple[dict[str, Any], int]:
    """Run *claim* again and print the comparison; its document and exit code."""
    try:
        connect = programme.connect_of(submission, claim)
    except BadConnect as error:
        raise click.UsageError(printable(str(error))) from error
    click.echo(f"{submission.project} {claim.version}: certifying {printable(connect, 500)}", err=True)
    done = certify_again(connect, folder, origin=CI)
    if done.made is None:
        return {"version": claim.version, "holds": False, "error": done.why}, done.code
    differences = programme.claim_differences(claim, done.made, corpus_hash())
    variants = None if done.made.results.footer is None else done.made.results.footer.variants
    document = {
        "version": claim.version,
        "holds": not differences,
        "claimed": claim.profiles,
        "passed": list(done.made.certificate.certified_for),
        "reasons": list(done.made.certificate.reasons),
        "corpus": {"claimed": claim.corpus, "run": corpus_hash()},
        "origin": certificate.origin_of(done.made.results),
        "seed": "" if variants is None else variants.seed,
        "differences": differences,
        "result": str(done.made.path),
    }
    if not as_json:
        click.echo("\n".join(_rerun_lines(submission.project, claim, document)))
    return document, DISAGREEMENTS if differences else OK


def _rerun_lines(project: str, claim: SubmittedRelease, document: Mapping[str, Any]) -> Iterator[str]:
    yield f"{project} {claim.version}: {'the claim holds' if document['holds'] else 'the claim does not hold'}"
    yield from (f"  differs   {printable(text)}" for text in document["differences"])
    yield f"  claimed   {', '.join(claim.profiles)}"
    yield f"  passed    {', '.join(document['passed']) or 'no profile'}"
    if not document["holds"]:
        yield from (f"  because   {printable(reason)}" for reason in document["reasons"])
    same = corpus_hash().startswith(claim.corpus)
    yield f"  corpus    {corpus_hash()[:12]}, {'as claimed' if same else f'claimed {claim.corpus[:12]}'}"
    yield f"  seed      {document['seed']}; {document['origin']}"
    yield f"  result    {document['result']}"


@programme_group.command("list")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True), metavar="[PATH…]")
@click.option("--releases", "look_up", is_flag=True, help="Ask the registries which releases are newer.")
@now_option
@json_option
def list_submissions(paths: tuple[Path, ...], look_up: bool, now: datetime, as_json: bool) -> NoReturn:
    """List the certificates of projects: current, previous or expired, and the disclosure dates of their causes.

    PATHs are submissions or folders of them; programme/submissions if none is named.  Newer releases are those of the
    files; with --releases those of the registries count, too.

    Exit codes: 0, 2 a file has a problem, 3 a registry does not answer.
    """
    found = _loaded(_submission_files(paths or (Path(SUBMISSIONS),)), now)
    disclosures = _disclosures()
    documents = []
    for submission in found.values():
        published = _published(submission) if look_up else []
        states = programme.release_states(submission, now.date(), published)
        dated = _dated(submission, disclosures)
        if not as_json:
            click.echo("\n".join(_listing(submission, states, dated, now.date())))
        causes = [{"id": each.id, "state": each.state, **each.dates()} for each in dated]
        documents.append(_document(submission, states) | {"disclosures": causes})
    if as_json:
        say_json({"corpus_version": CORPUS_VERSION, "now": now.date().isoformat(), "projects": documents})
    sys.exit(OK)


def _submission_files(paths: Sequence[Path]) -> list[Path]:
    found = []
    for path in paths:
        found += sorted(path.glob(f"*{programme.SUFFIX}")) if path.is_dir() else [path]
    if not all(path.exists() for path in paths) or not found:
        raise click.UsageError(f"there is no submission in {', '.join(map(str, paths))}")
    return found


def _disclosures() -> Mapping[str, Disclosure]:
    try:
        return load_disclosures()
    except BadIssueList as error:
        raise click.UsageError(printable(str(error))) from error


def _published(submission: Submission) -> list[str]:
    """The last releases of the codec, as its registry lists them; none for a package or an image."""
    known = find_testee(submission.testee) if submission.testee else None
    return [] if known is None else newest(known, programme.COVERED + 1)


def _dated(submission: Submission, disclosures: Mapping[str, Disclosure]) -> list[Disclosure]:
    """The entries with days of the library that *submission* is about."""
    library = library_of(submission.testee or submission.project)
    return [entry for id_, entry in sorted(disclosures.items()) if id_.startswith(f"{library}/") and entry.dates()]


def _listing(
    submission: Submission, states: Sequence[ReleaseState], dated: Sequence[Disclosure], now: date
) -> Iterator[str]:
    yield f"{submission.project}  {submission.contact}"
    yield from (f"  {_state_line(state)}" for state in states)
    for entry in dated:
        over = entry.embargo_end is not None and now >= entry.embargo_end and not entry.is_open
        yield f"  disclosure  {entry.id}: {entry.summary()}{'; the embargo is over' if over else ''}"


@programme_group.command("draft")
@click.argument("path", type=submission_file, metavar="CERTIFICATE")
@click.option("--contact", required=True, metavar="ADDRESS", help="An https address or a mail address of the project.")
@now_option
def draft_command(path: Path, contact: str, now: datetime) -> NoReturn:
    """Print the submission that claims what CERTIFICATE says.

    Exit codes: 0, 1 the certificate is for no profile, 2 usage, or CERTIFICATE was changed or has no date.
    """
    if problem := programme.contact_problem(contact):
        raise click.UsageError(f"--contact: {problem}, not {printable(contact, 80)!r}")
    try:
        content = certificate.load_certificate(path)
    except certificate.BadCertificate as error:
        raise click.UsageError(printable(str(error))) from error
    try:
        text = programme.draft_submission(content, contact, now.date())
    except certificate.BadCertificate as error:
        raise click.UsageError(printable(f"{path}: {error}")) from error
    except BadSubmission as error:
        click.echo(f"{path}: {error}", err=True)
        sys.exit(DISAGREEMENTS)
    click.echo(text, nl=False)
    sys.exit(OK)


@programme_group.command("embargo")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR")
@json_option
def check_embargo(folder: Path, as_json: bool) -> NoReturn:
    """Check that pages in DIR publish no more than a summary of causes that are not disclosed yet.

    Pages are those of `dossier` and `report`.  States and days are those of DIR/disclosure.toml, if there is one,
    else those of Kafkaproof.

    Exit codes: 0 none does, 1 a page does, 2 usage, or there is no such page.
    """
    try:
        found, looked_at = embargoed_pages(folder, load_disclosures(folder))
    except BadIssueList as error:
        raise click.UsageError(printable(str(error))) from error
    if not looked_at:
        raise click.UsageError(f"{printable(str(folder))}: there is no page of report or dossier in it")
    if as_json:
        say_json({"pages": looked_at, "embargoed": [{"page": str(path), "cause": id_} for path, id_ in found]})
    else:
        click.echo(f"{_counted(looked_at, 'page')} of report or dossier looked at; {len(found)} publish too much")
        for path, id_ in found:
            click.echo(f"{path}: {id_} is not disclosed, and the page has its bytes or reproducer")
    sys.exit(DISAGREEMENTS if found else OK)
