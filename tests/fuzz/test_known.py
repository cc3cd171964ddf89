"""Known findings: skipped inputs, keys that are already known, and replays that show which are gone."""

import sys
from glob import escape
from pathlib import Path
from queue import SimpleQueue
from random import Random
from tempfile import TemporaryDirectory, TemporaryFile

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kafka_corpus.known_issues import BadIssueList
from kafka_corpus.vectors import load_vectors
from kafka_fuzz.campaign.fork_worker import HarnessFault
from kafka_fuzz.campaign.known_findings import (
    ENOUGH,
    KNOWN_FILE,
    PACKAGED_CORPUS,
    STATE,
    InputSkips,
    KnownFinding,
    ReplayInput,
    ReplayResult,
    already_known,
    corpus_results,
    gone_ids,
    read_corpus_results,
    read_known_findings,
    read_known_list,
    read_replay_results,
    snappy_claims,
)
from kafka_fuzz.campaign.replay import confirms, read_replay_lines, replay_known_findings, replay_rule, replay_timeout
from kafka_fuzz.campaign.worker import unchanged_mutant
from kafka_fuzz.differential.outcome_tuples import Grade, Grader, Prepared, first_place
from kafka_fuzz.mutate import Mutant, MutantCell, for_cell, mutate, own_seeds
from kafka_fuzz.mutate.model import all_cells
from kafka_fuzz.targets.outcome import Outcome
from kafka_fuzz.triage.accept import known_list_file, merged_entries
from kafka_records.layout import CRC_OFFSET_V2
from kafkaproof.commands.fuzz import fuzz

CELL = MutantCell(1, "gzip", "size", "here", "inner_size_leads_nowhere", "packed", "only")
CLAIM = MutantCell(2, "snappy", "claim", "largest", "snappy_claim_wrong", "stream", "only")


def plain(data: bytes, label: str) -> Mutant:
    """Bytes of which little is known."""
    return Mutant(data, "fixup", (label,), None, CELL)


def test_the_list_is_read(tmp_path: Path) -> None:
    """The package's list and that of the folder are joined; each finding of the package's list has a reproducer."""
    (tmp_path / KNOWN_FILE).write_text('[[issue]]\nid = "x"\ntestee = "t"\nkeys = ["t|*"]\n')
    packaged = read_known_findings(tmp_path / "nowhere")
    assert packaged
    assert all(rule.reproducer for rule in packaged)
    assert [rule.id for rule in read_known_findings(tmp_path)] == [*(rule.id for rule in packaged), "x"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("\n[[issue]]", ":2: issue 1: Object missing required field `id`"),
        ("issue = 3", ": issue is no list of tables"),
        ("[[isue]]", ": there is a table 'isue'; known issues are tables [[issue]]"),
        ('[[issue]]\nid="x"\ntestee="t"\nkeys=[]\nshape="none"', ":1: issue 1 (x): there is no shape 'none'"),
        ('[[known]]\nid="x"\ntarget="t"\nkeys=[]\nlie=[]', ":1: known 1 (x): Object contains unknown field `lie`"),
        ("[[issue", ": Expected ']]' at the end of an array declaration (at end of document)"),
    ],
)
def test_a_malformed_list(text: str, error: str, tmp_path: Path) -> None:
    """A malformed list is refused with its path, line and entry."""
    path = tmp_path / KNOWN_FILE
    path.write_text(text)
    with pytest.raises(BadIssueList) as raised:
        read_known_findings(tmp_path)
    assert str(raised.value).startswith(f"{path}{error}")


def test_former_names_are_read(tmp_path: Path) -> None:
    """A list with the tables and fields of an earlier release gives the same entries."""
    (tmp_path / KNOWN_FILE).write_text(
        '[[known]]\nid = "x"\ntarget = "t"\nkeys = ["t|*"]\nabout = "why"\nlies = ["size_leads_nowhere"]\n'
        'canary = { hex = "00" }\nasked = "differential"\n'
    )
    assert read_known_list(tmp_path / KNOWN_FILE) == [
        KnownFinding(
            id="x", testee="t", keys=("t|*",), reason="why", faults=("size_leads_nowhere",),
            reproducer=ReplayInput(hex="00"), mode="differential",
        )
    ]  # fmt: skip
    result = ReplayResult("t", "x", "", gone=True)
    (tmp_path / STATE).mkdir()
    (tmp_path / STATE / "canaries.json").write_bytes(msgspec.json.encode([result]))
    assert read_replay_results(tmp_path) == [result]


def test_inputs_with_a_known_fault_are_skipped() -> None:
    """Inputs with the fault in the rule's cells are skipped; others, those of another target, and gone ones are not."""
    rule = KnownFinding(
        id="id", testee="t", keys=("t|hang*",), faults=("inner_size_leads_nowhere",), cell={"codec": "gzip"}
    )
    mutant = for_cell(Random(0), CELL)
    assert InputSkips("t", [rule]).skips(mutant)
    assert not InputSkips("t", [rule]).skips(for_cell(Random(0), CELL._replace(codec="lz4")))
    assert not InputSkips("t", [rule]).skips(for_cell(Random(0), CLAIM))
    assert not InputSkips("other", [rule]).skips(mutant)
    assert not InputSkips("t", [rule], gone=["id"]).skips(mutant)


def test_a_claim_is_seen_in_the_bytes() -> None:
    """A snappy block that claims hundreds of megabytes is detected in any input; no valid case is detected."""
    for magic in (0, 1, 2):
        assert snappy_claims(for_cell(Random(0), CLAIM._replace(magic=magic)).data)
    valid = [case.input for case in load_vectors() if case.op == "decode" and case.expect.verdict == "valid"]
    assert len(valid) > 100
    assert not any(snappy_claims(data) for data in valid if isinstance(data, bytes))


def test_any_bytes_have_a_shape() -> None:
    """Looking for shapes never fails, whatever the bytes are."""
    rng = Random(4)
    assert {snappy_claims(mutate(rng, (b"", b"\0" * 40), "bytes").data) for _ in range(2000)} <= {True, False}


def test_inputs_like_expensive_ones_are_skipped() -> None:
    """Inputs like one that hung twice are rarely run; inputs like one that leaked an exception are."""
    skips, mutant = InputSkips("t", []), plain(b"1", "size edge")
    for _ in range(ENOUGH):
        assert not skips.skips(mutant)
        skips.learn(mutant, Outcome("t", "hang"))
    assert sum(skips.skips(mutant) for _ in range(1000)) > 900
    skips.learn(plain(b"1", "other"), Outcome("t", "leaked_exception"))
    assert not skips.skips(plain(b"1", "other"))


def test_unchanged_inputs_are_not_alike() -> None:
    """Two corpus inputs that hang do not cause others to be skipped, nor do two inputs with random byte changes."""
    skips, rng = InputSkips("t", []), Random(1)
    for _ in range(ENOUGH):
        for mutant in (unchanged_mutant(own_seeds()[0]), mutate(rng, own_seeds(), "bytes")):
            skips.learn(mutant, Outcome("t", "hang"))
    assert not any(skips.skips(unchanged_mutant(data)) for data in own_seeds())
    assert not any(skips.skips(mutate(rng, own_seeds(), "bytes")) for _ in range(300))


@pytest.mark.parametrize("target", ["kafka-python", "aiokafka", "aiokafka-pure"])
def test_known_loops_are_recognised_by_bytes(target: str) -> None:
    """An input without labels is skipped if it has the fault, and valid inputs are not."""
    skips, cells = (
        InputSkips(target, read_known_findings(Path("nowhere"))),
        [c for c in all_cells() if c.fault == CELL.fault],
    )
    assert {cell.codec for cell in cells} == {"gzip", "snappy", "lz4"}
    for cell in cells:
        mutant = for_cell(Random(0), cell)
        assert skips.skips(mutant)
        assert skips.skips(unchanged_mutant(mutant.data))
    assert not any(skips.skips(unchanged_mutant(data)) for data in own_seeds())


@pytest.mark.slow
def test_replays(tmp_path: Path) -> None:
    """A replay that shows its finding keeps it; a replay that shows nothing marks it as gone."""
    shown = 'reproducer = { cell = [0, "lz4", "size", "here", "inner_size_leads_nowhere", "packed", "only"] }'
    (tmp_path / KNOWN_FILE).write_text(
        f'[[issue]]\nid = "there"\ntestee = "kafka-python"\nkeys = ["kafka-python|hang|*"]\n{shown}\n'
        '[[issue]]\nid = "fixed"\ntestee = "kafka-python"\n'
        'keys = ["kafka-python|hang|*"]\nreproducer = { hex = "00" }\n'
    )
    replays = {
        each.id: each for each in replay_known_findings(tmp_path, read_known_findings(tmp_path), ["kafka-python"])
    }
    assert replays["there"].key.startswith("kafka-python|hang|")
    assert not replays["there"].gone
    assert replays["fixed"].gone
    assert gone_ids(tmp_path) == ["fixed"]


def test_a_replay_without_the_fault_confirms_the_finding() -> None:
    """A list keeps an input as bytes: a replay without labels confirms keys that have a fault or its codec."""
    rng, judge, lost = Random(3), Grader("t"), 0
    grades = [Grade("hang"), Grade("amplification", "time"), Grade("wrong_data", "records.value length 3 more")]
    for _ in range(60):
        mutant = mutate(rng, own_seeds(), "model")
        for grade in grades:
            key = judge.outcome(Prepared(mutant), grade).key
            rule = KnownFinding(id="id", testee="t", keys=(escape(key),), reproducer=ReplayInput(hex=mutant.data.hex()))
            assert rule.reproducer is not None
            again = judge.outcome(Prepared(rule.reproducer.mutant()), grade).key
            assert confirms(rule, again), (key, again)
            lost += not rule.explains(again)
            others = [Grade("crash"), Grade("ok")]
            others += [Grade(grade.kind, "another")] if grade.kind != "hang" else []
            assert not any(confirms(rule, judge.outcome(Prepared(mutant), other).key) for other in others)
        in_process = Outcome("t", "hang", fault=mutant.labels[0])
        assert confirms(KnownFinding(id="id", testee="t", keys=(in_process.key,)), Outcome("t", "hang").key)
    assert lost > 60
    assert not confirms(KnownFinding(id="id", testee="t", keys=("t|hang||lie x",)), "")
    assert not confirms(
        KnownFinding(id="id", testee="t", keys=("t|leaked_exception|KeyError|one",)),
        "t|leaked_exception|KeyError|other",
    )


def test_a_hang_is_interrupted_anywhere() -> None:
    """A replay that hangs shows a known hang, whatever function the loop was in when it was stopped."""
    rule = KnownFinding(id="id", testee="t", keys=("t|hang||loop.turn*",), reproducer=ReplayInput(hex="00"))
    assert confirms(rule, "t|hang||loop.turn v1")
    assert confirms(rule, "t|hang||checksum.update v1")
    assert not confirms(rule, "t|crash||loop.turn v1")
    other = KnownFinding(id="id", testee="t", keys=("t|crash||loop.turn*",), reproducer=ReplayInput(hex="00"))
    assert not confirms(other, "t|hang||checksum.update v1")


def test_replays_that_end_their_process() -> None:
    """A replay that ends its process, or does not end, has its own result; the others go to the next process."""
    kinds = {"a": "crash", "b": "hang", "c": "memory"}
    rules = [
        KnownFinding(id=name, testee="t", keys=(f"t|{kind}||*",), reproducer=ReplayInput(hex="00"))
        for name, kind in kinds.items()
    ]
    first = ReplayResult("t", "a", "t|crash||x", gone=False)
    lines: SimpleQueue[bytes] = SimpleQueue()
    with TemporaryFile() as said:
        said.write(b"Traceback\nMemoryError: no more\n")
        for line in (b"null\n", msgspec.json.encode(first), b"", b""):
            lines.put(line)
        assert list(read_replay_lines(lines, rules, said)) == [
            first,
            ReplayResult("t", "b", "", gone=False, why="MemoryError: no more"),
        ]
        assert [each.why for each in read_replay_lines(lines, rules, said)] == ["MemoryError: no more"] * 3
    assert [replay_timeout(rule).state for rule in rules] == ["not replayed", "still there", "not replayed"]


@pytest.mark.slow
def test_findings_that_cannot_be_replayed(tmp_path: Path) -> None:
    """For an unknown release, or if the harness fails, the result has the reason, and no finding is gone."""
    rule = KnownFinding(id="b", testee="broker:9.9.9", keys=("broker:9.9.9|*",), reproducer=ReplayInput(hex="00"))
    (tmp_path / KNOWN_FILE).write_text(known_list_file([rule]))
    (result,) = replay_known_findings(tmp_path, read_known_findings(tmp_path), ["broker:9.9.9"])
    assert (result.state, gone_ids(tmp_path)) == ("not replayed", [])
    assert "no release '9.9.9' is known" in result.why

    def ask(_: ReplayInput) -> Outcome:
        raise HarnessFault("Traceback\nMemoryError: no more")

    assert (replay_rule(rule, ask).state, replay_rule(rule, ask).why) == (
        "not replayed",
        "HarnessFault: MemoryError: no more",
    )


@pytest.mark.slow
def test_replays_of_a_testee_that_does_not_run(tmp_path: Path) -> None:
    """A testee that cannot be started leaves its findings as they are, and the result has the reason."""
    name = f"process:{sys.executable} -c pass"
    rules = [
        KnownFinding(id=id_, testee=name, keys=("*",), reproducer=ReplayInput(hex="00"), mode="differential")
        for id_ in "ab"
    ]
    (tmp_path / KNOWN_FILE).write_text(known_list_file(rules))
    results = replay_known_findings(tmp_path, read_known_findings(tmp_path), [f"differential:{name}"])
    assert [each.id for each in results] == ["a", "b"]
    assert all("did not say hello" in each.why and not each.gone for each in results)


def test_reproducers() -> None:
    """A reproducer gives the same input each time."""
    assert ReplayInput(cell=CELL).mutant() == ReplayInput(cell=CELL).mutant()
    assert ReplayInput(hex="0102").mutant().data == b"\1\2"


@pytest.mark.slow
def test_findings_that_the_corpus_shows_are_known(tmp_path: Path) -> None:
    """A testee that ran the corpus has keys with their cases; for another version of the testee the keys are new."""
    name = "planted:ignores-crc"
    done = CliRunner().invoke(fuzz, ["corpus", name, "--dir", str(tmp_path)])
    assert done.exit_code == 0, done.output
    key = f"{name}|accepts_invalid|error|CRC-07"
    shown = corpus_results(tmp_path)[name]
    assert already_known(tmp_path).reason(key, shown.version) == f"the corpus shows it: {shown.keys[key]}"
    assert not already_known(tmp_path).reason(key, "another")
    assert not already_known(tmp_path).reason(f"{name}|crash|signal 11|", shown.version)
    assert CliRunner().invoke(fuzz, ["corpus", name, "--dir", str(tmp_path), "--check"]).exit_code == 0


def test_what_comes_with_the_package_names_cases() -> None:
    """Every key of the package's list has a case that there is, and belongs to the testee that it stands under."""
    ids = {case.id for case in load_vectors()}
    shown = read_corpus_results(PACKAGED_CORPUS)
    assert shown
    for name, each in shown.items():
        assert set(each.keys.values()) <= ids
        assert {key.partition("|")[0] for key in each.keys} <= {name}


@pytest.mark.slow
def test_replays_of_testees(tmp_path: Path) -> None:
    """A testee's known finding is replayed against the testee, and only in campaigns with testees."""
    bad = bytearray(next(data for data in own_seeds() if first_place(data) == "v2 none"))
    bad[CRC_OFFSET_V2] ^= 1
    name = "planted:ignores-crc"
    rules = [
        KnownFinding(
            id=id_,
            testee=name,
            keys=(f"{name}|accepts_invalid|*",),
            reproducer=ReplayInput(hex=data.hex()),
            mode="differential",
        )
        for id_, data in (("there", bad), ("fixed", b"\0"))
    ]
    (tmp_path / KNOWN_FILE).write_text(known_list_file(merged_entries(rules, ())))
    assert replay_known_findings(tmp_path, read_known_findings(tmp_path), [name]) == []
    replays = {
        each.id: each.gone
        for each in replay_known_findings(tmp_path, read_known_findings(tmp_path), [f"differential:{name}"])
    }
    assert replays == {"there": False, "fixed": True}


@given(st.text(), st.lists(st.text(), max_size=3), st.text(max_size=5))
def test_a_list_is_read_as_it_was_written(about: str, keys: list[str], id_: str) -> None:
    """Whatever a testee said, the file that is written holds it, and nothing else."""
    rule = KnownFinding(
        id=id_, testee="t", keys=tuple(keys), reason=about, reproducer=ReplayInput(cell=CELL), mode="differential"
    )
    text = known_list_file([rule])
    with TemporaryDirectory() as folder:
        path = Path(folder) / KNOWN_FILE
        path.write_bytes(text.encode())
        assert read_known_list(path) == [rule]
