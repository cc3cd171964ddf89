"""Exported files can be used without any of our code."""

import json
import os
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

from kafka_corpus import export
from kafka_corpus.case import Recipe
from kafka_corpus.compressed_bytes import MADE_BY
from kafka_corpus.vectors import corpus_hash, load_vectors


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export."""
    directory = tmp_path_factory.mktemp("export") / "vendored"
    export.export(directory)
    return directory


def snippet(folder: Path, language: str) -> str:
    """The example in the exported page."""
    page = (folder / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


@pytest.mark.slow
def test_is_complete(folder: Path) -> None:
    """Vectors of every area, manifest, schema, page and licence are there, and nothing else."""
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    plain = {"README.md", "LICENSE", "MANIFEST.json", "vector.schema.json"}
    assert names == plain | {f"{case.area}.ndjson" for case in load_vectors()}
    assert len(names) > len(plain)


@pytest.mark.slow
def test_plain_json_is_enough(folder: Path) -> None:
    """A JSON parser, base64 and SHA-256 read and verify the whole export."""
    manifest = json.loads((folder / "MANIFEST.json").read_text(encoding="utf-8"))
    read = 0
    for name, file in manifest["files"].items():
        data = (folder / name).read_bytes()
        assert sha256(data).hexdigest() == file["sha256"]
        cases = [json.loads(line) for line in data.decode().splitlines()]
        assert len(cases) == file["cases"]
        assert all(b64decode(case["input"].get("data", ""), validate=True) is not None for case in cases)
        assert [case["id"] for case in cases] == sorted(case["id"] for case in cases)
        read += len(cases)
    assert read == manifest["cases"] == sum(manifest["areas"].values()) > 0
    cases = load_vectors()
    assert manifest["sha256"] == corpus_hash()
    for name in ("area", "op"):
        assert manifest[f"{name}s"] == dict(sorted(Counter(getattr(case, name) for case in cases).items()))
    assert manifest["verdicts"] == dict(sorted(Counter(case.expect.verdict for case in cases).items()))
    assert {codec: version in manifest["libraries"][codec] for codec, version in MADE_BY.items()} == dict.fromkeys(
        MADE_BY, True
    )


@pytest.mark.slow
def test_python_example(folder: Path) -> None:
    """The page's example runs as it stands, without any installed package, and reads every case."""
    command = [sys.executable, "-I", "-S", "-c", snippet(folder, "python")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=True)
    cases = load_vectors()
    assert len(done.stdout.splitlines()) == len(cases)
    assert all(f"{case.id} {case.op} " in done.stdout for case in cases[::50])


@pytest.mark.slow
def test_go_example(folder: Path, tmp_path: Path) -> None:
    """The page's Go example reads every case; where there is a Go to ask."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go here")
    struct, loop = snippet(folder, "go").split("file, _")
    program = 'package main\nimport ("encoding/json"; "fmt"; "os")\n' + struct
    program += "func main() { for _, path := range os.Args[1:] { file, _" + loop + "} }"
    (tmp_path / "main.go").write_text(program, encoding="utf-8")
    env = os.environ | {"GOCACHE": str(tmp_path / "cache"), "GOPATH": str(tmp_path), "GO111MODULE": "off"}
    command = [go, "run", "main.go", *map(str, sorted(folder.glob("*.ndjson")))]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, encoding="utf-8", check=True)
    cases = sorted(load_vectors(), key=lambda case: (case.area, case.id))
    assert [line.rsplit(" ", 4)[0] for line in done.stdout.splitlines()] == [case.id for case in cases]
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        size = len(case.input) if isinstance(case.input, bytes) else 0
        assert line.rsplit(" ", 4)[1:] == [case.op, str(size), case.expect.verdict, str(len(case.expect.batches))]


def test_page_has_the_numbers(folder: Path) -> None:
    """The page says how many cases there are, and no place for a number is left open."""
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert f"{len(load_vectors()):,} test cases" in page
    assert corpus_hash() in page
    assert not re.search(r"\{[a-z_0-9]+\}", page)
    assert len(page.splitlines()) < 120


def test_is_deterministic(folder: Path, tmp_path: Path) -> None:
    """Two exports are the same, byte by byte."""
    export.export(tmp_path)
    for path in folder.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_check(tmp_path: Path) -> None:
    """`--check` finds files that are missing, changed or left over; another export corrects them."""
    export.export(tmp_path)
    assert export.differences(tmp_path) == []
    (tmp_path / "LICENSE").unlink()
    (tmp_path / "MANIFEST.json").write_bytes(b"{}")
    (tmp_path / "old_area.ndjson").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"theirs")
    assert export.differences(tmp_path) == [
        "LICENSE is missing",
        "MANIFEST.json is not what this corpus exports",
        "old_area.ndjson belongs to no area",
    ]
    export.export(tmp_path)
    assert export.differences(tmp_path) == []
    assert (tmp_path / "notes.txt").read_bytes() == b"theirs"


def test_input_paths_differ() -> None:
    """No two recipes would be written to one file."""
    paths = [export.input_path(case) for case in load_vectors() if isinstance(case.input, Recipe)]
    assert len(set(paths)) == len(paths)


@pytest.mark.slow
def test_licence_is_ours() -> None:
    """The licence in the package is the one at the root of the checkout."""
    root = Path(__file__).resolve().parents[2] / "LICENSE"
    assert dict(export.exported())["LICENSE"] == root.read_bytes()
