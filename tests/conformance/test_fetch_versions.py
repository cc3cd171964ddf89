"""Clients through several Fetch versions: the option, what is sent in a version, and what is compared."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kafka_brokers.fake_broker import FETCH_VERSION
from kafka_conformance.edges import edge_results, read_edge_result, result_path, unreviewed
from kafka_conformance.process import starting
from kafka_conformance.runner.fetch_versions import (
    BadVersions,
    ClientByVersion,
    compare_versions,
    formats_of,
    parse_versions,
    steady_versions,
    version_cases,
    version_cells,
    versions_document,
    versions_lines,
    with_versions,
    write_versions,
)
from kafka_conformance.runner.results import read_results
from kafka_conformance.runner.smoke import smoke
from kafka_conformance.testees import interface
from kafka_conformance.testees.client_parts import ConsumerBroker, narrowed, sent_in
from kafka_conformance.testees.connection import BadConnect
from kafka_conformance.testees.known import check_connect, connect, plain_name, split_version
from kafka_conformance.testees.protocol import Capability, CodecAnswer, HelloRefusal
from kafka_conformance.testees.serve import reply_to
from kafka_corpus.case import Recipe
from kafka_corpus.vectors import load_vectors
from kafkaproof.cli import INTERRUPTED
from kafkaproof.commands import certify
from kafkaproof.commands.certify import CertifyOutcome, certify_testees

ONE = "v1_message.crc_above_int32"
ROOT = Path(__file__).resolve().parents[2]
WRITTEN = "v2_attributes.writer_names_the_codec*none*"


@given(st.sets(st.integers(0, 18), min_size=1))
def test_a_list_of_versions_is_read_back(versions: set[int]) -> None:
    """In any order, ascending and each once."""
    assert parse_versions("fetch", ",".join(map(str, versions))) == tuple(sorted(versions))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'' names no version"),
        ("12,", None),
        ("x", "'x' is no version"),
        ("4-", "'4-' is no version"),
        ("19", "there is no Fetch version 19"),
        ("0-99", "there is no Fetch version 99"),
        ("-1", "'-1' is no version"),
        ("9-4", "'9-4' is an empty range"),
    ],
)
def test_a_bad_list_is_refused(text: str, why: str | None) -> None:
    """With the part that is none."""
    if why is None:
        assert parse_versions("fetch", text) == (12,)
        return
    with pytest.raises(BadVersions) as caught:
        parse_versions("fetch", text)
    assert why in str(caught.value)


def test_a_sample_has_cases_of_each_group() -> None:
    """Each area, set of formats and verdict that a request carries has some, as many as there are or as wanted."""
    # A recipe takes its time.
    cases = [case for case in load_vectors(ops=("decode", "encode")) if not isinstance(case.input, Recipe)]
    groups = {
        number: Counter(
            (case.area, formats_of(case), case.expect.verdict) for case in version_cases(cases, "fetch", number)
        )
        for number in (1, 2, len(cases))
    }

    assert groups[len(cases)].total() == sum(case.op == "decode" for case in cases)
    assert groups[2] == {group: min(count, 2) for group, count in groups[len(cases)].items()}
    assert groups[1] == dict.fromkeys(groups[len(cases)], 1)
    assert version_cases(cases[::-1], "fetch", 1)[::-1] == version_cases(cases, "fetch", 1)
    assert {case.op for case in version_cases(cases, "produce")} == {"encode"}


def test_a_sample_is_of_versions() -> None:
    """Of a plain run a part would be no certificate."""
    done = CliRunner().invoke(certify_testees, ["kafka-python-client", "--per-group", "1"])

    assert (done.exit_code, "--per-group goes with --fetch-versions" in done.output) == (2, True)


def test_connect_strings_with_a_version() -> None:
    """The version is the last part, after a release, and its name is that of the row."""
    assert with_versions(["a", "b@1"], "fetch", (4, 12)) == ["a+fetch4", "a+fetch12", "b@1+fetch4", "b@1+fetch12"]
    assert [split_version(each) for each in ("b@1+fetch4", "c++", "fetch:x +fetch7")] == [
        ("b@1", "fetch", 4), ("c++", "", None), ("fetch:x ", "fetch", 7),
    ]  # fmt: skip
    assert plain_name("kafka-python-client@3.0.1+fetch4") == "kafka-python-client"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kafka-python+fetch4", "kafka-python fetches nothing: clients that do are kafka-python-client, "),
        ("process:cat+fetch4", "fetches nothing"),
        ("kafka-python-client+fetch19", "there is no Fetch version 19"),
        ("kafka-pyton-client+fetch4", "did you mean kafka-python-client"),
    ],
)
def test_only_clients_have_fetch_versions(text: str, why: str) -> None:
    """A codec that gets bytes, or a version that no release has, is refused before anything starts."""
    with pytest.raises(BadConnect) as caught:
        check_connect(text)
    assert why in str(caught.value)


def test_formats_of_a_version() -> None:
    """KIP-32, KIP-98 and KIP-110: what brokers send in it, and what the client announces of that."""
    assert [sent_in(version).magics for version in (0, 1, 2, 3, 4, 18)] == [
        [0],
        [0],
        [0, 1],
        [0, 1],
        [0, 1, 2],
        [0, 1, 2],
    ]
    assert ["zstd" in sent_in(version).compressions for version in (4, 9, 10)] == [False, False, True]
    assert narrowed(Capability([2], ["none", "zstd"]), 9) == Capability([2], ["none"])
    assert narrowed(Capability(), 12) == sent_in(12)


@pytest.mark.slow
def test_a_client_in_two_versions_and_one_that_it_does_not_speak(tmp_path: Path) -> None:
    """kafka-python agrees in Fetch 2 and 12, and has no Fetch 17; results are compared and written."""
    names = ["kafka-python-client", "--fetch-versions", "2,12,17", "--only", ONE, "--report", str(tmp_path)]
    done = CliRunner().invoke(certify_testees, names)
    document = json.loads((tmp_path / "fetch-versions.json").read_text())

    assert done.exit_code == 0, done.output
    assert "it fetches in version 12, not in 17" in done.output
    assert "kafka-python-client: 1 cases in Fetch 2, 1 cases in Fetch 12, 0 cases in Fetch 17" in done.output
    assert "–            100%" in done.output
    assert document["clients"] == [
        {
            "connect": "kafka-python-client",
            "versions": [2, 12, 17],
            "spoken": [2, 12],
            "compared": {"2": 1, "12": 1, "17": 0},
            "differing": {},
        }
    ]
    (result,) = tmp_path.glob("*fetch2-*/result.ndjson")
    header = read_results(result).header.testee
    assert (header["connect"], header["decode"]["magics"]) == ("kafka-python-client+fetch2", [0, 1])
    assert header["encode"]["magics"] == []


@pytest.mark.slow
def test_outcomes_that_depend_on_the_version_are_named(tmp_path: Path) -> None:
    """A case with two outcomes is listed with the versions of each; skipped ones are not compared."""
    names = ["kafka-python-client", "--fetch-versions", "2,12", "--only", ONE, "--report", str(tmp_path)]
    CliRunner().invoke(certify_testees, names)
    (two,), (twelve,) = tmp_path.glob("*fetch2-*/result.ndjson"), tmp_path.glob("*fetch12-*/result.ndjson")
    made = read_results(two), read_results(twelve)
    made[1].lines[0].outcome = "hang"
    clients = compare_versions([("a+fetch2", made[0]), ("a+fetch12", made[1]), ("a+fetch17", None), ("b", made[0])])

    assert [(each.name, each.spoken, each.differing) for each in clients] == [
        ("a", (2, 12), {ONE: {2: "agree", 12: "hang"}})
    ]
    assert versions_document(clients)["clients"][0]["differing"] == {ONE: {"2": "agree", "12": "hang"}}
    assert list(versions_lines(clients))[2:] == [
        "  1 outcomes depend on the version:",
        f"  {ONE}: agree in 2, hang in 12",
    ]
    made[1].lines[0].outcome = "skipped"
    assert compare_versions([("a+fetch2", made[0]), ("a+fetch12", made[1])])[0].differing == {}


@pytest.mark.slow
def test_what_does_not_come_again_is_no_matter_of_the_version(tmp_path: Path) -> None:
    """An outcome counts in a version if it is the same in a second run, or that run did not reach it."""
    names = ["kafka-python-client", "--fetch-versions", "2,12", "--only", ONE, "--report", str(tmp_path)]
    CliRunner().invoke(certify_testees, names)
    (path,) = tmp_path.glob("*fetch2-*/result.ndjson")
    agrees = read_results(path)
    client = ClientByVersion("a", "fetch", (2, 11, 12), {2: 2, 11: 2, 12: 2}, {
        ONE: {2: "hang", 11: "agree", 12: "crash"}, "other": {2: "hang", 12: "agree"},
    })  # fmt: skip

    every = [("a+fetch2", agrees), ("a+fetch11", agrees), ("a+fetch12", None)]
    assert steady_versions([client], every)[0].differing == {
        ONE: {11: "agree", 12: "crash"}, "other": {2: "hang", 12: "agree"},
    }  # fmt: skip
    assert steady_versions([client], [("a+fetch2", agrees), ("a+fetch12", agrees)])[0].differing == {
        "other": {2: "hang", 12: "agree"}
    }


def test_a_refused_hello_has_its_reason(tmp_path: Path) -> None:
    """A testee that answers hello with an error ends at once, and the error is all that `certify` and `smoke` say."""
    adapter = tmp_path / "adapter.py"
    reply = '{"protocol":1,"error":{"message":"no \\u001b[31mlicence"}}'
    adapter.write_text(f"import sys\nsys.stdin.readline()\nprint({reply!r}, flush=True)\nsys.stdin.read()\n")
    text = f"process:{sys.executable} {adapter}"
    done = CliRunner().invoke(certify_testees, [text, "--only", ONE, "--report", str(tmp_path / "r")])

    assert done.exit_code == 3
    assert "cannot run: no \\x1b[31mlicence" in done.output
    assert "\x1b" not in done.output
    checks = list(smoke(connect(text)))
    assert [(each.name, each.problem) for each in checks if each.problem] == [
        ("hello", "it cannot run: no \\x1b[31mlicence"),
        ("it answers", "there is no hello to go on with"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("versions", "only", "code", "what"),
    [
        # v1 is not sent in Fetch 0, which the client speaks.
        ("0,4", ONE, 0, "no case ran in Fetch 0"),
        ("4", ONE, 0, "nothing to compare: cases ran in fewer than two versions"),
        ("13,17", ONE, 3, "it fetches in version 12, not in 17"),
    ],
)
def test_versions_without_a_case_are_no_failure(tmp_path: Path, versions: str, only: str, code: int, what: str) -> None:
    """A version that the client does not speak, or in which no case is sent, counts only if no other ran."""
    names = ["kafka-python-client", "--fetch-versions", versions, "--only", only, "--report", str(tmp_path)]
    done = CliRunner().invoke(certify_testees, names)

    assert (done.exit_code, what in done.output) == (code, True), done.output


@pytest.mark.slow
def test_a_client_that_cannot_run_is_a_failure_beside_another(tmp_path: Path) -> None:
    """Only versions of the same client are excused."""
    missing = "fetch:/nonexistent {topic} {bootstrap}"
    names = [missing, "kafka-python-client", "--fetch-versions", "4", "--only", ONE, "--report", str(tmp_path)]

    assert CliRunner().invoke(certify_testees, names).exit_code == 3


def test_deviations_are_drafted_of_one_run(tmp_path: Path) -> None:
    """Several versions would overwrite each other's file."""
    draft = ["--write-deviations", str(tmp_path / "draft.toml")]
    done = CliRunner().invoke(certify_testees, ["kafka-python-client", "--fetch-versions", "4,12", *draft])

    assert done.exit_code == 2
    assert "--write-deviations is for one run of one testee" in done.output


def test_a_version_is_named_once() -> None:
    """As a part of the name, or as an option."""
    done = CliRunner().invoke(certify_testees, ["kafka-python-client+fetch4", "--fetch-versions", "12"])

    assert done.exit_code == 2
    assert "both name versions" in done.output


class Deaf:
    """A client that fetches nothing, and says why."""

    NAME, VERSION = "deaf", "1"
    DECODES = ENCODES = Capability([2], ["none"])

    def decode(self, _data: bytes) -> NoReturn:
        """Refuse."""
        raise interface.CodecError("limit", "no common version of Fetch")

    encode = consume = decode


class Speaking(Deaf):
    """A client that fetches in version 3, and reads magic 2 only."""

    def consume(self, _data: bytes) -> CodecAnswer:  # type: ignore[override]
        """Fetch once."""
        with ConsumerBroker() as broker:
            broker.fetched[3] += 1
        return CodecAnswer(records=[])


@pytest.mark.parametrize(
    ("testee", "why"),
    [
        (Deaf(), "it sends no Fetch 3: no common version of Fetch"),
        (Speaking(), "it reads no format that brokers send in Fetch 3"),
    ],
)
def test_clients_that_get_nothing_are_refused(
    monkeypatch: pytest.MonkeyPatch, testee: interface.Testee, why: str
) -> None:
    """A client that sends no fetch, or reads no format of the version, does not get every case instead."""
    monkeypatch.setenv(FETCH_VERSION, "3")
    monkeypatch.setattr(ConsumerBroker, "_all", [])
    reply = reply_to(testee, b'{"op":"hello","protocol":1}')

    assert isinstance(reply, HelloRefusal)
    assert reply.error.message == why


@pytest.mark.slow
def test_a_producer_in_two_versions_and_one_that_it_does_not_speak(tmp_path: Path) -> None:
    """kafka-python writes the same in Produce 3 and 9, and has no Produce 13; the table of edges has a row for each."""
    names = ["kafka-python-client", "--produce-versions", "3,9,13", "--only", WRITTEN, "--report", str(tmp_path)]
    done = CliRunner().invoke(certify_testees, names)
    column = read_edge_result(result_path(tmp_path, "produce-versions", "kafka-python-client"))

    assert done.exit_code == 0, done.output
    assert "it produces in version 9, not in 13" in done.output
    assert "kafka-python-client: 1 cases in Produce 3, 1 cases in Produce 9, 0 cases in Produce 13" in done.output
    assert [(cell.row, cell.grade, cell.outcome) for cell in column.cells.values()] == [
        ("produce-3", "PASS", "same"),
        ("produce-9", "PASS", "same"),
        ("produce-13", "not run", "not spoken"),
    ]


def test_a_version_that_is_worse_than_another_has_the_grade_of_its_findings() -> None:
    """Cases that are worse in a version than in the best one count; those that no version reads do not."""
    outcomes = {"a": {4: "agree", 12: "wrong_data"}, "b": {4: "hang", 12: "rejects_valid"}, "c": {4: "crash"}}
    client = ClientByVersion("x", "fetch", (4, 12, 17), {4: 3, 12: 2, 17: 0}, outcomes)
    four, twelve, missing = version_cells(client, {4: {"b": "INFO"}, 12: {"a": "FAIL"}}, {17: "no such version"})

    assert (four.row, four.grade, four.outcome) == ("fetch-4", "INFO", "worse on 1")
    assert (twelve.grade, twelve.detail, twelve.observed) == (
        "FAIL",
        "a: wrong_data in 12, agree in 4",
        {"compared": 2, "worse": 1, "cases": ["a"]},
    )
    assert (missing.grade, missing.detail) == ("not run", "no such version")


@pytest.mark.slow
def test_a_version_alone_is_not_compared(tmp_path: Path) -> None:
    """Its cell has no grade, and neither it nor a run of other versions replaces a comparison."""
    client = ClientByVersion("kafka-python-client", "fetch", (2, 12), {2: 1, 12: 0}, {})
    alone, silent = version_cells(client, {}, {12: "no such version"})
    assert (alone.grade, alone.outcome, alone.observed) == ("not run", "not compared", {"compared": 1})
    assert (silent.grade, silent.outcome) == ("not run", "not spoken")

    names = ["kafka-python-client", "--only", ONE, "--report", str(tmp_path), "--fetch-versions"]
    CliRunner().invoke(certify_testees, [*names, "2,12"])
    path, column = tmp_path / "fetch-versions.json", result_path(tmp_path, "fetch-versions", "kafka-python-client")
    before = path.read_bytes(), column.read_bytes()
    refused = CliRunner().invoke(certify_testees, [*names, "12,17"])
    assert (refused.exit_code, "compares versions 2, 12 of kafka-python-client" in refused.output) == (2, True)
    assert write_versions(path, [client]) == []
    assert (path.read_bytes(), column.read_bytes()) == before
    other = ClientByVersion("a", "fetch", (2, 12), {2: 1, 12: 1}, {})
    assert write_versions(path, [client, other]) == [other]
    assert [each["connect"] for each in json.loads(path.read_text())["clients"]] == ["a", "kafka-python-client"]
    path.write_text("{")
    assert write_versions(path, [client]) == [client]


@pytest.mark.slow
def test_a_run_that_was_stopped_compares_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 130, no line about cases that ran, and the comparison from before stays."""
    names = ["kafka-python-client", "--only", ONE, "--report", str(tmp_path), "--fetch-versions", "2,12"]
    CliRunner().invoke(certify_testees, names)
    path, column = tmp_path / "fetch-versions.json", result_path(tmp_path, "fetch-versions", "kafka-python-client")
    before = path.read_bytes(), column.read_bytes()
    monkeypatch.setattr(
        certify, "certify_several", lambda names, *_: [CertifyOutcome(name, {}, INTERRUPTED) for name in names]
    )
    done = CliRunner().invoke(certify_testees, names)
    assert done.exit_code == 130
    assert "cases in Fetch" not in done.output
    assert f"the versions are not compared; {path} is of an earlier run" in done.output
    assert (path.read_bytes(), column.read_bytes()) == before
    assert list(json.loads(CliRunner().invoke(certify_testees, [*names, "--json"]).stdout)) == ["testees"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kafka-python+produce4", "kafka-python produces nothing: clients on a fake broker are kafka-python-client, "),
        ("fetch:x+produce4", "produces nothing"),
        ("kafka-python-client+produce14", "there is no Produce version 14"),
    ],
)
def test_only_clients_have_produce_versions(text: str, why: str) -> None:
    """A codec, a command that only consumes, or a version that no release has, is refused before anything starts."""
    with pytest.raises(BadConnect) as caught:
        check_connect(text)
    assert why in str(caught.value)


def test_versions_of_one_request_at_a_time() -> None:
    """The tables of Fetch and of Produce are two runs."""
    done = CliRunner().invoke(
        certify_testees, ["kafka-python-client", "--fetch-versions", "4", "--produce-versions", "3"]
    )

    assert (done.exit_code, "take one of them" in done.output) == (2, True)


def test_the_environment_of_a_user_chooses_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without a Fetch version is the same for every user."""
    monkeypatch.setenv(FETCH_VERSION, "4")

    assert starting.testee_environment(connect("kafka-python-client"))[FETCH_VERSION] == ""
    assert starting.testee_environment(connect("kafka-python-client+fetch7"))[FETCH_VERSION] == "7"


def version_ranges(versions: list[int]) -> str:
    """Ascending versions, three and more without a gap as a range."""
    runs: list[list[int]] = []
    for version in versions:
        if runs and version == runs[-1][-1] + 1:
            runs[-1].append(version)
        else:
            runs.append([version])
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(texts)


def page_lines(kind: str) -> Iterator[str]:
    """The lines of the table in docs/fetch-versions.md, by the kept results of *kind*."""
    for result in edge_results(ROOT / "results")[kind]:
        cells = {int(row.rpartition("-")[2]): cell for row, cell in result.cells.items()}
        ran = {version: cell for version, cell in sorted(cells.items()) if cell.outcome != "not spoken"}
        worse = {version: cell for version, cell in ran.items() if cell.grade not in ("PASS", "not run")}
        differs = "none" if len(ran) > 1 else "-"
        if worse:
            most = max(worse.values(), key=lambda cell: cell.observed["worse"])
            differs = f"{most.outcome} in {version_ranges(list(worse))}: {most.grade}"
        release = result.header.version.partition(" ")[0]
        name = f"{result.header.column.partition('@')[0]} {release}"
        cases = max(cell.observed["compared"] for cell in ran.values())
        yield f"| {name} | {version_ranges(list(ran))} | {cases} | {differs} |"


@pytest.mark.parametrize("kind", ["fetch-versions", "produce-versions"])
def test_the_page_has_the_kept_columns(kind: str) -> None:
    """Each line of the tables is that of a kept result, and every grave finding has a reviewed cause."""
    page = (ROOT / "docs" / "fetch-versions.md").read_text(encoding="utf-8")
    results = edge_results(ROOT / "results")

    assert [line for line in page_lines(kind) if line not in page.splitlines()] == []
    assert list(unreviewed({kind: results[kind]})) == []
