"""Differential fuzzing: testees that crash in every way, their graded answers, and their outcome tuples."""

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from benchmarks.fuzz import pipe_rate

from kafka_conformance.judge.observation import Crashed, Decoded, Exceeded, Hung, observe
from kafka_conformance.testees.known import connect
from kafka_conformance.testees.protocol import CodecAnswer, Refusal
from kafka_corpus.wire import to_wire
from kafka_fuzz import executors
from kafka_fuzz.campaign import plan
from kafka_fuzz.campaign.differential import DifferentialRound, differential_report, read_fallen
from kafka_fuzz.campaign.plan import RoundPlan, finding_targets, round_runner, unknown_targets
from kafka_fuzz.campaign.store import Corpus
from kafka_fuzz.differential.compare import Differential, InputResult
from kafka_fuzz.differential.feed import BATCH, Feed
from kafka_fuzz.differential.outcome_tuples import NOT_RUN, Grader, OutcomeTuples, Prepared, first_place
from kafka_fuzz.findings import FindingStore, read_findings
from kafka_fuzz.mutate import Mutant, draw_profile, mutate, own_seeds
from kafka_fuzz.mutate.plain import cell_of
from kafka_fuzz.targets.outcome import ending_cause, normalized_message

GO = (
    "panic: runtime error: slice bounds out of range [:-7] | goroutine 1 [running]: | "
    "github.com/x/kafka.(*decoder).Read(0xc0001, {0x1, 0x2}) | /home/me/decode.go:44 +0x1e"
)
RUST = "thread 'main' panicked at /root/src/records.rs:12:34: | index out of bounds: the len is 3 but the index is 9"
NODE = "RangeError: Invalid array length: 99 |     at readRecords (/a/b.js:1:2)"


def mutants(count: int, seed: int = 1) -> Iterator[Mutant]:
    """Some of every profile."""
    rng, seeds = Random(seed), own_seeds()
    return (mutate(rng, seeds, draw_profile(rng)) for _ in range(count))


def plain(data: bytes) -> Mutant:
    """Bytes of which nothing is known."""
    return Mutant(data, "bytes", ("seed",), None, cell_of(data, "seed"))


def run(names: list[str], count: int) -> tuple[Differential, list[InputResult]]:
    """A session in which each testee gets each input, and its results."""
    with Differential([connect(name) for name in names], patient=True) as session:
        return session, list(session.run(mutants(count), lambda: True))


def right_of(prepared: Prepared) -> CodecAnswer:
    """The answer of a correct testee."""
    error = Refusal("malformed") if prepared.right.verdict == "invalid" else None
    batches = list(map(to_wire, prepared.right.batches))
    return CodecAnswer(batches=batches, error=error) if error else CodecAnswer(batches=batches)


def test_at_once_is_as_with_care() -> None:
    """The quick grade of an answer is that of the judge of certification."""
    for prepared in map(Prepared, mutants(300)):
        other = CodecAnswer(batches=[]) if prepared.right.batches else CodecAnswer(error=Refusal("malformed"))
        for answer in (right_of(prepared), other):
            quick, slow = Grader("quick").grade(prepared, answer), Grader("slow").grade(prepared, observe(answer))
            assert quick.kind == slow.kind, (prepared.mutant, answer)


def test_fields_left_out_are_no_difference() -> None:
    """A testee that exposes no timestamps agrees, before it is known what it leaves out and after."""
    judge = Grader("shy")
    for prepared in map(Prepared, mutants(200)):
        if prepared.right.verdict != "valid":
            continue
        batches = [to_wire(batch) for batch in prepared.right.batches]
        for batch in batches:
            batch.max_timestamp = type(batch)().max_timestamp
        assert judge.grade(prepared, CodecAnswer(batches=batches)).kind == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["crashes-on-a-tenth", "panics"])
def test_the_guilty_input(name: str) -> None:
    """Of a batch that crashes a testee, exactly the inputs that crash it are charged; the others have answers."""
    batch = [mutant.data for mutant in mutants(BATCH)][:40]
    feed = Feed(connect(f"planted:{name}"))
    try:
        feed.open()
        feed.post(batch)
        feed.post(batch[:5])
        seen, again = feed.collect(), feed.collect()
    finally:
        feed.close()
    died = [isinstance(each.answer, Crashed) for each in seen]
    if name == "crashes-on-a-tenth":
        assert died == [crc32(data) % 10 == 0 for data in batch]
    else:
        assert died == [Prepared(plain(data)).right.verdict == "invalid" for data in batch]
    assert [isinstance(each.answer, Crashed) for each in again] == died[:5]


HUNGRY = """
import sys, time
from kafka_conformance.testees.serve import serve
from kafka_conformance.testees import reference

class Hungry:
    NAME, VERSION, DECODES, ENCODES = "hungry", "1", reference.DECODES, reference.ENCODES
    encode = reference.encode
    @staticmethod
    def decode(data):
        if data.startswith(b"eat"):
            taken = bytearray(80 << 20)
            taken[::4096] = b"x" * len(taken[::4096])
            end = time.process_time() + 0.3
            while time.process_time() < end: pass  # far more time than such bytes explain, too
        return reference.decode(data)

serve(Hungry, sys.stdin.buffer, sys.stdout.buffer)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="CPU time and memory are read from /proc")
def test_amplification(tmp_path: Path) -> None:
    """An input of a few bytes that takes eighty megabytes is a finding, even if the testee answers."""
    script = tmp_path / "hungry.py"
    script.write_text(HUNGRY)
    inputs = [plain(b"eat this"), *(plain(mutant.data) for mutant in mutants(30))]
    with Differential([connect(f"process:{sys.executable} {script}")], patient=True) as session:
        found = [judgement for judgement in session.run(iter(inputs), lambda: True) if judgement.outcomes]
    assert [judgement.mutant.data for judgement in found] == [b"eat this"]
    assert (found[0].outcomes[0].kind, found[0].outcomes[0].detail) == ("amplification", "memory")
    testees = executors.TesteeExecutor((f"process:{sys.executable} {script}",))  # as in replays of known findings
    assert testees.outcome(inputs[0]).key == found[0].outcomes[0].key
    assert not testees.outcome(inputs[1]).is_finding
    testees.close()


@pytest.mark.slow
def test_a_session() -> None:
    """The reference has no findings, a wrong codec has some; every combination of answers is new once."""
    session, judged = run(["reference", "planted:ignores-crc"], 400)
    found = {outcome.target for judgement in judged for outcome in judgement.outcomes}
    assert found == {"planted:ignores-crc"}
    judged = [judgement for judgement in judged if judgement.outcome_tuple]
    assert len(judged) == session.inputs == 400
    new = [judgement.outcome_tuple for judgement in judged if judgement.new == "vector"]
    assert len(set(new)) == len(new)
    assert ("refused", "accepts_invalid") in {judgement.outcome_tuple for judgement in judged}


@pytest.mark.slow
def test_what_is_not_announced() -> None:
    """A testee that announces v2 only is not sent the rest, and that is no difference."""
    _, judged = run(["planted:skip-all", "reference"], 60)
    assert {judgement.outcome_tuple[0] for judgement in judged if judgement.outcome_tuple} == {NOT_RUN}
    assert not any(judgement.outcomes for judgement in judged)


@pytest.mark.slow
def test_no_testee_runs() -> None:
    """Where no testee starts, that is said; where one does, the others are named."""
    broken = f"process:{sys.executable} -c pass"
    with pytest.raises(Exception, match="did not say hello"), Differential([connect(broken)]):
        pass
    with Differential([connect("reference"), connect(broken)]) as session:
        assert list(session.cannot_run) == [broken]


@pytest.mark.slow
def test_who_is_named_has_to_run(tmp_path: Path) -> None:
    """A named testee that got no input is a failure of the round; for "all" it is only reported."""
    broken = f"process:{sys.executable} -c pass"
    reports = {}
    with Differential([connect("reference"), connect(broken)]) as session:
        for target in (f"differential:reference,{broken}", "differential"):
            rounds = DifferentialRound(
                RoundPlan(target, tmp_path), session, Corpus(tmp_path, target), FindingStore(tmp_path)
            )
            reports[target] = differential_report(rounds, 1.0)
    assert all(f"{broken} did not run" in each.version for each in reports.values())
    named, everybody = (each.failure for each in reports.values())
    assert named.startswith(f"{broken} did not run: ")
    assert "reference did" not in named
    assert everybody == ""


def test_gaps() -> None:
    """An outcome tuple in which a testee was not run is new only if it matches no known tuple."""
    vectors = OutcomeTuples(("a", "b"))
    assert vectors.is_new(("ok", "crash"))
    assert not vectors.is_new(("ok", "crash"))
    assert not vectors.is_new(("ok", NOT_RUN))
    assert vectors.is_new((NOT_RUN, "hang"))


def test_vectors_of_other_testees() -> None:
    """Outcome tuples are loaded by testee name, in any order; without names only if their lengths are equal."""
    before = OutcomeTuples(("process:./a -x=1", "b"))
    kept = [before.text(("ok", "crash")), before.text((NOT_RUN, "hang")), "hang ok", "ok ok ok"]
    later = OutcomeTuples(("b", "c", "process:./a -x=1"))
    later.load(kept)
    assert later.seen == {("crash", NOT_RUN, "ok"), ("hang", NOT_RUN, NOT_RUN), ("ok", "ok", "ok")}
    assert not later.is_new((NOT_RUN, NOT_RUN, "ok"))
    other = OutcomeTuples(("c",))
    other.load(kept)
    assert other.seen == set()


@pytest.mark.slow
def test_a_round_after_a_testee_has_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The testees of `differential` may be others than yesterday: the round runs, and knows the vectors by name."""
    names = ["planted:ignores-crc", "reference"]
    for count in (1, 2):
        monkeypatch.setattr(plan, "ready_testees", lambda count=count: iter(names[:count]))
        round_plan = RoundPlan("differential", tmp_path, number=count, cpu_seconds=2.0)
        report = round_runner("differential")(round_plan, lambda _: None)
        assert (report.failure, report.executions > 0) == ("", True)
    assert {bucket.count("=") for bucket in Corpus(tmp_path, "differential").buckets} == {1, 2}


def test_keys_of_crashes_have_no_varying_parts() -> None:
    """Runtimes' last words keep the message and the function, and lose numbers, addresses and lines."""
    assert ending_cause(Crashed(exit_code=2, stderr=GO)) == (
        "runtime error: slice bounds out of range [:#]",
        "github.com/x/kafka.(*decoder).Read",
    )
    assert ending_cause(Crashed(exit_code=101, stderr=RUST)) == (
        "records.rs: index out of bounds: the len is # but the index is #",
        "",
    )
    assert ending_cause(Exceeded("it ran out of memory", NODE)) == (
        "RangeError: Invalid array length: #",
        "readRecords",
    )
    assert ending_cause(Crashed(signal=11)) == ("signal 11", "")
    said = "python: rdbuf.c:1115: rd_slice_narrow_copy: Assertion `rd_slice_abs_offset(new_slice) <= 3' failed."
    assert ending_cause(Crashed(signal=6, stderr=said)) == ("signal 6", "rd_slice_narrow_copy")
    assert ending_cause(Hung(1.0)) == ("", "")
    assert normalized_message("got 9f, expected c3") == normalized_message("got ab, expected 01")
    assert normalized_message("Error: at (/home/me/a/b.js") == normalized_message("Error: at (/root/x/b.js")


def test_where_it_happened() -> None:
    """The entry that an answer is about has a magic and a codec, as far as its bytes say."""
    log = b"".join(data for data in own_seeds() if first_place(data) == "v1 gzip")
    assert Prepared(plain(log)).place(1) == "v1 gzip"
    assert first_place(b"short") == ""
    assert isinstance(observe(right_of(Prepared(plain(log)))), Decoded)


@pytest.mark.slow
def test_a_round(tmp_path: Path) -> None:
    """A round of a campaign writes its findings and inputs, and the next round knows which inputs crashed a testee."""
    target = "differential:planted:crashes-on-headers,planted:ignores-crc"
    round_plan = RoundPlan(target=target, directory=tmp_path, cpu_seconds=1.0)
    report = round_runner(target)(round_plan, lambda _: None)
    assert (report.failure, report.interrupted) == ("", False)
    assert report.executions > 100
    kinds = {(find.outcome.target, find.outcome.kind) for find in read_findings(tmp_path)}
    assert {("planted:crashes-on-headers", "crash"), ("planted:ignores-crc", "accepts_invalid")} <= kinds
    assert {find.outcome.target for find in read_findings(tmp_path)} == set(finding_targets(target))
    assert Corpus(tmp_path, target).buckets
    assert all(read_fallen(tmp_path)[name] for name in read_fallen(tmp_path) if "headers" in name)


@pytest.mark.slow
def test_known_testees() -> None:
    """`differential` alone means all known testees that are ready, and not the reference."""
    assert "kafka-python" in plan.testees_in("differential")
    assert "reference" not in plan.testees_in("differential")
    assert not unknown_targets(["differential", "differential:sarama", "broker"])


@pytest.mark.slow
def test_throughput() -> None:
    """The throughput counts inputs that were answered and compared; expensive inputs are set aside before."""
    measured = pipe_rate("planted:ignores-crc", 0.2)
    assert measured.inputs > 0
    assert measured.inputs / measured.seconds > 0
    assert measured.set_aside[0] < measured.set_aside[1]
