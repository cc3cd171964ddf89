"""The reducer: cuts an input down on the structure of the format, while it shows the same.

    small = reduce(data, lambda other: key_of(other) == key)

It takes the input apart into entries, records and fields (`shapes`), leaves out
what can be left out (`sites`), says the rest more simply (`moves`), and fixes up
sizes, counts and checksums, but for those whose being wrong is the point.
"""

from kafka_fuzz.shrink.search import BATCH, Budget, NotShown, ShrinkResult, shrink, shrink_input

__all__ = ["BATCH", "Budget", "NotShown", "ShrinkResult", "shrink", "shrink_input"]
