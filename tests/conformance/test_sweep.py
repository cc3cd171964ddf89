"""`pipeline sweep` without Spark: cases to a testee, and what comes of comparing some."""

from pathlib import Path

import pyarrow as pa
import pytest

from kafka_pipeline.jobs import sweep
from kafka_pipeline.jobs.cases import Cases, index_batches
from kafka_pipeline.jobs.space import Space, model_grid
from kafka_pipeline.jobs.sweep import cases_in, folder_of_testee
from kafka_pipeline.spark import BadShard
from kafka_pipeline.spark.manifest import OtherRun

STEP = 97


def cases(count: int) -> list[pa.RecordBatch]:
    """Cases from all over the grid."""
    maker = Cases(Space.of(3, {"model": 1}))
    rows = [maker(batch) for at in range(0, len(model_grid()), STEP) for batch in index_batches(at, at + 1)][:count]
    made: list[pa.RecordBatch] = pa.Table.from_batches(rows).combine_chunks().to_batches()
    return made


def observed(testee: str, count: int = 100) -> list[dict[str, object]]:
    """The observations of the sweep."""
    table = pa.Table.from_batches(sweep.observations(testee, cases(count)), sweep.SCHEMA)
    rows: list[dict[str, object]] = table.to_pylist()
    return rows


@pytest.mark.slow
def test_the_reference_agrees_with_itself() -> None:
    """Each case has one row, in its order, and the reference is right in all of them."""
    rows = observed("reference")

    (given,) = cases(100)
    assert [row["index"] for row in rows] == given.column("index").to_pylist()
    assert {row["outcome"] for row in rows} == {"agree"}


@pytest.mark.slow
def test_a_testee_that_crashes_is_observed() -> None:
    """One that dies of a tenth of the cases is started again, and the same cases die when the shard is done again."""
    testee = "direct:kafka_fuzz.planted_bugs.testees.crashes_on_a_tenth"
    rows = observed(testee)

    assert {row["outcome"] for row in rows} == {"agree", "crash"}
    assert 2 <= sum(row["outcome"] == "crash" for row in rows) <= 30
    assert observed(testee) == rows


@pytest.mark.slow
def test_what_is_wrong_alike_has_one_answer() -> None:
    """The hash of an answer is that of the data: the same for equal data, another for other data."""
    right, wrong = observed("reference", 40), observed("direct:kafka_fuzz.planted_bugs.testees.swaps_key_and_value", 40)

    same = [a["answer"] == b["answer"] for a, b in zip(right, wrong, strict=True)]
    agrees = [row["outcome"] == "agree" for row in wrong]
    assert any(same)
    assert not all(same)
    assert all(agrees[at] for at in range(len(same)) if same[at] and right[at]["batches"] != -1)


def test_a_testee_that_cannot_run_is_refused() -> None:
    """One that does not start is a problem of the shard, in one line."""
    with pytest.raises(BadShard, match="did not say hello"):
        observed("process:true", 3)


def test_outcomes_are_counted_by_testee() -> None:
    """A vector of outcomes stands for as many cases as it says, testee by testee."""
    vectors = [{"vector": "agree,crash", "cases": 5}, {"vector": "agree,agree", "cases": 2}]

    assert sweep.compare_outcomes(vectors, ["a", "b"]) == {"a": {"agree": 7}, "b": {"agree": 2, "crash": 5}}


def test_agreement_leaves_out_skipped_cases() -> None:
    """The agreement of a pair is the share of equal outcomes among the cases that both were sent."""
    vectors = [
        {"vector": "agree,crash", "cases": 3},
        {"vector": "crash,crash", "cases": 1},
        {"vector": "skipped,agree", "cases": 50},
    ]

    matrix = sweep.agreement(vectors, ["a", "b"])

    assert matrix == {"a": {"a": 1.0, "b": 0.25}, "b": {"a": 0.25, "b": 1.0}}


def test_each_testee_has_its_own_folder() -> None:
    """Connect strings that look alike have folders of their own, known names are their own folder."""
    names = ["process:./x -a", "process:./x  -a", "process:./X -a", "kafka-python"]

    assert len({folder_of_testee(name) for name in names}) == 4
    assert folder_of_testee("kafka-python") == "kafka-python"


def test_without_cases_there_is_nothing_to_sweep(tmp_path: Path) -> None:
    """A folder that no generate has completed is refused, and says what makes cases."""
    with pytest.raises(OtherRun, match="pipeline generate makes some"):
        cases_in(tmp_path)
