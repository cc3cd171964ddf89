"""The page of an audit in a real browser: it fits, findings unfold, and hostile names stay text.

Needs Chromium on the path and playwright, which drives it; skipped where one is missing.
"""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba")

from tests.browsing import Size, check_scrolling, check_view, every_scheme, every_size, unfold, visited
from tests.pipeline.audit_damage import a_flipped_bit, a_size_of_zero, a_time_in_the_future
from tests.pipeline.recorded import NOW, audited, fresh

from kafka_pipeline.audit.joining import AuditReport
from kafka_pipeline.audit.page import audit_page

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)>&amp; \u202e" + "long" * 30


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page as a file: one log is clean, one is cut off, one has damage and a hostile name."""
    folder = tmp_path_factory.mktemp("logs")
    clean, cut, hostile = (fresh(folder / name) for name in ("clean", "cut", HOSTILE))
    a_size_of_zero(cut)
    a_flipped_bit(hostile)
    a_time_in_the_future(hostile)
    logs = [audited(log) for log in (clean, cut, hostile)]
    severities = {
        severity: sum(number for log in logs for name, number in log.found.items() if name.endswith(severity))
        for severity in ("error", "warning", "note")
    }
    path: Path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(
        audit_page(AuditReport(path=str(folder), now_ms=NOW, severities=severities, logs=logs)), encoding="utf-8"
    )
    return path.as_uri()


@every_scheme
@every_size
def test_it_fits_and_can_be_read(size: Size, scheme: str, chromium: Any, address: str) -> None:
    """Nothing is wider than the window with everything open, dark is dark, and names are text."""
    with visited(chromium, address, size=size, scheme=scheme) as shown:
        unfold(shown)
        check_view(shown, size, scheme)
        assert shown.locator("img, script").count() == 0
        assert "<img src=x onerror=alert(1)>&amp; \\u202e" in shown.locator("h2").nth(1).inner_text()


def test_findings_and_pictures(chromium: Any, address: str) -> None:
    """The worst log comes first, errors are open with byte and rule, and a strip shows where, and what was not read."""
    shown = chromium.new_page()
    shown.goto(address)
    assert shown.locator(".logs tbody .tag").all_inner_texts() == ["error", "error", "note"]
    first = shown.locator("section.log").first
    kind = first.locator("details.kind").first
    assert kind.get_attribute("open") is not None
    assert "CRC-07" in kind.locator("summary").inner_text()
    assert "3,754" in kind.locator("tbody").inner_text()
    assert first.locator(".strip .mark").count() >= 3
    assert shown.locator(".unread-part").count() == 1
    assert first.locator("svg.bars").count() == 3
    check_scrolling(shown)
    shown.close()
