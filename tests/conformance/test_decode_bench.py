"""The benchmark of decoders compares like with like."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("numba")

from kafka_conformance.decode_bench.peers import aiokafka, columnar, columnar_checksum, kafka_python
from kafka_conformance.decode_bench.shapes import SHAPES, batch_of, log_of
from kafka_records import decode, encode

pytestmark = pytest.mark.columnar


@pytest.mark.parametrize("name", SHAPES)
def test_all_read_the_same(name: str) -> None:
    """Every decoder reads the same records and the same checksum, the one that the reference gives."""
    from random import Random

    shape = SHAPES[name]
    data = b"".join(encode(batch_of(shape, Random(seed))) for seed in range(3))
    records = [record for batch in decode(data) for record in batch.records]
    checksum = sum(
        record.offset
        + record.timestamp
        + len(record.key or b"")
        + len(record.value or b"")
        + sum(len(header.key) + len(header.value or b"") for header in record.headers)
        for record in records
    )

    assert columnar_checksum(data) == (len(records), checksum % 2**63)
    assert columnar(data).records == len(records)
    assert kafka_python(data) == (len(records), checksum % 2**63)
    if name != "v0":
        assert aiokafka(data) == (len(records), checksum % 2**63)


def test_a_log_holds_what_it_says() -> None:
    """A log's number of records is that of its bytes, and it is the same every time."""
    log = log_of(SHAPES["1-kib"])

    assert columnar(log.data).records == log.records
    assert log_of(SHAPES["1-kib"]) == log


def test_the_command() -> None:
    """One round against one peer gives rates and their ratio."""
    command = [sys.executable, "-m", "kafka_conformance.decode_bench", "1-kib", "--peers", "aiokafka", "--rounds", "1"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    (figures,) = json.loads(done.stdout).values()

    assert figures["x aiokafka"] == pytest.approx(figures["columnar"] / figures["aiokafka"], rel=0.05)
