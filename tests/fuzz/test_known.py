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

from kafka_corpus.vectors import load_vectors
from kafka_fuzz.campaign.fork_worker import HarnessFault
from kafka_fuzz.campaign.known_findings import (
    ENOUGH,
    KNOWN_FILE,
    PACKAGED_CORPUS,
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
)
from kafka_fuzz.campaign.known_shapes import snappy_claims
from kafka_fuzz.campaign.replay import confirms, read_replay_lines, replay_known_findings, replay_rule, replay_timeout
from kafka_fuzz.campaign.worker import unchanged_mutant
from kafka_fuzz.differential.outcome_tuples import Grade, Grader, Prepared, first_place
from kafka_fuzz.mutate import Mutant, MutantCell, for_cell, mutate, own_seeds
from kafka_fuzz.mutate.model import all_cells
from kafka_fuzz.targets.outcome import Outcome
from kafka_fuzz.triage.accept import merged_entries, text_of
from kafka_records.layout import CRC_OFFSET_V2
from kafkaproof.commands.fuzz import fuzz

CELL = MutantCell(1, "gzip", "size", "here", "inner_size_leads_nowhere", "packed", "only")
CLAIM = MutantCell(2, "snappy", "claim", "largest", "snappy_claim_wrong", "stream", "only")


def plain(data: bytes, label: str) -> Mutant:
    """Bytes of which little is known."""
    return Mutant(data, "fixup", (label,), None, CELL)


def test_the_list_is_read(tmp_path: Path) -> None:
    """The package's list and that of the folder are joined; each finding of the package's list has a reproducer."""
    (tmp_path / KNOWN_FILE).write_text('[[known]]\nid = "x"\ntarget = "t"\nkeys = ["t|*"]\n')
    packaged = read_known_findings(tmp_path / "nowhere")
    assert packaged
    assert all(rule.reproducer for rule in packaged)
    assert [rule.id for rule in read_known_findings(tmp_path)] == [*(rule.id for rule in packaged), "x"]


@pytest.mark.parametrize("text", ["[[known]]", "known = 3", '[[known]]\nid="x"\ntarget="t"\nkeys=[]\nshape="none"'])
def test_a_wrong_list(text: str, tmp_path: Path) -> None:
    """A file that is no list of known findings is one clear error."""
    (tmp_path / KNOWN_FILE).write_text(text)
    with pytest.raises(ValueError, match="no list of known finds"):
        read_known_findings(tmp_path)


def test_a_lie_is_stepped_over() -> None:
    """Inputs with the fault in the rule's cells are skipped; others, those of another target, and gone ones are not."""
    rule = KnownFinding("id", "t", ("t|hang*",), faults=("inner_size_leads_nowhere",), cell={"codec": "gzip"})
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


def test_dear_ones_are_learnt() -> None:
    """Inputs like one that hung twice are rarely run; inputs like one that leaked an exception are."""
    stepping, mutant = InputSkips("t", []), plain(b"1", "size edge")
    for _ in range(ENOUGH):
        assert not stepping.skips(mutant)
        stepping.learn(mutant, Outcome("t", "hang"))
    assert sum(stepping.skips(mutant) for _ in range(1000)) > 900
    stepping.learn(plain(b"1", "other"), Outcome("t", "leaked_exception"))
    assert not stepping.skips(plain(b"1", "other"))


def test_what_nobody_changed_is_not_alike() -> None:
    """Two corpus inputs that hang do not cause others to be skipped, nor do two inputs with random byte changes."""
    stepping, rng = InputSkips("t", []), Random(1)
    for _ in range(ENOUGH):
        for mutant in (unchanged_mutant(own_seeds()[0]), mutate(rng, own_seeds(), "bytes")):
            stepping.learn(mutant, Outcome("t", "hang"))
    assert not any(stepping.skips(unchanged_mutant(data)) for data in own_seeds())
    assert not any(stepping.skips(mutate(rng, own_seeds(), "bytes")) for _ in range(300))


@pytest.mark.parametrize("target", ["kafka-python", "aiokafka", "aiokafka-pure"])
def test_known_loops_are_told_by_bytes(target: str) -> None:
    """An input without labels is skipped if it has the fault, and valid inputs are not."""
    stepping, cells = (
        InputSkips(target, read_known_findings(Path("nowhere"))),
        [c for c in all_cells() if c.fault == CELL.fault],
    )
    assert {cell.codec for cell in cells} == {"gzip", "snappy", "lz4"}
    for cell in cells:
        mutant = for_cell(Random(0), cell)
        assert stepping.skips(mutant)
        assert stepping.skips(unchanged_mutant(mutant.data))
    assert not any(stepping.skips(unchanged_mutant(data)) for data in own_seeds())


@pytest.mark.slow
def test_canaries(tmp_path: Path) -> None:
    """A replay that shows its finding keeps it; a replay that shows nothing marks it as gone."""
    shown = 'canary = { cell = [0, "lz4", "size", "here", "inner_size_leads_nowhere", "packed", "only"] }'
    (tmp_path / KNOWN_FILE).write_text(
        f'[[known]]\nid = "there"\ntarget = "kafka-python"\nkeys = ["kafka-python|hang|*"]\n{shown}\n'
        '[[known]]\nid = "mended"\ntarget = "kafka-python"\nkeys = ["kafka-python|hang|*"]\ncanary = { hex = "00" }\n'
    )
    sung = {each.id: each for each in replay_known_findings(tmp_path, read_known_findings(tmp_path), ["kafka-python"])}
    assert sung["there"].key.startswith("kafka-python|hang|")
    assert not sung["there"].gone
    assert sung["mended"].gone
    assert gone_ids(tmp_path) == ["mended"]


def test_a_canary_without_its_lie_is_the_known_find() -> None:
    """A list keeps an input as bytes: a replay without labels confirms keys that have a fault or its codec."""
    rng, judge, lost = Random(3), Grader("t"), 0
    worths = [Grade("hang"), Grade("amplification", "time"), Grade("wrong_data", "records.value length 3 more")]
    for _ in range(60):
        mutant = mutate(rng, own_seeds(), "model")
        for told in worths:
            key = judge.outcome(Prepared(mutant), told).key
            rule = KnownFinding("id", "t", (escape(key),), reproducer=ReplayInput(hex=mutant.data.hex()))
            assert rule.reproducer is not None
            again = judge.outcome(Prepared(rule.reproducer.mutant()), told).key
            assert confirms(rule, again), (key, again)
            lost += not rule.explains(again)
            others = (Grade("crash"), Grade(told.kind, "another"), Grade("ok"))
            assert not any(confirms(rule, judge.outcome(Prepared(mutant), other).key) for other in others)
        in_process = Outcome("t", "hang", fault=mutant.labels[0])
        assert confirms(KnownFinding("id", "t", (in_process.key,)), Outcome("t", "hang").key)
    assert lost > 60
    assert not confirms(KnownFinding("id", "t", ("t|hang||lie x",)), "")
    assert not confirms(
        KnownFinding("id", "t", ("t|leaked_exception|KeyError|one",)), "t|leaked_exception|KeyError|other"
    )


def test_canaries_that_end_whoever_asks() -> None:
    """A replay that ends its process, or does not end, has its own result; the others go to the next process."""
    kinds = {"a": "crash", "b": "hang", "c": "memory"}
    rules = [
        KnownFinding(name, "t", (f"t|{kind}||*",), reproducer=ReplayInput(hex="00")) for name, kind in kinds.items()
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


def test_canaries_that_cannot_be_asked(tmp_path: Path) -> None:
    """For an unknown release, or if the harness fails, the result has the reason, and no finding is gone."""
    rule = KnownFinding("b", "broker:9.9.9", ("broker:9.9.9|*",), reproducer=ReplayInput(hex="00"))
    (tmp_path / KNOWN_FILE).write_text(text_of([rule]))
    (told,) = replay_known_findings(tmp_path, read_known_findings(tmp_path), ["broker:9.9.9"])
    assert (told.state, gone_ids(tmp_path)) == ("not replayed", [])
    assert "no release '9.9.9' is known" in told.why

    def ask(_: ReplayInput) -> Outcome:
        raise HarnessFault("Traceback\nMemoryError: no more")

    assert (replay_rule(rule, ask).state, replay_rule(rule, ask).why) == (
        "not replayed",
        "HarnessFault: MemoryError: no more",
    )


@pytest.mark.slow
def test_a_canary_of_a_testee_that_does_not_run(tmp_path: Path) -> None:
    """A testee that cannot be started leaves its findings as they are, and the result has the reason."""
    name = f"process:{sys.executable} -c pass"
    rules = [KnownFinding(id_, name, ("*",), reproducer=ReplayInput(hex="00"), mode="differential") for id_ in "ab"]
    (tmp_path / KNOWN_FILE).write_text(text_of(rules))
    told = replay_known_findings(tmp_path, read_known_findings(tmp_path), [f"differential:{name}"])
    assert [each.id for each in told] == ["a", "b"]
    assert all("did not say hello" in each.why and not each.gone for each in told)


def test_reproducers() -> None:
    """A reproducer gives the same input each time."""
    assert ReplayInput(cell=CELL).mutant() == ReplayInput(cell=CELL).mutant()
    assert ReplayInput(hex="0102").mutant().data == b"\1\2"


@pytest.mark.slow
def test_what_the_corpus_shows_is_no_news(tmp_path: Path) -> None:
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
def test_canaries_of_testees(tmp_path: Path) -> None:
    """A testee's known finding is replayed against the testee, and only in campaigns with testees."""
    bad = bytearray(next(data for data in own_seeds() if first_place(data) == "v2 none"))
    bad[CRC_OFFSET_V2] ^= 1
    name = "planted:ignores-crc"
    rules = [
        KnownFinding(
            id_, name, (f"{name}|accepts_invalid|*",), reproducer=ReplayInput(hex=data.hex()), mode="differential"
        )
        for id_, data in (("there", bad), ("mended", b"\0"))
    ]
    (tmp_path / KNOWN_FILE).write_text(text_of(merged_entries(rules, ())))
    assert replay_known_findings(tmp_path, read_known_findings(tmp_path), [name]) == []
    sung = {
        each.id: each.gone
        for each in replay_known_findings(tmp_path, read_known_findings(tmp_path), [f"differential:{name}"])
    }
    assert sung == {"there": False, "mended": True}


@given(st.text(), st.lists(st.text(), max_size=3), st.text(max_size=5))
def test_a_list_is_read_as_it_was_written(about: str, keys: list[str], id_: str) -> None:
    """Whatever a testee said, the file that is written holds it, and nothing else."""
    rule = KnownFinding(id_, "t", tuple(keys), about=about, reproducer=ReplayInput(cell=CELL), mode="differential")
    text = text_of([rule])
    with TemporaryDirectory() as folder:
        path = Path(folder) / KNOWN_FILE
        path.write_bytes(text.encode())
        assert read_known_list(path) == [rule]
