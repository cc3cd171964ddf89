"""In-process targets by name: the reference's promises and Python codecs; the compiled ones may crash their process."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from kafka_fuzz.targets.base import Target
from kafka_fuzz.targets.codecs import PROMISES, codec_target, promise_target
from kafka_fuzz.targets.sanitized import SANITIZED, start_again

__all__ = ["ALL_NAMES", "COMPILED", "NAMES", "TARGETS", "Target", "make_target"]

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
    name: partial(
        codec_target,
        name,
        f"{TESTEES}.aiokafka_",
        ("aiokafka.record", "aiokafka.codec"),
        ("CorruptRecordException", "UnsupportedCodecError"),
    )
    for name in ("aiokafka", *SANITIZED)
}
NAMES: Final = (*TARGETS, *(name for name in COMPILED if name not in SANITIZED))
# With those that are built before they run, which `all` leaves out.
ALL_NAMES: Final = (*NAMES, *SANITIZED)
# Printing a Rust backtrace takes longer than everything else.
BRIEF: Final = {"RUST_BACKTRACE": "0"}
# aiokafka reads the variable when it is imported.
ENVIRONMENT: Final = {
    "aiokafka-pure": {"AIOKAFKA_NO_EXTENSIONS": "1"},
    "aiokafka": {"AIOKAFKA_NO_EXTENSIONS": ""},
    "aiokafka-asan": {"AIOKAFKA_NO_EXTENSIONS": ""},
}


def make_target(name: str) -> Target:
    """The target called *name*, the first of its process, which is started again for a sanitizer.

    Raises:
        KeyError: there is none.
        ImportError: it is not installed.
        BuildError: it has to be built, and cannot be.
    """
    os.environ.update(BRIEF | ENVIRONMENT.get(name, {}))
    start_again(name)
    made = (TARGETS | COMPILED)[name]()
    # Time and memory would be those of the sanitizer.
    return replace(made, measured=False) if name in SANITIZED else made
