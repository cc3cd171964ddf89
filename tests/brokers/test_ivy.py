"""Jars without Maven, through Spark's Ivy."""

import shutil
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kafka_brokers import ivy, jars, java
from kafka_brokers.interface import NoBroker
from kafka_brokers.releases import RELEASES, Release, find_release

MIRRORS = """\
<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors>
<mirror><id>other</id><mirrorOf>other</mirrorOf><url>file:///other</url></mirror>
<mirror><id>blocked</id><mirrorOf>*</mirrorOf><url>file:///blocked</url><blocked>true</blocked></mirror>
<mirror><id>wanted</id><mirrorOf>{of}</mirrorOf><url> file:///wanted </url></mirror>
</mirrors></settings>
"""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user without settings of Maven."""
    for name in ("MAVEN_HOME", "M2_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".m2").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        ("central", "file:///wanted"),
        ("*", "file:///wanted"),
        ("external:*", "file:///wanted"),
        ("other, central", "file:///wanted"),
        ("*,!central", None),
        ("external:http:*", None),
    ],
)
def test_mirror(of: str, expected: str | None, home: Path) -> None:
    """The mirror that Maven's settings put in the place of Central is asked, and no other."""
    (home / ".m2" / "settings.xml").write_text(MIRRORS.format(of=of), encoding="utf-8")
    assert ivy.mirror() == expected


@pytest.mark.parametrize("text", [None, "", "<settings>", "<settings/>"])
def test_no_mirror(text: str | None, home: Path) -> None:
    """Where the settings say nothing of it, Ivy's own default stays."""
    if text is not None:
        (home / ".m2" / "settings.xml").write_text(text, encoding="utf-8")
    assert ivy.mirror() is None


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_module(release: Release) -> None:
    """Ivy is asked for the broker and what it needs beside it, each artifact in its locked version."""
    locked = jars.locked()[release.name]
    module = ElementTree.fromstring(ivy.module(release, locked))
    asked = [(each.get("name"), each.get("rev")) for each in module.iter("dependency")]
    assert asked == [
        (f"kafka_{release.scala}", release.name),
        *((artifact, version) for _, artifact, version in (each.split(":") for each in release.extra)),
    ]
    versions = [f"{each.get('module')}-{each.get('rev')}.jar" for each in module.iter("override")]
    assert set(versions) <= set(locked)
    # Two artifacts of one name are left to Ivy.
    left = {name.removesuffix(".jar").rpartition("-")[0] for name in set(locked) - set(versions)}
    assert left <= {"metrics-core"}


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize("name", ["0.8.2.2", "2.0.1", "4.4.0"])
def test_jars_without_maven(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Maven the same jars come through Ivy: those of the lock, to the byte, and no other."""
    if find_spec("pyspark") is None:
        pytest.skip("PySpark, which brings Ivy, is not installed")
    program = next(java.installed()).program
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert shutil.which(jars.MAVEN) is None
    folder = jars.provide(find_release(name))
    assert folder.is_relative_to(tmp_path)
    assert jars.digest_all(folder) == jars.locked()[name]


@pytest.mark.broker
@pytest.mark.slow
def test_a_repository_that_has_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the repository does not have a jar, one line says which, and nothing stays in the cache."""
    if find_spec("pyspark") is None:
        pytest.skip("PySpark, which brings Ivy, is not installed")
    empty = home / "empty"
    empty.mkdir()
    mirrors = MIRRORS.format(of="central").replace("file:///wanted", empty.as_uri())
    (home / ".m2" / "settings.xml").write_text(mirrors, encoding="utf-8")
    program = next(java.installed()).program
    (home / "bin").mkdir()
    (home / "bin" / "java").symlink_to(program)
    monkeypatch.setenv("PATH", str(home / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    release = find_release("0.8.2.2")
    with pytest.raises(NoBroker, match=r"org\.apache\.kafka#kafka_2\.11;0\.8\.2\.2: not found") as caught:
        jars.provide(release)
    assert "\n" not in str(caught.value)
    assert not jars.is_cached(release)
