"""Cost of finding each planted bug, for each mutation profile: medians over several seeds.

    python -m benchmarks.planted_bugs [--repeats N] [--most N] [NAME…]

Columns: executions until the first difference, and CPU-seconds for mutating, for the
reference, and for the wrong decoder.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

from kafka_fuzz.mutate import PROFILES, Profile
from kafka_fuzz.planted_bugs import PLANTED_BUGS, InputSeries, search_difference
from kafka_fuzz.planted_bugs.search import BatchDecoder

# All profiles in the shares of a campaign, then each profile alone.
COLUMNS: Final[dict[str, Profile | None]] = {"mix": None, **{profile: profile for profile in reversed(PROFILES)}}
TIMED: Final = ("mix", "bytes")


class SearchCost(NamedTuple):
    """The cost of one search; *executions* is one more than the limit if no difference was found."""

    executions: int
    seconds: float


def searched_bugs() -> tuple[str, ...]:
    """The names of the planted bugs that the fuzzer looks for."""
    return tuple(name for name, bug in PLANTED_BUGS.items() if bug.budget is not None)


def search_cost(decoder: BatchDecoder, series: InputSeries, most: int) -> SearchCost:
    """The cost of one search with at most *most* executions."""
    made, start = len(series.made), time.process_time()
    detection = search_difference(decoder, series, most)
    executions = detection.executions if detection else most + 1
    decoding = time.process_time() - start - (series.seconds[-1] - series.seconds[made])
    return SearchCost(executions, decoding + series.seconds[min(executions, most)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Search for each bug, and print one line for each."""
    parser = ArgumentParser(prog="python -m benchmarks.planted_bugs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="planted bugs; default: all that have a budget")
    parser.add_argument("--repeats", type=int, default=10, help="series of inputs, each from another seed")
    parser.add_argument("--most", type=int, default=20_000, help="executions after which a search is given up")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in searched_bugs()]
    if unknown:
        parser.error(f"there is no planted bug {unknown[0]!r} with a budget")
    columns = {label: [InputSeries(seed, each) for seed in range(options.repeats)] for label, each in COLUMNS.items()}
    timed = [f"{label}, s" for label in TIMED]
    print("executions until found".ljust(32) + "".join(label.rjust(9) for label in (*COLUMNS, "budget", *timed)))
    for name in options.names or searched_bugs():
        decoder = PLANTED_BUGS[name].decoder()
        rows = {label: [search_cost(decoder, each, options.most) for each in row] for label, row in columns.items()}
        print(medians_line(name, rows, options.most), flush=True)
    return 0


def medians_line(name: str, rows: dict[str, list[SearchCost]], most: int) -> str:
    """The medians of one bug; `>` marks a median at which the bug was not found."""
    middle = {label: median(each.executions for each in row) for label, row in rows.items()}
    seconds = {label: median(each.seconds for each in rows[label]) for label in TIMED}
    counts = "".join(f"{'>' if middle[label] > most else ''}{min(middle[label], most):,.0f}".rjust(9) for label in rows)
    times = "".join(f"{'>' if middle[label] > most else ''}{seconds[label]:.3f}".rjust(9) for label in TIMED)
    return f"{name:32}{counts}{PLANTED_BUGS[name].budget or 0:9,}{times}"


if __name__ == "__main__":
    sys.exit(main())
