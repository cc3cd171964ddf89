"""How a case is written: a function with a docstring, its rules above it.

    @case("CRC-02", each=CODECS)
    def crc_skips_leader_epoch(codec: Compression) -> Draft:
        "The partition leader epoch changes after the CRC is computed; the batch is still valid."
        ...
        return valid(data, batch)

The id is module and function name, with the parameter in brackets; the title is
the docstring's first sentence.  Builders are deterministic: no clock, no random.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_corpus.case import Case, Compare, Expectation, Op, Question, Recipe, Verdict
from kafka_corpus.scenario import NEWEST, Made, Produce, Scenario, Step, StepAnswer, op_of
from kafka_records import Batch, Kind


@dataclass(frozen=True, slots=True)
class Draft:
    """The result of a case function: the question and its right answer."""

    op: Op
    input: Question
    expect: Expectation
    aborted: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class RegisteredCase:
    """A case function as registered, with its parameters by name."""

    function: Callable[..., Draft]
    rules: tuple[str, ...]
    each: Mapping[str, Any] | None
    refs: tuple[str, ...]
    since: str
    supersedes: str | None


_registry: dict[str, RegisteredCase] = {}


def case(
    *rules: str,
    each: Mapping[str, Any] | Iterable[str] | None = None,
    refs: Iterable[str] = (),
    since: str = "1.0",
    supersedes: str | None = None,
) -> Callable[[Callable[..., Draft]], Callable[..., Draft]]:
    """Register a case function under the *rules* that it tests, the main one first.

    Args:
        rules: ids in the rule catalogue.
        each: parameters by name, or names that are the parameters themselves;
            each makes a case of its own.
        refs: JIRA issues, KIPs, seed lines.
        since: the corpus version that brings it.
        supersedes: the id that it replaces.
    """
    named = each if each is None or isinstance(each, Mapping) else {name: name for name in each}

    def register(function: Callable[..., Draft]) -> Callable[..., Draft]:
        base = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        if base in _registry:
            raise ValueError(f"there is a case {base} already")
        if not rules or not inspect.getdoc(function):
            raise ValueError(f"the case {base} needs a rule and a docstring")
        _registry[base] = RegisteredCase(function, rules, named, tuple(refs), since, supersedes)
        return function

    return register


def registered(areas: Collection[str] | None = None) -> Iterator[Case]:
    """Every case that was registered, or those of *areas*, built."""
    for base, entry in _registry.items():
        if areas is None or base.partition(".")[0] in areas:
            yield from build_registered(base, entry)


def build_registered(base: str, entry: RegisteredCase) -> Iterator[Case]:
    """The cases of one function, one for each parameter."""
    title = case_title(entry.function)
    if entry.each is None:
        yield build_case(base, title, entry, entry.function())
        return
    for name, value in entry.each.items():
        yield build_case(f"{base}[{name}]", f"{title} [{name}]", entry, entry.function(value))


def build_case(id_: str, title: str, entry: RegisteredCase, draft: Draft) -> Case:
    """A draft with everything that its registration says about it."""
    return Case(
        id=id_,
        title=title,
        rules=entry.rules,
        area=id_.partition(".")[0],
        op=draft.op,
        input=draft.input,
        expect=draft.expect,
        refs=entry.refs,
        since=entry.since,
        supersedes=entry.supersedes,
        aborted=draft.aborted,
    )


def case_title(function: Callable[..., Draft]) -> str:
    """The first sentence of the docstring, on one line."""
    text = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".")


def valid(data: bytes | Recipe, *batches: Batch, compare: Compare = "exact") -> Draft:
    """*data* has to decode to exactly *batches*."""
    return Draft("decode", data, Expectation(verdict="valid", batches=batches, compare=compare))


def reads_committed(
    data: bytes,
    *batches: Batch,
    aborted: Iterable[tuple[int, int]] = (),
    seen: Iterable[int],
    kinds: tuple[Kind, ...] = (),
    why: str = "",
) -> Draft:
    """*data* has to decode to *batches*; a read_committed consumer sees the records at the offsets *seen*.

    Args:
        data: what was fetched, from offset 0 on.
        batches: what is in it.
        aborted: producer id and first offset of each transaction that the broker names as aborted, in its order.
        seen: the offsets of what is committed.
        kinds: the errors that fit where *why* is given; with none any error does.
        why: for *data* that no broker holds, or that a codec may refuse.
    """
    verdict: Verdict = "acceptable" if why else "valid"
    expect = Expectation(verdict=verdict, batches=batches, kinds=kinds, why=why, committed=tuple(seen))
    return Draft("decode", data, expect, tuple(aborted))


def invalid(data: bytes | Recipe, *kinds: Kind, before: tuple[Batch, ...] = ()) -> Draft:
    """*data* has to be refused; *kinds* fit, the best first; *before* are the batches before the error."""
    return Draft("decode", data, Expectation(verdict="invalid", kinds=kinds, batches=before))


def acceptable(data: bytes | Recipe, *batches: Batch, kinds: tuple[Kind, ...] = (), why: str) -> Draft:
    """*data* may be refused with one of *kinds*, or decode to *batches*; *why* names those that differ."""
    return Draft("decode", data, Expectation(verdict="acceptable", batches=batches, kinds=kinds, why=why))


def must_write(batch: Batch, data: bytes, *, compare: Compare = "exact") -> Draft:
    """*batch* has to be written as *data*."""
    return Draft("encode", batch, Expectation(verdict="valid", data=data, compare=compare))


def must_refuse(batch: Batch, *kinds: Kind) -> Draft:
    """A writer has to refuse *batch*."""
    return Draft("encode", batch, Expectation(verdict="invalid", kinds=kinds))


# For `may_write`: Kafka's own writer refuses a batch that the format could hold.
STRICT_WRITER = "Kafka's writer refuses it; the format can hold it, and readers take it"


def may_write(batch: Batch, data: bytes, *, why: str, compare: Compare = "exact") -> Draft:
    """A writer may refuse *batch*, or write it as *data*; *why* names those that differ."""
    return Draft("encode", batch, Expectation(verdict="acceptable", data=data, compare=compare, why=why))


def error_answer(error_code: int, **more: Any) -> StepAnswer:
    """A broker's answer to a payload that it does not take."""
    return StepAnswer(error_code=error_code, **more)


def stored(data: bytes, *, base_offset: int = 0, **more: Any) -> StepAnswer:
    """A broker's answer to a payload that it stores as *data*."""
    return StepAnswer(base_offset=base_offset, data=data, **more)


def produced(
    payload: bytes | Recipe,
    answer: StepAnswer,
    *,
    api_version: int = NEWEST,
    config: Mapping[str, str] | None = None,
    since: str = "",
    until: str = "",
    compare: Compare = "exact",
) -> Draft:
    """*payload*, produced to a fresh partition, is answered with *answer*.

    Args:
        payload: the record bytes of the produce request.
        answer: `stored(…)` or `error_answer(…)`, in the newest release of the range.
        api_version: the newest version of the request to be used.
        config: the topic's settings.
        since: the oldest release of the range; unless given, that with v2 where *payload* is v2.
        until: the newest; unless given, the last one that has the version.
        compare: "masked" where the broker recompresses the records.
    """
    step = _produce(payload, api_version)
    return scene((step, answer), config=config, since=since, until=until, compare=compare)


def _produce(payload: bytes | Recipe, api_version: int) -> Produce:
    if isinstance(payload, Recipe):
        return Produce(recipe=Made(payload.name, payload.args), api_version=api_version)
    return Produce(data=payload, api_version=api_version)


def scene(
    *script: tuple[Step, StepAnswer],
    config: Mapping[str, str] | None = None,
    since: str = "",
    until: str = "",
    compare: Compare = "exact",
) -> Draft:
    """Steps and their answers; the arguments are those of `produced`."""
    steps = tuple(step for step, _ in script)
    answers = tuple(answer for _, answer in script)
    scenario = Scenario(steps=steps, config=dict(config or {}), since=since, until=until).bounded()
    verdict: Verdict = "invalid" if any(answer.error_code for answer in answers) else "valid"
    return Draft(op_of(steps), scenario, Expectation(verdict=verdict, compare=compare, answers=answers))
