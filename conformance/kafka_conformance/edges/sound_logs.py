"""Logs without damage to what is delivered: large batches, odd offsets, and consumers that begin inside of a batch.

What is right is what Kafka's consumer does (`CompletedFetch.nextFetchedRecord`): it delivers each record at its
position or after it, by the offset that the record has, in the order of the bytes.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from kafka_conformance.edges.damaged_logs import (
    DamagedLog,
    LogPiece,
    flipped,
    log_batch,
    log_value,
    old_log,
    old_messages,
    overwritten,
    sound_batches,
    three,
    v2_log,
    wrapped_log,
    wrapper,
)
from kafka_corpus.authoring.build import reseal
from kafka_records import encode
from kafka_records.constants import MAGIC_VALUE_V0

# Where a v2 batch has the difference of its last offset and its base offset.
LAST_DELTA_AT: Final = 23
MANY: Final = 130_000


def _beginning_at(start: int, log: DamagedLog) -> DamagedLog:
    """The *log* for a consumer that begins at *start*, as after a restart."""
    good, inside = ({at: value for at, value in each.items() if at >= start} for each in (log.good, log.inside))
    return replace(log, good=good, inside=inside, start=start)


def _with_offset(entry: bytes, offset: int) -> bytes:
    """No checksum covers the offset of an entry."""
    return overwritten(entry, 0, offset.to_bytes(8, "big", signed=True))


def _oversized() -> DamagedLog:
    values = [log_value(9), b"x" * (3 << 20), log_value(11)]
    log = v2_log(encode(log_batch(9, values)), readable=True)
    return replace(log, inside={9: values[0], 10: values[1], 11: values[2]})


def _oversized_wrapper(magic: int = 1) -> DamagedLog:
    """A wrapper with a value of 3 MiB that no compressor makes smaller."""
    inside = {9: log_value(9), 10: random.Random(9).randbytes(3 << 20), 11: log_value(11)}
    return old_log(magic, LogPiece(11, wrapper(magic, inside)), inside, readable=True)


def _many_records() -> DamagedLog:
    """A gzip batch of so many records that they do not fit on a stack as the arguments of one call."""
    values = {offset: log_value(offset) for offset in range(MANY)}
    data = encode(log_batch(0, list(values.values()), compression="gzip"))
    inside = {offset: values.pop(offset) for offset in (0, MANY // 2, MANY - 1)}
    good = values | {MANY + at: log_value(MANY + at) for at in range(3)}
    return DamagedLog((LogPiece(MANY - 1, data), *sound_batches(MANY)), good, inside, past=MANY, magic=2, readable=True)


def _lz4_wrapper(magic: int = 1) -> DamagedLog:
    """A good wrapper of a codec that some clients do not have."""
    packed = encode(three(9, magic, "lz4"))
    return old_log(magic, LogPiece(11, packed), {at: log_value(at) for at in (9, 10, 11)}, readable=True)


def _middle_of_batch() -> DamagedLog:
    return _beginning_at(10, v2_log(encode(three(9, compression="gzip")), readable=True))


def _middle_of_wrapper(magic: int = 1) -> DamagedLog:
    return _beginning_at(10, wrapped_log(magic, readable=True))


def _damage_before_position(magic: int = 1) -> DamagedLog:
    """The first message of the wrapper is damaged, and the consumer begins at the third."""

    def damage(packed: bytes) -> bytes:
        return gzip.compress(flipped(gzip.decompress(packed), 9), mtime=0)

    return _beginning_at(11, wrapped_log(magic, damage, readable=True))


def _batch_repeated() -> DamagedLog:
    """Batches 0 to 2, 3 to 5, the same again, and 6 to 8."""
    inside = {offset: log_value(offset) for offset in (3, 4, 5)}
    good = {offset: log_value(offset) for offset in range(12) if offset not in inside}
    return DamagedLog(sound_batches(0, 3, 3, 6, 9), good, inside, past=6, magic=2, readable=True)


def _batches_before_position() -> DamagedLog:
    """The consumer begins at 3, and a fetch from there brings batches 0 to 2 twice, and then 3 to 5."""
    log = _batch_repeated()
    before = tuple(LogPiece(5, piece.data) for piece in sound_batches(0, 0))
    return _beginning_at(3, replace(log, pieces=(*before, *sound_batches(3, 6, 9))))


def _base_offset_of_minus_one() -> DamagedLog:
    """A batch with records at -1 and 0, and sound ones from 1 on."""
    odd = LogPiece(0, encode(log_batch(-1, [log_value(-1), log_value(0)])))
    good = {offset: log_value(offset) for offset in range(1, 10)}
    return DamagedLog((odd, *sound_batches(1, 4, 7)), good, {0: log_value(0)}, past=1, magic=2, readable=True)


def _last_offset_before_base() -> DamagedLog:
    """The consumer begins at 9, with a batch of three records from there on, which names 8 as its last offset."""
    delta = (-1).to_bytes(4, "big", signed=True)
    return _beginning_at(9, v2_log(reseal(overwritten(encode(three(9)), LAST_DELTA_AT, delta)), readable=True))


def _wrapper_at_zero(magic: int = 1) -> DamagedLog:
    """A wrapper with the offset 0 whose three messages have the offsets 0 to 2; messages from 3 on follow."""
    inside = {offset: log_value(offset) for offset in range(3)}
    good = {offset: log_value(offset) for offset in range(3, 21)}
    pieces = (LogPiece(0, _with_offset(wrapper(magic, inside), 0)), *old_messages(magic, range(3, 21)))
    return DamagedLog(pieces, good, inside, past=3, magic=magic, readable=True)


def _wrapper_at_its_first() -> DamagedLog:
    """A v0 wrapper of the messages 9 to 11 with the offset 9."""
    log = wrapped_log(MAGIC_VALUE_V0, readable=True)
    pieces = [LogPiece(11, _with_offset(each.data, 9)) if each.last == 11 else each for each in log.pieces]
    return replace(log, pieces=tuple(pieces))


# The log of each row; those of old messages take their magic, but for the one that is v0 in any case.
SOUND_LOGS: Final[Mapping[str, Callable[..., DamagedLog]]] = {
    "oversized": _oversized,
    "oversized-v1": _oversized_wrapper,
    "lz4-v1": _lz4_wrapper,
    "many-records": _many_records,
    "middle-of-batch": _middle_of_batch,
    "middle-of-wrapper": _middle_of_wrapper,
    "damage-before-position": _damage_before_position,
    "batches-before-position": _batches_before_position,
    "batch-repeated": _batch_repeated,
    "base-offset-minus-one": _base_offset_of_minus_one,
    "last-offset-before-base": _last_offset_before_base,
    "wrapper-at-zero": _wrapper_at_zero,
    "wrapper-at-its-first": _wrapper_at_its_first,
}
