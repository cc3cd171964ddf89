"""`kafkaproof report`: results as pages and files, compared with older ones; and certificates checked."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

from kafka_brokers.releases import parse_supported
from kafka_conformance.causes import library_of
from kafka_conformance.dossiers.folder import Disclosure, is_embargoed, load_disclosures
from kafka_conformance.dossiers.grouping import library_row
from kafka_conformance.dossiers.reproduce import finding_program
from kafka_conformance.reports import certificate as statement
from kafka_conformance.reports import cross, edges, output, signature
from kafka_conformance.reports.collection import (
    Collection,
    absent,
    cases_by_id,
    collect,
    corpus_contents,
    counts,
    files,
    read_collection,
)
from kafka_conformance.reports.html import Program, Programs
from kafka_conformance.reports.profiles import GradedFinding
from kafka_conformance.reports.programme import VALID_DAYS, codec_release, expiry
from kafka_conformance.reports.signature import SignerEntry
from kafka_conformance.runner.deviations import Deviation
from kafka_conformance.runner.keeping import reserved
from kafka_conformance.runner.kept_results import read_any_results
from kafka_conformance.runner.results import Results, Unusable, read_limited
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.connection import BadConnect
from kafka_conformance.testees.known import check_connect, find_testee, plain_name, testee_at
from kafkaproof.cli import CANNOT_RUN, DISAGREEMENTS, OK, say_json
from kafkaproof.commands.certify import CertifyOutcome, declared_option
from kafkaproof.commands.programme import RERUN, certify_again, now_option

existing = click.Path(path_type=Path, exists=True)


@click.command("report")
@click.argument("paths", nargs=-1, type=existing, metavar="RESULTS…")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Where it is written.")
@click.option("--baseline", type=existing, metavar="OLD", help="Results from before, to say what is better or worse.")
@click.option(
    "--verify", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
    help="Check a certificate; its result is in the same folder, or is given.",
)  # fmt: skip
@click.option(
    "--signers", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
    help="With --verify: the keys whose signatures count, in OpenSSH's format.",
)  # fmt: skip
@click.option("--rerun", is_flag=True, help="With --verify: certify again here, with other variants.")
@click.option(
    "--testee", metavar="TESTEE", help="With --rerun: what to run, if the certificate names no known release."
)
@click.option(
    "--sign", "key", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="KEY",
    help="With --verify: if it holds, sign it with an OpenSSH Ed25519 key, into FILE.sig.",
)  # fmt: skip
@now_option
@click.option("--full", is_flag=True, help="Include the reproducers of findings that are not disclosed yet.")
@declared_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def report_results(
    paths: tuple[Path, ...],
    out: Path | None,
    baseline: Path | None,
    verify: Path | None,
    signers: Path | None,
    rerun: bool,
    testee: str | None,
    key: Path | None,
    now: datetime,
    full: bool,
    declared: tuple[Deviation, ...],
    as_json: bool,
) -> NoReturn:
    """Write what RESULTS say: a page to look at, JSON, SARIF, JUnit, Markdown, badges and certificates.

    RESULTS are result.ndjson files, or directories as `certify --report` writes them; cross.ndjson of `cross` among
    them, and the tables of `edges`, have pages of their own.  With --baseline, DIR/changes.md has tables of the
    profiles, causes and cases that changed, as a comment on a pull request.

    --verify prints the strongest statement that was checked: consistent (the certificate agrees with itself and its
    result), authentic (a key in --signers signed it, too), or re-run (--rerun: its profiles passed again here).

    Exit codes: 0 it is written or holds, 1 something is worse than before or does not hold, 2 usage, 3 the codec or
    ssh-keygen cannot be run.
    """
    if testee is not None and not rerun:
        raise click.UsageError("--testee goes with --rerun")
    if verify is not None:
        if out or baseline or declared or full:
            raise click.UsageError(
                "--verify goes with nothing but RESULTS, --signers, --rerun, --sign, --now and --json"
            )
        if key is not None and (there := signature.signature_file(verify)).exists():
            raise click.UsageError(f"--sign: {there} is there; move it away first")
        sys.exit(_verify(verify, paths, VerifyOptions(now, signers, key, rerun, testee), as_json))
    if signers or rerun or key:
        raise click.UsageError("--signers, --rerun and --sign go with --verify FILE")
    if not paths or out is None:
        raise click.UsageError("give RESULTS and --out DIR, or --verify FILE")
    try:
        old = () if baseline is None else [read_any_results(path, corpus_contents) for path in files([baseline])]
        crossed = cross.cross_files(paths)
        tables = edges.edge_tables(paths)
        beside = cross.write_cross_files(crossed, out) + edges.write_edges(tables, out)
        plain = _plain(paths, crossed, beside=bool(beside))
        if not plain:
            _print_beside(beside, as_json)
        collection = _collected(plain, declared, old)
        output.check_outputs(collection, out)
    except Unusable as error:
        raise click.UsageError(printable(str(error))) from error
    pages = [path.name for path in beside if path.suffix == ".html"]
    with _file_errors(), reserved(out):
        disclosures = load_disclosures()
        programs = finding_program if full else _disclosed_programs(disclosures)
        stated = {id_: entry.summary() for id_, entry in disclosures.items()}
        written = beside + output.write_outputs(collection, out, pages, programs, stated)
    _print_reports(collection, written, out, as_json)
    sys.exit(DISAGREEMENTS if any(_worse(collection)) else OK)


def _disclosed_programs(disclosures: Mapping[str, Disclosure]) -> Programs:
    """Reproducers, without those of causes that their maintainers have to know first."""

    def program(done: Results, finding: GradedFinding) -> Program | None:
        reviewed = finding.cause.reviewed
        library = library_of(library_row(done).name)
        if reviewed is not None and is_embargoed(disclosures, library, reviewed):
            return None
        return finding_program(done, finding)

    return program


@contextmanager
def _file_errors() -> Iterator[None]:
    """Show a folder that is in use, or cannot be written to, as one line and exit code 3."""
    try:
        yield
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        click.echo(printable(f"{name}{error.strerror or error}", 2000), err=True)
        sys.exit(CANNOT_RUN)


def _plain(paths: Sequence[Path], crossed: Sequence[Path], *, beside: bool) -> list[Path]:
    """Those of *paths* that hold more than cross runs and tables of edges; all if there is nothing *beside*."""
    return [path for path in paths if not beside or (path not in crossed and _has_results(path))]


def _has_results(path: Path) -> bool:
    try:
        return bool(files([path]))
    except Unusable:
        return False


def _print_beside(written: Sequence[Path], as_json: bool) -> NoReturn:
    if as_json:
        say_json({"written": list(map(str, written))})
    else:
        click.echo(f"{len(written)} files; look at {written[0]}")
    sys.exit(OK)


def _collected(paths: Sequence[Path], declared: Sequence[Deviation], old: Sequence[Results]) -> Collection:
    collection = collect(read_collection(paths, declared), old, not_run=absent(paths))
    if old and all(entry.changes is None for entry in collection.entries):
        raise Unusable("--baseline: it is of none of these testees")
    return collection


def _worse(collection: Collection) -> list[bool]:
    return [any(change.kind == "worse" for change in entry.changes or ()) for entry in collection.entries]


def _print_reports(collection: Collection, written: Sequence[Path], out: Path, as_json: bool) -> None:
    if as_json:
        document = output.output_document(collection) | {"written": [str(path) for path in written]}
        say_json(document)
        return
    for entry in collection.entries:
        certificate = entry.report.certificate
        word = f"certified for {', '.join(certificate.certified_for)}" if certificate.certified_for else "not certified"
        click.echo(f"{entry.label} {entry.version}: {word}")
        if entry.changes is not None:
            changes = ", ".join(f"{number:,} {kind}" for kind, number in counts(entry.changes).items() if number)
            click.echo(f"  since the baseline: {changes or 'nothing changed'}")
        why = output.uncertifiable(entry, collection)
        if why:
            click.echo(f"  no certificate is written: {why}", err=True)
    click.echo(f"{len(written)} files; look at {out / 'index.html'}")


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """Checks of a certificate beyond that it is consistent."""

    now: datetime
    signers: Path | None = None
    key: Path | None = None
    rerun: bool = False
    testee: str | None = None
    folder: Path = Path(RERUN)


@dataclass(slots=True)
class VerifiedCertificate:
    """A certificate, and what each check of it says.

    `problems` are those of consistency and age; `unsigned` and `unlike` say why it is not authentic, or not re-run.
    These two are None where that was not checked, and empty where it holds.
    """

    content: Mapping[str, Any]
    name: str
    problems: list[str]
    signer: SignerEntry | None = None
    unsigned: str | None = None
    unlike: list[str] | None = None
    again: CertifyOutcome | None = None

    @property
    def holds(self) -> bool:
        """Whether every check that was made holds."""
        return not self.problems and not self.unsigned and not self.unlike

    @property
    def statement(self) -> str:
        """The strongest statement that holds, `re-run`, `authentic` or `consistent`; else the check that failed."""
        if self.problems:
            return "does not hold"
        if self.unsigned:
            return "not authentic"
        if self.unlike:
            return "not confirmed"
        return "re-run" if self.unlike is not None else "authentic" if self.unsigned is not None else "consistent"


def _verify(path: Path, given: Sequence[Path], options: VerifyOptions, as_json: bool) -> int:
    if len(given) > 1:
        raise click.UsageError("a certificate has one result")
    try:
        data = statement.read_certificate(path)
        content = statement.decode_certificate(data, path)
        result = files(given)[0] if given else statement.result_of(content, path)
        signers = None if options.signers is None else _signers(options.signers)
    except (statement.BadCertificate, Unusable, signature.BadSigners) as error:
        raise click.UsageError(printable(str(error))) from error
    connect = _connect(content, options) if options.rerun else ""
    found = list(statement.problems(content, result, cases_by_id()))
    if not found and (expired := _expired(content, options.now)):
        found = [expired]
    verified = VerifiedCertificate(content, _testee_name(content), found)
    if signers is not None:
        verified.signer, verified.unsigned = _signer(path, data, signers, options.now)
    if options.rerun and not found:
        verified.again, verified.unlike = _rerun(content, connect, options)
    if as_json:
        say_json(_verified_document(verified, path))
    else:
        click.echo("\n".join(_verified_lines(verified, path, options)))
    code = OK if verified.holds else DISAGREEMENTS
    if verified.again is not None and verified.again.made is None:
        code = verified.again.code
    return _sign(path, data, options.key) if options.key is not None and code == OK else code


def _signers(path: Path) -> tuple[SignerEntry, ...]:
    try:
        return signature.parse_signers(read_limited(path, signature.MAX_SIGNERS), str(path))
    except ValueError as error:
        raise signature.BadSigners(str(error)) from error


def _testee_name(content: Mapping[str, Any]) -> str:
    testee = content.get("testee")
    named = testee if isinstance(testee, dict) else {}
    return printable(f"{named.get('name', 'testee')} {named.get('version', '')}", 100)


def _expired(content: Mapping[str, Any], now: datetime) -> str:
    """Why the certificate is too old, not yet of use, or without a date; empty if it is none of these."""
    day = content.get("date")
    if not statement.is_day(day):
        return "it has no date, so it cannot be said to be current"
    made = date.fromisoformat(str(day))
    if made > now.date():
        return f"it is of {day}, and today is {now.date()}"
    return f"it expired on {expiry(made)}, {VALID_DAYS} days after its run" if now.date() >= expiry(made) else ""


def _signer(path: Path, data: bytes, signers: Sequence[SignerEntry], now: datetime) -> tuple[SignerEntry | None, str]:
    """The signer of *data*, or why there is none."""
    beside = signature.signature_file(path)
    if not beside.exists():
        return None, f"there is no signature {printable(beside.name, 100)} beside it"
    try:
        return signature.check_signature(data, read_limited(beside, signature.MAX_SIGNATURE), signers, now), ""
    except ValueError as error:
        return None, f"{printable(beside.name, 100)}: {printable(str(error).removeprefix(f'{beside}: '))}"


def _connect(content: Mapping[str, Any], options: VerifyOptions) -> str:
    """The testee that is run again: the one of the command line, or a known one that the certificate names."""
    testee = content.get("testee")
    named = testee if isinstance(testee, dict) else {}
    try:
        if options.testee is not None:
            check_connect(options.testee)
            return options.testee
        connect = plain_name(str(named.get("connect", "")))
        if find_testee(connect) is None:
            raise BadConnect("a planted bug has no releases")
        release = codec_release(named)
        return testee_at(connect, release)
    except BadConnect as error:
        hint = "" if options.testee else "the certificate names no released testee; --testee TESTEE says what to run: "
        raise click.UsageError(f"--rerun: {hint}{printable(str(error))}") from error


def _rerun(content: Mapping[str, Any], connect: str, options: VerifyOptions) -> tuple[CertifyOutcome, list[str]]:
    """The run, and where it does not confirm *content*, whose problems are none."""
    declared = msgspec.convert(content["deviations"], tuple[Deviation, ...])
    supported = parse_supported(content["supported"])
    done = certify_again(connect, options.folder, origin=statement.SELF, declared=declared, supported=supported)
    if done.made is None:
        return done, [f"it could not be run again: {printable(done.why)}"]
    stated, ran = (
        f"{each.get('name')} {codec_release(each)}" for each in (content["testee"], done.made.results.header.testee)
    )
    differences = []
    if stated != ran:
        differences.append(f"version: the certificate is of {printable(stated, 100)}, and {printable(ran, 100)} ran")
    if missing := [each for each in content["certified_for"] if each not in done.made.certificate.certified_for]:
        differences.append(f"profiles: {', '.join(missing)} did not pass again")
    return done, differences


def _verified_document(verified: VerifiedCertificate, path: Path) -> dict[str, Any]:
    content, signer = verified.content, verified.signer
    stated = {key: content.get(key) for key in ("certified", "certified_for", "origin", "date", "variants")}
    return {
        "holds": verified.holds,
        "statement": verified.statement,
        "checked": {
            "consistent": not verified.problems,
            "authentic": None if verified.unsigned is None else not verified.unsigned,
            "re-run": None if verified.unlike is None else not verified.unlike,
        },
        "testee": verified.name,
        **stated,
        "signer": None if signer is None else {"name": signer.name, "key": signature.key_fingerprint(signer.key)},
        "signature": signature.signature_file(path).name if signature.signature_file(path).exists() else None,
        "result_of_rerun": None if verified.again is None else str(verified.again.document.get("result", "")) or None,
        "problems": [*verified.problems, *filter(None, [verified.unsigned]), *(verified.unlike or ())],
    }


def _verified_lines(verified: VerifiedCertificate, path: Path, options: VerifyOptions) -> Iterator[str]:
    name, content = verified.name, verified.content
    if verified.problems:
        yield f"the certificate of {name} does not hold"
        yield from (f"  {problem}" for problem in verified.problems)
        if verified.unsigned is not None:
            yield f"  signature   {verified.unsigned or _signed_by(verified.signer)}; it does not matter here"
        return
    held = f"certified for {', '.join(content['certified_for'])}" if content["certified_for"] else "not certified"
    if content["deviations"]:
        held += f", with {len(content['deviations']):,} known deviations"
    failed = verified.unsigned or "; ".join(verified.unlike or ())
    yield f"{verified.statement}: {failed or f'{name}, {held}'}"
    if failed:
        yield f"  certificate {name}, {held}"
    checked = content.get("variants")
    varied = f"with {checked['sent']:,} variants of cases" if checked else "without variants of cases"
    yield "  consistent  yes: the file agrees with itself, with its result, and with this corpus"
    yield f"  authentic   {_authentic_text(verified, path)}"
    yield from (f"  re-run      {text}" for text in _rerun_texts(verified, options))
    yield f"  origin      {content['origin']}, by its own account; {varied}"
    yield f"  age         {_age_text(content)}"
    if verified.unlike is None:
        yield "  only another run can show that the result was not made up"


def _signed_by(signer: SignerEntry | None) -> str:
    return "" if signer is None else f"by {printable(signer.name, 100)}, {signature.key_fingerprint(signer.key)}"


def _authentic_text(verified: VerifiedCertificate, path: Path) -> str:
    if verified.unsigned is None:
        there = signature.signature_file(path).exists()
        return f"not checked: {'a signature is there, and ' if there else ''}--signers FILE checks it"
    return f"no: {verified.unsigned}" if verified.unsigned else f"yes: signed {_signed_by(verified.signer)}"


def _rerun_texts(verified: VerifiedCertificate, options: VerifyOptions) -> Iterator[str]:
    if verified.unlike is None or verified.again is None:
        yield "not checked: --rerun certifies again"
    elif verified.unlike:
        yield from (f"no: {text}" for text in verified.unlike)
    else:
        ran = options.testee or "the release that it names"
        yield f"yes: {printable(ran, 200)}, with other variants; result in {verified.again.document['result']}"


def _age_text(content: Mapping[str, Any]) -> str:
    day = content["date"]
    until = expiry(date.fromisoformat(day))
    return f"of {day} by its own account, expires {until} or when two releases are newer, not checked here"


def _sign(path: Path, data: bytes, key: Path) -> int:
    """Sign *data*, the certificate in *path*, with *key*; the exit code."""
    beside = signature.signature_file(path)
    try:
        made = signature.sign_bytes(data, key)
        with beside.open("xb") as file:
            file.write(made)
    except FileExistsError:
        raise click.UsageError(f"--sign: {beside} is there; move it away first") from None
    except signature.SigningError as error:
        raise click.UsageError(f"--sign: {printable(str(error))}") from error
    click.echo(f"signed: {beside}", err=True)
    return OK
