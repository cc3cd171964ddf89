"""In-process targets by name: the reference's promises and Python codecs; the compiled ones may crash their process."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Final

from kafka_fuzz.targets.base import Target
from kafka_fuzz.targets.codecs import PROMISES, codec_target, promise_target

__all__ = ["COMPILED", "NAMES", "TARGETS", "Target", "make_target"]

TESTEES: Final = "kafka_conformance.testees"
# The function that makes each target; modules of a codec are imported when it is called.
TARGETS: Final[dict[str, Callable[[], Target]]] = {
    "reference": partial(codec_target, "reference", f"{TESTEES}.reference", ("kafka_records",), ("RecordFormatError",)),
    **{name: partial(promise_target, name) for name in PROMISES},
    "kafka-python": partial(
        codec_target,
        "kafka-python",
        f"{TESTEES}.kafka_python",
        ("kafka.record", "kafka.codec"),
        ("CorruptRecordError", "UnsupportedCodecError"),
    ),
    "aiokafka-pure": partial(
        codec_target,
        "aiokafka-pure",
        f"{TESTEES}.aiokafka_",
        ("aiokafka.record", "aiokafka.codec"),
        ("CorruptRecordException", "UnsupportedCodecError"),
    ),
}
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
