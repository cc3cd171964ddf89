"""The static site: its links, its ids, its policy, what it withholds, and builds that replace a site whole."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
import pytest
from tests.conformance.reporting.conftest import FORMATS, HOSTILE
from tests.conformance.reporting.edge_tables import hostile_table

from kafka_conformance.causes import ReviewedCause, reviewed_causes
from kafka_conformance.dossiers.grouping import is_sensitive
from kafka_conformance.dossiers.reproduce import finding_program
from kafka_conformance.judge.verdict import Outcome
from kafka_conformance.reports import site_build
from kafka_conformance.reports.collection import Collection, corpus_contents
from kafka_conformance.reports.site import (
    POLICY,
    SOURCES,
    RunRecord,
    SiteContents,
    SitePage,
    case_path,
    cause_path,
    library_path,
    read_documentation,
    site_pages,
)
from kafka_conformance.runner import kept_results
from kafka_conformance.runner.results import FILE, ResultFooter, ResultHeader, Results, Unusable, encode_results
from kafka_corpus.vectors import load_vectors
from kafka_records.rules import all_rules, errata

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
AREAS = ("v2_headers", "errata_batches")


def contents_of(collection: Collection) -> SiteContents:
    """The site of *collection* with few cases, with the documentation, without Pyodide."""
    few = {id_: case for id_, case in collection.cases.items() if case.area in AREAS}
    docs, pictures = site_build.rendered_docs(read_documentation(ROOT), ROOT)
    runs = {number: RunRecord("2026-01-02") for number in range(len(collection.entries))}
    table = hostile_table()
    return SiteContents(replace(collection, cases=few), runs, docs=docs, files=pictures, edges=[table])


@pytest.fixture(scope="module")
def contents(collected: Collection) -> SiteContents:
    """Three testees, one with hostile names, on two areas."""
    return contents_of(collected)


@pytest.fixture(scope="module")
def pages(contents: SiteContents) -> dict[str, bytes]:
    """Every file by its path."""
    return {page.path: page.content for page in site_pages(contents)}


class References(HTMLParser):
    """The links of a page, and the places in it."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect them."""
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("href", "src", "action") and value is not None:
                self.links.append(value)
            if name == "id" and value:
                self.ids.add(value)


def read_page(content: bytes) -> References:
    """The links and places of a page."""
    found = References()
    found.feed(content.decode())
    return found


def broken_links(pages: dict[str, bytes]) -> Iterator[str]:
    """Links of pages to files or places that are not there, and anything that is loaded from outside."""
    read = {path: read_page(content) for path, content in pages.items() if path.endswith(".html")}
    for path, page in read.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                if parts.scheme != "https" or f'src="{link}' in pages[path].decode():
                    yield f"{path}: {link}"
                continue
            target = os.path.normpath(Path(path).parent / unquote(parts.path)) if parts.path else path
            if target not in pages:
                yield f"{path}: {link} is missing"
            elif parts.fragment and unquote(parts.fragment) not in read[target].ids:
                yield f"{path}: {link} has no such place"


def test_every_link_leads_somewhere(pages: dict[str, bytes]) -> None:
    """Each link, script, style and form of each page leads to a file of the site, and to a place in it."""
    assert sum(path.endswith(".html") for path in pages) > 600
    assert list(broken_links(pages)) == []
    assert list(broken_links({"a.html": b'<a href="b.html#x">', "b.html": b""})) == [
        "a.html: b.html#x has no such place"
    ]


def test_ids_have_pages(pages: dict[str, bytes], contents: SiteContents) -> None:
    """Each library, cause, case, rule and erratum has the page of its id, and none shares it."""
    assert {f"rule/{rule.id}/index.html" for rule in all_rules()} <= pages.keys()
    assert {f"erratum/{each.id}/index.html" for each in errata()} <= pages.keys()
    assert "case/v2_headers/key_is_not_utf_8_0xff-108f02dc.html" in pages
    assert len(contents.libraries) == 3
    for library in contents.libraries:
        assert library_path(library.id) in pages
        assert {cause_path(library.id, cause.key.id) for cause in library.causes} <= pages.keys()


def test_paths_of_cases_are_unlike() -> None:
    """All cases of the corpus have paths of their own, also where names ignore case, and each is a plain name."""
    paths = [case_path(case) for case in load_vectors()]
    assert len(paths) > 3000
    assert len({path.lower() for path in paths}) == len(paths)
    assert all(re.fullmatch(r"case/\w+/[\w.-]+\.html", path) for path in paths)


def test_the_policy_allows_nothing_from_outside(pages: dict[str, bytes]) -> None:
    """Each page has the policy; only `explain` may start a worker, and it may connect to nothing."""
    for path, content in pages.items():
        if path.endswith(".html"):
            text = content.decode()
            assert f'http-equiv="Content-Security-Policy" content="{POLICY}' in text, path
            assert not {"style", "iframe", "object", "base"} & set(read_page(content).tags), path
            assert " style=" not in text.replace("<code>", ""), path
            assert not re.search(r"\son\w+=\"", text), path


def test_sentences_and_rules_lead_to_one_another(pages: dict[str, bytes]) -> None:
    """A sentence links its rules and errata; they link it, and a rule names its code and recorded answers."""
    (sentence,) = [line for line in pages["spec/000.html"].decode().splitlines() if line.startswith("<li id=49.4>")]
    rule, erratum = pages["rule/PID-09/index.html"].decode(), pages["erratum/A18/index.html"].decode()
    assert "<a href=../rule/PID-09/index.html>" in sentence
    assert "<a href=../erratum/A18/index.html>" in sentence
    assert "<a href=../../spec/000.html#49.4>" in rule
    assert "<a href=../../spec/000.html#49.4>" in erratum
    assert "kafka_records/broker/producer_state.py: find_duplicate" in rule
    assert "<dt>recorded answers</dt><dd>brokers 0.11.0.3 to " in rule
    assert "outside: advice on operations" in pages["spec/002.html"].decode()


def test_hostile_names_stay_text(pages: dict[str, bytes]) -> None:
    """Markup in a testee's names and answers is escaped on each page, and becomes no path."""
    shown = [path for path, content in pages.items() if b"onerror" in content and path.endswith(".html")]
    assert shown
    for path in shown:
        assert b"<img src=x" not in pages[path]
    assert not any(character in path for path in pages for character in HOSTILE if character in "<>`@\x1b\"'& ")


def test_two_builds_are_equal(contents: SiteContents, pages: dict[str, bytes]) -> None:
    """A second build has the same bytes."""
    assert {page.path: page.content for page in site_pages(contents)} == pages


def test_sources_are_a_list(contents: SiteContents) -> None:
    """A further source of pages needs no more than a function; no source writes the path of another."""
    paths = [page.path for source in SOURCES for page in source(contents)]
    assert len(paths) == len(set(paths))


def hide_all(_library: str, _cause: ReviewedCause) -> bool:
    """Withhold every cause."""
    return True


def hide_none(_library: str, _cause: ReviewedCause) -> bool:
    """Withhold no cause."""
    return False


def test_withheld_causes_are_summaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A withheld cause has no bytes, no answers and no reproducer on its page and in the data of its cases.

    The page of an earlier id of the cause is the same.
    """
    known = reviewed_causes()["kafka-python"]
    renamed = tuple(msgspec.structs.replace(each, formerly=[f"was-{each.id}"]) for each in known)
    monkeypatch.setitem(reviewed_causes(), "kafka-python", renamed)
    collection, runs = site_build.last_good([ROOT / "results" / "kafka-python-3.0.12.ndjson"])
    every = SiteContents(replace(collection, cases={}), runs)
    (cause,) = [cause for cause in every.libraries[0].causes if cause.reviewed and is_sensitive(cause.reviewed)][:1]
    few = replace(collection, cases={cause.gravest.case.id: cause.gravest.case})
    why = cause.gravest.line.why
    assert why
    texts = []
    for withheld in (False, True):
        contents = SiteContents(few, runs, finding_program, hide_all if withheld else hide_none)
        made = {page.path: page.content for page in site_pages(contents)}
        page = made[cause_path("kafka-python", cause.key.id)].decode()
        assert made[cause_path("kafka-python", f"was-{cause.key.id}")].decode() == page
        data = made[f"data/{contents.shards[cause.gravest.case.id]}.js"]
        shown = gzip.decompress(b64decode(data.partition(b'"')[2].rpartition(b'"')[0])).decode()
        texts.append((escape(why[:40]) in page, "Reproducer" in page, cause.gravest.case.id in page, why[:40] in shown))
    assert texts == [(True, True, True, True), (False, False, False, False)]


# ---- the last good result ----


def kept(folder: Path, version: str, day: str, wrong: int = 0) -> Path:
    """A kept result of a codec whose first *wrong* cases are refused."""
    corpus = corpus_contents()
    cases = [case for case in corpus.cases if case.op == "decode" and case.expect.verdict == "valid"][:60]
    testee = {
        "name": "some",
        "version": version,
        "language": "go",
        "connect": "some",
        "decode": FORMATS,
        "append": False,
    }
    lines = {}
    for number, case in enumerate(cases):
        outcome: Outcome = "rejects_valid" if number < wrong else "agree"
        content = corpus.contents[case.id][: kept_results.CONTENT]
        seen = {"kind": "refused" if number < wrong else "decoded"}
        lines[case.id] = kept_results.KeptLine(case=case.id, content=content, outcome=outcome, observation=seen)
    header = kept_results.KeptHeader(name="some", release=version, testee=testee, settings={})
    path = kept_results.kept_path(folder, "some", version)
    kept_results.write_kept(kept_results.KeptResult(header, lines).dated(day), path)
    return path


def test_the_newest_release_is_shown_and_older_ones_are_its_history(tmp_path: Path) -> None:
    """Of three kept releases the newest by version is shown; the others are its history, oldest first."""
    for version, day, wrong in (("1.10.0", "2026-03-01", 1), ("1.9.0", "2026-02-01", 5), ("1.2.0", "2026-01-01", 9)):
        kept(tmp_path, version, day, wrong)
    collection, runs = site_build.last_good([tmp_path])
    assert [entry.version for entry in collection.entries] == ["1.10.0"]
    assert (runs[0].date, runs[0].trouble) == ("2026-03-01", "")
    assert [(version, day) for version, day, _ in runs[0].older] == [("1.2.0", "2026-01-01"), ("1.9.0", "2026-02-01")]
    few = {id_: case for id_, case in collection.cases.items() if case.area == "v2_headers"}
    made = SiteContents(replace(collection, cases=few), runs)
    (page,) = [page for page in site_pages(made) if page.path == "library/some/index.html"]
    text = page.content.decode()
    assert text.count("<circle") == 3
    assert re.search(r"gone in 1\.(9|10)\.0: [48] findings", text)


def test_one_release_has_no_trend(tmp_path: Path) -> None:
    """With one release the page says so in a sentence."""
    kept(tmp_path, "1.0", "2026-01-01")
    collection, runs = site_build.last_good([tmp_path])
    made = SiteContents(replace(collection, cases={}), runs)
    (page,) = [page for page in site_pages(made) if page.path == "library/some/index.html"]
    assert b"one release has results, 1.0. The trend starts with the second." in page.content
    assert b"<svg" not in page.content


def test_a_testee_that_did_not_run_shows_its_last_good_result(tmp_path: Path) -> None:
    """A testee in not-run.json keeps its row, with the date of its result and the reason, on both pages."""
    kept(tmp_path, "1.0", "2026-01-01")
    (tmp_path / "not-run.json").write_bytes(msgspec.json.encode({"some": "go is not installed", "other": "no network"}))
    collection, runs = site_build.last_good([tmp_path])
    assert (runs[0].date, runs[0].trouble) == ("2026-01-01", "go is not installed")
    assert dict(collection.not_run) == {"other": "no network"}
    made = {page.path: page.content.decode() for page in site_pages(SiteContents(replace(collection, cases={}), runs))}
    assert (
        "could not be run again: go is not installed. Its row has its last good result, of 2026-01-01."
        in made["index.html"]
    )
    assert "Last good result of 2026-01-01" in made["library/some/index.html"]


def test_an_unfinished_run_does_not_replace_a_good_one(tmp_path: Path) -> None:
    """A newer run without its footer is named as trouble, and the older result is shown."""
    done = kept_results.read_any_results(kept(tmp_path, "1.0", "2026-01-01"), corpus_contents)
    header = msgspec.structs.replace(done.header, testee=done.header.testee | {"version": "2.0"})
    whole = encode_results(
        Results(header, done.lines, ResultFooter(counts={}, seconds=0, waited=0, starts=0, strays=0, sha256=""))
    )
    broken = tmp_path / "some" / FILE
    broken.parent.mkdir()
    broken.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    collection, runs = site_build.last_good([tmp_path])
    assert collection.entries[0].version == "1.0"
    assert runs[0].trouble == "the run of 2.0 did not come to its end"


def test_no_good_result_is_an_error(tmp_path: Path) -> None:
    """Where nothing came to its end there is no site."""
    header = ResultHeader(testee={"name": "x", "connect": "x"}, corpus="", cases=1, only=[], settings={})
    whole = encode_results(
        Results(header, (), ResultFooter(counts={}, seconds=0, waited=0, starts=0, strays=0, sha256=""))
    )
    (tmp_path / FILE).write_bytes(whole.splitlines(keepends=True)[0])
    with pytest.raises(Unusable, match="nothing to show"):
        site_build.last_good([tmp_path])


# ---- writing ----


def some_pages(text: str, count: int = 40) -> list[SitePage]:
    """A small site in which each page has *text*."""
    mark = site_build.mark_of(text)
    return [mark, *(SitePage(f"folder-{number}/index.html", text.encode()) for number in range(count))]


def files_of(folder: Path) -> dict[str, bytes]:
    """All files below *folder*."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_build_replaces_the_old_site_whole(tmp_path: Path) -> None:
    """Pages that the new site does not have are gone, and nothing is left beside it."""
    out = tmp_path / "site"
    site_build.write_site(some_pages("old", 50), out)
    size = site_build.write_site(some_pages("new", 40), out)
    assert files_of(out) == {page.path: page.content for page in some_pages("new", 40)}
    assert size.files == 41
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    assert list(site_build.site_differences(some_pages("new", 40), out)) == []


def test_differences_are_named(tmp_path: Path) -> None:
    """Missing, other and foreign files are named, each in a line."""
    out = tmp_path / "site"
    site_build.write_site(some_pages("same", 3), out)
    (out / "folder-0" / "index.html").unlink()
    (out / "folder-1" / "index.html").write_text("other")
    (out / "mine.txt").write_text("x")
    assert list(site_build.site_differences(some_pages("same", 3), out)) == [
        "folder-0/index.html: is missing", "folder-1/index.html: differs", "mine.txt: is in no build",
    ]  # fmt: skip


def test_an_error_in_the_middle_leaves_the_old_site(tmp_path: Path) -> None:
    """A build whose pages end in an error changes nothing."""
    out = tmp_path / "site"
    site_build.write_site(some_pages("old"), out)

    def failing() -> Iterator[SitePage]:
        yield from some_pages("new", 5)
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        site_build.write_site(failing(), out)
    assert files_of(out) == {page.path: page.content for page in some_pages("old")}
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_a_folder_that_is_no_site_is_not_replaced(tmp_path: Path) -> None:
    """A folder with other files is refused and keeps them."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(site_build.NotASite, match="something else than a site"):
        site_build.write_site(some_pages("new"), tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


KILLED = """
import sys, time
from pathlib import Path
from kafka_conformance.dossiers.grouping import is_sensitive
from kafka_conformance.dossiers.reproduce import finding_program
from kafka_conformance.reports import site_build
from kafka_conformance.reports.site import SitePage
def pages():
    yield site_build.mark_of("new")
    for number in range(400):
        yield SitePage(f"folder-{number}/index.html", b"new")
while True:
    print("building", flush=True)
    site_build.write_site(pages(), Path(sys.argv[1]))
"""


def test_a_killed_build_leaves_a_whole_site(tmp_path: Path) -> None:
    """Killed at six moments, the folder holds the old site or the new one, and the next build cleans up."""
    out = tmp_path / "site"
    old = {page.path: page.content for page in some_pages("old")}
    new = {site_build.MARK: site_build.mark_of("new").content}
    new |= {f"folder-{number}/index.html": b"new" for number in range(400)}
    seen = set()
    for moment in range(6):
        shutil.rmtree(out, ignore_errors=True)
        site_build.write_site(some_pages("old"), out)
        with subprocess.Popen(
            (sys.executable, "-c", KILLED, str(out)), stdout=subprocess.PIPE, env=environment()
        ) as build:
            assert build.stdout is not None
            build.stdout.readline()
            time.sleep(0.02 * moment)
            build.send_signal(signal.SIGKILL)
        found = files_of(out)
        assert found in (old, new)
        seen.add(found == new)
        site_build.write_site(some_pages("last"), out)
        assert [path.name for path in tmp_path.iterdir()] == ["site"]
    assert False in seen


def environment() -> dict[str, str]:
    """The environment of this process, in which the packages are found."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}


def test_pyodide_of_another_release_is_refused(tmp_path: Path) -> None:
    """A file with another SHA-256, or none, is named."""
    (tmp_path / "pyodide.asm.mjs").write_text("other")
    with pytest.raises(site_build.PyodideMissing, match=r"pyodide\.asm\.mjs: its SHA-256 is another"):
        site_build.runtime_files(tmp_path)
    with pytest.raises(site_build.PyodideMissing, match=r"pyodide\.asm\.mjs: No such file"):
        site_build.runtime_files(tmp_path / "nothing")


def test_the_reference_in_the_browser_needs_no_other_module(tmp_path: Path) -> None:
    """The packed modules explain a batch of each compression in a Python that has no packages."""
    (tmp_path / "reference.zip").write_bytes(site_build.reference_archive())
    program = """
import sys
sys.path = [sys.argv[1], *(each for each in sys.path if "site-packages" not in each)]
from kafka_conformance.reports.browser_codecs import install
install()
from kafka_conformance.reports.byte_rows import explained
for line in sys.stdin:
    found = explained("x", bytes.fromhex(line))
    print(found["summary"], sum(row[0] == "open" for row in found["rows"]))
"""
    from kafka_records import Batch, Record, encode

    texts = []
    for codec in ("none", "gzip", "snappy", "lz4"):
        record = Record(0, 1524709879130, b"k", b"hello" * 50)
        texts.append(encode(Batch(magic=2, base_offset=0, last_offset=0, records=(record,), compression=codec)).hex())
    done = subprocess.run(
        (sys.executable, "-I", "-S", "-c", program, str(tmp_path / "reference.zip")),
        input="\n".join(texts), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["✓ valid: 1 batch, 1 record 0", *["✓ valid: 1 batch, 1 record 1"] * 3]


def test_docs_link_to_pages() -> None:
    """A link to a page leads to its place in the site; one to a file that is no page stays text."""
    texts = {
        "docs/a.md": "# A `b`\n\n[B](b.md#x) [C](../src/c.py) [D](https://example.org/)\n",
        "docs/b.md": "# B\n\n## x\n",
    }
    docs, _ = site_build.rendered_docs(texts, ROOT)
    title, body = docs["docs/a/index.html"]
    assert title == "A b"
    assert '<h1 id="a-b">' in body
    assert '<a href="../../docs/b/index.html#x">B</a> <a>C</a> <a href="https://example.org/">D</a>' in body
