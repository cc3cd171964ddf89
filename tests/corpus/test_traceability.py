"""Traces: the committed tables have no gap, and each kind of planted gap is detected."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_corpus import traceability
from kafka_corpus.trace_check import TraceGap, digest_of, document_gaps, sentences_in, trace_gaps
from kafka_corpus.traceability import (
    HEAD,
    Answerers,
    BadRowError,
    CodePlace,
    Trace,
    TracedCase,
    TraceRow,
    code_places,
    find_traced,
    ids_in,
    load_trace,
    read_exceptions,
    read_rows,
    traced_lines,
)
from kafka_records.rules import Seed
from kafkaproof.commands.corpus import corpus

WHOLE = load_trace()


def with_rows(trace: Trace, seed: str, change: Callable[[list[TraceRow]], list[TraceRow]]) -> Trace:
    """*trace* with another table of a seed."""
    return replace(trace, rows={**trace.rows, seed: tuple(change(list(trace.rows[seed])))})


def with_row(trace: Trace, source: str, **fields: Any) -> Trace:
    """*trace* with other values in one row."""
    return with_rows(
        trace, source[5:8], lambda rows: [replace(row, **fields) if row.source == source else row for row in rows]
    )


def with_rule(id_: str, **fields: Any) -> Trace:
    """The whole trace with another rule of that id."""
    return replace(WHOLE, rules=tuple(replace(rule, **fields) if rule.id == id_ else rule for rule in WHOLE.rules))


def with_erratum(id_: str, **fields: Any) -> Trace:
    """The whole trace with another erratum of that id."""
    return replace(WHOLE, errata=tuple(replace(each, **fields) if each.id == id_ else each for each in WHOLE.errata))


def with_cases(change: Callable[[TracedCase], TracedCase | None]) -> Trace:
    """The whole trace with other cases; None leaves one out."""
    return replace(WHOLE, cases=[case for each in WHOLE.cases if (case := change(each)) is not None])


def without_refs(id_: str) -> Trace:
    """No case refers to *id_*."""
    return with_cases(lambda case: case if id_ not in case.refs else TracedCase(case.id, case.title, case.rules))


def without_cases_of(id_: str) -> Trace:
    """No case cites the rule *id_*; those that cite nothing else go."""
    return with_cases(lambda case: None if id_ in case.rules else case)


def with_case(rules: tuple[str, ...], refs: tuple[str, ...] = ()) -> Trace:
    """The whole trace and one more case."""
    return replace(WHOLE, cases=[*WHOLE.cases, TracedCase("planted.case", "Planted", rules, refs)])


def with_place(id_: str, *places: CodePlace) -> Trace:
    """The whole trace with other code of a rule."""
    return replace(WHOLE, places={**WHOLE.places, id_: places})


PLACE = CodePlace("kafka_records/planted.py", "planted", 7)
# Each kind of gap: a trace with one planted, and what names it.
PLANTED: dict[str, tuple[Trace, TraceGap]] = {
    "sentence without a tie": (
        with_row(WHOLE, "seed 002:97", ties=()),
        TraceGap("sentence", "seed 002:97", "has no rule and no erratum; name one, or say why it is outside"),
    ),
    "sentence without a reason": (
        with_row(WHOLE, "seed 002:616.2", reason=""),
        TraceGap("sentence", "seed 002:616.2", "is outside without a reason"),
    ),
    "sentence with an unknown tie": (
        with_row(WHOLE, "seed 002:97", ties=("HDR-03", "HDR-99")),
        TraceGap("sentence", "seed 002:97", "names HDR-99, which is in no catalogue"),
    ),
    "line without a row": (
        with_rows(WHOLE, "003", lambda rows: [row for row in rows if row.place != "131"]),
        TraceGap("line", "seed 003:131", "is in no row; add its sentences, or a reason"),
    ),
    "row beyond the end": (
        with_row(WHOLE, "seed 003:131", place="132"),
        TraceGap("line", "seed 003:132", "does not exist: the document has 131 lines"),
    ),
    "sentence left out of a line": (
        with_rows(WHOLE, "000", lambda rows: [row for row in rows if row.place != "47.2"]),
        TraceGap("line", "seed 000:47", "has the sentences 1, 3, 4"),
    ),
    "cited line that does not exist": (
        with_rule("FRM-01", sources=("Records#LOG_OVERHEAD", "seed 002:659")),
        TraceGap("citation", "FRM-01", "cites seed 002:659, which does not exist"),
    ),
    "cited line without a sentence": (
        with_rule("FRM-01", sources=("Records#LOG_OVERHEAD", "seed 002:9")),
        TraceGap("citation", "FRM-01", "cites seed 002:9, where the table has no sentence"),
    ),
    "cited line that does not name the rule": (
        with_rule("FRM-01", sources=("Records#LOG_OVERHEAD", "seed 002:563")),
        TraceGap("citation", "FRM-01", "cites seed 002:563, and no sentence there names it"),
    ),
    "line that code cites": (
        replace(WHOLE, cited=(("seed 004:204", PLACE),)),
        TraceGap("citation", "kafka_records/planted.py: planted", "cites seed 004:204, which does not exist"),
    ),
    "line that a case cites": (
        with_case(("HDR-01",), ("seed 005:1",)),
        TraceGap("citation", "planted.case", "cites seed 005:1, which does not exist"),
    ),
    "rule without a source": (
        with_rule("FRM-04", sources=("observed on live brokers",)),
        TraceGap("rule", "FRM-04", "has no sentence and no other public source"),
    ),
    "rule without a case": (
        without_cases_of("KRF-13"),
        TraceGap("rule", "KRF-13", "has no case, and exceptions.toml does not say why"),
    ),
    "rule without code": (
        with_place("LEG-14", replace(PLACE, name="")),
        TraceGap("rule", "LEG-14", "is named by no function of the reference, and exceptions.toml says not why"),
    ),
    "rule that is only explained": (
        with_place("LEG-14", CodePlace("kafka_records/explain/batch.py", "say", 1)),
        TraceGap("rule", "LEG-14", "is named by no function of the reference, and exceptions.toml says not why"),
    ),
    "rule without answers of brokers": (
        replace(WHOLE, answers={id_: Answerers(each.clients) for id_, each in WHOLE.answers.items()}),
        TraceGap("rule", "FRM-01", "was seen on brokers, and no case of it has a recorded answer of one"),
    ),
    "rule without answers of the client": (
        replace(WHOLE, answers={}),
        TraceGap("rule", "FRM-03", "was seen in the client, and no case of it has a recorded answer"),
    ),
    "exception of no rule": (
        replace(WHOLE, without_case={**WHOLE.without_case, "HDR-99": "why"}),
        TraceGap("exception", "HDR-99", "is no rule, and has a reason for no case"),
    ),
    "exception that is not needed": (
        replace(WHOLE, without_code={**WHOLE.without_code, "HDR-01": "why"}),
        TraceGap("exception", "HDR-01", "has a reason for no code, and has code; remove the reason"),
    ),
    "exception without a reason": (
        replace(WHOLE, without_code={**WHOLE.without_code, "FRM-14": " "}),
        TraceGap("exception", "FRM-14", "has no code for an empty reason"),
    ),
    "comment that names an unknown rule": (
        with_place("HDR-99", PLACE),
        TraceGap("code", "kafka_records/planted.py: planted", "line 7 names HDR-99, which is no rule"),
    ),
    "case without a rule": (with_case(()), TraceGap("case", "planted.case", "cites no rule")),
    "case of an unknown rule": (
        with_case(("HDR-99",)),
        TraceGap("case", "planted.case", "cites HDR-99, which is no rule"),
    ),
    "case of an unknown erratum": (
        with_case(("HDR-01",), ("A99",)),
        TraceGap("case", "planted.case", "refers to A99, which is no erratum"),
    ),
    "erratum without a sentence": (
        with_row(WHOLE, "seed 004:184.3", ties=("HDR-01",)),
        TraceGap("erratum", "A36", "is tied to no sentence"),
    ),
    "erratum without a rule": (
        with_erratum("A36", rules=()),
        TraceGap("erratum", "A36", "has no rule, or one that is in no catalogue"),
    ),
    "erratum without a case": (without_refs("A36"), TraceGap("erratum", "A36", "has no case")),
    "erratum without evidence": (
        replace(WHOLE, answers={}),
        TraceGap("erratum", "A36", "has no evidence: no case of it has a recorded answer"),
    ),
}


def test_there_is_no_gap() -> None:
    """Every sentence, rule, erratum and case is tied to the others, to code and to evidence."""
    assert list(map(str, trace_gaps(WHOLE))) == []
    assert len(WHOLE.sentences) > 600
    assert {row.kind for rows in WHOLE.rows.values() for row in rows} == {
        "normative",
        "definition",
        "outside",
        "none",
        "blank",
    }


@pytest.mark.parametrize("name", PLANTED)
def test_planted_gap(name: str) -> None:
    """A gap of each kind is found and named."""
    trace, gap = PLANTED[name]
    assert gap in trace_gaps(trace, (gap.kind,))
    assert gap not in trace_gaps(WHOLE, (gap.kind,))


def test_every_place_is_tied_both_ways() -> None:
    """Sentences of a rule name it, and its code and cases are those that lead back to it."""
    document = find_traced(WHOLE, "crc-02")
    assert document is not None
    for source in document["sentences"]:
        found = find_traced(WHOLE, source)
        assert found is not None
        assert any("CRC-02" in sentence["ties"] for sentence in found["sentences"])
    case = find_traced(WHOLE, document["cases"][0])
    assert case is not None
    assert set(document["functions"]) <= set(case["functions"])
    assert set(document["sentences"]) <= set(case["sentences"])


@pytest.mark.parametrize("lines", ["50-40", "0", "0-3", "1-90000000", "1-999999999", "1-" + "9" * 5000])
def test_lines_that_do_not_exist(lines: str) -> None:
    """A reversed range, and lines before or after the document, are no lines of it; a huge range costs nothing."""
    assert WHOLE.rows_at(f"seed 002:{lines}") is None
    assert find_traced(WHOLE, f"002:{lines}") is None


def test_code_is_found_by_its_ids(tmp_path: Path) -> None:
    """An id belongs to the innermost function, to the constant below its comment, or to the module."""
    package = tmp_path / "sample"
    package.mkdir()
    (package / "a.py").write_text(
        '"""Module, FRM-01."""\n\n# FRM-02, seed 002:97\nWIDTH = 1\n\n\nclass Reader:\n    """FRM-03."""\n\n'
        "    @property\n    def size(self) -> int:\n        return 1  # LEG-04 to LEG-06, not CRC-32\n",
        encoding="utf-8",
    )
    places, cited = code_places(package)
    names = {id_: [place.name for place in found] for id_, found in places.items()}
    assert names == {
        "FRM-01": [""],
        "FRM-02": ["WIDTH"],
        "FRM-03": ["Reader"],
        "LEG-04": ["Reader.size"],
        "LEG-05": ["Reader.size"],
        "LEG-06": ["Reader.size"],
    }
    assert cited == (("seed 002:97", CodePlace("sample/a.py", "WIDTH", 3)),)
    assert list(ids_in("CRC-32 and CRC-01")) == ["CRC-01"]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("20\t0fb1786d12f2\tdefinition\tHDR-01", "4 cells, there are 5 in the head"),
        ("20\t0fb1786d12f2\trule\tHDR-01\tText.", "kind is 'rule'"),
        ("20-\t0fb1786d12f2\tdefinition\tHDR-01\tText.", "'20-' is no line"),
        ("20\t0fb1\tdefinition\tHDR-01\tText.", "the digest is '0fb1'"),
        ("20\t0fb1786d12f2\tdefinition\tHDR-01\t", "a sentence has a text"),
    ],
)
def test_bad_rows_are_refused(row: str, text: str) -> None:
    """A row that cannot be read is named with its file and line."""
    with pytest.raises(BadRowError, match=rf"^seed_009\.tsv: line 2: .*{text}"):
        read_rows("009", f"{HEAD}\n{row}\n")
    with pytest.raises(BadRowError, match="line 1"):
        read_rows("009", row)
    with pytest.raises(BadRowError, match="tables are without_cases"):
        read_exceptions("[without_cases]")


def test_documents_are_compared(tmp_path: Path) -> None:
    """A changed, a missing and a further sentence of a document are named, and so is a document that is not there."""
    lines = ["First. Second.", "", "Third one."]
    rows = [
        TraceRow("009", "1.1", digest_of("First."), "normative", ("HDR-01",), text="The first."),
        TraceRow("009", "1.2", digest_of("Second."), "normative", ("HDR-01",), text="The second."),
        TraceRow("009", "2", "-", "blank"),
        TraceRow("009", "3", digest_of("Third  one."), "normative", ("HDR-01",), text="The third."),
    ]
    seed = Seed("009", "Title", "A document.", 3, digest_of(""))
    trace = replace(WHOLE, seeds=(seed,), rows={"009": tuple(rows)})
    assert [gap.where for gap in document_gaps(trace, tmp_path)] == ["seed 009"]
    (tmp_path / "009.txt").write_text("\n".join(lines), encoding="utf-8")
    assert [gap.what for gap in document_gaps(trace, tmp_path)] == ["has another SHA-256 than that of the table"]
    (tmp_path / "009.txt").write_text("First. Other. Further.\nNot blank.\nThird one.", encoding="utf-8")
    assert [(gap.where, gap.what.split()[0]) for gap in document_gaps(trace, tmp_path)][1:] == [
        ("seed 009:1.2", "has"),
        ("seed 009:2", "is"),
        ("seed 009:1.3", "is"),
    ]


def test_other_files_are_no_documents(tmp_path: Path) -> None:
    """Neither a longer number nor a file of a size that no document has stands for a document; it is not read."""
    trace = replace(WHOLE, seeds=(Seed("009", "Title", "A document.", 3, digest_of("")),), rows={"009": ()})
    (tmp_path / "0091.txt").write_text("Another.", encoding="utf-8")
    with (tmp_path / "009.img").open("wb") as file:
        file.truncate(1 << 40)
    assert [gap.what for gap in document_gaps(trace, tmp_path)] == [
        f"no file of {tmp_path} has its number or its SHA-256"
    ]


def test_sentences() -> None:
    """A sentence ends at a stop before a capital, or at a Chinese stop outside brackets."""
    assert sentences_in("One (i.e. all). Two 0.11.0 is. Three") == ["One (i.e. all).", "Two 0.11.0 is.", "Three"]
    assert sentences_in("一。二（三。）四。") == ["一。", "二（三。）四。"]


def run(*arguments: str, code: int = 0) -> str:
    """The output of `corpus trace`, which ends with *code*."""
    result = CliRunner().invoke(corpus, ("trace", *arguments))
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command takes the trace that is loaded."""
    monkeypatch.setattr(traceability, "load_trace", lambda: WHOLE)


@pytest.mark.usefixtures("loaded")
def test_command() -> None:
    """`corpus trace` counts, shows one id, and gives JSON."""
    assert "653 sentences" in run()
    assert "functions  kafka_records/checksum.py: checksum_v2" in run("CRC-04")
    assert json.loads(run("A18", "--json"))["rules"] == ["PID-09"]
    assert "there is no rule, erratum, case or sentence crc-99; there are CRC-" in run("crc-99", code=2)
    assert "; there are v2_crc.covered_field_changed[" in run("v2_crc.covered_field_changed", code=2)
    assert len(json.loads(run("--json"))["rules"]) == len(WHOLE.rules)
    assert "no rule, erratum, case or sentence" in run("HDR-99", code=2)
    assert json.loads(run("--check", "--json"))["gaps"] == []
    assert list(traced_lines({"cases": list("abc")}, most=2)) == [
        "cases  a",
        "cases  b",
        "cases  and 1 more",
    ]


def test_command_fails_for_a_gap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`--check` ends with 1, and names each gap; documents that are not there are gaps, too."""
    monkeypatch.setattr(traceability, "load_trace", lambda: PLANTED["case without a rule"][0])
    assert "case: planted.case: cites no rule" in run("--check", code=1)
    assert "document: seed 000: no file" in run("--check", "--documents", str(tmp_path), code=1)
    assert "does not" in run("HDR-01", "--check", code=2)


def test_tables_are_in_the_package() -> None:
    """Each document has its table beside the rules."""
    names = {each.name for each in files("kafka_records.rules").iterdir()}
    assert {f"seed_{seed.number}.tsv" for seed in WHOLE.seeds} | {"exceptions.toml"} <= names
