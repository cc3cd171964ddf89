"""Offsets and leader epochs from entry to entry: what is used again, what is not there, what goes back."""

from __future__ import annotations

import msgspec
import numpy as np

from kafka_corpus.audit.entries import Looked
from kafka_corpus.audit.findings import Found
from kafka_corpus.columnar.headers import LEADER_EPOCH
from kafka_corpus.columnar.jit import Numbers

NO_EPOCH = -1


class Reached(msgspec.Struct, array_like=True):
    """How far a log has come: -1 and False before its first entry.

    Attributes:
        last: the last offset.
        epoch: the last leader epoch that there was; -1 if there was none.
        missing: offsets that were not there so far.
        gaps: how often some were not there.
        begun: whether there was an entry.
    """

    last: int = -1
    epoch: int = NO_EPOCH
    missing: int = 0
    gaps: int = 0
    begun: bool = False


class First(msgspec.Struct, array_like=True):
    """The first entry of a stretch, for what comes before it."""

    position: int
    base: int
    epoch: int


class Order:
    """Follows a log entry by entry."""

    def __init__(self, found: Found, gap: str = "gap") -> None:
        self.found, self.gap = found, gap
        self.reached = Reached()
        self.first: First | None = None

    def follow(self, looked: Looked, file: str) -> Numbers:
        """Go over a chunk; how many offsets had been missing at each entry, since the beginning."""
        count = len(looked.base)
        epochs = np.where(looked.modern, looked.fields[LEADER_EPOCH], NO_EPOCH)
        if not count:
            return np.zeros(0, np.int64)
        if self.first is None:
            self.first = First(*(int(column[0]) for column in (looked.position, looked.base, epochs)))
        reached = self.reached
        before = np.concatenate(([reached.last if reached.begun else looked.base[0] - 1], looked.last[:-1]))
        # Numbers at the end of the range would overflow, and are findings by themselves.
        step = looked.base.astype(np.float64) - before
        missing = np.where((step > 1) & (step < 2**62), looked.base - before - 1, 0)
        self._tell(looked, file, before, step, missing)
        self._epochs(looked, file, epochs)
        total = reached.missing + np.cumsum(missing)
        known = epochs[epochs >= 0]
        self.reached = Reached(
            last=int(looked.last[-1]),
            epoch=int(known[-1]) if len(known) else reached.epoch,
            missing=int(total[-1]),
            gaps=reached.gaps + int((missing > 0).sum()),
            begun=True,
        )
        return total

    def join(self, first: First, file: str) -> int:
        """Begin another stretch behind what was reached; how many offsets are not there in between."""
        reached = self.reached
        if not reached.begun:
            return 0
        if 0 <= first.epoch < reached.epoch:
            self._epoch_back(file, first.position, first.base, first.epoch, reached.epoch)
        if first.base <= reached.last:
            self._overlap(file, first.position, first.base, reached.last)
        missing = max(first.base - reached.last - 1, 0)
        if missing:
            self._gap(file, first.position, first.base, missing)
        return missing

    def _tell(self, looked: Looked, file: str, before: Numbers, step: Numbers, missing: Numbers) -> None:
        for at in np.flatnonzero(step < 1).tolist():
            self._overlap(file, int(looked.position[at]), int(looked.base[at]), int(before[at]))
        for at in np.flatnonzero(missing > 0).tolist():
            self._gap(file, int(looked.position[at]), int(looked.base[at]), int(missing[at]))

    def _epochs(self, looked: Looked, file: str, epochs: Numbers) -> None:
        known = np.flatnonzero(epochs >= 0)
        before = np.concatenate(([self.reached.epoch], epochs[known]))[:-1]
        back = epochs[known] < before
        for at, earlier in zip(known[back].tolist(), before[back].tolist(), strict=True):
            self._epoch_back(file, int(looked.position[at]), int(looked.base[at]), int(epochs[at]), earlier)

    def _overlap(self, file: str, position: int, base: int, last: int) -> None:
        self.found.add("overlap", file, position, base, f"offset {base} behind {last}")

    def _gap(self, file: str, position: int, base: int, missing: int) -> None:
        said = f"{missing:,} offsets before {base} are not there"
        self.found.add(self.gap, file, position, base, said)

    def _epoch_back(self, file: str, position: int, base: int, epoch: int, earlier: int) -> None:
        self.found.add("leader_epoch_back", file, position, base, f"leader epoch {epoch} behind {earlier}")
