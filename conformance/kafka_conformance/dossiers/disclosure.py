"""Whether a maintainer has been told of what stops a consumer: the states that `dossiers/disclosure.toml` keeps.

    undisclosed         nobody was told yet; this is also what holds where nothing is said
    reported DATE       the maintainers were told in private, on that day
    fixed in VERSION    a release mends it
    public              they said that it may be spoken of, or the time is over (SECURITY.md)

The first two keep everything but a summary out of the folder.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILE: Final = "disclosure.toml"
UNDISCLOSED: Final = "undisclosed"
_STATE: Final = re.compile(r"undisclosed|reported \d{4}-\d{2}-\d{2}|fixed in \S+|public")


class BadStates(ValueError):
    """The file cannot be used; the text says what is wrong in it."""


def load(folder: Path) -> dict[str, str]:
    """The states in *folder* by dossier id (`TESTEE/CAUSE`); none where there is no file.

    Raises:
        BadStates: it is no TOML, or a state is none of those above.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadStates(f"{path}: {error}") from error
    states = given.get("states", {})
    if not isinstance(states, dict):
        raise BadStates(f"{path}: [states] is no table")
    for id_, state in states.items():
        if not isinstance(state, str) or not _STATE.fullmatch(state):
            raise BadStates(f"{path}: {id_} is {state!r}, which is no state")
    return states


def is_open(states: Mapping[str, str], id_: str) -> bool:
    """Whether everything may be said about a dossier that is sensitive."""
    return states.get(id_, UNDISCLOSED).startswith(("public", "fixed in "))
