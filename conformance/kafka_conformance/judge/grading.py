"""Grade a judged case: its effect, its reach, the strength of its rule, and the grade of the table; pure.

The effect is what users of the codec get.  It follows from the outcome and from
the fields that differ.  Fields of a batch around its records have an effect only
if a consumer's records or position depend on them, or if a broker refuses what a
writer made of them.

A codec that takes what Kafka refuses, and gives the records of its plain reading
(`plain_reading`), is more lenient than Kafka, without another result.

The reach is that of the case, with one exception: a stall at an entry whose size is below that of any entry is
hostile, since a broker answers a fetch that starts there with an error.

The strength of a case's first rule is that of the table, with these exceptions:

    bytes, times or offsets that no writer, clock or log gives  should, at most
    what only the metadata log of KRaft has                     should, at most: no consumer is served it
    broken bytes that are accepted with their one plain reading should, at most
    an lz4 payload that starts with a skippable frame           should, at most: the frame format allows it
    valid bytes that are refused, or that stop a codec          must: how a field is shown may be
                                                                a recommendation, reading it is not
    valid v0 or v1 messages whose compression the codec says    should, at most: a codec may declare that it
    that it does not read                                       does not read a format
    memory, where CMP-10 (nothing limits it) is among the rules may
    memory, where Kafka's Java client takes about as much       may
    memory, elsewhere                                           must
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kafka_brokers.releases import SUPPORTED, SupportedReleases
from kafka_conformance.judge.consuming import position_after
from kafka_conformance.judge.grade import STRENGTHS, UNSAFE, Effect, Grade, Reach, grade_row
from kafka_conformance.judge.memory import java_figure
from kafka_conformance.judge.plain_reading import PLAIN, SKIPPABLE, plain_reading, with_v2_magic
from kafka_conformance.judge.reach import CaseReach, case_reach, has_low_size
from kafka_conformance.judge.usual_form import is_unusual
from kafka_conformance.judge.verdict import OPEN, Outcome
from kafka_corpus.case import Case, Recipe
from kafka_corpus.vector_format import input_of
from kafka_records import Batch
from kafka_records import attributes as bits
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2, RECORD_BATCH_OVERHEAD
from kafka_records.layout import ATTRIBUTES_OFFSET_V2, MAGIC_OFFSET
from kafka_records.rules import Strength, rule

_BY_OUTCOME: Final[Mapping[Outcome, Effect]] = {
    "crash": "crash",
    "hang": "stuck",
    "memory": "memory",
    "accepts_invalid": "accepts_invalid",
    "rejects_valid": "rejects_valid",
    "wrong_error": "wrong_error",
    "lossy": "equivalent",
}
# Decoded fields of a batch on which records or the position depend: where a consumer continues, and which records a
# read_committed consumer leaves out.
DECODED: Final = frozenset({"last_offset", "producer_id", "transactional", "control"})
# Written fields of a batch that no reader depends on: brokers compute or replace them (TIM-08, HDR-07, NST-23), any
# base will do (TIM-01), and other compressed bytes hold the same records (CMP-03).
HARMLESS_WRITTEN: Final = frozenset(
    {"max_timestamp", "base_timestamp", "partition_leader_epoch", "attributes", "compression", "decompressed"}
)
# The offsets of v0 and v1 messages without compression: brokers assign them, whatever a producer wrote
# (LogValidator.assignOffsetsNonCompressed).
OFFSETS_OF_MESSAGES: Final = frozenset({"base_offset", "last_offset", "records.offset"})
UNREADABLE: Final = "bytes that can be read"

_INDEX: Final = re.compile(r"\[\d+\]")
_COUNTS: Final = re.compile(r": expected (\d+), got (\d+)")


class JudgedLine(Protocol):
    """The fields of a result line, kept or not, on which the effect depends."""

    @property
    def outcome(self) -> Outcome:
        """The verdict's outcome."""

    @property
    def field(self) -> str:
        """The first field that differs."""

    @property
    def why(self) -> str:
        """How it differs."""

    @property
    def also(self) -> tuple[str, ...]:
        """Further fields that differ, without indexes."""

    @property
    def observation(self) -> dict[str, Any]:
        """The observation in short."""


def effect_of(case: Case, line: JudgedLine) -> Effect | None:
    """The effect of a judged case; None if it is no finding."""
    if line.outcome == "agree" or line.outcome in OPEN:
        return None
    if line.outcome != "wrong_data":
        return _BY_OUTCOME[line.outcome]
    if case.expect.answers:
        return "wrong_data"
    paths = {plain_path(line.field), *line.also}
    if case.op == "encode":
        return _effect_of_written(case, paths, line.why)
    return _effect_of_decoded(case, paths, line)


def plain_path(path: str) -> str:
    """A field without indexes and without its list of batches.

    >>> plain_path("batches[0].records[3].timestamp"), plain_path("batches.last_offset")
    ('records.timestamp', 'last_offset')
    """
    plain = _INDEX.sub("", path)
    return plain if plain == "batches.length" else plain.removeprefix("batches.")


def _effect_of_written(case: Case, paths: Collection[str], why: str) -> Effect:
    if UNREADABLE in why:
        return "wrong_data"
    plain = set(map(plain_path, paths)) - {"data"}
    if _is_plain_message(case):
        plain -= OFFSETS_OF_MESSAGES
    return "equivalent" if {path.partition(".")[0] for path in plain} <= HARMLESS_WRITTEN else "wrong_data"


def _is_plain_message(case: Case) -> bool:
    written = case.input
    return isinstance(written, Batch) and written.magic < MAGIC_VALUE_V2 and written.compression == "none"


def _effect_of_decoded(case: Case, paths: Collection[str], line: JudgedLine) -> Effect:
    found = {plain_path(path) for path in paths}
    if found == {"batches.length"} and _only_empty_batches_lack(case, line.why):
        return "equivalent"
    if _counts_are_fewer(line):
        return "lost_data"
    depends = {path for path in found if path.startswith(("records", "next_offset", "batches")) or path in DECODED}
    return "wrong_data" if depends else "equivalent"


def _counts_are_fewer(line: JudgedLine) -> bool:
    counts = _COUNTS.search(line.why) if line.field.endswith(".length") and "headers" not in line.field else None
    return counts is not None and int(counts[2]) < int(counts[1])


def _only_empty_batches_lack(case: Case, why: str) -> bool:
    """Whether the batches that are missing have no records: only the next position shows them."""
    counts = _COUNTS.search(why)
    return counts is not None and not any(batch.records for batch in case.expect.batches[int(counts[2]) :])


UNLIMITED: Final = "CMP-10"
# The reach of a stall at an entry whose size is too low: only a peer that is no broker gives it in each fetch.
FETCHED_ONCE: Final = CaseReach("hostile", (), "shape", "A broker refuses a fetch that starts at such a size.")


@dataclass(frozen=True, slots=True)
class FindingGrade:
    """The grade of a finding, the inputs of the table that it follows from, and the releases that its reach names."""

    grade: Grade
    effect: Effect
    reach: Reach
    strength: Strength
    reason: str
    releases: tuple[str, ...] = ()


def grade_finding(
    case: Case, line: JudgedLine, supported: SupportedReleases = SUPPORTED, reach: CaseReach | None = None
) -> FindingGrade | None:
    """The grade of the judged *case*; None if it agrees or was skipped.

    Args:
        case: as judged.
        line: the result line.
        supported: the releases that count as supported.
        reach: that of the case, if it is known already.
    """
    effect = effect_of(case, line)
    if effect is None:
        return None
    found = case_reach(case, supported) if reach is None else reach
    if effect == "stuck" and found.reach == "rot" and has_low_size(case) and _is_past_sound_entries(case, line):
        found = FETCHED_ONCE
    lenient = is_lenient(case, line, found.reach) or is_declared(case, line) or starts_with_skippable(case)
    strength = rule_strength(case, effect, lenient=lenient)
    if effect == "memory" and java_takes_as_much(case, line):
        strength = "may"
    row = grade_row(strength, case.expect.verdict, found.reach, effect)
    return FindingGrade(row.grade, effect, found.reach, strength, row.reason, found.releases)


def _is_past_sound_entries(case: Case, line: JudgedLine) -> bool:
    """Whether its fetches start after all sound entries; a broker serves what follows one from which a fetch starts."""
    position = line.observation.get("next_offset")
    return not isinstance(position, int) or position >= position_after(case.expect.batches)


def rule_strength(case: Case, effect: Effect, *, lenient: bool = False) -> Strength:
    """The strength that counts for *effect*: see the module's docstring."""
    if effect == "memory":
        return "may" if UNLIMITED in case.rules else "must"
    own = own_strength(case)
    if lenient or is_unusual(case):
        return weaker(own, "should")
    unread = effect == "rejects_valid" or (effect in UNSAFE and case.expect.verdict == "valid")
    return "must" if unread else own


def java_takes_as_much(case: Case, line: JudgedLine) -> bool:
    """Whether the memory that was taken is about what Kafka's Java client takes, as far as both are known."""
    figure = java_figure(case.id)
    return figure is not None and figure.covers(int(line.observation.get("taken") or 0))


def own_strength(case: Case) -> Strength:
    """The strength of the first rule of *case*; a bare fact binds no codec, and a case of others' has no rule."""
    try:
        return rule(case.rules[0]).strength or "may"
    except LookupError:
        return "must"


def weaker(one: Strength, other: Strength) -> Strength:
    """The weaker of two strengths.

    >>> weaker("must", "should"), weaker("may", "should")
    ('should', 'may')
    """
    return max(one, other, key=STRENGTHS.index)


def is_declared(case: Case, line: JudgedLine) -> bool:
    """Whether valid messages of v0 or v1 are refused with the codec's own word for a compression it does not read."""
    error = line.observation.get("error")
    declines = isinstance(error, Mapping) and error.get("kind") == "unsupported_compression"
    old = bool(case.expect.batches) and all(batch.magic < MAGIC_VALUE_V2 for batch in case.expect.batches)
    return line.outcome == "rejects_valid" and declines and old


def starts_with_skippable(case: Case) -> bool:
    """Whether the lz4 payload of a v2 batch starts with a skippable frame: only Kafka's own reader refuses it."""
    if case.op != "decode" or not isinstance(case.input, bytes):
        return False
    data = case.input
    if len(data) < RECORD_BATCH_OVERHEAD + 4 or data[MAGIC_OFFSET] != MAGIC_VALUE_V2:
        return False
    codec = data[ATTRIBUTES_OFFSET_V2 + 1] & bits.COMPRESSION_CODEC_MASK
    return COMPRESSIONS[codec : codec + 1] == ("lz4",) and data[RECORD_BATCH_OVERHEAD + 1 :][:3] == SKIPPABLE


def is_lenient(case: Case, line: JudgedLine, reach: Reach) -> bool:
    """Whether invalid bytes were accepted with the records that they plainly contain.

    Damage has to be detected, except in the magic of v2, of which no checksum is made.
    """
    if line.outcome != "accepts_invalid" or case.op != "decode" or isinstance(case.input, Recipe):
        return False
    data = input_of(case)
    assert isinstance(data, bytes)
    if reach == "rot" and with_v2_magic(data) == data:
        return False
    given = line.observation
    if PLAIN in given:
        return bool(given[PLAIN])
    # Results of earlier releases have numbers only.
    reading = plain_reading(data)
    if reading is None:
        return False
    if "records" in given:
        return bool(given["records"] == sum(map(len, reading)))
    return bool(given.get("batches") == len(reading))
