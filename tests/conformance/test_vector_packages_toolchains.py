"""Each vector package passes the tests of its own language, and these tests fail for data that was altered."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_conformance.vector_packages import MAX_BYTES, Ecosystem, PackageNames, write_packages
from kafka_conformance.vector_packages.content import shared_content

pytestmark = pytest.mark.testees

DATA: dict[Ecosystem, str] = {
    "go": "cases.ndjson",
    "npm": "data/cases.ndjson",
    "pypi": "src/kafkaproof_vectors/cases.ndjson",
}


def call(folder: Path, *command: str, code: int = 0) -> str:
    """Output of a command in *folder*, which ends with *code*."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    env = os.environ | {"PYTHONPATH": str(folder / "src")}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == (code != 0), done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout


def written(folder: Path, ecosystem: Ecosystem) -> Path:
    """The folder of a new package."""
    write_packages(folder, (ecosystem,), PackageNames(), "")
    return folder / ecosystem


def test_go(tmp_path: Path) -> None:
    """`go test` passes in the module and in its example; sources are formatted, and nothing is vetted."""
    folder = written(tmp_path, "go")
    assert call(folder, "gofmt", "-l", ".") == ""
    call(folder, "go", "vet", "./...")
    call(folder, "go", "test", "./...")
    call(folder / "example", "go", "vet", "./...")
    assert "agree" in call(folder / "example", "go", "test", "-v", "./...")


def test_cargo(tmp_path: Path) -> None:
    """`cargo test` passes with the dependencies of the lock file, and the package holds what it needs."""
    folder = written(tmp_path, "cargo")
    call(folder, "cargo", "test", "--locked")
    call(folder, "cargo", "package", "--offline", "--no-verify", "--allow-dirty", "--target-dir", "target")
    (crate,) = (folder / "target" / "package").glob("*.crate")
    assert crate.stat().st_size <= MAX_BYTES
    with tarfile.open(crate) as archive:
        assert any(name.endswith("data/cases.ndjson") for name in archive.getnames())


def test_npm(tmp_path: Path) -> None:
    """`node --test` passes with the dependencies of the lock file, and `npm pack` holds what it needs."""
    folder = written(tmp_path, "npm")
    call(folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    call(folder, "node", "--test")
    call(folder, "npm", "pack", "--ignore-scripts")
    (packed,) = folder.glob("*.tgz")
    assert packed.stat().st_size <= MAX_BYTES
    with tarfile.open(packed) as archive:
        assert {"package/index.d.ts", "package/data/cases.ndjson", "package/LICENSE"} <= set(archive.getnames())


def test_maven(tmp_path: Path) -> None:
    """`mvn test` passes, and the jar holds the cases and no test."""
    folder = written(tmp_path, "maven")
    call(folder, "mvn", "-B", "-q", "-C", "package")
    (jar,) = (folder / "target").glob("*.jar")
    assert jar.stat().st_size <= MAX_BYTES
    with zipfile.ZipFile(jar) as archive:
        names = set(archive.namelist())
    assert {"kafkaproof/vectors/cases.ndjson", "kafkaproof/vectors/Vectors.class"} <= names
    assert not [name for name in names if "Test" in name or "example" in name]


def test_pypi(tmp_path: Path) -> None:
    """pytest passes in the package, and the wheel holds the cases."""
    folder = written(tmp_path, "pypi")
    ignored = ("-W", "ignore::DeprecationWarning")  # kafka-python, when it is imported
    call(folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *ignored)
    call(folder, sys.executable, "-m", "hatchling", "build", "-t", "wheel")
    (wheel,) = (folder / "dist").glob("*.whl")
    assert wheel.stat().st_size <= MAX_BYTES
    with zipfile.ZipFile(wheel) as archive:
        assert {"kafkaproof_vectors/cases.ndjson", "kafkaproof_vectors/py.typed"} <= set(archive.namelist())


@pytest.mark.parametrize("ecosystem", DATA)
def test_altered_data_fail(ecosystem: Ecosystem, tmp_path: Path) -> None:
    """A package's own tests notice that a case was removed, and that one letter of a title was changed."""
    folder = written(tmp_path, ecosystem)
    command = {
        "go": ("go", "test", "./..."),
        "npm": ("node", "--test", "--test-name-pattern", "manifest"),
        "pypi": (sys.executable, "-m", "pytest", "-q", "-k", "manifest"),
    }[ecosystem]
    data = (folder / DATA[ecosystem]).read_bytes()
    call(folder, *command)
    (folder / DATA[ecosystem]).write_bytes(data[: data.rindex(b"\n", 0, -1) + 1])
    call(folder, *command, code=1)
    (folder / DATA[ecosystem]).write_bytes(data.replace(b'"title":"A', b'"title":"a', 1))
    call(folder, *command, code=1)


FUZZ_TEST = """package seeds

import "testing"

func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 16 && data[16] == PLANTED {
			t.Fail()
		}
	})
}
"""


def test_go_reads_raw_files_as_its_own_corpus(tmp_path: Path) -> None:
    """`go test` runs a fuzz target on each raw file; a target that fails for v2 fails, one for magic 99 does not."""
    folder = written(tmp_path, "bin") / "go"
    call(folder, "go", "mod", "init", "seeds")
    test = folder / "seeds_test.go"
    test.write_text(FUZZ_TEST.replace("PLANTED", "99"), encoding="utf-8")
    lines = call(folder, "go", "test", "-v", ".").splitlines()
    entries = list((folder / "testdata" / "fuzz" / "FuzzDecode").iterdir())
    assert sum("--- PASS: FuzzDecode/" in line for line in lines) == len(entries) > 1000
    test.write_text(FUZZ_TEST.replace("PLANTED", "2"), encoding="utf-8")
    call(folder, "go", "test", ".", code=1)


# Programs outside of a package, which have it as a dependency by path. They print every record of every decode case.
GO_PROGRAM = """package main

import (
	"fmt"

	"kafkaproof.example/vectors"
)

func text(data []byte) string {
	if data == nil {
		return "null"
	}
	return fmt.Sprintf("%x", data)
}

func main() {
	for _, each := range vectors.Cases(vectors.Filter{Ops: []string{"decode"}, Magics: []int{2}}) {
		for _, r := range each.Expect.Records(true) {
			fmt.Print(each.ID, " ", r.Offset, " ", r.Timestamp, " ", text(r.Key), " ", text(r.Value))
			for _, header := range r.Headers {
				fmt.Print(" ", text([]byte(header.Key)), "=", text(header.Value))
			}
			fmt.Println()
		}
	}
}
"""
NODE_PROGRAM = """import { cases, expectedRecords } from 'kafkaproof-vectors'

const text = data => data === null ? 'null' : data.toString('hex')
const lines = []
for (const each of cases({ ops: ['decode'], magics: [2] })) {
  for (const { offset, timestamp, key, value, headers } of expectedRecords(each)) {
    const pairs = headers.map(([name, content]) => ` ${text(name)}=${text(content)}`)
    lines.push(`${each.id} ${offset} ${timestamp} ${text(key)} ${text(value)}${pairs.join('')}`)
  }
}
process.stdout.write(lines.join('\\n') + '\\n')
"""
PYTHON_PROGRAM = """from kafkaproof_vectors import cases

def text(data):
    return "null" if data is None else data.hex()

for case in cases(ops=["decode"], magics=[2]):
    for offset, timestamp, key, value, headers in case.expect.records():
        pairs = "".join(f" {text(name)}={text(content)}" for name, content in headers)
        print(f"{case.id} {offset} {timestamp} {text(key)} {text(value)}{pairs}")
"""


def corpus_records() -> Iterator[str]:
    """The lines of the programs, from the corpus."""
    content = shared_content()
    for case in content.cases:
        if case.op != "decode" or not {2}.issuperset(content.facts[case.id]["magics"]):
            continue
        for record in (record for batch in case.expect.batches for record in batch.records):
            key, value = ("null" if data is None else data.hex() for data in (record.key, record.value))
            headers = [(name or b"", data) for name, data in record.headers]
            pairs = [f" {name.hex()}={'null' if data is None else data.hex()}" for name, data in headers]
            yield f"{case.id} {record.offset} {record.timestamp} {key} {value}{''.join(pairs)}"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The folder of somebody else's program."""
    folder = tmp_path / "program"
    folder.mkdir()
    return folder


def test_go_dependency(tmp_path: Path, program: Path) -> None:
    """A Go module that requires the package as its page says reads the records of the corpus."""
    package = written(tmp_path, "go")
    (program / "main.go").write_text(GO_PROGRAM, encoding="utf-8")
    call(program, "go", "mod", "init", "program")
    (requirement,) = [line for line in (package / "README.md").read_text().splitlines() if "go mod edit" in line]
    call(program, *requirement.replace("/path/to/go", str(package)).split())
    assert call(program, "go", "run", ".").splitlines() == list(corpus_records()) != []


def test_npm_dependency(tmp_path: Path, program: Path) -> None:
    """A Node program that installs the package from its folder reads the records of the corpus."""
    package = written(tmp_path, "npm")
    (program / "main.mjs").write_text(NODE_PROGRAM, encoding="utf-8")
    call(program, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", str(package))
    assert call(program, "node", "main.mjs").splitlines() == list(corpus_records()) != []


def test_python_dependency(tmp_path: Path, program: Path) -> None:
    """A Python program that has the package on its path reads the records of the corpus."""
    written(tmp_path, "pypi").rename(program / "package")
    (program / "src").symlink_to(program / "package" / "src")
    (program / "main.py").write_text(PYTHON_PROGRAM, encoding="utf-8")
    assert call(program, sys.executable, "main.py").splitlines() == list(corpus_records()) != []
