"""The page in a real browser: filters, a case, keys, widths, and a policy that holds.

Needs Chromium on the path and playwright, which drives it; skipped where one is missing.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_conformance.cli import kafkaproof
from kafka_conformance.reporting import html
from kafka_conformance.reporting.collection import Collection

pytestmark = pytest.mark.slow

WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def address(collected: Collection, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page as a file."""
    path: Path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(html.page(collected), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def opened(chromium: Any, address: str) -> Iterator[Any]:
    """The page, unpacked; nothing may go wrong in it, and nothing be asked for beside it."""
    context = chromium.new_context(viewport=WIDE)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.on("request", lambda request: wrong.append(request.url) if request.url.partition("#")[0] != address else None)
    page.goto(address)
    page.wait_for_selector("html[data-ready=yes]")
    yield page
    context.close()
    assert wrong == []


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
    """Whatever is wider or higher than its frame takes the focus, so that keys scroll it, and has a name."""
    opened.locator("#list a.id").first.click()
    opened.wait_for_selector("#case h1")
    frames = opened.locator(".scroll, pre").all()

    assert frames
    assert {frame.get_attribute("tabindex") for frame in frames} == {"0"}
    assert all(frame.get_attribute("aria-label") or frame.get_attribute("aria-labelledby") for frame in frames)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_it_fits(size: dict[str, int], scheme: str, chromium: Any, address: str) -> None:
    """Nothing is wider than the window, on the overview or on a case, and dark is dark."""
    page = chromium.new_context(viewport=size, color_scheme=scheme).new_page()
    page.goto(address)
    page.wait_for_selector("html[data-ready=yes]")
    wide = "document.documentElement.scrollWidth"
    red = int(page.evaluate("getComputedStyle(document.body).backgroundColor").split("(")[1].split(",")[0])

    assert page.evaluate(wide) <= size["width"]
    assert (red < 64) == (scheme == "dark")
    page.locator("#list a.id").first.click()
    page.wait_for_selector("#case h1")
    assert page.evaluate(wide) <= size["width"]
    page.context.close()


CONTRAST = """
() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const back = (element) => {
    for (; element; element = element.parentElement) {
      const colour = parse(getComputedStyle(element).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!text || !element.checkVisibility() || element.closest("script, option")) continue;
    const [one, other] = [light(parse(getComputedStyle(element).color)), light(back(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) found.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
  }
  return [...new Set(found)];
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(scheme: str, chromium: Any, address: str) -> None:
    """All text has a contrast of at least 4.5 with what is behind it (WCAG 2.1, AA)."""
    page = chromium.new_context(viewport=WIDE, color_scheme=scheme).new_page()
    page.goto(address)
    page.wait_for_selector("html[data-ready=yes]")
    assert page.evaluate(CONTRAST) == []
    page.locator("#list a.id").first.click()
    page.wait_for_selector("#case h1")
    assert page.evaluate(CONTRAST) == []
    page.context.close()


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
    testees = ("miniature:writes_seconds", "miniature:swaps_key_and_value", "reference")
    options = ("--broker", "none", "--only", "writers.headers_are_a_list", "--only", "writers.timestamps*")
    done = CliRunner().invoke(kafkaproof, ["cross", *testees, *options, "--report", str(folder)])
    assert done.exit_code == 1, done.output
    return (folder / "cross.html").as_uri()


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_filter_and_a_batch(size: dict[str, int], chromium: Any, crossed: str) -> None:
    """On the page of a cross run a filter narrows the batches; one opens with the bytes of its writers, and fits."""
    context = chromium.new_context(viewport=size)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.on("request", lambda request: wrong.append(request.url) if request.url.partition("#")[0] != crossed else None)
    page.goto(crossed)
    page.wait_for_selector("html[data-ready=yes]")
    everything = page.locator("#list li").count()
    page.select_option("select[name=writes]", label="miniature:writes_seconds")
    page.select_option("select[name=reads]", label="reference")
    narrowed = page.locator("#list li").count()

    assert 0 < narrowed < everything
    first = page.locator("#list a.id").first
    name = first.inner_text()
    first.click()
    page.wait_for_selector("#case h1")
    assert name in page.title()
    assert page.locator("#case .hex tr").count() > 10
    assert "miniature:writes_seconds to reference" in page.locator("#case .said").inner_text()
    assert not page.locator("#overview").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    page.click("#back")
    page.wait_for_selector("#list li")
    assert page.locator("#list li").count() == narrowed
    assert page.evaluate("document.activeElement.textContent") == name
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    context.close()
    assert wrong == []


def test_a_cell_of_a_cross_matrix_opens_what_failed(chromium: Any, crossed: str) -> None:
    """A cell leads to the failures in it, and from there a link to the page of a batch."""
    page = chromium.new_page()
    page.goto(crossed)
    page.wait_for_selector("html[data-ready=yes]")
    page.locator(".matrix a.cell").first.click()
    page.wait_for_selector("details.into[open] a.id")
    link = page.locator("details.into[open] a.id").first
    name = link.inner_text()
    link.click()
    page.wait_for_selector("#case h1")

    assert name in page.title()
    page.close()
