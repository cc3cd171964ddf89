"""How brokers find the batches in a produced payload (group FRM, and HDR where it is about lengths)."""

from __future__ import annotations

from kafka_corpus.authoring.batches import batch_of, bytes_of, some_records
from kafka_corpus.authoring.build import put, raw_message
from kafka_corpus.authoring.messages import numbered, set_of, wrapped
from kafka_corpus.authoring.steps import kept_batch, written
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import Fetch, Produce, ReadSegments, StepAnswer
from kafka_records.broker.errors import CORRUPT_MESSAGE, INVALID_RECORD, NONE, UNKNOWN_SERVER_ERROR
from kafka_records.constants import INT32_MAX, INT32_MIN
from kafka_records.layout import ENTRY

LAST_OF_V1 = 2  # the last produce version that takes messages
PLAIN = bytes_of(batch_of(*some_records(5)))
GZIP = bytes_of(batch_of(*some_records(5), compression="gzip"))
BATCHES = {"none": PLAIN, "gzip": GZIP}
MESSAGES = numbered(1, 0, 1, 2)
SENT_MESSAGES = set_of(MESSAGES, 1)


def prefix(size: int, *, more: int = 0) -> bytes:
    """The first 12 bytes of an entry of *size* bytes, and then *more* zeros."""
    return ENTRY.struct.pack(0, size) + bytes(more)


def resized(batch: bytes, size: int) -> bytes:
    """*batch* with *size* in its length field."""
    return put(batch, "batch_length", size)


@case(
    "FRM-04",
    "FRM-12",
    each={f"{name}, {count} bytes": (batch, count) for name, batch in BATCHES.items() for count in (1, 8, 11)},
)
def short_tail_is_cut_off(given: tuple[bytes, int]) -> Draft:
    """Fewer than 12 bytes after a batch are no error, whatever they are, and are not stored."""
    batch, count = given
    return produced(batch + b"\xff" * count, stored(kept_batch(batch)))


@case("FRM-04", "FRM-12", "LEG-24", each={"1 byte": 1, "11 bytes": 11})
def short_tail_of_messages_is_cut_off(count: int) -> Draft:
    """Fewer than 12 bytes after v1 messages are no error."""
    return produced(SENT_MESSAGES + b"\xff" * count, stored(written(*MESSAGES)), api_version=LAST_OF_V1)


@case(
    "FRM-05",
    each={
        f"{name}, {size}": resized(batch, size) for name, batch in BATCHES.items() for size in (13, 0, -1, INT32_MIN)
    },
)
def size_below_14_is_corrupt(payload: bytes) -> Draft:
    """A batch that claims fewer than 14 bytes after its length is corrupt."""
    return produced(payload, error_answer(CORRUPT_MESSAGE))


@case("FRM-05", each={"13": 13, "0": 0})
def size_below_14_is_corrupt_without_the_rest(size: int) -> Draft:
    """The size is tested as soon as 12 bytes are there, even if nothing follows them."""
    return produced(prefix(size), error_answer(CORRUPT_MESSAGE))


@case("FRM-05", each={"v0": 0, "v1": 1})
def size_of_a_message_below_14_is_corrupt(magic: int) -> Draft:
    """A message that claims fewer than 14 bytes after its size is corrupt."""
    return produced(raw_message(magic, message_size=13), error_answer(CORRUPT_MESSAGE), api_version=LAST_OF_V1)


@case(
    "FRM-05",
    "FRM-08",
    "FRM-09",
    "HDR-05",
    each={
        "size 13": (resized(PLAIN, 13), CORRUPT_MESSAGE),
        "magic 3": (put(PLAIN, "magic", 3), CORRUPT_MESSAGE),
        "size 2^31 - 1": (resized(PLAIN, INT32_MAX), UNKNOWN_SERVER_ERROR),
        "26 bytes": (resized(PLAIN, 14)[:26], UNKNOWN_SERVER_ERROR),
    },
)
def broken_framing_refuses_the_request(given: tuple[bytes, int]) -> Draft:
    """Where one partition's framing is broken, the whole request is refused, a good partition with it."""
    payload, code = given
    return scene((Produce(data=payload, beside=PLAIN), error_answer(code, beside=code)))


@case(
    "FRM-06",
    "FRM-12",
    each={
        f"{12 + more} bytes, size {size}": prefix(size, more=more)
        for more in (0, 2, 4)
        for size in (14, 1000, INT32_MAX)
    },
)
def start_of_a_batch_is_cut_off(tail: bytes) -> Draft:
    """12 to 16 bytes of another batch, of a size that can be, end the set cleanly: its magic is not there yet."""
    return produced(PLAIN + tail, stored(kept_batch(PLAIN)))


@case("FRM-07", "HDR-20", each={f"{name}, {size}": (name, size) for name in BATCHES for size in (12, 16, 17, 61, -1)})
def partial_batch_alone_is_no_batch(given: tuple[str, int]) -> Draft:
    """A batch that is cut short is no batch; a payload without any is refused."""
    name, size = given
    return produced(BATCHES[name][:size], error_answer(INVALID_RECORD))


@case("FRM-07", "FRM-12", each={f"{name}, {size}": (name, size) for name in BATCHES for size in (17, 61, -1)})
def partial_batch_behind_another_is_cut_off(given: tuple[str, int]) -> Draft:
    """A batch that is cut short after a whole one is silently left out."""
    name, size = given
    return produced(BATCHES[name] + PLAIN[:size], stored(kept_batch(BATCHES[name])))


@case("FRM-07", "FRM-12")
def partial_message_is_cut_off() -> Draft:
    """Of three v1 messages, the last a byte short, two are stored."""
    return produced(SENT_MESSAGES[:-1], stored(written(*MESSAGES[:2])), api_version=LAST_OF_V1)


@case("FRM-07", "FRM-12", each={"nothing": b"", "11 bytes": bytes(11), "all but one": raw_message(1)[:-1]})
def no_whole_message_is_no_error(payload: bytes) -> Draft:
    """Before produce version 3 a payload without any whole message is accepted, and nothing is stored."""
    return produced(payload, stored(b"", base_offset=-1), api_version=LAST_OF_V1)


@case("FRM-07", each={"17 bytes": 17, "60 bytes": 60, "all but one": len(PLAIN) - 1})
def fetch_ends_in_a_partial_batch(more: int) -> Draft:
    """A fetch with a limit ends at exactly that many bytes, in the middle of a batch."""
    second = kept_batch(PLAIN, base_offset=5)
    fetched = kept_batch(PLAIN) + second[:more]
    return scene(
        (Produce(data=PLAIN), stored(kept_batch(PLAIN))),
        (Produce(data=PLAIN), stored(second, base_offset=5)),
        (
            Fetch(max_bytes=len(PLAIN) + more),
            stored(fetched, base_offset=-1, high_watermark=10, last_stable_offset=10),
        ),
    )


@case("FRM-07")
def fetch_of_too_few_bytes_gives_the_first_batch() -> Draft:
    """The first batch of a fetch comes whole, though it is larger than the fetch allows (KIP-74)."""
    return scene(
        (Produce(data=PLAIN), stored(kept_batch(PLAIN))),
        (
            Fetch(max_bytes=1),
            stored(kept_batch(PLAIN), base_offset=-1, high_watermark=5, last_stable_offset=5),
        ),
    )


@case(
    "FRM-08",
    each={f"{name}, {magic}": put(batch, "magic", magic) for name, batch in BATCHES.items() for magic in (3, 127, -1)},
)
def unknown_magic_is_corrupt(payload: bytes) -> Draft:
    """A magic below 0 or above 2 is corrupt."""
    return produced(payload, error_answer(CORRUPT_MESSAGE))


@case("FRM-08", each={"17 bytes": 17, "all but one": -1})
def unknown_magic_of_a_partial_batch_is_corrupt(size: int) -> Draft:
    """The magic is tested on a batch that is cut short, and stands alone."""
    return produced(put(PLAIN, "magic", 3)[:size], error_answer(CORRUPT_MESSAGE))


@case("FRM-08", each={"3": 3, "-1": -1})
def unknown_magic_of_a_partial_tail_is_corrupt(magic: int) -> Draft:
    """The magic is tested on the bytes after the last whole batch, though these would be cut off."""
    return produced(PLAIN + put(PLAIN, "magic", magic)[:17], error_answer(CORRUPT_MESSAGE))


@case("FRM-08", each={"whole": None, "cut short": -1})
def unknown_magic_of_a_message_is_corrupt(size: int | None) -> Draft:
    """A magic above 2 is corrupt in old produce versions too."""
    return produced(put(raw_message(1), "magic", 9)[:size], error_answer(CORRUPT_MESSAGE), api_version=LAST_OF_V1)


@case(
    "FRM-09",
    each={
        f"{name}, 2^31 - {back}": resized(batch, INT32_MAX + 1 - back)
        for name, batch in BATCHES.items()
        for back in (1, 12)
    },
)
def overflowing_size_is_an_unknown_error(payload: bytes) -> Draft:
    """A size that overflows with its prefix is an IllegalArgumentException of Java's."""
    return produced(payload, error_answer(UNKNOWN_SERVER_ERROR))


@case("FRM-09", each=BATCHES)
def largest_size_is_a_partial_batch(batch: bytes) -> Draft:
    """The largest size that does not overflow, 2^31 - 13, is that of a batch that is cut short."""
    return produced(resized(batch, INT32_MAX - 12), error_answer(INVALID_RECORD))


@case("FRM-09", "FRM-13")
def overflowing_size_of_a_tail_is_an_unknown_error() -> Draft:
    """A size that overflows is an error after a whole batch, too."""
    return produced(PLAIN + prefix(INT32_MAX, more=5), error_answer(UNKNOWN_SERVER_ERROR))


@case("FRM-12", each=BATCHES)
def tail_does_not_reach_the_disk(batch: bytes) -> Draft:
    """The segment file holds the whole batch, and none of the bytes after it."""
    return scene(
        (Produce(data=batch + batch[:-1]), stored(kept_batch(batch))),
        (ReadSegments(), stored(kept_batch(batch), base_offset=-1)),
    )


@case("FRM-13", "FRM-05", each=BATCHES)
def tail_of_12_zeros_is_corrupt(batch: bytes) -> Draft:
    """12 zero bytes after a batch are a second one of size 0, which is corrupt."""
    return produced(batch + bytes(12), error_answer(CORRUPT_MESSAGE))


@case("FRM-13", "FRM-04", each=BATCHES)
def tail_of_11_zeros_is_cut_off(batch: bytes) -> Draft:
    """11 zero bytes after a batch are too few to be another."""
    return produced(batch + bytes(11), stored(kept_batch(batch)))


@case("FRM-13", "NST-24")
def tail_of_12_zeros_behind_a_wrapper_is_corrupt() -> Draft:
    """12 zero bytes after a v1 wrapper are corrupt as well."""
    data, _ = wrapped(MESSAGES, 1, "gzip")
    return produced(data + bytes(12), error_answer(CORRUPT_MESSAGE), api_version=LAST_OF_V1)


@case("HDR-24", "HDR-20", each={"no bytes": b"", "11 bytes": bytes(11), "16 bytes": prefix(100, more=4)})
def payload_without_a_batch_is_refused(payload: bytes) -> Draft:
    """A payload has to hold at least one batch; another partition in the same request is stored."""
    return scene((Produce(data=payload, beside=PLAIN), error_answer(INVALID_RECORD, beside=NONE)))


@case("HDR-20", each={f"{name}, {more}": (name, more) for name in BATCHES for more in (1, 1000)})
def length_above_what_is_there_is_no_batch(given: tuple[str, int]) -> Draft:
    """A batch length above the bytes that were sent leaves no whole batch, though all of it is there."""
    name, more = given
    batch = BATCHES[name]
    return produced(resized(batch, len(batch) - 12 + more), error_answer(INVALID_RECORD))


@case("HDR-21", each={f"{name}, {less}": (name, less) for name in BATCHES for less in (1, 11)})
def length_below_the_real_one_fails_the_checksum(given: tuple[str, int]) -> Draft:
    """A batch length below the real one cuts off bytes that the checksum covers."""
    name, less = given
    batch = BATCHES[name]
    return produced(resized(batch, len(batch) - 12 - less), error_answer(CORRUPT_MESSAGE))


@case("HDR-21", "FRM-05")
def length_far_below_the_real_one_breaks_the_next_batch() -> Draft:
    """If 12 bytes or more are cut off, they are framed as another batch before any checksum is looked at."""
    batch = bytes_of(batch_of(some_records(1)[0]._replace(value=bytes(40))))
    return produced(resized(batch, len(batch) - 12 - 13), error_answer(CORRUPT_MESSAGE))


@case("HDR-25")
def null_records_are_not_answered() -> Draft:
    """Null in place of records makes the broker fail while it builds the error, so it never answers."""
    return scene((Produce(), StepAnswer(silent=True)))
