"""Reach: whether any producer can store the bytes of a finding, or only a hostile broker can send them."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from kafka_conformance.judge.reach import ReachResult
from kafka_corpus.authoring.build import raw_batch, raw_message, raw_record
from kafka_corpus.scenario import StepAnswer
from kafka_fuzz.findings import FindingStore, FuzzFinding
from kafka_fuzz.mutate import Mutant, MutantCell
from kafka_fuzz.targets.outcome import Outcome
from kafka_fuzz.triage.reach import (
    FetchCheck,
    FindingReach,
    ReachQuery,
    Tried,
    by_entries,
    is_shown,
    keep,
    merged_reach,
    questions,
    read_reach,
)
from kafka_records import Record, decode, encode
from kafkaproof.commands.fuzz import fuzz

CELL = MutantCell(2, "none", "", "", "", "entry", "only")
RECORD = raw_record(value=b"value")
SOUND = raw_batch(RECORD, record_count=1)
BROKEN = raw_batch(RECORD, record_count=1, crc=7)
MESSAGE = raw_message(0)


def kept(root: Path, data: bytes, target: str = "sample", **more: str) -> FuzzFinding:
    """A finding of *target* with that input."""
    store = FindingStore(root)
    store.add(Outcome(target, "leaked_exception", "KeyError", **more), Mutant(data, "bytes", (), None, CELL))
    return next(find for find in store.findings.values() if find.outcome.target == target)


def test_entries_are_produced_one_by_one() -> None:
    """Each has a base offset of 0, in a request version that allows its magic; an incomplete entry is sent, too."""
    moved = (9).to_bytes(8, "big") + SOUND[8:]
    scenario = by_entries(SOUND + moved + MESSAGE + b"tail")
    assert [step.data for step in scenario.produces()] == [SOUND, SOUND, MESSAGE, bytes(8)]
    assert [step.api_version > 2 for step in scenario.produces()] == [True, True, False, True]
    assert not scenario.concerns("4.4.0")
    assert by_entries(SOUND + moved).concerns("4.4.0")


def test_an_input_that_a_client_could_send_is_produced_once(tmp_path: Path) -> None:
    """One entry at offset 0 is the same in both ways."""
    find = kept(tmp_path, SOUND)
    assert [each.way for each in questions(find, SOUND)] == ["whole"]
    assert [each.way for each in questions(find, SOUND + SOUND)] == ["whole", "entry by entry"]


def test_answers_to_several_requests_are_one() -> None:
    """The first error, or everything that was stored."""
    stored = [StepAnswer(data=SOUND), StepAnswer(data=MESSAGE)]
    assert merged_reach(stored).data == SOUND + MESSAGE
    assert merged_reach([*stored, StepAnswer(error_code=87), StepAnswer(closed=True)]).error_code == 87
    assert merged_reach([StepAnswer(ended=True)]).ended


def shows(find: FuzzFinding, result: ReachResult, fetched: bytes) -> bool:
    """Whether *find*, whose input is sound, is shown by what is fetched."""
    with FetchCheck() as shown:
        return is_shown(ReachQuery(find, SOUND, "whole"), result, fetched, shown)


def test_bytes_that_come_back_as_they_were_show_the_find(tmp_path: Path) -> None:
    """An error, or nothing stored, shows nothing."""
    find = kept(tmp_path, SOUND)
    assert shows(find, ReachResult(kept="as it is"), SOUND)
    assert not shows(find, ReachResult(87), b"")
    assert not shows(find, ReachResult(kept="rewritten"), SOUND)
    assert not shows(find, ReachResult(kept="nothing"), b"")


def test_target_in_process_decodes_fetched_bytes(tmp_path: Path) -> None:
    """Records that the broker rewrote may still show the finding; the target decides."""
    (batch,) = decode(SOUND)
    rewritten = encode(replace(batch, partition_leader_epoch=3))
    accepts = Outcome("reference", "ok")
    assert shows(replace_outcome(kept(tmp_path, SOUND), accepts), ReachResult(kept="rewritten"), rewritten)
    refuses = Outcome("reference", "refused")
    assert not shows(replace_outcome(kept(tmp_path, SOUND), refuses), ReachResult(kept="rewritten"), rewritten)


@pytest.mark.slow
def test_testee_decodes_fetched_bytes(tmp_path: Path) -> None:
    """The testee is started, and its outcome for the rewritten records is compared with that for the input."""
    name = "planted:swaps-key-and-value"
    find = msgspec.structs.replace(kept(tmp_path, SOUND, name), mode="differential")
    (batch,) = decode(SOUND)
    rewritten = encode(replace(batch, partition_leader_epoch=3, max_timestamp=7))
    nothing = encode(replace(batch, records=(Record(0, 0, None, None),)))
    with FetchCheck() as shown:
        assert is_shown(ReachQuery(find, SOUND, "whole"), ReachResult(kept="rewritten"), rewritten, shown)
        assert not is_shown(ReachQuery(find, SOUND, "whole"), ReachResult(kept="rewritten"), nothing, shown)
        # Unknown: an input that shows nothing by itself, and a testee that does not exist.
        assert shown.by(find, nothing, rewritten) is None
        assert shown.by(replace_outcome(find, Outcome("process:./no-such-testee", "crash")), SOUND, rewritten) is None


def replace_outcome(find: FuzzFinding, outcome: Outcome) -> FuzzFinding:
    """*find* of another kind."""
    return msgspec.structs.replace(find, key=outcome.key, outcome=outcome)


def test_answers_stay_with_the_input_that_they_are_about(tmp_path: Path) -> None:
    """Releases add up, oldest first; another input starts with no releases."""
    find = kept(tmp_path, SOUND)
    keep(tmp_path, find, "4.4.0", Tried(ReachResult(87)))
    both = keep(tmp_path, find, "2.8.2", Tried(ReachResult(kept="as it is"), shows=True))
    assert list(both.releases) == ["2.8.2", "4.4.0"]
    assert read_reach(tmp_path, find) == both
    assert (both.who, str(both)) == ("any producer", "any producer can store this: 2.8.2")
    assert read_reach(tmp_path, kept(tmp_path, MESSAGE)) is None


def test_who_can_bring_a_find_about() -> None:
    """Refused by all releases means a hostile broker; a finding in the broker itself means any producer."""
    assert FindingReach("", {"4.4.0": Tried(ReachResult(87))}).who == "a hostile broker"
    assert FindingReach("", sent=True).who == "any producer"
    assert str(FindingReach("")) == "not measured"


def test_encode_finding_needs_no_broker(tmp_path: Path) -> None:
    """A finding in an encoder has no bytes to send: no broker is started, and the answer says so."""
    store = FindingStore(tmp_path, mode="encode")
    store.add(Outcome("sample", "wrong_data", "writing", "v2"), Mutant(b"{}", "model", (), None, CELL))
    done = CliRunner().invoke(fuzz, ["reach", "--dir", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    ((find),) = json.loads(done.stdout)["findings"]
    assert (find["who"], find["reach"]["written"]) == ("does not apply", True)
    assert (
        "does not apply: the finding is about a batch that is written wrongly"
        in CliRunner().invoke(fuzz, ["reach", "--dir", str(tmp_path)]).output
    )


def test_a_question_is_known_by_its_find_and_way(tmp_path: Path) -> None:
    """Answers that were kept are found again by it."""
    find = kept(tmp_path, SOUND)
    request = ReachQuery(find, SOUND, "whole").request()
    assert request == ReachQuery(find, SOUND, "whole").request()
    assert request.id.endswith(" whole")


def test_a_find_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    """So is a release that is not known; a campaign that found nothing is none, and no broker is started for it."""
    assert CliRunner().invoke(fuzz, ["reach", "0123", "--dir", str(tmp_path)]).exit_code == 2
    done = CliRunner().invoke(fuzz, ["reach", "--dir", str(tmp_path), "--json"])
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"findings": []})
    kept(tmp_path, SOUND)
    done = CliRunner().invoke(fuzz, ["reach", "--dir", str(tmp_path), "--releases", "9.9"])
    assert done.exit_code == 2
    assert "9.9" in done.output


@pytest.mark.broker
def test_brokers_measure_the_reach_of_findings(tmp_path: Path) -> None:
    """One that is stored, one that is refused, one that has to be sent as a client would, one about the broker."""
    for name, data in {"stored": SOUND, "refused": BROKEN, "moved": (9).to_bytes(8, "big") + SOUND[8:]}.items():
        kept(tmp_path, data, name)
    kept(tmp_path, BROKEN, "broker:4.4.0")
    done = CliRunner().invoke(fuzz, ["reach", "--dir", str(tmp_path), "--releases", "4.4.0", "--json"])
    assert done.exit_code == 0, done.output
    found = {each["key"].partition("|")[0]: each for each in json.loads(done.stdout)["findings"]}
    assert {name: each["who"] for name, each in found.items()} == {
        "stored": "any producer",
        "refused": "a hostile broker",
        "moved": "any producer",
        "broker:4.4.0": "any producer",
    }
    assert found["moved"]["reach"]["releases"]["4.4.0"]["way"] == "entry by entry"
    assert found["refused"]["reach"]["releases"]["4.4.0"]["result"]["error_code"] == 2
