"""Targets in process: what comes out of one, whatever it does, and what is kept of it."""

import re
import sys
import time
from pathlib import Path
from random import Random

import pytest

from kafka_fuzz import findings
from kafka_fuzz.findings import FIELDS
from kafka_fuzz.mutate import Mutant, MutantCell, mutate, own_seeds
from kafka_fuzz.targets import TARGETS, Target
from kafka_fuzz.targets.base import TargetResult, TooLong, guard, reset_peak
from kafka_fuzz.targets.outcome import CLASSES, GOOD, Outcome, excess_cost, severity

CELL = MutantCell(2, "none", "crc", "large", "crc", "entry", "only")


def mutant(data: bytes, *labels: str) -> Mutant:
    """Bytes of which nothing is known."""
    return Mutant(data, "bytes", labels, None, CELL)


def target(ask: object) -> Target:
    """A target of this module."""
    return Target("sample", "1", (__name__,), ask)  # type: ignore[arg-type]  # any function that takes a mutant


def loops(_mutant: Mutant) -> TargetResult:
    while True:
        try:
            time.process_time()
        except Exception:
            continue


def leaks(_mutant: Mutant) -> TargetResult:
    raise KeyError("undocumented")


def allocates(_mutant: Mutant) -> TargetResult:
    raise MemoryError


def grows(_mutant: Mutant) -> TargetResult:
    taken = bytearray(256 * 1024 * 1024)
    taken[::4096] = b"x" * (len(taken) // 4096)  # the kernel gives what is not written to for nothing
    return TargetResult("ok")


@pytest.mark.parametrize(
    ("ask", "kind", "detail"),
    [
        pytest.param(loops, "hang", "", marks=pytest.mark.slow),
        (leaks, "leaked_exception", "KeyError"),
        (allocates, "memory", ""),
    ],
)
def test_whatever_it_does(ask: object, kind: str, detail: str) -> None:
    """A loop, a leaked exception and exhausted memory are outcomes, with the innermost function."""
    outcome = target(ask).run(mutant(b""))
    assert (outcome.kind, outcome.detail) == (kind, detail)
    assert outcome.function == f"{__name__}.{ask.__name__}"  # type: ignore[attr-defined]
    assert outcome.is_finding


@pytest.mark.parametrize(("slow", "kinds"), [(1, ["ok", "ok"]), (9, ["hang", "hang"])])
def test_stall_of_the_machine_is_no_finding(slow: int, kinds: list[str]) -> None:
    """An input that takes too long runs again; if it takes too long twice, it is a hang, and later runs are single."""
    runs = []

    def ask(each: Mutant) -> TargetResult:
        runs.append(each)
        return loops(each) if len(runs) <= slow else TargetResult("ok")

    stalled = Target(f"stalls {slow} times", "1", (__name__,), ask, limit=0.02)
    outcomes = [stalled.run(mutant(b"")).kind for _ in kinds]

    assert outcomes == kinds
    assert len(runs) == 3


@pytest.mark.slow
def test_what_the_interpreter_calls_by_itself_is_not_ended() -> None:
    """An exception in a finalizer goes nowhere, so the guard waits until it is over, and rings then."""

    class Slow:
        def __del__(self) -> None:
            until = time.process_time() + 0.3
            while time.process_time() < until:
                pass

    def block() -> None:
        Slow()
        while True:
            time.process_time()

    with pytest.raises(TooLong):
        guard(0.05).call(block)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is counted in KiB there")
def test_amplification() -> None:
    """A small input that makes the process grow far beyond the input's size is a finding."""
    reset_peak()
    outcome = target(grows).run(mutant(b"small"))
    assert (outcome.kind, outcome.detail) == ("amplification", "memory")
    assert re.fullmatch(r"\d+ MiB for 5 bytes, [\d,]+ for each", outcome.why)


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is counted in KiB there")
def test_amplification_is_by_the_byte() -> None:
    """The allowed memory grows with the input's size; an input of 1 MiB may take neither 5 s nor 2 GiB."""
    reset_peak()
    assert target(grows).run(mutant(bytes(16 << 20))).kind == "ok"
    assert excess_cost(1 << 20, 5.0, 2 << 30) == (5.0, 2 << 30)


@pytest.mark.parametrize("name", [name for name in TARGETS if "kafka" not in name])
def test_the_reference_keeps_its_promises(name: str) -> None:
    """Hundreds of mutants of each profile, and nothing to find in the reference."""
    target, rng = TARGETS[name](), Random(5)
    outcomes = [
        target.run(mutate(rng, own_seeds(), profile)) for profile in ("bytes", "fixup", "model") for _ in range(200)
    ]
    assert {outcome.key: outcome.why for outcome in outcomes if outcome.is_finding} == {}


def test_keys() -> None:
    """An exception's key has type and function, any other key has the fault; the text is no part of a key."""
    leaked = Outcome("x", "leaked_exception", "KeyError", "x.f", "crc_wrong", "said this")
    assert leaked.key == Outcome("x", "leaked_exception", "KeyError", "x.f", "size", "said that").key
    taken = Outcome("x", "accepts_invalid", "error", fault="crc_wrong")
    assert taken.key != Outcome("x", "accepts_invalid", "error", fault="size").key


def test_severities() -> None:
    """Every class but the good ones has a severity of the judge's."""
    from kafka_conformance.judge.verdict import SEVERITIES

    assert {severity(kind) for kind in CLASSES if kind not in GOOD} <= set(SEVERITIES)
    with pytest.raises(KeyError):
        severity("ok")


def test_findings_are_on_disk_at_once(tmp_path: Path) -> None:
    """The first input of a key is written, a smaller one replaces it, a larger one is counted."""
    store = findings.FindingStore(tmp_path)
    outcome = Outcome("x", "crash", "signal 11")
    assert store.add(outcome, mutant(b"large", "a"))
    assert [find.size for find in findings.read_findings(tmp_path)] == [5]
    assert not store.add(outcome, mutant(b"one", "b"))
    assert not store.add(outcome, mutant(b"larger", "c"))
    store.flush()
    (find,) = findings.FindingStore(tmp_path).findings.values()
    assert (find.size, find.labels, find.count, findings.finding_input(tmp_path, find)) == (3, ("b",), 3, b"one")


def test_incomplete_finding_is_left_out(tmp_path: Path) -> None:
    """A finding whose file was cut off by a crash is left out, and found again later."""
    store = findings.FindingStore(tmp_path)
    store.add(Outcome("x", "crash"), mutant(b"1"))
    (path,) = tmp_path.glob("finds/*/find.json")
    path.write_bytes(path.read_bytes()[:20])
    assert findings.FindingStore(tmp_path).findings == {}


def test_former_names_of_fields_are_read(tmp_path: Path) -> None:
    """A finding of an earlier version, whose file has former names of fields, is read."""
    store = findings.FindingStore(tmp_path, mode="differential", names=("x", "y"))
    store.add(Outcome("x", "crash", fault="crc_wrong"), mutant(b"1"))
    store.add_outcomes(b"1", ("crash", "ok"))
    (path,) = tmp_path.glob("finds/*/find.json")
    text = path.read_text()
    for name, former in ((name, former) for former, name in FIELDS.items() if name in ("mode", "outcomes", "fault")):
        assert text.count(f'"{name}":') == 1
        text = text.replace(f'"{name}":', f'"{former}":')
    path.write_text(text)
    assert findings.FindingStore(tmp_path).findings == store.findings
