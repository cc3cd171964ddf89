"""Changes from one run to another are reported."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafka_conformance.judge.verdict import Outcome
from kafka_conformance.reports.collection import collection_changes, counts, matching
from kafka_conformance.reports.formats import MAX_CHANGES_PAGE
from kafka_conformance.runner import results
from kafka_conformance.runner.results import ResultFooter, ResultHeader, ResultLine, Results
from kafkaproof.cli import kafkaproof

pytestmark = pytest.mark.slow

Whole = Callable[..., Path]


def run_of(name: str = "x", language: str = "go", connect: str = "x", **outcomes: Outcome) -> Results:
    """A run with these outcomes by case."""
    testee = {"name": name, "language": language, "connect": connect}
    header = ResultHeader(testee=testee, corpus="", cases=len(outcomes), only=[], settings={})
    plain = {"area": "a", "op": "decode", "expected": "valid", "rules": ()}
    lines = tuple(ResultLine(case=case, outcome=outcome, **plain) for case, outcome in outcomes.items())  # type: ignore[arg-type]
    return Results(header, lines, ResultFooter(counts={}, seconds=0, waited=0, starts=1, strays=0, sha256=""))


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        ("agree", "agree", None),
        ("crash", "crash", None),
        ("agree", "lossy", "worse"),
        ("lossy", "agree", "better"),
        ("lossy", "wrong_data", "worse"),
        ("wrong_data", "lossy", "better"),
        ("agree", "skipped", "worse"),
        ("skipped", "agree", "better"),
        ("skipped", "crash", "worse"),
        ("crash", "skipped", "changed"),
    ],
)
def test_kinds_of_change(before: Outcome, now: Outcome, kind: str | None) -> None:
    """Graver is worse; to skip what was right is worse, to skip what was wrong is no improvement."""
    found = collection_changes(run_of(case=before), run_of(case=now))

    assert [change.kind for change in found] == ([] if kind is None else [kind])


def test_cases_that_were_not_sent() -> None:
    """A finding in a new case is reported as new; a removed case, or a new case that agrees, is not reported."""
    found = collection_changes(run_of(a="agree", gone="crash"), run_of(a="agree", b="hang", c="agree"))

    assert [(change.kind, change.case, change.before) for change in found] == [("new", "b", None)]


def test_wrong_in_another_way_is_a_change() -> None:
    """Another field is another mistake; another record of the same field is not."""
    old, new = run_of(a="wrong_data", b="wrong_data"), run_of(a="wrong_data", b="wrong_data")
    for done, fields in (
        (old, ("batches[0].magic", "batches[0].magic")),
        (new, ("batches[7].magic", "batches[0].base_offset")),
    ):
        for line, field in zip(done.lines, fields, strict=True):
            line.field = field

    assert [(change.kind, change.case) for change in collection_changes(old, new)] == [("changed", "b")]


def test_worse_comes_first() -> None:
    """Changes are sorted: worse before better, graver before less grave."""
    old = run_of(a="crash", b="agree", c="agree")
    found = collection_changes(old, run_of(a="agree", b="lossy", c="crash"))

    assert [change.case for change in found] == ["c", "b", "a"]
    assert counts(found) == {"worse": 2, "better": 1, "changed": 0, "new": 0}


def test_runs_are_matched_by_testee() -> None:
    """Versions of one testee are matched; two codecs of one name are kept apart; different testees are not matched."""
    old = [run_of("a", connect="a@1.0"), run_of("b", "python", "b"), run_of("b", "cython", "b-fast")]
    new = [run_of("b", "cython", "process:x"), run_of("a", connect="a"), run_of("c", connect="c")]

    assert matching(new, old) == [old[2], old[0], None]
    assert matching([new[2]], [old[0]]) == [old[0]]
    assert matching(new, []) == [None, None, None]


def report(*arguments: object) -> Result:
    """Run `kafkaproof report`."""
    return CliRunner().invoke(kafkaproof, ["report", *map(str, arguments)])


def test_report_compares(whole: Whole, tmp_path: Path) -> None:
    """Worse is exit code 1, better is 0; page, Markdown, JSON and SARIF say which cases."""
    cases = [line.case for line in results.read_results(whole("seed", "0")).lines if line.area == "v2_shapes"][:3]
    old = whole("codec", "1", {cases[0]: {"outcome": "crash"}, cases[2]: {"outcome": "rejects_valid"}})
    new = whole(
        "codec", "2", {cases[1]: {"outcome": "hang", "why": "no answer"}, cases[2]: {"outcome": "rejects_valid"}}
    )
    done = report(new, "--out", tmp_path / "out", "--baseline", old)
    compared = json.loads((tmp_path / "out" / "report.json").read_bytes())["testees"][0]["baseline"]
    sarif = json.loads((tmp_path / "out" / "report.sarif").read_bytes())["runs"][0]["results"]

    assert done.exit_code == 1, done.output
    assert "since the baseline: 1 worse, 1 better" in done.stdout
    assert [(each["case"], each["change"]) for each in compared["cases"]] == [(cases[1], "worse"), (cases[0], "better")]
    assert [each["baselineState"] for each in sarif] == ["new", "unchanged"]
    assert "since the baseline: 1 worse, 1 better" in (tmp_path / "out" / "summary.md").read_text(encoding="utf-8")
    assert "#/findings?testee=0&amp;change=worse" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert report(old, "--out", tmp_path / "back", "--baseline", old).exit_code == 0


def test_a_case_that_is_right_again_can_be_looked_at(whole: Whole, tmp_path: Path) -> None:
    """A fixed case keeps its page, and is no finding."""
    case = next(line.case for line in results.read_results(whole("seed", "0")).lines if line.expected == "valid")
    old, new = whole("codec", "1", {case: {"outcome": "crash"}}), whole("codec", "2")
    report(new, "--out", tmp_path / "out", "--baseline", old)

    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")

    assert "0 cases with findings" in page
    assert '<script type="text/plain" id="chunk-0">' in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give RESULTS"),
        (["{result}"], "--out"),
        (["{folder}", "--out", "{folder}/out"], "there is no result.ndjson"),
        (["{result}", "--out", "{folder}/out", "--verify", "{result}"], "--verify goes with"),
        (["{other}", "--out", "{folder}/out"], "not a result"),
        (["--verify", "{result}", "{result}", "{other}"], "has one result"),
    ],
    ids=["nothing", "no out", "empty folder", "both", "no result", "two results"],
)
def test_usage(arguments: list[str], said: str, whole: Whole, tmp_path: Path) -> None:
    """A wrong command line is exit code 2, says what is wrong, and writes nothing."""
    result, empty = whole("codec", "1"), tmp_path / "empty"
    empty.mkdir()
    other = tmp_path / "other.ndjson"
    other.write_text('{"not": "a result"}\n', encoding="utf-8")
    done = report(*[each.format(result=result, folder=empty, other=other) for each in arguments])

    assert (done.exit_code, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split())
    assert list(empty.iterdir()) == []


def test_a_baseline_of_somebody_else(whole: Whole, tmp_path: Path) -> None:
    """Two testees compared with a baseline of a third are a usage error, not a comparison."""
    paths = [whole("a", "1"), whole("b", "1")]

    assert report(*paths, "--out", tmp_path / "out", "--baseline", whole("c", "1")).exit_code == 2


KEPT = Path(__file__).resolve().parents[3] / "results"


def test_changes_of_real_codecs(tmp_path: Path) -> None:
    """A page on two kept results says which profiles and causes changed, and JSON says the same."""
    names = ("kafka-python-3.0.12.ndjson", "aiokafka-0.14.0.ndjson")
    old, new = (KEPT / name for name in names)
    assert report(new, "--out", tmp_path, "--baseline", old).exit_code == 1
    page = (tmp_path / "changes.md").read_text(encoding="utf-8")
    (compared,) = (each["baseline"] for each in json.loads((tmp_path / "report.json").read_bytes())["testees"])
    kinds = {(each["kind"], (each["now"] or each["before"])["id"]) for each in compared["causes"]}

    assert len(page) < MAX_CHANGES_PAGE
    assert {("new", "lz4-in-v0-refused"), ("gone", "inner-magic-ignored")} <= kinds
    assert ("fewer", "inner-size-endless-loop") in kinds
    for kind, name in kinds:
        (row,) = (line for line in page.splitlines() if f"<code>{name.replace('-', '&#45;')}</code>" in line)
        assert {"new": "🔴 new", "more": "🟠 more", "fewer": "🟢 fewer", "gone": "🟢 gone"}[kind] in row
    assert "| producer-legacy | ✅ pass | not announced |" in page
    assert {each["profile"] for each in compared["profiles"]} == {
        "consumer", "consumer-legacy", "consumer-transactions", "producer-legacy", "hostile",
    }  # fmt: skip


def changes(old: Path, new: Path, out: Path) -> str:
    """The page on what changed from *old* to *new*."""
    assert report(new, "--out", out, "--baseline", old).exit_code in {0, 1}
    return (out / "changes.md").read_text(encoding="utf-8")


def test_changes_of_causes(whole: Whole, tmp_path: Path) -> None:
    """A cause is new, has more or fewer cases, or is gone; a cause whose cases are skipped now is not gone."""
    lines = results.read_results(whole("seed", "0")).lines
    one, two = [line.case for line in lines if line.area == "v2_shapes" and line.expected == "valid"][:2]
    wrong: dict[str, dict[str, object]] = {one: {"outcome": "crash"}, two: {"outcome": "crash"}}
    none, single, both = whole("none", "1"), whole("single", "1", {one: wrong[one]}), whole("both", "1", wrong)
    skipped = whole("skipped", "1", {one: {"outcome": "skipped", "why": "no API"}})

    assert "causes: 1 new" in changes(none, single, tmp_path / "1")
    assert re.search(r"🟠 more cases .* 1 → 2 ", changes(single, both, tmp_path / "2"))
    assert re.search(r"🟢 fewer cases .* 2 → 1 ", changes(both, single, tmp_path / "3"))
    assert re.search(r"🟢 gone .* 1 → 0 ", changes(single, none, tmp_path / "4"))
    assert "➖ no answer now" in changes(single, skipped, tmp_path / "5")
    assert "No profile and no cause changed: 0 causes" in changes(none, none, tmp_path / "6")
    report(none, "--out", tmp_path / "1")
    assert not (tmp_path / "1" / "changes.md").exists()


def test_changes_are_text(whole: Whole, tmp_path: Path) -> None:
    """Text of a testee forms no markup, no mention and no further cell in the page."""
    case = next(line.case for line in results.read_results(whole("seed", "0")).lines if line.expected == "valid")
    hostile = "</code><img src=x onerror=alert(1)>|`@everyone`[x](https://x.example)\n<!-- kafkaproof -->"
    old, new = whole("old", "1"), whole(hostile, hostile, {case: {"outcome": "crash", "why": hostile}})
    page = changes(old, new, tmp_path)
    ours = re.sub(r"</?(code|details|summary)>|<code>[^<>]*</code>", "", page)

    assert page.count("everyone") >= 2
    assert re.findall(r"[<>@]|\]\(", ours) == []
    assert {line.count("|") for line in page.splitlines() if line.startswith("| 🔴")} == {7}


def test_a_long_page_is_cut(whole: Whole, tmp_path: Path) -> None:
    """A page stays within a comment's limit, whatever testees say; it says that it is cut."""
    cases = [line.case for line in results.read_results(whole("seed", "0")).lines][:40]
    names = [f"testee-{number}" for number in range(12)]
    wrong = {case: {"outcome": "crash", "why": "<" * 400} for case in cases}
    old, new = [whole(name, "1") for name in names], [whole(f"{name}", "2", wrong) for name in names]
    folder = tmp_path / "old"
    for number, path in enumerate(old):
        (folder / str(number)).mkdir(parents=True)
        (folder / str(number) / "result.ndjson").write_bytes(path.read_bytes())
    done = report(*new, "--out", tmp_path / "out", "--baseline", folder)
    page = (tmp_path / "out" / "changes.md").read_text(encoding="utf-8")

    assert done.exit_code == 1, done.output
    assert len(page) <= MAX_CHANGES_PAGE
    assert all(name.replace("-", "&#45;") in page for name in names)
    assert "This page is cut: " in page
