"""Deliberately wrong testees, each with one mistake that somebody has made, for testing ourselves.

Every one is the reference with its input or its output changed, and says what
is wrong with it and as what it has to be caught.  They are reached like any
other testee: `direct:kafka_conformance.miniatures.swaps_key_and_value`, or for
short `miniature:swaps_key_and_value`.
"""

from __future__ import annotations

from kafka_conformance.miniatures import falling, null, reading, writing
from kafka_conformance.miniatures.base import Miniature

MINIATURES: dict[str, Miniature] = {
    miniature.NAME: miniature
    for module in (null, falling, reading, writing)
    for miniature in vars(module).values()
    if isinstance(miniature, Miniature)
}


def __getattr__(name: str) -> Miniature:
    try:
        return MINIATURES[name]
    except KeyError:
        raise AttributeError(f"there is no miniature {name!r}; there are {', '.join(MINIATURES)}") from None
