"""The reducer: cut down on the structure of the format, deterministic, and never to another find."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from random import Random

import pytest
from benchmarks.shrink import TARGET, benchmark_inputs, good_batches, measure_shrink
from click.testing import CliRunner

import kafka_fuzz.executors
from kafka_fuzz.executors import InProcessExecutor, NoTarget, open_executor
from kafka_fuzz.mutate import Mutant, draw_profile, mutate, own_seeds
from kafka_fuzz.mutate.fixup import INT32
from kafka_fuzz.shrink import Budget, NotShown, shrink, shrink_input
from kafka_fuzz.shrink.search import NO_CELL, SHORT_SECONDS, runner, same_verdicts, verdicts, with_reference
from kafka_fuzz.shrink.tree import opened, render, shape_of
from kafka_fuzz.shrink.worker import HARD_SECONDS, run_in_child, run_of, with_limits
from kafka_fuzz.targets import TARGETS, Target
from kafka_fuzz.targets.base import TargetResult
from kafka_fuzz.targets.outcome import Outcome, OutcomeClass
from kafka_records import Batch, Header, Record, RecordFormatError, decode, encode
from kafka_records.constants import COMPRESSIONS
from kafka_records.layout import BATCH_V2, CRC_OFFSET_V2
from kafkaproof.commands.fuzz import fuzz


def mutants(count: int) -> list[Mutant]:
    """Inputs of all profiles."""
    rng, seeds = Random(11), own_seeds()
    return [mutate(rng, seeds, draw_profile(rng)) for _ in range(count)]


def rule_of(data: bytes) -> str:
    """The rule by which the reference refuses *data*; empty if it does not."""
    try:
        decode(data)
    except RecordFormatError as error:
        return error.rule or error.kind
    return ""


def log_of(**settings: object) -> bytes:
    """A batch of ten records, `needle` in one of them."""
    records = tuple(
        Record(at, at, b"key %d" % at, b"a needle in it" if at == 7 else b"hay " * at, (Header(b"h", b"v"),))
        for at in range(10)
    )
    batch = {"magic": 2, "base_offset": 0, "last_offset": 9, "records": records} | settings
    return encode(Batch(**batch))  # type: ignore[arg-type]  # settings are fields of a batch


def test_a_tree_is_written_as_it_was_read() -> None:
    """Whatever the bytes, taking them apart and putting them together changes nothing."""
    for mutant in mutants(600):
        assert render(shape_of(mutant.data)) == mutant.data, mutant.labels


def test_an_opened_entry_holds_the_same_records() -> None:
    """Unpacking and packing again gives other bytes, perhaps, but the same records."""
    for codec in COMPRESSIONS[1:]:
        data = log_of(compression=codec)
        (entry,) = shape_of(data).entries
        whole = opened(entry)
        assert whole is not None
        assert len(whole.items) == 10
        assert decode(render(shape_of(data)._replace(entries=(whole,)))) == decode(data)


@pytest.mark.parametrize("codec", COMPRESSIONS)
def test_a_needle_is_all_that_is_left(codec: str) -> None:
    """Of ten records in three batches, compressed or not, only the value that the predicate needs stays."""
    data = log_of() + log_of(compression=codec) + good_batches()

    def has_needle(given: bytes) -> bool:
        try:
            return any(b"needle" in (record.value or b"") for batch in decode(given) for record in batch.records)
        except RecordFormatError:
            return False

    small = shrink(data, has_needle)
    # A batch with one record without key or headers.
    assert len(small) == BATCH_V2.size + 7 + len(b"needle")
    assert decode(small)[0].records == (Record(0, 0, None, b"needle"),)


@pytest.mark.parametrize("codec", COMPRESSIONS[1:])
def test_what_is_about_compression_stays_compressed(codec: str) -> None:
    """If the predicate needs a codec, the payload is cut inside and compressed again."""
    data = log_of(compression=codec)

    def still(given: bytes) -> bool:
        try:
            batches = decode(given)
        except RecordFormatError:
            return False
        return any(batch.compression == codec and batch.records for batch in batches)

    small = shrink(data, still)
    assert len(small) < BATCH_V2.size + 50
    assert len(decode(small)[0].records) == 1


def test_a_wrong_checksum_stays_wrong_if_it_matters() -> None:
    """Shrinking keeps a wrong checksum that is the reason of a refusal, and fixes up any other."""
    data = bytearray(log_of(compression="gzip"))
    data[CRC_OFFSET_V2] ^= 0xFF
    assert rule_of(shrink(bytes(data), lambda given: rule_of(given) == rule_of(bytes(data)))) == rule_of(bytes(data))
    small = shrink(bytes(data), lambda given: len(given) >= BATCH_V2.size)
    assert decode(small), "the predicate does not depend on the checksum, so it becomes right"


def test_a_wrong_count_stays_wrong_if_it_matters() -> None:
    """A count that is one too many is still one too many when records are gone."""
    data = bytearray(log_of())
    INT32.pack_into(data, BATCH_V2.field("record_count").offset, 11)
    (entry,) = shape_of(bytes(data)).entries
    with_right_crc = render(shape_of(bytes(data))._replace(entries=(entry._replace(crc_right=True),)))
    rule = rule_of(with_right_crc)
    assert rule
    small = shrink(with_right_crc, lambda given: rule_of(given) == rule)
    assert len(small) <= BATCH_V2.size + 7


@pytest.mark.slow
def test_findings_keep_their_verdicts() -> None:
    """Shrinking a finding keeps the outcome of the target and the verdict of the reference."""
    target = replace(TARGETS[TARGET](), limit=SHORT_SECONDS)
    seen = set()
    for mutant in mutants(500):
        bare = mutant._replace(expected=None, labels=(), cell=NO_CELL)
        outcome = target.run(bare)
        if outcome.is_finding and outcome.kind not in ("hang", "memory") and outcome.bucket not in seen:
            seen.add(outcome.bucket)
            _, same = same_verdicts(target, mutant.data)
            small = shrink(mutant.data, same, budget=Budget(runs=300))
            assert len(small) <= len(mutant.data)
            assert verdicts(runner(target), small) == verdicts(runner(target), mutant.data)
    assert len(seen) > 8


def test_a_batch_of_candidates_leads_to_the_same() -> None:
    """A predicate over many candidates at once gives the same bytes as one over single candidates."""
    target = TARGETS[TARGET]()
    for data in benchmark_inputs().values():
        _, same = same_verdicts(target, data)
        together = shrink_input(data, lambda many, same=same: [same(each) for each in many], batch=16)  # type: ignore[misc]
        assert together.data == shrink(data, same)


def test_the_bench_reduces_to_the_known_minimum() -> None:
    """A finding with 600 bytes shrinks to the fixed fields of a message and two lengths."""
    found = measure_shrink(repeats=1)
    assert [one.after for one in found] == [34, 35]
    assert all(one.same and 500 < one.before < 700 for one in found)


def test_a_budget_is_kept() -> None:
    """At most as many candidates run as the budget has, and the smallest input so far is returned."""
    tested: list[bytes] = []

    def same(given: bytes) -> bool:
        tested.append(given)
        return True

    done = shrink_input(log_of(), lambda many: [same(each) for each in many], budget=Budget(runs=1), batch=1)
    assert len(tested) == 1
    assert not done.complete
    assert done.data == log_of()


def planted(name: str, wrong: Callable[[bytes], OutcomeClass | Exception]) -> Target:
    """A codec that does with any bytes what *wrong* says."""

    def ask(mutant: Mutant) -> TargetResult:
        made = wrong(mutant.data)
        if isinstance(made, Exception):
            raise made
        return TargetResult(made)

    return Target(name, "1", ("kafka_fuzz",), ask)


def needle_or_key(data: bytes) -> OutcomeClass | Exception:
    """Two bugs: one that the needle shows, and one that every smaller input shows."""
    return ValueError("needle") if b"needle" in data else KeyError("key")


def test_the_drift_trap() -> None:
    """If every smaller input shows another bug, a predicate for any bug drifts to it; the same outcome does not."""
    target, data = planted("drifts", needle_or_key), good_batches() + log_of()
    ask = runner(target)
    assert ask(shrink(data, lambda some: ask(some).is_finding)).detail == "KeyError"
    outcome, same = same_verdicts(target, data)
    small = shrink(data, same)
    assert (outcome.detail, ask(small).detail) == ("ValueError", "ValueError")
    assert b"needle" in small
    assert len(small) < BATCH_V2.size + 20


def test_finding_does_not_drift_between_broken_rules() -> None:
    """Two things are wrong, and a codec that takes everything shows both: the rule that it was found by stays."""
    bad_crc = bytearray(log_of())
    bad_crc[CRC_OFFSET_V2] ^= 1
    data = good_batches() + bytes(bad_crc) + bytes(11) + b"\x01"  # then a size that no entry has
    target = planted("takes all", lambda some: "accepts_invalid" if rule_of(some) else "ok")
    _, same = same_verdicts(target, data)
    small = shrink(data, same)
    assert rule_of(small) == rule_of(data) == "CRC-07"
    assert len(small) <= BATCH_V2.size


def test_the_whole_vector_stays() -> None:
    """Outcomes of the co-testees stay, too: a testee that refuses three entries still refuses the smaller input."""
    leaks = planted("leaks", lambda some: ValueError("any"))
    refuses = planted("refuses", lambda some: "refused" if len(shape_of(some).entries) > 2 else "ok")
    data = good_batches()
    alone = shrink(data, same_verdicts(leaks, data)[1])
    together = shrink(data, same_verdicts(leaks, data, [refuses])[1])
    assert runner(refuses)(data).kind == runner(refuses)(together).kind == "refused"
    assert runner(refuses)(alone).kind == "ok"
    assert len(alone) < len(together) < len(data)
    assert len(shape_of(together).entries) == 3


def test_what_is_not_shown_is_an_error() -> None:
    """An input for which the predicate does not hold is not reduced to nothing."""
    with pytest.raises(NotShown):
        shrink(b"anything", lambda _: False)


@pytest.mark.slow
def test_minimise_writes_the_smallest_input(tmp_path: Path) -> None:
    """The command writes 34 bytes for the file of 600, and says so."""
    path = tmp_path / "found.bin"
    path.write_bytes(benchmark_inputs()["key length"])
    done = CliRunner().invoke(fuzz, ["minimise", str(path), "--target", TARGET])
    assert done.exit_code == 0, done.output
    assert "to 34," in done.output
    assert len((tmp_path / "found.bin.min").read_bytes()) == 34


@pytest.mark.slow
def test_minimise_refuses_what_shows_nothing(tmp_path: Path) -> None:
    """An input that everybody reads right, and a target that does not exist, are one clear error each."""
    path = tmp_path / "fine.bin"
    path.write_bytes(good_batches())
    assert CliRunner().invoke(fuzz, ["minimise", str(path), "--target", TARGET]).exit_code == 3
    assert CliRunner().invoke(fuzz, ["minimise", str(path), "--target", "no-such-target"]).exit_code == 3
    assert CliRunner().invoke(fuzz, ["minimise", "no such find", "--target", TARGET]).exit_code == 2


@pytest.mark.slow
def test_finding_of_a_testee_process_is_shrunk() -> None:
    """A finding in a program that speaks the protocol is shrunk over the pipe, many candidates at a time."""
    with open_executor("planted:ignores_crc", ["reference"]) as who:
        data = bytearray(good_batches())
        data[CRC_OFFSET_V2] ^= 0xFF
        done = who.shrink(bytes(data))
    assert done.outcome is not None
    assert done.outcome.kind == "accepts_invalid"
    assert len(done.data) == BATCH_V2.size
    assert rule_of(done.data) == rule_of(bytes(data))


def test_what_kills_a_process_is_an_outcome() -> None:
    """A target that ends over an input, by a signal or an exit, runs the next input all the same."""

    def run(data: bytes) -> Outcome:
        if data == b"signal":
            os.kill(os.getpid(), signal.SIGUSR1)
        if data == b"exit":
            os._exit(3)
        return Outcome("mortal", "ok")

    ask = run_in_child("mortal", run)
    assert (ask(b"signal").kind, ask(b"signal").detail) == ("crash", "SIGUSR1")
    assert (ask(b"exit").kind, ask(b"exit").detail) == ("crash", "exit code 3")
    assert ask(b"neither").kind == "ok"


def test_a_loop_in_compiled_code_ends_the_worker() -> None:
    """No guard in the process stops it, and the processor's time does: long before a process of its own would end."""
    loops = planted("loops", lambda data: "hang" if deque(repeat(0), 0) is None else "ok")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    outcome = run_in_child("loops", with_limits(runner(loops), 0.05), HARD_SECONDS)(b"any")
    assert outcome.kind == "hang"
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < HARD_SECONDS / 2


@pytest.mark.parametrize("kind", ["leaked_exception", "wrong_data", "accepts_invalid"])
def test_every_candidate_in_the_worker_has_a_limit(kind: OutcomeClass) -> None:
    """A candidate of any outcome class has a time limit, and only while it runs."""
    looks = planted("looks", lambda _: "ok" if signal.getitimer(signal.ITIMER_PROF)[0] else "crash")
    assert run_of(looks, kind)(b"any").kind == "ok"
    assert signal.getitimer(signal.ITIMER_PROF)[0] == 0


SILENT = """
import sys
print('"1.0"', flush=True)
for line in sys.stdin:
    {}
"""


def worker(tmp_path: Path, does: str) -> InProcessExecutor:
    """A worker that does so with every task."""
    (tmp_path / "worker.py").write_text(SILENT.format(does))
    return InProcessExecutor("any", worker=(sys.executable, str(tmp_path / "worker.py")))


def test_a_worker_that_never_answers_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker without a complete answer is killed, retried with care, and then given up with a reason."""
    monkeypatch.setattr(kafka_fuzz.executors, "ANSWER_GRACE", 0.05)
    for does in ("pass", "print('half a line', end='', flush=True)", "sys.exit('broken')"):
        who = worker(tmp_path, does)
        assert who.version == "1.0"
        with pytest.raises(NoTarget, match="broken" if "broken" in does else "did not answer in time"):
            who.shrink(b"any", budget=Budget(1, 0.0))


@pytest.mark.slow
def test_a_target_that_cannot_be_imported_says_so() -> None:
    """It has no version, and is no target."""
    with pytest.raises(NoTarget, match="no-such-target"), open_executor("no-such-target"):
        pass
    with pytest.raises(NoTarget, match="KeyError"):
        InProcessExecutor("no-such-target")


def test_hangs_of_testees_are_distinguished() -> None:
    """A testee that hangs goes on hanging in the same way over the same broken rule; a loop is one anywhere."""
    data = log_of()
    for one, other in (("FRM-05", "VAR-01"), ("FRM-05", "valid v2")):
        assert with_reference(Outcome("x", "hang", "", one), data) != with_reference(
            Outcome("x", "hang", "", other), data
        )
    assert with_reference(Outcome("x", "hang", "", "m.f"), data) == with_reference(
        Outcome("x", "hang", "", "m.g"), data
    )
