"""Build the site: choose the last good results, render the documentation, pack Pyodide, and replace the old site whole.

A build is written beside the site and takes its place in one step, so that a reader, or a build that is killed, leaves
either the old site or the new one.  Two builds of the same inputs are equal: dates come from the results.
"""

from __future__ import annotations

import ctypes
import gzip
import io
import os
import re
import shutil
import subprocess
import zipfile
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files as package_files
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec
from markdown_it import MarkdownIt

from kafka_conformance.reports import asset
from kafka_conformance.reports import collection as collecting
from kafka_conformance.reports.profiles import row_name
from kafka_conformance.reports.site import RunRecord, SitePage
from kafka_conformance.reports.summary import Report
from kafka_conformance.runner import kept_results
from kafka_conformance.runner.keeping import reserved
from kafka_conformance.runner.results import Results, Unusable
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.known import split_version

# The file that shows that a folder is a site, which the next build may replace.
MARK: Final = "site.json"
FORMAT: Final = "kafkaproof-site"


# ---- results ----


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A result file: of which testee and version it is, when it was made, and whether it can be shown."""

    path: Path
    results: Results
    testee: str
    version: str
    date: str
    unsent: int
    good: bool

    @property
    def order(self) -> tuple[Any, ...]:
        """Newer releases are greater, and of one release newer results."""
        return (not self.results.header.only, version_key(self.version), self.date, self.results.complete)


def version_key(version: str) -> tuple[tuple[int, int | str], ...]:
    """Versions in order of release.

    >>> sorted(["1.10.0", "1.9.0-rc1", "1.9.0"], key=version_key)
    ['1.9.0-rc1', '1.9.0', '1.10.0']
    """
    parts = re.findall(r"\d+|[a-z]+", version.lower())
    return (*((1, int(part)) if part.isdigit() else (-1, part) for part in parts), (0, 0))


def stored_runs(paths: Iterable[Path]) -> list[StoredRun]:
    """Every result file among *paths*; those of a client in one Fetch or Produce version are left out, as of a part.

    Raises:
        Unusable: one of them is no result, or there is none.
    """
    stored = [_stored(path) for path in collecting.files(paths)]
    connects = [str(each.results.header.testee.get("connect", "")) for each in stored]
    return [each for each, connect in zip(stored, connects, strict=True) if split_version(connect)[2] is None]


def _stored(path: Path) -> StoredRun:
    done = kept_results.read_any_results(path, collecting.corpus_contents)
    kept = kept_results.is_kept(path)
    missing = done.header.cases - len(done.lines) if kept else 0
    testee = done.header.testee
    return StoredRun(
        path=path,
        results=done,
        testee=printable(row_name(testee), collecting.MAX_NAME),
        version=collecting.field_of_testee(done, "version").partition(" ")[0],
        date=kept_results.kept_date(path) if kept else "",
        unsent=missing,
        good=bool(done.lines) and (kept or done.complete),
    )


def last_good(paths: Sequence[Path]) -> tuple[collecting.Collection, dict[int, RunRecord]]:
    """The last good result of each testee, and what is known of its other runs.

    Raises:
        Unusable: no result can be shown.
    """
    by_testee: dict[str, list[StoredRun]] = defaultdict(list)
    for run in stored_runs(paths):
        by_testee[run.testee].append(run)
    not_run, cases = collecting.absent(paths), collecting.cases_by_id()
    chosen, records = [], []
    for name, runs in sorted(by_testee.items()):
        runs.sort(key=lambda run: run.order)
        good = [run for run in runs if run.good]
        if not good:
            not_run.setdefault(name, "its run did not come to its end")
            continue
        shown, newest = good[-1], runs[-1]
        trouble = not_run.pop(name, "")
        if not trouble and newest is not shown:
            trouble = f"the run of {newest.version or 'a newer release'} did not come to its end"
        chosen.append(_report(shown, cases))
        older = [(run.version, run.date, _report(run, cases)) for run in _releases(good[:-1], shown.version)]
        records.append(RunRecord(shown.date, trouble, shown.unsent, tuple(older)))
    if not chosen:
        raise Unusable("no result came to its end, so there is nothing to show")
    made = collecting.collect(chosen, not_run=not_run)
    return made, dict(enumerate(records))


def _releases(runs: Sequence[StoredRun], shown: str) -> list[StoredRun]:
    """The newest result of each older release, oldest first; parts of the corpus say nothing of a trend."""
    newest = {run.version: run for run in runs if run.version != shown and not run.results.header.only}
    return sorted(newest.values(), key=lambda run: version_key(run.version))


def _report(run: StoredRun, cases: Mapping[str, Any]) -> Report:
    return collecting.remade(run.results, cases, (), run.path)


# ---- documentation ----


def doc_path(name: str) -> str:
    """Where a page of the documentation stands: `docs/audit.md` in `docs/audit/`."""
    parts = PurePosixPath(name.removeprefix("docs/")).with_suffix("")
    return f"docs/{str(parts).lower()}/index.html"


def rendered_docs(texts: Mapping[str, str], root: Path) -> tuple[dict[str, tuple[str, str]], dict[str, bytes]]:
    """Each page by its path, as title and HTML, and the pictures that they show, from *root*."""
    docs, pictures = {}, {}
    for name, text in texts.items():
        page = _DocRenderer(name, texts, root)
        body = page.html(text)
        docs[doc_path(name)] = (page.title or name, body)
        pictures.update(page.pictures)
    return docs, pictures


def heading_anchor(text: str) -> str:
    """The anchor that GitHub gives a heading.

    >>> heading_anchor("Bring `everything` up to date")
    'bring-everything-up-to-date'
    """
    return re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")


class _DocRenderer:
    """One page: links lead to pages of the site, or are left out where there is none."""

    def __init__(self, name: str, texts: Mapping[str, str], root: Path) -> None:
        self.folder, self.texts, self.root = PurePosixPath(name).parent, texts, root
        self.up = "../" * doc_path(name).count("/")
        self.title = ""
        self.pictures: dict[str, bytes] = {}

    def html(self, text: str) -> str:
        """The page; its HTML comments are left out, and no HTML of it is taken."""
        # A page that shows HTML in a code block has no comment there.
        text = re.sub(r"^<!--.*?-->\n", "", text, flags=re.MULTILINE | re.DOTALL)
        parser = MarkdownIt("commonmark", {"html": False}).enable("table")
        tokens = parser.parse(text)
        for at, token in enumerate(tokens):
            if token.type == "heading_open":
                content = tokens[at + 1].content
                token.attrSet("id", heading_anchor(content))
                self.title = self.title or content.replace("`", "")
            for child in token.children or ():
                self._relinked(child)
        rendered: str = parser.renderer.render(tokens, parser.options, {})
        return rendered

    def _relinked(self, token: Any) -> None:
        if token.type == "link_open" and (target := self._target(token.attrs["href"])):
            token.attrSet("href", target)
        elif token.type == "link_open":
            del token.attrs["href"]
        elif token.type == "image":
            place = os.path.normpath(self.folder / str(token.attrs["src"]))
            self.pictures[f"assets/{Path(place).name}"] = (self.root / place).read_bytes()
            token.attrSet("src", f"{self.up}assets/{Path(place).name}")

    def _target(self, href: str) -> str:
        if href.startswith(("https://", "#")):
            return href
        path, _, anchor = href.partition("#")
        place = os.path.normpath(self.folder / path)
        if place not in self.texts:
            return ""
        return f"{self.up}{doc_path(place)}" + (f"#{anchor}" if anchor else "")


# ---- Pyodide ----


class PyodideMissing(RuntimeError):
    """Pyodide cannot be had; one line that says why."""


PACKAGE: Final = "kafka_conformance.reports"
# Modules beside the reference that explain bytes in the browser.
MODULES: Final = (
    "__init__.py",
    "sanitize.py",
    "reports/__init__.py",
    "reports/browser_codecs.py",
    "reports/byte_rows.py",
)
NPM_TIME_LIMIT: Final = 300  # seconds


def pyodide_cache() -> Path:
    """Where the npm package is kept: the user's cache folder, by the lock file."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    digest = sha256(asset("site/pyodide/package-lock.json").encode()).hexdigest()[:12]
    return Path(cache) / "kafkaproof" / "pyodide" / digest


def fetched_pyodide() -> Path:
    """The folder of the npm package `pyodide`, which npm fetches once and checks by the lock file.

    Raises:
        PyodideMissing: npm is not here, or cannot fetch it.
    """
    folder = pyodide_cache()
    package = folder / "node_modules" / "pyodide"
    if (package / "pyodide.asm.wasm").is_file():
        return package
    npm = shutil.which("npm")
    if npm is None:
        raise PyodideMissing("npm is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        (folder / name).write_text(asset(f"site/pyodide/{name}"), encoding="utf-8")
    command = (npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=NPM_TIME_LIMIT)
    except (OSError, subprocess.SubprocessError) as error:
        raise PyodideMissing(f"npm ci cannot fetch pyodide: {printable(str(error))}") from None
    return package


def runtime_files(package: Path) -> dict[str, bytes]:
    """The scripts that the page `explain` loads, by path: Pyodide, the reference and the worker, each compressed.

    Raises:
        PyodideMissing: a file of *package* is missing, or is another than the project knows.
    """
    known = _checked(package)
    lock = msgspec.json.decode(known["pyodide-lock.json"])
    parts = {
        "wasm": known["pyodide.asm.wasm"],
        "stdlib": smaller_library(known["python_stdlib.zip"]),
        "module": known["pyodide.asm.mjs"],
        "loader": known["pyodide.mjs"],
        "lock": msgspec.json.encode({"info": lock["info"], "packages": {}}),
        "reference": reference_archive(),
        "worker": asset("site/explain-worker.js").encode(),
    }
    scripts = {}
    for name, content in parts.items():
        packed = b64encode(gzip.compress(content, 9, mtime=0))
        scripts[f"assets/explain/{name}.js"] = b'kafkaproofPart("%b","%b");\n' % (name.encode(), packed)
    return scripts


# Parts of Python's library that neither Pyodide's start nor the reference imports, by the start of their names.
UNUSED_LIBRARY: Final = re.compile(
    r"_pyrepl|_pyio|bdb|cProfile|doctest|email|ftplib|html|http|imaplib|mailbox|multiprocessing|optparse|pdb|"
    r"argparse|configparser|difflib|fractions|ipaddress|plistlib|uuid|webbrowser|_pydecimal|pickletools|poplib|profile|pstats|pydoc|smtplib|statistics|trace\.py|turtle|unittest|wsgiref|xml|xmlrpc|"
    r"encodings/(?!(__init__|aliases|ascii|cp437|idna|latin_1|punycode|utf_8|utf_8_sig|raw_unicode_escape|"
    r"unicode_escape|utf_16|utf_16_le|utf_16_be)\.py)"
)


def smaller_library(library: bytes) -> bytes:
    """Python's library as a zip, without `UNUSED_LIBRARY`; the same for the same input."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(library)) as old, zipfile.ZipFile(packed, "w") as new:
        for entry in sorted(old.infolist(), key=lambda entry: entry.filename):
            if not UNUSED_LIBRARY.match(entry.filename) and not entry.is_dir():
                # Stored, not deflated: the part is compressed as a whole, which is smaller.
                new.writestr(zipfile.ZipInfo(entry.filename, (1980, 1, 1, 0, 0, 0)), old.read(entry))
    return packed.getvalue()


def _checked(package: Path) -> dict[str, bytes]:
    found = {}
    for line in asset("site/pyodide/files.sha256").splitlines():
        sum_, _, name = line.partition("  ")
        try:
            found[name] = (package / name).read_bytes()
        except OSError as error:
            raise PyodideMissing(f"{package / name}: {error.strerror}") from None
        if sha256(found[name]).hexdigest() != sum_:
            raise PyodideMissing(f"{package / name}: its SHA-256 is another than that of the pinned release")
    return found


def reference_archive() -> bytes:
    """The reference and what explains with it, as a zip that is the same for the same sources."""
    reference, conformance = package_files("kafka_records"), package_files("kafka_conformance")
    contents = {f"kafka_records/{name}": data for name, data in _sources(reference)}
    contents |= {f"kafka_conformance/{name}": conformance.joinpath(name).read_bytes() for name in MODULES}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in sorted(contents.items()):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            archive.writestr(entry, data)
    return packed.getvalue()


def _sources(folder: Any, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            yield from _sources(each, f"{prefix}{each.name}/")
        elif each.name.endswith((".py", ".toml")):
            yield f"{prefix}{each.name}", each.read_bytes()


LICENCES: Final = """\
The scripts in this folder are packed copies of

  Pyodide {version}, Mozilla Public License 2.0, https://github.com/pyodide/pyodide
  CPython's standard library as Pyodide has it, Python Software Foundation License 2
  Kafkaproof's reference, Apache License 2.0

Each is the file of that name, compressed and in base64, in one call.
"""


def licence_file() -> bytes:
    """The licences of what `runtime_files` packs."""
    lock = msgspec.json.decode(asset("site/pyodide/package-lock.json"))
    return LICENCES.format(version=lock["packages"]["node_modules/pyodide"]["version"]).encode()


# ---- writing ----


class NotASite(Unusable):
    """The folder holds something else, which a build does not replace."""


def check_replaceable(out: Path) -> None:
    """Raise `NotASite` if *out* is there and is neither empty nor a site."""
    if out.is_dir() and not any(out.iterdir()):
        return
    if out.exists() and not _is_site(out):
        raise NotASite(f"{out} holds something else than a site; --out names another folder")


def _is_site(folder: Path) -> bool:
    try:
        document = msgspec.json.decode((folder / MARK).read_bytes(), type=dict[str, Any])
    except (OSError, ValueError):
        return False
    return document.get("format") == FORMAT


def mark_of(corpus: str) -> SitePage:
    """The file that marks a site, with the corpus that it shows."""
    return SitePage(MARK, msgspec.json.encode({"format": FORMAT, "version": 1, "corpus": corpus}) + b"\n")


@dataclass(frozen=True, slots=True)
class SiteSize:
    """How many files were written, and their bytes."""

    files: int
    bytes: int


def write_site(pages: Iterable[SitePage], out: Path) -> SiteSize:
    """Write *pages* in the place of *out*, all or none.

    Raises:
        NotASite: something else is there.
        InUse: another build writes there.
        OSError: the folder cannot be written.
    """
    out = out.absolute()
    check_replaceable(out)
    building = out.with_name(f".{out.name}.building")
    with reserved(out.parent, hint="--out names another folder"):
        shutil.rmtree(building, ignore_errors=True)  # what a killed build left
        try:
            count = size = 0
            for page in pages:
                path = building / page.path
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as opened:
                    opened.write(page.content)
                count, size = count + 1, size + len(page.content)
            # All of it is on disk before it takes the place of the old site.
            os.sync()
            _replace(building, out)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return SiteSize(count, size)


def _replace(new: Path, out: Path) -> None:
    """Exchange two folders in one step where the system can; afterwards *new* is the old site, if there was one."""
    if not out.exists():
        new.rename(out)
    elif not _exchanged(new, out):
        old = new.with_suffix(".old")
        shutil.rmtree(old, ignore_errors=True)
        out.rename(old)
        new.rename(out)
        shutil.rmtree(old, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """renameat2 with RENAME_EXCHANGE, which the standard library does not have; False where it is not there."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here = -100  # AT_FDCWD
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), 2) == 0


def site_differences(pages: Iterable[SitePage], out: Path) -> Iterator[str]:
    """How the site in *out* differs from *pages*: a line for each file."""
    seen = set()
    for page in pages:
        seen.add(page.path)
        path = out / page.path
        if not path.is_file():
            yield f"{page.path}: is missing"
        elif path.read_bytes() != page.content:
            yield f"{page.path}: differs"
    for path in sorted(out.rglob("*")) if out.is_dir() else ():
        name = path.relative_to(out).as_posix()
        if path.is_file() and name not in seen:
            yield f"{name}: is in no build"
