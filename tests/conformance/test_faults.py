"""Producing under faults: what the brokers store, the judgement of planted wrong producers, and real clients."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_brokers.faulty_broker import NODES, BrokerFault, FaultyCluster
from kafka_conformance.edges import EdgeResult, edge_results, find_kind, unreviewed
from kafka_conformance.edges.faults import (
    COUNT,
    PARTITION,
    SITUATIONS,
    TOPIC,
    FaultyRuns,
    ProduceEvidence,
    ProducerProgram,
    columns,
    compressed_twice,
    figures,
    judge_fault,
    opened,
    sent_batches,
    values,
)
from kafka_conformance.edges.running import CannotRunEdges
from kafka_records import Batch, Record, decode, encode
from kafka_records.compression import compress

HANGS_UP = SITUATIONS["disconnect-after"]
ALL = tuple(range(COUNT))
SENT: dict[int, str | None] = dict.fromkeys(ALL)
WARM, HIT, LATER = tuple(range(4)), tuple(range(4, 12)), tuple(range(12, 20))
PRODUCER = 4000


def batch(numbers: tuple[int, ...], sequence: int = -1, *, epoch: int = 0, time: int = 1, codec: str = "none") -> Batch:
    """The batch of some records; without a sequence it is of a plain producer."""
    known = sequence >= 0
    return Batch(
        magic=2,
        base_offset=0,
        last_offset=len(numbers) - 1,
        compression=codec,  # type: ignore[arg-type]
        max_timestamp=time,
        producer_id=PRODUCER if known else -1,
        producer_epoch=epoch if known else -1,
        base_sequence=sequence,
        records=tuple(Record(at, time, b"%d" % n, values()[n]) for at, n in enumerate(numbers)),
    )


def sent(cluster: FaultyCluster, data: Batch | bytes, node: int = NODES[0], partition: int = PARTITION) -> int:
    """Send a batch to a broker, and return the error of the answer."""
    return cluster.take(node, 9, -1, TOPIC, partition, data if isinstance(data, bytes) else encode(data)).error


def seen(
    *batches: Batch | bytes, reports: dict[int, str | None] | None = None, idempotent: bool = True, **more: int
) -> ProduceEvidence:
    """The evidence of a planted producer that sends *batches* one after the other, whatever the answers are."""
    cluster = FaultyCluster(HANGS_UP.fault, TOPIC)
    for each in batches:
        sent(cluster, each, **more)
    stored = [int(record.key or b"") for data in _stored(cluster) for each in decode(data) for record in each.records]
    return ProduceEvidence(
        values=values(),
        sent=[each for request in cluster.requests for each in sent_batches(request)],
        stored=stored,
        reports=SENT if reports is None else reports,
        idempotent=idempotent,
    )


def _stored(cluster: FaultyCluster) -> list[bytes]:
    return cluster.stored().get((TOPIC, PARTITION), [])


def twice(numbers: tuple[int, ...]) -> bytes:
    """A batch whose records are compressed again, as by a retry that takes the compressed bytes for records."""
    once = encode(batch(numbers, codec="gzip"))
    payload = compress("gzip", once[61:], magic=2)
    head = bytearray(once[:61])
    head[8:12] = (len(once[12:61]) + len(payload)).to_bytes(4, "big")
    return bytes(head) + payload


# ---- the brokers ----


def test_a_repeated_sequence_is_stored_once() -> None:
    """A batch with known sequences is acknowledged and not appended; one after a gap is refused (PID-08)."""
    cluster = FaultyCluster(BrokerFault(times=0), TOPIC)
    assert sent(cluster, batch(WARM, 0)) == 0
    assert sent(cluster, batch(HIT, 4)) == 0
    assert sent(cluster, batch(HIT, 4)) == 0
    assert sent(cluster, batch(LATER, 13)) == 45
    assert sent(cluster, batch(LATER, 0, epoch=1)) == 0
    assert [request.stored for request in cluster.requests] == [True, True, False, False, True]
    assert [request.base_offset for request in cluster.requests] == [0, 4, 4, -1, 12]


def test_plain_batches_are_stored_as_often_as_they_come() -> None:
    """Without a producer id nothing is known of a batch."""
    cluster = FaultyCluster(BrokerFault(times=0), TOPIC)
    assert [sent(cluster, batch(WARM)) for _ in range(2)] == [0, 0]
    assert len(_stored(cluster)) == 2


def test_only_the_leader_takes_records() -> None:
    """After a leader change the first broker refuses with NOT_LEADER_OR_FOLLOWER, and the second one stores."""
    cluster = FaultyCluster(BrokerFault(error=6, moves=True), TOPIC)
    assert sent(cluster, batch(WARM), NODES[1]) == 6
    assert sent(cluster, batch(WARM)) == 6
    assert sent(cluster, batch(WARM)) == 6
    assert sent(cluster, batch(WARM), NODES[1]) == 0
    assert len(_stored(cluster)) == 1


def test_the_fault_waits_for_stored_records() -> None:
    """A fault hits as many requests as it says, after so many records are stored; a large batch is always refused."""
    cluster = FaultyCluster(BrokerFault(error=19, times=2, after=4, most_bytes=700), TOPIC)
    assert [sent(cluster, batch(WARM)) for _ in range(4)] == [0, 19, 19, 0]
    assert sent(cluster, batch(HIT)) == 10


# ---- the judgement ----


def test_each_row_is_a_situation() -> None:
    """The table and the module have the same rows, and there are two columns for clients with idempotence."""
    assert [row.id for row in find_kind("faults").row] == list(SITUATIONS)
    assert {"java-consumer", "java-consumer+plain", "sarama-client+idempotent", "rskafka-client"} <= set(columns())
    with (
        pytest.raises(CannotRunEdges, match=r"no producer 'rskafka-client\+idempotent'; there are"),
        opened("rskafka-client+idempotent"),
    ):
        pass


def test_a_right_retry_passes() -> None:
    """The same batch with the same sequence, after the connection was closed."""
    found = judge_fault(HANGS_UP, seen(batch(WARM, 0), batch(HIT, 4), batch(HIT, 4), batch(LATER, 12)))
    assert (found.grade, found.outcome) == ("PASS", "retries")
    assert found.detail == "20 of 20 records reported as sent, 20 stored, 8 sent again."


def test_a_plain_producer_may_double() -> None:
    """Without idempotence a retry of stored records doubles them; that is at-least-once."""
    found = judge_fault(HANGS_UP, seen(batch(WARM), batch(HIT), batch(HIT), batch(LATER), idempotent=False))
    assert (found.grade, found.outcome) == ("PASS", "retries, doubles")


PLANTED = {
    "loses records": seen(batch(WARM, 0), batch(HIT, 4)),
    "doubles, though idempotent": seen(batch(WARM, 0), batch(HIT, 4), batch(HIT, 0, epoch=1), batch(LATER, 8, epoch=1)),
    "reorders, though idempotent": seen(batch(WARM, 0), batch(LATER, 4), batch(HIT, 12)),
    "reuses a sequence": seen(
        batch(WARM, 0), batch(HIT, 4), batch(LATER, 4), reports=SENT | dict.fromkeys(LATER, "out of order")
    ),
    "compressed twice": seen(batch(WARM), twice(HIT)),
    "unreadable bytes": seen(batch(WARM, 0), encode(batch(HIT, 4))[:-1] + b"\xff"),
    "wrong partition": seen(batch(WARM, 0), partition=1),
    "other records": seen(replace(batch(WARM, 0), records=(Record(0, 1, b"0", values()[1]),), last_offset=0)),
    "stops for good": seen(batch(WARM), batch(HIT), reports=SENT | dict.fromkeys(HIT + LATER, "closed")),
    "never reports": seen(batch(WARM, 0), batch(HIT, 4), batch(LATER, 12), reports={0: None}),
}


@pytest.mark.parametrize("outcome", PLANTED)
def test_planted_wrong_producers_fail(outcome: str) -> None:
    """Each way to lose, double, reorder or spoil records is a FAIL of its own."""
    found = judge_fault(HANGS_UP, PLANTED[outcome])
    assert (found.grade, found.outcome) == ("FAIL", outcome)
    assert found.detail.endswith(".") or "closed" in found.detail
    assert len(outcome.split()) <= 4


def test_acknowledged_records_are_not_sent_again() -> None:
    """After an answer without an error there is no reason to double."""
    doubled = seen(batch(WARM), batch(HIT), batch(HIT), batch(LATER), idempotent=False)
    assert judge_fault(SITUATIONS["throttle"], doubled)[:2] == ("FAIL", "doubles acknowledged records")


def test_what_documentation_allows_is_no_defect() -> None:
    """Giving up, not splitting, and order without idempotence are shown, and are no FAIL."""
    failed = SENT | dict.fromkeys(HIT, "no")
    lost = seen(batch(WARM), batch(LATER), reports=failed, idempotent=False)
    assert judge_fault(SITUATIONS["not-enough-replicas"], lost)[:2] == ("INFO", "does not retry")
    assert judge_fault(SITUATIONS["too-large"], lost)[:2] == ("INFO", "does not split")
    assert judge_fault(SITUATIONS["rejected"], lost)[:2] == ("PASS", "reports the error")
    stored = seen(batch(WARM), batch(HIT), batch(LATER), reports=failed, idempotent=False)
    assert judge_fault(HANGS_UP, stored)[:2] == ("INFO", "error, though stored")
    late = seen(batch(WARM), batch(LATER), batch(HIT), idempotent=False)
    assert judge_fault(SITUATIONS["error-in-flight"], late)[:2] == ("INFO", "reorders")
    ended = seen(batch(WARM, 0), batch(HIT, 4), reports=SENT | dict.fromkeys(HIT + LATER, "fatal"))
    assert judge_fault(SITUATIONS["out-of-order"], ended)[:2] == ("INFO", "stops for good")


def test_a_changed_timestamp_is_seen() -> None:
    """A retry whose records have another time is not the same bytes."""
    again = seen(batch(WARM, 0), batch(HIT, 4), batch(HIT, 4, time=9), batch(LATER, 12))
    assert judge_fault(HANGS_UP, again)[:2] == ("NON_STRICT", "retries, restamped")


def test_compression_is_undone_once() -> None:
    """A plain, a compressed and a doubly compressed batch."""
    assert [compressed_twice(data) for data in (
        encode(batch(WARM)), encode(batch(WARM, codec="gzip")), twice(WARM), b"",
    )] == [False, False, True, False]  # fmt: skip


# ---- programs ----


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "outcome"),
    [("import time; time.sleep(9)", "hangs"), ("raise SystemExit('no broker')", "dies"), ("", "never reports")],
)
def test_programs_that_do_not_report(code: str, outcome: str) -> None:
    """A program that hangs or dies is HOSTILE; one that ends without a report is a FAIL."""
    runs = FaultyRuns(ProducerProgram((sys.executable, "-c", code)), "1", None, idempotent=False, limit=0.4)
    found = judge_fault(HANGS_UP, runs.watch(HANGS_UP))
    assert found.outcome == outcome
    assert found.grade == ("FAIL" if outcome == "never reports" else "HOSTILE")
    assert "no broker" in found.detail or outcome != "dies"


@pytest.mark.slow
def test_kafka_python_repeats_the_sequence() -> None:
    """The real producer, default settings: a retry has the same sequence, and an unknown setting is not run."""
    kind = find_kind("faults")
    with opened("kafka-python-client") as runs:
        quick = replace(runs, pause=0.1)
        evidence = quick.settled(HANGS_UP)
        assert judge_fault(HANGS_UP, evidence)[:2] == ("PASS", "retries")
        hit = next(each for each in evidence.sent if each.hit)
        again = [each for each in evidence.sent if each.records == hit.records]
        assert [each.producer for each in again] == [hit.producer] * 2
        assert figures(evidence)["stored"] == COUNT
        row = kind.row_of("duplicate-sequence")
        assert row is not None
        assert replace(quick, idempotent=False)(row).grade == "not run"
        assert quick(row).grade == "PASS"


@pytest.mark.testees
@pytest.mark.parametrize(
    ("column", "row"),
    [
        ("aiokafka-client", "not-enough-replicas"),
        ("confluent-kafka+idempotent", "disconnect-after"),
        ("franz-go-client", "disconnect-after"),
        ("java-consumer", "error-in-flight"),
        ("java-consumer", "too-large-gzip"),
        ("kafka-go-reader", "not-enough-replicas"),
        ("kafkajs-client", "not-enough-replicas"),
        ("platformatic-kafka-client", "not-enough-replicas"),
        ("rskafka-client", "leader-moves"),
        ("sarama-client+idempotent", "disconnect-after"),
    ],
)
def test_real_producers_try_again(column: str, row: str) -> None:
    """Each client's producer sends the records again, so that all are stored."""
    found = find_kind("faults").row_of(row)
    assert found is not None
    try:
        with opened(column) as runs:
            cell = replace(runs, pause=0.3)(found)
    except CannotRunEdges as error:
        pytest.skip(str(error))
    assert cell.grade in ("PASS", "NON_STRICT"), cell
    assert cell.observed["stored"] == COUNT


RESULTS = Path(__file__).resolve().parents[2] / "results"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"


def page_table(results: list[EdgeResult]) -> list[str]:
    """The table of the page, from kept results."""
    lines = [
        "| producer | faults | all stored | failed | lost | doubled | reordered | worst |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in sorted(results, key=lambda each: columns().index(each.header.column)):
        cells = [cell for cell in result.cells.values() if cell.grade != "not run"]
        counts = (
            len(cells),
            sum(cell.observed["reported_sent"] == COUNT and cell.outcome != "loses records" for cell in cells),
            sum(cell.observed["reported_failed"] > 0 for cell in cells),
            sum(cell.outcome == "loses records" for cell in cells),
            sum(cell.observed["doubled"] > 0 for cell in cells),
            sum(not cell.observed["order_kept"] for cell in cells),
        )
        worst = next((cell.grade for cell in result.findings()), "PASS")
        lines.append(f"| {result.label} | {' | '.join(map(str, counts))} | {worst} |")
    return lines


def test_kept_results_have_causes_and_are_on_the_page() -> None:
    """Each producer has a result of each row, each FAIL its reviewed cause, and the page the table of them."""
    results = edge_results(RESULTS)["faults"]
    assert {result.header.column for result in results} == set(columns())
    assert all(set(result.cells) == set(SITUATIONS) for result in results)
    assert [f"{result.label}, {cell.row}" for _, result, cell in unreviewed({"faults": results})] == []
    java = [cell for result in results for cell in result.findings() if result.header.column.startswith("java")]
    assert {cell.grade for cell in java} <= {"INFO"}
    assert "\n".join(page_table(results)) in PAGE.read_text(encoding="utf-8")
