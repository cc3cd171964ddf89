"""Build and start the Java testee: Kafka's own codec behind `conformance/testees/java-kafka-clients`.

Maven compiles one source file against the asked kafka-clients release.  The
result lies under a name that holds the release and a digest of the sources, so
that a build is made once, and never used after the sources have changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

NAME: Final = "java-kafka-clients"
DEFAULT_RELEASE: Final = "4.4.0"
# Names the folder that holds the testees in other languages, where it is not above this file.
SOURCES_VARIABLE: Final = "KAFKAPROOF_TESTEES"
_SOURCES: Final = ("Testee.java", "pom.xml")
# Seconds.  A first build fetches 20 MB and takes ten on a quiet machine.
_BUILD_TIME_LIMIT: Final = 600
# Maven's launcher may put colour codes in front of the first line.
_ERROR_LINE: Final = re.compile(r"\[ERROR\] +(\S.*)")
_LONGEST_ERROR: Final = 300  # characters; a resolution error names every repository asked
# MiB.  It leaves room under a limit of 4 GiB on address space; a JVM with its
# defaults reserves more than that before it has read one byte.
HEAP: Final = 1500
_JVM_FLAGS: Final = (
    "-XX:+UseSerialGC",
    "-XX:ReservedCodeCacheSize=64m",
    "-XX:CompressedClassSpaceSize=64m",
    "-XX:TieredStopAtLevel=1",
)


class JavaTesteeError(RuntimeError):
    """The Java testee cannot be built or started here; the text is one line that says what is missing."""


def default_directory() -> Path:
    """Where builds are kept when the caller does not say: the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "kafkaproof" / "testees"


def source_directory() -> Path:
    """The folder of the sources: below `KAFKAPROOF_TESTEES`, else below a checkout around this file.

    Raises:
        JavaTesteeError: neither has them.
    """
    named = os.environ.get(SOURCES_VARIABLE)
    above = [Path(named)] if named else [parent / "testees" for parent in Path(__file__).resolve().parents]
    for folder in above:
        if all((folder / NAME / source).is_file() for source in _SOURCES):
            return folder / NAME
    raise JavaTesteeError(
        f"no sources of {NAME}: set {SOURCES_VARIABLE} to the folder conformance/testees of a checkout of Kafkaproof"
    )


def build(directory: Path, release: str = DEFAULT_RELEASE) -> Path:
    """Build the testee below *directory*, unless that has been done, and give its folder.

    Args:
        directory: the cache to build in; made if missing.
        release: a kafka-clients release on Maven Central.

    Raises:
        JavaTesteeError: sources, Maven or the Java compiler are missing, or Maven failed.
    """
    sources = source_directory()
    built = directory / f"{NAME}-{release}-{_digest(sources)}"
    if built.is_dir():
        return built
    for tool in ("mvn", "javac"):
        _find(tool)
    directory.mkdir(parents=True, exist_ok=True)
    # A half-made build must not be taken for a whole one: we build beside it and rename.
    with tempfile.TemporaryDirectory(dir=directory, prefix=f".{NAME}-") as scratch:
        made = _run_maven(sources, Path(scratch), release)
        _move(made, built)
    return built


def command(built: Path, *, heap: int = HEAP) -> list[str]:
    """The command line that serves the protocol from the folder that `build` gave, with *heap* MiB at most.

    Raises:
        JavaTesteeError: there is no `java` to run.
    """
    classpath = os.pathsep.join((str(built / "classes"), str(built / "lib" / "*")))
    return [_find("java"), f"-Xmx{heap}m", *_JVM_FLAGS, "-cp", classpath, "Testee"]


def _digest(sources: Path) -> str:
    """The sources in twelve characters."""
    texts = b"\0".join((sources / name).read_bytes() for name in _SOURCES)
    return hashlib.sha256(texts).hexdigest()[:12]


def _find(tool: str) -> str:
    """The path of a program, from `JAVA_HOME` first, as Maven does."""
    home = os.environ.get("JAVA_HOME")
    found = (shutil.which(tool, path=str(Path(home) / "bin")) if home else None) or shutil.which(tool)
    if found is None:
        raise JavaTesteeError(f"{tool} is not on the path: the Java testee needs Maven 3.6 and a JDK 17 or newer")
    return found


def _run_maven(sources: Path, scratch: Path, release: str) -> Path:
    """Build in *scratch* and give the folder that holds `classes` and `lib`."""
    for name in _SOURCES:
        shutil.copyfile(sources / name, scratch / name)
    asked = [_find("mvn"), "-B", "-q", "-Dstyle.color=never", f"-Dkafka.version={release}", "package"]
    try:
        done = subprocess.run(
            asked, cwd=scratch, capture_output=True, text=True, errors="replace", timeout=_BUILD_TIME_LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        raise JavaTesteeError(f"Maven did not build {NAME} {release} within {_BUILD_TIME_LIMIT} s") from None
    if done.returncode:
        raise JavaTesteeError(f"Maven could not build {NAME} {release}: {_first_error(done.stdout + done.stderr)}")
    return scratch / "target"


def _first_error(output: str) -> str:
    """Maven's first line that says more than that there was an error."""
    lines = [line for line in _ERROR_LINE.findall(output) if not line.startswith("COMPILATION ERROR")]
    return lines[0][:_LONGEST_ERROR] if lines else "no error was named"


def _move(made: Path, built: Path) -> None:
    """Rename into place; where another process was faster, its build is as good as ours."""
    try:
        made.rename(built)
    except OSError:
        if not built.is_dir():
            raise
