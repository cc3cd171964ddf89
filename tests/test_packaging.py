"""The distribution as it is installed: what it brings, and what it must not bring."""

import importlib
import subprocess
import sys
import tomllib
from importlib import metadata, resources
from pathlib import PurePosixPath

import pytest

PACKAGES = {
    "kafka_records",
    "kafka_corpus",
    "kafka_brokers",
    "kafka_conformance",
    "kafka_fuzz",
    "kafka_pipeline",
    "kafkaproof",
}


def installed() -> list[PurePosixPath]:
    """The files in site-packages; an editable install has no packages among them."""
    return [PurePosixPath(file) for file in metadata.files("kafkaproof") or []]


@pytest.fixture(scope="module")
def wheel() -> list[PurePosixPath]:
    """The installed files, where a wheel was installed."""
    files = installed()
    if not any(file.parts[0] == "kafka_records" for file in files):
        pytest.skip("an editable install: tox runs this on the built wheel")
    return files


def test_top_level_names_are_ours_alone(wheel: list[PurePosixPath]) -> None:
    """Nothing generic (corpus, tests, fuzz) lands in site-packages."""
    top = {file.parts[0] for file in wheel if file.parts[0] != ".."}
    assert {name for name in top if not name.endswith(".dist-info")} == PACKAGES


def test_only_the_command_is_elsewhere(wheel: list[PurePosixPath]) -> None:
    """Outside of site-packages there is one file: the command."""
    assert {file.stem for file in wheel if file.parts[0] == ".."} == {"kafkaproof"}


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_packages_are_typed(package: str) -> None:
    """Each package can be imported, and has the marker for type checkers."""
    assert importlib.import_module(package).__doc__
    assert resources.files(package).joinpath("py.typed").is_file()


@pytest.mark.parametrize(
    ("package", "folder", "suffix"),
    [
        ("kafka_records", "rules", ".toml"),
        ("kafka_corpus", "vectors", ".ndjson"),
        ("kafka_corpus", "evidence", ".ndjson"),
        ("kafka_conformance", "dossiers", ".toml"),
        ("kafka_conformance", "dossiers/reproducers", ".txt"),
        ("kafka_conformance", "edges/producers", ".txt"),
        ("kafka_conformance", "reports/assets", ".html"),
        ("kafka_conformance", "reports/assets", ".js"),
    ],
)
def test_data_is_inside_the_packages(package: str, folder: str, suffix: str) -> None:
    """Rules, vectors and the parts of the report are installed with the code that reads them."""
    data = [file for file in resources.files(package).joinpath(folder).iterdir() if file.name.endswith(suffix)]
    assert data
    assert all(file.read_bytes() for file in data)


def test_schemas_are_inside_the_packages() -> None:
    """The vectors and the protocol are described by JSON Schemas that are installed."""
    for package in ("kafka_corpus", "kafka_conformance"):
        root = resources.files(package)
        found = [file.name for folder in (root, *filter(_is_folder, root.iterdir())) for file in folder.iterdir()]
        assert any(name.endswith(".schema.json") for name in found), package


def _is_folder(entry: object) -> bool:
    return bool(getattr(entry, "is_dir", bool)())


def test_sources_in_other_languages_have_their_place(wheel: list[PurePosixPath]) -> None:
    """Sources of adapters, harnesses, tools, templates and packages have one folder each; nothing compiled is there."""
    foreign = {".java", ".go", ".rs", ".js", ".xml"}
    elsewhere = [file for file in wheel if file.suffix in foreign and "assets" not in file.parts]
    assert {file.parts[1] for file in elsewhere} == {
        "adapters",
        "broker_recipes",
        "harnesses",
        "power",
        "templates",
        "vector_packages",
    }
    assert not [file for file in wheel if file.suffix in {".jar", ".class", ".so", ".node"}]


def test_one_command() -> None:
    """The distribution has one command, `kafkaproof`, and one plugin of pytest's of that name."""
    entry_points = metadata.distribution("kafkaproof").entry_points
    names = {(entry.group, entry.name) for entry in entry_points}
    ours = {("kafkaproof.testees", "columnar"), ("kafkaproof.planted_bugs", "planted-bugs")}
    assert names == {("console_scripts", "kafkaproof"), ("pytest11", "kafkaproof")} | ours


def test_main_job_needs_no_extra() -> None:
    """The imports of `certify kafka-python` are plain dependencies."""
    plain = [line for line in metadata.requires("kafkaproof") or [] if "extra ==" not in line]
    assert any(line.startswith("kafka-python") for line in plain)
    assert not [line for line in plain if line.startswith(("aiokafka", "hypothesis", "pyspark", "atheris"))]


def test_reference_needs_no_more_than_codecs() -> None:
    """Importing `kafka_records` loads no command line, no JSON library and no Kafka client."""
    probe = "import sys, kafka_records; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True).stdout
    assert "'kafka_records'" in loaded
    assert not [name for name in ("click", "kafka", "msgspec", "rich", "kafka_corpus") if f"'{name}'" in loaded]


def test_version_is_the_installed_one() -> None:
    """`kafkaproof --version` says the version of the distribution."""
    command = [sys.executable, "-m", "kafkaproof", "--version"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert metadata.version("kafkaproof") in said
    assert tomllib.loads(f'v = "{metadata.version("kafkaproof")}"')["v"].count(".") == 2
