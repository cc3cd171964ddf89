"""How many executions find each wrong codec of the zoo, by profile: medians of repeats, side by side.

python -m kafka_fuzz.zoo.bench [--repeats N] [--most N] [NAME…]
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from statistics import median
from typing import Final

from kafka_fuzz.mutate import PROFILES, Profile
from kafka_fuzz.zoo import ZOO, Prey, hunt

# All three in their shares, then each alone.
COLUMNS: Final[dict[str, Profile | None]] = {"mix": None, **{profile: profile for profile in reversed(PROFILES)}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt, and print one line for each animal."""
    parser = ArgumentParser(prog="python -m kafka_fuzz.zoo.bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="animals; all of them unless named")
    parser.add_argument("--repeats", type=int, default=10, help="series of inputs, each from another seed")
    parser.add_argument("--most", type=int, default=20_000, help="executions after which a hunt is given up")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in ZOO]
    if unknown:
        parser.error(f"there is no animal {unknown[0]!r}")
    prey = {label: [Prey(seed, profile) for seed in range(asked.repeats)] for label, profile in COLUMNS.items()}
    print("executions".ljust(34) + "".join(label.rjust(10) for label in COLUMNS) + "  budget".rjust(10))
    for name in asked.names or ZOO:
        decoder = ZOO[name].decoder()
        found = {
            label: [
                catch.executions if (catch := hunt(decoder, series, asked.most)) else asked.most + 1 for series in row
            ]
            for label, row in prey.items()
        }
        shown = "".join(said(counts, asked.most).rjust(10) for counts in found.values())
        print(name.ljust(34) + shown + f"{ZOO[name].budget:10,}", flush=True)
    return 0


def said(counts: Sequence[int], most: int) -> str:
    """The median, or that it is above the most that was tried."""
    middle = median(counts)
    return f">{most:,}" if middle > most else f"{middle:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
