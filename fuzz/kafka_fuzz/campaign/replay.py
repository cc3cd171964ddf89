"""Replay of known findings: their reproducers run before a campaign, which shows the ones that are gone.

    python -m kafka_fuzz.campaign.replay TARGET --dir DIR [--mode differential] [--first N]

replays those of one target, each input in a process of its own, or in a testee that decodes or
encodes.  It prints a line when it is ready, and one for each result; later rounds skip nothing for
a finding that is gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Final, get_args

import msgspec

from kafka_fuzz.campaign.known_findings import (
    REPLAY_FILE,
    STATE,
    KnownFinding,
    ReplayInput,
    ReplayResult,
    read_known_findings,
    read_replay_results,
)
from kafka_fuzz.campaign.plan import KINDS, RoundPlan, finding_targets
from kafka_fuzz.findings import TargetMode, write_atomically
from kafka_fuzz.targets import ALL_NAMES
from kafka_fuzz.targets.outcome import Outcome

# Seconds for one replay: more than the time limits of targets, which end hangs.
SECONDS: Final = 120.0
# A testee may have to be built.
START: Final = 600.0
# To end in good order, with the testees.
GRACE: Final = 10.0
MOST_SAID: Final = 300


def replay_known_findings(directory: Path, known: Sequence[KnownFinding], targets: Sequence[str]) -> list[ReplayResult]:
    """Replay the known findings of *targets* and write the results; an unreplayable one has the reason."""
    chosen = {one for target in targets for one in replay_targets(target)}
    rules = [rule for rule in known if rule.reproducer is not None]
    targets_and_modes = sorted({rule_target(rule) for rule in rules} & chosen)
    ids = {rule.id for rule in known if rule_target(rule) in targets_and_modes}
    others = [result for result in read_replay_results(directory) if result.id not in ids]
    by_target = {one: [rule for rule in rules if rule_target(rule) == one] for one in targets_and_modes}
    found = [result for one, some in by_target.items() for result in replay_rules(directory, one, some)]
    (directory / STATE).mkdir(parents=True, exist_ok=True)
    write_atomically(directory / STATE / REPLAY_FILE, msgspec.json.encode([*others, *found]))
    return found


ReplayTarget = tuple[str, TargetMode]


def replay_targets(target: str) -> list[ReplayTarget]:
    """The targets whose known findings are replayed for *target*."""
    kind = target.partition(":")[0]
    mode: TargetMode = "encode" if kind == "encode" else "differential" if kind == "differential" else ""
    return [(name, mode) for name in finding_targets(target)]


def replay_target(target: str, mode: TargetMode) -> ReplayTarget:
    """The target and mode of findings of *target*; a name that is no in-process target and no broker is a testee."""
    is_testee = not mode and target not in ALL_NAMES and target.partition(":")[0] not in KINDS
    return target, "differential" if is_testee else mode


def rule_target(rule: KnownFinding) -> ReplayTarget:
    """The target that replays *rule*."""
    return replay_target(rule.testee, rule.mode)


def confirms(rule: KnownFinding, key: str) -> bool:
    """Whether *key*, the result of the reproducer of *rule*, is the known finding.

    The fault of plain bytes is unknown, so the fault in a key is ignored.  So is the place of a hang: a loop is
    interrupted wherever it is at that moment.
    """
    hang = f"{rule.testee}|hang|"
    if key.startswith(hang) and any(pattern.startswith(hang) for pattern in rule.keys):
        return True
    front, _, last = key.rpartition("|")
    fronts = (pattern.rpartition("|") for pattern in rule.keys)
    return bool(key) and (
        rule.explains(key) or any(fnmatchcase(front, each) and _differs_by_fault(end, last) for each, _, end in fronts)
    )


def _differs_by_fault(end: str, last: str) -> bool:
    """Whether *end* has a fault, or its codec, and *last* is the end of the same key without the fault."""
    return end.startswith("lie ") or (last in ("v2", "legacy") and end.startswith(f"{last} "))


def replay_rules(directory: Path, target_and_mode: ReplayTarget, rules: Sequence[KnownFinding]) -> list[ReplayResult]:
    """Replay the rules of one target; after a hang or crash, a new process continues with the next rule."""
    found: list[ReplayResult] = []
    while len(found) < len(rules):
        found += _by_one(directory, target_and_mode, rules, len(found))
    return found


def _by_one(
    directory: Path, target_and_mode: ReplayTarget, rules: Sequence[KnownFinding], first: int
) -> list[ReplayResult]:
    """Replay the rules from *first* on in one process, until it ends; at least one result."""
    target, mode = target_and_mode
    command = [sys.executable, "-m", "kafka_fuzz.campaign.replay", target, "--dir", str(directory), "--mode", mode]
    lines: SimpleQueue[bytes] = SimpleQueue()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*command, "--first", str(first)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
        try:
            found = list(read_replay_lines(lines, rules[first:], errors))
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE if len(found) == len(rules) - first else 0)
            return found
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _read(stream: IO[bytes], lines: SimpleQueue[bytes]) -> None:
    """Its lines, and an empty one at the end."""
    with stream:
        for line in stream:
            lines.put(line)
    lines.put(b"")


def read_replay_lines(
    lines: SimpleQueue[bytes], rules: Sequence[KnownFinding], errors: IO[bytes]
) -> Iterator[ReplayResult]:
    """Read results of *rules* from *lines*, up to the rule that ended or blocked the process."""
    try:
        if not lines.get(timeout=START):
            yield from (_not_replayed(rule, _last_words(errors)) for rule in rules)
            return
    except Empty:
        yield from (_not_replayed(rule, f"the target did not start in {START:.0f} s") for rule in rules)
        return
    for rule in rules:
        try:
            line = lines.get(timeout=SECONDS)
        except Empty:
            yield replay_timeout(rule)
            return
        yield msgspec.json.decode(line, type=ReplayResult) if line else _not_replayed(rule, _last_words(errors))
        if not line:
            return


def replay_timeout(rule: KnownFinding) -> ReplayResult:
    """The result of a replay that did not end: a known hang is still there."""
    if any(pattern.startswith(f"{rule.testee}|hang|") for pattern in rule.keys):
        return ReplayResult(rule.testee, rule.id, Outcome(rule.testee, "hang").key, gone=False)
    return _not_replayed(rule, f"it took more than {SECONDS:.0f} s")


def _not_replayed(rule: KnownFinding, why: str) -> ReplayResult:
    return ReplayResult(rule.testee, rule.id, "", gone=False, why=why[:MOST_SAID])


def _last_words(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "the replaying process ended"


@contextmanager
def open_replayer(target_and_mode: ReplayTarget, directory: Path) -> Iterator[Callable[[ReplayInput], Outcome]]:
    """A function that replays an input on the target; raises if the target cannot be started."""
    target, mode = target_and_mode
    if mode == "encode":
        from kafka_fuzz.encode import Writers, finding_batch

        writers = Writers((target,))
        try:
            yield lambda replay_input: writers.verdicts([finding_batch(replay_input.mutant().data)])[0][0]
        finally:
            writers.close()
    elif mode:
        from kafka_fuzz.executors import TesteeExecutor

        testees = TesteeExecutor((target,))
        try:
            yield lambda replay_input: testees.outcome(replay_input.mutant())
        finally:
            testees.close()
    elif target.partition(":")[0] == "broker":
        from kafka_fuzz.broker.confirming import open_broker_replayer

        with open_broker_replayer(target) as replayer:
            yield lambda replay_input: replayer.outcome(replay_input.mutant(), replay_input.sent)
    else:
        from kafka_fuzz.campaign.fork_worker import open_fork_server

        server = open_fork_server(RoundPlan(target, directory), lambda _progress: None)
        yield lambda replay_input: server.outcome_of(replay_input.mutant())


def replay_rule(rule: KnownFinding, ask: Callable[[ReplayInput], Outcome]) -> ReplayResult:
    """Replay the input of *rule*."""
    assert rule.reproducer is not None
    try:
        outcome = ask(rule.reproducer)
    except Exception as error:
        return _not_replayed(rule, f"{type(error).__name__}: {str(error).strip().rpartition(chr(10))[2]}")
    key = outcome.key if outcome.is_finding else ""
    return ReplayResult(rule.testee, rule.id, key, gone=not confirms(rule, key))


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay the known findings of one target, and print a line of JSON for each."""
    parser = ArgumentParser(prog="python -m kafka_fuzz.campaign.replay")
    parser.add_argument("target")
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--mode", default="", choices=get_args(TargetMode), help="what of a testee, in its own process")
    parser.add_argument("--first", type=int, default=0, help="where to begin")
    given = parser.parse_args(arguments)
    target_and_mode: ReplayTarget = (given.target, given.mode)
    rules = [
        rule
        for rule in read_known_findings(given.dir)
        if rule.reproducer is not None and rule_target(rule) == target_and_mode
    ]
    with open_replayer(target_and_mode, given.dir) as ask:
        write_line(None)
        for rule in rules[given.first :]:
            write_line(replay_rule(rule, ask))
    return 0


def write_line(what: ReplayResult | None) -> None:
    """Write one line."""
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
