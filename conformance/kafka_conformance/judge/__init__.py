"""Compare observations with the expected answer: batches, written bytes, deliveries, broker answers; pure."""

from __future__ import annotations

from importlib import resources
from threading import Lock
from typing import Final, TypeVar

import msgspec

_Table = TypeVar("_Table", bound=msgspec.Struct)
# Several runs may be the first to want a table, and msgspec crashes where two threads meet a type for the first time.
_ONE_AT_A_TIME: Final = Lock()


def read_table(file: str, kind: type[_Table]) -> _Table:
    """The table in *file* of this package, as *kind*; from any thread."""
    text = resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
    with _ONE_AT_A_TIME:
        return msgspec.toml.decode(text, type=kind)
