"""The limits under which a testee's processes run; `/bin/sh` sets them before anything of the testee runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafka_conformance.connect import Connection

# Processor seconds until the kernel ends a testee that nobody else does: one that
# is left over when the runner and the process that made it (`brood.py`) are both
# killed would otherwise spin for ever.
ORPHAN_SECONDS: Final = 600


def limited(connection: Connection, argv: Sequence[str]) -> list[str]:
    """*argv* under the limits of *connection*, which what it starts inherits."""
    if not connection.local:
        return list(argv)
    # ulimit: kilobytes of address space, processor seconds, no core files.
    limits = f"ulimit -c 0; ulimit -t {ORPHAN_SECONDS}; ulimit -v {connection.memory // 1024}"
    return ["/bin/sh", "-c", f'{{ {limits}; }} 2>/dev/null; exec "$@"', "sh", *argv]
