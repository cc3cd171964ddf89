"""Edges: what clients, proxies and brokers do with records when something beside the codec goes wrong.

A *kind* is one table: its rows are situations (a batch with a wrong checksum in
mid-log, a disconnect after a produce request was stored), its columns clients,
proxies or brokers.  `kinds/KIND.toml` describes the rows, each with the right
answer and its public source; `causes.toml` has the reviewed causes of findings.

The result of a column is a file of lines, `results/edges/KIND/COLUMN.ndjson`: a
header, and one line for each cell, written when the cell is known.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec

from kafka_brokers.wire.client import parse_address
from kafka_conformance.causes import MAX_ID, MAX_TITLE
from kafka_conformance.judge.grade import GRADES, Grade, grade_rank
from kafka_conformance.sanitize import printable, without_folders

EdgeGrade = Literal["PASS", "FAIL", "HOSTILE", "NON_STRICT", "INFO", "not run"]
EDGE_GRADES: Final[tuple[EdgeGrade, ...]] = get_args(EdgeGrade)
FORMAT: Final = "kafkaproof-edges 1"
SUFFIX: Final = ".ndjson"
# Characters of a text that a client or broker said, as it is kept.
MAX_SAID: Final = 400
# Of an explanation: several rows of a table and what an application can do.
MAX_WORDS: Final = 120
# Characters of a column's name in the name of its file, and in a table.
MAX_FILE_NAME: Final = 60
MAX_LABEL: Final = 60
_ID: Final = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._+-]+")
_READABLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@:-]*")


class BadEdgesError(ValueError):
    """A file of kinds, causes or results is not as it should be."""


class EdgeRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One situation.

    Attributes:
        id: unique in the kind, never changed.
        title: the situation, in a few words.
        right: the right answer, in a sentence.
        source: where that is documented: a KIP, a Kafka class and method, a page of its documentation.
        rules: ids of the reference's rules that it rests on, if there are some.
    """

    id: str
    title: str
    right: str
    source: str
    rules: list[str] = []


class EdgeKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table.

    Attributes:
        id: as the file's name.
        title: a heading.
        question: the question of a user that the table answers.
        columns: what the columns are: `client`, `proxy`, `broker`.
        page: the page of documentation, as `docs/recovery.md`.
        row: the situations, in the order of the table.
    """

    id: str
    title: str
    question: str
    columns: str
    page: str
    row: list[EdgeRow]

    def row_of(self, id_: str) -> EdgeRow | None:
        """The row with this id."""
        return next((row for row in self.row if row.id == id_), None)


class EdgeCell(msgspec.Struct, frozen=True, kw_only=True):
    """The behaviour of one column in one situation.

    Attributes:
        row: the id of the situation.
        grade: `PASS`, the grade of the finding, or `not run`.
        outcome: one or two words for the table, as `skips the batch`.
        detail: the whole observation in a sentence.
        observed: figures and texts that the judgement rests on.
    """

    row: str
    grade: EdgeGrade
    outcome: str
    detail: str = ""
    observed: dict[str, Any] = {}


class EdgeHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a result: the kind, the column, its version, and the day."""

    format: str
    kind: str
    column: str
    version: str
    date: str


class EdgeCause(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A reviewed cause of findings: one defect.

    Attributes:
        id: kebab-case, unique, never changed.
        title: the defect, at most 72 characters.
        grade: that of the gravest finding.
        kind: the table; *columns* and *rows* say which cells, and *outcome* which outcomes (all if it is empty).
        version: the release whose source was read.
        source: path in the release, lines and function.
        explanation: what the code does, what Kafka's does, what a user loses; at most 120 words.
        upstream: an issue or pull request; empty if none is known.
    """

    id: str
    title: str
    grade: Grade
    kind: str
    columns: list[str]
    rows: list[str]
    version: str
    source: str
    explanation: str
    outcome: list[str] = []
    upstream: str = ""

    def fits(self, kind: str, column: str, cell: EdgeCell) -> bool:
        """Whether the finding in *cell* belongs to this cause."""
        return (
            kind == self.kind
            and column in self.columns
            and cell.row in self.rows
            and (not self.outcome or cell.outcome in self.outcome)
        )


@dataclass(frozen=True, slots=True)
class EdgeResult:
    """The cells of one column, by row."""

    header: EdgeHeader
    cells: Mapping[str, EdgeCell]

    @property
    def label(self) -> str:
        """Name and version of the column; a long command line is cut."""
        return f"{printable(self.header.column, MAX_LABEL)} {self.header.version}".strip()

    def findings(self) -> Iterator[EdgeCell]:
        """The cells that are graded worse than `PASS`, the gravest first."""
        found = [cell for cell in self.cells.values() if is_finding(cell)]
        yield from sorted(found, key=lambda cell: grade_rank(cell.grade))  # type: ignore[arg-type]


class _CausesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cause: list[EdgeCause] = []


def is_finding(cell: EdgeCell) -> bool:
    """Whether the cell has a grade of findings."""
    return cell.grade in GRADES


@cache
def kinds() -> tuple[EdgeKind, ...]:
    """All tables, in the order of their files.

    Raises:
        BadEdgesError: a file has a defect.
    """
    folder = files(__package__) / "kinds"
    entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    return tuple(_kind(entry.name, entry.read_text(encoding="utf-8")) for entry in entries if _is_toml(entry.name))


def _is_toml(name: str) -> bool:
    return name.endswith(".toml")


def _kind(name: str, text: str) -> EdgeKind:
    try:
        kind = msgspec.convert(tomllib.loads(text), EdgeKind)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise BadEdgesError(f"{name}: {error}") from error
    ids = [row.id for row in kind.row]
    if f"{kind.id}.toml" != name:
        raise BadEdgesError(f"{name}: its id is {kind.id}")
    for id_ in ids:
        if not _ID.fullmatch(id_) or ids.count(id_) > 1:
            raise BadEdgesError(f"{name}: the id {id_!r} is there twice, or is none")
    return kind


def find_kind(id_: str) -> EdgeKind:
    """The table *id_*.  Raises `BadEdgesError`, with the near ones."""
    for kind in kinds():
        if kind.id == id_:
            return kind
    known = [kind.id for kind in kinds()]
    near = get_close_matches(id_, known, n=1)
    meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    raise BadEdgesError(f"no table {id_!r}; {meant}")


def edge_address(text: str) -> tuple[str, int]:
    """Host and port of the column or option *text*.  Raises `BadEdgesError`."""
    try:
        return parse_address(text)
    except ValueError as error:
        raise BadEdgesError(str(error)) from error


@cache
def edge_causes() -> tuple[EdgeCause, ...]:
    """All reviewed causes, in the order of the file; the first that fits a finding is its cause.

    Raises:
        BadEdgesError: the file has a defect.
    """
    text = (files(__package__) / "causes.toml").read_text(encoding="utf-8")
    try:
        found = tuple(msgspec.convert(tomllib.loads(text), _CausesFile).cause)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise BadEdgesError(f"causes.toml: {error}") from error
    if defects := list(_cause_defects(found)):
        raise BadEdgesError(f"causes.toml: {'; '.join(defects)}")
    return found


def _cause_defects(causes: Sequence[EdgeCause]) -> Iterator[str]:
    ids = [cause.id for cause in causes]
    for cause in causes:
        if not _ID.fullmatch(cause.id) or len(cause.id) > MAX_ID or ids.count(cause.id) > 1:
            yield f"{cause.id}: the id is there twice, has over {MAX_ID} characters, or is none"
        if len(cause.title) > MAX_TITLE:
            yield f"{cause.id}: the title has {len(cause.title)} characters, at most {MAX_TITLE} are shown"
        if len(cause.explanation.split()) > MAX_WORDS:
            yield f"{cause.id}: the explanation has more than {MAX_WORDS} words"
        kind = next((kind for kind in kinds() if kind.id == cause.kind), None)
        unknown = [row for row in cause.rows if kind is None or kind.row_of(row) is None]
        if kind is None or unknown:
            yield f"{cause.id}: there is no table {cause.kind} with the rows {', '.join(unknown or cause.rows)}"


def edge_cause_of(kind: str, column: str, cell: EdgeCell) -> EdgeCause | None:
    """The reviewed cause of the finding in *cell*; None if it has no review."""
    return next((cause for cause in edge_causes() if cause.fits(kind, column, cell)), None)


# ---- results ----


def result_path(folder: Path, kind: str, column: str) -> Path:
    """The file of a column below the folder of all results.

    Names, releases and addresses are readable; of a command line the name is cut, and made unique by a hash.
    """
    name = _UNSAFE.sub("-", column).strip("-.")
    if len(name) > MAX_FILE_NAME or not _READABLE.fullmatch(column):
        name = f"{name[:MAX_FILE_NAME]}-{hashlib.sha256(column.encode(errors='surrogateescape')).hexdigest()[:8]}"
    return folder / "edges" / kind / f"{name}{SUFFIX}"


def read_edge_result(path: Path) -> EdgeResult:
    """The result in *path*; a last line that was not written to its end is left out.

    Raises:
        BadEdgesError: it is no such file; the message has path and line.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadEdgesError(f"{path}: {error.strerror}") from error
    lines = content.split(b"\n")[:-1]
    if not lines:
        raise BadEdgesError(f"{path}, line 1: no header")
    header = _decoded(path, 1, lines[0], EdgeHeader)
    if header.format != FORMAT:
        raise BadEdgesError(f"{path}, line 1: its format is {printable(header.format, 40)!r}, not {FORMAT!r}")
    cells = [_decoded(path, at, line, EdgeCell) for at, line in enumerate(lines[1:], start=2)]
    return EdgeResult(header, {cell.row: cell for cell in cells})


def _decoded(path: Path, at: int, line: bytes, type_: type[Any]) -> Any:
    try:
        return msgspec.json.decode(line, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadEdgesError(f"{path}, line {at}: {error}") from error


def kept_folder() -> Path:
    """The folder of the results that come with this installation: inside of the package, or in the checkout."""
    inside = Path(__file__).parent / "results"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "results"


def edge_results(folder: Path) -> dict[str, list[EdgeResult]]:
    """All results below *folder*, by kind, columns in order of their names; kinds without one are left out."""
    found: dict[str, list[EdgeResult]] = {}
    for kind in kinds():
        paths = sorted((folder / "edges" / kind.id).glob(f"*{SUFFIX}"))
        if read := [read_edge_result(path) for path in paths]:
            found[kind.id] = read
    return found


class EdgeWriter:
    """Writes the cells of one column, each as soon as it is known; goes on with a file of the same column.

    The file has one line for each row: a cell of a row that it has takes the place of the earlier one.
    """

    def __init__(self, path: Path, header: EdgeHeader, *, again: bool = False, today: bool = False) -> None:
        """Open *path*; with *again*, or if it is of another version, what it has is dropped.

        The day of an earlier run stays, unless all cells are measured *today*.

        Raises:
            BadEdgesError: without *again*: the file cannot be read, or is of another column; it is left as it is.
        """
        self.path = path
        self.done: dict[str, EdgeCell] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not again:
            before = read_edge_result(path)
            if before.header.column != header.column:
                other = printable(before.header.column, MAX_SAID)
                raise BadEdgesError(f"{path}, line 1: the result of {other!r} would be replaced; move it first")
            if before.header.version == header.version:
                header, self.done = header if today else before.header, dict(before.cells)
        self._header = header
        # The end of a killed run is cut off here.
        self._rewrite()

    def add(self, cell: EdgeCell) -> None:
        """Append *cell*, or put it in the place of the earlier one of its row; no other is lost if this is killed."""
        replaces = cell.row in self.done
        self.done[cell.row] = cell
        if replaces:
            self._rewrite()
            return
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(cell) + b"\n")

    def _rewrite(self) -> None:
        """Write the file whole or not at all."""
        made = self.path.with_suffix(".part")
        made.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in (self._header, *self.done.values())))
        made.replace(self.path)


def said(text: object) -> str:
    """Text of a client, proxy or broker, as data of limited length, without folders of the machine."""
    return printable(without_folders(str(text)), MAX_SAID)


def unreviewed(results: Mapping[str, Iterable[EdgeResult]]) -> Iterator[tuple[str, EdgeResult, EdgeCell]]:
    """Findings of grade FAIL or HOSTILE that no reviewed cause explains: kind, result, cell."""
    for kind, columns in results.items():
        for result in columns:
            for cell in result.findings():
                if cell.grade in ("FAIL", "HOSTILE") and edge_cause_of(kind, result.header.column, cell) is None:
                    yield kind, result, cell
