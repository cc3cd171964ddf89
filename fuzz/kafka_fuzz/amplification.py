"""What an input may cost: so much for any small one, and so much for each byte of larger ones.

A kilobyte of memory for a byte is what the best compression explains; a
decode takes a ten-thousandth of the time.
"""

from __future__ import annotations

from typing import Final

# CPU-seconds, and bytes of memory beside what a decoder holds anyway, that an input of so many bytes may cost.
MOST_SECONDS: Final = 0.25
MOST_GROWTH: Final = 64 << 20
SMALL: Final = 64 << 10


def beyond(size: int, seconds: float, grown: int) -> tuple[float, int]:
    """Of what an input of *size* bytes cost, in CPU-seconds and bytes, that which it may not; zeros for the rest.

    >>> beyond(20, 0.2, 100 << 20), beyond(1 << 20, 0.3, 100 << 20)
    ((0.0, 104857600), (0.0, 0))
    """
    times = max(1.0, size / SMALL)
    return (seconds if seconds > MOST_SECONDS * times else 0.0, grown if grown > MOST_GROWTH * times else 0)


def memory_told(size: int, grown: int) -> str:
    """The line for people.

    >>> memory_told(64, 96 << 20)
    '96 MiB for 64 bytes, 1,572,864 for each'
    """
    return f"{grown >> 20} MiB for {size:,} bytes, {grown / max(1, size):,.0f} for each"


def time_told(size: int, seconds: float) -> str:
    """The line for people.

    >>> time_told(100, 0.5)
    '0.50 s of processor time for 100 bytes, 5,000 us for each'
    """
    return f"{seconds:.2f} s of processor time for {size:,} bytes, {seconds * 1e6 / max(1, size):,.0f} us for each"
