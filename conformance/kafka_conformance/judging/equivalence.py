"""Other bytes for the same batch: what a writer may do otherwise than Kafka's, each with its name and rule.

An equivalence changes no record for any reader, and no broker answers it
otherwise; so it is `lossy` at most, and is named in the verdict.  What is not
in this list is a defect, though brokers may mend it: a max timestamp that is
not the largest (TIM-07), another last offset delta (HDR-12), attribute bits
that nobody asked for (ATT-13), a record count, a CRC, and every record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafka_conformance.judging.compare import Difference
from kafka_records import Batch, Explanation, explain
from kafka_records.constants import MAGIC_VALUE_V2, NO_PRODUCER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """A way to write the same.

    Attributes:
        name: in a few words, as verdicts show it.
        rule: the rule that makes it harmless.
        reason: why, in a sentence.
        fields: the fields of a batch that it is about.
        holds: whether it applies: the first batch that was asked for, the one in question, as it was written, and
            what differs.
    """

    name: str
    rule: str
    reason: str
    fields: tuple[str, ...]
    holds: Callable[[Batch, Batch, Batch, Difference], bool] = lambda *_: True

    def __str__(self) -> str:
        return f"{self.name} ({self.rule})"


def _legacy(_first: Batch, wanted: Batch, _written: Batch, _found: Difference) -> bool:
    return wanted.magic < MAGIC_VALUE_V2


def _at_zero(_first: Batch, wanted: Batch, _written: Batch, found: Difference) -> bool:
    return wanted.magic < MAGIC_VALUE_V2 and bool(found.given == 0)


def _left_at_zero(first: Batch, wanted: Batch, _written: Batch, found: Difference) -> bool:
    return wanted.magic < MAGIC_VALUE_V2 and first.base_offset == 0 and bool(found.given == 0)


def _of_nobody(_first: Batch, wanted: Batch, written: Batch, _found: Difference) -> bool:
    return wanted.producer_id == written.producer_id == NO_PRODUCER_ID and not written.transactional


LEFT_UNCOMPRESSED: Final = Equivalence(
    name="left uncompressed",
    rule="CMP-03",
    reason="the same records, which a consumer gets without noticing; several clients do so where nothing is saved",
    fields=("compression",),
    holds=lambda _first, _wanted, _written, found: bool(found.given == "none"),
)
EQUIVALENCES: Final = (
    Equivalence(
        name="leader epoch of a producer",
        rule="HDR-07",
        reason="every broker stores its own epoch, whatever was sent",
        fields=("partition_leader_epoch",),
    ),
    LEFT_UNCOMPRESSED,
    Equivalence(
        name="another base timestamp",
        rule="TIM-01",
        reason="a record's timestamp is base plus delta, so that any base will do whose deltas are right",
        fields=("base_timestamp",),
    ),
    Equivalence(
        name="epoch and sequence of no producer",
        rule="PID-02",
        reason="with producer id -1 nobody looks at epoch and sequence",
        fields=("producer_epoch", "base_sequence"),
        holds=_of_nobody,
    ),
    Equivalence(
        name="time of a wrapper",
        rule="NST-23",
        reason="brokers compute a wrapper's own time again from the messages inside",
        fields=("max_timestamp",),
        holds=_legacy,
    ),
    Equivalence(
        name="wrapper at offset 0",
        rule="NST-09",
        reason="readers take it as a producer's, and every broker gives it another",
        fields=("last_offset",),
        holds=_at_zero,
    ),
    Equivalence(
        name="offsets left to the broker",
        rule="NST-13",
        reason="some old producers leave all offsets 0, and brokers give them others",
        fields=("base_offset", "offset"),
        holds=_left_at_zero,
    ),
)
LONGER_VARINT: Final = Equivalence(
    name="varint longer than needed",
    rule="VAR-05",
    reason="readers accept up to 5 bytes for a varint and 10 for a varlong",
    fields=("data",),
)
ALL: Final = (*EQUIVALENCES, LONGER_VARINT)
# A field of a batch, or an offset of one of its records.
_FIELD: Final = re.compile(r"batches\[(?P<batch>\d+)\](?:\.records\[\d+\](?=\.offset$))?\.(?P<field>\w+)")
# They follow from the width of other fields.
_FOLLOWING: Final = frozenset({"batch_length", "message_size", "length", "crc"})


def graded(found: Sequence[Difference], wanted: Sequence[Batch], written: Sequence[Batch]) -> list[Difference]:
    """*found*, with its name to each difference that is an equivalence."""
    return [_named(each, wanted, written) for each in found]


def _named(found: Difference, wanted: Sequence[Batch], written: Sequence[Batch]) -> Difference:
    place = _FIELD.fullmatch(found.path)
    if found.lossy or place is None:
        return found
    at, field = int(place["batch"]), place["field"]
    for each in EQUIVALENCES:
        if field in each.fields and each.holds(wanted[0], wanted[at], written[at], found):
            return replace(found, lossy=True, equivalence=str(each))
    return found


def unwrapped(wanted: Sequence[Batch], written: Sequence[Batch]) -> bool:
    """Whether messages came without their wrapper: a writer may leave out a compression that gains nothing."""
    if len(wanted) != 1 or wanted[0].magic >= MAGIC_VALUE_V2 or wanted[0].compression == "none":
        return False
    same = {(wanted[0].magic, "none", wanted[0].timestamp_type)}
    plain = {(batch.magic, batch.compression, batch.timestamp_type) for batch in written} == same
    return plain and wanted[0].records == tuple(record for batch in written for record in batch.records)


def only_longer_varints(right: bytes, data: bytes) -> bool:
    """Whether *data*, which reads the same as *right*, differs in the width of varints alone."""
    return list(_values(explain(right))) == list(_values(explain(data)))


def _values(explanation: Explanation) -> Iterator[tuple[str, object]]:
    for section in explanation.sections:
        for field in section.fields:
            if field.name not in _FOLLOWING and field.group not in ("packed", "codec"):
                yield field.path, field.value
