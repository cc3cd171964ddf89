"""The columnar codec as a known testee; named by an entry point, so it imports neither Arrow nor Numba."""

from __future__ import annotations

from typing import Final

from kafka_conformance.testees.known import KnownTestee

COLUMNAR: Final = KnownTestee(
    name="columnar",
    about="kafka_pipeline.columnar, record batches as Arrow columns",
    module="kafka_pipeline.columnar.testee",
    packages=("numba", "pyarrow", "cramjam", "zlib_ng"),
    # Arrow's other pools keep memory that is free.
    environment=(("ARROW_DEFAULT_MEMORY_POOL", "system"),),
    extras="columnar,testees",
    compiles=True,
)
