"""Documents as files hold them: JSON that people can read, and compare line by line."""

from __future__ import annotations

from typing import Any

import msgspec


def indented(document: Any, spaces: int = 2) -> bytes:
    """*document* as indented JSON, which ends with a new line."""
    return msgspec.json.format(msgspec.json.encode(document), indent=spaces) + b"\n"
