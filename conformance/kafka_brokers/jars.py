"""The jars of a release: fetched once by Maven, kept in the user's cache, checked against a lock at every start.

The lock (`jars.lock.json`, in this package) holds the SHA-256 of every jar by release, and no address: Maven's
settings decide where jars come from.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from kafka_brokers.interface import JarsDiffer, NoBroker
from kafka_brokers.releases import Release

LOCK: Final = Path(__file__).parent / "jars.lock.json"
MAVEN: Final = "mvn"
# Pinned: Maven's default version of the plugin does not run on every Maven 3.
PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
# Seconds.  A first fetch is up to 100 MB.
TIME_LIMIT: Final = 900
_ERROR_LINE: Final = re.compile(r"\[ERROR\] +(\S.*)")
_LONGEST_ERROR: Final = 300  # characters; a resolution error names every repository

Digests = Mapping[str, str]


def cache_directory() -> Path:
    """The folder for jars in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "kafkaproof" / "brokers"


def jar_folder(release: Release) -> Path:
    """The folder for the jars of *release*; a changed lock has another folder."""
    return cache_directory() / f"{release.name}-{lock_digest(release)[:12]}"


def is_cached(release: Release) -> bool:
    """Whether the jars have been fetched.  `provide` compares them with the lock."""
    return jar_folder(release).is_dir()


def lock_digest(release: Release) -> str:
    """The release's part of the lock as one SHA-256."""
    text = json.dumps(dict(locked().get(release.name, {})), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def locked(path: Path = LOCK) -> dict[str, Digests]:
    """File name to SHA-256, by release."""
    found: dict[str, Digests] = json.loads(path.read_text(encoding="utf-8"))["releases"]
    return found


def provide(release: Release) -> Path:
    """The folder with the jars of *release*, fetched if need be, and checked.

    Raises:
        JarsDiffer: they are not the ones that were locked.
        NoBroker: there is no lock for the release, Maven is missing, or it failed.
    """
    digests = locked().get(release.name)
    if digests is None:
        raise NoBroker(f"no jars of Kafka {release.name} are locked", hint="kafkaproof broker lock")
    folder = jar_folder(release)
    if not folder.is_dir():
        _fetch_into(folder, release)
    check_jars(folder, digests, release.name)
    return folder


def check_jars(folder: Path, digests: Digests, name: str) -> None:
    """Compare the jars in *folder* with the lock.  Raises `JarsDiffer`."""
    found = digest_all(folder)
    changed = sorted(jar for jar in found.keys() & digests.keys() if found[jar] != digests[jar])
    problems = [
        f"{what}: {', '.join(jars)}"
        for what, jars in (
            ("other bytes", changed),
            ("missing", sorted(digests.keys() - found.keys())),
            ("not in the lock", sorted(found.keys() - digests.keys())),
        )
        if jars
    ]
    if problems:
        raise JarsDiffer(
            f"the jars of Kafka {name} in {folder} are not the locked ones: {'; '.join(problems)}",
            hint="remove that folder to fetch them again",
        )


def digest_all(folder: Path) -> dict[str, str]:
    """SHA-256 of each jar in *folder*, by file name."""
    return {jar.name: _digest(jar) for jar in sorted(folder.glob("*.jar"))}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def lock_jars(releases: Iterable[Release], path: Path = LOCK) -> dict[str, Digests]:
    """Fetch the jars of *releases* and write their digests to the lock; other releases keep their entries.

    Raises:
        NoBroker: Maven is missing or failed.
    """
    entries = locked(path) if path.exists() else {}
    for release in releases:
        with tempfile.TemporaryDirectory() as scratch:
            _run_maven(Path(scratch), release)
            entries[release.name] = digest_all(Path(scratch) / "lib")
    text = json.dumps({"about": "SHA-256 of each jar, by release", "releases": entries}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
    return entries


def _fetch_into(folder: Path, release: Release) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Fetched into a scratch folder and renamed, so that an interrupted fetch leaves no incomplete set.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{release.name}-") as scratch:
        _run_maven(Path(scratch), release)
        move_into_place(Path(scratch) / "lib", folder)


def move_into_place(made: Path, folder: Path) -> None:
    """Rename *made* to *folder*, unless another process was faster: its folder has the same content."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def _run_maven(scratch: Path, release: Release) -> None:
    """Fill *scratch*/lib."""
    program = shutil.which(MAVEN)
    if program is None:
        raise NoBroker(f"mvn is not on the path; Maven fetches the jars of Kafka {release.name}", hint="install Maven")
    (scratch / "pom.xml").write_text(pom(release), encoding="utf-8")
    # -C: a jar that does not have the checksum of its repository is an error.
    command = [
        program,
        "-B",
        "-q",
        "-C",
        "-Dstyle.color=never",
        PLUGIN,
        "-DoutputDirectory=lib",
        "-DincludeScope=runtime",
    ]
    try:
        done = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, errors="replace", timeout=TIME_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        raise NoBroker(f"Maven did not fetch Kafka {release.name} within {TIME_LIMIT} s") from None
    if done.returncode:
        lines = _ERROR_LINE.findall(done.stdout + done.stderr)
        reason = lines[0][:_LONGEST_ERROR] if lines else "no error was named"
        raise NoBroker(f"Maven could not fetch Kafka {release.name}: {reason}")


def pom(release: Release) -> str:
    """The Maven project whose dependencies are the jars of *release*."""
    exclusions = "".join(f"<exclusion>{_coordinates(each)}</exclusion>" for each in release.without)
    broker = f"{_coordinates(f'{release.artifact}:{release.name}')}<exclusions>{exclusions}</exclusions>"
    alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = [broker, *(f"{_coordinates(each)}{alone}" for each in release.extra)]
    listed = "".join(f"<dependency>{each}</dependency>" for each in dependencies)
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>kafkaproof</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{listed}</dependencies></project>\n"
    )


def _coordinates(text: str) -> str:
    tags = ("groupId", "artifactId", "version")
    return "".join(f"<{tag}>{escape(part)}</{tag}>" for tag, part in zip(tags, text.split(":"), strict=False))
