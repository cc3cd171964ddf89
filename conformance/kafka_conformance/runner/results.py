"""The result file: NDJSON with a header, one line for each case as it is judged, and a footer.

Every line goes to the operating system when it is written, so a runner that is
killed loses nothing that was earned.  A file without footer is an incomplete
result: it can be read and resumed, and is reported as incomplete.  The footer's
`sha256` is over every byte before it.  A complete result that a run replaces is
kept as `previous-result.ndjson` until that run is complete.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from kafka_conformance.judge.verdict import OUTCOMES, Outcome, Verdict
from kafka_conformance.runner.requests import Tally
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.protocol import PROTOCOL, Capability, HelloReply
from kafka_corpus.case import Case, Recipe
from kafka_corpus.vector_format import CODEC_OPS

FORMAT: Final = "kafkaproof-result"
VERSION: Final = 1
FILE: Final = "result.ndjson"


class ResultHeader(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The testee, the corpus and the settings of a run."""

    format: str = FORMAT
    version: int = VERSION
    testee: dict[str, Any]
    corpus: str
    cases: int
    only: list[str]
    settings: dict[str, Any]


class ResultLine(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One case, as judged.

    `ms` is what it took, `deaths` how often the process died over it, `heavy`
    whether its input was made from a recipe.
    """

    case: str
    outcome: Outcome
    area: str
    op: str
    expected: str
    rules: tuple[str, ...]
    field: str = ""
    why: str = ""
    also: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    observation: dict[str, Any] = {}
    ms: float = 0.0
    deaths: int = 0
    heavy: bool = False


class VariantCheck(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Variants of cases that were sent among them, drawn from `seed`.

    `unlike` has those that were answered worse than their cases, by the case's id: both outcomes, and how.
    """

    seed: str
    drawn: int
    sent: int
    unlike: dict[str, str] = {}


class ResultFooter(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """That it is complete, and its sums; `waited` is seconds on hung cases, `repeated` cases that ran into a limit."""

    complete: bool = True
    counts: dict[str, int]
    seconds: float
    waited: float
    starts: int
    strays: int
    first_stray: str = ""
    late_ends: int = 0
    first_late_end: str = ""
    detached: int = 0
    repeated: int = 0
    variants: VariantCheck | None = None
    sha256: str


# What a header says of its testee: its hello, the way to it, and whether it is a broker.
TESTEE_FIELDS: Final = frozenset((*HelloReply.__struct_fields__, "connect", "broker"))


class Unusable(ValueError):
    """The file is no result, or not of this run."""


@dataclass(frozen=True, slots=True)
class Results:
    """A result file as read; `footer` is None when it is incomplete."""

    header: ResultHeader
    lines: tuple[ResultLine, ...]
    footer: ResultFooter | None

    @property
    def complete(self) -> bool:
        """Whether the run came to its end."""
        return self.footer is not None

    def counts(self) -> dict[str, int]:
        """How many cases had each outcome, worst first, zeros included."""
        counter = Counter(line.outcome for line in self.lines)
        return {outcome: counter[outcome] for outcome in OUTCOMES}


def result_line(case: Case, verdict: Verdict, observation: dict[str, Any], seconds: float, deaths: int) -> ResultLine:
    """The line that says how *case* went."""
    return ResultLine(
        case=case.id,
        outcome=verdict.outcome,
        area=case.area,
        op=case.op,
        expected=case.expect.verdict,
        rules=case.rules,
        field=verdict.field,
        why=verdict.why,
        also=verdict.also,
        left_out=verdict.left_out,
        observation=observation,
        ms=round(seconds * 1000, 3),
        deaths=deaths,
        heavy=isinstance(case.input, Recipe),
    )


_encoder = msgspec.json.Encoder()
_headers = msgspec.json.Decoder(ResultHeader)
_lines = msgspec.json.Decoder(ResultLine)
_footers = msgspec.json.Decoder(ResultFooter)
_FOOTER_START: Final = b'{"complete":'
# Of cross runs, too.
_FOOTER_STARTS: Final = (_FOOTER_START, b'{"kind":"footer"')


# A corpus has some thousands of cases.
MOST_LINES: Final = 50_000
MOST_BYTES: Final = 256 * 1024 * 1024


def read_results(path: Path) -> Results:
    """The results in *path*; a torn last line is as if it had not been written.

    Raises:
        Unusable: there is no such file, or no header in it, or a line is broken, or there are more than `MOST_LINES`.
    """
    whole = whole_lines(path)
    if not whole:
        raise Unusable(f"{path}: there is no header")
    if len(whole) > MOST_LINES:
        raise Unusable(f"{path}:{MOST_LINES + 1}: there are {len(whole):,} lines, and no corpus has so many cases")
    end = whole.pop() if len(whole) > 1 and whole[-1].startswith(_FOOTER_START) else None
    header = _decoded(_headers, whole[0], path, 1)
    lines = tuple(_decoded(_lines, line, path, number) for number, line in enumerate(whole[1:], 2))
    footer = None if end is None else _decoded(_footers, end, path, len(whole) + 1)
    found = Results(header, lines, footer)
    if footer:
        check_footer_hash(footer.sha256, whole, path)
    for number, problem in contradictions(found):
        raise Unusable(f"{path}:{number}: {problem}")
    return found


_Read = TypeVar("_Read")


def _decoded(decoder: msgspec.json.Decoder[_Read], line: bytes, path: Path, number: int) -> _Read:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unusable(f"{path}:{number}: not a result: {error}") from error


def contradictions(found: Results) -> Iterator[tuple[int, str]]:
    """Contradictions in a result file, each with the number of its line."""
    yield from ((1, problem) for problem in _header_problems(found.header))
    header, lines, footer = found.header, found.lines, found.footer
    if header.testee.get("broker"):
        for number, line in enumerate(lines, 2):
            if line.op in CODEC_OPS:
                yield number, f"{printable(line.case)}: no broker gets a case of {line.op}"
    if footer is not None:
        last = len(lines) + 2
        if {name: count for name, count in footer.counts.items() if count} != dict(+Counter(x.outcome for x in lines)):
            yield last, "counts: they are not those of the lines"
        if not footer.complete or len(lines) != header.cases:
            yield last, f"complete: there are {len(lines)} of {header.cases} cases"


def _header_problems(header: ResultHeader) -> Iterator[str]:
    if (header.format, header.version) != (FORMAT, VERSION):
        yield f"not a {FORMAT} of version {VERSION}"
    if unknown := sorted(header.testee.keys() - TESTEE_FIELDS):
        yield f"testee: there is no field {printable(unknown[0], MAX_NAME)}"
    if problem := _hello_problem(header.testee):
        yield f"testee: {problem}"
    if header.testee.get("broker") and (header.testee.get("decode") or header.testee.get("encode")):
        yield "testee: a broker announces no formats to decode or encode"


def _hello_problem(testee: Mapping[str, Any]) -> str:
    """Why the fields of a hello in *testee* are none; empty if they are."""
    fields = {name: value for name, value in testee.items() if name in HelloReply.__struct_fields__}
    try:
        msgspec.convert({"protocol": PROTOCOL, "name": "", "version": "", **fields}, HelloReply)
    except msgspec.ValidationError as error:
        return printable(str(error))
    return ""


def read_result_header(path: Path) -> ResultHeader:
    """The header of the result file *path*.  Raises `Unusable` if there is no such file, or no header in it."""
    try:
        with path.open("rb") as file:
            return _headers.decode(file.readline())
    except (OSError, msgspec.DecodeError) as error:
        raise Unusable(f"{path}: not a result: {error}") from error


def read_limited(path: Path, most: int) -> bytes:
    """The content of *path*.

    Raises:
        ValueError: it is no regular file, cannot be read, or has more than *most* bytes.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: it is no regular file")  # a pipe would block
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = b"" if size > most else file.read(most + 1)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from error
    if max(size, len(data)) > most:
        raise ValueError(f"{path}: it has more than {most:,} bytes")
    return data


def whole_lines(path: Path) -> list[bytes]:
    """The lines in *path*, without a torn last one.  Raises `Unusable`."""
    try:
        data = read_limited(path, MOST_BYTES)
    except ValueError as error:
        raise Unusable(str(error)) from error
    return [line for line in data.splitlines(keepends=True) if line.endswith(b"\n")]


def append_line(path: Path, line: bytes) -> None:
    """Add *line*, which has no end, to the file *path*; a torn last line gets an end of its own before."""
    with path.open("a+b") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = b"\n" + line
        file.write(line + b"\n")


def check_footer_hash(sha256: str, before: Iterable[bytes], path: Path) -> None:
    """Raise `Unusable` unless *sha256*, which the footer gives, is that of the lines *before* it."""
    if sha256 != hashlib.sha256(b"".join(before)).hexdigest():
        raise Unusable(f"{path}: its footer does not fit what stands before it")


def rewritten_lines(done: Results, path: Path) -> Iterator[int]:
    """The numbers of lines in *path* that are not as a run writes them: repeated keys, other spaces or escapes."""
    for number, (line, read) in enumerate(zip(whole_lines(path), (done.header, *done.lines), strict=False), 1):
        if line != _encoder.encode(read) + b"\n":
            yield number


def previous_result(path: Path) -> Path:
    """Where the complete file is kept that was in *path*, until the one that replaces it is complete."""
    return path.with_name(f"previous-{path.name}")


def _keep_complete(path: Path) -> None:
    try:
        whole = whole_lines(path)
    except Unusable:
        return  # there is none
    if whole and whole[-1].startswith(_FOOTER_STARTS):
        path.replace(previous_result(path))


class LineWriter:
    """Writes a file of lines; each is with the operating system when `write` returns.

    The file is there with its header and what was earned before, or as it was.
    """

    def __init__(self, path: Path, header: msgspec.Struct, earned: Iterable[msgspec.Struct] = ()) -> None:
        """Start *path* with *header* and the lines *earned* by an earlier run."""
        self.path = path
        self._hash = hashlib.sha256()
        beside = path.with_suffix(".part")
        self._file = beside.open("wb", buffering=0)
        self.write([header])
        self.write(earned)
        _keep_complete(path)
        beside.replace(path)

    def write(self, lines: Iterable[msgspec.Struct]) -> None:
        """Add *lines*."""
        self._write(b"".join(_encoder.encode(line) + b"\n" for line in lines))

    def sha256(self) -> str:
        """The hash of every byte until now."""
        return self._hash.hexdigest()

    def complete(self, footer: msgspec.Struct) -> None:
        """Add the last line, and let go of the complete file from before."""
        self.write([footer])
        previous_result(self.path).unlink(missing_ok=True)

    def close(self) -> None:
        """Close, complete or not."""
        self._file.close()

    def _write(self, data: bytes) -> None:
        self._hash.update(data)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) or 0 :]


# Limits of the fields that a testee reports about itself: characters of a name, and items of a list.
MAX_NAME: Final = 100
MAX_CLAIMS: Final = 16


def sanitize_hello(hello: HelloReply) -> HelloReply:
    """*hello* with names and lists short enough, and printable, for result files and reports."""
    names = {name: printable(getattr(hello, name), MAX_NAME) for name in ("name", "version", "language", "runtime")}
    return msgspec.structs.replace(hello, decode=_limited(hello.decode), encode=_limited(hello.encode), **names)


def _limited(capability: Capability) -> Capability:
    compressions = [printable(name, MAX_NAME) for name in capability.compressions[:MAX_CLAIMS]]
    return Capability(capability.magics[:MAX_CLAIMS], compressions)


def run_header(
    hello: HelloReply, connect: str, corpus: str, cases: int, only: Sequence[str], settings: dict[str, Any]
) -> ResultHeader:
    """The header of a run of *cases* cases, chosen by *only*, on the testee that *connect* names."""
    testee = msgspec.to_builtins(sanitize_hello(hello)) | {"connect": connect}
    return ResultHeader(testee=testee, corpus=corpus, cases=cases, only=list(only), settings=settings)


def earlier_results(path: Path, header: ResultHeader) -> Results | None:
    """The results in *path* that a run with *header* goes on with; None if there is no file with a header.

    Raises:
        Unusable: the file is broken, or belongs to another run.
    """
    if not path.exists():
        return None
    try:
        earlier = read_results(path)
    except Unusable as error:
        if "there is no header" in str(error):
            return None
        raise
    check_same_run(earlier.header, header)
    return earlier


def count_lines(path: Path) -> int:
    """How many cases *path* has results of; 0 if it is not a result file."""
    try:
        return len(read_results(path).lines)
    except Unusable:
        return 0


class ResultWriter(LineWriter):
    """Writes a result file; `finish` makes it complete."""

    def __init__(self, path: Path, header: ResultHeader, earned: Iterable[ResultLine] = ()) -> None:
        """As `LineWriter`."""
        self._counter: Counter[Outcome] = Counter()
        super().__init__(path, header, earned)

    def write(self, lines: Iterable[msgspec.Struct]) -> None:
        """Add *lines*, and count their outcomes."""
        lines = list(lines)
        self._counter.update(line.outcome for line in lines if isinstance(line, ResultLine))
        super().write(lines)

    def _outcomes(self) -> dict[str, int]:
        return {outcome: self._counter[outcome] for outcome in OUTCOMES}

    def finish_run(
        self, seconds: float, tallies: Sequence[Tally], repeated: int = 0, variants: VariantCheck | None = None
    ) -> None:
        """Add the footer of a run that took *seconds*, with the sums of *tallies*, and close.

        *repeated* is the number of cases that ran into a limit and were sent again.
        """
        self.finish(
            seconds=round(seconds, 3),
            waited=round(sum(tally.waited for tally in tallies), 3),
            starts=sum(tally.starts for tally in tallies),
            strays=sum(tally.strays for tally in tallies),
            repeated=repeated,
            variants=variants,
            first_stray=next((tally.first_stray for tally in tallies if tally.first_stray), ""),
            late_ends=sum(tally.late_ends for tally in tallies),
            detached=sum(tally.detached for tally in tallies),
            first_late_end=next((tally.first_late_end for tally in tallies if tally.first_late_end), ""),
        )

    def finish(self, **totals: Any) -> None:
        """Add the footer and close; *totals* are its fields but the counts and the hash."""
        self.complete(ResultFooter(counts=self._outcomes(), sha256=self.sha256(), **totals))
        self.close()


def encode_results(done: Results) -> bytes:
    """A complete result as a file, with the hash that belongs to it."""
    assert done.footer is not None
    body = b"".join(_encoder.encode(line) + b"\n" for line in (done.header, *done.lines))
    footer = msgspec.structs.replace(done.footer, sha256=hashlib.sha256(body).hexdigest())
    return body + _encoder.encode(footer) + b"\n"


def check_same_run(old: ResultHeader, new: ResultHeader) -> None:
    """Raise `Unusable` unless a run with header *new* may go on with the results of *old*."""
    for what, before, now in (
        ("testee", old.testee, new.testee),
        ("corpus", old.corpus, new.corpus),
        ("selection of cases", old.only, new.only),
    ):
        if before != now:
            raise Unusable(f"it cannot be resumed: it had another {what}")
