"""The site in a real browser, as files and from a server: looks, keys, search, and bytes explained.

Needs Chromium on the path and playwright; the test with Pyodide needs npm too, which fetches it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.browsing import (
    WIDE,
    Size,
    check_scrolling,
    check_view,
    check_width,
    every_scheme,
    every_size,
    unfold,
)

from kafka_conformance.reports import site_build
from kafka_conformance.reports.collection import Collection
from kafka_conformance.reports.site import (
    MOST_ROWS,
    RunRecord,
    SiteContents,
    case_path,
    read_documentation,
    site_pages,
)
from kafka_records import Batch, Record, encode
from kafka_records.constants import COMPRESSIONS, Compression

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
CASE = "v2_headers.key_is_not_utf_8[0xff]"
# Seconds that Python may take to start on a busy machine, in milliseconds.
START = 110_000
# A request that was under way when the next page was opened (of an icon, say); a missing file gives another error.
LEFT = "net::ERR_ABORTED"


def written(collection: Collection, out: Path, runtime: dict[str, bytes]) -> Path:
    """The site of *collection* with the cases of two areas."""
    few = {id_: case for id_, case in collection.cases.items() if case.area in ("v2_headers", "errata_batches")}
    docs, pictures = site_build.rendered_docs(read_documentation(ROOT), ROOT)
    runs = {number: RunRecord("2026-01-02") for number in range(len(collection.entries))}
    contents = SiteContents(
        replace(collection, cases=few), runs, docs=docs, files=pictures | runtime, runtime=tuple(runtime)
    )
    site_build.write_site([site_build.mark_of(collection.corpus), *site_pages(contents)], out)
    return out


@pytest.fixture(scope="module")
def folder(collected: Collection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site without Pyodide."""
    return written(collected, tmp_path_factory.mktemp("plain") / "site", {})


@pytest.fixture(scope="module")
def whole(collected: Collection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site with Pyodide; skips where npm cannot fetch it."""
    try:
        runtime = site_build.runtime_files(site_build.fetched_pyodide())
    except site_build.PyodideMissing as error:
        pytest.skip(str(error))
    return written(collected, tmp_path_factory.mktemp("whole") / "site", runtime)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of *folder* on a server of this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def visiting(chromium: Any, root: str, size: Size = WIDE, scheme: str = "light") -> Iterator[Callable[[str], Any]]:
    """Opens pages below *root* and waits for their scripts; an error or a request for anything else fails the test."""
    context = chromium.new_context(viewport=size, color_scheme=scheme)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.on(
        "requestfailed", lambda request: None if request.failure == LEFT else wrong.append(f"failed: {request.url}")
    )
    page.on("request", lambda request: None if request.url.startswith((root, "blob:")) else wrong.append(request.url))

    def go(path: str) -> Any:
        page.goto(f"{root}/{path}")
        try:
            page.wait_for_selector("html[data-ready=yes]", state="attached")
        except Exception as error:
            raise AssertionError(f"{path}: {wrong or error}") from error
        return page

    yield go
    context.close()
    assert wrong == []


@contextmanager
def opened(chromium: Any, root: str, path: str) -> Iterator[Any]:
    """One page below *root*."""
    with visiting(chromium, root) as go:
        yield go(path)


def paths(folder: Path) -> dict[str, str]:
    """A page of each kind."""
    causes = sorted(path.relative_to(folder).as_posix() for path in folder.glob("library/*/*/index.html"))
    (case,) = folder.glob("case/v2_headers/key_is_not_utf_8_0xff-*.html")
    return {
        "home": "index.html",
        "library": causes[0].split("/", 2)[0] + "/" + causes[0].split("/", 2)[1] + "/index.html",
        "cause": causes[0],
        "causes": "cause/index.html",
        "areas": "case/index.html",
        "area": "case/v2_headers/index.html",
        "case": case.relative_to(folder).as_posix(),
        "rules": "rule/index.html",
        "rule": "rule/REC-21/index.html",
        "errata": "erratum/index.html",
        "erratum": "erratum/A02/index.html",
        "explain": "explain/index.html",
        "search": "search/index.html?q=header",
        "docs": "docs/index.html",
        "doc": "docs/verdicts/index.html",
    }


@every_scheme
@every_size
def test_every_kind_of_page_can_be_read(chromium: Any, folder: Path, size: Size, scheme: str) -> None:
    """Each kind of page fits the window, follows the scheme, has contrast, one h1, and frames that take keys."""
    with visiting(chromium, folder.as_uri(), size, scheme) as go:
        for name, path in paths(folder).items():
            page = go(path)
            unfold(page)
            check_view(page, size, scheme)
            assert page.locator("h1").count() == 1, name
            assert page.title().endswith("Kafkaproof") or name == "home", name
            assert page.locator("nav a").count() == 7
            if name in ("library", "cause", "case", "areas"):
                check_scrolling(page)


def test_all_inputs_and_links_have_names(chromium: Any, folder: Path) -> None:
    """Links, buttons and fields of each kind of page have a text or a label."""
    script = """() => [...document.querySelectorAll("a[href], button, input, select, textarea")].filter((each) =>
        !(each.textContent.trim() || each.ariaLabel || (each.labels && each.labels.length))
    ).map((each) => each.outerHTML)"""
    with visiting(chromium, folder.as_uri()) as go:
        for path in paths(folder).values():
            assert go(path).evaluate(script) == []


def test_a_server_gives_the_same_pages(chromium: Any, folder: Path) -> None:
    """From a server pages work as from files, a folder without index.html too."""
    with served(folder) as root, visiting(chromium, root) as go:
        for path in paths(folder).values():
            go(path)
        assert go("rule/REC-21/").locator("h1").inner_text() == "REC-21"


def test_keys_alone_reach_a_case(chromium: Any, folder: Path) -> None:
    """The slash leads to the search, Enter searches, Tab and Enter open the first result; Skip leads to the content."""
    with opened(chromium, folder.as_uri(), "index.html") as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("/")
        page.keyboard.type(CASE)
        page.keyboard.press("Enter")
        page.wait_for_selector("#search-list li")
        assert page.evaluate("document.activeElement.name") == "q"
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_selector("html[data-ready=yes] [data-shown=yes]", state="attached")
        assert CASE in page.inner_text("main")
        assert page.locator(".hex tr").count() > MOST_ROWS
        assert page.locator(".said tbody tr").count() >= 2


def test_keys_sort_the_matrix(chromium: Any, folder: Path) -> None:
    """A column's button sorts by keyboard, and shows the order."""
    with opened(chromium, folder.as_uri(), "index.html") as page:
        page.locator("button.sort").nth(1).focus()
        page.keyboard.press("Enter")
        assert page.locator("thead th[aria-sort=descending]").count() == 1
        page.uncheck("#details")


def test_search_ranks_ids_first(chromium: Any, folder: Path) -> None:
    """A rule's id finds the rule before its cases; no match says so."""
    with opened(chromium, folder.as_uri(), "search/index.html?q=rec-21") as page:
        assert page.locator("#search-list a").first.get_attribute("href") == "../rule/REC-21/index.html"
        page.fill("input[name=q]", "nothing has this word")
        assert page.inner_text("#search-count") == "0 found"


def test_causes_are_filtered(chromium: Any, folder: Path) -> None:
    """Words narrow the list of causes, and Clear undoes it."""
    with opened(chromium, folder.as_uri(), "cause/index.html") as page:
        every = page.locator(".causes tbody tr").count()
        page.fill("[data-filters] input[name=q]", "no such cause")
        assert page.locator(".causes tbody tr:visible").count() == 0
        page.click("[data-filters] button[type=reset]")
        page.wait_for_selector(".causes tbody tr:visible")
        assert page.locator(".causes tbody tr:visible").count() == every > 0


# ---- bytes explained ----


def batch_of(compression: Compression) -> bytes:
    """A batch with one long record."""
    record = Record(0, 1524709879130, b"k", b"hello" * 50)
    return encode(Batch(magic=2, base_offset=0, last_offset=0, records=(record,), compression=compression))


def test_headers_are_explained_without_pyodide(chromium: Any, folder: Path) -> None:
    """Without Pyodide the page says so, explains headers, and names a digit that is none."""
    with opened(chromium, folder.as_uri(), "explain/index.html") as page:
        assert "no Pyodide" in page.inner_text("#explain-status")
        page.click("#example")
        page.wait_for_selector("#explained .hex")
        assert page.locator("#explained .hex tbody tr").count() == 15
        assert page.inner_text("#explain-status") == "1 batch headers; nothing was checked"
        page.fill("#hex", "00 zz")
        page.click("button[type=submit]")
        assert page.inner_text("#explain-status") == '"z" is no hex digit (digit 3)'


@pytest.mark.parametrize("by", ["file", "http"])
def test_the_reference_explains_bytes(chromium: Any, whole: Path, tmp_path: Path, by: str) -> None:
    """Pasted hex and a chosen file are explained by the reference, all compressions too; nothing is connected to."""
    with served(whole) as address:
        root = whole.as_uri() if by == "file" else address
        with opened(chromium, root, "explain/index.html") as page:
            page.set_default_timeout(START)
            data = b"".join(map(batch_of, COMPRESSIONS))
            page.fill("#hex", data.hex())
            page.click("button[type=submit]")
            page.wait_for_selector("#explained .hex")
            assert page.inner_text("#explain-status") == "✓ valid: 5 batches, 5 records"
            assert page.locator("#explained .part", has_text="▾").count() >= 4

            (tmp_path / "broken.log").write_bytes(data[:70] + bytes((data[70] ^ 1,)) + data[71:])
            page.set_input_files("#file", tmp_path / "broken.log")
            page.wait_for_selector("#explained .error")
            assert page.inner_text("#explain-status").startswith("✗ ")
            rule = page.locator("#explained .rule a").first
            assert (whole / "explain" / str(rule.get_attribute("href"))).resolve().is_file()
            check_width(page, WIDE)


def test_the_page_cannot_connect(chromium: Any, whole: Path) -> None:
    """The policy refuses a connection from the page, to its own server too."""
    with served(whole) as root:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"{root}/explain/index.html")
        script = "fetch(location.href).then(() => 'sent', (error) => error.name)"
        assert page.evaluate(script) == "TypeError"
        context.close()


def test_case_paths_are_those_of_the_site(folder: Path, collected: Collection) -> None:
    """The page of a case is where its id says."""
    assert (folder / case_path(collected.cases[CASE])).is_file()
