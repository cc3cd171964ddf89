"""The programme: submissions, the releases they cover, claims against runs, replies, and days of disclosure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.reporting.conftest import HOSTILE, graded_report
from tests.conformance.reporting.test_reporting_page import unpacked

from kafka_conformance.causes import MAX_REPLY, BadCausesError, parse_causes, reviewed_causes
from kafka_conformance.dossiers import folder, pages
from kafka_conformance.dossiers.folder import Disclosure, embargoed_pages, load_disclosures
from kafka_conformance.dossiers.grouping import is_sensitive, library_dossiers
from kafka_conformance.dossiers.reproduce import has_program
from kafka_conformance.reports import certificate, html, programme
from kafka_conformance.reports.collection import collect
from kafka_conformance.reports.profiles import certify_profiles
from kafka_conformance.reports.programme import BadSubmission, SubmittedRelease
from kafka_conformance.reports.summary import Report
from kafka_conformance.runner import results
from kafka_corpus.case import Case
from kafka_corpus.known_issues import BadIssueList
from kafka_corpus.vector_format import CORPUS_VERSION
from kafka_corpus.vectors import corpus_hash
from kafkaproof.cli import kafkaproof

SUBMISSIONS = Path(__file__).parents[3] / "programme" / "submissions"
NOW = date(2026, 11, 25)
GOOD = """\
project = "kafka-python"
contact = "https://github.com/dpkp/kafka-python/issues"
testee = "kafka-python"

[[release]]
version = "3.0.12"
profiles = ["producer", "integrity"]
corpus = "34a20834cd11"
corpus_version = "1.0"
date = 2026-11-25
"""
PACKAGE = GOOD.replace('testee = "kafka-python"', 'package = "pypi:codec"\nadapter = "python -m codec.testee"')
IMAGE = GOOD.replace('testee = "kafka-python"\n', "").replace(
    'corpus = "34', f'image = "ghcr.io/codec/testee@sha256:{"0" * 64}"\ncorpus = "34'
)
NOT_UTF8 = {"v2_headers.key_is_not_utf_8[0xff]": {"outcome": "rejects_valid", "why": "UnicodeDecodeError"}}


def run(*arguments: object) -> Result:
    """Run `kafkaproof programme`."""
    return CliRunner().invoke(kafkaproof, ["programme", *map(str, arguments)])


def written(tmp_path: Path, text: str, name: str = "kafka-python.toml") -> Path:
    """A submission with this text."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def release(version: str, day: date = NOW, corpus_version: str = "1.0") -> SubmittedRelease:
    """A release of which the producer profile is claimed."""
    return SubmittedRelease(
        version=version, profiles=["producer"], corpus="0" * 12, corpus_version=corpus_version, date=day
    )


def states(*releases: SubmittedRelease, now: date = NOW, published: tuple[str, ...] = ()) -> dict[str, str]:
    """State and reason by version."""
    submission = programme.Submission(project="x", contact="a@b", testee="x", release=list(releases))
    found = programme.release_states(submission, now, published)
    return {each.release.version: each.state + (f": {each.reason}" if each.reason else "") for each in found}


def test_submissions_of_the_repository_are_sound() -> None:
    """Each file in programme/submissions passes the check of its form."""
    paths = sorted(SUBMISSIONS.glob("*"))
    assert paths
    for path in paths:
        assert programme.load_submission(path, date.max).release


@pytest.mark.parametrize("text", [GOOD, PACKAGE, IMAGE], ids=["testee", "package", "image"])
def test_three_ways_to_say_what_runs(text: str, tmp_path: Path) -> None:
    """A known testee, a package with its adapter, and an image by digest are submissions."""
    done = run("check", written(tmp_path, text), "--now", NOW)
    assert (done.exit_code, "current   until 2027-11-25; producer, integrity" in done.stdout) == (0, True), done.output


WRONG = {
    "no TOML": ("project =", "project", "it is no TOML"),
    "a near key": ("profiles =", "profile =", ":7: there is no key 'profile'; did you mean profiles?"),
    "a near profile": ('"producer"', '"producr"', ":7: there is no profile 'producr'; did you mean producer?"),
    "a near testee": ('testee = "kafka-python"', 'testee = "kafka-pyton"', ":3: no testee 'kafka-pyton'; did you mean"),
    "no release": ("3.0.12", "-rf", ":6: '-rf' is no version"),
    "no codec of others": ('testee = "kafka-python"', 'testee = "reference"', ":3: reference is of this project"),
    "a planted bug": ('testee = "kafka-python"', 'testee = "planted:eager"', ":3: planted:eager is no released codec"),
    "a version in the name": ('testee = "kafka-python"', 'testee = "kafka-python@3.0.11"', "belongs into the release"),
    "nothing to run": ('testee = "kafka-python"\n', "", "what is run is a testee, or package and adapter, or an image"),
    "another name": ('project = "kafka-python"', 'project = "kafka"', ":1: the file of kafka is kafka.toml"),
    "a path": ('project = "kafka-python"', 'project = "../x"', ":1: a project has letters"),
    "no contact": ("https://github.com/dpkp/kafka-python/issues", "javascript:alert(1)", ":2: a contact is an https"),
    "the future": ("2026-11-25", "2026-11-26", ":10: 2026-11-26 is in the future; today is 2026-11-25"),
    "no date": ("2026-11-25", '"soon"', "$.release[0].date"),
    "no hash": ("34a20834cd11", "34a2", ":8: the hash of a corpus has 12 to 64"),
    "a profile twice": ('"integrity"', '"producer"', ":7: a profile is there twice"),
    "no profile": ('["producer", "integrity"]', "[]", ":7: it claims no profile"),
    "a missing key": ('corpus_version = "1.0"\n', "", "missing required field `corpus_version`"),
    "a corpus version": ('"1.0"', '"1"', ":9: the version of a corpus has two numbers"),
    "the same twice": ("[[release]]", GOOD[GOOD.index("[[") :] + "\n[[release]]", ":13: 3.0.12 is there twice"),
    "too large": ("[[release]]", "#" * programme.MAX_FILE + "\n[[release]]", "more than 16,384 bytes"),
}


@pytest.mark.parametrize("change", WRONG)
def test_a_problem_has_its_position(change: str, tmp_path: Path) -> None:
    """Each problem of a submission is one line with path and line, a near name where there is one, and exit code 2."""
    old, new, said = WRONG[change]
    assert old in GOOD
    done = run("check", written(tmp_path, GOOD.replace(old, new, 1)), "--now", NOW)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "kafka-python.toml" in done.stderr


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        (PACKAGE, "pypi:codec", "npm:codec", "a package is pypi:NAME"),
        (PACKAGE, "pypi:codec", "pypi:--index-url=x", "a package is pypi:NAME"),
        (PACKAGE, "python -m codec.testee", "sh -c 'rm -rf ~'", "an adapter is a command like python -m"),
        (PACKAGE, "python -m codec.testee", "python", "an adapter is a command like python -m"),
        (PACKAGE, "python -m codec.testee", "python -m 'codec", "No closing quotation"),
        (IMAGE, "@sha256:" + "0" * 64, ":latest", "an image is NAME@sha256:DIGEST"),
        (IMAGE, "ghcr.io", "-v/:/host", "an image is NAME@sha256:DIGEST"),
        (PACKAGE, "package", 'testee = "kio"\npackage', "what is run is a testee, or package and adapter, or an image"),
    ],
)
def test_what_runs_has_a_fixed_form(text: str, old: str, new: str, said: str, tmp_path: Path) -> None:
    """No option, other registry, shell or moving tag passes for a package, adapter or image."""
    with pytest.raises(BadSubmission, match=r"kafka-python\.toml") as error:
        programme.load_submission(written(tmp_path, text.replace(old, new, 1)), NOW)
    assert said in str(error.value)


@given(st.text(max_size=300) | st.text("[]={}\".'\n\\x00 abreltsproject", max_size=300))
def test_no_text_ends_with_a_traceback(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Any text is a submission or refused, alone and inside of a sound one."""
    path = tmp_path_factory.getbasetemp() / "kafka-python.toml"
    for each in (text, GOOD.replace("3.0.12", text), GOOD + text):
        path.write_text(each, encoding="utf-8", errors="replace")
        try:
            programme.load_submission(path, NOW)
        except BadSubmission as error:
            assert str(path) in str(error)  # noqa: PT017  # a text may be harmless


def test_bytes_and_nesting_are_refused(tmp_path: Path) -> None:
    """Bytes that are no UTF-8, and brackets without end, are refused by name."""
    path = tmp_path / "kafka-python.toml"
    for data, said in ((b"\xff", "no UTF-8: byte 0"), (b"x = " + b"[" * 9000, "nested too deeply|no TOML")):
        path.write_bytes(data)
        with pytest.raises(BadSubmission, match=said):
            programme.load_submission(path, NOW)


def test_the_last_two_releases_are_covered() -> None:
    """By number, not by text; of the file, and of the registry if it was looked up."""
    assert states(release("3.0.9"), release("3.0.12"), release("v3.0.10")) == {
        "3.0.12": "current",
        "v3.0.10": "previous",
        "3.0.9": "expired: 2 releases are newer",
    }
    assert states(release("3.0.12"), published=("3.0.12", "3.1.0")) == {"3.0.12": "previous"}
    assert states(release("3.0.12"), published=("3.1.0", "3.2.0")) == {"3.0.12": "expired: 2 releases are newer"}


def test_age_and_corpus_end_a_certificate() -> None:
    """365 days after its date it has expired; so it has under another major version of the corpus."""
    assert states(release("1"), now=NOW + timedelta(364)) == {"1": "current"}
    assert states(release("1"), now=NOW + timedelta(365)) == {"1": "expired: it is more than 365 days old"}
    other = str(int(programme.major(CORPUS_VERSION)) + 1)
    assert states(release("1", corpus_version=f"{programme.major(CORPUS_VERSION)}.9")) == {"1": "current"}
    assert states(release("1", corpus_version=f"{other}.0"))["1"].startswith(f"expired: it is of corpus {other}.0")
    assert programme.expiry(date.max) == date.max


@pytest.mark.slow
@given(st.lists(st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,2}", fullmatch=True), min_size=1, unique=True))
def test_at_most_two_are_covered(versions: list[str]) -> None:
    """Whatever releases there are, one is current, at most one previous, and the others have expired."""
    found = [state.split(":")[0] for state in states(*map(release, versions)).values()]
    assert found == ["current", "previous", *["expired"] * len(versions)][: len(versions)]


@pytest.fixture(scope="module")
def not_utf8(whole_corpus: Mapping[str, Case]) -> Report:
    """A codec of v2 that passes all profiles but those of consumers."""
    return graded_report("codec", NOT_UTF8, whole_corpus)


def claim(**fields: object) -> SubmittedRelease:
    """A true claim about `graded_report`, changed by *fields*."""
    true = SubmittedRelease(
        version="1", profiles=["producer"], corpus=corpus_hash()[:12], corpus_version=CORPUS_VERSION, date=NOW
    )
    return msgspec.structs.replace(true, **fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, []),
        ({"version": "v1"}, []),
        ({"corpus": "0" * 12}, []),
        ({"version": "1.1"}, ["version: the claim is about 1.1, and 1 ran"]),
        ({"profiles": ["producer", "consumer"]}, ["profiles: consumer is claimed, and not passed"]),
        ({"profiles": ["producer-legacy"]}, ["profiles: producer-legacy is claimed, and not passed"]),
        (
            {"corpus": "0" * 12, "corpus_version": "1.999"},
            ["corpus: the claim is of corpus 1.999, and here is an older"],
        ),
        ({"corpus": "0" * 12, "corpus_version": "0.9"}, ["corpus: the claim is of corpus 0.9, and here is"]),
    ],
)
def test_a_claim_is_compared(fields: dict[str, object], said: list[str], not_utf8: Report) -> None:
    """A claim holds if the same release passes its profiles on this corpus, or one that is newer."""
    assert "consumer" not in not_utf8.certificate.certified_for
    found = programme.claim_differences(claim(**fields), not_utf8, corpus_hash())
    assert len(found) == len(said)
    assert all(text.startswith(start) for text, start in zip(found, said, strict=True))


def test_a_part_of_the_corpus_shows_no_claim(not_utf8: Report) -> None:
    """A run that was stopped does not confirm a claim."""
    stopped = replace(not_utf8, results=replace(not_utf8.results, footer=None))
    assert programme.claim_differences(claim(), stopped, corpus_hash()) == ["run: it is not over the whole corpus"]


def test_a_draft_is_a_submission(whole: Callable[..., Path], tmp_path: Path) -> None:
    """`draft` writes what a certificate claims; with a known testee `check` takes it as it is."""
    done = results.read_results(whole("kafka-python", "3.0.12"))
    path = tmp_path / results.FILE
    path.write_bytes(results.encode_results(done))
    CliRunner().invoke(kafkaproof, ["report", str(path), "--out", str(tmp_path / "out")])
    made = next((tmp_path / "out").rglob(certificate.FILE))
    drafted = run("draft", made, "--contact", "a@example.org", "--now", NOW)
    assert drafted.exit_code == 0, drafted.output
    loaded = programme.load_submission(written(tmp_path, drafted.stdout), NOW)
    assert (loaded.testee, loaded.release[0].version, loaded.release[0].date) == ("kafka-python", "3.0.12", NOW)
    assert loaded.release[0].corpus == corpus_hash()
    content = json.loads(made.read_bytes())
    made.write_bytes(issued(content, certified_for=[]))
    assert run("draft", made, "--contact", "a@example.org").exit_code == 1
    made.write_bytes(issued(content, deviations=[{"reason": "x"}]))
    assert "rests on known deviations" in run("draft", made, "--contact", "a@example.org").stderr


def issued(content: Mapping[str, object], **fields: object) -> bytes:
    """The certificate with these fields and its hash."""
    changed = {name: value for name, value in content.items() if name != "sha256"} | fields
    return certificate.encode_certificate(changed | {"sha256": certificate.statement_hash(changed)})


# What a draft needs of a certificate.
DRAFTED = {
    "format": certificate.FORMAT, "version": certificate.VERSION, "corpus": {"sha256": "0" * 64}, "date": "2026-11-20",
    "testee": {"name": "kafka-python", "version": "3.0.12", "connect": "kafka-python"}, "certified_for": ["producer"],
}  # fmt: skip


def test_a_draft_invents_no_date(tmp_path: Path) -> None:
    """The day of the run is that of the certificate; without one there is no draft."""
    path = tmp_path / certificate.FILE
    path.write_bytes(issued(DRAFTED))
    assert "date = 2026-11-20\n" in run("draft", path, "--contact", "a@example.org").stdout
    early = run("draft", path, "--contact", "a@example.org", "--now", "2026-11-19")
    assert (early.exit_code, "is of 2026-11-20, and today is 2026-11-19" in early.stderr) == (2, True)
    for day in (None, "soon"):
        path.write_bytes(issued(DRAFTED, date=day))
        done = run("draft", path, "--contact", "a@example.org")
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.splitlines()[-1].endswith(
            f"{path}: the certificate has no date, and a submission has the day of the run"
        )


def test_a_draft_of_an_edited_certificate_is_refused(tmp_path: Path) -> None:
    """A certificate whose own hash does not fit claims nothing."""
    path = tmp_path / certificate.FILE
    whole = json.loads(issued(DRAFTED))
    path.write_bytes(certificate.encode_certificate(whole | {"certified_for": ["producer", "hostile"]}))
    done = run("draft", path, "--contact", "a@example.org")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "its own hash does not fit" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "contact", ["javascript:alert(1)", 'https://x.example/"x', "a@example.org\nx = 1", "", "a" * 300]
)
def test_a_draft_checks_its_contact(contact: str, tmp_path: Path) -> None:
    """An address that `check` refuses is refused when the draft is made."""
    path = tmp_path / certificate.FILE
    path.write_bytes(issued(DRAFTED))
    done = run("draft", path, "--contact", contact)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--contact: a contact is an https address or a mail address" in done.stderr.splitlines()[-1]


def test_the_list_says_what_counts(tmp_path: Path) -> None:
    """`list` has each project with its releases, in text and JSON; a folder without submissions is an error."""
    path = written(tmp_path, GOOD)
    done = run("list", tmp_path, "--now", "2027-11-25")
    assert done.exit_code == 0
    assert "3.0.12     expired   it is more than 365 days old; producer, integrity" in done.stdout
    (project,) = json.loads(run("list", path, "--now", NOW, "--json").stdout)["projects"]
    assert project["releases"][0]["state"] == "current"
    assert project["releases"][0]["expires"] == "2027-11-25"
    path.unlink()
    assert run("list", tmp_path).exit_code == 2


def test_an_expired_release_is_not_run(tmp_path: Path) -> None:
    """`rerun` runs releases that are covered; without one, or with a name that the file lacks, it says so."""
    path = written(tmp_path, GOOD)
    done = run("rerun", path, "--now", "2028-01-01", "--report", tmp_path / "out")
    assert (done.exit_code, "no release is covered" in done.stderr) == (1, True)
    done = run("rerun", path, "--release", "9.9", "--now", NOW)
    assert (done.exit_code, "it has 3.0.12" in done.stderr) == (2, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_rerun_shows_a_false_claim(tmp_path: Path) -> None:
    """kafka-python passes the producer profile and not the consumer profile: exit code 1, and the result is kept."""
    path = written(tmp_path, GOOD.replace('"integrity"', '"consumer"'))
    done = run("rerun", path, "--now", NOW, "--report", tmp_path / "out", "--json")
    (again,) = json.loads(done.stdout)["releases"]
    assert done.exit_code == 1
    assert again["differences"] == ["profiles: consumer is claimed, and not passed"]
    assert "producer" in again["passed"]
    assert again["origin"] == "re-run by CI"
    content = json.loads(Path(again["result"]).with_name(certificate.FILE).read_bytes())
    assert (content["origin"], content["variants"]["seed"]) == ("re-run by CI", again["seed"])
    assert content["certified_for"] == again["passed"]


@pytest.mark.slow
def test_a_package_is_run_by_its_adapter(tmp_path: Path) -> None:
    """Another release of a package is installed in a folder of its own, and what runs is that release."""
    text = PACKAGE.replace("pypi:codec", "pypi:kafka-python").replace("3.0.12", "3.0.11")
    submission = programme.load_submission(written(tmp_path, text), NOW)
    connect = programme.connect_of(submission, submission.release[0])
    assert connect.startswith("process:env PYTHONPATH=")
    assert connect.endswith("-m codec.testee")
    built = Path(connect.split("PYTHONPATH=")[1].split()[0])
    assert list(built.glob("kafka_python-3.0.11.dist-info"))


# ---- replies ----

REPLY = """
[cause.reply]
text = "Batches like these\\nare refused from 3.1 on."
by = "Ada, maintainer"
date = 2026-11-25
link = "https://example.org/issues/12"
"""


def source_of(library: str) -> str:
    """The first cause of a library's file."""
    path = Path(programme.__file__).parents[1] / "causes" / f"{library}.toml"
    return "[[cause]]" + path.read_text(encoding="utf-8").split("[[cause]]")[1]


def test_a_reply_is_read() -> None:
    """A reply stands below its cause, and has text, author, day and link."""
    (cause,) = parse_causes(source_of("kafka-python") + REPLY, "kafka-python.toml")
    assert cause.reply is not None
    assert cause.reply.document() == {
        "text": "Batches like these are refused from 3.1 on.",
        "by": "Ada, maintainer",
        "date": "2026-11-25",
        "link": "https://example.org/issues/12",
    }


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Batches", "x" * MAX_REPLY, "1 to 1000 are shown"),
        ("Batches like these\\nare refused from 3.1 on.", " ", "the reply has 0 characters"),
        ("Batches", "\\u001b[31m", "characters that cannot be printed"),
        ("Batches", "\\u202e", "characters that cannot be printed"),
        ("Ada, maintainer", "", "by a person or project"),
        ("Ada", "x" * 100, "by a person or project, of at most 100"),
        ("https://", "javascript:", "no https address"),
        ("issues/12", "<script>", "no https address"),
        ("issues/12", "x" * 300, "no https address of at most 300"),
        ("2026-11-25", '"soon"', "reply.date"),
        ("by =", "grade = 'INFO'\nby =", "unknown field `grade`"),
    ],
)
def test_a_reply_has_limits(old: str, new: str, said: str) -> None:
    """Length, characters, link and keys of a reply are checked when the causes are read."""
    with pytest.raises(BadCausesError, match=r"kafka-python\.toml") as error:
        parse_causes(source_of("kafka-python") + REPLY.replace(old, new, 1), "kafka-python.toml")
    assert said in str(error.value)


@pytest.fixture
def replied(monkeypatch: pytest.MonkeyPatch) -> str:
    """Every cause of kafka-python has a reply with hostile text."""
    hostile = HOSTILE.replace("\x1b", "").replace("\u202e", "")
    text = REPLY.replace('"Batches like these\\nare refused from 3.1 on."', json.dumps(f"no {hostile}"))
    (cause,) = parse_causes(source_of("kafka-python") + text, "kafka-python.toml")
    causes = tuple(msgspec.structs.replace(each, reply=cause.reply) for each in reviewed_causes()["kafka-python"])
    monkeypatch.setitem(reviewed_causes(), "kafka-python", causes)
    return f"no {hostile}"


def test_a_reply_changes_no_grade(
    whole_corpus: Mapping[str, Case], replied: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without replies, grades, profiles and certificate are the same."""
    done = graded_report("kafka-python", NOT_UTF8, whole_corpus).results
    with_reply = certify_profiles(done, whole_corpus)
    (finding,) = with_reply.findings
    assert finding.cause.reviewed is not None
    assert finding.cause.reviewed.reply is not None
    monkeypatch.undo()
    without = certify_profiles(done, whole_corpus)
    assert without.findings[0].cause.reviewed is not None
    assert without.findings[0].cause.reviewed.reply is None
    assert [each.document() for each in with_reply.findings] == [each.document() for each in without.findings]
    assert msgspec.to_builtins(with_reply.profiles) == msgspec.to_builtins(without.profiles)


def test_a_reply_is_shown_as_text(whole_corpus: Mapping[str, Case], replied: str) -> None:
    """The page of a report and that of a dossier show a reply, and none of its text is markup."""
    made = graded_report("kafka-python", NOT_UTF8, whole_corpus)
    id_ = "kafka-python/header-key-not-utf8"
    page = html.result_page(collect([made], cases=whole_corpus), disclosures={id_: "public; published 2026-11-25"})
    ((cause,),) = (library["causes"] for library in unpacked(page, "index")["libraries"])
    assert cause["reply"]["text"] == replied
    assert cause["disclosure"] == "public; published 2026-11-25"
    assert replied not in page

    ((group,),) = (library.groups for library in library_dossiers([made.results], whole_corpus, has_program))
    text = pages.dossier_page(group, "public", whole=True)
    assert "> — reply by Ada, maintainer, 2026-11-25, <https://example.org/issues/12>" in text
    assert "<img" not in text.replace("\\<img", "")
    assert "reply by Ada" in pages.dossier_page(group, "public", whole=False)


# ---- disclosure ----


@pytest.mark.parametrize(
    ("fields", "dates"),
    [
        ({"state": "undisclosed"}, {}),
        ({"state": "reported 2026-09-01"}, {"reported": "2026-09-01", "embargo until": "2026-11-30"}),
        (
            {"state": "reported 2026-09-01", "embargo_until": "2026-12-30"},
            {"reported": "2026-09-01", "embargo until": "2026-12-30"},
        ),
        (
            {"state": "fixed in 3.1", "reported": "2026-09-01", "published": "2026-10-01"},
            {"reported": "2026-09-01", "embargo until": "2026-11-30", "published": "2026-10-01"},
        ),
    ],
)
def test_days_of_a_disclosure(fields: dict[str, str], dates: dict[str, str], tmp_path: Path) -> None:
    """A report is under embargo for 90 days, or until the day that was agreed; writing the list keeps the days."""
    rows = "\n".join(f'{name} = "{value}"' for name, value in fields.items())
    (tmp_path / folder.FILE).write_text(f'[[issue]]\nid = "a/b"\n{rows}\n')
    (entry,) = load_disclosures(tmp_path).values()
    assert entry.dates() == dates
    if fields["state"] != folder.UNDISCLOSED:
        kept = folder.build_pages([], tmp_path, full=False)[Path(folder.FILE)]
        (tmp_path / folder.FILE).write_bytes(kept)
        assert load_disclosures(tmp_path)["a/b"] == entry


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"state": "reported 2026-02-30"}, "there is no such day"),
        ({"state": "reported 2026-09-01", "reported": "2026-09-02"}, "was reported on 2026-09-01 by its state"),
        ({"state": "reported 2026-09-01", "embargo_until": "2026-12-31"}, "at most 120 days after the report"),
        ({"state": "reported 2026-09-01", "embargo_until": "2026-08-01"}, "at most 120 days after the report"),
        ({"state": "undisclosed", "embargo_until": "2026-12-31"}, "at most 120 days after the report"),
        ({"state": "reported 2026-09-01", "published": "2026-10-01"}, "was published on 2026-10-01, and its state is"),
        ({"state": "sent to them"}, "which is no state"),
        ({"state": "public", "published": "today"}, "published"),
    ],
)
def test_days_that_cannot_be(fields: dict[str, str], said: str, tmp_path: Path) -> None:
    """Days that contradict the state or the policy are an error that names the dossier."""
    rows = "\n".join(f'{name} = "{value}"' for name, value in fields.items())
    (tmp_path / folder.FILE).write_text(f'[[issue]]\nid = "a/b"\n{rows}\n')
    with pytest.raises(BadIssueList, match="a/b") as error:
        load_disclosures(tmp_path)
    assert said in str(error.value)


def test_the_policy_has_these_days() -> None:
    """SECURITY.md and the page on the programme have the days that the code has."""
    root = SUBMISSIONS.parents[1]
    policy, page = (" ".join((root / name).read_text().split()) for name in ("SECURITY.md", "docs/programme.md"))
    assert f"{folder.EMBARGO_DAYS} days from the day of the report" in policy
    assert f"ask for {folder.LONGEST_EMBARGO_DAYS - folder.EMBARGO_DAYS} days more" in policy
    assert f"{folder.EMBARGO_DAYS} days after the report" in page
    assert f"{folder.LONGEST_EMBARGO_DAYS} days" in page
    assert f"{programme.VALID_DAYS} days" in page
    assert str(MAX_REPLY) in page.replace(",", "")


def test_an_embargoed_cause_is_not_published_whole(tmp_path: Path) -> None:
    """`embargo` names pages that hold bytes or reproducers of causes that are not open, of both commands."""
    embargoed = next(cause for cause in reviewed_causes()["kafka-python"] if is_sensitive(cause))
    id_ = f"kafka-python/{embargoed.id}"
    row = f"| Dossier | `{id_}` |\n"
    (tmp_path / "summary.md").write_text(f"# x\n\n{row}\nSmallest case: `x`\n")
    assert run("embargo", tmp_path).exit_code == 0

    (tmp_path / "whole.md").write_text(f"# x\n\n{row}\n{pages.REPRODUCER_TITLE}\n")
    page = f'<script type="text/plain" id="programs">{html.packed_json({id_: {}, "x/y": {}})}</script>'
    (tmp_path / "index.html").write_text(page)
    (tmp_path / "other.html").write_text('<script type="text/plain" id="programs">AAAA</script>')
    done = run("embargo", tmp_path, "--json")
    assert done.exit_code == 1
    assert [(Path(each["page"]).name, each["cause"]) for each in json.loads(done.stdout)["embargoed"]] == [
        ("index.html", id_),
        ("whole.md", id_),
    ]
    assert embargoed_pages(tmp_path, {id_: Disclosure(id=id_, state="fixed in 3.1")})[0] == []


def test_a_folder_without_pages_is_not_said_to_be_clean(tmp_path: Path) -> None:
    """Other pages are not looked at; a folder with nothing else is an error, and else their number is printed."""
    (tmp_path / "notes.md").write_text("# Notes\n")
    (tmp_path / "index.html").write_text("<p>Notes</p>")
    done = run("embargo", tmp_path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "there is no page of report or dossier in it" in done.stderr
    (tmp_path / "summary.md").write_text("| Dossier | `a/b` |\n")
    done = run("embargo", tmp_path)
    assert (done.exit_code, done.stdout) == (0, "1 page of report or dossier looked at; 0 publish too much\n")


@pytest.mark.slow
def test_a_report_has_no_reproducer_of_an_embargoed_cause(whole: Callable[..., Path], tmp_path: Path) -> None:
    """`report` leaves these reproducers out, and `--full` includes them."""
    loops = {"backwards.inner_message_at_the_one_before[v1-gzip]": {"outcome": "hang", "why": "no answer in 0.5 s"}}
    path = whole("kafka-python", "3.0.12", loops | NOT_UTF8)
    for options, names in (([], set[str]()), (["--full"], {"inner-size-endless-loop"})):
        out = tmp_path / f"out{len(options)}"
        done = CliRunner().invoke(kafkaproof, ["report", str(path), "--out", str(out), *options])
        assert done.exit_code == 0, done.output
        programs = unpacked((out / "index.html").read_text(encoding="utf-8"), "programs")
        expected = {"kafka-python/header-key-not-utf8", *(f"kafka-python/{name}" for name in names)}
        assert set(programs) == expected
        assert run("embargo", out).exit_code == len(names)
