"""`corpus reach` and `explain --grade`: the reach of cases and the table of grades."""

import json

import pytest
from click.testing import CliRunner

from kafka_conformance.judge.grade import GRADES, ROWS
from kafka_conformance.judge.reach import measure_missing
from kafka_corpus.case import Op
from kafka_corpus.vectors import load_vectors
from kafkaproof.cli import kafkaproof as group


def test_reach_of_one_area() -> None:
    """A recorded case is listed with its reach, the source of the answer, and the releases."""
    done = CliRunner().invoke(group, ["corpus", "reach", "--only", "gzip.several_members[in-a-value]"])
    assert done.exit_code == 0
    line, last = done.stdout.splitlines()
    assert line.split()[:3] == ["any_producer", "recorded", "gzip.several_members[in-a-value]"]
    assert "3.9.2 to 4.4.0" in line
    assert last == "1 cases, supported releases 3.9..4.4"


def test_another_range_changes_the_reach() -> None:
    """`--supported` decides which releases count."""
    arguments = ["corpus", "reach", "--only", "legacy_shapes.codecs_in_one_log", "--json"]
    now = json.loads(CliRunner().invoke(group, arguments).stdout)
    then = json.loads(CliRunner().invoke(group, [*arguments, "--supported", "0.10..4.4"]).stdout)
    assert {each["reach"] for each in now["cases"]} == {"old_logs"}
    assert {each["reach"] for each in then["cases"]} == {"any_producer"}
    assert then["supported"] == "0.10..4.4"


def test_inferred_reach_is_listed_alone() -> None:
    """`--inferred` lists only cases whose reach follows from their shape."""
    done = CliRunner().invoke(group, ["corpus", "reach", "--only", "compaction", "--inferred", "--json"])
    sources = {each["source"] for each in json.loads(done.stdout)["cases"]}
    assert sources == {"shape"}


def test_a_wrong_range_is_a_usage_error() -> None:
    """A range that cannot be read ends with exit code 2 and prints nothing."""
    done = CliRunner().invoke(group, ["corpus", "reach", "--supported", "new"])
    assert (done.exit_code, done.stdout) == (2, "")


@pytest.mark.parametrize("release", ["3.9.2", "4.4.0"])
def test_no_decode_case_lacks_an_answer_of_a_supported_release(release: str) -> None:
    """Nothing is left to measure, so no broker is started."""
    decoding: tuple[Op, ...] = ("decode",)
    assert measure_missing(release, load_vectors("v2_*", ops=decoding)) == 0


def test_the_table_of_grades() -> None:
    """`explain --grade` prints every row and grade."""
    done = CliRunner().invoke(group, ["explain", "--grade"])
    assert done.exit_code == 0
    assert done.stdout.startswith("Supported releases: 3.9..4.4, reviewed on 20")
    assert all(row.reason in done.stdout for row in ROWS)
    document = json.loads(CliRunner().invoke(group, ["explain", "--grade", "--json"]).stdout)
    assert {row["grade"] for row in document["rows"]} == set(GRADES)
    assert len(document["rows"]) == len(ROWS)
