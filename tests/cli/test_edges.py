"""`kafkaproof edges`: tables, results as a matrix, and usage errors."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafka_conformance import edges
from kafka_conformance.edges import EdgeCell, EdgeRow, running
from kafkaproof.cli import kafkaproof


def run(*arguments: str | Path) -> Result:
    """The outcome of `kafkaproof edges ARGUMENTS`."""
    return CliRunner().invoke(kafkaproof, ["edges", *map(str, arguments)])


@dataclass(frozen=True)
class PlantedColumn:
    """A client that is right, and `bad`, which is wrong in one row."""

    name: str
    version: str = "1.0"

    def __call__(self, row: EdgeRow) -> EdgeCell:
        """The planted cell."""
        if self.name == "bad" and row.id == "wrong-crc":
            return EdgeCell(row=row.id, grade="FAIL", outcome="delivers twice", detail="Twice\x1b[31m.")
        return EdgeCell(row=row.id, grade="PASS", outcome="fine")


class PlantedModule:
    """Columns in place of clients."""

    def columns(self) -> Sequence[str]:
        """Their names."""
        return ["good", "bad", "missing"]

    @contextmanager
    def opened(self, column: str) -> Iterator[PlantedColumn]:
        """One of them; `missing` cannot run."""
        if column == "missing":
            raise running.CannotRunEdges("no such program here")
        yield PlantedColumn(column)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of recovery is filled by planted columns."""
    monkeypatch.setattr(running, "edge_module", lambda _kind: PlantedModule())
    monkeypatch.setattr("kafkaproof.commands.edges.edge_module", lambda _kind: PlantedModule())


def test_the_list_has_every_table() -> None:
    """With --json as without it."""
    table = run("list").stdout
    listed = json.loads(run("list", "--json").stdout)["kinds"]
    assert [each["id"] for each in listed] == [kind.id for kind in edges.kinds()]
    assert all(each["question"] in table for each in listed)


@pytest.mark.usefixtures("planted")
def test_runs_are_kept_and_shown(tmp_path: Path) -> None:
    """A FAIL ends with 1, a column that cannot run with 3; terminal codes are escaped."""
    first = run("run", "recovery", "--report", tmp_path, "--jobs", "2")
    assert first.exit_code == 1
    assert "missing" in first.stderr
    assert "no such program here" in first.stderr
    assert "1 FAIL" in first.stdout.splitlines()[-1]
    assert run("run", "recovery", "good", "missing", "--report", tmp_path).exit_code == 3
    one = run("run", "recovery", "good", "--report", tmp_path, "--row", "wrong-crc")
    assert (one.exit_code, one.stdout.splitlines()[-1]) == (0, "1 PASS")
    shown = run("show", "recovery", "--from", tmp_path)
    assert shown.exit_code == 0
    assert "FAIL: delivers" in shown.stdout
    assert "bad 1.0, wrong-crc, no reviewed cause" in shown.stdout
    assert "\x1b" not in shown.stdout
    document = json.loads(run("show", "recovery", "--from", tmp_path, "--json").stdout)
    assert [each["column"] for each in document["columns"]] == ["bad", "good"]
    assert {cell["cause"] for each in document["columns"] for cell in each["cells"]} == {None}


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("run", "recovry"), "did you mean recovery?"),
        (("show", "recovry"), "did you mean recovery?"),
        (("run", "recovery", "god"), "did you mean good?"),
        (("run", "recovery", "--row", "wrong-crv"), "did you mean wrong-crc?"),
        (("run", "recovery", "--jobs", "0"), "--jobs"),
    ],
)
def test_wrong_names_are_errors_of_usage(arguments: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    """Exit code 2 and the near name."""
    more = ("--report", str(tmp_path)) if arguments[0] == "run" else ()
    done = run(*arguments, *more)
    assert done.exit_code == 2
    assert problem in done.output


def test_a_port_that_cannot_be_is_an_error_of_usage(tmp_path: Path) -> None:
    """A larger number would be taken for another port."""
    done = run("run", "brokers", "localhost:99999", "--row", "records-kept", "--report", tmp_path)
    assert (done.exit_code, "from 1 to 65535" in done.output) == (2, True), done.output


def test_without_results_there_is_nothing_to_show(tmp_path: Path) -> None:
    """Exit code 3 and the command that makes them; a broken result is an error with its line."""
    done = run("show", "recovery", "--from", tmp_path)
    assert (done.exit_code, done.stdout) == (3, "")
    assert "kafkaproof edges run recovery" in done.stderr
    path = edges.result_path(tmp_path, "recovery", "good")
    path.parent.mkdir(parents=True)
    path.write_text("{}\n")
    broken = run("show", "recovery", "--from", tmp_path)
    assert broken.exit_code == 2
    assert "good.ndjson, line 1" in broken.output
