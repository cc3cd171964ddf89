"""Small entries whose compressed stream is odd in one way: what a find may come down to that lies in the framing.

A frame with a checksum of its blocks, or of two members, is not cut by leaving
out bytes, and packed anew it is ordinary.  So every way in which a stream can be
odd that the mutators know is tried on the smallest entry of that magic and codec.
"""

from __future__ import annotations

from functools import cache
from random import Random

from kafka_fuzz.mutate.bases import NUMBERS, Base, axes_of, base_of
from kafka_fuzz.mutate.lies.table import LIES, Spot, Told
from kafka_records.constants import Compression


@cache
def odd_entries(magic: int, codec: Compression) -> tuple[bytes, ...]:
    """One for each lie about streams and each of its variants, the smallest first; () where there is no such codec."""
    places = axes_of(magic, codec, filled=True)
    bases = [base_of(magic, codec, axis, level, number) for axis, level in places for number in range(NUMBERS)]
    smallest = min(bases, key=lambda base: (len(base.data), base.data), default=None)
    return () if smallest is None else tuple(sorted(_told(smallest), key=lambda data: (len(data), data)))


def _told(base: Base) -> set[bytes]:
    found = set()
    for lie in LIES.values():
        if lie.nesting != "stream" or (base.magic, base.codec) not in lie.where:
            continue
        for field in lie.fields:
            for value in lie.variants.values():
                spoken = lie.tell(Spot(base, Random(0), field, value, b""))
                found.add(spoken.data if isinstance(spoken, Told) else spoken)
    return found
