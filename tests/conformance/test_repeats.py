"""Outcomes that depend on time or memory are repeated, alone, before they count."""

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.same_verdicts import LoadPlan, run_under_load, varying_cases
from tests.conformance.misbehaving import REPLY, Make, Script, misbehaving

from kafka_conformance.judge.observation import Crashed, Decoded, Exceeded, Hung, Observation
from kafka_conformance.process.child import ReadFailure
from kafka_conformance.process.cpu_permits import CpuPermit, CpuPermits
from kafka_conformance.process.time_limits import ENDLESS, timeout_group
from kafka_conformance.reports import summary
from kafka_conformance.reports.terminal import write_summary
from kafka_conformance.runner.requests import TOO_MUCH, CaseRequest, TimedObservation, request_for
from kafka_conformance.runner.results import Results
from kafka_conformance.runner.run import RunPlan, run
from kafka_conformance.runner.workers import depends_on_limits, is_settled, needs_repeat, verdict_of_repeats
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors

V2 = "decode=dict(magics=[2], compressions=['none', 'gzip', 'snappy', 'lz4', 'zstd'])"
# Seconds that a planted testee may sleep.
SHORT = 0.2


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Small cases to decode, all of them invalid: the testees here accept everything."""
    found = [case for case in load_vectors() if case.op == "decode" and isinstance(case.input, bytes)]
    return [case for case in found if case.area == "v2_record" and case.expect.verdict == "invalid"][:12]


# A testee that hangs over one input in those of its processes that a list names, counted from 0.
HANGS = """
if data == bytes.fromhex({data!r}):
    with open({note!r}, 'ab') as note: note.write(b'.')
    if os.path.getsize({note!r}) - 1 in {when}: time.sleep(60)
reply(id=id, batches=[])
"""


def outcome(cases: list[Case], when: str, script: Script, tmp_path: Path) -> tuple[Results, Case, int]:
    """The results of a testee that hangs over the fourth case *when* it is sent; that case; how often it was sent."""
    bad, note = cases[3], tmp_path / "note"
    assert isinstance(bad.input, bytes)
    body = HANGS.format(data=bad.input.hex(), note=str(note), when=when)
    connection = replace(script(body, hello=V2), seconds=SHORT)
    path = tmp_path / "result.ndjson"
    done = run(RunPlan(connection=connection, cases=cases, corpus="small", path=path, only=["v2_record.*"], jobs=2))
    return done, bad, note.stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "expected", "sent"),
    [
        ("[0, 1]", "accepts_invalid", 4),  # the second time is in the same run of lines, alone
        ("range(99)", "hang", None),
        ("[]", "accepts_invalid", 1),
    ],
    ids=["first", "always", "never"],
)
def test_a_hang_counts_if_it_happens_again(
    when: str, expected: str, sent: int | None, cases: list[Case], script: Script, tmp_path: Path
) -> None:
    """A hang that does not happen alone is none; one that happens each time counts; other cases are sent once."""
    done, bad, number = outcome(cases, when, script, tmp_path)
    lines = {line.case: line.outcome for line in done.lines}

    assert done.complete
    assert lines.pop(bad.id) == expected
    assert set(lines.values()) == {"accepts_invalid"}
    assert sent in (None, number)
    assert done.footer is not None
    assert done.footer.repeated == (when != "[]")


@pytest.mark.slow
def test_a_hang_that_comes_and_goes_is_flaky(cases: list[Case], script: Script, tmp_path: Path) -> None:
    """An outcome that varies between lone repeats is `flaky`: listed, and no finding."""
    done, bad, _ = outcome(cases, "[0, 1, 3]", script, tmp_path)
    line = next(line for line in done.lines if line.case == bad.id)

    assert (line.outcome, line.why) == ("flaky", "hang, then accepts invalid, then hang")
    assert done.counts()["flaky"] == 1
    made = summary.make(done, cases, (), tmp_path / "result.ndjson")
    assert bad.id not in {finding.line.case for finding in made.findings}
    assert bad.id not in made.profiled.by_case
    write_summary(made, tmp_path / "summary.txt")
    assert f"flaky            {bad.id}: {line.why}" in (tmp_path / "summary.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("observation", "repeated"),
    [
        (Hung(0.5), True),
        (Hung(0.0, "fatal error: all goroutines are asleep - deadlock!"), False),
        (Exceeded("it took more than 1,024 MiB of memory", "", 1 << 30, 10), True),
        (Exceeded(TOO_MUCH[ReadFailure.TOO_LONG]), False),
        (Crashed(signal=9), True),
        (Crashed(signal=11), False),
        (Crashed(exit_code=1), False),
        (Decoded(()), False),
    ],
)
def test_what_depends_on_limits(observation: Observation, repeated: bool) -> None:
    """Hangs, exhausted memory and kills are repeated; crashes, deadlocks and answers are not."""
    assert depends_on_limits(observation) == repeated


@pytest.mark.parametrize(
    ("observation", "repeated"),
    [
        (Exceeded("it took more than 1,024 MiB of memory", "", 1 << 30, 10), False),
        (Exceeded(TOO_MUCH[ReadFailure.GREW], "", 1 << 29, 10), False),
        (Hung(0.5), True),
        (Crashed(signal=9), True),
    ],
)
def test_memory_of_a_lone_process_is_not_doubted(observation: Observation, repeated: bool) -> None:
    """Memory that a fresh process of one thread took is due to the case; otherwise the case is repeated."""
    assert needs_repeat(TimedObservation(observation, 1.0, 1, lone=True)) == repeated
    assert needs_repeat(TimedObservation(observation, 1.0, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "known", "kept", "expected"),
    [
        ("", False, 150, Exceeded),
        (next(iter(ENDLESS)), False, 150, Hung),
        (next(iter(ENDLESS)), True, 150, Hung),
        (next(iter(ENDLESS)), False, 300, Exceeded),
    ],
    ids=["another question", "endless", "endless, and known", "above the limit"],
)
def test_a_reader_that_works_for_ever_hangs(
    group: str, known: bool, kept: int, expected: type[Observation], script: Script, sandbox: Make
) -> None:
    """A loop that takes memory hangs with a long limit and with the short one, unless it passes its memory limit."""
    grows = f"\n    kept = bytearray({kept} << 20)\n    while True: pass"
    made = sandbox(replace(script(misbehaving(grows)), memory=256 << 20), SHORT)
    if known:
        made._learnt.hung.add(group)
    (seen,) = made.ask([CaseRequest(b"bad", timeout_group=group)])

    assert isinstance(seen.observation, expected)


def test_no_heavy_case_is_endless() -> None:
    """Heavy cases have limits of their own, of which memory is a part."""
    endless = [case for case in load_vectors() if timeout_group(case) in ENDLESS]

    assert len(endless) > 50
    assert not any(request_for(case, committed=False).heavy for case in endless)


ANOTHER_THREAD = "import threading; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"


@pytest.mark.slow
@pytest.mark.parametrize(("before", "lone"), [("", True), (f"{ANOTHER_THREAD}\n", False)])
def test_a_process_with_threads_is_not_lone(
    before: str, lone: bool, cases: list[Case], script: Script, sandbox: Make
) -> None:
    """An answer is due to its case alone if the process has one thread, and had no other request."""
    testee = sandbox(script("reply(id=id, batches=[])", hello=V2, setup=before))
    requests = [CaseRequest(case.input) for case in cases[:2] if isinstance(case.input, bytes)]
    first, (second,) = testee.ask_afresh(requests[0]), testee.ask(requests[1:])
    assert (first.lone, second.lone) == (lone, False)


HANG, ANSWER = Hung(0.5), Decoded(())


@pytest.mark.parametrize(
    ("seen", "settled", "verdict"),
    [
        ((HANG, HANG), True, "hang"),
        ((HANG, ANSWER), False, "flaky"),
        ((HANG, ANSWER, ANSWER), True, "accepts_invalid"),
        ((HANG, ANSWER, HANG), True, "flaky"),
        ((HANG, Crashed(signal=9), ANSWER), True, "flaky"),
    ],
)
def test_verdict_of_repeats(seen: Sequence[Observation], settled: bool, verdict: str, cases: list[Case]) -> None:
    """Two equal outcomes in a row settle a case; three that vary leave it flaky."""
    found = [TimedObservation(each, 0.1) for each in seen]

    assert is_settled(cases[0], found) == settled
    assert verdict_of_repeats(cases[0], found).outcome == verdict


def test_a_lone_worker_waits_for_all_places() -> None:
    """A worker that is to be alone gets its permit when no other works, and keeps others away."""
    permits, stop = CpuPermits(2), threading.Event()
    other, alone = CpuPermit(permits, (0, 0), stop), CpuPermit(permits, (9, 0), stop, alone=True)
    assert other.take()
    got = threading.Event()

    def wait() -> None:
        alone.take()
        got.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not got.wait(0.05)
    second = CpuPermit(permits, (0, 1), stop)
    assert second.take()  # a lower rank goes first
    other.give()
    second.give()
    assert got.wait(60)
    thread.join()
    taken = threading.Thread(target=other.take)
    taken.start()
    taken.join(0.05)
    assert taken.is_alive()
    alone.give()
    taken.join(60)
    assert not taken.is_alive()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kafka-python", "planted:crashes-on-a-tenth"])
def test_ten_runs_under_load_have_the_same_outcomes(name: str, tmp_path: Path) -> None:
    """A busy machine changes no outcome; `tox run -e same-verdicts` runs all testees on all cases."""
    chosen = [case for case in load_vectors() if case.area in ("lz4", "backwards")][::16]
    runs = run_under_load([name], LoadPlan(cases=chosen, folder=tmp_path, others=os.cpu_count() or 1))[name]

    assert len(runs.outcomes) == 10
    assert varying_cases(runs.outcomes) == {}


@pytest.mark.slow
def test_the_command_compares_runs(tmp_path: Path) -> None:
    """`python -m benchmarks.same_verdicts` runs a testee several times, and says that nothing differs."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "benchmarks.same_verdicts", "reference", "--only", "varint.*", "--times", "2"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "reference: 2 runs, no outcome differs\n")


@pytest.mark.slow
def test_memory_is_repeated_too(cases: list[Case], script: Script, tmp_path: Path) -> None:
    """Memory that is taken once only is no finding; memory that is taken each time counts."""
    note, (once, always) = tmp_path / "note", (cases[2].input, cases[5].input)
    assert isinstance(once, bytes)
    assert isinstance(always, bytes)
    body = f"""
if data == bytes.fromhex({always.hex()!r}): bytearray(512 << 20)
if data == bytes.fromhex({once.hex()!r}):
    with open({str(note)!r}, 'ab') as note: note.write(b'.')
    if os.path.getsize({str(note)!r}) <= 1: bytearray(512 << 20)
{REPLY}
"""
    connection = replace(script(body, hello=V2), memory=256 << 20)
    path = tmp_path / "result.ndjson"
    done = run(RunPlan(connection=connection, cases=cases, corpus="small", path=path, only=["v2_record.*"], jobs=2))
    outcomes = {line.case: line.outcome for line in done.lines}

    assert (outcomes[cases[2].id], outcomes[cases[5].id]) == ("accepts_invalid", "memory")
    assert done.footer is not None
    assert done.footer.repeated >= 1
