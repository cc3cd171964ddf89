"""Check what the project fetches: actions by commit, packages by hash, no input in a script, no install scripts.

python tests/supply_chain.py [ROOT]

Exit code 1 if anything is not pinned.  It reads text only: no network, nothing beyond the standard library.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent

# Actions that stay without a commit, with the reason.
UNPINNED_ACTIONS: Final[dict[str, str]] = {}
# npm packages whose install scripts run, with the reason; `npm rebuild NAME` in the recipe runs them.
INSTALL_SCRIPTS: Final = {
    "lz4": "compiles the binding that kafkajs-lz4 needs; there is no build of it to download",
    "snappy": "compiles the binding of an optional dependency of kafka-node, which users of no-kafka add, too",
}
# npm packages with install scripts that no build installs, with the reason.
NOT_INSTALLED: Final[dict[str, str]] = {}
# Dependency files without a lock beside them, with the reason.
UNLOCKED: Final = {
    "templates/rust/Cargo.toml": "a start for the reader, whose own Cargo.lock is written by the first build",
    "conformance/kafka_conformance/vector_packages/templates/maven/pom.xml.jinja": (
        "exact versions; Maven has no lock file, and -C fails for a jar with another sum than the registry says"
    ),
}
# pip commands that fetch by versions or ranges, with the reason.
UNHASHED_INSTALLS: Final = {
    'pip install --python empty dist/*."$KIND"': (
        "release.yml installs the file that it has built; uv verifies the hashes of all that the file requires"
    ),
    'pip install --quiet --disable-pip-version-check "$HERE"': (
        "action.yml installs beside the codec of the caller, whose versions of shared packages it must not replace"
    ),
}
USES: Final = re.compile(r"(?:^|[\s{,-])[\"']?uses[\"']?:\s+[\"']?([^\s\"'#,}]+)[\"']?[\s,}]*(#.*)?$")
PINNED: Final = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
VERSION_COMMENT: Final = re.compile(r"#\s*v\d+\.\d+\.\d+\b")
# Keys whose value is a script, at the start of a line or in braces; the lines below that are further in belong to it.
SCRIPT: Final = re.compile(r"^(\s*(?:- )?)(?:.*[{,]\s*)?[\"']?(?:run|script)[\"']?:(?:\s+(.*))?$")
EXPRESSION: Final = re.compile(r"\$\{\{.*?\}\}")
REQUIREMENT: Final = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.+!]+( ?;[^\\]*)?")
HASH: Final = re.compile(r"--hash=sha256:[0-9a-f]{64}")
PIP_INSTALL: Final = re.compile(r"\bpip install\b[^|;&\n]*")
JAR_LINE: Final = re.compile(r"[0-9a-f]{64}  [\w.+-]+\.jar")


class Unpinned(NamedTuple):
    """Something that is fetched without a fixed sum: the place (`path` or `path:line`), and a sentence."""

    place: str
    text: str


def workflow_findings(name: str, text: str) -> Iterator[Unpinned]:
    """Actions without a commit, and expressions in scripts, in a workflow, an action or a page with parts of one."""
    script_indent = -1
    for number, line in enumerate(text.splitlines(), 1):
        place, indent = f"{name}:{number}", len(line) - len(line.lstrip())
        if script_indent >= 0 and line.strip() and indent <= script_indent:
            script_indent = -1
        script = line if script_indent >= 0 else ""
        if not script and (match := SCRIPT.match(line)):
            script, script_indent = match[2] or "", len(match[1])
        elif not script and (match := USES.search(line)):
            yield from _action(place, match[1], match[2] or "")
        if EXPRESSION.search(script):
            yield Unpinned(place, "an expression in a script: pass it by env")
        for command in PIP_INSTALL.findall(script):
            if "--require-hashes" not in command and command.strip() not in UNHASHED_INSTALLS:
                yield Unpinned(place, "pip installs without --require-hashes")


def _action(place: str, used: str, comment: str) -> Iterator[Unpinned]:
    if used.startswith("./") or used in UNPINNED_ACTIONS:
        return
    if not PINNED.fullmatch(used):
        yield Unpinned(place, f"{used} is no action at a full commit hash")
    elif not VERSION_COMMENT.match(comment):
        yield Unpinned(place, f"{used} has no version after it, as in # v1.2.3")


def requirement_findings(name: str, text: str) -> Iterator[Unpinned]:
    """Requirements without a version and a SHA-256, and anything that names a place."""
    for line in text.replace("\\\n", " ").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        requirement = line.split(" --hash")[0].strip()
        if not REQUIREMENT.fullmatch(requirement):
            yield Unpinned(name, f"{requirement[:60]!r} is no package with a version")
        elif not HASH.search(line) or HASH.sub("", line).strip() != requirement:
            yield Unpinned(name, f"{requirement} has no SHA-256")


def npm_findings(name: str, text: str) -> Iterator[Unpinned]:
    """Packages of a package-lock.json without a sum, or whose install scripts no list allows."""
    for path, entry in json.loads(text)["packages"].items():
        package = path.rpartition("node_modules/")[2]
        if not path:
            continue
        if not str(entry.get("integrity", "")).startswith("sha512-"):
            yield Unpinned(name, f"{package} has no integrity")
        if entry.get("hasInstallScript") and package not in INSTALL_SCRIPTS.keys() | NOT_INSTALLED.keys():
            yield Unpinned(name, f"{package} has install scripts, and no reason for them is listed")


def cargo_findings(name: str, text: str) -> Iterator[Unpinned]:
    """Crates of a Cargo.lock without a checksum."""
    for package in tomllib.loads(text).get("package", ()):
        if "source" in package and "checksum" not in package:
            yield Unpinned(name, f"{package['name']} has no checksum")


def go_findings(name: str, mod: str, sums: str) -> Iterator[Unpinned]:
    """Modules that a go.mod requires and *sums*, its go.sum, does not have."""
    known = {tuple(line.split()[:2]) for line in sums.splitlines() if " h1:" in line}
    for line in mod.splitlines():
        match = re.fullmatch(r"(?:require)?\s*([\w./-]+\.[\w./-]+) (v\S+)(?:\s*//.*)?", line.strip())
        if match and (match[1], f"{match[2]}/go.mod") not in known:
            yield Unpinned(name, f"{match[1]} {match[2]} has no sum in go.sum")
        if match and "// indirect" not in line and (match[1], match[2]) not in known:
            yield Unpinned(name, f"{match[1]} {match[2]} has no sum in go.sum")


def recipe_findings(name: str, text: str) -> Iterator[Unpinned]:
    """Build commands that fetch without checking, or that run install scripts."""
    given = tomllib.loads(text)
    commands = [*given.get("build", ()), *given.get("versioned", ())]
    for command in commands:
        words = set(" ".join(command).split())
        if "npm" in words and words & {"ci", "install", "i"} and "--ignore-scripts" not in words:
            yield Unpinned(name, f"{' '.join(command)} runs install scripts")
        if "mvn" in words and not words & {"-C", "--strict-checksums"}:
            yield Unpinned(name, "mvn without -C takes jars with a wrong checksum")
        if "cargo" in words and "build" in words and "--locked" not in words:
            yield Unpinned(name, "cargo build without --locked may change Cargo.lock")
        if {"apt-get", "download"} <= words and not any("sha256sum" in each for each in commands):
            yield Unpinned(name, "apt-get downloads packages whose sums no command compares")
        for package in re.findall(r"npm rebuild ([^\s|&;]+)", " ".join(command)):
            if package not in INSTALL_SCRIPTS:
                yield Unpinned(name, f"install scripts of {package} run, and no reason for them is listed")


def _read(root: Path, path: Path) -> tuple[str, str]:
    return path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def _files(root: Path, *patterns: str) -> Iterator[Path]:
    skipped = {"node_modules", ".tox", ".venv", "target", ".git"}
    for pattern in patterns:
        yield from sorted(path for path in root.glob(pattern) if not skipped & {*path.relative_to(root).parts})


def python_findings(root: Path) -> Iterator[Unpinned]:
    """Requirement files of tools and testees, and the two lists of constraints, which have to agree."""
    hashed = root / "constraints-hashed.txt"
    lists = [hashed, *_files(root, ".github/*.txt", "conformance/*/*/requirements*.txt")]
    for path in lists:
        if path.is_file():
            yield from requirement_findings(*_read(root, path))
        else:
            yield Unpinned(path.name, "is missing")
    if hashed.is_file():
        pins = [line.removesuffix("\\").strip() for line in hashed.read_text().splitlines() if "==" in line]
        plain = (root / "constraints.txt").read_text().splitlines()
        if pins != plain:
            yield Unpinned("constraints.txt", "has other versions than constraints-hashed.txt")


def locked_findings(root: Path) -> Iterator[Unpinned]:
    """Projects in other languages: each has a lock file beside it, and each entry of it has a sum."""
    # Project file, its lock, and the text of projects that fetch anything.
    locks = (
        ("go.mod", "go.sum", "require"),
        ("Cargo.toml", "Cargo.lock", "[dependencies]"),
        ("package.json", "package-lock.json", 'ependencies"'),
        ("pom.xml", "jars.sha256", "<dependency>"),
    )
    for name, lock, mark in locks:
        for path in _files(root, f"**/{name}", f"**/{name}.jinja"):
            place, text = _read(root, path)
            if place in UNLOCKED or mark not in text:
                continue
            # A template has the version of its own project to fill in, and so may its lock file.
            found = [path.with_name(each) for each in (lock, f"{lock}.jinja") if path.with_name(each).is_file()]
            if not found:
                yield Unpinned(place, f"has no {lock}")
                continue
            sums = found[0].read_text(encoding="utf-8")
            if name == "go.mod":
                yield from go_findings(place, text, sums)
            elif name == "pom.xml":
                bad = [line for line in sums.splitlines() if not JAR_LINE.fullmatch(line)]
                yield from (Unpinned(f"{place}: {lock}", f"{line[:60]!r} is no sum of a jar") for line in bad)
            else:
                yield from (npm_findings if name == "package.json" else cargo_findings)(_read(root, found[0])[0], sums)


def check(root: Path = ROOT) -> list[Unpinned]:
    """Everything below *root* that is fetched without a fixed sum."""
    found: list[Unpinned] = []
    for path in _files(root, ".github/**/*.y*ml", "action.yml", "templates/**/*.y*ml", "*.md", "docs/**/*.md"):
        found += workflow_findings(*_read(root, path))
    for path in _files(root, "conformance/*/*/testee.toml", "conformance/testees/*/proxy.toml"):
        found += recipe_findings(*_read(root, path))
    jars = json.loads((root / "conformance/kafka_brokers/jars.lock.json").read_text(encoding="utf-8"))["releases"]
    bad = [jar for each in jars.values() for jar, value in each.items() if not re.fullmatch(r"[0-9a-f]{64}", value)]
    found += [Unpinned("jars.lock.json", f"{jar} has no SHA-256") for jar in bad]
    return [*found, *python_findings(root), *locked_findings(root)]


def main(arguments: list[str]) -> int:
    """Print what is not pinned; exit code 1 if anything is not."""
    found = check(Path(arguments[0]) if arguments else ROOT)
    sys.stdout.writelines(f"{each.place}: {each.text}\n" for each in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
