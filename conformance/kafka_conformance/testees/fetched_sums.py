"""Checksums of what a build fetched: compared with committed ones, kept, and refused if they change.

Sums come from what package tools verify and write: `go.sum`, `Cargo.lock`, `package-lock.json` and the `RECORD` of
installed wheels, and from the jars that Maven put into `lib`.  A release that this project pins is compared with its
committed lock files; jars with `jars.sha256` beside the `pom.xml`, which has to name all of them.  For every other
release (`NAME@VERSION`, `--history`) the first fetch is trusted, and kept in `fetched-sums.json` of the cache.
"""

from __future__ import annotations

import fcntl
import json
import re
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Final

JARS_LOCK: Final = "jars.sha256"
KEPT: Final = "fetched-sums.json"
_MOST_NAMED: Final = 3
_RECORDED: Final = re.compile(r"(.+),(sha256=[\w-]+),\d*")
# What an installer writes, and scripts that begin with the path of this interpreter.
_INSTALLERS: Final = re.compile(r"(^|/)(bin/.*|[^/]+\.dist-info/(INSTALLER|REQUESTED|direct_url\.json)|.*\.pyc)$")

Sums = Mapping[str, str]


class OtherSum(Exception):
    """Something was fetched that has other bytes than at first, or that no list names; one line says what."""


def fetched_sums(sources: Path, built: Path) -> dict[str, str]:
    """Sums of what the build in *sources* has fetched so far, and of what is installed in *built*, by package.

    Raises:
        OtherSum: a file with sums is malformed.
    """
    try:
        return {**lock_file_sums(sources), **_jars(built / "lib"), **_wheels(built), **_wheels(built / "packages")}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OtherSum(f"sums of what was fetched cannot be read: {error}") from None


def lock_file_sums(folder: Path) -> dict[str, str]:
    """Sums in the lock files of *folder*, by tool, package and version."""
    found: dict[str, str] = {}
    if (path := folder / "go.sum").is_file():
        found |= {f"go {name} {version}": value for name, version, value in map(str.split, _lines(path))}
    if (path := folder / "Cargo.lock").is_file():
        packages = tomllib.loads(path.read_text(encoding="utf-8")).get("package", ())
        found |= {
            f"cargo {each['name']} {each['version']}": each["checksum"] for each in packages if "checksum" in each
        }
    if (path := folder / "package-lock.json").is_file():
        entries = json.loads(path.read_text(encoding="utf-8"))["packages"]
        found |= {
            f"npm {each.get('name') or name.rpartition('node_modules/')[2]} {each['version']}": each["integrity"]
            for name, each in entries.items()
            if "integrity" in each
        }
    return found


def locked_jars(poms: Iterable[Path]) -> dict[str, str]:
    """The lines `SHA-256  NAME` of the lists beside *poms*, as sums by jar."""
    lists = [pom.with_name(JARS_LOCK) for pom in poms]
    lines = [line.split() for path in lists if path.is_file() for line in _lines(path)]
    return {f"maven {name}": value for value, name in lines}


def check_sums(found: Sums, committed: Sums, kept: Path, *, complete: bool) -> None:
    """Compare *found* with *committed* sums and those in the file *kept*, which gets the new ones.

    Args:
        found: sums of what was fetched now.
        committed: sums in the repository.
        kept: the file of earlier sums.
        complete: whether *committed* has to name every jar.

    Raises:
        OtherSum: a sum is another one, or *complete* and no committed sum.
        OSError: the file cannot be read or written.
    """
    _refuse("has other bytes than the committed sum says", _differing(found, committed))
    if complete:
        _refuse(f"is not in {JARS_LOCK}", [key for key in found if key.startswith("maven ") and key not in committed])
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.with_name(f".{kept.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = _read_kept(kept)
        _refuse(f"has other bytes than when it was first fetched ({kept})", _differing(found, before))
        new = {key: value for key, value in found.items() if key not in before and key not in committed}
        if new:
            scratch = kept.with_name(f".{kept.name}.new")
            scratch.write_text(json.dumps(before | new, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            scratch.replace(kept)


def _read_kept(path: Path) -> dict[str, str]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        kept = None
    if not isinstance(kept, dict):
        # Not forgotten silently: without it, anything would be trusted again.
        raise OtherSum(f"{path} is no list of sums; remove it to trust what is fetched next")
    return kept


def _differing(found: Sums, known: Sums) -> list[str]:
    return sorted(key for key in found.keys() & known.keys() if found[key] != known[key])


def _refuse(what: str, keys: list[str]) -> None:
    if keys:
        more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
        raise OtherSum(f"{', '.join(keys[:_MOST_NAMED])}{more} {what}")


def _lines(path: Path) -> Iterator[str]:
    return (line for line in path.read_text(encoding="utf-8").splitlines() if line.strip())


def _jars(folder: Path) -> dict[str, str]:
    found = {}
    for jar in sorted(folder.glob("*.jar")):
        with jar.open("rb") as file:
            found[f"maven {jar.name}"] = file_digest(file, "sha256").hexdigest()
    return found


def _wheels(folder: Path) -> dict[str, str]:
    """A sum of each installed wheel: of its files, by interpreter and platform, since wheels differ by both."""
    found = {}
    for path in sorted(folder.glob("*.dist-info/RECORD")):
        files = sorted(match.groups() for line in _lines(path) if (match := _RECORDED.fullmatch(line)))
        listed = [each for each in files if not _INSTALLERS.search(each[0])]
        name, _, version = path.parent.name.removesuffix(".dist-info").rpartition("-")
        where = f"{sysconfig.get_config_var('py_version_nodot')} {sysconfig.get_platform()}"
        found[f"pypi {name} {version} {where}"] = sha256(repr(listed).encode()).hexdigest()
    return found
