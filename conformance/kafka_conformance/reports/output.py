"""Writes reports: all formats of some runs into a directory, or some of one run into its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from kafka_conformance.reports import certificate, html, picture, summary
from kafka_conformance.reports.collection import (
    NOT_RUN,
    Collection,
    CollectionChange,
    CollectionEntry,
    cause_changes,
    collect,
    counts,
    folder_name,
    profile_changes,
)
from kafka_conformance.reports.formats import (
    badge_endpoint,
    badge_picture,
    changes_page,
    collection_summary,
    junit,
    sarif,
)
from kafka_conformance.reports.summary import Report
from kafka_conformance.runner import keeping, results
from kafka_conformance.runner.kept_results import is_kept
from kafka_conformance.sanitize import indented_json, printable

# What a format writes into the directory of one run.
Files = Mapping[str, bytes]


def _badges(collection: Collection) -> Files:
    (entry,) = collection.entries
    return {"badge.svg": badge_picture(entry).encode(), "badge.json": badge_endpoint(entry)}


FORMATS: Final[Mapping[str, Callable[[Collection], Files]]] = {
    "html": lambda collection: {"report.html": html.result_page(collection).encode()},
    "json": lambda collection: {"report.json": indented_json(summary.report_document(collection.entries[0].report))},
    "junit": lambda collection: {"junit.xml": junit(collection.entries[0].report)},
    "sarif": lambda collection: {"report.sarif": sarif(collection)},
    "badge": _badges,
    "markdown": lambda collection: {"summary.md": collection_summary(collection).encode()},
}


def write_formats(made: Report, formats: Sequence[str], folder: Path) -> None:
    """Write one run in some of `FORMATS` into *folder*."""
    # The page reads the corpus; what says the same as the result does without.
    needed = bool({"html", "sarif"} & set(formats))
    collection = collect([made], cases=None if needed else {})
    for name in formats:
        for file, content in FORMATS[name](collection).items():
            (folder / file).write_bytes(content)


# The formats that can show several runs in one file, and that file.
TOGETHER: Final[Mapping[str, str]] = {"html": "report.html", "sarif": "report.sarif", "markdown": "summary.md"}


def check_together(testees: Sequence[str], formats: Sequence[str], folder: Path) -> None:
    """Raise `WouldReplace` if `write_together` for *testees* would replace a file in *folder* that is about more."""
    pages = [TOGETHER[name] for name in formats if name in TOGETHER]
    keeping.check_covers_pages(folder, pages, [folder_name(name) for name in testees])


def write_together(made: Sequence[Report], formats: Sequence[str], folder: Path, not_run: Mapping[str, str]) -> None:
    """Write the runs *made* side by side into *folder*, in those of *formats* that are `TOGETHER`."""
    wanted = [name for name in formats if name in TOGETHER]
    if not_run:
        (folder / NOT_RUN).write_bytes(indented_json(not_run))
    else:
        (folder / NOT_RUN).unlink(missing_ok=True)
    if wanted:
        collection = collect(made, not_run=not_run)
        for name in wanted:
            for file, content in FORMATS[name](collection).items():
                (folder / file).write_bytes(content)
        keeping.record_pages(folder, [TOGETHER[name] for name in wanted], [each.folder for each in collection.entries])


# The files of `write_outputs` that are about all runs.
WHOLE: Final = ("index.html", "report.json", "report.sarif", "summary.md", "matrix.json", "matrix.svg")
# Beside them if there is a baseline.
CHANGES: Final = "changes.md"


def check_outputs(collection: Collection, folder: Path) -> None:
    """Raise `WouldReplace` if `write_outputs` would replace a page or a result in *folder* that is about more."""
    hint = "--out names another directory"
    keeping.check_covers_pages(folder, WHOLE, [entry.folder for entry in collection.entries], hint)
    for entry in collection.entries:
        header = entry.results.header
        keeping.check_covers_result(folder / entry.folder / results.FILE, header.only, header.cases, hint=hint)


def write_outputs(
    collection: Collection,
    folder: Path,
    beside: Sequence[str] = (),
    programs: html.Programs | None = None,
    disclosures: html.Disclosures = MappingProxyType({}),
) -> list[Path]:
    """Write everything into *folder*: what is about all runs, and a directory for each.

    Args:
        collection: the runs.
        folder: where it is written.
        beside: pages to link.
        programs: gives the reproducers of findings.
        disclosures: state and days of the disclosure of causes, by LIBRARY/CAUSE.
    """
    contents = (
        html.result_page(collection, beside, programs, disclosures).encode(),
        indented_json(output_document(collection)),
        sarif(collection),
        collection_summary(collection).encode(),
        picture.encode_counts(picture.counted(collection)),
        picture.matrix_svg(picture.counted(collection)).encode(),
    )
    written = [_write(folder / name, content) for name, content in zip(WHOLE, contents, strict=True)]
    if any(entry.changes is not None for entry in collection.entries):
        written.append(_write(folder / CHANGES, changes_page(collection).encode()))
    else:
        (folder / CHANGES).unlink(missing_ok=True)
    keeping.record_pages(folder, WHOLE, [entry.folder for entry in collection.entries])
    for entry in collection.entries:
        written += [
            _write(folder / entry.folder / name, content) for name, content in _of_one(entry, collection).items()
        ]
    return written


def _of_one(entry: CollectionEntry, collection: Collection) -> Files:
    alone = Collection((entry,), collection.cases, collection.corpus)
    made = dict(_badges(alone)) | {"junit.xml": junit(entry.report)}
    # The certificate is of the file beside it.
    data = made[results.FILE] = _result(entry)
    if not uncertifiable(entry, collection):
        made[certificate.FILE] = certificate.encode_certificate(certificate.statement(entry.report, results.FILE, data))
    return made


def _result(entry: CollectionEntry) -> bytes:
    """The result file; a kept result becomes one."""
    path = entry.report.path
    return results.encode_results(entry.results) if entry.results.complete and is_kept(path) else path.read_bytes()


def uncertifiable(entry: CollectionEntry, collection: Collection) -> str:
    """Why there is no certificate, or an empty string: this corpus has to be the one that was run."""
    if entry.results.header.corpus != collection.corpus:
        return f"it was run on corpus {printable(entry.results.header.corpus, 12)}, another than is here"
    return next(iter(certificate.coverage(entry.results, collection.cases)), "")


def output_document(collection: Collection) -> dict[str, Any]:
    """All runs as one JSON object."""
    testees = [_document(entry) for entry in collection.entries]
    return {"corpus": collection.corpus, "testees": testees, "not_run": dict(collection.not_run)}


def _document(entry: CollectionEntry) -> dict[str, Any]:
    compared = None
    if entry.changes is not None and entry.baseline is not None:
        compared = {
            "counts": counts(entry.changes),
            "cases": [_changed(each) for each in entry.changes],
            "profiles": msgspec.to_builtins(profile_changes(entry.baseline, entry.report)),
            "causes": msgspec.to_builtins(cause_changes(entry.baseline, entry.report)),
        }
    return (
        {"label": entry.label, "folder": entry.folder} | summary.report_document(entry.report) | {"baseline": compared}
    )


def _changed(change: CollectionChange) -> dict[str, Any]:
    before = None if change.before is None else {"outcome": change.before.outcome, "why": change.before.why}
    now = {"outcome": change.now.outcome, "why": change.now.why}
    return {"case": change.case, "change": change.kind, "before": before, "now": now}


def _write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
