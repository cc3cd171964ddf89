"""`fuzz recall`, campaigns that leave the corpus out, and the targets that `all` stands for."""

from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from kafka_conformance.causes import causes_of
from kafka_corpus.vectors import load_vectors
from kafka_fuzz.campaign.known_findings import CORPUS_FILE, CorpusResult, write_corpus_results
from kafka_fuzz.campaign.plan import (
    ALL,
    LOG,
    RoundPlan,
    RoundReport,
    expand_targets,
    parsed_plan,
    plan_arguments,
    unknown_targets,
)
from kafka_fuzz.campaign.recall import campaign_testees, lenient, measure_recall
from kafka_fuzz.campaign.store import Corpus, open_pool
from kafka_fuzz.findings import FindingStore, read_findings
from kafka_fuzz.mutate import Mutant, corpus_seeds, own_seeds
from kafka_fuzz.mutate.model import reachable
from kafka_fuzz.mutate.plain import cell_of
from kafka_fuzz.targets.outcome import Outcome
from kafka_fuzz.triage.causes import STOPS, CauseIndex, FindingTraits
from kafkaproof.commands.fuzz import known
from kafkaproof.commands.fuzz.known import recall

SHOWN = {
    "mine": CorpusResult(
        "1.0",
        "",
        {
            "mine|accepts_invalid|error|REC-03": "v2_record.one",
            "mine|hang||valid v2": "backwards.two",
            "mine|crash|boom|f": "lz4.three",
        },
    )
}


def found(folder: Path, *outcomes: Outcome, version: str = "1.0") -> None:
    """A campaign with these findings."""
    store = FindingStore(folder, mode="differential")
    for outcome in outcomes:
        store.add(outcome, Mutant(b"x", "bytes", (), None, cell_of(b"x", "")), version=version)


def test_recall(tmp_path: Path) -> None:
    """An equal key counts, and an equal end with a fault instead of a place; a finding that no case shows is beyond."""
    found(
        tmp_path,
        Outcome("mine", "accepts_invalid", "error", "REC-03"),
        Outcome("mine", "hang", "", "", "size_leads_nowhere"),
        Outcome("mine", "wrong_data", "batches.records.key", "v2"),
    )
    (one,) = measure_recall(list(read_findings(tmp_path)), SHOWN)
    assert (one.found, one.shown, one.beyond) == (2, 3, 2)
    assert one.missed == {"mine|crash|boom|f": "lz4.three"}


def test_what_cases_leave_open_is_not_counted(tmp_path: Path) -> None:
    """A key that only a lenient case shows is no defect; the corpus has lenient cases and others."""
    found(tmp_path, Outcome("mine", "accepts_invalid", "error", "REC-03"))
    (one,) = measure_recall(list(read_findings(tmp_path)), SHOWN, {"lz4.three"})
    assert (one.found, one.shown, set(one.missed.values())) == (1, 2, {"backwards.two"})
    assert "gzip.reserved_flags[all]" in lenient()
    assert "v2_batch.negative_count_without_payload" not in lenient()


def test_another_version_says_nothing(tmp_path: Path) -> None:
    """Findings in a release that did not run the corpus are not counted, nor is a testee that was not run."""
    found(tmp_path, Outcome("mine", "accepts_invalid", "error", "REC-03"), version="2.0")
    assert measure_recall(list(read_findings(tmp_path)), SHOWN) == []


def test_testees_without_findings_count(tmp_path: Path) -> None:
    """A testee that decoded in the version that ran the corpus counts, even without a finding; a testee that ran
    as an encoder, in this process, in another version, or not at all, does not.
    """
    reports = [
        RoundReport(
            "differential:mine,other", 0, 1, version="mine 1.0, other 2.0, third did not run: no", executions=9
        ),
        RoundReport("encode:writer", 1, 1, version="writer 1.0", executions=9),
        RoundReport("inside", 2, 1, version="1.0", executions=9),
        RoundReport("idle", 3, 1, version="1.0"),
    ]
    (tmp_path / LOG).write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in reports) + b'{"target": "cut')
    shown = dict.fromkeys(("mine", "other", "third", "writer", "inside", "idle"), SHOWN["mine"])
    assert campaign_testees(tmp_path, shown) == {"mine"}
    assert campaign_testees(tmp_path / "nothing", shown) == frozenset()
    (one,) = measure_recall([], SHOWN, tested=campaign_testees(tmp_path, SHOWN))
    assert (one.found, one.shown, one.beyond) == (0, 3, 0)


@pytest.mark.parametrize("mode", ["encode", ""])
def test_findings_of_other_kinds_do_not_count(tmp_path: Path, mode: Any) -> None:
    """A testee that ran only as an encoder, or in process, is not counted, nor are its findings beyond the cases."""
    store = FindingStore(tmp_path, mode=mode)
    outcome = Outcome("mine", "wrong_data", "writing batches.records.key", "v2")
    store.add(outcome, Mutant(b"{}", "model", (), None, cell_of(b"", "")), version="1.0")
    assert measure_recall(list(read_findings(tmp_path)), SHOWN) == []


def test_recall_by_cause_takes_what_triage_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to the smallest input of a finding stands for its further inputs, as in triage.

    Their own count was not kept: compared with another input's, a testee that stops at the fault looks like one that
    takes it.
    """
    valid = (case for case in load_vectors() if case.id.startswith("v2_record.") and case.expect.verdict == "valid")
    sound = next(case.input for case in valid if len(case.expect.batches) == 1)
    assert isinstance(sound, bytes)
    broken = sound[:-1] + bytes([sound[-1] ^ 1])
    cause, row = causes_of("kafka-python")[0].id, "kafka-python"
    index = CauseIndex()
    index.add(row, FindingTraits("accepts_invalid", STOPS, "CRC-07"), cause, "a.case")
    index.causes[row, "decode"][cause] = "a.case"
    monkeypatch.setattr(known, "kept_index", lambda _: index)
    # The smallest input breaks another rule; only a further one shows the cause.
    store, cells = FindingStore(tmp_path, mode="differential"), sorted(reachable())
    stops = Outcome(row, "accepts_invalid", "error", "CRC-07", why="expected corrupt, got 0 batches")
    store.add(stops, Mutant(b"\x00" * 20, "bytes", ("one",), None, cells[0]))
    store.add(stops, Mutant(sound + broken, "bytes", ("two",), None, cells[-1]))

    done = CliRunner().invoke(recall, ["--dir", str(tmp_path), "--results", str(tmp_path), "--json"])

    assert msgspec.json.decode(done.output)["causes"]["found"] == 1


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    """The output has a line per testee, the total share and the missed cases, or is JSON; no testee is exit code 3."""
    assert CliRunner().invoke(recall, ["--dir", str(tmp_path)]).exit_code == 3
    write_corpus_results(tmp_path / CORPUS_FILE, SHOWN)
    found(tmp_path, Outcome("mine", "accepts_invalid", "error", "REC-03"))
    done = CliRunner().invoke(recall, ["--dir", str(tmp_path), "--missed"])
    assert done.exit_code == 0
    assert "1 of    3: 33%" in done.output
    assert "lz4.three" in done.output
    document = msgspec.json.decode(CliRunner().invoke(recall, ["--dir", str(tmp_path), "--json"]).output)
    assert (document["found"], document["shown"]) == (1, 3)


def test_blind(tmp_path: Path) -> None:
    """A blind round starts from the built-in seeds and from no case, and the plan survives the command line."""
    seen, blind = RoundPlan("kafka-python", tmp_path), RoundPlan("kafka-python", tmp_path, blind=True)
    assert (seen.cases, blind.cases) == (corpus_seeds(), ())
    assert [parsed_plan(plan_arguments(plan)) for plan in (seen, blind)] == [seen, blind]
    corpus = Corpus(tmp_path, "kafka-python")
    pool = open_pool(corpus, Random(1), blind=True)
    pool.complete()
    assert set(pool.seeds) == set(own_seeds())
    assert pool.untried == []
    corpus.close()


def test_all() -> None:
    """`all` is every target in process and what the testees that can run here read and write; no name twice."""
    names = expand_targets([ALL, "reference"])
    assert names[0] == "reference"
    assert len(set(names)) == len(names)
    assert {"kafka-python", "differential", "encode"} <= set(names)
    assert unknown_targets([ALL, *names]) == []
