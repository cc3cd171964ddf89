"""What the executors have: their Python, and where our packages come from there."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from kafka_corpus.pipeline.pack import OURS
from kafka_corpus.pipeline.tables import asking


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One worker process.

    Attributes:
        host: the machine.
        folder: its working directory.
        python: the version.
        executable: the interpreter.
        packages: where each package of ours comes from; empty where there is none.
        path: where modules are looked for.
    """

    host: str
    folder: str
    python: str
    executable: str
    packages: dict[str, str]
    path: list[str]


def here() -> Place:
    """This process."""
    specs = {name: find_spec(name) for name in OURS}
    return Place(
        host=platform.node(),
        folder=str(Path.cwd()),
        python=platform.python_version(),
        executable=sys.executable,
        packages={name: (spec.origin or "") if spec else "" for name, spec in specs.items()},
        path=list(sys.path),
    )


def places(spark: Any, tasks: int) -> Sequence[Place]:
    """What *tasks* tasks find; executors that get none are not seen.

    Raises:
        CannotRun: Spark gave up.
    """
    with asking():
        rows = spark.range(0, tasks, 1, tasks).mapInArrow(_tell, "place binary").collect()
    return [msgspec.json.decode(bytes(row["place"]), type=Place) for row in rows]


def _tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_arrays([pa.array([msgspec.json.encode(here())], pa.binary())], names=["place"])
