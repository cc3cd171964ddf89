"""The page in a real browser: filters, a case, keys, widths, and a policy that holds.

Needs Chromium on the path and playwright, which drives it; skipped where one is missing.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.browsing import (
    Size,
    check_contrast,
    check_scrolling,
    check_view,
    check_width,
    every_scheme,
    every_size,
    visited,
)

from kafka_conformance.reports import html
from kafka_conformance.reports.collection import Collection
from kafka_conformance.reports.libraries import libraries
from kafkaproof.cli import kafkaproof

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(collected: Collection, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page as a file."""
    path: Path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(html.result_page(collected), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def opened(chromium: Any, address: str) -> Iterator[Any]:
    """The page, unpacked."""
    with visited(chromium, address) as page:
        page.wait_for_selector("html[data-ready=yes]")
        yield page


def show(page: Any, view: str) -> None:
    """Open one of the views of the page."""
    page.click(f".views a[href='#/{view}']")
    page.wait_for_selector(f".view[data-view={view}]:not([hidden])")


def test_a_filter_and_a_case(opened: Any, collected: Collection) -> None:
    """Choosing a severity narrows the list; a case opens with bytes and answers; back keeps the filter."""
    counts = collected.entries[0].results.counts()
    show(opened, "findings")
    assert opened.locator("#count").inner_text().endswith("cases with findings")

    opened.select_option("#filters select[name=severity]", "lossy")
    shown = opened.locator("#list li").count()
    assert shown > 0
    assert opened.locator("#list .tag").count() >= shown
    assert counts["lossy"] >= shown

    first = opened.locator("#list a.id").first
    name = first.inner_text()
    first.click()
    opened.wait_for_selector("#case h1")
    assert name in opened.title()
    assert opened.locator("#case .hex tr").count() > 10
    assert opened.locator("#case .said tbody tr").count() == len(collected.entries)
    assert not opened.locator("#overview").is_visible()

    opened.click("#back")
    opened.wait_for_selector("#list li")
    assert opened.locator("#list li").count() == shown
    assert opened.input_value("#filters select[name=severity]") == "lossy"
    assert opened.evaluate("document.activeElement.textContent") == name


def test_text_and_clear(opened: Any) -> None:
    """Words narrow the list as they are typed; no word that is nowhere finds anything; Clear undoes it."""
    show(opened, "findings")
    everything = opened.locator("#list li").count()
    opened.fill("#filters input[name=q]", "REC-21")
    assert 0 < opened.locator("#list li").count() < everything
    opened.fill("#filters input[name=q]", "no such word anywhere")
    assert opened.locator("#list li").count() == 0
    opened.click("#filters button[type=reset]")
    assert opened.locator("#list li").count() == everything


def test_a_cell_of_the_areas_filters(opened: Any, collected: Collection) -> None:
    """A cell leads to its testee and area in the list of findings."""
    show(opened, "areas")
    opened.locator(".areas a.box").first.click()
    opened.wait_for_selector("#list li")

    assert opened.input_value("#filters select[name=testee]") != ""
    assert opened.input_value("#filters select[name=area]") == collected.areas()[0]
    assert opened.evaluate("document.activeElement.id") == "findings"


def test_a_library_and_its_causes(opened: Any, collected: Collection) -> None:
    """A name in the matrix leads to the library, a cause of it to its page, and that to the case; links go back."""
    opened.locator("#profiles tbody th a").first.click()
    opened.wait_for_selector("#case h1")
    library = opened.locator("#case h1").inner_text()
    assert opened.locator("#case .turned .box").count() > 1
    link = opened.locator("#case .causes th a").first
    title, href = link.inner_text(), link.get_attribute("href")
    link.click()
    opened.wait_for_selector("#case .hex")
    assert opened.locator("#case h1").inner_text() == title
    assert opened.evaluate("location.hash") == href
    assert href is not None
    assert href.startswith(f"#/{library}/")
    assert opened.locator("#case .unreviewed").count() == 1
    opened.locator("#case .ids a").first.click()
    opened.wait_for_selector("#case .said")
    opened.click("#back")
    opened.wait_for_selector("#case .ids")
    opened.click("#back")
    opened.wait_for_selector("#case .causes")
    opened.click("#back")
    opened.wait_for_selector("#profiles")
    assert opened.evaluate("document.activeElement.textContent") == library


def test_a_link_to_a_cause_opens_it(chromium: Any, address: str, collected: Collection) -> None:
    """The address of a cause has its library and id; a page that is opened with it shows the cause."""
    (library,) = [each for each in libraries(collected) if any(row.number == 1 for row in each.rows)]
    cause = library.causes[0]
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{address}#/{library.id}/{cause.key.id}")
    page.wait_for_selector("#case .hex")
    assert page.locator("#case h1").inner_text() == cause.key.title
    assert cause.key.id in page.locator("#case .facts").inner_text()
    context.close()


def test_causes_are_filtered_and_ordered(opened: Any) -> None:
    """Grade, reach and words narrow the list of causes; the filter is part of the address."""
    show(opened, "causes")
    everything = opened.locator("#cause-list tbody tr").count()
    opened.select_option("#cause-filters select[name=grade]", "FAIL")
    failing = opened.locator("#cause-list tbody tr").count()
    assert 0 < failing < everything
    assert set(opened.locator("#cause-list .grade").all_inner_texts()) == {"FAIL"}
    assert opened.evaluate("location.hash") == "#/causes?grade=FAIL"
    opened.select_option("#cause-filters select[name=order]", "cases")
    numbers = [int(text) for text in opened.locator("#cause-list td.number").all_inner_texts()]
    assert numbers == sorted(numbers, reverse=True)
    opened.select_option("#cause-filters select[name=release]", "4.4.0")
    assert 0 < opened.locator("#cause-list tbody tr").count() <= len(numbers)
    # No cause has bytes that a release which is not there stores.
    opened.evaluate("document.querySelector('#cause-filters select[name=release]').add(new Option('0.1'))")
    opened.select_option("#cause-filters select[name=release]", "0.1")
    assert opened.locator("#cause-list tbody tr").count() == 0
    opened.select_option("#cause-filters select[name=release]", "")
    opened.fill("#cause-filters input[name=q]", "no such word anywhere")
    assert opened.locator("#cause-list tbody tr").count() == 0


def test_the_matrix_is_sorted_and_unfolded(opened: Any) -> None:
    """A profile sorts the libraries by share, the highest first; compressions are columns below the profiles."""
    opened.click("#profiles th[data-profile=consumer] button")
    cells = opened.locator("#profiles tbody tr td:nth-child(2)").all_inner_texts()
    shares = [int(text.partition("%")[0].rpartition("\n")[2]) for text in cells if "%" in text]
    assert shares == sorted(shares, reverse=True)
    assert not opened.locator("#profiles td.column").first.is_visible()
    opened.check("#compressions")
    assert opened.locator("#profiles td.column").first.is_visible()
    assert opened.evaluate("document.querySelector('[data-profile=consumer]').colSpan") == 6


def test_keys_are_enough(opened: Any) -> None:
    """The first key press offers to skip to the content; a case opens with Enter, and its heading has the focus."""
    opened.keyboard.press("Tab")
    assert opened.evaluate("document.activeElement.className") == "skip"
    assert opened.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    show(opened, "findings")
    opened.locator("#list a.id").first.focus()
    opened.keyboard.press("Enter")
    opened.wait_for_selector("#case h1")
    assert opened.evaluate("document.activeElement.tagName") == "H1"
    opened.go_back()
    opened.wait_for_selector("#list li")
    assert opened.locator("#overview").is_visible()


def test_everything_that_scrolls_can_be_reached(opened: Any) -> None:
    """By keys, and it has a name."""
    show(opened, "findings")
    opened.locator("#list a.id").first.click()
    opened.wait_for_selector("#case h1")
    check_scrolling(opened)


@every_scheme
@every_size
def test_it_fits(size: Size, scheme: str, chromium: Any, address: str) -> None:
    """Nothing is wider than the window, on the overview or on a case, dark is dark, and all text can be read."""
    with visited(chromium, address, size=size, scheme=scheme) as page:
        page.wait_for_selector("html[data-ready=yes]")
        check_view(page, size, scheme)
        for view in ("causes", "areas", "findings"):
            show(page, view)
            check_view(page, size, scheme)
        page.locator("#list a.id").first.click()
        page.wait_for_selector("#case h1")
        check_view(page, size, scheme)


def test_the_policy_holds(chromium: Any, address: str) -> None:
    """Markup that gets in all the same does nothing: it cannot even be made of text."""
    opened = chromium.new_page()
    opened.goto(address)
    refused = opened.evaluate("""() => {
      try { document.body.innerHTML = "<img src=x onerror=alert(1)>"; return ""; } catch (error) { return error.name; }
    }""")

    assert refused == "TypeError"
    assert opened.locator("img").count() == 0
    opened.close()


@pytest.fixture(scope="module")
def crossed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a cross run: a writer that is wrong, a reader that is wrong, and the reference."""
    folder: Path = tmp_path_factory.mktemp("cross")
    testees = ("planted:writes_seconds", "planted:swaps_key_and_value", "reference")
    options = ("--broker", "none", "--only", "writers.headers_are_a_list", "--only", "writers.timestamps*")
    done = CliRunner().invoke(kafkaproof, ["cross", *testees, *options, "--report", str(folder)])
    assert done.exit_code == 1, done.output
    return (folder / "cross.html").as_uri()


@every_size
def test_a_filter_and_a_batch(size: Size, chromium: Any, crossed: str) -> None:
    """On the page of a cross run a filter narrows the batches; one opens with the bytes of its writers, and fits."""
    with visited(chromium, crossed, size=size) as page:
        page.wait_for_selector("html[data-ready=yes]")
        everything = page.locator("#list li").count()
        page.select_option("select[name=writes]", label="planted:writes_seconds")
        page.select_option("select[name=reads]", label="reference")
        narrowed = page.locator("#list li").count()

        assert 0 < narrowed < everything
        first = page.locator("#list a.id").first
        name = first.inner_text()
        first.click()
        page.wait_for_selector("#case h1")
        assert name in page.title()
        assert page.locator("#case .hex tr").count() > 10
        assert "planted:writes_seconds to reference" in page.locator("#case .said").inner_text()
        assert not page.locator("#overview").is_visible()
        check_width(page, size)
        check_contrast(page)
        page.click("#back")
        page.wait_for_selector("#list li")
        assert page.locator("#list li").count() == narrowed
        assert page.evaluate("document.activeElement.textContent") == name
        check_width(page, size)
