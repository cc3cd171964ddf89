"""One child process as the supervisor sees it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Final, NamedTuple

import msgspec

from kafka_fuzz.campaign.rounds import Progress, Round, RoundReport, report_of

# So much longer than its CPU-seconds may a round take by the clock, on a crowded machine.
CROWDED: Final = 20.0
START: Final = 60.0
# Between being asked to stop and being killed.
GRACE: Final = 6.0
MOST_ERRORS: Final = 4000


class Said(msgspec.Struct, frozen=True):
    """A line of a child's standard output: one of the two."""

    progress: Progress | None = None
    report: RoundReport | None = None


class Heard(NamedTuple):
    """Something that a child said; None when it has said its last."""

    child: Running
    said: Said | None


class Running:
    """A round in a process group of its own, so that an interrupt reaches only us."""

    def __init__(self, asked: Round, heard: SimpleQueue[Heard]) -> None:
        self.asked = asked
        self.progress = Progress()
        self.began = time.monotonic()
        self.stop_asked = 0.0
        self.report: RoundReport | None = None
        self._errors = b""
        self._process = subprocess.Popen(
            arguments(asked),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._readers = [
            threading.Thread(target=self._listen, args=(self._process.stdout, heard), daemon=True),
            threading.Thread(target=self._collect, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def take(self, said: Said) -> None:
        """Remember what it said."""
        self.progress = said.progress or self.progress
        self.report = said.report or self.report

    def stop(self) -> None:
        """Ask it to stop in good order."""
        if not self.stop_asked:
            self.stop_asked = time.monotonic()
            with suppress(ProcessLookupError):
                self._process.terminate()

    def check(self) -> None:
        """Kill it if it takes far too long, or was asked to stop a while ago."""
        now = time.monotonic()
        if now - self.began > START + self.asked.cpu_seconds * CROWDED:
            self.stop()
        if self.stop_asked and now - self.stop_asked > GRACE:
            self.kill()

    def kill(self) -> None:
        """End it and everything that it started in its group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> RoundReport:
        """What it did, once its output has ended; a report of a failure if it gave none."""
        code = self._process.wait()
        self.kill()  # what it left behind
        for reader in self._readers:
            reader.join(timeout=1.0)
        if self.report is not None:
            return self.report
        return self._lost(code)

    def _lost(self, code: int) -> RoundReport:
        asked, progress = self.asked, self.progress
        killed = bool(self.stop_asked)
        last = self._errors.decode(errors="replace").strip().splitlines()[-1:] or [f"it ended with {code}"]
        return report_of(
            asked,
            progress,
            seconds=round(time.monotonic() - self.began, 3),
            interrupted=killed,
            failure="" if killed else last[0][:500],
        )

    def _listen(self, stream: IO[bytes], heard: SimpleQueue[Heard]) -> None:
        for line in stream:
            with suppress(msgspec.MsgspecError):
                heard.put(Heard(self, msgspec.json.decode(line, type=Said)))
        heard.put(Heard(self, None))

    def _collect(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._errors = (self._errors + line)[-MOST_ERRORS:]


def arguments(asked: Round) -> list[str]:
    """The command that runs a round."""
    return [
        *(sys.executable, "-m", "kafka_fuzz.campaign.child", asked.target, "--dir", str(asked.directory)),
        *("--seed", str(asked.seed), "--round", str(asked.number), "--cpu", str(asked.cpu_seconds)),
        *("--profile", asked.profile, "--engine", asked.engine, *(["--blind"] if asked.blind else [])),
        *("--executions", str(asked.executions)),
    ]
