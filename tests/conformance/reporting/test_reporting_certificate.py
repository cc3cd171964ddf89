"""Certificates: bound to result and corpus, and checked without either's word."""

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from shutil import copytree
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.conformance.reporting.conftest import DAY

from kafka_conformance.reports import certificate as statement
from kafka_conformance.reports.collection import remade
from kafka_conformance.reports.summary import NULLS
from kafka_conformance.runner import results
from kafka_corpus.case import Case
from kafka_corpus.vectors import corpus_hash, load_vectors
from kafkaproof.cli import kafkaproof

Whole = Callable[..., Path]
Lines = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
LOSSY = {"outcome": "lossy", "field": "batches[0].magic", "why": "it has no such field"}


def report(*arguments: object) -> Result:
    """Run `kafkaproof report`; certificates are checked on the day of their results."""
    now = ["--now", DAY] if "--verify" in arguments and "--now" not in arguments else []
    return CliRunner().invoke(kafkaproof, ["report", *map(str, arguments), *now])


@pytest.fixture(scope="module")
def original(whole: Whole, whole_corpus: Mapping[str, Case], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a certificate and its result, of a testee with two skips and one finding."""
    crc = [id_ for id_ in whole_corpus if id_.startswith("v2_crc.")]
    either = [case.id for case in whole_corpus.values() if case.op == "decode" and case.expect.verdict == "acceptable"]
    skipped = {id_: {"outcome": "skipped", "why": "may be refused"} for id_ in either[:2]}
    folder = tmp_path_factory.mktemp("original")
    assert report(whole("codec", "1.2", {crc[0]: LOSSY, **skipped}), "--out", folder).exit_code == 0
    return folder / "codec"


@pytest.fixture
def issued(original: Path, tmp_path: Path) -> Path:
    """A certificate with its result beside it, to be tampered with."""
    copytree(original, tmp_path / "out" / "codec")
    return tmp_path / "out" / "codec" / statement.FILE


def read(path: Path) -> dict[str, Any]:
    """The certificate."""
    content: dict[str, Any] = json.loads(path.read_bytes())
    return content


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a certificate and make its own hash fit again, as a forger would."""
    content = read(path)
    change(content)
    content.pop("sha256")
    content["sha256"] = statement.statement_hash(content)
    path.write_bytes(statement.encode_certificate(content))


def rewrite_result(path: Path, change: Lines) -> None:
    """Change the lines of a result; number of cases, counts and hash fit what is there then."""
    header, *lines, footer = [json.loads(line) for line in path.read_bytes().splitlines()]
    lines = change(lines)
    header["cases"] = len(lines)
    footer["counts"] = Counter(line["outcome"] for line in lines)
    body = b"".join(msgspec.json.encode(line) + b"\n" for line in (header, *lines))
    footer["sha256"] = sha256(body).hexdigest()
    path.write_bytes(body + msgspec.json.encode(footer) + b"\n")


@pytest.mark.slow
def test_a_certificate_says_what_it_is_about(issued: Path) -> None:
    """Testee and version, both hashes, the score by area, skips with their reasons, and null testees beside."""
    content = read(issued)

    assert (content["testee"]["name"], content["testee"]["version"]) == ("codec", "1.2")
    assert content["corpus"]["sha256"] == corpus_hash()
    assert content["skipped"]["cases"] == sum(content["skipped"]["why"].values())
    assert (content["findings"]["lossy"], content["skipped"]["cases"]) == (1, 2)
    assert content["areas"]
    assert set(content["areas"]) <= {case.area for case in load_vectors()}
    assert content["nulls"] == dict.fromkeys(NULLS, 0.0)
    assert content["certified"] is True


def test_a_certificate_holds(issued: Path) -> None:
    """An unchanged certificate gives exit code 0 if the result is in its folder or is named on the command line."""
    assert report("--verify", issued).exit_code == 0
    moved = issued.rename(issued.parent.parent / "elsewhere.json")

    assert report("--verify", moved).exit_code == 1
    assert report("--verify", moved, issued.parent / results.FILE).exit_code == 0


def test_a_certificate_without_a_date_does_not_hold(whole: Whole, tmp_path: Path) -> None:
    """A result without a date gives a certificate that agrees with itself, and is not current on any day."""
    path = whole()
    header, *lines = path.read_bytes().splitlines(keepends=True)
    undated = msgspec.json.encode(json.loads(header) | {"settings": {}}) + b"\n"
    body = b"".join([undated, *lines[:-1]])
    footer = json.loads(lines[-1]) | {"sha256": sha256(body).hexdigest()}
    path.write_bytes(body + msgspec.json.encode(footer) + b"\n")
    assert report(path, "--out", tmp_path).exit_code == 0
    certificate = tmp_path / "perfect" / statement.FILE
    assert read(certificate)["date"] is None
    for now in (DAY, "2099-01-01"):
        done = report("--verify", certificate, "--now", now)
        assert done.exit_code == 1
        assert done.stdout.splitlines()[:2] == [
            "the certificate of perfect 1.0 does not hold",
            "  it has no date, so it cannot be said to be current",
        ]


FORGED: list[Callable[[dict[str, Any]], None]] = [
    lambda content: content.update(informedness=0.5),
    lambda content: content.update(certified=False),
    lambda content: content.update(certified_for=[]),
    lambda content: content["profiles"][0].update(grade="fail"),
    lambda content: content.update(supported="none"),
    lambda content: content["testee"].update(version="9.9"),
    lambda content: content["corpus"].update(sha256="0" * 64),
    lambda content: content["areas"].pop("v2_crc"),
    lambda content: content["skipped"].update(cases=0),
    lambda content: content.update(deviations=[{"case": "v2_crc", "severity": "crash", "reason": "x"}]),
    lambda content: content.update(deviations="none"),
    lambda content: content.update(nulls={}),
    lambda content: content["findings"].update(lossy=0, crash=7),
]


@pytest.mark.parametrize("forge", FORGED)
def test_a_forged_certificate_does_not_hold(forge: Callable[[dict[str, Any]], None], issued: Path) -> None:
    """Whatever is changed in a certificate, its own hash too, does not follow from the result: exit code 1."""
    rewrite(issued, forge)
    done = report("--verify", issued)

    assert done.exit_code == 1
    assert "does not hold" in done.stdout
    assert "its own hash" not in done.stdout


def test_a_touched_certificate_does_not_hold(issued: Path) -> None:
    """A certificate whose own hash does not fit says so."""
    issued.write_bytes(issued.read_bytes().replace(b'"1.2"', b'"1.3"'))

    assert "its own hash does not fit" in report("--verify", issued).stdout


def test_another_result_does_not_fit(issued: Path) -> None:
    """A result that was changed is found, even when its footer fits again."""
    result = issued.parent / results.FILE
    rewrite_result(result, lambda lines: [line | {"ms": 1.0} for line in lines])
    done = report("--verify", issued)

    assert done.exit_code == 1
    assert "result: it says" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[1:], "1 case is missing"),
        (lambda lines: [*lines, lines[0]], "more than once"),
        (lambda lines: [*lines, lines[0] | {"case": "v2_crc.easy"}], "not in the corpus"),
        (lambda lines: [lines[0] | {"expected": "acceptable"}, *lines[1:]], "not as the corpus has it"),
    ],
    ids=["dropped", "twice", "invented", "relabelled"],
)
def test_the_corpus_cannot_be_cut(
    change: Lines,
    said: str,
    issued: Path,
    whole_corpus: Mapping[str, Case],
) -> None:
    """Cases left out, doubled, invented or relabelled are found, though certificate and result fit each other."""
    result = issued.parent / results.FILE
    rewrite_result(result, change)
    made = statement.statement(remade(results.read_results(result), whole_corpus, (), result), results.FILE)
    issued.write_bytes(statement.encode_certificate(made))
    done = report("--verify", issued)

    assert done.exit_code == 1
    assert said in done.stdout


def test_no_certificate_for_a_cut_corpus(issued: Path, tmp_path: Path) -> None:
    """`report` makes no certificate of a result that leaves cases out and says it is complete."""
    result = issued.parent / results.FILE
    rewrite_result(result, lambda lines: lines[5:])
    done = report(result, "--out", tmp_path / "cut")

    assert done.exit_code == 0
    assert "no certificate is written: 5 cases, as this one, are missing" in done.stderr
    assert not list((tmp_path / "cut").rglob(statement.FILE))


def test_skips_buy_nothing(whole: Whole, whole_corpus: Mapping[str, Case], tmp_path: Path) -> None:
    """A testee that skips all but what it can is not certified, and its certificate counts the skips."""
    easy = {id_: {"outcome": "skipped", "why": "hard"} for id_ in whole_corpus if not id_.startswith("v2_crc")}
    report(whole("lazy", "1", easy), "--out", tmp_path / "out")
    content = read(tmp_path / "out" / "lazy" / statement.FILE)

    assert content["certified"] is False
    assert content["skipped"]["why"] == {"hard": content["skipped"]["cases"]}
    assert content["certified_for"] == []
    assert any("required cases are not answered" in reason for reason in content["reasons"])


@pytest.mark.slow
def test_declared_deviations_are_listed(whole: Whole, whole_corpus: Mapping[str, Case], tmp_path: Path) -> None:
    """A certificate that rests on declared deviations lists them, and holds."""
    known = tmp_path / "known.toml"
    case = next(id_ for id_ in whole_corpus if id_.startswith("v2_crc."))
    path = whole("codec", "2", {case: {"outcome": "crash"}})
    known.write_text(f'[[deviation]]\ncase = "{case}"\nseverity = "crash"\nreason = "seen"\n', encoding="utf-8")
    report(path, "--out", tmp_path / "out", "--deviations", known)
    certificate = tmp_path / "out" / "codec" / statement.FILE

    assert read(certificate)["deviations"] == [{"case": case, "severity": "crash", "reason": "seen", "issue": None}]
    assert read(certificate)["known"] == [case]
    assert report("--verify", certificate).exit_code == 0


def test_a_certificate_cannot_point_elsewhere(issued: Path, tmp_path: Path) -> None:
    """The result is looked for beside the certificate, whatever path it names."""
    rewrite(issued, lambda content: content["result"].update(file="../../../etc/passwd"))

    assert statement.result_of(read(issued), issued) == issued.parent / "passwd"
    assert report("--verify", issued).exit_code == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "kafkaproof-certificate", "version": 2}', "\xff"])
def test_what_is_no_certificate(text: str, tmp_path: Path) -> None:
    """A file that is no certificate is a usage error, not a certificate that does not hold."""
    path = tmp_path / "x.json"
    path.write_text(text, encoding="latin-1")
    done = report("--verify", path)

    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_verdict_as_json(issued: Path) -> None:
    """--json prints one document that says whether it holds, and why not."""
    good = json.loads(report("--verify", issued, "--json").stdout)
    (issued.parent / results.FILE).unlink()
    bad = json.loads(report("--verify", issued, "--json").stdout)

    assert (good["holds"], good["certified"], good["problems"]) == (True, True, [])
    assert bad["holds"] is False
    assert "cannot be read" in bad["problems"][0]


def pipe(path: Path) -> None:
    """A named pipe without a writer."""
    os.mkfifo(path)


def link_to_pipe(path: Path) -> None:
    """A link to one."""
    pipe(path.with_name("pipe"))
    path.symlink_to("pipe")


def sparse(path: Path) -> None:
    """A file of 20 GiB that takes no space."""
    with path.open("wb") as file:
        file.truncate(20 << 30)


UNREADABLE: dict[Callable[[Path], None], str] = {
    pipe: "it is no regular file",
    link_to_pipe: "it is no regular file",
    sparse: "it has more than",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", UNREADABLE)
def test_no_file_is_read_without_end(make: Callable[[Path], None], issued: Path) -> None:
    """A pipe does not block and a huge file is not loaded: as the result, as the certificate, and of a draft."""
    result = issued.parent / results.FILE
    result.unlink()
    make(result)
    done = report("--verify", issued)
    assert (done.exit_code, UNREADABLE[make] in done.stdout) == (1, True), done.output
    certificate = issued.with_name("other.json")
    (issued.parent / "pipe").unlink(missing_ok=True)
    make(certificate)
    for command in (["report", "--verify"], ["programme", "draft", "--contact", "a@example.org"]):
        done = CliRunner().invoke(kafkaproof, [*command, str(certificate)])
        assert done.exit_code == 2, done.output
        assert f"{certificate}: {UNREADABLE[make]}" in done.stderr.splitlines()[-1]
