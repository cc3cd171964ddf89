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
from functools import wraps
from typing import Any, Final, NoReturn

import msgspec
from msgspec import UNSET, UnsetType

from kafka_conformance.judge.verdict import Severity
from kafka_conformance.testees import reference
from kafka_conformance.testees.interface import CodecError, NotDone
from kafka_corpus.wire import WireBatch, WireRecord
from kafka_fuzz.mutate.fixup import with_crc
from kafka_fuzz.planted_bugs.bug import PlantedBug, WireDecoder, WireEncoder
from kafka_records.constants import INT32_MAX, LOG_OVERHEAD
from kafka_records.layout import BATCH_V2

TESTEE_BUGS: Final[dict[str, PlantedBug]] = {}


def planted_decoder(
    caught_as: Severity | None, budget: int | None = None, **fields: Any
) -> Callable[[WireDecoder], PlantedBug]:
    """Make a decoder a planted bug, named after the function; the first line of its docstring is the bug."""
    return lambda decode: _entered(decode, caught_as=caught_as, budget=budget, decode=decode, **fields)


def planted_encoder(encode: WireEncoder) -> PlantedBug:
    """Make an encoder a planted bug."""
    return _entered(encode, caught_as="wrong_data", encode=encode)


def _entered(function: Callable[..., object], **fields: Any) -> PlantedBug:
    wrong = (function.__doc__ or "").partition("\n")[0]
    bug = TESTEE_BUGS[function.__name__] = PlantedBug(NAME=function.__name__, wrong=wrong, **fields)
    return bug


def on_batches(change: Callable[[WireBatch], None]) -> WireDecoder:
    """The reference's decoder, with *change* done to each batch that it gives."""

    @wraps(change)
    def decode(data: bytes) -> list[WireBatch]:
        batches = reference.decode(data)
        for batch in batches:
            change(batch)
        return batches

    return decode


def on_records(change: Callable[[WireRecord], None]) -> WireDecoder:
    """The reference's decoder, with *change* done to each record that it gives."""

    @wraps(change)
    def change_all(batch: WireBatch) -> None:
        for record in known_records(batch):
            change(record)

    return on_batches(change_all)


def known_records(batch: WireBatch) -> list[WireRecord]:
    """The records of *batch*, none if they are left out."""
    return [] if batch.records is UNSET else batch.records


def _wait(_request: object) -> NoReturn:
    while True:
        time.sleep(3600)


def _refuse(_request: object) -> NoReturn:
    raise CodecError("corrupt", "refused")


def _skip(_request: object) -> NoReturn:
    raise NotDone("skipped")


@planted_decoder("hang", encode=_wait)
def mute(data: bytes) -> list[WireBatch]:
    """It never answers."""
    _wait(data)


@planted_decoder("accepts_invalid", encode=lambda _batch: b"")
def accept_all(_data: bytes) -> list[WireBatch]:
    """It accepts every input, and returns nothing."""
    return []


@planted_decoder("rejects_valid", encode=_refuse)
def refuse_all(data: bytes) -> list[WireBatch]:
    """It refuses every input."""
    _refuse(data)


@planted_decoder(None, encode=_skip)
def skip_all(data: bytes) -> list[WireBatch]:
    """It skips every request."""
    _skip(data)


# Testees that do nothing, or the same with every case: their score is 0.
NULL_TESTEES: Final = frozenset(TESTEE_BUGS)

# The bytes of one slot in an array of references.
SLOT: Final = 8
# Bytes that are allocated at once: a size that no machine has would fail and take nothing.
PIECE: Final = 16 << 20
STRAY_LINE: Final = "DEBUG decoding, please wait...\n"


@planted_decoder("crash")
def crashes_on_headers(data: bytes) -> list[WireBatch]:
    """Record headers cause a segmentation fault."""
    batches = reference.decode(data)
    if any(record.headers for batch in batches for record in known_records(batch)):
        os.kill(os.getpid(), signal.SIGSEGV)
    return batches


def _crash_on_a_tenth_written(batch: WireBatch) -> bytes:
    if not zlib.crc32(msgspec.json.encode(batch)) % 10:
        os._exit(70)
    return reference.encode(batch)


@planted_decoder("crash", encode=_crash_on_a_tenth_written)
def crashes_on_a_tenth(data: bytes) -> list[WireBatch]:
    """One request in ten ends the process."""
    if not zlib.crc32(data) % 10:
        os._exit(70)
    return reference.decode(data)


@planted_decoder("crash")
def panics(data: bytes) -> list[WireBatch]:
    """Each input that has to be refused ends the process."""
    try:
        return reference.decode(data)
    except Exception as error:
        sys.stderr.write(f"panic: {error}\n")
        sys.stderr.flush()
        os._exit(101)


@planted_decoder("hang")
def hangs_on_lz4(data: bytes) -> list[WireBatch]:
    """An lz4 batch causes an endless loop."""
    batches = reference.decode(data)
    while any(batch.compression == "lz4" for batch in batches):
        pass
    return batches


@planted_decoder("memory")
def allocates_by_count(data: bytes) -> list[WireBatch]:
    """Memory is allocated for as many records as the header claims."""
    count = BATCH_V2.field("record_count")
    claimed = int.from_bytes(data[count.offset : count.offset + count.width], "big", signed=True)
    if _is_v2(data) and claimed > 0:
        held = [bytearray(min(PIECE, claimed * SLOT - begin)) for begin in range(0, claimed * SLOT, PIECE)]
        held.clear()
    return reference.decode(data)


@planted_decoder(None)
def prints_stray_lines(data: bytes) -> list[WireBatch]:
    """It prints other lines to standard output."""
    sys.stdout.write(STRAY_LINE)
    sys.stdout.flush()
    return reference.decode(data)


MAGIC_AT: Final = BATCH_V2.field("magic").offset
CRC: Final = BATCH_V2.field("crc")
ATTRIBUTES: Final = BATCH_V2.field("attributes").offset + 1  # the lower byte
APPEND_TIME: Final = 0x08
CODEC: Final = 0x07
GZIP: Final = 1
XERIAL: Final = b"\x82SNAPPY\x00"


def _is_v2(data: bytes) -> bool:
    return len(data) >= BATCH_V2.size and data[MAGIC_AT] == 2


@planted_decoder("accepts_invalid", budget=1_000)
def ignores_crc(data: bytes) -> list[WireBatch]:
    """The checksum of the first entry is not verified."""
    size = int.from_bytes(data[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
    whole = LOG_OVERHEAD < size <= len(data) and data[MAGIC_AT : MAGIC_AT + 1] in (b"\0", b"\1", b"\2")
    return reference.decode(with_crc(data[:size]) + data[size:] if whole else data)


@planted_decoder("rejects_valid", budget=50)
def crc_covers_epoch(data: bytes) -> list[WireBatch]:
    """The checksum is a CRC-32 that covers the leader epoch, too."""
    stored = int.from_bytes(data[CRC.offset : CRC.offset + 4], "big")
    if _is_v2(data) and stored != zlib.crc32(data[LOG_OVERHEAD:]):
        raise CodecError("corrupt", "the checksum does not match")
    return reference.decode(data)


@planted_decoder("wrong_data", budget=50)
@on_records
def no_zigzag(record: WireRecord) -> None:
    """Lengths are read without zig-zag, so a key takes bytes of the value."""
    if record.key and isinstance(record.value, bytes):
        taken = record.value[: len(record.key)]
        record.key, record.value = record.key + taken, record.value[len(taken) :]


@planted_decoder("wrong_data", budget=50)
@on_records
def empty_as_null(record: WireRecord) -> None:
    """Empty keys and values are null."""
    record.key = record.key or None if record.key is not UNSET else UNSET
    record.value = record.value or None if record.value is not UNSET else UNSET


@planted_decoder("wrong_data", budget=50)
@on_records
def null_as_empty(record: WireRecord) -> None:
    """Null keys and values are empty."""
    record.key = b"" if record.key is None else record.key
    record.value = b"" if record.value is None else record.value


@planted_decoder("wrong_data", budget=50)
@on_records
def drops_headers(record: WireRecord) -> None:
    """Record headers are dropped."""
    record.headers = []


@planted_decoder("wrong_data", budget=500)
def ignores_append_time(data: bytes) -> list[WireBatch]:
    """LogAppendTime does not override the timestamps of records."""
    if not (_is_v2(data) and data[ATTRIBUTES] & APPEND_TIME):
        return reference.decode(data)
    reference.decode(data)
    cleared = data[:ATTRIBUTES] + bytes((data[ATTRIBUTES] & ~APPEND_TIME,)) + data[ATTRIBUTES + 1 :]
    batches = reference.decode(with_crc(cleared))
    for batch in batches:
        batch.timestamp_type = "append"
    return batches


@planted_decoder("wrong_data", budget=200)
@on_batches
def relative_offsets(batch: WireBatch) -> None:
    """Inner offsets of a v1 wrapper are not made absolute."""
    if batch.magic == 1 and batch.compression != "none":
        first = known_records(batch)[0].offset
        for record in known_records(batch):
            assert isinstance(record.offset, int)
            assert isinstance(first, int)
            record.offset -= first


@planted_decoder("rejects_valid", budget=500)
def first_gzip_member(data: bytes) -> list[WireBatch]:
    """Only the first gzip member is read."""
    if _is_v2(data) and data[ATTRIBUTES] & CODEC == GZIP:
        reference.decode(data)
        first = zlib.decompressobj(31)
        first.decompress(data[BATCH_V2.size :])
        if first.unused_data:
            raise CodecError("truncated", "the data ends before the records do")
    return reference.decode(data)


@planted_decoder("accepts_invalid", budget=50)
def drops_the_tail(data: bytes) -> list[WireBatch]:
    """Bytes after an error are taken for padding, and the error is not reported."""
    try:
        return reference.decode(data)
    except CodecError as error:
        return error.batches


@planted_decoder("rejects_valid", budget=50)
def raw_snappy_only(data: bytes) -> list[WireBatch]:
    """Xerial's snappy frame is an error."""
    batches = reference.decode(data)
    if XERIAL in data:
        raise CodecError("decompression", "corrupt snappy data")
    return batches


@planted_decoder("wrong_data", budget=50)
@on_batches
def last_offset_by_one(batch: WireBatch) -> None:
    """The last offset is one too large."""
    assert isinstance(batch.last_offset, int)
    batch.last_offset += 1


@planted_decoder("wrong_data", budget=50)
@on_batches
def unsigned_epoch(batch: WireBatch) -> None:
    """The producer epoch is unsigned."""
    assert isinstance(batch.producer_epoch, int)
    batch.producer_epoch &= 0xFFFF


@planted_decoder("wrong_data", budget=1_000)
@on_batches
def sequence_overflows(batch: WireBatch) -> None:
    """Sequences do not wrap from 2147483647 to 0."""
    assert isinstance(batch.base_sequence, int)
    assert isinstance(batch.last_offset, int)
    assert isinstance(batch.base_offset, int)
    if batch.base_sequence + batch.last_offset - batch.base_offset > INT32_MAX:
        batch.base_sequence -= 1 << 32


@planted_decoder("wrong_data", budget=50)
@on_records
def swaps_key_and_value(record: WireRecord) -> None:
    """Key and value are swapped."""
    record.key, record.value = record.value, record.key


@planted_decoder("wrong_data", budget=50)
@on_records
def timestamps_of_32_bits(record: WireRecord) -> None:
    """Timestamps are cut to 32 bits."""
    assert isinstance(record.timestamp, int)
    record.timestamp &= 0xFFFFFFFF


@planted_decoder("lossy", budget=2_000)
@on_records
def keys_as_text(record: WireRecord) -> None:
    """Header keys are decoded as UTF-8 text."""
    assert isinstance(record.headers, list)
    record.headers = [((key or b"").decode(errors="replace").encode(), value) for key, value in record.headers]


@planted_decoder("wrong_error")
def one_kind_of_error(data: bytes) -> list[WireBatch]:
    """Every error has the same kind."""
    try:
        return reference.decode(data)
    except CodecError as error:
        raise CodecError("unsupported_magic", str(error)) from error


@planted_decoder("wrong_data", budget=50)
@on_batches
def drops_the_last_record(batch: WireBatch) -> None:
    """The last of several records is dropped."""
    if len(known_records(batch)) > 1:
        batch.records = known_records(batch)[:-1]


@planted_decoder("rejects_valid", budget=1_000)
def refuses_empty(data: bytes) -> list[WireBatch]:
    """Batches without records, as compaction leaves them, are refused."""
    batches = reference.decode(data)
    if any(not known_records(batch) for batch in batches):
        raise CodecError("malformed", "a batch without records")
    return batches


@planted_encoder
def writes_no_crc(batch: WireBatch) -> bytes:
    """The checksum of a v2 batch is written as zero."""
    data = reference.encode(batch)
    return data if batch.magic != 2 else data[: CRC.offset] + bytes(4) + data[CRC.offset + 4 :]


@planted_encoder
def writes_no_headers(batch: WireBatch) -> bytes:
    """Record headers are not written."""
    records = [WireRecord(r.offset, r.timestamp, r.key, r.value, []) for r in known_records(batch)]
    return reference.encode(msgspec.structs.replace(batch, records=records))


@planted_encoder
def writes_seconds(batch: WireBatch) -> bytes:
    """Timestamps are rounded to seconds."""
    records = [WireRecord(r.offset, _cut(r.timestamp), r.key, r.value, r.headers) for r in known_records(batch)]
    return reference.encode(msgspec.structs.replace(batch, records=records))


def _cut(timestamp: int | UnsetType) -> int | UnsetType:
    return timestamp if timestamp is UNSET else timestamp // 1000 * 1000


def __getattr__(name: str) -> PlantedBug:
    if name.startswith("__"):  # looked up by the import system
        raise AttributeError(name)
    from kafka_fuzz.planted_bugs import PLANTED_BUGS  # the package imports this module

    if name in PLANTED_BUGS:
        return PLANTED_BUGS[name]
    near = get_close_matches(name, PLANTED_BUGS, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(PLANTED_BUGS)}"
    raise AttributeError(f"there is no planted bug {name!r}; {hint}")
