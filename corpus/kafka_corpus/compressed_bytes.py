"""Which codec libraries made the compressed bytes of the vectors.

Another release of a codec library writes other bytes for the same data, and the content of an id must not change
with the machine.  `MADE_BY` made the bytes of every vector; a vector that was compiled with other libraries
names those in its line.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import metadata
from typing import Final

import msgspec
from msgspec import UNSET

from kafka_corpus.answer_diff import difference, same_above_compression
from kafka_corpus.answers import ask_reference, data_difference
from kafka_corpus.case import Case
from kafka_corpus.scenario import Produce, Scenario, Step
from kafka_corpus.vector_format import content_hash

MADE_BY: Final = {"gzip": "1.2.13", "lz4": "4.4.5", "snappy": "2.14.0", "zstd": "0.25.0"}
# The distributions that compress; python-snappy does its work in cramjam, and gzip is zlib.
DISTRIBUTIONS: Final = {"lz4": "lz4", "snappy": "cramjam", "zstd": "zstandard"}


@cache
def installed_libraries() -> dict[str, str]:
    """The versions of the codec libraries of this environment, by codec."""
    return {"gzip": zlib.ZLIB_RUNTIME_VERSION} | {
        codec: metadata.version(name) for codec, name in DISTRIBUTIONS.items()
    }


def unusual_libraries() -> dict[str, str]:
    """The installed libraries that are not those of `MADE_BY`."""
    return {codec: version for codec, version in installed_libraries().items() if MADE_BY[codec] != version}


def made_elsewhere(libraries: dict[str, str]) -> bool:
    """Whether a line with these *libraries* was compiled with others than the installed ones."""
    return MADE_BY | libraries != installed_libraries()


def all_libraries(lines: Iterable[dict[str, str]]) -> dict[str, list[str]]:
    """Every version that made bytes of the corpus, by codec; *lines* are the libraries that each line names."""
    found = {codec: {version} for codec, version in MADE_BY.items()}
    for libraries in lines:
        for codec, version in libraries.items():
            found[codec].add(version)
    return {codec: sorted(versions) for codec, versions in found.items()}


def keep_bytes(case: Case, old: Case) -> Case:
    """*case* with the bytes of *old*, if the two differ in nothing but how they are compressed."""
    expect = replace(case.expect, data=old.expect.data, answers=old.expect.answers)
    candidate = replace(case, input=old.input, expect=expect)
    if content_hash(candidate) != content_hash(old):
        return case
    return candidate if _same_question(case, old) and _same_answer(case, old) else case


def _same_question(case: Case, old: Case) -> bool:
    if isinstance(case.input, bytes):
        return ask_reference(case) == ask_reference(old)
    if isinstance(case.input, Scenario) and isinstance(old.input, Scenario):
        return _same_scenario(case.input, old.input)
    return case.input == old.input


def _same_scenario(new: Scenario, old: Scenario) -> bool:
    bare = replace(new, steps=()) == replace(old, steps=()) and len(new.steps) == len(old.steps)
    return bare and all(map(_same_step, new.steps, old.steps))


def _same_step(new: Step, old: Step) -> bool:
    if not isinstance(new, Produce) or not isinstance(old, Produce):
        return new == old
    for name in ("data", "again", "beside"):
        one, other = getattr(new, name), getattr(old, name)
        if (one is UNSET) != (other is UNSET) or (one is not UNSET and not same_above_compression(one, other)):
            return False
    return _without_bytes(new) == _without_bytes(old)


def _without_bytes(step: Produce) -> Produce:
    return msgspec.structs.replace(step, data=UNSET, again=UNSET, beside=UNSET)


def _same_answer(case: Case, old: Case) -> bool:
    if isinstance(case.input, Scenario):
        return not difference(old.expect.answers, case.expect.answers, "masked")
    return case.op != "encode" or not data_difference(old, case.expect.data or b"")
