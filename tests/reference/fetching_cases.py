"""Logs with transactions in them, large enough for an offset index to matter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.reference.conversion_cases import compacted, marker, v2, written


def long_log(aborted: int) -> bytes:
    """Sixty transactions of three producers, one after the other; every *aborted*th is aborted."""
    made = []
    for at in range(60):
        producer_id, base = 7 + at % 3, at * 4
        made += [written(producer_id, base, size=300), marker(base + 3, producer_id, commit=at % aborted != 0)]
    return b"".join(made)


TRANSACTIONS: Final[Mapping[str, bytes]] = {
    "committed": written(7, 0) + marker(3),
    "aborted": written(7, 0) + marker(3, commit=False),
    "open": v2(0) + written(7, 3) + v2(6),
    "open, then aborted, then open": written(7, 0) + marker(3, commit=False) + written(7, 4) + v2(7),
    "interleaved": b"".join(
        [
            written(7, 0),
            written(8, 3),
            v2(6),
            marker(9, 7, commit=False),
            written(7, 10),
            marker(13, 8, commit=False),
            written(9, 14, compression="gzip"),
            marker(17, 7, commit=True),
            written(8, 18, size=900),
            marker(21, 9, commit=False),
            marker(22, 8, commit=False),
        ]
    ),
    "interleaved and open": written(7, 0) + written(8, 3) + marker(6, 8, commit=False) + v2(7) + written(9, 10),
    "a marker without data": marker(0, 7, commit=False) + v2(1) + marker(4, 8),
    "not in transactions": v2(0, producer_id=7, producer_epoch=0, base_sequence=0) + v2(3),
    "aborted and compacted": marker(3, 7, commit=False) + v2(4) + marker(7, 7, commit=False, records=()),
    "a batch of gaps": written(7, 0) + compacted(3, 1, last=5) + marker(9, commit=False) + v2(10),
    "mostly committed": long_log(7),
    "mostly aborted": long_log(1),
}
