"""The adapter of Kafka's codec does not heal it: a class of Kafka's with a defect gives wrong data."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_conformance.judge.observation import Encoded
from kafka_conformance.judge.verdict import judge
from kafka_conformance.runner.requests import request_for
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees import recipe
from kafka_conformance.testees.connection import VIRTUAL_MACHINE_MEMORY, ConnectionSpec
from kafka_conformance.testees.known import JAVA
from kafka_corpus.case import Case, Expectation
from kafka_records import Batch, Record, encode

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

BUILDER = "org/apache/kafka/common/record/internal/MemoryRecordsBuilder.class"
# `if (timestamp > maxTimestamp) maxTimestamp = timestamp`: getfield, lcmp, ifle, aload_0, lload_3, putfield.
LARGER = re.compile(rb"(?P<before>\xb4(?P<field>..)\x94)\x9e(?P<after>..\x2a\x21\xb5(?P=field))", re.DOTALL)
IFGT = b"\x9d"  # with it, a larger timestamp is passed over
# Seconds for a case.
SECONDS = 60.0

RECORDS = tuple(Record(at, 1_700_000_000_000 + at, b"key", b"value") for at in range(3))
RISING = Batch(magic=2, base_offset=0, last_offset=2, max_timestamp=RECORDS[-1].timestamp, records=RECORDS)


@pytest.fixture
def reversed_builder(tmp_path: Path) -> Iterator[Sandbox]:
    """The testee with a builder that computes the max timestamp wrongly."""
    java = next(each for each in recipe.recipes() if each.name == JAVA)
    built = recipe.build_testee(java)
    (jar,) = (built / "lib").glob("kafka-clients-*.jar")
    with zipfile.ZipFile(jar) as archive:
        sound = archive.read(BUILDER)
    wrong, count = LARGER.subn(rb"\g<before>" + IFGT + rb"\g<after>", sound)
    assert count == 1
    target = tmp_path / BUILDER
    target.parent.mkdir(parents=True)
    target.write_bytes(wrong)
    argv = recipe.built_command(java, built)
    at = argv.index("-cp") + 1
    argv[at] = f"{tmp_path}:{argv[at]}"  # in front of Kafka's own
    sandbox = Sandbox(ConnectionSpec(name=JAVA, argv=tuple(argv), memory=VIRTUAL_MACHINE_MEMORY), SECONDS)
    yield sandbox
    sandbox.close()


def test_a_wrong_max_timestamp_is_wrong_data(reversed_builder: Sandbox, java_client: Sandbox) -> None:
    """The max timestamp of a batch is the builder's, and none that the adapter sets."""
    expect = Expectation(verdict="valid", data=encode(RISING))
    case = Case(id="a.b", title="", rules=("TIM-07",), area="a", op="encode", input=RISING, expect=expect)
    (sound,) = java_client.ask([request_for(case)])
    (wrong,) = reversed_builder.ask([request_for(case)])
    assert isinstance(wrong.observation, Encoded)

    verdict = judge(case, wrong.observation)

    assert judge(case, sound.observation).outcome == "agree"
    assert (verdict.outcome, verdict.field) == ("wrong_data", "batches[0].max_timestamp")
