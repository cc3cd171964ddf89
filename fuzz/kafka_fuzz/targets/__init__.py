"""In-process targets: the reference's promises and Python codecs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kafka_fuzz.targets.base import Target
from kafka_fuzz.targets.codecs import codec_target
from kafka_fuzz.targets.reference import PROMISES, promise_target

__all__ = ["TARGETS", "Target"]

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
