"""A testee that has learned the answers of the corpus is found out by variants of its cases."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_conformance.reports.collection import cases_by_id, read_collection
from kafka_conformance.runner.results import ResultLine, read_results
from kafka_conformance.runner.run import is_worse
from kafkaproof.cli import kafkaproof

# It answers with the reference what it has learned, and refuses all else.
LEARNED = """
from kafka_conformance.testees.interface import CodecError
from kafka_conformance.testees import reference
from kafka_corpus.vectors import load_vectors
from kafka_records import Batch

NAME, VERSION, DECODES, ENCODES = "learned", "1", reference.DECODES, reference.ENCODES
known = {case.input for case in load_vectors(ops=("decode",)) if isinstance(case.input, bytes)}
encode = reference.encode

def decode(data):
    if data in known:
        return reference.decode(data)
    raise CodecError("corrupt", "not learned")
"""
AREA = "v2_offsets"


def run(folder: Path, testee: str, *more: str) -> dict[str, object]:
    """The document of one testee, certified on a small part of the corpus with variants."""
    done = CliRunner().invoke(
        kafkaproof, ["certify", testee, "--only", AREA, "--report", str(folder), "--json", "--variants", "40", *more]
    )
    document: dict[str, object] = json.loads(done.stdout)["testees"][0]
    return document


@pytest.mark.slow
def test_the_reference_answers_variants_alike(tmp_path: Path) -> None:
    """A codec answers a variant as its case; the seed is in the result, and repeats the variants."""
    run(tmp_path, "reference", "--seed", "abc")
    footer = read_results(tmp_path / "reference" / "result.ndjson").footer

    assert footer is not None
    assert footer.variants is not None
    assert (footer.variants.seed, footer.variants.drawn, footer.variants.unlike) == ("abc", 40, {})
    assert footer.variants.sent == 40


@pytest.mark.slow
def test_a_table_of_answers_certifies_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A testee that knows the corpus by heart has no finding, and fails by its variants; exit code 1."""
    (tmp_path / "learned.py").write_text(LEARNED, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    document = run(tmp_path / "out", "direct:learned")
    (result,) = (tmp_path / "out").glob("*/result.ndjson")
    (report,) = read_collection([result])

    assert {line.outcome for line in report.results.lines} <= {"agree", "skipped"}
    assert report.results.footer is not None
    assert report.results.footer.variants is not None
    assert len(report.results.footer.variants.unlike) > 10
    assert document["passes"] is False
    assert "variants are not answered as their cases" in " ".join(report.certificate.reasons)
    assert set(report.results.footer.variants.unlike) <= cases_by_id().keys()


@pytest.mark.parametrize(
    ("case", "variant", "worse"),
    [
        ("agree", "agree", False),
        ("agree", "wrong_data", True),
        ("agree", "skipped", True),
        ("wrong_data", "agree", False),
        ("wrong_data", "hang", False),
        ("wrong_data", "skipped", True),
        ("skipped", "skipped", False),
        ("skipped", "crash", True),
        ("hang", "flaky", False),
        ("agree", "flaky", False),
        ("flaky", "wrong_data", False),
        ("flaky", "skipped", False),
    ],
)
def test_what_is_worse(case: str, variant: str, worse: bool) -> None:
    """A finding that the case does not have is worse, and so is a skip."""

    def line(outcome: str) -> ResultLine:
        return ResultLine(case="a.b", outcome=outcome, area="a", op="decode", expected="valid", rules=())  # type: ignore[arg-type]

    assert is_worse(line(case), line(variant)) is worse
