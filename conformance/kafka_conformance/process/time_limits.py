"""Time limits of requests, and the timeout groups that share them.

Slow is not hung, and no verdict may hang on how busy the machine is.  So time is
the testee's own CPU time, and each limit is far above the time of any known codec:
of those that answer at all, half or less, but for inputs that were made to be large.

    asleep                      half a second: nothing will come
    works, takes no memory      three quarters: no codec that answers has worked half as long without taking memory
    works and takes memory      one and a half: filling a gigabyte that a few bytes claim takes almost a second

A testee that hung in a case of the same timeout group had all that time.  In further cases
of the group it gets five times what other codecs need: 0.2 s, and 0.3 s with memory.

A heavy input, which was made to take long, gets eight seconds; the slowest answer takes six.
A testee is stopped earlier if it holds much memory after six seconds, far more after four,
or very much after one: it would run out of memory.  Known hangs get three seconds; answers
in those timeout groups take less than two.  Where Kafka's own client works for four seconds on an
idle machine, and takes a gigabyte, it was once stopped on a busy one: the limits of that case are doubled.

On a loaded machine the threads of a garbage collector wait for a CPU in turns, while the
other threads wait for them.  So the CPU time of all threads counts with heavy inputs, in
known hangs, and for a testee that takes memory; otherwise that of the busiest thread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kafka_conformance.process.cpu_time import Watch
from kafka_corpus.case import Case
from kafka_records.constants import COMPRESSIONS

# Times what one that sleeps may take, which is half a second or more.
SPINS: Final = 1.5
BUSY: Final = 3.0
# A testee that hung in a case of the same timeout group had all the time before.
KNOWN_SPINS: Final = 0.4
KNOWN_GROWS: Final = 0.6

HEAVY_SECONDS: Final = 6.0
HEAVY_MOST: Final = 8.0
HEAVY_CLOSE: Final = 4.0
HEAVY_FAST: Final = 2.0
HEAVY_KNOWN: Final = 3.0

# Cases over which Kafka's own client works for four seconds and takes a gigabyte, and the factor on their limits.
LARGE: Final = frozenset(("resources.flood_of_messages[v1-large]",))
LARGE_FACTOR: Final = 2.0

# Parts of the memory that a testee may take: much for a question as stored, and for a heavy one.
GROWN: Final = 1 / 2
HEAVY_GROWN: Final = 1 / 4
# Factor of `much`; no testee that answers holds so much memory.
CLOSE: Final = 2.5
# That much more than at first, in bytes, and it is not spinning in one place.
MORE: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """How many seconds of its own time a line may take.

    Attributes:
        seconds: of one that sleeps.
        spins: of one that works and takes no memory; 0 for as long as one that sleeps.
        grows: of one that works and takes memory; 0 for as long as one that spins.
        much: bytes; a testee that holds so much at its limit ran out of memory.  With 0 memory is not checked.
        full: of one that holds so much; 0 for as long as one that grows.
        fast: of one that held twice as much after a second; 0 for as long as one that is full.
        close: of one that holds two and a half times as much; 0 for as long as one that is full.
        together: whether what all its threads work is its own time, or what the busiest does until it takes memory.
    """

    seconds: float
    spins: float = 0.0
    grows: float = 0.0
    much: int = 0
    full: float = 0.0
    fast: float = 0.0
    close: float = 0.0
    together: bool = False

    def spent(self, watch: Watch) -> float:
        """The seconds of its own that one that was watched took."""
        return watch.own_seconds(together=self.together or watch.more >= MORE)

    def of(self, watch: Watch) -> float:
        """The seconds for one that was watched."""
        if watch.idle:
            return self.seconds
        spins = self.spins or self.seconds
        grows = self.grows or spins
        if not watch.holds(self.much):
            return grows if watch.more >= MORE else spins
        full = self.full or grows
        if self.fast and watch.held_early(2 * self.much):
            return self.fast
        return self.close if self.close and watch.holds(int(CLOSE * self.much)) else full


def plain_limit(seconds: float, memory: int = 0, *, known: bool = False) -> TimeLimit:
    """For a question as stored, of a testee that may sleep *seconds* and take *memory* bytes."""
    spins, grows = (KNOWN_SPINS, KNOWN_GROWS) if known else (SPINS, BUSY)
    return TimeLimit(seconds, seconds * spins, seconds * grows, int(memory * GROWN), together=known)


def heavy_limit(seconds: float, memory: int = 0, *, known: bool = False, factor: float = 1.0) -> TimeLimit:
    """For a question whose input was made to take long; *factor* multiplies the limits."""
    least, most = max(HEAVY_SECONDS * factor, seconds), max(HEAVY_MOST * factor, seconds)
    if known:
        least = most = max(HEAVY_KNOWN * factor, seconds)
    fast, close = HEAVY_FAST * factor, min(least, HEAVY_CLOSE * factor)
    return TimeLimit(least, most, most, int(memory * HEAVY_GROWN), least, fast, close, together=True)


def time_factor(case: Case) -> float:
    """The factor on the time limits of *case*, if it is heavy."""
    return LARGE_FACTOR if case.id in LARGE else 1.0


# A codec that is the first of several parameters in an id.
_OF_A_CODEC: Final = re.compile(rf"(?<=\[)({'|'.join(COMPRESSIONS)})-")

# Case functions that test one thing, by that thing.
TIMEOUT_GROUPS: Final = {
    "a compressed stream is not whole": (
        "compression.half_of_the_frame",
        "compression.no_payload",
        "compression.no_payload_and_no_records",
        "gzip.member_cut_short",
        "gzip.optional_field_cut_short",
        "gzip.stored_block_longer_than_the_stream",
        "gzip.trailer_cut_short",
        "gzip.zlib_and_raw_deflate",
        "message_set.wrapper_with_empty_value",
        "message_set.wrapper_with_null_value",
        "truncation.compressed_bytes_end_early",
        "v2_batch.empty_batch_with_a_codec",
        "wrapper_ends.stream_ends_early",
    ),
    "an inner message is at or before itself": (
        "backwards.inner_message_at_itself",
        "backwards.inner_message_at_the_one_before",
    ),
    "a batch or a part of it is at or before itself": (
        "backwards.batch_at_itself",
        "backwards.batch_at_the_one_before",
        "backwards.header_at_itself",
        "backwards.record_at_itself",
        "backwards.value_at_the_message_before",
        "backwards.value_at_the_start_of_its_message",
    ),
    "a count of headers is above what there is": (
        "history.header_count_reserved_unseen",
        "resources.header_count_claims",
        "v2_headers.count_above_the_bytes_left",
        "varint.header_count_beyond_int32",
    ),
    "bytes of another kind are next to a frame": ("lz4.not_a_frame", "lz4_blocks.bytes_behind_the_frame"),
    "a great many headers": ("resources.flood_of_headers[small]", "resources.many_headers"),
}
# Groups in which a reader that moves backwards reads the same bytes for ever, and works all the time.
LOOPS: Final = frozenset(("an inner message is at or before itself", "a batch or a part of it is at or before itself"))
# Groups in which a reader may work for ever and take more and more memory.  Below the memory limit, what it holds when
# its time is over says only how much time it had, and the first of a timeout group has more than the others.
ENDLESS: Final = LOOPS | {"a count of headers is above what there is"}
_TIMEOUT_GROUP_OF: Final = {name: group for group, names in TIMEOUT_GROUPS.items() for name in names}


def may_loop(case: Case) -> bool:
    """Whether a reader may read the same bytes of *case* again and again."""
    return timeout_group(case) in LOOPS


def timeout_group(case: Case) -> str:
    """Cases are in one timeout group if `TIMEOUT_GROUPS` says so, or if only the codec differs, or by function.

    Other cases that claim sizes are in no group: they differ in how long they may take.
    """
    function = case.id.partition("[")[0]
    if group := _TIMEOUT_GROUP_OF.get(function) or _TIMEOUT_GROUP_OF.get(case.id):
        return group
    if _OF_A_CODEC.search(case.id):
        return _OF_A_CODEC.sub("", case.id)
    return "" if case.area == "resources" else function
