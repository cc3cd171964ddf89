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
from tests.conformance.reporting.conftest import graded_report

from kafka_conformance import reports
from kafka_conformance.dossiers.reproduce import finding_program
from kafka_conformance.reports import html
from kafka_conformance.reports.byte_rows import MOST_ROWS, explained
from kafka_conformance.reports.collection import Collection, collect, read_collection
from kafka_conformance.reports.details import recorded_details
from kafka_conformance.reports.libraries import area_sentence, libraries
from kafka_conformance.reports.summary import NULLS
from kafka_corpus.case import Case
from kafka_records import Batch, Record, encode

pytestmark = pytest.mark.slow

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
    assert not re.search(r"url\(|@import", reports.asset("page.css"))
    scripts = "".join(reports.asset(name) for name in ("shared.js", "page.js", "cross.js"))
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
    assert any("<img src=x onerror=" in text for text in reader.texts["span"])
    assert any(
        "</script><img" in each["why"] and "\\x1b[31m" in each["why"] for case in said.values() for each in case["said"]
    )


def test_matrix_has_each_profile_of_each_library(page: str, collected: Collection) -> None:
    """A row has a cell for each profile and compression, with the share and the causes in words, and no severities."""
    boxes = [each for each in parse(page).elements if (each.attributes.get("class") or "").startswith("box")]
    titles = [each.attributes.get("title") or "" for each in boxes]
    swaps = collected.entries[1]
    (consumer,) = [each for each in swaps.report.profiled.profiles if each.profile == "consumer"]
    share = 100 * consumer.passed // consumer.required

    assert consumer.grade == "fail"
    assert any(title.startswith(f"{swaps.label}, consumer: {consumer.fail_causes} causes; ") for title in titles)
    assert any(title.startswith(f"{swaps.label}, consumer, none: ") for title in titles)
    assert f"{share}% <small>{consumer.fail_causes}</small>" in page
    assert "Youden" not in page
    assert not re.search(r">(?:WD|AI|RV) \d", page)


def test_rows_of_a_library_stand_together(whole_corpus: Mapping[str, Case]) -> None:
    """Variants of a library have its page; the client's row is the library's, the codec's a detail below it."""
    names = ("rskafka", "rskafka-client", "mine", "kafka-python", "reference")
    made = libraries(collect([graded_report(name, {}, whole_corpus) for name in names], cases=whole_corpus))
    rows = {library.id: [row.entry.label for row in library.rows] for library in made}

    assert list(rows) == ["kafka-python", "mine", "rskafka", "reference"]
    assert rows["rskafka"] == ["rskafka-client", "rskafka"]
    assert [row.client for row in made[2].rows] == [True, False]


def test_causes_are_those_of_all_rows(whole_corpus: Mapping[str, Case]) -> None:
    """A cause that two rows show is one cause; a reviewed one comes first, with its source and its smallest case."""
    case = "v2_headers.key_is_not_utf_8[0xff]"
    other = next(id_ for id_ in whole_corpus if id_.startswith("v2_headers.key_is_not_utf_8[") and id_ != case)
    refused = {"outcome": "rejects_valid", "why": "UnicodeDecodeError"}
    reports = [
        graded_report("aiokafka", {case: refused, "backwards.record_at_itself": CRASHED}, whole_corpus),
        graded_report("aiokafka-pure", {other: refused}, whole_corpus),
    ]
    collection = collect(reports, cases=whole_corpus)
    made = html.result_page(collection)
    (library,) = unpacked(made, "index")["libraries"]
    cause, crash = library["causes"]

    assert (cause["reviewed"], cause["grade"], cause["reach"]) == (True, "FAIL", "any_producer")
    assert cause["counts"] == {"0": {"FAIL": 1}, "1": {"FAIL": 1}}
    assert set(cause["cases"]) == {case, other}
    assert "aiokafka/" in cause["source"]
    assert cause["explanation"]
    assert (crash["reviewed"], crash["grade"]) == (False, "HOSTILE")
    assert "explanation" not in crash
    assert details(made)[case]["said"][0]["cause"] == cause["id"]


def test_a_reviewed_cause_has_its_reproducer(whole_corpus: Mapping[str, Case]) -> None:
    """The program of the library for the cause's smallest bytes is in the page; other groups of findings have none."""
    case = "v2_headers.key_is_not_utf_8[0xff]"
    changed = {
        case: {"outcome": "rejects_valid", "why": "UnicodeDecodeError"},
        "backwards.record_at_itself": CRASHED,
    }
    collection = collect([graded_report("kafka-python", changed, whole_corpus)], cases=whole_corpus)
    programs = unpacked(html.result_page(collection, (), finding_program), "programs")
    (program,) = programs.values()
    data = whole_corpus[case].input
    assert isinstance(data, bytes)

    assert list(programs) == ["kafka-python/header-key-not-utf8"]
    assert program["commands"]
    assert data.hex() in re.sub(r"\s", "", "".join(program["files"].values()))
    assert unpacked(html.result_page(collection), "programs") == {}


CRASHED = {"outcome": "crash", "why": "x"}


def test_areas_have_sentences(whole_corpus: Mapping[str, Case]) -> None:
    """Each area of the corpus is described by one sentence without the names of groups."""
    sentences = {area: area_sentence(area) for area in {case.area for case in whole_corpus.values()}}

    assert [area for area, text in sentences.items() if not text.endswith(".")] == []
    assert not [text for text in sentences.values() if "(group" in text]
    assert area_sentence("no_such_area") == area_sentence("../areas") == ""


def test_null_testees_pass_no_profile(page: str) -> None:
    """The footnote names each null testee with its share of the required cases, which is far below all."""
    shares = html.null_shares()

    assert set(shares) == set(NULLS)
    assert max(shares.values()) < 60
    assert all(f"{name} passes {share} % of the required cases" in page for name, share in shares.items())


def test_every_finding_has_its_page(page: str, collected: Collection) -> None:
    """The list has every case with a finding, the gravest grade first; details are in the chunk of the index."""
    index, listed, said = unpacked(page, "index"), unpacked(page, "cases"), details(page)
    worst = [min(grade for grade in case["grades"] if grade is not None) for case in listed["cases"]]

    assert [case["id"] for case in listed["cases"]] == list(said)
    assert sorted(said) == sorted(collected.found())
    assert worst == sorted(worst)
    assert all(case["reach"] in index["reaches"] for case in listed["cases"])
    assert all(rule in listed["rules"] for case in listed["cases"] for rule in case["rules"])
    first = listed["cases"][index["chunk"] + 1]["id"]
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

    fixed = sum(len(reports.asset(name)) for name in ("page.css", "shared.js", "page.js"))
    assert len(page) - fixed < 1024 * len(details(page))
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
