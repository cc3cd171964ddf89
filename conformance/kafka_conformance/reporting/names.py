"""Directory names for testees."""

from __future__ import annotations

import hashlib
import re
from typing import Final

MAX_NAME: Final = 80


def folder_name(testee: str) -> str:
    """A directory name for *testee*; long ones are cut and told apart by a hash."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", testee).strip("._") or "testee"
    if len(name) <= MAX_NAME and name == testee:
        return name
    return f"{name[:MAX_NAME]}-{hashlib.sha256(testee.encode()).hexdigest()[:8]}"
