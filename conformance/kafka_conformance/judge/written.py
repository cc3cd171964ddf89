"""Bytes that a testee wrote: the fields that are wrong, and the named equivalences that are not.

An equivalence changes no record for any reader, and no broker answers it
otherwise; so it is `lossy` at most, and is named in the verdict.  What is not
in this list is a defect, though brokers may correct it: a max timestamp that is
not the largest (TIM-07), another last offset delta (HDR-12), attribute bits
that the request did not contain (ATT-13), a record count, a CRC, and every record.

`exact` compares every byte.  `masked` is for compressed batches, whose bytes
depend on the library: header fields and the decompressed payload have to be
the same; length and CRC have to hold, which reading them proves.  `readable`
takes whatever the reference reads back as the same batch.  What does no harm
has a name in `equivalence`; everything else is wrong.  The header checksum of an
lz4 frame in v0 is compared in every case: no reader of today verifies it there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import kafka_records
from kafka_conformance.judge.compare import Comparison, Difference, compare
from kafka_corpus.case import Case
from kafka_corpus.wire import to_wire
from kafka_records import Batch, Explanation, RecordFormatError, explain
from kafka_records.compression import decompress
from kafka_records.compression.lz4 import header_checksum, read_lz4_header
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2, NO_PRODUCER_ID, RECORD_BATCH_OVERHEAD
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET
from kafka_records.log import split_entries
from kafka_records.message import decode_message


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """A way to write the same.

    Attributes:
        name: in a few words, as verdicts show it.
        rule: the rule that makes it harmless.
        reason: why, in a sentence.
        fields: the fields of a batch that it is about.
        holds: whether it applies: the first requested batch, the one in question, as it was written, and
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


def _is_unassigned(_first: Batch, wanted: Batch, written: Batch, _found: Difference) -> bool:
    return wanted.producer_id == written.producer_id == NO_PRODUCER_ID and not written.transactional


LEFT_UNCOMPRESSED: Final = Equivalence(
    name="left uncompressed",
    rule="CMP-03",
    reason="the same records, which a consumer gets without noticing; several clients do so where nothing is saved",
    fields=("compression",),
    holds=lambda _first, _wanted, _written, found: bool(found.given == "none"),
)
# What makes most work for a broker first: a verdict names the first that applies.
EQUIVALENCES: Final = (
    Equivalence(
        name="offsets left to the broker",
        rule="NST-13",
        reason="some old producers leave all offsets 0, and brokers give them others and compress the wrapper again",
        fields=("base_offset", "offset"),
        holds=_left_at_zero,
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
        reason="with producer id -1 no broker and no reader uses epoch and sequence",
        fields=("producer_epoch", "base_sequence"),
        holds=_is_unassigned,
    ),
)
_NAMES: Final = tuple(map(str, EQUIVALENCES))
LONGER_VARINT: Final = Equivalence(
    name="varint longer than needed",
    rule="VAR-05",
    reason="readers accept up to 5 bytes for a varint and 10 for a varlong",
    fields=("data",),
)
LZ4_CHECKSUM: Final = Equivalence(
    name="lz4 header checksum of v1 in v0",
    rule="LZ4-06",
    reason="brokers and consumers since 0.10 ignore it in v0; older ones verify Kafka's own, over the magic too",
    fields=("lz4_header_checksum",),
)
# A field of a batch, or an offset of one of its records.
_FIELD: Final = re.compile(r"batches\[(?P<batch>\d+)\](?:\.records\[\d+\](?=\.offset$))?\.(?P<field>\w+)")
# They follow from the width of other fields.
_FOLLOWING: Final = frozenset({"batch_length", "message_size", "length", "crc"})


def graded(found: Sequence[Difference], wanted: Sequence[Batch], written: Sequence[Batch]) -> list[Difference]:
    """*found*, with its name to each difference that is an equivalence; what makes most work comes first."""
    return sorted((_named(each, wanted, written) for each in found), key=_rank)


def _rank(found: Difference) -> int:
    """0 for what is no equivalence."""
    return 1 + _NAMES.index(found.equivalence) if found.equivalence in _NAMES else 0


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


MAX_PAYLOAD: Final = 256 * 1024 * 1024
CODEC_BITS: Final = 0x07


def written_differences(case: Case, data: bytes) -> list[Difference]:
    """Where *data* is not what *case* expects; differences in form come before harmless ones in fields."""
    right = case.expect.data
    if right is not None and data == right:
        return []
    try:
        given = kafka_records.decode(data)
    except RecordFormatError as error:
        return [Difference(error.path or "data", "bytes that can be read", str(error))]
    return [*_read_differences(case, given, data), *_lz4_header_checksums(data)]


def _read_differences(case: Case, given: Sequence[Batch], data: bytes) -> list[Difference]:
    found = compare_written(_expected(case), given)
    right = case.expect.data
    if case.expect.compare == "readable" or right is None or not all(each.lossy for each in found):
        return found
    if found:
        # The form comes first: a harmless difference in a field hides neither harmful bits nor longer varints.
        return _out_of_form(given, data) + found
    return _by_bytes(right, data, masked=case.expect.compare == "masked")


def _expected(case: Case) -> Sequence[Batch]:
    if case.expect.data is not None:
        return kafka_records.decode(case.expect.data)
    assert isinstance(case.input, Batch)
    return (case.input,)


def compare_written(expected: Sequence[Batch], given: Sequence[Batch]) -> list[Difference]:
    """Where batches that were written and read back are not those *expected*; equivalences are named."""
    if unwrapped(expected, given):
        name = str(LEFT_UNCOMPRESSED)
        return [Difference("batches[0].compression", expected[0].compression, "none", lossy=True, equivalence=name)]
    comparison: Comparison = compare(list(map(to_wire, expected)), list(map(to_wire, given)))
    for index, (want, have) in enumerate(zip(expected, given, strict=False)):
        # Not part of the wire shape: it changes no record, but an encoder writes it.
        if want.base_timestamp is not None and have.base_timestamp != want.base_timestamp:
            path = f"batches[{index}].base_timestamp"
            comparison.differences.append(Difference(path, want.base_timestamp, have.base_timestamp))
    return graded(comparison.differences, expected, given)


def _out_of_form(given: Sequence[Batch], data: bytes) -> list[Difference]:
    """Where v2 batches are not written as what they hold would be; older wrappers have no one form."""
    if any(batch.magic < MAGIC_VALUE_V2 for batch in given):
        return []
    try:
        right = b"".join(map(kafka_records.encode, given))
    except RecordFormatError:
        return []
    return _by_bytes(right, data, masked=True)


def _by_bytes(right: bytes, data: bytes, *, masked: bool) -> list[Difference]:
    """The first byte that differs, though every field reads the same."""
    if masked:
        # Unused bits are outside of the compressed bytes.
        found = _attributes(right, data) or _first_byte(opened_payload(right), opened_payload(data), "decompressed")
    else:
        found = _first_byte(right, data, "data")
    if found is None:
        return []
    # Exact bytes of a codec's own are exact: only what it holds may have another form.
    if opened_payload(right) != opened_payload(data) and only_longer_varints(right, data):
        found = replace(found, lossy=True, equivalence=str(LONGER_VARINT))
    return [found]


def _first_byte(right: bytes, data: bytes, path: str) -> Difference | None:
    pairs = enumerate(zip(right, data, strict=False))
    at = next((index for index, (want, have) in pairs if want != have), None)
    if at is not None:
        return Difference(f"{path}[{at}]", right[at : at + 8], data[at : at + 8])
    return Difference(f"{path}.length", len(right), len(data)) if len(right) != len(data) else None


def _attributes(right: bytes, data: bytes) -> Difference | None:
    pairs = zip(split_entries(right), split_entries(data), strict=False)
    for index, ((start, end), (at, stop)) in enumerate(pairs):
        want, have = _attributes_of(right[start:end]), _attributes_of(data[at:stop])
        if want != have:
            return Difference(f"batches[{index}].attributes", want, have)
    return None


def _attributes_of(entry: bytes) -> int:
    if entry[MAGIC_OFFSET] == MAGIC_VALUE_V2:
        field = BATCH_V2.field("attributes")
        return int.from_bytes(entry[field.offset : field.offset + field.width], "big")
    return decode_message(entry).attributes


def _lz4_header_checksums(data: bytes) -> Iterator[Difference]:
    """The lz4 frames in v0 wrappers whose header checksum is not Kafka's, which covers the frame's magic too."""
    for index, (start, end) in enumerate(split_entries(data)):
        entry = data[start:end]
        if entry[MAGIC_OFFSET] != 0 or COMPRESSIONS[_attributes_of(entry) & CODEC_BITS] != "lz4":
            continue
        frame = decode_message(entry).value or b""
        _, _, at = read_lz4_header(frame, check_header=False)
        right, usual, have = header_checksum(frame[: at - 1]), header_checksum(frame[4 : at - 1]), frame[at - 1]
        if have != right:
            name = str(LZ4_CHECKSUM) if have == usual else ""
            path = f"batches[{index}].{LZ4_CHECKSUM.fields[0]}"
            yield Difference(path, right, have, lossy=have == usual, equivalence=name)


def opened_payload(data: bytes) -> bytes:
    """The bytes of every entry after its header, uncompressed and joined."""
    return b"".join(_payload(data[start:end]) for start, end in split_entries(data))


def _payload(entry: bytes) -> bytes:
    codec = COMPRESSIONS[_attributes_of(entry) & CODEC_BITS]
    if entry[MAGIC_OFFSET] == MAGIC_VALUE_V2:
        return decompress(codec, entry[RECORD_BATCH_OVERHEAD:], magic=2, most=MAX_PAYLOAD)
    message = decode_message(entry)
    return decompress(codec, message.value or b"", magic=message.magic, most=MAX_PAYLOAD)
