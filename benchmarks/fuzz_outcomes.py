"""One repeat of one profile against one in-process target: executions, outcomes and lines per CPU-second.

An unexpected end is an exception that a codec does not document, by its type and
the line that raised it, or an endless loop or unbounded memory, by the function.
Accepted invalid input and wrongly read input are no unexpected ends.

python -m benchmarks.fuzz_outcomes TARGET PROFILE SEED CPU-SECONDS

Each repeat has a process of its own, with a limit on its memory; it prints one
JSON document.  A loop that is known to be endless is not waited for again, and
inputs similar to expensive ones are rarely run, as in campaigns.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, cast

from kafka_conformance.testees.interface import CodecError
from kafka_fuzz.targets.base import innermost_step
from kafka_fuzz.targets.codecs import CodecTarget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_conformance.testees.interface import Testee
    from kafka_corpus.wire import WireBatch
    from kafka_fuzz.targets import Target
    from kafka_fuzz.targets.outcome import Outcome
import resource
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from types import FrameType
from typing import Any, Final

import msgspec

from kafka_fuzz.campaign.known_findings import InputSkips
from kafka_fuzz.campaign.worker import EndlessFunctions, skip_endless
from kafka_fuzz.differential.outcome_tuples import Prepared
from kafka_fuzz.mutate import PROFILES, Deck, Mutant, Profile, corpus_seeds, draw_profile, mutate, own_seeds
from kafka_fuzz.mutate.entries import CODECS, base_entry
from kafka_fuzz.mutate.plain import EDITS, mutate_bytes, put_word
from kafka_fuzz.targets import Target, make_target
from kafka_fuzz.targets.outcome import Outcome

# By the function: where a loop is when its time is over is chance.
BY_FUNCTION = frozenset({"hang", "memory"})


@dataclass(slots=True)
class Ends:
    """The unexpected ends of a target's codec.

    Attributes:
        watched: the target, as it has to be run to be counted.
        firsts: when each was first seen, in CPU-seconds.
        last: of the input under way.
    """

    codec: CodecTarget
    watched: Target = field(init=False)
    firsts: dict[str, float] = field(default_factory=dict)
    last: str = ""

    @classmethod
    def of(cls, target: Target) -> Ends:
        """Of *target*, which has to be a codec; TypeError for the reference's promises."""
        codec = getattr(target.check, "__self__", None)
        if not isinstance(codec, CodecTarget):
            raise TypeError(f"{target.name} is no codec: no other fuzzer has results to compare with")
        found = cls(codec)
        found.watched = replace(target, check=replace(codec, testee=cast("Testee", found)).check)
        return found

    def decode(self, data: bytes) -> Sequence[WireBatch]:
        """Decode with the testee, and note where an unexpected exception was raised."""
        self.last = ""
        try:
            return self.codec.testee.decode(data)
        except CodecError as error:
            cause = error.__cause__
            if cause is not None and not self.codec.is_documented(cause):
                self.last = f"{type(cause).__name__} at {raising_line(cause.__traceback__, self.codec.packages)}"
            raise

    def saw(self, outcome: Outcome, seconds: float) -> None:
        """Count what the input that was just run ended with."""
        end = f"{outcome.kind} in {outcome.function}" if outcome.kind in BY_FUNCTION else self.last
        if end:
            self.firsts.setdefault(end, round(seconds, 3))


def raising_line(traceback: TracebackType | None, packages: tuple[str, ...]) -> str:
    """The innermost line of *packages* on the way to an exception, as `module:line`."""
    module, at = innermost_step(traceback, packages)
    return f"{module}:{at.tb_lineno}" if at else ""


# Below this, what the claims of a snappy block allocate ends the process (the codec is in Rust); campaigns report that.
MEMORY: Final = 8 * 1024 * 1024 * 1024
MIX: Final = "mix"
PLAIN: Final = "plain"
WITHOUT_WORDS: Final = tuple(each for each in EDITS if each[1] is not put_word)
# Inputs of cells not seen before that are replayed to count lines.
MOST_REPLAYED: Final = 4000


class OutcomeRepeat(msgspec.Struct):
    """One repeat.

    Attributes:
        firsts: CPU-seconds until each outcome bucket (`bucket_of`) was first seen, silent ones too.
        findings: the same for findings with the campaign's key (`Outcome.key`): accepted invalid inputs by fault.
        ends: the same for unexpected ends alone (`ends.Ends`), for which no reference is needed.
        lines, reached: the number of reached lines of the target's packages, and the lines.
    """

    target: str
    profile: str
    seed: int
    executions: int
    seconds: float
    firsts: dict[str, float]
    findings: dict[str, float]
    ends: dict[str, float]
    lines: int
    reached: list[str]
    skipped: int


def measure_repeat(target: Target, profile: str, seed: int, seconds: float) -> OutcomeRepeat:
    """Run *target* for so many CPU-seconds; the time to count lines is not included."""
    rng, seeds, deck = Random(seed), profile_seeds(profile), Deck()
    firsts: dict[str, float] = {}
    findings: dict[str, float] = {}
    replayed: dict[object, bytes] = {}
    executions = skipped = 0
    ends = Ends.of(target)
    loops, stepping = EndlessFunctions(target.packages), InputSkips(target.name, ())
    target = skip_endless(ends.watched, loops)
    start = time.process_time()
    while (spent := time.process_time() - start) < seconds:
        mutant = drawn(rng, seeds, profile, deck)
        if stepping.skips(mutant):
            skipped += 1
            continue
        outcome = target.run(mutant)
        executions += 1
        ends.saw(outcome, spent)
        if outcome.is_finding:
            firsts.setdefault(bucket_of(mutant, outcome), round(spent, 3))
            findings.setdefault(outcome.key, round(spent, 3))
            stepping.learn(mutant, outcome)
            loops.learn(outcome)
        if outcome.kind == "wrong_data":
            deck.learn(mutant)
        if outcome.kind != "hang" and len(replayed) < MOST_REPLAYED:
            replayed.setdefault((mutant.cell, outcome.bucket), mutant.data)
    spent = time.process_time() - start
    lines = reached_lines(target, replayed.values())
    return OutcomeRepeat(
        target.name,
        profile,
        seed,
        executions,
        spent,
        firsts,
        findings,
        ends.firsts,
        len(lines),
        sorted(lines),
        skipped,
    )


def bucket_of(mutant: Mutant, outcome: Outcome) -> str:
    """The bucket of *outcome*, without anything that only the mutator knows.

    Class, detail and function.  Accepted invalid input is identified by the rule that the
    bytes break, according to the reference, and input that was read wrongly by its difference.
    """
    match outcome.kind:
        case "accepts_invalid":
            return f"{outcome.bucket}{Prepared(mutant).rule}"
        case "wrong_data":
            return f"{outcome.bucket}{outcome.relation}"
    return outcome.bucket


def profile_seeds(profile: str) -> Sequence[bytes]:
    """The seeds of a profile.

    `plain` has what people have who write a first fuzzing target: a valid log of each magic and codec, a control
    batch and a transactional one.  `bytes` has valid logs of every shape.  Our corpus has most mistakes in it
    already; started from it, mutation that knows nothing finds what the cases found.
    """
    if profile == PLAIN:
        return plain_seeds()
    return own_seeds() if profile == "bytes" else corpus_seeds()


@cache
def plain_seeds() -> tuple[bytes, ...]:
    """Fifteen valid logs."""
    usual = [base_entry(magic, codec, "records", "one", 0) for magic, codecs in CODECS.items() for codec in codecs]
    special = [base_entry(2, "none", "control", "commit", 0), base_entry(2, "none", "producer", "transactional", 0)]
    return tuple(base.data for base in (*usual, *special))


def drawn(rng: Random, seeds: Sequence[bytes], profile: str, deck: Deck | None = None) -> Mutant:
    """One input of *profile*; `plain` has no words of a dictionary, which somebody would have to write first."""
    if profile == PLAIN:
        return mutate_bytes(rng, seeds, WITHOUT_WORDS)
    return mutate(rng, seeds, draw_profile(rng) if profile == MIX else _profile(profile), deck)


def _profile(name: str) -> Profile:
    return next(profile for profile in PROFILES if profile == name)


def reached_lines(target: Target, inputs: Any) -> set[str]:
    """The lines of the target's packages that the *inputs* reach, as `module:line`."""
    seen: set[tuple[str, int]] = set()

    def on_line(frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        if event == "line":
            seen.add((frame.f_globals["__name__"], frame.f_lineno))
        return on_line

    def on_call(frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
        return on_line if frame.f_globals.get("__name__", "").startswith(target.packages) else None

    for data in inputs:
        sys.settrace(on_call)
        try:
            target.run(Mutant(data, "bytes", (), None, NO_CELL))
        finally:
            sys.settrace(None)
    return {f"{module}:{line}" for module, line in seen}


NO_CELL: Final = mutate(Random(0), (bytes(20),), "bytes").cell


def main() -> None:
    """Measure what the command line says."""
    _, name, profile, seed, seconds = sys.argv
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    measured = measure_repeat(make_target(name), profile, int(seed), float(seconds))
    sys.stdout.write(msgspec.json.encode(measured).decode() + "\n")


if __name__ == "__main__":
    main()
