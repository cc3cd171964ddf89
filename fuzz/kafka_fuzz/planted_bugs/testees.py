"""Planted bugs that are functions of their own: decoders, encoders, and processes that misbehave.

Each one is the reference with its input or its output changed.  As a testee it is
`planted:swaps_key_and_value`, or `direct:kafka_fuzz.planted_bugs.testees.swaps_key_and_value`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import zlib
from collections.abc import Callable
from difflib import get_close_matches
from typing import Final, NoReturn
from zlib import crc32

import msgspec
from msgspec import UNSET, UnsetType

from kafka_conformance.testees import reference
from kafka_conformance.testees.interface import CodecError, NotDone
from kafka_corpus.wire import WireBatch, WireRecord
from kafka_fuzz.planted_bugs.bug import PlantedBug, WireDecoder, WireEncoder
from kafka_records.checksum import checksum_legacy, checksum_v2
from kafka_records.constants import INT32_MAX, LOG_OVERHEAD
from kafka_records.layout import BATCH_V2, MESSAGE_V0


def on_batches(change: Callable[[WireBatch], None]) -> WireDecoder:
    """The reference's decoder, with *change* done to each batch that it gives."""

    def decode(data: bytes) -> list[WireBatch]:
        batches = reference.decode(data)
        for batch in batches:
            change(batch)
        return batches

    return decode


def on_records(change: Callable[[WireRecord], None]) -> WireDecoder:
    """The reference's decoder, with *change* done to each record that it gives."""

    def change_all(batch: WireBatch) -> None:
        for record in known_records(batch):
            change(record)

    return on_batches(change_all)


def known_records(batch: WireBatch) -> list[WireRecord]:
    """The records of *batch*, none if they are left out."""
    return [] if batch.records is UNSET else batch.records


def _wait(_question: object) -> NoReturn:
    while True:
        time.sleep(3600)


def _refuse(_question: object) -> NoReturn:
    raise CodecError("corrupt", "refused")


def _skip(_question: object) -> NoReturn:
    raise NotDone("skipped")


def _accept(_data: bytes) -> list[WireBatch]:
    return []


def _write_nothing(_batch: WireBatch) -> bytes:
    return b""


MUTE = PlantedBug(NAME="mute", wrong="answers nothing", caught_as="hang", decode=_wait, encode=_wait)
ACCEPT_ALL = PlantedBug(
    NAME="accept_all",
    wrong="accepts everything as nothing",
    caught_as="accepts_invalid",
    decode=_accept,
    encode=_write_nothing,
)
REFUSE_ALL = PlantedBug(
    NAME="refuse_all", wrong="refuses everything", caught_as="rejects_valid", decode=_refuse, encode=_refuse
)
SKIP_ALL = PlantedBug(NAME="skip_all", wrong="skips everything", caught_as=None, decode=_skip, encode=_skip)


# What one slot of an array of references takes.
SLOT: Final = 8
STRAY_LINE: Final = "DEBUG decoding, please wait...\n"


def _crash_on_headers(data: bytes) -> list[WireBatch]:
    batches = reference.decode(data)
    if any(record.headers for batch in batches for record in known_records(batch)):
        os.kill(os.getpid(), signal.SIGSEGV)
    return batches


def _exit_on_errors(data: bytes) -> list[WireBatch]:
    try:
        return reference.decode(data)
    except Exception as error:
        sys.stderr.write(f"panic: {error}\n")
        sys.stderr.flush()
        os._exit(101)


def _hang_on_lz4(data: bytes) -> list[WireBatch]:
    batches = reference.decode(data)
    while any(batch.compression == "lz4" for batch in batches):
        pass
    return batches


def _allocate_by_count(data: bytes) -> list[WireBatch]:
    count = BATCH_V2.field("record_count")
    claimed = int.from_bytes(data[count.offset : count.offset + count.width], "big", signed=True)
    if len(data) >= BATCH_V2.size and data[BATCH_V2.field("magic").offset] == 2 and claimed > 0:
        bytearray(claimed * SLOT)
    return reference.decode(data)


def _stray_lines(data: bytes) -> list[WireBatch]:
    sys.stdout.write(STRAY_LINE)
    sys.stdout.flush()
    return reference.decode(data)


def _crash_on_a_tenth(data: bytes) -> list[WireBatch]:
    if not crc32(data) % 10:
        os._exit(70)
    return reference.decode(data)


def _crash_on_a_tenth_written(batch: WireBatch) -> bytes:
    if not crc32(msgspec.json.encode(batch)) % 10:
        os._exit(70)
    return reference.encode(batch)


CRASHES_ON_HEADERS = PlantedBug(
    NAME="crashes_on_headers", wrong="a segmentation fault on headers", caught_as="crash", decode=_crash_on_headers
)
CRASHES_ON_A_TENTH = PlantedBug(
    NAME="crashes_on_a_tenth",
    wrong="ends on one question in ten",
    caught_as="crash",
    decode=_crash_on_a_tenth,
    encode=_crash_on_a_tenth_written,
)
PANICS = PlantedBug(NAME="panics", wrong="ends on what it should refuse", caught_as="crash", decode=_exit_on_errors)
HANGS_ON_LZ4 = PlantedBug(NAME="hangs_on_lz4", wrong="loops for ever on lz4", caught_as="hang", decode=_hang_on_lz4)
ALLOCATES_BY_COUNT = PlantedBug(
    NAME="allocates_by_count",
    wrong="takes memory for as many records as the header claims",
    caught_as="memory",
    decode=_allocate_by_count,
)
PRINTS_STRAY_LINES = PlantedBug(
    NAME="prints_stray_lines", wrong="prints to standard output", caught_as=None, decode=_stray_lines
)


MAGIC_AT: Final = BATCH_V2.field("magic").offset
CRC_V2: Final = BATCH_V2.field("crc")
CRC_V0: Final = MESSAGE_V0.field("crc")
ATTRIBUTES: Final = BATCH_V2.field("attributes").offset + 1  # the byte that is looked at
APPEND_TIME: Final = 0x08
CODEC: Final = 0x07
GZIP: Final = 1
XERIAL: Final = b"\x82SNAPPY\x00"


def _is_v2(data: bytes) -> bool:
    return len(data) >= BATCH_V2.size and data[MAGIC_AT] == 2


def _resealed(data: bytes) -> bytes:
    """*data*, one whole entry, with the checksum that it should have."""
    if _is_v2(data):
        return data[: CRC_V2.offset] + checksum_v2(data).to_bytes(4, "big") + data[CRC_V2.offset + 4 :]
    if len(data) > MAGIC_AT and data[MAGIC_AT] in (0, 1):
        return data[: CRC_V0.offset] + checksum_legacy(data).to_bytes(4, "big") + data[CRC_V0.offset + 4 :]
    return data


def _ignores_crc(data: bytes) -> list[WireBatch]:
    size = int.from_bytes(data[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
    whole = LOG_OVERHEAD < size <= len(data)
    return reference.decode(_resealed(data[:size]) + data[size:] if whole else data)


def _crc_covers_epoch(data: bytes) -> list[WireBatch]:
    stored = int.from_bytes(data[CRC_V2.offset : CRC_V2.offset + 4], "big")
    if _is_v2(data) and stored != zlib.crc32(data[LOG_OVERHEAD:]):
        raise CodecError("corrupt", "the checksum does not match")
    return reference.decode(data)


def _no_zigzag(record: WireRecord) -> None:
    """A length read without zig-zag is twice too long: what follows goes with it."""
    if record.key and isinstance(record.value, bytes):
        taken = record.value[: len(record.key)]
        record.key, record.value = record.key + taken, record.value[len(taken) :]


def _empty_as_null(record: WireRecord) -> None:
    record.key = record.key or None if record.key is not UNSET else UNSET
    record.value = record.value or None if record.value is not UNSET else UNSET


def _null_as_empty(record: WireRecord) -> None:
    record.key = b"" if record.key is None else record.key
    record.value = b"" if record.value is None else record.value


def _drops_headers(record: WireRecord) -> None:
    record.headers = []


def _ignores_append_time(data: bytes) -> list[WireBatch]:
    """Record timestamps as they stand in the records, whatever the batch says."""
    if not (_is_v2(data) and data[ATTRIBUTES] & APPEND_TIME):
        return reference.decode(data)
    reference.decode(data)
    cleared = data[:ATTRIBUTES] + bytes((data[ATTRIBUTES] & ~APPEND_TIME,)) + data[ATTRIBUTES + 1 :]
    batches = reference.decode(_resealed(cleared))
    for batch in batches:
        batch.timestamp_type = "append"
    return batches


def _relative_offsets(batch: WireBatch) -> None:
    """Inner offsets of a v1 wrapper as they stand there."""
    if batch.magic == 1 and batch.compression != "none":
        first = known_records(batch)[0].offset
        for record in known_records(batch):
            assert isinstance(record.offset, int)
            assert isinstance(first, int)
            record.offset -= first


def _first_gzip_member(data: bytes) -> list[WireBatch]:
    if _is_v2(data) and data[ATTRIBUTES] & CODEC == GZIP:
        reference.decode(data)
        first = zlib.decompressobj(31)
        first.decompress(data[BATCH_V2.size :])
        if first.unused_data:
            raise CodecError("truncated", "the data ends before the records do")
    return reference.decode(data)


def _drops_the_tail(data: bytes) -> list[WireBatch]:
    """Takes whatever stands before the first error, and says nothing about the error."""
    try:
        return reference.decode(data)
    except CodecError as error:
        return error.batches


def _raw_snappy_only(data: bytes) -> list[WireBatch]:
    batches = reference.decode(data)
    if XERIAL in data:
        raise CodecError("decompression", "corrupt snappy data")
    return batches


def _last_offset_by_one(batch: WireBatch) -> None:
    assert isinstance(batch.last_offset, int)
    batch.last_offset += 1


def _unsigned_epoch(batch: WireBatch) -> None:
    assert isinstance(batch.producer_epoch, int)
    batch.producer_epoch &= 0xFFFF


def _sequence_overflows(batch: WireBatch) -> None:
    """The sequence of the last record, as if the sequence of the batch could not wrap."""
    assert isinstance(batch.base_sequence, int)
    assert isinstance(batch.last_offset, int)
    assert isinstance(batch.base_offset, int)
    if batch.base_sequence + batch.last_offset - batch.base_offset > INT32_MAX:
        batch.base_sequence -= 1 << 32


def _swaps_key_and_value(record: WireRecord) -> None:
    record.key, record.value = record.value, record.key


def _timestamps_of_32_bits(record: WireRecord) -> None:
    assert isinstance(record.timestamp, int)
    record.timestamp &= 0xFFFFFFFF


def _keys_as_text(record: WireRecord) -> None:
    assert isinstance(record.headers, list)
    record.headers = [(key.decode(errors="replace").encode(), value) for key, value in record.headers]


def _one_kind_of_error(data: bytes) -> list[WireBatch]:
    try:
        return reference.decode(data)
    except CodecError as error:
        raise CodecError("unsupported_magic", str(error)) from error


def _drops_the_last_record(batch: WireBatch) -> None:
    if len(known_records(batch)) > 1:
        batch.records = known_records(batch)[:-1]


def _refuses_empty(data: bytes) -> list[WireBatch]:
    batches = reference.decode(data)
    if any(not known_records(batch) for batch in batches):
        raise CodecError("malformed", "a batch without records")
    return batches


IGNORES_CRC = PlantedBug(
    NAME="ignores_crc",
    budget=1_000,
    wrong="does not look at the checksum",
    caught_as="accepts_invalid",
    decode=_ignores_crc,
)
CRC_COVERS_EPOCH = PlantedBug(
    NAME="crc_covers_epoch",
    budget=50,
    wrong="a CRC of another kind, over the leader epoch too",
    caught_as="rejects_valid",
    decode=_crc_covers_epoch,
)
NO_ZIGZAG = PlantedBug(
    NAME="no_zigzag",
    budget=50,
    wrong="reads lengths without zig-zag",
    caught_as="wrong_data",
    decode=on_records(_no_zigzag),
)
EMPTY_AS_NULL = PlantedBug(
    NAME="empty_as_null", budget=50, wrong="empty is null", caught_as="wrong_data", decode=on_records(_empty_as_null)
)
NULL_AS_EMPTY = PlantedBug(
    NAME="null_as_empty", budget=50, wrong="null is empty", caught_as="wrong_data", decode=on_records(_null_as_empty)
)
DROPS_HEADERS = PlantedBug(
    NAME="drops_headers", budget=50, wrong="reads no headers", caught_as="wrong_data", decode=on_records(_drops_headers)
)
IGNORES_APPEND_TIME = PlantedBug(
    NAME="ignores_append_time",
    budget=500,
    wrong="LogAppendTime does not override the records' timestamps",
    caught_as="wrong_data",
    decode=_ignores_append_time,
)
RELATIVE_OFFSETS = PlantedBug(
    NAME="relative_offsets",
    budget=200,
    wrong="inner offsets of a v1 wrapper are not made absolute",
    caught_as="wrong_data",
    decode=on_batches(_relative_offsets),
)
FIRST_GZIP_MEMBER = PlantedBug(
    NAME="first_gzip_member",
    budget=500,
    wrong="reads the first gzip member",
    caught_as="rejects_valid",
    decode=_first_gzip_member,
)
DROPS_THE_TAIL = PlantedBug(
    NAME="drops_the_tail",
    budget=50,
    wrong="takes the rest after an error for padding",
    caught_as="accepts_invalid",
    decode=_drops_the_tail,
)
RAW_SNAPPY_ONLY = PlantedBug(
    NAME="raw_snappy_only",
    budget=50,
    wrong="knows no xerial blocks",
    caught_as="rejects_valid",
    decode=_raw_snappy_only,
)
LAST_OFFSET_BY_ONE = PlantedBug(
    NAME="last_offset_by_one",
    budget=50,
    wrong="the last offset is the next one",
    caught_as="wrong_data",
    decode=on_batches(_last_offset_by_one),
)
UNSIGNED_EPOCH = PlantedBug(
    NAME="unsigned_epoch",
    budget=50,
    wrong="the producer epoch is unsigned",
    caught_as="wrong_data",
    decode=on_batches(_unsigned_epoch),
)
SEQUENCE_OVERFLOWS = PlantedBug(
    NAME="sequence_overflows",
    budget=1_000,
    wrong="sequences do not wrap",
    caught_as="wrong_data",
    decode=on_batches(_sequence_overflows),
)
SWAPS_KEY_AND_VALUE = PlantedBug(
    NAME="swaps_key_and_value",
    budget=50,
    wrong="key is value",
    caught_as="wrong_data",
    decode=on_records(_swaps_key_and_value),
)
TIMESTAMPS_OF_32_BITS = PlantedBug(
    NAME="timestamps_of_32_bits",
    budget=50,
    wrong="timestamps are cut to 32 bits",
    caught_as="wrong_data",
    decode=on_records(_timestamps_of_32_bits),
)
KEYS_AS_TEXT = PlantedBug(
    NAME="keys_as_text",
    budget=2_000,
    wrong="header keys become text",
    caught_as="lossy",
    decode=on_records(_keys_as_text),
)
ONE_KIND_OF_ERROR = PlantedBug(
    NAME="one_kind_of_error", wrong="every error is the same", caught_as="wrong_error", decode=_one_kind_of_error
)
DROPS_THE_LAST_RECORD = PlantedBug(
    NAME="drops_the_last_record",
    budget=50,
    wrong="stops one record early",
    caught_as="wrong_data",
    decode=on_batches(_drops_the_last_record),
)
REFUSES_EMPTY = PlantedBug(
    NAME="refuses_empty",
    budget=1_000,
    wrong="refuses compacted, empty batches",
    caught_as="rejects_valid",
    decode=_refuses_empty,
)


CRC: Final = BATCH_V2.field("crc")


def _zero_crc(batch: WireBatch) -> bytes:
    data = reference.encode(batch)
    return data if batch.magic != 2 else data[: CRC.offset] + bytes(4) + data[CRC.offset + 4 :]


def _without_headers(batch: WireBatch) -> bytes:
    records = [WireRecord(r.offset, r.timestamp, r.key, r.value, []) for r in known_records(batch)]
    return reference.encode(_changed(batch, records))


def _seconds(batch: WireBatch) -> bytes:
    records = [WireRecord(r.offset, _cut(r.timestamp), r.key, r.value, r.headers) for r in known_records(batch)]
    return reference.encode(_changed(batch, records))


def _cut(timestamp: int | UnsetType) -> int | UnsetType:
    return timestamp if timestamp is UNSET else timestamp // 1000 * 1000


def _changed(batch: WireBatch, records: list[WireRecord]) -> WireBatch:
    names = [name for name in batch.__struct_fields__ if name != "records"]
    return WireBatch(**{name: getattr(batch, name) for name in names}, records=records)


def _writer(name: str, wrong: str, encode: WireEncoder) -> PlantedBug:
    return PlantedBug(NAME=name, wrong=wrong, caught_as="wrong_data", encode=encode)


WRITES_NO_CRC = _writer("writes_no_crc", "leaves the checksum at zero", _zero_crc)
WRITES_NO_HEADERS = _writer("writes_no_headers", "forgets headers", _without_headers)
WRITES_SECONDS = _writer("writes_seconds", "rounds timestamps to seconds", _seconds)


TESTEE_BUGS: Final[dict[str, PlantedBug]] = {
    bug.NAME: bug for bug in tuple(globals().values()) if isinstance(bug, PlantedBug)
}

# Testees that do nothing, or the same with every case: their score is 0.
NULL_TESTEES: Final = frozenset(("mute", "accept_all", "refuse_all", "skip_all"))


def __getattr__(name: str) -> PlantedBug:
    if name.startswith("__"):  # looked up by the import system
        raise AttributeError(name)
    from kafka_fuzz.planted_bugs import PLANTED_BUGS  # the package imports this module

    if name in PLANTED_BUGS:
        return PLANTED_BUGS[name]
    near = get_close_matches(name, PLANTED_BUGS, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(PLANTED_BUGS)}"
    raise AttributeError(f"there is no planted bug {name!r}; {hint}")
