"""Canaries: the reproducers of known finds, run before a campaign to see which are gone.

    python -m kafka_fuzz.campaign.canary TARGET --dir DIR

runs those of one target, each in a process of its own, and writes what they
said; the rounds that follow step over nothing for a find that is gone.
"""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from kafka_fuzz.finds import put

if TYPE_CHECKING:
    from kafka_fuzz.campaign.known import Known

STATE: Final = "state"
FILE: Final = "canaries.json"
# Each may hang, and is waited for no longer than any other input.
SECONDS: Final = 60.0


class Sung(msgspec.Struct, frozen=True):
    """What one canary said.

    Attributes:
        target, id: of the known find.
        key: of the outcome; empty if it is no find.
        gone: whether that is no longer the known find.
    """

    target: str
    id: str
    key: str
    gone: bool


def read_sung(directory: Path) -> list[Sung]:
    """What the canaries of this folder said last."""
    try:
        return msgspec.json.decode((directory / STATE / FILE).read_bytes(), type=list[Sung])
    except (FileNotFoundError, msgspec.MsgspecError):
        return []


def gone_in(directory: Path) -> list[str]:
    """The ids of the known finds that are gone."""
    return [sung.id for sung in read_sung(directory) if sung.gone]


def sing(directory: Path, known: Sequence[Known], targets: Sequence[str]) -> list[Sung]:
    """Run the canaries of *targets*, and write what they said; a canary that could not be run says nothing."""
    asked = sorted({rule.target for rule in known if rule.canary is not None} & set(targets))
    others = [sung for sung in read_sung(directory) if sung.target not in asked]
    found = [sung for target in asked for sung in sung_by(directory, target)]
    (directory / STATE).mkdir(parents=True, exist_ok=True)
    put(directory / STATE / FILE, msgspec.json.encode([*others, *found]))
    return found


def sung_by(directory: Path, target: str) -> list[Sung]:
    """What the canaries of one target say, from a process of their own."""
    command = [sys.executable, "-m", "kafka_fuzz.campaign.canary", target, "--dir", str(directory)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=SECONDS, start_new_session=True
        )
        return msgspec.json.decode(done.stdout, type=list[Sung])
    except (subprocess.SubprocessError, msgspec.MsgspecError):
        return []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the canaries of one target, and print what they said as JSON."""
    # The package below imports this module.
    from kafka_fuzz.campaign.known import read_known
    from kafka_fuzz.campaign.rounds import Round
    from kafka_fuzz.campaign.zygote import prepared

    parser = ArgumentParser(prog="python -m kafka_fuzz.campaign.canary")
    parser.add_argument("target")
    parser.add_argument("--dir", type=Path, required=True)
    given = parser.parse_args(arguments)
    zygote = prepared(Round(given.target, given.dir), lambda _progress: None)
    found = []
    for rule in read_known(given.dir):
        if rule.target == given.target and rule.canary is not None:
            outcome = zygote.outcome_of(rule.canary.mutant())
            key = outcome.key if outcome.is_find else ""
            found.append(Sung(rule.target, rule.id, key, gone=not rule.explains(key)))
    sys.stdout.buffer.write(msgspec.json.encode(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
