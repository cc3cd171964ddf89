"""Lies: what can be wrong with an entry, with the verdict on each."""

from kafka_fuzz.mutate.lies import (
    control,
    framing,
    header,
    headers,
    lz4,
    messages,
    records,
    streams,
    varints,
    wrappers,
    zstd,
)
from kafka_fuzz.mutate.lies.table import LIES, Lie, Spot, Told

# Importing a module enters its lies.
MODULES = (framing, header, records, varints, headers, control, messages, wrappers, streams, lz4, zstd)

__all__ = ["LIES", "MODULES", "Lie", "Spot", "Told"]
