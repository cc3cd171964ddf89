"""The reference against Kafka's own client: corpus, mutants and compressed streams."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import pytest
from tests.java.differences import UNKNOWN, answer_of, ask_reference, differences, known_differences
from tests.java.mutate import mutant
from tests.java.streams import stream

from kafka_conformance.observation import Decoded
from kafka_conformance.sandbox import Question, Sandbox

pytestmark = pytest.mark.java

SEED = 20_241_025
MUTANTS = 20_000
STREAMS = 10_000
TOGETHER = 50
SHOWN = 5


def asked(client: Sandbox, inputs: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes, set[str]]]:
    """Name, bytes and differences of each input on which the two do not agree."""
    rest = iter(inputs)
    while group := list(islice(rest, TOGETHER)):
        answers = client.ask([Question(data) for _, data in group])
        for (name, data), answered in zip(group, answers, strict=True):
            assert isinstance(answered.observation, Decoded), (name, data.hex(), answered.observation)
            found = differences(data, ask_reference(data), answer_of(answered.observation))
            if found:
                yield name, data, found


def swept(client: Sandbox, make: Callable[[int, int], tuple[str, bytes]], count: int) -> dict[str, list[str]]:
    """The differences that a series shows, each with the inputs that show it, shortest first."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, data, ids in asked(client, (make(SEED, index) for index in range(count))):
        for known in ids:
            found[known].append(f"{name}: {data.hex()}")
    return {known: sorted(shown, key=len)[:SHOWN] for known, shown in found.items()}


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
