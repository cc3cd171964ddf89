"""The environment of executors: packed as an archive, and probed.

Spark unpacks it beside each executor (`spark.archives`), where `bin/python`
links to an interpreter of the same version at the same place, as in a container
image that driver and executors share.  PySpark itself is left out: Spark brings
its own.  The same packages give the same bytes.
"""

from __future__ import annotations

import gzip
import io
import platform
import re
import sys
import tarfile
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec
import pyarrow as pa

from kafka_conformance.testees.recipe import folder_of_sources
from kafka_pipeline.spark import PipelineError
from kafka_pipeline.spark.shards import spark_failures

OURS: Final = ("kafka_records", "kafka_corpus", "kafka_brokers", "kafka_conformance", "kafka_fuzz", "kafka_pipeline")
NAME: Final = "kafkaproof"
# Of these Spark keeps permissions and links; a plain .tar it unpacks without.
SUFFIXES: Final = (".tar.gz", ".tgz")
# Spark brings these; our own packages are taken from where they are imported.
LEFT_OUT: Final = frozenset({"pyspark", "py4j", NAME})
_REQUIREMENT: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)[^;]*(;(?P<marker>.*))?")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"](?P<name>[^'\"]+)['\"]")
# Files of our own distribution that executors read.
METADATA: Final = frozenset({"METADATA", "entry_points.txt"})
EXTRAS: Final = frozenset({"columnar", "spark", "testees"})


def write_archive(out: Path) -> int:
    """Write the archive, a gzipped tar; the number of files in it.

    Raises:
        PipelineError: Kafkaproof is not installed here, so its dependencies are unknown.
        OSError: it cannot be written.
    """
    files = sorted(archive_contents().items())
    with (
        out.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=1, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w|") as tar,
    ):
        python = tarfile.TarInfo("bin/python")
        python.type, python.linkname = tarfile.SYMTYPE, str(Path(sys.executable).resolve())
        tar.addfile(python)
        _add(tar, "pyvenv.cfg", _configuration().encode())
        for name, path in files:
            _add(tar, name, path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)
    return len(files)


def archive_contents() -> dict[str, Path]:
    """Files for `site-packages`, by name in the archive."""
    folder = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    found = {name: path for package in OURS for name, path in _files(Path(str(files(package))), package).items()}
    # Inside of the package in a wheel; a checkout has them beside it.
    found |= _files(folder_of_sources(), "kafka_conformance/adapters")
    found |= dict(_metadata())
    for each in _needed():
        for file in each.files or []:
            path = Path(str(each.locate_file(file)))
            if ".." not in PurePosixPath(file).parts and path.suffix not in (".pyc", ".pth") and path.is_file():
                found[file.as_posix()] = path
    return {f"{folder}/{name}": path for name, path in found.items()}


def _metadata() -> Iterator[tuple[str, Path]]:
    """The version and the entry points of Kafkaproof: testees and planted bugs are found through these."""
    ours = _distribution()
    for file in ours.files or []:
        if file.parent.name.endswith(".dist-info") and file.name in METADATA:
            yield file.as_posix(), Path(str(ours.locate_file(file)))


def _distribution() -> Distribution:
    try:
        return distribution(NAME)
    except PackageNotFoundError:
        raise PipelineError("only an installed Kafkaproof can be packed: pip install '.[spark]'") from None


def _files(top: Path, name: str) -> dict[str, Path]:
    return {
        f"{name}/{path.relative_to(top).as_posix()}": path
        for path in top.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _needed() -> list[Distribution]:
    """Everything that Kafkaproof depends on here, directly or not."""
    todo = list(_requires(_distribution(), EXTRAS))
    found: dict[str, Distribution] = {}
    while todo:
        name = todo.pop()
        if name in found or name in LEFT_OUT:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # of an extra that is not installed, or for other systems
        todo += _requires(found[name], frozenset())
    return [found[name] for name in sorted(found)]


def _requires(of: Distribution, extras: frozenset[str]) -> Iterator[str]:
    for text in of.requires or []:
        match = _REQUIREMENT.match(text)
        assert match is not None
        extra = _EXTRA.search(match["marker"] or "")
        if extra is None or extra["name"] in extras:
            yield re.sub(r"[-_.]+", "-", match["name"]).lower()
            # What PySpark's own extra would bring.
            if match["name"].lower() == "pyspark":
                yield from ("pyarrow", "pandas")


def _configuration() -> str:
    home = Path(sys.executable).resolve().parent
    return f"home = {home}\ninclude-system-site-packages = false\nversion = {sys.version.split()[0]}\n"


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))


class WorkerEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """One worker process.

    Attributes:
        host: the machine.
        folder: its working directory.
        python: the version.
        executable: the interpreter.
        packages: where each package of ours comes from; empty where there is none.
        path: where modules are looked for.
    """

    host: str
    folder: str
    python: str
    executable: str
    packages: dict[str, str]
    path: list[str]


def this_environment() -> WorkerEnvironment:
    """This process."""
    specs = {name: find_spec(name) for name in OURS}
    return WorkerEnvironment(
        host=platform.node(),
        folder=str(Path.cwd()),
        python=platform.python_version(),
        executable=sys.executable,
        packages={name: (spec.origin or "") if spec else "" for name, spec in specs.items()},
        path=list(sys.path),
    )


def worker_environments(spark: Any, tasks: int) -> Sequence[WorkerEnvironment]:
    """Environments that *tasks* tasks see; executors without a task are not listed.

    Raises:
        PipelineError: Spark gave up.
    """
    with spark_failures():
        rows = spark.range(0, tasks, 1, tasks).mapInArrow(_environment_rows, "place binary").collect()
    return [msgspec.json.decode(bytes(row["place"]), type=WorkerEnvironment) for row in rows]


def _environment_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_arrays(
            [pa.array([msgspec.json.encode(this_environment())], pa.binary())], names=["place"]
        )
