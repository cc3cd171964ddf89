"""The format of a vector: a case as one line of JSON that needs none of our code.

The line is in canonical form (keys in the order below, no spaces).  `kafkaproof corpus export` writes such
lines; `kafka_corpus.vectors` keeps them in the tree, and `kafka_corpus.schema` generates the JSON Schema from
the structs here.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kafka_corpus.case import Case, Compare, Expectation, Op, Question, Recipe, Verdict
from kafka_corpus.scenario import Scenario, Step, StepAnswer
from kafka_corpus.wire import WireBatch, from_wire, to_wire
from kafka_records import Batch, Kind

SCHEMA_VERSION: Final = 1
CORPUS_VERSION: Final = "1.2"
# Ids might change until 1.0 was frozen.
UNRELEASED: Final = False

OPS: Final[tuple[Op, ...]] = get_args(Op)
# The operations that codecs answer; all others run on brokers.
CODEC_OPS: Final[tuple[Op, ...]] = ("decode", "encode")

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class RecipeInput(msgspec.Struct):
    """Bytes that are too many to keep, and how to make them."""

    name: str
    args: dict[str, Any]


class ScenarioInput(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The steps to run on a broker's fresh partition, and the releases that the scenario concerns."""

    steps: Annotated[list[Step], Meta(min_length=1)]
    config: Annotated[dict[str, str], Meta(description="the topic's settings")] = {}
    since: Annotated[str, Meta(description="the oldest release; empty for the oldest of all")] = ""
    until: Annotated[str, Meta(description="the newest release; empty for the newest of all")] = ""


class Input(msgspec.Struct, omit_defaults=True):
    """The question; exactly one of the four."""

    data: Annotated[bytes, Meta(description="decode these bytes")] | UnsetType = UNSET
    batch: Annotated[WireBatch, Meta(description="write this batch")] | UnsetType = UNSET
    aborted: Annotated[list[tuple[int, int]], Meta(description="producer id, first offset")] | UnsetType = UNSET
    recipe: RecipeInput | UnsetType = UNSET
    scenario: ScenarioInput | UnsetType = UNSET


class Expect(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The right answer; `Expectation` documents the fields."""

    verdict: Verdict
    batches: list[WireBatch] | UnsetType = UNSET
    data: bytes | UnsetType = UNSET
    kinds: list[Kind]
    compare: Compare
    why: str = ""
    answers: Annotated[list[StepAnswer], Meta(description="brokers: one for each step")] = []
    committed: Annotated[list[int], Meta(description="offsets that read_committed sees")] | UnsetType = UNSET


class Vector(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One case."""

    id: Annotated[str, Meta(pattern=r"^[a-z0-9_]+\.[a-z0-9_]+(\[.+\])?$")]
    title: str
    rules: Annotated[list[str], Meta(min_length=1)]
    area: str
    op: Op
    input: Input
    expect: Expect
    evidence: Mapping[str, Any]
    refs: list[str]
    since: str
    supersedes: str | UnsetType = UNSET


class Answer(msgspec.Struct, omit_defaults=True, kw_only=True):
    """An implementation's answer to a case.

    Batches and bytes are kept as hashes; as a whole only where they are not what
    the case expects.
    """

    verdict: Literal["ok", "error", "skipped", "crashed", "hung", "exceeded", "garbled"]
    kind: str = ""
    message: str = ""
    rule: str = ""
    path: str = ""
    offset: int | UnsetType = UNSET
    batches_sha256: Sha256 | UnsetType = UNSET
    data_sha256: Sha256 | UnsetType = UNSET
    batches: list[WireBatch] | UnsetType = UNSET
    data: bytes | UnsetType = UNSET
    answers: Annotated[list[StepAnswer], Meta(description="to the steps of a scenario")] | UnsetType = UNSET


class BriefStep(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A broker's answer to one step, with a hash for the bytes; `StepAnswer` documents the fields."""

    error_code: int = 0
    base_offset: int = -1
    log_append_time: int = -1
    data_sha256: Sha256 | UnsetType = UNSET
    record_errors: tuple[int, ...] = ()
    closed: bool = False
    ended: bool = False


class BrokerAnswer(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The answer of a broker of one release: as the case expects, or its own steps."""

    as_expected: bool = False
    steps: list[BriefStep] = []


_encoder = msgspec.json.Encoder()
_vectors = msgspec.json.Decoder(Vector)


def to_vector(case: Case) -> Vector:
    """The case in its JSON shape."""
    return Vector(
        id=case.id,
        title=case.title,
        rules=list(case.rules),
        area=case.area,
        op=case.op,
        input=_to_input(case),
        expect=_to_expect(case),
        evidence=dict(case.evidence),
        refs=list(case.refs),
        since=case.since,
        supersedes=case.supersedes or UNSET,
    )


def _to_input(case: Case) -> Input:
    match given := case.input:
        case Scenario():
            return Input(scenario=_to_scenario(given))
        case Batch():
            return Input(batch=to_wire(given))
        case Recipe(name, args):
            return Input(recipe=RecipeInput(name, args))
    return Input(data=given, aborted=UNSET if case.aborted is None else list(case.aborted))


def _to_scenario(given: Scenario) -> ScenarioInput:
    return ScenarioInput(steps=list(given.steps), config=given.config, since=given.since, until=given.until)


def _to_expect(case: Case) -> Expect:
    expect = case.expect
    return Expect(
        verdict=expect.verdict,
        batches=list(map(to_wire, expect.batches)) if case.op == "decode" else UNSET,
        data=UNSET if expect.data is None else expect.data,
        kinds=list(expect.kinds),
        compare=expect.compare,
        why=expect.why,
        answers=list(expect.answers),
        committed=UNSET if case.aborted is None else list(expect.committed),
    )


def to_case(vector: Vector) -> Case:
    """The case that a vector stands for."""
    expect = vector.expect
    return Case(
        id=vector.id,
        title=vector.title,
        rules=tuple(vector.rules),
        area=vector.area,
        op=vector.op,
        input=_from_input(vector.input),
        expect=Expectation(
            verdict=expect.verdict,
            batches=() if expect.batches is UNSET else tuple(map(from_wire, expect.batches)),
            data=None if expect.data is UNSET else expect.data,
            kinds=tuple(expect.kinds),
            compare=expect.compare,
            why=expect.why,
            answers=tuple(expect.answers),
            committed=() if expect.committed is UNSET else tuple(expect.committed),
        ),
        evidence=vector.evidence,
        refs=tuple(vector.refs),
        since=vector.since,
        supersedes=None if vector.supersedes is UNSET else vector.supersedes,
        aborted=None if vector.input.aborted is UNSET else tuple(vector.input.aborted),
    )


def _from_input(given: Input) -> Question:
    if given.scenario is not UNSET:
        scenario = given.scenario
        return Scenario(steps=tuple(scenario.steps), config=scenario.config, since=scenario.since, until=scenario.until)
    if given.data is not UNSET:
        return given.data
    if given.batch is not UNSET:
        return from_wire(given.batch)
    if given.recipe is UNSET:
        raise ValueError("an input holds one of data, batch, recipe and scenario")
    return Recipe(given.recipe.name, given.recipe.args)


def line_of(case: Case) -> bytes:
    """The case as one line, newline included."""
    return _encoder.encode(to_vector(case)) + b"\n"


def parse_line(line: bytes) -> Case:
    """The case in one line; raises `msgspec.DecodeError` (a `ValueError`)."""
    return to_case(_vectors.decode(line))


def content_hash(case: Case) -> str:
    """SHA-256 of the question and its right answer, without the reason in words."""
    expect = _to_expect(case)
    expect.why = ""
    return sha256(_encoder.encode({"op": case.op, "input": _to_input(case), "expect": expect})).hexdigest()


def corpus_hash_of(hashes: Iterable[tuple[str, str]]) -> str:
    """The hash of a corpus, from the (id, content hash) of its cases."""
    return sha256("".join(f"{content}  {id_}\n" for id_, content in sorted(hashes)).encode()).hexdigest()


def input_of(case: Case) -> bytes | Batch:
    """The bytes to decode or the batch to write; a recipe is carried out.

    Raises:
        TypeError: the case is a scenario for a broker.
    """
    if isinstance(case.input, Scenario):
        raise TypeError(f"{case.id} runs on a broker, and has no single input")
    if not isinstance(case.input, Recipe):
        return case.input
    # Few need it, and it imports every codec.
    from kafka_corpus.recipes import build_recipe

    return build_recipe(case.input)


def matches(pattern: str, id_: str) -> bool:
    """Whether *pattern* names *id_*: an id, function or area, or one with `*` and `?` in it.

    Brackets are plain characters, for ids have them.  The time grows with the product of both lengths, however
    many stars there are.

    >>> matches("v2_batch.crc_*", "v2_batch.crc_skips_epoch[lz4]"), matches("v2_batch", "v2_batch.crc")
    (True, True)
    """
    if "*" in pattern or "?" in pattern:
        return _glob(pattern).match(id_) is not None
    return pattern in (id_, id_.partition("[")[0], id_.partition(".")[0])


@lru_cache
def _glob(pattern: str) -> re.Pattern[str]:
    # `translate` puts each part between two stars into an atomic group, which is never tried again.
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))
