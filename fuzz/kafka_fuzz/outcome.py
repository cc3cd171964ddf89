"""What one target did with one input: its class, its severity, and the key by which finds are told apart.

Keys never hold a line number, because lines move and one defect has several.  An
exception is told by its type and by the innermost function of the target's own
package; what has no function (an invalid input that was taken) by the lie in it.
"""

from __future__ import annotations

from typing import Final, Literal, cast, get_args

import msgspec

from kafka_conformance.severity import Severity

OutcomeClass = Literal[
    "ok",  # it gave what is right, or may give anything
    "refused",  # an error of its own for bytes that may be refused
    "wrong_data",
    "crash",
    "hang",
    "memory",
    "amplification",  # far more memory or time than the input's size explains
    "accepts_invalid",
    "rejects_valid",
    "leaked_exception",  # an exception that its users are not told of
    "wrong_error",
    "difference",  # targets disagree, and nobody knows who is right
    "lossy",
]
CLASSES: Final[tuple[OutcomeClass, ...]] = get_args(OutcomeClass)
# Outcomes that are no finds.
GOOD: Final[frozenset[OutcomeClass]] = frozenset({"ok", "refused"})
# By how bad they are where the judge has no such word.
SEVERITY: Final[dict[OutcomeClass, Severity]] = {
    "amplification": "memory",
    "leaked_exception": "wrong_error",
    "difference": "wrong_data",
}
# A native stack or an exception's text may be long, and none of our doing.
MOST_DETAIL: Final = 200


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """One target and one input.

    Attributes:
        target: who was asked, as `kafka-python`.
        kind: what happened.
        detail: the exception's type, the signal, or the path of the first field that differs.
        function: the innermost function of the target's package, `module.function`.
        lie: the label of the lie in the input, where there is one.
        why: one line for people; no part of the key.
    """

    target: str
    kind: OutcomeClass
    detail: str = ""
    function: str = ""
    lie: str = ""
    why: str = ""

    @property
    def is_find(self) -> bool:
        """Whether somebody has to look at it."""
        return self.kind not in GOOD

    @property
    def key(self) -> str:
        """What makes two finds one: target, class, detail, and the function, or the lie where there is none."""
        return "|".join((self.target, self.kind, self.detail[:MOST_DETAIL], self.function or f"lie {self.lie}"))

    @property
    def bucket(self) -> str:
        """The key without the lie, which not every mutator knows: what mutators are measured by."""
        return "|".join((self.target, self.kind, self.detail[:MOST_DETAIL], self.function))


def severity(kind: OutcomeClass) -> Severity:
    """The judge's word for *kind*; KeyError for what is no find.

    >>> severity("leaked_exception"), severity("hang")
    ('wrong_error', 'hang')
    """
    if kind in GOOD:
        raise KeyError(kind)
    return SEVERITY.get(kind) or cast(Severity, kind)  # the other names are the judge's
