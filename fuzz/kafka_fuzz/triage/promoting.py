"""A find made a case of the corpus: a file in `kafka_corpus/found`, and the corpus compiled.

What is right is never taken from the one that the find accuses: about what codecs
read and write the reference says it, about what a broker does with a payload the
broker, about what the reference reads the lie.  What is left is for people.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import kafka_records
from kafka_corpus.case import Expectation
from kafka_corpus.cases.found import FOLDER, Found, stored, text_of
from kafka_corpus.scenario import Scenario
from kafka_corpus.wire import to_wire
from kafka_fuzz.finds import REFERENCE, put
from kafka_fuzz.targets.reference import PROMISES
from kafka_fuzz.triage.draft import VALID_RULE, NoCase, expectation, found_by, rule_of, slug
from kafka_fuzz.triage.folding import Folded
from kafka_fuzz.triage.of_brokers import as_produced
from kafka_fuzz.writing.asking import batch_of, data_of
from kafka_records import Batch, Kind, RecordFormatError

MALFORMED: Final[Kind] = "malformed"
# What a find says of its target, and what the reference then cannot say as well.
BOTH: Final = {("rejects_valid", "invalid"), ("accepts_invalid", "valid")}


def as_found(find: Folded, root: Path | None = None) -> Found:
    """What the file of *find* says; *root* is the campaign, which knows how a broker was asked.

    Raises:
        NoCase: nobody but the one that it accuses says what is right about it.
    """
    target = find.outcome.target
    if target.partition(":")[0] == "broker":
        return as_produced(find, root or Path())
    if target in PROMISES:
        raise NoCase(
            f"{find.name}: it accuses the reference's own {target}, and nobody else says what is right: mend that, with"
            " a test of its own in tests/reference"
        )
    asked = _written(find) if find.asked == "encode" else _read(find)
    if (find.outcome.kind, "invalid" if asked["refused"] else "valid") in BOTH:
        raise NoCase(f"{find.name}: the reference does the same with it; look which of the two is to be mended")
    right = "refused" if asked["refused"] else "written" if find.asked == "encode" else "read"
    rule = f", as {find.right.partition(' ')[2]} says" if asked["refused"] and target != REFERENCE else ""
    what = "A batch" if find.asked == "encode" else f"An input of {len(find.data)} bytes"
    title = f"{what}, found by fuzzing {target}, is {right}{rule}"
    return Found(title=title, found=found_by(find), **asked)


def _read(find: Folded) -> dict[str, Any]:
    """What a case about reading it says."""
    expect = _of_lie(find) if find.outcome.target == REFERENCE else expectation(find.data)
    if expect.verdict == "acceptable" or "limit" in expect.kinds[:1]:
        raise NoCase(f"{find.name}: what is right about it depends on the limits that one sets")
    batches, rule = tuple(map(to_wire, expect.batches)), _rule_of(find, expect)
    return {"rules": (rule,), "hex": find.data.hex(), "refused": expect.kinds, "batches": batches}


def _of_lie(find: Folded) -> Expectation:
    """What is right about an input over which the reference itself stumbles: what the lie in it asks for."""
    if find.expected is None or sha256(find.data).hexdigest() not in find.inputs.values():
        raise NoCase(
            f"{find.name}: it accuses the reference, which cannot say what is right, and no lie is known in these"
            " bytes: mend the reference, with a test of its own in tests/reference"
        )
    return find.expected


def _rule_of(find: Folded, expect: Expectation) -> str:
    if find.outcome.target != REFERENCE:
        return rule_of(find.data)
    return VALID_RULE[expect.batches[0].magic] if expect.verdict == "valid" and expect.batches else "FRM-01"


def _written(find: Folded) -> dict[str, Any]:
    """What a case about writing its batch says."""
    if find.outcome.target == REFERENCE:
        raise NoCase(f"{find.name}: it accuses the reference, which cannot say what is right: mend that first")
    batch = batch_of(find.data)
    written, rule = b"", VALID_RULE[batch.magic]
    kinds: tuple[Kind, ...] = ()
    try:
        written = kafka_records.encode(batch)
    except RecordFormatError as error:
        rule, kinds = error.rule or rule, tuple(dict.fromkeys((error.kind, MALFORMED)))
    return {"op": "encode", "rules": (rule,), "hex": written.hex(), "refused": kinds, "batches": (to_wire(batch),)}


def cases_of(
    finds: Sequence[Folded], asked: dict[bytes, str], folder: Path = FOLDER, root: Path | None = None
) -> dict[Path, bytes]:
    """The files that make *finds* cases, by path.

    Raises:
        NoCase: a find cannot be one, or is one already; *asked* has the ids of those that there are by what they ask,
            as `question_of` says it.
    """
    there = {question_of(found.draft().input): f"found.{name}" for name, found in stored(folder).items()}
    files = {}
    for find in finds:
        found = as_found(find, root)
        question = question_of(found.draft().input)
        if id_ := asked.get(question) or there.get(question):
            raise NoCase(f"{find.name}: {id_} asks the same already")
        there[question] = f"found.{slug(find)}"
        files[folder / f"{slug(find)}.json"] = text_of(found)
    return files


@contextmanager
def written(files: Mapping[Path, bytes]) -> Iterator[None]:
    """Write *files*; where the block does not come to its end, what was there before is there again."""
    before = {path: path.read_bytes() if path.exists() else None for path in files}
    try:
        for path, content in files.items():
            path.parent.mkdir(exist_ok=True)
            put(path, content)
        yield
    except BaseException:
        for path, old in before.items():
            path.unlink(missing_ok=True) if old is None else put(path, old)
        raise


def question_of(asked: object) -> bytes:
    """What a case asks, as a find keeps it; a scenario as Python writes it."""
    if isinstance(asked, Scenario):
        return repr(asked).encode()
    return data_of(asked) if isinstance(asked, Batch) else asked if isinstance(asked, bytes) else b""


def compile_corpus() -> None:
    """`kafkaproof corpus compile found`, in a process that has not loaded the cases yet; NoCase if it fails."""
    command = [sys.executable, "-m", "kafka_conformance", "corpus", "compile", "found"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCase(f"the corpus does not compile: {done.stderr.strip()[-1000:]}")
