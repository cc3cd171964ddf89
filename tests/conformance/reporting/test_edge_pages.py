"""Tables of edges as a page and a document beside a report."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import msgspec
import pytest
from tests.conformance.reporting.conftest import HOSTILE
from tests.conformance.reporting.edge_tables import KIND, hostile_table, result

from kafka_conformance import edges
from kafka_conformance.edges import EdgeCell
from kafka_conformance.reports.edges import DOCUMENT, PAGE, edge_tables, write_edges
from kafka_conformance.runner.results import Unusable


def test_page_and_document(tmp_path: Path) -> None:
    """Every cell is shown, findings come first by grade, and what was said stays text."""
    page, document = write_edges([hostile_table()], tmp_path / "out")
    text, made = page.read_text(encoding="utf-8"), json.loads(document.read_bytes())["tables"][0]

    assert (page.name, document.name) == (PAGE, DOCUMENT)
    assert HOSTILE not in text
    assert str(escape(HOSTILE, quote=False))[:8] in text
    assert [found["grade"] for found in made["findings"]] == ["FAIL", "INFO"]
    assert [column["cells"]["magic"]["grade"] for column in made["columns"]] == ["PASS", "not run"]
    assert made["findings"][0]["title"] == "other 1.2: loses records (A cut batch)"
    assert text.index("loses records (A cut batch)") < text.index("Right answers")


def test_tables_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last folder that has a column counts, and a file that is no result is named."""
    monkeypatch.setattr(edges, "kinds", lambda: (KIND,))
    path = tmp_path
    for folder, grade in (("a", "FAIL"), ("b", "PASS")):
        made = result("client", EdgeCell(row="crc", grade=grade, outcome=grade))  # type: ignore[arg-type]
        path = edges.result_path(tmp_path / folder, KIND.id, "client")
        path.parent.mkdir(parents=True)
        path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in (made.header, *made.cells.values())))
    (table,) = edge_tables([tmp_path / "a", tmp_path / "b"])

    assert table.cell(KIND.row[0], table.columns[0]).grade == "PASS"
    path.write_bytes(b'{"format": "other"}\n')
    with pytest.raises(Unusable, match=r"client\.ndjson, line 1: "):
        edge_tables([tmp_path / "b"])
    assert write_edges([], tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


def test_a_cut_last_line_is_run_again(tmp_path: Path) -> None:
    """A line that a killed run did not finish is dropped; another version starts from nothing."""
    path = edges.result_path(tmp_path, KIND.id, "client+x@1")
    header = result("client").header
    writer = edges.EdgeWriter(path, header)
    writer.add(EdgeCell(row="crc", grade="PASS", outcome="right"))
    path.write_bytes(path.read_bytes() + b'{"row": "cut", "gra')

    assert path.name == "client+x-1.ndjson"
    assert list(edges.EdgeWriter(path, header).done) == ["crc"]
    assert path.read_bytes().count(b"\n") == 2
    assert edges.EdgeWriter(path, msgspec.structs.replace(header, version="2")).done == {}
