"""Canaries: the reproducers of known finds, run before a campaign to see which are gone.

    python -m kafka_fuzz.campaign.replay TARGET --dir DIR [--asked differential] [--first N]

asks those of one target, each input in a process of its own, or a testee that reads
or writes, and prints a line when it is ready and one for each; the rounds that
follow step over nothing for a find that is gone.
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

from kafka_fuzz.campaign.known_findings import REPLAY_FILE, STATE, Canary, Known, Sung, read_known, read_sung
from kafka_fuzz.campaign.plan import KINDS, Round, found_by
from kafka_fuzz.findings import Asked, put
from kafka_fuzz.targets.named import NAMES
from kafka_fuzz.targets.outcome import Outcome

# Each may hang, and the limits of whoever is asked should tell first.
SECONDS: Final = 120.0
# A testee may have to be built.
START: Final = 600.0
# To end in good order, with the testees.
GRACE: Final = 10.0
MOST_SAID: Final = 300


def sing(directory: Path, known: Sequence[Known], targets: Sequence[str]) -> list[Sung]:
    """Ask the canaries of *targets*, and write what they said; of one that could not be asked, why."""
    singers = {one for target in targets for one in singers_of(target)}
    rules = [rule for rule in known if rule.canary is not None]
    asked = sorted({singer_of(rule) for rule in rules} & singers)
    ids = {rule.id for rule in known if singer_of(rule) in asked}
    others = [sung for sung in read_sung(directory) if sung.id not in ids]
    by_singer = {one: [rule for rule in rules if singer_of(rule) == one] for one in asked}
    found = [sung for one in asked for sung in sung_by(directory, one, by_singer[one])]
    (directory / STATE).mkdir(parents=True, exist_ok=True)
    put(directory / STATE / REPLAY_FILE, msgspec.json.encode([*others, *found]))
    return found


Singer = tuple[str, Asked]


def singers_of(target: str) -> list[Singer]:
    """Whose canaries say something about *target*."""
    kind = target.partition(":")[0]
    asked: Asked = "encode" if kind == "encode" else "differential" if kind == "differential" else ""
    return [(name, asked) for name in found_by(target)]


def singer(target: str, asked: Asked) -> Singer:
    """Who has finds of *target*: what is neither a target in process nor a broker is a testee, whatever they say."""
    is_testee = not asked and target not in NAMES and target.partition(":")[0] not in KINDS
    return target, "differential" if is_testee else asked


def singer_of(rule: Known) -> Singer:
    """Who is asked about the canary of *rule*."""
    return singer(rule.target, rule.asked)


def shows(rule: Known, key: str) -> bool:
    """Whether *key*, which the canary of *rule* gives, is the known find.

    Of bytes nobody knows the lie that made them: what keys have of it only tells nothing here.
    """
    front, _, last = key.rpartition("|")
    fronts = (pattern.rpartition("|") for pattern in rule.keys)
    return bool(key) and (
        rule.explains(key) or any(fnmatchcase(front, each) and _is_of_lie(end, last) for each, _, end in fronts)
    )


def _is_of_lie(end: str, last: str) -> bool:
    """Whether *end* is what a key ends in that has, without its lie, *last*: the lie, or the codec that it is about."""
    return end.startswith("lie ") or (last in ("v2", "legacy") and end.startswith(f"{last} "))


def sung_by(directory: Path, who: Singer, rules: Sequence[Known]) -> list[Sung]:
    """What the canaries of one target say; one that hangs, or ends whoever asks, keeps no other from being asked."""
    found: list[Sung] = []
    while len(found) < len(rules):
        found += _by_one(directory, who, rules, len(found))
    return found


def _by_one(directory: Path, who: Singer, rules: Sequence[Known], first: int) -> list[Sung]:
    """What one process says of those from *first* on, as far as it gets, and at least of one."""
    command = [sys.executable, "-m", "kafka_fuzz.campaign.replay", who[0], "--dir", str(directory), "--asked", who[1]]
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
            found = list(heard(lines, rules[first:], errors))
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


def heard(lines: SimpleQueue[bytes], rules: Sequence[Known], errors: IO[bytes]) -> Iterator[Sung]:
    """What *lines* say of *rules*, up to the one over which their process ended, or does not end."""
    try:
        if not lines.get(timeout=START):
            yield from (_not_sung(rule, _last_words(errors)) for rule in rules)
            return
    except Empty:
        yield from (_not_sung(rule, f"nothing could be asked in {START:.0f} s") for rule in rules)
        return
    for rule in rules:
        try:
            line = lines.get(timeout=SECONDS)
        except Empty:
            yield endless(rule)
            return
        yield msgspec.json.decode(line, type=Sung) if line else _not_sung(rule, _last_words(errors))
        if not line:
            return


def endless(rule: Known) -> Sung:
    """A canary that did not come to its end: of a find that is a hang, that is an answer."""
    if any(pattern.startswith(f"{rule.target}|hang|") for pattern in rule.keys):
        return Sung(rule.target, rule.id, Outcome(rule.target, "hang").key, gone=False)
    return _not_sung(rule, f"it took more than {SECONDS:.0f} s")


def _not_sung(rule: Known, why: str) -> Sung:
    return Sung(rule.target, rule.id, "", gone=False, why=why[:MOST_SAID])


def _last_words(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "the process that asks ended"


@contextmanager
def asking(who: Singer, directory: Path) -> Iterator[Callable[[Canary], Outcome]]:
    """What somebody does with a canary; raises whatever keeps them from running."""
    target, asked = who
    if asked == "encode":
        from kafka_fuzz.encode.testees import Writers, batch_of

        writers = Writers((target,))
        try:
            yield lambda canary: writers.verdicts([batch_of(canary.mutant().data)])[0][0]
        finally:
            writers.close()
    elif asked:
        from kafka_fuzz.executors import Testees

        testees = Testees((target,))
        try:
            yield lambda canary: testees.outcome(canary.mutant())
        finally:
            testees.close()
    elif target.partition(":")[0] == "broker":
        from kafka_fuzz.broker.replay import singing

        with singing(target) as singer:
            yield lambda canary: singer.outcome(canary.mutant(), canary.sent)
    else:
        from kafka_fuzz.campaign.fork_worker import prepared

        zygote = prepared(Round(target, directory), lambda _progress: None)
        yield lambda canary: zygote.outcome_of(canary.mutant())


def sung(rule: Known, ask: Callable[[Canary], Outcome]) -> Sung:
    """What the canary of *rule* says."""
    assert rule.canary is not None
    try:
        outcome = ask(rule.canary)
    except Exception as error:
        return _not_sung(rule, f"{type(error).__name__}: {str(error).strip().rpartition(chr(10))[2]}")
    key = outcome.key if outcome.is_find else ""
    return Sung(rule.target, rule.id, key, gone=not shows(rule, key))


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask the canaries of one target, and print what they say, a line of JSON for each."""
    parser = ArgumentParser(prog="python -m kafka_fuzz.campaign.replay")
    parser.add_argument("target")
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--asked", default="", choices=get_args(Asked), help="what of a testee, in its own process")
    parser.add_argument("--first", type=int, default=0, help="where to begin")
    given = parser.parse_args(arguments)
    who: Singer = (given.target, given.asked)
    rules = [rule for rule in read_known(given.dir) if rule.canary is not None and singer_of(rule) == who]
    with asking(who, given.dir) as ask:
        say(None)
        for rule in rules[given.first :]:
            say(sung(rule, ask))
    return 0


def say(what: Sung | None) -> None:
    """Write one line."""
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
