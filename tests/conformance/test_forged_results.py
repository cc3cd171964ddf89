"""Forged results: unknown fields, false counts, missing cases and other versions are refused, with the line."""

import json
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_conformance.reports import certificate
from kafka_conformance.reports.collection import cases_by_id, corpus_contents, remade
from kafka_conformance.runner.kept_results import read_kept
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
            counts[line["outcome"]] = counts.get(line["outcome"], 0) + 1
        lines[-1]["counts"] = counts
    body = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines[:-1])
    lines[-1]["sha256"] = sha256(body).hexdigest()
    return body + json.dumps(lines[-1], separators=(",", ":")).encode() + b"\n"


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
    "cases is text": lambda lines: lines[0].update(cases="many"),
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


def test_false_counts_are_refused(tmp_path: Path) -> None:
    """Sums that are not those of the lines are refused, also with the right hash."""
    path = tmp_path / FILE
    path.write_bytes(forged(lambda lines: lines[-1]["counts"].update(hang=0), recount=False))

    with pytest.raises(Unusable, match="counts: they are not those of the lines"):
        read_results(path)


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
