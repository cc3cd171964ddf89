"""Logs above compression, without the bytes that may differ between codec libraries.

Differences between answers of brokers: against a case, a prediction, or another broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from kafka_corpus.authoring.build import put
from kafka_corpus.case import Case, Compare
from kafka_corpus.scenario import FIRST_PRODUCE_OF_V2, NEWEST, Produce, Scenario, StepAnswer
from kafka_records import RecordFormatError
from kafka_records.compression import decompress
from kafka_records.constants import COMPRESSIONS
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET, MESSAGE_V0
from kafka_records.log import split_entries
from kafka_records.message import decode_message

CODEC_BITS: Final = 0x07
# Two payloads are compared in memory; no case has more than this.
MAX_PAYLOAD: Final = 256 * 1024 * 1024


def masked(data: bytes) -> bytes:
    """*data* above compression: payloads opened, and no length or checksum over them."""
    return b"".join(_masked_entry(data[start:end]) for start, end in split_entries(data))


def _masked_entry(entry: bytes) -> bytes:
    if entry[MAGIC_OFFSET] == 2:
        attributes = int.from_bytes(entry[BATCH_V2.field("attributes").offset :][:2], "big")
        header = put(put(entry[: BATCH_V2.size], "batch_length", 0), "crc", 0)
        return header + _open(attributes, entry[BATCH_V2.size :], 2)
    message = decode_message(entry)
    header = put(put(entry[: MESSAGE_V0.size], "message_size", 0, layout=MESSAGE_V0), "crc", 0, layout=MESSAGE_V0)
    return header + repr(message[:5]).encode() + _open(message.attributes, message.value or b"", message.magic)


def _open(attributes: int, payload: bytes, magic: int) -> bytes:
    codec = attributes & CODEC_BITS
    if codec >= len(COMPRESSIONS):
        return payload  # a broker that only cleans or recovers a log does not look at it
    return decompress(COMPRESSIONS[codec], payload, magic=magic, most=MAX_PAYLOAD) if payload else b""


# Bytes that are shown where data differ.
SHOWN = 8
# The text of DumpLogSegments differs with every release; it is kept, not compared.
IN_WORDS = frozenset({"text"})
# The last produce version that takes v0 and v1.
LAST_OF_V1 = 2


def scenario_of(case: Case) -> Scenario | None:
    """The scenario that brokers run for *case*: its own, or one that produces its bytes to decode; None if neither."""
    if isinstance(case.input, Scenario):
        return case.input
    if case.op != "decode" or not isinstance(case.input, bytes):
        return None
    is_v2 = len(case.input) <= MAGIC_OFFSET or case.input[MAGIC_OFFSET] >= 2
    step = Produce(data=case.input, api_version=NEWEST if is_v2 else LAST_OF_V1)
    scenario = Scenario(steps=(step,)).bounded()
    assert not is_v2 or step.api_version >= FIRST_PRODUCE_OF_V2
    return scenario


def difference(expected: Sequence[StepAnswer], given: Sequence[StepAnswer], compare: Compare = "exact") -> str:
    """The first difference of *given* from *expected*, as `[1].base_offset is 3, expected 2`; or an empty string."""
    for index, (want, have) in enumerate(zip_longest(expected, given)):
        if want is None or have is None:
            return f"{len(given)} answers, expected {len(expected)}"
        if different := _step_difference(want, have, compare):
            return f"[{index}].{different}"
    return ""


def _step_difference(want: StepAnswer, have: StepAnswer, compare: Compare) -> str:
    for name in StepAnswer.__struct_fields__:
        expected, given = getattr(want, name), getattr(have, name)
        if given == expected or name in IN_WORDS:
            continue
        if name != "data":
            return f"{name} is {given!r:.80}, expected {expected!r:.80}"
        if compare == "exact" or not same_above_compression(expected, given):
            return f"data is {_data_difference(expected, given)}"
    return ""


def _data_difference(expected: bytes, given: bytes) -> str:
    """Both sizes, and the bytes at the first place that differs, given and expected."""
    at = next((at for at, (one, other) in enumerate(zip(expected, given, strict=False)) if one != other), None)
    if at is None:
        at = min(len(expected), len(given))
    sizes = f"{len(given)} bytes" + (f" in place of {len(expected)}" if len(expected) != len(given) else "")
    return f"{sizes}, at byte {at} {_around(given, at)}, expected {_around(expected, at)}"


def _around(data: bytes, at: int) -> str:
    shown = data[at : at + SHOWN].hex()
    return f"{shown}{'…' if len(data) > at + SHOWN else ''}" or "the end"


def same_above_compression(one: bytes, other: bytes) -> bool:
    """Whether two logs hold the same records, compressed bytes aside."""
    try:
        return one == other or masked(one) == masked(other)
    except RecordFormatError:
        return False
