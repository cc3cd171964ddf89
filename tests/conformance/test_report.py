"""Reports of a run: as data, as text, as JUnit XML."""

import dataclasses
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from rich.console import Console

from kafka_conformance.judge.verdict import OUTCOMES, Outcome
from kafka_conformance.reports import formats, summary, terminal
from kafka_conformance.reports.summary import Report
from kafka_conformance.runner import results
from kafka_conformance.runner.deviations import Deviation
from kafka_conformance.runner.results import ResultFooter, ResultHeader, ResultLine
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors

TESTEE = {"name": "\x1b[31mred", "version": "1", "language": "go", "runtime": "go1", "connect": "process:./t --x"}
EVIL = "\x1b[2Jexpected [bold]this[/bold]\nand that"


def line(name: str, outcome: Outcome, field: str = "", **more: object) -> ResultLine:
    """A line of the area that *name* starts with."""
    area = name.partition(".")[0]
    plain = {"op": "decode", "expected": "valid", "rules": ("CRC-02",), "why": EVIL if outcome != "agree" else ""}
    return ResultLine(case=name, outcome=outcome, area=area, field=field, **{**plain, **more})  # type: ignore[arg-type]


LINES = [
    line("a.fine", "agree", left_out=("magic",)),
    line("a.wrong[1]", "wrong_data", "batches[0].magic"),
    line("a.wrong[2]", "wrong_data", "batches[17].magic"),
    line("b.lossy", "lossy", "batches[0].records[0].headers[0].key"),
    line("b.crash", "crash"),
    line("b.hung", "hang", ms=700.0),
    line("b.skipped", "skipped"),
    line("b.unstable", "agree", deaths=1, ms=3.0),
]


def make(
    lines: list[ResultLine], cases: list[Case], *declared: Deviation, complete: bool = True, only: str = ""
) -> Report:
    """The report on *lines*."""
    header = ResultHeader(testee=TESTEE, corpus="c0ffee", cases=len(lines), only=[only] if only else [], settings={})
    footer = ResultFooter(
        counts={},
        seconds=2,
        waited=0.7,
        starts=3,
        strays=5,
        first_stray="\x1bDEBUG",
        late_ends=2,
        first_late_end="\x1bgone",
        sha256="",
    )
    done = results.Results(header, tuple(lines), footer if complete else None)
    return summary.make(done, cases, declared, Path("somewhere/result.ndjson"))


def plain(made: Report, most: int = 20) -> str:
    """The report as it goes into a pipe."""
    file = io.StringIO()
    terminal.show_result(made, terminal.console(file), most, details=True)
    return file.getvalue()


def known(case: str, severity: str) -> Deviation:
    """A declared deviation."""
    return Deviation(case=case, severity=severity, reason="seen")  # type: ignore[arg-type]  # any severity


def test_findings_come_worst_first(corpus: list[Case]) -> None:
    """Findings are sorted by severity, declared ones last."""
    made = make(LINES, corpus, known("a.wrong[1]", "wrong_data"))

    assert [(each.line.case, each.known) for each in made.findings] == [
        ("a.wrong[2]", False), ("b.crash", False), ("b.hung", False), ("b.lossy", False), ("a.wrong[1]", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "declared", "more", "agrees"),
    [
        (["agree"], [], {"only": "a"}, True),
        (["agree", "lossy"], [], {"only": "a"}, False),
        (["agree", "lossy"], [known("a.*", "lossy")], {"only": "a"}, True),
        (["agree"], [known("a.c0", "lossy")], {"only": "a"}, False),
        (["skipped"], [], {"only": "a"}, False),
        (["agree"], [], {"only": "a", "complete": False}, False),
        (["agree"], [], {}, False),
    ],
)
def test_when_a_run_agrees(
    lines: list[Outcome], declared: list[Deviation], more: dict[str, object], agrees: bool, corpus: list[Case]
) -> None:
    """A part of the corpus agrees if nothing undeclared differs; the whole has to be certified too."""
    made = make([line(f"a.c{at}", each) for at, each in enumerate(lines)], corpus, *declared, **more)  # type: ignore[arg-type]

    assert made.agrees is agrees


def test_document_is_complete(corpus: list[Case]) -> None:
    """The JSON document has counts of every outcome, scores, findings and times."""
    document = json.loads(
        msgspec.json.encode(summary.report_document(make(LINES, corpus, known("a.wrong[1]", "wrong_data"))))
    )

    assert list(document["counts"]) == list(OUTCOMES)
    assert sum(document["counts"].values()) == document["cases"] == len(LINES)
    assert sum(sum(area[outcome] for outcome in OUTCOMES) for area in document["areas"].values()) == len(LINES)
    assert document["left_out"] == {"magic": 1}
    assert [finding["known"] for finding in document["findings"]] == [False] * 4 + [True]
    assert (document["certified"], document["complete"], document["waited_seconds"]) == (False, True, 0.7)
    assert set(document["nulls"]) == {"mute", "accept-all", "refuse-all", "skip-all"}
    # A case that hung is excluded from the time per case.
    assert document["milliseconds_per_case"] == pytest.approx(3.0 / 6)


def test_hostile_text_does_no_harm(corpus: list[Case]) -> None:
    """Whatever a testee said, the output holds no control characters, and its markup is text."""
    text = plain(make(LINES, corpus))

    assert "\x1b" not in text
    assert "[bold]this[/bold]" in text
    assert r"\x1b[31mred" in text


def test_plain_lines_have_no_frame(corpus: list[Case]) -> None:
    """Piped output has no box characters, no trailing spaces, and a finding on one line."""
    text = plain(make(LINES, corpus))

    assert not re.search(r"[│─━┃]|[ \t]$", text, re.MULTILINE)
    assert re.search(r"^  wrong_data +a\.wrong\[1\] +CRC-02 +.*and 1 alike$", text, re.MULTILINE)


def test_the_next_command_is_printed(corpus: list[Case]) -> None:
    """The output says where the result is and how one case is run again, quoted for a shell."""
    text = plain(make(LINES, corpus))

    assert "kafkaproof explain --case 'a.wrong[1]'" in text
    assert "kafkaproof certify 'process:./t --x' --only 'a.wrong[1]'" in text
    assert "somewhere/result.ndjson" in text
    assert "0.7 s waiting for cases that hang" in text
    assert "answered only when sent again, as b.unstable" in text
    assert r"\x1bDEBUG" in text
    assert r"2 with no question to blame, as: \x1bgone" in text


def test_informedness_of_null_testees_is_published(corpus: list[Case]) -> None:
    """It stands beside the testee's own, and is 0."""
    document = summary.report_document(make(LINES, corpus))

    assert document["nulls"] == dict.fromkeys(("mute", "accept-all", "refuse-all", "skip-all"), 0.0)
    assert 0 <= document["informedness"] <= document["answered_informedness"] <= 1


def test_missing_results_are_printed(corpus: list[Case]) -> None:
    """An incomplete run, stale deviations and findings that are not shown are said."""
    text = plain(make(LINES, corpus, known("a.fine", "crash"), complete=False), most=1)

    assert "--resume" in text
    assert "stale deviation  a.fine: crash no longer happens" in text
    assert "and 3 more in the full result" in text


@pytest.fixture(scope="module")
def whole() -> list[Case]:
    """Every case of codecs."""
    return load_vectors(ops=("decode", "encode"))


def whole_run(whole: list[Case], outcomes: Mapping[str, Outcome], *declared: Deviation) -> Report:
    """A run of every case that agrees, but for those of *outcomes*."""
    lines = [
        ResultLine(
            case=case.id, outcome=outcomes.get(case.id, "agree"), area=case.area, op=case.op,
            expected=case.expect.verdict, rules=case.rules,
        )
        for case in whole
    ]  # fmt: skip
    made = make(lines, whole, *declared)
    formats = {"magics": [0, 1, 2], "compressions": ["none", "gzip", "snappy", "lz4", "zstd"]}
    header = msgspec.structs.replace(made.results.header, testee={**TESTEE, "decode": formats, "encode": formats})
    done = dataclasses.replace(made.results, header=header)
    return summary.make(done, whole, declared, Path("somewhere/result.ndjson"))


@pytest.mark.slow
def test_a_good_run_says_so(whole: list[Case]) -> None:
    """A run without findings is certified, and shows its table."""
    text = plain(whole_run(whole, {}))

    assert re.search(r"^CERTIFIED for consumer, .*hostile$", text, re.MULTILINE)
    assert "no cause of FAIL, HOSTILE or NON_STRICT" in text
    assert "no findings" in text
    assert re.search(rf"^all +· +{len(whole):,} +1\.000$", text, re.MULTILINE)


GZIP = "gzip.several_members[in-a-value]"


@pytest.mark.slow
def test_ten_lines_say_the_essential(whole: list[Case]) -> None:
    """Title, profiles, certificate, causes, and the next step."""
    file = io.StringIO()
    terminal.show_result(whole_run(whole, {GZIP: "rejects_valid"}), terminal.console(file))
    first = file.getvalue().splitlines()[:10]

    assert first[1].startswith("consumer: 1 cause · consumer-legacy: pass · ")
    assert first[2].startswith("CERTIFIED for consumer-legacy, ")
    assert re.fullmatch(r"FAIL +consumer +1 +Valid bytes are refused \(\S+\)  unreviewed", first[3])
    assert first[4] == f"next             kafkaproof explain --case '{GZIP}'"


def test_an_area_without_answers_has_no_score(corpus: list[Case]) -> None:
    """An area in which every case was skipped shows a dash, not the score of the whole run."""
    lines = [line("a.v", "agree"), line("a.i", "agree", expected="invalid"), line("b.v", "skipped")]

    assert re.search(r"^b .* –$", plain(make(lines, corpus)), re.MULTILINE)


def test_a_narrow_terminal_gets_two_lines_for_a_finding(corpus: list[Case]) -> None:
    """A case id is never broken, so that it can be copied."""
    name = f"a.{'long_name_' * 8}[parameter]"
    for width in (70, 200):
        file = io.StringIO()
        made = make([line(name, "crash")], corpus)
        terminal.show_result(made, Console(file=file, force_terminal=True, width=width), details=True)

        assert file.getvalue().count(name) == 3


def test_known_deviations_are_printed_with_a_certificate(whole: list[Case]) -> None:
    """A certificate does not hide what it does not forbid."""
    made = whole_run(whole, {GZIP: "rejects_valid"}, known(GZIP, "rejects_valid"))

    assert made.certificate.certified
    assert re.search(r"^CERTIFIED for consumer, .*  with 1 known deviation$", plain(made), re.MULTILINE)


def test_a_terminal_gets_colours(corpus: list[Case]) -> None:
    """On a terminal there are colours, and still nothing that the testee sent."""
    file = io.StringIO()
    terminal.show_result(
        make(LINES, corpus), Console(file=file, force_terminal=True, width=100, color_system="standard")
    )

    assert "\x1b[" in file.getvalue()
    assert "\x1b[2J" not in file.getvalue()


def test_summary_has_every_finding(corpus: list[Case], tmp_path: Path) -> None:
    """The text file lists what the screen leaves out."""
    many = [line(f"a.c{at}", "wrong_data", f"batches[0].{'x' * at}") for at in range(60)]
    terminal.write_summary(make(many, corpus), tmp_path / "summary.txt")

    assert (tmp_path / "summary.txt").read_text(encoding="utf-8").count("  wrong_data ") == 60


def test_junit_of_cases_that_the_corpus_does_not_have(corpus: list[Case]) -> None:
    """JUnit XML has a suite for each area; a finding that cannot be graded is skipped, a stale declaration fails."""
    declared = (known("a.wrong[1]", "wrong_data"), known("a.fine", "crash"))
    root = ElementTree.fromstring(formats.junit(make(LINES, corpus, *declared)))
    suites = {suite.get("name"): suite for suite in root}
    failures = {case.get("name") for case in root.iter("testcase") if case.find("failure") is not None}
    skipped = {case.get("name") for case in root.iter("testcase") if case.find("skipped") is not None}

    assert {name: suite.get("failures") for name, suite in suites.items()} == {
        "a": "0",
        "b": "0",
        "known deviations": "1",
    }
    assert failures == {"a.fine"}
    assert skipped == {each.case for each in LINES if each.outcome != "agree"}
    assert sum(int(suite.get("tests", "")) for suite in root) == len(LINES) + 1
