"""The lock on jars, and the table of releases."""

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_brokers import jars
from kafka_brokers.interface import JarsDiffer, NoBroker
from kafka_brokers.releases import DATING, EXHIBITED, NEWEST, RELEASES, Release, find_release
from kafka_corpus.evidence.brokers import SPARSE
from kafkaproof.cli import kafkaproof


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files that are called jars."""
    for name in ("a.jar", "b.jar"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def test_every_release_is_locked() -> None:
    """Every release has its broker's jar in the lock, and the lock has no other releases."""
    locked = jars.locked()
    assert set(locked) == {release.name for release in (*RELEASES, *EXHIBITED, *DATING)}
    for release in (*RELEASES, *EXHIBITED, *DATING):
        assert f"kafka_{release.scala}-{release.name}.jar" in locked[release.name]


def test_releases_with_few_answers() -> None:
    """The releases that are not in the main table are those with few recorded answers."""
    assert {release.name for release in (*EXHIBITED, *DATING)} == SPARSE


@pytest.mark.slow
@pytest.mark.parametrize("command", [["certify", "--bootstrap", "127.0.0.1:1", "--against"], ["compare", "4.4.0"]])
def test_few_answers_certify_nothing(command: list[str]) -> None:
    """A release with few recorded answers is none to judge or to compare by."""
    done = CliRunner().invoke(kafkaproof, ["broker", *command, min(SPARSE)])
    assert (done.exit_code, f"only a few answers of {min(SPARSE)} are recorded" in done.stderr) == (2, True), (
        done.output
    )


def test_lock_names_no_place() -> None:
    """The lock holds file names and SHA-256 only."""
    entries = [item for digests in jars.locked().values() for item in digests.items()]
    assert len(entries) > 300
    assert [name for name, _ in entries if not re.fullmatch(r"[\w.-]+\.jar", name)] == []
    assert [digest for _, digest in entries if not re.fullmatch(r"[0-9a-f]{64}", digest)] == []


def test_the_locked_jars_pass(folder: Path) -> None:
    """Locked jars are accepted."""
    digests = jars.digest_all(folder)
    assert set(digests) == {"a.jar", "b.jar"}
    jars.check_jars(folder, digests, "1.0")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "a.jar").write_bytes(b"A.jar"), "other bytes: a.jar"),
        (lambda folder: (folder / "b.jar").unlink(), "missing: b.jar"),
        (lambda folder: (folder / "c.jar").touch(), "not in the lock: c.jar"),
    ],
    ids=["changed", "missing", "added"],
)
def test_other_jars_are_refused(change: object, message: str, folder: Path) -> None:
    """A jar that was changed, removed or added is named, and so is what to do."""
    digests = jars.digest_all(folder)
    assert callable(change)
    change(folder)
    with pytest.raises(JarsDiffer, match=f"{message} .remove that folder"):
        jars.check_jars(folder, digests, "1.0")


def test_missing_maven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Maven one line says what to install, and the cache stays empty."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NoBroker) as caught:
        jars.provide(find_release(NEWEST))
    assert "install Maven" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.rglob("*.jar")) == []
    assert not jars.is_cached(find_release(NEWEST))


def test_tampered_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path) -> None:
    """A cache with other jars than the lock's is refused, and is not fetched over."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    release = find_release(NEWEST)
    shutil.copytree(folder, jars.jar_folder(release))
    with pytest.raises(JarsDiffer, match=r"not in the lock: a\.jar, b\.jar"):
        jars.provide(release)


def test_unknown_release() -> None:
    """A release that is not in the table is refused with those that are."""
    with pytest.raises(NoBroker, match=r"0\.8\.2\.2, .*4\.4\.0"):
        find_release("0.7.0")


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_projects_name_what_is_needed(release: Release) -> None:
    """The project that Maven resolves names the broker in its release, and what it needs beside it."""
    text = jars.pom(release)
    assert f"<artifactId>kafka_{release.scala}</artifactId><version>{release.name}</version>" in text
    assert all(f"<artifactId>{extra.split(':')[1]}</artifactId>" in text for extra in release.extra)
    assert text.count("<exclusion>") == len(release.without) + len(release.extra)
