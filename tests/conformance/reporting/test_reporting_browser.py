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


def test_a_filter_and_a_case(opened: Any, collected: Collection) -> None:
    """Choosing a severity narrows the list; a case opens with bytes and answers; back keeps the filter."""
    counts = collected.entries[0].results.counts()
    assert opened.locator("#count").inner_text().endswith("cases with findings")

    opened.select_option("select[name=severity]", "lossy")
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
    assert opened.input_value("select[name=severity]") == "lossy"
    assert opened.evaluate("document.activeElement.textContent") == name


def test_text_and_clear(opened: Any) -> None:
    """Words narrow the list as they are typed; no word that is nowhere finds anything; Clear undoes it."""
    everything = opened.locator("#list li").count()
    opened.fill("input[name=q]", "REC-21")
    assert 0 < opened.locator("#list li").count() < everything
    opened.fill("input[name=q]", "no such word anywhere")
    assert opened.locator("#list li").count() == 0
    opened.click("button[type=reset]")
    assert opened.locator("#list li").count() == everything


def test_a_cell_of_the_matrix_filters(opened: Any, collected: Collection) -> None:
    """A cell leads to its testee and area in the list."""
    opened.locator(".matrix a.cell").nth(1).click()
    opened.wait_for_function("document.querySelector('select[name=testee]').value !== ''")

    assert opened.input_value("select[name=testee]") == "1"
    assert opened.input_value("select[name=area]") == collected.areas()[0]
    assert opened.evaluate("document.activeElement.id") == "findings"


def test_keys_are_enough(opened: Any) -> None:
    """The first key press offers to skip to the content; a case opens with Enter, and its heading has the focus."""
    opened.keyboard.press("Tab")
    assert opened.evaluate("document.activeElement.className") == "skip"
    assert opened.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    opened.locator("#list a.id").first.focus()
    opened.keyboard.press("Enter")
    opened.wait_for_selector("#case h1")
    assert opened.evaluate("document.activeElement.tagName") == "H1"
    opened.go_back()
    opened.wait_for_selector("#list li")
    assert opened.locator("#overview").is_visible()


def test_everything_that_scrolls_can_be_reached(opened: Any) -> None:
    """By keys, and it has a name."""
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
