"""In-process targets by name, with the compiled ones, which may crash their process."""

from __future__ import annotations

import os
from functools import partial
from typing import Final

from kafka_fuzz.targets import TARGETS, TESTEES, Target
from kafka_fuzz.targets.codecs import codec_target

# Like `TARGETS`; these may crash their process.
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
# Printing a Rust backtrace takes longer than everything else.
BRIEF: Final = {"RUST_BACKTRACE": "0"}
# aiokafka reads the variable when it is imported.
ENVIRONMENT: Final = {"aiokafka-pure": {"AIOKAFKA_NO_EXTENSIONS": "1"}, "aiokafka": {"AIOKAFKA_NO_EXTENSIONS": ""}}


def make_target(name: str) -> Target:
    """The target called *name*, the first of its process; KeyError, or ImportError if it is not installed."""
    os.environ.update(BRIEF | ENVIRONMENT.get(name, {}))
    return (TARGETS | COMPILED)[name]()
