"""Testees written on the spot, and a small corpus that shows every kind of mistake."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from gzip import compress
from pathlib import Path

import pytest

from kafka_conformance.runner.sandbox import MAX_SECONDS, Sandbox
from kafka_conformance.testees.connection import ConnectionSpec
from kafka_conformance.testees.known import connect
from kafka_corpus.case import Case, Compare, Expectation, Op, Recipe
from kafka_records import Batch, Header, Kind, Record, decode, encode
from kafka_records.checksum import checksum_v2
from kafka_records.layout import BATCH_V2

TIMESTAMP = 1_700_000_000_123

# A testee in a few lines of plain Python, without our packages, so that it starts at once.
SCRIPT = """
import base64, json, os, signal, subprocess, sys, time
def reply(**fields):
    sys.stdout.write(json.dumps(fields) + "\\n")
    sys.stdout.flush()
{setup}
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "hello":
        reply(**(dict(protocol=1, name="script", version="1") | dict({hello})))
        continue
    id = request["id"]
    for data in [base64.b64decode(text) for text in request.get("many", [request.get("data", "")])]:
{body}
"""

Script = Callable[..., ConnectionSpec]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Make a testee from the body of its loop, which sees `id`, `data` and `request`."""

    def make(body: str, *, hello: str = "", setup: str = "") -> ConnectionSpec:
        path = tmp_path / "testee.py"
        indented = "".join(f"        {line}\n" for line in body.strip("\n").splitlines())
        path.write_text(SCRIPT.format(body=indented, hello=hello, setup=setup), encoding="utf-8")
        return connect(f"process:{sys.executable} -S -E {path}")

    return make


@pytest.fixture
def sandbox() -> Iterator[Callable[..., Sandbox]]:
    """Make sandboxes that are closed at the end.

    The time limit is long, so that nothing but a hang reaches it; tests of hangs give a short one.
    """
    made: list[Sandbox] = []

    def make(connection: ConnectionSpec, seconds: float = MAX_SECONDS) -> Sandbox:
        made.append(Sandbox(connection, seconds))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def gone() -> Callable[[int], bool]:
    """Whether a process ends within five seconds; a zombie has ended."""

    def ended(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    def wait(pid: int) -> bool:
        end = time.monotonic() + 5
        while not ended(pid) and time.monotonic() < end:
            time.sleep(0.01)
        return ended(pid)

    return wait


def batch(*records: Record, **fields: object) -> Batch:
    """A v2 batch around *records*, as Kafka's writer would describe it."""
    last = records[-1].offset if records else -1
    newest = max((record.timestamp for record in records), default=-1)
    defaults: dict[str, object] = {"magic": 2, "base_offset": 0, "last_offset": last, "max_timestamp": newest}
    return Batch(**{**defaults, **fields}, records=records)  # type: ignore[arg-type]  # fields of any type


def record(offset: int = 0, key: bytes | None = b"key", value: bytes | None = b"value", *headers: Header) -> Record:
    """A record that is a little later than the one before."""
    return Record(offset, TIMESTAMP + offset, key, value, headers)


def resealed(data: bytes) -> bytes:
    """A v2 batch with the length and the CRC that it should have."""
    length, crc = BATCH_V2.field("batch_length"), BATCH_V2.field("crc")
    data = data[: length.offset] + (len(data) - 12).to_bytes(4, "big") + data[length.offset + 4 :]
    return data[: crc.offset] + checksum_v2(data).to_bytes(4, "big") + data[crc.offset + 4 :]


def with_payload(data: bytes, payload: bytes) -> bytes:
    """A v2 batch with other bytes after its header."""
    return resealed(data[: BATCH_V2.size] + payload)


def with_field(data: bytes, name: str, value: int) -> bytes:
    """A v2 batch with another number in one header field."""
    field = BATCH_V2.field(name)
    number = value.to_bytes(field.width, "big", signed=value < 0)
    return resealed(data[: field.offset] + number + data[field.offset + field.width :])


def _case(name: str, op: Op, given: bytes | Batch | Recipe, expect: Expectation, area: str = "small") -> Case:
    return Case(id=f"{area}.{name}", title=name, rules=("FRM-01",), area=area, op=op, input=given, expect=expect)


def valid(name: str, data: bytes) -> Case:
    """A decode case whose right answer is the reference's."""
    return _case(name, "decode", data, Expectation(verdict="valid", batches=decode(data)))


def invalid(name: str, data: bytes, *kinds: Kind, before: tuple[Batch, ...] = ()) -> Case:
    """A decode case that has to be refused."""
    return _case(name, "decode", data, Expectation(verdict="invalid", kinds=kinds, batches=before))


def writes(name: str, given: Batch, compare: Compare = "exact") -> Case:
    """An encode case whose right answer is the reference's."""
    return _case(name, "encode", given, Expectation(verdict="valid", data=encode(given), compare=compare))


def refuses_to_write(name: str, given: Batch) -> Case:
    """An encode case that has to be refused."""
    return _case(name, "encode", given, Expectation(verdict="invalid", kinds=("malformed",)))


def small_corpus() -> list[Case]:
    """Cases that expose every planted bug at least once."""
    plain = encode(batch(record()))
    three = encode(batch(record(), record(1), record(2)))
    headers = batch(record(0, b"key", b"value", Header(b"h", b"v"), Header(b"\xff\xfe", None)))
    legacy = tuple(Record(100 + at, TIMESTAMP + at, b"k", b"v") for at in range(3))
    wrapper = Batch(
        magic=1, base_offset=100, last_offset=102, compression="gzip", max_timestamp=TIMESTAMP + 2, records=legacy
    )
    zipped = encode(batch(record(), record(1), compression="gzip"))
    inner = encode(batch(record(), record(1)))[BATCH_V2.size :]
    members = compress(inner[:10], mtime=0) + compress(inner[10:], mtime=0)
    return [
        valid("plain", plain),
        valid("three", three),
        valid("empty_and_null", encode(batch(record(0, b"", None), record(1, None, b"")))),
        valid("headers", encode(headers)),
        valid("append_time", encode(batch(record(), timestamp_type="append", max_timestamp=TIMESTAMP + 5000))),
        valid("wrapper", encode(wrapper)),
        valid("v0", encode(Batch(magic=0, base_offset=7, last_offset=7, timestamp_type="none",
                                 records=(Record(7, -1, b"k", b"v"),)))),
        valid("gzip", zipped),
        valid("gzip_members", with_payload(zipped, members)),
        valid("snappy", encode(batch(record(), compression="snappy"))),
        valid("lz4", encode(batch(record(), compression="lz4"))),
        valid("zstd", encode(batch(record(), compression="zstd"))),
        valid("empty", with_field(with_payload(plain, b""), "record_count", 0)),
        valid("wrapped_sequence", encode(batch(record(), record(1), producer_id=1, producer_epoch=0,
                                               base_sequence=2**31 - 1))),
        valid("two_and_a_part", plain + three + plain[:-1]),
        invalid("crc", plain.replace(b"value", b"wrong"), "corrupt"),
        invalid("second_crc", plain + plain.replace(b"value", b"wrong"), "corrupt", before=decode(plain)),
        invalid("trailing", with_payload(plain, plain[BATCH_V2.size :] + b"\x00")),
        invalid("cut", with_payload(plain, plain[BATCH_V2.size : -1]), "truncated", "malformed"),
        invalid("count", with_field(plain, "record_count", 2**31 - 1), "truncated", "malformed"),
        invalid("magic", plain[:16] + b"\x05" + plain[17:], "unsupported_magic"),
        writes("write_plain", batch(record(0, b"key", b"value", Header(b"h", b"v")))),
        writes("write_gzip", batch(record(), record(1), compression="gzip"), "masked"),
        refuses_to_write("write_headers_to_v0", Batch(magic=0, base_offset=0, last_offset=0, timestamp_type="none",
                                                      records=(Record(0, -1, b"k", b"v", (Header(b"h", b"v"),)),))),
    ]  # fmt: skip


@pytest.fixture(scope="session")
def corpus() -> list[Case]:
    """The small corpus."""
    return small_corpus()


@pytest.fixture(scope="session")
def named(corpus: list[Case]) -> dict[str, Case]:
    """The small corpus by short name."""
    return {case.id.partition(".")[2]: case for case in corpus}


@pytest.fixture(scope="session")
def cargo_settings(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Variables with which cargo compiles each dependency once for all tests, and without optimization."""
    target = os.environ.get("CARGO_TARGET_DIR") or str(tmp_path_factory.mktemp("target"))
    return {"CARGO_TARGET_DIR": target, "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0"}
