"""Judge codecs: send them the cases of the corpus and report wrong answers.

It reads cases through `kafka_corpus.vectors` and never writes one.  Only
`kafka_fuzz` may import it.  For tests of other projects there are `check_codec`,
and what a codec's functions may raise: `CodecError` and `NotDone`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafka_conformance.in_process import check_codec
    from kafka_conformance.runner.deviations import Deviation
    from kafka_conformance.testees.interface import CodecError, NotDone

__all__ = ["CodecError", "Deviation", "NotDone", "check_codec", "installed_version"]

# Imported on first use, so that the command line and pytest start without them.
_WHERE: Final = {
    "check_codec": "kafka_conformance.in_process",
    "CodecError": "kafka_conformance.testees.interface",
    "Deviation": "kafka_conformance.runner.deviations",
    "NotDone": "kafka_conformance.testees.interface",
}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)


def installed_version() -> str:
    """The version of the distribution; `source` where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("kafkaproof")
    except PackageNotFoundError:
        return "source"
