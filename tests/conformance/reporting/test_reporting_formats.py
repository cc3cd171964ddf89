"""Machine-readable reports: JSON, SARIF, JUnit XML, badges; and Markdown for a pull request."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from tests.conformance.reporting.conftest import Changed, graded_report

from kafka_conformance.causes import causes_of
from kafka_conformance.judge.grade import Profile
from kafka_conformance.reports import formats, picture, summary
from kafka_conformance.reports.collection import Collection, collect, read_collection
from kafka_conformance.reports.profiles import PassCriteria
from kafka_conformance.runner.deviations import Deviation
from kafka_corpus.case import Case
from kafka_corpus.vectors import corpus_hash
from kafkaproof.cli import kafkaproof

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[3] / "docs"
LEVELS = {"FAIL": "error", "HOSTILE": "warning", "NON_STRICT": "note"}


def test_certify_writes_every_format(wrong: Path) -> None:
    """Each testee has its files in its own directory; what can be said of all stands one level above."""
    own = {"result.ndjson", "summary.txt", "report.json", "report.html", "report.sarif", "junit.xml"}
    own |= {"badge.svg", "badge.json", "summary.md"}
    folders = [path for path in wrong.iterdir() if path.is_dir()]

    assert len(folders) == 2
    assert [{path.name for path in folder.iterdir()} for folder in folders] == [own, own]
    above = {"report.html", "report.sarif", "summary.md", "pages.json"}
    assert {path.name for path in wrong.iterdir() if path.is_file()} == above


def test_report_writes_everything(wrong: Path, hostile: Path, tmp_path: Path) -> None:
    """`report` writes the page and all formats, and says where; exit code 0 whatever the findings."""
    done = CliRunner().invoke(kafkaproof, ["report", str(wrong), str(hostile), "--out", str(tmp_path)])
    whole = {path.name for path in tmp_path.iterdir() if path.is_file()}
    own = {"badge.json", "badge.svg", "certificate.json", "junit.xml", "result.ndjson"}

    assert done.exit_code == 0, done.output
    assert whole == {
        "index.html",
        "report.json",
        "report.sarif",
        "summary.md",
        "matrix.json",
        "matrix.svg",
        "pages.json",
    }
    assert [{path.name for path in folder.iterdir()} for folder in tmp_path.iterdir() if folder.is_dir()] == [own] * 3
    assert str(tmp_path / "index.html") in done.stdout
    assert "\x1b" not in done.stdout


def test_json_is_pure(wrong: Path, tmp_path: Path) -> None:
    """--json prints one document with every testee, and nothing else; report.json says the same."""
    done = CliRunner().invoke(kafkaproof, ["report", str(wrong), "--out", str(tmp_path), "--json"])
    printed = json.loads(done.stdout)
    kept = json.loads((tmp_path / "report.json").read_bytes())

    assert printed["corpus"] == corpus_hash()
    assert [each["counts"]["wrong_data"] > 0 for each in printed["testees"]] == [False, True]
    assert kept == {name: value for name, value in printed.items() if name != "written"}
    assert all(Path(path).is_file() for path in printed["written"])


def test_sarif_has_a_rule_for_each_cause(collected: Collection) -> None:
    """One run for each testee, one rule for each cause, one result for each finding; INFO is left out."""
    document = json.loads(formats.sarif(collected))

    assert document["version"] == "2.1.0"
    for run, entry in zip(document["runs"], collected.entries, strict=True):
        profiled = entry.report.profiled
        rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
        graded = [finding for finding in profiled.findings if finding.graded.grade != "INFO"]
        assert list(rules) == list(dict.fromkeys(cause.id for cause in profiled.causes))
        assert len(run["results"]) == len(graded)
        for result in run["results"]:
            case = result["locations"][0]["logicalLocations"][0]["name"]
            finding = profiled.by_case[case]
            assert result["level"] == LEVELS[finding.graded.grade]
            assert result["ruleId"] == finding.cause.id == list(rules)[result["ruleIndex"]]
        assert run["properties"]["info"] == len(profiled.findings) - len(graded)
        assert run["properties"]["ungraded"] == 0
    assert {result["level"] for run in document["runs"] for result in run["results"]} >= {"error", "note"}


def test_sarif_explains_reviewed_causes(collected: Collection, whole_corpus: Mapping[str, Case]) -> None:
    """The rule of a reviewed cause has its explanation, source and effect; that of another says that it has none."""
    (cause,) = [each for each in causes_of("kafka-python") if each.id == "header-key-not-utf8"]
    changed = {cause.smallest: {"outcome": "rejects_valid", "why": "UnicodeDecodeError"}}
    report = formats.sarif(collect([graded_report("kafka-python", changed, whole_corpus)], cases=whole_corpus))
    (rule,) = json.loads(report)["runs"][0]["tool"]["driver"]["rules"]
    (result,) = json.loads(report)["runs"][0]["results"]

    assert (rule["id"], rule["shortDescription"]["text"]) == (cause.id, cause.title)
    assert rule["fullDescription"]["text"] == " ".join(cause.explanation.split())
    assert cause.source in rule["help"]["text"]
    assert (rule["properties"]["grade"], rule["properties"]["reviewed"]) == ("FAIL", True)
    assert result["level"] == rule["defaultConfiguration"]["level"] == "error"
    unreviewed = [
        rule for run in json.loads(formats.sarif(collected))["runs"] for rule in run["tool"]["driver"]["rules"]
    ]
    assert {each["properties"]["reviewed"] for each in unreviewed} == {False}


def test_text_of_a_testee_is_no_link_in_sarif(whole_corpus: Mapping[str, Case]) -> None:
    """Brackets are escaped as SARIF says, so that a message of a testee cannot lead to its pages."""
    (cause,) = [each for each in causes_of("kafka-python") if each.id == "header-key-not-utf8"]
    changed = {cause.smallest: {"outcome": "rejects_valid", "why": "\n::error ::[fixed here](https://a.example)"}}
    report = formats.sarif(collect([graded_report("kafka-python", changed, whole_corpus)], cases=whole_corpus))
    (result,) = json.loads(report)["runs"][0]["results"]

    assert result["message"]["text"].endswith(r": \\n::error ::\[fixed here\](https://a.example)")


HEADER_KEY = "v2_headers.key_is_not_utf_8[0xff]"
FORGED = "backwards.record_at_itself"


def test_junit_fails_for_what_fails_a_profile(whole_corpus: Mapping[str, Case]) -> None:
    """A FAIL in a deciding profile is a failure; other findings pass with properties; declared ones are skipped."""
    changed: Changed = {
        HEADER_KEY: {"outcome": "rejects_valid", "why": "UnicodeDecodeError"},
        FORGED: {"outcome": "crash", "why": "x"},
    }
    made = graded_report("kafka-python", changed, whole_corpus)
    cases = {case.get("name"): case for case in ElementTree.fromstring(formats.junit(made)).iter("testcase")}
    failed = {name for name, case in cases.items() if case.find("failure") is not None}
    properties = {each.get("name"): each.get("value") for each in cases[HEADER_KEY].iter("property")}

    deciding = {each.profile for each in made.profiled.deciding()}
    assert failed == {
        finding.case.id for finding in made.profiled.findings if finding.fails and finding.profile in deciding
    }
    assert HEADER_KEY in failed
    assert properties["cause"] == "header-key-not-utf8"
    assert (properties["grade"], properties["reach"]) == ("FAIL", "any_producer")

    known = Deviation(cause="header-key-not-utf8", reason="seen")
    declared = ElementTree.fromstring(formats.junit(graded_report("kafka-python", changed, whole_corpus, known)))
    (case,) = [each for each in declared.iter("testcase") if each.get("name") == HEADER_KEY]
    assert case.find("failure") is None
    assert case.find("skipped") is not None


def test_junit_passes_hostile_input(whole_corpus: Mapping[str, Case]) -> None:
    """No codec announces the profile `hostile`: a crash on forged bytes is a property, unless it is chosen."""
    changed: Changed = {FORGED: {"outcome": "crash", "why": "x"}}
    made = graded_report("mine", changed, whole_corpus)
    chosen = replace(made, criteria=PassCriteria(profiles=("hostile",)))

    assert made.profiled.by_case[FORGED].graded.grade == "HOSTILE"
    assert b"<failure" not in formats.junit(made)
    assert b'name="grade" value="HOSTILE"' in formats.junit(made)
    assert formats.junit(chosen).count(b"<failure") == 1


def test_sarif_places_are_lines_of_the_result(collected: Collection) -> None:
    """The line that a finding names is the line of its case in the result file."""
    document = json.loads(formats.sarif(collected))
    for run, entry in zip(document["runs"], collected.entries, strict=True):
        lines = entry.report.path.read_text(encoding="utf-8").splitlines()
        for result in run["results"]:
            place = result["locations"][0]["physicalLocation"]
            case = result["locations"][0]["logicalLocations"][0]["name"]
            assert json.loads(lines[place["region"]["startLine"] - 1])["case"] == case
            assert place["artifactLocation"]["uri"] == f"{entry.folder}/result.ndjson"


def test_fingerprints_outlive_versions(wrong: Path) -> None:
    """A finding has a fingerprint of its own, the same in another version of the testee, with another message."""
    first, second = collect(read_collection([wrong])), collect(read_collection([wrong]))
    for line in second.entries[0].results.lines:
        line.why += " at 0x7f00"
    second.entries[0].results.header.testee["version"] = "2.0"
    prints = [
        [result["partialFingerprints"][formats.FINGERPRINT] for run in document["runs"] for result in run["results"]]
        for document in (json.loads(formats.sarif(each)) for each in (first, second))
    ]

    assert prints[0] == prints[1]
    assert len(set(prints[0])) == len(prints[0])


def test_sarif_suppresses_what_is_declared(wrong: Path) -> None:
    """A known deviation is suppressed, with its reason; nothing else is."""
    reports = read_collection([wrong])
    case = next(each.line.case for made in reports for each in made.findings if each.line.outcome == "wrong_data")
    known = Deviation(case=case, severity="wrong_data", reason="our API has text", issue="X-1")
    results = [
        each
        for run in json.loads(formats.sarif(collect(read_collection([wrong], [known]))))["runs"]
        for each in run["results"]
    ]
    suppressed = [each for each in results if "suppressions" in each]

    assert suppressed
    assert {each["properties"]["severity"] for each in suppressed} == {"wrong_data"}
    assert suppressed[0]["suppressions"][0]["justification"] == "our API has text (X-1)"
    assert len(suppressed) < len(results)


def test_machine_formats_hold_no_control_characters(wrong: Path, hostile: Path, tmp_path: Path) -> None:
    """SARIF, Markdown, badges and JUnit of a hostile testee are harmless, and can be read."""
    CliRunner().invoke(kafkaproof, ["report", str(wrong), str(hostile), "--out", str(tmp_path)])
    plain = ("result.ndjson", "certificate.json", "report.json")  # JSON, which escapes them
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name not in plain]
    texts = {path: path.read_text(encoding="utf-8") for path in files}

    assert len(texts) >= 10
    assert [path for path, text in texts.items() if re.search(r"[\x00-\x08\x0b-\x1f\u202e]", text)] == []
    for path in texts:
        if path.suffix in (".svg", ".xml"):
            ElementTree.parse(path)


def test_markdown_is_deaf(collected: Collection) -> None:
    """Text of a testee makes no link, no mention, no HTML, no cell and no code span."""
    text = formats.collection_summary(collected)
    said = re.findall(r"<code>(.*?)</code>", text)
    rest = re.sub(r"<code>.*?</code>", "", text)
    rows = [line for line in rest.splitlines() if line.startswith("|")]

    assert any("&#64;everyone" in each for each in said)
    assert not [each for each in said if re.search(r"[^A-Za-z0-9 ,&#;]", each)]
    assert not re.search(r"[@\[\]]|http|<img|<script", rest)
    profiles = {each.profile for entry in collected.entries for each in entry.report.profiled.profiles}
    assert {row.count("|") for row in rows} == {2 + len(profiles), 7}
    assert re.search(r"❌ \d+ causes?", text)
    assert "| FAIL |" in text


@pytest.mark.parametrize("number", [0, 1, 2])
def test_badge(number: int, collected: Collection) -> None:
    """Picture and endpoint say the same; the picture is one that loads nothing."""
    entry = collected.entries[number]
    drawn = ElementTree.fromstring(formats.badge_picture(entry))
    endpoint = json.loads(formats.badge_endpoint(entry))

    assert endpoint["schemaVersion"] == 1
    assert drawn.get("aria-label") == f"{endpoint['label']}: {endpoint['message']}"
    assert endpoint["message"] == "only a part was run"
    assert not [each for each in drawn.iter() if any("href" in name for name in each.attrib)]
    assert int(drawn.get("width", "0")) > 100


def test_matrix_as_a_picture(collected: Collection) -> None:
    """The SVG has a named cell for each testee and area, text of its own only, and loads and runs nothing."""
    root = ElementTree.fromstring(picture.matrix_svg(picture.counted(collected)))
    titles = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}

    profiles = [each.profile for entry in collected.entries for each in entry.report.profiled.profiles]
    assert len(titles) == len(profiles)
    assert any(title.startswith(f"{collected.entries[1].label}, consumer: ") and "fail" in title for title in titles)
    assert tags == {"svg", "style", "rect", "line", "text", "tspan", "g", "title"}
    assert not [
        element for element in root.iter() if any("href" in name or name[:2] == "on" for name in element.attrib)
    ]


def test_cells_of_the_picture_stand_in_their_columns() -> None:
    """A testee without a profile leaves a gap; a profile of no testee has no column; 100 % is all of it."""
    cell = picture.PictureCell("fail", 999, 1000, 1)
    passed = picture.PictureCell("pass", 5, 5, 0)
    sent: list[dict[Profile, picture.PictureCell]] = [
        {"consumer": cell, "integrity": passed},
        {"integrity": cell},
        {"producer": passed},
    ]
    rows = [picture.PictureRow(f"codec-{at}", "1", "codec", at > 0, profiles) for at, profiles in enumerate(sent)]
    root = ElementTree.fromstring(picture.matrix_svg(picture.Counts("c", rows)))
    svg = "{http://www.w3.org/2000/svg}"
    cells = {
        (title.text or "").partition(":")[0]: (int(rect.get("x", "")), int(rect.get("y", "")), rect.get("class"))
        for group in root.iter(f"{svg}g")
        for title, rect in zip(group.iter(f"{svg}title"), group.iter(f"{svg}rect"), strict=True)
    }

    assert cells["codec-0, consumer"][0] < cells["codec-2, producer"][0] < cells["codec-0, integrity"][0]
    assert cells["codec-0, integrity"][0] == cells["codec-1, integrity"][0]
    assert cells["codec-0, integrity"][1] < cells["codec-1, integrity"][1]
    assert (cells["codec-0, consumer"][2], cells["codec-0, integrity"][2]) == ("fail", "pass")
    assert (cell.percent, cell.mark, passed.percent, passed.mark) == (99, "1", 100, "✓")
    assert len(cells) == 4


def test_the_picture_in_the_readme_is_of_the_counts_beside_it() -> None:
    """docs/matrix.svg is what the counts in docs/matrix.json give, to the byte, for fourteen testees at least."""
    counts = picture.decoded((DOCS / "matrix.json").read_bytes())

    assert (DOCS / "matrix.svg").read_text(encoding="utf-8") == picture.matrix_svg(counts)
    assert (DOCS / "matrix.json").read_bytes() == picture.encode_counts(counts)
    assert len(counts.testees) >= 14


def test_badge_names_the_profiles_that_pass(whole_corpus: Mapping[str, Case]) -> None:
    """Green passes all profiles that the codec announces, amber some; the badge names them."""
    reports = [graded_report("fine", {}, whole_corpus), graded_report("mine", {HEADER_KEY: REFUSED}, whole_corpus)]
    fine, wrong = collect(reports, cases=whole_corpus).entries
    names = "consumer, consumer-transactions, producer, integrity, hostile"

    assert json.loads(formats.badge_endpoint(fine))["message"] == names
    assert json.loads(formats.badge_endpoint(fine))["color"] == "brightgreen"
    assert formats.GREEN in formats.badge_picture(fine)
    assert json.loads(formats.badge_endpoint(wrong))["message"] == names.removeprefix("consumer, ")
    assert json.loads(formats.badge_endpoint(wrong))["color"] == "orange"


REFUSED = {"outcome": "rejects_valid", "why": "x"}


def test_document_of_one_run_is_that_of_certify(wrong: Path) -> None:
    """report.json of a testee is what `certify --json` says of it."""
    (entry, _) = collect(read_collection([wrong])).entries
    kept = json.loads((entry.report.path.parent / "report.json").read_bytes())

    assert kept["findings"] == json.loads(json.dumps(summary.report_document(entry.report)["findings"]))
