"""Run rounds of one in-process target, each with one planted defect; print the kinds of findings on disk as JSON.

    python planted_findings.py TARGET FOLDER

The worker, its process, the store and the disk are those of a campaign.
"""

import json
import math
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import kafka_records
from kafka_conformance.testees.interface import CodecError
from kafka_fuzz.campaign import fork_worker
from kafka_fuzz.campaign.plan import RoundPlan
from kafka_fuzz.findings import finding_input, read_findings
from kafka_fuzz.mutate import Mutant
from kafka_fuzz.targets import Target, codecs
from kafka_fuzz.targets.base import TargetResult
from kafka_fuzz.targets.codecs import CodecTarget
from kafka_fuzz.targets.outcome import CLASSES, OutcomeClass
from kafka_records.compression import decompress

Function = Callable[..., Any]
# Inputs of a round: the planted defect shows with one of the first.
EXECUTIONS: Final = 64
# The same where it shows with any input: hangs, crashes, and outcomes that are given directly.
EXECUTIONS_ANY: Final = 16
SLOW: Final = ("hang", "crash")
# A round that measures what an input costs is limited by its CPU-seconds; counted rounds measure nothing.  While it
# finds nothing it is run again with more: on a machine at work memory fills slowly, and few inputs get their turn.
MEASURED_SECONDS: Final = (1.0, 2.0, 4.0)
FEW: Final = 60
# The function of ours that each promise is about, by the module in which the target looks it up.
PROMISED: Final = {
    "roundtrip": (kafka_records, "decode"),
    "explain": (kafka_records, "explain"),
    "append": (kafka_records, "append"),
    "convert": (kafka_records, "convert"),
    "decompress": (codecs, "decompress"),
}


def leaks(*_: object, **__: object) -> Any:
    """Raise what no caller expects."""
    raise KeyError("planted")


def exhausts(*_: object, **__: object) -> Any:
    """Behave as if there was no memory."""
    raise MemoryError


def hangs(*_: object, **__: object) -> Any:
    """Loop until the guard ends it."""
    while True:
        sum(range(100))


def crashes(*_: object, **__: object) -> Any:
    """End the process."""
    os.kill(os.getpid(), signal.SIGSEGV)


def grows(function: Function) -> Function:
    """*function*, which fills far more memory than the first few inputs explain.

    A decompressor is called for each codec and magic, and grows for one of them only: all would take too long.
    """
    first: set[object] = set()
    one_of_many = function is decompress

    def grown(*given: object, **named: object) -> Any:
        data = next(each for each in given if isinstance(each, bytes))
        if len(first) < FEW:
            first.add(data)
        if data in first and (not one_of_many or (given[0], named["magic"]) == ("gzip", 2)):
            taken = bytearray(80 << 20)
            taken[::4096] = b"x" * (len(taken) // 4096)
        return function(*given, **named)

    return grown


# Defects that any function may have.
ANYWHERE: Final[dict[str, Function]] = {
    "leaked_exception": leaks,
    "memory": exhausts,
    "hang": hangs,
    "crash": crashes,
}
# Answers of promised functions that break the promise.
WRONG: Final[dict[str, tuple[OutcomeClass, Function]]] = {
    "explain": ("wrong_data", lambda data: SimpleNamespace(sections=(SimpleNamespace(fields=(), data=data or b"x"),))),
    "append": ("wrong_data", lambda *_, **__: SimpleNamespace(stored=b"x", error_code=1)),
    "decompress": ("memory", lambda *_, **named: bytes(named["most"] + 1)),
}


@dataclass(frozen=True)
class Defective:
    """The testee of a codec target, with another `decode`; everything else is the testee's own."""

    testee: Any
    decode: Function

    def __getattr__(self, name: str) -> Any:
        return getattr(self.testee, name)


def codec_defects(codec: CodecTarget) -> dict[str, Function]:
    """The `decode` functions with one defect each, by the kind of their findings."""
    decode = codec.testee.decode
    documented = type(min(codec.documented), (Exception,), {})

    def repeats(data: bytes) -> Any:
        batches = list(decode(data))
        return batches + batches

    def takes_anything(data: bytes) -> Any:
        try:
            return decode(data)
        except CodecError as error:
            return error.batches

    def refuses(_data: bytes) -> Any:
        raise CodecError("malformed", "planted") from documented("planted")

    def leaks_through_the_adapter(_data: bytes) -> Any:
        raise CodecError("other", "planted") from KeyError("planted")

    return {
        **ANYWHERE,
        "wrong_data": repeats,
        "accepts_invalid": takes_anything,
        "rejects_valid": refuses,
        "leaked_exception": leaks_through_the_adapter,
        "amplification": grows(decode),
    }


def promise_defects(name: str, function: Function) -> dict[str, Function]:
    """Replacements of the *function* that the promise *name* is about, by the kind of their findings.

    `memory promise` is an answer that is larger than promised; `memory` is a MemoryError.
    """
    defects: dict[str, Function] = {**ANYWHERE, "amplification": grows(function)}
    if name in WRONG:
        kind, wrong = WRONG[name]
        defects[f"{kind} promise" if kind in defects else kind] = wrong
    if name == "roundtrip":
        defects["wrong_data"] = wrong_round_trip()
    return defects


def wrong_round_trip() -> Function:
    """A decoder that forgets the last batch whenever it reads bytes a second time."""
    decode, calls = kafka_records.decode, []

    def forgets(data: bytes, **named: Any) -> Any:
        calls.append(data)
        batches = decode(data, **named)
        return batches if len(calls) % 2 or not batches else batches[:-1]

    return forgets


@contextmanager
def planted(module: Any, name: str, function: Function) -> Any:
    """*function* in the place of *name* of *module*."""
    before = getattr(module, name)
    setattr(module, name, function)
    try:
        yield
    finally:
        setattr(module, name, before)


def found(made: fork_worker.ForkServer, target: Target) -> set[str]:
    """The kinds of findings on disk after a round of *target*; each has its input."""
    made.target = target
    made.run()
    assert not made.failure, made.failure
    return on_disk(made.plan.directory)


def on_disk(directory: Path) -> set[str]:
    """The kinds of the findings below *directory*, each of which has its input."""
    stored = list(read_findings(directory))
    assert all(sha256(finding_input(directory, find)).hexdigest() == find.sha256 for find in stored)
    return {find.outcome.kind for find in stored}


def rounds(name: str, folder: Path) -> dict[str, list[str]]:
    """Findings, by the planted defect: `said KIND` for an outcome, `KIND` for a defect."""
    results: dict[str, list[str]] = {}

    def made(label: str, seconds: float = float("inf")) -> fork_worker.ForkServer:
        directory = folder / f"{label}-{seconds:g}".replace(" ", "-")
        directory.mkdir()
        counted = EXECUTIONS_ANY if label in SLOW or label.startswith("said") else EXECUTIONS
        executions = 0 if math.isfinite(seconds) else counted
        plan = RoundPlan(target=name, directory=directory, seed=1, cpu_seconds=seconds, executions=executions)
        return fork_worker.open_fork_server(plan, lambda _: None)

    def kinds(
        label: str,
        changed: Callable[[Target], Target],
        broken: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> list[str]:
        result: set[str] = set()
        for seconds in MEASURED_SECONDS if label == "amplification" else [float("inf")]:
            one = made(label, seconds)
            with broken():
                result = found(one, short(changed(one.target), label))
            if result:
                break
        return sorted(result)

    for kind in CLASSES:
        one = made(f"said {kind}")
        results[f"said {kind}"] = sorted(found(one, replace(one.target, check=says(kind))))
    if name in PROMISED:
        module, function = PROMISED[name]
        defects = promise_defects(name, getattr(module, function))
        for label, defect in defects.items():
            results[label] = kinds(label, lambda target: target, partial(planted, module, function, defect))
    else:
        codec = made("none").target.check.__self__  # type: ignore[attr-defined]  # a method of a codec
        for label, defect in codec_defects(codec).items():
            defective = replace(codec, testee=Defective(codec.testee, defect))
            results[label] = kinds(label, partial(replace, check=defective.check))
    results["flaky"] = flaky(made("flaky"))
    return results


def says(kind: OutcomeClass) -> Callable[[Mutant], TargetResult]:
    """A target's function that gives *kind* for any input."""
    return lambda _: TargetResult(kind, "planted")


def short(target: Target, kind: str) -> Target:
    """*target*, which does not wait long for an endless loop."""
    return replace(target, limit=0.01) if kind == "hang" else target


def flaky(made: fork_worker.ForkServer) -> list[str]:
    """Findings on disk of a leak that does not recur when the worker runs the same input again to trace its lines."""
    seen: set[bytes] = set()

    def ask(mutant: Mutant) -> TargetResult:
        if mutant.data in seen:
            return TargetResult("ok")
        seen.add(mutant.data)
        raise KeyError("planted")

    return sorted(found(made, replace(made.target, check=ask)))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(rounds(sys.argv[1], Path(sys.argv[2]))))
