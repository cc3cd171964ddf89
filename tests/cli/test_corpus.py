"""The commands of `kafkaproof corpus`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafka_corpus import cases
from kafka_corpus.vector_format import CORPUS_VERSION, content_hash
from kafka_corpus.vectors import load_vectors, package_root
from kafka_records.rules import errata
from kafkaproof.commands.corpus import corpus

CASE = load_vectors()[0]
DECODE = next(case for case in load_vectors() if case.op == "decode" and isinstance(case.input, bytes))


@pytest.fixture
def some_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands compile a few areas only; tests/corpus/test_committed_corpus.py has them all."""
    few = [case for case in cases.all_cases() if case.area in (CASE.area, "framing", "varint")]
    monkeypatch.setattr(cases, "all_cases", lambda: tuple(few))


def run(*arguments: str, code: int = 0) -> Result:
    """Run a command; it ends with *code*."""
    result = CliRunner().invoke(corpus, arguments)
    assert result.exit_code == code, result.output
    return result


def document(*arguments: str, code: int = 0) -> Any:
    """The one JSON document that a command prints."""
    return json.loads(run(*arguments, "--json", code=code).stdout)


def test_importing_is_cheap() -> None:
    """The group can be imported without msgspec, rich, Hypothesis or any codec."""
    probe = "import sys, kafkaproof.commands.corpus; print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True).stdout
    assert "'kafkaproof.commands.corpus'" in loaded
    heavy = (
        "msgspec",
        "rich",
        "hypothesis",
        "kafka_records",
        "kafka_corpus.vectors",
        "kafka_corpus.registry",
        "zstandard",
    )
    assert [name for name in heavy if f"'{name}'" in loaded] == []


def test_list() -> None:
    """`list` prints a line a case, `--json` the same as one document."""
    cases = load_vectors()
    assert len(run("list").stdout.splitlines()) == len(cases)
    assert [each["id"] for each in document("list")["cases"]] == [case.id for case in cases]


def test_list_filters() -> None:
    """`--area`, `--rule` and `--only` each leave what fits, in any case of letters for rules."""
    area = document("list", "--area", CASE.area)["cases"]
    assert {each["area"] for each in area} == {CASE.area}
    rule = document("list", "--rule", CASE.rules[0].lower())["cases"]
    assert rule
    assert all(CASE.rules[0] in each["rules"] for each in rule)
    assert [each["id"] for each in document("list", "--only", CASE.id)["cases"]] == [CASE.id]
    assert run("list", "--only", "nothing.here").stdout == ""


def test_show() -> None:
    """`show` prints title, rules with their statements, bytes and the right answer."""
    said = run("show", DECODE.id).stdout
    assert isinstance(DECODE.input, bytes)
    assert DECODE.title in said
    assert f"rule  {DECODE.rules[0]}: " in said
    assert DECODE.input[:16].hex(" ") in said
    assert f"right  {DECODE.expect.verdict}" in said
    assert document("show", DECODE.id)["id"] == DECODE.id


def test_show_raw() -> None:
    """`show --raw` writes the bytes and nothing else."""
    assert run("show", DECODE.id, "--raw").stdout_bytes == DECODE.input


def test_show_unknown() -> None:
    """An id that is none ends with 2, and the message names near ones."""
    assert CASE.id in run("show", CASE.id[:-1], code=2).stderr


@pytest.mark.slow
@pytest.mark.usefixtures("some_cases")
def test_check() -> None:
    """`check --json` says whether all holds, and ends accordingly."""
    found = CliRunner().invoke(corpus, ["check", "--json"])
    said = json.loads(found.stdout)
    assert said["ok"] is (found.exit_code == 0) is (not said["drifts"])
    assert said["cases"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("some_cases")
def test_compile_into_a_folder(tmp_path: Path) -> None:
    """`compile` writes everything, then nothing; `check` finds a tampered file and ends with 1."""
    root = ("--root", str(tmp_path))
    written = document("compile", *root)["written"]
    assert f"vectors/{CASE.area}.ndjson" in written
    assert document("compile", *root)["written"] == []
    schema = tmp_path / "schema" / "vector.schema.json"
    schema.write_bytes(schema.read_bytes() + b"\n")
    said = document("check", *root, code=1)
    assert {"check": "files", "where": "schema/vector.schema.json"}.items() <= said["drifts"][0].items()
    assert "schema/vector.schema.json: is out of date" in run("compile", "--check", *root, code=1).stdout


@pytest.mark.slow
@pytest.mark.usefixtures("some_cases")
def test_compile_keeps_promises(tmp_path: Path) -> None:
    """`compile` refuses to change the content of an id, and names it; `--rewrite-ids` does it until it is frozen."""
    root = ("--root", str(tmp_path))
    run("compile", *root)
    name = f"vectors/{CASE.area}.ndjson"
    file = tmp_path / name
    file.write_bytes(file.read_bytes().replace(content_hash(CASE).encode(), b"0" * 64))
    assert f"{CASE.id} has another content" in run("compile", *root, code=1).stderr
    assert document("compile", "--rewrite-ids", *root)["written"] == [name]
    document("freeze", *root)
    (tmp_path / "frozen" / f"{CASE.area}.ndjson").write_bytes(
        (tmp_path / "frozen" / f"{CASE.area}.ndjson").read_bytes().replace(content_hash(CASE)[:16].encode(), b"0" * 16)
    )
    assert f"{CASE.id} is frozen" in run("compile", "--rewrite-ids", *root, code=1).stderr


@pytest.mark.usefixtures("some_cases")
def test_freeze(tmp_path: Path) -> None:
    """`freeze` writes a line for each id, `--check` fails until then, and a change to a frozen id fails both checks."""
    root = ("--root", str(tmp_path))
    run("compile", *root)
    new = document("freeze", "--check", *root, code=1)["new"]
    assert {CASE.id, "schema.vector.schema.json"} < set(new)
    assert document("freeze", *root)["ids"] == len(new)
    assert document("freeze", "--check", *root) == {"ok": True, "ids": len(new), "new": [], "files": []}
    frozen = tmp_path / "frozen" / f"{CASE.area}.ndjson"
    frozen.write_bytes(frozen.read_bytes().replace(content_hash(CASE)[:16].encode(), b"0" * 16))
    reason = f"{CASE.id} has another question or right answer, but version {CORPUS_VERSION} froze it"
    assert reason in run("freeze", *root, code=1).stderr
    assert CASE.id in [drift["where"] for drift in document("check", *root, code=1)["drifts"]]


def test_compile_areas(tmp_path: Path) -> None:
    """`compile AREA` writes the files of that area and nothing else, and names the area that is meant if it is none."""
    root = ("--root", str(tmp_path))
    assert document("compile", "framing", *root)["written"] == ["vectors/framing.ndjson"]
    assert document("compile", "framing", *root)["written"] == []
    assert document("compile", "varint", *root)["written"] == ["vectors/varint.ndjson"]
    assert "there is no area framin; there are framing" in run("compile", "framin", *root, code=1).stderr
    committed = package_root() / "vectors" / "framing.ndjson"
    assert (tmp_path / "vectors" / "framing.ndjson").read_bytes() == committed.read_bytes()


def test_status(tmp_path: Path) -> None:
    """`status` counts the cases that wait for answers of those that have answered others."""
    root = ("--root", str(tmp_path))
    run("compile", "framing", *root)
    said = document("status", *root)
    number = len(load_vectors("framing"))
    assert (said["cases"], said["waiting"]) == (number, [])
    replies = tmp_path / "replies.ndjson"
    replies.write_text(json.dumps({"id": load_vectors("framing")[0].id, "skipped": "not today"}), encoding="utf-8")
    run("evidence", "add", "--name", "other", "--version", "1.0", str(replies), *root)
    (waiting,) = document("status", *root)["waiting"]
    assert (waiting["client"], waiting["version"]) == ("other", "1.0")
    assert waiting["ids"] == [case.id for case in load_vectors("framing")[1:]]
    lines = run("status", "--ids", *root).stdout.splitlines()
    assert lines[1] == f"other 1.0: {number - 1} cases wait"
    assert [line.strip() for line in lines[2:]] == waiting["ids"]
    (tmp_path / "vectors" / "framing.ndjson").write_text("<<<<<<<\n", encoding="utf-8")
    assert "framing.ndjson: line 1: " in run("status", *root, code=1).stderr


def test_errata() -> None:
    """`errata` prints a section for each erratum, with its cases and what brokers did."""
    page = run("errata").stdout
    assert [f"## {erratum.id}: {erratum.topic}" in page for erratum in errata()] == [True] * len(errata())
    assert " to 4.4.0: taken as the case says |" in page


@pytest.mark.slow
def test_export(tmp_path: Path) -> None:
    """`export` writes, `--check` compares."""
    folder = str(tmp_path / "vendored")
    assert "README.md" in document("export", folder)["written"]
    assert document("export", folder, "--check") == {"ok": True, "differences": []}
    (tmp_path / "vendored" / "README.md").unlink()
    assert document("export", folder, "--check", code=1)["differences"] == ["README.md is missing"]


@pytest.mark.usefixtures("some_cases")
def test_evidence(tmp_path: Path) -> None:
    """`evidence requests` prints a request for every case, `evidence add` records the replies."""
    requests = run("evidence", "requests", "--only", CASE.id).stdout.splitlines()
    assert [json.loads(line).get("id") for line in requests] == [None, CASE.id]
    run("compile", "--root", str(tmp_path))
    (tmp_path / "evidence").mkdir(exist_ok=True)
    replies = tmp_path / "replies.ndjson"
    replies.write_text(json.dumps({"id": CASE.id, "skipped": "not today"}) + "\n", encoding="utf-8")
    add = ("evidence", "add", "--name", "other", "--version", "1.0", "--root", str(tmp_path))
    written = [f"evidence/{CASE.area}.ndjson"]
    assert document(*add, str(replies)) == {"written": written, "answers": 1, "in_all": 1}
    second = next(case for case in load_vectors() if case.area == CASE.area and case.id != CASE.id)
    replies.write_text(json.dumps({"id": second.id, "skipped": "nor this"}) + "\n", encoding="utf-8")
    assert document(*add, str(replies)) == {"written": written, "answers": 1, "in_all": 2}
    kept = (tmp_path / written[0]).read_text(encoding="utf-8")
    assert "not today" in kept
    assert "nor this" in kept
    replies.write_text("Segmentation fault\n", encoding="utf-8")
    assert run(*add, str(replies), code=1).stderr.startswith("Error: ")


@pytest.mark.parametrize("command", ["compile", "check", "status", "errata", "list", "show", "export", "evidence"])
def test_help(command: str) -> None:
    """Each command says what it does."""
    assert len(run(command, "--help").stdout.splitlines()) > 4
