"""Triage: findings are deduplicated, shrunk, compared with last night's, and drafted as cases."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from benchmarks.shrink import TARGET, benchmark_inputs, good_batches
from click.testing import CliRunner, Result

from kafka_corpus.cases import found as found_cases
from kafka_corpus.registry import invalid, valid
from kafka_corpus.vectors import load_vectors
from kafka_fuzz.campaign.known_findings import read_known_list
from kafka_fuzz.campaign.plan import LOG, RoundReport
from kafka_fuzz.findings import FindingStore, finding_folder, read_findings, write_atomically
from kafka_fuzz.mutate.entries import DECODE
from kafka_fuzz.shrink import Budget
from kafka_fuzz.shrink.search import as_mutant
from kafka_fuzz.targets import TARGETS
from kafka_fuzz.targets.outcome import Outcome
from kafka_fuzz.triage.deduplicate import (
    FOLDER,
    LATE,
    PREVIOUS,
    SMALLER,
    UNDER_WAY,
    State,
    TriagedFinding,
    by_cause,
    deduplicate,
    gathered,
    last_night,
    read_finding_list,
    read_triage,
    smallest,
    write_triage,
)
from kafka_fuzz.triage.draft import case_function, slug
from kafka_fuzz.triage.run import triaged as reduce_all
from kafka_fuzz.triage.run import under_their_leaders
from kafka_records import Batch, Header, Record, decode, encode
from kafkaproof.commands.fuzz import fuzz

# One reads no headers, one not the last of several records; one is not there.
HEADLESS, LASTLESS, MISSING = "planted:drops-headers", "planted:drops-the-last-record", "process:./no-such-testee"
# Everything that a drafted case function may name.
NAMES = {"invalid": invalid, "valid": valid, "Batch": Batch, "Record": Record, "Header": Header}


def campaign(root: Path, *faults: str) -> Path:
    """A campaign with the findings of the benchmark, once for each of *faults*."""
    target = TARGETS[TARGET]()
    store = FindingStore(root)
    for data in benchmark_inputs().values():
        outcome = target.run(as_mutant(data))
        for fault in faults or ("",):
            faulty = msgspec.structs.replace(outcome, fault=fault)
            store.add(faulty, as_mutant(data), version="1")
    return root


def run(*arguments: str | Path) -> Result:
    """`kafkaproof fuzz` with these; triage compares with no kept results, so that findings are new."""
    none = ("--results", "no-results") if arguments[0] == "triage" else ()
    return CliRunner().invoke(fuzz, [str(each) for each in (*arguments, *none)])


@pytest.fixture(scope="module")
def triaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign after triage."""
    root = campaign(tmp_path_factory.mktemp("campaign"))
    done = run("triage", "--dir", root)
    assert done.exit_code == 1, done.output
    return root


@pytest.mark.slow
def test_findings_are_shrunk_and_drafted(triaged: Path) -> None:
    """Each finding has its smallest input, a page that explains the bytes, and a place in the list."""
    found = read_triage(triaged)
    assert sorted(len(find.data) for find in found) == [34, 35]
    assert {find.state for find in found} == {"new"}
    for find in found:
        page = (triaged / "triage" / f"{find.name}.md").read_text()
        assert find.data.hex() in page.replace("\n", "")
        assert "message_size" in page
        assert find.name in (triaged / "triage" / "README.md").read_text()


@pytest.mark.slow
def test_a_drafted_case_is_one(triaged: Path) -> None:
    """The drafted function runs, and gives the bytes with what the reference says of them."""
    for find in read_triage(triaged):
        names = dict(NAMES)
        source = case_function(find).split("\n", 1)[1]
        exec(source.replace("-> Draft", ""), names)  # of our own making
        draft = names[slug(find)]()  # type: ignore[operator]
        assert draft.input == find.data
        assert draft.expect.verdict == ("valid" if find.right == "ok" else "invalid")


@pytest.mark.slow
def test_nothing_is_new_the_second_night(triaged: Path, tmp_path: Path) -> None:
    """A finding of the previous triage is known; one that the list does not have is new."""
    again = campaign(tmp_path / "tonight")
    assert run("triage", "--dir", again, "--against", triaged).exit_code == 0
    assert {find.state for find in read_triage(again)} == {"known"}
    assert run("triage", "--dir", again, "--against", tmp_path).exit_code == 1


@pytest.mark.slow
def test_what_shows_nothing_any_more_is_gone(triaged: Path, tmp_path: Path) -> None:
    """A finding of the last campaign whose input is decoded correctly now is gone, and no failure."""
    outcome = Outcome(TARGET, "accepts_invalid", fault="healed")
    for root in (tmp_path / "last", tmp_path / "this"):
        FindingStore(root).add(outcome, as_mutant(good_batches()))
    assert run("triage", "--dir", tmp_path / "this", "--against", tmp_path / "last").exit_code == 0
    (find,) = read_triage(tmp_path / "this")
    assert find.state == "gone"
    assert triaged.exists()


def test_shards_are_deduplicated(tmp_path: Path) -> None:
    """Shards come to one find for each key, with the counts of all and the smallest input of any."""
    first, second = campaign(tmp_path / "a"), campaign(tmp_path / "b")
    smaller = as_mutant(benchmark_inputs()["key length"][len(good_batches()) :])
    outcome = msgspec.structs.replace(TARGETS[TARGET]().run(smaller), fault="")
    FindingStore(second).add(outcome, smaller)
    both = gathered([first, second])
    assert both.keys() == gathered([first]).keys()
    assert both[outcome.key].data == smaller.data
    assert both[outcome.key].finding.count == 3


@pytest.mark.slow
def test_faults_with_one_cause_are_one_finding(tmp_path: Path) -> None:
    """Keys that differ only in the fault, and whose inputs shrink to one cause, are deduplicated."""
    data = good_batches() + bytes(11) + b"\x01"  # of the size 1, which no message has
    store = FindingStore(tmp_path)
    outcome = TARGETS[TARGET]().run(as_mutant(data))
    assert outcome.kind == "accepts_invalid"
    for fault in ("one", "two"):
        store.add(msgspec.structs.replace(outcome, fault=fault, function=""), as_mutant(data))
    run("triage", "--dir", tmp_path, "--all")
    (find,) = read_triage(tmp_path)
    assert isinstance(find, TriagedFinding)
    assert len(find.keys) == 2
    assert len(find.data) < len(data)


@pytest.mark.slow
def test_the_last_fault_is_judged_alone(tmp_path: Path) -> None:
    """An error of the last entry is no wrong data, although an entry before it was misread."""
    cases = {case.id: case.input for case in load_vectors(ops=DECODE)}
    odd, last = cases["timestamp.timestamp_wraps[gzip-downwards]"], cases["gzip.trailer_wrong[v1-size-first]"]
    assert isinstance(odd, bytes)
    assert isinstance(last, bytes)
    outcome = TARGETS[TARGET]().run(as_mutant(odd + last))
    assert (outcome.kind, outcome.detail) == ("wrong_data", "BadGzipFile")
    FindingStore(tmp_path).add(outcome, as_mutant(odd + last))
    run("triage", "--dir", tmp_path)
    (find,) = read_triage(tmp_path)
    assert (find.outcome.kind, find.outcome.detail) == ("leaked_exception", "BadGzipFile")
    assert find.cause == "Lets errors of its decompression libraries escape"
    assert len(find.data) <= len(last)


@pytest.mark.slow
def test_promote_makes_a_case_for_good(triaged: Path, tmp_path: Path) -> None:
    """A promoted find is a case of the area `found`, with its key, and is refused a second time."""
    find = read_triage(triaged)[0]
    done = run("promote", find.name, "--dir", triaged, "--cases", tmp_path, "--no-compile")
    assert done.exit_code == 0, done.output
    ((id_, entry),) = found_cases.stored(tmp_path).items()
    assert id_ == slug(find)
    assert entry.draft().input == find.data
    assert find.key in entry.found
    again = run("promote", find.name, "--dir", triaged, "--cases", tmp_path, "--no-compile")
    assert again.exit_code == 2
    assert run("promote", "no-such-find", "--dir", triaged, "--cases", tmp_path).exit_code == 2


@pytest.mark.slow
def test_a_killed_triage_goes_on(tmp_path: Path) -> None:
    """A killed triage goes on after its last shrunk finding; half a line does no harm, and the end removes the file."""
    root = campaign(tmp_path)
    messages: list[str] = []
    first = reduce_all([root], None, budget=Budget(5000, 10.0), report=messages.append)
    kept = root / FOLDER / UNDER_WAY
    assert len(kept.read_bytes().splitlines()) == len(first)
    assert any(line.endswith("2 to shrink") for line in messages)
    kept.write_bytes(kept.read_bytes() + b'{"name": "cut o')
    messages.clear()
    assert reduce_all([root], None, budget=Budget(5000, 10.0), report=messages.append) == first
    assert any(line.endswith("0 to shrink") for line in messages)
    write_triage(root, first)
    assert not kept.exists()
    assert read_triage(root) == first


@pytest.mark.slow
def test_triage_ends_when_its_time_is_over(tmp_path: Path) -> None:
    """Findings that are not shrunk by then stay as they were found, and the next triage shrinks them."""
    root = campaign(tmp_path)
    late = reduce_all([root], None, budget=Budget(5000, 10.0), every=False, total=0.0)
    assert {each.why_not for each in late} == {LATE}
    assert {each.state for each in late} == {"new"}
    write_triage(root, late)
    shrunk = reduce_all([root], None, budget=Budget(5000, 10.0), every=False, total=None)
    assert {each.why_not for each in shrunk} <= {"", SMALLER}
    assert "" in {each.why_not for each in shrunk}


def test_accepted_findings_are_already_known(triaged: Path, tmp_path: Path) -> None:
    """Accepted findings are known without the previous triage; the check lists those that the file lacks."""
    again = campaign(tmp_path / "tonight")
    listed = tmp_path / "known.toml"
    assert run("known", "--dir", triaged, "--file", listed, "--check").exit_code == 1
    assert run("known", "--dir", triaged, "--file", listed, "--all").exit_code == 2  # no reason
    assert run("known", "--dir", triaged, "--file", listed, "--all", "--reason", "issue 1").exit_code == 0
    first = listed.read_bytes()
    assert run("known", "--dir", triaged, "--file", listed, "--check").exit_code == 0
    assert run("known", "--dir", triaged, "--file", listed, "--all", "--reason", "issue 2").exit_code == 0
    assert listed.read_bytes() == first
    (again / "known.toml").write_bytes(first)
    assert run("triage", "--dir", again).exit_code == 0
    assert {find.state for find in read_triage(again)} == {"known"}
    assert all(find.known_by.startswith("listed: ") for find in read_triage(again))
    listed.write_bytes(first + b"# by hand\n")
    assert run("known", "--dir", triaged, "--file", listed, "--check").exit_code == 1


def test_one_find_is_accepted(triaged: Path, tmp_path: Path) -> None:
    """The one that is named, and no other; a name that none has is refused."""
    listed = tmp_path / "known.toml"
    name = read_triage(triaged)[0].name
    assert run("known", name, "--dir", triaged, "--file", listed, "--reason", "why").exit_code == 0
    (entry,) = read_known_list(listed)
    assert entry.reproducer is not None
    assert bytes.fromhex(entry.reproducer.hex) == read_triage(triaged)[0].data
    assert all(entry.explains(key) for key in read_triage(triaged)[0].keys)
    assert run("known", "no-such", "--dir", triaged, "--file", listed, "--reason", "why").exit_code == 2


@pytest.mark.slow
def test_causes_have_a_line_each(triaged: Path) -> None:
    """The report starts with one line for each cause, with the size and name of its smallest input."""
    done = run("triage", "--dir", triaged)
    for (target, cause), some in by_cause(read_triage(triaged)).items():
        (line,) = [line for line in done.output.splitlines() if f"{target}: {cause}" in line]
        assert smallest(some).name in line


def night(root: Path) -> Path:
    """One more round in the log of the campaign at *root*."""
    with (root / LOG).open("ab") as file:
        file.write(msgspec.json.encode(RoundReport(TARGET, 0, 0)) + b"\n")
    return root


@pytest.mark.slow
def test_one_folder_is_kept_from_night_to_night(tmp_path: Path) -> None:
    """Findings of the previous triage are known; a second triage of the same rounds changes nothing."""
    root = night(campaign(tmp_path))
    assert run("triage", "--dir", root).exit_code == 1
    assert {find.state for find in read_triage(root)} == {"new"}
    assert last_night(root) is None
    night(root)
    for _ in range(2):
        assert run("triage", "--dir", root).exit_code == 0
        assert {find.state for find in read_triage(root)} == {"known"}
    assert {find.state for find in read_finding_list(root / PREVIOUS)} == {"new"}


@pytest.mark.slow
def test_finding_that_an_upgrade_fixes_is_gone(tmp_path: Path) -> None:
    """A finding of another version, or of the list, is replayed in this version; it is gone until it is back."""
    fixed = {kind: Outcome(TARGET, kind) for kind in ("wrong_data", "accepts_invalid")}
    for outcome in fixed.values():
        FindingStore(tmp_path).add(outcome, as_mutant(good_batches()), version="0.9")
    (tmp_path / "known.toml").write_text(
        f'[[issue]]\nid = "listed"\ntestee = "{TARGET}"\nkeys = ["{fixed["accepts_invalid"].key}"]\n'
    )
    small = [
        TriagedFinding(
            "small", find.key, {find.key: find.sha256}, "new", find.outcome, good_batches(), 9, "ok", 1, "0.9"
        )
        for find in read_findings(tmp_path)
    ]
    write_triage(tmp_path, small)
    for _ in range(2):
        night(tmp_path)
        done = run("triage", "--dir", tmp_path)
        assert {find.state for find in read_triage(tmp_path)} == {"gone"}, done.output
    for find in small:  # it is back
        write_atomically(finding_folder(tmp_path, find.key) / "input.bin", benchmark_inputs()["key length"])
    assert run("triage", "--dir", night(tmp_path)).exit_code == 1
    assert {find.state for find in read_triage(tmp_path)} == {"new", "known"}


@pytest.mark.slow
def test_upgrade_that_fixes_nothing_keeps_findings_known(tmp_path: Path) -> None:
    """A finding that a new version shows, too, stays known and shrunk, and is of that version from then on."""
    root = night(campaign(tmp_path))
    run("triage", "--dir", root)
    write_triage(root, [msgspec.structs.replace(find, version="0.9") for find in read_triage(root)])
    before = {find.name: find.data for find in read_triage(root)}
    assert run("triage", "--dir", night(root)).exit_code == 0
    assert {find.name: find.data for find in read_triage(root)} == before
    assert {find.version for find in read_triage(root)} == {TARGETS[TARGET]().version}


def test_a_find_is_of_the_last_version_that_shows_it(tmp_path: Path) -> None:
    """A finding that a new version shows by a larger input has that version from then on, in every store."""
    store, other = FindingStore(tmp_path), Outcome("x", "wrong_data", "field")
    store.add(other, as_mutant(b"short"), version="1")
    store.add(other, as_mutant(b"a longer one"), version="2")
    assert [find.version for find in read_findings(tmp_path)] == ["2"]
    store.add(other, as_mutant(b"a longer one"), version="2")
    store.flush()
    assert [(find.version, find.count, find.size) for find in read_findings(tmp_path)] == [("2", 3, 5)]


def test_a_smaller_input_changes_no_name() -> None:
    """A finding with several keys keeps its name, even if another key has a smaller input later."""

    def one(key: str, found: int, state: State = "new") -> TriagedFinding:
        outcome = Outcome(TARGET, "accepts_invalid", "error", "kafka.record.f")
        return TriagedFinding(key, key, {key: key}, state, outcome, b"data", found, "ok", 1)

    (first,) = deduplicate([one("b", 10), one("c", 20)])
    (then,) = deduplicate([one("b", 10), one("c", 5)])
    assert (first.key, first.name) == (then.key, then.name)
    assert then.found == 5
    (more,) = deduplicate([one("a", 1), one("b", 10), one("c", 5)], {"b"})
    assert (more.key, more.name) == (first.key, first.name)


@pytest.mark.slow
def test_the_whole_vector_stays_in_triage(tmp_path: Path) -> None:
    """A testee's finding keeps the outcomes of its co-testees; a co-testee that cannot run is left out, and named."""
    records = tuple(Record(at, at, b"key", b"value", (Header(b"h", b"v"),)) for at in range(3))
    data = encode(Batch(magic=2, base_offset=0, last_offset=2, records=records, max_timestamp=2)) + good_batches()
    outcome = Outcome(HEADLESS, "wrong_data", "batches.records.headers.length none", "v2")
    store = FindingStore(tmp_path, mode="differential", names=(HEADLESS, LASTLESS, MISSING))
    store.add(outcome, as_mutant(data))
    store.add_outcomes(data, ("wrong_data", "wrong_data", "-"))
    done = run("triage", "--all", "--dir", tmp_path)
    (find,) = read_triage(tmp_path)
    # Alone, it comes down to one record; the other one drops the last of two.
    (batch,) = decode(find.data)
    assert len(batch.records) == 2
    assert find.verdicts == {LASTLESS: "wrong_data"}
    assert find.outcomes == ("wrong_data", "wrong_data", "-")
    assert list(find.left_out) == [MISSING]
    page = (tmp_path / FOLDER / f"{find.name}.md").read_text()
    assert f"{LASTLESS} wrong data" in page.replace("\\", "")
    assert "no-such-testee" in page.replace("\\", "")
    assert done.exit_code == 1


def test_a_brokers_find_says_why_it_is_not_reduced(tmp_path: Path) -> None:
    """No broker is started for it, and it is neither gone nor in the way of others."""
    FindingStore(tmp_path).add(Outcome("broker:4.4.0", "difference", "base_offset"), as_mutant(good_batches()))
    assert run("triage", "--dir", tmp_path).exit_code == 1
    (find,) = read_triage(tmp_path)
    assert "findings of brokers" in find.why_not
    assert find.state == "new"


def in_process(function: str, data: bytes, why_not: str = "", cause: str = "a title") -> TriagedFinding:
    """A finding of one key in the group of *function*."""
    outcome = Outcome(TARGET, "leaked_exception", "KeyError", function, fault=str(len(data)))
    return TriagedFinding(
        name=outcome.key, key=f"{outcome.key}|{len(data)}", inputs={outcome.key: ""}, state="new", outcome=outcome,
        data=data, found=len(data), right="ok", count=1, cause=cause, library="a", why_not=why_not,
    )  # fmt: skip


def test_a_finding_gets_the_input_of_the_leader_of_its_function() -> None:
    """Two functions fail under one heading; a finding that is not shrunk gets nothing of the other function's."""
    made = [
        in_process("a.f", b"f", cause="f now"),
        in_process("a.f", b"f and more", SMALLER),
        in_process("a.g", b"g", cause="g now"),
        in_process("a.g", b"g and more", SMALLER),
        in_process("a.h", b"h and more", SMALLER),
    ]
    groups = {each.key: ("a", "a title", each.outcome.function) for each in made}
    found = under_their_leaders(made, groups)
    assert [(each.cause, each.outcome.function, each.data) for each in found] == [
        ("f now", "a.f", b"f"),
        ("f now", "a.f", b"f"),
        ("g now", "a.g", b"g"),
        ("g now", "a.g", b"g"),
        ("a title", "a.h", b"h and more"),
    ]
    # Shrunk, the leader fails in another function: only its heading is that of the group.
    moved = msgspec.structs.replace(made[0], outcome=msgspec.structs.replace(made[0].outcome, function="a.x"))
    (_, kept) = under_their_leaders([moved, made[1]], groups)
    assert (kept.cause, kept.outcome.function, kept.data) == ("f now", "a.f", b"f and more")
