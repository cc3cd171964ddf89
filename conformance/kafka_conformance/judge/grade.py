"""The grade of a finding: one table over rule strength, expectation, reach and effect.

`ROWS` is the whole decision.  The first row that fits a finding gives its grade,
and its sentence is the reason that reports show.  `kafkaproof explain --grade`
prints the table.

    FAIL        a defect that reaches users of supported releases, or the codec's own output
    HOSTILE     a broken or malicious peer can crash, block or deceive the codec
    NON_STRICT  more lenient or stricter than Kafka where that is allowed, or where no user depends on it
    INFO        no record, position or check differs, or no supported release serves such bytes
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal, get_args

from kafka_corpus.case import Verdict as Expectation
from kafka_records.rules import Strength

Grade = Literal["FAIL", "HOSTILE", "NON_STRICT", "INFO"]
Effect = Literal[
    "wrong_data",  # a delivered record, or the position that the consumer continues from, differs from Kafka's
    "lost_data",  # records are left out without an error
    "stuck",  # no answer, or no progress
    "crash",  # the process ends
    "memory",  # more memory than Kafka's client takes for the same bytes
    "accepts_invalid",  # data for bytes that Kafka refuses
    "rejects_valid",  # an error for bytes that Kafka accepts
    "wrong_error",  # a refusal, rightly, with another kind of error, or at another record
    "equivalent",  # no record and no position differs
]
Reach = Literal[
    "any_producer",  # a supported broker stores and serves the bytes
    "broker_itself",  # a supported broker writes them: markers, compaction, recompression, conversion
    "old_logs",  # an older release wrote them to a log that a supported release still serves
    "retired",  # no supported release serves them
    "rot",  # flipped or cut bytes on a disk or wire
    "hostile",  # only a broken or malicious peer sends them
    "as_writer",  # the codec's own output
]
# The parts that a codec can play.
Profile = Literal[
    "consumer",
    "consumer-legacy",  # v0 and v1
    "consumer-transactions",  # markers, and what a read_committed consumer delivers
    "producer",
    "producer-legacy",
    "integrity",  # damage is detected
    "hostile",  # no input stops the process
]
GRADES: Final[tuple[Grade, ...]] = get_args(Grade)
EFFECTS: Final[tuple[Effect, ...]] = get_args(Effect)
PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)
REACHES: Final[tuple[Reach, ...]] = get_args(Reach)
STRENGTHS: Final[tuple[Strength, ...]] = get_args(Strength)
EXPECTATIONS: Final[tuple[Expectation, ...]] = get_args(Expectation)

# A process that gets such input stops working, whatever the format says about the input.
UNSAFE: Final[tuple[Effect, ...]] = ("crash", "stuck", "memory")
# A consumer gets data that the format does not contain.
DECEIVED: Final[tuple[Effect, ...]] = ("accepts_invalid", "wrong_data", "lost_data")
FROM_PEERS: Final[tuple[Reach, ...]] = tuple(reach for reach in REACHES if reach != "as_writer")


@dataclass(frozen=True, slots=True)
class GradeRow:
    """One row of the table: it fits where every input is in its list; an empty list stands for all values."""

    grade: Grade
    reason: str
    effects: tuple[Effect, ...] = ()
    reaches: tuple[Reach, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    strengths: tuple[Strength, ...] = ()

    def fits(self, strength: Strength, expectation: Expectation, reach: Reach, effect: Effect) -> bool:
        """Whether the row is about such a finding."""
        return (
            effect in (self.effects or EFFECTS)
            and reach in (self.reaches or REACHES)
            and expectation in (self.expectations or EXPECTATIONS)
            and strength in (self.strengths or STRENGTHS)
        )

    def conditions(self) -> str:
        """The conditions in one line, as `effect crash or stuck; reach hostile`; `anything else` without one."""
        named = {
            "effect": self.effects,
            "reach": "" if self.reaches == FROM_PEERS else self.reaches,
            "case": self.expectations,
            "rule": self.strengths,
        }
        parts = [f"{name} {' or '.join(values)}" for name, values in named.items() if values]
        parts += ["reach any but as_writer"] if self.reaches == FROM_PEERS else []
        return "; ".join(parts) or "anything else"


ROWS: Final = (
    GradeRow("INFO", "No record, position or check differs from Kafka's.", effects=("equivalent",)),
    GradeRow(
        "INFO", "The input is refused, but with another kind of error, or at another record.", effects=("wrong_error",)
    ),
    GradeRow(
        "INFO",
        "No rule limits what such input takes, or Kafka's client takes as much.",
        effects=("memory",),
        strengths=("may",),
    ),
    GradeRow(
        "HOSTILE",
        "A hostile peer can send bytes that no supported release serves.",
        effects=UNSAFE,
        reaches=("retired",),
    ),
    GradeRow("INFO", "No supported release serves such bytes.", reaches=("retired",)),
    GradeRow("HOSTILE", "A hostile peer can stop the process.", effects=UNSAFE, reaches=("hostile",)),
    GradeRow(
        "HOSTILE",
        "The bytes may be refused or read, but must not stop the process.",
        effects=UNSAFE,
        reaches=FROM_PEERS,
        expectations=("acceptable",),
    ),
    GradeRow(
        "HOSTILE",
        "The rule is not a requirement, but no input may stop the process.",
        effects=UNSAFE,
        reaches=FROM_PEERS,
        strengths=("should", "may"),
    ),
    GradeRow("INFO", "The rule describes what Kafka tolerates.", strengths=("may",)),
    GradeRow("NON_STRICT", "The bytes may be refused or read.", expectations=("acceptable",)),
    GradeRow("NON_STRICT", "The rule is a recommendation, or the result is the same.", strengths=("should",)),
    GradeRow(
        "HOSTILE",
        "Forged input is accepted.",
        effects=DECEIVED,
        reaches=("hostile",),
        expectations=("invalid",),
    ),
    GradeRow("NON_STRICT", "Kafka reads the bytes, but no supported broker serves them.", reaches=("hostile",)),
    GradeRow(
        "NON_STRICT",
        "A request that Kafka's writer refuses is written.",
        effects=("accepts_invalid",),
        reaches=("as_writer",),
    ),
    GradeRow("FAIL", "Users of supported releases get wrong or no data, or damage is not detected."),
)


def grade_row(strength: Strength, expectation: Expectation, reach: Reach, effect: Effect) -> GradeRow:
    """The row that decides the grade."""
    return next(row for row in ROWS if row.fits(strength, expectation, reach, effect))


def grade_of(strength: Strength, expectation: Expectation, reach: Reach, effect: Effect) -> Grade:
    """The grade of a finding.

    >>> grade_of("must", "valid", "any_producer", "lost_data")
    'FAIL'
    >>> grade_of("must", "acceptable", "any_producer", "wrong_data")
    'NON_STRICT'
    """
    return grade_row(strength, expectation, reach, effect).grade


def all_inputs() -> Iterator[tuple[Strength, Expectation, Reach, Effect]]:
    """Every input of the table, once."""
    return product(STRENGTHS, EXPECTATIONS, REACHES, EFFECTS)


def grade_table() -> list[tuple[int, Grade, str, str]]:
    """The rows as `explain --grade` prints them: number, grade, conditions, reason."""
    return [(number, row.grade, row.conditions(), row.reason) for number, row in enumerate(ROWS, start=1)]


def grade_rank(grade: Grade) -> int:
    """0 for `FAIL`."""
    return GRADES.index(grade)
