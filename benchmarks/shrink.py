"""Cost of shrinking: findings of about 600 bytes, with three good batches and one bad message each.

python -m benchmarks.shrink [--repeats N]
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

from kafka_fuzz.mutate.fixup import INT32, as_message, fixed_up, write_message_bytes
from kafka_fuzz.shrink.search import one_by_one, runner, same_verdicts, shrink_input, verdicts
from kafka_fuzz.targets import TARGETS
from kafka_records import Batch, Header, Record, encode
from kafka_records.constants import Compression

TARGET: Final = "kafka-python"
NOW: Final = 1_700_000_000_000
CODECS: Final[tuple[Compression, ...]] = ("none", "gzip", "lz4")


class ShrinkTiming(NamedTuple):
    """One finding: bytes before and after, predicate calls, CPU-seconds, and whether the verdicts stayed the same."""

    name: str
    before: int
    after: int
    runs: int
    seconds: float
    same: bool


def good_batches() -> bytes:
    """Three batches that everybody reads, one of them plain."""
    return b"".join(
        encode(
            Batch(
                magic=2,
                base_offset=4 * number,
                last_offset=4 * number + 3,
                compression=codec,
                records=tuple(
                    Record(4 * number + at, NOW + at, b"key-%d" % at, b"value %d " % at * 3, (Header(b"h", b"x"),))
                    for at in range(4)
                ),
            )
        )
        for number, codec in enumerate(CODECS)
    )


def benchmark_inputs() -> dict[str, bytes]:
    """The inputs: a message whose key is said to be longer than the message, and a wrapper around nothing."""
    good = good_batches()
    message = write_message_bytes(as_message(1, 12, NOW, b"a key", b"a value that is long enough to be cut"))
    at = 34
    long_key = fixed_up(message[:at] + INT32.pack(1000) + message[at + 4 :])
    wrapper = write_message_bytes(as_message(1, 13, NOW, None, b"\x1f\x8b no gzip at all" * 4)._replace(attributes=1))
    return {"key length": good + long_key, "broken gzip": good + wrapper}


def measure_shrink(repeats: int = 5) -> list[ShrinkTiming]:
    """Shrink each input a few times; the seconds are medians."""
    target = TARGETS[TARGET]()
    found = []
    for name, data in benchmark_inputs().items():
        _, same = same_verdicts(target, data)
        times, done = [], None
        for _ in range(max(1, repeats)):
            start = time.process_time()
            done = shrink_input(data, one_by_one(same), batch=1)
            times.append(time.process_time() - start)
        assert done is not None
        held = verdicts(runner(target), done.data) == verdicts(runner(target), data)
        found.append(ShrinkTiming(name, len(data), len(done.data), done.runs, median(times), held))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print one line for each finding; exit code 1 where a verdict changed."""
    parser = ArgumentParser(prog="python -m benchmarks.shrink", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="how often each is reduced")
    found = measure_shrink(parser.parse_args(arguments).repeats)
    for one in found:
        held = "same verdicts" if one.same else "OTHER VERDICTS"
        print(f"{one.name:<14}{one.before:>6} B to {one.after} B  {one.runs} runs, {one.seconds:.3f} CPU-s, {held}")
    return 0 if all(one.same for one in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
