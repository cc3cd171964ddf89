"""How cleaners differ from release to release, as one table of what changed when.

A release stands for the newest patch of its minor version that is listed
anywhere in this project, as in `broker.releases`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from kafka_records.broker.releases import Behaviour, Version, behaviour, minor_version
from kafka_records.errors import RecordFormatError

KeepsLast = Literal["nothing", "round", "log"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """Behaviour of a release's cleaner, where cleaners differ.

    Attributes:
        does: how the release reads batches, and everything else about it.
        last_by_offset: whether the last batch of a producer is known by its offset, not by its sequence (KAFKA-8335).
        spares_markers: whether control records stay, whatever keys the log has (KAFKA-14055).
        delete_horizon: whether tombstones and markers go by a time in their batch, not by that of a segment
            (KIP-534, KAFKA-8522).
        keeps_last: whose last batch stays, empty if need be: that of a round (KAFKA-17076), or only that of the
            log, which a round seldom reaches (4.4).
        converts: whether v0 and v1 become v2 where they are rewritten (KIP-724).
    """

    does: Behaviour
    last_by_offset: bool = False
    spares_markers: bool = False
    delete_horizon: bool = False
    keeps_last: KeepsLast = "nothing"
    converts: bool = False


FIRST: Final[Version] = (0, 11, 0)

CHANGES: Final[Mapping[Version, Mapping[str, Any]]] = {
    (2, 2): {"last_by_offset": True},
    (3, 0): {"spares_markers": True},
    (3, 1): {"delete_horizon": True},
    (3, 9): {"keeps_last": "round"},
    (4, 0): {"converts": True},
    (4, 4): {"keeps_last": "log"},
}


def cleaning(release: str) -> Cleaning:
    """The behaviour of the cleaner of *release*, like "4.4.0".

    Raises:
        RecordFormatError: kind `malformed`, for a release that is not in the table, or one before batches (0.11).
    """
    found = Cleaning(does=behaviour(release))
    minor = minor_version(release)
    if minor < FIRST:
        message = f"the cleaner of {release} is not described"
        raise RecordFormatError("malformed", message, path="release", rule="CLN-21")
    for since, changed in CHANGES.items():
        if since <= minor:
            found = replace(found, **changed)
    return found
