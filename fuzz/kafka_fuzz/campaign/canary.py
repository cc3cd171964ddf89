"""Canaries: the reproducers of known finds, run before a campaign to see which are gone.

    python -m kafka_fuzz.campaign.canary TARGET --dir DIR [--testee]

runs those of one target, each in a process of its own, or asks a testee, and
prints what they said; the rounds that follow step over nothing for a find that is gone.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from kafka_fuzz.campaign.known import Known, read_known
from kafka_fuzz.campaign.rounds import Round, found_by
from kafka_fuzz.campaign.sung import FILE, STATE, Sung, read_sung
from kafka_fuzz.finds import Asked, put
from kafka_fuzz.outcome import Outcome

# Each may hang, and is waited for no longer than any other input.
SECONDS: Final = 60.0
# Canaries that a testee is given at once.
MANY: Final = 128


def sing(directory: Path, known: Sequence[Known], targets: Sequence[str]) -> list[Sung]:
    """Run the canaries of *targets*, and write what they said; a canary that could not be run says nothing."""
    singers = {singer for target in targets for singer in singers_of(target)}
    asked = sorted({singer_of(rule) for rule in known if rule.canary is not None} & singers)
    ids = {rule.id for rule in known if singer_of(rule) in asked}
    others = [sung for sung in read_sung(directory) if sung.id not in ids]
    found = [sung for singer in asked for sung in sung_by(directory, *singer)]
    (directory / STATE).mkdir(parents=True, exist_ok=True)
    put(directory / STATE / FILE, msgspec.json.encode([*others, *found]))
    return found


Singer = tuple[str, Asked]


def singers_of(target: str) -> list[Singer]:
    """Whose canaries say something about *target*."""
    kind = target.partition(":")[0]
    asked: Asked = "encode" if kind == "encode" else "differential" if kind == "differential" else ""
    return [(name, asked) for name in found_by(target)]


def singer_of(rule: Known) -> Singer:
    """Who is asked about the canary of *rule*."""
    return rule.target, rule.asked


def sung_by(directory: Path, target: str, asked: Asked = "") -> list[Sung]:
    """What the canaries of one target say, from a process of their own."""
    command = [sys.executable, "-m", "kafka_fuzz.campaign.canary", target, "--dir", str(directory)]
    command += ["--testee"] if asked else []
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=SECONDS, start_new_session=True
        )
        return msgspec.json.decode(done.stdout, type=list[Sung])
    except (subprocess.SubprocessError, msgspec.MsgspecError):
        return []


def of_target(target: str, directory: Path, rules: Sequence[Known]) -> list[Outcome]:
    """What a target in process does with the canaries of *rules*."""
    from kafka_fuzz.campaign.zygote import prepared

    zygote = prepared(Round(target, directory), lambda _progress: None)
    return [zygote.outcome_of(rule.canary.mutant()) for rule in rules if rule.canary is not None]


def of_testee(target: str, _: Path, rules: Sequence[Known]) -> list[Outcome]:
    """What a testee does with them."""
    from kafka_fuzz.asking import Testees

    testees = Testees((target,))
    try:
        canaries = [rule.canary.mutant().data for rule in rules if rule.canary is not None]
        return [
            outcome for at in range(0, len(canaries), MANY) for outcome, _ in testees.verdicts(canaries[at : at + MANY])
        ]
    finally:
        testees.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the canaries of one target, and print what they said as JSON."""
    parser = ArgumentParser(prog="python -m kafka_fuzz.campaign.canary")
    parser.add_argument("target")
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--testee", action="store_true", help="it is one, in a process of its own")
    given = parser.parse_args(arguments)
    singer: Singer = (given.target, "differential" if given.testee else "")
    rules = [rule for rule in read_known(given.dir) if rule.canary is not None and singer_of(rule) == singer]
    outcomes = (of_testee if given.testee else of_target)(given.target, given.dir, rules)
    found = []
    for rule, outcome in zip(rules, outcomes, strict=True):
        key = outcome.key if outcome.is_find else ""
        found.append(Sung(rule.target, rule.id, key, gone=not rule.explains(key)))
    sys.stdout.buffer.write(msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
