"""How what was given differs from what is right, in a word: what tells one silent difference from another.

The path of a field says where data differ, and one field may come out wrong for
several reasons.  A wrapped counter, a rounded time and a null that became empty
are different defects, whatever the input was.
"""

from __future__ import annotations

import re
from typing import Final

# As the judge says it.
_SAID: Final = re.compile(r"expected (?P<right>.*), got (?P<given>.*)$", re.DOTALL)
_NULL: Final = "null"
_EMPTY: Final = frozenset({'""', "0x"})
_NONE: Final = -1
_WRAP: Final = 1 << 32
_LONG: Final = 1 << 63
# Milliseconds in a second: who counts in seconds drops them.
_SECOND: Final = 1000


def relation(why: str) -> str:
    """How the two values in *why* differ; empty where it names none.

    >>> relation("batches[0].records[0].timestamp: expected 1700395339065, got 1700395339000")
    'rounded'
    >>> relation('batches[0].records[0].key: expected null, got ""')
    'null as empty'
    """
    said = _SAID.search(why)
    if said is None:
        return ""
    right, given = said["right"], said["given"]
    try:
        numbers = int(right), int(given)
    except ValueError:
        return _of_values(right, given)
    return _of_counts(*numbers) if why.partition(": ")[0].endswith("length") else _of_numbers(*numbers)


def _of_counts(right: int, given: int) -> str:
    if given == 0 or right == 0:
        return "none" if given == 0 else "some for none"
    return "fewer" if given < right else "more"


def _of_numbers(right: int, given: int) -> str:
    if _NONE in (right, given):
        return "a number for none" if right == _NONE else "none for a number"
    if not -_LONG <= given < _LONG:
        return "beyond 64 bits"
    if (right - given) % _WRAP == 0:
        return "wraps"
    if right // _SECOND == given // _SECOND and given % _SECOND == 0:
        return "rounded"
    return "other"


def _of_values(right: str, given: str) -> str:
    if _NULL in (right, given):
        one, other = ("null", given) if right == _NULL else (right, "null")
        return f"{_word(one)} as {_word(other)}"
    if right in _EMPTY or given in _EMPTY:
        return f"{_word(right)} as {_word(given)}"
    return "other"


def _word(value: str) -> str:
    return value if value == _NULL else "empty" if value in _EMPTY else "some"
