"""Memory findings in words: bytes taken for bytes read, beside what Kafka's Java client takes for the same bytes.

`client_memory.toml` has the figures of the Java client, with its version and the date.
`python -m benchmarks.client_memory` measures them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import msgspec

from kafka_conformance.judge import read_table
from kafka_conformance.judge.observation import Exceeded

MIB: Final = 1024 * 1024
# Bytes taken are shown in steps, so that two runs say the same.
STEP: Final = 256 * MIB
FILE: Final = "client_memory.toml"
# A codec that takes no more than this many times what the Java client takes is no worse than it.
TIMES: Final = 4


class ClientMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Resident memory that the Java client took, in MiB by case id."""

    client: str
    version: str
    date: str
    runtime: str
    heap: str
    cases: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class JavaFigure:
    """Bytes that the Java client took for one case."""

    version: str
    taken: int

    def covers(self, taken: int) -> bool:
        """Whether *taken* bytes are about what the Java client takes."""
        return 0 < taken <= TIMES * self.taken


@cache
def client_memory() -> ClientMemory:
    """The recorded figures."""
    return read_table(FILE, ClientMemory)


def java_figure(case_id: str) -> JavaFigure | None:
    """The figure of the Java client for a case; None if that was never measured."""
    recorded = client_memory()
    taken = recorded.cases.get(case_id)
    return None if taken is None else JavaFigure(recorded.version, taken * MIB)


def memory_text(case_id: str, exceeded: Exceeded) -> str:
    """A memory finding in one line: what was taken, for how many bytes read, and the Java client's figure."""
    if not exceeded.taken:
        return exceeded.what
    least = exceeded.taken // STEP * STEP // MIB
    amount = f"more than {least:,} MiB" if least else f"less than {STEP // MIB} MiB"
    text = exceeded.what if "MiB" in exceeded.what else f"{exceeded.what}: {amount}"
    read = f" for {exceeded.read:,} bytes read" if exceeded.read else ""
    figure = java_figure(case_id)
    beside = f"; Kafka's Java client {figure.version} takes {figure.taken // MIB:,} MiB" if figure else ""
    return f"{text}{read}{beside}"
