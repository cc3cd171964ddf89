"""Pages in a real browser: what holds for each of ours.

Needs Chromium on the path and playwright, which drives it; the fixture `chromium` skips where one is missing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

Size = dict[str, int]
WIDE: Size = {"width": 1280, "height": 900}
PHONE: Size = {"width": 390, "height": 800}
every_scheme = pytest.mark.parametrize("scheme", ["light", "dark"])
every_size = pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])


@contextmanager
def visited(chromium: Any, address: str, *, size: Size = WIDE, scheme: str = "light") -> Iterator[Any]:
    """The page; an error in it, or a request for another file, fails the test."""
    context = chromium.new_context(viewport=size, color_scheme=scheme)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.on("request", lambda request: wrong.append(request.url) if request.url.partition("#")[0] != address else None)
    page.goto(address)
    yield page
    context.close()
    assert wrong == []


def unfold(page: Any) -> None:
    """Open everything that can be opened."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")


def check_width(page: Any, size: Size) -> None:
    """Nothing is wider than the window."""
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def check_scheme(page: Any, scheme: str) -> None:
    """Dark is dark."""
    red = int(page.evaluate("getComputedStyle(document.body).backgroundColor").split("(")[1].split(",")[0])
    assert (red < 64) == (scheme == "dark")


def check_view(page: Any, size: Size, scheme: str) -> None:
    """The page fits the window, follows the colour scheme, and all text can be read."""
    check_width(page, size)
    check_scheme(page, scheme)
    check_contrast(page)


def check_scrolling(page: Any) -> None:
    """Whatever is wider or higher than its frame takes the focus, so that keys scroll it, and has a name."""
    frames = page.locator(".scroll, pre").all()
    assert frames
    assert {frame.get_attribute("tabindex") for frame in frames} == {"0"}
    assert all(frame.get_attribute("aria-label") or frame.get_attribute("aria-labelledby") for frame in frames)


def check_contrast(page: Any) -> None:
    """All text has a contrast of at least 4.5 with its background (WCAG 2.1, AA)."""
    assert page.evaluate(CONTRAST) == []


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
