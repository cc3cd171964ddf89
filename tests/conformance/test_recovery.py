"""The table of recovery: damaged logs, the application, the judgement, and the results that are kept."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kafka_conformance import edges
from kafka_conformance.edges import BadEdgesError, EdgeCell, EdgeHeader, EdgeRow, EdgeWriter, damaged_logs, recovery
from kafka_conformance.edges.damaged_logs import DAMAGES
from kafka_conformance.edges.recovery import LOGS, ApplicationRun, RecoveryEvent, RecoveryFacts, judge_recovery
from kafka_conformance.edges.running import CannotRunEdges, EdgeRun, run_edges
from kafka_conformance.edges.sound_logs import SOUND_LOGS
from kafka_conformance.testees.client_parts import consume_and_recover
from kafka_records import RecordFormatError, decode

KEPT = Path(__file__).parents[2] / "results"
ERROR = "corrupt batch of recovery-0 at offset 9"


def facts(**changes: Any) -> RecoveryFacts:
    """Those of a client that reports the damage, and goes on after a seek; with *changes*."""
    found: dict[str, Any] = {
        "errors": [ERROR], "error_count": 4, "position": 9, "names": ["topic", "partition", "offset"],
        "sought": [9, 10, 11, 12], "polled_on": "time",
    }  # fmt: skip
    return RecoveryFacts(**(found | changes))


SILENT = {"errors": [], "error_count": 0, "position": None, "names": [], "sought": [], "polled_on": ""}


@pytest.mark.parametrize(
    ("changes", "grade", "outcome"),
    [
        ({}, "PASS", "error, seek works"),
        ({"names": ["topic"]}, "PASS", "error, seek works"),
        ({"names": ["topic"], "position": None}, "NON_STRICT", "error without offset"),
        ({"fetches": 2000}, "NON_STRICT", "error, busy loop"),
        ({"polled_past": True}, "NON_STRICT", "error, skips batch"),
        ({"silent": True}, "NON_STRICT", "error, then silence"),
        ({"after": [12], "ending": "time"}, "NON_STRICT", "cannot seek past"),
        ({"after": [12]}, "NON_STRICT", "seek skips good records"),
        ({"before": [0, 1]}, "NON_STRICT", "withholds good records"),
        ({"before": [0, 1], "passed_over": [0, 1]}, "FAIL", "error, loses good records"),
        ({"below": [-1], "wrong": [0]}, "FAIL", "delivers negative offsets"),
        ({"below": [9]}, "FAIL", "delivers below its position"),
        ({"unknown": [9]}, "FAIL", "delivers unknown offsets"),
        ({"wrong": [10]}, "FAIL", "delivers damaged value"),
        ({"twice": [6, 7]}, "FAIL", "delivers twice"),
        ({"polled_on": "hang"}, "HOSTILE", "next poll hangs"),
        ({"ending": "hang"}, "HOSTILE", "hangs"),
        ({"ending": "crash", "stderr": "panic: slice bounds"}, "HOSTILE", "process ends"),
        ({**SILENT, "silent": True, "fetches": 20}, "HOSTILE", "stuck, no error"),
        ({**SILENT, "silent": True, "fetches": 2000}, "HOSTILE", "busy loop, no error"),
        (SILENT, "FAIL", "skips batch silently"),
        ({**SILENT, "inside": [9]}, "FAIL", "skips records silently"),
        ({**SILENT, "inside": [9, 10, 11]}, "NON_STRICT", "ignores the damage"),
        ({**SILENT, "after": [12, 13]}, "FAIL", "loses good records"),
    ],
)
def test_grades(changes: Mapping[str, Any], grade: str, outcome: str) -> None:
    """One change of what is right changes the grade, and says so in four words at most."""
    verdict = judge_recovery(facts(**changes))
    assert (verdict.grade, verdict.outcome) == (grade, outcome)
    assert len(verdict.outcome.split()) <= 4
    assert verdict.detail.endswith(".")


def test_a_good_batch_is_to_be_delivered() -> None:
    """A large batch has no damage: an error is no right answer, and neither is silence."""
    assert judge_recovery(facts(**SILENT, inside=[9, 10, 11]), readable=True).grade == "PASS"
    assert judge_recovery(facts(**SILENT), readable=True).grade == "FAIL"
    assert judge_recovery(facts(), readable=True).outcome == "refuses good batch"


def test_bytes_that_no_broker_makes() -> None:
    """Harm is HOSTILE there; an error in place of good records, or records that come again, are NON_STRICT."""

    def grade_of(changes: Mapping[str, Any], *, readable: bool = False) -> str:
        return judge_recovery(facts(**changes), readable=readable, hostile=True).grade

    assert grade_of(SILENT | {"wrong": [10]}) == "HOSTILE"
    assert grade_of(SILENT | {"after": [12]}) == "HOSTILE"
    assert grade_of(SILENT | {"twice": [9]}) == "NON_STRICT"
    assert grade_of({}, readable=True) == "NON_STRICT"
    assert grade_of({}) == "PASS"
    assert set(LOGS) >= recovery.HOSTILE_ROWS


def test_a_part_of_a_message_is_an_error() -> None:
    """A Fetch version without whole messages leaves an error as the only sign; silence is still none."""
    assert recovery.excuse_for("kafka-rust", "oversized-v1", facts())
    assert not recovery.excuse_for("kafka-rust", "oversized-v1", facts(**SILENT))
    assert not recovery.excuse_for("sarama-client", "oversized-v1", facts())


def test_a_codec_that_a_client_does_not_have_is_an_error() -> None:
    """An error is right for a client without lz4; silence, and records that are lost after it, are not."""
    assert recovery.excuse_for("kafka-rust", "lz4-v1", facts())
    assert not recovery.excuse_for("kafka-rust", "lz4-v1", facts(**SILENT))
    assert not recovery.excuse_for("kafka-rust", "lz4-v1", facts(passed_over=(12,)))
    assert not recovery.excuse_for("kafkajs-client", "lz4-v1", facts())


def test_a_consumer_that_goes_on_after_an_error_loses_nothing() -> None:
    """Good records that it fetched past after the error, and never gave, are lost to an application that polls on."""
    log = LOGS["wrong-crc"]()
    error = {"error": {"type": "E", "message": "offset 9"}, "position": 9}
    seeking = run_of([*delivered(*range(9)), error, {"sought": 12, "why": "error"}, *delivered(*range(12, 21))])
    stays = run_of([*delivered(*range(9)), error], "time", [(2.0, 9), (9.0, 9)])
    assert recovery.facts_of(log, seeking, stays).passed_over == []
    leaves = run_of([*delivered(*range(9)), error, *delivered(15)], "time", [(2.0, 9), (9.0, 21)])
    found = recovery.facts_of(log, seeking, leaves)
    assert found.passed_over == [12, 13, 14, 16, 17, 18, 19, 20]
    assert judge_recovery(found).grade == "FAIL"
    early = run_of([error, {"sought": 12, "why": "error"}, *delivered(*range(12, 21))])
    drops = run_of([error, *delivered(*range(12, 21))], "end", [(2.0, 0), (3.0, 12), (4.0, 21)])
    found = recovery.facts_of(log, early, drops)
    assert found.before == found.passed_over == [*range(9)]
    assert judge_recovery(found).outcome == "error, loses good records"


def test_an_excuse_is_for_the_damage_alone() -> None:
    """Another value at a good offset, or a record that comes twice, is not what a default or a broker explains."""
    row = recovery.NOT_STORED
    assert recovery.excuse_for("kafkajs-client", row, facts(wrong=[10]))
    assert not recovery.excuse_for("kafkajs-client", row, facts(wrong=[0]))
    assert not recovery.excuse_for("kafkajs-client", row, facts(wrong=[10], twice=[0]))


def test_defaults_and_the_yardstick_are_no_fail() -> None:
    """A documented default is NON_STRICT; what Kafka's consumer does as well is INFO."""
    wrong = facts(**SILENT, wrong=[10])
    assert judge_recovery(wrong, excuse="It is documented.").grade == "NON_STRICT"
    assert judge_recovery(facts(before=[0]), java="withholds good records").grade == "INFO"


@pytest.mark.slow
def test_each_row_has_a_log_with_damage() -> None:
    """Good batches decode to the values that are expected; the damaged one does not, by the reference."""
    kind = edges.find_kind("recovery")
    assert [row.id for row in kind.row] == [*DAMAGES, *SOUND_LOGS] == list(LOGS)
    logs = {id_: build() for id_, build in LOGS.items()}
    logs |= {f"{id_} in v0": recovery.log_for(id_, 0) for id_, log in logs.items() if log.magic == 1}
    assert {log.magic for log in logs.values()} == {0, 1, 2}
    for id_, log in logs.items():
        values: dict[int, bytes | None] = {}
        for piece in log.pieces:
            try:
                values |= {record.offset: record.value for batch in decode(piece.data) for record in batch.records}
            except RecordFormatError:
                continue
        assert {offset: value for offset, value in values.items() if offset in log.good} == log.good, id_
        damaged = {offset for offset, value in log.inside.items() if values.get(offset) != value}
        # The reference's decoder has no position: it refuses a wrapper for the message that a consumer passes over.
        assert bool(damaged) != (log.readable and not id_.startswith("damage-before-position")), id_


def test_a_consumer_that_begins_in_a_batch_gets_nothing_before() -> None:
    """The fetch has the whole batch; records of it that are before the position are no records to deliver."""
    for row in ("middle-of-batch", "middle-of-wrapper"):
        log = LOGS[row]()
        assert (log.start, list(log.inside), min(log.good)) == (10, [10, 11], 12)
        right = run_of(delivered(*range(10, 21)))
        assert judge_recovery(recovery.facts_of(log, right, None), readable=True).grade == "PASS"
        again = recovery.facts_of(log, run_of(delivered(*range(9, 21))), None)
        assert judge_recovery(again, readable=True).outcome == "delivers below its position"
        late = recovery.facts_of(log, run_of(delivered(*range(12, 21))), None)
        assert judge_recovery(late, readable=True).grade == "FAIL"


def test_a_fetch_begins_with_the_batch_that_holds_the_offset() -> None:
    """As a broker answers: the first batch whole, however large; later ones up to the size of a fetch."""
    tape = damaged_logs.tape_of(LOGS["oversized"]())
    assert len(tape.read(0, 2)) == damaged_logs.FETCH_BYTES
    assert len(tape.read(10, 2)) > 3 << 20
    assert tape.read(tape.end_offset, 2) == b""
    old = damaged_logs.tape_of(LOGS["oversized-v1"]())
    assert (len(old.read(9, 1, 1 << 20)), len(old.read(9, 2, 1 << 20)) > 3 << 20) == (1 << 20, True)
    cut = damaged_logs.tape_of(LOGS["cut-segment"]())
    assert cut.read(9, 2) == cut.read(11, 2) == LOGS["cut-segment"]().pieces[3].data.split(damaged_logs.CUT_MARK)[0]
    assert decode(cut.read(12, 2))[0].base_offset == 12


class Stuck:
    """A consumer that raises at offset 9 until it is moved to 12, as Kafka's."""

    def __init__(self, position: int | None = 0) -> None:
        self.at, self.known = 0, position is not None

    def poll(self, _seconds: float) -> Sequence[tuple[int, bytes | None, bytes | None]]:
        """One record, or the error."""
        if 9 <= self.at < 12:
            raise ValueError(ERROR)
        self.at += 1
        return [(self.at - 1, b"end" if self.at == 15 else b"key", b"value")]

    def seek(self, offset: int) -> None:
        """Go on there."""
        self.at = offset

    def position(self) -> int | None:
        """The next offset."""
        return self.at if self.known else None


def events_of(application: Stuck, *, seek: bool = True) -> list[dict[str, Any]]:
    """The lines that the application's loop prints."""
    request = {"offset": 0, "end": "end", "seek": seek, "step": 0, "past": 12, "silence_ms": 100, "limit_ms": 5000}
    events: list[dict[str, Any]] = []
    done = consume_and_recover(application, request | {"after_error_ms": 150}, events.append)
    return [*events, {"done": done}]


@pytest.mark.parametrize("position", [0, None])
def test_the_application_seeks_past_an_error(position: int | None) -> None:
    """First to the place itself, then one offset at a time; without a position from the last record on."""
    events = events_of(Stuck(position))
    assert [each["sought"] for each in events if "sought" in each] == [9, 10, 11, 12]
    assert [each["offset"] for each in events if "offset" in each] == [*range(9), 12, 13, 14]
    assert events[-1] == {"done": "end"}


def test_the_application_polls_on() -> None:
    """Without seeks it notes errors for a limited time."""
    events = events_of(Stuck(), seek=False)
    assert {each["error"]["message"] for each in events if "error" in each} == {f"ValueError: {ERROR}"}
    assert events[-1] == {"done": "time"}


def run_of(lines: Sequence[Mapping[str, Any]], ending: str = "end", fetches: Sequence[Any] = ()) -> ApplicationRun:
    """A run with these lines, one a second."""
    return ApplicationRun([RecoveryEvent(float(at), line) for at, line in enumerate(lines)], fetches, ending)


def delivered(*offsets: int) -> list[dict[str, Any]]:
    """Lines of records with the right values."""
    from base64 import b64encode

    return [{"offset": each, "value": b64encode(f"record {each}".encode()).decode()} for each in offsets]


def test_facts_of_runs() -> None:
    """Records that come twice, are missing or are others; fetches of ten seconds; what an error names."""
    log = LOGS["wrong-crc"]()
    error = {"error": {"type": "E", "message": "bad batch", "topic": "recovery", "offset": 9}, "position": 9}
    seeking = run_of([*delivered(*range(8)), error, {"sought": 12, "why": "error"}, *delivered(*range(12, 21))])
    polling = run_of([*delivered(7, 7), error], "time", [(2.0, 9), (3.0, 9), (12.5, 9), (4.0, 12)])
    found = recovery.facts_of(log, seeking, polling)
    assert (found.before, found.after, found.twice, found.fetches) == ([8], [], [7], 2)
    assert (found.names, found.position, found.sought) == (["topic", "offset"], 9, [12])
    again = [*delivered(*range(9)), {"sought": 6, "why": "error"}, *delivered(6, 7, 8)]
    assert recovery.facts_of(log, run_of(again), None).twice == []
    other = [{"offset": 10, "value": "AAAA"}]
    assert recovery.facts_of(log, run_of(other), None).wrong == [10]


@pytest.mark.slow
def test_a_real_client_seeks_past_a_damaged_batch() -> None:
    """aiokafka reports the wrong checksum, has its place as position, and reads the next good batch after seeks."""
    with recovery.opened("aiokafka-client") as column:
        log = LOGS["wrong-crc"]()
        run = recovery.run_application(column.argv, column.environment, log, seek=True)
    found = recovery.facts_of(log, run, None)
    assert (found.before, found.after, found.ending) == ([], [], "end")
    assert (found.error_count, found.position, found.sought) == (4, 9, [9, 10, 11, 12])
    assert "CorruptRecord" in found.errors[0]


def test_other_columns_cannot_run() -> None:
    """A codec has no consumer."""
    with pytest.raises(CannotRunEdges, match="no application"), recovery.opened("kafka-python"):
        pass


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], EdgeWriter]:
    """Opens the result of a column at a version."""

    def write(version: str) -> EdgeWriter:
        header = EdgeHeader(
            format=edges.FORMAT, kind="recovery", column="a", version=version, date="2026-01-01"
        )  # fmt: skip
        return EdgeWriter(tmp_path / "a.ndjson", header)

    return write


def test_result_files_go_on(written: Callable[[str], EdgeWriter]) -> None:
    """A line that was cut off is measured again; a result of another version is dropped."""
    writer = written("1")
    for row in ("wrong-crc", "broken-gzip"):
        writer.add(EdgeCell(row=row, grade="PASS", outcome="fine"))
    content = writer.path.read_bytes()
    writer.path.write_bytes(content[:-5])
    assert list(edges.read_edge_result(writer.path).cells) == ["wrong-crc"]
    assert list(written("1").done) == ["wrong-crc"]
    assert writer.path.read_bytes().endswith(b"}\n")
    assert not written("2").done
    writer.path.write_bytes(content.replace(b"kafkaproof-edges 1", b"kafkaproof-edges 9"))
    with pytest.raises(BadEdgesError, match="line 1: its format"):
        edges.read_edge_result(writer.path)


class Measured:
    """A column at version 1 that gives each row the same outcome, and stops in one row."""

    version = "1"

    def __init__(self, outcome: str, stops: str = "") -> None:
        self.outcome, self.stops = outcome, stops

    def __call__(self, row: EdgeRow) -> EdgeCell:
        """Measure *row*."""
        if row.id == self.stops:
            raise KeyboardInterrupt
        return EdgeCell(row=row.id, grade="PASS", outcome=self.outcome)


def test_a_row_that_is_run_again_replaces_its_line(tmp_path: Path) -> None:
    """The file has one line for each row, in their order; a run of all rows that is stopped keeps the other lines."""

    def measure(column: Measured, *rows: str, again: bool) -> None:
        run = EdgeRun(kind="recovery", column="a", folder=tmp_path, rows=rows, again=again)
        for _ in run_edges(run, nullcontext(column)):
            pass

    path = edges.result_path(tmp_path, "recovery", "a")
    measure(Measured("first"), again=False)
    first = path.read_bytes().splitlines()
    measure(Measured("second"), "wrong-crc", again=True)
    second = path.read_bytes().splitlines()
    at = [b'"wrong-crc"' in line for line in first].index(True)
    assert len(second) == len(first) == 1 + len(LOGS)
    assert [number for number, line in enumerate(second) if line != first[number]] == [at]
    assert b"second" in second[at]
    stops = list(LOGS)[3]
    with pytest.raises(KeyboardInterrupt):
        measure(Measured("third", stops), again=True)
    outcomes = [cell.outcome for cell in edges.read_edge_result(path).cells.values()]
    assert outcomes == ["third"] * 3 + [["first", "second"][row == "wrong-crc"] for row in list(LOGS)[3:]]
    path.write_bytes(broken := path.read_bytes() + b"no line of a result\n")
    with pytest.raises(BadEdgesError, match=f"line {len(LOGS) + 2}"):
        measure(Measured("fourth"), again=False)
    assert path.read_bytes() == broken


@pytest.mark.slow
def test_kept_results_have_every_row_and_a_cause_for_each_defect() -> None:
    """Each client has all cells; Kafka's own consumer has no defect; others have a reviewed cause for each."""
    results = edges.edge_results(KEPT)["recovery"]
    assert {result.header.column for result in results} == set(recovery.COLUMNS)
    readable = {row for row, log in LOGS.items() if log().readable}
    for result in results:
        assert list(result.cells) == list(LOGS), result.label
        for row, cell in result.cells.items():
            if cell.grade == "not run":
                continue
            again = judge_recovery(
                msgspec.convert(cell.observed, RecoveryFacts),
                readable=row in readable,
                hostile=row in recovery.HOSTILE_ROWS,
                java=recovery.YARDSTICK.get(row, ""),
                excuse=recovery.excuse_for(result.header.column, row, msgspec.convert(cell.observed, RecoveryFacts)),
            )
            assert (again.grade, again.outcome) == (cell.grade, cell.outcome), (result.label, row)
    (java,) = (result for result in results if result.header.column == "java-consumer")
    assert {cell.grade for cell in java.cells.values()} <= {"PASS", "INFO"}
    # What is right with odd offsets is what Kafka's consumer does.
    assert {java.cells[row].outcome for row in readable} == {"delivers it"}
    assert not list(edges.unreviewed({"recovery": results}))


LETTERS = {"PASS": "ok", "INFO": "I", "NON_STRICT": "N", "FAIL": "F", "HOSTILE": "H", "not run": "–"}


def grid(wanted: Iterable[str]) -> str:
    """A table of the page: a letter for each cell of the *wanted* rows."""
    results = {result.header.column: result for result in edges.edge_results(KEPT)["recovery"]}
    lines = [f"| | {' | '.join(wanted)} |", f"|---|{'---|' * len(list(wanted))}"]
    for column in recovery.COLUMNS:
        letters = [LETTERS[results[column].cells[row].grade] for row in wanted]
        lines.append(f"| {results[column].label} |{'|'.join(letters)}|")
    return "\n".join(lines)


def rows(wanted: Iterable[str]) -> str:
    """A table of the page: what is damaged or odd, and what is right."""
    kind = edges.find_kind("recovery")
    return "\n".join(f"| `{row.id}` | {row.title} | {row.right} |" for row in kind.row if row.id in wanted)


@pytest.mark.parametrize(("name", "wanted"), [("damages", DAMAGES), ("sound logs", SOUND_LOGS)])
def test_the_page_has_the_kept_results(name: str, wanted: Mapping[str, Any]) -> None:
    """All tables of docs/recovery.md are those of the results and of the kind."""
    page = (KEPT.parent / "docs" / "recovery.md").read_text(encoding="utf-8")
    assert f"<!-- grid of {name} -->\n{grid(wanted)}\n<!-- end of grid -->" in page
    assert f"|---|---|---|\n{rows(wanted)}\n\n" in page


def test_no_kafka_hands_on_undefined() -> None:
    """A wrapper that cannot be decompressed is handed on as `undefined`, and good messages after it are lost."""
    (result,) = (each for each in edges.edge_results(KEPT)["recovery"] if each.header.column == "no-kafka")
    cell = result.cells["broken-gzip-v1"]
    assert (cell.grade, cell.outcome) == ("FAIL", "error, loses good records")
    assert "of undefined" in cell.observed["errors"][0]


def test_causes_are_sound() -> None:
    """Each names columns that there are, and explains a kept finding of its grade."""
    results = edges.edge_results(KEPT)["recovery"]
    for cause in edges.edge_causes():
        if cause.kind != "recovery":
            continue
        assert set(cause.columns) <= set(recovery.COLUMNS), cause.id
        grades = [
            cell.grade
            for result in results
            for cell in result.findings()
            if edges.edge_cause_of("recovery", result.header.column, cell) is cause
        ]
        assert cause.grade in grades, cause.id


@pytest.mark.testees
@pytest.mark.parametrize("column", [column for column in recovery.COLUMNS if column not in recovery.MODULES])
def test_built_clients_behave_as_kept(column: str) -> None:
    """A large batch, the middle of a wrapper, and odd offsets give the kept outcomes."""
    old = column in recovery.ONLY_OLD_MESSAGES
    (kept,) = (result for result in edges.edge_results(KEPT)["recovery"] if result.header.column == column)
    with recovery.opened(column) as measure:
        for id_ in ("middle-of-wrapper", "wrapper-at-zero") if old else ("oversized", "batches-before-position"):
            row = edges.find_kind("recovery").row_of(id_)
            assert isinstance(row, EdgeRow)
            cell = measure(row)
            assert (cell.grade, cell.outcome) == (kept.cells[id_].grade, kept.cells[id_].outcome), id_
