"""What tells one crash, or one leaked exception, from another: no addresses, no lines, no numbers of the input."""

from __future__ import annotations

import re
from typing import Final

from kafka_conformance.observation import Crashed, Exceeded, Garbled, Hung

MOST: Final = 100
# What differs from one input to the next: quoted text, hexadecimal, numbers.
_VARIES: Final = re.compile(
    r"(?:/[\w.@+-]+){2,}|'[^']*'|\"[^\"]*\"|\b0x[0-9a-fA-F]+"
    r"|\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]+\b|(?<=got )[0-9a-f]+\b|(?<=expected )[0-9a-f]+\b"
    r"|(?<![A-Za-z_])-?\d[\d.,]*"
)
# Several numbers in a row say no more than one: times have a part more or less.
_ROW: Final = re.compile(r"#(?:[ ,.:/-]*#)+")
# How runtimes begin to say why they end, up to the frames that follow.
_SAID: Final = re.compile(
    r"(?:panic|fatal error): (?P<go>[^|]+)"
    r"|thread '[^']*'[^|]* panicked at (?P<where>[^|:]+)[^|]*\| (?P<rust>[^|]+)"
    r"|(?:Exception in thread \S+ )?(?P<class>[A-Za-z_][\w.$]*(?:Error|Exception))\b:? ?(?P<text>[^|]*)"
)
# Frames, innermost first, as Go and Java and Node print them.
_GO_FRAME: Final = re.compile(r"\| (?P<function>[\w./\-]+(?:\.\(\*?\w+\))?\.[\w.\-]+)\(")
_AT_FRAME: Final = re.compile(r"\| +at (?:async )?(?:new )?(?P<function>[\w.$/<>]+) ?\(")
# Who only passes a failure on.
_RUNTIME: Final = ("runtime", "panic", "goroutine", "java.", "jdk.", "sun.", "node:", "internal")


def normal(text: str) -> str:
    """*text* without what differs from input to input.

    >>> normal("index out of range [5] with length 3 in 'abc'")
    "index out of range [#] with length # in '…'"
    """
    return _ROW.sub("#", _VARIES.sub(_named, text.strip()))[:MOST]


def _named(match: re.Match[str]) -> str:
    return "'…'" if match.group()[0] in "'\"" else "#"


def of_ending(ending: Crashed | Exceeded | Hung | Garbled) -> tuple[str, str]:
    """What a process ended by, and the function that it was in, where its runtime told."""
    if isinstance(ending, Hung):
        return ("deadlock" if ending.stderr else ""), ""
    if isinstance(ending, Garbled):
        return normal(ending.why), ""
    said = _SAID.search(ending.stderr)
    if isinstance(ending, Exceeded):
        return ("" if said is None else _what(said)), _function(ending.stderr)
    if said is not None:
        return _what(said), _function(ending.stderr)
    return f"signal {ending.signal}" if ending.signal else f"exit code {ending.exit_code}", ""


def _what(said: re.Match[str]) -> str:
    if said["go"]:
        return normal(said["go"])
    if said["rust"]:
        return f"{said['where'].rpartition('/')[2]}: {normal(said['rust'])}"
    return normal(f"{said['class']}: {said['text']}".rstrip(": "))


def _function(stderr: str) -> str:
    for pattern in (_GO_FRAME, _AT_FRAME):
        for match in pattern.finditer(stderr):
            if not match["function"].startswith(_RUNTIME):
                return match["function"]
    return ""


def of_leak(message: str) -> str:
    """The type of an exception that was let slip, and the start of what it says.

    >>> of_leak("builtins.IndexError: index out of range")
    'builtins.IndexError: index out of range'
    """
    return normal(message)
