"""Proxies: one that passes frames on agrees in each row, and planted wrong ones fail in the row of their fault."""

import socket
import struct
import sys
import threading
import time
import tracemalloc
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from tests.conformance.tiny_proxy import TinyProxy, upper_case

from kafka_brokers.wire import tables
from kafka_brokers.wire.client import parse_address
from kafka_conformance.edges import (
    FORMAT,
    EdgeCell,
    EdgeHeader,
    edge_causes,
    edge_results,
    find_kind,
    read_edge_result,
    result_path,
    unreviewed,
)
from kafka_conformance.edges import proxies as module
from kafka_conformance.edges.proxies import ROWS, Payload, ProxyTally, columns, opened, running_proxy
from kafka_conformance.edges.relay import (
    RECORD_CHANGES,
    ProxyClient,
    RelaySilent,
    ScriptedBroker,
    is_odd,
    one_batch,
    record_changes,
)
from kafka_conformance.edges.running import CannotRunEdges
from kafka_records import Header, decode, encode
from kafkaproof.cli import kafkaproof

KIND = find_kind("proxies")
TINY = Path(__file__).with_name("tiny_proxy.py")
KEPT = Path(__file__).parents[2] / "results"
PLAIN = one_batch(b"value", records=2)
WITH_HEADERS = encode(
    replace(
        decode(PLAIN)[0],
        records=tuple(each._replace(headers=(Header(b"h", None),)) for each in decode(PLAIN)[0].records),
    )
)
DAMAGED = PLAIN.replace(b"value", b"vAlue", 1)


@pytest.fixture(autouse=True)
def few_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some payloads in place of the corpus, and one large record in place of three."""
    produced = {row: [Payload("plain", PLAIN)] for row in ROWS if row.startswith("produce-")}
    produced["produce-headers"] = [Payload("headers", WITH_HEADERS)]
    fetched = {row: [Payload("plain", PLAIN)] for row in ROWS if row.startswith("fetch-")}
    fetched["fetch-damaged"] = [Payload("damaged", DAMAGED)]
    monkeypatch.setattr(module, "produced_payloads", lambda: produced)
    monkeypatch.setattr(module, "fetched_payloads", lambda: fetched)
    monkeypatch.setattr(module, "LARGE", (3 << 19,))


def _free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return "{}:{}".format(*server.getsockname())


def _grades(fault: str, rows: Collection[str] | None = None, allow: Sequence[str] = ()) -> dict[str, EdgeCell]:
    upstream = _free_address()
    proxy = TinyProxy(parse_address(upstream), fault=fault)
    try:
        with running_proxy(proxy.address, upstream=upstream, allow=allow) as check:
            check.client._patient = 2
            return {row.id: check(row) for row in KIND.row if rows is None or row.id in rows}
    finally:
        proxy.close()


def test_rows_have_functions() -> None:
    """Each row of the table has a function that fills it, and the other way round."""
    assert [row.id for row in KIND.row] == list(ROWS)


@pytest.mark.slow
def test_pass_through_agrees() -> None:
    """A proxy that passes frames on has the grade PASS in each row, but for addresses that it does not replace."""
    cells = _grades("")
    assert {row: cell.grade for row, cell in cells.items() if cell.grade != "PASS"} == {"metadata": "INFO"}
    assert cells["pipelined"].observed["requests"] == 48


@pytest.mark.parametrize(
    ("fault", "row", "change", "unharmed"),
    [
        ("recompresses", "produce-v2", "compression", "fetch-v2"),
        ("drops headers", "produce-headers", "headers", "produce-v2"),
        ("hides errors", "produce-errors", "error code", "fetch-errors"),
        ("reorders", "pipelined", "correlation id", "produce-v2"),
        ("cuts", "produce-large", "connection closed", "produce-v2"),
        ("repairs", "fetch-damaged", "repaired damage", "fetch-v2"),
    ],
)
def test_planted_fault(fault: str, row: str, change: str, unharmed: str) -> None:
    """A proxy with one fault fails in the row of that fault, by its name, and in no row that it does not touch."""
    cells = _grades(fault, {row, unharmed})
    assert cells[row].grade == "FAIL"
    assert change in cells[row].observed["changes"]
    assert cells[unharmed].grade == "PASS"


def test_declared_change() -> None:
    """A filter that changes values passes if that is declared, and fails if another change is."""
    rows = {"produce-headers", "round-trip"}
    assert {cell.outcome for cell in _grades("upper case", rows, ["values"]).values()} == {"values as declared"}
    assert {cell.grade for cell in _grades("upper case", rows, ["keys"]).values()} == {"FAIL"}


def _with(**fields: Any) -> bytes:
    batch = decode(PLAIN)[0]
    return encode(replace(batch, **fields))


@pytest.mark.parametrize(
    ("after", "names"),
    [
        (PLAIN, set()),
        (upper_case(PLAIN), {"values"}),
        (WITH_HEADERS, {"headers"}),
        (_with(compression="gzip"), {"compression"}),
        (_with(producer_id=5, producer_epoch=0, base_sequence=0), {"producer"}),
        (_with(partition_leader_epoch=4), {"batch header"}),
        (one_batch(b"value"), {"number of records", "batch header"}),
        (DAMAGED, {"damaged records"}),
        (PLAIN + b"\0", {"encoding"}),
        (None, {"number of records"}),
    ],
)
def test_names_of_changes(after: bytes | None, names: set[str]) -> None:
    """Each difference between record bytes has its name."""
    assert record_changes(PLAIN, after) == names
    assert names <= set(RECORD_CHANGES)


def test_odd_bytes() -> None:
    """Bytes that no producer would write are odd; a header that claims 10**9 offsets takes no memory."""
    assert not is_odd(PLAIN, produced=True)
    assert is_odd(DAMAGED, produced=True)
    claims = encode(replace(decode(PLAIN)[0], last_offset=10**9))
    tracemalloc.start()
    try:
        assert is_odd(claims, produced=True)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_grade_is_that_of_the_gravest_change() -> None:
    """One FAIL among requests with a weaker finding makes the cell a FAIL; a declared change is none."""
    tally = ProxyTally(frozenset({"values"}))
    tally.add("one", {"client id"})
    tally.add("two", {"values", "encoding"})
    assert tally.cell("acks").grade == "NON_STRICT"
    tally.add("three", {"keys"})
    cell = tally.cell("acks")
    assert (cell.grade, cell.outcome) == ("FAIL", "client id, keys")


@pytest.mark.parametrize(
    ("what", "upstream", "words"),
    [
        ("127.0.0.1:1", "", "kafkaproof certify proxy:127.0.0.1:1 --upstream HOST:PORT"),
        ("some proxy", "", "{upstream}"),
        ("python -c pass {upstream} {listen}", "", "the proxy ended"),
        ("/does/not/exist {upstream} {listen}", "", "the proxy ended"),
    ],
)
def test_proxy_that_cannot_run(what: str, upstream: str, words: str) -> None:
    """A proxy that cannot be started, or whose broker's address is missing, is one clear line."""
    with (
        pytest.raises(CannotRunEdges, match=words),
        running_proxy(what.replace("python", sys.executable), upstream=upstream),
    ):
        pass


@pytest.mark.parametrize(("fault", "row", "code"), [("", "fetch-partial", 0), ("hides errors", "produce-errors", 1)])
def test_certify_a_running_proxy(tmp_path: Path, fault: str, row: str, code: int) -> None:
    """`certify proxy:HOST:PORT --upstream` writes the result of the table, and exits with 1 after a FAIL."""
    upstream = _free_address()
    proxy = TinyProxy(parse_address(upstream), fault=fault)
    words = ["certify", f"proxy:{proxy.address}", "--upstream", upstream, "--only", row, "--report", str(tmp_path)]
    try:
        done = CliRunner().invoke(kafkaproof, words)
    finally:
        proxy.close()
    assert done.exit_code == code, done.output
    (written,) = (tmp_path / "edges" / "proxies").iterdir()
    assert list(read_edge_result(written).cells) == [row]
    assert ("error code" in done.output) == bool(code)


@pytest.mark.parametrize(
    "words",
    [
        ["kafka-python", "--allow", "values"],
        ["proxy:a:1", "proxy:b:2"],
        ["proxy:a:1", "--allow", "v"],
        ["proxy:localhost:1", "--upstream", "localhost:99999"],
        ["proxy:localhost:100000", "--upstream", "localhost:2"],
    ],
)
def test_certify_refuses(words: list[str]) -> None:
    """Options of proxies without one, two proxies, an unknown change and no port are errors of usage."""
    assert CliRunner().invoke(kafkaproof, ["certify", *words]).exit_code == 2


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_certify_refuses_its_own_broker(host: str, tmp_path: Path) -> None:
    """At the address of the proxy, under any name, the broker would be taken for a proxy that changes nothing."""
    proxy = _free_address()
    upstream = f"{host}:{parse_address(proxy)[1]}"
    words = ["certify", f"proxy:{proxy}", "--upstream", upstream, "--only", "fetch-partial", "--report", str(tmp_path)]
    done = CliRunner().invoke(kafkaproof, words)
    assert done.exit_code == 2
    assert f"--upstream: {upstream} is the address of the proxy itself" in done.output


def test_results_of_commands_do_not_mix(tmp_path: Path) -> None:
    """Long commands that differ at their end, or in a space, have files of their own, with the whole command inside."""
    begin = f"{sys.executable} {TINY} {{upstream}} {{listen}} --config /etc/some/very/long/folder/of/mine"
    columns_ = [f"{begin}/a", f"{begin}/b", f"{begin}-b", "p {upstream} {listen}", "p-{upstream} {listen}"]
    paths = {result_path(tmp_path, "proxies", column) for column in columns_}
    assert len(paths) == len(columns_)
    assert all(len(path.name) < 100 for path in paths)
    assert result_path(tmp_path, "proxies", "localhost:9092").name == "localhost-9092.ndjson"
    assert result_path(tmp_path, "recovery", "aiokafka-client@0.9.0").name == "aiokafka-client-0.9.0.ndjson"


def test_certify_keeps_a_result_of_another_proxy(tmp_path: Path) -> None:
    """A file of another column is left as it is, and the command says which one it has."""
    upstream = _free_address()
    proxy = TinyProxy(parse_address(upstream))
    path = result_path(tmp_path, "proxies", proxy.address)
    path.parent.mkdir(parents=True)
    header = EdgeHeader(format=FORMAT, kind="proxies", column="other proxy", version="", date="2026-01-01")
    path.write_bytes(msgspec.json.encode(header) + b"\n")
    words = ["certify", f"proxy:{proxy.address}", "--upstream", upstream, "--only", "acks", "--report", str(tmp_path)]
    try:
        done = CliRunner().invoke(kafkaproof, words)
    finally:
        proxy.close()
    assert done.exit_code == 2, done.output
    assert "other proxy" in done.output
    assert read_edge_result(path).header == header


@pytest.mark.parametrize(
    ("proxy", "upstream"),
    [
        ("localhost:1", "localhost:99999"),
        ("localhost:999999", "localhost:1"),
        ("localhost:1", "nothing"),
        ("localhost:1", f"{'a' * 70}.b:1"),
        (f"{'a' * 70}.b:1", "localhost:29843"),
    ],
)
def test_certify_with_an_impossible_address(proxy: str, upstream: str, tmp_path: Path) -> None:
    """A port above 65535, or a name that is none, is one line about that address."""
    words = ["certify", f"proxy:{proxy}", "--upstream", upstream, "--only", "acks", "--report", str(tmp_path)]
    done = CliRunner().invoke(kafkaproof, words)
    assert done.exit_code == 2, done.output
    assert proxy in done.output or upstream in done.output


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--format", "junit,html", "--strict", "--profile", "consumer"], "--profile, --strict, --format:"),
        (["--resume", "--jobs", "2", "--seed", "x", "--history", "3"], "--history, --seed, --jobs, --resume:"),
        (["--fetch-versions", "4,12", "--bisect", "case"], "--fetch-versions, --bisect:"),
        (["--all"], "--all:"),
    ],
)
def test_certify_names_options_without_effect(words: list[str], named: str, tmp_path: Path) -> None:
    """An option that the check of a proxy does not have is an error of usage that names it."""
    command = ["certify", "proxy:localhost:1", "--upstream", "localhost:29843", *words, "--report", str(tmp_path)]
    done = CliRunner().invoke(kafkaproof, command)
    assert done.exit_code == 2
    assert f"Error: {named} without effect for a proxy" in done.output


@pytest.mark.parametrize("words", [["--upstream", "localhost:29843"], ["--allow", "values"]])
def test_known_proxies_have_their_own_settings(words: list[str]) -> None:
    """The address and the changes of a known proxy are given; an option that says others is refused."""
    done = CliRunner().invoke(kafkaproof, ["certify", "proxy:kroxylicious", *words])
    assert done.exit_code == 2
    assert f"Error: {words[0]}: without effect for kroxylicious" in done.output


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["kroxylicous"], "no proxy 'kroxylicous' is known; did you mean kroxylicious?"),
        (["my-own"], "the command line needs the places {upstream} and {listen}"),
        (["localhost:1"], "say with --upstream HOST:PORT"),
        (
            ["kroxylicious", "--only", "acks", "--only", "nope"],
            "--only: proxies has no 'nope'; there are api-versions,",
        ),
        (["kroxylicious", "--only", "fetch-version"], "did you mean fetch-versions?"),
    ],
)
def test_certify_has_advice_that_works(words: list[str], problem: str) -> None:
    """A wrong name of a proxy or row is an error of usage with the names that there are."""
    done = CliRunner().invoke(kafkaproof, ["certify", f"proxy:{words[0]}", *words[1:]])
    assert done.exit_code == 2
    assert problem in done.output


@pytest.mark.slow
def test_certify_starts_a_proxy(tmp_path: Path) -> None:
    """`certify proxy:COMMAND` starts the proxy in the current folder."""
    command = f"proxy:{sys.executable} {TINY} {{upstream}} {{listen}}"
    done = CliRunner().invoke(kafkaproof, ["certify", command, "--only", "acks", "--report", str(tmp_path)])
    assert done.exit_code == 0, done.output


def test_broker_survives_garbage() -> None:
    """Garbage on a connection closes that connection only."""
    with ScriptedBroker() as broker:
        for garbage in (b"\xff" * 64, b"\0\0\0\4\0\0\0\0", b"GET / HTTP/1.1\r\n\r\n"):
            with socket.create_connection((broker.host, broker.port), timeout=5) as connection:
                connection.sendall(garbage)
                assert connection.recv(10) == b""


@pytest.mark.slow
def test_a_frame_has_to_end() -> None:
    """A proxy that sends byte after byte is given up, though none of them is late."""
    with ScriptedBroker() as broker, socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_drip, args=(server,), daemon=True)
        thread.start()
        client = ProxyClient(server.getsockname(), broker, patient=0.5)
        with pytest.raises(RelaySilent, match="does not end"):
            client.demand(tables.METADATA, 1, {"topics": []})
        client.close()
        thread.join(10)
    assert not thread.is_alive()


def _drip(server: socket.socket) -> None:
    """Announce a large frame on the first connection, and send a byte of it every 50 ms until it is closed."""
    connection, _ = server.accept()
    with connection, suppress(OSError):
        connection.sendall(struct.pack(">i", 1_000_000))
        while True:
            connection.sendall(b"x")
            time.sleep(0.05)


def test_causes_name_known_proxies() -> None:
    """Reviewed causes of this table belong to proxies that can be certified by name."""
    named = {column for cause in edge_causes() if cause.kind == "proxies" for column in cause.columns}
    assert named <= set(columns())


def test_kept_findings_have_causes() -> None:
    """Each FAIL in the kept results has a reviewed cause."""
    kept = edge_results(KEPT).get("proxies", [])
    assert len(kept) >= 3
    assert [(result.label, cell.row) for _, result, cell in unreviewed({"proxies": kept})] == []


@pytest.mark.testees
@pytest.mark.java
def test_kroxylicious_passes_and_fails() -> None:
    """The real proxy passes records on, and does not find acks=0 before Produce 9."""
    with opened("kroxylicious") as check:
        check.client._patient = 2
        cells = {row.id: check(row) for row in KIND.row if row.id in {"produce-headers", "round-trip", "acks"}}
    assert {row: cell.grade for row, cell in cells.items()} == {
        "produce-headers": "PASS",
        "round-trip": "PASS",
        "acks": "FAIL",
    }
