"""Sums of what builds fetch: committed ones hold for pinned releases, and the first ones for all others."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from kafka_conformance.testees import recipe
from kafka_conformance.testees.fetched_sums import (
    JARS_LOCK,
    KEPT,
    OtherSum,
    check_sums,
    fetched_sums,
    lock_file_sums,
    locked_jars,
)
from kafka_conformance.testees.recipe import BuildError, build_testee, read_recipes

ROOT = Path(__file__).resolve().parents[2]
LOCKS = {
    "go.sum": "example.org/codec v1.2.0 h1:{sum}=\nexample.org/codec v1.2.0/go.mod h1:mod=\n",
    "Cargo.lock": '[[package]]\nname = "testee"\nversion = "0.0.0"\n\n'
    '[[package]]\nname = "codec"\nversion = "1.2.0"\nchecksum = "{sum}"\n',
    "package-lock.json": '{{"packages": {{"": {{}}, "node_modules/a/node_modules/@of/codec": '
    '{{"version": "1.2.0", "integrity": "sha512-{sum}"}}}}}}',
}
KEYS = {
    "go.sum": ("go example.org/codec v1.2.0", "h1:one="),
    "Cargo.lock": ("cargo codec 1.2.0", "one"),
    "package-lock.json": ("npm @of/codec 1.2.0", "sha512-one"),
}
# A registry is the file that `fetch` copies; the pinned release has the lock file of the repository.
RECIPE = """
name = "toy"
about = "fetches"
language = "shell"
programs = ["sh"]
version = "1.0"
sources = {sources}
versioned = [["sh", "-c", "cp {registry}/* ."]]
build = [
    ["sh", "-c", "mkdir {{build}}/lib && cp {registry}/*.jar {{build}}/lib || true"],
    ["sh", "-c", "echo compiled >> {registry}/../compiled"],
]
run = ["sh"]
"""


def toy(folder: Path, *sources: str) -> recipe.BuildRecipe:
    """The recipe, with a registry beside it."""
    (folder / "registry").mkdir(exist_ok=True)
    (folder / "toy").mkdir(exist_ok=True)
    text = RECIPE.format(registry=folder / "registry", sources=json.dumps(sources))
    (folder / "toy" / "testee.toml").write_text(text)
    return read_recipes(folder / "toy" / "testee.toml")[0]


def build_again(made: recipe.BuildRecipe, cache: Path) -> None:
    """Build *made*, which no cache has."""
    for each in cache.glob("toy-*"):
        shutil.rmtree(each)
    build_testee(made, cache)


@pytest.mark.parametrize("name", LOCKS)
def test_sums_of_lock_files(name: str, tmp_path: Path) -> None:
    """Each tool's lock file gives a sum for each package that was fetched, and none for the testee itself."""
    (tmp_path / name).write_text(LOCKS[name].format(sum="one"))
    found = lock_file_sums(tmp_path)
    key, value = KEYS[name]
    assert found[key] == value
    assert all("testee" not in each for each in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCKS)
def test_another_sum_is_refused_next_time(name: str, tmp_path: Path) -> None:
    """A release fetched a second time with other bytes is refused before it is compiled, also after a good fetch."""
    other, cache = toy(tmp_path).at("2.0"), tmp_path / "cache"
    registry, compiled = tmp_path / "registry" / name, tmp_path / "compiled"
    registry.write_text(LOCKS[name].format(sum="one"))
    build_again(other, cache)
    build_again(other, cache)
    assert json.loads((cache / KEPT).read_text())[KEYS[name][0]] == KEYS[name][1]
    before = compiled.read_text()
    registry.write_text(LOCKS[name].format(sum="two"))
    for _ in range(2):
        with pytest.raises(BuildError, match="other bytes than when it was first fetched"):
            build_again(other, cache)
    assert compiled.read_text() == before
    registry.write_text(LOCKS[name].format(sum="one"))
    build_again(other, cache)


@pytest.mark.parametrize("name", LOCKS)
def test_committed_sums_hold_for_other_releases(name: str, tmp_path: Path) -> None:
    """A dependency that a committed lock file names is never fetched with another sum."""
    made = toy(tmp_path, name)
    (tmp_path / "toy" / name).write_text(LOCKS[name].format(sum="one"))
    (tmp_path / "registry" / name).write_text(LOCKS[name].format(sum="two"))
    build_again(made, tmp_path / "cache")
    with pytest.raises(BuildError, match="other bytes than the committed sum"):
        build_again(made.at("2.0"), tmp_path / "cache")


def test_jars_of_the_pinned_release(tmp_path: Path) -> None:
    """Every jar that a pinned build fetches is in the committed list, with its SHA-256."""
    made, cache = toy(tmp_path, "pom.xml"), tmp_path / "cache"
    (tmp_path / "toy" / "pom.xml").write_text("<project/>")
    (tmp_path / "registry" / "codec-1.0.jar").write_bytes(b"bytes")
    with pytest.raises(BuildError, match=r"maven codec-1\.0\.jar is not in jars\.sha256"):
        build_again(made, cache)
    (tmp_path / "toy" / JARS_LOCK).write_text(f"{sha256(b'bytes').hexdigest()}  codec-1.0.jar\n")
    build_again(made, cache)
    (tmp_path / "registry" / "codec-1.0.jar").write_bytes(b"others")
    with pytest.raises(BuildError, match="other bytes than the committed sum"):
        build_again(made, cache)


def test_jars_of_other_releases(tmp_path: Path) -> None:
    """A jar of another release is trusted at the first fetch only."""
    made, cache = toy(tmp_path).at("2.0"), tmp_path / "cache"
    (tmp_path / "registry" / "codec-2.0.jar").write_bytes(b"bytes")
    build_again(made, cache)
    (tmp_path / "registry" / "codec-2.0.jar").write_bytes(b"others")
    with pytest.raises(BuildError, match=r"maven codec-2\.0\.jar has other bytes than when it was first"):
        build_again(made, cache)


def test_installed_wheels(tmp_path: Path) -> None:
    """The sum of a wheel covers its files, and nothing that the installer adds."""
    record = tmp_path / "codec-1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("codec.py,sha256=abc,3\nbin/run,sha256=xyz,9\ncodec-1.0.dist-info/INSTALLER,sha256=pip,4\n")
    ((key, value),) = fetched_sums(tmp_path, tmp_path).items()
    assert key.startswith("pypi codec 1.0 ")
    record.write_text("codec-1.0.dist-info/INSTALLER,sha256=uv,2\ncodec.py,sha256=abc,3\n")
    assert fetched_sums(tmp_path, tmp_path) == {key: value}
    record.write_text("codec.py,sha256=abd,3\n")
    assert fetched_sums(tmp_path, tmp_path) != {key: value}


@pytest.mark.parametrize("text", ["{", "[]", "\0"])
def test_a_damaged_list_is_not_forgotten(text: str, tmp_path: Path) -> None:
    """A list of kept sums that cannot be read is an error: without it, anything would be trusted."""
    (tmp_path / KEPT).write_text(text)
    with pytest.raises(OtherSum, match="is no list of sums"):
        check_sums({"go a v1": "h1:x"}, {}, tmp_path / KEPT, complete=False)


def test_committed_lists_of_jars() -> None:
    """The testee and the harness in Java have lists, and jars of a broker have the sums of its lock."""
    testee = locked_jars([ROOT / "conformance" / "testees" / "java-kafka-clients" / "pom.xml"])
    assert len(testee) > 5
    assert locked_jars([ROOT / "fuzz" / "harnesses" / "jazzer" / "pom.xml"])
    lock = json.loads((ROOT / "conformance" / "kafka_brokers" / "jars.lock.json").read_text())["releases"]["4.4.0"]
    shared = {f"maven {name}": value for name, value in lock.items() if f"maven {name}" in testee}
    assert len(shared) > 2
    assert shared.items() <= testee.items()
