"""The targets that run in a process, by name; the compiled ones too, which may take it with them."""

from __future__ import annotations

import os
from functools import partial
from typing import Final

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
