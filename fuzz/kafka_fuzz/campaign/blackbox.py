"""What a worker was doing when it died: memory that it shares with the process that started it.

Before each input the worker writes it here, and how many there were; whoever
waits for it reads both, whatever became of the worker.
"""

from __future__ import annotations

import mmap
import struct
from typing import Final

import msgspec

from kafka_fuzz.campaign.rounds import Progress
from kafka_fuzz.mutate import Cell, Mutant, Profile

# The last inputs, because what breaks the heap may be felt later.
SLOTS: Final = 8
SLOT: Final = (1 << 20) + (1 << 14)
COUNTS: Final = struct.Struct("<QQQQQQQd")  # executions, skipped, lines, cells, corpus, buckets, finds, CPU-seconds
EXECUTIONS: Final = struct.Struct("<Q")
SIZES: Final = struct.Struct("<II")
START: Final = 4096


class Known(msgspec.Struct, frozen=True, array_like=True):
    """What is known of a mutant besides its bytes."""

    profile: Profile
    labels: tuple[str, ...]
    cell: Cell


class BlackBox:
    """Counts and the last inputs, in memory that survives the process that wrote them."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, START + SLOTS * SLOT)
        self._encoder = msgspec.msgpack.Encoder()
        self.executions = 0

    def remember(self, mutant: Mutant) -> None:
        """*mutant* is about to be run."""
        self.executions += 1
        at = START + self.executions % SLOTS * SLOT
        head = self._encoder.encode((mutant.profile, mutant.labels, mutant.cell))
        data = mutant.data[: SLOT - SIZES.size - len(head)]
        SIZES.pack_into(self._memory, at, len(head), len(data))
        self._memory[at + SIZES.size : at + SIZES.size + len(head) + len(data)] = head + data
        EXECUTIONS.pack_into(self._memory, 0, self.executions)

    def count(self, progress: Progress) -> None:
        """Everything else that is counted."""
        COUNTS.pack_into(
            self._memory,
            0,
            self.executions,
            progress.skipped,
            progress.lines,
            progress.cells,
            progress.corpus,
            progress.buckets,
            progress.finds,
            progress.cpu_seconds,
        )

    def progress(self) -> Progress:
        """What was counted last."""
        executions, skipped, lines, cells, corpus, buckets, finds, seconds = COUNTS.unpack_from(self._memory, 0)
        self.executions = executions
        return Progress(executions, seconds, lines, cells, corpus, buckets, finds, skipped)

    def last(self) -> list[Mutant]:
        """The last inputs, the newest first; the one with which the worker died, if it did, is the first."""
        newest = self.progress().executions
        return [self._read(number) for number in range(newest, max(newest - SLOTS, 0), -1)]

    def _read(self, number: int) -> Mutant:
        at = START + number % SLOTS * SLOT
        head, data = SIZES.unpack_from(self._memory, at)
        at += SIZES.size
        known = msgspec.msgpack.decode(self._memory[at : at + head], type=Known)
        return Mutant(self._memory[at + head : at + head + data], known.profile, known.labels, None, known.cell)
