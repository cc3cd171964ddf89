"""`check_codec`: the corpus put to functions of this process, in one assertion.

from kafka_conformance import check_codec

def test_our_decoder():
    check_codec(our_decode, magics=[2], deviations="deviations.toml")
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

import msgspec

from kafka_conformance import keeping, report, results
from kafka_conformance.deviations import Deviation, load
from kafka_conformance.in_process.codec import MAGICS, MEMORY, SECONDS, Codec, Decode, Encode, Errors
from kafka_conformance.judge import Verdict, judge
from kafka_conformance.observation import Skipped, summary
from kafka_conformance.questions import beyond, is_heavy
from kafka_conformance.report import Report
from kafka_conformance.reporting.terminal import alike
from kafka_conformance.results import Header, Line
from kafka_conformance.selection import select
from kafka_corpus.case import Case, Op
from kafka_corpus.vectors import CODEC_OPS, corpus_hash, load_vectors
from kafka_records.constants import COMPRESSIONS
from kafka_records.rules import rule

MOST_FINDINGS: Final = 20
# Stands in results where a connect string would.
IN_PROCESS: Final = "in-process"


def check_codec(
    decode: Decode | None = None,
    encode: Encode | None = None,
    *,
    only: str | Sequence[str] = (),
    magics: Collection[int] = MAGICS,
    compressions: Collection[str] = COMPRESSIONS,
    errors: Errors | None = None,
    deviations: str | Path | Sequence[Deviation] = (),
    name: str = "",
    version: str = "",
    heavy: bool = False,
    seconds: float | None = SECONDS,
    memory: int | None = MEMORY,
    result: str | Path | None = None,
    raises: bool = True,
) -> Report:
    """Put the corpus to a codec in this process; raise one `AssertionError` that says what is wrong with it.

    A batch that `decode` gives is a mapping with the fields of the testee
    protocol's BATCH (`{"magic": 2, "records": [{"offset": 0, "key": b"k", ...}]}`;
    keys, values and header keys are bytes), a `kafka_corpus.wire.WireBatch` or
    a `kafka_records.Batch`.  A field that the codec does not expose is left
    out.  `decode` may be a generator: what it gave before an exception counts.
    An exception is a refusal; `NotDone` says that the codec has no such feature.

    Args:
        decode: the batches in some bytes; a partial one at the end is dropped.
        encode: the bytes for a `kafka_records.Batch`.
        only: cases by id, area or rule, with `*` and `?`; all if empty.
        magics: the formats that the codec knows; it is not asked others.
        compressions: the compressions that it knows, likewise.
        errors: the kind of error that an exception class means, first match
            first, "malformed" for all others; without, kinds are not compared.
        deviations: known deviations, or the TOML file with them; strict, one
            that no longer happens is a failure too.
        name: of the codec, for the summary.
        version: of the codec.
        heavy: ask also for inputs that are made to take all time and memory.
            A testee in a process of its own is the better place for them.
        seconds: how long one case may take; None for no limit.
        memory: bytes of address space that one case may take (Linux).  Without,
            there is no limit; an extension that ends the process when it gets
            no memory would end the tests with it.
        result: where to write the result file, for `kafkaproof report`.
        raises: False gives the report and raises no `AssertionError`.

    Returns:
        The report; `findings`, `by_area()` and `agrees` say most of it.

    Raises:
        AssertionError: something disagrees, or a known deviation no longer happens.
        TypeError: there is neither decode nor encode, or what `decode` gives is no batch.
        ValueError: no case is selected, or the deviations cannot be read.
    """
    if decode is None and encode is None:
        raise TypeError("check_codec needs decode, encode or both")
    codec = Codec(
        decode=decode, encode=encode, name=name, version=version, magics=tuple(magics), errors=errors,
        compressions=tuple(compressions), seconds=seconds, memory=memory,
    )  # fmt: skip
    codec.check_shape()
    patterns = [only] if isinstance(only, str) else list(only)
    declared = load(Path(deviations)) if isinstance(deviations, str | Path) else tuple(deviations)
    cases = [case for case in chosen(patterns, heavy=heavy) if codec.does(case)]
    if not cases:
        raise ValueError(f"no case is selected by {', '.join(patterns)}; kafkaproof corpus list shows them")
    made = _report(codec, cases, patterns, declared, result)
    if raises and (made.fresh or made.applied.stale):
        raise AssertionError(told(made))
    return made


def chosen(only: Sequence[str], *, ops: Collection[str] = CODEC_OPS, heavy: bool = False) -> list[Case]:
    """The cases that *only* selects, those for brokers left out and heavy ones if they are not wanted."""
    cases = select(_loaded(tuple(cast(Collection[Op], ops))), only)
    return cases if heavy else [case for case in cases if not is_heavy(case)]


@cache
def _loaded(ops: tuple[Op, ...]) -> Sequence[Case]:
    """The corpus, read once for all tests of a session."""
    return load_vectors(ops=ops)


def _report(
    codec: Codec, cases: Sequence[Case], only: Sequence[str], declared: Sequence[Deviation], path: str | Path | None
) -> Report:
    testee = msgspec.to_builtins(codec.hello()) | {"connect": IN_PROCESS}
    settings = {"seconds": codec.seconds, "memory": codec.memory}
    # What runs here is never the whole corpus as a testee is asked it.
    header = Header(
        testee=testee, corpus=corpus_hash(), cases=len(cases), only=list(only) or [IN_PROCESS], settings=settings
    )
    with TemporaryDirectory() as folder:
        where = Path(path) if path else Path(folder) / results.FILE
        keeping.check_covers(where, header.only, len(cases), whole=[IN_PROCESS], hint="name another file")
        _write(where, header, codec, cases)
        return report.make(results.read(where), cases, declared, where)


def _write(path: Path, header: Header, codec: Codec, cases: Sequence[Case]) -> None:
    writer = results.Writer(path, header)
    began = time.monotonic()
    try:
        lines = []
        for case in cases:
            lines.append(ask(codec, case)[0])
            writer.write(lines[-1:])
        counts = results.Results(header, tuple(lines), None).counts()
        writer.finish(counts=counts, seconds=round(time.monotonic() - began, 3), waited=0.0, starts=0, strays=0)
    finally:
        writer.close()


def ask(codec: Codec, case: Case) -> tuple[Line, Verdict]:
    """Put *case* to *codec*: the line of the result, and the verdict."""
    began = time.monotonic()
    observation = beyond(case, codec.hello()) or codec.observe(case)
    spent = 0.0 if isinstance(observation, Skipped) else time.monotonic() - began
    verdict = judge(case, observation)
    return results.line_for(case, verdict, summary(observation), spent, 0), verdict


def told(made: Report) -> str:
    """What is wrong, worst first, as the message of an assertion."""
    testee, counts = made.results.header.testee, made.results.counts()
    known = len(made.findings) - len(made.fresh)
    aside = f", {known:,} known deviations aside" if known else ""
    asked = len(made.results.lines) - counts["skipped"]
    name = " ".join(filter(None, (testee["name"], testee["version"])))
    return "\n".join([f"{name} disagrees in {len(made.fresh):,} of {asked:,} cases{aside}", *_findings(made)])


def _findings(made: Report) -> Iterator[str]:
    groups = alike(made.fresh)
    for first, others in groups[:MOST_FINDINGS]:
        more = f"  and {len(others):,} alike" if others else ""
        yield f"  {first.line.outcome:<15}  {first.line.case}  {first.line.rules[0]}  {first.line.why}{more}"
    left = sum(1 + len(others) for _, others in groups[MOST_FINDINGS:])
    if left:
        yield f"  and {left:,} more"
    for entry in made.applied.stale:
        yield f"  stale deviation  {entry.case}: {entry.severity} no longer happens"
    if groups:
        yield f"look at one with: kafkaproof explain --case '{groups[0][0].line.case}'"


def told_of_case(case: Case, verdict: Verdict) -> str:
    """One finding, with its rule in words, as the message of a failed test."""
    lines = [f"{verdict.outcome}: {verdict.why}", f"  case   {case.id}", f"         {case.title}"]
    lines += [f"  rule   {rule(case.rules[0]).id}: {rule(case.rules[0]).statement}"] if case.rules else []
    return "\n".join([*lines, f"  bytes  kafkaproof explain --case '{case.id}'"])
