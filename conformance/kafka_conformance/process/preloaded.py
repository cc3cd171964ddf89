"""A Python testee that is loaded once and forked for every start: the side that forks.

    python -m kafka_conformance.process.preloaded MODULE FD

Loading a codec takes a Python process a good part of a second; a testee that
crashes in one case of ten is started hundreds of times.  So this process loads
the module, and forks (`spawn_server.py` says when): a child is as fresh as one that
was started, since the codec has not run yet.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import NoReturn

from kafka_conformance.process.spawn_server import MakeChild, SpawnServer, fork_child
from kafka_conformance.testees.interface import Testee, load_testee
from kafka_conformance.testees.serve import serve


def main(arguments: list[str]) -> None:
    """Fork a child for every message until the socket is closed."""
    testee, line = load_testee(arguments[0]), socket.socket(fileno=int(arguments[1]))
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        return  # threads do not survive a fork: the other side starts such a testee the long way
    gc.freeze()
    SpawnServer(line, fork_testee(testee)).serve()


def fork_testee(testee: Testee) -> MakeChild:
    """Forks this process, for a child that serves *testee*."""
    return fork_child(partial(_be, testee))


def _be(testee: Testee) -> NoReturn:
    """Be the child: serve, and end as an interpreter does."""
    code = 1
    try:
        serve(testee, sys.stdin.buffer, sys.stdout.buffer)
        code = 0
    except BrokenPipeError:
        code = 0  # the runner has closed the pipe
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
