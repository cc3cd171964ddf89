"""The report of a campaign: JSON lines, and pages and files with the same content."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from benchmarks.shrink import TARGET, benchmark_inputs
from click.testing import CliRunner

from kafka_conformance.reports import policy_hash
from kafka_conformance.reports.formats import code
from kafka_fuzz.campaign.known_findings import REPLAY_FILE, STATE, ReplayResult
from kafka_fuzz.campaign.plan import RoundReport, log_round
from kafka_fuzz.findings import FindingStore
from kafka_fuzz.shrink.search import as_mutant
from kafka_fuzz.targets import TARGETS
from kafka_fuzz.targets.outcome import Outcome
from kafka_fuzz.triage.night import Night, Point, read_night
from kafkaproof.commands.fuzz import fuzz

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script>\x1b[31m"
REPLAYS = [
    ReplayResult(TARGET, "one that hangs", f"{TARGET}|hang||", gone=False),
    ReplayResult(TARGET, f"one that is fixed {HOSTILE}", "", gone=True),
    ReplayResult("broker:4.4.0", "one of a broker", "", gone=False, why=f"no broker {HOSTILE}"),
]


def campaign(root: Path) -> Path:
    """A campaign with three rounds and three findings; the text of one finding is hostile."""
    target = TARGETS[TARGET]()
    store = FindingStore(root)
    for data in benchmark_inputs().values():
        store.add(target.run(as_mutant(data)), as_mutant(data), version=HOSTILE)
    store.add(Outcome(TARGET, "crash", HOSTILE, why=HOSTILE), as_mutant(b"nothing"), version="1")
    rounds = [
        RoundReport(TARGET, number, 1, executions=100, cpu_seconds=2.0, buckets=buckets, lines=50, version=HOSTILE)
        for number, buckets in enumerate((10, 14))
    ]
    rounds.append(RoundReport("one round", 2, 1, executions=100, cpu_seconds=2.0, buckets=7))
    (root / "log.ndjson").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in rounds) + b'{"cut off')
    (root / STATE).mkdir()
    (root / STATE / REPLAY_FILE).write_bytes(msgspec.json.encode(REPLAYS))
    return root


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a report was written."""
    root = campaign(tmp_path_factory.mktemp("campaign"))
    out = root / "report"
    done = CliRunner().invoke(fuzz, ["report", "--dir", str(root), "--out", str(out)])
    assert done.exit_code == 1, done.output
    return out


def lines(report: Path) -> list[dict[str, object]]:
    """The JSON lines of the report."""
    return [msgspec.json.decode(line) for line in (report / "report.ndjson").read_bytes().splitlines()]


def test_every_file_has_every_find(report: Path) -> None:
    """Each finding of the JSON lines is a test case in JUnit and a result in SARIF; page and summary name it."""
    found = [line for line in lines(report) if line["kind"] == "finding"]
    assert len(found) == 3
    cases = ElementTree.fromstring((report / "junit.xml").read_bytes()).findall(".//testcase")
    results = msgspec.json.decode((report / "report.sarif").read_bytes())["runs"][0]["results"]
    assert len(cases) == len(results) == 3
    prints = {result["partialFingerprints"]["kafkaproof-fuzz/v1"] for result in results}
    assert len(prints) == 3
    page, summary = (report / "index.html").read_text(), (report / "summary.md").read_text()
    for finding in found:
        assert str(finding["hex"]) in page
        assert str(finding["hex"])[:60] in summary


def test_a_report_is_of_the_last_round(tmp_path: Path) -> None:
    """The report triages findings that came after triage; only then is a finding that no longer shows gone."""
    root, out = tmp_path / "campaign", tmp_path / "out"
    store, rounds = FindingStore(root), [RoundReport(TARGET, number, 1, executions=100) for number in range(2)]
    nights = ((1, b"one", {"new": 1}), (1, b"", {"new": 1}), (2, b"another", {"new": 1, "gone": 1}))
    for count, data, states in nights:
        if data:
            store.add(Outcome(TARGET, "crash", data.decode()), as_mutant(data), version="1")
        (root / "log.ndjson").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in rounds[:count]))
        done = CliRunner().invoke(fuzz, ["report", "--dir", str(root), "--out", str(out), "--json"])
        counted = msgspec.json.decode(done.stdout)["states"]
        assert {state: count for state, count in counted.items() if count} == states


def test_rounds_that_are_cut_off_are_left_out(report: Path) -> None:
    """A line that was not written whole is no round, and the others count."""
    first, *rest = lines(report)
    assert first["executions"] == 300
    assert [line["buckets"] for line in rest if line["kind"] == "round"] == [10, 14, 7]


def test_a_curve_is_over_processor_time() -> None:
    """Points are at the CPU-seconds that the target has had, and values never fall."""
    rounds = [
        RoundReport(TARGET, number, 1, cpu_seconds=seconds, buckets=buckets)
        for number, (seconds, buckets) in enumerate(((2.0, 5), (1.0, 3)))
    ]
    curve = Night(tuple(rounds), frozenset(), ()).curve(TARGET, "buckets")
    assert curve == [Point(0.0, 0), Point(2.0, 5), Point(3.0, 5)]


def test_replay_results_are_shown(report: Path) -> None:
    """The page and the summary say for each known finding whether it is gone, or why it was not replayed."""
    first, *rest = lines(report)
    assert first["replays"] == {"gone": 1, "still there": 1, "not replayed": 1}
    states = {str(line["id"]): line["state"] for line in rest if line["kind"] == "replay"}
    assert states == {each.id: each.state for each in REPLAYS}
    assert [each.state for each in REPLAYS] == ["still there", "gone", "not replayed"]
    page, summary = (report / "index.html").read_text(), (report / "summary.md").read_text()
    for text in (page, summary):
        assert "1 gone, 1 still there, 1 not replayed" in text
        assert "no broker" in text
    assert f"- not replayed: {code('one of a broker')} " in summary


def test_the_summary_says_how_it_grew_and_what_is_missing(report: Path) -> None:
    """Growth after each quarter of the CPU-seconds, and the fields of which most cells were not reached."""
    summary = (report / "summary.md").read_text()
    assert f"| {code(TARGET)} | distinct outcomes | 0 at 1 s | 10 at 2 s | 10 at 3 s | 14 at 4 s |" in summary
    assert f"| {code('one round')} | outcomes" not in summary
    first, *rest = lines(report)
    missing = {str(line["field"]): int(str(line["count"])) for line in rest if line["kind"] == "missing"}
    assert int(str(first["cells"])) + sum(missing.values()) == first["cells_reachable"]
    name, count = next(iter(missing.items()))
    assert f"| {code(name)} | {count:,} | " in summary


def test_the_last_campaign_counts(tmp_path: Path) -> None:
    """A failure of an earlier night is over; totals are of each target's last one, growth is of all."""
    old = [RoundReport(TARGET, 0, 1, failure="no disk"), RoundReport("other", 1, 1, executions=9, cpu_seconds=1.0)]
    (tmp_path / "log.ndjson").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in old))
    assert [each.failure for each in read_night(tmp_path, []).failures()] == ["no disk"]
    for number in (2, 3):
        log_round(tmp_path, RoundReport(TARGET, number, 1, executions=50, cpu_seconds=4.0, buckets=number), campaign=2)
    out = tmp_path / "out"
    done = CliRunner().invoke(fuzz, ["report", "--dir", str(tmp_path), "--out", str(out)])
    assert done.exit_code == 0, done.output
    first, *rest = lines(out)
    assert (first["campaigns"], first["targets"], first["executions"], first["failures"]) == (
        2,
        ["other", TARGET],
        109,
        0,
    )
    assert [line["number"] for line in rest if line["kind"] == "round"] == [0, 1, 2, 3]
    assert 'errors="0"' in (out / "junit.xml").read_text()
    assert "in all 2 campaigns" in (out / "index.html").read_text()
    assert "in the last of 2 campaigns" in (out / "summary.md").read_text()
    log_round(tmp_path, RoundReport(TARGET, 4, 1, failure="no disk"), campaign=4)
    assert read_night(tmp_path, []).failures()


def test_hostile_text_stays_text(report: Path) -> None:
    """A target's text is escaped everywhere, and the page has no script and allows none."""
    page = (report / "index.html").read_text()
    assert "<script" not in page
    assert "\x1b" not in page + (report / "summary.md").read_text()
    assert "<script" not in (report / "summary.md").read_text()
    style = re.search(r"<style>(.*)</style>", page, re.DOTALL)
    assert style is not None
    assert policy_hash(style[1]) in unescape(page)


def test_a_round_that_failed_fails_the_report(tmp_path: Path) -> None:
    """A harness that could not do its work is never reported as clean."""
    failed = RoundReport(TARGET, 0, 1, failure="it executed nothing")
    (tmp_path / "log.ndjson").write_bytes(msgspec.json.encode(failed) + b"\n")
    done = CliRunner().invoke(fuzz, ["report", "--dir", str(tmp_path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 3
    assert "it executed nothing" in (tmp_path / "out" / "index.html").read_text()
    assert 'errors="1"' in (tmp_path / "out" / "junit.xml").read_text()


def test_no_campaign_is_one_clear_error(tmp_path: Path) -> None:
    """A folder without a log is refused."""
    done = CliRunner().invoke(fuzz, ["report", "--dir", str(tmp_path), "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "holds no campaign" in done.output
