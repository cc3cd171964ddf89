"""A Python testee that is loaded once and forked for every start: the side that forks.

    python -m kafka_conformance.nest MODULE FD

Loading a codec takes a Python process a good part of a second; a testee that
falls over one case in ten is started hundreds of times.  So this process loads
the module, and each message on the socket FD brings three pipes for a new
child, which is then as fresh as one that was started: nothing has been asked of
the codec yet.  A fourth pipe takes the child's process id and, later, how it
ended.  The child's id stays taken until the other side sends it back, so that
killing its group can hit nobody else.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from kafka_conformance.serve import serve
from kafka_conformance.testee import Testee, load

# A child's standard input, output and error, and the pipe that tells how it ends.
PIPES: Final = 4
HATCH: Final = b"hatch"
LONGEST: Final = 64


def main(arguments: list[str]) -> None:
    """Fork a child for every message until the socket is closed."""
    testee, line = load(arguments[0]), socket.socket(fileno=int(arguments[1]))
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        return  # threads do not survive a fork: the other side starts such a testee the long way
    gc.freeze()
    ears, mouth = os.pipe()
    os.set_blocking(mouth, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(mouth)
    _serve(testee, line, ears)


def _serve(testee: Testee, line: socket.socket, ears: int) -> None:
    tell: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([line.fileno(), ears], [], [])
        if ears in ready:
            os.read(ears, LONGEST)
        for pid in list(tell):
            _tell_end(pid, tell)
        if line.fileno() in ready and not _heed(testee, line, tell):
            return


def _heed(testee: Testee, line: socket.socket, tell: dict[int, int]) -> bool:
    """Do what one message says; False when there will be no more."""
    message, pipes, _, _ = socket.recv_fds(line, LONGEST, PIPES)
    if message == HATCH and len(pipes) == PIPES:
        pid = os.fork()
        if not pid:
            line.close()
            for other in (pipes[3], *tell.values()):
                os.close(other)
            _be(testee, pipes[:3])
        with suppress(OSError):
            os.setpgid(pid, pid)  # here too: whoever is told of it may end the group before it has come to that
        tell[pid] = pipes[3]
        os.write(pipes[3], b"%d\n" % pid)
        for pipe in pipes[:3]:
            os.close(pipe)
    elif message:
        os.waitpid(int(message), 0)
    return bool(message)


def _tell_end(pid: int, tell: dict[int, int]) -> None:
    # Without reaping it: see above.
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is not None:
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        try:
            os.write(tell[pid], b"%d\n" % code)
        except BrokenPipeError:
            pass  # it was given up
        os.close(tell.pop(pid))


def _be(testee: Testee, pipes: list[int]) -> NoReturn:
    """Be the child: serve over *pipes*, and end as an interpreter does."""
    code = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, pipe in enumerate(pipes):
            os.dup2(pipe, number)
            os.close(pipe)
        serve(testee, sys.stdin.buffer, sys.stdout.buffer)
        code = 0
    except BrokenPipeError:
        code = 0  # nobody reads any more
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
