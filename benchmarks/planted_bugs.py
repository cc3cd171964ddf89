"""What it takes to find each wrong codec of the zoo, by profile: medians of repeats, side by side.

    python -m benchmarks.planted_bugs [--repeats N] [--most N] [NAME…]

Executions until the first difference, and the CPU-seconds that they took:
mutating, the reference, and the wrong codec.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

from kafka_fuzz.mutate import PROFILES, Profile
from kafka_fuzz.planted_bugs import ZOO, InputSeries, search_difference
from kafka_fuzz.planted_bugs.patched import Decode

# All three in their shares, then each alone.
COLUMNS: Final[dict[str, Profile | None]] = {"mix": None, **{profile: profile for profile in reversed(PROFILES)}}
TIMED: Final = ("mix", "bytes")


class SearchCost(NamedTuple):
    """One hunt; *executions* is one more than the most if nothing was found."""

    executions: int
    seconds: float


def search_cost(decoder: Decode, prey: InputSeries, most: int) -> SearchCost:
    """Hunt once."""
    made, start = len(prey.made), time.process_time()
    catch = search_difference(decoder, prey, most)
    executions = catch.executions if catch else most + 1
    asking = time.process_time() - start - (prey.seconds[-1] - prey.seconds[made])
    return SearchCost(executions, asking + prey.seconds[min(executions, most)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt, and print one line for each animal."""
    parser = ArgumentParser(prog="python -m benchmarks.planted_bugs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="animals; all of them unless named")
    parser.add_argument("--repeats", type=int, default=10, help="series of inputs, each from another seed")
    parser.add_argument("--most", type=int, default=20_000, help="executions after which a hunt is given up")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in ZOO]
    if unknown:
        parser.error(f"there is no animal {unknown[0]!r}")
    prey = {label: [InputSeries(seed, profile) for seed in range(asked.repeats)] for label, profile in COLUMNS.items()}
    timed = [f"{label}, s" for label in TIMED]
    print("executions until found".ljust(32) + "".join(label.rjust(9) for label in (*COLUMNS, "budget", *timed)))
    for name in asked.names or ZOO:
        decoder = ZOO[name].decoder()
        rows = {label: [search_cost(decoder, series, asked.most) for series in row] for label, row in prey.items()}
        print(medians_line(name, rows, asked.most), flush=True)
    return 0


def medians_line(name: str, rows: dict[str, list[SearchCost]], most: int) -> str:
    """The medians of one animal; behind `>` what was tried in vain."""
    middle = {label: median(each.executions for each in row) for label, row in rows.items()}
    seconds = {label: median(each.seconds for each in rows[label]) for label in TIMED}
    counts = "".join(f"{'>' if middle[label] > most else ''}{min(middle[label], most):,.0f}".rjust(9) for label in rows)
    times = "".join(f"{'>' if middle[label] > most else ''}{seconds[label]:.3f}".rjust(9) for label in TIMED)
    return f"{name:32}{counts}{ZOO[name].budget:9,}{times}"


if __name__ == "__main__":
    sys.exit(main())
