"""What canaries said last, in the folder of a campaign: which known finds are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

# Below the folder of a campaign: what it remembers between runs.
STATE: Final = "state"
FILE: Final = "canaries.json"
State = Literal["gone", "still there", "not sung"]


class Sung(msgspec.Struct, frozen=True):
    """What one canary said.

    Attributes:
        target, id: of the known find.
        key: of the outcome; empty if it is no find.
        gone: whether that is no longer the known find.
        why: why it could not be sung; empty where it was.
    """

    target: str
    id: str
    key: str
    gone: bool
    why: str = ""

    @property
    def state(self) -> State:
        """What one knows of the find by it."""
        return "not sung" if self.why else "gone" if self.gone else "still there"


def read_sung(directory: Path) -> list[Sung]:
    """What the canaries of this folder said last."""
    try:
        return msgspec.json.decode((directory / STATE / FILE).read_bytes(), type=list[Sung])
    except (FileNotFoundError, msgspec.MsgspecError):
        return []


def gone_in(directory: Path) -> list[str]:
    """The ids of the known finds that are gone."""
    return [sung.id for sung in read_sung(directory) if sung.gone]
