"""How a byte string is split into entries, before anything inside one is read.

`ByteBufferLogInputStream#nextBatchSize`: fewer than 12 bytes are a clean end,
the size is tested as soon as 12 are there, the magic as soon as 17 are, and an
entry that is not all there is dropped in silence.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any, Final

from kafka_corpus.authoring.build import (
    TIMESTAMP,
    expected,
    grid,
    put,
    raw_batch,
    raw_message,
    raw_record,
    record,
    reseal,
    reseal_message,
    sealed,
)
from kafka_corpus.registry import Draft, case, invalid, must_write, valid
from kafka_records import Batch, Kind
from kafka_records.layout import ENTRY, MESSAGE_V0

INT32_MAX: Final = 2**31 - 1
# Kafka calls a size that cannot be "corrupt"; its bytes are malformed to others.
BAD_SIZE: Final[tuple[Kind, ...]] = ("malformed", "corrupt", "truncated")
BAD_MAGIC: Final[tuple[Kind, ...]] = ("unsupported_magic", "corrupt", "malformed")
MAGICS: Final = {"v0": 0, "v1": 1, "v2": 2}


def entry(magic: int, offset: int = 0, value: bytes = b"value") -> bytes:
    """One complete entry of this *magic*, with one record at *offset*."""
    if magic == 2:
        return raw_batch(raw_record(value=value), base_offset=offset)
    return raw_message(magic, value=value, offset=offset)


def decoded(magic: int, offset: int = 0, value: bytes = b"value") -> Batch:
    """The batch that `entry` with the same arguments decodes to."""
    timestamp = -1 if magic == 0 else TIMESTAMP
    made = expected(
        record(value, offset=offset, timestamp=timestamp), magic=magic, base_offset=offset, max_timestamp=timestamp
    )
    return replace(made, timestamp_type="none") if magic == 0 else made


def prefix(size: int, tail: bytes = b"") -> bytes:
    """The offset 7, *size* and the rest."""
    return ENTRY.struct.pack(7, size) + tail


@case("FRM-01", each=MAGICS)
def entry_takes_its_size_and_twelve(magic: int) -> Draft:
    """An entry starts with its offset and size, and takes 12 bytes more than the size says."""
    return valid(entry(magic, 3), decoded(magic, 3))


@case("FRM-01", each=MAGICS)
def writer_puts_offset_and_size_first(magic: int) -> Draft:
    """A writer puts an int64 offset and an int32 size in front of every entry."""
    return must_write(decoded(magic, 2**40 + 5), entry(magic, 2**40 + 5))


@case("FRM-02")
def nothing_is_an_empty_set() -> Draft:
    """No bytes are a set without entries."""
    return valid(b"")


SEQUENCES: Final = {
    ",".join(f"v{magic}" for magic in magics): magics
    for magics in ((2, 2), (0, 0), (1, 1), (0, 1, 2), (2, 1, 0), (2, 0, 2), (1, 2, 1))
}


@case("FRM-02", each=SEQUENCES)
def entries_follow_one_another(magics: tuple[int, ...]) -> Draft:
    """Entries of any magic follow one another, with nothing between them."""
    data = b"".join(entry(magic, offset) for offset, magic in enumerate(magics))
    return valid(data, *(decoded(magic, offset) for offset, magic in enumerate(magics)))


@case("FRM-02", each=MAGICS)
def hundred_entries(magic: int) -> Draft:
    """A hundred entries are read one after the other."""
    data = b"".join(entry(magic, offset, b"%d" % offset) for offset in range(100))
    return valid(data, *(decoded(magic, offset, b"%d" % offset) for offset in range(100)))


@case("FRM-02")
def offsets_of_entries_may_go_back() -> Draft:
    """The order of entries is that of their bytes, even where their offsets go back."""
    return valid(entry(2, 9) + entry(2, 4) + entry(2, 4), decoded(2, 9), decoded(2, 4), decoded(2, 4))


@case("FRM-02", each=MAGICS)
def array_count_in_front(magic: int) -> Draft:
    """An array count in front of the entries is read as part of the first offset, and the size is then 0."""
    return invalid(b"\x00\x00\x00\x01" + entry(magic), *BAD_SIZE)


@case("FRM-02", each=MAGICS)
def writer_puts_no_count_in_front(magic: int) -> Draft:
    """A writer starts with the entry itself, and no array count stands before it."""
    return must_write(decoded(magic, 0, b"count"), entry(magic, 0, b"count"))


@case("FRM-03", each={"0": 0, "0x00000001": 1, "0x00010000": 0x10000, "0x01010101": 0x01010101, "INT32_MIN": -(2**31)})
def bytes_before_the_magic_look_like_v0_or_v1(epoch: int) -> Draft:
    """Bytes 12 to 15 of a v2 batch are its leader epoch, whatever magic they resemble; byte 16 decides."""
    batch = expected(record(), partition_leader_epoch=epoch)
    return valid(sealed(batch), batch)


@case("FRM-03", each={"v0": 0, "v1": 1})
def crc_ends_in_two(magic: int) -> Draft:
    """The CRC of a message ends in 0x02, which is no magic: byte 16 decides."""
    value = next(value for nonce in count() if entry(magic, 0, value := b"%d" % nonce)[15] == 2)
    return valid(entry(magic, 0, value), decoded(magic, 0, value))


@case("FRM-04", each={"1 byte": 1, "8 bytes, the offset": 8, "11 bytes": 11})
def short_tail_ends_the_set(size: int) -> Draft:
    """Fewer than 12 bytes after the last entry are a clean end."""
    return valid(entry(2) + entry(2, 1)[:size], decoded(2))


@case("FRM-04", each={"1 byte": 1, "11 bytes": 11})
def short_input_is_an_empty_set(size: int) -> Draft:
    """Fewer than 12 bytes in all are a set without entries."""
    return valid(entry(2)[:size])


@case("FRM-04")
def eleven_bytes_of_ones() -> Draft:
    """A tail of 11 bytes 0xff ends the set: the size is not whole, so it is not looked at."""
    return valid(entry(2) + b"\xff" * 11, decoded(2))


LOW_SIZES: Final = {"INT32_MIN": -(2**31), "-13": -13, "-12": -12, "-1": -1, "0": 0, "1": 1, "12": 12, "13": 13}


@case("FRM-05", each=LOW_SIZES)
def low_size_in_twelve_bytes(size: int) -> Draft:
    """A size below 14 is refused as soon as 12 bytes are there, though nothing else is."""
    return invalid(prefix(size), *BAD_SIZE)


@case("FRM-05", each=MAGICS)
def size_thirteen_of_a_whole_entry(magic: int) -> Draft:
    """A size of 13 is below the floor in every format."""
    return invalid(put(entry(magic), "size", 13, layout=ENTRY), *BAD_SIZE)


@case("FRM-05", each={"-1": -1, "0": 0, "13": 13})
def low_size_of_the_second_entry(size: int) -> Draft:
    """A size below 14 in the second entry is refused, and the first entry is read."""
    return invalid(entry(2) + put(entry(2, 1), "size", size, layout=ENTRY), *BAD_SIZE, before=(decoded(2),))


@case("FRM-05")
def size_fourteen_is_the_floor() -> Draft:
    """A size of 14 is the smallest: a v0 message with null key and null value."""
    smallest = replace(decoded(0), records=(record(None, timestamp=-1),))
    return valid(raw_message(0, None, None), smallest)


@case("FRM-06", each={f"{size} bytes": size for size in range(12, 17)})
def tail_without_a_magic(size: int) -> Draft:
    """A tail of 12 to 16 bytes with a possible size is a clean end."""
    return valid(entry(1) + entry(2, 1)[:size], decoded(1))


@case("FRM-06", each={"14": 14, "INT32_MAX - 11": INT32_MAX - 11, "INT32_MAX": INT32_MAX})
def size_before_the_magic_is_visible(size: int) -> Draft:
    """Sixteen bytes with any size from 14 up are a clean end, even if the size will overflow."""
    return valid(prefix(size, b"\xff" * 4))


PARTIAL: Final = {"17 bytes": 17, "the header": 61, "all but one byte": -1}


@case("FRM-07", each=PARTIAL)
def partial_batch_alone(size: int) -> Draft:
    """A batch that is not all there is dropped in silence."""
    return valid(entry(2)[:size])


@case("FRM-07", each=PARTIAL)
def partial_batch_at_the_end(size: int) -> Draft:
    """A partial batch after a whole one is dropped in silence, and the whole one is read."""
    return valid(entry(2, 5) + entry(2, 6)[:size], decoded(2, 5))


@case("FRM-07", each={"v0": 0, "v1": 1})
def partial_message_at_the_end(magic: int) -> Draft:
    """A partial message after a whole one is dropped in silence."""
    return valid(entry(magic, 5) + entry(magic, 6)[:-1], decoded(magic, 5))


@case("FRM-07", each={"v0": 0, "v1": 1})
def seventeen_bytes_of_an_entry(magic: int) -> Draft:
    """Seventeen bytes show size and magic, which is enough to find nothing wrong."""
    return valid(entry(2, 5) + entry(magic, 6)[:17], decoded(2, 5))


@case("FRM-07")
def rest_of_a_partial_batch_is_not_looked_at() -> Draft:
    """After the magic of a partial batch, CRC, codec and count may be anything."""
    return valid(entry(2) + entry(2, 1)[:17] + b"\xff" * 44, decoded(2))


@case("FRM-07")
def size_one_byte_too_large() -> Draft:
    """A batch whose length is one byte too large is a partial batch."""
    data = entry(2)
    return valid(put(data, "batch_length", len(data) - 11))


@case("FRM-07", each=grid(magic={"v0": 0, "v1": 1}, by={"1": 1, "1000": 1000}))
def size_of_the_last_message_too_large(shape: dict[str, Any]) -> Draft:
    """A last message that is all there, but for a size that reaches beyond the end, is partial and dropped."""
    data = entry(shape["magic"], 6)
    return valid(
        entry(shape["magic"], 5) + put(data, "size", len(data) - 12 + shape["by"], layout=ENTRY),
        decoded(shape["magic"], 5),
    )


@case("FRM-07")
def length_swallows_the_next_batch() -> Draft:
    """A batch whose length reaches to the end of the next one is whole, and its CRC is wrong."""
    data = entry(2) + entry(2, 1)
    return invalid(put(data, "batch_length", len(data) - 12), "corrupt", "malformed")


@case("FRM-03", "FRM-11", each={"v0": 0, "v1": 1})
def message_that_looks_like_an_empty_batch(magic: int) -> Draft:
    """A message after a batch is read by its own magic, though its zeros would make an empty batch."""
    zeros = bytes(60)
    return valid(entry(2) + entry(magic, 1, zeros), decoded(2), decoded(magic, 1, zeros))


@case("FRM-01", each=MAGICS)
def length_one_byte_too_small(magic: int) -> Draft:
    """An entry whose size is one byte too small has lost a byte that its CRC covers."""
    data = entry(magic)
    return invalid(put(data, "size", len(data) - 13, layout=ENTRY), "corrupt", "malformed", "truncated")


BAD_MAGICS: Final = {"3": 3, "4": 4, "127": 127, "-1": -1, "-128": -128}


@case("FRM-08", each=BAD_MAGICS)
def unknown_magic(magic: int) -> Draft:
    """A whole batch with a magic that does not exist is refused."""
    return invalid(put(entry(2), "magic", magic), *BAD_MAGIC)


@case("FRM-08", each={"3": 3, "-1": -1})
def unknown_magic_of_a_partial_batch(magic: int) -> Draft:
    """The magic is tested as soon as 17 bytes are there, though the batch is partial."""
    return invalid(entry(2, 5) + put(entry(2, 6), "magic", magic)[:17], *BAD_MAGIC, before=(decoded(2, 5),))


@case("FRM-08", each={"v0": 0, "v1": 1})
def unknown_magic_of_a_message(magic: int) -> Draft:
    """A message with magic 3 and a right CRC is refused for its magic."""
    return invalid(reseal_message(put(entry(magic), "magic", 3)), *BAD_MAGIC)


@case("FRM-08", each=grid(layout={"v0": 0, "v1": 1}, magic={"-1": -1, "-128": -128, "127": 127}), since="1.1")
def other_magic_of_a_message(row: dict[str, int]) -> Draft:
    """A message with a right CRC and a magic that is negative, or the largest, is refused for its magic."""
    return invalid(reseal_message(put(entry(row["layout"]), "magic", row["magic"])), *BAD_MAGIC)


@case("FRM-09", each={"INT32_MAX - 11": INT32_MAX - 11, "INT32_MAX - 1": INT32_MAX - 1, "INT32_MAX": INT32_MAX})
def size_overflows_with_its_prefix(size: int) -> Draft:
    """A size that exceeds int32 with its 12 bytes is refused.

    In Java the sum is negative, and an undeclared IllegalArgumentException escapes.
    """
    return invalid(put(entry(2), "batch_length", size), *BAD_SIZE)


@case("FRM-10", each={"INT32_MAX - 12": INT32_MAX - 12, "2**30": 2**30, "104857601": 104857601})
def no_maximum_size(size: int) -> Draft:
    """However large the size, up to the largest int32, the batch is partial and no error."""
    return valid(put(entry(2), "batch_length", size))


@case("FRM-11", each={"0x80": -128, "0x81": -127, "0x82": -126, "0xfe": -2})
def magic_is_signed(magic: int) -> Draft:
    """The magic is a signed number: a set top bit makes it negative, and its low bits do not count."""
    return invalid(entry(1) + put(entry(2, 1), "magic", magic), *BAD_MAGIC, before=(decoded(1),))


@case("FRM-11", each={"v0": 0, "v1": 1})
def batch_labelled_as_message(magic: int) -> Draft:
    """A v2 batch with magic 0 or 1 goes to the message parser, and its CRC-32 is wrong."""
    return invalid(put(entry(2), "magic", magic), "corrupt", "malformed", "truncated")


@case("FRM-11")
def message_labelled_as_batch() -> Draft:
    """A long v1 message with magic 2 goes to the batch parser, and its CRC-32C is wrong."""
    return invalid(put(entry(1, 0, b"x" * 80), "magic", 2), "corrupt", "malformed")


@case("FRM-11")
def short_message_labelled_as_batch() -> Draft:
    """A message of fewer than 61 bytes with magic 2 is too small for a batch."""
    return invalid(put(entry(1), "magic", 2), *BAD_SIZE)


@case("FRM-13", each=MAGICS)
def eleven_zero_bytes(magic: int) -> Draft:
    """Eleven zero bytes after an entry are a clean end."""
    return valid(entry(magic) + bytes(11), decoded(magic))


@case("FRM-13", each=MAGICS)
def twelve_zero_bytes(magic: int) -> Draft:
    """Twelve zero bytes after an entry show a size of 0 and are refused."""
    return invalid(entry(magic) + bytes(12), *BAD_SIZE, before=(decoded(magic),))


@case("FRM-13", each={"16 zero bytes": bytes(16), "100 zero bytes": bytes(100), "4096 bytes 0xff": b"\xff" * 4096})
def padding(tail: bytes) -> Draft:
    """Padding after the last batch, zeros or bytes 0xff, is refused for its size."""
    return invalid(entry(2) + tail, *BAD_SIZE, before=(decoded(2),))


@case("FRM-13")
def entry_of_the_third_is_checked() -> Draft:
    """Two entries are read, and the size of the third is refused."""
    return invalid(entry(0) + entry(1, 1) + prefix(13), *BAD_SIZE, before=(decoded(0), decoded(1, 1)))


@case("FRM-14")
def prefetched_header_ends_the_set() -> Draft:
    """A tail that is the header of a batch and no more, as a prefetching reader sees it, ends the set."""
    return valid(entry(2) + entry(2, 1) + entry(2, 2, b"x" * 500)[:61], decoded(2), decoded(2, 1))


@case("FRM-15")
def crc_is_checked_entry_by_entry() -> Draft:
    """A wrong CRC is found when its batch is read, so the batches before it are there."""
    broken = put(entry(2, 1), "crc", 1)
    return invalid(entry(2) + broken + entry(2, 2), "corrupt", before=(decoded(2),))


@case("FRM-15")
def crc_of_a_partial_batch() -> Draft:
    """A partial batch with a wrong CRC is dropped like any other."""
    return valid(entry(2) + put(entry(2, 1), "crc", 1)[:-1], decoded(2))


@case("FRM-03")
def magic_before_size_of_the_header() -> Draft:
    """A v0 message is shorter than a v2 header, and its byte 16 decides how it is read."""
    return valid(entry(0, 0, b"") + entry(1, 1, b""), decoded(0, 0, b""), decoded(1, 1, b""))


@case("FRM-01")
def resealed_after_growing() -> Draft:
    """A batch that grew by a record, with length, count and CRC made right, is whole again."""
    data = raw_batch(raw_record() + raw_record(offset_delta=1), record_count=2)
    grown = reseal(put(data + raw_record(offset_delta=2), "batch_length", len(data) - 12 + len(raw_record())))
    data = reseal(put(put(grown, "record_count", 3), "last_offset_delta", 2))
    return valid(data, expected(*(record(offset=offset) for offset in range(3))))


@case("FRM-03", each=MAGICS)
def magic_lies_at_byte_sixteen(magic: int) -> Draft:
    """The byte that decides is the 17th; the offset may hold other magics in every byte."""
    offset = 0x0202010100000101
    assert entry(magic)[MESSAGE_V0.field("magic").offset] == magic
    return valid(entry(magic, offset), decoded(magic, offset))
