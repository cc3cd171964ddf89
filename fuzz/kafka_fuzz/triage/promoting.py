"""A find made a case of the corpus: a file in `kafka_corpus/found`, answers of others recorded, compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

import kafka_records
from kafka_conformance.connect import BadConnect, CannotRun, connect
from kafka_corpus import compiler, evidence
from kafka_corpus.case import Case
from kafka_corpus.cases.found import FOLDER, Found, stored, text_of
from kafka_corpus.wire import to_wire
from kafka_fuzz.finds import put
from kafka_fuzz.triage.draft import VALID_RULE, expectation, rule_of, slug
from kafka_fuzz.triage.folding import Folded
from kafka_fuzz.writing.asking import batch_of, data_of
from kafka_records import Batch, Kind, RecordFormatError

# Whose answers are recorded, and under which name.
MALFORMED: Final[Kind] = "malformed"
JAVA: Final = ("java-kafka-clients", "java")


class NoCase(ValueError):
    """The find cannot be a case."""


def as_found(find: Folded) -> Found:
    """What the file of *find* says."""
    asked = _written(find.data) if find.asked == "encode" else _read(find.data)
    right = "refused" if asked["refused"] else "written" if find.asked == "encode" else "read"
    rule = f", as {find.right.partition(' ')[2]} says" if asked["refused"] else ""
    what = "A batch" if find.asked == "encode" else f"An input of {len(find.data)} bytes"
    who = f"{find.outcome.target} {find.version}".strip()
    title = f"{what}, found by fuzzing {find.outcome.target}, is {right}{rule}"
    return Found(title=title, found=(f"fuzz: {who}", *find.keys), **asked)


def _read(data: bytes) -> dict[str, Any]:
    """What a case about reading *data* says."""
    expect = expectation(data)
    if expect.verdict == "acceptable" or "limit" in expect.kinds[:1]:
        raise NoCase("what is right about it depends on the limits that one sets")
    batches = tuple(map(to_wire, expect.batches))
    return {"rules": (rule_of(data),), "hex": data.hex(), "refused": expect.kinds, "batches": batches}


def _written(data: bytes) -> dict[str, Any]:
    """What a case about writing the batch in *data* says."""
    batch = batch_of(data)
    written, rule = b"", VALID_RULE[batch.magic]
    kinds: tuple[Kind, ...] = ()
    try:
        written = kafka_records.encode(batch)
    except RecordFormatError as error:
        rule, kinds = error.rule or rule, tuple(dict.fromkeys((error.kind, MALFORMED)))
    return {"op": "encode", "rules": (rule,), "hex": written.hex(), "refused": kinds, "batches": (to_wire(batch),)}


def promote(finds: Sequence[Folded], asked: dict[bytes, str], folder: Path = FOLDER) -> list[str]:
    """Write the files; the ids of the cases.

    Raises:
        NoCase: a find is a case already; *asked* has the ids of those that there are by what they ask: bytes, or a
            batch as finds keep it.
    """
    there = {question_of(found.draft().input): f"found.{name}" for name, found in stored(folder).items()}
    files = {}
    for find in finds:
        id_ = asked.get(find.data) or there.get(find.data)
        if id_:
            raise NoCase(f"{find.name}: {id_} asks the same already")
        files[slug(find)] = text_of(as_found(find))
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        put(folder / f"{name}.json", content)
    return [f"found.{name}" for name in files]


def question_of(asked: object) -> bytes:
    """What a case asks, as a find keeps it."""
    return data_of(asked) if isinstance(asked, Batch) else asked if isinstance(asked, bytes) else b""


def compile_corpus() -> None:
    """`kafkaproof corpus compile`, in a process that has not loaded the cases yet; NoCase with what it says."""
    command = [sys.executable, "-m", "kafka_conformance", "corpus", "compile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCase(f"the corpus does not compile: {done.stderr.strip()[-1000:]}")


def record_java(ids: Sequence[str], root: Path) -> str:
    """Ask the Java client about the new cases and keep its answers; its release, or empty where it cannot run here."""
    try:
        connection = connect(JAVA[0])
    except (CannotRun, BadConnect):
        return ""
    cases = [case for case in compiler.stored_cases(root) if case.id in ids]
    replies = _replies(connection.argv, dict(connection.environment), cases)
    hello = msgspec.json.decode(replies[0], type=dict[str, object]) if replies else {}
    version = str(hello.get("version", ""))
    if not version:
        return ""
    new = evidence.record(replies[1:], cases, name=JAVA[1], version=version)
    old = {(each.name, each.version): each for each in evidence.load(root)}.get((JAVA[1], version))
    merged = evidence.Recording(JAVA[1], version, (old.lines if old else {}) | new.lines)
    put(root / evidence.FOLDER / merged.file, merged.text())
    return version


def _replies(argv: Sequence[str], environment: dict[str, str], cases: Sequence[Case]) -> list[bytes]:
    done = subprocess.run(
        argv,
        input=b"".join(evidence.requests(cases)),
        env=os.environ | environment,
        capture_output=True,
        check=False,
        timeout=120,
    )
    return [line for line in done.stdout.splitlines() if line.startswith(b"{")]
