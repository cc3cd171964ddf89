"""Select cases for consumers and compare what they deliver; pure.

A consumer delivers records without batch boundaries.  Its position only increases:
it starts at offset 0, delivers no record below its position, and fetches the
offset after the last batch when it is done.  It delivers no control records, and
all others but those of transactions that the fetch names as aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from msgspec import UNSET

from kafka_conformance.judge.before_damage import records_before_damage
from kafka_conformance.judge.compare import HEADER_FIELDS, Comparison, Difference, compare_records
from kafka_conformance.judge.observation import ConsumedRecords
from kafka_corpus.case import Case
from kafka_corpus.wire import WireRecord, to_wire, to_wire_record
from kafka_records import Batch, RecordFormatError, committed, decode
from kafka_records.constants import INT64_MAX, MAGIC_VALUE_V2, RECORD_BATCH_OVERHEAD
from kafka_records.layout import BATCH_V2, ENTRY, MAGIC_OFFSET
from kafka_records.log import split_entries

UNFOLLOWABLE: Final = "its offsets do not go up from 0: a consumer leaves such records out, or stays where it is"
BELOW: Final = "its broken batch is below the offset that a consumer has reached: a consumer need not look into it"
IN_CONTROL: Final = "it is about what is in a control batch, and a consumer need not look there"

_ATTRIBUTES: Final = BATCH_V2.field("attributes")
_CONTROL_BIT: Final = 0x20
# Java's client keeps a KafkaException until it has given the records before it.  The IllegalArgumentException of an
# unknown compression is not kept: the records are held back.
_NOT_CACHED: Final = ("unsupported_compression",)
_DAMAGE: Final = (("corrupt",), ("unsupported_magic",))


def unfollowable(case: Case) -> str:
    """The reason why *case* does not suit a consumer; empty if it does."""
    if case.op != "decode":
        return ""
    if not _goes_up(case.expect.batches):
        return UNFOLLOWABLE
    return _need_not_look(case) if case.expect.verdict == "invalid" else ""


def _goes_up(batches: tuple[Batch, ...]) -> bool:
    at = 0
    for batch in batches:
        for record in batch.records:
            if record.offset < at:
                return False
            at = record.offset + 1
        at = max(at, batch.last_offset + 1)
        if not at - 1 == batch.last_offset < INT64_MAX:
            return False
    return True


def _need_not_look(case: Case) -> str:
    """Why a consumer need not find what is wrong in the first entry after the valid ones; damage has to be found."""
    broken = _broken_entry(case)
    if broken is None or case.expect.kinds[:1] in _DAMAGE:
        return ""
    if _is_control(broken):
        return IN_CONTROL
    return BELOW if ENTRY.values(broken)["offset"] < position_after(case.expect.batches) else ""


def _broken_entry(case: Case) -> bytes | None:
    """The first entry after the valid ones; None if it has no end."""
    if not isinstance(case.input, bytes):
        return None
    try:
        spans = list(split_entries(case.input))[len(case.expect.batches) :]
    except RecordFormatError:
        return None
    return case.input[slice(*spans[0])] if spans else None


def _is_control(entry: bytes) -> bool:
    """Whether *entry* is a control batch; one that is shorter than its header is damaged, and no batch."""
    if len(entry) < RECORD_BATCH_OVERHEAD or entry[MAGIC_OFFSET] != MAGIC_VALUE_V2:
        return False
    return bool(entry[_ATTRIBUTES.offset + _ATTRIBUTES.width - 1] & _CONTROL_BIT)


def position_after(batches: tuple[Batch, ...]) -> int:
    """The offset after the last one of *batches*."""
    return max((batch.last_offset + 1 for batch in batches), default=0)


def may_refuse(case: Case) -> bool:
    """Whether an error is right though the bytes are valid: a part of a batch and nothing else.

    KIP-74: a broker sends one whole batch at least.  Consumers rely on that, and
    some say so when it does not hold (Java: "failed to make progress").
    """
    return case.expect.verdict == "valid" and not case.expect.batches and case.input != b""


def is_right_for_a_part(case: Case, consumed: ConsumedRecords) -> bool:
    """Whether *consumed* is right for a part of a batch and nothing else: an error, or the same fetch again."""
    if not may_refuse(case) or consumed.records:
        return False
    if consumed.error is not None:
        return not consumed.stalled
    return consumed.stalled and not consumed.next_offset


def for_reader(case: Case) -> Case:
    """*case* as it is for a consumer under read_committed, which reads other parts of a fetch than a codec does.

    It skips aborted batches unread, and reads the key of each marker: what one of the two refuses and the other
    takes is acceptable to codecs, and to the consumer what Kafka's makes of it (TXN-23, TXN-09).
    """
    if case.aborted is None or case.expect.verdict != "acceptable" or not isinstance(case.input, bytes):
        return case
    refused = _refuses(committed, case.input, case.aborted)
    if refused == _refuses(decode, case.input):
        return case
    return replace(case, expect=replace(case.expect, verdict="invalid" if refused else "valid"))


def _refuses(read: Callable[..., object], *given: object) -> bool:
    try:
        read(*given)
    except RecordFormatError:
        return True
    return False


def expected_records(case: Case) -> list[WireRecord]:
    """The records that a consumer has to deliver, in order."""
    batches = [to_wire(batch) for batch in case.expect.batches if not batch.control]
    records = [record for batch in batches for record in (batch.records or ())]
    return records if case.aborted is None else list(_committed(records, case.expect.committed))


def _committed(records: list[WireRecord], offsets: tuple[int, ...]) -> Iterator[WireRecord]:
    """The first record at each of *offsets*: a consumer gives none below its position (CON-04)."""
    position = 0
    for record in records:
        offset = record.offset
        if offset is not UNSET and offset >= position and offset in offsets:
            position = offset + 1
            yield record


def compare_consumed(case: Case, consumed: ConsumedRecords) -> Comparison:
    """Where the records, or the position, are not as they should be.

    After the valid records a consumer may have delivered the first records of a
    batch that then turned out to be broken: these are compared as far as
    `before_damage` knows them.  Those that it held back before an error are not
    (see `too_few_before_an_error`), nor those that one does not deliver which never gets there.
    """
    expected, given = expected_records(case), consumed.records
    if len(given) > len(expected):
        expected += before_damage(case) or []
    if consumed.error is not None or consumed.stalled or case.expect.verdict == "invalid":
        shortest = min(len(expected), len(given))
        expected, given = expected[:shortest], given[:shortest]
    comparison = compare_records(expected, given)
    # Headers are not compared where only records are expected.
    if case.expect.batches and case.aborted is None:
        comparison.left_out.update(HEADER_FIELDS)
    if case.expect.verdict != "invalid" and consumed.error is None and not consumed.stalled:
        comparison.differences.extend(_misplaced(case, consumed))
    return comparison


def before_damage(case: Case) -> list[WireRecord] | None:
    """The records of the first broken entry that a consumer may deliver; None if unknown, or their offsets fall."""
    broken = _broken_entry(case) if case.expect.verdict == "invalid" else None
    records = records_before_damage(broken) if broken else None
    if records is None:
        return None
    offsets = [position_after(case.expect.batches) - 1, *(record.offset for record in records)]
    return list(map(to_wire_record, records)) if offsets == sorted(set(offsets)) else None


def too_many_before_an_error(case: Case, consumed: ConsumedRecords) -> str:
    """A text for records of a broken entry that Kafka's consumer does not deliver; empty if there are none."""
    most, given = len(expected_records(case)), len(consumed.records)
    if consumed.error is None or given <= most or (sound := before_damage(case)) is None:
        return ""
    most += len(sound)
    return f"expected at most {most} before the error, got {given}" if given > most else ""


def too_few_before_an_error(case: Case, consumed: ConsumedRecords) -> str:
    """A text for sound records that Kafka's consumer delivers before its error and this one holds back, or empty."""
    least, given = len(expected_records(case)), len(consumed.records)
    given_first = case.expect.verdict == "invalid" and case.expect.kinds[:1] != _NOT_CACHED
    if consumed.error is None or not given_first or given >= least:
        return ""
    return f"expected {least} before the error, got {given}"


def _misplaced(case: Case, consumed: ConsumedRecords) -> Iterator[Difference]:
    """A position after the end of the batches, where records are written later, or before it.

    A consumer whose position is before it gets the last batch again, and stalls.  A codec only says its position,
    and only for a fetch with aborted transactions.
    """
    end, position = position_after(case.expect.batches), consumed.next_offset
    if position is not None and (position > end or (position < end and case.aborted is not None)):
        yield Difference("next_offset", end, position)


def stalled(consumed: ConsumedRecords) -> str:
    """A consumer that does not get on, in words."""
    if consumed.error is not None:
        text = ": ".join(filter(None, (consumed.error.kind, consumed.error.message)))
        return f"the call after its error does not return: {text}"
    return f"it fetches offset {consumed.next_offset} again and again, and reports nothing"
