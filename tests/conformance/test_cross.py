"""The cross matrix: real codecs write and read each other's batches; what was earned is kept."""

import gzip
import json
import re
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from click.testing import CliRunner, Result

from kafka_conformance.cross import results
from kafka_conformance.cross.results import (
    WROTE,
    CrossHeader,
    CrossResults,
    Matrix,
    ReadLine,
    WrittenLine,
    cross_matrix,
    matrix_document,
    matrix_findings,
)
from kafka_conformance.cross.run import USUAL, CrossRunPlan, encode_requests, run
from kafka_conformance.reports import cross
from kafka_conformance.runner.requests import select
from kafka_conformance.runner.results import Unusable
from kafka_conformance.testees.known import connect, known_testees
from kafka_corpus.vectors import corpus_hash
from kafkaproof.cli import kafkaproof

FEW = ("writers.timestamps_with_more_digits", "writers.headers_are_a_list", "legacy_encode.several_messages")
WRONG = ("planted:writes_seconds", "planted:swaps_key_and_value", "reference")
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m|`[x](http://x.example)\"'&"


def crossed(folder: Path, *testees: str, only: Sequence[str] = FEW, resume: bool = False) -> CrossResults:
    """A run without a broker."""
    plan = CrossRunPlan(
        connections={name: connect(name) for name in testees},
        cases=encode_requests(only),
        corpus=corpus_hash(),
        path=folder / results.FILE,
        jobs=2,
        resume=resume,
    )
    return run(plan)


@pytest.fixture(scope="module")
def codecs(tmp_path_factory: pytest.TempPathFactory) -> CrossResults:
    """kafka-python, aiokafka and the reference, each with each."""
    return crossed(tmp_path_factory.mktemp("codecs"), "kafka-python", "aiokafka", "reference")


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> CrossResults:
    """A writer that is wrong, a reader that is wrong, and the reference."""
    return crossed(tmp_path_factory.mktemp("wrong"), *WRONG)


@pytest.mark.slow
def test_real_codecs_read_what_they_write(codecs: CrossResults) -> None:
    """Three codecs read each other's bytes as the batches that were wanted."""
    made = cross_matrix(codecs)
    cells = [cell for cell in made.cells.values() if cell.column != WROTE]

    assert codecs.complete
    assert made.producers == ("kafka-python", "aiokafka", "reference")
    assert len(cells) == 9
    assert all(cell.counts.get("agree", 0) >= 10 for cell in cells)
    assert [(cell.producer, cell.column) for cell in cells if cell.failures] == []


@pytest.mark.testees
@pytest.mark.slow
def test_everyone_who_can_run_here(tmp_path: Path) -> None:
    """Without names all known testees take part, each as a row or a column; who cannot run here is named."""
    done = invoke("--broker", "none", "--only", FEW[0], "--report", str(tmp_path), "--json")
    said = json.loads(done.stdout)
    there = {each["label"] for each in said["testees"]}

    assert done.exit_code == 1, done.output
    assert said["complete"]
    assert there | set(said["absent"]) == {known.name for known in known_testees()}
    assert {cell["column"] for cell in said["cells"]} >= there - {"reference"}
    assert ("kafkajs", "producer") in {
        (cell["producer"], blame) for cell in said["cells"] for blame in cell["blames"]
    } or "kafkajs" in said["absent"]


@pytest.mark.slow
def test_a_wrong_writer_is_blamed_in_every_column(wrong: CrossResults) -> None:
    """A producer that rounds its timestamps is at fault with every consumer that reads them."""
    made = cross_matrix(wrong)
    cell = made.cells["planted:writes_seconds", "reference"]

    assert made.cells["planted:writes_seconds", WROTE].worst == "wrong_data"
    assert cell.failures
    assert set(cell.blames) == {"producer"}


@pytest.mark.slow
def test_a_wrong_reader_is_blamed_in_its_column(wrong: CrossResults) -> None:
    """A consumer that swaps key and value is at fault with a producer that is right."""
    made = cross_matrix(wrong)

    assert set(made.cells["reference", "planted:swaps_key_and_value"].blames) == {"consumer"}
    assert set(made.cells["planted:writes_seconds", "planted:swaps_key_and_value"].blames) >= {"consumer"}
    assert made.cells["reference", "reference"].failures == []
    assert {fault.testee for fault in matrix_findings(made)} == set(WRONG[:2])


@pytest.mark.slow
def test_equal_bytes_are_sent_once(codecs: CrossResults) -> None:
    """A consumer has one line for each different byte string of a batch, independent of the producer."""
    written = {(line.batch, line.sha256) for line in codecs.written.values() if line.sha256}
    read = [key for key in codecs.read if key[0] == "reference"]

    assert len(read) == len(written) < sum(bool(line.sha256) for line in codecs.written.values())


@pytest.mark.slow
def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    """A resumed run requests only the missing lines and has the same lines as a whole run."""
    whole = crossed(tmp_path, "kafka-python", "reference")
    path = tmp_path / results.FILE
    lines = path.read_bytes().splitlines(keepends=True)
    # The line has a reason that no testee gives, so a kept line differs from a line of a repeated request.
    kept = results.read_cross_results(path).written["reference", whole.header.batches[0]]
    marked = [line.replace(b'"outcome"', b'"why":"kept","outcome"', 1) for line in lines if _is_of(line, kept)]
    others = [line for line in lines[1:-30] if not _is_of(line, kept)]
    path.write_bytes(b"".join([lines[0], *marked, *others]) + b'{"kind":"rea')

    assert not results.read_cross_results(path).complete
    again = crossed(tmp_path, "kafka-python", "reference", resume=True)
    assert again.complete
    assert (again.written.keys(), again.read.keys()) == (whole.written.keys(), whole.read.keys())
    assert [line.producer for line in again.written.values() if line.why == "kept"] == ["reference"]
    path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(Unusable, match="other testees"):
        crossed(tmp_path, "kafka-python", resume=True)


def _is_of(line: bytes, written: WrittenLine) -> bool:
    """Whether *line* is that of *written*."""
    said = json.loads(line)
    return (said.get("producer"), said.get("batch")) == (written.producer, written.batch)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["", "nothing\n", '{"format":"kafkaproof-result","version":1}\n', '{"format":"kafkaproof-cross"}\n']
)
def test_what_is_no_result(text: str, tmp_path: Path) -> None:
    """Another file is refused in one sentence."""
    path = tmp_path / results.FILE
    path.write_text(text, encoding="utf-8")

    with pytest.raises(Unusable, match="not the result of a cross run"):
        results.read_cross_results(path)


@pytest.mark.slow
def test_a_changed_result(tmp_path: Path) -> None:
    """A line that was changed by hand does not fit the footer."""
    crossed(tmp_path, "reference", only=FEW[:1])
    path = tmp_path / results.FILE
    path.write_bytes(path.read_bytes().replace(b'"agree"', b'"lossy"', 1))

    with pytest.raises(Unusable, match="footer"):
        results.read_cross_results(path)


@pytest.mark.slow
def test_usual_batches_are_many_and_can_be_read_back() -> None:
    """Each pattern of the usual batches names some, and all of them are valid."""
    everything = encode_requests(["*"])
    cases = select(everything, USUAL)

    assert 250 < len(cases) < len(everything)
    assert all(select(everything, [pattern]) for pattern in USUAL)
    assert {case.expect.verdict for case in everything} == {"valid"}
    assert {0, 1, 2} == {case.input.magic for case in cases if hasattr(case.input, "magic")}


def invoke(*arguments: str) -> Result:
    """The command line."""
    return CliRunner().invoke(kafkaproof, ["cross", *arguments])


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    """The table, the files and the exit code; `--json` is one document."""
    options = ["--broker", "none", "--only", FEW[0], "--report", str(tmp_path)]
    done = invoke("reference", "planted:writes_seconds", *options)
    names = {path.name for path in tmp_path.iterdir()}

    assert done.exit_code == 1, done.output
    assert "planted:writes_seconds" in done.stdout
    assert names == {"cross.ndjson", "cross.html", "cross.md", "cross.json"}
    result = invoke("reference", *options, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["agrees"] is True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("no-such-testee",), "no-such-testee"),
        (("reference", "reference"), "twice"),
        (("reference", "--only", "nothing.of_this_name"), "no valid encode case"),
        (("reference", "--broker", "0.7"), "0.7"),
        (("reference", "--broker", "none", "--read", "stored"), "needs a broker"),
        (("reference", "--format", "pdf"), "pdf"),
    ],
)
def test_usage(arguments: tuple[str, ...], word: str) -> None:
    """A wrong command line is one sentence and exit code 2."""
    done = invoke(*arguments)

    assert done.exit_code == 2
    assert word in done.output


@pytest.mark.slow
def test_one_that_does_not_start(tmp_path: Path) -> None:
    """A testee that was named and does not start ends the run with exit code 3."""
    done = invoke("reference", "process:false", "--broker", "none", "--report", str(tmp_path))

    assert done.exit_code == 3
    assert "did not say hello" in done.output


def hostile() -> CrossResults:
    """A run in which everything that a testee says tries to be more than text."""
    said = {
        "label": HOSTILE,
        "connect": HOSTILE,
        "version": HOSTILE,
        "encode": {"magics": [2]},
        "decode": {"magics": [2]},
    }
    header = CrossHeader(testees=[said], absent={HOSTILE: HOSTILE}, corpus="c" * 64, batches=["a.b"], broker="4.4.0")
    written = WrittenLine(
        producer=HOSTILE,
        batch="a.b",
        outcome="wrong_data",
        blame="producer",
        field=HOSTILE,
        why=HOSTILE,
        data=b"<b>",
        sha256="0" * 16,
    )
    read = ReadLine(
        consumer=HOSTILE,
        batch="a.b",
        outcome="wrong_data",
        blame="consumer",
        field=HOSTILE,
        why=HOSTILE,
        sha256="0" * 16,
    )
    return CrossResults(header, {(HOSTILE, "a.b"): written}, {}, {(HOSTILE, "a.b", "0" * 16): read}, None)


def hostile_matrix() -> Matrix:
    """The same as a matrix."""
    return cross_matrix(hostile())


@pytest.mark.slow
def test_json_has_all_failures() -> None:
    """The document has each failure with its batch, its blame and its bytes' hash."""
    made = hostile()
    cells = matrix_document(cross_matrix(made), made)["cells"]

    assert [cell["failures"][0]["blame"] for cell in cells if cell["failures"]] == ["producer", "consumer"]


@pytest.mark.slow
def test_the_page_escapes_what_testees_say() -> None:
    """Nothing that a testee says becomes markup; the policy names the one script and the one style."""
    text = cross.cross_page(hostile_matrix())

    assert "<img" not in text
    assert text.count("<script>") == 1
    assert "\x1b" not in text
    assert "onerror=alert(1)&gt;" in text
    assert "default-src 'none'" in text
    assert "http://x.example)" not in cross.cross_summary(hostile_matrix()).replace("&#", "")


def packed_in(text: str, id_: str) -> Any:
    """The content of a data script in the page."""
    (found,) = re.findall(rf'<script type="text/plain" id="{id_}">(.*?)</script>', text)
    return json.loads(gzip.decompress(b64decode(found)))


@pytest.mark.slow
def test_the_page_has_every_cell(wrong: CrossResults) -> None:
    """Each failing cell of the matrix leads to a section, and each section to the batches that failed in it."""
    text = cross.cross_page(cross_matrix(wrong))
    links = set(re.findall(r'href="#(c-[^"]+)"', text))
    places = set(re.findall(r'id="(c-[^"]+)"', text))
    batches = {unquote(link) for link in re.findall(r'href="#/batch/([^"]+)"', text)}

    assert links
    assert links <= places
    assert len(places) >= 5
    assert batches
    assert batches <= {batch["id"] for batch in packed_in(text, "index")["batches"]}


@pytest.mark.slow
def test_the_page_explains_what_was_written(wrong: CrossResults) -> None:
    """Each failed batch shows the bytes of each failed testee, the meaning of each byte, and where it failed."""
    text = cross.cross_page(cross_matrix(wrong))
    index, details = packed_in(text, "index"), packed_in(text, "chunk-0")

    assert [batch["id"] for batch in index["batches"][: len(details)]] == [detail["id"] for detail in details]
    for detail in details:
        shown = {piece["sha256"]: piece["rows"] for piece in detail["written"]}
        assert {passage["sha256"] for passage in detail["passages"]} - {""} == set(shown)
        assert all(any(row[0] == "field" for row in rows) for rows in shown.values())
    assert any(passage["where"] == "planted:writes_seconds wrote it" for passage in details[0]["passages"])


@pytest.mark.slow
def test_report_takes_it_along(wrong: CrossResults, tmp_path: Path) -> None:
    """`kafkaproof report` writes the page of a cross run, alone or beside those of codecs."""
    source, out = tmp_path / "source", tmp_path / "out"
    crossed(source / "cross", "reference", only=FEW[:1])
    alone = CliRunner().invoke(kafkaproof, ["report", str(source), "--out", str(out)])

    assert alone.exit_code == 0, alone.output
    assert {path.name for path in out.iterdir()} == {"cross.html", "cross.md", "cross.json"}
    certify = ["certify", "reference", "--only", FEW[0], "--report", str(source)]
    assert CliRunner().invoke(kafkaproof, certify).exit_code == 0
    both = CliRunner().invoke(kafkaproof, ["report", str(source), "--out", str(out)])
    assert both.exit_code == 0, both.output
    assert 'href="cross.html"' in (out / "index.html").read_text(encoding="utf-8")
