"""Real result files: two testees with planted bugs and a script with hostile output, on a few cases."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kafka_conformance.reports.collection import Collection, cases_by_id, collect, read_collection
from kafka_conformance.reports.summary import Report
from kafka_conformance.reports.summary import make as make_report
from kafka_conformance.runner import results
from kafka_conformance.runner.deviations import Deviation
from kafka_conformance.runner.results import ResultLine
from kafka_corpus.case import Case
from kafka_corpus.vector_format import CODEC_OPS
from kafka_corpus.vectors import corpus_hash

Changed = dict[str, dict[str, Any]]

AREA = "v2_headers"
WRONG = ("planted:swaps_key_and_value", "planted:keys_as_text")

# What somebody may try who wants to be more than text: in HTML, in a script, in Markdown, in XML, on a terminal.
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m|`@everyone`[x](http://x.example)]]>\u202e\"'&"

SCRIPT = """
import json, sys
hostile = json.loads(sys.argv[1])
def reply(**fields):
    print(json.dumps(fields), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "hello":
        decode = {"magics": [0, 1, 2], "compressions": ["none", "gzip", "snappy", "lz4", "zstd"]}
        reply(protocol=1, name="bad", version="1", decode=decode)
    else:
        reply(id=request["id"], error={"kind": hostile, "message": hostile})
"""


# The day of complete results.
DAY = "2026-11-25"
FORMATS = {"magics": [0, 1, 2], "compressions": ["none", "gzip", "snappy", "lz4", "zstd"]}


def certify(folder: Path, *arguments: str) -> None:
    """Run `kafkaproof certify` on the cases of `AREA`; whatever it finds."""
    command = [
        sys.executable,
        "-m",
        "kafkaproof",
        "certify",
        *arguments,
        "--only",
        AREA,
        "--report",
        str(folder),
    ]
    path = os.pathsep.join(each for each in sys.path if each)
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr


@pytest.fixture(scope="session")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of results of two testees with different planted bugs."""
    folder = tmp_path_factory.mktemp("wrong")
    certify(folder, *WRONG, "--format", "json,html,sarif,badge,markdown,junit")
    return folder


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the result of a testee that says nothing but `HOSTILE`, its names included."""
    folder = tmp_path_factory.mktemp("hostile")
    script = folder / "testee.py"
    script.write_text(SCRIPT, encoding="utf-8")
    said = msgspec.json.encode(HOSTILE).decode().replace("'", "\\u0027")
    certify(folder / "results", f"process:{sys.executable} {script} '{said}'")
    (path,) = (folder / "results").glob(f"*/{results.FILE}")
    done = results.read_results(path)
    # No testee with such names runs; a file may have them.
    names = {"name": f"bad{HOSTILE}", **dict.fromkeys(("version", "language", "runtime"), HOSTILE)}
    header = msgspec.structs.replace(done.header, testee=done.header.testee | names)
    path.write_bytes(results.encode_results(replace(done, header=header)))
    return folder / "results"


@pytest.fixture(scope="session")
def whole_corpus() -> Mapping[str, Case]:
    """All cases by id."""
    return cases_by_id()


@pytest.fixture(scope="session")
def collected(wrong: Path, hostile: Path) -> Collection:
    """All three testees side by side."""
    return collect(read_collection([wrong, hostile]))


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, whole_corpus: Mapping[str, Case]) -> Callable[..., Path]:
    """Write a complete result over all codec cases; all agree except the cases given as `{id: fields}`."""

    def make(name: str = "perfect", version: str = "1.0", changed: Changed | None = None) -> Path:
        path = tmp_path_factory.mktemp("whole") / results.FILE
        cases = [case for case in whole_corpus.values() if case.op in CODEC_OPS]
        testee = {"name": name, "version": version, "language": "python", "connect": name, "append": False}
        testee |= {"decode": FORMATS, "encode": FORMATS}
        header = results.ResultHeader(
            testee=testee, corpus=corpus_hash(), cases=len(cases), only=[], settings={"date": DAY}
        )
        writer = results.ResultWriter(path, header, [case_line(case, changed or {}) for case in cases])
        writer.finish(seconds=1.0, waited=0.0, starts=1, strays=0)
        return path

    return make


def case_line(case: Case, changed: Changed) -> ResultLine:
    """A line that agrees, or has the fields that *changed* has for *case*."""
    said: dict[str, Any] = {
        "case": case.id,
        "area": case.area,
        "op": case.op,
        "expected": case.expect.verdict,
        "rules": case.rules,
    }
    kind = "encoded" if case.op == "encode" else "decoded"
    agrees = {"outcome": "agree", "observation": {"kind": "refused" if case.expect.verdict == "invalid" else kind}}
    return ResultLine(**(said | changed.get(case.id, agrees)))


def graded_report(name: str, changed: Changed, cases: Mapping[str, Case], *declared: Deviation) -> Report:
    """The report on a complete run of a codec with v2, in which all agree except the cases in *changed*."""
    testee = {"name": name, "version": "1", "connect": name, "append": False}
    formats_of_it = {"magics": [2], "compressions": ["none", "gzip", "snappy", "lz4", "zstd"]}
    codec = {id_: case for id_, case in cases.items() if case.op in CODEC_OPS}
    lines = tuple(case_line(case, changed) for case in codec.values())
    header = results.ResultHeader(
        testee=testee | {"decode": formats_of_it, "encode": formats_of_it},
        corpus=corpus_hash(),
        cases=len(lines),
        only=[],
        settings={},
    )
    footer = results.ResultFooter(counts={}, seconds=1.0, waited=0.0, starts=1, strays=0, sha256="")
    return make_report(results.Results(header, lines, footer), list(codec.values()), declared, Path("result.ndjson"))
