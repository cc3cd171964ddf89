"""The targets that run in a child's own process, by name; the compiled ones too, which may take it with them."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Final

from kafka_fuzz.outcome import Outcome
from kafka_fuzz.targets import TARGETS, TESTEES, Target
from kafka_fuzz.targets.codecs import codec_target

# Like `TARGETS`, but nobody should run these in a process that has to live.
COMPILED: Final = {
    "aiokafka": partial(
        codec_target,
        "aiokafka",
        f"{TESTEES}.aiokafka_",
        ("aiokafka.record", "aiokafka.codec"),
        ("CorruptRecordException", "UnsupportedCodecError"),
    ),
}
NAMES: Final = (*TARGETS, *COMPILED)
# Rust tells at length how it came to abort, which takes longer than all the rest.
BRIEF: Final = {"RUST_BACKTRACE": "0"}
# aiokafka decides when it is imported.
ENVIRONMENT: Final = {"aiokafka-pure": {"AIOKAFKA_NO_EXTENSIONS": "1"}, "aiokafka": {"AIOKAFKA_NO_EXTENSIONS": ""}}


def make_target(name: str) -> Target:
    """The target called *name*, the first of its process; KeyError, or ImportError if it is not installed."""
    os.environ.update(BRIEF | ENVIRONMENT.get(name, {}))
    return (TARGETS | COMPILED)[name]()


class Loops:
    """Functions of a target whose loops were seen not to end."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages
        self.functions: set[str] = set()

    def learn(self, outcome: Outcome) -> None:
        """Take note of a hang."""
        if outcome.kind == "hang" and outcome.function:
            self.functions.add(outcome.function)

    def hopeless(self, frame: FrameType | None) -> bool:
        """Whether *frame* is in one of them."""
        while frame is not None:
            module = frame.f_globals.get("__name__") or ""
            if module.startswith(self.packages):
                return f"{module}.{frame.f_code.co_qualname}" in self.functions
            frame = frame.f_back
        return False


def watched(target: Target, loops: Loops) -> Target:
    """*target*, which does not wait for *loops*."""
    return replace(target, hopeless=loops.hopeless)
