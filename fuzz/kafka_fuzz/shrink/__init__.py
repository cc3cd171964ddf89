"""Shrink an input on the structure of the format while a predicate holds.

    small = shrink(data, lambda other: key_of(other) == key)

The input is split into entries, records and fields, and parts are left out or
simplified (`tree`).  Sizes, counts and checksums are fixed up unless they were
wrong in the input.
"""

from kafka_fuzz.shrink.search import BATCH, Budget, NotShown, ShrinkResult, shrink, shrink_input

__all__ = ["BATCH", "Budget", "NotShown", "ShrinkResult", "shrink", "shrink_input"]
