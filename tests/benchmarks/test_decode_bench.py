"""The benchmark of codecs compares like with like."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("numba")

from benchmarks.decode import NAMES, SHAPES, DecoderProcess, log_of, sample_batch
from benchmarks.decode import peer_command as command
from benchmarks.decode_peers import aiokafka, columnar, columnar_checksum, encoding, kafka_python

from kafka_conformance.testees.connection import CannotRun
from kafka_conformance.testees.known import find_testee
from kafka_conformance.testees.recipe import ToolchainMissing
from kafka_pipeline.columnar import read_chunks
from kafka_pipeline.columnar.jit import FOLDER
from kafka_records import decode, encode

pytestmark = pytest.mark.columnar


@pytest.mark.parametrize("name", SHAPES)
def test_all_read_the_same(name: str) -> None:
    """Every decoder reads the same records and the same checksum, the one that the reference gives."""
    from random import Random

    shape = SHAPES[name]
    data = b"".join(encode(sample_batch(shape, Random(seed))) for seed in range(3))
    records = [record for batch in decode(data) for record in batch.records]
    checksum = sum(
        record.offset
        + record.timestamp
        + len(record.key or b"")
        + len(record.value or b"")
        + sum(len(header.key or b"") + len(header.value or b"") for header in record.headers)
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


@pytest.mark.parametrize("name", ["100-bytes", "v1", "v1-lz4", "one-record"])
def test_offsets_of_a_log_rise(name: str) -> None:
    """No offset comes twice or is missing, since a client drops records whose offsets it has read."""
    log = log_of(SHAPES[name])
    offsets = [offset for chunk in read_chunks(log.data) for offset in chunk.records["offset"].to_pylist()]

    assert offsets == list(range(log.records))


@pytest.mark.parametrize("name", ["100-bytes", "3-headers"])
def test_what_is_encoded(name: str) -> None:
    """The encoder that is measured writes the batches of the log, whose CRCs and sizes are the checksum."""
    from random import Random

    shape = SHAPES[name]
    data = encode(sample_batch(shape, Random(1)))
    read_back, work = encoding(data, shape.records)

    assert read_back == (shape.records, int.from_bytes(data[17:21], "big") + len(data))
    assert work() == shape.records


def run(*arguments: str) -> dict[str, float]:
    """The figures of one shape."""
    command = [sys.executable, "-m", "benchmarks.decode", *arguments, "--rounds", "1", "--fresh", "1"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    figures: dict[str, dict[str, float]] = json.loads(done.stdout)
    (only,) = figures.values()
    return only


@pytest.mark.parametrize(("name", "more"), [*((name, ()) for name in NAMES), ("java", ("--encode",))])
def test_peers_in_other_languages(name: str, more: tuple[str, ...], tmp_path: Path) -> None:
    """A peer that can be built reads, or writes, the same; the command fails where it does not."""
    known = find_testee(NAMES[name])
    if known is None or known.recipe is None:
        pytest.skip("the sources of testees are not here")
    try:
        command(name, tmp_path, encode=bool(more))
    except ToolchainMissing as error:
        pytest.skip(str(error))
    figures = run("1-kib", "--peers", name, *more)

    assert figures[f"x {name}"] == pytest.approx(figures["columnar"] / figures[name], rel=0.05)


def test_a_peer_whose_toolchain_is_missing(tmp_path: Path) -> None:
    """It is left out with one line that says why, and the others are measured."""
    elsewhere = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "NUMBA_CACHE_DIR": FOLDER}
    environment = {**os.environ, **elsewhere}
    arguments = ["1-kib", "--peers", "franz-go,aiokafka", "--rounds", "1", "--json"]
    command = [sys.executable, "-m", "benchmarks.decode", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    (figures,) = json.loads(done.stdout).values()

    assert done.stderr == "franz-go is left out: go is not installed or not on the path\n"
    assert "x aiokafka" in figures
    assert "x franz-go" not in figures


def test_a_peer_that_falls() -> None:
    """A process that ends before it has answered is one clear error."""
    with ExitStack() as stack:
        worker = DecoderProcess("absent", [sys.executable, "-c", ""], stack)
        worker.process.wait()
        with pytest.raises(CannotRun, match="absent fell"):
            worker.measure()


def test_the_command() -> None:
    """One round against one peer gives rates and their ratio."""
    figures = run("1-kib", "--peers", "aiokafka")

    assert figures["x aiokafka"] == pytest.approx(figures["columnar"] / figures["aiokafka"], rel=0.05)
