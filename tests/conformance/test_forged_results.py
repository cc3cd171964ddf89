"""Forged results: unknown fields, false counts, missing cases and other versions are refused, with the line."""

import json
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from kafka_conformance.reports import certificate
from kafka_conformance.reports.collection import cases_by_id, corpus_contents, remade
from kafka_conformance.runner.kept_results import kept_date, read_kept
from kafka_conformance.runner.results import FILE, Unusable, encode_results, read_results
from kafkaproof.cli import kafkaproof

RESULTS = Path(__file__).parents[2] / "results"
Lines = list[dict[str, Any]]
Forge = Callable[[Lines], None]


@cache
def genuine() -> bytes:
    """A whole result of kafka-python, as a run writes it."""
    return encode_results(read_kept(RESULTS / "kafka-python-3.0.12.ndjson").results(corpus_contents()))


def forged(forge: Forge, *, recount: bool = True) -> bytes:
    """The result after *forge*, with counts and hash that fit it."""
    lines: Lines = [json.loads(line) for line in genuine().splitlines()]
    forge(lines)
    if recount:
        counts: dict[str, int] = {}
        for line in lines[1:-1]:
            if "outcome" in line:
                counts[line["outcome"]] = counts.get(line["outcome"], 0) + 1
        lines[-1]["counts"] = counts
    return signed([msgspec.json.encode(line) + b"\n" for line in lines[:-1]], lines[-1])


def signed(body: list[bytes], footer: dict[str, Any]) -> bytes:
    """The lines of *body* and *footer* with the hash that fits them."""
    whole = b"".join(body)
    return whole + msgspec.json.encode(footer | {"sha256": sha256(whole).hexdigest()}) + b"\n"


def respelled(change: Callable[[list[bytes]], None]) -> bytes:
    """The result after *change* of the bytes of its lines, with the hash that fits them."""
    *body, footer = genuine().splitlines(keepends=True)
    change(body)
    return signed(body, json.loads(footer))


def first(lines: Lines, outcome: str) -> dict[str, Any]:
    """The first line with this outcome."""
    return next(line for line in lines[1:-1] if line["outcome"] == outcome)


def of_broker(lines: Lines) -> None:
    """The field that once turned off the check for missing cases; the findings are taken out."""
    lines[0]["testee"]["broker"] = True
    lines[1:-1] = [line for line in lines[1:-1] if line["outcome"] == "agree"]
    lines[0]["cases"] = len(lines) - 2


def of_broker_without_formats(lines: Lines) -> None:
    """The same, with a hello that announces nothing."""
    of_broker(lines)
    lines[0]["testee"].update(decode={}, encode={})


def left_out(lines: Lines) -> None:
    """Findings become cases that the runner is said not to have sent."""
    for line in lines[1:-1]:
        if line["outcome"] == "hang":
            line.update(outcome="skipped", observation={"kind": "skipped", "reason": "no", "by_runner": True})


def without_findings(lines: Lines) -> None:
    """Findings are taken out, and the number of cases fits."""
    lines[1:-1] = [line for line in lines[1:-1] if line["outcome"] != "rejects_valid"]
    lines[0]["cases"] = len(lines) - 2


def each_skipped(lines: Lines) -> None:
    """Findings become skips of the testee's own."""
    for line in lines[1:-1]:
        if line["outcome"] in ("hang", "rejects_valid", "accepts_invalid"):
            line.update(outcome="skipped", observation={"kind": "skipped", "reason": "its API"})


def made_up(lines: Lines) -> None:
    """Findings become answers that agree, with observations that fit: nothing in the file contradicts it."""
    kinds = {"decode": {"invalid": "refused"}, "encode": {"invalid": "refused", "valid": "encoded"}}
    for line in lines[1:-1]:
        if line["outcome"] not in ("agree", "skipped", "not_asked"):
            kind = kinds[line["op"]].get(line["expected"], "decoded" if line["op"] == "decode" else "encoded")
            line.update(outcome="agree", field="", why="", also=[], left_out=[], observation={"kind": kind})
            for name in ("field", "why", "also", "left_out"):
                del line[name]


def agreed(outcome: str) -> Forge:
    """Findings of *outcome* become agreement, and their observations stay."""

    def forge(lines: Lines) -> None:
        for line in lines[1:-1]:
            if line["outcome"] == outcome:
                line["outcome"] = "agree"

    return forge


# Refused when the file is read.
UNREADABLE: dict[str, Forge] = {
    "header field": lambda lines: lines[0].update(certified=True),
    "testee field": lambda lines: lines[0]["testee"].update(trusted=True),
    "line field": lambda lines: lines[5].update(known=True),
    "footer field": lambda lines: lines[-1].update(certified=True),
    "header version": lambda lines: lines[0].update(version=2),
    "header format": lambda lines: lines[0].update(format="other"),
    "unknown outcome": lambda lines: lines[5].update(outcome="fine"),
    "broker": of_broker,
    "broker without formats": of_broker_without_formats,
    "fewer cases than the header says": lambda lines: lines.__delitem__(7),
    "more cases than the header says": lambda lines: lines.insert(7, dict(lines[8])),
    "not complete": lambda lines: lines[-1].update(complete=False),
    "no corpus": lambda lines: lines[0].__delitem__("corpus"),
    "two footers": lambda lines: lines.insert(7, lines[-1]),
    "two headers": lambda lines: lines.insert(1, lines[0]),
    "cases after the footer": lambda lines: lines.append({**lines[7], "sha256": ""}),
    "no cases at all": lambda lines: lines[0].update(cases=0),
    "rules that are a text": lambda lines: lines[7].update(rules="CRC-01"),
    "a fraction of deaths": lambda lines: lines[7].update(deaths=0.5),
    "formats that are a text": lambda lines: lines[0]["testee"].update(decode="all"),
    "cases is text": lambda lines: lines[0].update(cases="many"),
}
# Bytes of a file that is refused when it is read.
DAMAGED: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "a mark of byte order": lambda: b"\xef\xbb\xbf" + genuine(),
    "zeros": lambda: genuine().replace(b"\n", b"\0\n", 5),
    "not a number": lambda: genuine().replace(b'"seconds":0.0', b'"seconds":NaN'),
    "a line in the middle changed, the hash not": lambda: genuine().replace(
        b'"outcome":"hang"', b'"outcome":"agree"', 1
    ),
    "nested deeply": lambda: respelled(lambda body: body.__setitem__(7, b"[" * 100_000 + b"\n")),
}
# The same answers in other bytes, with the right hash.
RESPELLED: dict[str, Callable[[list[bytes]], None]] = {
    "a key twice": lambda body: body.__setitem__(7, body[7].replace(b'"outcome":', b'"outcome":"hang","outcome":')),
    "a testee's name twice": lambda body: body.__setitem__(0, body[0].replace(b'"name":', b'"name":"other","name":')),
    "ends of lines of Windows": lambda body: body.__setitem__(7, body[7].replace(b"\n", b"\r\n")),
    "spaces": lambda body: body.__setitem__(7, body[7].replace(b'{"case"', b'{ "case"')),
    "escapes": lambda body: body.__setitem__(7, body[7].replace(b'"outcome"', b'"\\u006futcome"')),
}
# Only another run shows these: docs/threat-model.md names them.
ONLY_ANOTHER_RUN: dict[str, Forge] = {
    "made-up answers": made_up,
    "another origin": lambda lines: lines[0]["settings"].update(origin="kafkaproof"),
    "another version of the testee": lambda lines: lines[0]["testee"].update(version="9.9.9"),
    "the name of another testee": lambda lines: lines[0]["testee"].update(name="aiokafka"),
    "variants that were not sent": lambda lines: lines[-1].update(
        variants={"seed": "00ff00ff00ff00ff", "drawn": 2887, "sent": 300, "unlike": {}}
    ),
}
# Read, and no certificate holds for them.
NOT_HELD: dict[str, Forge] = {
    "findings taken out": without_findings,
    "findings left out by the runner": left_out,
    "a case twice": lambda lines: lines.__setitem__(7, dict(lines[8])),
    "a case of no corpus": lambda lines: lines[7].update(case="v2_batch.never"),
    "another area": lambda lines: lines[7].update(area="other"),
    "another expectation": lambda lines: lines[7].update(expected="acceptable"),
    "other rules": lambda lines: lines[7].update(rules=["CRC-01"]),
    "another operation": lambda lines: lines[7].update(op="append"),
    "another corpus": lambda lines: lines[0].update(corpus="0" * 64),
    "a part of the corpus": lambda lines: lines[0].update(only=["v2_batch"]),
    "fewer formats": lambda lines: lines[0]["testee"].update(decode={"magics": [2], "compressions": ["none"]}),
    "skips of its own": each_skipped,
    "an id that looks alike": lambda lines: lines[7].update(case=lines[7]["case"].replace("a", "\u0430")),
    "hangs that agree": agreed("hang"),
    "memory that agrees": agreed("memory"),
    "refused and agrees": agreed("rejects_valid"),
    "pipes and agrees": lambda lines: first(lines, "hang").update(outcome="agree", observation={}),
}
CERTIFICATES: dict[str, dict[str, Any]] = {
    "certified_for": {"certified_for": ["consumer", "producer"]},
    "reasons": {"reasons": []},
    "profiles": {"profiles": []},
    "causes": {"causes": []},
    "findings": {"findings": {}},
    "informedness": {"informedness": 1.0},
    "answered_informedness": {"answered_informedness": "1.0"},
    "skipped": {"skipped": {"cases": 0, "share": 0.0, "why": {}}},
    "areas": {"areas": {}},
    "nulls": {"nulls": {}},
    "complete": {"complete": "yes"},
    "only": {"only": ["*"]},
    "known": {"known": ["v2_batch"]},
    "not_exposed": {"not_exposed": {}},
    "corpus": {"corpus": {"sha256": "0" * 64, "cases": 1}},
    "testee": {"testee": {"name": "kafka-python", "version": "9.9.9"}},
    "result": {"result": {"file": "../../etc/passwd", "sha256": "0" * 64}},
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_forged_file_is_refused(name: str, tmp_path: Path) -> None:
    """The reader names file and line; so do `report` and `dossier`, with exit code 2."""
    path = tmp_path / FILE
    path.write_bytes(forged(UNREADABLE[name], recount=name != "unknown outcome"))
    with pytest.raises(Unusable, match=rf"{FILE}:\d+: "):
        read_results(path)
    done = CliRunner().invoke(kafkaproof, ["report", str(path), "--out", str(tmp_path / "out")])

    assert done.exit_code == 2, done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused(name: str, tmp_path: Path) -> None:
    """Bytes that no run writes are refused, with the file."""
    path = tmp_path / FILE
    path.write_bytes(DAMAGED[name]())

    with pytest.raises(Unusable, match=FILE):
        read_results(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", RESPELLED)
def test_another_spelling_is_refused(name: str, tmp_path: Path) -> None:
    """A line that other programs may read otherwise holds no certificate; the problem has its number."""
    path = tmp_path / FILE
    path.write_bytes(respelled(RESPELLED[name]))
    content = certificate.statement(remade(read_results(path), cases_by_id(), (), path), FILE)
    number = 1 if "testee" in name else 8

    (problem,) = certificate.problems(content, path, cases_by_id())
    assert problem == f"{path}:{number}: the line is not as a run writes it"


@pytest.mark.slow
@pytest.mark.parametrize("name", ONLY_ANOTHER_RUN)
def test_what_only_another_run_shows_is_named(name: str, tmp_path: Path) -> None:
    """It fits together and holds, and `report --verify` says what it cannot see."""
    path = tmp_path / FILE
    path.write_bytes(forged(ONLY_ANOTHER_RUN[name]))
    content = certificate.statement(remade(read_results(path), cases_by_id(), (), path), FILE)
    (tmp_path / certificate.FILE).write_bytes(certificate.encode_certificate(content))
    verify = ["report", "--verify", str(tmp_path / certificate.FILE), "--now", str(content["date"])]
    done = CliRunner().invoke(kafkaproof, verify)

    assert done.exit_code == 0, done.output
    assert "only another run can show that the result was not made up" in done.output


@pytest.mark.slow
@pytest.mark.parametrize("field", CERTIFICATES)
def test_a_field_of_a_forged_certificate_is_named(field: str, tmp_path: Path) -> None:
    """Each statement follows from the result; another one is named, also where the certificate's own hash fits."""
    path = tmp_path / FILE
    path.write_bytes(genuine())
    content = certificate.statement(remade(read_results(path), cases_by_id(), (), path), FILE) | CERTIFICATES[field]
    content["sha256"] = certificate.statement_hash({name: content[name] for name in content if name != "sha256"})

    (problem,) = certificate.problems(content, path, cases_by_id())
    assert problem.startswith(f"{field}: it says ")


def test_the_result_is_beside_its_certificate() -> None:
    """A path in the certificate leads nowhere else."""
    content = {"result": {"file": "../../etc/passwd"}}

    assert certificate.result_of(content, Path("a/certificate.json")) == Path("a/passwd")


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    """Other programs could read the first, or the last."""
    path = tmp_path / certificate.FILE
    path.write_text('{"format":"kafkaproof-certificate","version":2,"certified":true,"certified":false}')

    with pytest.raises(certificate.BadCertificate, match="the key certified is there more than once"):
        certificate.load_certificate(path)


@pytest.mark.parametrize("counts", [{"hang": 0}, {"hang": -1}, {"fine": 3}, {"agree": 10**9}])
def test_false_counts_are_refused(counts: dict[str, int], tmp_path: Path) -> None:
    """Sums that are not those of the lines are refused, also with the right hash."""
    path = tmp_path / FILE
    path.write_bytes(forged(lambda lines: lines[-1]["counts"].update(counts), recount=False))

    with pytest.raises(Unusable, match="counts: they are not those of the lines"):
        read_results(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOT_HELD)
def test_a_forged_result_earns_nothing(name: str, tmp_path: Path) -> None:
    """With a certificate that was made from it, either the certificate does not hold or nothing more is certified."""
    path = tmp_path / FILE
    path.write_bytes(genuine())
    before = remade(read_results(path), cases_by_id(), (), path)
    path.write_bytes(forged(NOT_HELD[name]))
    made = remade(read_results(path), cases_by_id(), (), path)
    problems = list(certificate.problems(certificate.statement(made, FILE), path, cases_by_id()))

    assert problems or set(made.certificate.certified_for) <= set(before.certificate.certified_for)
    assert problems or name == "skips of its own"


def test_a_genuine_result_holds(tmp_path: Path) -> None:
    """A result as a run wrote it is accepted, so that the tests above refuse for their reasons."""
    path = tmp_path / FILE
    path.write_bytes(genuine())
    content = certificate.statement(remade(read_results(path), cases_by_id(), (), path), FILE)

    assert list(certificate.problems(content, path, cases_by_id())) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"note": "trusted"}, "there is no field note"),
        ({"kafkaproof": "9.9.9"}, "Kafkaproof 9.9.9 made it"),
        ({"certified": True}, "certified: it says true"),
        ({"origin": "re-run by Kafkaproof"}, "origin: it says"),
        ({"variants": {"seed": "a", "drawn": 1, "sent": 1, "unlike": {}}}, "variants: it says"),
    ],
)
def test_a_forged_certificate_does_not_hold(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    """Fields that do not follow from the result are named, also where the certificate's own hash fits."""
    path = tmp_path / FILE
    path.write_bytes(genuine())
    content = certificate.statement(remade(read_results(path), cases_by_id(), (), path), FILE) | change
    content["sha256"] = certificate.statement_hash({name: content[name] for name in content if name != "sha256"})

    assert [problem for problem in certificate.problems(content, path, cases_by_id()) if said in problem]


def test_the_date_of_a_kept_result_is_in_its_result() -> None:
    """A kept result has the day of its newest lines; the certificate of its full result has it, too."""
    path = RESULTS / "kafka-python-3.0.12.ndjson"
    done = read_kept(path).results(corpus_contents())
    assert certificate.date_of(done) == kept_date(path) != ""
