"""Settings for every test, and the checks of every decoder test."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from kafka_records import Batch, RecordFormatError, decode

# A loaded machine is slow, and that is no defect: times are measured in the bench
# environment.  In CI a run must be repeatable: fixed seeds and nothing remembered.
settings.register_profile("local", deadline=None)
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable" if "CI" in os.environ else "local")


# Seconds by marker, for what starts brokers, compiles or builds; the longest that fits a test holds.
TIME_LIMITS = {
    "slow": 600,
    "columnar": 900,
    "java": 900,
    "broker": 900,
    "spark": 900,
    "container": 1200,
    "testees": 1800,
    "million": 1800,
    "sweep": 3600,
}


@cache
def names_marker(path: Path, name: str) -> bool:
    """Whether the module at *path* names the marker."""
    return f"mark.{name}" in path.read_text(encoding="utf-8")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules without the marker that `-m` requires: importing all of them takes half a minute of CPU."""
    words = str(config.option.markexpr or "").split()
    if not words or words[0] not in TIME_LIMITS or "or" in words or not collection_path.match("test_*.py"):
        return None
    return None if names_marker(collection_path, words[0]) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give marked tests more time than `timeout` in pyproject.toml, unless they say themselves how much.

    Raises:
        pytest.UsageError: a test has a marker that its module does not name, so that `-m` would not find it.
    """
    for item in items:
        marked = [name for name in TIME_LIMITS if item.get_closest_marker(name)]
        if unnamed := [name for name in marked if not names_marker(item.path, name)]:
            raise pytest.UsageError(f"{item.path} has to name the markers of {item.name}: {', '.join(unnamed)}")
        limits = [TIME_LIMITS[name] for name in marked]
        if limits and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(max(limits)))


@pytest.fixture(autouse=True, scope="session")
def interrupts_are_heard() -> None:
    """A job that a shell put into the background ignores interrupts, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser; skips where there is no Chromium on the path, or no playwright, which drives it."""
    api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no Chromium here")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def three_ways() -> Callable[[bytes], tuple[Batch, ...]]:
    """Decode a valid log whole, byte by byte and with trailing data; give what it holds."""
    return decode_three_ways


def decode_three_ways(data: bytes) -> tuple[Batch, ...]:
    """The result of `decode` for *data*; other ways of passing the bytes have to give the same."""
    whole = decode(data)
    ends = entry_ends(data)
    assert len(whole) == len(ends)
    assert ends[-1:] == [len(data)][: len(ends)]
    for cut in range(len(data)):
        # FRM-04, FRM-06, FRM-07: what is not all there yet is not there at all.
        assert decode(data[:cut]) == whole[: sum(end <= cut for end in ends)], cut
    assert decode(data + data) == whole + whole
    # FRM-13: 11 zero bytes are a tail, 12 are an entry of size 0.
    assert decode(data + bytes(11)) == whole
    with pytest.raises(RecordFormatError) as caught:
        decode(data + bytes(12))
    assert (caught.value.rule, caught.value.offset, caught.value.batches) == ("FRM-05", len(data) + 8, whole)
    return whole


def entry_ends(data: bytes) -> list[int]:
    """Where the entries of a valid log end, by their size fields."""
    sizes: list[int] = []
    while (at := sum(sizes)) < len(data):
        sizes.append(12 + int.from_bytes(data[at + 8 : at + 12], "big"))
    return list(accumulate(sizes))
