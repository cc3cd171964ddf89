"""Lies: what can be wrong with an entry, with the verdict on each."""

from kafka_fuzz.mutate.faults import batches, frames, framing, messages, records, streams, wrappers
from kafka_fuzz.mutate.faults import records as varints
from kafka_fuzz.mutate.faults.table import LIES, Lie, Spot, Told

# Importing a module enters its lies.
MODULES = (framing, batches, records, varints, batches, batches, messages, wrappers, streams, frames, frames)

__all__ = ["LIES", "MODULES", "Lie", "Spot", "Told"]
