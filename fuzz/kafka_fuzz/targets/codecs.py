"""Python codecs in process: bytes in, judged by what is right, told apart by what they raise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_conformance.observation import Decoded
from kafka_conformance.protocol import Refusal
from kafka_conformance.testee import CodecError, load
from kafka_fuzz.targets.base import Target, Told, leak
from kafka_fuzz.targets.oracle import is_right_so_far, right_answer, told_of

if TYPE_CHECKING:
    from kafka_conformance.testee import Testee
    from kafka_fuzz.mutate import Mutant


@dataclass(frozen=True, slots=True)
class Codec:
    """A testee in process.

    Attributes:
        testee: what decodes.
        packages: of the codec itself, not of the adapter.
        documented: the names of the exceptions that its users are told of.
    """

    testee: Testee
    packages: tuple[str, ...]
    documented: frozenset[str]

    def ask(self, mutant: Mutant) -> Told:
        """Decode, and say what that is worth."""
        expected = right_answer(mutant)
        try:
            observed = Decoded(tuple(self.testee.decode(mutant.data)))
        except CodecError as error:
            cause = error.__cause__ or error
            documented = self.is_documented(cause)
            if not documented and is_right_so_far(expected, error.batches):
                return leak(cause, self.packages)
            told = told_of(mutant, expected, Decoded(tuple(error.batches), Refusal(error.kind, str(error))))
            if documented:
                return told
            kind = told.kind if told.kind in ("rejects_valid", "wrong_data") else "leaked_exception"
            return leak(cause, self.packages, kind)
        return told_of(mutant, expected, observed)

    def is_documented(self, error: BaseException) -> bool:
        """Whether its users are told of *error*."""
        return any(cls.__name__ in self.documented for cls in type(error).__mro__)


def codec_target(name: str, module: str, packages: tuple[str, ...], documented: tuple[str, ...]) -> Target:
    """The testee *module* as a target; ImportError where what it needs is not installed."""
    testee = load(module)
    return Target(name, testee.VERSION, packages, Codec(testee, packages, frozenset(documented)).ask)
