"""Vector packages: the corpus as a Go module, a crate, an npm, Maven or PyPI package, and as raw files for fuzzers.

Each package is a folder that is ready to publish: the cases, types and a loader in its language, an example that
runs the cases against a decoder, tests for the language's own runner, a README and the licence.

    DIR/<ecosystem>/FILES.sha256    the hash of each file, for `sha256sum -c`

Sources are files in `templates/<ecosystem>`; those that end in `.jinja` are rendered, all others are copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Final, Literal, get_args

from jinja2 import Environment, StrictUndefined

from kafka_conformance.vector_packages.content import seed_files, shared_content
from kafka_corpus.vectors import package_root

Ecosystem = Literal["go", "cargo", "npm", "maven", "pypi", "bin"]
ECOSYSTEMS: Final[tuple[Ecosystem, ...]] = get_args(Ecosystem)
SUMS: Final = "FILES.sha256"
# A package that is published is at most as large, compressed.
MAX_BYTES: Final = 10_000_000
# A name below `.example` cannot be registered (RFC 2606): a place to fill in.
DEFAULT_MODULE_PATH: Final = "kafkaproof.example/vectors"
DEFAULT_GROUP_ID: Final = "kafkaproof"
MODULE_PATH: Final = re.compile(r"[a-z0-9][a-z0-9.-]*(/[A-Za-z0-9][A-Za-z0-9._~-]*)*")
GROUP_ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*")
# The folder for the shared files.
_DATA: Final[dict[Ecosystem, str]] = {
    "go": "",
    "cargo": "data/",
    "npm": "data/",
    "maven": "src/main/resources/kafkaproof/vectors/",
    "pypi": "src/kafkaproof_vectors/",
}
# The example that the README of each package shows.
_EXAMPLE: Final[dict[Ecosystem, str]] = {
    "go": "example/main.go",
    "cargo": "examples/kafka_protocol.rs",
    "npm": "examples/kafkajs.js",
    "maven": "src/test/java/example/KafkaClientsExample.java",
    "pypi": "examples/kafka_python.py",
}
_JINJA: Final = ".jinja"
PAGE: Final = "README.md.jinja"
_SUM: Final = re.compile(r"[0-9a-f]{64}  (.+)")


@dataclass(frozen=True, slots=True)
class PackageNames:
    """The names that depend on the place of publication.

    Attributes:
        module_path: of the Go module, without the suffix for the major version.
        group_id: of the Maven artifact.

    Raises:
        ValueError: a name that Go or Maven would refuse.
    """

    module_path: str = DEFAULT_MODULE_PATH
    group_id: str = DEFAULT_GROUP_ID

    def __post_init__(self) -> None:
        if not MODULE_PATH.fullmatch(self.module_path):
            raise ValueError(f"{self.module_path!r} is no Go module path, such as example.com/kafka/vectors")
        if not GROUP_ID.fullmatch(self.group_id):
            raise ValueError(f"{self.group_id!r} is no Maven group id, such as org.example.kafka")


def package_names(module_path: str | None, group_id: str | None) -> PackageNames:
    """The names, with a default for each that is None.

    Raises:
        ValueError: see `PackageNames`.
    """
    given = {"module_path": module_path, "group_id": group_id}
    return PackageNames(**{name: value for name, value in given.items() if value is not None})


def known_ecosystems(names: Iterable[str]) -> tuple[Ecosystem, ...]:
    """The ecosystems of these names in order; all without a name.

    Raises:
        ValueError: a name that is unknown.
    """
    wanted = list(names)
    for name in wanted:
        if name not in ECOSYSTEMS:
            near = get_close_matches(name, ECOSYSTEMS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"there is no ecosystem {name!r}: there are {', '.join(ECOSYSTEMS)}{hint}")
    return tuple(name for name in ECOSYSTEMS if not wanted or name in wanted)


def package_files(ecosystem: Ecosystem, names: PackageNames, dictionary: str) -> dict[str, bytes]:
    """All files of one package by path, sorted; *dictionary* is a fuzzer's, for the raw files."""
    found = dict(_source_files(ecosystem, names))
    found["LICENSE"] = (package_root() / "pages" / "LICENSE").read_bytes()
    if ecosystem == "bin":
        found |= dict(seed_files())
        found["kafka.dict"] = dictionary.encode()
    else:
        found |= {_DATA[ecosystem] + name: data for name, data in shared_content().files.items()}
    ordered = dict(sorted(found.items()))
    sums = "".join(f"{sha256(data).hexdigest()}  {path}\n" for path, data in ordered.items())
    return ordered | {SUMS: sums.encode()}


def _source_files(ecosystem: Ecosystem, names: PackageNames) -> Iterator[tuple[str, bytes]]:
    """The files below the template of *ecosystem*, rendered; the README last, since it shows the example."""
    values = _values(ecosystem, names)
    sources = dict(_walk(files(__name__) / "templates" / ecosystem))
    page = sources.pop(PAGE)
    made = {path.removesuffix(_JINJA): _rendered(path, text, values) for path, text in sources.items()}
    yield from made.items()
    example = made[_EXAMPLE[ecosystem]].decode() if ecosystem in _EXAMPLE else ""
    yield PAGE.removesuffix(_JINJA), _rendered(PAGE, page, values | {"example": example})


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry.read_text(encoding="utf-8")


def _rendered(path: str, text: str, values: Mapping[str, object]) -> bytes:
    if path.endswith(_JINJA):
        text = _environment().from_string(text).render(values)
    return text.encode()


@cache
def _environment() -> Environment:
    # Plain text, never HTML.
    return Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)


def _values(ecosystem: Ecosystem, names: PackageNames) -> dict[str, object]:
    """The names that templates may use."""
    content = shared_content()
    version = content.version
    common = (files(__name__) / "templates" / "cases.md").read_text(encoding="utf-8")
    values: dict[str, object] = {
        "ecosystem": ecosystem,
        "version": version,
        "corpus": version.sha256[:12],
        "cases": f"{len(content.cases):,}",
        "left_out": len(content.left_out),
        "module_path": names.module_path + version.go_suffix,
        "group_id": names.group_id,
    }
    return values | {"about_cases": _environment().from_string(common).render(values)}


def write_packages(folder: Path, chosen: Iterable[Ecosystem], names: PackageNames, dictionary: str) -> dict[str, int]:
    """Write each package below *folder*, and give the number of its files; files of earlier versions are removed."""
    counts: dict[str, int] = {}
    for ecosystem in chosen:
        below, made = folder / ecosystem, package_files(ecosystem, names, dictionary)
        stale = set(_listed(below)) - set(made)
        for path, data in made.items():
            (below / path).parent.mkdir(parents=True, exist_ok=True)
            (below / path).write_bytes(data)
        for path in stale:
            (below / path).unlink(missing_ok=True)
        counts[ecosystem] = len(made)
    return counts


def package_differences(
    folder: Path, chosen: Iterable[Ecosystem], names: PackageNames, dictionary: str
) -> Iterator[str]:
    """Differences between *folder* and fresh packages, one line each; what builds leave there is ignored."""
    for ecosystem in chosen:
        below, made = folder / ecosystem, package_files(ecosystem, names, dictionary)
        for path, data in made.items():
            if not (below / path).is_file():
                yield f"{ecosystem}/{path} is missing"
            elif (below / path).read_bytes() != data:
                yield f"{ecosystem}/{path} is not what this corpus gives"
        present = {*_listed(below)} | ({*_data_files(below)} if ecosystem == "bin" else set())
        yield from (f"{ecosystem}/{path} belongs to no case" for path in sorted(present - set(made)))


def _data_files(below: Path) -> Iterator[str]:
    """The files of seeds, where a file too many would be taken for an input."""
    for name in ("seeds", "go/testdata"):
        yield from (path.relative_to(below).as_posix() for path in (below / name).rglob("*") if path.is_file())


def _listed(below: Path) -> Iterator[str]:
    """The files below *below* that its list of an earlier run names; nothing outside of it."""
    if not (below / SUMS).is_file():
        return
    for line in (below / SUMS).read_text(encoding="utf-8", errors="replace").splitlines():
        match = _SUM.fullmatch(line)
        path = PurePosixPath(match[1]) if match else PurePosixPath()
        if match and not path.is_absolute() and ".." not in path.parts and (below / path).is_file():
            yield match[1]
