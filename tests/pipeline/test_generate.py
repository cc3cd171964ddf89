"""`pipeline generate` without Spark: numbers to cases, which of them stay, and what they cover."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import pyarrow as pa
import pytest

from kafka_corpus.case import Verdict
from kafka_corpus.wire import WireBatch, from_wire
from kafka_fuzz.mutate import Mutant
from kafka_pipeline.jobs import cases
from kafka_pipeline.jobs.cases import SCHEMA, TOGETHER, Cases, index_batches
from kafka_pipeline.jobs.space import (
    COLUMNS,
    MOST,
    YOUNG,
    Outlines,
    Rows,
    Space,
    Wrong,
    model_grid,
    outline_of,
    parse_shares,
)
from kafka_records import Batch, Record, RecordFormatError, decode

SPACE = Space.of(7, {"model": 2, "fixup": 1, "bytes": 1})


def made(start: int, stop: int, space: Space = SPACE) -> pa.Table:
    """The cases of those numbers."""
    return pa.Table.from_batches(map(Cases(space, verify=1), index_batches(start, stop)), SCHEMA)


def test_a_number_is_a_case() -> None:
    """A row made alone is the row made among others, whatever was made before it."""
    table = made(0, 400).to_pylist()

    order = list(range(400))
    Random(1).shuffle(order)
    rows = Rows(SPACE)
    for index in order[:100]:
        assert dict(zip(COLUMNS, rows.row(index), strict=True)) == table[index] | {
            name: tuple(table[index][name]) for name in ("kinds", "rules")
        } | {"batches": table[index]["batches"].encode()}


def test_batches_of_numbers_are_all_of_them() -> None:
    """However many fit into a record batch, each number comes once, in order."""
    split = [batch.column(0).to_pylist() for batch in index_batches(5, 2 * TOGETHER + 6)]

    assert [number for each in split for number in each] == list(range(5, 2 * TOGETHER + 6))
    assert [len(each) for each in split] == [TOGETHER, TOGETHER, 1]


def test_seeds_and_numbers_draw_differently() -> None:
    """Neither another seed nor the same cell a round later gives the same bytes."""
    cells = len(model_grid())
    first, later = made(0, 50, Space.of(1, {"model": 1})), made(cells, cells + 50, Space.of(1, {"model": 1}))
    other = made(0, 50, Space.of(2, {"model": 1}))

    assert first.select(["fault", "field", "boundary"]) == later.select(["fault", "field", "boundary"])
    same = [a == b for a, b in zip(first["data"].to_pylist(), later["data"].to_pylist(), strict=True)]
    assert sum(same) < 25
    same = [a == b for a, b in zip(first["data"].to_pylist(), other["data"].to_pylist(), strict=True)]
    assert sum(same) < 25


def test_every_cell_comes_in_turn() -> None:
    """The grid of one round is every cell once, whatever other mutators take turns with it."""
    space = Space.of(3, {"model": 2, "bytes": 1})
    cells = [space.case(index).cell for index in range(150) if space.turns[index % 3] == "model"]

    assert cells == list(model_grid()[:100])


def read_by_reference(data: bytes) -> tuple[tuple[Batch, ...], str]:
    """The batches that the reference reads, and the kind of its error; empty if there is none."""
    try:
        return decode(data), ""
    except RecordFormatError as error:
        return error.batches, error.kind


def test_the_answer_is_the_references() -> None:
    """The verdict of a row is the reference's, and its batches are those that the reference reads."""
    table = made(0, 500).to_pylist()
    verdicts = {row["verdict"] for row in table}
    for row in table:
        expected = tuple(map(from_wire, msgspec.json.decode(row["batches"], type=list[WireBatch])))
        read, refused = read_by_reference(row["data"])
        assert row["verdict"] != ("valid" if refused else "invalid"), row["index"]
        assert not row["kinds"] or refused in (*row["kinds"], ""), row["index"]
        assert read == (expected[: len(read)] if refused else expected), row["index"]
    assert {"valid", "invalid"} <= verdicts


class Twisted(Space):
    """A space in which truths are said to be wrong."""

    def case(self, index: int, rng: Random | None = None) -> Mutant:
        """The mutant, with an answer that is not right."""
        mutant = Space.case(self, index, rng)
        assert mutant.expected is not None
        verdict: Verdict = "invalid" if mutant.expected.verdict == "valid" else "valid"
        return mutant._replace(expected=replace(mutant.expected, verdict=verdict))


def test_a_fault_that_the_reference_contradicts_stops_the_shard() -> None:
    """The sample that the reference decodes as well finds an answer that is not right."""
    rows = Rows(Twisted.of(1, {"model": 1}), verify=64)
    for index in range(1, 64):
        rows.row(index)

    with pytest.raises(Wrong, match="does not answer case 64 of seed 1"):
        rows.row(64)


@pytest.mark.parametrize(
    ("text", "said"),
    [("models", "no mutator 'models'"), ("model=x", "a share is a number"), ("model=0", "at least 1")],
)
def test_wrong_shares_are_refused(text: str, said: str) -> None:
    """Mutators that there are not, and shares that are none, are errors that say so."""
    with pytest.raises(ValueError, match=said):
        Space.of(1, parse_shares(text))


def test_numbers_end_somewhere() -> None:
    """A number or a seed for which no generator has a state of its own is an error."""
    with pytest.raises(ValueError, match="index"):
        SPACE.case(MOST)
    with pytest.raises(ValueError, match="seed"):
        Space.of(-1, {"model": 1})


def batch_of(key: bytes | None, value: bytes | None) -> Batch:
    """A batch of one record."""
    return Batch(magic=2, base_offset=3, last_offset=3, records=(Record(3, 5, key, value),))


def test_a_shape_is_blind_to_values() -> None:
    """Batches that differ in values only have one outline; null, empty and longer ones have others."""
    outlines = [outline_of(batch_of(*pair)) for pair in ((b"ab", b"x"), (b"cd", b"y"), (None, b"x"), (b"", b"x"))]

    assert outlines[0] == outlines[1]
    assert len(set(outlines)) == 3


def test_outlines_do_not_mix_batches_up() -> None:
    """However many batches come and go, each has the JSON of its own."""
    outlines = Outlines()
    for number in range(3 * YOUNG):
        batch = batch_of(b"%d" % number, None)
        json, _ = outlines.of([batch])
        assert [from_wire(wire) for wire in msgspec.json.decode(json, type=list[WireBatch])] == [batch]


def test_dropped_rows_go() -> None:
    """Listed rows are left out, and no other row."""
    (batch,) = made(0, 100).combine_chunks().to_batches()

    kept = cases.without(batch, pa.array([3, 50, 1000], pa.int64()))

    assert kept.column("index").to_pylist() == [index for index in range(100) if index not in (3, 50)]


def test_rows_go_where_their_format_says() -> None:
    """Each row is in the folder of its magic and codec, once, and those are not repeated in the file."""
    (batch,) = made(0, 500).combine_chunks().to_batches()

    placed = list(cases.by_place(batch))

    expected = {(row["index"]): f"magic={row['magic']}/codec={row['codec'] or 'unknown'}" for row in batch.to_pylist()}
    assert {index: place for place, part in placed for index in part.column("index").to_pylist()} == expected
    assert sum(part.num_rows for _, part in placed) == 500
    assert all(part.schema == cases.KEPT for _, part in placed)


def test_coverage_has_a_row_for_what_is_missing() -> None:
    """Cells without a case are in the table with zeros, in one order."""
    (first, second, *_) = model_grid()
    counted = pa.Table.from_pylist(
        [dict(zip(cases.KEY, ("model", *second), strict=True)) | dict.fromkeys(cases.COUNTS, 1)]
    )

    table = cases.coverage_table(counted, (second, first))

    assert table == cases.coverage_table(counted, (first, second))
    assert {row["cases"] for row in table.to_pylist()} == {0, 1}
    assert cases.coverage_summary(table) | {"valid": 1} == {
        "cells": 2, "cells_reached": 1, "cases": 1, "valid": 1, "invalid": 1, "acceptable": 1,
    }  # fmt: skip


def command(*arguments: str, without: str = "") -> subprocess.CompletedProcess[str]:
    """`kafkaproof pipeline`, perhaps on a machine where a module is not installed."""
    block = f"import sys; sys.modules[{without!r}] = None; " if without else ""
    program = f"{block}from kafkaproof.cli import main; main()"
    argv = [sys.executable, "-c", program, "pipeline", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("generate", "--cases", "10"), ("campaign",), ("doctor",)], ids=lambda each: each[0]
)
def test_without_pyspark_one_line_says_what_is_missing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Where PySpark is not installed, commands end with 3 and say how to get it, in one line; nothing is written."""
    out = ("--out", str(tmp_path / "out")) if arguments[0] != "doctor" else ()
    done = command(*arguments, *out, without="pyspark")

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert "pip install 'kafkaproof[spark]'" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_case_is_made_again_without_spark(tmp_path: Path) -> None:
    """`pipeline case` gives the bytes and the answer of its number, where neither Spark nor Arrow is installed."""
    done = command("case", "77", "--seed", "5", "--json", "--out", str(tmp_path / "case"), without="pyarrow")

    made = msgspec.json.decode(done.stdout)
    row = dict(zip(COLUMNS, Rows(Space.of(5, {"model": 1})).row(77), strict=True))
    assert (tmp_path / "case").read_bytes() == row["data"]
    assert (made["fault"], made["verdict"], made["shape"]) == (row["fault"], row["verdict"], row["shape"])
    assert made["batches"] == msgspec.json.decode(row["batches"])
