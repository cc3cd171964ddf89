"""The programme for certificates: submissions, the releases that they cover, and what a re-run has to show.

    project = "kafka-python"                       # the name of the file, too
    contact = "https://github.com/dpkp/kafka-python/issues"
    testee = "kafka-python"                        # a known testee; or package and adapter; or an image in each release

    [[release]]
    version = "3.0.12"
    profiles = ["producer", "integrity"]           # that it claims to pass, without known deviations
    corpus = "34a20834cd11…"                       # the hash of the corpus that was run
    corpus_version = "1.0"
    date = 2026-11-25                              # the day of the run

A release is **current** if it is the newest, and **previous** if one is newer.  Its certificate **expires**
`VALID_DAYS` days after its date, when two releases are newer, or when the corpus has another major version, whichever
comes first.
"""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from kafka_conformance.judge.grade import PROFILES
from kafka_conformance.reports.certificate import BadCertificate, hash_problem, is_day
from kafka_conformance.reports.summary import Report
from kafka_conformance.runner.results import read_limited
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.connection import BadConnect, CannotRun, split_command
from kafka_conformance.testees.known import NEAR, OURS, KnownTestee, at_version, find_testee, plain_name, testee_at
from kafka_conformance.testees.recipe import BuildError, build_testee, numbers
from kafka_corpus.known_issues import toml_value
from kafka_corpus.vector_format import CORPUS_VERSION

SUFFIX: Final = ".toml"
VALID_DAYS: Final = 365
# Releases of a project that certificates cover: the newest ones.
COVERED: Final = 2
MAX_FILE: Final = 16 * 1024
MAX_RELEASES: Final = 20
MAX_TEXT: Final = 200
_PROJECT: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,39}")
_PACKAGE: Final = re.compile(r"pypi:[A-Za-z0-9][A-Za-z0-9._-]*")
_IMAGE: Final = re.compile(r"[a-z0-9][\w./:-]*@sha256:[0-9a-f]{64}")
_CONTACT: Final = re.compile(r"https://[^\s<>\"]+|[^\s@<>\"]+@[^\s@<>\"]+")
_HASH: Final = re.compile(r"[0-9a-f]{12,64}")
_CORPUS_VERSION: Final = re.compile(r"\d{1,4}\.\d{1,4}")
PYTHON: Final = "python"

State = Literal["current", "previous", "expired"]


class BadSubmission(ValueError):
    """A submission cannot be used; the text has a line for each problem, with path and position."""


class SubmittedRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One release, and what is claimed of it."""

    version: str
    profiles: list[str]
    corpus: str
    corpus_version: str
    date: date
    image: str = ""


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One file."""

    project: str
    contact: str
    testee: str = ""
    package: str = ""
    adapter: str = ""
    release: list[SubmittedRelease]


@dataclass(frozen=True, slots=True)
class ReleaseState:
    """Whether the certificate of one release counts.

    Attributes:
        release: what is claimed.
        state: `current`, `previous` or `expired`.
        expires: the first day on which it is too old.
        reason: why it has expired; else empty.
    """

    release: SubmittedRelease
    state: State
    expires: date
    reason: str


def expiry(day: date) -> date:
    """The first day on which a certificate of *day* is too old."""
    try:
        return day + timedelta(days=VALID_DAYS)
    except OverflowError:
        return date.max


def load_submission(path: Path, now: date) -> Submission:
    """The submission in *path*.

    Raises:
        BadSubmission: it cannot be read, or has a problem.
    """
    try:
        text = read_limited(path, MAX_FILE).decode("utf-8")
        document: dict[str, Any] = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise BadSubmission(f"{path}: it is no UTF-8: byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise BadSubmission(f"{path}: it is no TOML: {printable(str(error))}") from error
    except RecursionError as error:
        raise BadSubmission(f"{path}: it is nested too deeply") from error
    except ValueError as error:
        raise BadSubmission(str(error)) from error
    source = _Source(path, text)
    if found := list(_unknown_keys(document, source)):
        raise BadSubmission("\n".join(found))
    try:
        submission = msgspec.convert(document, Submission)
    except msgspec.ValidationError as error:
        raise BadSubmission(f"{path}: {printable(str(error))}") from error
    if found := list(_problems(submission, source, now)):
        raise BadSubmission("\n".join(found))
    return submission


@dataclass(frozen=True, slots=True)
class _Source:
    """The text of a file, for the positions of its keys."""

    path: Path
    text: str

    def at(self, key: str, release: int = -1) -> str:
        """`PATH:LINE` of *key*, in the table of a release or before all of them; `PATH` if the key is not found."""
        starts = [match.start() for match in re.finditer(r"^\s*\[\[\s*release\s*\]\]", self.text, re.MULTILINE)]
        bounds = [0, *starts, len(self.text)]
        start = bounds[min(release + 1, len(bounds) - 2)]
        end = bounds[min(release + 2, len(bounds) - 1)]
        match = re.compile(rf"^\s*\"?({re.escape(key)})\"?\s*(?:=|\])", re.MULTILINE).search(self.text, start, end)
        return f"{self.path}:{self.text.count(chr(10), 0, match.start(1)) + 1}" if match else str(self.path)


def _unknown_keys(document: Mapping[str, Any], source: _Source) -> Iterator[str]:
    yield from _unknown(document, Submission.__struct_fields__, source, -1)
    releases = document.get("release")
    for number, each in enumerate(releases if isinstance(releases, list) else ()):
        if isinstance(each, dict):
            yield from _unknown(each, SubmittedRelease.__struct_fields__, source, number)


def _unknown(given: Mapping[str, Any], known: Sequence[str], source: _Source, release: int) -> Iterator[str]:
    for key in given.keys() - set(known):
        yield f"{source.at(key, release)}: there is no key {_near(key, known)}"


def _near(name: str, known: Sequence[str]) -> str:
    """The quoted *name* with its near names, or with all that are known."""
    near = get_close_matches(name.lower(), known, cutoff=NEAR)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
    return f"{printable(name, 60)!r}; {hint}"


def _problems(submission: Submission, source: _Source, now: date) -> Iterator[str]:
    stem = source.path.name.removesuffix(SUFFIX)
    if not _PROJECT.fullmatch(submission.project):
        yield f"{source.at('project')}: a project has letters a to z, digits, dots and hyphens, at most 64"
    elif submission.project != stem:
        yield f"{source.at('project')}: the file of {submission.project} is {submission.project}{SUFFIX}"
    if problem := contact_problem(submission.contact):
        yield f"{source.at('contact')}: {problem}"
    yield from _run_problems(submission, source)
    if not 1 <= len(submission.release) <= MAX_RELEASES:
        yield f"{source.path}: it has {len(submission.release)} tables [[release]]; 1 to {MAX_RELEASES} are possible"
    versions = [each.version for each in submission.release]
    for number, each in enumerate(submission.release):
        if each.version in versions[:number]:
            yield f"{source.at('version', number)}: {printable(each.version, 40)} is there twice"
        yield from (f"{source.at(key, number)}: {text}" for key, text in _release_problems(each, now))


def _run_problems(submission: Submission, source: _Source) -> Iterator[str]:
    """Problems of the fields that say what is run."""
    images = [each for each in submission.release if each.image]
    if sum(map(bool, (submission.testee, submission.package or submission.adapter, images))) != 1:
        yield f"{source.path}: what is run is a testee, or package and adapter, or an image in each release"
        return
    if submission.testee and (problem := _testee_problem(submission.testee)):
        yield f"{source.at('testee')}: {problem}"
    if (submission.package or submission.adapter) and not _PACKAGE.fullmatch(submission.package):
        yield f"{source.at('package')}: a package is pypi:NAME; what other registries have is submitted as an image"
    if submission.package and (problem := _adapter_problem(submission.adapter)):
        yield f"{source.at('adapter')}: {problem}"
    for number, each in enumerate(submission.release if images else ()):
        if not _IMAGE.fullmatch(each.image):
            yield f"{source.at('image', number)}: an image is NAME@sha256:DIGEST, and each release has one"


def _testee_problem(name: str) -> str:
    try:
        known = find_testee(name)
    except BadConnect as error:
        return printable(str(error))
    if known is None or "@" in name:
        return f"{printable(name, 60)} is no released codec; the version belongs into the release"
    return f"{known.name} is of this project" if known.distribution == OURS and known.module else ""


def _adapter_problem(adapter: str) -> str:
    if len(adapter) > MAX_TEXT or not _is_plain(adapter):
        return f"an adapter is one line of at most {MAX_TEXT} characters"
    try:
        words = split_command(adapter)
    except BadConnect as error:
        return printable(str(error))
    return "" if len(words) > 1 and words[0] == PYTHON else "an adapter is a command like python -m PACKAGE.testee"


def _release_problems(given: SubmittedRelease, now: date) -> Iterator[tuple[str, str]]:
    """Problems of one release, each with its key."""
    if not _VERSION.fullmatch(given.version):
        yield "version", f"{printable(given.version, 40)!r} is no version"
    if not given.profiles:
        yield "profiles", f"it claims no profile; known are {', '.join(PROFILES)}"
    for name in given.profiles:
        if name not in PROFILES:
            yield "profiles", f"there is no profile {_near(name, PROFILES)}"
    if len(set(given.profiles)) < len(given.profiles):
        yield "profiles", "a profile is there twice"
    if not _HASH.fullmatch(given.corpus):
        yield "corpus", "the hash of a corpus has 12 to 64 hexadecimal digits"
    if not _CORPUS_VERSION.fullmatch(given.corpus_version):
        yield "corpus_version", "the version of a corpus has two numbers, as in 1.0"
    if given.date > now:
        yield "date", f"{given.date} is in the future; today is {now}"


def _is_plain(text: str) -> bool:
    return text.isprintable() and len(text) <= MAX_TEXT


def release_states(submission: Submission, now: date, published: Collection[str] = ()) -> list[ReleaseState]:
    """The state of each release, the newest first.

    Args:
        submission: the file.
        now: today.
        published: releases that the registry has; those of the file count in any case.
    """
    every = {_plain_version(each.version) for each in submission.release} | set(map(_plain_version, published))
    ordered = sorted(every, key=_order, reverse=True)
    found = sorted(submission.release, key=lambda each: _order(_plain_version(each.version)), reverse=True)
    return [_state(each, ordered.index(_plain_version(each.version)), now) for each in found]


def _plain_version(version: str) -> str:
    return version.removeprefix("v")


def _order(version: str) -> tuple[tuple[int, ...], str]:
    return numbers(version), version


def _state(given: SubmittedRelease, newer: int, now: date) -> ReleaseState:
    expires = expiry(given.date)
    reason = ""
    if newer >= COVERED:
        reason = f"{newer} releases are newer"
    elif major(given.corpus_version) != major(CORPUS_VERSION):
        reason = f"it is of corpus {given.corpus_version}, and the corpus is {CORPUS_VERSION}"
    elif now >= expires:
        reason = f"it is more than {VALID_DAYS} days old"
    state: State = "expired" if reason else "previous" if newer else "current"
    return ReleaseState(given, state, expires, reason)


def major(corpus_version: str) -> str:
    """The number before the dot: another one means that cases have other answers."""
    return corpus_version.partition(".")[0]


def connect_of(submission: Submission, release: SubmittedRelease) -> str:
    """The connect string that runs *release*; its package is installed now, in a folder of its own.

    Raises:
        BadConnect: there is no such testee or version.
        CannotRun: the package cannot be installed.
    """
    if submission.testee:
        return testee_at(submission.testee, release.version)
    if release.image:
        return f"container:{release.image}"
    package = submission.package.partition(":")[2]
    known = at_version(
        KnownTestee(name=submission.project, about="", module=PYTHON, distribution=package), release.version
    )
    assert known.recipe is not None
    try:
        folder = build_testee(known.recipe)
    except BuildError as error:
        raise CannotRun(f"{submission.project} cannot run: {error}") from error
    words = ("env", f"PYTHONPATH={folder}", sys.executable, *split_command(submission.adapter)[1:])
    return f"process:{shlex.join(words)}"


def claim_differences(claim: SubmittedRelease, made: Report, corpus: str) -> list[str]:
    """Where a run does not show what *claim* says, one line each; *corpus* is the hash of this installation's."""
    return list(_differences(claim, made, corpus))


def _differences(claim: SubmittedRelease, made: Report, corpus: str) -> Iterator[str]:
    ran, certificate = codec_release(made.results.header.testee), made.certificate
    if ran != _plain_version(claim.version):
        yield f"version: the claim is about {claim.version}, and {printable(ran, 40) or 'no version'} ran"
    if missing := [name for name in claim.profiles if name not in certificate.certified_for]:
        yield f"profiles: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} claimed, and not passed"
    if not corpus.startswith(claim.corpus):
        if numbers(claim.corpus_version) > numbers(CORPUS_VERSION):
            yield f"corpus: the claim is of corpus {claim.corpus_version}, and here is an older one, {CORPUS_VERSION}"
        elif major(claim.corpus_version) != major(CORPUS_VERSION):
            yield f"corpus: the claim is of corpus {claim.corpus_version}, and here is {CORPUS_VERSION}"
    if not made.results.complete or made.results.header.only:
        yield "run: it is not over the whole corpus"


def codec_release(testee: Mapping[str, Any]) -> str:
    """The version of the codec in a hello, without those of its parts and without a leading v."""
    words = str(testee.get("version", "")).split()
    return _plain_version(words[0]) if words else ""


def contact_problem(contact: str) -> str:
    """Why *contact* is none; empty if it is one."""
    is_contact = _CONTACT.fullmatch(contact) and _is_plain(contact)
    return "" if is_contact else "a contact is an https address or a mail address"


def draft_submission(content: Mapping[str, Any], contact: str, today: date) -> str:
    """The submission that claims what the certificate *content* says.

    Raises:
        BadCertificate: it was changed after it was made, or has no date until *today*.
        BadSubmission: it says nothing that a submission can claim.
    """
    if problem := hash_problem(content):
        raise BadCertificate(problem)
    if not is_day(content.get("date")):
        raise BadCertificate("the certificate has no date, and a submission has the day of the run")
    if content["date"] > today.isoformat():
        raise BadCertificate(f"the certificate is of {content['date']}, and today is {today}")
    testee, profiles = content.get("testee"), content.get("certified_for")
    if not isinstance(testee, dict) or not isinstance(profiles, list) or not profiles:
        raise BadSubmission("the certificate is for no profile")
    if content.get("deviations"):
        raise BadSubmission("the certificate rests on known deviations, and a submission claims profiles without them")
    name = plain_name(str(testee.get("connect", "")))
    fields: dict[str, Any] = {"project": _project_name(str(testee.get("name", ""))), "contact": contact}
    if _testee_problem(name):
        fields |= {"package": "pypi:", "adapter": "python -m "}
    else:
        fields |= {"testee": name}
    release = {
        "version": codec_release(testee),
        "profiles": [str(each) for each in profiles],
        "corpus": str((content.get("corpus") or {}).get("sha256", "")),
        "corpus_version": CORPUS_VERSION,
    }
    rows = [*_rows(fields), "", "[[release]]", *_rows(release), f"date = {content['date']}"]
    return "\n".join(rows) + "\n"


def _rows(fields: Mapping[str, Any]) -> Iterable[str]:
    return (f"{name} = {toml_value(value)}" for name, value in fields.items())


def _project_name(name: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:64] or "project"
