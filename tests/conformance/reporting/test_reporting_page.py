"""The HTML page: complete, valid, by itself, and deaf to what testees say."""

import gzip
import json
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafka_conformance.judge.verdict import OUTCOMES, SEVERITIES
from kafka_conformance.reports import html
from kafka_conformance.reports.collection import Collection, collect, read_collection
from kafka_conformance.reports.details import MOST_ROWS, explained, recorded_details
from kafka_corpus.case import Case
from kafka_records import Batch, Record, encode

VOID = {"meta", "br", "input"}


class Element(NamedTuple):
    """A start tag."""

    tag: str
    attributes: dict[str, str | None]


class Reader(HTMLParser):
    """Parses a page and fails if its tags are unbalanced."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep it."""
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice"
        self.elements.append(Element(tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """It has to close what was opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep it below the tag that it stands in."""
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def parse(page: str) -> Reader:
    """The page, read to its end."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def unpacked(page: str, id_: str) -> Any:
    """The content of a script element."""
    found = re.search(rf'<script type="text/plain" id="{id_}">([A-Za-z0-9+/=]+)</script>', page)
    assert found, id_
    return json.loads(gzip.decompress(b64decode(found[1])))


def details(page: str) -> dict[str, dict[str, Any]]:
    """All cases that are in the page, by id."""
    chunks = re.findall(r'id="(chunk-\d+)"', page)
    return {case["id"]: case for chunk in chunks for case in unpacked(page, chunk)}


@pytest.fixture(scope="session")
def page(collected: Collection) -> str:
    """The page for two testees with planted bugs and one with hostile output."""
    return html.result_page(collected)


def test_page_is_valid(page: str) -> None:
    """Tags are balanced, ids are unique, and every reference to an id resolves."""
    elements = parse(page).elements
    ids = Counter(each.attributes["id"] for each in elements if "id" in each.attributes)
    labelled = [each.attributes["aria-labelledby"] for each in elements if "aria-labelledby" in each.attributes]
    anchors = [href[1:] for each in elements if (href := each.attributes.get("href")) and not href.startswith("#/")]

    assert page.startswith("<!doctype html>\n<html lang=")
    assert set(ids.values()) == {1}
    assert labelled
    assert {*labelled, *anchors} <= ids.keys()


def test_nothing_comes_from_outside(page: str) -> None:
    """No element names another file or place, and the policy forbids it too."""
    elements = parse(page).elements
    links = {href for each in elements if (href := each.attributes.get("href"))}
    policy = next(each.attributes["content"] for each in elements if "http-equiv" in each.attributes)

    assert not [
        each for each in elements if "src" in each.attributes or each.tag in ("link", "iframe", "object", "img")
    ]
    assert all(href.startswith("#") for href in links)
    assert policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert not re.search(r"url\(|@import", html.asset("page.css"))
    scripts = "".join(html.asset(name) for name in ("shared.js", "page.js", "cross.js"))
    assert not re.search(r"fetch\(|XMLHttp|import\(|innerHTML|insertAdjacent|document\.write|eval", scripts)


def test_policy_names_the_script_and_the_style(page: str) -> None:
    """The hashes in the policy are those of what stands between the tags, or the page would be dead."""
    policy = next(each.attributes["content"] or "" for each in parse(page).elements if "http-equiv" in each.attributes)
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_hostile_text_is_text(page: str) -> None:
    """Text of a testee makes no element, no attribute and no control character, and is still there to be read."""
    reader = parse(page)
    said = details(page)

    assert not [
        each for each in reader.elements if each.tag == "img" or any(name[:2] == "on" for name in each.attributes)
    ]
    assert [each.tag for each in reader.elements].count("script") == page.count("</script>")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", page)
    assert any("<img src=x onerror=" in text for text in reader.texts["a"])
    assert any(
        "</script><img" in each["why"] and "\\x1b[31m" in each["why"] for case in said.values() for each in case["said"]
    )


def test_matrix_says_every_count(page: str, collected: Collection) -> None:
    """Every area has a cell for every testee that says its worst severity, in words too."""
    classes = [each.attributes.get("class") or "" for each in parse(page).elements]
    cells = [each.removeprefix("cell s-") for each in classes if each.startswith("cell ")]
    swaps = html.page_cell(collected.entries[1], "v2_headers")

    assert len(cells) == len(collected.entries) * (len(collected.areas()) + 1)
    assert set(cells) <= set(OUTCOMES)
    assert swaps.worst == "wrong_data"
    assert swaps.text == f"WD {collected.entries[1].results.counts()['wrong_data']}"
    assert "wrong data" in swaps.words


def test_every_finding_has_its_page(page: str, collected: Collection) -> None:
    """The index lists every case with a finding, worst first, and its details stand in the chunk that it says."""
    index, said = unpacked(page, "index"), details(page)
    worst = [min(outcome for outcome in case["outcomes"] if outcome is not None) for case in index["cases"]]

    assert [case["id"] for case in index["cases"]] == list(said) == collected.found()
    assert worst == sorted(worst)
    assert max(worst) < len(SEVERITIES)
    assert all(rule in index["rules"] for case in index["cases"] for rule in case["rules"])
    first = index["cases"][index["chunk"] + 1]["id"]
    assert unpacked(page, "chunk-1")[1]["id"] == first


def test_a_case_is_complete(page: str, collected: Collection) -> None:
    """A case has its bytes explained, what is right, what each testee said, and recorded answers."""
    case = next(case for case in details(page).values() if case["verdict"] == "valid" and case["evidence"])
    rows = case["question"][0]["rows"]
    shown = "".join(
        part if isinstance(part, str) else "".join(part) for row in rows if row[0] == "field" for part in row[4]
    )

    assert any(row[0] == "field" and row[5] == "base_offset" for row in rows)
    assert collected.cases[case["id"]].input[:8].hex(" ") in shown  # type: ignore[index]  # a decode case
    assert '"records"' in case["expected"][0]
    assert [each["testee"] for each in case["said"]] == [0, 1, 2]
    assert [who for who, _, _ in case["evidence"]][:2] == ["the specification", "java"]


def test_written_bytes_stand_on_the_page(whole: Callable[..., Path], whole_corpus: Mapping[str, Case]) -> None:
    """A finding about a writer shows the bytes that it wrote, with the meaning of each; of long ones the first."""
    ids = [id_ for id_, case in whole_corpus.items() if case.op == "encode" and case.expect.data][:3]
    cut, all_of_it, broken = ids
    data = whole_corpus[all_of_it].expect.data or b""
    changed = {
        cut: {"outcome": "wrong_data", "observation": {"kind": "encoded", "bytes": 5000, "written": data[:40].hex()}},
        all_of_it: {
            "outcome": "wrong_data", "observation": {"kind": "encoded", "bytes": len(data), "written": data.hex()},
        },
        broken: {"outcome": "wrong_data", "observation": {"kind": "encoded", "bytes": 4, "written": "no hex"}},
    }  # fmt: skip
    collection = collect(read_collection([whole(changed=changed)]))
    said = {id_: case["said"][0] for id_, case in details(html.result_page(collection)).items()}

    assert said[cut]["written"]["title"] == "The first 40 of 5,000 bytes that it wrote"
    assert said[all_of_it]["written"]["title"] == "The bytes that it wrote"
    assert said[all_of_it]["written"]["size"] == f"{len(data):,} bytes"
    assert any(row[0] == "field" and row[5] == "base_offset" for row in said[all_of_it]["written"]["rows"])
    assert "written" not in said[broken]
    assert data.hex() not in said[all_of_it]["answer"]


def test_a_broken_input_is_marked_where_it_breaks(whole_corpus: Mapping[str, Case]) -> None:
    """The wrong byte stands apart, and the error with its rule stands below its field."""
    broken = explained("x", bytes.fromhex("0000000000000000 0000000e 00000000 7f"))["rows"]
    short = whole_corpus["compaction.count_says_more_than_is_left[gzip]"].input
    assert isinstance(short, bytes)
    ends = [row[0] for row in explained("x", short)["rows"]]

    at = next(number for number, row in enumerate(broken) if row[0] == "error")
    assert broken[at][1] == "unsupported_magic"
    assert broken[at - 1][5] == "magic"
    assert broken[at - 1][4] == [["", "7f", ""]]
    assert ends[-4:] == ["field", "end", "error", "close"]


def test_a_flood_is_cut() -> None:
    """However many fields an input has, a page shows a bounded number of them, and says so."""
    records = tuple(Record(at, 0, None, b"x") for at in range(500))
    made = explained("x", encode(Batch(magic=2, base_offset=0, last_offset=499, max_timestamp=0, records=records)))

    assert len(made["rows"]) == MOST_ROWS + 1
    assert made["rows"][-1][0] == "more"
    assert made["rows"][-1][1] > 0


def test_answers_of_releases_in_a_row_stand_together() -> None:
    """Recorded answers are grouped by release, in their order, and say what differs."""
    expected, refused = {"as_expected": True}, {"steps": [{"error_code": 87}, {"base_offset": 3}]}
    brokers = {"2.8.2": refused, "3.0.2": expected, "3.9.2": expected, "4.4.0": {"verdict": "error", "kind": "corrupt"}}

    assert list(recorded_details({"brokers": brokers, "reference": {"verdict": "ok"}})) == [
        ["brokers", "2.8.2", "otherwise: error 87, taken at offset 3"],
        ["brokers", "3.0.2 to 3.9.2 (2 releases)", "as expected"],
        ["brokers", "4.4.0", "refuses: corrupt"],
        ["the specification", "", "answers what is expected"],
    ]


def test_page_is_small(page: str, wrong: Path) -> None:
    """The page stores cases compressed; a page with more testees is less than twice as long."""
    many = html.result_page(
        collect(read_collection([wrong] * 1 + [wrong / each.name for each in wrong.iterdir() if each.is_dir()] * 2))
    )

    assert len(page) < 1024 * len(details(page))
    assert len(many) < 2 * len(page)


def test_page_is_the_same_again(collected: Collection) -> None:
    """The same results give the same bytes."""
    assert html.result_page(collected) == html.result_page(collected)


def test_labels_are_unique(wrong: Path) -> None:
    """Results of one name get longer labels and directories of their own."""
    results = sorted(wrong.glob("*/result.ndjson"))
    twice = collect(read_collection(results) + read_collection(results))

    assert len({entry.label for entry in twice.entries}) == 4
    assert len({entry.folder for entry in twice.entries}) == 4
