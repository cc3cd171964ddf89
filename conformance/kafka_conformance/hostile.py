"""What a testee says is hostile text: bounded and harmless before it is kept or shown.

A reply, a name, an error message or a line on standard error may hold terminal
escapes, a gigabyte, or half a character.  Nothing of it is printed or stored
without passing through here.
"""

from __future__ import annotations

from typing import Final

# Long enough for a library's message with its path, short enough for one result line.
MAX_TEXT: Final = 400


def printable(text: str | bytes, limit: int = MAX_TEXT) -> str:
    """*text* on one line, at most *limit* characters, with everything unprintable escaped.

    >>> printable(b"bad\\x1b[31m key\\n\\xff")
    'bad\\\\x1b[31m key\\\\n\\\\xff'
    """
    if isinstance(text, bytes):
        text = text[: 4 * limit].decode("utf-8", "backslashreplace")
    shown = "".join(map(_escaped, text[:limit]))
    cut = len(text) > limit or len(shown) > limit
    return f"{shown[: limit - 1]}…" if cut else shown


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return ascii(character)[1:-1]


def tail(text: bytes, limit: int = MAX_TEXT) -> str:
    """The last *limit* characters of a standard error, lines joined by " | "."""
    lines = [printable(line, limit) for line in text[-4 * limit :].splitlines() if line.strip()]
    joined = " | ".join(lines)
    return joined if len(joined) <= limit else f"…{joined[1 - limit :]}"
