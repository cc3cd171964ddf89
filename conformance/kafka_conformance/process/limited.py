"""The limits and the environment that a testee's processes run in.

`/bin/sh` sets the limits before anything of the testee runs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from kafka_conformance.connection import Connection

# Processor seconds until the kernel ends a testee that nobody else does: one that
# is left over when the runner and the process that made it (`brood.py`) are both
# killed would otherwise spin for ever.
ORPHAN_SECONDS: Final = 600

# A stack that Rust prints costs thirty times what the fall does, and is so long
# that what was said before it is cut off.
_BRIEF: Final = {"RUST_BACKTRACE": "0"}


def environment(connection: Connection) -> dict[str, str]:
    """Our own variables, and those of *connection*; how long a last word is does not depend on who starts us."""
    return os.environ | _BRIEF | dict(connection.environment)


def limited(connection: Connection, argv: Sequence[str]) -> list[str]:
    """*argv* under the limits of *connection*, which what it starts inherits."""
    if not connection.local:
        return list(argv)
    # ulimit: kilobytes of address space, processor seconds, no core files.
    limits = f"ulimit -c 0; ulimit -t {ORPHAN_SECONDS}; ulimit -v {connection.memory // 1024}"
    return ["/bin/sh", "-c", f'{{ {limits}; }} 2>/dev/null; exec "$@"', "sh", *argv]
