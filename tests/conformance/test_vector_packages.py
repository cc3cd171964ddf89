"""Vector packages hold the corpus, are the same bytes each time, and `--check` reports each difference."""

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import typing
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from kafka_conformance.judge.grading import own_strength
from kafka_conformance.judge.reach import case_reach
from kafka_conformance.reports.profiles import case_role
from kafka_conformance.vector_packages import (
    ECOSYSTEMS,
    MAX_BYTES,
    SUMS,
    Ecosystem,
    PackageNames,
    package_differences,
    package_files,
    write_packages,
)
from kafka_conformance.vector_packages.content import (
    PackageVersion,
    file_name_of,
    go_fuzz_entry,
    raw_input,
    shared_content,
)
from kafka_corpus.case import Recipe
from kafka_corpus.scenario import Scenario, Step
from kafka_corpus.vector_format import Vector, content_hash, to_case
from kafka_corpus.vectors import corpus_hash, load_vectors
from kafka_fuzz.mutate.dictionary import dictionary_text
from kafkaproof.commands.corpus import corpus

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
NAMES = PackageNames()
LANGUAGES: tuple[Ecosystem, ...] = ("go", "cargo", "npm", "maven", "pypi")
EXAMPLES: dict[Ecosystem, str] = {
    "go": "example/main.go",
    "cargo": "examples/kafka_protocol.rs",
    "npm": "examples/kafkajs.js",
    "maven": "src/test/java/example/KafkaClientsExample.java",
    "pypi": "examples/kafka_python.py",
}
MAX_EXAMPLE_LINES = 20


def packaged(ecosystem: Ecosystem) -> dict[str, bytes]:
    """The files of a package."""
    return package_files(ecosystem, NAMES, dictionary_text())


def one_file(ecosystem: Ecosystem, name: str) -> bytes:
    """The one file of that name."""
    (data,) = (data for path, data in packaged(ecosystem).items() if path.rpartition("/")[2] == name)
    return data


def test_round_trip() -> None:
    """A package's lines are the cases of the corpus; the others are listed, and are those with a reason."""
    lines = [json.loads(line) for line in one_file("pypi", "cases.ndjson").splitlines()]
    every = {case.id: case for case in load_vectors()}
    read = {line["id"]: to_case(msgspec.convert(line | {"evidence": {}}, Vector)) for line in lines}
    left_out = json.loads(one_file("pypi", "manifest.json"))["left_out"]
    assert read
    assert read.keys() | left_out.keys() == every.keys()
    assert not read.keys() & left_out.keys()
    assert [id_ for id_, case in read.items() if case != replace(every[id_], evidence={})] == []
    assert [line["id"] for line in lines if line["sha256"] != content_hash(every[line["id"]])] == []
    recipes = {id_ for id_ in left_out if isinstance(every[id_].input, Recipe)}
    assert recipes == {case.id for case in every.values() if isinstance(case.input, Recipe)}
    scenarios = {id_ for id_ in left_out if isinstance(every[id_].input, Scenario)}
    keyless = {id_ for id_ in left_out if left_out[id_] == "a header key is null"}
    assert left_out.keys() - recipes - scenarios - keyless == {"v2_encode.value_beyond_its_width[producer_id]"}


def test_facts_are_those_of_the_judge() -> None:
    """Profile, reach and strength of a line are what reports say."""
    content = shared_content()
    for case in content.cases[::41]:
        reach = case_reach(case).reach
        role = case_role(case, reach)
        facts = content.facts[case.id]
        assert (facts["profile"], facts["required"], facts["reach"]) == (role.profile, role.required, reach)
        assert facts["strength"] == own_strength(case)
        magics = {batch.magic for batch in case.expect.batches}
        assert magics <= set(facts["magics"]), case.id
    kinds = Counter(facts["profile"] for facts in content.facts.values())
    assert len(kinds) == 8


def test_manifest_counts() -> None:
    """Counts and hashes of the manifest are those of the files; rules have sources."""
    manifest, data = json.loads(one_file("go", "manifest.json")), one_file("go", "cases.ndjson")
    lines = [json.loads(line) for line in data.splitlines()]
    assert manifest["corpus_sha256"] == corpus_hash()
    assert manifest["cases"] == len(lines) > 0
    assert manifest["ops"] == dict(sorted(Counter(line["op"] for line in lines).items()))
    assert manifest["sha256"]["cases.ndjson"] == sha256(data).hexdigest()
    rules = json.loads(one_file("go", "rules.json"))
    assert {rule for line in lines for rule in line["rules"]} == rules.keys()
    assert all(rule["sources"] for rule in rules.values())


@pytest.mark.parametrize("ecosystem", LANGUAGES)
def test_package_is_complete(ecosystem: Ecosystem) -> None:
    """A package has cases, licence, a short example and a page that shows it, and its list of hashes is right."""
    files = packaged(ecosystem)
    content = shared_content()
    assert files["LICENSE"] == (ROOT / "LICENSE").read_bytes()
    assert one_file(ecosystem, "cases.ndjson") == content.files["cases.ndjson"]
    example, page = files[EXAMPLES[ecosystem]].decode(), files["README.md"].decode()
    assert len(example.splitlines()) <= MAX_EXAMPLE_LINES
    assert example in page
    assert f"{len(content.cases):,} test cases" in page
    for path, data in files.items():
        assert b"{{" not in data or path.endswith((".rs", ".go", ".java", ".js")), path
    listed = files[SUMS].decode().splitlines()
    assert listed == [f"{sha256(data).hexdigest()}  {path}" for path, data in files.items() if path != SUMS]


@pytest.mark.parametrize("ecosystem", ECOSYSTEMS)
def test_package_is_small_enough(ecosystem: Ecosystem) -> None:
    """A package, compressed as registries do it, has at most 10 MB."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as archive:
        for path, data in packaged(ecosystem).items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    assert 100_000 < len(packed.getvalue()) <= MAX_BYTES


def test_names_are_those_given() -> None:
    """The Go module and the Maven artifact have the names of the command line."""
    names = PackageNames("code.example/kafka/vectors", "example.kafka")
    go = package_files("go", names, "")
    assert go["go.mod"].startswith(b"module code.example/kafka/vectors\n")
    assert b'vectors "code.example/kafka/vectors"' in go["example/main.go"]
    assert b"<groupId>example.kafka</groupId>" in package_files("maven", names, "")["pom.xml"]


@pytest.mark.parametrize(
    ("version", "forms"),
    [
        (("1.0", 5838, True), ("1.0.0-alpha.5838", "1.0.0a5838", "1.0.0-alpha.5838+corpus.abababababab", "")),
        (("1.0", 5900, False), ("1.0.5900", "1.0.5900", "1.0.5900+corpus.abababababab", "")),
        (("2.1", 6000, False), ("2.1.6000", "2.1.6000", "2.1.6000+corpus.abababababab", "/v2")),
    ],
)
def test_versions(version: tuple[str, int, bool], forms: tuple[str, ...]) -> None:
    """The corpus version in the form of each registry."""
    release, number, unreleased = version
    made = PackageVersion(release, number, "ab" * 32, unreleased)
    assert (made.plain, made.python, made.semantic, made.go_suffix) == forms


def test_raw_inputs() -> None:
    """Each case with one input has a file of its bytes, an entry of the index and one of Go's corpus."""
    files = packaged("bin")
    index = json.loads(files["index.json"])["inputs"]
    by_id = {case.id: case for case in load_vectors()}
    expected = {case.id: data for case in shared_content().cases if (data := raw_input(case)) is not None}
    assert {entry["id"]: files[entry["file"]] for entry in index} == expected
    assert len({entry["file"] for entry in index}) == len(index) > 1000
    assert {by_id[entry["id"]].op for entry in index} == {"decode", "append"}
    for entry in index:
        assert re.fullmatch(r"seeds/[a-z0-9_.-]{1,120}\.bin", entry["file"])
        assert entry["sha256"] == sha256(files[entry["file"]]).hexdigest()
        name = entry["file"].removeprefix("seeds/").removesuffix(".bin")
        assert files[f"go/testdata/fuzz/FuzzDecode/{name}"] == go_fuzz_entry(expected[entry["id"]])
    assert files["kafka.dict"] == dictionary_text().encode()


def test_names_of_files_differ() -> None:
    """Ids that differ in case or punctuation alone have different file names; go fuzz entries are Go's syntax."""
    assert file_name_of("v2_batch.crc") == "v2_batch.crc"
    names = {file_name_of(id_) for id_ in ("area.name[a+b]", "area.name[a-b]", "area.name[A-B]", "area.name-a-b")}
    assert len(names) == 4
    assert all("/" not in name and not name.startswith(".") for name in map(file_name_of, ("../../x", "a.b[/]")))
    assert go_fuzz_entry(b"a\0\xff") == b'go test fuzz v1\n[]byte("\\x61\\x00\\xff")\n'


def test_check(tmp_path: Path) -> None:
    """`--check` finds files that are missing, changed or left over; another run corrects them, and nothing else."""

    def differences() -> list[str]:
        return list(package_differences(tmp_path, ("pypi",), NAMES, ""))

    assert write_packages(tmp_path, ("pypi",), NAMES, "") == {"pypi": len(packaged("pypi"))}
    assert differences() == []
    folder = tmp_path / "pypi"
    (folder / "LICENSE").unlink()
    (folder / "README.md").write_bytes(b"")
    (folder / "notes.txt").write_bytes(b"theirs")
    (folder / "old.py").write_bytes(b"")
    (tmp_path / "precious").write_bytes(b"")
    with (folder / SUMS).open("a", encoding="utf-8") as sums:
        sums.write(f"{'0' * 64}  old.py\n{'0' * 64}  ../precious\n{'0' * 64}  {tmp_path / 'precious'}\n")
    assert differences() == [
        "pypi/LICENSE is missing",
        "pypi/README.md is not what this corpus gives",
        f"pypi/{SUMS} is not what this corpus gives",
        "pypi/old.py belongs to no case",
    ]
    write_packages(tmp_path, ("pypi",), NAMES, "")
    assert differences() == []
    assert (folder / "notes.txt").exists()
    assert (tmp_path / "precious").exists()
    assert not (folder / "old.py").exists()


def test_seed_too_many_is_found(tmp_path: Path) -> None:
    """A file among the seeds that is no case's is a difference, since a fuzzer would take it for one."""
    (tmp_path / "bin" / "seeds").mkdir(parents=True)
    (tmp_path / "bin" / "seeds" / "stray.bin").write_bytes(b"")
    assert "bin/seeds/stray.bin belongs to no case" in list(package_differences(tmp_path, ("bin",), NAMES, ""))


def test_command(tmp_path: Path) -> None:
    """The command writes what it is given, and its check has exit code 1 for a difference."""

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(corpus, ["packages", str(tmp_path), *arguments])
        return done.exit_code, done.output

    code, output = run("--ecosystem", "npm", "--json")
    assert code == 0
    assert json.loads(output) == {"folder": str(tmp_path), "files": {"npm": len(packaged("npm"))}}
    assert [path.name for path in tmp_path.iterdir()] == ["npm"]
    assert run("--ecosystem", "npm", "--check")[0] == 0
    (tmp_path / "npm" / "index.js").write_bytes(b"")
    assert run("--ecosystem", "npm", "--check") == (1, "npm/index.js is not what this corpus gives\n")
    code, output = run("--ecosystem", "crates")
    assert (code, "there is no ecosystem 'crates': there are go, cargo, npm" in output) == (2, True)
    code, output = run("--module-path", "bad path\n")
    assert (code, "no Go module path" in output) == (2, True)
    code, output = run("--group-id", "../x")
    assert (code, "no Maven group id" in output) == (2, True)


PROBE = """
from kafka_conformance.vector_packages import ECOSYSTEMS, SUMS, PackageNames, package_files
for name in ECOSYSTEMS:
    print(name, __import__("hashlib").sha256(package_files(name, PackageNames(), "")[SUMS]).hexdigest())
"""


def test_is_deterministic(tmp_path: Path) -> None:
    """Another process with another hash seed, folder and time zone gives the same bytes."""
    env = os.environ | {"PYTHONHASHSEED": "7", "TZ": "Asia/Kathmandu", "LC_ALL": "C"}
    command = [sys.executable, "-c", PROBE]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    sums = {name: sha256(package_files(name, NAMES, "")[SUMS]).hexdigest() for name in ECOSYSTEMS}
    assert dict(line.split() for line in done.stdout.splitlines()) == sums


TYPES_OF_STEPS: dict[Ecosystem, str] = {
    "go": "vectors.go",
    "cargo": "src/lib.rs",
    "npm": "index.d.ts",
    "maven": "src/main/java/kafkaproof/vectors/Case.java",
}


@pytest.mark.parametrize(("ecosystem", "file"), TYPES_OF_STEPS.items())
def test_types_have_every_field_of_steps(ecosystem: Ecosystem, file: str) -> None:
    """A field that a step of scenarios can have is in the type of steps of each language, whose decoders are strict."""
    text = (ROOT / "conformance/kafka_conformance/vector_packages/templates" / ecosystem / file).read_text("utf-8")
    (declared,) = re.findall(
        r"(?:type|struct|interface|record) Step\b(.*?)\n\s*(?:\}|\{\})?\)?\s*[{}]", text, re.DOTALL
    )
    known = {word.lower() for word in re.findall(r"\w+", declared.replace("_", ""))}
    encoded = {field.encode_name for step in typing.get_args(Step) for field in msgspec.structs.fields(step)} - {
        "recipe"
    }

    assert len(encoded) > 15
    assert {name for name in encoded if name.replace("_", "") not in known} == set()
