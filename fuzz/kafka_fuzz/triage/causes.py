"""Why finds are alike, as a maintainer would put it: the headings under which people read them.

Finds stay apart where their keys differ.  What is done with invalid bytes goes
under the causes by which findings of the corpus are reported, told by the rule
that the bytes break; what has none of them, under what the testee said or did.
"""

from __future__ import annotations

from typing import Final

from kafka_conformance.dossiers import causes
from kafka_conformance.results import Line
from kafka_fuzz.outcome import Outcome, OutcomeClass, severity
from kafka_fuzz.writing.judging import WRITING

# Of these, the rule that the bytes break says why.
BY_RULE: Final[frozenset[OutcomeClass]] = frozenset({"accepts_invalid", "hang", "memory", "amplification"})


def cause_of(outcome: Outcome, right: str) -> str:
    """One line; *right* is the reference's verdict on the bytes, `ok` or kind and rule."""
    rule = right.partition(" ")[2]
    if outcome.kind in BY_RULE and rule and not outcome.detail.startswith(WRITING):
        found = causes.cause_of(_line(outcome, rule))
        if found.number < causes.MADE:
            return found.title
    what = outcome.kind.replace("_", " ")
    where = outcome.function.rpartition("/")[2] if _says_function(outcome) else rule.partition("-")[0]
    said = "" if outcome.detail == "error" else outcome.detail
    return ": ".join(filter(None, (what, said, where)))


def _says_function(outcome: Outcome) -> bool:
    """Whether `function` holds one, and not the rule or format by which a key is told."""
    return "." in outcome.function


def _line(outcome: Outcome, rule: str) -> Line:
    return Line(
        case="fuzz",
        outcome=severity(outcome.kind),
        area="fuzz",
        op="decode",
        expected="invalid",
        rules=(rule,),
        field="error" if outcome.kind == "accepts_invalid" else outcome.detail,
        why=outcome.why,
    )
