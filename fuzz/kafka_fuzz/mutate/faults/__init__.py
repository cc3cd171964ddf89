"""Faults: every single thing that can be wrong with an entry, each with the verdict that is right."""

# Importing a module registers its faults.
from kafka_fuzz.mutate.faults import batches, frames, framing, messages, records, streams
from kafka_fuzz.mutate.faults.table import FAULTS, Fault, FaultResult, FaultSite

MODULES = (framing, batches, records, messages, streams, frames)

__all__ = ["FAULTS", "MODULES", "Fault", "FaultResult", "FaultSite"]
