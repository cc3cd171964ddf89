"""What a run amounts to: a score that nothing but a codec can earn, and a certificate.

**Score.** For a set of cases, `v` is the credit on valid cases and `i` on
invalid ones, each between 0 and 1: a case that agrees counts 1, `lossy` and
`wrong_error` (right in the main thing) count 1/2, everything else 0, skipped
cases too.  Cases whose verdict is `acceptable` count on neither side.

    score = max(0, v + i - 1)

This is Youden's index.  Whoever answers all cases alike gets nothing: one that
refuses everything has v = 0, one that accepts everything has i = 0, one that
skips or stays mute has both 0; so v + i never exceeds 1.  Where a set has no
valid (or no invalid) cases, that side is taken from the whole run, so that no
area can be won by one answer either.

**Certified** is a testee of which all of this holds, over the whole corpus:

- the run is complete and every case of the corpus was selected;
- nothing worse than `wrong_error` and `lossy` but declared deviations
  (`deviations.py`), and no declared deviation has gone stale;
- at most `MAX_SKIPPED` of the cases were skipped;
- its score over the cases that it answered is at least `MIN_ANSWERED_SCORE`;
- its score is above that of every null testee on the same cases.

The null testees are judged here by the judge itself, on the same cases, and
their scores are published beside.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_conformance.judge import SEVERITIES, Outcome, Severity, judge
from kafka_conformance.observation import Decoded, Encoded, Hung, Observation, Played, Refused, Skipped
from kafka_conformance.protocol import Refusal
from kafka_conformance.results import Line, Results, line_for
from kafka_corpus.case import Case
from kafka_corpus.scenario import Scenario, StepAnswer

# Codecs that read and write v2 only leave about half of the corpus alone.
MAX_SKIPPED: Final = 0.6
MIN_ANSWERED_SCORE: Final = 0.9
SERIOUS: Final[frozenset[Severity]] = frozenset(
    {"wrong_data", "crash", "hang", "memory", "accepts_invalid", "rejects_valid"}
)

CREDIT: Final[Mapping[Outcome, float]] = {"agree": 1.0, "lossy": 0.5, "wrong_error": 0.5}

TAKEN: Final = StepAnswer(base_offset=0)
CORRUPT: Final = StepAnswer(error_code=2)


def _accepting(case: Case) -> Observation:
    if isinstance(case.input, Scenario):
        return Played((TAKEN,) * len(case.input.steps))
    return Decoded(()) if case.op == "decode" else Encoded(b"")


def _refusing(case: Case) -> Observation:
    if isinstance(case.input, Scenario):
        return Played((CORRUPT,) * len(case.input.steps))
    return Refused(Refusal("corrupt", "refused"))


NULLS: Final[Mapping[str, Callable[[Case], Observation]]] = {
    "mute": lambda _: Hung(0.0),
    "accept-all": _accepting,
    "refuse-all": _refusing,
    "skip-all": lambda _: Skipped("skipped"),
}


@dataclass(frozen=True, slots=True)
class Rates:
    """Credit on valid and on invalid cases; None where there are none."""

    valid: float | None
    invalid: float | None

    def score(self, whole: Rates) -> float:
        """Youden's index, a missing side taken from *whole*, 0 where that has none either."""
        valid = whole.valid if self.valid is None else self.valid
        invalid = whole.invalid if self.invalid is None else self.invalid
        return max(0.0, (valid or 0.0) + (invalid or 0.0) - 1.0)


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a run amounts to.

    Attributes:
        score: over all cases, those skipped counting nothing.
        answered_score: over the cases that were not skipped.
        areas: score by area.
        nulls: what the null testees score on the same cases.
        skipped: share of the cases that were skipped.
        certified: see the module's docstring.
        reasons: why not, one line each.
    """

    score: float
    answered_score: float
    areas: Mapping[str, float]
    nulls: Mapping[str, float]
    skipped: float
    certified: bool
    reasons: tuple[str, ...]


def rates(lines: Iterable[Line]) -> Rates:
    """The credit of *lines* on each side."""
    sides: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        sides[line.expected].append(CREDIT.get(line.outcome, 0.0))
    return Rates(_mean(sides["valid"]), _mean(sides["invalid"]))


def _mean(credits: Sequence[float]) -> float | None:
    return sum(credits) / len(credits) if credits else None


def score(lines: Sequence[Line]) -> float:
    """The score of *lines*, taken as a whole run."""
    whole = rates(lines)
    return whole.score(whole)


def scores_by_area(lines: Sequence[Line]) -> dict[str, float]:
    """The score in each area."""
    whole = rates(lines)
    areas: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        areas[line.area].append(line)
    return {area: _rates_of_area(areas[area]).score(whole) for area in sorted(areas)}


def _rates_of_area(lines: Sequence[Line]) -> Rates:
    """As `rates`, but a side that was skipped whole is none; over a whole run it counts against it."""
    answered = {line.expected for line in lines if line.outcome != "skipped"}
    return rates(line for line in lines if line.expected in answered)


def null_scores(cases: Sequence[Case]) -> dict[str, float]:
    """What each null testee scores on *cases*."""
    return {name: score([_null_line(case, answer) for case in cases]) for name, answer in NULLS.items()}


def _null_line(case: Case, answer: Callable[[Case], Observation]) -> Line:
    return line_for(case, judge(case, answer(case)), {}, 0.0, 0)


def certify(results: Results, cases: Sequence[Case], known: frozenset[str], stale: Sequence[str]) -> Certificate:
    """The certificate of *results* on *cases*.

    Args:
        results: one run.
        cases: the cases that were selected for it.
        known: ids of the cases whose finding is a declared deviation.
        stale: declared deviations that no longer happen.
    """
    lines = results.lines
    answered = [line for line in lines if line.outcome != "skipped"]
    skipped = 1 - len(answered) / len(lines) if lines else 1.0
    nulls = null_scores(cases)
    own, own_answered = score(lines), score(answered)
    reasons = (
        *_incomplete(results),
        *_serious(lines, known),
        *(f"a declared deviation no longer happens: {entry}" for entry in stale),
        *_too_little(skipped, own, own_answered, nulls),
    )
    return Certificate(own, own_answered, scores_by_area(lines), nulls, skipped, not reasons, reasons)


def _incomplete(results: Results) -> Iterable[str]:
    if not results.complete:
        yield f"the run is incomplete: {len(results.lines)} of {results.header.cases} cases"
    if results.header.only:
        yield "only a part of the corpus was run"


def _serious(lines: Iterable[Line], known: frozenset[str]) -> Iterable[str]:
    counts = Counter(line.outcome for line in lines if line.case not in known)
    return [f"{counts[severity]:,} × {severity}" for severity in SEVERITIES if severity in SERIOUS and counts[severity]]


def _too_little(skipped: float, own: float, answered: float, nulls: Mapping[str, float]) -> Iterable[str]:
    if skipped > MAX_SKIPPED:
        yield f"{skipped:.0%} of the cases were skipped, {MAX_SKIPPED:.0%} are allowed"
    if answered < MIN_ANSWERED_SCORE:
        yield f"the score over answered cases is {answered:.3f}, the least is {MIN_ANSWERED_SCORE}"
    best = max(nulls.values(), default=0.0)
    if own <= best:
        yield f"the score {own:.3f} is not above that of a null testee, {best:.3f}"
