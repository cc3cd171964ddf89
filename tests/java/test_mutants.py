"""A handful of mutants of the Java client, end to end."""

from pathlib import Path

import pytest

from kafka_conformance.power import java
from kafka_conformance.power.results import SEEN, CodeMutant

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]


# Method, line, mutator and index, and the result that is right.
CHOSEN = {
    ("readUnsignedVarint(Ljava/nio/ByteBuffer;)I", 228, "InlineConstantMutator", 18): "seen",
    ("writeVarlong(JLjava/io/DataOutput;)V", 500, "InlineConstantMutator", 17): "hang",  # writes until memory ends
    ("hashCode()I", 277, "PrimitiveReturnsMutator", 95): "not-reached",
    ("ensureOpenForRecordBatchWrite()V", 817, "RemoveConditionalMutator_EQUAL_ELSE", 18): "same-replies",
}


def place(mutant: CodeMutant) -> tuple[str, int, str, int]:
    """The key of `CHOSEN`."""
    return mutant.method, mutant.line, mutant.mutator, mutant.index


def test_some_mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong mask is seen, an endless loop is given up, `hashCode` is not reached, and a guard is not missed."""
    # The wheel has no sources of the program that makes mutants.
    sources = Path(__file__).resolve().parents[2] / "conformance" / "power" / "java"
    monkeypatch.setattr(java, "SOURCES", sources)
    client = java.JavaClient()
    found = list(client.run([each for each in client.mutants() if place(each) in CHOSEN]))
    assert {place(result): result.status for result in found} == CHOSEN
    assert all(result.cases for result in found if result.status in SEEN)
