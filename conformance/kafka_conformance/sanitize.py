"""Text from testees made harmless before it is stored or shown, and JSON that people can read.

A reply, a name, an error message or a line on standard error may hold terminal
escapes, a gigabyte, or half a character.  Nothing of it is printed or stored
without passing through here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

# Long enough for a library's message with its path, short enough for one result line.
MAX_TEXT: Final = 400
# Of a standard error, bytes: what the child keeps of it.
_READ: Final = 16 * 1024
# How runtimes begin to say why they end; the frames that led there follow, innermost first.
_WHY: Final = re.compile(
    r"panic: |fatal error: |thread '.*' panicked at |Exception in thread |SIG[A-Z]+: |[A-Z]?\w*Error: "
)


def printable(text: str | bytes, limit: int = MAX_TEXT) -> str:
    """*text* on one line, at most *limit* characters, with everything unprintable escaped.

    >>> printable(b"bad\\x1b[31m key\\n\\xff")
    'bad\\\\x1b[31m key\\\\n\\\\xff'
    """
    if isinstance(text, bytes):
        text = text[: 4 * limit].decode("utf-8", "backslashreplace")
    start = text[:limit]
    shown = start if start.isprintable() else "".join(map(_escaped, start))
    cut = len(text) > limit or len(shown) > limit
    return f"{shown[: limit - 1]}…" if cut else shown


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return ascii(character)[1:-1]


def tail(text: bytes, limit: int = MAX_TEXT) -> str:
    """The last *limit* characters of a standard error, lines joined by " | ".

    Where a runtime says why it ends, it is the first *limit* characters from there on.

    >>> tail(b"loading\\npanic: index out of range\\n\\ngoroutine 1 [running]:\\n", 40)
    'panic: index out of range | goroutine 1…'
    """
    lines = [printable(line, limit) for line in text[-_READ:].splitlines() if line.strip()]
    why = next((at for at, line in enumerate(lines) if _WHY.match(line)), None)
    joined = " | ".join(lines if why is None else lines[why:])
    if len(joined) <= limit:
        return joined
    return f"…{joined[1 - limit :]}" if why is None else f"{joined[: limit - 1]}…"


def indented_json(document: Any, spaces: int = 2) -> bytes:
    """*document* as indented JSON, which ends with a new line."""
    import msgspec  # not at the top: pages explain bytes in a browser, without it

    return msgspec.json.format(msgspec.json.encode(document), indent=spaces) + b"\n"


# The part of an absolute path above the folder in which packages or built testees are installed.
_ABOVE_PACKAGES: Final = re.compile(r"""(?<![\w…-])/[^\s"'()\[\]|]*?/(?=(?:site-packages|node_modules|testees)/)""")
# The same of crates, with the folder of their registry; and such a path that was cut before the end of it.
_ABOVE_CRATES: Final = re.compile(r"""(?<![\w…-])/[^\s"'()\[\]|]*?/registry/src/[^/\s]+/""")
_CUT_PATH: Final = re.compile(r"""(?<![\w…-])/[^\s"'()\[\]|…]*/\.(?:cache|cargo)/[^\s"'()\[\]|…]*…""")


def without_folders(value: Any) -> Any:
    """A text, or the texts in a mapping, without the machine's own part of paths; any other value as it is.

    >>> without_folders("at (/home/me/.cache/kafkaproof/testees/a-1.0/node_modules/lz4/index.js:7)")
    'at (…/testees/a-1.0/node_modules/lz4/index.js:7)'
    """
    if isinstance(value, Mapping):
        return {name: without_folders(each) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    shorter = _ABOVE_CRATES.sub("…/", _ABOVE_PACKAGES.sub("…/", value))
    return _CUT_PATH.sub("…", shorter)
