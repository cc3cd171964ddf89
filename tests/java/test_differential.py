"""The reference against Kafka's own client: corpus, mutants and compressed streams."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import pytest
from tests.java.batches import batch
from tests.java.differences import (
    UNKNOWN,
    answer_of,
    ask_reference,
    differences,
    encode_difference,
    known_differences,
    known_encode_differences,
)
from tests.java.mutate import mutant
from tests.java.streams import stream

from kafka_conformance.judge.observation import Decoded, Encoded, Refused, Skipped
from kafka_conformance.runner.requests import CaseRequest, group_cases, request_for
from kafka_conformance.runner.sandbox import Sandbox
from kafka_corpus.vectors import load_vectors
from kafka_corpus.wire import to_wire

pytestmark = pytest.mark.java

SEED = 20_241_025
MUTANTS = 20_000
STREAMS = 10_000
BATCHES = 10_000
TOGETHER = 50
SHOWN = 5


def disagreements(client: Sandbox, inputs: Iterable[tuple[str, bytes]]) -> Iterator[tuple[set[str], str]]:
    """The differences over each input on which the two do not agree, and what to show of it."""
    rest = iter(inputs)
    while group := list(islice(rest, TOGETHER)):
        answers = client.ask([CaseRequest(data) for _, data in group])
        for (name, data), answered in zip(group, answers, strict=True):
            assert isinstance(answered.observation, Decoded), (name, data.hex(), answered.observation)
            reference, java = ask_reference(data), answer_of(answered.observation)
            if found := differences(data, reference, java):
                yield found, f"{name}: reference {reference.error or 'ok'}, java {java.error or 'ok'}: {data.hex()}"


def swept(client: Sandbox, make: Callable[[int, int], tuple[str, bytes]], count: int) -> dict[str, list[str]]:
    """The differences that a series shows, each with the shortest inputs that show it."""
    found: dict[str, list[str]] = defaultdict(list)
    for names, shown in disagreements(client, (make(SEED, index) for index in range(count))):
        for name in names:
            found[name].append(shown)
    return {name: sorted(shown, key=len)[:SHOWN] for name, shown in found.items()}


def test_cases_are_read_alike(java_client: Sandbox) -> None:
    """Every decode case of the corpus is read alike, but for the cases that are listed one by one."""
    cases = [case for case in load_vectors() if case.op == "decode"]
    assert cases
    found: dict[str, set[str]] = defaultdict(set)
    for group in group_cases(cases, TOGETHER):
        questions = [request_for(case) for case in group]
        for case, sent, answered in zip(group, questions, java_client.ask(questions), strict=True):
            assert isinstance(sent.subject, bytes)
            assert isinstance(answered.observation, Decoded), (case.id, answered.observation)
            reference, java = ask_reference(sent.subject), answer_of(answered.observation)
            for name in differences(sent.subject, reference, java):
                found[name].add(case.id)
    assert found.pop(UNKNOWN, set()) == set()
    assert found == {known.id: set(known.cases) for known in known_differences() if known.cases}


@pytest.mark.slow
def test_mutants_are_read_alike(java_client: Sandbox) -> None:
    """20,000 mutants of valid batches of all formats are read alike, but for what is listed."""
    found = swept(java_client, mutant, MUTANTS)
    assert found.get(UNKNOWN, []) == []
    assert set(found) == {known.id for known in known_differences() if "mutants" in known.shown_by}


@pytest.mark.slow
def test_compressed_streams_are_read_alike(java_client: Sandbox) -> None:
    """10,000 streams with every option of the four framings are read alike, but for what is listed."""
    found = swept(java_client, stream, STREAMS)
    assert found.get(UNKNOWN, []) == []
    assert set(found) == {known.id for known in known_differences() if "streams" in known.shown_by}


@pytest.mark.slow
def test_batches_are_written_alike(java_client: Sandbox) -> None:
    """10,000 batches are written with the same bytes above compression, or refused by both, but for what is listed."""
    found: dict[str, list[str]] = defaultdict(list)
    compared = 0
    for start in range(0, BATCHES, TOGETHER):
        made = [batch(SEED, index) for index in range(start, start + TOGETHER)]
        for one, answered in zip(made, java_client.ask([CaseRequest(to_wire(one)) for one in made]), strict=True):
            observation = answered.observation
            if not isinstance(observation, Skipped):
                assert isinstance(observation, Encoded | Refused), (one, observation)
                compared += 1
                found[encode_difference(one, observation)].append(f"{observation}: {one}")
    # The others ask for what MemoryRecordsBuilder works out itself: the adapter skips them.
    assert compared > 0.8 * BATCHES
    assert sorted(found.pop(UNKNOWN, []), key=len)[:SHOWN] == []
    assert found.keys() - {""} == {known.id for known in known_encode_differences()}
