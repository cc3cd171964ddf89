"""Kept results: they give back a full result, and hold no folder of the machine that ran it."""

import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from kafka_conformance.runner.kept_results import CorpusContents, kept_files, kept_of, read_kept
from kafka_conformance.runner.results import ResultFooter, ResultHeader, ResultLine, Results
from kafka_conformance.sanitize import without_folders
from kafka_conformance.testees.known import known_testees
from kafka_corpus.vectors import load_vectors

RESULTS = Path(__file__).resolve().parents[2] / "results"
CORPUS = CorpusContents.of(load_vectors())
TESTEE = {"name": "some-codec", "version": "1", "consumer": False, "append": False}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("File /home/me/venv/lib/python3.11/site-packages/kafka/codec.py", "File …/site-packages/kafka/codec.py"),
        ("at (/root/.cache/kafkaproof/testees/a-1/node_modules/b.js:1)", "at (…/testees/a-1/node_modules/b.js:1)"),
        (
            "panicked at /home/me/.cargo/registry/src/index.example-1/kafka-0.10.0/src/a.rs:1",
            "panicked at …/kafka-0.10.0/src/a.rs:1",
        ),
        ("at /root/.cache/kafkaproof/te…", "at …"),
        ("github.com/segmentio/kafka-go/decode.go:46", "github.com/segmentio/kafka-go/decode.go:46"),
        ("expected 1/2, got 3", "expected 1/2, got 3"),
    ],
)
def test_paths_lose_the_folders_of_the_machine(text: str, shown: str) -> None:
    """Folders above installed packages are left out; other text is unchanged."""
    assert without_folders(text) == shown


def test_a_result_is_kept_without_folders() -> None:
    """A kept line has the outcome and the text of the full result, without the machine's folders."""
    case = next(each for each in CORPUS.cases if each.op == "decode")
    line = ResultLine(
        case=case.id, outcome="crash", area=case.area, op=case.op, expected=case.expect.verdict, rules=case.rules,
        observation={"kind": "crashed", "stderr": "/srv/x/site-packages/y.py failed"},
    )  # fmt: skip
    header = ResultHeader(testee=TESTEE, corpus=CORPUS.sha256, cases=1, only=[], settings={})
    footer = ResultFooter(counts={}, seconds=0.0, waited=0.0, starts=0, strays=0, sha256="")
    kept = kept_of(Results(header, (line,), footer), "some-codec", "1", CORPUS)
    assert kept.lines[case.id].outcome == "crash"
    assert kept.lines[case.id].observation == {"kind": "crashed", "stderr": "…/site-packages/y.py failed"}


@pytest.mark.slow
def test_the_kept_results_hold_no_folder_of_a_machine() -> None:
    """No line of the kept results names a home, a work or a temporary folder."""
    files = kept_files(RESULTS)
    assert len(files) >= 10
    for file in files:
        for line in read_kept(file).lines.values():
            for value in (line.why, *line.also, *line.observation.values()):
                assert without_folders(value) == value, (file.name, line.case)


@pytest.mark.parametrize("file", kept_files(RESULTS), ids=lambda file: file.stem)
def test_what_was_skipped_is_not_announced(file: Path) -> None:
    """A line that was skipped since the codec announces no such format is of a codec that announces none."""
    kept = read_kept(file)
    for line in kept.lines.values():
        found = re.fullmatch(r"announces no (decode|encode)(?: of (?:magic )?(\w+))?", line.why)
        if found:
            able = kept.header.testee[found[1]]
            announced = {*map(str, able["magics"]), *able["compressions"]}
            assert found[2] not in announced if found[2] else not announced, line.case


def test_a_line_that_a_run_would_leave_out_otherwise_is_missing() -> None:
    """A line is run again if it was skipped and would be sent now, or the other way round; others are not."""
    file = next(file for file in kept_files(RESULTS) if file.stem.startswith("sarama-1"))
    kept = read_kept(file)
    left_out = next(line for line in kept.lines.values() if line.observation.get("by_runner"))
    sent = next(line for line in kept.lines.values() if line.observation.get("kind") == "consumed")
    swapped = {
        left_out.case: msgspec.structs.replace(left_out, outcome="agree", observation=sent.observation),
        sent.case: msgspec.structs.replace(sent, outcome="skipped", observation=left_out.observation),
    }

    assert kept.missing(CORPUS) == []
    changed = replace(kept, lines={**kept.lines, **swapped})
    assert {case.id for case in changed.missing(CORPUS)} == {left_out.case, sent.case}


@pytest.mark.parametrize("file", kept_files(RESULTS), ids=lambda file: file.stem)
def test_no_line_is_outdated(file: Path) -> None:
    """Each kept result is what a run would send and leave out today."""
    kept = read_kept(file)
    release = next((each.version() for each in known_testees() if each.name == kept.header.name), None)
    if str(release or "none") != kept.header.release:
        pytest.skip(f"{kept.header.name} {kept.header.release} is not the release of this environment")
    assert [case.id for case in kept.missing(CORPUS)] == []
