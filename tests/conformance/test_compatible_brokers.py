"""Kafka-compatible brokers: how answers are judged, and that a broker which dies is started again."""

import shlex
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_brokers.external import StartedBroker
from kafka_brokers.interface import NoBroker
from kafka_brokers.scenarios.recorder import Recorder
from kafka_brokers.wire import WireError
from kafka_conformance.edges import EdgeCell, broker_rows, brokers, edge_causes, find_kind
from kafka_conformance.edges.brokers import CaseFinding, broker_cell, judge_answers
from kafka_conformance.judge.grading import grade_finding
from kafka_conformance.judge.observation import Crashed, Garbled, ScenarioAnswers, observation_summary
from kafka_conformance.judge.verdict import judge
from kafka_conformance.reports.collection import certify_command
from kafka_conformance.runner.broker import OPS, judged_by, observe_scenario
from kafka_conformance.runner.requests import select
from kafka_conformance.runner.results import read_results, result_line
from kafka_corpus.case import Case, Expectation
from kafka_corpus.evidence import load_evidence
from kafka_corpus.scenario import (
    NOW,
    Aborted,
    AddPartitions,
    EndTransaction,
    Fetch,
    InitProducerId,
    Produce,
    Scenario,
    Step,
    StepAnswer,
)
from kafka_corpus.vectors import load_vectors, package_root
from kafka_records import Batch, Record, encode
from kafkaproof.cli import kafkaproof

TIME = 1_524_709_879_130


def batch(*values: bytes, last: int | None = None, epoch: int = -1, codec: str = "none") -> bytes:
    """A v2 batch with records of these values."""
    records = tuple(Record(offset=at, timestamp=TIME, key=None, value=value) for at, value in enumerate(values))
    end = len(values) - 1 if last is None else last
    return encode(
        Batch(
            magic=2, base_offset=0, last_offset=end, max_timestamp=TIME, records=records,
            partition_leader_epoch=epoch, compression=codec,  # type: ignore[arg-type]
        )
    )  # fmt: skip


STORED = StepAnswer(base_offset=0, data=batch(b"a", b"b"))


@pytest.mark.parametrize(
    ("want", "have", "strict", "grade", "outcome"),
    [
        (STORED, STORED, False, None, ""),
        (STORED, StepAnswer(base_offset=0, data=batch(b"a", b"b", epoch=7)), False, None, ""),
        (STORED, StepAnswer(base_offset=0, data=batch(b"a", b"b", codec="gzip")), False, "INFO", "other form"),
        (STORED, StepAnswer(base_offset=0, data=batch(b"a", b"c")), False, "FAIL", "other data"),
        (STORED, StepAnswer(base_offset=0), False, "FAIL", "other data"),
        (STORED, StepAnswer(base_offset=1, data=STORED.data), False, "FAIL", "other offset"),
        (STORED, StepAnswer(error_code=2), False, "FAIL", "refuses"),
        (STORED, StepAnswer(closed=True), False, "FAIL", "closes"),
        (STORED, StepAnswer(silent=True), False, "FAIL", "no answer"),
        (StepAnswer(error_code=2), STORED, False, "NON_STRICT", "accepts"),
        (StepAnswer(error_code=2), STORED, True, "FAIL", "accepts"),
        (StepAnswer(error_code=87), StepAnswer(error_code=-1), False, "INFO", "other error"),
        (StepAnswer(error_code=87), StepAnswer(error_code=2), False, "NON_STRICT", "other error"),
        (StepAnswer(error_code=87), StepAnswer(closed=True), False, "NON_STRICT", "closes"),
        (StepAnswer(error_code=87), StepAnswer(silent=True), False, "HOSTILE", "no answer"),
        (StepAnswer(log_append_time=NOW), StepAnswer(), False, "FAIL", "other time"),
    ],
)
def test_answers_are_graded(want: StepAnswer, have: StepAnswer, strict: bool, grade: str | None, outcome: str) -> None:
    """Other records are FAIL, leniency is NON_STRICT, another error INFO unless clients send again because of it."""
    finding = judge_answers([Produce(data=b"")], [want], [have], strict=strict)
    assert (finding and finding.grade, finding.outcome if finding else "") == (grade, outcome)


def test_an_error_for_a_duplicate_is_no_refusal() -> None:
    """Producers take DUPLICATE_SEQUENCE_NUMBER for success; it is INFO where Kafka answers the first offset."""
    step, duplicate = (Produce(data=batch(b"a"), producer="p"),), StepAnswer(base_offset=0)
    error = StepAnswer(error_code=46)
    found = judge_answers(step, [duplicate], [error], strict=False)
    assert found is not None
    assert (found.grade, found.outcome) == ("INFO", "duplicate error")
    # New data that is refused so is lost, and a duplicate that is stored is none.
    lost = judge_answers(step, [STORED], [error], strict=False)
    stored = judge_answers(step, [duplicate], [StepAnswer(error_code=46, data=STORED.data)], strict=False)
    assert [each and each.grade for each in (lost, stored)] == ["FAIL", "FAIL"]


def test_a_marker_may_be_missing_where_its_transaction_wrote_nothing() -> None:
    """No consumer notices it; then offsets are not compared, and refusals are.  After data its lack is a defect."""
    marker, nothing = StepAnswer(data=STORED.data), StepAnswer()
    ends, takes = EndTransaction("p", commit=True), Produce(data=batch(b"a"), producer="p")
    later = StepAnswer(base_offset=1, data=STORED.data)
    empty = judge_answers((ends, takes), [marker, later], [nothing, STORED], strict=False)
    assert empty is not None
    assert (empty.grade, empty.outcome, empty.why) == ("INFO", "no marker", f"step 1: {brokers.NO_MARKER.why}")
    refused = judge_answers((ends, takes), [marker, later], [nothing, StepAnswer(error_code=45)], strict=False)
    written = judge_answers((takes, ends), [STORED, marker], [STORED, nothing], strict=False)
    assert [each and (each.grade, each.outcome) for each in (refused, written)] == [
        ("FAIL", "refuses"),
        ("FAIL", "other data"),
    ]


def test_a_fetch_may_give_more_or_less_at_once() -> None:
    """The same log cut at another place is no loss; under read_committed it must not go beyond Kafka's end."""
    whole, half = StepAnswer(data=batch(b"a") + batch(b"b")), StepAnswer(data=batch(b"a"))
    for want, have in ((whole, half), (half, whole)):
        finding = judge_answers([Fetch()], [want], [have], strict=False)
        assert finding is not None
        assert finding.grade == "INFO"
    beyond = judge_answers([Fetch(isolation="read_committed")], [half], [whole], strict=False)
    assert beyond is not None
    assert beyond.grade == "FAIL"


def test_what_no_producer_sends_is_never_fail() -> None:
    """Gaps between offsets, two batches at once and bytes after a batch are no user's data."""
    plain = batch(b"a", b"b")
    assert brokers.is_ordinary([Produce(data=plain)])
    for odd in (batch(b"a", b"b", last=4), plain + plain, plain + b"\0\0", b""):
        assert not brokers.is_ordinary([Produce(data=odd)])
    flipped = plain[:-1] + bytes([plain[-1] ^ 1])
    assert brokers.has_wrong_checksum([Produce(data=flipped)])
    assert not brokers.has_wrong_checksum([Produce(data=plain)])


def test_broker_certify_is_stricter_than_the_table() -> None:
    """Bad records under a right checksum, which no producer sends: FAIL if `broker certify` sees them accepted."""
    chosen = select(load_vectors(ops=OPS), ["produce_crc.right_checksum_of_no_records[gzip, 0xff]"])
    (case,) = judged_by(chosen, load_evidence(package_root()), "4.4.0")
    assert isinstance(case.input, Scenario)
    accepting = ScenarioAnswers(tuple(StepAnswer(base_offset=0, data=b"") for _ in case.input.steps))
    line = result_line(case, judge(case, accepting), observation_summary(accepting), 0.0, 0)
    graded = grade_finding(case, line)
    assert graded is not None
    assert graded.grade == "FAIL"
    finding = brokers.judge_scenario_case({"4.4.0": case}, accepting, strict=False)
    assert finding is not None
    assert finding.grade == "NON_STRICT"


def test_the_list_of_aborted_transactions_counts_in_another_form() -> None:
    """Consumers skip what it names, so a wrong list is FAIL where the same records have another compression, too."""
    step = Fetch(isolation="read_committed")
    want = StepAnswer(data=batch(b"a"), aborted=(Aborted(9_000, 0),))
    for data in (batch(b"a"), batch(b"a", codec="gzip")):
        finding = judge_answers([step], [want], [StepAnswer(data=data)], strict=False)
        assert finding is not None
        assert (finding.grade, finding.outcome) == ("FAIL", "other aborted")
        finding = judge_answers([Fetch()], [want], [StepAnswer(data=data)], strict=False)
        assert finding is None or finding.grade == "INFO"
    other = judge_answers(
        [step], [want], [StepAnswer(data=batch(b"a", codec="gzip"), aborted=want.aborted)], strict=False
    )
    assert other is not None
    assert (other.grade, other.outcome) == ("INFO", "other form")


def test_what_no_consumer_sees_is_no_other_data() -> None:
    """The time of a marker, and where maximal timestamps of v1 messages are; the time of a record is seen."""

    def marker(time: int, value: bytes = b"\0\0\0\0\0\0") -> bytes:
        record = Record(offset=0, timestamp=time, key=b"\0\0\0\1", value=value)
        return encode(
            Batch(
                magic=2, base_offset=0, last_offset=0, max_timestamp=time, records=(record,),
                producer_id=1, producer_epoch=0, transactional=True, control=True,
            )
        )  # fmt: skip

    def messages(*times: int, codec: str = "none") -> bytes:
        records = tuple(Record(offset=at, timestamp=time, key=None, value=b"a") for at, time in enumerate(times))
        return encode(
            Batch(
                magic=1, base_offset=0, last_offset=len(times) - 1, max_timestamp=max(times), records=records,
                compression=codec,  # type: ignore[arg-type]
            )
        )  # fmt: skip

    assert brokers.content_of(marker(TIME)) == brokers.content_of(marker(0))
    assert brokers.content_of(marker(TIME)) != brokers.content_of(marker(TIME, b"\0\0\0\0\0\1"))
    assert brokers.content_of(messages(TIME + 1, TIME)) == brokers.content_of(messages(TIME + 1, TIME, codec="gzip"))
    assert brokers.content_of(messages(TIME)) != brokers.content_of(messages(0))

    want, old = StepAnswer(data=batch(b"a")), StepAnswer(data=messages(TIME))
    steps: dict[str, tuple[Step, StepAnswer, StepAnswer]] = {
        "v1 in the log": (Produce(data=b""), want, old),
        "v2 for Fetch 3": (Fetch(api_version=3), old, want),
    }
    findings = {
        name: judge_answers([step], [right], [given], strict=False) for name, (step, right, given) in steps.items()
    }
    assert {name: finding and finding.outcome for name, finding in findings.items()} == {
        "v1 in the log": "other form",
        "v2 for Fetch 3": "newer format",
    }


BEGUN: tuple[Step, ...] = (InitProducerId("p"), AddPartitions("p"))
DATA = encode(
    Batch(
        magic=2, base_offset=0, last_offset=0, max_timestamp=TIME, producer_id=1, producer_epoch=0, base_sequence=0,
        records=(Record(offset=0, timestamp=TIME, key=None, value=b"a"),), transactional=True,
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "ordinary"),
    [
        ((*BEGUN, Produce(data=DATA, producer="p", transactional=True)), True),
        ((*BEGUN, Produce(data=batch(b"a"))), True),
        ((*BEGUN, Produce(data=DATA, producer="p")), False),
        ((*BEGUN, EndTransaction("p", commit=True), Produce(data=DATA, producer="p")), True),
        ((InitProducerId("p", transactional=False), Produce(data=DATA, producer="p", transactional=True)), False),
        ((InitProducerId("q"), Produce(data=DATA, producer="p", transactional=True)), False),
    ],
)
def test_what_no_transactional_producer_sends_is_not_ordinary(steps: tuple[Step, ...], ordinary: bool) -> None:
    """Data of a transactional id that was not initialised, and plain data of a producer inside of its transaction."""
    assert brokers.is_ordinary(steps) is ordinary


@pytest.mark.parametrize(("code", "garbled", "crashed"), [(0, "FAIL", "FAIL"), (87, "NON_STRICT", "HOSTILE")])
def test_an_unreadable_answer_stops_nothing(code: int, garbled: str, crashed: str) -> None:
    """It is HOSTILE that a refused request ends the broker; an answer that cannot be read leaves it there."""
    case = Case(
        id="area.case", title="", rules=(), area="area", op="append",
        input=Scenario(steps=(Produce(data=batch(b"a")),)),
        expect=Expectation(verdict="valid", answers=(StepAnswer(error_code=code),)),
    )  # fmt: skip
    for observation, grade in ((Garbled("no answer"), garbled), (Crashed(), crashed)):
        finding = brokers.judge_scenario_case({"4.4.0": case}, observation, strict=False)
        assert finding is not None
        assert finding.grade == grade


def test_a_cell_is_its_gravest_finding() -> None:
    """The cell names the gravest outcome and its first case; without a scenario it is not run."""
    findings = {
        "a": None,
        "b": CaseFinding("NON_STRICT", "accepts", "step 1"),
        "c": CaseFinding("FAIL", "other data", "step 2"),
    }
    cell = broker_cell("sizes-kept", findings, {"d": "Produce 2 is not announced"})
    assert (cell.grade, cell.outcome, cell.detail) == ("FAIL", "other data", "2 of 3 scenarios differ: step 2, in c")
    assert cell.observed["not run"] == 1
    assert broker_cell("sizes-kept", {"a": None}, {}).grade == "PASS"
    assert broker_cell("sizes-kept", {}, {"d": "Produce 2 is not announced"}).grade == "not run"


@pytest.mark.slow
def test_rows_are_those_of_the_corpus() -> None:
    """`kinds/brokers.toml` is what the corpus gives; `--check` fails on another text."""
    assert broker_rows.main(["--check"]) == 0
    assert broker_rows.main(["--chek"]) == 2


def test_causes_name_known_columns() -> None:
    """Each cause of the table is about a broker that has a recipe."""
    ours = [cause for cause in edge_causes() if cause.kind == find_kind("brokers").id]
    assert ours
    assert {column for cause in ours for column in cause.columns} <= set(brokers.columns())


# A broker that knows ApiVersions and Metadata; it ends on a Metadata request for the topic `die`, after one for `last`.
PLANTED = """
import os, socket, struct, sys, threading

ends = threading.Event()

def serve(peer):
    while head := peer.recv(4):
        body = peer.recv(int.from_bytes(head, "big"))
        key, _, correlation = struct.unpack_from(">hhi", body)
        if b"die" in body or ends.is_set():
            os._exit(3)
        if b"last" in body:
            ends.set()
        if key == 18:
            answer = struct.pack(">hihhhhhh", 0, 2, 3, 0, 0, 18, 0, 0)
        else:
            answer = struct.pack(">iih9sii", 1, 0, 9, b"127.0.0.1", int(sys.argv[1]), 0)
        peer.sendall(struct.pack(">ii", len(answer) + 4, correlation) + answer)
        if b"last" in body:
            os._exit(3)

listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


@pytest.fixture
def planted(tmp_path: Path) -> list[str]:
    """The command line of a broker that dies."""
    script = tmp_path / "planted.py"
    script.write_text(PLANTED)
    return [sys.executable, str(script), "{port}"]


class MetadataRecorder(Recorder):
    """Requests the metadata of a topic in place of a scenario."""

    def __init__(self, broker: StartedBroker, topics: list[str]) -> None:
        super().__init__(broker)
        self.topics = topics

    def play(self, scenario: Scenario, **_: object) -> tuple[StepAnswer, ...]:  # noqa: ARG002 - as in the class
        """Request the next topic."""
        with self._broker.client() as client:
            client.metadata([self.topics.pop(0)])
        return (StepAnswer(),)


def test_a_broker_that_dies_is_started_again(planted: list[str]) -> None:
    """It gets another port, and answers again; at the end neither process nor folder is left."""
    with StartedBroker(planted) as broker:
        first = broker.bootstrap
        assert broker.is_there()
        with pytest.raises(WireError), broker.client() as client:
            client.metadata(["die"])
        assert not broker.is_there()
        broker.restart()
        assert broker.is_there()
        assert (broker.starts, broker.bootstrap != first) == (2, True)
        last = broker.bootstrap.rpartition(":")[2]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(last)), timeout=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("topics", "crashed", "starts"),
    [(["die", "die"], True, 3), (["die", "a"], False, 2), (["last", "last"], True, 3), (["last", "a"], False, 2)],
)
def test_one_crash_costs_one_case(planted: list[str], topics: list[str], crashed: bool, starts: int) -> None:
    """A crash that happens again on a new broker is the case's, also after its answer; the next case is answered."""
    with StartedBroker(planted) as broker:
        recorder = MetadataRecorder(broker, [*topics, "b"])
        case = Case(
            id="area.case", title="", rules=(), area="area", op="append", input=Scenario(steps=(Produce(data=b""),)),
            expect=Expectation(verdict="valid"),
        )  # fmt: skip
        assert isinstance(observe_scenario(recorder, broker, case), Crashed) is crashed
        assert isinstance(observe_scenario(recorder, broker, case), ScenarioAnswers)
        assert broker.starts == starts


def test_a_release_is_measured_with_its_own_scenarios(planted: list[str]) -> None:
    """Apache Kafka 3.9.2 is not judged by what only 4.4.0 was recorded to do."""
    case = Case(
        id="area.case", title="", rules=(), area="area", op="append", input=Scenario(steps=(Fetch(),)),
        expect=Expectation(verdict="valid"),
    )  # fmt: skip
    with StartedBroker(planted) as broker:
        column = brokers.BrokerColumn(broker, "3.9.2", release="3.9.2")
        assert column.not_announced({"4.4.0": case}) == "the scenario is not of Kafka 3.9.2"


def test_an_older_end_of_transactions_is_judged_by_the_older_release(planted: list[str]) -> None:
    """Without EndTxn 5 epochs stay, so Kafka 4.4 answers another client; the scenario is not run if only it has it."""
    case = Case(
        id="area.case", title="", rules=(), area="area", op="append", expect=Expectation(verdict="valid"),
        input=Scenario(steps=(EndTransaction("p", commit=True),)),
    )  # fmt: skip
    adds = replace(case, input=Scenario(steps=(Produce(data=b"", api_version=12),)))
    with StartedBroker(planted) as broker:
        column = brokers.BrokerColumn(broker, "1")
        assert list(column._judges_of({"4.4.0": case, "3.9.2": case})) == ["3.9.2"]
        assert column.not_announced({"4.4.0": case}).startswith("EndTxn 5, which gives the next epoch")
        assert column.not_announced({"4.4.0": adds}).startswith("Produce 12, which adds partitions")


class EndingColumn(brokers.BrokerColumn):
    """A column whose broker ends in a row beside the corpus."""

    def _time(self) -> EdgeCell:
        with self._broker.client() as client:
            client.metadata(["last"])
        return EdgeCell(row=broker_rows.ANSWERED_TIME, grade="PASS", outcome="as Kafka")


def test_a_broker_that_ends_in_a_row_beside_the_corpus_is_started_again(planted: list[str]) -> None:
    """Its answers were right; that it ended is the finding of this row, and not of the next."""
    with StartedBroker(planted) as broker:
        cell = EndingColumn(broker, "1")(broker_rows.OWN_ROWS[0])
        assert (cell.grade, cell.outcome, broker.starts) == ("FAIL", "crash", 2)
        assert broker.is_there()


def test_a_command_that_serves_nothing_is_refused(tmp_path: Path) -> None:
    """One line says what it wrote; a program that is not there, and both options at once, are refused, too."""
    with pytest.raises(NoBroker, match=r"ended before it answered(?s:.*)no such setting"):
        StartedBroker(["sh", "-c", "echo no such setting; exit 4", "{port}"])
    with pytest.raises(NoBroker, match="is not there"):
        StartedBroker(["no-such-broker", "{port}"])
    done = CliRunner().invoke(kafkaproof, ["broker", "certify", "--bootstrap", "127.0.0.1:1", "--start", "x {port}"])
    assert (done.exit_code, "one of --bootstrap and --start" in done.output) == (2, True)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--only", "v2_batch.*"], "--only: a broker gets cases of append, fetch, convert, and these are for codecs"),
        (["--only", "produce_crcs.*"], "no case matches 'produce_crcs.*'; did you mean produce_crc.*"),
        (["--against", "4.4"], "--against: nothing is recorded of '4.4'; did you mean 4.4.0?"),
        (["--against", "x"], "--against: nothing is recorded of 'x'; there are "),
    ],
)
def test_no_cases_for_a_broker(words: list[str], problem: str) -> None:
    """The reason is said: the cases are for codecs, or the release has no recorded answers; near names are given."""
    done = CliRunner().invoke(kafkaproof, ["broker", "certify", "--bootstrap", "127.0.0.1:1", *words])
    assert done.exit_code == 2
    assert problem in " ".join(done.output.split())


@pytest.mark.slow
def test_the_next_command_starts_the_broker_again(planted: list[str], tmp_path: Path) -> None:
    """A result of --start repeats it: the port of the broker that ran is closed."""
    Path(planted[1]).write_text(PLANTED.replace('b"die" in body', 'b"kafkaproof-" in body'))
    command = shlex.join(planted)
    words = [
        "broker",
        "certify",
        "--start",
        command,
        "--only",
        "produce_crc.right_checksum_of_no_records*0xff*",
        "--report",
        str(tmp_path),
    ]
    done = CliRunner().invoke(kafkaproof, words)
    assert done.exit_code == 1, done.output
    (result,) = tmp_path.glob("*/result.ndjson")
    assert certify_command(read_results(result).header).startswith(
        f"kafkaproof broker certify --start {shlex.quote(command)}"
    )
    assert "--bootstrap" not in done.output
