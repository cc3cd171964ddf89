"""The parts of a case: an input, the right answer, and the reason.

A case is written as a function (`kafka_corpus.registry`), compiled to one line
of a vector file (`kafka_corpus.vectors`) and judged by `kafka_conformance`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar
from weakref import ref

from kafka_corpus.scenario import Scenario, StepAnswer
from kafka_records import Batch, Kind

# The last five run on brokers: a payload is produced; bytes are fetched, also in old formats;
# the bytes on disk are read; the cleaner runs.
Op = Literal["decode", "encode", "append", "fetch", "convert", "segment", "compact"]
Verdict = Literal[
    "valid",  # must give exactly what is expected
    "invalid",  # must be refused
    "acceptable",  # may do either; giving other data is still wrong
]
Compare = Literal[
    "exact",  # decode: every exposed field; encode: every byte
    "masked",  # encode: header fields and decompressed payload, length and CRC recomputed
    "records",  # decode: offsets, timestamps, keys, values and headers of the records only
    "readable",  # encode: whatever the reference reads back as the same batch
]


@dataclass(frozen=True, slots=True)
class Recipe:
    """An input made at run time, because its bytes are too many to keep.

    Attributes:
        name: a function of `kafka_corpus.recipes`.
        args: its keyword arguments, plain JSON values.
    """

    name: str
    args: dict[str, Any] = field(default_factory=dict)


Question = bytes | Batch | Recipe | Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The right answer.

    Attributes:
        verdict: see `Verdict`.
        batches: decode: the batches; when invalid, those before the error.
        data: encode: the bytes (compressed ones serve as one example).
        kinds: the error kinds that fit, best first; empty means any.
        compare: how closely an answer has to match.
        why: for `acceptable`: who disagrees with whom.
        answers: brokers: the right answer to each step, in the newest release that the scenario is about.
        committed: decode: the offsets of the records that a read_committed consumer sees, where the case says what
            was aborted.
    """

    verdict: Verdict
    batches: tuple[Batch, ...] = ()
    data: bytes | None = None
    kinds: tuple[Kind, ...] = ()
    compare: Compare = "exact"
    why: str = ""
    answers: tuple[StepAnswer, ...] = ()
    committed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class Case:
    """One question to a codec, and its right answer.

    Attributes:
        id: `module.function` or `module.function[parameter]`; never reused.
        title: first sentence of the docstring.
        rules: ids in the rule catalogue, the one under test first.
        area: the case module, as `v2_batch`.
        op: the operation under test.
        input: bytes to decode, a batch to encode, a recipe for bytes, or a scenario for a broker.
        evidence: recorded answers by implementation and release, `{"java": {"4.4.0": …}}`.
        refs: JIRA issues, KIPs, seed lines.
        since: the corpus version that brought it.
        supersedes: the id that this case replaces.
        aborted: decode: producer id and first offset of each transaction that the fetch lists as aborted, for
            read_committed consumers; None if the case is not about them.
    """

    id: str
    title: str
    rules: tuple[str, ...]
    area: str
    op: Op
    input: Question
    expect: Expectation
    evidence: Mapping[str, Any] = field(default_factory=dict)
    refs: tuple[str, ...] = ()
    since: str = "1.0"
    supersedes: str | None = None
    aborted: tuple[tuple[int, int], ...] | None = None


_P = ParamSpec("_P")
_T = TypeVar("_T")


def once_per_case(work: Callable[Concatenate[Case, _P], _T]) -> Callable[Concatenate[Case, _P], _T]:
    """*work*, done once for each `Case` object and its further arguments, which have to be hashable.

    A value is kept for as long as its case, to which it must not refer.  All callers get the same value, so none may
    change it.  Equal cases that are two objects are two cases: a comparison would take longer than most of the work.
    """
    kept: dict[int, tuple[ref[Case], dict[Any, _T]]] = {}

    def value_of(case: Case, /, *args: _P.args, **named: _P.kwargs) -> _T:
        address = id(case)
        if address not in kept:
            kept[address] = ref(case, lambda _: kept.pop(address, None)), {}
        _, values = kept[address]
        arguments = (args, *named.items())
        if arguments not in values:
            values[arguments] = work(case, *args, **named)
        return values[arguments]

    update_wrapper(value_of, work)
    return value_of
