"""Grades of answers: the quick comparison reports nothing that the judge does not."""

from random import Random

import msgspec
import pytest
from msgspec import UNSET

from kafka_conformance.judge.observation import Decoded
from kafka_conformance.judge.verdict import judge
from kafka_conformance.testees.protocol import Refusal
from kafka_corpus.case import Case, Expectation
from kafka_corpus.wire import BATCH_FIELDS, RECORD_FIELDS, WireBatch, to_wire
from kafka_fuzz.mutate import mutate
from kafka_fuzz.targets.codecs import is_right, is_right_so_far

ANSWERS = 300


def verdict(expected: Expectation, observed: Decoded) -> str:
    """The judge's outcome."""
    case = Case(id="fuzz", title="", rules=(), area="fuzz", op="decode", input=b"", expect=expected)
    return judge(case, observed).outcome


def answers(seed: int) -> list[tuple[Expectation, list[WireBatch]]]:
    """Right answers, and what a codec that reads them so would give."""
    rng = Random(seed)
    right = (mutate(rng, (), "model").expected for _ in range(ANSWERS))
    return [(each, list(map(to_wire, each.batches))) for each in right if each is not None]


def altered(rng: Random, batches: list[WireBatch]) -> None:
    """One field of one batch or record is left out, or another one."""
    batch = rng.choice(batches)
    if isinstance(batch.records, list) and batch.records and rng.random() < 0.7:
        record = rng.choice(batch.records)
        name = rng.choice(RECORD_FIELDS)
        setattr(record, name, rng.choice((UNSET, [(b"h", None)] if name == "headers" else -7)))
    elif rng.random() < 0.2:
        batches.append(msgspec.structs.replace(batch))
    else:
        setattr(batch, rng.choice(BATCH_FIELDS[:-1]), rng.choice((UNSET, -7)))


def test_what_is_right_is_seen_to_be() -> None:
    """An answer that is the expected one is right without the judge."""
    results = [(each, is_right(each, Decoded(tuple(given)))) for each, given in answers(1)]
    assert all(right == (each.verdict != "invalid") for each, right in results)
    assert {right for _, right in results} == {True, False}


@pytest.mark.parametrize("seed", range(4))
def test_the_judge_agrees_with_what_is_right(seed: int) -> None:
    """Of answers with a field left out or altered, none is called right that the judge finds fault with."""
    rng = Random(seed)
    called = []
    for expected, given in answers(seed):
        if given:
            altered(rng, given)
        observed = Decoded(tuple(given))
        called.append(is_right(expected, observed))
        assert called[-1] == (verdict(expected, observed) in ("agree", "lossy")) or not called[-1]
    assert {True, False} == set(called)


@pytest.mark.parametrize("seed", range(4))
def test_the_judge_agrees_before_an_error(seed: int) -> None:
    """Batches that are right before an allowed error are, for the judge, no worse than another error."""
    rng = Random(seed)
    called = []
    for expected, given in answers(seed):
        if given and rng.random() < 0.7:
            altered(rng, given)
        called.append(is_right_so_far(expected, given))
        if called[-1]:
            assert verdict(expected, Decoded(tuple(given), Refusal("other", ""))) in ("agree", "wrong_error", "lossy")
    assert {True, False} == set(called)
