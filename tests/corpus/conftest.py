"""A corpus of five cases, and a folder in which it is compiled and may be tampered with."""

from pathlib import Path

import pytest

from kafka_corpus import compiler
from kafka_corpus.authoring.build import TIMESTAMP, put, raw_batch, raw_record
from kafka_corpus.case import Case, Expectation, Op
from kafka_records import Batch, Record, encode

RECORDS = (Record(0, TIMESTAMP, None, b"value"),)
BATCH = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=TIMESTAMP, records=RECORDS)
PACKED = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=TIMESTAMP, records=RECORDS, compression="gzip")
DATA = raw_batch(raw_record())


def make(name: str, rule: str, given: bytes | Batch, expect: Expectation) -> Case:
    """A case in the area `sample`."""
    op: Op = "encode" if isinstance(given, Batch) else "decode"
    return Case(id=f"sample.{name}", title=name, rules=(rule,), area="sample", op=op, input=given, expect=expect)


@pytest.fixture
def sample() -> list[Case]:
    """One case of each kind, sorted by id."""
    broken = put(DATA, "crc", 1)
    accepted = Expectation(verdict="acceptable", batches=(BATCH,), kinds=("malformed",), why="readers differ")
    return [
        make("accepts", "ATT-08", raw_batch(raw_record(), attributes=0x100), accepted),
        make("packs", "GZP-08", PACKED, Expectation(verdict="valid", data=encode(PACKED), compare="masked")),
        make("reads", "HDR-01", DATA, Expectation(verdict="valid", batches=(BATCH,))),
        make("refuses", "CRC-07", broken, Expectation(verdict="invalid", kinds=("corrupt",))),
        make("writes", "HDR-01", BATCH, Expectation(verdict="valid", data=DATA)),
    ]


@pytest.fixture
def root(tmp_path: Path, sample: list[Case]) -> Path:
    """A folder with the sample compiled in it."""
    compiler.write_compiled(compiler.compile_corpus(sample, tmp_path), tmp_path)
    (tmp_path / "evidence").mkdir()
    return tmp_path
