"""Write the software bill of materials: every package that the project's lock files name, with its hash.

python tests/sbom.py [--check] [FILE]

CycloneDX 1.6 as JSON, on standard output or into FILE; `--check` compares FILE.  It is derived from the lock files and
the same for the same files: no date, no serial number, and no address of a registry.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

ROOT: Final = Path(__file__).resolve().parent.parent
Component = dict[str, Any]


def component(kind: str, name: str, version: str, hashes: dict[str, str], where: str, **more: str) -> Component:
    """A library with its package URL; *where* is the lock file that names it."""
    group, _, short = name.rpartition("/")
    path = f"{quote(group, safe='/')}/{quote(short)}" if group else quote(short)
    url = f"pkg:{kind}/{path}@{quote(version, safe='')}"
    made: Component = {"type": "library", "bom-ref": f"{where}#{url}", "name": name, "version": version, "purl": url}
    if hashes:
        made["hashes"] = [{"alg": name, "content": value} for name, value in sorted(hashes.items())]
    properties = {"kafkaproof:lock": where, **more}
    made["properties"] = [{"name": key, "value": value} for key, value in sorted(properties.items())]
    return made


def python_components(root: Path) -> Iterator[Component]:
    """Packages of the requirement files; a package has as many hashes as there are files to install it from."""
    for path in (root / "constraints-hashed.txt", *sorted(root.glob("conformance/testees/*/requirements.txt"))):
        for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
            name, _, rest = line.partition("==")
            sums = sorted(re.findall(r"sha256:([0-9a-f]{64})", rest))
            if not sums:
                continue
            version, _, marker = rest.split("--hash")[0].partition(";")
            more = {"kafkaproof:sha256": " ".join(sums)} | ({"kafkaproof:marker": marker.strip()} if marker else {})
            one = {"SHA-256": sums[0]} if len(sums) == 1 else {}
            yield component("pypi", name.strip().lower(), version.strip(), one, _place(root, path), **more)


def _locks(root: Path, name: str) -> list[Path]:
    """The lock files of that name; those of vector packages are templates, for the version of the package."""
    templates = root.glob(f"conformance/kafka_conformance/vector_packages/templates/*/{name}.jinja")
    return sorted([*root.glob(f"conformance/testees/*/{name}"), *templates])


def npm_components(root: Path) -> Iterator[Component]:
    """Packages of the package-lock.json of testees and of vector packages."""
    for path in _locks(root, "package-lock.json"):
        for name, entry in sorted(json.loads(path.read_text(encoding="utf-8"))["packages"].items()):
            if name:
                digest = base64.b64decode(entry["integrity"].removeprefix("sha512-")).hex()
                package = name.rpartition("node_modules/")[2]
                yield component("npm", package, entry["version"], {"SHA-512": digest}, _place(root, path))


def cargo_components(root: Path) -> Iterator[Component]:
    """Crates of the Cargo.lock of testees and of vector packages."""
    for path in _locks(root, "Cargo.lock"):
        for each in tomllib.loads(path.read_text(encoding="utf-8"))["package"]:
            if "checksum" in each:
                sums = {"SHA-256": each["checksum"]}
                yield component("cargo", each["name"], each["version"], sums, _place(root, path))


def go_components(root: Path) -> Iterator[Component]:
    """Modules of go.sum whose sources are compiled; Go's sum is of the files of a module, not of an archive."""
    for path in sorted(root.glob("conformance/**/go.sum")):
        for module, version, value in map(str.split, path.read_text(encoding="utf-8").splitlines()):
            if not version.endswith("/go.mod"):
                yield component("golang", module, version, {}, _place(root, path), **{"kafkaproof:go.sum": value})


def jar_components(root: Path) -> Iterator[Component]:
    """Jars of the Java testee, of the harness and of the brokers; lists name files, so the name is the file's."""
    paths = sorted([*root.glob("conformance/testees/*/jars.sha256"), *root.glob("fuzz/harnesses/*/jars.sha256")])
    lists = {path: path.read_text(encoding="utf-8") for path in paths}
    for path, text in lists.items():
        for value, name in map(str.split, text.splitlines()):
            yield _jar(name, value, _place(root, path))
    lock = root / "conformance" / "kafka_brokers" / "jars.lock.json"
    releases = json.loads(lock.read_text(encoding="utf-8"))["releases"]
    jars = {(name, value) for each in releases.values() for name, value in each.items()}
    for name, value in sorted(jars):
        yield _jar(name, value, _place(root, lock))


def _jar(name: str, value: str, where: str) -> Component:
    match = re.fullmatch(r"(.+?)-(\d[\w.+-]*)\.jar", name)
    package, version = match.groups() if match else (name.removesuffix(".jar"), "")
    made = component("generic", package, version or "unknown", {"SHA-256": value}, where)
    # The same version may have several jars, as for platforms.
    made["bom-ref"] += f"#{value}"
    return made


def _place(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def bill_of_materials(root: Path = ROOT) -> Component:
    """The whole document; equal for equal lock files."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [
        each
        for components in (python_components, npm_components, cargo_components, go_components, jar_components)
        for each in components(root)
    ]
    unique = {each["bom-ref"]: each for each in listed}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "kafkaproof",
                "name": project["name"],
                "version": project["version"],
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": [unique[key] for key in sorted(unique)],
    }


def wheel_bill(root: Path = ROOT) -> Component:
    """The document inside the wheel: what its own lock files name, fetched when a testee or broker is first used.

    Packages of Python are requirements in the wheel's metadata; tools that work on the project are left out.
    """
    document = bill_of_materials(root)
    shipped = [each for each in document["components"] if not each["bom-ref"].startswith("constraints-hashed.txt#")]
    shipped = [each for each in shipped if not each["bom-ref"].startswith("conformance/brokers/")]
    project = document["metadata"]["component"]
    project |= {"type": "library", "purl": f"pkg:pypi/{project['name']}@{project['version']}"}
    return document | {"components": [each | {"scope": "optional"} for each in shipped]}


def main(arguments: list[str]) -> int:
    """Write or compare the document; exit code 1 if FILE is another one."""
    text = json.dumps(bill_of_materials(), indent=1, sort_keys=True) + "\n"
    files = [Path(argument) for argument in arguments if argument != "--check"]
    if "--check" in arguments:
        same = bool(files) and files[0].is_file() and files[0].read_text(encoding="utf-8") == text
        sys.stdout.write("" if same else "the bill of materials is not that of the lock files: tox run -e sbom\n")
        return int(not same)
    if files:
        files[0].write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
